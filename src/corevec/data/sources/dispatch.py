"""The source for what a user gives: the only isinstance ladder on user data."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy import sparse

from corevec.backend.arrays import is_tensor
from corevec.data.sources.base import DEFAULT_MEMORY_BUDGET, Source, Workers
from corevec.data.sources.memory import CsrSource, DenseSource
from corevec.exceptions import InvalidInputError

# Devices of DLPack whose memory is this process's: the CPU's, pinned or not.
_IN_MEMORY = (1, 3, 11)


def is_dask(X: Any) -> bool:
    """Whether `X` is a Dask collection; asks Dask only where it is in use."""
    dask = sys.modules.get("dask.base")
    return dask is not None and bool(dask.is_dask_collection(X))


def is_on_device(X: Any) -> bool:
    """Whether `X` is a tensor of torch, or a DLPack array on a GPU (CuPy's, say)."""
    if is_tensor(X):
        return True
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack_device__"):
        return False
    kind, _ = X.__dlpack_device__()
    return int(kind) not in _IN_MEMORY


def is_far(X: Any) -> bool:
    """Whether the rows live elsewhere: files, a Dask collection, a device."""
    return isinstance(X, Source) or is_dask(X) or is_on_device(X)


def as_source(
    X: Any,
    memory_budget: float = DEFAULT_MEMORY_BUDGET,
    workers: Workers | None = None,
) -> Source:
    """Return the source for validated user data, or for rows that live elsewhere."""
    if isinstance(X, Source):
        return X.using(memory_budget, workers or Workers(1))
    if is_on_device(X):
        from corevec.data.sources.gpu import tensor_source

        own = tensor_source("X", X, None, None)
        return own.using(memory_budget, workers or Workers(1))
    if sparse.issparse(X):
        return CsrSource(X.tocsr(), memory_budget, workers)
    return DenseSource(X, memory_budget, workers)


def far_source(who: str, X: Any, y: Any, sample_weight: Any) -> Source:
    """Return the source of rows that live elsewhere, with what belongs to them."""
    if is_dask(X):
        from corevec.data.sources.dask import dask_source

        return dask_source(who, X, y, sample_weight)
    if is_on_device(X):
        from corevec.data.sources.gpu import tensor_source

        return tensor_source(who, X, y, sample_weight)
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if given is not None:
            raise InvalidInputError(
                f"{who}: {name} was given beside {X!r}, which brings its own. Name the "
                "columns when it is opened: corevec.open(path, target=..., "
                "sample_weight=...)."
            )
    assert isinstance(X, Source)
    return X


def device_source(who: str, X: Any, y: Any, sample_weight: Any, device: Any) -> Source:
    """Return the source of rows in memory that a device works on."""
    try:
        from corevec.data.sources.gpu import moved_source
    except ImportError as error:
        raise ImportError(f"{who}: device={device!r}: {error}") from None
    return moved_source(who, X, y, sample_weight, device)


def columns_of(who: str, X: Any) -> tuple[int, Any]:
    """Return how many columns rows that live elsewhere have, and their names."""
    if isinstance(X, Source):
        return X.n_features, column_names(X)
    if is_on_device(X):
        from corevec.data.sources.gpu import tensor_source

        return tensor_source(who, X, None, None).n_features, None
    from corevec.data.sources.dask import check_kind

    check_kind(who, "X", X)
    if not hasattr(X, "columns"):
        n_features = X.shape[1] if X.ndim == 2 else 1
        if n_features != n_features:  # NaN
            raise InvalidInputError(
                f"{who}: Dask does not know how many columns X has. Call "
                "X.compute_chunk_sizes() first."
            )
        return int(n_features), None
    return len(X.columns), column_names(X)


def column_names(X: Any) -> Any:
    """Return the names of the columns of a frame or source; None of other rows."""
    if isinstance(X, Source):
        return getattr(X, "feature_names", None)
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(names, dtype=object)


def brought_here(X: Any) -> Any:
    """Return the rows of a Dask collection in memory, others as they are.

    `np.asarray` would bring a data frame here as well, but without its names.
    """
    return X.compute() if is_dask(X) else X
