"""Fitting in the span of few vectors: choose them, solve over all rows, certify.

The engine of the Subspace estimators for squared losses; ``hinge.py`` is that of the
hinge. The vectors are chosen by name (``choosing.py``), grown and moved
(``pursuit.py``), or the user's own; the weights are decided by all rows
(``subspace.py``, ``span.py``); what is certified is the full problem (``bounds.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from corevec import bounds, coreset, pursuit, span, subspace
from corevec.bases import (
    MAX_RANK,
    RANK_THRESHOLD,
    SPREAD_THRESHOLD,
    Basis,
    basis_of_rows,
)
from corevec.certificate import Certificate, relative_gap
from corevec.choosing import (
    incomplete_cholesky,
    kmeans,
    randomly_pivoted_cholesky,
    uniform,
)
from corevec.exceptions import KernelError
from corevec.expansion import KernelExpansion
from corevec.kernels import AnyKernel, Kernel, Rows
from corevec.moving import can_move
from corevec.problems import Problem
from corevec.progress import Progress, logger
from corevec.settings import Outcome, Settings
from corevec.sources import Source
from corevec.views import view_that_fits

Array = npt.NDArray[Any]

CHOOSERS = {
    "nystroem": uniform,
    "kmeans": kmeans,
    "rpcholesky": randomly_pivoted_cholesky,
    "cholesky": incomplete_cholesky,
}

# Samples that the span is solved on before the first pass over all rows.
SAMPLES = (2000, 32_000, 128_000)
# The weights are solved to this, also where a larger gap is asked for: that gap is what
# few vectors leave, not what the solver may. With tol = 0.9 the hinge stopped 1.5 %
# above its optimum in the span (30,000 rows, 100 vectors).
WEIGHTS_TOL = 1e-2


@dataclass(frozen=True)
class Wanted:
    """Which vectors to span the functions with.

    Attributes
    ----------
    n_basis : int or float
        How many, at most; below 1, as a share of the rows of positive weight.
    basis : str or Rows
        A name, or the user's own vectors.
    certificate : str
        How to prove the gap, one of `bounds.HOW`.
    own_norm : bool
        Whether functions are penalised by their own norm ``c'Gc``; otherwise by their
        coefficients ``c'c``, as RSVM does.
    """

    n_basis: float
    basis: str | Rows
    certificate: str = "auto"
    own_norm: bool = True

    def size(self, n_rows: int) -> int:
        """Return how many vectors that is at most, for so many rows."""
        size = self.n_basis if self.n_basis >= 1 else round(self.n_basis * n_rows)
        return min(max(1, int(size)), n_rows)


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
    for basis in _bases(problems, source, kernel, wanted, settings, progress, rng):
        found = _fit_in(
            problems, source, kernel, basis, wanted, settings, progress, rng
        )
        if all(one.converged for one in found.certificates):
            break
    return found


def _fit_in(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    basis: Basis,
    wanted: Wanted,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> Outcome:
    """Solve and certify in the span of one basis."""
    # The pursuit leaves functions of (nearly) these vectors, if there was one.
    moved = wanted.basis == "pursuit" and can_move(kernel) and wanted.own_norm
    start = progress.snapshot() if moved and progress.snapshot is not None else None
    logger.info("solving over all rows in the span of %d vectors", len(basis))
    solved_in = basis if wanted.own_norm else _by_coefficients(basis)
    functions, offsets, stopped_by, certificates = _solve(
        problems, source, solved_in, settings, progress, rng, start
    )
    if len(functions.basis) < len(basis):
        basis = basis.leading(len(functions.basis))
    if not certificates or not wanted.own_norm or wanted.certificate == "exact":
        certificates = _certify(
            problems, functions, offsets, source, basis, wanted, settings, progress, rng
        )
    if stopped_by in ("max_core", "stall"):
        stopped_by = "n_basis"
    certificates = [
        one if one.converged else replace(one, stopped_by=stopped_by)
        for one in certificates
    ]
    weights = basis.factor.T @ functions.coef
    norms = (weights**2).sum(axis=0) + functions.intercept**2
    return Outcome(
        functions=functions,
        certificates=certificates,
        offsets=np.array(offsets),
        norms_sq=norms,
        support=[functions.basis.index] * len(problems),
        multipliers=[],
        n_core=[len(basis)] * len(problems),
    )


def _bases(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    wanted: Wanted,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> Iterator[Basis]:
    """Yield the basis that was asked for, after smaller ones that may do."""
    present = subspace.rows_present(problems, source)
    size = wanted.size(len(present))
    # The span of all rows holds the optimum: there is nothing to move.
    grows = wanted.basis == "pursuit" and can_move(kernel) and size < len(present)
    if not grows or _are_solved_by_zero(problems, present):
        yield choose(problems, source, kernel, wanted, settings, progress, rng)
        return
    assert isinstance(kernel, Kernel)
    # Whoever accepts any gap wants all vectors.
    tol = settings.tol if settings.tol < 1 else 0.0
    for vectors in pursuit.grow(
        problems, source, kernel, size, progress, rng, present, tol
    ):
        rows = Rows(vectors, np.full(len(vectors), -1))
        yield _spanned_by(rows, kernel, source, SPREAD_THRESHOLD)


def choose(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    wanted: Wanted,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> Basis:
    """Return the basis that was asked for, of vectors that do not move."""
    check_definite(kernel)
    present = subspace.rows_present(problems, source)
    size = wanted.size(len(present))
    name, threshold = wanted.basis, SPREAD_THRESHOLD
    if isinstance(name, Rows):
        rows = name
    elif _are_solved_by_zero(problems, present):
        rows = uniform(source, kernel, 1, rng, present)
    elif name in ("pursuit", "train"):
        found = subspace.choose_basis(problems, source, kernel, size, progress, rng)
        return _checked(found, kernel)
    elif name == "coreset":
        rows = coreset.core_rows(problems, source, kernel, size, settings, progress)
    elif name == "cholesky" and _is_streamed(problems, source, size):
        # Graded pivots keep their digits there, and the bound needs them.
        threshold = RANK_THRESHOLD
        rows = incomplete_cholesky(source, kernel, size, rng, present, threshold)
    else:
        rows = CHOOSERS[name](source, kernel, size, rng, present)
    return _spanned_by(rows, kernel, source, threshold)


def _spanned_by(
    rows: Rows, kernel: AnyKernel, source: Source, threshold: float
) -> Basis:
    if len(rows) == 0:
        return _checked(None, kernel)
    basis, is_definite = basis_of_rows(rows, kernel, source.workers, threshold)
    return _checked(basis if is_definite else None, kernel)


def _is_streamed(problems: list[Problem], source: Source, size: int) -> bool:
    """Whether the rows are too many for numbers of their own, and the basis is small.

    Then only rows near the margin are kept (`span.py`).
    """
    return source.n_rows > subspace.rows_that_fit(problems, source) and size <= MAX_RANK


def check_definite(kernel: AnyKernel) -> None:
    """Raise an error for a kernel that is known not to be positive definite."""
    if kernel.name == "sigmoid":
        _checked(None, kernel)


def _are_solved_by_zero(problems: list[Problem], present: Array) -> bool:
    """Whether no row pulls at f = 0: constant targets, or all within the tube."""
    return all(
        problem.response is not None
        and float(np.abs(problem.response[present]).max()) <= problem.tube
        for problem in problems
    )


def _checked(basis: Basis | None, kernel: AnyKernel) -> Basis:
    if basis is not None:
        return basis
    raise KernelError(
        f"the {kernel.name} kernel is not positive definite on the basis vectors, or "
        "zero on all of them, so that they span no space. Use another kernel (for "
        "poly: coef0 >= 0), or CoreVectorClassifier, which needs no basis."
    )


def _by_coefficients(basis: Basis) -> Basis:
    """Return the basis with the norm ``c'c``: features are the kernel values."""
    return replace(basis, factor=np.eye(len(basis)))


