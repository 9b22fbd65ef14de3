"""RSVM: functions of all chosen vectors, penalised by their squared coefficients.

Lee and Mangasarian (2001) minimise over the coefficients c of ALL k chosen vectors,
also of those in the span of others: a weight that many vectors share costs less. Of
1,000 random rows of a checkerboard 111 are independent (to twelve digits). With the
kernel values k_r(x) of r independent vectors,

    k(b_j, x) = W_j . k_r(x),    W = k(b, b_r) k(b_r, b_r)^-1,

so that f depends on ``a = W'c`` alone, and of all c with the same a the shortest is
``c = W S^-1 a``, ``S = W'W``, of length ``|c|^2 = a' S^-1 a``. With ``S = U U'`` and
``a = U v`` that is ``|v|^2``: a machine over the r features ``U' k_r(x)``, solved like
any other. The r vectors are among the k, so that S is at least the identity, and well
conditioned (condition 200 on that checkerboard).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Rows, finite
from corevec.models.basis import (
    MAX_RANK,
    RANK_THRESHOLD,
    Basis,
    Pivots,
    pivots_of,
    rows_at,
)
from corevec.models.expansion import KernelExpansion
from corevec.solvers.numeric.partial_cholesky import PartialFactor

# From this share of independent vectors on, all k kernel values are the features: a
# system of (1/0.9)^2 of the size costs less than the product with U of every row.
INDEPENDENT_SHARE = 0.9
# Vectors whose features tell their mean square.
FEATURE_SAMPLE = 256


@dataclass(frozen=True)
class Coefficients:
    """Coefficients of all chosen vectors, by those of the independent ones.

    Attributes
    ----------
    rows : Rows
        All chosen vectors: the independent ones, then the others.
    basis : Basis
        The independent ones.
    solved_in : Basis
        Those with features ``U' k_r(x)``; or all of them, with k(x).
    others : ndarray
        W of the others, none where `solved_in` has them.
    """

    rows: Rows
    basis: Basis
    solved_in: Basis
    others: Array

    def feature_sq(self) -> float:
        """Return the mean square of the features, over a sample of the vectors."""
        kernel, step = self.basis.kernel, -(-len(self.rows) // FEATURE_SAMPLE)
        few = kernel.prepare(rows_at(self.rows, slice(None, None, step)))
        features = self.solved_in.features(kernel.block(few, self.solved_in.points))
        return float((features**2).sum()) / len(features)

    def of_all(self, functions: KernelExpansion) -> KernelExpansion:
        """Return functions of `solved_in` with the shortest c of all vectors."""
        factor = self.solved_in.factor  # the inverse of U'
        first = factor @ (factor.T @ functions.coef)
        coef = np.concatenate([first, self.others @ first])
        return replace(functions, basis=self.rows, coef=coef)


@dataclass(frozen=True)
class KernelValues(Basis):
    """Vectors whose kernel values are the features; the factor is the identity."""

    def features(self, block: Array) -> Array:
        """Return the kernel values."""
        return block

    def coefficients(self, weights: Array) -> Array:
        """Return the weights."""
        return weights


def coefficients_of(
    rows: Rows, kernel: AnyKernel, source: Source
) -> Coefficients | None:
    """Return the coefficients of these vectors; None if the kernel is not definite."""
    if len(rows) == 0:
        return None
    found = _within_budget(rows, kernel, source)
    if found is None:
        found = pivots_of(rows, kernel, source.workers, RANK_THRESHOLD)
    if found.basis is None or not found.is_definite:
        return None
    basis, ordered = found.basis, rows_at(rows, found.order)
    if len(basis) >= INDEPENDENT_SHARE * len(rows):
        eye, points = np.eye(len(rows)), kernel.prepare_basis(ordered)
        every = KernelValues(kernel, ordered, points, eye, np.ones(len(rows) + 1))
        return Coefficients(ordered, basis, every, np.empty((0, len(rows))))
    others = linalg.solve_triangular(
        basis.factor, found.features.T, lower=True, trans="T", check_finite=False
    ).T
    with source.workers.blas():
        factor = _factor(np.eye(len(basis)) + others.T @ others)
    return Coefficients(ordered, basis, replace(basis, factor=factor), others)


def _factor(S: Array) -> Array:
    """Return the inverse of U', ``S = U U'``: a lower triangle, as a basis has.

    Cholesky from the last row up makes U an upper one.
    """
    lower = linalg.cholesky(S[::-1, ::-1], lower=True, check_finite=False)
    upper = lower[::-1, ::-1]
    inverse = linalg.solve_triangular(upper, np.eye(len(S)), check_finite=False)
    return np.ascontiguousarray(inverse.T)


def _within_budget(rows: Rows, kernel: AnyKernel, source: Source) -> Pivots | None:
    """Return the pivots of vectors whose kernel matrix takes more than the budget.

    One column of kernel values at a time. None where the matrix and its factor fit
    after all; and where more than `MAX_RANK` columns are needed, or than half of the
    budget holds: then LAPACK is faster.
    """
    k = len(rows)
    if 16 * k**2 <= source.memory_budget:
        return None
    points = kernel.prepare(rows)

    def columns(positions: Array) -> Array:
        few = kernel.prepare_basis(rows_at(rows, positions))
        return finite(kernel.block(few, points), kernel).T

    most = max(1, min(k, MAX_RANK, int(source.memory_budget / 2 / (8 * k))))
    own = finite(kernel.diagonal(rows), kernel)
    factor = PartialFactor(columns, own, most, RANK_THRESHOLD)
    while factor.can_grow:
        factor.add_largest()
    if factor.left.any() or len(factor.chosen) == 0:
        return None
    return _pivots(factor, rows, own, kernel)


def _pivots(factor: PartialFactor, rows: Rows, own: Array, kernel: AnyKernel) -> Pivots:
    at = factor.chosen
    rest = np.setdiff1d(np.arange(len(rows)), at)
    chosen, lower = rows_at(rows, at), np.tril(factor.features(at).T)
    residuals = np.append(lower.diagonal() ** 2, factor.floor)
    basis = Basis(kernel, chosen, kernel.prepare_basis(chosen), lower, residuals)
    features = factor.features(rest).T
    left = own[rest] - np.einsum("ij,ij->i", features, features)
    is_definite = bool(left.min(initial=0.0) >= -1e-8 * own.max())
    return Pivots(basis, is_definite, np.concatenate([at, rest]), features)
