"""A uniform sample of the rows of a stream, of bounded size."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.solvers.streaming.stream import stacked

# Rows and bytes of a sample, at most; rows, at least. A share of 1 % is estimated to
# 0.16 % (one standard deviation) with 4000 rows.
MAX_SAMPLE_ROWS = 4000
MAX_SAMPLE_BYTES = 1 << 26
MIN_SAMPLE_ROWS = 100
# Entries that a sparse row is assumed to have; few rows are as full as this.
SPARSE_ENTRIES = 1000
# Relative difference up to which two values are those of equal rows.
SAME_VALUE = 1e-12


@dataclass(frozen=True)
class RowSample:
    """A sample: the rows with the smallest keys, ``-log(u) / weight`` with u uniform.

    This is drawing without replacement, with probabilities by weight, in one pass
    (Efraimidis and Spirakis 2006). With keys, the sample does not depend on the blocks
    of the stream, and two samples can be merged.
    """

    generator: np.random.Generator
    rows: Any = None
    keys: Array | None = None
    weights: Array | None = None
    n_seen: int = 0
    most: int = MAX_SAMPLE_ROWS

    @classmethod
    def with_half_life(cls, seed: int, half_life: float | None) -> Self:
        """Return an empty sample, small beside the rows that count."""
        generator = np.random.default_rng(seed)
        if half_life is None:
            return cls(generator)
        few = int(min(half_life / 4, MAX_SAMPLE_ROWS))
        return cls(generator, most=max(MIN_SAMPLE_ROWS, few))

    def after(
        self, X: Any, weights: Array | None, half_life: float | None = None
    ) -> Self:
        """Return the sample after the rows of `X`; weight 0 is never drawn.

        A row counts half after `half_life` others.
        """
        known = self.keys
        generator = copy.deepcopy(self.generator)
        w = np.ones(X.shape[0]) if weights is None else weights
        with np.errstate(divide="ignore"):
            keys = generator.standard_exponential(len(w)) / w
        if half_life is not None:
            with np.errstate(over="ignore"):
                keys *= np.exp2(np.arange(len(w))[::-1] / half_life)
                known = None if known is None else known * np.exp2(len(w) / half_life)
        size, limit = self._size(X), np.inf
        if known is not None and len(known) == size:
            limit = known[-1]
        chosen = np.flatnonzero(keys < limit)
        if len(chosen) > size:
            chosen = chosen[np.argpartition(keys[chosen], size)[:size]]
        seen = self.n_seen + int(np.count_nonzero(w))
        new = replace(self, generator=generator, n_seen=seen, keys=known)
        return new._with(X[chosen], keys[chosen], w[chosen])

    def joined(self, other: Self) -> Self:
        """Return the sample of both streams."""
        if other.keys is None or other.weights is None:
            return self
        new = replace(self, n_seen=self.n_seen + other.n_seen)
        return new._with(other.rows, other.keys, other.weights)

    def lower_quantile(self, values: Array, share: float) -> float:
        """Return the `share` quantile of `values`, one per row, by weight.

        Halfway between the last value below and the first one that is not; rows of
        equal values count as one row of their common weight. Where the sample does not
        hold all rows, weights have already decided which it holds.
        """
        assert self.weights is not None
        own = self.weights
        if self.n_seen > len(own):
            own = np.ones(len(own))
        order = np.argsort(values, kind="stable")
        below = np.cumsum(own[order]) / own.sum()
        first = min(int(np.searchsorted(below, share, side="right")), len(order) - 1)
        value = float(values[order[first]])
        lower = values[order[:first]]
        lower = lower[lower < value - SAME_VALUE * abs(value)]
        return (float(lower[-1]) + value) / 2 if len(lower) else value

    def _with(self, rows: Any, keys: Array, weights: Array) -> Self:
        if self.keys is not None and self.weights is not None:
            rows = stacked(self.rows, rows)
            keys = np.append(self.keys, keys)
            weights = np.append(self.weights, weights)
        order = np.argsort(keys, kind="stable")[: self._size(rows)]
        order = order[np.isfinite(keys[order])]
        return replace(self, rows=rows[order], keys=keys[order], weights=weights[order])

    def _size(self, X: Any) -> int:
        """Return the largest number of rows of a sample of such rows."""
        return sample_size(X, self.most)


def sample_size(X: Any, most: int) -> int:
    """Return how many rows like those of `X` a sample holds, `most` at most."""
    entries = X.shape[1]
    if sparse.issparse(X):
        # Twelve bytes per entry. It must not depend on the block, or samples would.
        entries = min(entries, SPARSE_ENTRIES)
    fitting = MAX_SAMPLE_BYTES // (12 * entries + 8)
    return int(np.clip(fitting, MIN_SAMPLE_ROWS, most))
