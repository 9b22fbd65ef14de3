"""The pairs of a ranking problem, by query and grade; never written out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from corevec._ranking_loops import pair_sums

Array = npt.NDArray[Any]

# Rows of a query whose pairs are summed as one dense block, and rows that a query has
# at most in a sample: 2 MB, and an eighth of the pairs of 1,450 rows.
QUERY_ROWS = 512


@dataclass(frozen=True)
class PairSums:
    """What the pairs inside the margin add up to, at some values f."""

    pull: Array  # sum_j beta_ij - sum_j beta_ji, per row
    bend: Array  # A p: A is the Hessian of the loss in f
    mass: float  # sum beta
    square: float  # sum beta^2 / (C c): twice the loss
    per_query: Array  # sum c t, sum c t^2, sum c of each query


@dataclass(frozen=True)
class Pairs:
    """The rows that are in a pair, by query and grade.

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
        C, or C divided by the weight of the query's pairs, per query.
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
        new = np.ones(len(self), dtype=bool)
        new[1:] = (np.diff(self.level) != 0) | (np.diff(self.query) != 0)
        before = np.concatenate([[0.0], np.cumsum(self.weight)[:-1]])
        first = np.maximum.accumulate(np.where(new, np.arange(len(self)), 0))
        begin = np.repeat(self.starts[:-1], np.diff(self.starts))
        return np.asarray(before[first] - before[begin])

    @property
    def pair_weight(self) -> Array:
        """The weight of all pairs of each query, ``sum s_i s_j``."""
        return np.asarray(np.add.reduceat(self.weight * self.lower, self.starts[:-1]))

    def sums(self, f: Array, p: Array | None = None, margin: float = 1.0) -> PairSums:
        """Return the sums over the pairs with ``f_i - f_j < margin``."""
        f = np.ascontiguousarray(f)
        order = np.lexsort((f, self.query))
        pull, bend = np.empty(len(self)), np.empty(len(self))
        totals = np.empty((len(self.scale), 3))
        other = f if p is None else np.ascontiguousarray(p)
        shape = (self.starts, order, self.level, self.weight, self.scale)
        pair_sums(*shape, f, other, margin, pull, bend, totals)
        mass, square = totals[:, 0].sum(), totals[:, 1].sum()
        return PairSums(pull, bend, float(mass), float(square), totals)

    def curvature(self, f: Array, design: Array) -> Array:
        """Return ``design' A design`` from dense blocks of A."""
        total = np.zeros((design.shape[1], design.shape[1]))
        for part in self.parts(QUERY_ROWS):
            total += design[part].T @ (self._laplacian(f, part) @ design[part])
        return total

    def parts(self, size: int) -> list[slice]:
        """Return slices of whole queries of up to `size` rows, if a query has no more.

        Rows, not pairs, are what a slice holds.
        """
        found, begin = [], 0
        for start, stop in zip(self.starts[:-1], self.starts[1:], strict=True):
            if stop - begin > size and start > begin:
                found.append(slice(begin, int(start)))
                begin = int(start)
        return [*found, slice(begin, len(self))]

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

    def sample(self, size: int, max_query: int, rng: np.random.Generator) -> Pairs:
        """Return the pairs of about `size` rows, each standing for several.

        Random queries; of one with more than `QUERY_ROWS`, that many random rows, with
        larger weights. Itself, where it has no more rows, and no query above
        `max_query`.
        """
        counts = np.diff(self.starts)
        if len(self) <= size and counts.max() <= max_query:
            return self
        order = rng.permutation(len(counts))
        reached = np.cumsum(np.minimum(counts[order], QUERY_ROWS))
        chosen = np.sort(order[: max(1, int(np.searchsorted(reached, size)))])
        kept = [self._some_of(q, rng) for q in chosen]
        sizes = np.array([len(part) for part in kept])
        where = np.concatenate(kept)
        mass = self.scale * self.pair_weight
        boost = mass.sum() / mass[chosen].sum() * (counts[chosen] / sizes) ** 2
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return Pairs(
            self.rows[where],
            starts,
            self.level[where],
            self.weight[where],
            boost * self.scale[chosen],
        )

    def _some_of(self, query: int, rng: np.random.Generator) -> Array:
        start, stop = self.starts[query], self.starts[query + 1]
        if stop - start <= QUERY_ROWS:
            return np.arange(start, stop)
        few = rng.choice(stop - start, QUERY_ROWS, replace=False)
        return np.asarray(start + np.sort(few))


def pairs_of(
    grades: Array, query: Array, weight: Array | None, C: float, per_query: bool
) -> Pairs:
    """Return the pairs of all rows; none where every query has one grade only.

    `query` holds a whole number per row. Rows of weight 0 and queries with one grade
    are left out. With `per_query` the pairs of a query weigh C together, else each of
    them ``C s_i s_j``.
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
        scale /= pairs.pair_weight
    return pairs
