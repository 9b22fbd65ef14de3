"""Which vectors span the functions: chosen by name, grown and moved, or the user's own.

``select.py`` and ``by_multipliers.py`` choose rows, ``pursuit.py`` grows and moves
vectors. This is the choice between them, and the basis that the chosen ones make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.data.sources import Source, of_rows
from corevec.exceptions import KernelError
from corevec.kernels import AnyKernel, Kernel, Rows
from corevec.models.basis import (
    MAX_RANK,
    RANK_THRESHOLD,
    SPREAD_THRESHOLD,
    Basis,
    basis_of_rows,
    free_vectors,
)
from corevec.models.expansion import KernelExpansion
from corevec.models.result import Settings
from corevec.problems.family import Problem
from corevec.solvers.basis.by_multipliers import choose_basis
from corevec.solvers.basis.pursuit import PursuitTask, grow
from corevec.solvers.basis.select import (
    Pool,
    incomplete_cholesky,
    kmeans,
    randomly_pivoted_cholesky,
    uniform,
)
from corevec.solvers.basis.variable_projection import can_move
from corevec.solvers.coreset import loop as coreset
from corevec.solvers.numeric.deadline import Deadline
from corevec.solvers.subspace.row_order import weighted_rows_on_host
from corevec.solvers.subspace.working_set import rows_that_fit

CHOOSERS: dict[str, Callable[[Pool, int], Rows]] = {
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
        How to prove the gap, one of `dual_bounds.HOW`.
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
    """Chosen vectors, and their basis and functions of them where these are known."""

    rows: Rows
    threshold: float = SPREAD_THRESHOLD  # of their basis, as a share of k(x, x)
    basis: Basis | None = None
    functions: KernelExpansion | None = None  # a warm start for the weights


@dataclass(frozen=True)
class BasisTask:
    """Problems over the rows of a source, and the vectors wanted for them."""

    problems: list[Problem]
    source: Source
    kernel: AnyKernel
    wanted: Wanted
    settings: Settings
    progress: Progress
    rng: np.random.Generator

    @cached_property
    def present(self) -> Array:
        """The numbers of the rows of positive weight, on the host."""
        return weighted_rows_on_host(self.problems, self.source)

    @property
    def size(self) -> int:
        """How many vectors are wanted at most."""
        return self.wanted.size(len(self.present))


def wanted_vectors(task: BasisTask) -> Iterator[Vectors]:
    """Yield the wanted vectors, after fewer that may do."""
    kernel = task.kernel
    # The span of all rows holds the optimum: there is nothing to move.
    is_pursued = task.wanted.basis == "pursuit" and task.size < len(task.present)
    if not is_pursued or not can_move(kernel) or _are_solved_by_zero(task):
        yield _fixed_vectors(task)
        return
    assert isinstance(kernel, Kernel)
    case = task.problems, task.source, kernel, task.size, task.progress, task.rng
    for found in grow(PursuitTask(*case, task.present, task.settings.tol)):
        yield Vectors(free_vectors(found.vectors), functions=found.functions)


def choose(task: BasisTask) -> Basis:
    """Return the wanted basis, of vectors that do not move."""
    return basis_of_vectors(_fixed_vectors(task), task.kernel, task.source)


def _fixed_vectors(task: BasisTask) -> Vectors:
    """Return the wanted vectors, where they do not move."""
    source, kernel, size, rng = task.source, task.kernel, task.size, task.rng
    check_definite(kernel)
    # With fewer vectors than asked for, but with time for their weights.
    deadline = Deadline.of(task.progress, coreset.CHOICE_SHARE)
    pool = Pool(source, kernel, task.present, rng, deadline)
    name, threshold = task.wanted.basis, SPREAD_THRESHOLD
    if isinstance(name, Rows):
        rows = name
    elif _are_solved_by_zero(task):
        rows = uniform(pool, 1)
    elif name in ("pursuit", "train") and size >= len(task.present):
        rows = source.take(np.sort(task.present))
    elif name in ("pursuit", "train"):
        found = choose_basis(task.problems, source, kernel, size, task.progress, rng)
        basis = _checked(found, kernel)
        return Vectors(basis.rows, basis=basis)
    elif name == "coreset":
        how = task.settings, task.progress
        rows = coreset.core_rows(task.problems, source, kernel, size, *how)
    elif name == "cholesky" and is_streamed(task.problems, source, size):
        # Graded pivots have accurate digits there, and the bound needs them.
        threshold = RANK_THRESHOLD
        rows = incomplete_cholesky(pool, size, threshold)
    else:
        rows = CHOOSERS[name](pool, size)
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
    """Whether all rows have no space for numbers of their own, and the basis is small.

    Then only rows near the margin are worked on (``low_rank.py``).
    """
    if not source.draws_cheaply:
        return True
    return source.n_rows > rows_that_fit(problems, source) and size <= MAX_RANK


def check_definite(kernel: AnyKernel) -> None:
    """Raise an error for a kernel that is known not to be positive definite."""
    if kernel.name == "sigmoid":
        raise no_space(kernel)


def _are_solved_by_zero(task: BasisTask) -> bool:
    """Whether no row pulls at f = 0: constant targets, or all within the tube."""
    problems = task.problems
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

    return bool(task.source.reduce(pull, max) <= 0)


def _checked(basis: Basis | None, kernel: AnyKernel) -> Basis:
    if basis is None:
        raise no_space(kernel)
    return basis


def no_space(kernel: AnyKernel) -> KernelError:
    """Return the error for a kernel in which the vectors span no space."""
    return KernelError(
        f"the {kernel.name} kernel is not positive definite on the basis vectors, or "
        "zero on all of them, so that they span no space. Use another kernel (for "
        "poly: coef0 >= 0), or method='auto', which needs no basis."
    )
