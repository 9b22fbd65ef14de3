"""Machines of several folds along C, on one kernel matrix.

The kernel matrix of all rows depends neither on C nor on the fold: the rows that a fold
holds out have the weight 0 in its problems, and the columns of the same matrix give
their values. A path is one problem at growing C, and each solution starts the next.
Squared hinges are solved one multiplier at a time (`backend.loops.ascent`), each path
on a thread; what is too stiff for that, and regressions, by Newton steps
(`solvers.exact.newton`) that all folds take together, because one product with the
matrix serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import to_numpy
from corevec.backend.loops.ascent import ascend
from corevec.certificates.definite import is_definite_by_name
from corevec.data.sources import Workers
from corevec.kernels import AnyKernel, Rows
from corevec.problems.family import Floor, Problem
from corevec.solvers.exact.gram import SquareGram
from corevec.solvers.exact.newton import Aim, Machine, newton
from corevec.solvers.exact.rounds import searching_precision
from corevec.solvers.exact.working_set import WorkingSet

# Steps per row after which a problem counts as too stiff for one multiplier at a time
# (spambase, 4,000 rows: six at C = 10 and more than twenty at C = 100, where Newton
# steps took a quarter of the time).
STEPS_PER_ROW = 8
# A path on more than this share of the rows works on the whole matrix; on fewer (a pair
# of classes) its own part is gathered first, for 3 ns per value.
GATHERED_SHARE = 0.5
# The steps grow with this power of C (spambase: 2,900 at C = 1, 13,700 at 10, 82,000 at
# 100): what they predict of the next C decides before a step is wasted.
STEPS_POWER = 0.75
# Rows up to which a system that conjugate gradients do not solve is factored: 6,400
# rows of 8,192 in training take 3 s, and 1,400 products with the matrix 30 s.
FACTORED_ROWS = 8192
# Share of the memory budget for the matrix; parts of it are copied beside.
MATRIX_SHARE = 0.4
# Held-out rows whose columns are gathered at a time.
BLOCK = 512


@dataclass(frozen=True)
class PathPoint:
    """The solution of one problem of a path.

    Attributes
    ----------
    rows, coef : ndarray
        Positions of the rows with a multiplier, and these with their signs.
    bias, offset : float
        The penalised bias, and the offset t of the problem.
    primal, dual : float
        The value of this function, and what feasible multipliers prove.
    """

    rows: Array
    coef: Array
    bias: float
    offset: float
    primal: float
    dual: float

    @staticmethod
    def of(machine: Machine) -> PathPoint:
        """Return the solution of a machine on all rows."""
        used, coef = np.flatnonzero(machine.coef), machine.coef
        bias = float(coef.sum()) if machine.problem.has_bias else 0.0
        bounds = machine.primal, machine.dual
        return PathPoint(used, coef[used], bias, machine.offset, *bounds)

    def dense(self, n: int) -> Array:
        """Return the signed multipliers of all `n` rows."""
        out = np.zeros(n)
        out[self.rows] = self.coef
        return out


class _PathGram(SquareGram):
    """The matrix of all rows; larger ones than elsewhere are factored."""

    @property
    def can_be_factored(self) -> bool:
        """Whether a Cholesky factor is affordable."""
        return len(self) <= FACTORED_ROWS


class PathMatrix:
    """The kernel matrix of all rows, for every fold and every C.

    Parameters
    ----------
    rows : Rows
        The rows, in memory, with the columns that the problems' terms need.
    kernel : kernel
        A positive definite kernel.
    tol : float
        Relative gap to reach at every C.
    workers : Workers
        An open thread pool.
    """

    def __init__(self, rows: Rows, kernel: AnyKernel, tol: float, workers: Workers):
        dtype = searching_precision(kernel, rows.values.shape[1], tol)
        self.rows, self.kernel, self.tol, self.workers = rows, kernel, tol, workers
        self.gram = _PathGram.of(Rows(rows.values, rows.index), kernel, dtype, workers)

    @staticmethod
    def serves(kernel: AnyKernel, n_rows: int, memory_budget: float) -> bool:
        """Return whether a matrix of so many rows serves, and fits the memory."""
        precision = searching_precision(kernel, 1, 1.0)
        size = np.dtype(precision).itemsize * float(n_rows) ** 2
        return is_definite_by_name(kernel) and size <= MATRIX_SHARE * memory_budget

    def __len__(self) -> int:
        return len(self.rows)

    def solve(
        self, paths: Sequence[list[Problem]], may_go_on: Callable[[], bool]
    ) -> list[list[PathPoint]]:
        """Return the solutions of every path, whose problems have growing C.

        Where `may_go_on` turns False the solutions are those reached by then.
        """
        ascended: list[_Ascended] = [_Ascended([], None)] * len(paths)
        if all(one.has_unit_targets for path in paths for one in path):
            own = (_Ascent(self, path, may_go_on) for path in paths)
            ascended = list(self.workers.run(lambda one: one.run(), own))
        solved = [list(one.points) for one in ascended]
        starts = [one.start for one in ascended]
        working = None
        for at in range(max(map(len, paths), default=0)):
            stiff = [
                k for k, path in enumerate(paths) if len(solved[k]) == at < len(path)
            ]
            machines = [
                self._machine(paths[k][at], _last(solved[k], starts[k])) for k in stiff
            ]
            if not machines or not may_go_on():
                continue
            working = working or self._working_set(paths, at)
            newton(working, machines, Aim(self.tol, is_rough=True), may_go_on)
            for k, one in zip(stiff, machines, strict=True):
                solved[k].append(PathPoint.of(one))
                starts[k] = None
        return solved

    def _working_set(self, paths: Sequence[list[Problem]], at: int) -> WorkingSet:
        """Return all rows as a working set, with landmarks for the largest C."""
        first = min(path[at].slack for path in paths if at < len(path))
        largest = max(path[-1].slack for path in paths)
        n, rng = len(self), np.random.default_rng(0)
        memory = self.gram.values.nbytes / MATRIX_SHARE
        given = np.arange(n), self.gram, n, memory, rng
        return WorkingSet(*given, slack_ratio=first / largest)

    def terms(self, problem: Problem) -> tuple[Array, Array, Array]:
        """Return sign, target and omega of all rows, a row per side."""
        sides = [problem.terms(self.rows, self.kernel, side) for side in problem.sides]
        sign = np.stack([to_numpy(one.sign) for one in sides])
        target = np.stack([to_numpy(one.target) for one in sides])
        return sign, target, np.stack([to_numpy(one.omega) for one in sides])

    def _machine(self, problem: Problem, start: PathPoint | None) -> Machine:
        coef, offset = np.zeros(len(self)), 0.0
        if start is not None:
            coef, offset = start.dense(len(self)), start.offset
        if problem.floor is Floor.ZERO:
            offset = max(offset, 0.0)
        values = np.zeros(len(self))  # Newton's method evaluates them first
        return Machine(problem, *self.terms(problem), coef, values, offset)

    def values(self, points: Sequence[PathPoint], at: Array) -> Array:
        """Return the functions on the rows at these positions: (rows, points)."""
        coef = np.zeros((len(self), len(points)), dtype=self.gram.dtype)
        for t, one in enumerate(points):
            coef[one.rows, t] = one.coef
        used = np.flatnonzero(coef.any(axis=1))
        coef, K = coef[used], self.gram.values

        def product(part: Array) -> Array:
            return np.asarray(K[part[:, None], used] @ coef, dtype=np.float64)

        blocks = [at[s : s + BLOCK] for s in range(0, len(at), BLOCK)]
        found = np.concatenate(list(self.workers.run(product, blocks)))
        return found + np.array([one.bias for one in points])


def _last(solved: list[PathPoint], start: PathPoint | None) -> PathPoint | None:
    return start or (solved[-1] if solved else None)


@dataclass(frozen=True)
class _Ascended:
    """Solutions up to the C where a path became too stiff, and a start from there."""

    points: list[PathPoint]
    start: PathPoint | None


@dataclass
class _AscentState:
    """Multipliers of the rows of a path, and their gradient ``Qb - 1``."""

    own: Array
    sign: Array
    b: Array
    g: Array
    omega: Array
    ridge: Array

    def move_to(self, omega: Array) -> None:
        """Change C; the multipliers take their best multiple there."""
        ridge = np.divide(1.0, omega, out=np.zeros(len(omega)), where=omega > 0)
        g = self.g + (ridge - self.ridge) * self.b
        curve, total = float(self.b @ (g + 1.0)), float(self.b.sum())
        scale = total / curve if curve > 0 else 1.0
        self.b, self.g = scale * self.b, scale * (g + 1.0) - 1.0
        self.omega, self.ridge = omega, ridge


class _Ascent:
    """One path, one multiplier at a time."""

    def __init__(
        self, matrix: PathMatrix, path: list[Problem], may_go_on: Callable[[], bool]
    ):
        self.matrix, self.path, self.may_go_on = matrix, path, may_go_on

    def run(self) -> _Ascended:
        """Return the solutions as far as this method reaches."""
        sign, omega = self._terms(self.path[0])
        state, K = self._begin(sign, omega)
        points: list[PathPoint] = []
        most, taken, last = STEPS_PER_ROW * len(state.b) + 100, 0, self.path[0].slack
        for problem in self.path:
            expected = taken * (problem.slack / last) ** STEPS_POWER
            if not self.may_go_on() or expected > most:
                break
            if problem is not self.path[0]:
                omega = self._terms(problem)[1]
            state.move_to(omega[state.own])
            given = state.sign, state.omega, state.b, state.g
            bias = float(problem.has_bias)
            taken = ascend(K, bias, *given, self.matrix.tol, most)
            point = self._point(problem, state)
            if taken < 0:
                return _Ascended(points, point)
            points.append(point)
            last = problem.slack
        return _Ascended(points, None)

    def _terms(self, problem: Problem) -> tuple[Array, Array]:
        """Return sign and omega of all rows, of a problem with one entry per row."""
        found = problem.terms(self.matrix.rows, self.matrix.kernel)
        return to_numpy(found.sign), to_numpy(found.omega)

    def _begin(self, sign: Array, omega: Array) -> tuple[_AscentState, Array]:
        """Return the zero function on the rows of the path, and their matrix."""
        own, K = (omega > 0).nonzero()[0], self.matrix.gram.values
        if len(own) > GATHERED_SHARE * len(self.matrix):
            own = np.arange(len(self.matrix))
        else:
            K = K[np.ix_(own, own)]
        zero = np.zeros(len(own))
        return _AscentState(own, sign[own], zero, zero - 1.0, zero, zero), K

    def _point(self, problem: Problem, state: _AscentState) -> PathPoint:
        b, sign, has_bias = state.b, state.sign, problem.has_bias
        used = b.nonzero()[0]
        coef = (sign * b)[used]
        margin = state.g + 1.0 - state.ridge * b  # y f
        slack = np.maximum(1.0 - margin, 0.0)
        primal = float(b @ margin + state.omega @ slack**2) / 2
        dual = float(b.sum()) - float(b @ (state.g + 1.0)) / 2
        bias = float(coef.sum()) if has_bias else 0.0
        return PathPoint(state.own[used], coef, bias, 0.0, primal, dual)
