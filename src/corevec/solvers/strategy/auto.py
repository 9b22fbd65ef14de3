"""Which method takes a task: an ordered list of methods that know when they apply.

By default (`AUTOMATIC`) a probe comes first (`LowRank`): if the kernel is numerically
of low rank on these rows, the weights of all rows are solved in that span. Otherwise
the exact machine over all rows is predicted and, within reach, solved (`ExactMachine`).
What is left (hard balls, kernels given as functions, more active rows than time allows)
goes to the core set, or to the span of a basis. All of them return a `FitResult`, which
says in its `method` what was taken and why.

What solves (`in_span`, `core_set`) is imported when it is tried: a small fit needs no
more than the exact machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from corevec._runtime.progress import Progress
from corevec.certificates.definite import is_definite_by_name
from corevec.certificates.scan import Subset
from corevec.exceptions import InvalidInputError
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.result import FitResult
from corevec.problems.family import Floor
from corevec.problems.task import Task
from corevec.solvers.exact.ascent import Ascent
from corevec.solvers.exact.solve import Exact


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

    # Fewer rows than this are solved exactly in well under a second.
    least_rows: int = 5000
    # Samples that the span is solved on before the first pass over all rows.
    samples: tuple[int, ...] = (2000, 32_000, 128_000)

    def applies(self, task: Task) -> bool:
        """Whether a probe is worth it."""
        if any(one.is_hard for one in task.problems) or task.kernel.name == "sigmoid":
            return False
        return task.source.n_rows >= self.least_rows

    def solve(self, task: Task, progress: Progress) -> FitResult | None:
        """Return the solution in the span, or None if the rank is high."""
        from corevec.solvers.strategy.in_span import in_low_rank

        return in_low_rank(task, progress, self.samples)

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
        from corevec.solvers.strategy.core_set import by_core_set

        return by_core_set(task, progress)

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
        from corevec.solvers.strategy.core_set import by_core_set
        from corevec.solvers.strategy.in_span import in_basis

        attempts: list[FitResult] = []
        is_regression = self._is_regression(task)
        if is_regression:
            found = in_basis(task, progress, self.core_share)
            if found is not None:
                attempts.append(found[0])
                if found[1] is None or _is_final(found[0], progress):
                    return found[0]
                task = replace(task, warm=found[1])
        may_fall_back = not is_regression and self._may_fall_back(task)
        attempts.append(by_core_set(task, progress, may_fall_back))
        if may_fall_back and self._is_too_small(attempts[-1]):
            found = in_basis(task, progress, self.core_share)
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


AUTOMATIC: Sequence[Method] = (
    LowRank(),
    CoordinateAscent(),
    ExactMachine(),
    CoreSetOrSpan(),
)


def _rng(task: Task) -> np.random.Generator:
    return np.random.default_rng(task.settings.random_state)


def _all_exactly(task: Task, found: FitResult) -> str:
    """Return how many rows there are, and how many of them have multipliers."""
    n_support = len(found.functions.basis)
    return (
        f"exact: all {task.source.n_rows:,} rows, {n_support:,} of them support vectors"
    )


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
