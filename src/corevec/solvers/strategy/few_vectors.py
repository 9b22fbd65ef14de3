"""Fitting in the span of few vectors: choose them, solve over all rows, certify.

The engine of the Subspace estimators for squared losses; ``hinge.py`` is that of the
hinge. The vectors are chosen in ``vectors.py``; the weights are decided by all rows
(``subspace.py``, ``span.py``), penalised by the norm of the function or, as RSVM's, by
their coefficients (``coefficients.py``); what is certified is the full problem
(``bounds.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corevec._runtime.progress import Progress, logger
from corevec._runtime.types import Array
from corevec.certificates import dual_bounds as bounds
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.basis import Basis
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.models.norms import norms_sq_of_rows
from corevec.models.result import Outcome, Settings
from corevec.problems.family import Problem
from corevec.solvers.basis.choose import (
    Vectors,
    Wanted,
    basis_of_vectors,
    is_streamed,
    no_space,
    vectors_asked_for,
)
from corevec.solvers.basis.variable_projection import can_move
from corevec.solvers.subspace import iterative as subspace
from corevec.solvers.subspace import low_rank as span
from corevec.solvers.subspace.rsvm import coefficients_of
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
) -> Outcome:
    """Solve `problems` over all rows in the span of few vectors."""
    rng = np.random.default_rng(settings.random_state)
    solve = _fit_in if wanted.own_norm else _fit_coefficients
    view, scaled = source, problems
    if not source.draws_cheaply:
        # The vectors are chosen among rows at hand; all rows decide the weights.
        view, scaled = view_that_fits(problems, source, rng)
        source = view if view.n_rows == source.n_rows else source
    for vectors in vectors_asked_for(
        scaled, view, kernel, wanted, settings, progress, rng
    ):
        found = solve(
            problems, source, kernel, vectors, wanted, settings, progress, rng
        )
        if all(one.converged for one in found.certificates):
            break
    return found


def _fit_in(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    vectors: Vectors,
    wanted: Wanted,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> Outcome:
    """Solve and certify in the span of some vectors."""
    basis = basis_of_vectors(vectors, kernel, source)
    # The pursuit leaves functions of (nearly) these vectors, if there was one.
    moved = wanted.basis == "pursuit" and can_move(kernel)
    start = progress.snapshot() if moved and progress.snapshot is not None else None
    logger.info("solving over all rows in the span of %d vectors", len(basis))
    progress.chosen = True  # a checkpoint goes on with these vectors
    functions, offsets, stopped_by, certificates = _solve(
        problems, source, basis, settings, progress, rng, start
    )
    if len(functions.basis) < len(basis):
        basis = basis.leading(len(functions.basis))
    weights = basis.factor.T @ functions.coef
    norms = np.array([float(w @ w) for w in weights.T])
    solved = _Solved(functions, offsets, norms, stopped_by)
    if not certificates or wanted.certificate == "exact":
        certificates = _certify(
            problems, solved, source, basis, wanted, settings, progress, rng
        )
    return _outcome(solved, certificates)


def _fit_coefficients(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    vectors: Vectors,
    wanted: Wanted,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> Outcome:
    """Solve for the coefficients of all vectors, and certify the functions."""
    span_of = coefficients_of(vectors.rows, kernel, source)
    if span_of is None:
        raise no_space(kernel)
    basis = span_of.basis
    logger.info(
        "solving for %d coefficients in %d dimensions", len(span_of.rows), len(basis)
    )
    progress.chosen = True  # a checkpoint goes on with these vectors
    with _shown(progress, span_of.of_all):
        functions, offsets, stopped_by, _ = _solve(
            problems,
            source,
            span_of.solved_in,
            settings,
            progress,
            rng,
            feature_sq=span_of.feature_sq(),
        )
    functions = span_of.of_all(functions)
    norms = norms_sq_of_rows(functions.basis, kernel, functions.coef, source.workers)
    solved = _Solved(functions, offsets, norms, stopped_by)
    certificates = _certify(
        problems, solved, source, basis, wanted, settings, progress, rng
    )
    return _outcome(solved, certificates)


@contextmanager
def _shown(
    progress: Progress, change: Callable[[KernelExpansion], KernelExpansion]
) -> Iterator[None]:
    """Let those who look at the functions between rounds see them changed."""

    def first(_: dict[str, Any]) -> None:
        solved = progress.snapshot
        if solved is not None:
            progress.snapshot = lambda: change(solved())

    progress.listeners.insert(0, first)
    try:
        yield
    finally:
        progress.listeners.remove(first)


@dataclass(frozen=True)
class _Solved:
    """What the rounds leave: the functions of all problems."""

    functions: KernelExpansion
    offsets: list[float]
    norms_sq: Array  # |w|^2, without the bias
    stopped_by: str


def _outcome(solved: _Solved, certificates: list[Certificate]) -> Outcome:
    functions, n = solved.functions, len(certificates)
    return Outcome(
        functions=functions,
        certificates=[
            one if one.converged else replace(one, stopped_by=solved.stopped_by)
            for one in certificates
        ],
        offsets=np.array(solved.offsets),
        norms_sq=solved.norms_sq + functions.intercept**2,
        support=[functions.basis.index] * n,
        multipliers=[],
        n_core=[len(functions.basis)] * n,
    )


def _solve(
    problems: list[Problem],
    source: Source,
    basis: Basis,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
    start: KernelExpansion | None = None,
    feature_sq: float = 0.0,
) -> tuple[KernelExpansion, list[float], str, list[Certificate]]:
    """Return functions, offsets, what stopped the rounds, and certificates.

    "n_vectors" where the weights are solved: more vectors alone would help. No
    certificates where the rounds have not proved what was asked for.
    """
    tol = min(settings.tol, WEIGHTS_TOL)
    if is_streamed(problems, source, len(basis)):
        samples = [
            source.draw(rng, size) for size in SAMPLES if 2 * size < source.n_rows
        ]
        samples = samples or [source.draw(rng, source.n_rows // 2)]
        # No leading part is enough: what it leaves of the other rows is not known.
        basis = replace(basis, residuals=np.ones(len(basis)))
        found, basis, stopped_by = span.solve(
            problems, source, basis, samples, tol, progress, most=len(basis)
        )
        proofs, functions = [], span.expansion(found, basis)
        if all(one.gap <= settings.tol for one in found):
            given = settings.tol, progress, stopped_by
            proofs = span.certificates(found, functions, *given)
        if stopped_by == "stall" and all(one.gap_within <= tol for one in found):
            stopped_by = "n_vectors"  # solved in the span: only the bound is missing
        return functions, [one.offset for one in found], stopped_by, proofs
    view, scaled = view_that_fits(problems, source, rng)
    fits, stopped_by = subspace.solve(
        scaled, view, basis, tol, progress, rng, False, start, feature_sq
    )
    if stopped_by in ("max_core", "stall") and view.n_rows < source.n_rows:
        stopped_by = "memory_budget"
    elif stopped_by == "max_core":  # solved
        stopped_by = "n_vectors"
    functions = subspace.expansion(fits, basis)
    return functions, [fit.offset for fit in fits], stopped_by, []


def _certify(
    problems: list[Problem],
    solved: _Solved,
    source: Source,
    basis: Basis,
    wanted: Wanted,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> list[Certificate]:
    """Return the certificates of the full problems, from a pass over all rows."""
    functions, offsets = solved.functions, solved.offsets
    affordable = max(bounds.AFFORDABLE, 30.0 * source.n_rows * len(basis))
    if progress.spent() is not None:
        affordable = bounds.AFFORDABLE / 2
    proofs, losses = bounds.prove(
        problems,
        functions,
        offsets,
        source,
        basis,
        how=wanted.certificate,
        # Whoever accepts a large gap still wants to know it.
        tol=min(settings.tol, WEIGHTS_TOL),
        rng=rng,
        affordable=affordable,
        norms_sq=solved.norms_sq,
    )
    progress.rows_looked_at += source.n_rows
    result, errors = [], functions.value_errors()
    for t, (problem, proof) in enumerate(zip(problems, proofs, strict=True)):
        bias = float(functions.intercept[t]) if problem.has_bias else 0.0
        primal = (float(solved.norms_sq[t]) + bias**2) / 2
        primal += problem.price * offsets[t] + losses[t]
        measured = primal
        primal += problem.loss_error(primal, float(errors[t]))
        result.append(
            Certificate.of(
                problem.name,
                (primal, proof.dual),
                progress,
                unit=problem.unit,
                tol=settings.tol,
                dual_bound=proof.bound,
                confidence=proof.confidence,
                rounding=relative_gap(primal, measured),
            )
        )
    return result
