"""Balls around the rows of a stream (StreamSVM)."""
