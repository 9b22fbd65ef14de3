"""Rows in Spark data frames: each partition is scanned by the executor that has it.

A pass is one job: the request travels in the task, which Spark broadcasts once to each
executor; `mapInArrow` brings the batches of each partition to it; the answers, one row
per partition, are merged by executors if there are many. Whatever session made the
frame does the work; this uses no RDD, so that Spark Connect will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources.cluster import ClusterSource
from corevec.data.sources.columns import TARGET, WEIGHT
from corevec.data.sources.remote import join_rows
from corevec.data.sources.spark_tasks import (
    ANSWER,
    PART,
    Known,
    Layout,
    asking,
    counting,
    merging,
    taking,
    values_of,
)
from corevec.exceptions import InvalidInputError, RowsLostError
from corevec.kernels import Rows

try:
    from pyspark import cloudpickle
    from pyspark.sql import functions as F
    from pyspark.sql import types as T_
except ImportError as error:  # pragma: no cover - there where a frame was given
    raise ImportError(
        "a Spark data frame was given, but pyspark is not installed whole. Run: "
        'pip install "corevec[spark]"'
    ) from error

T = TypeVar("T")
_dumps: Any = cloudpickle.dumps  # without types of its own

# Answers of so many partitions are merged on the driver: fewer need no second stage.
MOST_COLLECTED = 32
SCHEMA = f"{PART} int, {ANSWER} binary"
_NUMBERS = (T_.NumericType, T_.BooleanType)
_NARROW = (T_.FloatType, T_.ByteType, T_.ShortType, T_.BooleanType)
_INSTEAD = {
    "string": "Encode it: StringIndexer and OneHotEncoder of pyspark.ml.",
    "date": "Give a number: functions.datediff(column, functions.lit('2026-01-01')).",
    "timestamp": "Give a number: functions.unix_timestamp(column).",
}


class SparkSource(ClusterSource):
    """The rows of a Spark data frame, which bring their target and weights.

    Each partition has its numbers: the rows are counted when the source is made. Every
    pass compares the partitions with what was counted.
    """

    def __init__(self, frame: Any, layout: Layout):
        super().__init__()
        self.frame, self.layout = frame, layout
        self.columns = layout.columns
        self.n_features, self.dtype = layout.n_features, np.dtype(layout.dtype)
        if not layout.is_vector:
            self.feature_names = np.array(layout.names, dtype=object)
        self.known = self._counted()
        self.n_rows = int(self.known.sizes.sum())

    def __repr__(self) -> str:
        shape = f"{self.n_rows:,} rows x {self.n_features} columns"
        return f"SparkSource({shape} in {len(self.known.sizes)} partitions)"

    def _counted(self) -> Known:
        layout = self.layout

        def count(batches: Iterator[Any]) -> Iterator[Any]:
            return counting(batches, layout)

        collected = self._collected(self.frame.mapInArrow(count, SCHEMA))
        found = values_of(collected)
        sizes = np.array([size for size, _ in found], dtype=np.int64)
        prints = np.array([print_ for _, print_ in found], dtype=np.int64)
        return Known(sizes, prints)

    def _ask(self, go: Callable[[Any], T], merge: Callable[[T, T], T]) -> T:
        packed = self._packed((go, merge))
        answers, n = self._mapped(asking, packed), len(self.known.sizes)
        if n > MOST_COLLECTED:
            fan_in = math.isqrt(n - 1) + 1
            answers = _merged(answers, packed, fan_in, -(-n // fan_in))
        found = values_of(self._collected(answers))
        whole = found[0]
        for one in found[1:]:
            whole = merge(whole, one)
        return whole

    def _answers(self, go: Callable[[Any], T]) -> list[T]:
        packed = self._packed((go, None))
        return values_of(self._collected(self._mapped(asking, packed)))

    def _fetch(self, rows: Array) -> Rows:
        if len(rows) == 0:
            return self._no_rows()
        found = values_of(self._collected(self._mapped(taking, self._packed(rows))))
        return join_rows(found)

    def _no_rows(self) -> Rows:
        none = np.empty((0, self.n_features), dtype=self.dtype)
        columns = {name: np.empty(0) for name in self.columns}
        return Rows(none, np.empty(0, dtype=np.int64), columns)

    def _packed(self, request: Any) -> bytes:
        facts = self.layout, self.known, self.memory_budget
        packed: bytes = _dumps((request, *facts))
        self.bytes_sent += len(packed)
        return packed

    def _mapped(self, task: Callable[..., Iterator[Any]], packed: bytes) -> Any:
        """Return the frame of the answers of all partitions, not yet computed."""

        def go(batches: Iterator[Any]) -> Iterator[Any]:
            return task(batches, packed)

        return self.frame.mapInArrow(go, SCHEMA)

    def _collected(self, answers: Any) -> list[tuple[int, Any]]:
        with lost_session_explained():
            found = [(int(row[0]), bytes(row[1])) for row in answers.collect()]
        self._count(sum(len(packed) for _, packed in found))
        return found


def _merged(answers: Any, packed: bytes, fan_in: int, n_groups: int) -> Any:
    """Return the answers of each `fan_in` partitions in a row as one, by executors."""

    def go(batches: Iterator[Any]) -> Iterator[Any]:
        return merging(batches, packed, fan_in)

    group = F.floor(F.col(PART) / fan_in)
    return answers.repartition(n_groups, group).mapInArrow(go, SCHEMA)


@contextmanager
def lost_session_explained() -> Iterator[None]:
    """Turn the end of the session or its driver process into our error."""
    try:
        yield
    except Exception as error:
        names = {one.__name__ for one in type(error).__mro__}
        lost = names & {"Py4JNetworkError", "ConnectionError", "EOFError"}
        if not (lost or _server_is_lost(error)):
            raise
        raise RowsLostError(
            "the Spark session cannot be reached any more "
            f"({type(error).__name__}). Start a session, and read the frame again."
        ) from error


def _server_is_lost(error: Exception) -> bool:
    """Whether the client of Spark Connect found no server."""
    status = getattr(error, "_grpc_status_code", None)
    return getattr(status, "name", None) in ("UNAVAILABLE", "DEADLINE_EXCEEDED")


def spark_source(
    who: str,
    frame: Any,
    target: str | None = None,
    sample_weight: str | None = None,
    columns: Sequence[Any] | None = None,
) -> SparkSource:
    """Return the source of a data frame, of which some columns have a role."""
    roles = {TARGET: target, WEIGHT: sample_weight}
    beside = {role: name for role, name in roles.items() if name is not None}
    for name in (*beside.values(), *(columns or ())):
        if name not in frame.columns:
            shown = ", ".join(map(repr, frame.columns[:10]))
            raise InvalidInputError(
                f"{who}: {name!r} is not a column of the Spark data frame, which has "
                f"{shown}."
            )
    if columns is None:
        columns = [one for one in frame.columns if one not in beside.values()]
    laid = laid_out(who, frame, list(columns), beside)
    try:
        source = SparkSource(*laid)
    except InvalidInputError as error:
        raise InvalidInputError(f"{who}: {error}") from None
    if source.n_rows == 0:
        raise InvalidInputError(
            f"{who}: Found array with 0 sample(s) (shape=(0, {source.n_features})) "
            "while a minimum of 1 is required: the Spark data frame has no rows."
        )
    return source


def laid_out(
    who: str, frame: Any, features: list[str], beside: dict[str, str]
) -> tuple[Any, Layout]:
    """Return the columns that are needed, in the order of their layout."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    selected = [quoted(name) for name in features]
    is_vector = len(features) == 1 and is_vectors(types[features[0]])
    dtype: Any = np.float64
    n_features = len(features)
    if is_vector:
        selected = [as_arrays(features[0], types[features[0]])]
        first = frame.select(F.size(selected[0])).first()
        n_features = 1 if first is None else max(int(first[0]), 1)
    else:
        _check_types(who, {name: types[name] for name in features})
        if all(isinstance(types[name], _NARROW) for name in features):
            dtype = np.float32
    selected += [quoted(name) for name in beside.values()]
    layout = Layout(tuple(features), n_features, dtype, is_vector, tuple(beside))
    # `mapInArrow` does not find columns whose names have dots.
    plain = [column.alias(f"c{j}") for j, column in enumerate(selected)]
    return frame.select(*plain), layout


