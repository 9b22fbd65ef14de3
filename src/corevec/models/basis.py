"""Bases: a few rows in whose span a kernel machine is solved.

With the Cholesky factor L of their kernel matrix, the features ``phi(x) = L^-1 k(b,
x)`` are orthonormal coordinates of the projection on their span. `probe` chooses a
basis by a pivoted Cholesky factor of a few thousand rows, and returns None where the
kernel is not numerically of low rank on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.backend.arrays import cast, dtype_of, to_device_of
from corevec.data.sources import Source, Workers, stacked
from corevec.kernels import AnyKernel, Points, Rows, finite, rounding_share
from corevec.models.expansion import KernelExpansion

PROBE_ROWS = 4000  # or a quarter of the rows, where that is less
# Pivots below this share of the largest k(x, x) are noise: the square root of it is
# what delta_i can reach, and sum(beta) delta must stay small against |u|.
RANK_THRESHOLD = 1e-12
# Of a basis that is not the whole space: below, features are mostly rounding.
SPREAD_THRESHOLD = 1e-9
# Of a precomputed matrix in float32: its entries are rounded by 6e-8 of k(x, x), which
# sums over a few hundred pivots raise.
FLOAT32_NOISE = 1e-5
# Beyond this rank a pass costs more than the core set's would.
MAX_RANK = 512


# The row number of a vector that is no training row.
NEW = -1


def rows_at(rows: Rows, positions: Any) -> Rows:
    """Return the rows at these positions, without their targets and weights."""
    return Rows(rows.values[positions], rows.index[positions])


def free_vectors(values: Any) -> Rows:
    """Return vectors that are no training rows, numbered `NEW`."""
    return Rows(values, np.full(values.shape[0], NEW))


@dataclass(frozen=True)
class Basis:
    """Basis rows with the Cholesky factor of their kernel matrix."""

    kernel: AnyKernel
    rows: Rows
    points: Points
    factor: Array  # lower triangle, pivot order
    residuals: Array  # largest k_ii - |P phi_i|^2 of a probed row, per leading part

    def __reduce__(self) -> Any:
        # What follows from the rest is not pickled.
        return _again, (self.kernel, self.rows, self.factor, self.residuals)

    @property
    def rounding(self) -> float:
        """Bound on the rounding of a kernel value, relative to the largest k(x, x)."""
        return self.kernel.rounding(self.rows.values.shape[1], self.rows.values.dtype)

    def leading(self, k: int) -> Basis:
        """Return the basis of the first `k` pivots."""
        rows = rows_at(self.rows, slice(k))
        points = self.kernel.prepare_basis(rows)
        return Basis(self.kernel, rows, points, self.factor[:k, :k], self.residuals[:k])

    def extended(self, rows: Rows) -> Basis:
        """Return the basis with pivots among `rows` added.

        With features Phi of the rows, the Cholesky factor of ``k(rows) - Phi Phi'``
        continues this one.
        """
        points = self.kernel.prepare_basis(rows)
        phi = self.features(self.kernel.block(points, self.points))
        rest = self.kernel.block(points, points) - phi @ phi.T
        scale = float(np.abs(self.kernel.diagonal(rows)).max())
        order, corner = _pivoted(rest, RANK_THRESHOLD * scale)
        k, added = len(self), corner.shape[1]
        pivots = order[:added]
        factor = np.zeros((k + added, k + added))
        factor[:k, :k], factor[k:, :k] = self.factor, phi[pivots]
        factor[k:, k:] = corner[:added]
        chosen = Rows(
            stacked([self.rows.values, rows.values[pivots]]),
            np.concatenate([self.rows.index, rows.index[pivots]]),
        )
        residuals = np.concatenate([self.residuals, np.zeros(added)])
        points = self.kernel.prepare_basis(chosen)
        return Basis(self.kernel, chosen, points, factor, residuals)

    @cached_property
    def inverse_factor(self) -> Array:
        """``L^-1``."""
        eye = np.eye(len(self))
        return np.asarray(
            linalg.solve_triangular(self.factor, eye, lower=True, check_finite=False)
        )

    def __len__(self) -> int:
        return len(self.rows)

    def features(self, block: Array) -> Array:
        """Return ``L^-1 k`` for kernel values `block` (rows, k), as (rows, k)."""
        # A product with the inverse, not a triangular solve: 2x faster, and the
        # pivots are graded, so the small features keep their digits (a test compares).
        inverse = to_device_of(self.inverse_factor, block)
        return block @ cast(inverse, dtype_of(block)).T

    def coefficients(self, weights: Array) -> Array:
        """Return c with ``sum_j c_j k(b_j, x) = weights . phi(x)``."""
        return np.asarray(
            linalg.solve_triangular(
                self.factor, weights, lower=True, trans="T", check_finite=False
            )
        )

    def functions(self, weights: list[Array], has_bias: list[bool]) -> KernelExpansion:
        """Return ``f_t = weights[t] . (phi, 1)`` as coefficients of the basis rows.

        What follows a vector's weights and bias is ignored.
        """
        k = len(self)
        coef = self.coefficients(np.stack([v[:k] for v in weights], axis=1))
        pairs = zip(weights, has_bias, strict=True)
        bias = [float(v[k]) if biased else 0.0 for v, biased in pairs]
        return KernelExpansion(self.kernel, self.rows, coef, np.array(bias))


def _again(kernel: AnyKernel, rows: Rows, factor: Array, residuals: Array) -> Basis:
    return Basis(kernel, rows, kernel.prepare_basis(rows), factor, residuals)


def probe(source: Source, kernel: AnyKernel, rng: np.random.Generator) -> Basis | None:
    """Return a basis for the kernel on these rows, or None if its rank is high.

    Pivoted Cholesky of `PROBE_ROWS` random rows; cost PROBE_ROWS * rank^2. Gives up as
    soon as the decay of the pivots, continued, would not reach the threshold within
    `MAX_RANK`. Up to `MAX_RANK` rows every rank is low.
    """
    size = min(PROBE_ROWS, max(PROBE_ROWS // 4, source.n_rows // 4), source.n_rows)
    rows = source.take(source.draw(rng, size))
    if source.n_rows <= MAX_RANK:
        return basis_from(rows, kernel)
    return basis_from(rows, kernel, min(MAX_RANK, len(rows) // 4))


def basis_from(rows: Rows, kernel: AnyKernel, most: int | None = None) -> Basis | None:
    """Return the basis of pivots of `rows`, or None beyond `most` of them.

    Pivoted Cholesky, one column of kernel values at a time. Without `most`, as many
    pivots as the threshold leaves.
    """
    n = len(rows)
    points = kernel.prepare(rows)
    residual = kernel.diagonal(rows).copy()
    if not np.isfinite(residual).all() or residual.max() <= 0:
        return None
    noise = rounding_share(kernel, rows.values)
    floor = max(RANK_THRESHOLD, noise) * residual.max()
    limit = n if most is None else most
    L = np.zeros((limit, n))  # transposed: a new row is contiguous
    pivots: list[int] = []
    left: list[float] = []
    while len(pivots) <= limit:
        j, pivot = len(pivots), int(np.argmax(residual))
        left.append(float(residual[pivot]))
        if residual[pivot] <= floor:
            break
        if residual.min() < -max(1e-8, noise) * left[0]:
            return None  # not positive definite: no projection, no bound
        if j == limit or (most and _hopeless(residual, floor, j, most)):
            return None
        one = rows_at(rows, slice(pivot, pivot + 1))
        # The long side last: the loops over it use the vector unit.
        column = kernel.block(kernel.prepare_basis(one), points)[0]
        column -= L[:j, pivot] @ L[:j]
        L[j] = column / np.sqrt(residual[pivot])
        residual -= L[j] ** 2
        residual[pivot] = 0.0
        pivots.append(pivot)
    chosen = rows_at(rows, pivots)
    factor = np.tril(L[: len(pivots), pivots].T)
    points = kernel.prepare_basis(chosen)
    return Basis(kernel, chosen, points, factor, np.array(left))


def basis_of(
    source: Source,
    kernel: AnyKernel,
    numbers: Array,
    threshold: float = SPREAD_THRESHOLD,
) -> tuple[Basis | None, bool]:
    """Return the rows with these numbers, those that add something to the others.

    And whether the kernel is positive definite on them; see `basis_of_rows`.
    """
    rows = source.take(np.sort(numbers))
    return basis_of_rows(rows, kernel, source.workers, threshold)


def basis_of_rows(
    rows: Rows,
    kernel: AnyKernel,
    workers: Workers,
    threshold: float = SPREAD_THRESHOLD,
) -> tuple[Basis | None, bool]:
    """Return those of `rows`, training rows or not, that add something to the others.

    Pivoted Cholesky of their kernel matrix, down to pivots of
    `threshold` times the largest k(x, x); and whether the kernel is positive definite
    on them. No basis where every k(x, x) is zero.
    """
    found = pivots_of(rows, kernel, workers, threshold)
    return found.basis, found.is_definite


@dataclass(frozen=True)
class Pivots:
    """A basis among some rows, and the features of the others.

    Attributes
    ----------
    basis : Basis or None
        The rows that add something to the others.
    is_definite : bool
        Whether the kernel is positive definite on all rows.
    order : ndarray
        Where all rows were: those of the basis, then the others.
    features : ndarray of shape (len(order) - len(basis), len(basis))
        Of the others.
    """

    basis: Basis | None
    is_definite: bool
    order: Array
    features: Array


def pivots_of(
    rows: Rows, kernel: AnyKernel, workers: Workers, threshold: float
) -> Pivots:
    """Return the basis of `basis_of_rows`, and the features of the other rows."""
    points = kernel.prepare_basis(rows)
    K = finite(kernel.block(points, points), kernel)
    noise = 1e-8
    if kernel.name == "precomputed" and rows.values.dtype == np.float32:
        noise, threshold = FLOAT32_NOISE, max(threshold, FLOAT32_NOISE)
    own = K.diagonal().copy()
    largest = float(own.max())
    if largest <= 0:
        nothing = np.empty((len(rows), 0))
        return Pivots(None, not own.any(), np.arange(len(rows)), nothing)
    with workers.blas():
        noise = rounding_share(kernel, rows.values)
        order, factor = _pivoted(K, max(threshold, noise) * largest)
    rank = factor.shape[1]
    left = own[order] - np.einsum("ij,ij->i", factor, factor)
    chosen = rows_at(rows, order[:rank])
    # residuals[j] is what j pivots leave.
    residuals = np.append(factor[:rank].diagonal() ** 2, threshold * largest)
    points, lower = kernel.prepare_basis(chosen), np.ascontiguousarray(factor[:rank])
    basis = Basis(kernel, chosen, points, lower, residuals)
    is_definite = bool(left.min() >= -max(1e-8, noise) * largest)
    return Pivots(basis, is_definite, order, factor[rank:])


def _pivoted(matrix: Array, floor: float) -> tuple[Array, Array]:
    """Return the rows in pivot order, and the factor's columns above `floor`.

    LAPACK's pstrf; `matrix` is overwritten.
    """
    factor, order, rank, _ = linalg.lapack.dpstrf(
        matrix, tol=floor, lower=1, overwrite_a=1
    )
    return order - 1, np.tril(factor)[:, :rank]


def _hopeless(residual: Array, floor: float, j: int, most: int) -> bool:
    """Whether the pivots, falling at their present rate, miss the threshold."""
    if j not in (32, 64, 128, 256):
        return False
    start = max(floor / RANK_THRESHOLD, 1e-300)
    fallen = np.log(residual.max() / start)
    return bool(fallen >= 0 or j * np.log(RANK_THRESHOLD) / fallen > 2 * most)
