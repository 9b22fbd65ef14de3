"""Coordinate ascent on the rows of a pair that are, or may be, active.

Of two classes of 6,000 digits some 1,500 rows have a multiplier: the kernel matrix of
all rows is fifty times what is needed. A sample says which rows will be active; the
problem of these is solved on their own matrix, and its function is evaluated at all rows
of the pair: the rows that it violates most join, until the gap is that of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops.ascent import ascend
from corevec.backend.loops.symmetric import mirror
from corevec.kernels import AnyKernel, Points, Rows, finite


@dataclass(frozen=True)
class PairTerms:
    """A squared hinge on some rows: ``sum omega max(1 - y f, 0)^2 / 2 + |f|^2 / 2``."""

    rows: Rows
    kernel: AnyKernel
    sign: Array
    omega: Array
    bias: float
    dtype: Any

    def __len__(self) -> int:
        return len(self.sign)

    @cached_property
    def points(self) -> Points:
        """The rows, prepared for the kernel."""
        return self.kernel.prepare(self.rows, self.dtype)

    def violation(self, values: Array) -> Array:
        """Return ``1 - y f`` of every row, minus infinity where the weight is 0."""
        return np.where(self.omega > 0, 1.0 - self.sign * values, -np.inf)

    def part(self, few: Array, ratio: Array) -> PairTerms:
        """Return the problem on some of the rows, with weights `ratio` times theirs."""
        rows = Rows(self.rows.values[few], self.rows.index[few])
        own = self.sign[few], self.omega[few] * ratio
        return PairTerms(rows, self.kernel, *own, self.bias, self.dtype)


@dataclass(frozen=True)
class ActiveRows:
    """The method with its constants."""

    # Rows of each class in the sample, and how many rows one of them counts for at most.
    sample_rows: int = 400
    most_ratio: float = 10.0
    sample_gap: float = 0.03
    # The first set: as many rows as the sample's multipliers promise, times this.
    first_share: float = 1.2
    # ... and what joins it in a round: at most this share of the set, the most violated
    # rows; rows that are nearly violated come with them.
    joining_share: float = 0.5
    band: float = 0.02
    # Steps per row until the problem counts as too stiff, and rounds.
    steps_per_row: int = 20
    most_rounds: int = 20

    def solve(
        self,
        pair: PairTerms,
        tol: float,
        most_values: float,
        rng: np.random.Generator,
        may_go_on: Callable[[], bool],
    ) -> Array | None:
        """Return the signed multipliers, or None where they are too many or too stiff.

        Parameters
        ----------
        pair : PairTerms
            The problem.
        tol : float
            The relative gap to reach over all rows of the pair.
        most_values : float
            Kernel values that fit into the memory.
        rng : numpy.random.Generator
            Draws the sample.
        may_go_on : callable
            Whether there is time left, asked before every round.

        Returns
        -------
        ndarray or None
            ``y_i b_i`` of every row.
        """
        set_ = _ActiveSet(pair, self._first(pair, rng))
        for _ in range(self.most_rounds):
            most = self.steps_per_row * len(set_.active) + 100
            fits = 2 * len(set_.active) ** 2 <= most_values
            if not fits or not may_go_on() or not set_.ascend(tol / 2, most):
                return None
            violation = pair.violation(set_.values(pair))
            violation[set_.active] = -np.inf
            beyond = np.maximum(violation, 0.0)
            if float(pair.omega @ beyond**2) / 2 <= tol / 2 * set_.dual:
                return set_.signed()
            most = int(self.joining_share * len(set_.active)) + 100
            set_.add(_largest(violation, most, -self.band))
        return None

    def _first(self, pair: PairTerms, rng: np.random.Generator) -> Array:
        """Return the rows that the function of a sample violates most."""
        few, ratio = self._sample(pair, rng)
        sample = _ActiveSet(pair.part(few, ratio), np.arange(len(few)))
        sample.ascend(self.sample_gap, self.steps_per_row * len(few))
        violation = pair.violation(sample.values(pair))
        expected = self.first_share * float((sample.b > 0) @ ratio)
        return _largest(violation, int(expected) + 100, -np.inf)

    def _sample(
        self, pair: PairTerms, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return rows of both classes, and how many rows each of them stands for."""
        parts, ratios = [], []
        for sign in (-1.0, 1.0):
            own = np.flatnonzero((pair.sign == sign) & (pair.omega > 0))
            few = rng.permutation(own)[: self.sample_rows]
            parts.append(few)
            ratios.append(np.full(len(few), len(own) / max(len(few), 1)))
        few = np.concatenate(parts)
        return few, np.minimum(np.concatenate(ratios), self.most_ratio)


def _largest(numbers: Array, most: int, least: float) -> Array:
    """Return positions of the `most` largest numbers above `least`."""
    found = np.flatnonzero(numbers > least)
    if len(found) > most:
        found = found[np.argpartition(-numbers[found], most)[:most]]
    return np.sort(found)


class _ActiveSet:
    """The active rows with their kernel matrix and their multipliers."""

    def __init__(self, pair: PairTerms, active: Array):
        self.pair, self.dual = pair, 0.0
        self.active = np.empty(0, dtype=np.int64)
        self.b, self._matrix = np.empty(0), np.empty((0, 0), dtype=pair.dtype)
        self.add(active)

    def add(self, rows: Array) -> None:
        """Add rows to the set."""
        pair, before = self.pair, len(self.active)
        self.active = np.concatenate([self.active, rows])
        self.b = np.concatenate([self.b, np.zeros(len(rows))])
        everything = self._prepared(self.active)
        new = pair.kernel.block(everything.part(before, len(self.active)), everything)
        matrix = np.empty((len(self.active),) * 2, dtype=new.dtype)
        matrix[:before, :before] = self._matrix
        matrix[before:] = finite(new, pair.kernel)
        mirror(new[:, :before], matrix[:before, before:])
        self._matrix = matrix

    def _prepared(self, few: Array) -> Points:
        rows = self.pair.rows
        own = Rows(rows.values[few], rows.index[few])
        return self.pair.kernel.prepare(own, self.pair.dtype)

    def ascend(self, tol: float, most_steps: int) -> bool:
        """Solve the problem of the active rows; whether the gap has been reached."""
        pair, active = self.pair, self.active
        sign, omega = pair.sign[active], pair.omega[active]
        used = np.flatnonzero(self.b)
        values = (sign * self.b)[used] @ self._matrix[used]
        values = values + pair.bias * float(sign @ self.b)
        ridge = np.divide(1.0, omega, out=np.zeros(len(omega)), where=omega > 0)
        gradient = sign * values + ridge * self.b - 1.0
        given = sign, omega, self.b, gradient, tol, most_steps
        taken = ascend(self._matrix, pair.bias, *given)
        self.dual = float(self.b @ (1.0 - gradient)) / 2
        return bool(taken >= 0)

    def signed(self) -> Array:
        """Return the signed multipliers of all rows."""
        out = np.zeros(len(self.pair))
        out[self.active] = self.pair.sign[self.active] * self.b
        return out

    def values(self, pair: PairTerms) -> Array:
        """Return the function at all rows of a pair."""
        used = np.flatnonzero(self.b)
        if len(used) == 0:
            return np.zeros(len(pair))
        coef = (self.pair.sign[self.active] * self.b)[used]
        basis = self._prepared(self.active[used])
        times = pair.kernel.times(pair.points, basis, coef[:, None])
        return times[:, 0] + pair.bias * coef.sum()
