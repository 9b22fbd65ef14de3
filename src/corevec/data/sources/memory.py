"""Rows in memory, or in memory mapped from a file: dense arrays and CSR matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.data.sources.base import Source
from corevec.data.sources.budget import DEFAULT_MEMORY_BUDGET
from corevec.data.sources.workers import Workers
from corevec.kernels import Rows


class ArraySource(Source):
    """Rows of one table, of any library, that is indexed by position.

    A partition of remote rows has numbers from `first_number` on, and `row_columns` are
    its columns beside the values.
    """

    values: Any
    row_columns: Mapping[str, Any]
    first_number = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns beside the values."""
        return tuple(self.row_columns)

    def _rows_at(self, where: Any, index: Any) -> Rows:
        """Return the rows at these positions, which have the numbers `index`."""
        columns = {name: column[where] for name, column in self.row_columns.items()}
        return Rows(self.values[where], index, columns)

    def _numbers_of(self, start: int, stop: int) -> Array:
        """Return the numbers of the rows from `start` up to `stop`."""
        return np.arange(self.first_number + start, self.first_number + stop)


class MemorySource(ArraySource):
    """Rows of a two-dimensional array, an ``np.memmap`` or a CSR matrix."""

    def __init__(
        self,
        values: Any,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        workers: Workers | None = None,
    ):
        super().__init__(memory_budget, workers)
        self.is_sparse = sparse.issparse(values)
        # A plain ndarray view: slicing a memmap object costs 10 us more per block.
        self.values = values if self.is_sparse else np.asarray(values)
        self.row_columns = {}
        self.n_rows, self.n_features = values.shape
        self.dtype = values.dtype

    def take(self, rows: Array) -> Rows:
        """Return the rows with these numbers (a copy)."""
        rows = np.asarray(rows, dtype=np.int64)
        return self._rows_at(rows - self.first_number, rows)

    def block(self, start: int, stop: int) -> Rows:
        """Return the rows from `start` up to `stop`, which share the memory."""
        return self._rows_at(slice(start, stop), self._numbers_of(start, stop))


def stacked(parts: Sequence[Any]) -> Any:
    """Return the values of several sets of rows, one below the other."""
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


class RowSubset(ArraySource):
    """Some rows of another source, in memory, with the numbers of that source."""

    def __init__(self, source: Source, index: Array, rows: Rows):
        super().__init__(source.memory_budget, source.workers)
        self.index, self.values, self.row_columns = index, rows.values, rows.columns
        self.n_rows, self.n_features = self.values.shape
        self.dtype, self.is_sparse = source.dtype, sparse.issparse(rows.values)

    @property
    def numbers(self) -> Array:
        """The number of every row in the source it comes from."""
        return self.index

    def take(self, rows: Array) -> Rows:
        """Return the rows with these numbers, which must be among these."""
        where = np.searchsorted(self.index, rows)
        return self._rows_at(where, self.index[where])

    def block(self, start: int, stop: int) -> Rows:
        """Return the rows from `start` up to `stop` of these."""
        where = slice(start, stop)
        return self._rows_at(where, self.index[where])

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return about `size` random row numbers of these."""
        return np.asarray(self.index[super().draw(rng, size)])
