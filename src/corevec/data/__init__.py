"""Rows: where they live, and the files they come from."""
