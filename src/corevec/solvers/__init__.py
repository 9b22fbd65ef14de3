"""The algorithms. Each solves problems over the rows of a source."""
