"""Fit in the span of few vectors: choose them, solve over all rows, certify.

The strategy of the Subspace estimators for squared losses; ``hinge.py`` is that of the
hinge. The vectors are chosen in ``basis/choose.py``; the weights are decided by all
rows (``subspace/iterative.py``, ``subspace/low_rank.py``), penalised by the norm of the
function or, as RSVM's, by their coefficients (``subspace/rsvm.py``); what is certified
is the full problem (``certificates/squared_loss.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from corevec._runtime.progress import Progress, RoundState, logger
from corevec._runtime.types import Array
from corevec.certificates.dual_bounds import AFFORDABLE, BoundRequest
from corevec.certificates.squared_loss import Candidate, prove
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.basis import Basis
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.models.norms import norms_sq_of_rows
from corevec.models.result import FitResult, Settings
from corevec.problems.family import Problem
from corevec.solvers.basis.choose import (
    BasisTask,
    Vectors,
    Wanted,
    basis_of_vectors,
    is_streamed,
    no_space,
    wanted_vectors,
)
from corevec.solvers.subspace import iterative, low_rank
from corevec.solvers.subspace.result import certificates as certificates_of
from corevec.solvers.subspace.result import expansion
from corevec.solvers.subspace.rsvm import coefficients_of
from corevec.solvers.subspace.task import SpanTask
from corevec.solvers.subspace.working_set import view_that_fits

# Samples that the span is solved on before the first pass over all rows.
SAMPLES = (2000, 32_000, 128_000)
# The weights are solved to this, also where a larger gap is asked for: that gap is what
# few vectors leave, not what the solver may. With tol = 0.9 the hinge stopped 1.5 %
# above its optimum in the span (30,000 rows, 100 vectors).
WEIGHTS_TOL = 1e-2


def fit(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    wanted: Wanted,
    settings: Settings,
    progress: Progress,
) -> FitResult:
    """Return the solutions over all rows in the span of few vectors, certified."""
    rng = np.random.default_rng(settings.random_state)
    solve = _fit_in_span if wanted.own_norm else _fit_coefficients
    view, scaled = source, problems
    if not source.draws_cheaply:
        # The vectors are chosen among rows in memory; all rows decide the weights.
        view, scaled = view_that_fits(problems, source, rng)
        source = view if view.n_rows == source.n_rows else source
    how = kernel, wanted, settings, progress, rng
    task = BasisTask(problems, source, *how)
    found: FitResult | None = None
    for vectors in wanted_vectors(BasisTask(scaled, view, *how)):
        if found is not None and vectors.functions is None:
            vectors = replace(vectors, functions=found.functions)
        found = solve(task, vectors)
        if all(one.converged for one in found.certificates):
            break
    assert found is not None
    return found


def _fit_in_span(task: BasisTask, vectors: Vectors) -> FitResult:
    """Return functions penalised by their own norm, in the span of some vectors."""
    basis = basis_of_vectors(vectors, task.kernel, task.source)
    logger.info("solving over all rows in the span of %d vectors", len(basis))
    with task.progress.showing(_of_final_basis):
        weights = _solve(task, basis, vectors.functions)
    functions, certificates = weights.functions, weights.certificates
    if len(functions.basis) < len(basis):
        basis = basis.leading(len(functions.basis))
    projected = basis.factor.T @ functions.coef
    norms = np.array([float(w @ w) for w in projected.T])
    if not certificates or task.wanted.certificate == "exact":
        certificates = _certify(task, weights, norms, basis)
    return _outcome(weights, norms, certificates)


def _fit_coefficients(task: BasisTask, vectors: Vectors) -> FitResult:
    """Return functions penalised by the coefficients of all vectors, as RSVM's."""
    source, kernel = task.source, task.kernel
    span_of = coefficients_of(vectors.rows, kernel, source)
    if span_of is None:
        raise no_space(kernel)
    basis = span_of.basis
    logger.info(
        "solving for %d coefficients in %d dimensions", len(span_of.rows), len(basis)
    )

    def of_all(state: RoundState) -> RoundState:
        own = replace(state, functions=lambda: span_of.of_all(state.functions()))
        return _of_final_basis(own)

    with task.progress.showing(of_all):
        weights = _solve(task, span_of.solved_in, feature_sq=span_of.feature_sq())
    functions = span_of.of_all(weights.functions)
    weights = replace(weights, functions=functions)
    norms = norms_sq_of_rows(functions.basis, kernel, functions.coef, source.workers)
    return _outcome(weights, norms, _certify(task, weights, norms, basis))


def _of_final_basis(state: RoundState) -> RoundState:
    """Return the state with the mark that a resumed fit keeps its basis vectors."""
    return replace(state, basis_is_final=True)


