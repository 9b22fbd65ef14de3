"""Ranking: the pairwise L2-SVM over all pairs of each query, which are never listed.

Rows x_i have grades y_i and belong to queries; f = <w, phi(x)>, since a bias would
cancel. Over the pairs P = {(i, j): same query, y_i > y_j} with weights c_ij

    min 1/2 |w|^2 + C/2 sum_P c_ij max(0, 1 - (f_i - f_j))^2.

From any f, ``beta_ij = C c_ij max(0, 1 - (f_i - f_j))`` is dual feasible, with value
``sum beta - 1/2 |u|^2 - sum beta^2 / (2 C c)``, ``u = sum_i pull_i phi(x_i)``; at its
best scale ``(sum beta)^2 / (2 curve)``. All of it needs one number per row, ``pull_i =
sum_j beta_ij - sum_j beta_ji``, which sorting gives without the pairs (Joachims 2006).

The weights are found in the span of a basis, as in ``solvers/subspace``, by Newton's
method (Chapelle and Keerthi 2010). Up to a few thousand rows the basis is all of them
and the Hessian that of all pairs. Beyond, the Hessian comes from a sample of the
queries, and gradient and step lengths from all rows: 2 n k kernel values per round.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from corevec._runtime.progress import Progress, RoundState
from corevec._runtime.types import EPS, Array
from corevec.certificates.dual_bounds import Combination
from corevec.certificates.squared_loss import MOST_MISSING
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.basis import (
    MAX_RANK,
    PROBE_ROWS,
    RANK_THRESHOLD,
    SPREAD_THRESHOLD,
    Basis,
    basis_from,
    basis_of,
)
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.models.norms import parts_of
from corevec.models.result import FitResult
from corevec.problems.pairs import CERTIFIED_PAIRS, QUERY_ROWS, Pairs, PairSums
from corevec.solvers.ranking.newton import Newton, Span, State

PROBLEM = (
    "pairwise ranking L2-SVM: min 1/2 |w|^2 + C/2 sum c_ij max(0, 1 - (f_i - f_j))^2 "
    "over the pairs of each query with y_i > y_j"
)

# The size to which the basis of a low-rank kernel may grow, where the bound loses too
# much, as in ``subspace/low_rank.py``.
MOST_RANK = 2 * MAX_RANK
# Under a time limit: the share of the time left that the features of all rows may take,
# the rows that predict it, and the fewest pivots that are kept.
DESIGN_SHARE, TIMED_ROWS, LEAST_BASIS = 0.25, 1024, 50
# What an exact bound may cost once the time is over or an interrupt came.
LATE_SECONDS, LATE_SHARE = 0.5, 0.1


@dataclass(frozen=True)
class RankingSettings:
    """How to run a fit; names as in the estimator."""

    tol: float = 1e-3
    max_vectors: int | None = None
    random_state: int = 0


@dataclass(frozen=True)
class RankingMethod:
    """How the ranking machine is solved.

    Attributes
    ----------
    whole_rows : int
        Up to this many rows all of them are the basis: 72 MB of kernel values.
    basis_rows : int
        Basis rows beyond that, for a kernel of high rank and without `max_vectors`.
    hessian_work : float
        Multiplications that one Hessian may cost: half a second. Beyond, rows are
        sampled.
    min_gain_small, min_gain_sample, min_gain_of_tol : float
        A round must be expected to gain more than this share of the objective: where
        all rows are the basis, on the sample, and, in units of `tol`, on many rows.
    exact_rows : int
        Rows with a pull up to which |u|^2 is summed exactly, as in ``verify.py``.
    """

    whole_rows: int = 3000
    basis_rows: int = 1000
    hessian_work: float = 1e10
    min_gain_small: float = 1e-13
    min_gain_sample: float = 1e-3
    min_gain_of_tol: float = 0.02
    exact_rows: int = 100_000


@dataclass(frozen=True)
class RankingTask:
    """The pairs to rank rightly, the rows they are of, and how to solve for them."""

    pairs: Pairs
    source: Source
    kernel: AnyKernel
    settings: RankingSettings = field(default_factory=RankingSettings)
    method: RankingMethod = field(default_factory=RankingMethod)

    @property
    def is_small(self) -> bool:
        """Whether all rows may be the basis, and all pairs at once in the Hessian."""
        # Kernel values, features, pairs and Hessian, not all at the same time.
        most = min(self.method.whole_rows, int(np.sqrt(self.source.memory_budget / 28)))
        return len(self.pairs) <= most


@dataclass(frozen=True)
class ChosenBasis:
    """A basis, and how much of the space it spans."""

    basis: Basis
    is_complete: bool = False  # numerically the span of all rows
    is_definite: bool = True  # whether the kernel is, on the rows of the basis
    has_asked_size: bool = False  # as many rows as the user allowed
    is_cut_by_time: bool = False  # fewer rows than were chosen


def choose_basis(task: RankingTask, rng: np.random.Generator) -> ChosenBasis:
    """Return all rows, a basis of a low-rank kernel, or random rows."""
    pairs, source, kernel = task.pairs, task.source, task.kernel
    most = task.settings.max_vectors
    if task.is_small:
        found = _pivots(source, kernel, np.sort(pairs.rows), RANK_THRESHOLD)
        if most is None or most >= len(found.basis):
            return found
        return ChosenBasis(found.basis.leading(most), False, found.is_definite, True)

    def some(size: int) -> Array:
        return np.sort(rng.choice(pairs.rows, min(size, len(pairs)), replace=False))

    probed = source.take(some(min(PROBE_ROWS, len(pairs) // 4)))
    low_rank = basis_from(probed, kernel, min(MAX_RANK, len(probed) // 4))
    if low_rank is not None and (most is None or most >= len(low_rank)):
        return ChosenBasis(low_rank, True)
    wanted = most or task.method.basis_rows
    k = int(min(wanted, np.sqrt(source.memory_budget / 48)))
    found = _pivots(source, kernel, some(k), SPREAD_THRESHOLD)
    return replace(found, is_complete=False, has_asked_size=k == most)


def _within_time(
    choice: ChosenBasis, task: RankingTask, progress: Progress
) -> ChosenBasis:
    """Return the basis, or as many of its pivots as the time limit allows.

    The features of all rows cost n k^2: those of a few rows tell how long they take.
    """
    left = _seconds_left(progress)
    few = task.pairs.rows[:TIMED_ROWS]
    if task.is_small or np.isinf(left):
        return choice
    began = time.perf_counter()
    basis, kernel = choice.basis, task.kernel
    points = kernel.prepare(task.source.take(few))
    basis.features(kernel.block(points, basis.points))
    each = (time.perf_counter() - began) / len(few) / task.source.workers.n_threads
    share = DESIGN_SHARE * left / (each * len(task.pairs))
    if share >= 1:
        return choice
    fewer = basis.leading(max(LEAST_BASIS, int(len(basis) * np.sqrt(max(share, 0.0)))))
    return replace(choice, basis=fewer, is_complete=False, is_cut_by_time=True)


def _seconds_left(progress: Progress) -> float:
    """Return the time left for a pass; little once an interrupt came."""
    if progress.stop_asked:
        return LATE_SECONDS
    if progress.max_time is None:
        return np.inf
    late = min(LATE_SECONDS, LATE_SHARE * progress.max_time)
    return max(progress.max_time - progress.seconds, late)


def _pivots(
    source: Source, kernel: AnyKernel, rows: Array, threshold: float
) -> ChosenBasis:
    """Return the pivots of these rows as a basis."""
    basis, is_definite = basis_of(source, kernel, rows, threshold)
    if basis is None:  # every phi is zero, and so is every feature
        one = source.take(rows[:1])
        points, factor = kernel.prepare_basis(one), np.ones((1, 1))
        basis = Basis(kernel, one, points, factor, np.zeros(1))
    return ChosenBasis(basis, True, is_definite)


@dataclass
class Ranking:
    """One fit: the task, the basis, and the rows in its coordinates."""

    task: RankingTask
    span: Span
    choice: ChosenBasis
    progress: Progress

    def run(self, rng: np.random.Generator) -> FitResult:
        """Return the fit, in a longer basis where the bound needs it, certified."""
        state, ended = self._minimise(np.zeros(len(self.choice.basis)), rng)
        while ended != "spent" and self._extend(state):
            added = len(self.choice.basis) - len(state.v)
            state, ended = self._minimise(np.append(state.v, np.zeros(added)), rng)
        why: str | None = self.progress.spent() if ended == "spent" else None
        if why is None and self.choice.is_cut_by_time:
            why = "max_time"
        elif ended == "until" and self.choice.has_asked_size:
            why = "n_vectors"
        return self.outcome(state, why)

    def _minimise(self, v: Array, rng: np.random.Generator) -> tuple[State, str]:
        pairs, method = self.task.pairs, self.task.method
        few, until = self._sample(rng), method.min_gain_of_tol * self.task.settings.tol
        if few is pairs:
            until = method.min_gain_small if self.task.is_small else until
            return Newton(few, self.span).run(v, until, self.record_round)
        span = Span(self.task.source, few.rows, self.choice.basis, must_cache=True)
        start = Newton(few, span)
        state, _ = start.run(v, method.min_gain_sample, self.is_spent)
        whole = Newton(pairs, self.span, start.factor)
        return whole.run(state.v, until, self.record_round)

    def _extend(self, state: State) -> bool:
        """Add the rows that the bound loses most on; return whether there were any."""
        settings, basis = self.task.settings, self.choice.basis
        most, tol = min(MOST_RANK, settings.max_vectors or MOST_RANK), settings.tol
        if self.task.is_small or not self.choice.is_complete:
            return False
        lost = np.abs(state.sums.pull) * self.span.outside
        dual = self._projected(state.sums, state.pulled, is_bound=True)
        gap = relative_gap(state.primal, dual)
        n_new = min(MOST_MISSING, most - len(basis))
        little = float(lost.sum()) ** 2 <= tol * state.primal / 4
        if gap <= tol or little or n_new <= 0:
            return False
        worst = self.task.pairs.rows[np.argsort(-lost)[:n_new]]
        longer = basis.extended(self.task.source.take(np.sort(worst)))
        if len(longer) == len(basis):
            return False
        self.choice = replace(self.choice, basis=longer)
        self.span = Span(self.task.source, self.task.pairs.rows, longer)
        return True

    def _sample(self, rng: np.random.Generator) -> Pairs:
        """Return the pairs that give the Hessian: all, or those of some queries."""
        task, k = self.task, len(self.choice.basis)
        if task.is_small:
            return task.pairs
        work = task.method.hessian_work / (k * (k + QUERY_ROWS / 2))
        size = min(
            max(task.method.whole_rows, work), task.source.memory_budget / (16 * k)
        )
        return task.pairs.sample(int(size), rng)

    def is_spent(self, _: State) -> bool:
        """Whether a budget is spent, while working on a sample."""
        return self.progress.spent() is not None

    def record_round(self, state: State) -> bool:
        """Record a round over all pairs; return whether to stop."""
        progress = self.progress
        visits = 2 if self.span.design is None else 1
        progress.rows_looked_at += visits * len(self.task.pairs)
        # Where the basis is not complete, the gap within its span.
        is_bound = self.choice.is_complete
        dual = self._projected(state.sums, state.pulled, is_bound)
        progress.record(
            RoundState(lambda: self.functions(state)),
            core=len(self.choice.basis),
            support=len(self.choice.basis),
            gap=relative_gap(state.primal, dual),
            dual=dual,
            looked_at=len(self.task.pairs),
            exact=is_bound,
        )
        return progress.spent() is not None

    def functions(self, state: State) -> KernelExpansion:
        """Return the ranking function as coefficients of the basis rows."""
        basis = self.choice.basis
        coef = basis.coefficients(state.v)[:, None]
        return KernelExpansion(basis.kernel, basis.rows, coef, np.zeros(1))

    def outcome(self, state: State, why: str | None) -> FitResult:
        """Return the functions, certified by their own values on all rows."""
        functions, basis = self.functions(state), self.choice.basis
        primal, dual, kind = self.certify(functions)
        limited = "stall" if self.choice.is_complete else "max_vectors"
        certificate = Certificate.of(
            PROBLEM,
            (primal, dual),
            self.progress,
            tol=self.task.settings.tol,
            stopped_by=why or limited,
            dual_bound=kind,
            confidence=float(kind != "none"),
        )
        return FitResult(
            functions=functions,
            certificates=[certificate],
            offsets=np.zeros(1),
            norms_sq=np.array([state.v @ state.v]),
            support=[basis.rows.index],
            multipliers=[],
            n_core=[len(basis)],
        )

    def certify(self, functions: KernelExpansion) -> tuple[float, float, str]:
        """Return primal, dual, and how the dual was obtained."""
        rows, source = self.task.pairs.rows, self.task.source
        points = functions.prepared()

        def task(part: slice) -> Array:
            return functions.evaluate(source.take(rows[part]), points)[:, 0]

        began = time.perf_counter()
        f = np.concatenate(list(source.workers.run(task, parts_of(rows))))
        each = (time.perf_counter() - began) / (len(rows) * len(functions.basis))
        self.progress.rows_looked_at += len(rows)
        sums = self.task.pairs.sums(f, most_pairs=CERTIFIED_PAIRS)
        primal = self._primal(functions, sums)
        if not self.choice.is_definite:
            return primal, -np.inf, "none"  # no bound without a scalar product
        pulling, dual = np.flatnonzero(sums.pull), 0.0
        affordable = len(pulling) <= self.task.method.exact_rows
        affordable &= each * len(pulling) ** 2 / 2 <= _seconds_left(self.progress)
        if self.choice.is_complete or not affordable:
            dual = self._projected(sums, self.span.pulled(sums.pull), is_bound=True)
        if relative_gap(primal, dual) <= self.task.settings.tol or not affordable:
            return primal, dual, "projection"
        u = Combination(source, rows[pulling], sums.pull[pulling])
        norm_sq, rounding = u.norm_sq(functions.kernel)
        exact = self._dual(sums, max(norm_sq, 0.0) + rounding)
        return primal, max(dual, exact), "exact"

    def _primal(self, functions: KernelExpansion, sums: PairSums) -> float:
        """Return the objective of the functions, with its rounding error.

        With e the error of a value, that of a margin is 2 e, and the loss grows by
        ``2 e sqrt(2 L Omega) + 2 Omega e^2`` at most (Cauchy-Schwarz), Omega being the
        weight of all pairs.
        """
        error = 2.0 * float(functions.value_errors()[0])
        weight = float(self.task.pairs.scale @ self.task.pairs.pair_weight)
        twice_loss = sums.square + sums.square_error
        twice_loss += 2 * error * np.sqrt(twice_loss * weight) + weight * error**2
        return float(functions.norms_sq()[0] + twice_loss) / 2

    def _projected(self, sums: PairSums, pulled: Array, is_bound: bool) -> float:
        """Return the dual value by the projection bound, or that within the span."""
        pull = np.abs(sums.pull)
        missed = float(pull @ self.span.outside) if is_bound else 0.0
        rounding = self.choice.basis.rounding * float(pull.sum()) ** 2
        return self._dual(sums, float(pulled @ pulled) + missed**2 + rounding)

    def _dual(self, sums: PairSums, norm_sq: float) -> float:
        """Return the dual value of the violations at its best scale, rounded down."""
        # Each pull has the error of what cancelled in two sweeps, u at most their sum.
        off = 2 * sums.mass_error * np.sqrt(self.span.largest)
        curve = (np.sqrt(norm_sq) + off) ** 2 + sums.square + sums.square_error
        mass = max(sums.mass - sums.mass_error, 0.0)
        return float(mass**2 / (2 * curve * (1 + 64 * EPS))) if curve > 0 else 0.0


def solve(task: RankingTask, progress: Progress) -> FitResult:
    """Return the ranking function of the task's pairs, with its certificate."""
    rng = np.random.default_rng(task.settings.random_state)
    choice = _within_time(choose_basis(task, rng), task, progress)
    span = Span(task.source, task.pairs.rows, choice.basis)
    return Ranking(task, span, choice, progress).run(rng)
