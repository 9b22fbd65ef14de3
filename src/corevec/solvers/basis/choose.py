"""Which vectors span the functions: chosen by name, grown and moved, or the user's own.

`choosing.py` picks rows, `pursuit.py` grows and moves vectors; here is the choice
between them, and the basis that the chosen ones make.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from corevec._runtime.progress import Progress
from corevec.data.sources import Source, of_rows
from corevec.exceptions import KernelError
from corevec.kernels import AnyKernel, Kernel, Rows
from corevec.models.basis import (
    MAX_RANK,
    RANK_THRESHOLD,
    SPREAD_THRESHOLD,
    Basis,
    basis_of_rows,
)
from corevec.models.result import Settings
from corevec.problems.family import Problem
from corevec.solvers.basis import pursuit
from corevec.solvers.basis.select import (
    incomplete_cholesky,
    kmeans,
    randomly_pivoted_cholesky,
    uniform,
)
from corevec.solvers.basis.variable_projection import can_move
from corevec.solvers.coreset import loop as coreset
from corevec.solvers.subspace import iterative as subspace

CHOOSERS = {
    "nystroem": uniform,
    "kmeans": kmeans,
    "rpcholesky": randomly_pivoted_cholesky,
    "cholesky": incomplete_cholesky,
}


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
        Whether functions are penalised by their own norm ``c'Gc``; otherwise by the
        coefficients ``c'c`` of all vectors, as RSVM does.
    """

    n_basis: float
    basis: str | Rows
    certificate: str = "auto"
    own_norm: bool = True

    def size(self, n_rows: int) -> int:
        """Return how many vectors that is at most, for so many rows."""
        size = self.n_basis if self.n_basis >= 1 else round(self.n_basis * n_rows)
        return min(max(1, int(size)), n_rows)


@dataclass(frozen=True)
class Vectors:
    """Chosen vectors, and their basis where it is known."""

    rows: Rows
    threshold: float = SPREAD_THRESHOLD  # of their basis, as a share of k(x, x)
    basis: Basis | None = None


def vectors_asked_for(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    wanted: Wanted,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> Iterator[Vectors]:
    """Yield the vectors that were asked for, after fewer that may do."""
    present = subspace.rows_present(problems, source)
    size = wanted.size(len(present))
    # The span of all rows holds the optimum: there is nothing to move.
    grows = wanted.basis == "pursuit" and can_move(kernel) and size < len(present)
    if not grows or _are_solved_by_zero(problems, source):
        yield _choose(problems, source, kernel, wanted, settings, progress, rng)
        return
    assert isinstance(kernel, Kernel)
    for found in pursuit.grow(
        problems, source, kernel, size, progress, rng, present, settings.tol
    ):
        yield Vectors(Rows(found, np.full(found.shape[0], -1)))


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
    vectors = _choose(problems, source, kernel, wanted, settings, progress, rng)
    return basis_of_vectors(vectors, kernel, source)


def _choose(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    wanted: Wanted,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> Vectors:
    """Return the vectors that were asked for, where they do not move."""
    check_definite(kernel)
    present = subspace.rows_present(problems, source)
    size = wanted.size(len(present))
    name, threshold = wanted.basis, SPREAD_THRESHOLD
    if isinstance(name, Rows):
        rows = name
    elif _are_solved_by_zero(problems, source):
        rows = uniform(source, kernel, 1, rng, present)
    elif name in ("pursuit", "train") and size >= len(present):
        rows = source.take(np.sort(present))
    elif name in ("pursuit", "train"):
        found = subspace.choose_basis(problems, source, kernel, size, progress, rng)
        basis = _checked(found, kernel)
        return Vectors(basis.rows, basis=basis)
    elif name == "coreset":
        rows = coreset.core_rows(problems, source, kernel, size, settings, progress)
    elif name == "cholesky" and is_streamed(problems, source, size):
        # Graded pivots keep their digits there, and the bound needs them.
        threshold = RANK_THRESHOLD
        rows = incomplete_cholesky(source, kernel, size, rng, present, threshold)
    else:
        rows = CHOOSERS[name](source, kernel, size, rng, present)
    return Vectors(rows, threshold)


def basis_of_vectors(vectors: Vectors, kernel: AnyKernel, source: Source) -> Basis:
    """Return those of the vectors that add something to the others."""
    if vectors.basis is not None:
        return vectors.basis
    if len(vectors.rows) == 0:
        raise no_space(kernel)
    basis, is_definite = basis_of_rows(
        vectors.rows, kernel, source.workers, vectors.threshold
    )
    return _checked(basis if is_definite else None, kernel)


def is_streamed(problems: list[Problem], source: Source, size: int) -> bool:
    """Whether the rows are too many for numbers of their own, and the basis is small.

    Then only rows near the margin are kept (`span.py`).
    """
    if not source.draws_cheaply:
        return True
    return source.n_rows > subspace.rows_that_fit(problems, source) and size <= MAX_RANK


def check_definite(kernel: AnyKernel) -> None:
    """Raise an error for a kernel that is known not to be positive definite."""
    if kernel.name == "sigmoid":
        raise no_space(kernel)


def _are_solved_by_zero(problems: list[Problem], source: Source) -> bool:
    """Whether no row pulls at f = 0: constant targets, or all within the tube."""
    if any(problem.response is None for problem in problems):
        return False

    def pull(rows: Rows) -> float:
        found = 0.0
        for problem in problems:
            assert problem.response is not None
            counted = problem.labels.weights(rows) > 0
            response = abs(of_rows(problem.response, rows)[counted])
            if len(response):
                found = max(found, float(response.max()) - problem.tube)
        return found

    return bool(source.reduce(pull, max) <= 0)


def _checked(basis: Basis | None, kernel: AnyKernel) -> Basis:
    if basis is None:
        raise no_space(kernel)
    return basis


def no_space(kernel: AnyKernel) -> KernelError:
    """Return the error for a kernel in which the vectors span no space."""
    return KernelError(
        f"the {kernel.name} kernel is not positive definite on the basis vectors, or "
        "zero on all of them, so that they span no space. Use another kernel (for "
        "poly: coef0 >= 0), or CoreVectorClassifier, which needs no basis."
    )
