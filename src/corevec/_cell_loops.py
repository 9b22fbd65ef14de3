"""Compiled loops of the cells: which leaf a row falls into.

Both write the last projection of each row too: growing a tree and descending it then
use the same sums, to the last bit, and equal rows can never fall into different cells.
(Rows at different places of one matrix product can differ by a rounding error.)
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def descend(
    values: Array,
    directions: Array,
    thresholds: Array,
    depth: int,
    cells: Array,
    projected: Array,
) -> None:
    """Write the cell of each row: right where the projection is above the threshold."""
    n, d = values.shape
    first = (1 << depth) - 1
    for i in range(n):
        node = 0
        total = 0.0
        for _ in range(depth):
            total = 0.0
            for j in range(d):
                total += np.float64(values[i, j]) * directions[node, j]
            node = 2 * node + (2 if total > thresholds[node] else 1)
        cells[i], projected[i] = node - first, total


@numba.njit(nogil=True, cache=True)
def descend_sparse(
    indptr: Array,
    indices: Array,
    data: Array,
    directions: Array,
    thresholds: Array,
    depth: int,
    cells: Array,
    projected: Array,
) -> None:
    """Write the cell of each row of a CSR matrix."""
    first = (1 << depth) - 1
    for i in range(len(indptr) - 1):
        node = 0
        total = 0.0
        for _ in range(depth):
            total = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                total += np.float64(data[k]) * directions[node, indices[k]]
            node = 2 * node + (2 if total > thresholds[node] else 1)
        cells[i], projected[i] = node - first, total
