"""Access to rows of arrays, data frames and sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array

# Values per block when the density of dense rows is measured: 8 MiB.
_BLOCK_VALUES = 1 << 20


def as_rows(X: Any) -> Any:
    """Return rows with a shape: lists become arrays, others are unchanged."""
    if sparse.issparse(X):
        return X.tocsr()
    return X if hasattr(X, "shape") else np.asarray(X)


def take(X: Any, rows: Array) -> Any:
    """Return a subset of rows, of the same type."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def sample(n_rows: int, most: int) -> Array:
    """Return the numbers of at most `most` random rows, reproducibly."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def density(X: Any) -> float:
    """Return the share of entries that are not zero."""
    n_entries = X.shape[0] * X.shape[1]
    if n_entries == 0:
        return 0.0
    if sparse.issparse(X):
        return float(X.count_nonzero() / n_entries)
    step = max(1, _BLOCK_VALUES // X.shape[1])
    starts = range(0, X.shape[0], step)
    found = sum(
        int(np.count_nonzero(np.asarray(take(X, np.arange(s, min(s + step, len(X)))))))
        for s in starts
    )
    return float(found / n_entries)


def entries_per_row(X: Any) -> float:
    """Return the mean number of stored entries per row."""
    if sparse.issparse(X):
        return float(X.nnz / max(X.shape[0], 1))
    return float(X.shape[1])
