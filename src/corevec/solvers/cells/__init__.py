"""Exact local machines in the cells of a balanced tree."""
