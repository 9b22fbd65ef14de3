"""The exact machine over all rows: finite Newton steps, conjugate gradients."""
