"""How many rows fit into the memory budget."""

from __future__ import annotations

import numpy as np

from corevec.data.sources.base import Source

LARGEST_SUBSET = 200_000


def rows_that_fit(source: Source) -> int:
    """Return how many rows may be taken out of the source: a quarter of the budget."""
    return int(min(LARGEST_SUBSET, source.memory_budget / 4 / row_bytes(source)))


def row_bytes(source: Source) -> int:
    """Return the bytes of one row."""
    return int(source.row_entries * np.dtype(source.dtype).itemsize)
