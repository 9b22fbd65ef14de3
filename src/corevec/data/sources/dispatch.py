"""The source for what a user gives: the only isinstance ladder on user data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from corevec.backend.arrays import back_from, is_tensor
from corevec.data.sources.base import Source
from corevec.data.sources.budget import DEFAULT_MEMORY_BUDGET
from corevec.data.sources.columns import TARGET
from corevec.data.sources.frames import (
    computed_column,
    computed_table,
    refuse_unknown_columns,
    without_columns,
)
from corevec.data.sources.memory import MemorySource
from corevec.data.sources.workers import Workers
from corevec.exceptions import InvalidInputError

# Devices of DLPack whose memory is this process's: the CPU's, pinned or not.
_IN_MEMORY = (1, 3, 11)


def _is_dask(X: Any) -> bool:
    """Whether `X` is a Dask collection; asks Dask only where it is in use."""
    dask = sys.modules.get("dask.base")
    return dask is not None and bool(dask.is_dask_collection(X))


def is_spark(X: Any) -> bool:
    """Whether `X` is a Spark data frame; asks Spark only where it is in use."""
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and isinstance(X, sql.DataFrame)


def _is_on_device(X: Any) -> bool:
    """Whether `X` is a tensor of torch, or a DLPack array on a GPU (CuPy's, say)."""
    if is_tensor(X):
        return True
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack_device__"):
        return False
    kind, _ = X.__dlpack_device__()
    return int(kind) not in _IN_MEMORY


def _is_remote(X: Any) -> bool:
    """Whether `X` is more than an array in memory: files, Dask, rows on a device."""
    return isinstance(X, Source) or _is_dask(X) or is_spark(X) or _is_on_device(X)


def require_host_rows(who: str, X: Any, why: str) -> None:
    """Raise for rows on a device, with the reason."""
    if _is_on_device(X):
        raise InvalidInputError(
            f"{who}: {why}, but a tensor was given. Copy the rows to the host: "
            "X.cpu().numpy()."
        )


def require_rows_in_memory(
    who: str, X: Any, why: str, parameter: str | None = None
) -> None:
    """Raise for remote rows; `why` names their ``{kind}`` and what to do.

    `parameter` is the one that does not go with them.
    """
    if _is_remote(X):
        text = f"{who}: {why.format(kind=type(X).__name__)}"
        raise InvalidInputError(text, parameter=parameter)


def as_source(
    X: Any,
    memory_budget: float = DEFAULT_MEMORY_BUDGET,
    workers: Workers | None = None,
    device: Any = None,
    who: str = "X",
) -> Source:
    """Return the source of validated user data; `device` works on rows in memory."""
    if isinstance(X, Source):
        return X.using(memory_budget, workers or Workers(1))
    if _is_on_device(X):
        from corevec.data.sources.gpu_input import tensor_source

        own = tensor_source("X", X, None, None)
        return own.using(memory_budget, workers or Workers(1))
    if device is not None:
        moved = device_source(who, X, None, None, device)
        return moved.using(memory_budget, workers or Workers(1))
    values = X.tocsr() if sparse.issparse(X) else X
    return MemorySource(values, memory_budget, workers)


def remote_source(who: str, X: Any, y: Any, sample_weight: Any) -> Source | None:
    """Return the source of remote rows with their columns; None of rows in memory."""
    if not _is_remote(X):
        return None
    if _is_dask(X):
        from corevec.data.sources.dask import dask_source

        return dask_source(who, X, y, sample_weight)
    if is_spark(X):
        X = named_columns(who, X, y, sample_weight, None)[0]
    if _is_on_device(X):
        from corevec.data.sources.gpu_input import tensor_source

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
    """Return the source of rows in memory that a device works on, or several."""
    try:
        if isinstance(device, list | tuple):
            from corevec.data.sources.devices import devices_source

            return devices_source(who, X, y, sample_weight, device)
        from corevec.data.sources.gpu_input import moved_source
    except ImportError as error:
        raise ImportError(f"{who}: device={device!r}: {error}") from None
    return moved_source(who, X, y, sample_weight, device)


def columns_of(who: str, X: Any) -> tuple[int, Any] | None:
    """Return the number and names of the columns of remote rows.

    None of rows in memory, which scikit-learn validates.
    """
    if not _is_remote(X):
        return None
    if isinstance(X, Source):
        return X.n_features, column_names(X)
    if is_spark(X):
        raise InvalidInputError(
            f"{who}: a Spark data frame was given where its columns have no roles. "
            "Give corevec.open(frame, target=..., columns=[...])."
        )
    if _is_on_device(X):
        from corevec.data.sources.gpu_input import as_matrix

        return int(as_matrix(who, X).shape[1]), None
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
        return X.feature_names
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(names, dtype=object)


def computed_rows(who: str, X: Any, name: str = "X") -> Any:
    """Return the rows of a Dask collection or a query in memory, others as they are.

    `np.asarray` would also load a data frame, but without its names.
    """
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return X
    return X.compute() if _is_dask(X) else computed_table(who, X, name)


def named_columns(
    who: str, X: Any, y: Any, sample_weight: Any, target: str | None
) -> tuple[Any, Any, Any]:
    """Return X, y and sample_weight, where these may be names of columns of X.

    A Spark data frame becomes a source that brings these columns.
    """
    weight = sample_weight if isinstance(sample_weight, str) else None
    if is_spark(X):
        if y is not None or weight is not sample_weight:
            raise InvalidInputError(
                f"{who}: y or sample_weight was given beside a Spark data frame, whose "
                "rows have no order. Name their columns: fit(frame, "
                "target='label', sample_weight='weight').",
            )
        from corevec.data.sources.spark import spark_source

        return spark_source(who, X, target, weight), None, None
    if target is None and weight is None:
        return X, y, sample_weight
    if target is not None and y is not None:
        raise InvalidInputError(
            f"{who}: y and target={target!r} were given. Give one of them: values, or "
            "the name of a column of X.",
            parameter="target",
        )
    taken = {"target": target, "sample_weight": weight}
    if _is_dask(X) and hasattr(X, "columns"):
        named = {role: name for role, name in taken.items() if name is not None}
        refuse_unknown_columns(who, named, list(X.columns))
        columns = {role: X[name] for role, name in named.items()}
        rest = X.drop(columns=list(named.values()))
    else:
        rest, columns = without_columns(who, computed_rows(who, X), taken)
    y = columns.get("target", y)
    return rest, y, columns.get("sample_weight", sample_weight)


def columns_to_score(
    who: str,
    X: Any,
    y: Any,
    sample_weight: Any,
    target: str | None,
    features: Sequence[str] | None,
) -> tuple[Any, Any, Any]:
    """Return X, y and sample_weight of rows to score, as `named_columns`.

    Of a Spark data frame the columns are those of the `features`, where the model has
    names; a source brings its own y and weights, and takes no others.
    """
    if is_spark(X):
        if target is None or y is not None:
            raise InvalidInputError(
                f"{who}: rows of a Spark data frame are scored by a column of it: "
                "score(frame, target='label', sample_weight='weight').",
                parameter="target",
            )
        from corevec.data.sources.spark import feature_columns, spark_source

        columns = feature_columns(who, X, features)
        return spark_source(who, X, target, sample_weight, columns), None, None
    if isinstance(X, Source) and TARGET in getattr(X, "columns", ()):
        return remote_source(who, X, y, sample_weight), None, None
    X, y, weight = named_columns(who, X, y, sample_weight, target)
    weight = computed_column(who, weight, "sample_weight")
    return X, computed_column(who, y, "y"), weight


def map_values(X: Any, score: Callable[[Any], Any]) -> Any:
    """Return ``score(X)`` of rows in memory, of remote rows block by block."""
    if not _is_remote(X):
        return score(X)
    return as_source(X).map(lambda rows: score(rows.values))


def answer_in_kind(
    who: str, X: Any, answer: Callable[[Any], Any], lazily: Callable[[Any], Any]
) -> Any:
    """Return ``answer(X)`` as the kind of array that X is.

    Another library's array on a device is answered with one of that library, a Dask
    collection or a Spark data frame by ``lazily(X)``.
    """
    if _is_dask(X) or is_spark(X):
        return lazily(X)
    if is_tensor(X) or not _is_on_device(X):
        return answer(X)
    from corevec.data.sources.gpu_input import as_tensor

    return back_from(answer(as_tensor(who, "X", X)), X)
