"""A uniform sample of the rows of a stream, of bounded size."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.solvers.streaming.stream import stacked

# A share of 1 % is found to 0.16 % (one deviation) with 4000 rows.
_MOST_ROWS = 4000
_MOST_BYTES = 1 << 26
_LEAST_ROWS = 100
_SPARSE_ENTRIES = 1000


@dataclass(frozen=True)
class RowSample:
    """The rows with the smallest keys, ``-log(u) / weight`` with u uniform.

    Drawing without replacement, with probabilities by weight, in one pass (Efraimidis
    and Spirakis 2006). Keys make the sample the same however the stream is cut into
    blocks, and two samples are joined by them.
    """

    generator: np.random.Generator
    rows: Any = None
    keys: Array | None = None
    weights: Array | None = None
    n_seen: int = 0

    def after(self, X: Any, weights: Array | None) -> Self:
        """Return the sample after the rows of `X`; weight 0 is never drawn."""
        generator = copy.deepcopy(self.generator)
        w = np.ones(X.shape[0]) if weights is None else weights
        with np.errstate(divide="ignore"):
            keys = generator.standard_exponential(len(w)) / w
        size, limit = _size(X), np.inf
        if self.keys is not None and len(self.keys) == size:
            limit = self.keys[-1]
        chosen = np.flatnonzero(keys < limit)
        if len(chosen) > size:
            chosen = chosen[np.argpartition(keys[chosen], size)[:size]]
        seen = self.n_seen + int(np.count_nonzero(w))
        new = replace(self, generator=generator, n_seen=seen)
        return new._with(X[chosen], keys[chosen], w[chosen])

    def joined(self, other: Self) -> Self:
        """Return the sample of both streams."""
        if other.keys is None or other.weights is None:
            return self
        new = replace(self, n_seen=self.n_seen + other.n_seen)
        return new._with(other.rows, other.keys, other.weights)

    def lower_quantile(self, values: Array, share: float) -> float:
        """Return what `share` of the rows (by weight) are below, by their `values`.

        Halfway between the last row below and the first one that is not. Where rows
        were left out, weights have already decided which.
        """
        assert self.weights is not None
        own = self.weights
        if self.n_seen > len(own):
            own = np.ones(len(own))
        order = np.argsort(values, kind="stable")
        below = np.cumsum(own[order]) / own.sum()
        first = min(int(np.searchsorted(below, share, side="right")), len(order) - 1)
        if first == 0:
            return float(values[order[0]])
        return float(values[order[first - 1]] + values[order[first]]) / 2

    def _with(self, rows: Any, keys: Array, weights: Array) -> Self:
        if self.keys is not None and self.weights is not None:
            rows = stacked(self.rows, rows)
            keys = np.append(self.keys, keys)
            weights = np.append(self.weights, weights)
        order = np.argsort(keys, kind="stable")[: _size(rows)]
        order = order[np.isfinite(keys[order])]
        return replace(self, rows=rows[order], keys=keys[order], weights=weights[order])


def _size(X: Any) -> int:
    """Return how many rows a sample of rows with so many columns may have."""
    entries = X.shape[1]
    if sparse.issparse(X):
        # Twelve bytes an entry; few rows are as full as this. It must not depend on
        # the block, or samples would.
        entries = min(entries, _SPARSE_ENTRIES)
    return int(np.clip(_MOST_BYTES // (12 * entries + 8), _LEAST_ROWS, _MOST_ROWS))
