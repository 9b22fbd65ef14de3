"""One cell: its rows, its problems, and their exact solution.

Duplicate rows of a large cell are merged (`duplicates`). A problem is solved by the
compiled Newton method (`backend.loops.cells.newton`); balls, automatic tubes and
nearly singular kernel matrices are left to the core set solver.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops import cells as loops
from corevec.data.sources import RowSubset, Source, of_rows
from corevec.kernels import AnyKernel, Rows, finite
from corevec.models.certificate import relative_gap
from corevec.problems.family import Problem, Terms
from corevec.solvers.cells.duplicates import merge_duplicates
from corevec.solvers.coreset.core import Core, Solver

# A cell is solved on these shares of its rows one after the other, each a warm start
# for the next, if a stage adds at least so many rows.
STAGES, MIN_STAGE_ROWS = (0.2, 0.5, 1.0), 50
MAX_NEWTON_STEPS = 100
# A solution that rounding ended early counts as exact up to this relative gap.
MAX_EXACT_GAP = 1e-9


def rows_with_weight(problems: list[Problem], source: Source) -> Array:
    """Return the numbers of the rows of positive weight; all others are absent."""
    labels = problems[0].labels
    if labels.sample_weight is None and labels.class_weight is None:
        return source.numbers
    return source.numbers[source.map(labels.weights) > 0]


# --- Problems ---


def with_cell_price(problems: list[Problem], cell: Source) -> list[Problem]:
    """Return the problems with the price of a tube for the rows of a cell.

    An automatic tube costs ``C mu S``, with S the total weight of the cell's rows.
    """
    if not any(one.response is not None and one.has_offset for one in problems):
        return problems
    labels = problems[0].labels
    mass = float(labels.weights(cell.block(0, cell.n_rows)).sum())
    share = mass / labels.total_weight
    return [replace(one, price=one.price * share) for one in problems]


def common_sign(problem: Problem, cell: Source, kernel: AnyKernel) -> float | None:
    """Return the sign that all rows of a two-class problem share, or None.

    The sign is 0 if the problem has no rows.
    """
    if problem.positive is None:
        return None
    terms = problem.terms(cell.block(0, cell.n_rows), kernel)
    signs = np.unique(terms.sign[terms.omega > 0])
    if len(signs) == 0:
        return 0.0
    return float(signs[0]) if len(signs) == 1 else None


def newton_applies(problem: Problem) -> bool:
    """Return whether Newton's method solves the problem: no offset, finite slack."""
    return not problem.has_offset and not problem.is_hard


def newton_targets(problem: Problem, terms: Terms) -> tuple[Array, Array]:
    """Return the target and the side of each row for Newton's method.

    The side is 0 for the rows of a regression, which can be violated on both sides.
    """
    if problem.response is None:
        return terms.sign, terms.sign
    return terms.target + problem.tube, 0.0 * terms.sign


def stage_order(n_rows: int) -> Array:
    """Return the random order in which the rows of a cell enter the stages."""
    return np.random.default_rng(n_rows).permutation(n_rows)


# --- Solution ---


@dataclass(frozen=True)
class CellSolution:
    """The machines of one cell: support vectors, coefficients and certified bounds."""

    basis: Rows
    coef: Array  # (vectors, outputs)
    intercept: Array  # (outputs,)
    primal: Array  # (outputs,); 0 for an output that a constant solves
    dual: Array  # (outputs,)
    n_rows: int
    offset: Array  # (outputs,), t of each problem: the tube of a regression

    @property
    def gap(self) -> float:
        """The largest relative gap of the cell's problems."""
        pairs = zip(self.primal, self.dual, strict=True)
        gaps = (relative_gap(float(p), float(d)) for p, d in pairs if p > 0)
        return max(gaps, default=0.0)


@dataclass(frozen=True)
class Sums:
    """Sums over a cell's rows that bound the optimum of one problem, given a solution.

    `rounding` bounds the error of ``a'Ka`` due to the rounding of kernel values, and
    `loss_error` that of the loss.
    """

    norm_sq: float  # a'Ka
    loss: float  # sum of omega max(0, violation)^2 / 2
    ridge: float  # sum of a^2 / omega
    slope: float  # a'z - tube |a|
    mass: float  # |a|, the sum of absolute values
    rounding: float
    loss_error: float = 0.0

    def bounds(self, problem: Problem) -> tuple[float, float]:
        """Return the primal and the dual value, in the units of the user's problem."""
        curve = self.norm_sq + self.ridge
        dual = problem.dual_at_best_scale(self.slope, curve, self.mass)
        primal = self.norm_sq / 2 + self.loss + self.rounding + self.loss_error
        return problem.unit * primal, problem.unit * (dual - self.rounding)


