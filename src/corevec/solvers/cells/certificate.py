"""The certificate of a model of cells: one problem per cell.

To certify a model on given rows, the rows descend the trees to their cells, and the
machines of each cell are measured on its rows as any model is (`verify`). Nothing is
claimed about the global problem, over all rows at once, which is a different one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from corevec._runtime.enumerations import ProblemKind, StopReason
from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.certificates.verify import verify
from corevec.data.sources import Source, Workers
from corevec.kernels import Rows
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Floor, Problem
from corevec.solvers.cells.cell import common_sign, rows_with_weight, with_cell_price
from corevec.solvers.cells.duplicates import merge_duplicates
from corevec.solvers.cells.fit import Solved
from corevec.solvers.cells.forest import Cells, Forest
from corevec.solvers.cells.tree import Tree
from corevec.solvers.numeric.dual_qp import balance


def _stop_reason(solved: Solved, progress: Progress) -> StopReason:
    """Return why the fit ended."""
    if solved.is_complete:
        return StopReason.CELLS
    reason = progress.spent() or StopReason.INTERRUPT
    # `max_iter` acts between trees only, so it never skips cells.
    skips = solved.n_skipped and reason is StopReason.MAX_ITER
    return StopReason.MAX_TIME if skips else reason


@dataclass(frozen=True)
class _Measured:
    """The bounds of one cell's machines on its rows."""

    gap: float
    primal: float
    dual: float
    offset: Array
    n_rows: int


def certify_cells(
    problems: list[Problem], source: Source, forest: Forest, tol: float
) -> Certificate:
    """Return the certificate of a forest on the rows of `source`.

    On the rows of the fit it equals the fit's certificate, to the solver's accuracy.
    """
    source = source.host_copy()
    progress = Progress(source.n_rows)
    present = np.isin(source.numbers, rows_with_weight(problems, source))
    found: list[_Measured] = []
    for one in forest.trees:
        found += _verify_tree(problems, source, one, present)
        progress.rows_looked_at += int(present.sum())
    n_trees, n_rows = len(forest.trees), [one.n_rows for one in found]
    solved = Solved(
        forest,
        np.array([one.gap for one in found]),
        sum(one.primal for one in found) / n_trees,
        sum(one.dual for one in found) / n_trees,
        len(found),
        max(n_rows),
        np.average([one.offset for one in found], axis=0, weights=n_rows),
    )
    return cells_certificate(solved, progress, problems[0], tol)


def cells_certificate(
    solved: Solved, progress: Progress, problem: Problem, tol: float
) -> Certificate:
    """Return the certificate of the cells' own problems, not of the global one."""
    words = (
        f"{solved.n_cells:,} local problems, one per cell of at most "
        f"{solved.largest:,} rows: {_gaps_in_words(solved)}. "
        "Nothing is claimed about the global problem, over all rows at once, which is "
        f"another one; each of them is a {problem.name}"
    )
    return Certificate.of(
        words,
        (solved.primal, solved.dual),
        progress,
        tol=tol,
        relative_gap=float(solved.gaps.max()),
        n_verified=progress.n_rows - solved.n_skipped,
        converged=False,
        stopped_by=_stop_reason(solved, progress),
        kind=ProblemKind.CELLS,
    )


def _gaps_in_words(solved: Solved) -> str:
    """Return a sentence on the worst and the mean gap of the cells that were solved."""
    known = solved.gaps[np.isfinite(solved.gaps)]
    if len(known) == 0:
        return "none was solved in time, and nothing is proved"
    said = f"the worst gap is {known.max():.1e}, the mean {known.mean():.1e}"
    if len(known) == solved.n_cells:
        return said
    return f"{len(known):,} were solved in time, of these {said}"


def _verify_tree(
    problems: list[Problem], source: Source, one: Cells, present: Array
) -> list[_Measured]:
    """Return the bounds of every cell that has rows, in the order of the cells.

    Threads measure several cells at once. Out-of-core rows are loaded in batches of as
    many as fit.
    """
    found: list[_Measured] = []
    members = _members(source, one.tree, present)
    for loaded, some in source.grouped([rows for _, rows in members]):

        def task(item: tuple[int, Array], loaded: Source = loaded) -> _Measured:
            return _verify_cell(problems, loaded, one, *item)

        found += source.workers.run(task, members[some])
    return found


def _members(source: Source, tree: Tree, present: Array) -> list[tuple[int, Array]]:
    """Return each cell that has present rows, with their numbers; takes one pass."""
    cells = source.map(partial(_cells_of, tree))[present]
    order = np.argsort(cells, kind="stable")
    held, starts = np.unique(cells[order], return_index=True)
    parts = np.split(source.numbers[present][order], starts[1:])
    return list(zip(held.tolist(), map(np.sort, parts), strict=True))


def _cells_of(tree: Tree, rows: Rows) -> Array:
    return tree.cells_of(rows.values)


def _verify_cell(
    problems: list[Problem], source: Source, one: Cells, number: int, rows: Array
) -> _Measured:
    """Return the bounds of the machines of one cell on some rows."""
    cell, local = merge_duplicates(problems, source, rows)
    # The thread pool is busy with cells: waiting for it would be a deadlock.
    alone = cell.using(source.memory_budget, Workers(1))
    parts, offset = [], np.zeros(len(problems))
    for t, problem in enumerate(with_cell_price(local, cell)):
        function = _machine(one, number, t, alone)
        if not function.coef.any() and function.intercept[0] == common_sign(
            problem, alone, one.kernel
        ):
            continue  # the constant of the only class present solves the problem
        if problem.response is not None and problem.has_offset:
            offset[t] = _best_offset(problem, function, alone)
        parts.append(verify(problem, function, float(offset[t]), alone))
    return _Measured(
        max((relative_gap(p.primal, p.dual) for p in parts), default=0.0),
        sum(part.primal for part in parts),
        sum(part.dual for part in parts),
        offset,
        len(rows),
    )


def _machine(one: Cells, number: int, t: int, cell: Source) -> KernelExpansion:
    """Return output `t` of a cell; a constant has one row with coefficient 0."""
    start, stop = one.starts[number], one.starts[number + 1]
    used = start + np.flatnonzero(one.coef[start:stop, t])
    intercept = one.intercepts[number, t : t + 1]
    if len(used) == 0:
        few = cell.block(0, 1)
        return KernelExpansion(one.kernel, few, np.zeros((1, 1)), intercept)
    basis = Rows(one.basis.values[used], one.basis.index[used])
    return KernelExpansion(one.kernel, basis, one.coef[used, t : t + 1], intercept)


def _best_offset(problem: Problem, function: KernelExpansion, cell: Source) -> float:
    """Return the tube with the least objective: ``sum omega (v - t)+`` equals T."""
    rows = cell.block(0, cell.n_rows)
    values = function.evaluate(rows, function.prepared())[:, 0]
    sides = [problem.terms(rows, function.kernel, side) for side in problem.sides]
    v = np.concatenate([terms.target - terms.sign * values for terms in sides])
    omega = np.concatenate([terms.omega for terms in sides])
    present = omega > 0
    t = balance(v[present], omega[present], problem.price) if present.any() else 0.0
    return t if problem.floor is Floor.NONE else max(t, 0.0)


__all__ = ["cells_certificate", "certify_cells"]
