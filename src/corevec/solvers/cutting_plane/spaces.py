"""The span of a basis as the space of cutting planes: given, or growing (CPSP).

A weight vector holds whitened coordinates: the basis is orthonormal in them, so that
inner products are those of the coordinates. The bias, where there is one, is the first
weight; its feature is the constant 1. `Span` is the space of Algorithm 1 of the CPSP
paper for a basis that is given, `GrowingSpan` that of Algorithm 3.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.backend.arrays import cast
from corevec.certificates.dual_bounds import (
    BoundRequest,
    DualBound,
    distances_to_span,
)
from corevec.certificates.hinge import HingeProblem, dual_value
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Rows, finite
from corevec.models.basis import SPREAD_THRESHOLD, Basis
from corevec.models.expansion import KernelExpansion
from corevec.models.norms import norms_sq
from corevec.solvers.basis.preimages import Residual, best_training_row, preimage
from corevec.solvers.cutting_plane.master_qp import Cuts
from corevec.solvers.numeric.deadline import Deadline

# After so many new vectors in a row that add nothing to the span it stops growing.
MAX_FAILURES = 5
# Features may take this share of the time that is left, as this many rows tell.
FEATURES_SHARE, PROBED_ROWS = 0.4, 256
# A pre-image is searched until a step gains less than this share: the next cut comes
# with another residual. MNIST 01234-vs-rest, 20 vectors: 8 s, and over 40 s with 1e-7
# and rows prepared anew for each step.
MIN_PREIMAGE_GAIN = 1e-3


class Span:
    """Whitened coordinates of a basis, cached for all rows where they fit.

    Parameters
    ----------
    source : Source
        Rows in memory.
    basis : Basis
        The basis.
    has_bias : bool
        Whether the first weight is the bias.
    features : ndarray of shape (n_rows, n_basis), optional
        The coordinates of all rows; recomputed block by block without it.
    """

    def __init__(
        self,
        source: Source,
        basis: Basis,
        has_bias: bool,
        features: Array | None = None,
    ):
        self.source, self.basis, self.features = source, basis, features
        self.lead = int(has_bias)
        self.numbers = source.numbers

    @property
    def width(self) -> int:
        """One weight per basis vector, and the bias."""
        return self.lead + self.size

    @property
    def size(self) -> int:
        """The number of basis vectors."""
        return len(self.basis)

    @property
    def can_grow(self) -> bool:
        """Whether more basis vectors may be added."""
        return False

    def extend(self, cuts: Cuts, theta: Array) -> None:
        """Add basis vectors; a given basis has none to add."""

    def inner(self, left: Array, right: Array) -> Any:
        """Return inner products of weight vectors."""
        return left @ right

    def values(self, weights: Array) -> Array:
        """Return f of all rows."""
        bias, w = float(weights[: self.lead].sum()), weights[self.lead :]
        if len(w) == 0:
            return np.full(self.source.n_rows, bias)
        if self.features is not None:
            narrow = w.astype(self.features.dtype)
            own = self.source.workers.product(self.features, narrow)
            return np.asarray(own, dtype=np.float64) + bias
        function = self.expansion(weights)[0]
        return np.ascontiguousarray(function.values(self.source)[:, 0])

    def direction(self, theta: Array) -> Array:
        """Return the coordinates of the projection of ``sum_i theta_i phi(x_i)``."""
        if self.features is not None:
            narrow = theta.astype(self.features.dtype)
            pulled = self.source.workers.transposed_product(self.features, narrow)
        elif self.size:
            pulled = self._whitened(self._pulled(theta))
        else:
            pulled = np.empty(0)
        own = np.asarray(pulled, dtype=np.float64)
        return np.concatenate([np.full(self.lead, theta.sum()), own])

    def _pulled(self, theta: Array) -> Array:
        """Return ``sum_i theta_i k(b_j, x_i)`` for each basis vector."""
        kernel, points = self.basis.kernel, self.basis.points

        def score(rows: Rows) -> Array:
            at = np.searchsorted(self.numbers, rows.index)
            inside = np.flatnonzero(theta[at])
            few = Rows(rows.values[inside], rows.index[inside])
            coef = theta[at][inside, None]
            return kernel.times(points, kernel.prepare(few), coef)[:, 0]

        return np.asarray(self.source.reduce(score, np.add))

    def _whitened(self, pulled: Array) -> Array:
        return np.asarray(
            linalg.solve_triangular(
                self.basis.factor, pulled, lower=True, check_finite=False
            )
        )

    def expansion(self, weights: Array) -> tuple[KernelExpansion, float]:
        """Return f as an expansion in the basis, and |w|^2."""
        w = weights[self.lead :]
        basis = self.basis.leading(len(w)) if len(w) < self.size else self.basis
        bias = np.array([float(weights[: self.lead].sum())])
        coef = basis.coefficients(w)[:, None] if len(w) else np.zeros((0, 1))
        return KernelExpansion(basis.kernel, basis.rows, coef, bias), float(w @ w)

    def dual_bound(
        self, problem: HingeProblem, beta: Array, request: BoundRequest
    ) -> DualBound:
        """Return what multipliers prove about the full problem."""
        basis = self.basis if self.size else None
        kernel = self.basis.kernel
        return dual_value(problem, beta, self.source, kernel, basis, request)

    def largest_distance(
        self, problem: HingeProblem, cuts: Cuts, affordable: float
    ) -> float:
        """Return Theorem 2's delta, the largest ``|Psi_j - Psi_hat_j|`` of a cut.

        Exact where its rows^2/2 kernel values, times a tenth per cut, are affordable;
        else the upper bound ``sum_i share_i |(I - P) phi_i|``, one pass.
        """
        any_held = np.zeros(self.source.n_rows, dtype=bool)
        for j in range(len(cuts)):
            any_held |= cuts.held(j)
        inside = np.flatnonzero(any_held)
        share = (problem.sign * problem.omega / problem.C)[inside]
        fits = 8 * len(inside) * len(cuts) <= self.source.memory_budget
        work = float(len(inside)) ** 2 / 2 * (1 + len(cuts) / 10)
        held = (cuts.held(j)[inside] for j in range(len(cuts)))
        if fits and work <= affordable:
            theta = np.stack([one * share for one in held], axis=1)
            return float(np.sqrt(self._missed_sq(inside, theta, cuts).max()))
        missed = np.abs(share) * distances_to_span(
            self.source, self.basis, self.numbers[inside]
        )
        return max(float(missed[one].sum()) for one in held)

    def _missed_sq(self, inside: Array, theta: Array, cuts: Cuts) -> Array:
        kernel, numbers = self.basis.kernel, self.numbers[inside]
        whole, _ = norms_sq(self.source, kernel, numbers, theta)
        within = cuts.directions[:, self.lead :]
        left = whole - np.einsum("jk,jk->j", within, within)
        return np.asarray(np.maximum(left, 0.0))


def part_in_time(source: Source, basis: Basis, progress: Progress) -> Basis:
    """Return the leading vectors whose features of all rows fit the time limit.

    The features of some rows are timed; they cost a product with the square of the
    vectors' number.
    """
    deadline = Deadline.of(progress, FEATURES_SHARE)
    if not deadline.is_set or not source.draws_cheaply:
        return basis
    rows, kernel, taken = source.block(0, PROBED_ROWS), basis.kernel, []
    for _ in range(2):  # the first may compile the loops
        began = time.perf_counter()
        basis.features(kernel.block(kernel.prepare(rows), basis.points))
        taken.append(time.perf_counter() - began)
    needed = min(taken) * source.n_rows / (len(rows) * source.workers.n_threads)
    if needed <= deadline.left:
        return basis
    return basis.leading(max(1, int(len(basis) * np.sqrt(deadline.left / needed))))


def span_of(source: Source, basis: Basis, has_bias: bool) -> Span:
    """Return the span of `basis`, with its features cached where they fit."""
    dtype, kernel = cached_dtype(source, len(basis)), basis.kernel
    if dtype is None:
        return Span(source, basis, has_bias)

    def score(rows: Rows) -> Array:
        block = kernel.block(kernel.prepare(rows), basis.points)
        # Computed in float64, as pivots amplify rounding; cached in what fits.
        return cast(basis.features(finite(block, kernel)), dtype)

    return Span(source, basis, has_bias, source.map(score))


@dataclass(frozen=True)
class Growth:
    """How a span grows with the cuts.

    Attributes
    ----------
    n_basis : int
        The largest number of basis vectors, the paper's k_max.
    from_training_rows : bool
        CPSP(tr): new vectors are the best of 59 random rows, not pre-images.
    """

    n_basis: int
    from_training_rows: bool = False


class GrowingSpan(Span):
    """A span that grows by one vector at a time (Algorithm 3, lines 15-18)."""

    def __init__(
        self,
        source: Source,
        kernel: AnyKernel,
        problem: HingeProblem,
        growth: Growth,
        rng: np.random.Generator,
    ):
        super().__init__(source, _no_basis(source, kernel), problem.has_bias)
        self.share = problem.sign * problem.omega / problem.C
        self.kernel, self.growth, self.rng = kernel, growth, rng
        self.failures = 0
        dtype = cached_dtype(source, growth.n_basis)
        self._buffer: Array | None = None
        if dtype is not None:
            # By columns: a new feature is one contiguous column.
            shape = source.n_rows, growth.n_basis
            self._buffer = np.empty(shape, dtype=dtype, order="F")
            self.features = self._buffer[:, :0]

    @property
    def can_grow(self) -> bool:
        """Whether one more vector is allowed, and the last ones added something."""
        return self.size < self.growth.n_basis and self.failures < MAX_FAILURES

    def extend(self, cuts: Cuts, theta: Array) -> None:
        """Add a vector for ``Psi = sum_i theta_i phi(x_i)``; widen all cuts."""
        gamma = self.direction(theta)[self.lead :]
        has_grown = self._add(self._vector_for(theta, gamma), cuts)
        self.failures = 0 if has_grown else self.failures + 1

    def _vector_for(self, theta: Array, gamma: Array) -> Rows:
        beta = self.basis.coefficients(gamma) if len(gamma) else gamma
        residual = Residual(self.source, self.kernel, theta, self.basis.rows, beta)
        if self.growth.from_training_rows:
            return best_training_row(residual, self.rng)
        return preimage(residual, self.rng, gain=MIN_PREIMAGE_GAIN)

    def _add(self, vector: Rows, cuts: Cuts) -> bool:
        """Add one vector: a row of the factor, a feature, a coordinate of each cut.

        Returns whether the vector added anything.
        """
        kernel, k = self.kernel, self.size
        point = kernel.prepare_basis(vector)
        own = float(kernel.diagonal(vector)[0])
        against = kernel.block(point, self.basis.points)[0] if k else np.empty(0)
        row = self._whitened(against) if k else against
        pivot_sq = own - float(row @ row)
        scale = float((self.basis.factor**2).sum(axis=1).max(initial=0.0))
        if not pivot_sq > SPREAD_THRESHOLD * max(own, scale):
            return False
        pivot = np.sqrt(pivot_sq)
        column = self._column(point)
        self._extend_basis(vector, row, pivot)
        self._extend_features(column, row, pivot)
        self._widen(cuts, column, row, pivot)
        return True

    def _column(self, point: Any) -> Array:
        """Return the kernel values of all rows with the new vector."""
        kernel = self.kernel

        def score(rows: Rows) -> Array:
            return kernel.times(kernel.prepare(rows), point, np.ones((1, 1)))[:, 0]

        return finite(self.source.map(score), kernel)

    def _extend_basis(self, vector: Rows, row: Array, pivot: float) -> None:
        k = self.size
        factor = np.zeros((k + 1, k + 1))
        factor[:k, :k], factor[k, :k], factor[k, k] = self.basis.factor, row, pivot
        rows = vector
        if k:
            rows = Rows(
                _stack(self.basis.rows.values, vector.values),
                np.concatenate([self.basis.rows.index, vector.index]),
            )
        points = self.kernel.prepare_basis(rows)
        residuals = np.append(self.basis.residuals, pivot**2)
        self.basis = Basis(self.kernel, rows, points, factor, residuals)

    def _extend_features(self, column: Array, row: Array, pivot: float) -> None:
        """Cache the feature of the new vector for all rows, where features are."""
        if self._buffer is None:
            return
        new, k = column, len(row)
        if k:
            narrow = row.astype(self._buffer.dtype)
            new = column - self.source.workers.product(self._buffer[:, :k], narrow)
        self._buffer[:, k] = new / pivot
        self.features = self._buffer[:, : k + 1]

    def _widen(self, cuts: Cuts, column: Array, row: Array, pivot: float) -> None:
        """Give every cut its coordinate along the new vector."""
        weighted = self.share * column
        pulled = np.array([weighted[cuts.held(j)].sum() for j in range(len(cuts))])
        within = cuts.directions[:, self.lead :] @ row
        cuts.widen(((pulled - within) / pivot)[:, None])


def cached_dtype(source: Source, k: int) -> Any:
    """Return the precision in which n x k features fit half the budget, or None."""
    for dtype in (np.float64, np.float32):
        if source.n_rows * k * np.dtype(dtype).itemsize <= source.memory_budget / 2:
            return dtype
    return None


def _no_basis(source: Source, kernel: AnyKernel) -> Basis:
    rows = source.take(source.numbers[:0])
    points = kernel.prepare(rows)
    return Basis(kernel, rows, points, np.zeros((0, 0)), np.zeros(0))


def _stack(a: Any, b: Any) -> Any:
    """Return rows below other rows; a dense one makes the few basis vectors dense."""
    if sparse.issparse(a) and sparse.issparse(b):
        return sparse.vstack([a, b], format="csr")
    return np.concatenate([_dense(a), _dense(b)])


def _dense(values: Any) -> Array:
    return values.toarray() if sparse.issparse(values) else np.asarray(values)
