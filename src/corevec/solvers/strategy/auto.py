"""Which method takes a task: an ordered list of methods that know when they apply.

By default (`AUTOMATIC`) a probe comes first (`LowRank`): if the kernel is numerically
of low rank on these rows, the weights of all rows are solved in that span. Otherwise
the exact machine over all rows is predicted and, within reach, solved (`ExactMachine`).
What is left (hard balls, kernels given as functions, more active rows than time allows)
goes to the core set, or to the span of a basis. All of them return a `FitResult`, which
says in its `method` what was taken and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from corevec._runtime.progress import Progress, logger
from corevec._runtime.types import Array
from corevec.certificates.definite import is_definite_by_name
from corevec.certificates.scan import ScanRequest, Subset, scan
from corevec.data.sources import Source
from corevec.exceptions import InvalidInputError
from corevec.models.basis import Basis, probe
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult, WarmStart
from corevec.problems.family import Floor, Problem
from corevec.problems.task import Task
from corevec.solvers.basis.by_multipliers import basis_size, choose_basis
from corevec.solvers.coreset import loop as coreset
from corevec.solvers.coreset.selection import FIRST_SUBSET
from corevec.solvers.coreset.state import Job
from corevec.solvers.exact import Ascent, Exact
from corevec.solvers.subspace import iterative as subspace
from corevec.solvers.subspace import low_rank as span
from corevec.solvers.subspace.result import certificates as certificates_of
from corevec.solvers.subspace.result import expansion
from corevec.solvers.subspace.row_order import weighted_rows
from corevec.solvers.subspace.state import SpanFit
from corevec.solvers.subspace.task import SpanTask
from corevec.solvers.subspace.working_set import view_that_fits


class Method(Protocol):
    """A way to solve a task."""

    def applies(self, task: Task) -> bool:
        """Whether the method serves this task."""

    def solve(self, task: Task, progress: Progress) -> FitResult | None:
        """Return the solution, or None where it proves to be out of reach."""

    def taken(self, task: Task, found: FitResult) -> str:
        """Return what the method did, in words."""

    def missed(self, task: Task) -> str:
        """Return why the method has no solution; empty where it goes without saying."""


def fit(
    task: Task, progress: Progress, methods: Sequence[Method] | None = None
) -> FitResult:
    """Return what the first method that reaches the tolerance finds, or the best."""
    attempts: list[FitResult] = []
    why: list[str] = []
    for method in AUTOMATIC if methods is None else methods:
        found = method.solve(task, progress) if method.applies(task) else None
        if found is None:
            why.append(method.missed(task))
            continue
        reasons = [reason for reason in why if reason]
        found.method = "; ".join([method.taken(task, found), *reasons])
        attempts.append(found)
        if _is_final(found, progress):
            break
        gap = max(one.relative_gap for one in found.certificates)
        why.append(f"{found.method.partition(':')[0]} ended at a gap of {gap:.1e}")
    if not attempts:
        reasons = [reason for reason in why if reason]
        raise InvalidInputError(
            f"the method cannot solve this: {'; '.join(reasons)}. Use method='auto', "
            "which takes what serves.",
            parameter="method",
        )
    return _best(attempts, task.settings.tol)


def fit_on_sample(
    task: Task, progress: Progress, size: int, methods: Sequence[Method] | None = None
) -> FitResult:
    """Solve on a random sample, each row standing for n/m rows; claim no more."""
    source = task.source
    if size >= source.n_rows:
        return fit(task, progress, methods)
    sample = Subset(source, source.draw(_rng(task), size))
    size = sample.n_rows
    ratio = source.n_rows / size
    scaled = [replace(one, slack=one.slack * ratio) for one in task.problems]
    warm = None if task.warm is None else replace(task.warm, same_rows=False)
    part = Task(scaled, sample, task.kernel, task.settings, warm)
    n_rows, progress.n_rows = progress.n_rows, size
    result = fit(part, progress, methods)
    progress.n_rows = n_rows
    result.certificates = [
        _of_sample(found, source.n_rows, size, progress.passes)
        for found in result.certificates
    ]
    result.method = (
        f"sample: {size:,} of {source.n_rows:,} rows; on these, {result.method}"
    )
    return result


def _of_sample(
    found: Certificate, n_rows: int, size: int, passes: float
) -> Certificate:
    """Return what a certificate of `size` sampled rows says about all: no bound."""
    return replace(
        found,
        problem=(
            f"{found.problem}; only a random sample of {size:,} rows was looked at, "
            f"each standing for {n_rows / size:.3g}: on it the relative gap was "
            f"{found.relative_gap:.2e}, about the other rows nothing is known"
        ),
        primal=np.inf,
        dual=0.0,
        relative_gap=np.inf,
        n_rows=n_rows,
        n_verified=size,
        passes=passes,
        confidence=0.0,
        dual_bound="sample",
        converged=False,
        stopped_by="sample" if found.converged else found.stopped_by,
    )


@dataclass(frozen=True)
class LowRank:
    """All rows in the span of pivots, where the kernel is numerically of low rank."""

    # Rows from which on the probe is worth its time.
    least_rows: int = span.MIN_ROWS
    # Samples that the span is solved on before the first pass over all rows.
    samples: tuple[int, ...] = (2000, 32_000, 128_000)

    def applies(self, task: Task) -> bool:
        """Whether a probe is worth it."""
        if any(one.is_hard for one in task.problems) or task.kernel.name == "sigmoid":
            return False
        return task.source.n_rows >= self.least_rows

    def solve(self, task: Task, progress: Progress) -> FitResult | None:
        """Return the solution in the span, or None if the rank is high."""
        source, rng = task.source, _rng(task)
        basis = probe(source, task.kernel, rng)
        if basis is None:
            return None
        logger.info("the kernel has numerical rank %d on these rows", len(basis))
        start = None if task.warm is None else _warm_weights(task, basis)
        samples = self._samples(source, rng)
        if start is not None:  # of remote rows a few, to know where they are
            samples = [] if source.draws_cheaply else samples[:1]
        tol = task.settings.tol
        span_task = SpanTask(task.problems, source, basis, tol, progress, rng)
        fits, basis, stopped_by = span.solve(span_task, samples, start)
        if not np.isfinite(max(one.primal for one in fits)):
            return None
        if any(span.radius_sq(one, basis) < 0 for one in fits):
            return (
                None  # R^2 >= 0 binds, which the core set's solver knows how to treat
            )
        functions = expansion(fits, basis)
        width = [len(basis) + int(one.problem.has_bias) for one in fits]
        pairs = zip(fits, width, strict=True)
        return FitResult(
            functions=functions,
            certificates=certificates_of(fits, functions, tol, progress, stopped_by),
            offsets=np.array([float(f.v[-1]) * f.problem.has_offset for f in fits]),
            norms_sq=np.array([float(one.v[:w] @ one.v[:w]) for one, w in pairs]),
            support=[basis.rows.index] * len(fits),
            multipliers=[],
            n_core=[len(basis)] * len(fits),
        )

    def taken(self, task: Task, found: FitResult) -> str:
        """Return the rank that was found."""
        rank, n_rows = max(found.n_core), task.source.n_rows
        return (
            f"lowrank: all {n_rows:,} rows in the span of {rank} of them, which is the "
            "numerical rank of the kernel"
        )

    def missed(self, task: Task) -> str:
        """Return that the probe found nothing, if there was one."""
        if any(one.is_hard for one in task.problems):
            return "a span of low rank needs a soft margin"
        if task.kernel.name == "sigmoid":
            return "a span of low rank needs a positive definite kernel"
        return "a probe found no low rank" if self.applies(task) else ""

    def _samples(self, source: Source, rng: np.random.Generator) -> list[Array]:
        return [source.draw(rng, size) for size in source.sample_sizes(self.samples)]


@dataclass(frozen=True)
class CoordinateAscent:
    """Few rows, or several classes, one multiplier at a time (`solvers.exact`)."""

    ascent: Ascent = field(default_factory=Ascent)

    def applies(self, task: Task) -> bool:
        """Whether the solver serves the task."""
        return self.ascent.applies(task)

    def solve(self, task: Task, progress: Progress) -> FitResult | None:
        """Return the optimum, or None where one multiplier at a time is too slow."""
        return self.ascent.solve(task, progress)

    def taken(self, task: Task, found: FitResult) -> str:
        """Return how many rows have multipliers."""
        return _all_exactly(task, found)

    def missed(self, task: Task) -> str:
        """Return nothing: Newton steps come next."""
        return ""


@dataclass(frozen=True)
class ExactMachine:
    """All rows exactly, however many are active (`solvers.exact`)."""

    exact: Exact = field(default_factory=Exact)

    def applies(self, task: Task) -> bool:
        """Whether the solver serves the task."""
        return self.exact.applies(task)

    def solve(self, task: Task, progress: Progress) -> FitResult | None:
        """Return the optimum, or None where samples predict that it takes too long."""
        return self.exact.solve(task, progress)

    def taken(self, task: Task, found: FitResult) -> str:
        """Return how many rows have multipliers."""
        return _all_exactly(task, found)

    def missed(self, task: Task) -> str:
        """Return what the exact solution needs, or that it was predicted to be long."""
        if self.applies(task):
            return "samples predicted too much time for all rows exactly"
        if not is_definite_by_name(task.kernel):
            return "all rows exactly need a kernel by name that is positive definite"
        if any(one.is_hard for one in task.problems):
            return "all rows exactly need a soft margin"
        if any(one.floor is Floor.RADIUS for one in task.problems):
            return "all rows exactly are not solved for balls"
        return "all rows exactly need a larger memory_budget"


class CoreSet:
    """The core set alone: the papers' machine, or ours to the tolerance."""

    def applies(self, task: Task) -> bool:
        """Return True: the method serves every task."""
        return True

    def solve(self, task: Task, progress: Progress) -> FitResult:
        """Return the solution that the core set reaches."""
        job = Job(task.source, task.kernel, task.settings, progress)
        return coreset.run(task.problems, job, _warm_cores(task))

    def taken(self, task: Task, found: FitResult) -> str:
        """Return the size of the core set."""
        return f"coreset: {max(found.n_core):,} core rows of {task.source.n_rows:,}"

    def missed(self, task: Task) -> str:
        """Return nothing: a core set always has a solution."""
        return ""


