"""Working sets of entries, each solved by pairs on a block of the kernel matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops.box import Box, smo_pairs
from corevec.problems.box import BoxProblem, Measured
from corevec.solvers.hinge.free_rows import FreeStep, free_step, step_along
from corevec.solvers.hinge.interior import Small, interior_solution
from corevec.solvers.hinge.kernel_rows import KernelRows

# Entries of a working set, half of which come from the last one: a quarter of all,
# within these limits. Kernel rows are computed only for entries that were in one.
WORKING_SHARE, LEAST_WORKING_SET, WORKING_SET = 4, 256, 1024
# Up to so many entries of rows with few columns are one working set: to compute the
# whole matrix then costs less than to choose.
WHOLE, FEW_COLUMNS = 2048, 64
# A block is solved to this share of the violation that it was chosen for.
INNER_SHARE = 0.1
# Steps on one block per entry.
STEPS_PER_ENTRY = 20
# Free entries up to which a Cholesky factor is affordable: 0.5 s for so many.
MOST_FREE = 4096
# Share of the memory budget for their matrix, its factor and a copy, in float64.
FACTOR_SHARE = 0.3
# With few free entries an interior-point method solves them and their neighbours: as
# many again and at least so many, with some 25 factors.
MOST_INTERIOR, LEAST_INTERIOR, INTERIOR_FACTORS = 1024, 100, 25
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
        all_fit = kernel_rows.n_slots >= len(kernel_rows)
        n = len(problem.rows)
        size = int(np.clip(n // WORKING_SHARE, LEAST_WORKING_SET, WORKING_SET))
        if n <= WHOLE and kernel_rows.n_columns <= FEW_COLUMNS:
            size = max(n, 1)
        self.size = size if all_fit else min(size, kernel_rows.n_slots)
        self.place = kernel_rows.positions(problem.rows)
        self.values = np.zeros(len(kernel_rows))
        self.steps = 0
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
        found = np.empty(2)
        box = Box(
            np.searchsorted(problem.group[chosen], np.arange(len(problem.totals) + 1)),
            problem.lower[chosen],
            problem.higher[chosen],
            self.signed[chosen],
            residual[chosen],
        )
        is_whole = len(chosen) == len(problem.rows)
        inner = max(0.0 if is_whole else INNER_SHARE * violation, tol / 2)
        if inner == 0.0:
            inner = INNER_SHARE * violation
        most = min(STEPS_PER_ENTRY * len(chosen), most_steps)
        steps = smo_pairs(K, box, inner, most, found)
        self.steps += steps
        self._gained += float(found[1])
        size = len(chosen)
        self._spent += PAIR_COST * size * (steps + size + len(self.kernel_rows) / 8)
        self.set(chosen, box.a)
        return violation

    def solve_free(self) -> None:
        """Solve the free entries together, where that has been worth its cost.

        Working sets gain so much per operation since the last time; a step that gains
        less is tried again only after twice as much work as before.
        """
        problem, a = self.problem, self.signed
        free = np.flatnonzero((a > problem.lower) & (a < problem.higher))
        is_few = len(free) <= MOST_INTERIOR // 2
        n = len(free)
        if is_few:
            n = min(2 * n + LEAST_INTERIOR, MOST_INTERIOR, len(a))
        n_factors = INTERIOR_FACTORS if is_few else 2
        cost = n**2 * (n_factors * n / 3 + FREE_COST)
        most = np.sqrt(FACTOR_SHARE * self.kernel_rows.source.memory_budget / 24)
        if n > min(MOST_FREE, most) or self._spent < self._patience * cost:
            return
        chosen = self._with_neighbours(free, n) if is_few else free
        step = self._interior_step(chosen) if is_few else self._newton_step(chosen)
        is_worth = step.gain * self._spent >= self._gained * cost
        self._patience = float(
            np.clip(self._patience * (0.5 if is_worth else 2), 1, 1e9)
        )
        self._spent, self._gained = 0.0, 0.0
        self.steps += 1
        # Exactly at the bound, where it is reached but for rounding.
        moved = a[chosen] + step.change
        low, high = problem.lower[chosen], problem.higher[chosen]
        tiny = AT_BOUND * problem.upper[chosen]
        moved = np.where(high - moved <= tiny, high, moved)
        self.set(chosen, np.where(moved - low <= tiny, low, moved))

    def _with_neighbours(self, free: Array, n: int) -> Array:
        """Return the free entries, and the bounded ones that are nearest to be free."""
        slack = self.measured().slack
        inward = np.where(self.signed == 0, slack, -slack)
        inward[free] = np.inf
        inward[self.problem.upper == 0] = -np.inf
        return np.sort(_largest(inward, np.arange(len(inward)), n))

    def _interior_step(self, chosen: Array) -> FreeStep:
        """Return the step to the solution of some entries; none if there is none."""
        problem, a = self.problem, self.signed[chosen]
        K = self.kernel_rows.exact_block(self.place[chosen])
        residual, group = self.residual[chosen], problem.group[chosen]
        low, high = problem.lower[chosen], problem.higher[chosen]
        small = Small(K, residual + K @ a, low, high, group)
        found = interior_solution(small, a)
        if found is None:
            return FreeStep(np.zeros(len(a)), 0.0)
        # The sums are exact to the tolerance: the rest is taken from free entries.
        inside = (found > low) & (found < high)
        counts = np.bincount(group[inside], minlength=len(problem.totals)).clip(1)
        missed = np.bincount(group, found - a, minlength=len(problem.totals)) / counts
        change = found - a - np.where(inside, missed[group], 0.0)
        change = np.clip(change, low - a, high - a)
        return step_along(change, K, residual)

    def _newton_step(self, free: Array) -> FreeStep:
        problem, a = self.problem, self.signed[free]
        K = self.kernel_rows.exact_block(self.place[free])
        box = problem.lower[free] - a, problem.higher[free] - a
        return free_step(K, self.residual[free], box, problem.group[free])

    def set(self, entries: Array, signed: Array) -> None:
        """Give some entries other multipliers, and update the values."""
        change = signed - self.signed[entries]
        moved = np.flatnonzero(change)
        self.signed[entries] = signed
        rows: Array = self.place[entries[moved]]
        coef: Array = change[moved]
        if len(self.place) > len(self.values):  # two entries of one row
            rows, back = np.unique(rows, return_inverse=True)
            coef = np.bincount(back, weights=coef, minlength=len(rows))
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
