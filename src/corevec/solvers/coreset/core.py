"""The core set of one problem: its entries, its kernel matrix, its multipliers."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.certificates.definite import is_definite_by_name
from corevec.data.sources import Source, stacked
from corevec.exceptions import KernelError
from corevec.kernels import AnyKernel, Rows, finite, rounding_share
from corevec.models.certificate import Cancellation
from corevec.problems.family import Floor, Problem, Terms
from corevec.solvers.numeric.deadline import Deadline
from corevec.solvers.numeric.dual_qp import (
    DualProblem,
    SmoRule,
    Solution,
    newton,
    smo,
)

# Ridge of the hard margin, relative to the largest k(x, x): far below any gap that
# can be asked for, and large enough for the factor of a matrix with duplicate rows.
_HARD_RIDGE = 1e-11
# The least k(x, x) whose ridge has a reciprocal, and whose errors are not subnormal.
_LEAST_HARD_VALUE = 1e-250
# A kernel is indefinite if its least eigenvalue is below minus this share of the
# largest entry (rounding leaves 1e-14). C is then lowered until the ridge is the second
# number times what is missing: later rows lower the eigenvalue a little more.
_INDEFINITE_SHARE, _RIDGE_HEADROOM = 1e-9, 1.5
# Core sets above this size get threaded BLAS for their factorisations: below it the
# threads gain little and, on a busy machine, cost 10x (they spin).
_MIN_ROWS_FOR_THREADS = 2500
# The time of a step grows with the cube of the rows from about this size on.
_MIN_ROWS_TO_PREDICT = 500
# Where `qp="auto"` tries SMO first: up to this weight of the slack times k(x, x), above
# this many core rows; after this many steps per core row Newton's method takes over.
_SMO_MAX_WEIGHT, _SMO_MIN_ROWS, _SMO_STEPS_PER_ROW = 1e3, 300, 300
# Rows on which definiteness is checked by eigenvalues.
_MAX_EIGENVALUE_ROWS = 300


@dataclass(frozen=True)
class Solver:
    """How the problem on the core rows is solved.

    Attributes
    ----------
    name : {"auto", "newton", "smo"}
        Newton's method is exact; "auto" tries SMO first where that is fast.
    tol : float
        Bounds the gradient differences of SMO.
    relative : bool
        Whether `tol` is relative to their level.
    deadline : Deadline, optional
        When `OutOfTime` is raised.
    """

    name: str = "newton"
    tol: float = 1e-6
    relative: bool = True
    deadline: Deadline | None = None


class Core:
    """Core rows with the solution of the problem restricted to them.

    Memory: one square matrix of the core rows, grown by doubling up to `max_size`.
    """

    def __init__(
        self,
        problem: Problem,
        source: Source,
        kernel: AnyKernel,
        max_size: int = 1 << 20,
    ):
        self.problem, self.source, self.kernel = problem, source, kernel
        self.asked = problem  # `problem` has a lower C where it was softened
        self.max_size = max_size
        self.entries = np.empty(0, dtype=np.int64)
        self.values: Any = None
        self.terms = Terms(np.empty(0), np.empty(0), np.empty(0))
        self.multipliers = np.empty(0)
        self.idle = np.empty(0, dtype=np.int64)
        self.offset = 0.0
        self.dual = 0.0
        self.jitter = 0.0
        self.softened = False  # whether C was lowered for an indefinite kernel
        self._margins = np.empty(0)  # K @ multipliers
        self.share = 1.0  # sum of a ball's multipliers; below 1 only if R^2 = 0 binds
        self._buffer = np.empty((0, 0))
        # Rows and seconds per step of the last solution.
        self._solved: tuple[int, float] | None = None

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def rows(self) -> Array:
        """The row number of each entry; a regression row may have two entries."""
        return self.problem.rows_of(self.entries)

    @property
    def K(self) -> Array:
        """The signed kernel matrix of the core rows (with the bias, no ridge)."""
        return self._buffer[: len(self), : len(self)]

    @property
    def ridge(self) -> Array:
        """``1/omega`` of each core row; tiny for the hard margin."""
        if self.problem.is_hard:
            largest = float(self.K.diagonal().max())
            if 0 < largest < _LEAST_HARD_VALUE:
                raise KernelError(
                    f"a hard margin needs kernel values of at least "
                    f"{_LEAST_HARD_VALUE:g}, and the largest k(x, x) is {largest:.0e}: "
                    "its products leave the range of floating-point numbers. Scale the "
                    "columns (StandardScaler)."
                )
            return np.full(len(self), _HARD_RIDGE * (largest if largest > 0 else 1.0))
        return np.asarray(1.0 / self.terms.omega)

    @property
    def support(self) -> Array:
        """Positions of the core rows with a positive multiplier."""
        return np.flatnonzero(self.multipliers > 0)

    @property
    def solution(self) -> tuple[Array, Array]:
        """The entries with a positive multiplier, and these multipliers."""
        few = self.support
        return self.entries[few], self.multipliers[few]

    @property
    def points(self) -> Rows:
        """The core rows as the source returns them."""
        return Rows(self.values, self.rows)

    def add(self, entries: Array, multipliers: Array | None = None) -> None:
        """Add entries that are not in the core yet; multipliers are 0 if not given."""
        new = self.source.take(self.problem.rows_of(entries))
        terms = self.problem.terms(new, self.kernel, self.problem.side_of(entries))
        new_points = self.kernel.prepare_basis(new)
        m, total = len(self), len(self) + len(new)
        self._reserve(total)
        if m:
            old_points = self.kernel.prepare_basis(self.points)
            cross = self.kernel.block(new_points, old_points)
            cross = self.problem.signed(cross, terms, self.terms)
            self._buffer[m:total, :m] = cross
            self._buffer[:m, m:total] = cross.T
        own = self.problem.signed(
            self.kernel.block(new_points, new_points), terms, terms
        )
        self._buffer[m:total, m:total] = (own + own.T) / 2
        finite(self._buffer[m:total, :total], self.kernel)
        old = [] if self.values is None else [self.values]
        self.values = stacked([*old, new.values])
        self.entries = np.concatenate([self.entries, entries])
        self.terms = Terms.join([self.terms, terms])
        added = np.zeros(len(new)) if multipliers is None else multipliers
        self.multipliers = np.concatenate([self.multipliers, added])
        self.idle = np.concatenate([self.idle, np.zeros(len(new), dtype=np.int64)])

    def drop_idle(self, rounds: int) -> None:
        """Remove rows whose multiplier was zero for `rounds` rounds in a row.

        Only if they are more than a tenth, because the matrix is copied.
        """
        keep = np.flatnonzero(self.idle < rounds)
        if len(keep) == 0 or len(self) - len(keep) <= len(self) // 10:
            return
        kept = self._buffer[np.ix_(keep, keep)]
        self._buffer[: len(keep), : len(keep)] = kept
        self.values, self.entries = self.values[keep], self.entries[keep]
        self.terms, self.idle = self.terms[keep], self.idle[keep]
        self.multipliers = self.multipliers[keep]
        self._margins = self._margins[keep]  # those removed have multiplier 0

    def solve(self, how: Solver) -> None:
        """Solve the problem on the core rows, warm-started from the multipliers.

        Raises `OutOfTime` at the deadline: the multipliers are then those of the last
        solution, which is that of a smaller core set.
        """
        if self._solved is None:  # there is nothing to return to
            how = replace(how, deadline=None)
        elif how.deadline is not None:
            n_rows, seconds = self._solved
            is_known = n_rows >= _MIN_ROWS_TO_PREDICT
            growth = (len(self) / max(n_rows, 1)) ** 3
            how.deadline.check(seconds * growth if is_known else 0.0)
        began = time.perf_counter()
        if len(self) > _MIN_ROWS_FOR_THREADS:
            with self.source.workers.blas():
                solution = self._solve_within_floor(how)
        else:
            solution = self._solve_within_floor(how)
        self.multipliers, self.offset = solution.multipliers, solution.offset
        self._margins = self.K @ self.multipliers
        self.dual = self._dual_of(solution)
        self.jitter = max(self.jitter, solution.jitter)
        self.idle = np.where(self.multipliers > 0, 0, self.idle + 1)
        seconds = time.perf_counter() - began
        self._solved = len(self), seconds / max(solution.steps, 1)

    def _solve_within_floor(self, how: Solver) -> Solution:
        """Return the solution, with the tube or the squared radius at least 0."""
        solution = self._solve(self.ridge, how)
        self.share = 1.0
        floor = self.problem.floor
        if floor is Floor.ZERO and solution.offset < 0:
            return self._solve_at_offset_zero(how)
        soft_ball = floor is Floor.RADIUS and not self.problem.is_hard
        if soft_ball and self._radius_sq(solution) < 0:
            return self._solve_at_radius_zero(how)
        return solution

    def soften(self) -> bool:
        """Return whether C was lowered, to make the matrix positive definite.

        Where the kernel matrix plus ``1/omega`` is not, the dual is not concave, and
        the loop of growing and solving need not end. It does with the largest C that
        makes the matrix definite on the core rows: this shifts the spectrum of the
        kernel, and the problem solved is convex.
        """
        if is_definite_by_name(self.kernel) or len(self) == 0:
            return False
        share = max(_INDEFINITE_SHARE, rounding_share(self.kernel, self.values))
        if self.jitter <= share * float(np.abs(self.K).max()):
            return False
        needed = self.jitter
        if len(self) <= _MIN_ROWS_FOR_THREADS:
            needed = max(needed, -float(np.linalg.eigvalsh(self.K)[0]))
        share = float(self.ridge.min()) / (_RIDGE_HEADROOM * needed)
        self.jitter, self.softened = 0.0, True
        if share >= 1:
            return False
        omega = share / self.ridge
        slack = share * self.problem.slack
        if self.problem.is_hard:
            slack = float(omega.max())
        self.problem = replace(self.problem, slack=slack)
        self.terms = replace(self.terms, omega=omega)
        return True

    def is_definite(self) -> bool:
        """Whether the kernel looks positive definite on the support rows.

        Some are by their names. For the others the least eigenvalue on some support
        rows decides, and whether a factorisation needed a larger ridge.
        """
        if is_definite_by_name(self.kernel):
            return True
        if self.softened or self.norm_sq < -self.rounding:
            return False
        few = self.support[:_MAX_EIGENVALUE_ROWS]
        K = self.K[np.ix_(few, few)] - float(self.problem.has_bias) * np.outer(
            self.terms.sign[few], self.terms.sign[few]
        )
        if len(few) == 0:
            return self.jitter == 0
        least = float(np.linalg.eigvalsh(K)[0])
        share = max(1e-9, rounding_share(self.kernel, self.values))
        return self.jitter == 0 and least >= -share * float(np.abs(K).max())

    @property
    def norm_sq(self) -> float:
        """``|w|^2 + b0^2`` of the function, or ``|centre|^2``."""
        return float(self.multipliers @ self.margins())

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of `norm_sq` and of the dual value."""
        return float(self.multipliers.sum()) * self.value_error

    @property
    def proved(self) -> float:
        """What the multipliers prove about the optimum, rounding allowed for.

        Where the scale is free the best one is chosen for the largest ``b'Qb`` that
        rounding allows: at that of a sum that cancels the dual value would be anything.
        """
        is_fixed = self.problem.has_offset and self.problem.floor is not Floor.ZERO
        if self.problem.is_hard or is_fixed or self.share != 1.0:
            return self.dual - self.rounding
        b = self.multipliers
        curve = float(b @ self.margins()) + float(b @ (self.ridge * b)) + self.rounding
        if not curve > 0:
            return self.problem.least
        slope = float(self.terms.target @ b)
        return self.problem.dual_at_best_scale(slope, curve, float(b.sum()))

    @property
    def cancellation(self) -> Cancellation | None:
        """What the objective is a difference of."""
        largest = float(np.abs(self.K.diagonal()).max(initial=0.0))
        return self.problem.cancellation(self.rounding, largest)

    @property
    def value_error(self) -> float:
        """Bound on the rounding error of the function's values."""
        if len(self) == 0:
            return 0.0
        largest = float(np.abs(self.K.diagonal()).max())
        relative = self.kernel.rounding(self.values.shape[1], self.values.dtype)
        return relative * float(self.multipliers.sum()) * largest

    def margins(self) -> Array:
        """Return ``y f`` of the core rows."""
        if len(self._margins) != len(self):
            self._margins = self.K @ self.multipliers
        return self._margins

    def largest_violation(self) -> float:
        """Return by how much the worst core row is outside the core set's own ball.

        Zero, up to the tolerance of the solver on the core rows.
        """
        own = self.ridge * self.multipliers
        return float((self.terms.target - self.margins() - own - self.offset).max())

    def loss(self, trials: tuple[tuple[float, float], ...]) -> Array:
        """Return the core rows' part of the loss at each (scale, offset)."""
        margins = self.margins()
        excess = [
            np.maximum(self.terms.target - scale * margins - offset, 0.0)
            for scale, offset in trials
        ]
        if self.problem.is_hard:
            return np.zeros(len(trials))
        return np.array([self.terms.omega @ e**2 / 2 for e in excess])

    def loss_error(self) -> float:
        """Return a bound on what rounding of the values adds to the core rows' loss."""
        error = self.value_error
        if self.problem.is_hard:
            return error
        violation = self.terms.target - self.margins() - self.offset
        excess = np.maximum(violation, 0.0)
        return error * float(self.terms.omega @ (excess + error / 2))

    def slopes(self) -> tuple[float, float]:
        """Return the core rows' part of `slope` and `curve` of a scan result."""
        margins = self.margins()
        violation = np.maximum(self.terms.target - margins - self.offset, 0.0)
        lever = np.ones(len(self)) if self.problem.has_offset else margins
        omega = np.where(violation > 0, self.terms.omega, 0.0)
        if self.problem.is_hard:
            return 0.0, 0.0
        return float(omega @ (violation * lever)), float(omega @ lever**2)

    def ball(self, eta: float) -> tuple[float, float]:
        """Return (R^2, step): a row violated by v is at squared distance R^2+2 step v.

        `eta` is the largest ``Q_ii`` over all rows; the ball is that of the
        simplex problem with multipliers ``a = b / sum(b)``.
        """
        if self.problem.has_offset:
            price = self.problem.price
            return 2 * self.dual / price**2 + eta, 1.0 / price
        if not self.problem.has_unit_targets:
            return float("nan"), float("nan")
        total = float(self.multipliers.sum())
        rho = 1.0 / total if total > 0 else 0.0
        return max(eta - rho, 0.0), rho

    def _solve(self, ridge: Array, how: Solver) -> Solution:
        """Return the solution for one ridge; "auto" tries SMO where it is fast.

        At ``omega k`` up to `_SMO_MAX_WEIGHT` a warm-started SMO costs a fraction of a
        Cholesky factor (ijcnn1, 4000 rows, C = 32: 0.2 s against 1.6 s per round). Its
        number of steps grows with C, so they are bounded, and Newton takes over.
        """
        total = self.problem.price if self.problem.has_offset else None
        given = DualProblem(self.K, ridge, self.terms.target, total), self.multipliers
        if how.name == "smo":
            return smo(*given, self._smo_rule(how), how.deadline)
        reach = float(self.K.diagonal().max()) / float(ridge.min())
        # For a regression SMO's tolerance, relative to the tube, says little.
        can = self.problem.response is None and reach <= _SMO_MAX_WEIGHT
        # Only a factor tells that a matrix is indefinite (`soften`): with SMO the loop
        # added row after row of a kernel sin(x.z) for minutes.
        can &= is_definite_by_name(self.kernel)
        if how.name == "auto" and can and len(self) > _SMO_MIN_ROWS:
            rule = SmoRule(how.tol, max_steps=_SMO_STEPS_PER_ROW * len(self))
            found = smo(*given, rule, how.deadline)
            if found.gap <= 3 * how.tol:  # its level moves while it runs
                return found
        return newton(*given, how.deadline)

    def _smo_rule(self, how: Solver) -> SmoRule:
        """Return the rule; of a regression the tolerance is relative to the targets.

        The multiplier of the constraint is the tube, which may be zero.
        """
        if self.problem.response is None or not how.relative:
            return SmoRule(how.tol, how.relative)
        largest = float(np.abs(self.terms.target).max())
        return SmoRule(how.tol * largest / self.problem.price, relative=False)

    def _solve_at_offset_zero(self, how: Solver) -> Solution:
        """Return the solution of a regression whose tube would be negative: ``t = 0``.

        The objective is convex in t, so this is the fixed tube 0, and ``sum(b) < T``
        follows. SMO needs the simplex, which one more vertex gives it: without image,
        target and ridge, it takes what is left of T (docs/mathematics.md, Problems).
        """
        K, ridge, p, b = self.K, self.ridge, self.terms.target, self.multipliers
        if how.name != "smo":
            return newton(DualProblem(K, ridge, p), b, how.deadline)
        K, ridge, p = np.pad(K, (0, 1)), np.append(ridge, 0.0), np.append(p, 0.0)
        start = np.append(b, max(self.problem.price - b.sum(), 0.0))
        problem = DualProblem(K, ridge, p, self.problem.price)
        found = smo(problem, start, self._smo_rule(how), how.deadline)
        return replace(found, multipliers=found.multipliers[:-1], offset=0.0)

    def _radius_sq(self, solution: Solution) -> float:
        a = solution.multipliers
        return 2 * solution.offset + float(a @ (self.K @ a))

    def _solve_at_radius_zero(self, how: Solver) -> Solution:
        """Return the solution of soft SVDD where ``R^2 >= 0`` binds.

        Then ``sum(b) = share < 1``, and ``b / share`` solves the same problem with C
        divided by `share`, at the share where R^2 is zero: a search in one variable.
        """
        low, high = 1e-12, 1.0  # R^2 > 0 at low, < 0 at high
        solution = self._solve(self.ridge * high, how)
        for _ in range(60):
            self.share = float(np.sqrt(low * high))
            solution = self._solve(self.ridge * self.share, how)
            radius_sq = self._radius_sq(solution)
            if radius_sq < 0:
                high = self.share
            else:
                low = self.share
            if high / low < 1 + 1e-12:
                break
        return solution

    def _dual_of(self, solution: Solution) -> float:
        """Return the dual value of the problem without the hard margin's ridge."""
        a = solution.multipliers
        plain = DualProblem(self.K, np.zeros(len(a)), self.terms.target, 1.0)
        if self.problem.is_hard:
            return plain.value(a)
        if self.problem.floor is Floor.ZERO and solution.offset == 0:
            # At its best scale the sum might exceed T by a rounding error.
            slope = float(self.terms.target @ a)
            curve = float(a @ self._margins) + float(a @ (self.ridge * a))
            return self.problem.dual_at_best_scale(slope, curve, float(a.sum()))
        if self.share == 1.0:
            return solution.dual
        slack = self.share**2 * float(a @ (self.ridge * a)) / 2
        return self.share * plain.value(a) - slack

    def _reserve(self, total: int) -> None:
        if total > len(self._buffer):
            size = min(max(total, 2 * len(self._buffer), 64), total + total // 2 + 64)
            # Not beyond the largest core set: memory is a contract.
            buffer = np.empty((max(total, min(size, self.max_size)),) * 2)
            m = len(self)
            buffer[:m, :m] = self.K
            self._buffer = buffer
