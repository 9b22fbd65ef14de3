"""A function of rows applied to the partitions of a Dask collection, lazily."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np


def mapped(function: Callable[[Any], Any], X: Any) -> Any:
    """Return the Dask array of ``function`` on every partition.

    The function is tried on one row of zeros, for the shape and type of its answers.
    A partition without rows, which no estimator takes, gets no answers of that kind.
    """
    if hasattr(X, "columns"):  # a data frame: its partitions keep their names
        one = X._meta_nonempty.iloc[:1] * 0
        answer = np.asarray(function(one))
        lazy = X.map_partitions(_of_rows, function, answer[:0], meta=answer[:0])
        return lazy if isinstance(lazy, da.Array) else lazy.to_dask_array()
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    answer = np.asarray(function(np.zeros((1, X.shape[1]), dtype=X.dtype)))
    how: dict[str, Any] = {"dtype": answer.dtype, "meta": answer[:0]}
    if answer.ndim == 1:
        return X.map_blocks(_of_rows, function, answer[:0], drop_axis=1, **how)
    how["chunks"] = X.chunks[0], (answer.shape[1],)
    return X.map_blocks(_of_rows, function, answer[:0], **how)


def _of_rows(part: Any, function: Callable[[Any], Any], nothing: Any) -> Any:
    return function(part) if part.shape[0] else nothing
