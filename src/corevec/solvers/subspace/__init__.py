"""Weights of all rows in the span of a basis."""