@dataclass(frozen=True)
class CoreSetOrSpan:
    """The core set, and all rows in the span of a basis where it is too small."""

    # Regressions up to this size are solved by the core set, within a second.
    span_first_rows: int = 2000
    # A basis is tried after a core set that was too small, up to this many rows:
    # adult's gap fell from 0.75 to 0.02 in 6 s; covtype (522,911 rows) gained nothing.
    max_span_rows: int = 300_000
    # ... and only if the core set left more than this gap: a basis of half as many rows
    # does not improve on less.
    min_gap: float = 0.02
    # A core set is tried after a basis if the violated rows fill at most so much of it.
    core_share: float = 0.6

    def applies(self, task: Task) -> bool:
        """Return True: the method serves every task."""
        return True

    def solve(self, task: Task, progress: Progress) -> FitResult:
        """Return the better of the two."""
        attempts: list[FitResult] = []
        is_regression = self._is_regression(task)
        if is_regression:
            found = self._in_span(task, progress)
            if found is not None:
                attempts.append(found[0])
                if found[1] is None or _is_final(found[0], progress):
                    return found[0]
                task = replace(task, warm=found[1])
        may_fall_back = not is_regression and self._may_fall_back(task)
        job = Job(task.source, task.kernel, task.settings, progress)
        first = _warm_cores(task)
        attempts.append(coreset.run(task.problems, job, first, may_fall_back))
        if may_fall_back and self._is_too_small(attempts[-1]):
            found = self._in_span(task, progress)
            if found is not None:
                attempts.append(found[0])
        return _best(attempts, task.settings.tol)

    def taken(self, task: Task, found: FitResult) -> str:
        """Return which of the two was better, and its size."""
        size, n_rows = max(found.n_core), task.source.n_rows
        if found.multipliers:
            return f"coreset: {size:,} core rows of {n_rows:,}"
        return f"few-vectors: all {n_rows:,} rows in the span of {size:,} of them"

    def missed(self, task: Task) -> str:
        """Return nothing: one of the two always has a solution."""
        return ""

    def _is_regression(self, task: Task) -> bool:
        """Whether a basis comes first: with noise most rows have multipliers."""
        many = task.source.n_rows > self.span_first_rows
        return many and all(one.response is not None for one in task.problems)

    def _may_fall_back(self, task: Task) -> bool:
        few = task.source.n_rows <= self.max_span_rows
        return few and all(one.floor is not Floor.RADIUS for one in task.problems)

    def _is_too_small(self, result: FitResult) -> bool:
        found = result.certificates
        full = any(one.stopped_by == "max_vectors" for one in found)
        return full and max(one.relative_gap for one in found) > self.min_gap

    def _in_span(
        self, task: Task, progress: Progress
    ) -> tuple[FitResult, WarmStart | None] | None:
        """Return the solution in the span of a basis, and a start for the core set.

        No start where more rows are violated than a core set can hold; None where this
        does not apply.
        """
        if task.kernel.name == "sigmoid":
            return None
        work = _SpanWork.of(task, progress)
        n_present = len(weighted_rows(work.scaled, work.view))
        most, budget = task.settings.max_vectors, work.task.source.memory_budget
        size = basis_size(n_present, most, budget, len(task.problems))
        given = work.scaled, work.view, task.kernel, size, progress, work.rng
        basis = choose_basis(*given)
        if basis is None:
            return None
        return work.solve(basis, self.core_share)


