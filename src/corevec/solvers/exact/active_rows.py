"""Coordinate ascent on the rows of a problem that are, or may be, active.

Of two classes of 6,000 digits some 1,500 rows have a multiplier: the kernel matrix of
all rows is fifty times what is needed. A sample says which rows will be active. Their
problem is solved on their own matrix, and its function is evaluated at all rows: those
that it violates most join, until the gap is that of all rows.
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
from corevec.data.sources import Workers
from corevec.kernels import AnyKernel, Points, Rows, finite


@dataclass(frozen=True)
class Hinge:
    """A squared hinge on some rows: ``sum omega max(1 - y f, 0)^2 / 2 + |f|^2 / 2``."""

    rows: Rows
    kernel: AnyKernel
    sign: Array
    omega: Array
    bias: float
    dtype: Any
    workers: Workers

    def __len__(self) -> int:
        return len(self.sign)

    @cached_property
    def points(self) -> Points:
        """The rows, prepared for the kernel."""
        return self.kernel.prepare(self.rows, self.dtype)

    def violation(self, values: Array) -> Array:
        """Return ``1 - y f`` of every row, minus infinity where the weight is 0."""
        return np.where(self.omega > 0, 1.0 - self.sign * values, -np.inf)

    def part(self, few: Array, ratio: Array) -> Hinge:
        """Return the problem on some of the rows, with weights `ratio` times theirs."""
        rows = Rows(self.rows.values[few], self.rows.index[few])
        own = self.sign[few], self.omega[few] * ratio
        return Hinge(rows, self.kernel, *own, self.bias, self.dtype, self.workers)


@dataclass(frozen=True)
class ActiveRows:
    """The method with its constants."""

    # Rows of each class in the sample, which promises 0.9 to 1.8 times the multipliers
    # that there are (six tables of 30,000 to 100,000 rows): the size of the first set.
    sample_rows: int = 400
    sample_gap: float = 0.03
    # Active rows up to which one multiplier at a time pays.
    most_active: float = np.inf
    # What joins the set in a round: at most this share of it, the most violated rows;
    # rows that are nearly violated come with them.
    joining_share: float = 0.5
    band: float = 0.02
    # Steps per row until the problem counts as too stiff, and rounds.
    steps_per_row: int = 20
    most_rounds: int = 20

    def solve(
        self,
        hinge: Hinge,
        tol: float,
        most_values: float,
        rng: np.random.Generator,
        may_go_on: Callable[[], bool],
    ) -> Array | None:
        """Return the signed multipliers, or None where they are too many or too stiff.

        Parameters
        ----------
        hinge : Hinge
            The problem.
        tol : float
            The relative gap to reach over all rows.
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
        most_rows = min(self.most_active, np.sqrt(most_values / 2))
        joining = self._first(hinge, most_rows, rng)
        set_ = _ActiveSet(hinge)
        gradient = np.full(len(joining), -1.0)
        for _ in range(self.most_rounds):
            if len(set_.active) + len(joining) > most_rows or not may_go_on():
                return None
            set_.add(joining, gradient)
            most = self.steps_per_row * len(set_.active) + 100
            if not set_.ascend(tol / 2, most):
                return None
            violation = hinge.violation(set_.values(hinge))
            violation[set_.active] = -np.inf
            beyond = np.maximum(violation, 0.0)
            if float(hinge.omega @ beyond**2) / 2 <= tol / 2 * set_.dual:
                return set_.signed()
            most = int(self.joining_share * len(set_.active)) + 100
            joining = _largest(violation, most, -self.band)
            gradient = -violation[joining]
        return None

    def _first(self, hinge: Hinge, most_rows: float, rng: np.random.Generator) -> Array:
        """Return the rows that the function of a sample violates most.

        Where they are too many, all rows.
        """
        few, ratio = self._sample(hinge, rng)
        sample = _ActiveSet(hinge.part(few, ratio))
        sample.add(np.arange(len(few)), np.full(len(few), -1.0))
        sample.ascend(self.sample_gap, self.steps_per_row * len(few))
        expected = int((sample.b > 0) @ ratio)
        if expected > most_rows:
            return np.arange(len(hinge))
        return _largest(hinge.violation(sample.values(hinge)), expected + 100, -np.inf)

    def _sample(self, hinge: Hinge, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return rows of both classes, and how many rows each of them stands for."""
        parts, ratios = [], []
        for sign in (-1.0, 1.0):
            own = np.flatnonzero((hinge.sign == sign) & (hinge.omega > 0))
            few = rng.permutation(own)[: self.sample_rows]
            parts.append(few)
            ratios.append(np.full(len(few), len(own) / max(len(few), 1)))
        return np.concatenate(parts), np.concatenate(ratios)


def _largest(numbers: Array, most: int, least: float) -> Array:
    """Return positions of the `most` largest numbers above `least`."""
    found = np.flatnonzero(numbers > least)
    if len(found) > most:
        found = found[np.argpartition(-numbers[found], most)[:most]]
    return np.sort(found)


class _ActiveSet:
    """The active rows with their kernel matrix and their multipliers."""

    def __init__(self, hinge: Hinge):
        self.hinge, self.dual = hinge, 0.0
        self.active = np.empty(0, dtype=np.int64)
        self.b, self._gradient = np.empty(0), np.empty(0)
        self._matrix = np.empty((0, 0), dtype=hinge.dtype)

    def add(self, rows: Array, gradient: Array) -> None:
        """Add rows to the set, with ``y f - 1`` there."""
        hinge, before = self.hinge, len(self.active)
        self.active = np.concatenate([self.active, rows])
        self.b = np.concatenate([self.b, np.zeros(len(rows))])
        self._gradient = np.concatenate([self._gradient, gradient])
        everything = self._prepared(self.active)
        matrix = np.empty((len(self.active),) * 2, dtype=everything.dtype)
        matrix[:before, :before] = self._matrix

        def fill(part: slice) -> None:
            own = slice(before + part.start, before + part.stop)
            block = hinge.kernel.block(everything.part(own.start, own.stop), everything)
            matrix[own] = finite(block, hinge.kernel)
            mirror(block[:, :before], matrix[:before, own])

        list(hinge.workers.run(fill, hinge.workers.shares(len(rows))))
        self._matrix = matrix

    def _prepared(self, few: Array) -> Points:
        rows = self.hinge.rows
        own = Rows(rows.values[few], rows.index[few])
        return self.hinge.kernel.prepare(own, self.hinge.dtype)

    def ascend(self, tol: float, most_steps: int) -> bool:
        """Solve the problem of the active rows; whether the gap has been reached."""
        hinge = self.hinge
        sign, omega = hinge.sign[self.active], hinge.omega[self.active]
        given = sign, omega, self.b, self._gradient, tol, most_steps
        taken = ascend(self._matrix, hinge.bias, *given)
        self.dual = float(self.b @ (1.0 - self._gradient)) / 2
        return bool(taken >= 0)

    def signed(self) -> Array:
        """Return the signed multipliers of all rows."""
        out = np.zeros(len(self.hinge))
        out[self.active] = self.hinge.sign[self.active] * self.b
        return out

    def values(self, hinge: Hinge) -> Array:
        """Return the function at all rows of a hinge."""
        used = np.flatnonzero(self.b)
        if len(used) == 0:
            return np.zeros(len(hinge))
        coef = (self.hinge.sign[self.active] * self.b)[used]
        basis = self._prepared(self.active[used])
        out = np.empty(len(hinge))

        def fill(part: slice) -> None:
            points = hinge.points.part(part.start, part.stop)
            out[part] = hinge.kernel.times(points, basis, coef[:, None])[:, 0]

        list(hinge.workers.run(fill, hinge.workers.shares(len(hinge))))
        return out + hinge.bias * coef.sum()
