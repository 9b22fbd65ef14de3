"""What Spark's executors do with one partition; this module needs no session.

A partition comes as Arrow batches, is never whole in memory, and leaves one row: its
number and its pickled answer. An error of ours travels as an answer, too: what Spark
raises for it on the driver is text.
"""

from __future__ import annotations

import functools
import pickle
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.data.readers._arrow import arrow, as_floats, as_labels, as_numbers, indices
from corevec.data.sources.columns import TARGET, WEIGHT
from corevec.data.sources.memory import MemorySource
from corevec.data.sources.partitions import one_blas_thread, unpacked
from corevec.data.sources.remote import join_rows
from corevec.data.sources.workers import Workers
from corevec.exceptions import CorevecError, InvalidInputError
from corevec.kernels import Rows

WHO = "Spark"
PART, ANSWER = "part", "answer"
# Columns whose bytes make the fingerprint of a partition: 30 ms for a million rows.
_PRINTED_COLUMNS = 4


@dataclass(frozen=True)
class Layout:
    """What the columns of a batch are, in their order: features, target, weight.

    Where `is_vector`, one column holds all features, as arrays.
    """

    names: tuple[str, ...]
    n_features: int
    dtype: Any
    is_vector: bool
    columns: tuple[str, ...]

    def rows_of(self, batch: Any, first: int) -> Rows:
        """Return the rows of a batch, which have the numbers from `first` on."""
        values = self._vectors(batch, first) if self.is_vector else None
        if values is None:
            values = np.empty((batch.num_rows, self.n_features), dtype=self.dtype)
            for j, name in enumerate(self.names):
                values[:, j] = self._numbers(batch.column(j), name, first)
        own = {
            name: _beside(name, batch.column(len(self.names) + j), first)
            for j, name in enumerate(self.columns)
        }
        return Rows(values, np.arange(first, first + batch.num_rows), own)

    def _numbers(self, column: Any, name: str, first: int) -> Array:
        values = as_numbers(WHO, column)
        if column.null_count:
            row = first + int(np.flatnonzero(np.isnan(values))[0])
            raise InvalidInputError(
                f"the column {name!r} has a null in row {row:,}. Drop such rows "
                f"(frame.dropna(subset=[{name!r}])), or fill them in."
            )
        return values

    def _vectors(self, batch: Any, first: int) -> Array:
        column, name = batch.column(0), self.names[0]
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(lengths != self.n_features)  # a null's length is NaN
        if len(wrong):
            raise InvalidInputError(
                f"the column {name!r} has {lengths[wrong[0]]:g} values in row "
                f"{first + int(wrong[0]):,}, and {self.n_features} in the first row. "
                "Give vectors of one length."
            )
        values = self._numbers(column.flatten(), name, first)
        return values.reshape(-1, self.n_features).astype(self.dtype, copy=False)


def _beside(name: str, column: Any, first: int) -> Array:
    """Return the targets or the weights of a batch."""
    if name == TARGET:
        values, known = as_labels(WHO, column)
    else:
        values = as_floats(WHO, column)
        known = ~np.isnan(values)
    if not known.all():
        row = first + int(np.argmin(known))
        shown = {TARGET: "the target", WEIGHT: "sample_weight"}[name]
        raise InvalidInputError(
            f"{shown} has a null or NaN in row {row:,}. Drop such rows."
        )
    return values


@dataclass(frozen=True)
class Known:
    """The rows of each partition, and the fingerprint that they had when counted."""

    sizes: Array
    prints: Array

    @functools.cached_property
    def starts(self) -> Array:
        """The number of the first row of each partition."""
        return np.cumsum(self.sizes) - self.sizes