AUTOMATIC: Sequence[Method] = (
    LowRank(),
    CoordinateAscent(),
    ExactMachine(),
    CoreSetOrSpan(),
)


@dataclass(frozen=True)
class _SpanWork:
    """A task whose weights are solved in the span of a basis, on the rows that fit."""

    task: Task
    view: Source
    scaled: list[Problem]
    progress: Progress
    rng: np.random.Generator

    @staticmethod
    def of(task: Task, progress: Progress) -> _SpanWork:
        """Return the work on as many rows as fit into the memory budget."""
        rng = _rng(task)
        view, scaled = view_that_fits(task.problems, task.source, rng)
        if view.n_rows == task.source.n_rows:
            task = replace(task, source=view)
        return _SpanWork(task, view, scaled, progress, rng)

    def solve(
        self, basis: Basis, core_share: float = 0.0
    ) -> tuple[FitResult, WarmStart | None]:
        """Return the weights in the span of `basis`, and a start for a core set."""
        logger.info("solving over all rows in the span of %d of them", len(basis))
        task, source, progress = self.task, self.task.source, self.progress
        tol = task.settings.tol
        given = self.scaled, self.view, basis, tol, progress, self.rng
        fits, stopped_by = subspace.solve(SpanTask(*given))
        functions = expansion(fits, basis)
        if self.view is source:
            subspace.prove(fits, source, basis, progress)
        else:
            self._measure_on_all(fits, functions)
        proofs = certificates_of(fits, functions, tol, progress, stopped_by)
        result = FitResult(
            functions=functions,
            certificates=proofs,
            offsets=np.array([fit.offset for fit in fits]),
            norms_sq=np.array([float(fit.weights @ fit.weights) for fit in fits]),
            support=[basis.rows.index] * len(fits),
            multipliers=[],
            n_core=[len(basis)] * len(fits),
        )
        most = core_share * coreset.largest_core_set(task.settings, source, len(fits))
        if self.view is not source or max(one.n_violated for one in fits) > most:
            return result, None
        entries = [fit.violated(source) for fit in fits]
        numbers = [np.zeros(len(few)) for few in entries]
        return result, WarmStart(functions, entries, numbers, same_rows=True)

    def _measure_on_all(self, fits: list[SpanFit], functions: KernelExpansion) -> None:
        """Set the primal values over all rows; nothing is proved from below."""
        nothing, source = np.empty(0, dtype=np.int64), self.task.source
        questions = [
            ScanRequest(problem, nothing, ((1.0, fit.offset),))
            for problem, fit in zip(self.task.problems, fits, strict=True)
        ]
        seen = scan(source, functions, questions)
        self.progress.rows_looked_at += source.n_rows
        for fit, one in zip(fits, seen, strict=True):
            regular = float(fit.weights @ fit.weights) / 2
            fit.primal = regular + fit.problem.price * fit.offset + float(one.loss[0])
            fit.dual = fit.problem.least


