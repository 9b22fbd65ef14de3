"""Rows in memory, or in memory mapped from a file: dense arrays and CSR matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from corevec.kernels import Rows
from corevec.sources.base import DEFAULT_MEMORY_BUDGET, Source, Workers

Array = npt.NDArray[Any]


class DenseSource(Source):
    """Rows of a two-dimensional array or ``np.memmap``."""

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

    def take(self, rows: Array) -> Rows:
        """Return the rows with these numbers (a copy)."""
        rows = np.asarray(rows, dtype=np.int64)
        return Rows(self.values[rows], rows)

    def block(self, start: int, stop: int) -> Rows:
        """Return a view of the rows from `start` up to `stop`."""
        return Rows(self.values[start:stop], np.arange(start, stop))


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


def as_source(
    X: Any,
    memory_budget: float = DEFAULT_MEMORY_BUDGET,
    workers: Workers | None = None,
) -> Source:
    """Return the source for validated user data: an array or a CSR matrix."""
    if isinstance(X, Source):
        return X
    if sparse.issparse(X):
        return CsrSource(X.tocsr(), memory_budget, workers)
    return DenseSource(X, memory_budget, workers)
