"""The expansion of LASVM: PROCESS and REPROCESS with a cache of kernel rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from corevec._runtime.types import Array
from corevec.models.expansion import KernelExpansion
from corevec.reference import _online_loops as loops
from corevec.reference._base import away_from_ends, optimal_bias
from corevec.reference._kernel_rows import KernelRows

# Candidate rows whose kernel values are computed together: one matrix product instead
# of this many matrix-vector products.
BLOCK = 256


class Expansion:
    """The rows S of the expansion, with multipliers, gradients and kernel rows.

    A row of S has a *slot*. Rows that are offered have one too, while they are, and so
    have rows that left S during that time; `alive` tells which are in S.
    """

    def __init__(self, rows: KernelRows, y: Array, box: Array, tau: float, limit: int):
        self.rows, self.y, self.box, self.tau = rows, y, box, tau
        self.index = np.empty(0, dtype=np.int64)
        self.slot_of = np.full(rows.n_rows, -1, dtype=np.int64)
        self.alpha, self.g = np.empty(0), np.empty(0)
        self.low, self.high = np.empty(0), np.empty(0)
        self.alive = np.empty(0, dtype=bool)
        self.cache = LineCache(rows.budget)
        self.state = np.zeros(5, dtype=np.int64)
        self.state[loops.LIMIT] = limit

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return int(self.state[loops.STEPS])

    @property
    def _ends(self) -> tuple[float, float]:
        """Largest gradient that may go up, smallest that may go down (REPROCESS 5)."""
        up = self.g[self.alive & (self.alpha < self.high)]
        down = self.g[self.alive & (self.alpha > self.low)]
        # One side is empty if all rows have the same class.
        most = up.max() if len(up) else down.min()
        return float(most), float(down.min() if len(down) else most)

    @property
    def bias(self) -> float:
        """``b`` of REPROCESS 5: the midpoint of the remaining violation."""
        return sum(self._ends) / 2

    def centred_bias(self) -> float:
        """Return `bias`, or the middle of the optimal ones if no row is in its box.

        Then the rows outside of S, whose multipliers are 0, bound it as well.
        """
        may_rise, may_fall = away_from_ends(self.alpha, self.low, self.high)
        if (may_rise & may_fall).any():
            return self.bias
        others = np.flatnonzero((self.slot_of < 0) & (self.box > 0))
        g_others = np.empty(0)
        if len(others):
            g_others = self.y[others] - (self.values(others) - self.bias)
        rises = np.append(may_rise, self.y[others] > 0)
        falls = np.append(may_fall, self.y[others] < 0)
        return optimal_bias(-np.append(self.g, g_others), rises, falls)

    @property
    def delta(self) -> float:
        """``delta`` of REPROCESS 5: the largest violation within S."""
        most, least = self._ends
        return most - least

    def values(self, numbers: Array) -> Array:
        """Return the values of the machine on rows."""
        has = self.alpha != 0
        coef = self.alpha[has, None]
        basis = self.rows.take(self.index[has])
        f = KernelExpansion(self.rows.kernel, basis, coef, np.array([self.bias]))
        return f.evaluate(self.rows.take(numbers), f.prepared())[:, 0]

    def seed(self, numbers: Array) -> None:
        """Add rows to S, with coefficient 0."""
        self._admit(numbers)
        self.alive[:] = True

    def online(self, numbers: Array) -> bool:
        """PROCESS each row, REPROCESS once after each; return False at the limit."""
        order = self._admit(numbers)
        self.state[[loops.AT, loops.IS_PROCESSED]] = 0
        done = self._run(lambda *S: loops.lasvm_online(order, self.tau, *S))
        self._compact()
        return done

    def online_within(self, numbers: Array, most: int) -> bool:
        """As `online`, until S has `most` rows: each candidate adds at most one."""
        going = True
        while going and len(numbers) and (room := most - len(self.index)) > 0:
            going, numbers = self.online(numbers[:room]), numbers[room:]
        return going

    def finish(self) -> bool:
        """REPROCESS until `delta` is at most `tau`; return False at the limit."""
        self._admit(np.empty(0, dtype=np.int64))
        most = np.iinfo(np.int64).max
        done = self._run(lambda *S: loops.lasvm_finish(self.tau, *S, most))
        self._compact()
        return done

    def _run(self, loop: Callable[..., int]) -> bool:
        """Call a compiled loop, and compute the kernel rows that it requests."""
        cache = self.cache
        arrays = (self.alpha, self.g, self.low, self.high, self.alive)
        while True:
            lines = (cache.lines, cache.line_of, cache.used)
            answer = loop(arrays, lines, self.state)
            if answer < 0:
                return bool(answer == loops.DONE)
            cache.put(answer, self._kernel_row(answer), self.state)

    def _kernel_row(self, slot: int) -> Array:
        first = len(self.index) - len(self.fresh)
        if slot >= first:
            return np.asarray(self.fresh[slot - first])
        return np.asarray(self.rows.block(self.index[[slot]], self.points)[0])

    def _admit(self, numbers: Array) -> Array:
        """Return the slots of the rows `numbers`, after assigning missing ones."""
        new = np.unique(numbers[self.slot_of[numbers] < 0])
        n, b = len(self.index), len(new)
        self.slot_of[new] = np.arange(n, n + b)
        self.index = np.append(self.index, new)
        self.points = self.rows.prepared(self.index)
        self.fresh = self.rows.block(new, self.points) if b else np.empty((0, n))
        # PROCESS 2 for all of them: a multiplier of 0 and its gradient.
        self.g = np.append(self.g, self.y[new] - self.fresh[:, :n] @ self.alpha)
        self.alpha = np.append(self.alpha, np.zeros(b))
        ends = self.box[new] * self.y[new]
        self.low = np.append(self.low, np.minimum(ends, 0))
        self.high = np.append(self.high, np.maximum(ends, 0))
        self.alive = np.append(self.alive, np.zeros(b, dtype=bool))
        self.cache.add_columns(n, self.fresh)
        return np.asarray(self.slot_of[numbers])

    def _compact(self) -> None:
        """Remove the slots of rows that are not in S; the last slots fill the gaps."""
        n = int(np.count_nonzero(self.alive))
        gaps = np.flatnonzero(~self.alive[:n])
        last = n + np.flatnonzero(self.alive[n:])
        self.slot_of[self.index[~self.alive]] = -1
        self.slot_of[self.index[last]] = gaps
        self.cache.move(last, gaps, ~self.alive, n)
        for name in ("index", "alpha", "g", "low", "high"):
            values = getattr(self, name)
            values[gaps] = values[last]
            setattr(self, name, values[:n])
        self.alive = np.ones(n, dtype=bool)


class LineCache:
    """Cache of the kernel rows of slots against all slots, within a budget.

    Rows that get a slot get a column in every line, from their own kernel values: the
    matrix is symmetric. A line is therefore always whole.
    """

    def __init__(self, budget: float):
        self.budget = budget
        self.lines = np.empty((0, 0))
        self.line_of = np.empty(0, dtype=np.int64)  # of a slot; -1: none
        self.owner = np.empty(0, dtype=np.int64)  # slot of a line; -1: free
        self.used = np.empty(0, dtype=np.int64)  # when; -1: free

    def put(self, slot: int, values: Array, state: Array) -> None:
        """Cache the kernel row of a slot, in place of the least recently used line."""
        line = int(np.argmin(self.used))
        if self.owner[line] >= 0:
            self.line_of[self.owner[line]] = -1
        self.lines[line, : len(values)] = values
        self.owner[line], self.line_of[slot] = slot, line
        self.used[line] = state[loops.CLOCK]
        state[loops.CLOCK] += 1

    def add_columns(self, first: int, rows: Array) -> None:
        """Add the columns of the slots from `first` on to each line."""
        last = first + len(rows)
        self._widen(last)
        taken = np.flatnonzero(self.owner >= 0)
        self.lines[taken, first:last] = rows[:, self.owner[taken]].T
        self.line_of = np.append(self.line_of, np.full(len(rows), -1))

    def move(self, last: Array, gaps: Array, dead: Array, n: int) -> None:
        """Remove the slots `dead`, move the slots `last` into `gaps`, keep n."""
        free = self.line_of[dead]
        free = free[free >= 0]
        self.owner[free], self.used[free] = -1, -1
        taken = np.flatnonzero(self.owner >= 0)
        self.lines[np.ix_(taken, gaps)] = self.lines[np.ix_(taken, last)]
        moved = self.line_of[last]
        self.owner[moved[moved >= 0]] = gaps[moved >= 0]
        self.line_of[gaps] = moved
        self.line_of = self.line_of[:n].copy()

    def _widen(self, width: int) -> None:
        if width <= self.lines.shape[1]:
            return
        width = max(3 * width // 2, 2 * BLOCK)
        count = int(max(2, min(width, self.budget // (8 * width))))
        taken = np.flatnonzero(self.owner >= 0)
        newest = taken[np.argsort(-self.used[taken], kind="stable")][:count]
        old, owner, used = self.lines, self.owner[newest], self.used[newest]
        self.lines = np.empty((count, width))
        self.lines[: len(newest), : old.shape[1]] = old[newest]
        self.owner, self.used = np.full(count, -1), np.full(count, -1)
        self.owner[: len(newest)], self.used[: len(newest)] = owner, used
        self.line_of[:] = -1
        self.line_of[owner] = np.arange(len(newest))
