"""Working sets of entries, each solved by pairs on a block of the kernel matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops.box import Box, smo_pairs
from corevec.problems.box import BoxProblem, Measured
from corevec.solvers.hinge.free_rows import free_step
from corevec.solvers.hinge.kernel_rows import KernelRows

# Entries of a working set; half of them come from the last one.
WORKING_SET = 1024
# A block is solved to this share of the violation that it was chosen for.
INNER_SHARE = 0.1
# Steps on one block per entry.
STEPS_PER_ENTRY = 20
# Free entries up to which a Cholesky factor is affordable: 0.5 s for so many.
MOST_FREE = 4096
# Within this share of a bound a multiplier is at it.
AT_BOUND = 1e-13
# Costs in units of a multiplication of a Cholesky factor (some 0.03 ns): what a step of
# a pair does per entry, and a kernel value of the free entries.
PAIR_COST, FREE_COST = 60.0, 200.0
# Work on working sets before the free entries are solved together, in multiples of the
# cost of that; entries that reach a bound make it several solutions.
FIRST_PATIENCE = 4.0


class Decomposition:
    """Multipliers of one problem, improved working set by working set.

    Attributes
    ----------
    signed : ndarray of shape (entries,)
        The multipliers.
    values : ndarray of shape (rows,)
        f at the points of `kernel_rows`; `place` says which is an entry's.
    steps : int
        Steps of a pair of multipliers so far.
    least_curvature : float
        The least curvature along a pair; negative only if the kernel is not definite.
    """

    def __init__(
        self,
        problem: BoxProblem,
        signed: Array,
        kernel_rows: KernelRows,
        values: Array | None = None,
        may_go_on: Callable[[], bool] = lambda: True,
    ):
        self.problem, self.kernel_rows = problem, kernel_rows
        self.may_go_on = may_go_on
        self.size = min(WORKING_SET, kernel_rows.n_slots)
        self.place = kernel_rows.positions(problem.rows)
        self.values = np.zeros(len(kernel_rows))
        self.steps, self.least_curvature = 0, float("inf")
        self._last = np.empty(0, dtype=np.int64)
        self._spent, self._gained, self._patience = 0.0, 0.0, FIRST_PATIENCE
        if values is None:
            self.signed = np.zeros(len(signed))
            used = np.flatnonzero(signed)
            self.set(used, signed[used])
        else:
            self.signed = signed.copy()
            self.values[self.place] = values

    @property
    def residual(self) -> Array:
        """``t_e - f(x_e)``."""
        return np.asarray(self.problem.target - self.values[self.place])

    def measured(self) -> Measured:
        """Return primal and dual value by the values so far."""
        return self.problem.measure(self.signed, self.values[self.place])

    def round(self, tol: float, most_steps: int) -> float:
        """Improve one working set; return the violation of all entries before it."""
        residual = self.residual
        chosen, violation = self._working_set(residual)
        if violation <= tol or len(chosen) < 2 or most_steps < 1:
            return violation
        problem = self.problem
        if len(problem.totals) > 1:
            chosen = chosen[np.argsort(problem.group[chosen], kind="stable")]
        K = self.kernel_rows.block(self.place[chosen])
        found = np.empty(3)
        box = Box(
            np.searchsorted(problem.group[chosen], np.arange(len(problem.totals) + 1)),
            problem.lower[chosen],
            problem.higher[chosen],
            self.signed[chosen],
            residual[chosen],
        )
        inner = max(INNER_SHARE * violation, tol / 2)
        most = min(STEPS_PER_ENTRY * len(chosen), most_steps)
        steps = smo_pairs(K, box, inner, most, found)
        self.steps += steps
        self._gained += float(found[1])
        size = len(chosen)
        self._spent += PAIR_COST * size * (steps + size + len(self.kernel_rows) / 8)
        self.least_curvature = min(self.least_curvature, float(found[2]))
        self.set(chosen, box.a)
        return violation

    def solve_free(self) -> None:
        """Solve the free entries together, where that has been worth its cost.

        Working sets gain so much per operation since the last time; a Newton step that
        gains less is tried again only after twice as much work as before.
        """
        problem, a = self.problem, self.signed
        free = np.flatnonzero((a > problem.lower) & (a < problem.higher))
        cost = len(free) ** 2 * (len(free) / 3 + FREE_COST)
        is_due = self._spent >= max(self._patience, 1.0) * cost
        if not 2 <= len(free) <= MOST_FREE or not is_due:
            return
        residual = self.residual[free]
        low, high = problem.lower[free] - a[free], problem.higher[free] - a[free]
        K = self.kernel_rows.exact_block(self.place[free])
        step = free_step(K, residual, low, high, problem.group[free])
        is_worth = step.gain * self._spent >= self._gained * cost * step.n_solves
        self._patience *= 0.5 if is_worth else 2.0
        self._spent, self._gained = 0.0, 0.0
        self.steps += 1
        moved = a[free] + step.change
        # Exactly at the bound, where it is reached but for rounding.
        tiny = AT_BOUND * problem.upper[free]
        moved = np.where(high - step.change <= tiny, problem.higher[free], moved)
        moved = np.where(step.change - low <= tiny, problem.lower[free], moved)
        self.set(free, moved)

    def set(self, entries: Array, signed: Array) -> None:
        """Give some entries other multipliers, and update the values."""
        change = signed - self.signed[entries]
        moved = np.flatnonzero(change)
        self.signed[entries] = signed
        rows, back = np.unique(self.place[entries[moved]], return_inverse=True)
        coef = np.bincount(back, weights=change[moved], minlength=len(rows))
        for start in range(0, len(rows), self.size):  # no more than cached at once
            part = slice(start, start + self.size)
            if not self.may_go_on():  # nobody asks for these values any more
                return
            self.kernel_rows.add(rows[part], coef[part], self.values)

    def _working_set(self, residual: Array) -> tuple[Array, float]:
        """Return the most violating entries of each side, and some of the last ones."""
        problem, violation, new = self.problem, 0.0, []
        n_sides = 2 * len(problem.totals)
        can_grow = self.signed < problem.higher
        can_fall = self.signed > problem.lower
        for g in range(len(problem.totals)):
            own = problem.group == g
            up, down = np.flatnonzero(own & can_grow), np.flatnonzero(own & can_fall)
            if len(up) == 0 or len(down) == 0:
                continue
            top, bottom = float(residual[up].max()), float(residual[down].min())
            violation = max(violation, top - bottom)
            up, down = up[residual[up] > bottom], down[residual[down] < top]
            new.append(_largest(residual, up, self.size // 2 // n_sides))
            new.append(_largest(-residual, down, self.size // 2 // n_sides))
        if len(residual) <= self.size:
            return np.arange(len(residual)), violation
        if not new:
            return np.empty(0, dtype=np.int64), violation
        chosen = np.unique(np.concatenate(new))
        last, self._last = self._last, chosen
        return np.union1d(chosen, last), violation


def _largest(values: Array, among: Array, count: int) -> Array:
    if len(among) <= count:
        return among
    return np.asarray(among[np.argpartition(-values[among], count)[:count]])
