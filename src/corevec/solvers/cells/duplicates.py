"""Duplicate rows, merged into one row of their summed weight: the same problem.

In memory, the duplicates of a large cell. Out of core, those of a part that no split
makes smaller and that exceeds the memory budget: merged block by block, where the rows
are stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.data.sources import (
    TARGET,
    WEIGHT,
    CarriedColumn,
    RowSubset,
    Source,
    join_rows,
    of_rows,
)
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows
from corevec.problems.family import Labels, Problem
from corevec.solvers.cells.tree import Tree

# Cells of more rows than this are searched for duplicates: mostly those that no split
# made smaller.
MERGE_MIN_ROWS = 3000
# The column in which merged rows say for how many rows they stand.
COUNT = "count"


@dataclass(frozen=True)
class _MergedWeights:
    """Weights of rows that stand for their duplicates."""

    index: Array
    weights: Array

    def __call__(self, rows: Rows) -> Array:
        """Return the weight of each row."""
        return np.asarray(self.weights[np.searchsorted(self.index, rows.index)])


def merge_duplicates(
    problems: list[Problem], source: Source, numbers: Array
) -> tuple[RowSubset, list[Problem]]:
    """Return the rows of a cell, and the problems over them.

    In a large cell, rows with equal values and targets become one row of their summed
    weight: the same problem over the distinct rows only.
    """
    rows = source.take(numbers)
    if len(numbers) <= MERGE_MIN_ROWS:
        return RowSubset(source, numbers, rows), problems
    labels = problems[0].labels
    response = [
        of_rows(one.response, rows) for one in problems if one.response is not None
    ]
    codes = [] if labels.codes is None else [of_rows(labels.codes, rows)]
    keys = np.column_stack([_value_keys(rows.values), *codes, *response])
    first, place = _distinct(keys)
    own = np.ones(len(numbers))
    if labels.sample_weight is not None:
        own = of_rows(labels.sample_weight, rows)
    index = numbers[first]
    weights = _MergedWeights(index, np.bincount(place, own, len(first)))
    merged = replace(labels, sample_weight=weights, mass=labels.total_weight)
    cell = RowSubset(source, index, rows.part(first))
    return cell, [replace(one, labels=merged) for one in problems]


def _distinct(keys: Array) -> tuple[Array, Array]:
    """Return the first row of each distinct key, sorted, and each row's place there."""
    _, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[place.ravel()]


def _value_keys(values: Any) -> Array:
    """Return columns that are equal for duplicate rows; one column for sparse rows."""
    if not sparse.issparse(values):
        return np.asarray(values)
    plain = values.copy()
    plain.sum_duplicates()
    plain.eliminate_zeros()
    known: dict[tuple[bytes, bytes], int] = {}

    def number(start: int, stop: int) -> int:
        key = plain.indices[start:stop].tobytes(), plain.data[start:stop].tobytes()
        return known.setdefault(key, len(known))

    return np.array([number(*ends) for ends in pairwise(plain.indptr)])


@dataclass(frozen=True)
class DuplicateMerge:
    """Merges the duplicate rows of one part into weighted rows, block by block."""

    top: Tree
    labels: Labels
    part: int
    max_rows: int  # rows that fit

    def __call__(self, rows: Rows) -> list[Rows]:
        """Return the rows of the part in a block, duplicates merged."""
        chosen = self.top.cells_of(rows.values) == self.part
        chosen &= self.labels.weights(rows) > 0
        own = np.flatnonzero(chosen)
        return [merge_rows([rows.part(own)])] if len(own) else []

    def join(self, left: list[Rows], right: list[Rows]) -> list[Rows]:
        """Return the rows of two blocks, merged once there are too many of them."""
        both = left + right
        if sum(map(len, both)) <= self.max_rows:
            return both
        one = merge_rows(both)
        if len(one) > self.max_rows // 2:
            raise InvalidInputError(
                f"more than {self.max_rows // 2:,} different rows lie so close "
                "together, among duplicates, that no sample separates them, and they "
                "do not fit a quarter of memory_budget. Raise it, e.g. four times."
            )
        return [one]


def merge_rows(pieces: list[Rows]) -> Rows:
    """Return the distinct rows of some pieces, with summed weights and counts."""
    rows = join_rows(pieces)
    first, place = _distinct(_target_keys(rows))
    ones = np.ones(len(rows))
    sums = {
        name: np.bincount(place, rows.columns.get(name, ones), len(first))
        for name in (WEIGHT, COUNT)
    }
    found = rows.part(first)
    return Rows(found.values, found.index, {**found.columns, **sums})


def _target_keys(rows: Rows) -> Array:
    """Return columns that are equal for rows of equal values and targets."""
    columns = [_value_keys(rows.values)]
    if TARGET in rows.columns:
        target = np.asarray(rows.columns[TARGET])
        for column in target.reshape(len(rows), -1).T:
            columns.append(np.unique(column, return_inverse=True)[1].ravel())
    return np.column_stack(columns)


def with_counts(problems: list[Problem], rows: Rows) -> list[Problem]:
    """Return the problems over rows that may stand for several duplicates."""
    if COUNT not in rows.columns:
        return problems
    labels = problems[0].labels
    labels = replace(
        labels, sample_weight=CarriedColumn(WEIGHT), mass=labels.total_weight
    )
    return [replace(one, labels=labels) for one in problems]


def n_rows_of(rows: Rows) -> int:
    """Return for how many rows these stand."""
    return int(rows.columns[COUNT].sum()) if COUNT in rows.columns else len(rows)
