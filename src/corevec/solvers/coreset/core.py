"""The core set of one problem: its entries, its kernel matrix, its multipliers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import Source, stacked
from corevec.kernels import AnyKernel, Rows, finite
from corevec.problems.family import Floor, Problem, Terms
from corevec.solvers.numeric import dual_qp as qp

# Ridge of the hard margin, relative to the largest k(x, x): far below any gap that
# can be asked for, and large enough for the factor of a matrix with equal rows.
_HARD_RIDGE = 1e-11
# A kernel is indefinite if its least eigenvalue is below minus this share of the
# largest entry (rounding leaves 1e-14); C is then lowered until the ridge is so many
# times what is missing: rows that come in later lower the eigenvalue a little.
_INDEFINITE, _HEADROOM = 1e-9, 1.5
# Core sets above this size get threaded BLAS for their factorisations: below it the
# threads gain little and, on a busy machine, cost 10x (they spin).
_LARGE = 2500
# Where `qp="auto"` tries SMO first: weight of the slack times k(x, x), core rows, and
# steps per core row after which Newton takes over.
_SMO_REACH, _SMALL, _SMO_STEPS = 1e3, 300, 300


class Core:
    """Core rows with the solution of the problem restricted to them.

    Memory: one matrix of core rows squared, grown by doubling.
    """

    def __init__(self, problem: Problem, source: Source, kernel: AnyKernel):
        self.problem, self.source, self.kernel = problem, source, kernel
        self.entries = np.empty(0, dtype=np.int64)
        self.values: Any = None
        self.terms = Terms(np.empty(0), np.empty(0), np.empty(0))
        self.multipliers = np.empty(0)
        self.idle = np.empty(0, dtype=np.int64)
        self.offset = 0.0
        self.dual = 0.0
        self.jitter = 0.0
        self.softened = False  # whether C was lowered for an indefinite kernel
        self.host_values = np.empty(0)  # K @ multipliers
        self.share = 1.0  # sum of a ball's multipliers; below 1 only if R^2 = 0 binds
        self.room = 1 << 20  # the largest core set; `coreset.start` knows the budget's
        self._buffer = np.empty((0, 0))

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def rows(self) -> Array:
        """The row number of each entry; twice the same where both sides are here."""
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
            return np.full(len(self), _HARD_RIDGE * (largest if largest > 0 else 1.0))
        return np.asarray(1.0 / self.terms.omega)

    @property
    def support(self) -> Array:
        """Positions of the core rows with a positive multiplier."""
        return np.flatnonzero(self.multipliers > 0)

    @property
    def points(self) -> Rows:
        """The core rows as they come from the source."""
        return Rows(self.values, self.rows)

    def add(self, entries: Array) -> None:
        """Add entries that are not in the core yet; their multipliers start at 0."""
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
        self.multipliers = np.concatenate([self.multipliers, np.zeros(len(new))])
        self.idle = np.concatenate([self.idle, np.zeros(len(new), dtype=np.int64)])

    def drop_idle(self, rounds: int) -> None:
        """Remove rows whose multiplier was zero for `rounds` rounds in a row.

        Not for a few: the matrix is copied.
        """
        keep = np.flatnonzero(self.idle < rounds)
        if len(keep) == 0 or len(self) - len(keep) <= len(self) // 10:
            return
        kept = self._buffer[np.ix_(keep, keep)]
        self._buffer[: len(keep), : len(keep)] = kept
        self.values, self.entries = self.values[keep], self.entries[keep]
        self.terms, self.idle = self.terms[keep], self.idle[keep]
        self.multipliers = self.multipliers[keep]
        self.host_values = self.host_values[keep]  # the others' multipliers are 0

    def solve(self, solver: str, tol: float, relative: bool = True) -> None:
        """Solve the problem on the core rows, from the multipliers at hand.

        `tol` bounds the gradient differences of SMO, `relative` to their level or not;
        Newton's method is exact.
        """
        if len(self) > _LARGE:
            with self.source.workers.blas():
                self._solve_and_keep(solver, tol, relative)
        else:
            self._solve_and_keep(solver, tol, relative)

    def _solve_and_keep(self, solver: str, tol: float, relative: bool) -> None:
        solution = self._solve(self.ridge, solver, tol, relative)
        self.share = 1.0
        floor = self.problem.floor
        if floor is Floor.ZERO and solution.offset < 0:
            solution = self._solve_at_offset_zero(solver, tol, relative)
        soft_ball = floor is Floor.RADIUS and not self.problem.is_hard
        if soft_ball and self._radius_sq(solution) < 0:
            solution = self._solve_at_radius_zero(solver, tol, relative)
        self.multipliers, self.offset = solution.multipliers, solution.offset
        self.host_values = self.K @ self.multipliers
        self.dual = self._dual_of(solution)
        self.jitter = max(self.jitter, solution.jitter)
        self.idle = np.where(self.multipliers > 0, 0, self.idle + 1)

    def soften(self) -> bool:
        """Lower C if the kernel matrix plus ``1/omega`` is not positive definite.

        Then the dual is not concave and rounds of growing and solving need not end.
        With the largest C that makes the matrix definite on the core rows they do: it
        shifts the spectrum of the kernel, and what is solved is a convex problem.
        Returns whether C was lowered.
        """
        if self._is_definite_by_name or len(self) == 0:
            return False
        if self.jitter <= _INDEFINITE * float(np.abs(self.K).max()):
            return False
        needed = self.jitter
        if len(self) <= _LARGE:
            needed = max(needed, -float(np.linalg.eigvalsh(self.K)[0]))
        share = float(self.ridge.min()) / (_HEADROOM * needed)
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

    @property
    def _is_definite_by_name(self) -> bool:
        """Whether the kernel is positive definite, whatever the rows."""
        return self.kernel.uses_distance or self.kernel.name == "linear"

    def is_definite(self) -> bool:
        """Whether the kernel looks positive definite on the support rows.

        Distance kernels and the linear one are; of the others the least eigenvalue on
        up to 300 support rows is looked at, and whether a factorisation needed help.
        """
        if self._is_definite_by_name:
            return True
        if self.softened:
            return False
        few = self.support[:300]
        K = self.K[np.ix_(few, few)] - float(self.problem.has_bias) * np.outer(
            self.terms.sign[few], self.terms.sign[few]
        )
        if len(few) == 0:
            return self.jitter == 0
        least = float(np.linalg.eigvalsh(K)[0])
        return self.jitter == 0 and least >= -1e-9 * float(np.abs(K).max())

    @property
    def norm_sq(self) -> float:
        """``|w|^2 + b0^2`` of the function, or ``|centre|^2``."""
        return float(self.multipliers @ self.margins())

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of `norm_sq` and of the dual value."""
        return float(self.multipliers.sum()) * self.value_error

    @property
    def value_error(self) -> float:
        """Bound on the rounding error of the function's values."""
        if len(self) == 0:
            return 0.0
        largest = float(np.abs(self.K.diagonal()).max())
        relative = self.kernel.rounding(self.values.shape[1])
        return relative * float(self.multipliers.sum()) * largest

    def margins(self) -> Array:
        """Return ``y f`` of the core rows."""
        if len(self.host_values) != len(self):
            self.host_values = self.K @ self.multipliers
        return self.host_values

    def largest_violation(self) -> float:
        """Return by how much the worst core row is outside the core set's own ball.

        Zero but for the tolerance of the small solver.
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
        """Return what the rounding of the values can add to the core rows' loss."""
        error = self.value_error
        if self.problem.is_hard:
            return error
        violation = self.terms.target - self.margins() - self.offset
        excess = np.maximum(violation, 0.0)
        return error * float(self.terms.omega @ (excess + error / 2))

    def slopes(self) -> tuple[float, float]:
        """Return the core rows' part of `slope` and `curve` of a `Look`."""
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

    def _solve(
        self, ridge: Array, solver: str, tol: float, relative: bool
    ) -> qp.Solution:
        """Solve with one ridge; "auto" tries SMO where it is fast.

        At ``omega k`` up to `_SMO_REACH` a warm-started SMO costs a fraction of a
        Cholesky factor (ijcnn1, 4000 rows, C = 32: 0.2 s against 1.6 s per round); its
        steps grow with C, so it is given a bound and Newton takes over.
        """
        total = self.problem.price if self.problem.has_offset else None
        arguments = (self.K, ridge, self.terms.target, self.multipliers)
        if solver == "smo":
            if relative and self.problem.response is not None:
                tol, relative = self._tube_tol(tol), False
            return qp.smo(*arguments, total=total, tol=tol, relative=relative)
        reach = float(self.K.diagonal().max()) / float(ridge.min())
        # On a regression SMO's tolerance, relative to the tube, says little.
        can = self.problem.response is None and reach <= _SMO_REACH
        if solver == "auto" and can and len(self) > _SMALL:
            most = _SMO_STEPS * len(self)
            found = qp.smo(*arguments, total=total, tol=tol, max_steps=most)
            if found.gap <= 3 * tol:  # its level moves while it runs
                return found
        return qp.newton(*arguments, total=total)

    def _solve_at_offset_zero(
        self, solver: str, tol: float, relative: bool
    ) -> qp.Solution:
        """Solve a regression whose tube would be negative: there ``t = 0``.

        The objective is convex in t, so this is the fixed tube 0, and ``sum(b) < T``
        follows. SMO needs the simplex, which one more vertex gives it: with no image,
        no target and no ridge, it takes up what is left of T (design.md 1.1).
        """
        K, ridge, p, b = self.K, self.ridge, self.terms.target, self.multipliers
        if solver != "smo":
            return qp.newton(K, ridge, p, b)
        K, ridge, p = np.pad(K, (0, 1)), np.append(ridge, 0.0), np.append(p, 0.0)
        start = np.append(b, max(self.problem.price - b.sum(), 0.0))
        total = self.problem.price
        if relative:
            tol, relative = self._tube_tol(tol), False
        found = qp.smo(K, ridge, p, start, total=total, tol=tol, relative=relative)
        return replace(found, multipliers=found.multipliers[:-1], offset=0.0)

    def _tube_tol(self, tol: float) -> float:
        """Return SMO's tolerance relative to the targets.

        The multiplier of the constraint is the tube, which may be zero.
        """
        return tol * float(np.abs(self.terms.target).max()) / self.problem.price

    def _radius_sq(self, solution: qp.Solution) -> float:
        a = solution.multipliers
        return 2 * solution.offset + float(a @ (self.K @ a))

    def _solve_at_radius_zero(
        self, solver: str, tol: float, relative: bool
    ) -> qp.Solution:
        """Solve soft SVDD where ``R^2 >= 0`` binds.

        Then ``sum(b) = share < 1``, and ``b / share`` solves the same problem with C
        divided by `share`, at the share where R^2 is zero: a search in one variable.
        """
        low, high = 1e-12, 1.0  # R^2 > 0 at low, < 0 at high
        solution = self._solve(self.ridge * high, solver, tol, relative)
        for _ in range(60):
            self.share = float(np.sqrt(low * high))
            solution = self._solve(self.ridge * self.share, solver, tol, relative)
            radius_sq = self._radius_sq(solution)
            if radius_sq < 0:
                high = self.share
            else:
                low = self.share
            if high / low < 1 + 1e-12:
                break
        return solution

    def _dual_of(self, solution: qp.Solution) -> float:
        """Return the dual value of the problem without the hard margin's ridge."""
        a = solution.multipliers
        if self.problem.is_hard:
            return qp.dual_value(self.K, np.zeros(len(a)), self.terms.target, a, 1.0)
        if self.problem.floor is Floor.ZERO and solution.offset == 0:
            # At the best scale the sum might exceed T by a rounding error.
            slope = float(self.terms.target @ a)
            curve = float(a @ self.host_values) + float(a @ (self.ridge * a))
            return self.problem.dual_at_best_scale(slope, curve, float(a.sum()))
        if self.share == 1.0:
            return solution.dual
        plain = qp.dual_value(self.K, np.zeros(len(a)), self.terms.target, a, 1.0)
        return self.share * plain - self.share**2 * float(a @ (self.ridge * a)) / 2

    def _reserve(self, total: int) -> None:
        if total > len(self._buffer):
            size = min(max(total, 2 * len(self._buffer), 64), total + total // 2 + 64)
            # Not beyond the rows that are allowed: memory is a contract.
            buffer = np.empty((max(total, min(size, self.room)),) * 2)
            m = len(self)
            buffer[:m, :m] = self.K
            self._buffer = buffer
