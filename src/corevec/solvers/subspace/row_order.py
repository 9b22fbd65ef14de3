"""Row numbers and row positions of a source, and the rows that have a weight.

A number names a row of the training set; a position is the row's place in arrays that
hold one value per row of a source, which may be a part of the training set.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import counted, namespace, to_device_of, to_numpy
from corevec.data.sources import Source
from corevec.kernels import Rows
from corevec.problems.family import Labels, Problem


class RowOrder:
    """The numbers of a source's rows by their positions, and the inverse.

    Numbers grow from block to block. Where each is the last one's plus one, nothing of
    the length of the data is stored; else `numbers` is, on the device of the rows.
    """

    def __init__(self, source: Source):
        self.n_rows = n = source.n_rows
        self._one = source.block(0, 1).index
        self.first, last = int(self._one[0]), int(source.block(n - 1, n).index[0])
        self.numbers: Any = None
        if last - self.first != n - 1:
            self.numbers = source.device_numbers

    def all_numbers(self) -> Any:
        """Return the numbers of all rows, on the device of the rows."""
        if self.numbers is None:
            return counted(self.first, self.n_rows, self._one)
        return self.numbers

    def positions_of(self, numbers: Any) -> Any:
        """Return the positions of rows by their numbers."""
        if self.numbers is None:
            return numbers - self.first
        numbers = to_device_of(numbers, self.numbers)
        return namespace(numbers).searchsorted(self.numbers, numbers)

    def numbers_at(self, positions: Any) -> Array:
        """Return the numbers of a few rows by their positions, on the host."""
        if self.numbers is None:
            return np.asarray(to_numpy(positions) + self.first)
        return to_numpy(self.numbers[to_device_of(positions, self.numbers)])

    def slice_of(self, rows: Rows) -> slice:
        """Return the positions of a block of rows, which are consecutive."""
        start = int(self.positions_of(rows.index[:1])[0]) if len(rows) else 0
        return slice(start, start + len(rows))


def weighted_rows(problems: list[Problem], source: Source) -> Any:
    """Return the numbers of the rows with a weight in some problem.

    On the device of the rows; one pass, unless every row has a weight.
    """
    if _has_every_row_a_weight(problems):
        return RowOrder(source).all_numbers()

    def weighted(rows: Rows) -> Any:
        weights = [problem.labels.weights(rows) > 0 for problem in problems]
        return rows.index[reduce(or_, weights)]

    return source.map_on_device(weighted)


def weighted_rows_on_host(problems: list[Problem], source: Source) -> Array:
    """Return what `weighted_rows` does, on the host."""
    if _has_every_row_a_weight(problems):
        return source.numbers
    return to_numpy(weighted_rows(problems, source))


def _has_every_row_a_weight(problems: list[Problem]) -> bool:
    """Whether some problem gives all rows a weight, known without a pass."""

    def gives(labels: Labels) -> bool:
        by_class = labels.class_weight is None or bool((labels.class_weight > 0).all())
        return labels.sample_weight is None and by_class

    return any(gives(problem.labels) for problem in problems)


def entries_at(problem: Problem, source: Source, positions: Any) -> Array:
    """Return the problem's entries at these positions of the rows' sides, on the host.

    The positions of a second side follow those of the first.
    """
    positions = to_numpy(positions)
    rows = RowOrder(source).numbers_at(positions % source.n_rows)
    return np.asarray(rows + positions // source.n_rows * problem.labels.n_rows)
