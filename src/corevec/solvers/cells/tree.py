"""Balanced trees over rows: median splits along principal directions.

A node sends a row to the right where its projection on the node's direction is above
the node's threshold, the median of its rows: after D levels 2^D cells hold nearly the
same number of rows. The first tree takes the leading principal direction of each node
(power iteration); further trees take random ones that favour the leading directions, so
that their borders differ. k-means cells are unbalanced, and cost five times as much
(design.md 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.backend.loops import cells as _cell_loops
from corevec.data.sources import Source
from corevec.kernels import Rows

# Rows of a node that decide its direction.
DIRECTION_ROWS = 2048
# Steps of the power iteration: the direction need only be a good one.
POWER_STEPS = 8
# Levels beyond those of a balanced tree, where repeated values make splits uneven.
MORE_LEVELS = 4
# A cell of this many times the rows asked for is split: halves are as far below as it
# was above, and a little less than sqrt(2), so that cells of equal size all are.
_SPLIT_FROM = 1.4
# Projections this close, relative to the largest, are one value: the same sum in
# another order (that of a sparse row) differs by some 1e-16 per column.
_ROUNDING = 1e-14
# Rows projected at a time, at most: a task of some milliseconds.
_PART = 1 << 16


@dataclass(frozen=True)
class Tree:
    """A complete binary tree; node i has the children 2i + 1 and 2i + 2.

    A node that could not be split sends all rows to its left child.
    """

    directions: Array  # (2^depth - 1, columns)
    thresholds: Array  # (2^depth - 1,)
    depth: int

    @property
    def n_cells(self) -> int:
        """How many cells there are, empty ones included."""
        return 1 << self.depth

    def cells_of(self, values: Any) -> Array:
        """Return the number of the cell that each row falls into."""
        return self.descend(values)[0]

    def descend(self, values: Any) -> tuple[Array, Array]:
        """Return the cell of each row, and its projection on the last direction."""
        n = values.shape[0]
        cells, projected = np.zeros(n, dtype=np.int64), np.zeros(n)
        own: Any = (self.directions, self.thresholds, self.depth, cells, projected)
        if sparse.issparse(values):
            parts: Any = (values.indptr, values.indices, values.data)
            _cell_loops.descend_sparse(*parts, *own)
        else:
            _cell_loops.descend(np.ascontiguousarray(values), *own)
        return cells, projected


def levels(n_rows: int, size: int) -> int:
    """Return the depth at which the cells of so many rows are nearest to `size`."""
    return max(0, round(math.log2(max(n_rows, 1) / size)))


def graft(top: Tree, below: Sequence[Tree]) -> Tree:
    """Return `top` with a tree below each of its cells, all made equally deep.

    Cell c of the tree below cell p becomes ``(p << deeper) + (c << (deeper - depth))``:
    the nodes below a cell of a shorter tree send all rows to the left.
    """
    deeper = max(one.depth for one in below)
    n_parts, n_columns = top.n_cells, top.directions.shape[1]
    directions, thresholds = [top.directions], [top.thresholds]
    for level in range(deeper):
        width = 1 << level
        nodes = slice(width - 1, 2 * width - 1)
        along, at = (
            np.zeros((n_parts, width, n_columns)),
            np.full((n_parts, width), np.inf),
        )
        for part, one in enumerate(below):
            if level < one.depth:
                along[part], at[part] = one.directions[nodes], one.thresholds[nodes]
        directions.append(along.reshape(-1, n_columns))
        thresholds.append(at.ravel())
    depth = top.depth + deeper
    return Tree(np.concatenate(directions), np.concatenate(thresholds), depth)


def grow(
    source: Source,
    size: int,
    rng: np.random.Generator,
    *,
    random: bool = False,
    rows: Array | None = None,
    more: int = MORE_LEVELS,
) -> tuple[Tree, list[Array]]:
    """Return a tree whose cells have about `size` rows, and their rows.

    Rows that cannot be told apart stay in one cell, however many they are. `rows` are
    the numbers of those that the tree is grown from; all, if not given. `more` levels
    than a balanced tree has are grown at most.
    """
    members: list[Array] = [source.numbers if rows is None else rows]
    least = levels(len(members[0]), size)
    directions, thresholds = [np.zeros((0, source.n_features))], [np.empty(0)]
    depth = 0
    while depth < least + more:
        # Where all splits are even none of the first `least` levels is a cell too many;
        # then only those that came out too large are split.
        wanted = int(_SPLIT_FROM * size) if depth < least else 2 * size + 1
        if max(map(len, members)) < wanted:
            break
        seeds = rng.integers(2**63, size=len(members))

        def split(at: int, seeds: Array = seeds, wanted: int = wanted) -> Any:
            rows, own = members[at], np.random.default_rng(seeds[at])  # noqa: B023
            return _split(source, rows, own, random, wanted)

        found = list(source.workers.run(split, range(len(members))))
        if not any(len(one[3]) for one in found):
            break
        directions.append(np.stack([one[0] for one in found]))
        thresholds.append(np.array([one[1] for one in found]))
        members = [part for one in found for part in one[2:]]
        depth += 1
    return Tree(np.concatenate(directions), np.concatenate(thresholds), depth), members


def _split(
    source: Source, rows: Array, rng: np.random.Generator, random: bool, wanted: int
) -> tuple[Array, float, Array, Array]:
    """Return direction, threshold and the rows of the two halves.

    Fewer rows than `wanted` stay together.
    """
    nothing = np.zeros(source.n_features)
    if len(rows) < wanted:
        return nothing, np.inf, rows, rows[:0]
    few = rows
    if len(rows) > DIRECTION_ROWS:
        few = np.sort(rng.choice(rows, DIRECTION_ROWS, replace=False))
    direction = _direction(source.take(few), rng, random)
    projected = _projected(source, rows, direction)
    threshold = _median(projected)
    right = projected > threshold
    if not right.any():
        return nothing, np.inf, rows, rows[:0]
    return direction, threshold, rows[~right], rows[right]


def _projected(source: Source, rows: Array, direction: Array) -> Array:
    stump = Tree(direction[None, :], np.zeros(1), 1)
    # Every thread has a copy of its part; all of them take a quarter of the budget.
    row_bytes = 8 * source.row_entries * source.workers.n_threads
    step = int(np.clip(source.memory_budget // (4 * row_bytes), 256, _PART))
    parts = [
        stump.descend(source.take(rows[s : s + step]).values)[1]
        for s in range(0, len(rows), step)
    ]
    return np.concatenate(parts)


def _median(projected: Array) -> float:
    """Return a threshold that halves the values, between two different ones.

    Infinite where all are the same.
    """
    middle = len(projected) // 2
    ordered = np.partition(projected, (middle - 1, middle))
    low, high = float(ordered[middle - 1]), float(ordered[middle])
    same = _ROUNDING * float(np.abs(projected).max())
    if high - low > same:
        return low + (high - low) / 2
    # Repeated values around the median: cut where fewer rows go astray.
    below, above = projected < low - same, projected > low + same
    n_below, n_above = np.count_nonzero(below), np.count_nonzero(above)
    if n_below == n_above == 0:
        return np.inf
    if n_below > n_above:
        low, high = float(projected[below].max()), float(projected[~below].min())
    else:
        low, high = float(projected[~above].max()), float(projected[above].min())
    return low + (high - low) / 2


def _direction(rows: Rows, rng: np.random.Generator, random: bool) -> Array:
    """Return a direction of large variance, of unit length.

    By power iteration on the covariance; a random one is a single step of it from
    random weights of the rows: its expected square along an eigenvector is the
    eigenvalue.
    """
    # In float64: sums of float32 columns near 1e6 lose what tells the rows apart.
    values = rows.values.astype(np.float64)
    entries = values.data if sparse.issparse(values) else values
    largest = float(np.abs(entries).max(initial=0.0))
    if largest > 0:
        entries /= largest  # squares of 1e200 overflow
    mean = np.asarray(values.mean(axis=0)).ravel()
    spread = rng.standard_normal(len(rows))
    v = _pulled(values, mean, spread)
    for _ in range(0 if random else POWER_STEPS):
        v = _pulled(values, mean, np.asarray(values @ v) - float(mean @ v))
    return np.asarray(v)


def _pulled(values: Any, mean: Array, weights: Array) -> Array:
    pulled = np.asarray(values.T @ weights, dtype=np.float64) - mean * weights.sum()
    length = float(np.linalg.norm(pulled))
    return np.asarray(pulled / length if length > 0 else pulled)
