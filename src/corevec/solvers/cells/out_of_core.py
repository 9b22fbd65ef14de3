"""Cells of rows that live elsewhere and do not fit here: brought a group at a time.

The upper levels of a tree cut the rows into *parts* (`cell_parts.py`). Every pass
brings the parts of one *group*, a quarter of the memory budget, where the lower levels
are grown from all of their rows, as for rows in memory, and the cells are solved. So
there is one trip for a sample, one pass that counts, and ``bytes / (budget / 4)``
passes that bring. Cells are halves of halves of a part, by exact medians: within a
factor of sqrt(2) of the size asked for.

The rows themselves are never held, only a group of them; the vectors of all cells are:
they are the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corevec._runtime.progress import Progress, logger
from corevec._runtime.types import Array
from corevec.data.sources import RowSubset, Source, join_rows
from corevec.exceptions import InvalidInputError
from corevec.kernels import AnyKernel, Rows
from corevec.problems.family import Labels, Problem
from corevec.solvers.cells.duplicates import COUNT, Crowd, weighed
from corevec.solvers.cells.partition import BATCHES, Cut, PartedRows, packed, stump
from corevec.solvers.cells.solve import CellFit, solve_cell
from corevec.solvers.cells.tree import MORE_LEVELS, Tree, graft, grow, levels

# Solves cells of a source: (problems, source, the rows of each cell).
Solver = Callable[[list[Problem], Source, list[Array]], list[CellFit]]


def is_late(progress: Progress) -> bool:
    """Whether cells are left as they are; rounds (`max_iter`) count between trees."""
    limit = progress.max_time
    return progress.stop_asked or (limit is not None and progress.seconds >= limit)


@dataclass(frozen=True)
class Lot:
    """The rows of some parts, at hand, and the cells that they are cut into."""

    source: RowSubset
    problems: list[Problem]
    trees: list[tuple[int, Tree]]  # the number of each part, and its lower levels
    members: list[Array]  # rows of the cells of these, one after the other


class FarRows(PartedRows):
    """Rows that live elsewhere, to be cut into cells and solved."""

    def solve(
        self, cut: Cut, kernel: AnyKernel, solve: Solver, progress: Progress
    ) -> tuple[Tree, list[CellFit], int]:
        """Return the tree, the machines of its cells, and the rows not come to.

        Time and interrupts are looked at between two groups. What is left then gets
        machines of the sample's rows, about which nothing is proved.
        """
        progress.rows_looked_at += cut.passes * self.source.n_rows
        groups = self._groups(cut.counts)
        logger.info("cells: %d parts in %d groups", cut.top.n_cells, len(groups))
        found: dict[int, tuple[Tree, list[CellFit]]] = {}
        for group in groups:
            if is_late(progress):
                break
            # The pass goes over all rows; the solver counts those that it sees.
            done = progress.rows_looked_at + self.source.n_rows
            own = sum(int(cut.counts[batch].sum()) for batch in group)
            progress.rows_looked_at = done - own
            for lot in self._bring(cut, group):
                found |= _shared_out(lot, solve(lot.problems, lot.source, lot.members))
            progress.rows_looked_at = done
        left = [int(p) for p in np.flatnonzero(cut.counts) if int(p) not in found]
        found |= self._stand_ins(cut, left, kernel)
        nothing = solve_cell(self.problems, self.sample, kernel, self.sampled[:0])
        return *_whole(cut.top, found, nothing), int(cut.counts[left].sum())

    def some_cells(
        self, cut: Cut, n_cells: int, rng: np.random.Generator
    ) -> tuple[Source, list[Array]]:
        """Bring about so many cells, of random parts: their rows, and those of each."""
        sizes, most = cut.counts, min(self.room // 2, n_cells * self.size)
        mixed = rng.permutation(np.flatnonzero((sizes > 0) & (sizes <= self.room)))
        n_parts = max(1, int(np.searchsorted(np.cumsum(sizes[mixed]), most, "right")))
        if len(mixed) == 0:  # rows that cannot be told apart: a sample of them
            few = rng.permutation(self.sampled)[: self.size]
            return self.sample, [np.sort(few)]
        (lot,) = self._bring(cut, [sorted(mixed[:n_parts].tolist())])
        return lot.source, lot.members

    def _groups(self, counts: Array) -> list[list[list[int]]]:
        """Return groups of batches of parts: a group is brought by one pass.

        A part that does not fit holds rows that cannot be told apart: it comes alone.
        """
        there = np.flatnonzero(counts)
        fits = counts[there] <= self.room
        few, crowds = there[fits], there[~fits]
        batches = packed(few.tolist(), counts[few].tolist(), self.room // BATCHES)
        sizes = [int(counts[batch].sum()) for batch in batches]
        groups = packed(batches, sizes, self.room)
        return groups + [[[int(part)]] for part in crowds]

    def _bring(self, cut: Cut, group: list[list[int]]) -> Iterator[Lot]:
        """Yield the lots of a group, brought by one pass."""
        if cut.counts[group[0][0]] > self.room:
            crowd = Crowd(cut.top, self.labels, group[0][0], self.room)
            own = self.source.reduce(crowd, crowd.merge)
            yield self._lot(cut, group[0], [crowd.together(own)] if own else [])
            return
        batch_of = np.full(cut.top.n_cells, -1)
        for number, batch in enumerate(group):
            batch_of[batch] = number
        pieces = self.source.reduce(
            _Pick(cut.top, self.labels, batch_of, len(group)), _side_by_side
        )
        for batch in group:
            yield self._lot(cut, batch, pieces.pop(0))

    def _lot(self, cut: Cut, batch: list[int], pieces: list[Rows]) -> Lot:
        """Return the rows of some parts, cut into cells."""
        n_rows = sum(map(_n_rows, pieces))
        if n_rows != cut.counts[batch].sum():
            raise InvalidInputError(
                f"{self.source!r} had {int(cut.counts[batch].sum()):,} rows in some "
                f"cells and has {n_rows:,} there now: they change from pass to pass. "
                "Save them first, or persist() them."
            )
        rows = join_rows(pieces)
        near = RowSubset(self.source, rows.index, rows)
        part_of = cut.top.cells_of(rows.values)
        trees, members = [], []
        for part in batch:
            own = rows.index[part_of == part]
            rng = np.random.default_rng(cut.seeds[part])
            more = min(cut.below - levels(len(own), self.size), MORE_LEVELS)
            how: Any = {"random": cut.random, "rows": own, "more": more}
            tree, cells = grow(near, self.size, rng, **how)
            trees.append((part, tree))
            members += cells
        return Lot(near, weighed(self.problems, rows), trees, members)

    def _stand_ins(
        self, cut: Cut, left: list[int], kernel: AnyKernel
    ) -> dict[int, tuple[Tree, list[CellFit]]]:
        """Return machines of the sample's rows for parts that were not come to.

        A row of the sample stands for as many of the part as there are for each.
        """
        if not left:
            return {}
        part_of = cut.top.cells_of(self.sample.take(self.sampled).values)

        def one(part: int) -> tuple[int, tuple[Tree, list[CellFit]]]:
            rng, n_rows = np.random.default_rng(cut.seeds[part]), int(cut.counts[part])
            own = np.sort(rng.permutation(self.sampled[part_of == part])[: self.size])
            boost = n_rows / max(len(own), 1)
            problems = [
                replace(p, slack=p.slack * boost, price=p.price * boost)
                for p in self.problems
            ]
            fit = solve_cell(problems, self.sample, kernel, own)
            unknown = np.full(len(problems), np.inf)
            least = np.array([p.least for p in problems])
            fit = replace(fit, primal=unknown, dual=least, n_rows=n_rows)
            return part, (stump(cut.top), [fit])

        return dict(self.source.workers.run(one, left))


@dataclass(frozen=True)
class _Pick:
    """Picks the rows of a group's parts, batch by batch."""

    top: Tree
    labels: Labels
    batch_of: Array  # of each part; -1 where it is of another group
    n_batches: int

    def __call__(self, rows: Rows) -> list[list[Rows]]:
        batch = self.batch_of[self.top.cells_of(rows.values)]
        batch[self.labels.weights(rows) <= 0] = -1
        few = [np.flatnonzero(batch == number) for number in range(self.n_batches)]
        return [[rows.part(own)] if len(own) else [] for own in few]


