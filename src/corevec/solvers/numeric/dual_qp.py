"""The small quadratic programme on the core set, warm-started.

Both solvers work on the dual of ``problems.py`` restricted to the core rows:

    max over b >= 0   p'b - b'(K + diag(ridge))b/2,      sum(b) = `total` if given

with K the signed kernel matrix and ``ridge = 1/omega``. `newton` is exact: a
semismooth Newton method on the primal whose every step solves a linear system over
the rows inside the margin. `smo` is the paper's: pairs of multipliers, cheap steps,
slow at large C (1-99 % short of the optimum at C >= 1e5: docs/mathematics.md, 7).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.backend.loops import kernels as _loops
from corevec.solvers.numeric.deadline import Deadline

# Relative primal-dual gap at which a run that ended in rounding counts as solved.
_SOLVED_GAP = 1e-9
# Beyond this an objective has no lower bound: the kernel is indefinite.
_UNBOUNDED = 1e200


@dataclass(frozen=True)
class DualProblem:
    """The programme over the core rows; see the module.

    Attributes
    ----------
    K : ndarray of shape (n, n)
        The signed kernel matrix.
    ridge, p : ndarray of shape (n,)
        ``1/omega``, and the linear term.
    total : float or None
        The sum of the multipliers, where it is given.
    """

    K: Array
    ridge: Array
    p: Array
    total: float | None = None

    def value(self, b: Array) -> float:
        """Return the dual objective; without a `total` at the best scale of `b`."""
        if not b.any():
            return 0.0
        # One product with all of K: gathering the rows with b > 0 would copy as much.
        curve = b @ (self.K @ b) + b @ (self.ridge * b)
        slope = self.p @ b
        if self.total is not None:
            return float(slope - curve / 2)
        return float(slope**2 / (2 * curve)) if curve > 0 and slope > 0 else 0.0


@dataclass(frozen=True)
class Solution:
    """Multipliers of the core rows, and what they prove.

    `offset` is t of the problem; `jitter` what had to be added to the diagonal for
    the Cholesky factor to exist: above 0 only if K is not positive definite.
    """

    multipliers: Array
    offset: float
    dual: float
    steps: int
    jitter: float = 0.0
    gap: float = 0.0  # between the primal at the last step and `dual`


def newton(
    problem: DualProblem, start: Array, deadline: Deadline | None = None
) -> Solution:
    """Solve exactly by semismooth Newton steps with an exact line search.

    At a point with violations ``r = p - Kb - t`` the step solves
    ``(K_AA + ridge_A) b_A = p_A - t`` over ``A = {r > 0}``. If the violated rows of
    the solution are A again, it is the optimum. Each step costs |A|^3/3 flops.

    From a start far away, a tiny ridge (C = 1e8, hard margin) can take hundreds of
    steps; then the ridge is lowered from a large one by factors of 30, each solution
    starting the next: 10-40 steps each, measured at n = 3000.

    There is no early stop: multipliers of a half-solved problem, made feasible, were
    so poor a function that the core set grew by the wrong rows (kddcup99: 55 rounds
    instead of 23). Raises `OutOfTime` at the deadline.
    """
    start, ridge = np.array(start, dtype=np.float64), problem.ridge
    state = _Newton(problem, start, deadline)
    first = _finish(state, state.run(ridge, max_steps=40))
    if first.gap <= _SOLVED_GAP:
        return first
    state = _Newton(problem, start, deadline)
    level = float(problem.K.diagonal().max())
    while level > ridge.min():
        state.run(np.maximum(ridge, level), max_steps=100)
        level /= 30.0
    second = _finish(state, state.run(ridge, max_steps=1000))
    return second if second.dual > first.dual else first


class _Newton:
    """The state of a Newton run: multipliers, values ``Kb``, offset."""

    def __init__(self, problem: DualProblem, b: Array, deadline: Deadline | None):
        self.problem, self.b, self.deadline = problem, b, deadline
        self.K, self.p, self.total = problem.K, problem.p, problem.total
        self.size = float(np.abs(self.p).max())
        self.values = self.K @ b
        self.offset = 0.0
        self.steps = 0
        self.jitter = 0.0

    def run(self, ridge: Array, max_steps: int) -> bool:
        """Take steps until the active rows repeat; return whether they did."""
        omega = 1.0 / ridge
        if self.total is not None:
            self.offset = balance(self.p - self.values, omega, self.total)
        begin = self.b, self.values, self.offset
        best, strikes, needed = np.inf, 0, 0.0
        for _ in range(max_steps):
            if self.deadline is not None:
                self.deadline.check(needed)
            began = time.perf_counter()
            self.steps += 1
            with np.errstate(over="ignore", invalid="ignore"):
                objective, done = self._step(ridge, omega)
            if done:
                return True
            if not abs(objective) < _UNBOUNDED:
                self.b, self.values, self.offset = begin
                return False
            needed = time.perf_counter() - began  # the next takes about as long
            strikes = strikes + 1 if objective >= best * (1 - 1e-15) else 0
            if strikes == 3:
                break  # rounding is all that is left
            best = min(best, objective)
        return False

    def _step(self, ridge: Array, omega: Array) -> tuple[float, bool]:
        violation = self.p - self.values - self.offset
        active = np.flatnonzero(violation > 0)
        if len(active) == 0 and self.total is not None:
            active = np.array([int(np.argmax(violation))])
        own = replace(self.problem, ridge=ridge)
        target, offset, used = _solve_active(own, active, self.jitter)
        self.jitter = max(self.jitter, used)
        full = np.zeros(len(self.b))
        full[active] = target
        new_values = self.K @ full
        direction = full - self.b
        if _same_rows(self.p - new_values - offset, active, self.size):
            self.b, self.values, self.offset = full, new_values, offset
            return 0.0, True
        change, drift = new_values - self.values, offset - self.offset
        slope = float(direction @ self.values) + (self.total or 0.0) * drift
        curve = float(direction @ change)
        length = line_minimum(slope, curve, violation, omega, -change - drift)
        self.b = self.b + length * direction
        self.values = self.K @ self.b
        self.offset += length * drift
        return self.objective(omega), False

    def objective(self, omega: Array) -> float:
        """Return the primal value on the core rows."""
        excess = np.maximum(self.p - self.values - self.offset, 0.0)
        regular = self.b @ self.values / 2 + (self.total or 0.0) * self.offset
        return float(regular + omega @ excess**2 / 2)


@dataclass(frozen=True)
class SmoRule:
    """When sequential minimal optimisation ends.

    Attributes
    ----------
    tol : float
        Bounds the largest difference of gradients.
    relative : bool
        Whether `tol` is relative to the multiplier of the constraint.
    max_steps : int
        Pairs of multipliers that are changed, at most.
    steps_between_checks : int
        Steps between two looks at the deadline, where there is one: 20,000 steps over
        4000 rows are a tenth of a second.
    """

    tol: float = 1e-6
    relative: bool = True
    max_steps: int = 10_000_000
    steps_between_checks: int = 20_000


def smo(
    problem: DualProblem,
    start: Array,
    rule: SmoRule | None = None,
    deadline: Deadline | None = None,
) -> Solution:
    """Solve by sequential minimal optimisation on the simplex (CVM paper, 4.1.4).

    It is solved for ``a = b / sum(b)``; without a `total` all p must be 1. Raises
    `OutOfTime` at the deadline.
    """
    K, ridge, total = problem.K, problem.ridge, problem.total
    rule, size = rule or SmoRule(), start.sum()
    a = start / size if size > 0 else np.full(len(start), 1.0 / len(start))
    linear = np.zeros_like(problem.p) if total is None else problem.p / total
    is_timed = deadline is not None and deadline.is_set
    steps = 0
    while steps < rule.max_steps:
        gradient = K @ a + ridge * a - linear
        level = abs(float(a @ gradient))
        bound = rule.tol * level if rule.relative else rule.tol
        most = rule.max_steps - steps
        if is_timed:
            most = min(most, rule.steps_between_checks)
        taken = int(_loops.smo(K, ridge, a, gradient, bound, most))
        steps += max(taken, 1)
        if is_timed and taken == most:
            assert deadline is not None
            deadline.check()
        elif not rule.relative or abs(float(a @ gradient)) >= level / 2:
            break
    gradient = K @ a + ridge * a - linear
    level = float(a @ gradient)
    gap = float((gradient[a > 0].max() - gradient.min()) / max(abs(level), 1e-300))
    # With level = a'Qa - linear'a the dual is T^2 (linear'a - level)/2, or 1/(2 a'Qa)
    # at the best scale: no second product with K.
    if total is None:
        return Solution(a / level, 0.0, 0.5 / level, steps, gap=gap)
    dual = total**2 * (float(linear @ a) - level) / 2
    return Solution(total * a, -total * level, dual, steps, gap=gap)


def balance(slope: Array, omega: Array, total: float = 1.0) -> float:
    """Return t with ``sum omega max(0, slope - t) = total``.

    The sum falls as t grows, a straight line between the sorted values of `slope`.
    """
    order = np.argsort(-slope)
    s, w = slope[order], omega[order]
    weight, moment = np.cumsum(w), np.cumsum(w * s)
    # t if exactly the first k+1 rows are violated; right for the last k with t < s_k.
    t = (moment - total) / weight
    inside = np.flatnonzero(t < s)
    return float(t[inside[-1]]) if len(inside) else float(s[0] - total / w[0])


def _solve_active(
    problem: DualProblem, active: Array, jitter: float
) -> tuple[Array, float, float]:
    """Return multipliers and offset that are optimal if exactly `active` is violated.

    With a `total` the last active row is eliminated: with its image as the origin the
    kernel becomes ``k_ij - k_ir - k_rj + k_rr``, so that neither the constraint nor a
    far origin costs digits.
    """
    K, total = problem.K, problem.total
    own, right = problem.ridge[active], problem.p[active]
    if total is None:
        system = _System(K, active)
        b, jitter = _solve_definite(system, own, right, 0.0, jitter)
        return b, 0.0, jitter
    few, last = active[:-1], int(active[-1])
    column, corner = K[few, last], float(K[last, last])
    slope = (right[:-1] - right[-1]) - total * (column - corner - own[-1])
    system = _System(K, few, column, corner)
    z, jitter = _solve_definite(system, own[:-1], slope, own[-1], jitter)
    b = np.append(z, total - z.sum())
    offset = right[-1] - K[last, active] @ b - own[-1] * b[-1]
    return b, float(offset), jitter


@dataclass(frozen=True)
class _System:
    """The kernel matrix of some rows, seen from another row's image if given.

    Made when it is factored and multiplied without being made: one copy at a time,
    beside K, is what the memory budget allows.
    """

    K: Array
    rows: Array
    column: Array | None = None
    corner: float = 0.0

    def matrix(self) -> Array:
        """Return ``k_ij - k_ir - k_rj + k_rr`` of the rows, in LAPACK's layout."""
        made = self.K[np.ix_(self.rows, self.rows)]
        if self.column is not None:
            made -= self.column[:, None]
            made -= self.column[None, :] - self.corner
        # Symmetric, so the transpose is the same matrix in LAPACK's layout.
        return np.asarray(made.T)

    def times(self, x: Array) -> Array:
        """Return ``matrix() @ x``."""
        full = np.zeros(len(self.K))
        full[self.rows] = x
        product = (self.K @ full)[self.rows]
        if self.column is not None:
            product -= self.column * x.sum() + self.column @ x - self.corner * x.sum()
        return np.asarray(product)


