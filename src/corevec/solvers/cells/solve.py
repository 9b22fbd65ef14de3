"""The machines of one cell, solved exactly.

By the compiled Newton method (`_cell_loops.newton`); balls, automatic tubes and
matrices near singular by the solver of the core set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops import cells as _cell_loops
from corevec.data.sources import Source, of_rows
from corevec.kernels import AnyKernel, Rows, finite
from corevec.models.certificate import relative_gap
from corevec.problems.family import Problem
from corevec.solvers.cells.cell import Cell, merged, only_sign, present, priced
from corevec.solvers.coreset.core import Core

# Shares of a cell's rows that are solved one after the other, each of so many or more.
STAGES, FEWEST = (0.2, 0.5, 1.0), 50
MOST_STEPS = 100


@dataclass(frozen=True)
class CellFit:
    """The machines of one cell: vectors, coefficients, and what was proved."""

    basis: Rows
    coef: Array  # (vectors, outputs)
    intercept: Array  # (outputs,)
    primal: Array  # per output; an output without rows of both kinds has none: 0
    dual: Array
    n_rows: int
    offset: Array  # t of each problem: the tube of a regression

    @property
    def gap(self) -> float:
        """The largest relative gap of the cell's problems."""
        pairs = zip(self.primal, self.dual, strict=True)
        gaps = (relative_gap(float(p), float(d)) for p, d in pairs if p > 0)
        return max(gaps, default=0.0)


def solve_cell(
    problems: list[Problem], source: Source, kernel: AnyKernel, numbers: Array
) -> CellFit:
    """Return the exact machines of the rows of one cell.

    A problem with rows of one sign only is that sign; one without rows is zero.
    """
    if len(numbers) == 0:
        return _empty(problems, source)
    cell, local = merged(problems, source, numbers)
    local = priced(local, cell)
    matrix = _Matrix(cell, kernel)
    machines = [_machine(problem, cell, matrix) for problem in local]
    coef = np.stack([one.coef for one in machines], axis=1)
    used = np.flatnonzero(coef.any(axis=1))
    numbers_of = {
        name: np.array([getattr(one, name) for one in machines])
        for name in ("intercept", "primal", "dual", "offset")
    }
    basis = Rows(cell.values[used], cell.index[used])
    return CellFit(basis, coef[used], n_rows=len(numbers), **numbers_of)


def _empty(problems: list[Problem], source: Source) -> CellFit:
    none = np.empty(0, dtype=np.int64)
    zero = np.zeros(len(problems))
    rows = source.take(none)
    return CellFit(
        Rows(rows.values, none), np.zeros((0, len(problems))), zero, zero, zero, 0, zero
    )


def stand_in(
    problems: list[Problem], source: Source, kernel: AnyKernel, numbers: Array
) -> CellFit:
    """Return machines of a cell that there is no time for: a constant each.

    The mean sign of a class's rows, or their mean target. Of rows with one sign that is
    the machine itself; of others nothing is proved.
    """
    rows, none = source.take(numbers), _empty(problems, source)
    parts = [_mean(problem, rows, kernel) for problem in problems]
    is_done = np.array([done for _, done in parts])
    return replace(
        none,
        intercept=np.array([mean for mean, _ in parts]),
        primal=np.where(is_done, 0.0, np.inf),
        dual=np.where(is_done, 0.0, [one.least for one in problems]),
        n_rows=len(numbers),
    )


def _mean(problem: Problem, rows: Rows, kernel: AnyKernel) -> tuple[float, bool]:
    """Return the weighted mean of what is to be learnt, and whether that is exact."""
    terms = problem.terms(rows, kernel)
    weight = np.where(terms.omega > 0, problem.labels.weights(rows), 0.0)
    if not weight.any():
        return 0.0, True
    if problem.response is not None:
        return float(np.average(of_rows(problem.response, rows), weights=weight)), False
    mean = float(np.average(terms.sign, weights=weight))
    return mean, problem.positive is not None and abs(mean) == 1


@dataclass(frozen=True)
class _Machine:
    """The solution of one problem in a cell."""

    coef: Array
    intercept: float
    primal: float = 0.0
    dual: float = 0.0
    offset: float = 0.0


class _Matrix:
    """Kernel values among the rows of a cell, made when a problem needs them."""

    def __init__(self, cell: Cell, kernel: AnyKernel):
        self.cell, self.kernel = cell, kernel
        self.rows = cell.block(0, cell.n_rows)
        self._made: dict[bool, Array] = {}

    def values(self, has_bias: bool) -> Array:
        """Return ``k_ij + [bias]``, shared by all problems of the cell."""
        if has_bias not in self._made:
            points = self.kernel.prepare_basis(self.rows)
            made = finite(self.kernel.block(points, points), self.kernel)
            made += float(has_bias)  # in place: a thousand rows have 8 MB
            self._made[has_bias] = made
        return self._made[has_bias]


