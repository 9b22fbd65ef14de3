"""The kernel matrix of rows as one array: half of it is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops.symmetric import mirror
from corevec.data.sources import Workers
from corevec.kernels import AnyKernel, Rows, finite

# Rows that a thread computes at a time.
BLOCK_ROWS = 512


def kernel_matrix(rows: Rows, kernel: AnyKernel, dtype: Any, workers: Workers) -> Array:
    """Return ``k(x_i, x_j)`` of all pairs of the rows, in the precision `dtype`.

    Kernels that the user gives have their own precision.
    """
    n, points = len(rows), kernel.prepare_basis(rows, dtype)
    values = np.empty((n, n), dtype=points.dtype)

    def fill(start: int) -> None:
        # The lower triangle; its transpose follows.
        stop = min(start + BLOCK_ROWS, n)
        own = points.part(start, stop)
        block = finite(kernel.block(own, points.part(0, stop)), kernel)
        values[start:stop, :stop] = block
        mirror(block, values[:stop, start:stop])

    list(workers.run(fill, range(0, n, BLOCK_ROWS)))
    return values