def _solve_definite(
    system: _System, diagonal: Array, right: Array, constant: float, jitter: float
) -> tuple[Array, float]:
    """Solve ``(system + diag(diagonal + jitter) + constant) x = right`` by Cholesky.

    One step of iterative refinement follows: at C = 1e8 the condition is near 1e11.
    If the system is not positive definite beyond its diagonal, `jitter` is raised to
    what its least eigenvalue asks for, and returned.
    """
    n = len(right)
    if n == 0:
        return np.empty(0), jitter
    while True:
        matrix = system.matrix()
        if constant:
            matrix += constant
        matrix[np.arange(n), np.arange(n)] += diagonal + jitter
        try:
            factor = linalg.cho_factor(
                matrix, lower=True, overwrite_a=True, check_finite=False
            )
            break
        except linalg.LinAlgError:
            base = system.matrix()
            least = linalg.eigvalsh(base, subset_by_index=[0, 0])[0]
            floor = 1e-14 * np.abs(base).max()
            jitter = max(2 * jitter, -1.01 * float(least), floor)
    x = linalg.cho_solve(factor, right, check_finite=False)
    residual = right - system.times(x) - (diagonal + jitter) * x - constant * x.sum()
    return x + linalg.cho_solve(factor, residual, check_finite=False), jitter


