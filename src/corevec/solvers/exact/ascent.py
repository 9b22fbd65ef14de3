"""Dual coordinate ascent: several classes, or few rows, on a matrix in memory.

A class against another has few active rows, and one multiplier at a time solves it in
some five steps per support vector: 2 ms for 1,150 rows, where Newton steps cost as much
in Python alone. Large problems are solved on their active rows (`active_rows`), few
rows to the last digits by Newton steps with a Cholesky factor, so that a model does not
depend on the layout or the place of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import linalg

from corevec._runtime.progress import Progress, RoundState
from corevec._runtime.types import Array
from corevec.backend.arrays import to_numpy
from corevec.backend.loops.ascent import ascend
from corevec.certificates.scan import Subset
from corevec.data.sources import Workers, of_rows
from corevec.kernels import PrecomputedKernel, Rows, finite
from corevec.models.certificate import relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult
from corevec.problems.family import Problem
from corevec.problems.task import Task
from corevec.solvers.exact.active_rows import ActiveRows, Hinge
from corevec.solvers.exact.pairs import PASS_ROWS, values_of_pairs
from corevec.solvers.exact.result import Solution, support
from corevec.solvers.exact.rounds import searching_precision
from corevec.solvers.exact.solve import Exact, serves
from corevec.solvers.numeric.kernel_matrix import kernel_matrix


@dataclass(frozen=True)
class Ascent:
    """The method with its constants."""

    # Rows up to which a problem of its own is solved this way: conjugate gradients
    # share out the work of a large one to all threads.
    most_rows: int = 5000
    # Up to so many rows a problem is refined to the last digits.
    refined_rows: int = 1500
    # Up to so many rows the matrix of a pair is in float64: its products with the
    # solution are then at hand, where a pass over the rows of all pairs would compute
    # half of the matrix again (4,950 pairs of 208 rows: 5 of 9 s).
    double_rows: int = 600
    # Numbers of a row up to which problems compute the kernel values that they need
    # anew: beyond, they share one matrix (105 classes of text: 5 s in place of 73 s).
    few_columns: int = 64
    # Shares of the memory budget that the matrices of all threads, and the rows, take.
    matrix_share: float = 0.4
    rows_share: float = 0.5
    # The gap to reach, as a share of the tolerance, and the steps per row until the
    # problem counts as too stiff (large C): Newton steps then take over.
    gap_share: float = 0.3
    steps_per_row: int = 20
    most_refinements: int = 8
    # Rows of a problem up to which its whole matrix is computed, and how larger ones
    # are solved.
    whole_rows: int = 2500
    active: ActiveRows = field(default_factory=ActiveRows)
    # A problem of its own beyond `most_rows`, where a sample says that few are active.
    alone: ActiveRows = field(
        default_factory=lambda: ActiveRows(
            sample_rows=1500, most_active=8000, sample_steps=3.0
        )
    )
    # Classes against the rest beyond `whole_rows`: where one of them has too many
    # active rows, products with one matrix for all of them (`exact`) cost less.
    against_rest: ActiveRows = field(
        default_factory=lambda: ActiveRows(most_active=8000, sample_steps=3.0)
    )
    # Takes the pairs that are too large or too stiff.
    exact: Exact = field(default_factory=Exact)

    def applies(self, task: Task) -> bool:
        """Whether these are squared hinges of few rows, or of pairs of classes."""
        source, problems = task.source, task.problems
        plain = all(one.has_unit_targets and not one.is_hard for one in problems)
        few = source.n_rows <= self.most_rows or self._is_within_reach(task)
        row_bytes = 8 * (source.row_entries + 3 * len(problems))
        fits = source.n_rows * row_bytes <= self.rows_share * source.memory_budget
        return plain and few and fits and task.warm is None and serves(task)

    def _is_within_reach(self, task: Task) -> bool:
        """Whether problems of more than `most_rows` rows are solved this way."""
        source, problems = task.source, task.problems
        if len(problems) > 1 and all(_is_pair(one) for one in problems):
            return True
        # Without a shared matrix each class computes the values that it needs anew.
        is_narrow = source.row_entries <= self.few_columns
        pays = len(problems) == 1 or is_narrow or self.shares_matrix(task)
        return pays and source.draws_cheaply

    def shares_matrix(self, task: Task) -> bool:
        """Whether the kernel matrix of all rows is computed once for all problems."""
        source, problems = task.source, task.problems
        fits = 8 * source.n_rows**2 <= self.matrix_share * source.memory_budget
        is_at_hand = isinstance(task.kernel, PrecomputedKernel)
        if len(problems) == 1 or is_at_hand or not fits:
            return False
        is_wide = source.row_entries > self.few_columns
        are_pairs = all(_is_pair(one) for one in problems)
        return is_wide or (not are_pairs and source.n_rows <= self.most_rows)

    def solve(self, task: Task, progress: Progress) -> FitResult | None:
        """Return the optimum, or None where a problem is too stiff for the method."""
        work = _Work.of(task, self, progress)
        solved = list(task.source.workers.run(work.solve, range(len(task.problems))))
        for t, one in enumerate(solved):
            if one.is_solved or progress.spent() is not None:
                continue
            if work.is_alone or not _is_pair(task.problems[t]):
                return None
            again = work.solve_exactly(t)
            if again is None:
                return None
            solved[t] = again
        return work.finish(solved)


def _is_pair(problem: Problem) -> bool:
    return problem.negative is not None


@dataclass(frozen=True)
class _Solved:
    """One problem's signed multipliers on its own rows."""

    rows: Array  # positions of the rows in the matrix
    coef: Array
    sign: Array
    omega: Array
    is_solved: bool
    values: Array | None = None  # the function on the rows, where known in float64
    bounds: tuple[float, float] | None = None  # primal and dual, where measured