@dataclass(frozen=True)
class _Machine:
    """The solution of one problem in a cell."""

    coef: Array
    intercept: float
    primal: float = 0.0
    dual: float = 0.0
    offset: float = 0.0


class _KernelMatrix:
    """Kernel values among the rows of a cell, computed when a problem needs them."""

    def __init__(self, cell: RowSubset, kernel: AnyKernel):
        self.cell, self.kernel = cell, kernel
        self.rows = cell.block(0, cell.n_rows)
        self._computed: dict[bool, Array] = {}

    def values(self, has_bias: bool) -> Array:
        """Return ``k_ij + [bias]``, shared by all problems of the cell."""
        if has_bias not in self._computed:
            points = self.kernel.prepare_basis(self.rows)
            values = finite(self.kernel.block(points, points), self.kernel)
            values += float(has_bias)  # in place: a thousand rows have 8 MB
            self._computed[has_bias] = values
        return self._computed[has_bias]


def solve_cell(
    problems: list[Problem], source: Source, kernel: AnyKernel, numbers: Array
) -> CellSolution:
    """Return the exact machines of the rows of one cell.

    A two-class problem with rows of one sign is solved by that constant; a problem
    without rows by zero.
    """
    if len(numbers) == 0:
        return _empty(problems, source)
    cell, local = merge_duplicates(problems, source, numbers)
    matrix = _KernelMatrix(cell, kernel)
    machines = [_solve(one, cell, matrix) for one in with_cell_price(local, cell)]
    coef = np.stack([one.coef for one in machines], axis=1)
    used = np.flatnonzero(coef.any(axis=1))
    return CellSolution(
        Rows(cell.values[used], cell.index[used]),
        coef[used],
        intercept=np.array([one.intercept for one in machines]),
        primal=np.array([one.primal for one in machines]),
        dual=np.array([one.dual for one in machines]),
        n_rows=len(numbers),
        offset=np.array([one.offset for one in machines]),
    )


def _empty(problems: list[Problem], source: Source) -> CellSolution:
    none = np.empty(0, dtype=np.int64)
    zero = np.zeros(len(problems))
    basis = Rows(source.take(none).values, none)
    return CellSolution(basis, np.zeros((0, len(problems))), zero, zero, zero, 0, zero)


def constant_solution(
    problems: list[Problem], source: Source, kernel: AnyKernel, numbers: Array
) -> CellSolution:
    """Return constant machines for a cell that is skipped for lack of time.

    Each predicts the mean sign or the mean target of its rows. That is exact for rows
    of one sign; nothing is proved about others.
    """
    rows = source.take(numbers)
    means = [_mean(problem, rows, kernel) for problem in problems]
    is_exact = np.array([exact for _, exact in means])
    return replace(
        _empty(problems, source),
        intercept=np.array([mean for mean, _ in means]),
        primal=np.where(is_exact, 0.0, np.inf),
        dual=np.where(is_exact, 0.0, [one.least for one in problems]),
        n_rows=len(numbers),
    )


def _mean(problem: Problem, rows: Rows, kernel: AnyKernel) -> tuple[float, bool]:
    """Return the weighted mean sign or target, and whether it solves the problem."""
    terms = problem.terms(rows, kernel)
    weight = np.where(terms.omega > 0, problem.labels.weights(rows), 0.0)
    if not weight.any():
        return 0.0, True
    if problem.response is not None:
        return float(np.average(of_rows(problem.response, rows), weights=weight)), False
    mean = float(np.average(terms.sign, weights=weight))
    return mean, problem.positive is not None and abs(mean) == 1


def _solve(problem: Problem, cell: RowSubset, matrix: _KernelMatrix) -> _Machine:
    sign = common_sign(problem, cell, matrix.kernel)
    if sign is not None:
        return _Machine(np.zeros(cell.n_rows), sign)
    found = _solve_by_newton(problem, matrix) if newton_applies(problem) else None
    return _solve_by_core(problem, cell, matrix.kernel) if found is None else found


