"""Upper bounds of ``|u|^2``, and with them lower bounds of the optimum, for any loss.

Feasible multipliers beta have a dual value, and the optimum is not below it. Of all its
parts only ``|u|^2`` is expensive, ``u = sum_i pull_i phi(x_i)`` with ``pull_i = y_i
beta_i``. With the projection P on the span of a basis and ``delta_i^2 = k_ii - |P
phi_i|^2`` there are three ways to bound it from above (docs/mathematics.md,
2 Certificates):

- "exact": the sum over all pairs of rows with a multiplier, block by block;
- "projection": ``|u|^2 <= |P u|^2 + (sum beta_i delta_i)^2``, one pass;
- "sample": with ``r = (I - P) u`` and rows drawn with probabilities ``beta_i delta_i /
  T``, ``T = sum beta_i delta_i``, the numbers ``X = T y_i <r, phi_i> / delta_i`` have
  the mean ``|r|^2`` and lie within ``T |r|``, so that by Hoeffding's inequality

      |r| <= (h + sqrt(h^2 + 4 max(mean X, 0))) / 2,   h = T sqrt(2 ln(1/p) / m)

  with probability 1 - p: m times as many kernel values as rows with a multiplier.

``squared_loss.py`` and ``hinge.py`` add the terms of their loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import namespace, row_sums_of_squares
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Rows
from corevec.models.basis import Basis
from corevec.models.norms import norms_sq, parts_of

HOW = ("auto", "exact", "projection", "sample")
# A sampled bound holds with this probability.
CONFIDENCE = 0.999
# "auto" sums exactly up to this many kernel values: adult's 8.5e7, of 123 columns, took
# 1 s on one busy core.
AFFORDABLE = 1e9


@dataclass(frozen=True)
class BoundRequest:
    """Which bound of the optimum is wanted, and what it may cost.

    Attributes
    ----------
    how : {"auto", "exact", "projection", "sample"}
        The way to bound ``|u|^2``; "auto" is exact where that is affordable.
    affordable : float
        Kernel values that "auto" may spend on the exact sum.
    tol : float
        Relative gap at which a squared loss needs no better bound.
    rng : Generator, optional
        Random numbers of a sampled bound.
    """

    how: str = "auto"
    affordable: float = AFFORDABLE
    tol: float = 0.0
    rng: np.random.Generator | None = None


@dataclass(frozen=True)
class DualBound:
    """A lower bound of the optimum: how it was obtained, and how surely it holds.

    `scale` is the factor of the multipliers that it belongs to.
    """

    value: float
    kind: str  # "exact", "projection", "sample", "none"
    confidence: float = 1.0
    scale: float = 1.0


def features_and_distances(rows: Rows, basis: Basis) -> tuple[Array, Array]:
    """Return the coordinates of each ``P phi_i``, and ``delta_i``, rounded up."""
    kernel = basis.kernel
    phi = basis.features(kernel.block(kernel.prepare(rows), basis.points))
    own = kernel.diagonal(rows)
    # Rounded up: |phi|^2 carries an error of a few eps k_ii per term.
    left = (own - row_sums_of_squares(phi)).clip(min=0.0)
    return phi, namespace(own).sqrt(left + basis.rounding * own)


@dataclass(frozen=True)
class Projection:
    """The coordinates of ``P u``, and the distance of each row from the span."""

    coordinates: Array
    delta: Array

    @property
    def norm_sq(self) -> float:
        """``|P u|^2``."""
        return float(self.coordinates @ self.coordinates)


@dataclass(frozen=True)
class Residual:
    """An upper bound of ``|(I - P) u|``; `noise` is the h of Hoeffding's inequality."""

    norm: float
    noise: float


@dataclass(frozen=True)
class Combination:
    """The vector ``u = sum_i pull_i phi(x_i)`` over some rows of a source."""

    source: Source
    rows: Array
    pull: Array

    def norm_sq(self, kernel: AnyKernel) -> tuple[float, float]:
        """Return ``|u|^2`` summed over all pairs of rows, and its rounding error."""
        total, diagonal = norms_sq(self.source, kernel, self.rows, self.pull[:, None])
        return float(total[0]), self.rounding(kernel, diagonal)

    def rounding(self, kernel: AnyKernel, diagonal: float) -> float:
        """Return the rounding error of ``|u|^2``; `diagonal` is the largest k_ii."""
        relative = kernel.rounding(self.source.n_features, self.source.dtype)
        return relative * float(np.abs(self.pull).sum()) ** 2 * diagonal

    def projected(self, basis: Basis) -> Projection:
        """Return the projection of u on the span of `basis`."""

        def project(part: slice) -> tuple[Array, Array]:
            rows = self.source.take(self.rows[part])
            phi, delta = features_and_distances(rows, basis)
            return self.pull[part] @ phi, delta

        parts = parts_of(self.rows, len(basis))
        found = list(self.source.workers.run(project, parts))
        coordinates = np.sum([one for one, _ in found], axis=0)
        return Projection(coordinates, np.concatenate([delta for _, delta in found]))

    def sampled_residuals(
        self,
        projection: Projection,
        basis: Basis,
        sizes: tuple[int, ...],
        rng: np.random.Generator,
    ) -> Iterator[Residual]:
        """Yield bounds of ``|(I - P) u|``, each from a draw of its own.

        With the probability `CONFIDENCE` none of them fails.
        """
        failure = (1 - CONFIDENCE) / len(sizes)
        for size in sizes:
            yield self.sampled_residual(projection, basis, size, rng, failure)

    def sampled_residual(
        self,
        projection: Projection,
        basis: Basis,
        size: int,
        rng: np.random.Generator,
        failure: float,
    ) -> Residual:
        """Return a bound of ``|(I - P) u|`` from `size` drawn rows.

        It fails with the probability `failure`.
        """
        strength = np.abs(self.pull) * projection.delta
        total = float(strength.sum())
        if total <= 0:
            return Residual(0.0, 0.0)
        drawn = rng.choice(len(strength), size, p=strength / total)
        few, counts = np.unique(drawn, return_counts=True)
        signed = self._residual_at(few, projection, basis)
        signed *= np.sign(self.pull[few]) / projection.delta[few]
        mean = total * float(signed @ counts) / size
        noise = float(total * np.sqrt(2 * np.log(1 / failure) / size))
        norm = (noise + float(np.sqrt(noise**2 + 4 * max(mean, 0.0)))) / 2
        return Residual(min(norm, total), noise)

    def _residual_at(self, few: Array, projection: Projection, basis: Basis) -> Array:
        """Return ``<(I - P) u, phi_i>`` for a few of the rows, given by position."""
        kernel, source = basis.kernel, self.source.near(self.rows)
        points = kernel.prepare_basis(source.take(self.rows[few]))

        # Summed over columns of the pulling rows: a part of them at a time.
        def values_of(part: slice) -> Array:
            some = kernel.prepare(source.take(self.rows[part]))
            return kernel.times(points, some, self.pull[part, None])[:, 0]

        values = np.zeros(len(few))
        for found in source.workers.run(values_of, parts_of(self.pull)):
            values += found
        phi = basis.features(kernel.block(points, basis.points))
        return np.asarray(values - phi @ projection.coordinates)


def distances_to_span(source: Source, basis: Basis, rows: Array) -> Array:
    """Return ``|(I - P) phi(x_i)|`` of some rows, rounded up."""
    return Combination(source, rows, np.zeros(len(rows))).projected(basis).delta
