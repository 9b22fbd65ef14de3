"""Rows of the kernel matrix with a cache, for the reference solvers.

The solvers of the papers ask for one row of kernel values after the other, and for the
same rows again and again. The store is one array, so that a compiled loop can read it:
row i lies in ``store[slot_of[i]]``, or nowhere where that is -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.profiles import FEW_COLUMNS
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Points, Rows, finite

# Rows per matrix product. One row reads all the data for few operations; eight rows
# read it once, and take about as long as one from 50 columns on.
_AT_ONCE = 8


class KernelRows:
    """Kernel values ``k(x_i, x_j)`` of a row with all rows, with a cache of rows.

    All values are float64; the rows themselves are held once more in float64, as the
    kernel wants them.

    Parameters
    ----------
    kernel : AnyKernel
        The kernel.
    source : Source
        Where the rows live.
    budget : float
        Bytes for kernel values; at least two rows are cached in any case.
    among : ndarray of row numbers, optional
        Use these rows only; they are then numbered 0, 1, ... here.

    Attributes
    ----------
    n_rows : int
        Number of rows, the length of a row of kernel values.
    points : Points
        All rows as the kernel wants them.
    diagonal : ndarray of shape (n_rows,)
        ``k(x_i, x_i)``.
    store : ndarray of shape (capacity, n_rows)
        The kept rows, in no order.
    slot_of, row_in : ndarray of int64
        Where a row lies in `store` (-1: not there), and which row lies in a slot.
    last_use, clock : ndarray of int64
        When a slot was read last, in units of `clock`, an array of one number that
        grows with every use. A compiled loop that reads `store` keeps both up.
    at_once : int
        How many rows are best made together.
    """

    def __init__(
        self,
        kernel: AnyKernel,
        source: Source,
        budget: float,
        among: Array | None = None,
    ):
        self.kernel, self.source, self.budget = kernel, source, budget
        self.among = np.arange(source.n_rows) if among is None else among
        self.n_rows = n = len(self.among)
        given = source.block(0, n) if among is None else source.take(among)
        self.points = kernel.prepare(given)
        self.diagonal = finite(kernel.diagonal(given), kernel)
        slots = int(min(n, max(2, budget // (8 * max(n, 1)))))
        self.store = np.empty((slots, n))
        self.slot_of = np.full(n, -1, dtype=np.int64)
        self.row_in = np.full(slots, -1, dtype=np.int64)
        self.last_use = np.full(slots, -1, dtype=np.int64)
        self.clock = np.zeros(1, dtype=np.int64)
        cheap_row = kernel.name == "precomputed" or source.row_entries <= FEW_COLUMNS
        self.at_once = 1 if cheap_row else max(1, min(_AT_ONCE, slots // 16))

    def row(self, i: int) -> Array:
        """Return ``k(x_i, x_j)`` for all j, to be read only.

        The array is a part of the store: it is overwritten once other rows have pushed
        it out, the row asked for before this one never.
        """
        slot = self.slot_of[i]
        if slot < 0:
            self.fetch([i])
            slot = self.slot_of[i]
        self._used(slot)
        return np.asarray(self.store[slot])

    def fetch(self, rows: Sequence[int] | Array) -> None:
        """Add missing rows to the cache, in place of the least recently used ones."""
        values = self.block(rows)
        for i, row in zip(rows, values, strict=True):
            slot = int(np.argmin(self.last_use))
            if self.row_in[slot] >= 0:
                self.slot_of[self.row_in[slot]] = -1
            self.store[slot] = row
            self.slot_of[i], self.row_in[slot] = slot, i
            self._used(slot)

    def block(
        self, rows: Sequence[int] | Array, columns: Points | None = None
    ) -> Array:
        """Return ``k(x_i, x_j)`` for i in `rows`, j in `columns` (all); not cached."""
        some = self.kernel.prepare_basis(self.take(rows))
        values = self.kernel.block(some, self.points if columns is None else columns)
        return finite(values, self.kernel)

    def prepared(self, rows: Sequence[int] | Array) -> Points:
        """Return rows in the form of the columns of `block`."""
        return self.kernel.prepare(self.take(rows))

    def take(self, rows: Sequence[int] | Array) -> Rows:
        """Return the rows with these numbers from the source."""
        return self.source.take(self.among[np.asarray(rows, dtype=np.int64)])

    def narrowed(self, keep: Array) -> KernelRows:
        """Return the object for the rows `keep` only, with their cached values."""
        new = KernelRows(self.kernel, self.source, self.budget, self.among[keep])
        slots = self.slot_of[keep]
        there = np.flatnonzero(slots >= 0)
        newest = np.argsort(-self.last_use[slots[there]], kind="stable")
        there = there[newest[: len(new.store)]][::-1]
        for slot, i in enumerate(there):
            new.store[slot] = self.store[slots[i]][keep]
            new.slot_of[i], new.row_in[slot] = slot, i
            new._used(slot)
        return new

    def _used(self, slot: int) -> None:
        self.clock += 1
        self.last_use[slot] = self.clock[0]
