"""Cells: one small exact machine in every leaf of a balanced tree.

For data whose boundary is local (covertype: an exact model has a hundred thousand
support vectors, 3000 basis rows leave 14.6 % error) a tree cuts the rows into cells of
some thousand, each is solved exactly (`cell_solver.py`), and a row is predicted by the
machine of its cell (`cell_forest.py`). Several trees are averaged. It is the mixture of
local machines of Collobert, Bengio and Bengio (2002) with balanced cells.

What is certified is each cell's own problem. The global problem, over all rows at once,
is a different one: nothing is claimed about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.data.sources import HostCopy, Source, stacked
from corevec.kernels import AnyKernel, Rows
from corevec.problems.family import Problem
from corevec.solvers.cells.cell import rows_that_weigh
from corevec.solvers.cells.forest import Cells, Forest
from corevec.solvers.cells.out_of_core import FarRows, is_late
from corevec.solvers.cells.solve import CellFit, solve_cell, stand_in
from corevec.solvers.cells.tree import Tree, grow


@dataclass(frozen=True)
class Solved:
    """A forest, and what is known about its cells."""

    forest: Forest
    gaps: Array  # of each cell that holds rows, in the order of the trees
    primal: float
    dual: float
    n_cells: int
    largest: int
    offset: Array  # mean over the cells, by their rows
    is_whole: bool = True  # nothing was left out for want of time
    n_left: int = 0  # rows of cells that were not come to


@dataclass
class _Tally:
    """The cells of one tree that are solved, of how many, and their worst gap."""

    n_cells: int
    seen: int = 0  # solved or not
    done: int = 0
    worst: float = 0.0


def fit(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    size: int,
    n_trees: int,
    progress: Progress,
    rng: np.random.Generator,
) -> Solved:
    """Grow trees and solve the problems in every cell.

    Of rows that live elsewhere a group of cells is brought at a time. Time and
    interrupts are looked at before each cell: the first tree then has stand-ins for the
    others, a later one is left out.
    """
    trees: list[Cells] = []
    fits: list[CellFit] = []
    n_left = 0
    is_held = source.holds(source.n_rows)
    far = None if is_held else FarRows(problems, source, size, rng)
    rows = None if far is not None else rows_that_weigh(problems, source)
    for number in range(n_trees):
        if far is not None:
            tree, own, _ = _solve_far(far, kernel, rng, number > 0, progress)
        else:
            tree, members = grow(source, size, rng, random=number > 0, rows=rows)
            tally = _Tally(len(members))
            own = list(_solve_all(problems, source, kernel, members, progress, tally))
        left = sum(one.n_rows for one in own if not np.isfinite(one.gap))
        if left and trees:
            break
        n_left += left
        trees.append(_join(tree, kernel, own, source))
        fits += own
        if progress.spent() is not None:
            break
    held = [one for one in fits if one.n_rows]
    return Solved(
        Forest(tuple(trees)),
        np.array([one.gap for one in held]),
        float(sum(one.primal.sum() for one in held)) / len(trees),
        float(sum(one.dual.sum() for one in held)) / len(trees),
        len(held),
        max(one.n_rows for one in held),
        _mean_offset(held),
        is_whole=len(trees) == n_trees and not n_left,
        n_left=n_left,
    )


def _mean_offset(fits: list[CellFit]) -> Array:
    """Return the mean over the cells that are solved, by their rows."""
    solved = [one for one in fits if np.isfinite(one.gap)] or fits
    n_rows = [one.n_rows for one in solved]
    return np.asarray(np.average([one.offset for one in solved], 0, n_rows))


def _solve_far(
    far: FarRows,
    kernel: AnyKernel,
    rng: np.random.Generator,
    random: bool,
    progress: Progress,
) -> tuple[Tree, list[CellFit], int]:
    """Return a tree of rows that live elsewhere, its machines, and the rows left."""
    cut = far.cut(rng, random)
    tally = _Tally(cut.expected_cells(far.size))

    def solve(
        problems: list[Problem], source: Source, members: list[Array]
    ) -> list[CellFit]:
        return list(_solve_all(problems, source, kernel, members, progress, tally))

    return far.solve(cut, kernel, solve, progress)


def _solve_all(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    members: list[Array],
    progress: Progress,
    tally: _Tally,
) -> Iterator[CellFit]:
    """Yield the machines of every cell, in order; threads work on several at once.

    Where time is up, or an interrupt came, stand-ins, which cost next to nothing.
    """
    n_rows, last = 0, tally.seen + len(members)

    def solve(rows: Array) -> CellFit:
        way = stand_in if is_late(progress) else solve_cell
        return way(problems, source, kernel, rows)

    step = max(1, tally.n_cells // 16)
    found = source.workers.run(solve, members)
    if isinstance(source, HostCopy):
        from corevec.solvers.cells.gpu_batches import (
            solve_cells,  # its module needs torch
        )

        late = partial(is_late, progress)
        found = solve_cells(problems, source, kernel, members, solve, late)
    for one in found:
        tally.seen += 1
        if np.isfinite(one.gap):
            tally.done, n_rows = tally.done + 1, n_rows + one.n_rows
            tally.worst = max(tally.worst, one.gap)
        if tally.seen == last or (n_rows and tally.seen % step == 0):
            progress.rows_looked_at += n_rows
            progress.record(
                core=tally.done,
                support=len(one.basis),
                gap=tally.worst if tally.done else float("inf"),
                dual=float("nan"),
                looked_at=n_rows,
                exact=False,
                cells=max(tally.n_cells, tally.seen),
            )
            n_rows = 0
        yield one


def _join(tree: Tree, kernel: AnyKernel, fits: list[CellFit], source: Source) -> Cells:
    sizes = [len(one.basis) for one in fits]
    basis = Rows(
        stacked([one.basis.values for one in fits]),
        np.concatenate([one.basis.index for one in fits]),
    )
    return Cells(
        tree,
        kernel,
        basis,
        np.concatenate([one.coef for one in fits]),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.stack([one.intercept for one in fits]),
    )


__all__ = ["Cells", "Forest", "Solved", "fit"]
