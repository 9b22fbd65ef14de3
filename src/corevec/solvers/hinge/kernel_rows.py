"""Rows of the kernel matrix of some points, computed when wanted and then cached."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops.box import add_rows, gather
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Points, Rows, finite

# Rows and columns computed at a time by one thread: a tile of 1 MB in float32 stays in
# the second cache, and memory for it is not asked of the system again and again.
ROWS_AT_A_TIME, TILE_COLUMNS = 256, 1024
# Columns of a sum that one thread adds at a time: a part stays in the first cache.
COLUMNS_AT_A_TIME = 2048
# Rows that are held at least, whatever the memory budget.
FEWEST_ROWS = 64
# Columns that are kept free for points that come later.
SPARE_COLUMNS = 0.3


class KernelRows:
    """``k(x_i, .)`` over all points, for the rows i that were asked for.

    Points are known by their position: the order in which they came. The least recently
    used rows make way when `memory` bytes are full.

    Attributes
    ----------
    numbers : ndarray of shape (points,)
        The row number of each point.
    """

    def __init__(
        self,
        source: Source,
        kernel: AnyKernel,
        numbers: Array,
        dtype: Any,
        memory: float,
    ):
        self.source, self.kernel, self.workers = source, kernel, source.workers
        self.numbers = numbers
        n = len(numbers)
        self._wanted = dtype
        self._prepare()
        self.dtype = np.dtype(self.points.dtype)
        most = n if n == source.n_rows else int((1 + SPARE_COLUMNS) * n)
        most = min(most, source.n_rows)
        fit = int(memory / (self.dtype.itemsize * max(most, 1)))
        self.n_slots = min(most, max(fit, FEWEST_ROWS))
        self._values = np.empty((self.n_slots, most), self.dtype)
        self._slot_of = np.full(most, -1)
        self._row_of = np.full(self.n_slots, -1)
        self._used = np.full(self.n_slots, -1)
        self._clock, self._n_filled, self._holds_all = 0, 0, False

    def __len__(self) -> int:
        return len(self.numbers)

    def _prepare(self) -> None:
        taken = self.source.take(self.numbers)
        rows = Rows(taken.values, taken.index)
        self.points = self.kernel.prepare_basis(rows, self._wanted)
        self.n_columns = self.points.values.shape[1]
        self._tiles = [
            (part, self.points.part(part.start, part.stop))
            for part in _ranges(0, len(rows), TILE_COLUMNS)
        ]

    def positions(self, numbers: Array) -> Array:
        """Return the positions of the points with these row numbers."""
        order = np.argsort(self.numbers)
        return np.asarray(order[np.searchsorted(self.numbers, numbers, sorter=order)])

    def extend(self, numbers: Array) -> bool:
        """Add points; False where there is no room for them."""
        new = np.setdiff1d(numbers, self.numbers)
        n = len(self)
        if n + len(new) > self._values.shape[1]:
            return False
        if len(new):
            self._holds_all = False
            self.numbers = np.concatenate([self.numbers, new])
            self._prepare()
            held = np.flatnonzero(self._row_of >= 0)
            tiles = [
                (part, self.points.part(part.start, part.stop))
                for part in _ranges(n, len(self), TILE_COLUMNS)
            ]
            self._fill(held, self._row_of[held], tiles)
        return True

    def slots(self, rows: Array) -> Array:
        """Return where these rows are held, after computing those missing."""
        if self._holds_all:
            return np.asarray(self._slot_of[rows])
        self._clock += 1
        wanted = np.unique(rows)
        held = self._slot_of[wanted]
        self._used[held[held >= 0]] = self._clock
        missing = wanted[held < 0]
        if len(missing):
            free = self._free_slots(len(missing))
            old = self._row_of[free]
            self._slot_of[old[old >= 0]] = -1
            self._fill(free, missing, self._tiles)
            self._slot_of[missing], self._row_of[free] = free, missing
            self._used[free] = self._clock
            n = len(self)
            self._holds_all = n <= self.n_slots and bool((self._slot_of[:n] >= 0).all())
        return np.asarray(self._slot_of[rows])

    def _free_slots(self, count: int) -> Array:
        """Return slots never used, or those of the least recently used rows."""
        first = self._n_filled
        if first + count <= self.n_slots:
            self._n_filled += count
            return np.arange(first, first + count)
        return np.sort(np.argpartition(self._used, count - 1)[:count])

    def block(self, rows: Array) -> Array:
        """Return ``k(x_i, x_j)`` for these rows, each of them once more per repeat."""
        slots, n = self.slots(rows), len(self)
        in_place = len(rows) == n and bool((slots == np.arange(n)).all())
        if in_place and bool((rows == slots).all()):
            return self._values[:n, :n]
        out = np.empty((len(rows), len(rows)), dtype=self.dtype)

        def fill(part: slice) -> None:
            gather(self._values, slots[part], rows, out[part])

        step = max(1, -(-len(rows) // self.workers.n_threads))
        self._run(fill, _ranges(0, len(rows), step))
        return out

    def exact_block(self, rows: Array) -> Array:
        """Return ``k(x_i, x_j)`` for these rows in float64, computed anew."""
        taken = self.source.take(self.numbers[rows])
        points = self.kernel.prepare_basis(Rows(taken.values, taken.index))
        out = np.empty((len(rows), len(rows)))
        parts = [
            (part, points.part(part.start, part.stop))
            for part in _ranges(0, len(rows), ROWS_AT_A_TIME)
        ]

        def fill(left: tuple[slice, Points]) -> None:
            for columns, right in parts:
                block = self.kernel.block(left[1], right)
                out[left[0], columns] = finite(block, self.kernel)

        self._run(fill, parts)
        return out

    def add(self, rows: Array, coef: Array, values: Array) -> None:
        """Add ``sum_k coef_k k(x_k, .)`` to `values`, in place."""
        slots = self.slots(rows)

        def fill(part: slice) -> None:
            add_rows(self._values, slots, coef, part.start, part.stop, values)

        self._run(fill, _ranges(0, len(values), COLUMNS_AT_A_TIME))

    def _fill(
        self, slots: Array, rows: Array, tiles: list[tuple[slice, Points]]
    ) -> None:
        """Compute the values of some rows in some columns."""
        parts = _ranges(0, len(rows), ROWS_AT_A_TIME)
        left = [(slots[part], _picked(self.points, rows[part])) for part in parts]

        def fill(tile: tuple[slice, Points]) -> None:
            columns, right = tile
            for to, few in left:
                block = self.kernel.block(few, right)
                self._values[to, columns] = finite(block, self.kernel)

        self._run(fill, tiles)

    def _run(self, task: Callable[[Any], None], items: list[Any]) -> None:
        list(self.workers.run(task, items))


def _picked(points: Points, few: Array) -> Points:
    """Return some of the points, as the left side of `Kernel.block`."""
    squares = None if points.squares is None else points.squares[few]
    diagonal = None if points.diagonal is None else points.diagonal[few]
    index = points.index[few]
    return Points(points.values[few], index, points.dtype, squares, None, diagonal)


def _ranges(start: int, stop: int, step: int) -> list[slice]:
    cuts = [*range(start, stop, step), stop]
    return [slice(*pair) for pair in pairwise(cuts)]
