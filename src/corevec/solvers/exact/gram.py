"""The kernel matrix of a working set: cached within the memory budget, or recomputed.

Products with it are what a Newton step costs. Reading a float32 matrix from memory is
cheaper than computing its values again wherever rows have more than a few columns; half
of it is enough, because it is symmetric.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import is_tensor, joined, to_device_of, to_numpy
from corevec.backend.loops import kernels as loops
from corevec.backend.loops.symmetric import LEVELS, tile_times, to_levels
from corevec.data.sources import Workers, stacked
from corevec.kernels import AnyKernel, Kernel, Points, Rows, finite
from corevec.solvers.exact.components import Components, Partition
from corevec.solvers.numeric.kernel_matrix import kernel_matrix

# Rows of a tile: 4 MB in float32, large enough for BLAS, small enough to share out.
TILE = 1024
# Rows of a tile that are computed at a time: their values stay in the cache until they
# are copied to where they are kept.
STRIP = 128
# Up to so many rows the whole matrix is one array: half the code for little memory.
SQUARE_ROWS = 4096
# Up to so many vectors BLAS is faster one vector at a time: its matrix products want
# many columns (two at once took 844 us for 1024 rows, one after the other 370 us).
FEW_VECTORS = 4
# Share of the memory budget that the cached matrix may take, and a part of it: the
# coordinates of a preconditioner are then worth more.
CACHED_SHARE, PARTLY_CACHED_SHARE = 0.7, 0.5
# Standard deviation of what rounding a value to one of 65536 levels moves it by.
LEVEL_ERROR = 1.0 / LEVELS / np.sqrt(12.0)
# What this may add to the objective, as a share of the tolerance.
LEVEL_SHARE = 0.05
# The parts of the rows that a tile is between.
Pair = tuple[int, int]


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

    @property
    def can_grow(self) -> bool:
        """Whether rows can be appended."""
        return False

    def extend(self, rows: Rows) -> None:
        """Append rows: the values of the rows so far are not computed again."""
        raise NotImplementedError

    @abstractmethod
    def times(self, V: Array, leading: int) -> Array:
        """Return ``K[:leading, :leading] @ V[:leading]``, in float64."""

    def on_active(self, active: Array) -> Callable[[Array], Array]:
        """Return ``V -> K @ V`` at the rows `active` at least, beyond which V is zero.

        `active` are increasing positions; other rows of the answer mean nothing. What
        does not depend on V is made ready once.
        """
        leading = 1 + int(active[-1])

        def product(V: Array) -> Array:
            out = np.zeros_like(V)
            out[:leading] = self.times(V, leading)
            return out

        return product


def levels_serve(kernel: AnyKernel, n_rows: int, slack: float, tol: float) -> bool:
    """Whether kernel values may be kept in 16 bits until the certificate.

    With the values K + E the solution has the residual Ea, and its objective is too
    large by ``slack |Ea|^2 / 2`` at most, where ``|a|^2 / (2 slack)`` is a part of it:
    by the factor ``n_rows (slack LEVEL_ERROR)^2`` where the errors are independent.
    """
    in_unit_interval = isinstance(kernel, Kernel) and kernel.uses_distance
    added = n_rows * (slack * LEVEL_ERROR) ** 2
    return in_unit_interval and added <= LEVEL_SHARE * tol


def make_gram(
    rows: Rows, kernel: AnyKernel, dtype: Any, workers: Workers, memory: float
) -> Gram:
    """Return the matrix of these rows in the way that `memory` bytes allow.

    The dtype uint16 stands for float32 of which 16 bits are kept, between rows that are
    not few and on the host.
    """
    n, item = len(rows), np.dtype(dtype).itemsize
    if dtype == np.uint16 and (is_tensor(rows.values) or n <= SQUARE_ROWS):
        dtype, item = np.dtype(np.float32), 4
    if is_tensor(rows.values):
        return DeviceGram(rows, kernel, dtype, workers)
    if n <= SQUARE_ROWS and n * n * item <= CACHED_SHARE * memory:
        return SquareGram.of(rows, kernel, dtype, workers)
    n_tiles = -(-n // TILE)
    fits = n_tiles * (n_tiles + 1) / 2 * TILE**2 * item <= CACHED_SHARE * memory
    share = CACHED_SHARE if fits else PARTLY_CACHED_SHARE
    n_cached = int(share * memory / (TILE * TILE * item))
    return TiledGram(rows, kernel, dtype, workers, n_cached)


class SquareGram(Gram):
    """The whole matrix as one array."""

    values: Array

    @classmethod
    def of(cls, rows: Rows, kernel: AnyKernel, dtype: Any, workers: Workers) -> Self:
        """Return the matrix of these rows."""
        made = cls(rows, kernel, dtype, workers)
        made.values = kernel_matrix(rows, kernel, dtype, workers)
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

    @property
    def can_be_factored(self) -> bool:
        """Whether a Cholesky factor is affordable."""
        return len(self) <= SQUARE_ROWS

    def times(self, V: Array, leading: int) -> Array:
        """Return the product with the leading rows."""
        K = self.values[:leading, :leading]
        V = V[:leading].astype(K.dtype)
        if V.shape[1] > FEW_VECTORS:
            return np.asarray(self.workers.product(K, V), dtype=np.float64)
        out = np.empty(V.shape)
        for c, v in enumerate(np.ascontiguousarray(V.T)):
            out[:, c] = self.workers.product(K, v)
        return out


class DeviceGram(Gram):
    """A matrix on the device of its rows: recomputed in every product, never stored.

    There a kernel value costs less than reading it from memory.
    """

    def __init__(self, rows: Rows, kernel: AnyKernel, dtype: Any, workers: Workers):
        super().__init__(rows, kernel, dtype, workers)
        self.points = kernel.prepare(rows, self.dtype)

    def times(self, V: Array, leading: int) -> Array:
        """Return the product with the leading rows."""
        used = np.flatnonzero(V[:leading].any(axis=1))
        return self._product(_part(self.points, slice(0, leading)), V, used)

    def on_active(self, active: Array) -> Callable[[Array], Array]:
        """Return the product with the active rows alone."""
        return _together([(active, self.repeated(active))], self.points.values)

    def repeated(self, few: Array) -> Callable[[Any], Any]:
        """Return the product with the matrix of some rows, of tensors."""
        points = _gathered(self.points, few)
        assert isinstance(self.kernel, Kernel)  # rows on a device have no other
        return self.kernel.repeated(points, points)

    def _product(self, left: Points, V: Array, used: Array) -> Array:
        if len(used) == 0:
            return np.zeros((len(left), V.shape[1]))
        right = _gathered(self.points, used)
        found = self.kernel.times(left, right, np.ascontiguousarray(V[used]))
        return np.asarray(to_numpy(found), dtype=np.float64)


class TiledGram(Gram):
    """Tiles on and above the diagonal; each serves for its transpose too.

    A tile is computed when a product first needs it, and kept while the memory budget
    allows; the others are computed again in every product. Products skip what is
    multiplied by zero alone: of 28,000 rows that a last round works on, half may turn
    out to be inactive, and a quarter of the matrix is then never computed.
    """

    def __init__(
        self,
        rows: Rows,
        kernel: AnyKernel,
        dtype: Any,
        workers: Workers,
        n_cached: int,
        tile: int = TILE,
    ):
        nothing = Rows(rows.values[:0], rows.index[:0])
        super().__init__(nothing, kernel, dtype, workers)
        self.has_levels = self.dtype == np.uint16
        # Of vectors, and of values while they are computed.
        self.precision = np.dtype(np.float32) if self.has_levels else self.dtype
        self.n_cached, self.tile = n_cached, tile
        self.ranges: list[slice] = []
        self.parts: list[Points] = []
        self.pairs: list[Pair] = []
        self.tiles: dict[Pair, Array] = {}
        self.extend(rows)

    @property
    def can_grow(self) -> bool:
        """Whether rows can be appended: always."""
        return True

    def extend(self, rows: Rows) -> None:
        """Append rows as tiles of their own."""
        start = len(self)
        both = [self.rows.values, rows.values] if start else [rows.values]
        index = np.concatenate([self.rows.index, rows.index])
        self.rows = Rows(stacked(both), index)
        for part in _ranges(len(rows), self.tile):
            few = Rows(rows.values[part], rows.index[part])
            self.parts.append(self.kernel.prepare_basis(few, self.precision))
            self.ranges.append(slice(start + part.start, start + part.stop))
            # By columns: the leading rows, which every product needs, come first.
            j = len(self.parts) - 1
            self.pairs += [(i, j) for i in range(j + 1)]

    def times(self, V: Array, leading: int) -> Array:
        """Return the product with the leading rows, tile by tile."""
        vectors = np.ascontiguousarray(V[:leading].T, dtype=self.precision)
        used = self._parts_of(np.flatnonzero(vectors.any(axis=0)))
        inside = [
            (i, j)
            for i, j in self.pairs
            if self.ranges[j].start < leading and (used[i] or used[j])
        ]
        return self._product(vectors, inside)

    def on_active(self, active: Array) -> Callable[[Array], Array]:
        """Return the product with the tiles between active rows."""
        leading, used = 1 + int(active[-1]), self._parts_of(active)
        between = [(i, j) for i, j in self.pairs if used[i] and used[j]]

        def product(V: Array) -> Array:
            vectors = np.ascontiguousarray(V[:leading].T, dtype=self.precision)
            out = np.zeros_like(V)
            out[:leading] = self._product(vectors, between)
            return out

        return product

    def _parts_of(self, rows: Array) -> Array:
        """Return whether each part has any of these rows (increasing positions)."""
        starts = np.array([part.start for part in self.ranges] + [len(self)])
        return np.diff(np.searchsorted(rows, starts)) > 0

    def _product(self, vectors: Array, pairs: list[Pair]) -> Array:
        """Return the product with the matrix of these tiles."""
        missing = [pair for pair in pairs if pair not in self.tiles]
        kept = self._places(missing[: self.n_cached - len(self.tiles)])
        scaled = vectors / self.precision.type(LEVELS) if self.has_levels else vectors

        def product(share: list[Pair]) -> Array:
            out = np.zeros(vectors.shape)
            for pair in share:
                tile = self.tiles.get(pair)
                if tile is None:
                    tile = self._tile(pair, kept.get(pair))
                is_kept = tile.dtype == self.dtype
                self._add_product(tile, pair, scaled if is_kept else vectors, out)
            return out

        # Dealt out in turn, those that have to be computed first.
        ready = [pair for pair in pairs if pair in self.tiles]
        order, n_shares = missing + ready, self.workers.n_threads
        shares = [order[k::n_shares] for k in range(n_shares)]
        found = list(self.workers.run(product, shares))
        self.tiles.update(kept)
        return np.asarray(sum(found)).T

    def _places(self, pairs: list[Pair]) -> dict[Pair, Array]:
        """Return memory for tiles, allocated at once.

        NumPy asks for huge pages where an array is large. Tiles that were allocated one
        by one took longer to be given their memory than to be computed (4 columns: 0.5
        instead of 5 G values/s).
        """
        shapes = [(len(self.parts[i]), len(self.parts[j])) for i, j in pairs]
        ends = np.cumsum([0, *(a * b for a, b in shapes)])
        dtype = self.dtype if self.has_levels else self.parts[0].dtype
        memory = np.empty(int(ends[-1]), dtype=dtype)
        cuts = pairwise(int(end) for end in ends)
        return {
            pair: memory[start:stop].reshape(shape)
            for pair, shape, (start, stop) in zip(pairs, shapes, cuts, strict=True)
        }

    def _tile(self, pair: Pair, out: Array | None) -> Array:
        """Compute a tile, into `out` if it is to be kept."""
        left, right = (self.parts[k] for k in pair)
        if out is None:
            return finite(self.kernel.block(left, right), self.kernel)
        for part in _ranges(len(left), STRIP):
            block = finite(self.kernel.block(_part(left, part), right), self.kernel)
            if self.has_levels:
                to_levels(block, out[part])
            else:
                out[part] = block
        return out

    def _add_product(self, tile: Array, pair: Pair, vectors: Array, out: Array) -> None:
        """Add the product with one tile, and with its transpose off the diagonal."""
        n = vectors.shape[1]
        p, q = (_cut(self.ranges[k], n) for k in pair)
        left, right = (np.ascontiguousarray(vectors[:, part]) for part in (p, q))
        if pair[0] == pair[1]:
            own = tile[: left.shape[1], : left.shape[1]]
            out[:, p] += left @ own.astype(self.precision, copy=False)
            return
        # Sums over one tile in its own precision, over tiles in float64.
        over, under = np.zeros_like(left), np.zeros_like(right)
        tile_times(tile, left, right, over, under)
        out[:, p] += over
        out[:, q] += under


class BlockGram(Gram):
    """The blocks of components, between which values are negligible."""

    def __init__(
        self,
        rows: Rows,
        components: Components,
        dtype: Any,
        workers: Workers,
        memory: float,
    ):
        super().__init__(rows, components.kernels[0], dtype, workers)
        self.components, self.memory = components, memory
        self.blocks: list[Block] = []
        found = components.positions(rows.index)
        self.partition = Partition(found)
        pairs = sum(len(where) ** 2 for where in found)
        for c, where in enumerate(found):
            if len(where) == 0:
                continue
            share = memory * len(where) ** 2 / pairs
            own = components.part(rows, where, c)
            gram = make_gram(own, components.kernels[c], dtype, workers, share)
            self.blocks.append(Block(c, where, gram))

    def times(self, V: Array, leading: int) -> Array:
        """Return the product with the leading rows, block by block."""
        out = np.zeros((leading, V.shape[1]))
        for block in self.blocks:
            stop = int(np.searchsorted(block.where, leading))
            where = block.where[:stop]
            if V[where].any():
                out[where] = block.gram.times(V[where], stop)
        return out

    def on_active(self, active: Array) -> Callable[[Array], Array]:
        """Return the product with the active rows."""
        split = self.partition.split(active)
        parts = [(one, *split[one.component]) for one in self.blocks]
        parts = [(one, own, few) for one, own, few in parts if len(own)]
        on_device = [
            (active[own], one.gram.repeated(few))
            for one, own, few in parts
            if isinstance(one.gram, DeviceGram)
        ]
        if on_device:  # all of them are: blocks have the place of their rows
            return _together(on_device, self.rows.values)
        products = [(one.where, one.gram.on_active(few)) for one, _, few in parts]

        def product(V: Array) -> Array:
            out = np.zeros_like(V)
            for where, own in products:
                if V[where].any():
                    out[where] = own(V[where])
            return out

        return product


def _together(
    products: list[tuple[Array, Callable[[Any], Any]]], like: Any
) -> Callable[[Array], Array]:
    """Return products with blocks on a device as one, which copies vectors once.

    `products` has the positions of each block's rows, and its product with tensors.
    """
    order = np.concatenate([where for where, _ in products])
    ends = np.cumsum([0, *(len(where) for where, _ in products)])

    def product(V: Array) -> Array:
        given = to_device_of(V[order], like)
        parts = [
            one(given[start:stop])
            for (_, one), (start, stop) in zip(products, pairwise(ends), strict=True)
        ]
        out = np.zeros_like(V)
        out[order] = to_numpy(joined(parts))
        return out

    return product


@dataclass(frozen=True)
class Block:
    """The rows of one component in a working set: their positions, and their matrix."""

    component: int
    where: Array
    gram: Gram


def _gathered(points: Points, few: Array) -> Points:
    """Return some of the points, on their device."""
    at = to_device_of(few, points.values)
    squares = None if points.squares is None else points.squares[at]
    diagonal = None if points.diagonal is None else points.diagonal[at]
    return Points(points.values[at], few, points.dtype, squares, None, diagonal)


def _part(points: Points, part: slice) -> Points:
    return points.part(part.start, part.stop)


def _cut(part: slice, stop: int) -> slice:
    return slice(part.start, min(part.stop, stop))


def _ranges(n: int, step: int) -> list[slice]:
    return [slice(s, min(s + step, n)) for s in range(0, n, step)]