def _solve_by_newton(problem: Problem, matrix: _KernelMatrix) -> _Machine | None:
    """Return the solution by Newton's method, or None where rounding ended it early.

    A random part of the rows is solved first: few of the others then change sides.
    From a cold start every row violates its margin, and the first steps would factor
    all of them.
    """
    terms = problem.terms(matrix.rows, matrix.kernel)
    K, n = matrix.values(problem.has_bias), len(terms.omega)
    z, side = newton_targets(problem, terms)
    machine = loops.Machine(z, side, float(problem.tube), terms.omega)
    a, order = np.zeros(n), stage_order(n)
    try:
        for share in STAGES if n > 4 * MIN_STAGE_ROWS else (1.0,):
            rows = order[: int(share * n)]
            omega = np.zeros(n)
            omega[rows] = terms.omega[rows]
            own = machine._replace(omega=omega)
            steps = loops.newton(K, own, a, MAX_NEWTON_STEPS)
    except np.linalg.LinAlgError:
        return None  # numerically indefinite, which the core set solver can handle
    rounding = matrix.kernel.rounding(matrix.cell.n_features)
    primal, dual = _measure(K, machine, a, rounding).bounds(problem)
    if steps <= 0 and relative_gap(primal, dual) > MAX_EXACT_GAP:
        return None
    return _Machine(a, float(a.sum()) if problem.has_bias else 0.0, primal, dual)


def _measure(K: Array, machine: loops.Machine, a: Array, rounding: float) -> Sums:
    """Return the sums that bound the optimum, given the coefficients `a`.

    `rounding` bounds the relative rounding error of kernel values.
    """
    z, side, tube, omega = machine
    f, present = K @ a, omega > 0
    violation = np.where(side == 0, np.abs(z - f), side * (z - f)) - tube
    excess = np.maximum(violation, 0.0)
    mass = float(np.abs(a).sum())
    error = rounding * mass * float(np.abs(K.diagonal()).max())
    return Sums(
        norm_sq=float(a @ f),
        loss=float(omega @ excess**2) / 2,
        ridge=float((a[present] ** 2 / omega[present]).sum()),
        slope=float(a @ z) - tube * mass,
        mass=mass,
        rounding=mass * error,
        loss_error=error * float(omega @ (excess + error / 2)),
    )


def _solve_by_core(problem: Problem, cell: RowSubset, kernel: AnyKernel) -> _Machine:
    """Return the solution by the core set solver."""
    entries = _entries_with_weight(problem, cell, kernel)
    core = Core(problem, cell, kernel, max_size=len(entries))
    _solve_in_stages(core, entries, np.random.default_rng(cell.n_rows))
    signed = core.multipliers * core.terms.sign
    coef = np.zeros(cell.n_rows)
    np.add.at(coef, np.searchsorted(cell.index, core.rows), signed)
    intercept = float(signed.sum()) if problem.has_bias else 0.0
    loss = float(core.loss(((1.0, core.offset),))[0])
    primal = core.norm_sq / 2 + problem.price * core.offset + loss
    upper, lower = primal + core.rounding, core.dual - core.rounding
    upper += core.loss_error()
    unit = problem.unit
    return _Machine(coef, intercept, unit * upper, unit * lower, core.offset)


def _entries_with_weight(problem: Problem, cell: Source, kernel: AnyKernel) -> Array:
    """Return the entries of the rows of positive weight, on all sides."""
    rows = cell.block(0, cell.n_rows)
    entries = []
    for side in problem.sides:
        present = problem.terms(rows, kernel, side).omega > 0
        entries.append(problem.entries(rows.index[present], side))
    return np.concatenate(entries)


def _solve_in_stages(core: Core, entries: Array, rng: np.random.Generator) -> None:
    """Solve on random parts of the entries first, as in `_solve_by_newton`."""
    mixed, done = rng.permutation(entries), 0
    for share in STAGES:
        stop = int(share * len(mixed))
        if stop - done < MIN_STAGE_ROWS and share < 1:
            continue
        core.add(np.sort(mixed[done:stop]))
        core.solve(Solver())
        done = stop
