"""Compiled loops of the cells: which leaf a row falls into."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def descend(
    values: Array, directions: Array, thresholds: Array, depth: int, cells: Array
) -> None:
    """Write the cell of each row: right where the projection is above the threshold."""
    n, d = values.shape
    first = (1 << depth) - 1
    for i in range(n):
        node = 0
        for _ in range(depth):
            total = 0.0
            for j in range(d):
                total += np.float64(values[i, j]) * directions[node, j]
            node = 2 * node + (2 if total > thresholds[node] else 1)
        cells[i] = node - first
