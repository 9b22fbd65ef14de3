"""Rows that cannot be told apart, more than fit here: equal ones become one.

A part of the tree that no split makes smaller holds equal rows, and few others. Equal
rows with one target are one row of their summed weight: the same problem. They are
merged where they are, block by block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import TARGET, WEIGHT, CarriedColumn, join_rows
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows
from corevec.problems.family import Labels, Problem
from corevec.solvers.cells.cell import told_apart
from corevec.solvers.cells.tree import Tree

# How many rows one of them stands for: a column that merged rows bring along.
COUNT = "count"


@dataclass(frozen=True)
class Crowd:
    """Merges the equal rows of one part; travels to where the rows are."""

    top: Tree
    labels: Labels
    part: int
    room: int  # rows that fit

    def __call__(self, rows: Rows) -> list[Rows]:
        """Return the rows of the part in a block, equal ones merged."""
        here = self.top.cells_of(rows.values) == self.part
        here &= self.labels.weights(rows) > 0
        return [self.together([rows.part(np.flatnonzero(here))])] if here.any() else []

    def merge(self, left: list[Rows], right: list[Rows]) -> list[Rows]:
        """Return the rows of two blocks, put together where they are many."""
        both = left + right
        if sum(map(len, both)) <= self.room:
            return both
        one = self.together(both)
        if len(one) > self.room // 2:
            raise InvalidInputError(
                f"more than {self.room // 2:,} different rows lie so close together, "
                "among equal ones, that no sample tells them apart, and they do not "
                "fit a quarter of memory_budget. Raise it, e.g. four times."
            )
        return [one]

    def together(self, pieces: list[Rows]) -> Rows:
        """Return the different rows of some pieces; what was equal is summed up."""
        rows = join_rows(pieces)
        _, first, place = np.unique(
            _keys(rows), axis=0, return_index=True, return_inverse=True
        )
        order = np.argsort(first)
        few, place = first[order], np.argsort(order)[place.ravel()]
        ones = np.ones(len(rows))
        sums = {
            name: np.bincount(place, rows.columns.get(name, ones), len(few))
            for name in (WEIGHT, COUNT)
        }
        found = rows.part(few)
        return Rows(found.values, found.index, {**found.columns, **sums})


def _keys(rows: Rows) -> Array:
    """Return columns by which equal rows of one target are known."""
    columns = [told_apart(rows.values)]
    if TARGET in rows.columns:
        target = np.asarray(rows.columns[TARGET])
        for column in target.reshape(len(rows), -1).T:
            columns.append(np.unique(column, return_inverse=True)[1].ravel())
    return np.column_stack(columns)


def weighed(problems: list[Problem], rows: Rows) -> list[Problem]:
    """Return the problems over rows that may stand for several equal ones."""
    if COUNT not in rows.columns:
        return problems
    labels = problems[0].labels
    labels = replace(
        labels, sample_weight=CarriedColumn(WEIGHT), mass=labels.total_weight
    )
    return [replace(one, labels=labels) for one in problems]


__all__ = ["COUNT", "Crowd", "weighed"]
