"""Rows of the kernel matrix of some points, computed when wanted and then cached."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops.box import add_rows, gather
from corevec.data.sources import Workers
from corevec.kernels import AnyKernel, Points, Rows, finite

# Rows computed at a time by one thread: wide enough for BLAS, few enough to share out.
COMPUTED_AT_A_TIME = 64
# Columns of a sum that one thread adds at a time: a part stays in the first cache.
COLUMNS_AT_A_TIME = 2048


class KernelRows:
    """``k(x_i, .)`` over all points, for the rows i that were asked for.

    The least recently used make way when `memory` bytes are full.
    """

    def __init__(
        self,
        rows: Rows,
        kernel: AnyKernel,
        dtype: Any,
        workers: Workers,
        memory: float,
        at_least: int,
    ):
        self.kernel, self.workers = kernel, workers
        self.points = kernel.prepare_basis(rows, dtype)
        self.dtype = np.dtype(self.points.dtype)
        n = len(rows)
        fit = int(memory / (self.dtype.itemsize * max(n, 1)))
        self.n_slots = min(n, max(fit, at_least))
        self.values = np.empty((self.n_slots, n), dtype=self.dtype)
        self._slot_of = np.full(n, -1)
        self._row_of = np.full(self.n_slots, -1)
        self._used = np.full(self.n_slots, -1)
        self._clock = 0

    def slots(self, rows: Array) -> Array:
        """Return where in `values` these rows are, after computing those missing."""
        self._clock += 1
        wanted = np.unique(rows)
        held = self._slot_of[wanted]
        self._used[held[held >= 0]] = self._clock
        missing = wanted[held < 0]
        if len(missing):
            free = np.argpartition(self._used, len(missing) - 1)[: len(missing)]
            self._compute(missing, np.sort(free))
        return np.asarray(self._slot_of[rows])

    def block(self, rows: Array) -> Array:
        """Return ``k(x_i, x_j)`` for these rows, each of them once more per repeat."""
        slots = self.slots(rows)
        out = np.empty((len(rows), len(rows)), dtype=self.dtype)

        def fill(part: slice) -> None:
            gather(self.values, slots[part], rows, out[part])

        step = max(1, -(-len(rows) // self.workers.n_threads))
        list(self.workers.run(fill, _ranges(len(rows), step)))
        return out

    def add(self, rows: Array, coef: Array, values: Array) -> None:
        """Add ``sum_k coef_k k(x_k, .)`` to `values`, in place."""
        slots = self.slots(rows)

        def fill(part: slice) -> None:
            add_rows(self.values, slots, coef, part.start, part.stop, values)

        list(self.workers.run(fill, _ranges(len(values), COLUMNS_AT_A_TIME)))

    def _compute(self, rows: Array, free: Array) -> None:
        old = self._row_of[free]
        self._slot_of[old[old >= 0]] = -1

        def fill(part: slice) -> None:
            few = _picked(self.points, rows[part])
            self.values[free[part]] = finite(
                self.kernel.block(few, self.points), self.kernel
            )

        list(self.workers.run(fill, _ranges(len(rows), COMPUTED_AT_A_TIME)))
        self._slot_of[rows], self._row_of[free] = free, rows
        self._used[free] = self._clock


def _picked(points: Points, few: Array) -> Points:
    """Return some of the points, as the left side of `Kernel.block`."""
    squares = None if points.squares is None else points.squares[few]
    diagonal = None if points.diagonal is None else points.diagonal[few]
    index = points.index[few]
    return Points(points.values[few], index, points.dtype, squares, None, diagonal)


def _ranges(n: int, step: int) -> list[slice]:
    cuts = [*range(0, n, step), n]
    return [slice(*pair) for pair in pairwise(cuts)]
