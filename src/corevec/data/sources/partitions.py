"""What the workers of a cluster do with one partition; this module needs no Dask."""

from __future__ import annotations

import functools
import pickle
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import ThreadpoolController

from corevec._runtime.types import Array
from corevec.backend.arrays import all_to_numpy
from corevec.data.sources.memory import MemorySource
from corevec.data.sources.workers import Workers
from corevec.exceptions import InvalidInputError


class _OneBlasThread:
    """BLAS held to one thread while any partition of this process is at work.

    Dask runs as many tasks as there are cores. BLAS with as many threads for each,
    which spin, took 0.55 s for a partition of 500,000 rows x 300 vectors, not 0.25 s.
    Tasks overlap: the first one in sets the limit, the last one out lifts it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _blas().limit(limits=1, user_api="blas")
                self._limit.__enter__()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.__exit__(None, None, None)


one_blas_thread = _OneBlasThread()


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@functools.lru_cache(maxsize=2)
def unpacked(packed: bytes) -> Any:
    """Return the request of a round; all partitions of a worker share one copy."""
    return pickle.loads(packed)


def answer(
    packed: bytes, part: Any, columns: dict[str, Any], start: int, stop: int
) -> Any:
    """Return what one partition answers; its rows have the numbers from `start` on."""
    (go, _), memory_budget, dtype, n_features, device = unpacked(packed)
    values, own = _rows_of(part, dtype), _columns_of(columns)
    _check_shape(values, own, (stop - start, n_features))
    if device is not None:
        from corevec.data.sources.gpu_input import part_source  # its module needs torch

        return all_to_numpy(go(part_source(values, own, start, memory_budget, device)))
    source = MemorySource(values, memory_budget, Workers(1))
    source.first_number, source.row_columns = start, own
    with one_blas_thread:
        return go(source)


def merged(packed: bytes, answers: Sequence[Any]) -> Any:
    """Return several answers as one."""
    (_, merge), *_ = unpacked(packed)
    return functools.reduce(merge, answers)


def picked(
    part: Any, columns: dict[str, Any], few: Array, dtype: Any
) -> tuple[Any, Array, dict[str, Array]]:
    """Return some rows of a partition."""
    own = {name: column[few] for name, column in _columns_of(columns).items()}
    return _rows_of(part, dtype)[few], few, own


def length(part: Any) -> int:
    """Return how many rows a partition has."""
    return int(part.shape[0])


def _rows_of(part: Any, dtype: Any) -> Any:
    """Return the rows of a partition in the precision of the source."""
    if getattr(getattr(part, "dtype", None), "kind", "") == "c":
        raise InvalidInputError("Complex data not supported: X has complex numbers.")
    if sparse.issparse(part):
        return part.tocsr().astype(dtype, copy=False)
    try:
        return np.asarray(part, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"X must be numbers, but a partition is not: {error}. Drop or encode such "
            "columns."
        ) from None


def _columns_of(columns: dict[str, Any]) -> dict[str, Array]:
    return {name: _column_of(column) for name, column in columns.items()}


def _column_of(part: Any) -> Array:
    column = np.asarray(part)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.dtype.kind == "O" and all(isinstance(one, str) for one in column):
        return column.astype(str)
    return column


def _check_shape(values: Any, own: dict[str, Array], shape: tuple[int, int]) -> None:
    """Compare a partition with what its collection says of it: row numbers rely on it.

    A graph made by `from_delayed` or `map_partitions` may hold anything.
    """
    lengths = {len(column) for column in own.values()}
    if values.shape != shape or lengths - {shape[0]}:
        found = [values.shape, *(column.shape for column in own.values())]
        raise InvalidInputError(
            f"a partition of X, y or sample_weight is not what Dask says of it: shapes "
            f"{', '.join(map(str, found))} for {shape[0]} rows x {shape[1]} columns. "
            "Correct shape, chunks or meta of the collection, or call "
            "compute_chunk_sizes()."
        )
