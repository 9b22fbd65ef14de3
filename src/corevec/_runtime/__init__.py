"""What every room may use: checks of parameters, the clock and history of a fit."""
