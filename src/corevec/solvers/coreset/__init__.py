"""The Core Vector Machine: a small core set that grows until all rows fit."""
