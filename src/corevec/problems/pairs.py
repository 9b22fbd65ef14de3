"""The pairs of a ranking problem, by query and grade; they are never listed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from corevec._runtime.types import EPS, Array
from corevec.backend.loops.ranking import (
    Queries,
    Sums,
    Values,
    lower_weight,
    pair_sums,
)

# Queries up to this many rows are summed pair by pair, no slower there than by sorting
# (measured: 1.3 against 2.0 us at 20 rows, 5 against 4 at 40, 17 against 8 at 80).
FEW_ROWS = 40
# So are longer ones up to this many pairs in all (10 ms), and for a certificate up to
# this many (1 s): sums of squares cancel where slacks are small beside the values.
FEW_PAIRS, CERTIFIED_PAIRS = 2e6, 3e8
# A query of up to this many rows is one dense block of A: 2 MB.
QUERY_ROWS = 512
# Shorter queries share a block of up to this many rows, most of it zeros.
_SHARED_ROWS = 128
# Columns that a long query is swept with at a time.
_COLUMNS = 32


@dataclass(frozen=True)
class PairSums:
    """Sums over the pairs inside the margin, at some values f."""

    pull: Array  # sum_j beta_ij - sum_j beta_ji, per row
    bend: Array  # A p, by column: A is the Hessian of the loss in f
    mass: float  # sum beta
    square: float  # sum beta^2 / (C c): twice the loss
    count: Array  # the weight of these pairs, per query
    mass_error: float  # rounding error of `mass`, and of all pulls
    square_error: float


@dataclass(frozen=True)
class Pairs:
    """The rows that belong to a pair, by query and grade.

    Attributes
    ----------
    rows : ndarray of int64
        Row numbers, query by query, in the order of the grades.
    starts : ndarray of int64
        Where each query begins; the last entry is the number of rows.
    level : ndarray of int64
        The rank of a row's grade among those of its query, from 0.
    weight : ndarray
        s_i.
    scale : ndarray
        One per query: a pair weighs ``scale s_i s_j``, C included.
    """

    rows: Array
    starts: Array
    level: Array
    weight: Array
    scale: Array

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def query(self) -> Array:
        """The query of each row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def lower(self) -> Array:
        """The weight of the rows of lower grade in a row's query."""
        return np.asarray(lower_weight(self.starts, self.level, self.weight))

    @property
    def pair_weight(self) -> Array:
        """The weight of all pairs of each query, ``sum s_i s_j``."""
        return np.asarray(np.add.reduceat(self.weight * self.lower, self.starts[:-1]))

    @cached_property
    def n_pairs(self) -> int:
        """The number of pairs, whatever their weight."""
        alike = replace(self, weight=np.ones(len(self)))
        return int(alike.pair_weight.sum())

    def sums(
        self,
        f: Array,
        p: Array | None = None,
        margin: float = 1.0,
        most_pairs: float = FEW_PAIRS,
    ) -> PairSums:
        """Return the sums over the pairs with ``f_i - f_j < margin``.

        `p` has columns for ``bend = A p``; without it there are none. Up to
        `most_pairs` pairs are summed one by one, more by sorting.
        """
        f = np.ascontiguousarray(f)
        order = np.lexsort((f, self.query))
        pull = np.empty(len(self))
        totals = np.empty((len(self.scale), 5))
        other = np.empty((len(self), 0)) if p is None else p
        bend = np.empty(other.shape)
        queries = Queries(self.starts, order, self.level, self.weight, self.scale)
        few = len(self) if self.n_pairs <= most_pairs else FEW_ROWS
        sums = Sums(pull, bend, totals)
        pair_sums(queries, Values(f, other, float(margin)), few, sums)
        mass, square, _, cancelled, cancelled_sq = totals.sum(axis=0).tolist()
        # The sums of a prefix pass through log2(levels) additions, 16 at 60,000.
        errors = (16 * EPS * cancelled, 16 * EPS * cancelled_sq)
        return PairSums(pull, bend, mass, square, totals[:, 2], *errors)

    def curvature(self, f: Array, design: Array) -> Array:
        """Return ``design' A design``, with dense blocks of A for short queries."""
        total = np.zeros((design.shape[1], design.shape[1]))
        for part in self._parts():
            rows = slice(self.starts[part.start], self.starts[part.stop])
            few = design[rows]
            if len(few) <= QUERY_ROWS:
                total += few.T @ (self._laplacian(f, rows) @ few)
                continue
            query = self._queries(part)
            for start in range(0, design.shape[1], _COLUMNS):
                some = slice(start, start + _COLUMNS)
                bend = query.sums(f[rows], np.ascontiguousarray(few[:, some])).bend
                total[:, some] += few.T @ bend
        return (total + total.T) / 2

    def _parts(self) -> list[slice]:
        """Return slices of queries: one, or short ones within `_SHARED_ROWS`."""
        found, begin = [], 0
        for q in range(1, len(self.scale)):
            if self.starts[q + 1] - self.starts[begin] > _SHARED_ROWS:
                found.append(slice(begin, q))
                begin = q
        return [*found, slice(begin, len(self.scale))]

    def _queries(self, part: slice) -> Pairs:
        """Return the pairs of some queries."""
        starts = self.starts[part.start : part.stop + 1]
        rows = slice(starts[0], starts[-1])
        level, weight = self.level[rows], self.weight[rows]
        scale = self.scale[part]
        return Pairs(self.rows[rows], starts - starts[0], level, weight, scale)

    def _laplacian(self, f: Array, part: slice) -> Array:
        """Return A of the rows of some whole queries."""
        level, query, f = self.level[part], self.query[part], f[part]
        inside = (query[:, None] == query) & (level[:, None] > level)
        inside &= f[:, None] - f < 1
        c = np.where(inside, np.outer(self.weight[part], self.weight[part]), 0.0)
        c *= self.scale[query][:, None]
        degree = c.sum(axis=0) + c.sum(axis=1)
        c += c.T
        np.negative(c, out=c)
        c[np.diag_indices_from(c)] += degree
        return c

    def sample(self, size: int, rng: np.random.Generator) -> Pairs:
        """Return the pairs of about `size` rows, with larger weights.

        They are those of random queries, and of random rows of the longest queries;
        all pairs where there are no more rows.
        """
        if len(self) <= size:
            return self
        counts = np.diff(self.starts)
        most = max(QUERY_ROWS, size // min(len(counts), 8))
        order = rng.permutation(len(counts))
        reached = np.cumsum(np.minimum(counts[order], most))
        chosen = np.sort(order[: max(1, int(np.searchsorted(reached, size, "right")))])
        kept = [self._some_of(q, most, rng) for q in chosen]
        sizes = np.array([len(part) for part in kept])
        where = np.concatenate(kept)
        mass = self.scale * self.pair_weight
        boost = mass.sum() / mass[chosen].sum() * (counts[chosen] / sizes) ** 2
        starts = np.concatenate([[0], np.cumsum(sizes)])
        level, weight = self.level[where], self.weight[where]
        scale = boost * self.scale[chosen]
        return Pairs(self.rows[where], starts, level, weight, scale)

    def _some_of(self, query: int, most: int, rng: np.random.Generator) -> Array:
        start, stop = self.starts[query], self.starts[query + 1]
        if stop - start <= most:
            return np.arange(start, stop)
        few = rng.choice(stop - start, most, replace=False)
        return np.asarray(start + np.sort(few))


def pairs_of(
    grades: Array, query: Array, weight: Array | None, C: float, per_query: bool
) -> Pairs:
    """Return the pairs of all rows; none where every query has one grade only.

    `query` holds a whole number per row. Rows of weight 0 and queries with one grade
    are left out. A pair weighs ``C s_i s_j``; with `per_query`, the pairs of each query
    together weigh C times the mean number of rows (by weight) of a query.
    """
    s = np.ones(len(grades)) if weight is None else weight
    rows = np.flatnonzero(s > 0)
    rows = rows[np.lexsort((grades[rows], query[rows]))]
    new_query = np.ones(len(rows), dtype=bool)
    new_query[1:] = np.diff(query[rows]) != 0
    steps = np.zeros(len(rows), dtype=np.int64)
    steps[1:] = grades[rows][1:] != grades[rows][:-1]
    steps = np.cumsum(np.where(new_query, 0, steps))
    number = np.cumsum(new_query) - 1
    level = steps - steps[new_query][number]
    several = np.zeros(number[-1] + 1, dtype=bool)
    several[number[level > 0]] = True
    keep = several[number]
    counts = np.bincount(number[keep], minlength=len(several))[several]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    scale = np.full(len(counts), float(C))
    pairs = Pairs(rows[keep], starts, level[keep], s[rows[keep]].astype("d"), scale)
    if per_query and len(pairs):
        scale *= pairs.weight.sum() / len(counts) / pairs.pair_weight
    return pairs
