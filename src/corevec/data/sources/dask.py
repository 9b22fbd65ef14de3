"""Rows in Dask collections: each partition is scanned where it is.

A pass sends the scan request (core rows, coefficients) once to each worker, every
partition answers with its partial sums and its few most violating rows, and the answers
are merged in a tree on the workers: one compute per round, and one answer comes back.
Whatever client is active does the work; without one, Dask's threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.data.sources.base import Source
from corevec.data.sources.cluster import ClusterSource, size_of
from corevec.data.sources.columns import TARGET, WEIGHT
from corevec.data.sources.partitions import answer, length, merged, picked
from corevec.data.sources.remote import join_rows
from corevec.exceptions import InvalidInputError, RowsLostError
from corevec.kernels import Rows

try:
    import cloudpickle  # type: ignore[import-untyped]
    from dask.base import compute, is_dask_collection, optimize, persist
    from dask.delayed import Delayed, delayed
except ImportError as error:  # pragma: no cover - there where a collection was given
    raise ImportError(
        "a Dask collection was given, but dask is not installed whole. Run: "
        'pip install "corevec[dask]"'
    ) from error

_compute: Any = compute  # without types of their own
_persist: Any = persist
_optimise: Any = optimize
T = TypeVar("T")

# Answers merged by one task: a tree of 100 partitions then has three levels.
FAN_IN = 8
_round = itertools.count()


class DaskSource(ClusterSource):
    """The rows of a Dask array or data frame, with those of y and the weights.

    With a `worker_device`, each worker's own ("cuda": the GPU that it sees) works on
    them.
    """

    def __init__(
        self,
        parts: list[Any],
        sizes: Array,
        n_features: int,
        dtype: Any,
        is_sparse: bool,
        columns: dict[str, list[Any]],
    ):
        super().__init__()
        there = np.flatnonzero(sizes)  # a partition may be empty
        self.parts = [parts[i] for i in there]
        self.row_columns = {
            name: [own[i] for i in there] for name, own in columns.items()
        }
        self.columns = tuple(columns)
        self.ends = np.cumsum(sizes[there])
        self.starts = self.ends - sizes[there]
        self.n_rows = int(sizes.sum())
        self.n_features, self.dtype, self.is_sparse = n_features, dtype, is_sparse

    def __repr__(self) -> str:
        shape = f"{self.n_rows:,} rows x {self.n_features} columns"
        return f"DaskSource({shape} in {len(self.parts)} partitions)"

    def _answers(self, go: Callable[[Any], T]) -> list[T]:
        return self._compute(self._tasks("map", self._packed((go, None))))

    def worked_on_by(self, who: str, device: Any) -> Source:
        """Return these rows with `device` of each worker doing the work."""
        if isinstance(device, list | tuple):
            return super().worked_on_by(who, device)
        new = self.using(self.memory_budget, self.workers)
        new.worker_device = device
        return new

    def _ask(self, go: Callable[[Any], T], merge: Callable[[T, T], T]) -> T:
        request = self._packed((go, merge))
        answers = self._tasks("look", request)
        level = 0
        while len(answers) > 1:
            level += 1
            answers = [
                delayed(merged)(
                    request,
                    answers[i : i + FAN_IN],
                    dask_key_name=f"corevec-merge-{self._number}-{level}-{i}",
                )
                for i in range(0, len(answers), FAN_IN)
            ]
        return self._compute(answers)[0]

    def _tasks(self, what: str, request: Any) -> list[Any]:
        """Return one task per partition."""
        return [
            delayed(answer)(
                request,
                part,
                {name: own[i] for name, own in self.row_columns.items()},
                int(self.starts[i]),
                int(self.ends[i]),
                dask_key_name=f"corevec-{what}-{self._number}-{i}",
            )
            for i, part in enumerate(self.parts)
        ]

    def _packed(self, request: Any) -> Any:
        """Return the request as one object that each worker gets once."""
        self._number = next(_round)
        facts = self.memory_budget, self.dtype, self.n_features, self.worker_device
        packed = cloudpickle.dumps((request, *facts))
        self.bytes_sent += len(packed)
        name = f"corevec-score-{self._number}-{id(self)}"
        return delayed(packed, name=name, pure=True, traverse=False)

    def _fetch(self, rows: Array) -> Rows:
        self._number = next(_round)
        where = np.searchsorted(self.ends, rows, side="right")
        picks = []
        for i in np.unique(where):
            wanted = rows[where == i] - self.starts[i]
            own = {name: column[i] for name, column in self.row_columns.items()}
            name = f"corevec-take-{self._number}-{i}"
            few = wanted.astype(np.int32 if self.ends[i] < 2**31 else np.int64)
            self.bytes_sent += few.nbytes
            picks.append(
                delayed(picked)(self.parts[i], own, few, self.dtype, dask_key_name=name)
            )
        if not picks:
            return self._no_rows()
        found = [Rows(values, few, own) for values, few, own in self._compute(picks)]
        joined = join_rows(found)
        return Rows(joined.values, rows, joined.columns)

    def _no_rows(self) -> Rows:
        nothing: Any = np.empty((0, self.n_features), dtype=self.dtype)
        if self.is_sparse:
            nothing = sparse.csr_matrix(nothing)
        none = np.empty(0, dtype=np.int64)
        return Rows(nothing, none, {name: np.empty(0) for name in self.columns})

    def _compute(self, tasks: list[Any]) -> list[Any]:
        with lost_rows_explained():
            found = list(_compute(*tasks, optimize_graph=False, traverse=False))
        self._count(sum(size_of(one) for one in found))
        return found


@contextmanager
def lost_rows_explained() -> Iterator[None]:
    """Turn what Dask raises when workers or the scheduler are gone into our error."""
    try:
        yield
    except Exception as error:
        if not _is_loss(error):
            raise
        said = (str(error).splitlines() or ["no more is said"])[0]
        raise RowsLostError(
            "the Dask scheduler or its workers cannot be reached any more "
            f"({type(error).__name__}: {said})."
        ) from error


def _is_loss(error: BaseException) -> bool:
    """Whether an error says that a part of the cluster is gone."""
    names = {one.__name__ for one in type(error).__mro__}
    lost = {
        "CommClosedError",
        "KilledWorker",
        "CancelledError",
        "FutureCancelledError",
        "NoValidWorkerError",
        "TimeoutError",
        "ConnectionError",
    }
    return bool(names & lost)


def dask_source(who: str, X: Any, y: Any, sample_weight: Any) -> DaskSource:
    """Return the source of a Dask collection and what belongs to its rows."""
    for name, given in (("X", X), ("y", y), ("sample_weight", sample_weight)):
        check_kind(who, name, given)
    if getattr(X, "ndim", 2) != 2:
        raise InvalidInputError(
            f"{who}: X has {X.ndim} dimension(s); expected rows x columns. Reshape "
            "your data: X.reshape(-1, 1) for one column."
        )
    X, y, sample_weight = _optimised(X, y, sample_weight)
    parts, sizes = _partitions(X)
    columns = {}
    for name, given in ((TARGET, y), (WEIGHT, sample_weight)):
        if given is not None:
            columns[name] = _alongside(who, name, given, sizes)
    n_features = len(X.columns) if hasattr(X, "columns") else int(X.shape[1])
    if sizes.sum() == 0:
        raise InvalidInputError(
            f"{who}: Found array with 0 sample(s) (shape=(0, {n_features})) while a "
            "minimum of 1 is required."
        )
    is_sparse = sparse.issparse(getattr(X, "_meta", None))
    return DaskSource(parts, sizes, n_features, _dtype_of(X), is_sparse, columns)


def check_kind(who: str, name: str, given: Any) -> None:
    """Refuse a single task and a bag: their rows have no number and no columns."""
    is_table = hasattr(given, "ndim") and not isinstance(given, Delayed)
    if is_dask_collection(given) and not is_table:
        raise InvalidInputError(
            f"{who}: {name} is Dask's {type(given).__name__}; expected a Dask array or "
            "data frame. dask.array.from_delayed and Bag.to_dataframe make one."
        )


def _optimised(*given: Any) -> tuple[Any, ...]:
    """Return collections whose graphs are made short, those of arrays together.

    On its own, y would recompute the rows that it follows from. Data frames are
    expressions that are made simple one by one, so that only the columns that are
    needed are read. (``dask.optimize`` gives back all columns of ``frame[names]``, and
    ``frame.optimize`` joins partitions of X and y in different ways: Dask 2026.8.)
    """
    arrays = [one for one in given if _is_array(one)]
    short = iter(_optimise(*arrays))
    return tuple(
        next(short)
        if _is_array(one)
        else one.simplify()
        if is_dask_collection(one)
        else one
        for one in given
    )


def _is_array(given: Any) -> bool:
    return bool(is_dask_collection(given)) and not hasattr(given, "expr")


def _dtype_of(X: Any) -> Any:
    """Return float32 where all columns are that, else float64."""
    kinds = set(X.dtypes) if hasattr(X, "dtypes") else {X.dtype}
    return np.dtype("f4") if kinds == {np.dtype("f4")} else np.dtype("f8")


def _partitions(X: Any) -> tuple[list[Any], Array]:
    """Return the partitions of a collection along its rows, and their sizes."""
    chunks = getattr(X, "chunks", None)
    if chunks is not None and len(chunks) == 2 and len(chunks[1]) > 1:
        X = X.rechunk({1: -1})
        chunks = X.chunks
    parts = list(np.ravel(_delayed(X)))
    if chunks is not None and not np.isnan(chunks[0]).any():
        return parts, np.array(chunks[0], dtype=np.int64)
    with lost_rows_explained():
        sizes = _compute(*[delayed(length)(part) for part in parts])
    return parts, np.array(sizes, dtype=np.int64)


def _alongside(who: str, name: str, given: Any, sizes: Array) -> list[Any]:
    """Return a column in the partitions of the rows."""
    shown = {TARGET: "y", WEIGHT: "sample_weight"}[name]
    if name == WEIGHT and isinstance(given, Real):
        return [delayed(np.full)(int(size), float(given)) for size in sizes]
    if not is_dask_collection(given):
        values = np.atleast_1d(given)
        _check_length(who, shown, len(values), int(sizes.sum()))
        cuts = np.split(values, np.cumsum(sizes)[:-1])
        # Sent once, and kept where the partitions are.
        return list(_persist(*[delayed(cut, traverse=False) for cut in cuts]))
    chunks = getattr(given, "chunks", None)
    if chunks is not None and not np.isnan(chunks[0]).any():
        _check_length(who, shown, int(sum(chunks[0])), int(sizes.sum()))
        whole = {1: -1} if given.ndim == 2 else {}
        given = given.rechunk({0: tuple(int(size) for size in sizes), **whole})
        return list(np.ravel(_delayed(given)))
    parts, own = _partitions(given)
    if list(own) != list(sizes):
        raise InvalidInputError(
            f"{who}: the partitions of X have {_few(sizes)} rows, those of {shown} "
            f"{_few(own)}. Give both from the same data frame, or as Dask arrays with "
            "known chunks."
        )
    return parts


def _delayed(collection: Any) -> Any:
    """Return one task per partition, in the graph as it is."""
    return collection.to_delayed(optimize_graph=False)


def _check_length(who: str, name: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise InvalidInputError(
            f"{who}: Found input variables with inconsistent numbers of samples: X has "
            f"{wanted} rows, {name} {found}."
        )


def _few(sizes: Array) -> str:
    shown = ", ".join(str(size) for size in sizes[:5])
    return f"[{shown}{', ...' if len(sizes) > 5 else ''}]"
