"""Rows that live elsewhere, cut into parts of which some dozens fit here.

The upper levels of a tree come from a random sample, and one pass counts the rows of
each part. A tree cut by one pass per level would take log2(n / part) of them, 10 for
100 million rows; the sample is one trip. A part with s rows in the sample has the size
that is meant up to a share of about 1/sqrt(s), 18 % of 32. A quarter of a group of
parts (`cell_rows.py`) is the most that is meant, so that such a part fits; where memory
is so small that the sample has fewer than 32 rows of each, parts are larger first, and
are cut again by samples of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import RemoteSource, RowSubset, Source, join_rows
from corevec.data.sources.budget import rows_within
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows
from corevec.problems.family import Labels, Problem
from corevec.solvers.cells.cell import rows_that_weigh
from corevec.solvers.cells.tree import MORE_LEVELS, Tree, graft, grow, levels

# Shares of the memory budget: the sample, kept for all trees, and the rows of a group.
# A group is worked on in batches, each copied together: a sixteenth more.
SAMPLE_SHARE, GROUP_SHARE, BATCHES = 1 / 8, 1 / 4, 4
# Parts of a group, where they have four cells or more: the more, the fuller a group is
# packed (a part is cut nowhere), and the more places a few cells come from.
PARTS, CELLS_OF_PART = 32, 4
# Rows of the sample, at most (a trip of seconds), and those of a part, if they can.
MOST_SAMPLED, FEWEST_SAMPLED = 200_000, 32
# Parts that came out too large are cut again so often; what is left then is a crowd.
MOST_ROUNDS = 4
# Levels of the upper tree where repeated values make splits uneven; the lower ones get
# the rest of `MORE_LEVELS`.
_MORE_ABOVE = MORE_LEVELS // 2
_MIX = np.array(
    [0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64
)


@dataclass(frozen=True)
class Cut:
    """The upper levels of a tree, and how many rows each part has."""

    top: Tree
    counts: Array
    seeds: Array  # of the lower levels of each part
    random: bool
    below: int  # levels that may follow
    passes: int  # over all rows, that were made for it

    def expected_cells(self, size: int) -> int:
        """Return how many cells there will be, if all splits are even."""
        return sum(1 << levels(int(n), size) for n in self.counts if n)


class PartedRows:
    """Rows that live elsewhere, to be cut into parts."""

    def __init__(
        self,
        problems: list[Problem],
        source: Source,
        size: int,
        rng: np.random.Generator,
    ):
        assert isinstance(source, RemoteSource)
        self.problems, self.source, self.size = problems, source, size
        self.labels = problems[0].labels
        row_bytes = _row_bytes(source, rng)
        self.room = rows_within(GROUP_SHARE * source.memory_budget, row_bytes)
        self._check_size(row_bytes)
        room = rows_within(SAMPLE_SHARE * source.memory_budget, row_bytes)
        # Not from the deck of the source, which would be held beside it.
        self.n_sampled = min(MOST_SAMPLED, max(1, room))
        drawn = Source.draw(source, rng, self.n_sampled)
        self.sample = source.near(drawn)
        self.sampled = rows_that_weigh(problems, self.sample)
        self.n_expected = source.n_rows * len(self.sampled) / len(drawn)

    def cut(self, rng: np.random.Generator, random: bool) -> Cut:
        """Grow the upper levels from samples, and count the rows of each part."""
        top = self._above(self.sample, self.sampled, self.n_expected, rng, random)
        counts, passes = self._count(top), 1
        stuck = np.zeros(top.n_cells, dtype=bool)
        for _ in range(MOST_ROUNDS):
            large = np.flatnonzero((counts > self.room // 2) & ~stuck)
            if len(large) == 0:
                break
            below, trips = self._cut_further(top, large, counts, rng, random)
            passes += trips
            if self._is_too_deep(top, below):
                break
            old, top = top, graft(top, below)
            stuck = _is_same(old, top, below)
            counts, passes = self._count(top), passes + 1
        seeds = rng.integers(2**63, size=top.n_cells)
        # As many levels as a tree in memory has, or what the largest part needs that
        # fits: a level more doubles the memory of the whole tree.
        most = levels(int(counts.sum()), self.size) + MORE_LEVELS - top.depth
        largest = int(counts[counts <= self.room].max(initial=0))
        most = max(most, levels(largest, self.size))
        return Cut(top, counts, seeds, random, most, passes)

    def _is_too_deep(self, top: Tree, below: list[Tree]) -> bool:
        """Whether no rows would fit beside the upper levels, all equally deep."""
        n_nodes = top.n_cells << max(one.depth for one in below)
        return bool(
            8 * n_nodes * self.source.n_features
            > GROUP_SHARE * self.source.memory_budget
        )

    def _count(self, top: Tree) -> Array:
        return self.source.reduce(_Count(top, self.labels), add)

    def _above(
        self,
        sample: Source,
        rows: Array,
        n_rows: float,
        rng: np.random.Generator,
        random: bool,
    ) -> Tree:
        """Return a tree grown from sampled rows, which stand for `n_rows`."""
        own = max(int(len(rows) * self._part_rows / max(n_rows, 1)), FEWEST_SAMPLED)
        how: Any = {"random": random, "rows": rows, "more": _MORE_ABOVE}
        return grow(sample, own, rng, **how)[0]

    def _cut_further(
        self,
        top: Tree,
        large: Array,
        counts: Array,
        rng: np.random.Generator,
        random: bool,
    ) -> tuple[list[Tree], int]:
        """Return trees below the parts that are too large, from samples of their own.

        And the trips for these: as many parts are sampled together as leave enough
        rows for what each is cut into.
        """
        most = self.n_sampled // FEWEST_SAMPLED * int(self._part_rows)
        below = [stump(top)] * top.n_cells
        trips = packed(large.tolist(), counts[large].tolist(), most)
        for parts in trips:
            share = self.n_sampled / counts[parts].sum()
            draw = _Draw(top, self.labels, parts, int(rng.integers(2**62)), share)
            rows = join_rows(self.source.reduce(draw, add))
            near = RowSubset(self.source, rows.index, rows)
            part_of = top.cells_of(rows.values)
            for part in parts:
                few = rows.index[part_of == part]
                below[part] = self._above(near, few, counts[part], rng, random)
        return below, len(trips)

    @property
    def _part_rows(self) -> float:
        """How many rows a part is to have: a quarter of a group, or a cell, at most."""
        rows = max(self.room / PARTS, CELLS_OF_PART * self.size)
        return max(min(rows, self.room / BATCHES), self.size)

    def _check_size(self, row_bytes: float) -> None:
        """Refuse cells of which none fits; one may have twice the rows asked for."""
        needed = 2 * self.size * row_bytes / GROUP_SHARE
        if needed > self.source.memory_budget:
            raise InvalidInputError(
                f"a cell of {self.source!r} with twice the {self.size:,} rows that are "
                f"asked for takes {2 * self.size * row_bytes:.3g} bytes, more than a "
                f"quarter of memory_budget={self.source.memory_budget:g}. Raise it to "
                f"{needed:.3g} or more, or ask for smaller cells."
            )


@dataclass(frozen=True)
class _Count:
    """Counts the rows of every part; travels to where the rows are, as `_Pick`."""

    top: Tree
    labels: Labels

    def __call__(self, rows: Rows) -> Array:
        parts = self.top.cells_of(rows.values)[self.labels.weights(rows) > 0]
        return np.bincount(parts, minlength=self.top.n_cells)


@dataclass(frozen=True)
class _Draw:
    """Draws a random share of the rows of some parts, whatever the blocks."""

    top: Tree
    labels: Labels
    parts: list[int]
    seed: int
    share: float

    def __call__(self, rows: Rows) -> list[Rows]:
        here = np.isin(self.top.cells_of(rows.values), self.parts)
        here &= (self.labels.weights(rows) > 0) & self._is_drawn(rows.index)
        return [rows.part(np.flatnonzero(here))]

    def _is_drawn(self, index: Array) -> Array:
        """Whether a row is: by SplitMix64 (Steele, Lea, Flood 2014) of its number."""
        z = (index.astype(np.uint64) + np.uint64(self.seed)) * _MIX[0]
        z = (z ^ (z >> np.uint64(30))) * _MIX[1]
        z = (z ^ (z >> np.uint64(27))) * _MIX[2]
        return np.asarray((z >> np.uint64(11)) < self.share * 2.0**53)


def packed(items: Sequence[Any], sizes: Sequence[int], room: int) -> list[list[Any]]:
    """Return the items in runs whose sizes add up to `room` at most, if they can."""
    runs: list[list[Any]] = []
    total = room + 1
    for item, size in zip(items, sizes, strict=True):
        if total + size > room:
            runs.append([])
            total = 0
        runs[-1].append(item)
        total += size
    return runs


def stump(top: Tree) -> Tree:
    """Return the tree of a single cell."""
    return Tree(top.directions[:0], top.thresholds[:0], 0)


def _is_same(old: Tree, new: Tree, below: list[Tree]) -> Array:
    """Say which parts of the new tree are whole ones of the old: no split was found."""
    same = np.zeros((old.n_cells, new.n_cells // old.n_cells), dtype=bool)
    same[:, 0] = [one.depth == 0 for one in below]
    return same.ravel()


def _row_bytes(source: RemoteSource, rng: np.random.Generator) -> float:
    """Return the bytes of a row; of sparse rows whose entries nobody counted, by some.

    A partition of Dask says nothing of its entries.
    """
    if not source.is_sparse or source.row_entries < source.n_features:
        return float(source.row_bytes)
    few = source.take(Source.draw(source, rng, FEWEST_SAMPLED**2)).values
    return float(32 + 12 * few.nnz / few.shape[0])
