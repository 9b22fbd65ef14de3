"""The kernel matrix of a working set: cached within the memory budget, or recomputed.

Products with it are what a Newton step costs. Reading a float32 matrix from memory is
cheaper than computing its values again wherever rows have more than a few columns; half
of it is enough, because it is symmetric.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops import kernels as loops
from corevec.data.sources import Workers
from corevec.kernels import AnyKernel, Points, Rows, finite

# Rows of a tile: 4 MB in float32, large enough for BLAS, small enough to share out.
TILE = 1024
# Up to so many rows the whole matrix is one array: half the code for little memory.
SQUARE_ROWS = 4096
# Share of the memory budget that the cached matrix may take.
CACHED_SHARE = 0.7


class Gram(ABC):
    """``K`` of the rows of a working set, of which products are wanted.

    `leading` rows of it: rows are ordered so that the active ones come first.
    """

    def __init__(self, rows: Rows, kernel: AnyKernel, dtype: Any, workers: Workers):
        self.rows, self.kernel, self.workers = rows, kernel, workers
        self.dtype = np.dtype(dtype)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def can_be_factored(self) -> bool:
        """Whether the matrix is at hand, and small enough for a Cholesky factor."""
        return False

    @abstractmethod
    def times(self, V: Array, leading: int) -> Array:
        """Return ``K[:, :leading] @ V[:leading]`` of the leading rows, in float64."""

    @abstractmethod
    def columns(self, positions: Array) -> Array:
        """Return the columns of K at some positions, shape (n, len(positions))."""

    def block(self, rows: slice, columns: slice, points: Points) -> Array:
        """Return the kernel values of two ranges of rows."""
        left, right = _part(points, rows), _part(points, columns)
        return finite(self.kernel.block(left, right), self.kernel)

    def diagonal(self) -> Array:
        """Return k(x, x) of every row."""
        return np.asarray(self.kernel.diagonal(self.rows), dtype=np.float64)


def make_gram(
    rows: Rows, kernel: AnyKernel, dtype: Any, workers: Workers, memory: float
) -> Gram:
    """Return the matrix of these rows in the way that `memory` bytes allow."""
    n, item = len(rows), np.dtype(dtype).itemsize
    if n <= SQUARE_ROWS and n * n * item <= CACHED_SHARE * memory:
        return SquareGram.of(rows, kernel, dtype, workers)
    n_cached = int(CACHED_SHARE * memory / (TILE * TILE * item))
    return TiledGram(rows, kernel, dtype, workers, n_cached)


class SquareGram(Gram):
    """The whole matrix as one array."""

    values: Array

    @staticmethod
    def of(rows: Rows, kernel: AnyKernel, dtype: Any, workers: Workers) -> SquareGram:
        """Return the matrix of these rows."""
        made = SquareGram(rows, kernel, dtype, workers)
        made._fill()
        return made

    def part(self, few: Array) -> SquareGram:
        """Return the matrix of some of the rows: gathered, not computed."""
        rows = Rows(self.rows.values[few], self.rows.index[few])
        made = SquareGram(rows, self.kernel, self.dtype, self.workers)
        made.values = np.empty((len(few), len(few)), dtype=self.values.dtype)

        def fill(part: slice) -> None:
            loops.gather_rows(self.values, few, part.start, made.values[part])

        list(self.workers.run(fill, _ranges(len(few), 256)))
        return made

    def _fill(self) -> None:
        rows, kernel, dtype, workers = (
            self.rows,
            self.kernel,
            self.dtype,
            self.workers,
        )
        points = kernel.prepare_basis(rows, dtype)
        self.values = np.empty((len(rows), len(rows)), dtype=points.dtype)
        parts = _ranges(len(rows), 512)

        def fill(part: slice) -> None:
            # The lower triangle; its transpose follows.
            block = self.block(part, slice(0, part.stop), points)
            self.values[part, : part.stop] = block
            self.values[: part.stop, part] = block.T

        list(workers.run(fill, parts))

    @property
    def can_be_factored(self) -> bool:
        """Whether a Cholesky factor is affordable."""
        return len(self) <= SQUARE_ROWS

    def times(self, V: Array, leading: int) -> Array:
        """Return the product with the leading rows."""
        K = self.values[:leading, :leading]
        if leading > 1000:
            with self.workers.blas():
                return np.asarray(K @ V[:leading].astype(K.dtype), dtype=np.float64)
        return np.asarray(K @ V[:leading].astype(K.dtype), dtype=np.float64)

    def columns(self, positions: Array) -> Array:
        """Return columns of the matrix."""
        return np.asarray(self.values[:, positions], dtype=np.float64)


class TiledGram(Gram):
    """Tiles on and above the diagonal; each serves for its transpose too.

    The first of them are cached, as many as the memory budget allows; the others are
    computed again in every product.
    """

    def __init__(
        self,
        rows: Rows,
        kernel: AnyKernel,
        dtype: Any,
        workers: Workers,
        n_cached: int,
    ):
        super().__init__(rows, kernel, dtype, workers)
        self.points = kernel.prepare_basis(rows, dtype)
        parts = _ranges(len(rows), TILE)
        self.parts = [_part(self.points, part) for part in parts]
        n = len(parts)
        # By columns: the leading rows, which every product needs, come first.
        self.pairs = [(i, j) for j in range(n) for i in range(j + 1)]
        cached = self.pairs[:n_cached]
        made = workers.run(self._tile, cached)
        self.ranges, self.tiles = parts, dict(zip(cached, made, strict=True))

    def _tile(self, pair: tuple[int, int]) -> Array:
        i, j = pair
        return finite(self.kernel.block(self.parts[i], self.parts[j]), self.kernel)

    def times(self, V: Array, leading: int) -> Array:
        """Return the product with the leading rows, tile by tile."""
        V = V[:leading].astype(self.points.dtype)

        def product(pairs: list[tuple[int, int]]) -> Array:
            out = np.zeros(V.shape)
            for i, j in pairs:
                p, q = _cut(self.ranges[i], leading), _cut(self.ranges[j], leading)
                tile = self.tiles.get((i, j))
                if tile is None:
                    tile = self._tile((i, j))
                tile = tile[: p.stop - p.start, : q.stop - q.start]
                out[p] += tile @ V[q]
                if i != j:
                    out[q] += tile.T @ V[p]
            return out

        inside = [pair for pair in self.pairs if self.ranges[pair[1]].start < leading]
        # Dealt out in turn: tiles at the edge are smaller.
        n_shares = self.workers.n_threads
        shares = [inside[k::n_shares] for k in range(n_shares)]
        return np.asarray(sum(self.workers.run(product, shares)))

    def columns(self, positions: Array) -> Array:
        """Return columns, computed again: few are asked for."""
        few = Rows(self.rows.values[positions], self.rows.index[positions])
        pivots = self.kernel.prepare_basis(few, self.points.dtype)

        def values(part: Points) -> Array:
            return self.kernel.block(part, pivots)

        made = list(self.workers.run(values, self.parts))
        return np.concatenate(made).astype(np.float64)


def _part(points: Points, part: slice) -> Points:
    return points.part(part.start, part.stop)


def _cut(part: slice, stop: int) -> slice:
    return slice(part.start, min(part.stop, stop))


def _ranges(n: int, step: int) -> list[slice]:
    return [slice(s, min(s + step, n)) for s in range(0, n, step)]
