"""What a fit by cells leaves: the machines of all cells, and the mean of the trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import Source, stacked
from corevec.kernels import AnyKernel, Points, Rows
from corevec.solvers.cells.placement import valued_here
from corevec.solvers.cells.predict import (
    Machines,
    Rough,
    add_by_kernel,
    add_by_loops,
    in_order,
    is_compiled,
    machines_of,
    rough_machines,
)
from corevec.solvers.cells.tree import Tree

# Rows predicted at a time: so many for each cell that its vectors, once in the cache,
# are met by, and no more than stay in the cache themselves from the tree to the cells:
# with 64 cells 2^14 rows are a tenth faster than 2^17.
_OF_A_CELL, _FEWEST, _MOST = 64, 1 << 14, 1 << 17
# Rows that are tried in float32, and the share of them that may have to be evaluated
# again: float32 takes two thirds of the time.
_TRIED_ROWS, _MOST_OPEN = 256, 0.2

# From values and bounds of their errors, which rows are not decided.
IsOpen = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Cells:
    """The machines of all cells of one tree, vectors stacked cell after cell."""

    tree: Tree
    kernel: AnyKernel
    basis: Rows
    coef: Array
    starts: Array  # (n_cells + 1,) into the vectors
    intercepts: Array  # (n_cells, outputs)

    @property
    def n_outputs(self) -> int:
        """How many functions there are."""
        return int(self.intercepts.shape[1])

    @cached_property
    def points(self) -> Points:
        """All vectors, prepared in the precision of the rows they come from."""
        dtype = getattr(self.basis.values, "dtype", np.float64)
        return self.kernel.prepare_basis(self.basis, dtype)

    @cached_property
    def machines(self) -> Machines:
        """All vectors, ready for the compiled loops, in that precision."""
        values = self.basis.values
        return machines_of(self.kernel, values, self.coef, self.starts, values.dtype)

    @cached_property
    def rough(self) -> Rough:
        """All vectors in float32, for values of which only the sign is asked."""
        own = self.basis.values, self.coef, self.starts
        return rough_machines(self.kernel, *own)

    @cached_property
    def absent(self) -> Array:
        """The classes that a cell has no row of: what is the same everywhere is -1."""
        used = np.zeros((len(self.starts) - 1, self.n_outputs), dtype=bool)
        cells = np.repeat(np.arange(len(used)), np.diff(self.starts))
        np.logical_or.at(used, cells, self.coef != 0)
        absent = (self.intercepts == -1) & ~used
        return np.asarray(absent & ~absent.all(axis=1, keepdims=True))

    def __reduce__(self) -> Any:
        own = (self.tree, self.kernel, self.basis, self.coef)
        return Cells, (*own, self.starts, self.intercepts)

    def make_ready(self, values: Any) -> None:
        """Prepare the vectors for rows like these, once, before threads ask for it."""
        compiled = is_compiled(self.kernel, self.basis.values, values)
        _ = self.machines if compiled else self.points
        _ = self.absent

    def estimate(self, rows: Rows) -> tuple[Array, Array]:
        """Return the values in float32, and how far each can be from `evaluate`."""
        cells, n = self.tree.cells_of(rows.values), self.n_outputs
        order, bounds = in_order(cells, self.tree.n_cells)
        both = np.zeros((len(rows), 2 * n))
        own = self.rough.machines, rows.values, order, bounds, both
        squares = add_by_loops(self.kernel, *own)
        values = self.intercepts[cells] + both[:, :n]
        errors = self.rough.errors(cells, squares, both[:, n:])
        if n > 1:
            absent = self.absent[cells]
            top = np.where(absent, -np.inf, values - errors).max(axis=1)
            errors[absent.any(axis=1) & ~(top > -1)] = np.inf  # left to `_keep_below`
        return values, errors

    def evaluate(self, rows: Rows) -> Array:
        """Return the values of a block of rows, each by the machine of its cell."""
        cells = self.tree.cells_of(rows.values)
        found = self.intercepts[cells]
        order, bounds = in_order(cells, self.tree.n_cells)
        if is_compiled(self.kernel, self.basis.values, rows.values):
            add_by_loops(self.kernel, self.machines, rows.values, order, bounds, found)
        else:
            own = self.points, self.coef, self.starts
            add_by_kernel(self.kernel, *own, rows.values, order, bounds, found)
        if self.n_outputs > 1:
            _keep_below(found, self.absent[cells])
        return found


def _keep_below(values: Array, absent: Array) -> None:
    """Lower the values of the classes that a cell has no row of, where -1 is too much.

    Far outside (mostly of a linear or polynomial kernel) those of all others can be
    below it: then a class that was never seen there would win.
    """
    top = np.where(absent, -np.inf, values).max(axis=1)
    low = np.flatnonzero(top <= -1)
    values[low] = np.where(absent[low], top[low, None] - 1, values[low])


@dataclass(frozen=True)
class Forest:
    """The average of the machines of several trees."""

    trees: tuple[Cells, ...]

    @property
    def n_vectors(self) -> int:
        """Vectors in all cells of all trees."""
        return sum(len(one.basis) for one in self.trees)

    @property
    def n_bytes(self) -> int:
        """Bytes of vectors, coefficients and trees."""
        total = 0
        for one in self.trees:
            total += _bytes_of(one.basis.values) + one.coef.nbytes
            total += one.tree.directions.nbytes + one.intercepts.nbytes
        return total

    def in_one_piece(self) -> tuple[Forest, Any, Array]:
        """Return the same forest, its vectors and its coefficients, tree after tree.

        The trees are then views of these two: nothing is held twice.
        """
        if len(self.trees) == 1:
            return self, self.trees[0].basis.values, self.trees[0].coef
        values = stacked([one.basis.values for one in self.trees])
        coef = np.concatenate([one.coef for one in self.trees])
        ends = np.cumsum([0, *(len(one.basis) for one in self.trees)])
        trees = [
            replace(
                one,
                basis=replace(one.basis, values=rows_between(values, start, stop)),
                coef=coef[start:stop],
            )
            for one, (start, stop) in zip(self.trees, pairwise(ends), strict=True)
        ]
        return Forest(tuple(trees)), values, coef

    def ready(self) -> Any:
        """Return the function of a block of rows."""
        return self.evaluate

    def ready_for(self, source: Source) -> Any:
        """Return the function of a block of rows on a device."""
        return valued_here(source, self.values)

    def values(self, source: Source) -> Array:
        """Return the mean value of every row, shape (n_rows, outputs)."""
        for one in self.trees:
            source.warm_up(one.make_ready)
        return self._in_blocks(source, self.evaluate)

    def values_that_decide(self, source: Source, is_open: IsOpen) -> Array:
        """Return values that decide as `values` do, most of them in float32.

        `is_open` tells, from values and the bounds of their errors, which rows are not
        decided by them: those are evaluated as in `values`.
        """
        can_try = source.draws_cheaply  # some rows are estimated first
        if not can_try or not self._can_estimate(source.block(0, 1).values):
            return self.values(source)
        for one in self.trees:
            source.warm_up(one.make_ready)
            _ = one.rough

        def decide(rows: Rows) -> Array:
            found, errors = self._estimate(rows)
            few = np.flatnonzero(is_open(found, errors))
            if len(few):
                found[few] = self.evaluate(rows.part(few))
            return found

        some = self._estimate(source.block(0, min(_TRIED_ROWS, source.n_rows)))
        if np.mean(is_open(*some)) > _MOST_OPEN:
            return self._in_blocks(source, self.evaluate)
        return self._in_blocks(source, decide)

    def _can_estimate(self, values: Any) -> bool:
        first = self.trees[0]
        own = first.basis.values
        return is_compiled(first.kernel, own, values) and own.dtype == np.float64

    def _estimate(self, rows: Rows) -> tuple[Array, Array]:
        parts = [one.estimate(rows) for one in self.trees]
        values, errors = (sum(part) / len(parts) for part in zip(*parts, strict=True))
        return np.asarray(values), np.asarray(errors)

    def _in_blocks(self, source: Source, score: Callable[[Rows], Array]) -> Array:
        """Return ``score`` of blocks in which every cell gets some rows, stacked.

        Remote rows keep their own blocks.
        """
        n_rows, n_threads = source.n_rows, source.workers.n_threads
        # Rows in the order of their cells, prepared, and their values, in each thread.
        row_bytes = 8 * (3 * source.row_entries + 8) * n_threads
        fit = int(source.memory_budget // (2 * row_bytes))
        cells = max(one.tree.n_cells for one in self.trees)
        step = min(int(np.clip(_OF_A_CELL * cells, _FEWEST, _MOST)), max(fit, 1024))
        step = min(step, max(1024, -(-n_rows // n_threads)))
        return source.map_blocks(score, step)

    def evaluate(self, rows: Rows) -> Array:
        """Return the mean over the trees for a block of rows."""
        total = self.trees[0].evaluate(rows)
        for one in self.trees[1:]:
            total += one.evaluate(rows)
        return total / len(self.trees)


def rows_between(values: Any, start: int, stop: int) -> Any:
    """Return some rows that follow one another, in the memory they are in."""
    if not hasattr(values, "indptr"):
        return values[start:stop]
    first, last = values.indptr[start], values.indptr[stop]
    own = values.data[first:last], values.indices[first:last]
    places = values.indptr[start : stop + 1] - first
    part = type(values)((*own, places), shape=(stop - start, values.shape[1]))
    part.data, part.indices = own  # SciPy copies what is less than half of an array
    return part


def _bytes_of(values: Any) -> int:
    """Return the bytes of dense or CSR rows."""
    if hasattr(values, "indptr"):
        parts = (values.data, values.indices, values.indptr)
        return sum(int(part.nbytes) for part in parts)
    return int(values.nbytes)


__all__ = ["Cells", "Forest", "IsOpen", "rows_between"]
