"""Cells: one small exact machine in every leaf of a balanced tree.

For data with a local boundary (covertype: an exact model has a hundred thousand support
vectors; 3000 basis rows leave 14.6 % error) a tree splits the rows into cells of some
thousand rows. Each cell is solved exactly (`cell`), and a row is predicted by the
machine of its cell (`forest`). Several trees are averaged. This is the mixture of local
machines of Collobert, Bengio and Bengio (2002) with balanced cells.

The certificate is about each cell's own problem. The global problem, over all rows at
once, is a different one: nothing is claimed about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.data.sources import HostCopy, Source, stacked
from corevec.kernels import AnyKernel, Rows, scale_of
from corevec.problems.family import Problem
from corevec.solvers.cells.cell import (
    CellSolution,
    constant_solution,
    rows_with_weight,
    solve_cell,
)
from corevec.solvers.cells.forest import Cells, Forest
from corevec.solvers.cells.out_of_core import OutOfCoreRows, must_stop
from corevec.solvers.cells.tree import Directions, Tree, grow

# Returns a tree and the solutions of its cells; takes whether directions are random.
TreeSolver = Callable[[bool], tuple[Tree, list[CellSolution]]]


@dataclass(frozen=True)
class CellsTask:
    """What is fitted: the problems, the rows, the kernel, and the cells asked for."""

    problems: list[Problem]
    source: Source
    kernel: AnyKernel
    size: int  # rows per cell
    n_trees: int
    rng: np.random.Generator


@dataclass(frozen=True)
class Solved:
    """A forest, and the bounds of the problems of its cells."""

    forest: Forest
    gaps: Array  # of each cell with rows, in the order of the trees
    primal: float
    dual: float
    n_cells: int
    largest: int  # rows of the largest cell
    offset: Array  # mean over the cells, weighted by their rows
    is_complete: bool = True  # no cell and no tree was skipped
    n_skipped: int = 0  # rows of cells that were skipped for lack of time


def solve(task: CellsTask, progress: Progress) -> Solved:
    """Return the forest of `task`: trees are grown, and every cell is solved.

    Out-of-core rows are loaded in groups of cells. The time limit and interrupts act
    before each cell: the skipped cells of the first tree get constant machines, and a
    later tree that is not finished is left out.
    """
    trees: list[Cells] = []
    solutions: list[CellSolution] = []
    n_skipped = 0
    solve_tree = _tree_solver(task, progress)
    for number in range(task.n_trees):
        tree, own = solve_tree(number > 0)
        skipped = sum(one.n_rows for one in own if not np.isfinite(one.gap))
        if skipped and trees:
            break
        n_skipped += skipped
        trees.append(_join(tree, task.kernel, own))
        solutions += own
        if progress.spent() is not None:
            break
    held = [one for one in solutions if one.n_rows]
    return Solved(
        Forest(tuple(trees)),
        np.array([one.gap for one in held]),
        float(sum(one.primal.sum() for one in held)) / len(trees),
        float(sum(one.dual.sum() for one in held)) / len(trees),
        len(held),
        max(one.n_rows for one in held),
        _mean_offset(held),
        is_complete=len(trees) == task.n_trees and not n_skipped,
        n_skipped=n_skipped,
    )


def _tree_solver(task: CellsTask, progress: Progress) -> TreeSolver:
    """Return the function that solves one tree, in memory or out of core."""
    rng = task.rng
    if task.source.holds(task.source.n_rows):
        rows = rows_with_weight(task.problems, task.source)

        def solve_in_memory(random: bool) -> tuple[Tree, list[CellSolution]]:
            how = Directions(random, scale_of(task.kernel))
            own = task.source, task.size, rng
            tree, members = grow(*own, directions=how, rows=rows)
            recorder = _Recorder(progress, len(members))
            return tree, list(_solve_all(task, members, recorder))

        return solve_in_memory
    scale = scale_of(task.kernel)
    remote = OutOfCoreRows(task.problems, task.source, task.size, rng, scale)

    def solve_out_of_core(random: bool) -> tuple[Tree, list[CellSolution]]:
        parts = remote.partition(rng, random)
        recorder = _Recorder(progress, parts.expected_cells(task.size))

        def solve(
            problems: list[Problem], source: Source, members: list[Array]
        ) -> list[CellSolution]:
            own = replace(task, problems=problems, source=source)
            return list(_solve_all(own, members, recorder))

        return remote.solve(parts, task.kernel, solve, progress)

    return solve_out_of_core


def _solve_all(
    task: CellsTask, members: list[Array], recorder: _Recorder
) -> Iterator[CellSolution]:
    """Yield the solution of every cell, in order; threads solve several at once.

    Once the fit must stop, the solutions are constants, which cost next to nothing.
    """
    own = task.problems, task.source, task.kernel
    stop = partial(must_stop, recorder.progress)

    def solve(rows: Array) -> CellSolution:
        return constant_solution(*own, rows) if stop() else solve_cell(*own, rows)

    if isinstance(task.source, HostCopy):
        from corevec.solvers.cells.batches import solve_cells  # imports torch

        found = solve_cells(
            task.problems, task.source, task.kernel, members, solve, stop
        )
    else:
        found = task.source.workers.run(solve, members)
    return recorder.record(found, len(members))


class _Recorder:
    """Records the progress over the cells of one tree, about 16 times."""

    def __init__(self, progress: Progress, n_cells: int):
        self.progress, self.n_cells = progress, n_cells
        self.n_seen = 0  # cells solved or skipped
        self.n_solved = 0
        self.worst_gap = 0.0
        self.n_rows = 0  # rows of the cells solved since the last record

    def record(
        self, solutions: Iterable[CellSolution], n_cells: int
    ) -> Iterator[CellSolution]:
        """Yield the solutions of `n_cells` cells, recording on the way."""
        step, last = max(1, self.n_cells // 16), self.n_seen + n_cells
        for one in solutions:
            self.n_seen += 1
            if np.isfinite(one.gap):
                self.n_solved, self.n_rows = self.n_solved + 1, self.n_rows + one.n_rows
                self.worst_gap = max(self.worst_gap, one.gap)
            if self.n_seen == last or (self.n_rows and self.n_seen % step == 0):
                self._record(len(one.basis))
            yield one

    def _record(self, n_vectors: int) -> None:
        self.progress.rows_looked_at += self.n_rows
        self.progress.record(
            core=self.n_solved,
            support=n_vectors,
            gap=self.worst_gap if self.n_solved else float("inf"),
            dual=float("nan"),
            looked_at=self.n_rows,
            exact=False,
            cells=max(self.n_cells, self.n_seen),
        )
        self.n_rows = 0


def _mean_offset(solutions: list[CellSolution]) -> Array:
    """Return the mean over the cells that are solved, weighted by their rows."""
    solved = [one for one in solutions if np.isfinite(one.gap)] or solutions
    n_rows = [one.n_rows for one in solved]
    return np.asarray(np.average([one.offset for one in solved], 0, n_rows))


def _join(tree: Tree, kernel: AnyKernel, solutions: list[CellSolution]) -> Cells:
    """Return the machines of one tree, the vectors of its cells stacked."""
    sizes = [len(one.basis) for one in solutions]
    basis = Rows(
        stacked([one.basis.values for one in solutions]),
        np.concatenate([one.basis.index for one in solutions]),
    )
    return Cells(
        tree,
        kernel,
        basis,
        np.concatenate([one.coef for one in solutions]),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.stack([one.intercept for one in solutions]),
    )
