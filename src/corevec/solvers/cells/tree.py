"""Balanced trees over rows: median splits along principal directions.

A node sends a row to the right child if its projection on the node's direction exceeds
the node's threshold, which is the median over the node's rows: after D levels, 2^D
cells hold nearly the same number of rows. The first tree uses the leading principal
direction of each node (power iteration). Further trees use random directions that
favour the leading ones, so that their borders differ. k-means cells are unbalanced and
took five times as long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.backend.loops import cells as loops
from corevec.data.sources import Source
from corevec.kernels import Rows

# Number of sampled rows that determine the direction of a node.
DIRECTION_ROWS = 2048
# Steps of the power iteration: an approximate leading direction is enough.
POWER_STEPS = 8
# Levels beyond those of a balanced tree, where repeated values make splits uneven.
EXTRA_LEVELS = 4
# A cell with at least this multiple of the requested rows is split: the halves are then
# as far below the request as the cell was above it. A little less than sqrt(2), so that
# all cells of equal size are split.
_SPLIT_RATIO = 1.4
# Projections this close, relative to the largest, count as equal: the same sum in
# another order (that of a sparse row) differs by some 1e-16 per column.
_EQUAL_TOLERANCE = 1e-14
# The maximal number of rows projected at a time: a task of some milliseconds.
_MAX_BLOCK_ROWS = 1 << 16


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
        """Number of cells, including empty ones."""
        return 1 << self.depth

    def cells_of(self, values: Any) -> Array:
        """Return the cell number of each row."""
        return self.descend(values)[0]

    def descend(self, values: Any) -> tuple[Array, Array]:
        """Return the cell of each row and its projection on the last direction."""
        n = values.shape[0]
        cells, projected = np.zeros(n, dtype=np.int64), np.zeros(n)
        nodes = loops.Nodes(self.directions, self.thresholds, self.depth)
        if sparse.issparse(values):
            parts = values.indptr, values.indices, values.data
            loops.descend_sparse(*parts, nodes, cells, projected)
        else:
            loops.descend(np.ascontiguousarray(values), nodes, cells, projected)
        return cells, projected


@dataclass(frozen=True)
class Directions:
    """How the direction of a split is chosen: which, and in which metric.

    `scale` has a factor per column, the roots of a diagonal metric; None is all ones.
    """

    random: bool = False
    scale: Array | None = None

    def scaled(self, values: Any) -> Any:
        """Return rows, which may be overwritten, in the coordinates of the metric."""
        if self.scale is None:
            return values
        if not sparse.issparse(values):
            values *= self.scale
        else:
            values.data *= self.scale[values.indices]
        return values

    def unscaled(self, direction: Array) -> Array:
        """Return the direction whose products with rows are those of scaled rows."""
        if self.scale is None:
            return direction
        direction = direction * self.scale
        length = float(np.linalg.norm(direction))
        return np.asarray(direction / length if length > 0 else direction)


PRINCIPAL = Directions()


def levels(n_rows: int, size: int) -> int:
    """Return the depth at which cells of `n_rows` rows in all are nearest to `size`."""
    return max(0, round(math.log2(max(n_rows, 1) / size)))


def stump(like: Tree) -> Tree:
    """Return a tree of a single cell over the columns of `like`."""
    return Tree(like.directions[:0], like.thresholds[:0], 0)


def graft(top: Tree, below: Sequence[Tree]) -> Tree:
    """Return `top` with a tree below each of its cells, all of the same depth.

    Cell c of the tree below cell p becomes ``(p << deeper) + (c << (deeper - depth))``:
    the nodes below a cell of a shorter tree send all rows to the left.
    """
    deeper = max(one.depth for one in below)
    n_parts, n_columns = top.n_cells, top.directions.shape[1]
    directions, thresholds = [top.directions], [top.thresholds]
    for level in range(deeper):
        width = 1 << level
        nodes = slice(width - 1, 2 * width - 1)
        along = np.zeros((n_parts, width, n_columns))
        at = np.full((n_parts, width), np.inf)
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
    directions: Directions = PRINCIPAL,
    rows: Array | None = None,
    extra_levels: int = EXTRA_LEVELS,
) -> tuple[Tree, list[Array]]:
    """Return a tree whose cells have about `size` rows, and the rows of each cell.

    Duplicate rows stay in one cell, whatever their number. `rows` are the numbers of
    the rows to grow the tree from; by default all of them. `directions` tells how the
    splits are chosen. The tree gets at most
    `extra_levels` levels more than a balanced one.
    """
    members: list[Array] = [source.numbers if rows is None else rows]
    balanced = levels(len(members[0]), size)
    along, thresholds = [np.zeros((0, source.n_features))], [np.empty(0)]
    depth = 0
    while depth < balanced + extra_levels:
        # With even splits, none of the first `balanced` levels makes a cell too many;
        # after that, only cells that came out too large are split.
        least = int(_SPLIT_RATIO * size) if depth < balanced else 2 * size + 1
        if max(map(len, members)) < least:
            break
        seeds = rng.integers(2**63, size=len(members))

        def split(item: tuple[Array, int], least: int = least) -> Any:
            own, seed = item
            own_rng = np.random.default_rng(seed)
            return _split(source, own, own_rng, directions, least)

        items = zip(members, seeds, strict=True)
        found = list(source.workers.run(split, items))
        if not any(len(one[3]) for one in found):
            break
        along.append(np.stack([one[0] for one in found]))
        thresholds.append(np.array([one[1] for one in found]))
        members = [part for one in found for part in one[2:]]
        depth += 1
    return Tree(np.concatenate(along), np.concatenate(thresholds), depth), members


def _split(
    source: Source,
    rows: Array,
    rng: np.random.Generator,
    directions: Directions,
    least: int,
) -> tuple[Array, float, Array, Array]:
    """Return direction, threshold and the rows of the two halves.

    Fewer than `least` rows stay together.
    """
    nothing = np.zeros(source.n_features)
    if len(rows) < least:
        return nothing, np.inf, rows, rows[:0]
    sample = rows
    if len(rows) > DIRECTION_ROWS:
        sample = np.sort(rng.choice(rows, DIRECTION_ROWS, replace=False))
    direction = _direction(source.take(sample), rng, directions)
    projected = _project(source, rows, direction)
    threshold = _median(projected)
    right = projected > threshold
    if not right.any():
        return nothing, np.inf, rows, rows[:0]
    return direction, threshold, rows[~right], rows[right]


def _project(source: Source, rows: Array, direction: Array) -> Array:
    """Return the projection of each row, by the sums that `descend` computes."""
    one_split = Tree(direction[None, :], np.zeros(1), 1)
    # Every thread copies a block; all blocks together take a quarter of the budget.
    row_bytes = 8 * source.row_entries * source.workers.n_threads
    step = int(np.clip(source.memory_budget // (4 * row_bytes), 256, _MAX_BLOCK_ROWS))
    parts = [
        one_split.descend(source.take(rows[s : s + step]).values)[1]
        for s in range(0, len(rows), step)
    ]
    return np.concatenate(parts)


def _median(projected: Array) -> float:
    """Return a threshold between two different values that halves all of them.

    The threshold is infinite if all values are equal.
    """
    middle = len(projected) // 2
    ordered = np.partition(projected, (middle - 1, middle))
    low, high = float(ordered[middle - 1]), float(ordered[middle])
    same = _EQUAL_TOLERANCE * float(np.abs(projected).max())
    if high - low > same:
        return low + (high - low) / 2
    # Repeated values around the median: cut at the end where the halves differ less.
    below, above = projected < low - same, projected > low + same
    n_below, n_above = np.count_nonzero(below), np.count_nonzero(above)
    if n_below == n_above == 0:
        return np.inf
    if n_below > n_above:
        low, high = float(projected[below].max()), float(projected[~below].min())
    else:
        low, high = float(projected[~above].max()), float(projected[above].min())
    return low + (high - low) / 2


def _direction(rows: Rows, rng: np.random.Generator, how: Directions) -> Array:
    """Return a direction of large variance, of unit length.

    Power iteration on the covariance. A random direction is a single step of it from
    random row weights: its expected squared component along an eigenvector is the
    eigenvalue.
    """
    # In float64: sums of float32 columns near 1e6 lose the differences between rows.
    values = how.scaled(rows.values.astype(np.float64))
    entries = values.data if sparse.issparse(values) else values
    largest = float(np.abs(entries).max(initial=0.0))
    if largest > 0:
        entries /= largest  # squares of 1e200 overflow
    mean = np.asarray(values.mean(axis=0)).ravel()
    v = _weighted_sum(values, mean, rng.standard_normal(len(rows)))
    for _ in range(0 if how.random else POWER_STEPS):
        v = _weighted_sum(values, mean, np.asarray(values @ v) - float(mean @ v))
    return how.unscaled(np.asarray(v))


def _weighted_sum(values: Any, mean: Array, weights: Array) -> Array:
    """Return the weighted sum of the centred rows, scaled to unit length."""
    total = np.asarray(values.T @ weights, dtype=np.float64) - mean * weights.sum()
    length = float(np.linalg.norm(total))
    return np.asarray(total / length if length > 0 else total)
