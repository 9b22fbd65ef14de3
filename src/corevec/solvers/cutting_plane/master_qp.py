"""The small quadratic programme over cutting planes, and the planes themselves.

A cut of the 1-slack problem (CPSP paper, eq. 2) is a lower bound of the risk that holds
for every w: ``risk(w) >= Delta_j - <w, Psi_j>``. Over m of them

    max over alpha >= 0, sum(alpha) <= C    alpha'Delta - alpha'H alpha/2

with ``H_ij = <Psi_i, Psi_j>`` is a lower bound of the whole problem (lines 4-6 of the
algorithms), and ``w = sum_j alpha_j Psi_j``. Some 30 cuts matter, however many rows
there are, so the programme is solved exactly, by an active set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from corevec._runtime.types import EPS, Array
from corevec.solvers.numeric.jitter import with_jitter

# Relative gap at which the programme counts as solved: far below any `tol`.
SOLVED_GAP = 1e-11


@dataclass(frozen=True)
class CutSolution:
    """Multipliers of the cuts, their value, and its distance from the maximum."""

    alpha: Array
    value: float
    gap: float
    steps: int


def solve_cuts(
    H: Array, delta: Array, C: float, start: Array | None = None
) -> CutSolution:
    """Return the maximiser of ``a'delta - a'Ha/2`` over ``a >= 0, sum(a) <= C``.

    A primal active-set method on the simplex ``x = a/C`` with one more vertex, zero,
    for the part of C that is not used. Each step solves the programme on the free
    vertices exactly and moves there, or to the first vertex that becomes zero on the
    way; the vertex with the steepest ascent is then freed. `start` (feasible, or
    nearly) is the warm start: from one round to the next few vertices change.

    Parameters
    ----------
    H : ndarray of shape (m, m)
        Inner products of the cuts, positive semidefinite.
    delta : ndarray of shape (m,)
        Their offsets.
    C : float
        Upper bound of the sum.
    start : ndarray, optional
        Warm start; shorter than m where cuts were added.

    Returns
    -------
    CutSolution
        Feasible multipliers, whatever the rounding; the maximum exceeds `value` by at
        most `gap`, in the same unit.
    """
    m = len(delta)
    M = np.zeros((m + 1, m + 1))
    M[:m, :m] = C * H
    d = np.append(np.asarray(delta, dtype=np.float64), 0.0)
    x = _start(start, m, C)
    rounding = 4 * EPS * float(np.abs(M).max(initial=0.0))
    free = x > 0
    gap, steps = np.inf, 0
    while steps < 20 * m + 50:
        steps += 1
        blocked = _move(M, d, x, free)
        if blocked:
            continue
        slope = d - M @ x  # ascent per vertex; at the best all free ones are equal
        best = int(np.argmax(slope))
        value = float(d @ x - x @ (M @ x) / 2)
        gap = max(0.0, float(slope[best] - slope @ x))
        if gap <= max(SOLVED_GAP * abs(value), rounding) or free[best]:
            break
        free[best] = True
    alpha = C * x[:m]
    value = float(alpha @ delta - alpha @ (H @ alpha) / 2)
    return CutSolution(alpha, value, C * gap, steps)


def _start(start: Array | None, m: int, C: float) -> Array:
    x = np.zeros(m + 1)
    if start is not None:
        x[: len(start)] = np.maximum(start, 0.0) / C
    total = float(x.sum())
    if total > 1:
        x /= total
    x[m] = max(0.0, 1.0 - float(x[:m].sum()))
    return x


def _move(M: Array, d: Array, x: Array, free: Array) -> bool:
    """Move `x` to the best point on the free vertices; return whether one blocked it.

    Both `x` and `free` are changed in place.
    """
    rows = np.flatnonzero(free)
    target = _best_on(M[np.ix_(rows, rows)], d[rows])
    now = x[rows]
    step = target - now
    shrinking = step < 0
    reach, blocking = 1.0, -1
    if shrinking.any():
        ratio = np.full(len(rows), np.inf)
        ratio[shrinking] = now[shrinking] / -step[shrinking]
        blocking = int(np.argmin(ratio))
        reach = min(1.0, float(ratio[blocking]))
    x[rows] = np.maximum(now + reach * step, 0.0)
    if reach < 1.0:
        x[rows[blocking]] = 0.0
        free[rows[blocking]] = False
    x /= x.sum()
    return reach < 1.0


def _best_on(M: Array, d: Array) -> Array:
    """Return the maximiser of ``d'x - x'Mx/2`` over ``sum(x) = 1``, any signs.

    ``M + c 11'`` has the same maximiser and is definite unless the vertices are
    affinely dependent (the same cut twice); then a ridge of 1e-13 picks one.
    """
    # A cut of no direction (contradictory duplicates) leaves M = 0: the scale is d's.
    c = max(float(M.diagonal().max()), 1e-12 * float(np.abs(d).max()), 1e-300)

    def factored(ridge: float) -> Array:
        shifted = M + c
        shifted[np.diag_indices(len(d))] += ridge
        factor, failed = linalg.lapack.dpotrf(shifted, lower=1, overwrite_a=1)
        if failed or factor.diagonal().min() <= 1e-7 * np.sqrt(ridge + EPS * c):
            raise linalg.LinAlgError
        return np.asarray(factor)

    factor = with_jitter(factored, c, first=1e-13)
    both = np.stack([d, np.ones(len(d))], axis=1)
    solved = linalg.cho_solve((factor, True), both, check_finite=False)
    price = (solved[:, 0].sum() - 1.0) / solved[:, 1].sum()
    return np.asarray(solved[:, 0] - price * solved[:, 1])


class Cuts:
    """The cuts of one run: directions, offsets, which rows they hold, multipliers.

    Parameters
    ----------
    C : float
        Upper bound of the sum of the multipliers (the paper's C, n times
        scikit-learn's).
    width : int
        The length of a direction Psi_j.
    n_rows : int
        The number of rows; a cut stores in n/8 bytes which of them it holds violated.
    """

    def __init__(self, C: float, width: int, n_rows: int):
        self.C, self.n_rows = C, n_rows
        self._buffer = np.empty((16, width))  # a cut per row; grows by half
        self.H = np.zeros((0, 0))
        self.delta = np.zeros(0)
        self.alpha = np.zeros(0)
        self.idle = np.zeros(0, dtype=np.int64)
        self._held: list[Array] = []
        self.value = 0.0  # of the zero cut alone: no risk is below 0

    def __len__(self) -> int:
        return len(self.delta)

    @property
    def directions(self) -> Array:
        """The directions Psi_j, one per row."""
        return self._buffer[: len(self)]

    def add(
        self, direction: Array, products: Array, delta: float, held: Array | None = None
    ) -> None:
        """Add one cut; `products` are its inner products with the others and itself."""
        m = len(self)
        H = np.empty((m + 1, m + 1))
        H[:m, :m] = self.H
        H[m], H[:, m] = products, products
        self.H = H
        if m == len(self._buffer):
            larger = np.empty((m + m // 2 + 8, self._buffer.shape[1]))
            larger[:m] = self._buffer
            self._buffer = larger
        self._buffer[m] = direction
        self.delta = np.append(self.delta, delta)
        self.alpha = np.append(self.alpha, 0.0)
        self.idle = np.append(self.idle, 0)
        empty = np.zeros(self.n_rows, dtype=bool)
        self._held.append(np.packbits(empty if held is None else held))

    def solve(self) -> float:
        """Solve the programme over the cuts; return its value, a lower bound."""
        found = solve_cuts(self.H, self.delta, self.C, self.alpha)
        self.alpha, self.value = found.alpha, found.value
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)
        return self.value

    def drop_idle(self, rounds: int) -> None:
        """Remove the cuts that had no multiplier for more than `rounds` rounds.

        ``rounds=0`` is the paper's `remove_inactive`.
        """
        keep = np.flatnonzero(self.idle <= rounds)
        if len(keep) == len(self):
            return
        for new, old in enumerate(keep):  # in place: a direction can be long
            self._buffer[new] = self._buffer[old]
        self.delta = self.delta[keep]
        self.H = np.ascontiguousarray(self.H[np.ix_(keep, keep)])
        self.alpha, self.idle = self.alpha[keep], self.idle[keep]
        self._held = [self._held[j] for j in keep]

    def widen(self, columns: Array) -> None:
        """Append new coordinates (m, added) to the directions: the span has grown."""
        self._buffer = np.concatenate([self.directions, columns], axis=1)
        self.H = self.H + columns @ columns.T

    def combined(self) -> Array:
        """Return ``w = sum_j alpha_j Psi_j``."""
        return np.asarray(self.alpha @ self.directions)

    @property
    def slack(self) -> float:
        """The slack xi of the model (line 6): ``(a'Delta - a'Ha)/C``."""
        return float(self.alpha @ (self.delta - self.H @ self.alpha)) / self.C

    def held(self, j: int) -> Array:
        """Return which rows cut j holds violated."""
        return np.unpackbits(self._held[j], count=self.n_rows).astype(bool)

    def row_share(self) -> Array:
        """Return, for each row, the sum of the multipliers of the cuts that hold it."""
        total = np.zeros(self.n_rows)
        for j in np.flatnonzero(self.alpha > 0):
            total[self.held(int(j))] += self.alpha[j]
        return total