def _rng(task: Task) -> np.random.Generator:
    return np.random.default_rng(task.settings.random_state)


def _all_exactly(task: Task, found: FitResult) -> str:
    """Return how many rows there are, and how many of them have multipliers."""
    n_support = len(found.functions.basis)
    return (
        f"exact: all {task.source.n_rows:,} rows, {n_support:,} of them support vectors"
    )


def _warm_weights(task: Task, basis: Basis) -> list[Array] | None:
    """Return start weights whose functions agree with the old on the basis rows."""
    warm = task.warm
    if warm is None or warm.functions.coef.shape[1] != len(task.problems):
        return None
    values = warm.functions.evaluate(basis.rows, warm.functions.prepared())
    start = []
    for t, problem in enumerate(task.problems):
        if problem.has_offset and warm.offsets is None:
            return None
        bias = float(warm.functions.intercept[t])
        weights = basis.features((values[:, t] - bias)[None, :])[0]
        if problem.has_bias:
            weights = np.append(weights, bias)
        if problem.has_offset and warm.offsets is not None:
            weights = np.append(weights, warm.offsets[t])
        start.append(weights)
    return start


def _warm_cores(task: Task) -> list[tuple[Array, Array]] | None:
    """Return first core rows: the old ones, or the rows the old functions fail on."""
    warm, problems, source = task.warm, task.problems, task.source
    if warm is None or warm.functions.coef.shape[1] != len(problems):
        return None
    if warm.same_rows and len(warm.multipliers) == len(problems):
        pairs = zip(problems, warm.support, warm.multipliers, strict=True)
        return [_still_there(*pair, task) for pair in pairs]
    view: Source = source
    if source.n_rows > coreset.MAX_ROWS_WITHOUT_SUBSET:
        view = Subset(source, source.draw(_rng(task), FIRST_SUBSET))
    nothing = np.empty(0, dtype=np.int64)
    questions = [ScanRequest(problem, nothing, n_worst=100) for problem in problems]
    looks = scan(view, warm.functions, questions)
    return [(seen.worst, np.zeros(len(seen.worst))) for seen in looks]


def _still_there(
    problem: Problem, entries: Array, b: Array, task: Task
) -> tuple[Array, Array]:
    """Return the old core entries that have a positive weight in the new problem."""
    rows = task.source.take(problem.rows_of(entries))
    keep = problem.terms(rows, task.kernel).omega > 0
    return entries[keep], b[keep]


def _is_final(result: FitResult, progress: Progress) -> bool:
    done = all(certificate.converged for certificate in result.certificates)
    return done or progress.spent() is not None


def _best(attempts: list[FitResult], tol: float) -> FitResult:
    """Return the functions with the least primal value, with all that was proved.

    A dual value that any attempt reached bounds the same optimum.
    """
    best = min(attempts, key=lambda one: sum(c.primal for c in one.certificates))
    for t, own in enumerate(best.certificates):
        other = max((one.certificates[t] for one in attempts), key=lambda c: c.dual)
        if other.dual > own.dual and not own.converged:
            gap = relative_gap(own.primal, other.dual)
            best.certificates[t] = replace(
                own,
                dual=other.dual,
                dual_bound=other.dual_bound,
                relative_gap=gap,
                converged=gap <= tol,
                stopped_by="tol" if gap <= tol else own.stopped_by,
            )
    return best
