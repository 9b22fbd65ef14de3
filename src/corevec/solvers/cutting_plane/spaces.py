"""The spaces in which cutting planes are run: what a weight vector is, and its values.

=========== ============================== ===============================
space       weights                        algorithm of the CPSP paper
=========== ============================== ===============================
Columns     one per column of the rows     1, linear
WholeSpace  one per row                    2, the full kernel dual
Span        whitened coordinates           1 in the span of a given basis
GrowingSpan the same, one more per vector  3, CPSP
=========== ============================== ===============================

The last two are in ``hinge_spans``.

The bias, where there is one, is the first weight: its feature is the constant 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corevec._runtime.types import EPS, Array
from corevec.certificates.hinge import (
    DualBound,
    HingeProblem,
    dual_at_best_scale,
)
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Rows, finite
from corevec.models.basis import NEW, Basis
from corevec.models.expansion import KernelExpansion
from corevec.solvers.cutting_plane.master_qp import Cuts


class Coordinates:
    """Weights in an orthonormal frame, the bias first where there is one."""

    basis: Basis | None = None

    def __init__(self, source: Source, has_bias: bool):
        self.source = source
        self.lead = int(has_bias)
        self.numbers = source.numbers

    @property
    def can_grow(self) -> bool:
        """Whether there is room for one more basis vector."""
        return False

    def extend(self, cuts: Cuts, theta: Array) -> None:
        """Add basis vectors; only a span that grows has any to add."""

    def inner(self, left: Array, right: Array) -> Any:
        """Return inner products of weight vectors."""
        return left @ right

    def largest_distance(
        self, problem: HingeProblem, cuts: Cuts, affordable: float
    ) -> float:
        """Return Theorem 2's delta: 0 where the space holds every cut."""
        return 0.0

    def positions(self, index: Array) -> Array:
        """Return where rows with these numbers stand in the source."""
        return np.searchsorted(self.numbers, index)


class Columns(Coordinates):
    """The linear kernel: a weight per column, never a dense copy of sparse rows."""

    def __init__(self, source: Source, kernel: AnyKernel, has_bias: bool):
        super().__init__(source, has_bias)
        self.kernel = kernel

    @property
    def width(self) -> int:
        """One weight per column, and the bias."""
        return self.lead + self.source.n_features

    @property
    def size(self) -> int:
        """The one basis row: w itself."""
        return 1

    def values(self, weights: Array) -> Array:
        """Return ``Xw + b0``."""
        w, bias = weights[self.lead :], float(weights[: self.lead].sum())

        def score(rows: Rows) -> Array:
            return np.asarray(rows.values @ w, dtype=np.float64)

        return np.asarray(self.source.map(score) + bias)

    def direction(self, theta: Array) -> Array:
        """Return ``X'theta``, after ``sum(theta)``."""

        def score(rows: Rows) -> Array:
            at = self.positions(rows.index)
            return np.asarray(rows.values.T @ theta[at], dtype=np.float64)

        pulled = self.source.reduce(score, np.add)
        return np.concatenate([np.full(self.lead, theta.sum()), pulled])

    def expansion(self, weights: Array) -> tuple[KernelExpansion, float]:
        """Return f as the expansion of one row, w, and |w|^2."""
        w = weights[self.lead :]
        rows = Rows(np.ascontiguousarray(w[None]), np.array([NEW]))
        bias = np.array([float(weights[: self.lead].sum())])
        one = KernelExpansion(self.kernel, rows, np.ones((1, 1)), bias)
        return one, float(w @ w)

    def dual(self, problem: HingeProblem, beta: Array) -> DualBound:
        """Return the exact dual value: u is a vector of columns, one pass."""
        beta = np.clip(beta, 0.0, problem.omega)
        inside = beta > 0
        if not inside.any():
            return DualBound(0.0, "exact")
        u = self.direction(beta * problem.sign)
        total = float(beta.sum())
        curve = float(u @ u) * (1 + 8 * EPS * np.sqrt(len(beta)))
        most = float((problem.omega[inside] / beta[inside]).min())
        value, scale = dual_at_best_scale(total, curve, most)
        return DualBound(value, "exact", 1.0, scale)


class WholeSpace(Coordinates):
    """All of the kernel's space, by the kernel matrix of all rows (few rows)."""

    def __init__(self, source: Source, kernel: AnyKernel, has_bias: bool):
        super().__init__(source, has_bias)
        self.kernel = kernel
        self.rows = source.take(self.numbers)
        points = kernel.prepare_basis(self.rows)
        self.matrix = finite(kernel.block(points, points), kernel) + self.lead

    @property
    def width(self) -> int:
        """One coefficient per row."""
        return len(self.numbers)

    size = width

    def values(self, weights: Array) -> Array:
        """Return f of all rows (eq. 3)."""
        return np.asarray(self.matrix @ weights)

    def direction(self, theta: Array) -> Array:
        """Return the coefficients as they are."""
        return theta

    def inner(self, left: Array, right: Array) -> Any:
        """Return inner products by sums of kernel values (eq. 4)."""
        return left @ (self.matrix @ right)

    def expansion(self, weights: Array) -> tuple[KernelExpansion, float]:
        """Return f as an expansion in the rows with a coefficient, and |w|^2."""
        kept = np.flatnonzero(weights)
        rows = Rows(self.rows.values[kept], self.rows.index[kept])
        bias = self.lead * float(weights.sum())
        function = KernelExpansion(
            self.kernel, rows, weights[kept][:, None], np.array([bias])
        )
        whole = float(weights @ (self.matrix @ weights))
        return function, max(whole - bias**2, 0.0)
