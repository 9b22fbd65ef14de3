"""The problems of one cell: its rows, equal ones merged, and what they weigh."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.data.sources import RowSubset, Source, of_rows
from corevec.kernels import AnyKernel, Rows
from corevec.problems.family import Problem

# Cells of more rows than this are looked through for equal ones.
MERGED_FROM = 3000


class Cell(RowSubset):
    """The rows of one cell, equal ones merged."""

    def positions(self, numbers: Array) -> Array:
        """Return where the rows with these numbers are."""
        return np.searchsorted(self.index, numbers)


def rows_that_weigh(problems: list[Problem], source: Source) -> Array:
    """Return the numbers of the rows of positive weight: the others are absent."""
    labels = problems[0].labels
    if labels.sample_weight is None and labels.class_weight is None:
        return source.numbers
    return source.numbers[source.map(labels.weights) > 0]


@dataclass(frozen=True)
class _Together:
    """Weights of rows that stand for several equal ones."""

    index: Array
    weights: Array

    def __call__(self, rows: Rows) -> Array:
        """Return the weight of each row."""
        return np.asarray(self.weights[np.searchsorted(self.index, rows.index)])


def merged(
    problems: list[Problem], source: Source, numbers: Array
) -> tuple[Cell, list[Problem]]:
    """Return the rows of a cell and the problems over them.

    In a cell that could not be split, equal rows of one label become one of their
    summed weight: the same problem, with as many rows as there are different ones.
    """
    rows = source.take(numbers)
    if len(numbers) <= MERGED_FROM:
        return Cell(source, numbers, rows), problems
    labels = problems[0].labels
    response = [
        of_rows(one.response, rows) for one in problems if one.response is not None
    ]
    codes = [] if labels.codes is None else [of_rows(labels.codes, rows)]
    keys = np.column_stack([told_apart(rows.values), *codes, *response])
    _, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    own = np.ones(len(numbers))
    if labels.sample_weight is not None:
        own = of_rows(labels.sample_weight, rows)
    order = np.argsort(first)
    weights = np.bincount(place.ravel(), own, minlength=len(first))[order]
    index = numbers[first[order]]
    own_weights, mass = _Together(index, weights), labels.total_weight
    together = replace(labels, sample_weight=own_weights, mass=mass)
    cell = Cell(source, index, rows.part(first[order]))
    return cell, [replace(one, labels=together) for one in problems]


def told_apart(values: Any) -> Array:
    """Return columns by which equal rows are known; of sparse rows a single one."""
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


def priced(problems: list[Problem], cell: Source) -> list[Problem]:
    """Return the problems with the price of a tube for the rows of a cell.

    An automatic tube costs ``C mu S``, S the weight of all rows: here of the cell's.
    """
    if not any(one.response is not None and one.has_offset for one in problems):
        return problems
    labels = problems[0].labels
    mass = float(labels.weights(cell.block(0, cell.n_rows)).sum())
    share = mass / problems[0].labels.total_weight
    return [replace(one, price=one.price * share) for one in problems]


def only_sign(problem: Problem, cell: Source, kernel: AnyKernel) -> float | None:
    """Return the sign that all rows of a two-class problem have, if they have one."""
    if problem.positive is None:
        return None
    terms = problem.terms(cell.block(0, cell.n_rows), kernel)
    signs = np.unique(terms.sign[terms.omega > 0])
    if len(signs) == 0:
        return 0.0
    return float(signs[0]) if len(signs) == 1 else None


def present(problem: Problem, cell: Source, kernel: AnyKernel) -> Array:
    """Return the entries of the rows that have a weight, on all sides."""
    rows = cell.block(0, cell.n_rows)
    entries = []
    for side in problem.sides:
        there = problem.terms(rows, kernel, side).omega > 0
        entries.append(problem.entries(rows.index[there], side))
    return np.concatenate(entries)
