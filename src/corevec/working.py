"""Newton's method over the rows near the margin, in the span of a basis."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from corevec.bases import Basis
from corevec.problems import Problem, Terms
from corevec.sources import Source

Array = npt.NDArray[Any]

# Rows per task of the thread pool: few enough that 10,000 rows still make several.
_CHUNK = 2048


def size_of(problem: Problem, basis: Basis) -> int:
    """Return the number of variables: weights, bias, offset."""
    return len(basis) + int(problem.has_bias) + int(problem.has_offset)


def capacity(source: Source, width: int) -> int:
    """Return how many design rows 0.6 of the memory budget holds."""
    return int(0.6 * source.memory_budget / (8 * width))


class WorkingRows:
    """Design rows ``y (phi, 1)`` and terms of some rows.

    Kept in memory where the budget holds them, else made again, chunk by chunk,
    whenever they are needed.
    """

    def __init__(self, problem: Problem, source: Source, basis: Basis, index: Array):
        self.problem, self.basis, self.source = problem, basis, source
        self.index, self.width = index, size_of(problem, basis)
        chunks = [index[s : s + _CHUNK] for s in range(0, len(index), _CHUNK)]
        terms = list(source.workers.run(self._terms_of, chunks))
        self.terms = Terms(
            np.concatenate([part.sign for part in terms]),
            np.concatenate([part.omega for part in terms]),
            np.concatenate([part.target for part in terms]),
        )
        self.design: Array | None = None
        if len(index) <= capacity(source, self.width):
            self.design = np.empty((len(index), self.width))
            for _ in source.workers.run(self._keep, self._slices()):
                pass

    def times(self, v: Array) -> Array:
        """Return ``design @ v``."""

        def task(part: slice) -> Array:
            return np.asarray(self.take(part) @ v)

        return np.concatenate(list(self.source.workers.run(task, self._slices())))

    def gram(self, rows: Array, omega: Array) -> tuple[Array, Array]:
        """Return ``sum omega d d'`` and ``sum omega p d`` over the given rows."""

        def task(few: Array) -> tuple[Array, Array]:
            root = np.sqrt(omega[few])
            part = self.take(few) * root[:, None]
            return part.T @ part, (root * self.terms.target[few]) @ part

        matrix, vector = np.zeros((self.width, self.width)), np.zeros(self.width)
        chunks = [rows[s : s + _CHUNK] for s in range(0, len(rows), _CHUNK)]
        for part_matrix, part_vector in self.source.workers.run(task, chunks):
            matrix += part_matrix
            vector += part_vector
        return matrix, vector

    def _slices(self) -> list[slice]:
        n = len(self.index)
        return [slice(s, min(s + _CHUNK, n)) for s in range(0, n, _CHUNK)]

    def _terms_of(self, index: Array) -> Terms:
        return self.problem.terms(self.source.take(index), self.basis.kernel)

    def _keep(self, part: slice) -> None:
        assert self.design is not None
        self.design[part] = self._make(part)

    def take(self, part: Any) -> Array:
        """Return the design of some rows."""
        return self._make(part) if self.design is None else self.design[part]

    def _make(self, part: Any) -> Array:
        """Return the design of some rows, from their kernel values."""
        k, kernel = len(self.basis), self.basis.kernel
        rows = self.source.take(self.index[part])
        block = kernel.block(kernel.prepare(rows), self.basis.points)
        design = np.ones((len(rows), self.width))
        design[:, :k] = self.basis.features(block)
        signed = k + int(self.problem.has_bias)
        design[:, :signed] *= self.terms.sign[part, None]
        return design


