"""What every room may use: parameter checks, enumerations, progress of a fit."""
