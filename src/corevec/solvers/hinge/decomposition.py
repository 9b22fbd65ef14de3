"""Working sets of entries, each solved by pairs on a block of the kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops.box import smo_pairs
from corevec.solvers.hinge.kernel_rows import KernelRows

# A block is solved to this share of the violation that it was chosen for.
INNER_SHARE = 0.1
# Steps on one block per entry.
STEPS_PER_ENTRY = 20


@dataclass
class State:
    """Multipliers of some entries and the values of the function at their rows.

    Attributes
    ----------
    signed, low, high, target : ndarray of shape (entries,)
        a_e, its bounds, and t_e.
    place : ndarray of shape (entries,)
        Position of each entry's row among the local rows.
    group : ndarray of shape (entries,)
        The fixed sum that each entry belongs to.
    values : ndarray of shape (rows,)
        f at the local rows, all multipliers included.
    """

    signed: Array
    low: Array
    high: Array
    target: Array
    place: Array
    group: Array
    n_groups: int
    values: Array
    steps: int = 0
    least_curvature: float = float("inf")

    @property
    def residual(self) -> Array:
        """``t_e - f(x_e)``."""
        return np.asarray(self.target - self.values[self.place])


class Decomposition:
    """Rounds of one working set each."""

    def __init__(self, state: State, kernel_rows: KernelRows, size: int):
        self.state, self.kernel_rows, self.size = state, kernel_rows, size
        self.kept = np.empty(0, dtype=np.int64)

    def round(self, tol: float, most_steps: int) -> float:
        """Solve one working set; return the violation of all entries before it."""
        state = self.state
        residual = state.residual
        chosen, violation = self._working_set(residual)
        if violation <= tol or len(chosen) < 2:
            return violation
        chosen = chosen[np.argsort(state.group[chosen], kind="stable")]
        cuts = np.searchsorted(state.group[chosen], np.arange(state.n_groups + 1))
        K = self.kernel_rows.block(state.place[chosen])
        before = state.signed[chosen]
        a, found = before.copy(), np.empty(3)
        state.steps += smo_pairs(
            K,
            cuts,
            state.low[chosen],
            state.high[chosen],
            a,
            residual[chosen],
            max(INNER_SHARE * violation, tol / 2),
            min(STEPS_PER_ENTRY * len(chosen), most_steps),
            found,
        )
        state.least_curvature = min(state.least_curvature, float(found[2]))
        state.signed[chosen] = a
        self.move(chosen, a - before)
        return violation

    def move(self, entries: Array, change: Array) -> None:
        """Update the values for a change of some multipliers."""
        moved = change != 0
        if not moved.any():
            return
        rows, coef = self.state.place[entries[moved]], -change[moved]
        if len(self.state.place) != len(self.state.values):  # two entries of one row
            rows, back = np.unique(rows, return_inverse=True)
            coef = np.bincount(back, weights=coef)
        self.kernel_rows.add(rows, -coef, self.state.values)

    def _working_set(self, residual: Array) -> tuple[Array, float]:
        """Return the most violating entries of each side, and some of the last ones."""
        state, violation = self.state, 0.0
        if len(residual) <= self.size:
            return np.arange(len(residual)), self._violation(residual)
        half = self.size // 2
        parts = [self.kept]
        quarter = max(1, half // (2 * state.n_groups))
        for g in range(state.n_groups):
            own = np.flatnonzero(state.group == g)
            r, a = residual[own], state.signed[own]
            can_grow, can_fall = a < state.high[own], a > state.low[own]
            if not (can_grow.any() and can_fall.any()):
                continue
            top, bottom = float(r[can_grow].max()), float(r[can_fall].min())
            violation = max(violation, top - bottom)
            up = own[can_grow & (r > bottom)]
            down = own[can_fall & (r < top)]
            parts.append(_largest(residual, up, quarter))
            parts.append(_largest(-residual, down, quarter))
        new = np.unique(np.concatenate(parts[1:])) if len(parts) > 1 else parts[0]
        chosen = np.union1d(new, self.kept)
        self.kept = new[: self.size - half]
        return chosen, violation

    def _violation(self, residual: Array) -> float:
        state, violation = self.state, 0.0
        for g in range(state.n_groups):
            own = state.group == g
            up = residual[own & (state.signed < state.high)]
            down = residual[own & (state.signed > state.low)]
            if len(up) and len(down):
                violation = max(violation, float(up.max() - down.min()))
        return violation


def _largest(values: Array, among: Array, count: int) -> Array:
    if len(among) <= count:
        return among
    return np.asarray(among[np.argpartition(-values[among], count)[:count]])
