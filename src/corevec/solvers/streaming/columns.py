"""Running moments of the columns of a stream, and the scaling that they give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.data.sources import as_source, row_statistics
from corevec.kernels import RowStatistics

# Columns are in different units where both the standard deviation and the range of so
# large a share of them are so many times smaller than the largest: beside that one they
# would count for nothing. Pixels and one-hot columns have nearly equal ranges,
# standardised columns equal deviations.
DROWNED_SHARE, DROWNED_FACTOR = 0.25, 10.0
# Bytes of a block of the pass over the rows of a block.
_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class ColumnMoments:
    """Mean, variance and range of the columns so far, and the weight of the rows."""

    weight: float
    statistics: RowStatistics

    @classmethod
    def of(cls, X: Any, weights: Array | None) -> Self:
        """Return the moments of the rows of one block, without those of weight 0."""
        if weights is not None and not weights.all():
            X, weights = X[weights > 0], weights[weights > 0]
        weight = float(X.shape[0] if weights is None else weights.sum())
        return cls(weight, row_statistics(as_source(X, _BLOCK_BYTES), weights))

    def joined(self, other: Self) -> Self:
        """Return the moments of both (Chan, Golub, LeVeque 1979)."""
        exponent = max(self.statistics.exponent, other.statistics.exponent)
        a, b = (_in_units(one.statistics, exponent) for one in (self, other))
        total = self.weight + other.weight
        left, right = self.weight / total, other.weight / total
        step = b.mean - a.mean
        variance = left * a.column_variance + right * b.column_variance
        statistics = replace(
            a,
            mean=a.mean + right * step,
            column_variance=variance + left * right * step**2,
            low=np.minimum(a.low, b.low),
            high=np.maximum(a.high, b.high),
        )
        return replace(self, weight=total, statistics=statistics)


def _in_units(statistics: RowStatistics, exponent: int) -> RowStatistics:
    """Return statistics in units of ``2**exponent``."""
    step = statistics.exponent - exponent
    if step == 0:
        return statistics
    return replace(
        statistics,
        mean=np.ldexp(statistics.mean, step),
        column_variance=np.ldexp(statistics.column_variance, 2 * step),
        low=np.ldexp(statistics.low, step),
        high=np.ldexp(statistics.high, step),
        exponent=exponent,
    )


@dataclass(frozen=True)
class Scaling:
    """Columns ``(x - shift) factor``; sparse rows are not shifted."""

    shift: Array
    factor: Array

    @classmethod
    def of(cls, moments: ColumnMoments, *, centre: bool) -> Self:
        """Return the scaling to deviation 1, and to mean 0 if `centre`."""
        found = moments.statistics
        # Deviations fit into a float64 where variances do not: rows near 1e160.
        deviation = np.ldexp(np.sqrt(found.column_variance), found.exponent)
        mean = np.ldexp(found.mean, found.exponent)
        with np.errstate(over="ignore", divide="ignore"):
            factor = np.where(deviation > 0, 1.0 / deviation, 1.0)
        factor = np.where(np.isfinite(factor), factor, 1.0)
        centre = centre and not found.is_sparse
        return cls(mean if centre else np.zeros(len(factor)), factor)

    def __call__(self, X: Any) -> Any:
        """Return scaled rows."""
        if sparse.issparse(X):
            return sparse.csr_matrix(X.multiply(self.factor))
        return (X - self.shift) * self.factor

    def of_statistics(self, statistics: RowStatistics) -> RowStatistics:
        """Return the statistics of scaled rows."""
        step = statistics.exponent
        low, high = np.ldexp(statistics.low, step), np.ldexp(statistics.high, step)
        if not statistics.is_sparse:
            low, high = (self(edge) for edge in (low, high))
        return replace(
            statistics,
            mean=(np.ldexp(statistics.mean, step) - self.shift) * self.factor,
            column_variance=statistics.column_variance
            * np.ldexp(self.factor, step) ** 2,
            low=low,
            high=high,
            exponent=0,
        )

    def as_map(self) -> Array:
        """Return M with ``M (x, 1)`` the scaled row and 1."""
        d = len(self.factor)
        matrix = np.diag(np.append(self.factor, 1.0))
        matrix[:d, d] = -self.shift * self.factor
        return matrix


def in_different_units(statistics: RowStatistics) -> bool:
    """Whether the columns of dense rows seem to be measured in different units."""
    if statistics.is_sparse:
        return False
    deviation = np.sqrt(statistics.column_variance)
    varies = deviation > 0
    if not varies.any():
        return False
    drowned = np.ones(int(varies.sum()), dtype=bool)
    for size in (deviation[varies], (statistics.high - statistics.low)[varies]):
        drowned &= DROWNED_FACTOR * size < size.max()
    return bool(drowned.mean() > DROWNED_SHARE)
