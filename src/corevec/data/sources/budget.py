"""How many rows fit into the memory budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from corevec.data.sources.base import Source

LARGEST_SUBSET = 200_000


def row_bytes(source: Source) -> int:
    """Return the bytes of one row."""
    return int(source.row_entries * np.dtype(source.dtype).itemsize)


def rows_within(n_bytes: float, bytes_per_row: float) -> int:
    """Return how many rows of this size fit into so many bytes."""
    return int(n_bytes / bytes_per_row)


def rows_that_fit(source: Source) -> int:
    """Return how many rows may be copied to the host: a quarter of the budget."""
    return min(LARGEST_SUBSET, rows_within(source.memory_budget / 4, row_bytes(source)))


def rows_to_take(source: Source, wanted: int) -> int:
    """Return `wanted`, or as many rows as can be copied to the host at once."""
    return wanted if source.holds(wanted) else rows_that_fit(source)


def rows_per_scan(source: Source) -> int:
    """Return how many rows one scan may return to the host."""
    return min(rows_that_fit(source), source.scan_bytes // row_bytes(source))
