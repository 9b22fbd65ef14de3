"""All rows decide the weights, in the span of pivots or of a basis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corevec._runtime.progress import Progress, logger
from corevec._runtime.types import Array
from corevec.certificates.scan import ScanRequest, scan
from corevec.data.sources import Source
from corevec.models.basis import Basis, probe
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult, WarmStart
from corevec.problems.family import Problem
from corevec.problems.task import Task
from corevec.solvers.basis.by_multipliers import basis_size, choose_basis
from corevec.solvers.coreset.loop import largest_core_set
from corevec.solvers.subspace import iterative as subspace
from corevec.solvers.subspace import low_rank as span
from corevec.solvers.subspace.result import certificates as certificates_of
from corevec.solvers.subspace.result import expansion
from corevec.solvers.subspace.row_order import weighted_rows
from corevec.solvers.subspace.state import SpanFit
from corevec.solvers.subspace.task import SpanTask
from corevec.solvers.subspace.working_set import view_that_fits


def in_low_rank(
    task: Task, progress: Progress, sizes: Sequence[int]
) -> FitResult | None:
    """Return the solution in the span of pivots, or None if the rank is high.

    Samples of `sizes` rows come before the first pass over all rows.
    """
    source, rng = task.source, np.random.default_rng(task.settings.random_state)
    basis = probe(source, task.kernel, rng)
    if basis is None:
        return None
    logger.info("the kernel has numerical rank %d on these rows", len(basis))
    start = None if task.warm is None else _warm_weights(task, basis)
    samples = [source.draw(rng, size) for size in source.sample_sizes(sizes)]
    if start is not None:  # of remote rows a few, to know where they are
        samples = [] if source.draws_cheaply else samples[:1]
    given = task.problems, source, basis, task.settings.tol, progress, rng
    fits, basis, stopped_by = span.solve(SpanTask(*given), samples, start)
    if not np.isfinite(max(one.primal for one in fits)):
        return None
    if any(span.radius_sq(one, basis) < 0 for one in fits):
        return None  # R^2 >= 0 binds, which the core set's solver knows how to treat
    functions, tol = expansion(fits, basis), task.settings.tol
    width = [len(basis) + int(one.problem.has_bias) for one in fits]
    weights = [one.v[:w] for one, w in zip(fits, width, strict=True)]
    return FitResult(
        functions=functions,
        certificates=certificates_of(fits, functions, tol, progress, stopped_by),
        offsets=np.array([float(f.v[-1]) * f.problem.has_offset for f in fits]),
        norms_sq=np.array([float(u @ u) for u in weights]),
        support=[basis.rows.index] * len(fits),
        multipliers=[],
        n_core=[len(basis)] * len(fits),
    )


def in_basis(
    task: Task, progress: Progress, core_share: float
) -> tuple[FitResult, WarmStart | None] | None:
    """Return the solution in the span of a basis, and a start for the core set.

    No start where more rows are violated than `core_share` of what a core set can hold;
    None where this does not apply.
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
    return work.solve(basis, core_share)


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
        rng = np.random.default_rng(task.settings.random_state)
        view, scaled = view_that_fits(task.problems, task.source, rng)
        if view.n_rows == task.source.n_rows:
            task = replace(task, source=view)
        return _SpanWork(task, view, scaled, progress, rng)

    def solve(
        self, basis: Basis, core_share: float
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
        most = core_share * largest_core_set(task.settings, source, len(fits))
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