class PartitionRows:
    """The rows of one partition, for one pass in the order of its batches."""

    def __init__(self, batches: Iterator[Any], layout: Layout, first: int, budget: int):
        self.batches, self.layout = batches, layout
        self.first, self.memory_budget = first, budget
        self.n_rows, self.print = 0, 0

    def blocks(self) -> Iterator[Rows]:
        """Yield the rows of each batch, noting what went by."""
        step = max(1, self.layout.n_features // _PRINTED_COLUMNS)
        for batch in self.batches:
            if batch.num_rows == 0:
                continue
            rows = self.layout.rows_of(batch, self.first + self.n_rows)
            few = np.ascontiguousarray(rows.values[:, ::step])
            self.print = zlib.crc32(few.data.cast("B"), self.print)
            self.n_rows += batch.num_rows
            yield rows

    def _sources(self) -> Iterator[MemorySource]:
        for rows in self.blocks():
            source = MemorySource(rows.values, self.memory_budget, Workers(1))
            source.first_number = int(rows.index[0])
            source.row_columns = dict(rows.columns)
            yield source

    def reduce(self, score: Callable[[Rows], Any], merge: Callable[..., Any]) -> Any:
        """Return ``score`` of every block, merged."""
        parts = (source.reduce(score, merge) for source in self._sources())
        return functools.reduce(merge, parts)

    def fold(
        self,
        begin: Callable[[], Any],
        step: Callable[[Any, Rows], Any],
        merge: Callable[..., Any],
    ) -> Any:
        """Return the state after every block, in order."""
        state = begin()
        for source in self._sources():
            state = source.fold(functools.partial(_same, state), step, merge)
        return state

    def map(self, score: Callable[[Rows], Array]) -> Array:
        """Return ``score`` of every block, stacked."""
        return np.concatenate([source.map(score) for source in self._sources()])


def _same(state: Any) -> Any:
    return state


def counting(batches: Iterator[Any], layout: Layout) -> Iterator[Any]:
    """Yield the number of rows of a partition, and their fingerprint."""

    def go(part: int) -> Any:
        rows = PartitionRows(batches, layout, 0, 0)
        for _ in rows.blocks():
            pass
        return rows.n_rows, rows.print

    yield from _answering(go)


def asking(batches: Iterator[Any], packed: bytes) -> Iterator[Any]:
    """Yield what a partition answers to a request."""

    def go(part: int) -> Any:
        (ask, _), layout, known, budget = unpacked(packed)
        if known.sizes[part] == 0:
            return None
        rows = PartitionRows(batches, layout, int(known.starts[part]), budget)
        with one_blas_thread:
            found = ask(rows)
        if (rows.n_rows, rows.print) != (known.sizes[part], known.prints[part]):
            raise InvalidInputError(
                f"partition {part} of the Spark data frame has other rows than in the "
                f"pass before ({rows.n_rows:,} rows now, {known.sizes[part]:,} then, "
                "or others, or in another order). Random values and shuffles are "
                "computed anew in each pass: keep the rows by frame.persist() or "
                "frame.localCheckpoint(), or write them to Parquet."
            )
        return found

    yield from _answering(go)


def taking(batches: Iterator[Any], packed: bytes) -> Iterator[Any]:
    """Yield those rows of a partition that are wanted; none where none are."""

    def go(part: int) -> Any:
        wanted, layout, known, _ = unpacked(packed)
        first = int(known.starts[part])
        ends = np.searchsorted(wanted, [first, first + int(known.sizes[part])])
        left, found = wanted[slice(*ends)], []
        # To the end: Spark ends a Python process that left rows unread, and starting
        # another one takes seconds.
        for batch in batches:
            here = int(np.searchsorted(left, first + batch.num_rows))
            if here:
                few = batch.take(indices(WHO, left[:here] - first))
                rows = layout.rows_of(few, 0)
                found.append(Rows(rows.values, left[:here], rows.columns))
                left = left[here:]
            first += batch.num_rows
        return join_rows(found) if found else None

    yield from _answering(go)


def merging(batches: Iterator[Any], packed: bytes, fan_in: int) -> Iterator[Any]:
    """Yield the answers of each `fan_in` partitions in a row as one answer."""
    (_, merge), *_ = unpacked(packed)
    answers = sorted(answers_of(batches), key=lambda one: one[0])
    for group, own in groupby(answers, key=lambda one: one[0] // fan_in):
        yield from _answering(functools.partial(_merged, merge, list(own)), group)


def _merged(merge: Callable[..., Any], answers: list[tuple[int, Any]], _: int) -> Any:
    return functools.reduce(merge, values_of(answers))


def answers_of(batches: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the part and the packed answer of each row."""
    for batch in batches:
        yield from zip(*(batch.column(j).to_pylist() for j in (0, 1)), strict=True)


def values_of(answers: list[tuple[int, Any]]) -> list[Any]:
    """Return the answers in the order of their parts; raise the first error."""
    found = [pickle.loads(packed) for _, packed in sorted(answers)]
    for one in found:
        if isinstance(one, CorevecError):
            raise one
    return [one for one in found if one is not None]


def _answering(go: Callable[[int], Any], part: int | None = None) -> Iterator[Any]:
    """Yield a batch of one row: the number of the partition, and what `go` answers."""
    pa = arrow(WHO)
    if part is None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        part = context.partitionId()
    try:
        found = go(part)
    except CorevecError as error:
        found = error
    packed = pickle.dumps(found, protocol=5)
    columns = [pa.array([part], pa.int32()), pa.array([packed], pa.binary())]
    yield pa.RecordBatch.from_arrays(columns, [PART, ANSWER])
