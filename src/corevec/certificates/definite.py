"""Whether a kernel is positive definite on the rows of a problem.

Where it is not, a function over other rows may have a lower objective than any dual
value says, also if the kernel is positive definite on the support rows of the solution:
nothing bounds the optimum from below (docs/mathematics.md, 2.5 Indefinite kernels).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from corevec._runtime.enumerations import StopReason
from corevec._runtime.types import Array
from corevec.backend.arrays import to_numpy
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Kernel, Rows, rounding_share
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Problem

# Rows that are looked at: all of them up to here, else half of the support and rows at
# even distances. A factor of 1000 rows takes 20 ms. More rows would find less negative
# eigenvalues; those that matter are of the order of n.
MOST_ROWS = 1000
# A least eigenvalue above minus this share of the largest entry is rounding.
NEGLIGIBLE_SHARE = 1e-9


def is_definite_by_name(kernel: AnyKernel) -> bool:
    """Whether a kernel is positive definite whatever the rows."""
    if not isinstance(kernel, Kernel):
        return False
    if kernel.name == "poly":
        return kernel.coef0 >= 0 and kernel.degree == int(kernel.degree)
    return kernel.name != "sigmoid"


def with_bounds_that_hold(
    certificates: Sequence[Certificate],
    problems: Sequence[Problem],
    source: Source,
    functions: KernelExpansion,
) -> list[Certificate]:
    """Return the certificates, without a lower bound where the kernel allows none.

    Nor where a dual value is above the primal one: eigenvalues that are small enough to
    count as rounding weigh as much as the multipliers.
    """
    kernel = functions.kernel
    claimed = [one.dual_bound != "none" for one in certificates]
    if is_definite_by_name(kernel) or not any(claimed):
        return list(certificates)
    rows = source.take(_rows_to_try(source.n_rows, functions.basis.index))
    K, share = _matrix(kernel, rows)
    found = list(certificates)
    for t, (one, problem) in enumerate(zip(certificates, problems, strict=True)):
        above = one.dual - one.primal
        holds = above <= share * abs(one.primal)
        holds = holds and _is_definite(K, rows, problem, kernel, share)
        if one.dual_bound != "none" and not holds:
            found[t] = without_lower_bound(one, kernel)
    return found


def without_lower_bound(certificate: Certificate, kernel: AnyKernel) -> Certificate:
    """Return what a certificate says where the kernel is not positive definite."""
    is_met = certificate.stopped_by in (StopReason.TOL, StopReason.BALL_EPSILON)
    return replace(
        certificate,
        problem=(
            f"{certificate.problem}; the {kernel.name} kernel is not positive definite "
            "on the rows, so that no lower bound is known"
        ),
        dual=-np.inf,
        relative_gap=np.inf,
        rounding=0.0,
        dual_bound="none",
        confidence=0.0,
        converged=False,
        stopped_by=(StopReason.STALL.value if is_met else certificate.stopped_by),
    )


def _matrix(kernel: AnyKernel, rows: Rows) -> tuple[Array, float]:
    """Return the kernel matrix of some rows, and the share of it that is rounding."""
    points = kernel.prepare_basis(rows)
    K = np.asarray(to_numpy(kernel.block(points, points)), dtype=np.float64)
    return K, max(NEGLIGIBLE_SHARE, rounding_share(kernel, rows.values))


def _rows_to_try(n_rows: int, support: Array) -> Array:
    """Return the numbers of the rows to look at."""
    if n_rows <= MOST_ROWS:
        return np.arange(n_rows)
    own = np.asarray(to_numpy(support), dtype=np.int64)
    own = own[(own >= 0) & (own < n_rows)]
    few = own[np.linspace(0, len(own) - 1, min(len(own), MOST_ROWS // 2)).astype(int)]
    even = np.linspace(0, n_rows - 1, MOST_ROWS // 2).astype(np.int64)
    return np.union1d(few, even)


def _is_definite(
    K: Array, rows: Rows, problem: Problem, kernel: AnyKernel, share: float
) -> bool:
    """Whether the kernel matrix of the rows of one problem is positive definite."""
    present = np.zeros(len(rows.index), dtype=bool)
    for side in problem.sides:
        present |= np.asarray(to_numpy(problem.terms(rows, kernel, side).omega)) > 0
    return is_definite_matrix(K[np.ix_(present, present)], share)


def definite_on_rows(kernel: AnyKernel, source: Source, numbers: Array) -> bool:
    """Whether the kernel matrix of these rows, or of some of many, is definite."""
    if is_definite_by_name(kernel):
        return True
    few = np.unique(np.linspace(0, len(numbers) - 1, MOST_ROWS).astype(np.int64))
    taken = source.take(numbers[few])
    return is_definite_matrix(*_matrix(kernel, Rows(taken.values, taken.index)))


def is_definite_matrix(K: Array, share: float) -> bool:
    """Whether a matrix plus `share` of its largest entry is positive definite."""
    if len(K) == 0:
        return True
    own = (K + K.T) / 2
    own[np.diag_indices_from(own)] += share * float(np.abs(own).max())
    try:
        cholesky(own, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True