@dataclass(frozen=True)
class _Work:
    """All problems, rows sorted by class."""

    task: Task
    method: Ascent
    progress: Progress
    rows: Rows  # with the columns that terms need
    codes: Array
    matrix: Array | None = None  # of all rows, in float64, where problems share it

    @staticmethod
    def of(task: Task, method: Ascent, progress: Progress) -> _Work:
        """Return the work on the rows of a task."""
        source, labels = task.source, task.problems[0].labels
        rows = source.take(source.numbers)
        codes = np.zeros(len(rows), dtype=np.int64)
        if labels.codes is not None:
            codes = np.asarray(to_numpy(of_rows(labels.codes, rows)), dtype=np.int64)
        if len(task.problems) > 1:
            order = np.argsort(codes, kind="stable")
            rows, codes = rows.part(order), codes[order]
        progress.rows_looked_at += len(rows)
        matrix = None
        if method.shares_matrix(task):
            plain = Rows(rows.values, rows.index)
            matrix = kernel_matrix(plain, task.kernel, np.float64, source.workers)
        return _Work(task, method, progress, rows, codes, matrix)

    def positions(self, problem: Problem) -> Array:
        """Return the positions of the rows that a problem is about."""
        if not _is_pair(problem) or len(self.task.problems) == 1:
            return np.arange(len(self.rows))
        return np.concatenate(
            [np.arange(part.start, part.stop) for part in self._ranges(problem)]
        )

    def _ranges(self, problem: Problem) -> list[slice]:
        """Return where the rows of the two classes of a pair are."""
        both = np.array([problem.positive, problem.negative], dtype=np.int64)
        starts = np.searchsorted(self.codes, both, side="left")
        stops = np.searchsorted(self.codes, both, side="right")
        return [slice(*pair) for pair in zip(starts, stops, strict=True)]

    def solve(self, t: int) -> _Solved:
        """Return the solution of one problem."""
        task, method = self.task, self.method
        problem, positions = task.problems[t], self.positions(task.problems[t])
        n = len(positions)
        rows = self.rows.part(positions)
        terms = problem.terms(rows, task.kernel)
        sign, omega = to_numpy(terms.sign), to_numpy(terms.omega)
        b, gradient = np.zeros(n), np.full(n, -1.0)
        start = _Solved(positions, b, sign, omega, is_solved=False)
        if self.progress.spent() is not None:
            return start
        pair = self._hinge(problem, rows, sign, omega)
        most_rows = method.most_rows if self.is_alone else method.whole_rows
        if n > most_rows and (self.matrix is None or _is_pair(problem)):
            return self._on_active_rows(pair, start, t)
        K = self._matrix(pair, problem)
        tol = method.gap_share * task.settings.tol
        most_steps = method.steps_per_row * n + 100
        taken = ascend(K, pair.bias, sign, omega, b, gradient, tol, most_steps)
        near = replace(start, coef=sign * b, is_solved=taken >= 0)
        if self.is_refined:
            return self._refined(near, K, pair.bias)
        if K.dtype == np.float64:
            values = K @ near.coef + pair.bias * near.coef.sum()
            near = replace(near, values=values)
        return near

    def _hinge(self, problem: Problem, rows: Rows, sign: Array, omega: Array) -> Hinge:
        """Return a problem with the place and the precision that it is solved in."""
        task, is_small = self.task, len(rows) <= self.method.double_rows
        # Several problems are shared out to the threads; one shares out its products.
        workers = task.source.workers if self.is_alone else Workers(1)
        dtype = np.dtype(np.float64 if is_small else self.dtype)
        given = Rows(rows.values, rows.index), task.kernel, sign, omega
        return Hinge(*given, float(problem.has_bias), dtype, workers)

    def _matrix(self, pair: Hinge, problem: Problem) -> Array:
        """Return the kernel matrix of a problem's rows: computed, or gathered."""
        if self.matrix is None:
            points = pair.kernel.prepare(pair.rows, pair.dtype)
            return finite(pair.kernel.block(points, points), pair.kernel)
        if not _is_pair(problem):
            return self.matrix
        both = self._ranges(problem)
        return np.block([[self.matrix[p, q] for q in both] for p in both])

    def _on_active_rows(self, pair: Hinge, start: _Solved, t: int) -> _Solved:
        """Return the solution of a large pair: unsolved where too many are active."""
        source, settings = self.task.source, self.task.settings
        share = self.method.matrix_share * source.memory_budget
        n_sets = 1 if self.is_alone else source.workers.n_threads
        most_values = share / (pair.dtype.itemsize * n_sets)
        rng = np.random.default_rng([settings.random_state or 0, t])
        tol = self.method.gap_share * settings.tol
        given = tol, most_values, rng, lambda: self.progress.spent() is None
        found = self._method_for(self.task.problems[t]).solve(pair, *given)
        if found is None:
            return start
        return replace(start, coef=found.coef, values=found.values, is_solved=True)

    def _method_for(self, problem: Problem) -> ActiveRows:
        """Return how a large problem is solved on its active rows."""
        if self.is_alone:
            return self.method.alone
        return self.method.active if _is_pair(problem) else self.method.against_rest

    @property
    def is_alone(self) -> bool:
        """Whether there is one problem."""
        return len(self.task.problems) == 1

    @property
    def is_refined(self) -> bool:
        """Whether the rows are few enough for a solution to the last digits."""
        return len(self.rows) <= self.method.refined_rows

    @property
    def dtype(self) -> Any:
        """The precision of the matrices."""
        if self.is_refined:
            return np.float64
        task = self.task
        given = task.kernel, task.source.n_features, task.settings.tol
        return searching_precision(*given)

    def solve_exactly(self, t: int) -> _Solved | None:
        """Return the solution of a large or stiff pair by Newton steps."""
        task, problem = self.task, self.task.problems[t]
        positions = self.positions(problem)
        numbers = np.sort(self.rows.index[positions])
        view = task.source.subset(numbers, Subset)
        part = replace(task, problems=[problem], source=view)
        found = self.method.exact.solve(part, self.progress)
        if found is None:
            return None
        order = np.argsort(self.rows.index[positions])
        coef = np.zeros(len(positions))
        where = np.searchsorted(numbers, found.functions.basis.index)
        coef[order[where]] = found.functions.coef[:, 0]
        terms = problem.terms(self.rows.part(positions), task.kernel)
        own = to_numpy(terms.sign), to_numpy(terms.omega)
        proof = found.certificates[0]
        bounds = proof.primal, proof.dual
        return _Solved(positions, coef, *own, is_solved=True, bounds=bounds)

    def _refined(self, near: _Solved, K: Array, bias: float) -> _Solved:
        """Return the solution to the last digits: Newton steps with a factor.

        Near the optimum each step is the system of the active rows; when these repeat,
        its solution is the optimum. Newton steps with a line search (`newton`) take
        over where they do not.
        """
        coef, last = near.coef, np.empty(0, dtype=np.int64)
        for _ in range(self.method.most_refinements):
            used = np.flatnonzero(coef)
            values = K[:, used] @ coef[used] + bias * coef.sum()
            active = np.flatnonzero((near.sign * values < 1.0) & (near.omega > 0))
            if np.array_equal(active, last):
                return replace(near, coef=coef, values=values, is_solved=True)
            system = K[np.ix_(active, active)] + bias
            system[np.diag_indices_from(system)] += 1.0 / near.omega[active]
            coef, last = np.zeros_like(coef), active
            try:
                # `solve` would warn where C is so large that digits are lost; the
                # certificate measures what that costs.
                factor = linalg.cho_factor(system, overwrite_a=True, check_finite=False)
                solution = linalg.cho_solve(factor, near.sign[active])
            except linalg.LinAlgError:
                break
            coef[active] = solution
        return replace(near, is_solved=False)

    def finish(self, solved: list[_Solved]) -> FitResult:
        """Return the functions with their certificates, measured in float64."""
        task, progress = self.task, self.progress
        coef = np.zeros((len(self.rows), len(solved)), order="F")  # set by columns
        for t, one in enumerate(solved):
            coef[one.rows, t] = one.coef
        used = np.flatnonzero(coef.any(axis=1))
        if len(used) == 0:  # not a step was taken: the zero function
            used = np.zeros(1, dtype=np.int64)
        used = used[np.argsort(self.rows.index[used])]
        numbers = self.rows.index[used]
        has_bias = np.array([float(one.has_bias) for one in task.problems])
        basis, own = Rows(self.rows.values[used], numbers), coef[used]
        # As the values have it: a sum in another order differs in its last digits, and
        # at large C these count.
        sums = np.array([one.coef.sum() for one in solved])
        functions = KernelExpansion(task.kernel, basis, own, has_bias * sums)
        if any(one.values is None for one in solved):
            solved = self._measured(solved, coef, functions)
        largest = float(abs(to_numpy(task.kernel.diagonal(self.rows))).max())
        bounds = [
            one.bounds or _bounds(one, largest + bias)
            for one, bias in zip(solved, has_bias, strict=True)
        ]
        found = Solution(
            functions=functions,
            numbers=numbers,
            coef=own,
            bounds=bounds,
            norms_sq=np.array([one.coef @ one.values for one in solved]),
            offsets=np.zeros(len(solved)),
            stopped_by=progress.spent(),
        )
        self._record(found)
        return found.result(task.problems, progress, task.settings.tol)

    def _record(self, found: Solution) -> None:
        """Record the one round there is."""
        problems = self.task.problems
        self.progress.record(
            RoundState(
                functions=lambda: found.functions,
                cores=lambda: support(problems, found.numbers, found.coef),
                offsets=lambda: found.offsets,
            ),
            core=len(found.numbers),
            support=len(found.numbers),
            gap=max(relative_gap(*one) for one in found.bounds),
            dual=sum(dual for _, dual in found.bounds),
            looked_at=len(self.rows),
            exact=True,
        )

    def _measured(
        self, solved: list[_Solved], coef: Array, functions: KernelExpansion
    ) -> list[_Solved]:
        """Return the solutions with values in float64, by one more pass."""
        self.progress.rows_looked_at += len(self.rows)
        if all(_is_pair(one) for one in self.task.problems) and len(solved) > 1:
            # A third of the time of mnist was for pairs whose values were known.
            unknown = [t for t, one in enumerate(solved) if one.values is None]
            given = self.task.kernel, self.rows, self.codes
            problems = [self.task.problems[t] for t in unknown]
            pairs = [(one.positive, one.negative) for one in problems]
            few, workers = coef[:, unknown], self.task.source.workers
            values = values_of_pairs(*given, few, pairs, workers)
            values += functions.intercept[unknown]
            found = list(solved)
            for t, own in zip(unknown, values.T, strict=True):
                found[t] = replace(solved[t], values=own[solved[t].rows])
            return found
        ready = functions.ready(np.float64)
        parts = [slice(s, s + PASS_ROWS) for s in range(0, len(self.rows), PASS_ROWS)]

        def score(part: slice) -> Array:
            few = Rows(self.rows.values[part], self.rows.index[part])
            return ready(few)

        values = np.concatenate(list(self.task.source.workers.run(score, parts)))
        return [
            replace(one, values=values[one.rows, t]) for t, one in enumerate(solved)
        ]


def _bounds(one: _Solved, largest: float) -> tuple[float, float]:
    """Return primal and dual value of a function with its multipliers.

    A multiplier below 0, which the rounding of a system leaves, is no multiplier: they
    are set to 0, and the norm is bounded by the triangle inequality. `largest` is the
    largest k(x, x), bias included.
    """
    assert one.values is not None
    b = one.sign * one.coef
    slack = np.maximum(1.0 - one.sign * one.values, 0.0)
    norm = float(one.coef @ one.values)
    primal = norm / 2 + float(one.omega @ slack**2) / 2
    used = b > 0
    ridge = float((b[used] ** 2 / one.omega[used]).sum())
    left_out = float(-b[b < 0].sum())
    if left_out > 0:
        norm = (np.sqrt(max(norm, 0.0)) + np.sqrt(largest) * left_out) ** 2
    return primal, max(float(b[used].sum()) - (norm + ridge) / 2, 0.0)
