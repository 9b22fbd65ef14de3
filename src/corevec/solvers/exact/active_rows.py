"""Coordinate ascent on the rows of a problem that are, or may be, active.

Of two classes of 6,000 digits some 1,500 rows have a multiplier: the kernel matrix of
all rows is fifty times what is needed. A sample says which rows will be active. Their
problem is solved on their own matrix, and its function is evaluated at all rows: those
that it violates most join, until the gap is that of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops.ascent import ascend
from corevec.backend.loops.symmetric import mirror
from corevec.backend.profiles import SINGLE_UNIT
from corevec.data.sources import Workers
from corevec.kernels import AnyKernel, Kernel, Points, Rows, finite

# Rows that a thread evaluates at a time.
PASS_ROWS = 2048
# Rows of the kernel matrix that a thread computes at a time.
BLOCK_ROWS = 512


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

    def violation(self, values: Array) -> Array:
        """Return ``1 - y f`` of every row, minus infinity where the weight is 0."""
        return np.where(self.omega > 0, 1.0 - self.sign * values, -np.inf)

    def part(self, few: Array, ratio: Array) -> Hinge:
        """Return the problem on some of the rows, with weights `ratio` times theirs."""
        rows = Rows(self.rows.values[few], self.rows.index[few])
        own = self.sign[few], self.omega[few] * ratio
        return Hinge(rows, self.kernel, *own, self.bias, self.dtype, self.workers)


@dataclass(frozen=True)
class Solved:
    """Signed multipliers ``y_i b_i`` of all rows, and the values of the function.

    Values are in float64, but for those of rows that are surely outside the margin.
    """

    coef: Array
    values: Array


@dataclass(frozen=True)
class ActiveRows:
    """The method with its constants."""

    # Rows of each class in the sample, which promises 0.9 to 1.8 times the multipliers
    # that there are (six tables of 30,000 to 100,000 rows): the size of the first set.
    sample_rows: int = 400
    sample_gap: float = 0.03
    # Rows of the first set up to which one multiplier at a time pays.
    most_active: float = np.inf
    # Steps per row of the sample from which a problem of its own is too stiff: tables
    # at C = 1 to 10 took 0.2 to 0.9, ijcnn1 at C = 32 and gamma = 2 took 10.
    sample_steps: float = np.inf
    # What joins the set in a round: violated rows, at most this share of it, and rows
    # that are nearly violated, at most that share.
    joining_share: float = 0.5
    near_share: float = 0.1
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
    ) -> Solved | None:
        """Return the solution, or None where they are too many or too stiff.

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
        Solved or None
            None: another solver is better.
        """
        most_rows = np.sqrt(most_values / 2)
        if min(2 * self.sample_rows, len(hinge)) > most_rows:
            return None
        joining = self._first(hinge, min(self.most_active, most_rows), rng)
        if joining is None:
            return None
        set_ = _ActiveSet(hinge)
        gradient = np.full(len(joining), -1.0)
        for _ in range(self.most_rounds):
            if len(set_.active) + len(joining) > most_rows or not may_go_on():
                return None
            set_.add(joining, gradient)
            most = self.steps_per_row * len(set_.active) + 100
            if not set_.ascend(tol / 2, most):
                return None
            values, error = set_.values(hinge, hinge.dtype)
            violation = hinge.violation(values)
            violation[set_.active] = -np.inf
            beyond = np.maximum(violation, 0.0)
            if float(hinge.omega @ beyond**2) / 2 <= tol / 2 * set_.dual:
                return Solved(set_.signed(), set_.certified(hinge, values, error))
            n_active, n_violated = len(set_.active), int(np.count_nonzero(beyond))
            most = min(n_violated, int(self.joining_share * n_active))
            most += int(self.near_share * n_active) + 100
            joining = _largest(violation, most, -self.band)
            gradient = -violation[joining]
        return None

    def _first(
        self, hinge: Hinge, most_rows: float, rng: np.random.Generator
    ) -> Array | None:
        """Return the rows that the function of a sample violates most.

        None where they are too many, or the sample is too stiff.
        """
        few, ratio = self._sample(hinge, rng)
        sample = _ActiveSet(hinge.part(few, ratio))
        sample.add(np.arange(len(few)), np.full(len(few), -1.0))
        most = min(self.sample_steps, self.steps_per_row) * len(few)
        is_solved = sample.ascend(self.sample_gap, int(most))
        expected = int((sample.b > 0) @ ratio)
        is_stiff = not is_solved and self.sample_steps < self.steps_per_row
        if expected > most_rows or is_stiff:
            return None
        values, _ = sample.values(hinge, hinge.dtype)
        return _largest(hinge.violation(values), expected + 100, -np.inf)

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
        kernel = hinge.kernel
        points = kernel.prepare(self._rows(self.active), hinge.dtype)
        matrix = np.empty((len(self.active),) * 2, dtype=points.dtype)
        matrix[:before, :before] = self._matrix

        def fill(part: slice) -> None:
            # The lower triangle; its transpose follows.
            own = points.part(part.start, part.stop)
            block = finite(kernel.block(own, points.part(0, part.stop)), kernel)
            matrix[part, : part.stop] = block
            mirror(block, matrix[: part.stop, part])

        n = len(self.active)
        parts = [slice(s, min(s + BLOCK_ROWS, n)) for s in range(before, n, BLOCK_ROWS)]
        list(hinge.workers.run(fill, parts[::-1]))
        self._matrix = matrix

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

    def values(self, hinge: Hinge, dtype: Any) -> tuple[Array, Array]:
        """Return the function at all rows of a problem, and bounds on its errors.

        The bounds are those of float32, infinite where none is known.
        """
        used = np.flatnonzero(self.b)
        out = np.zeros((2, len(hinge)))
        if len(used) == 0:
            return out[0], out[1]
        coef = (self.hinge.sign[self.active] * self.b)[used]
        kernel, rows = hinge.kernel, hinge.rows
        basis = kernel.prepare_basis(self._rows(self.active[used]), dtype)

        def fill(part: slice) -> None:
            points = kernel.prepare(Rows(rows.values[part], rows.index[part]), dtype)
            out[:, part] = _values_and_errors(kernel, points, basis, coef)

        n, step = len(hinge), PASS_ROWS
        parts = [slice(s, min(s + step, n)) for s in range(0, n, step)]
        list(hinge.workers.run(fill, parts))
        return out[0] + hinge.bias * self.signed().sum(), out[1]

    def certified(self, hinge: Hinge, values: Array, error: Array) -> Array:
        """Return values that primal and dual may be computed from.

        They are in float64 wherever they count: at the rows with a multiplier, and at
        those whose float32 value, with its error, may lie inside the margin.
        """
        if hinge.dtype == np.float64:
            return values
        counts = hinge.violation(values) > -error
        counts[self.active] = True
        few, out = np.flatnonzero(counts), values.copy()
        out[few] = self.values(hinge.part(few, np.ones(len(few))), np.float64)[0]
        return out

    def _rows(self, few: Array) -> Rows:
        rows = self.hinge.rows
        return Rows(rows.values[few], rows.index[few])


def _values_and_errors(
    kernel: AnyKernel, points: Points, basis: Points, coef: Array
) -> Array:
    """Return ``K coef``, and bounds on what float32 makes wrong in it: (2, rows).

    A value k_ij is wrong by ``k_ij (exp(a_i + b_j) - 1)`` at most, and a sum of m terms
    by m units of the sum of their sizes.
    """
    rounding = None
    if isinstance(kernel, Kernel) and points.dtype == np.float32:
        rounding = kernel.single_rounding(points, basis)
    if rounding is None:
        values = kernel.times(points, basis, coef[:, None])[:, 0]
        return np.stack([values, np.full(len(values), np.inf)])
    own, other = rounding
    size = np.abs(coef)
    found = kernel.times(points, basis, np.column_stack([coef, size, size * other]))
    growth = np.exp(3.0 * np.minimum(own + other.max(initial=0.0), 100.0))
    terms = SINGLE_UNIT * (len(coef) + 8)
    error = growth * ((own + terms) * found[:, 1] + found[:, 2])
    return np.stack([found[:, 0], error + 2.0**-120 * size.sum()])