def _same_rows(violation: Array, active: Array, size: float) -> bool:
    """Whether the violated rows are `active`, up to rounding of p, of this size."""
    slack = 1e-14 * max(size, float(np.abs(violation).max()))
    inside = np.zeros(len(violation), dtype=bool)
    inside[active] = True
    return not (np.any(violation[~inside] > slack) or np.any(violation[inside] < 0))


def line_minimum(
    slope0: float,
    curve0: float,
    violation: Array,
    omega: Array,
    fall: Array,
    longest: float = 1e3,
) -> float:
    """Return the exact minimiser along the step, at most `longest` times its length.

    `slope0` and `curve0` are the derivatives of the quadratic part, and the violations
    change by `fall`. The derivative is increasing and piecewise linear, so that
    Newton's method on it, inside a bracket, ends after a few steps.
    """
    low, high, s = 0.0, longest, min(1.0, longest)
    for _ in range(100):
        moved = violation + s * fall
        inside = moved > 0
        part = omega[inside] * fall[inside]
        slope = slope0 + s * curve0 + float(part @ moved[inside])
        curve = curve0 + float(part @ fall[inside])
        if slope > 0:
            high = s
        else:
            low = s
        new = s - slope / curve if curve > 0 else (low + high) / 2
        if not low <= new <= high:
            new = (low + high) / 2
        if abs(new - s) <= 1e-15 * s:
            break
        s = new
    return s


def _finish(state: _Newton, solved: bool) -> Solution:
    """Return feasible multipliers at the best scale.

    Solved, they are those of the state, negative only by rounding. If not, the slack
    times C may prove more; it amplifies rounding by C, so it is the second choice.
    """
    problem = state.problem
    p, ridge, total = problem.p, problem.ridge, problem.total
    slack = np.maximum(p - state.values - state.offset, 0.0)
    candidates = [np.maximum(state.b, 0.0)]
    if not solved or candidates[0].sum() == 0:
        candidates.append(slack / ridge)
    choices = []
    for candidate in candidates:
        size = candidate.sum()
        if size > 0 and np.isfinite(size):
            feasible = candidate if total is None else candidate * (total / size)
            choices.append((problem.value(feasible), feasible))
    if not choices:
        choices.append((0.0, np.zeros(len(p))))
    dual, best = max(choices, key=lambda pair: pair[0])
    if total is None and dual > 0:
        best = best * (2 * dual / (p @ best))  # the best scale; 1 up to rounding
    gap = 0.0
    if not solved:
        primal = state.objective(1.0 / ridge)
        gap = (primal - dual) / max(abs(primal), abs(dual), 1e-300)
    return Solution(best, state.offset, dual, state.steps, state.jitter, gap)