def _side_by_side(left: list[list[Rows]], right: list[list[Rows]]) -> list[list[Rows]]:
    """Join what two blocks have for each batch; rows are copied together at the end."""
    return [a + b for a, b in zip(left, right, strict=True)]


def _shared_out(lot: Lot, fits: list[CellFit]) -> dict[int, tuple[Tree, list[CellFit]]]:
    """Return the tree and the machines of every part of a lot."""
    if COUNT in lot.source.row_columns:
        fits = [
            replace(one, n_rows=_n_rows(lot.source.take(rows)))
            for one, rows in zip(fits, lot.members, strict=True)
        ]
    found, at = {}, 0
    for part, tree in lot.trees:
        found[part] = tree, fits[at : at + tree.n_cells]
        at += tree.n_cells
    return found


def _whole(
    top: Tree, found: dict[int, tuple[Tree, list[CellFit]]], nothing: CellFit
) -> tuple[Tree, list[CellFit]]:
    """Return one tree, and the machines of its cells in their order."""
    below = [stump(top)] * top.n_cells
    for part, (own, _) in found.items():
        below[part] = own
    tree = graft(top, below)
    deeper = tree.depth - top.depth
    fits = [nothing] * tree.n_cells
    for part, (own, cells) in found.items():
        here = slice(part << deeper, (part + 1) << deeper, 1 << (deeper - own.depth))
        fits[here] = cells
    return tree, fits


def _n_rows(rows: Rows) -> int:
    """Return how many rows these stand for."""
    return int(rows.columns[COUNT].sum()) if COUNT in rows.columns else len(rows)