def minimise(rows: WorkingRows, v: Array, boost: float = 1.0) -> tuple[Array, float]:
    """Minimise the objective over these rows: semismooth Newton, exact line search.

    Starts at the weights `v`; returns the weights and ``sum beta``.

    Each row's weight is multiplied by `boost`.
    """
    problem, omega, target = rows.problem, boost * rows.terms.omega, rows.terms.target
    penalty, linear = np.ones(len(v)), np.zeros(len(v))
    if problem.has_offset:
        penalty[-1], linear[-1] = 0.0, 1.0
    margins = rows.times(v)
    newton = _NewtonPoint(rows, omega, penalty, linear)
    for _ in range(200):
        active = (target > margins) & (omega > 0)
        new = newton.point(active)
        moved = rows.times(new)
        if np.array_equal((target > moved) & (omega > 0), active):
            v = new
            break
        line = (v, new - v, target - margins, moved - margins, omega, penalty, linear)
        length = _exact_length(*line)
        if length * np.abs(moved - margins).max() <= 1e-10:
            break
        v = v + length * (new - v)
        margins += length * (moved - margins)
    return v, float(omega @ np.maximum(target - rows.times(v), 0.0))


class _NewtonPoint:
    """Where the objective would be least if exactly the active rows were violated.

    With fewer active rows than weights the system is that of their multipliers,
    ``(D D' + 1/omega) b = p``, ``v = D'b``. Otherwise it is that of the weights, and
    the Gram matrix of the active rows is updated by the rows that come and go, which
    after the first steps are few.
    """

    def __init__(self, rows: WorkingRows, omega: Array, penalty: Array, linear: Array):
        self.rows, self.omega, self.penalty, self.linear = rows, omega, penalty, linear
        self.summed = np.zeros(len(omega), dtype=bool)  # the rows in `gram`
        self.gram, self.pull = rows.gram(np.empty(0, dtype=np.int64), omega)

    def point(self, active: Array) -> Array:
        """Return the weights that are optimal for these active rows."""
        count = np.count_nonzero(active)
        if count < self.rows.width and not self.rows.problem.has_offset:
            return self._from_multipliers(np.flatnonzero(active))
        self._sum(active, count)
        return _solve_system(self.gram, self.penalty, self.pull - self.linear)

    def _from_multipliers(self, few: Array) -> Array:
        design = self.rows.take(few)
        own = 1.0 / self.omega[few]
        b = _solve_system(design @ design.T, own, self.rows.terms.target[few])
        return np.asarray(b @ design)

    def _sum(self, active: Array, count: int) -> None:
        came = np.flatnonzero(active & ~self.summed)
        went = np.flatnonzero(self.summed & ~active)
        self.summed = active
        if len(came) + len(went) > count:
            everyone = np.flatnonzero(active)
            self.gram, self.pull = self.rows.gram(everyone, self.omega)
            return
        added, removed = (
            self.rows.gram(came, self.omega),
            self.rows.gram(went, self.omega),
        )
        self.gram = self.gram + added[0] - removed[0]
        self.pull = self.pull + added[1] - removed[1]


def _solve_system(gram: Array, penalty: Array, right: Array) -> Array:
    """Solve ``(gram + diag(penalty)) x = right`` by Cholesky."""
    system = gram.copy()
    diagonal = np.arange(len(system))
    system[diagonal, diagonal] += penalty
    jitter = 0.0
    while True:
        try:
            factor = linalg.cho_factor(system, check_finite=False)
            return np.asarray(linalg.cho_solve(factor, right, check_finite=False))
        except linalg.LinAlgError:
            more = max(9 * jitter, 1e-14 * float(np.trace(system)))
            system[diagonal, diagonal] += more
            jitter += more


def _exact_length(
    v: Array,
    step: Array,
    violation: Array,
    change: Array,
    omega: Array,
    penalty: Array,
    linear: Array,
) -> float:
    """Return the minimiser along the step: the derivative is piecewise linear."""
    slope0 = float((penalty * v + linear) @ step)
    curve0 = float((penalty * step) @ step)
    low, high, s = 0.0, 1e3, 1.0
    for _ in range(30):
        moved = violation - s * change
        part = np.where(moved > 0, omega * change, 0.0)
        slope = slope0 + s * curve0 - float(part @ moved)
        curve = curve0 + float(part @ change)
        low, high = (low, s) if slope > 0 else (s, high)
        new = s - slope / curve if curve > 0 else (low + high) / 2
        if not low <= new <= high:
            new = (low + high) / 2
        if abs(new - s) <= 1e-6 * s:
            break
        s = new
    return float(s)
