"""Rows in memory, or in memory mapped from a file: dense arrays and CSR matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.data.sources.base import DEFAULT_MEMORY_BUDGET, Source
from corevec.data.sources.workers import Workers
from corevec.kernels import Rows


class DenseSource(Source):
    """Rows of a two-dimensional array or ``np.memmap``.

    A partition of remote rows has numbers from `first_number` on, and `row_columns` are
    its columns beside the values.
    """

    first_number = 0
    row_columns: Mapping[str, Array] = {}

    def __init__(
        self,
        values: Array,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        workers: Workers | None = None,
    ):
        super().__init__(memory_budget, workers)
        # A plain ndarray view: slicing a memmap object costs 10 us more per block.
        self.values: Any = np.asarray(values)
        self.n_rows, self.n_features = values.shape
        self.dtype = values.dtype

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns beside the values."""
        return tuple(self.row_columns)

    def take(self, rows: Array) -> Rows:
        """Return the rows with these numbers (a copy)."""
        rows = np.asarray(rows, dtype=np.int64)
        at = rows - self.first_number
        own = {name: column[at] for name, column in self.row_columns.items()}
        return Rows(self.values[at], rows, own)

    def block(self, start: int, stop: int) -> Rows:
        """Return a view of the rows from `start` up to `stop`."""
        own = {name: column[start:stop] for name, column in self.row_columns.items()}
        index = np.arange(self.first_number + start, self.first_number + stop)
        return Rows(self.values[start:stop], index, own)


class CsrSource(DenseSource):
    """Rows of a CSR matrix or array; blocks share its memory."""

    is_sparse = True

    def __init__(
        self,
        values: Any,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        workers: Workers | None = None,
    ):
        Source.__init__(self, memory_budget, workers)
        self.values = values
        self.n_rows, self.n_features = values.shape
        self.dtype = values.dtype

    @property
    def row_entries(self) -> int:
        """Stored entries of a row, each a value and a column number."""
        return int(2 * (1 + self.values.nnz // max(self.n_rows, 1)))

    @property
    def block_rows(self) -> int:
        """Rows per block, from the entries a row has rather than its columns."""
        return self._rows_within(8 * (2 * self.row_entries + 16))


def stacked(parts: Sequence[Any]) -> Any:
    """Return the values of several sets of rows, one below the other."""
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


class RowSubset(DenseSource):
    """Some rows of another source, in memory, with the numbers of that source."""

    def __init__(self, source: Source, index: Array, rows: Rows):
        Source.__init__(self, source.memory_budget, source.workers)
        self.index, self.values, self.row_columns = index, rows.values, rows.columns
        self.n_rows, self.n_features = self.values.shape
        self.dtype, self.is_sparse = source.dtype, sparse.issparse(rows.values)

    @property
    def numbers(self) -> Array:
        """The number of every row in the source it comes from."""
        return self.index

    @property
    def row_entries(self) -> int:
        """Numbers that one row holds."""
        nnz = getattr(self.values, "nnz", None)
        if nnz is None:
            return max(1, self.n_features)
        return int(2 * (1 + nnz // max(self.n_rows, 1)))

    def take(self, rows: Array) -> Rows:
        """Return the rows with these numbers, which must be among these."""
        return self._part(np.searchsorted(self.index, rows))

    def block(self, start: int, stop: int) -> Rows:
        """Return the rows from `start` up to `stop` of these."""
        return self._part(slice(start, stop))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return about `size` random row numbers of these."""
        return np.asarray(self.index[super().draw(rng, size)])

    def _part(self, where: Any) -> Rows:
        columns = {name: column[where] for name, column in self.row_columns.items()}
        return Rows(self.values[where], self.index[where], columns)