def _machine(problem: Problem, cell: Cell, matrix: _Matrix) -> _Machine:
    sign = only_sign(problem, cell, matrix.kernel)
    if sign is not None:
        return _Machine(np.zeros(cell.n_rows), sign)
    found = None
    if not problem.has_offset and not problem.is_hard:
        found = _by_newton(problem, matrix)
    return _by_core(problem, cell, matrix.kernel) if found is None else found


def _by_newton(problem: Problem, matrix: _Matrix) -> _Machine | None:
    """Solve by the compiled Newton method; None where rounding ended it early.

    On a random part of the rows first: then few of the others change sides, while from
    nothing every row is inside the margin and the first steps factor all of them.
    """
    terms = problem.terms(matrix.rows, matrix.kernel)
    K, omega, n = matrix.values(problem.has_bias), terms.omega, len(terms.omega)
    z, side = terms.sign, terms.sign
    if problem.response is not None:
        z, side = terms.target + problem.tube, np.zeros(n)
    a, order = np.zeros(n), np.random.default_rng(n).permutation(n)
    try:
        for share in STAGES if n > 4 * FEWEST else (1.0,):
            here = np.zeros(n)
            few = order[: int(share * n)]
            here[few] = omega[few]
            steps = _cell_loops.newton(K, z, side, problem.tube, here, a, MOST_STEPS)
    except np.linalg.LinAlgError:
        return None  # not positive definite, numerically: the core set's solver helps
    relative = matrix.kernel.rounding(matrix.cell.n_features)
    found = _measured(problem, K, z, side, omega, a, relative)
    solved = steps > 0 or relative_gap(found.primal, found.dual) <= 1e-9
    return found if solved else None


def _measured(
    problem: Problem,
    K: Array,
    z: Array,
    side: Array,
    omega: Array,
    a: Array,
    relative: float,
) -> _Machine:
    """Return the machine with coefficients `a`, and what they prove.

    `relative` bounds the rounding of kernel values (`kernel.rounding`).
    """
    f, there = K @ a, omega > 0
    wrong = np.where(side == 0, np.abs(z - f), side * (z - f)) - problem.tube
    excess = np.maximum(wrong, 0.0)
    loss = float(omega @ excess**2) / 2
    norm_sq, mass = float(a @ f), float(np.abs(a).sum())
    curve = norm_sq + float((a[there] ** 2 / omega[there]).sum())
    slope = float(a @ z) - problem.tube * mass
    dual = problem.dual_at_best_scale(slope, curve, mass)
    error = relative * mass * float(np.abs(K.diagonal()).max())
    rounding = mass * error
    intercept = float(a.sum()) if problem.has_bias else 0.0
    lost = error * float(omega @ (excess + error / 2))
    primal = problem.unit * (norm_sq / 2 + loss + rounding + lost)
    return _Machine(a, intercept, primal, problem.unit * (dual - rounding))


def _by_core(problem: Problem, cell: Cell, kernel: AnyKernel) -> _Machine:
    """Solve by the core set's own solver: balls, tubes, matrices near singular."""
    entries = present(problem, cell, kernel)
    core = Core(problem, cell, kernel, max_size=len(entries))
    _solve_in_stages(core, entries, np.random.default_rng(cell.n_rows))
    signed = core.multipliers * core.terms.sign
    coef = np.zeros(cell.n_rows)
    np.add.at(coef, cell.positions(core.rows), signed)
    intercept = float(signed.sum()) if problem.has_bias else 0.0
    loss = float(core.loss(((1.0, core.offset),))[0])
    primal = core.norm_sq / 2 + problem.price * core.offset + loss
    upper, lower = primal + core.rounding, core.dual - core.rounding
    upper += core.loss_error()
    unit = problem.unit
    return _Machine(coef, intercept, unit * upper, unit * lower, core.offset)


def _solve_in_stages(core: Core, entries: Array, rng: np.random.Generator) -> None:
    """Solve on a random part of the entries first: then few of them change sides.

    From nothing every row is inside the margin, and the first steps factor matrices of
    all rows.
    """
    mixed, done = rng.permutation(entries), 0
    for share in STAGES:
        stop = int(share * len(mixed))
        if stop - done < FEWEST and share < 1:
            continue
        core.add(np.sort(mixed[done:stop]))
        core.solve("newton", 1e-6)
        done = stop
