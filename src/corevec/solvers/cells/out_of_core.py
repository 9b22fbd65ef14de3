"""Cells of out-of-core rows: partitioned by a sample, loaded in groups, solved.

*Parts.* The upper levels of a tree are grown from a random sample, and one pass counts
the rows of each part. (A tree grown with one pass per level would take log2(n / part)
passes, 10 for 100 million rows.) A part with s sampled rows has the intended size up to
a share of about 1/sqrt(s), 18 % for 32. The intended size is at most a quarter of a
group, so that such a part fits. Where the memory budget is so small that the sample has
fewer than 32 rows per part, parts are larger at first and are split again by samples of
their own.

*Groups.* Every pass loads the parts of one group, a quarter of the memory budget. The
lower levels are grown from all of their rows, as for rows in memory, and the cells are
solved. In all that is one random access for the sample, one pass to count and
``bytes / (budget / 4)`` passes to load. Cells are halves of halves of a part, by exact
medians: within a factor of sqrt(2) of the requested size.

*Duplicates.* A part that no split makes smaller holds duplicate rows. If it exceeds a
group, they are merged into weighted rows block by block, where the rows are stored.

Only one group of rows is held at a time. The support vectors of all cells are held:
they are the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Any

import numpy as np

from corevec._runtime.progress import Progress, logger
from corevec._runtime.types import Array
from corevec.data.sources import RemoteSource, RowSubset, Source, join_rows
from corevec.exceptions import InvalidInputError
from corevec.kernels import AnyKernel, Rows
from corevec.problems.family import Labels, Problem
from corevec.solvers.cells.cell import CellSolution, rows_with_weight, solve_cell
from corevec.solvers.cells.duplicates import (
    COUNT,
    DuplicateMerge,
    merge_rows,
    n_rows_of,
    with_counts,
)
from corevec.solvers.cells.tree import (
    EXTRA_LEVELS,
    Directions,
    Tree,
    graft,
    grow,
    levels,
    stump,
)

# Shares of the memory budget: the sample, which all trees use, and the rows of a group.
SAMPLE_SHARE, GROUP_SHARE = 1 / 8, 1 / 4
# Batches of a group, which are copied together one after the other: each takes a
# sixteenth of the budget more.
BATCHES = 4
# Parts of a group, if each has four cells or more: the more parts, the fuller a group
# is packed (parts are not divided), and the more places some cells are drawn from.
PARTS_PER_GROUP, CELLS_PER_PART = 32, 4
# The maximal number of sampled rows (drawn in seconds), and the number per part that is
# aimed at.
MAX_SAMPLED, MIN_SAMPLED_PER_PART = 200_000, 32
# How often parts that are too large are split again; what is left then is duplicates.
MAX_ROUNDS = 4
# Extra levels of the upper tree where repeated values make splits uneven; the lower
# levels get the rest of `EXTRA_LEVELS`.
_EXTRA_UPPER_LEVELS = EXTRA_LEVELS // 2
_SPLITMIX = np.array(
    [0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64
)

# Solves cells of a source: (problems, source, the rows of each cell).
Solver = Callable[[list[Problem], Source, list[Array]], list[CellSolution]]
# The lower levels of the tree below each part, and the solutions of its cells.
SolvedParts = dict[int, tuple[Tree, list[CellSolution]]]


def must_stop(progress: Progress) -> bool:
    """Return whether the remaining cells are skipped; `max_iter` acts between trees."""
    limit = progress.max_time
    return progress.stop_asked or (limit is not None and progress.seconds >= limit)


@dataclass(frozen=True)
class Partition:
    """The upper levels of a tree, and the number of rows in each part."""

    top: Tree
    counts: Array
    seeds: Array  # for the lower levels of each part
    random: bool
    max_lower_levels: int
    n_passes: int  # passes over all rows that it took

    def expected_cells(self, size: int) -> int:
        """Return the number of cells if all splits are even."""
        return sum(1 << levels(int(n), size) for n in self.counts if n)


@dataclass(frozen=True)
class _LoadedBatch:
    """The rows of some parts, in memory, and the cells that they are split into."""

    source: RowSubset
    problems: list[Problem]
    trees: list[tuple[int, Tree]]  # the number of each part, and its lower levels
    members: list[Array]  # rows of the cells of these, one after the other


class OutOfCoreRows:
    """Out-of-core rows that are partitioned, loaded in groups and solved.

    Parameters
    ----------
    problems : list of Problem
        The problems to solve in every cell.
    source : RemoteSource
        The rows.
    size : int
        Rows per cell.
    rng : Generator
        Draws the sample.
    scale : array of shape (n_features,), optional
        The roots of the metric in which the rows are partitioned.
    """

    def __init__(
        self,
        problems: list[Problem],
        source: Source,
        size: int,
        rng: np.random.Generator,
        scale: Array | None = None,
    ):
        assert isinstance(source, RemoteSource)
        self.problems, self.source, self.size = problems, source, size
        self.labels, self.scale = problems[0].labels, scale
        row_bytes = _row_bytes(source, rng)
        self.group_rows = int(GROUP_SHARE * source.memory_budget / row_bytes)
        self._check_size(row_bytes)
        sample_rows = int(SAMPLE_SHARE * source.memory_budget / row_bytes)
        self.n_sampled = min(MAX_SAMPLED, max(1, sample_rows))
        # Not from the source's own sample, which would be held beside this one.
        drawn = Source.draw(source, rng, self.n_sampled)
        self.sample = source.near(drawn)
        self.sampled = rows_with_weight(problems, self.sample)
        self.n_expected = source.n_rows * len(self.sampled) / len(drawn)

    def _check_size(self, row_bytes: float) -> None:
        """Refuse cells of which none fits; one may have twice the requested rows."""
        needed = 2 * self.size * row_bytes / GROUP_SHARE
        if needed > self.source.memory_budget:
            raise InvalidInputError(
                f"a cell of {self.source!r} with twice the {self.size:,} rows that are "
                f"asked for takes {2 * self.size * row_bytes:.3g} bytes, more than a "
                f"quarter of memory_budget={self.source.memory_budget:g}. Raise it to "
                f"{needed:.3g} or more, or ask for smaller cells."
            )

    # --- Parts ---

    def partition(self, rng: np.random.Generator, random: bool) -> Partition:
        """Return the parts: upper levels grown from samples, and their row counts."""
        top = self._upper_tree(self.sample, self.sampled, self.n_expected, rng, random)
        counts, n_passes = self._count(top), 1
        is_stuck = np.zeros(top.n_cells, dtype=bool)
        for _ in range(MAX_ROUNDS):
            large = np.flatnonzero((counts > self.group_rows // 2) & ~is_stuck)
            if len(large) == 0:
                break
            below, n_draws = self._split_again(top, large, counts, rng, random)
            n_passes += n_draws
            if self._is_too_deep(top, below):
                break
            old, top = top, graft(top, below)
            is_stuck = _is_unsplit(old, top, below)
            counts, n_passes = self._count(top), n_passes + 1
        seeds = rng.integers(2**63, size=top.n_cells)
        # As many levels as a tree in memory has, or as the largest part that fits
        # needs: one more level doubles the memory of the whole tree.
        most = levels(int(counts.sum()), self.size) + EXTRA_LEVELS - top.depth
        largest = int(counts[counts <= self.group_rows].max(initial=0))
        most = max(most, levels(largest, self.size))
        return Partition(top, counts, seeds, random, most, n_passes)

    @property
    def _part_rows(self) -> float:
        """The intended rows of a part: at most a quarter of a group, or one cell."""
        rows = max(self.group_rows / PARTS_PER_GROUP, CELLS_PER_PART * self.size)
        return max(min(rows, self.group_rows / BATCHES), self.size)

    def _is_too_deep(self, top: Tree, below: list[Tree]) -> bool:
        """Return whether upper levels of this depth would leave no memory for rows."""
        n_nodes = top.n_cells << max(one.depth for one in below)
        limit = GROUP_SHARE * self.source.memory_budget
        return bool(8 * n_nodes * self.source.n_features > limit)

    def _count(self, top: Tree) -> Array:
        return self.source.reduce(_Count(top, self.labels), add)

    def _upper_tree(
        self,
        sample: Source,
        rows: Array,
        n_rows: float,
        rng: np.random.Generator,
        random: bool,
    ) -> Tree:
        """Return a tree grown from sampled rows that stand for `n_rows`."""
        own = int(len(rows) * self._part_rows / max(n_rows, 1))
        own = max(own, MIN_SAMPLED_PER_PART)
        how: Any = {"rows": rows, "extra_levels": _EXTRA_UPPER_LEVELS}
        how["directions"] = Directions(random, self.scale)
        return grow(sample, own, rng, **how)[0]

    def _split_again(
        self,
        top: Tree,
        large: Array,
        counts: Array,
        rng: np.random.Generator,
        random: bool,
    ) -> tuple[list[Tree], int]:
        """Return trees below the parts that are too large, and the passes they took.

        Each part gets a sample of its own. A pass samples as many parts together as
        leave enough sampled rows for the parts that each is split into.
        """
        most = self.n_sampled // MIN_SAMPLED_PER_PART * int(self._part_rows)
        below = [stump(top)] * top.n_cells
        runs = pack(large.tolist(), counts[large].tolist(), most)
        for parts in runs:
            share = self.n_sampled / counts[parts].sum()
            draw = _Draw(top, self.labels, parts, int(rng.integers(2**62)), share)
            rows = join_rows(self.source.reduce(draw, add))
            sample = RowSubset(self.source, rows.index, rows)
            part_of = top.cells_of(rows.values)
            for part in parts:
                own = rows.index[part_of == part]
                below[part] = self._upper_tree(sample, own, counts[part], rng, random)
        return below, len(runs)

    # --- Groups ---

    def solve(
        self, parts: Partition, kernel: AnyKernel, solve: Solver, progress: Progress
    ) -> tuple[Tree, list[CellSolution]]:
        """Return the tree and the solutions of its cells.

        The time limit and interrupts act between two groups. Parts that are skipped
        then get machines of sampled rows, about which nothing is proved.
        """
        progress.rows_looked_at += parts.n_passes * self.source.n_rows
        groups = self._groups(parts.counts)
        logger.info("cells: %d parts in %d groups", parts.top.n_cells, len(groups))
        found: SolvedParts = {}
        for group in groups:
            if must_stop(progress):
                break
            # The pass visits all rows; the solver counts those of the group itself.
            done = progress.rows_looked_at + self.source.n_rows
            own = sum(int(parts.counts[batch].sum()) for batch in group)
            progress.rows_looked_at = done - own
            for one in self._load(parts, group):
                solutions = solve(one.problems, one.source, one.members)
                found |= _by_part(one, solutions)
            progress.rows_looked_at = done
        skipped = [p for p in np.flatnonzero(parts.counts).tolist() if p not in found]
        found |= self._sampled_solutions(parts, skipped, kernel)
        nothing = solve_cell(self.problems, self.sample, kernel, self.sampled[:0])
        return _join(parts.top, found, nothing)

    def some_cells(
        self, parts: Partition, n_cells: int, rng: np.random.Generator
    ) -> tuple[Source, list[Array]]:
        """Return about `n_cells` cells of random parts: a source, and their rows."""
        sizes, most = parts.counts, min(self.group_rows // 2, n_cells * self.size)
        fits = np.flatnonzero((sizes > 0) & (sizes <= self.group_rows))
        mixed = rng.permutation(fits)
        n_parts = max(1, int(np.searchsorted(np.cumsum(sizes[mixed]), most, "right")))
        if len(mixed) == 0:  # only duplicate rows: a sample of them
            few = rng.permutation(self.sampled)[: self.size]
            return self.sample, [np.sort(few)]
        (one,) = self._load(parts, [sorted(mixed[:n_parts].tolist())])
        return one.source, one.members

    def _groups(self, counts: Array) -> list[list[list[int]]]:
        """Return groups of batches of parts: one pass loads a group.

        A part that does not fit holds duplicate rows and is a group of its own.
        """
        held = np.flatnonzero(counts)
        fits = counts[held] <= self.group_rows
        small, large = held[fits], held[~fits]
        batch_rows = self.group_rows // BATCHES
        batches = pack(small.tolist(), counts[small].tolist(), batch_rows)
        sizes = [int(counts[batch].sum()) for batch in batches]
        groups = pack(batches, sizes, self.group_rows)
        return groups + [[[int(part)]] for part in large]

    def _load(self, parts: Partition, group: list[list[int]]) -> Iterator[_LoadedBatch]:
        """Yield the batches of a group, loaded by one pass."""
        if parts.counts[group[0][0]] > self.group_rows:
            merge = DuplicateMerge(parts.top, self.labels, group[0][0], self.group_rows)
            own = self.source.reduce(merge, merge.join)
            yield self._split_batch(parts, group[0], [merge_rows(own)] if own else [])
            return
        batch_of = np.full(parts.top.n_cells, -1)
        for number, batch in enumerate(group):
            batch_of[batch] = number
        pick = _Pick(parts.top, self.labels, batch_of, len(group))
        pieces = self.source.reduce(pick, _join_batches)
        for batch in group:
            yield self._split_batch(parts, batch, pieces.pop(0))

    def _split_batch(
        self, parts: Partition, batch: list[int], pieces: list[Rows]
    ) -> _LoadedBatch:
        """Return the rows of some parts, split into cells."""
        n_rows, n_counted = sum(map(n_rows_of, pieces)), parts.counts[batch].sum()
        if n_rows != n_counted:
            raise InvalidInputError(
                f"{self.source!r} had {int(n_counted):,} rows in some cells and now "
                f"has {n_rows:,}: the rows change from pass to pass. Save them first, "
                "or persist() them."
            )
        rows = join_rows(pieces)
        source = RowSubset(self.source, rows.index, rows)
        part_of = parts.top.cells_of(rows.values)
        trees, members = [], []
        for part in batch:
            own = rows.index[part_of == part]
            rng = np.random.default_rng(parts.seeds[part])
            extra = parts.max_lower_levels - levels(len(own), self.size)
            how: Any = {"directions": Directions(parts.random, self.scale), "rows": own}
            how["extra_levels"] = min(extra, EXTRA_LEVELS)
            tree, cells = grow(source, self.size, rng, **how)
            trees.append((part, tree))
            members += cells
        return _LoadedBatch(source, with_counts(self.problems, rows), trees, members)

    def _sampled_solutions(
        self, parts: Partition, skipped: list[int], kernel: AnyKernel
    ) -> SolvedParts:
        """Return machines of sampled rows for the parts that were skipped.

        Each sampled row stands for an equal share of its part.
        """
        if not skipped:
            return {}
        part_of = parts.top.cells_of(self.sample.take(self.sampled).values)

        def solve(part: int) -> tuple[int, tuple[Tree, list[CellSolution]]]:
            n_rows = int(parts.counts[part])
            rng = np.random.default_rng(parts.seeds[part])
            own = np.sort(rng.permutation(self.sampled[part_of == part])[: self.size])
            boost = n_rows / max(len(own), 1)
            problems = [
                replace(p, slack=p.slack * boost, price=p.price * boost)
                for p in self.problems
            ]
            solution = replace(
                solve_cell(problems, self.sample, kernel, own),
                primal=np.full(len(problems), np.inf),
                dual=np.array([p.least for p in problems]),
                n_rows=n_rows,
            )
            return part, (stump(parts.top), [solution])

        return dict(self.source.workers.run(solve, skipped))


def _row_bytes(source: RemoteSource, rng: np.random.Generator) -> float:
    """Return the bytes of a row; for sparse rows of unknown density, of a sample.

    A Dask partition does not tell its number of entries.
    """
    if not source.is_sparse or source.row_entries < source.n_features:
        return float(source.row_bytes)
    few = source.take(Source.draw(source, rng, MIN_SAMPLED_PER_PART**2)).values
    return float(32 + 12 * few.nnz / few.shape[0])


def pack(items: Sequence[Any], sizes: Sequence[int], limit: int) -> list[list[Any]]:
    """Return the items in runs whose sizes add up to at most `limit`.

    An item that is larger than `limit` is a run of its own.
    """
    runs: list[list[Any]] = []
    total = limit + 1
    for item, size in zip(items, sizes, strict=True):
        if total + size > limit:
            runs.append([])
            total = 0
        runs[-1].append(item)
        total += size
    return runs


def _is_unsplit(old: Tree, new: Tree, below: list[Tree]) -> Array:
    """Return which parts of the new tree are whole parts of the old: not splittable."""
    same = np.zeros((old.n_cells, new.n_cells // old.n_cells), dtype=bool)
    same[:, 0] = [one.depth == 0 for one in below]
    return same.ravel()


def _join_batches(left: list[list[Rows]], right: list[list[Rows]]) -> list[list[Rows]]:
    """Return the rows of two blocks, batch by batch; they are copied at the end."""
    return [a + b for a, b in zip(left, right, strict=True)]


def _by_part(one: _LoadedBatch, solutions: list[CellSolution]) -> SolvedParts:
    """Return the tree and the solutions of every part of a batch."""
    if COUNT in one.source.row_columns:
        solutions = [
            replace(solution, n_rows=n_rows_of(one.source.take(rows)))
            for solution, rows in zip(solutions, one.members, strict=True)
        ]
    found, at = {}, 0
    for part, tree in one.trees:
        found[part] = tree, solutions[at : at + tree.n_cells]
        at += tree.n_cells
    return found


def _join(
    top: Tree, found: SolvedParts, nothing: CellSolution
) -> tuple[Tree, list[CellSolution]]:
    """Return one tree, and the solutions of its cells in their order."""
    below = [stump(top)] * top.n_cells
    for part, (tree, _) in found.items():
        below[part] = tree
    whole = graft(top, below)
    deeper = whole.depth - top.depth
    solutions = [nothing] * whole.n_cells
    for part, (tree, own) in found.items():
        step = 1 << (deeper - tree.depth)
        solutions[part << deeper : (part + 1) << deeper : step] = own
    return whole, solutions


# --- Functions of blocks, which are sent to where the rows are ---


@dataclass(frozen=True)
class _Count:
    """Counts the rows of every part."""

    top: Tree
    labels: Labels

    def __call__(self, rows: Rows) -> Array:
        parts = self.top.cells_of(rows.values)[self.labels.weights(rows) > 0]
        return np.bincount(parts, minlength=self.top.n_cells)


@dataclass(frozen=True)
class _Draw:
    """Draws a random share of the rows of some parts, independent of the blocks."""

    top: Tree
    labels: Labels
    parts: list[int]
    seed: int
    share: float

    def __call__(self, rows: Rows) -> list[Rows]:
        chosen = np.isin(self.top.cells_of(rows.values), self.parts)
        chosen &= (self.labels.weights(rows) > 0) & self._is_drawn(rows.index)
        return [rows.part(np.flatnonzero(chosen))]

    def _is_drawn(self, index: Array) -> Array:
        """Return which rows are drawn: a SplitMix64 hash of their numbers decides.

        Steele, Lea and Flood (2014).
        """
        z = (index.astype(np.uint64) + np.uint64(self.seed)) * _SPLITMIX[0]
        z = (z ^ (z >> np.uint64(30))) * _SPLITMIX[1]
        z = (z ^ (z >> np.uint64(27))) * _SPLITMIX[2]
        return np.asarray((z >> np.uint64(11)) < self.share * 2.0**53)


@dataclass(frozen=True)
class _Pick:
    """Picks the rows of a group's parts, batch by batch."""

    top: Tree
    labels: Labels
    batch_of: Array  # of each part; -1 for the parts of other groups
    n_batches: int

    def __call__(self, rows: Rows) -> list[list[Rows]]:
        batch = self.batch_of[self.top.cells_of(rows.values)]
        batch[self.labels.weights(rows) <= 0] = -1
        chosen = [np.flatnonzero(batch == number) for number in range(self.n_batches)]
        return [[rows.part(own)] if len(own) else [] for own in chosen]