def _solve(
    problems: list[Problem],
    source: Source,
    basis: Basis,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
    start: KernelExpansion | None,
) -> tuple[KernelExpansion, list[float], str, list[Certificate]]:
    """Return functions, offsets, what stopped the rounds, and certificates.

    No certificates where the rounds have not proved what was asked for.
    """
    tol = min(settings.tol, WEIGHTS_TOL)
    if _is_streamed(problems, source, len(basis)):
        samples = [
            source.draw(rng, size) for size in SAMPLES if 2 * size < source.n_rows
        ]
        samples = samples or [source.draw(rng, source.n_rows // 2)]
        # No leading part is enough: what it leaves of the other rows is not known.
        basis = replace(basis, residuals=np.ones(len(basis)))
        found, basis, stopped_by = span.solve(
            problems, source, basis, samples, tol, progress, most=len(basis)
        )
        proofs = []
        if all(one.gap <= settings.tol for one in found):
            proofs = span.certificates(found, settings.tol, progress, stopped_by)
        functions = span.expansion(found, basis)
        return functions, [one.offset for one in found], stopped_by, proofs
    view, scaled = view_that_fits(problems, source, rng)
    fits, stopped_by = subspace.solve(
        scaled, view, basis, tol, progress, rng, measured=False, start=start
    )
    functions = subspace.expansion(fits, basis)
    return functions, [fit.offset for fit in fits], stopped_by, []


def _certify(
    problems: list[Problem],
    functions: KernelExpansion,
    offsets: list[float],
    source: Source,
    basis: Basis,
    wanted: Wanted,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> list[Certificate]:
    """Return the certificates of the full problems, from a pass over all rows."""
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
        # Whoever accepts any gap still wants to know it.
        tol=min(settings.tol, WEIGHTS_TOL),
        rng=rng,
        affordable=affordable,
    )
    progress.rows_looked_at += source.n_rows
    weights = basis.factor.T @ functions.coef
    result = []
    for t, (problem, proof) in enumerate(zip(problems, proofs, strict=True)):
        bias = float(functions.intercept[t]) if problem.has_bias else 0.0
        primal = (float(weights[:, t] @ weights[:, t]) + bias**2) / 2
        primal += problem.price * offsets[t] + losses[t]
        gap = relative_gap(primal, proof.dual)
        result.append(
            Certificate(
                problem=problem.name,
                primal=problem.unit * primal,
                dual=problem.unit * proof.dual,
                relative_gap=gap,
                dual_bound=proof.bound,
                confidence=proof.confidence,
                n_verified=progress.n_rows,
                n_rows=progress.n_rows,
                passes=progress.passes,
                seconds=progress.seconds,
                converged=gap <= settings.tol,
                stopped_by="tol",
                tol=settings.tol,
            )
        )
    return result