def feature_columns(who: str, frame: Any, names: Any) -> list[str]:
    """Return the columns that the model was fitted on, by their names in the frame."""
    if names is not None:
        missing = [one for one in names if one not in frame.columns]
        if missing:
            raise InvalidInputError(
                f"{who}: The feature names should match those that were passed during "
                f"fit: the Spark data frame has no column {missing[0]!r}."
            )
        return list(names)
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    vectors = [name for name, kind in kinds.items() if is_vectors(kind)]
    if len(vectors) != 1:
        raise InvalidInputError(
            f"{who}: the model was fitted on rows without names, so the Spark data "
            f"frame needs one column of vectors or arrays; it has {len(vectors)}."
        )
    return vectors


def quoted(name: str) -> Any:
    """Return the column of this name, which may have dots."""
    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")


def is_vectors(kind: Any) -> bool:
    """Whether a column holds the features as arrays, or as vectors of pyspark.ml."""
    if isinstance(kind, T_.ArrayType):
        return isinstance(kind.elementType, _NUMBERS)
    return type(kind).__name__ == "VectorUDT"


def as_arrays(name: str, kind: Any) -> Any:
    """Return the column of features as arrays of float64."""
    if isinstance(kind, T_.ArrayType):
        return quoted(name).cast("array<double>")
    from pyspark.ml.functions import vector_to_array

    return vector_to_array(quoted(name))


def _check_types(who: str, types: dict[str, Any]) -> None:
    if not types:
        raise InvalidInputError(f"{who}: no column is left for X.")
    for name, kind in types.items():
        if not isinstance(kind, _NUMBERS):
            instead = _INSTEAD.get(
                kind.typeName().removesuffix("_ntz"),
                "Convert the column, or name those to use: corevec.open(frame, "
                "columns=[...]).",
            )
            raise InvalidInputError(
                f"{who}: the column {name!r} of the Spark data frame holds "
                f"{kind.simpleString()} instead of numbers. {instead}"
            )