@dataclass(frozen=True)
class _Weights:
    """The functions of all problems, their offsets, and what stopped the rounds.

    `certificates` is empty where the rounds have not proved what was asked for.
    """

    functions: KernelExpansion
    offsets: list[float]
    stopped_by: str
    certificates: list[Certificate] = field(default_factory=list)


def _outcome(
    weights: _Weights, norms_sq: Array, certificates: list[Certificate]
) -> FitResult:
    """Return the outcome; `norms_sq` is |w|^2 of each function without its bias."""
    functions, n = weights.functions, len(certificates)
    return FitResult(
        functions=functions,
        certificates=[
            one if one.converged else replace(one, stopped_by=weights.stopped_by)
            for one in certificates
        ],
        offsets=np.array(weights.offsets),
        norms_sq=norms_sq + functions.intercept**2,
        support=[functions.basis.index] * n,
        multipliers=[],
        n_core=[len(functions.basis)] * n,
    )


def _solve(
    task: BasisTask,
    basis: Basis,
    start: KernelExpansion | None = None,
    feature_sq: float = 0.0,
) -> _Weights:
    """Return the weights of all rows in the span of a basis.

    Stopped by "n_vectors" where they are solved: only more vectors would help.
    """
    tol = min(task.settings.tol, WEIGHTS_TOL)
    if is_streamed(task.problems, task.source, len(basis)):
        return _solve_streamed(task, basis, tol)
    source, progress, rng = task.source, task.progress, task.rng
    view, scaled = view_that_fits(task.problems, source, rng)
    span_task = SpanTask(scaled, view, basis, tol, progress, rng)
    fits, stopped_by = iterative.solve(span_task, start, feature_sq, is_measured=False)
    if stopped_by in ("max_vectors", "stall") and view.n_rows < source.n_rows:
        stopped_by = "memory_budget"
    elif stopped_by == "max_vectors":  # solved
        stopped_by = "n_vectors"
    functions = expansion(fits, basis)
    return _Weights(functions, [fit.offset for fit in fits], stopped_by)


def _solve_streamed(task: BasisTask, basis: Basis, tol: float) -> _Weights:
    """Return the weights where only rows near the margin fit the memory budget."""
    source, progress, rng = task.source, task.progress, task.rng
    samples = [source.draw(rng, size) for size in SAMPLES if 2 * size < source.n_rows]
    samples = samples or [source.draw(rng, source.n_rows // 2)]
    # No leading part is enough: what it leaves of the other rows is not known.
    basis = replace(basis, residuals=np.ones(len(basis)))
    span_task = SpanTask(task.problems, source, basis, tol, progress, rng)
    fits, basis, stopped_by = low_rank.solve(span_task, samples, max_basis=len(basis))
    functions, certificates = expansion(fits, basis), []
    if all(fit.gap <= task.settings.tol for fit in fits):
        certificates = certificates_of(
            fits, functions, task.settings.tol, progress, stopped_by
        )
    if stopped_by == "stall" and all(fit.gap_within <= tol for fit in fits):
        stopped_by = "n_vectors"  # solved in the span: only the bound is missing
    offsets = [fit.offset for fit in fits]
    return _Weights(functions, offsets, stopped_by, certificates)


def _certify(
    task: BasisTask, weights: _Weights, norms_sq: Array, basis: Basis
) -> list[Certificate]:
    """Return the certificates of the full problems, from a pass over all rows."""
    functions, offsets = weights.functions, weights.offsets
    source, progress = task.source, task.progress
    affordable = max(AFFORDABLE, 30.0 * source.n_rows * len(basis))
    if progress.spent() is not None:
        affordable = AFFORDABLE / 2
    # Whoever accepts a large gap still wants to know it.
    tol = min(task.settings.tol, WEIGHTS_TOL)
    request = BoundRequest(task.wanted.certificate, affordable, tol, task.rng)
    candidate = Candidate(functions, offsets, norms_sq)
    proofs, losses = prove(task.problems, candidate, source, basis, request)
    progress.rows_looked_at += source.n_rows
    errors, result = functions.value_errors(), []
    for t, (problem, proof) in enumerate(zip(task.problems, proofs, strict=True)):
        bias = float(functions.intercept[t]) if problem.has_bias else 0.0
        measured = (float(norms_sq[t]) + bias**2) / 2
        measured += problem.price * offsets[t] + losses[t]
        primal = measured + problem.loss_error(measured, float(errors[t]))
        certificate = Certificate.of(
            problem.name,
            (primal, proof.value),
            progress,
            unit=problem.unit,
            kind=problem.kind,
            tol=task.settings.tol,
            dual_bound=proof.kind,
            confidence=proof.confidence,
            rounding=relative_gap(primal, measured),
        )
        result.append(certificate)
    return result
