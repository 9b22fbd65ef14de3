"""A model of cells: the machines of all cells of a tree, and the mean of the trees.

A row is predicted by the machine of its cell. Kernels of a distance between dense rows
are evaluated by compiled loops (`backend.loops.cell_values`), in float32 where that
decides the label; the others meet the support vectors cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend import profiles
from corevec.backend.loops.cell_values import Machines, RowsByCell, add_values
from corevec.backend.profiles import FEW_COLUMNS
from corevec.data.sources import Source, stacked
from corevec.kernels import AnyKernel, Kernel, Points, Rows, scale_of
from corevec.models.expansion import KernelExpansion
from corevec.solvers.cells.device_rows import evaluated_on_host
from corevec.solvers.cells.tree import Tree

# Rows predicted at a time: this many per cell, so that the vectors of a cell are used
# often once they are in the cache, but no more than stay in the cache themselves from
# the tree to the cells: with 64 cells 2^14 rows are a tenth faster than 2^17.
_BLOCK_ROWS_PER_CELL, _MIN_BLOCK_ROWS, _MAX_BLOCK_ROWS = 64, 1 << 14, 1 << 17
# Rows that are tried in float32, and the maximal share of them that float32 may leave
# undecided: float32 takes two thirds of the time of float64.
_TRIED_ROWS, _MAX_UNDECIDED = 256, 0.2
# In float32: the unit roundoff, a little more than e^-87 (the smallest exponential),
# and the share of a sum above which its error is not bounded.
_UNIT32, _TINY32, _MAX_ERROR_SHARE = 2.0**-24, 2e-38, 0.05
# The kernels that the compiled loops evaluate.
_COMPILED_CODES = {
    "rbf": profiles.RBF,
    "laplacian": profiles.LAPLACIAN,
    "inverse-distance": profiles.INVERSE_DISTANCE,
}

# Takes values and bounds of their errors; returns which rows they do not decide.
IsUndecided = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Cells:
    """The machines of all cells of one tree, support vectors stacked cell by cell."""

    tree: Tree
    kernel: AnyKernel
    basis: Rows
    coef: Array
    starts: Array  # (n_cells + 1,), first vector of each cell
    intercepts: Array  # (n_cells, outputs)

    @property
    def n_outputs(self) -> int:
        """Number of functions."""
        return int(self.intercepts.shape[1])

    @cached_property
    def points(self) -> Points:
        """All vectors, prepared in the precision of the rows they come from."""
        dtype = getattr(self.basis.values, "dtype", np.float64)
        return self.kernel.prepare_basis(self.basis, dtype)

    @cached_property
    def machines(self) -> Machines:
        """All vectors, prepared for the compiled loops, in that precision."""
        values = self.basis.values
        return centred_machines(
            self.kernel, values, self.coef, self.starts, values.dtype
        )

    @cached_property
    def float32(self) -> Float32Machines:
        """All vectors in float32, for values of which only the sign is needed."""
        return Float32Machines.of(
            self.kernel, self.basis.values, self.coef, self.starts
        )

    @cached_property
    def absent(self) -> Array:
        """Which classes have no rows in a cell: their value is -1 everywhere."""
        used = np.zeros((len(self.starts) - 1, self.n_outputs), dtype=bool)
        cells = np.repeat(np.arange(len(used)), np.diff(self.starts))
        np.logical_or.at(used, cells, self.coef != 0)
        absent = (self.intercepts == -1) & ~used
        return np.asarray(absent & ~absent.all(axis=1, keepdims=True))

    def machine(self, cell: int) -> KernelExpansion:
        """Return the machines of one cell as functions of their own."""
        start, stop = (int(end) for end in self.starts[cell : cell + 2])
        values = rows_between(self.basis.values, start, stop)
        basis = Rows(values, self.basis.index[start:stop])
        intercept = self.intercepts[cell]
        return KernelExpansion(self.kernel, basis, self.coef[start:stop], intercept)

    def __reduce__(self) -> Any:
        own = (self.tree, self.kernel, self.basis, self.coef)
        return Cells, (*own, self.starts, self.intercepts)

    def prepare(self, values: Any) -> None:
        """Prepare the vectors for rows like `values` before threads need them."""
        compiled = is_compiled(self.kernel, self.basis.values, values)
        _ = self.machines if compiled else self.points
        _ = self.absent

    def estimate(self, rows: Rows) -> tuple[Array, Array]:
        """Return values in float32, and bounds of their distance from `evaluate`."""
        cells, n = self.tree.cells_of(rows.values), self.n_outputs
        both = np.zeros((len(rows), 2 * n))
        own = self.float32.machines, rows.values, _by_cell(cells, self.tree.n_cells)
        squares = _add_compiled(self.kernel, *own, both)
        values = self.intercepts[cells] + both[:, :n]
        errors = self.float32.errors(cells, squares, both[:, n:])
        if n > 1:
            absent = self.absent[cells]
            top = np.where(absent, -np.inf, values - errors).max(axis=1)
            # Undecided: `evaluate` may lower the values of absent classes here.
            errors[absent.any(axis=1) & ~(top > -1)] = np.inf
        return values, errors

    def evaluate(self, rows: Rows) -> Array:
        """Return the values of a block of rows, each by the machine of its cell."""
        cells = self.tree.cells_of(rows.values)
        found = self.intercepts[cells]
        by_cell = _by_cell(cells, self.tree.n_cells)
        if is_compiled(self.kernel, self.basis.values, rows.values):
            _add_compiled(self.kernel, self.machines, rows.values, by_cell, found)
        else:
            self._add_by_kernel(rows.values, by_cell, found)
        if self.n_outputs > 1:
            _lower_absent(found, self.absent[cells])
        return found

    def _add_by_kernel(self, values: Any, by_cell: RowsByCell, found: Array) -> None:
        """Add the values of rows at the machines of their cells, cell by cell."""
        order, bounds = by_cell
        x = self.kernel.prepare(Rows(values[order], order), self.points.dtype)
        for cell in np.flatnonzero(np.diff(bounds) * np.diff(self.starts)):
            start, stop = self.starts[cell], self.starts[cell + 1]
            first, last = bounds[cell], bounds[cell + 1]
            own = self.points.part(start, stop), self.coef[start:stop]
            found[order[first:last]] += self.kernel.times(x.part(first, last), *own)


def _lower_absent(values: Array, absent: Array) -> None:
    """Lower the values of classes without rows in a cell where -1 is not low enough.

    Far outside the training rows (mostly with a linear or polynomial kernel) the values
    of all other classes can be below -1, and a class that was never seen in the cell
    would win.
    """
    top = np.where(absent, -np.inf, values).max(axis=1)
    low = np.flatnonzero(top <= -1)
    values[low] = np.where(absent[low], top[low, None] - 1, values[low])


@dataclass(frozen=True)
class Forest:
    """The mean of the machines of several trees."""

    trees: tuple[Cells, ...]

    @property
    def n_vectors(self) -> int:
        """Number of support vectors in all cells of all trees."""
        return sum(len(one.basis) for one in self.trees)

    @property
    def n_bytes(self) -> int:
        """Bytes of support vectors, coefficients and trees."""
        total = 0
        for one in self.trees:
            total += _bytes_of(one.basis.values) + one.coef.nbytes
            total += one.tree.directions.nbytes + one.intercepts.nbytes
        return total

    def in_one_piece(self) -> tuple[Forest, Any, Array]:
        """Return the same forest, its vectors and its coefficients, tree after tree.

        The trees are views of these two arrays: nothing is stored twice.
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
        """Return the function that evaluates a block of rows."""
        return self.evaluate

    def ready_for(self, source: Source) -> Any:
        """Return the function that evaluates a block of rows on a device."""
        return evaluated_on_host(source, self.values)

    def values(self, source: Source) -> Array:
        """Return the mean value of every row, shape (n_rows, outputs)."""
        for one in self.trees:
            source.warm_up(one.prepare)
        return self._in_blocks(source, self.evaluate)

    def values_that_decide(self, source: Source, is_undecided: IsUndecided) -> Array:
        """Return values with the same decisions as `values`, most of them in float32.

        Rows that float32 leaves undecided are evaluated as in `values`.
        """
        can_try = source.draws_cheaply  # some rows are estimated first
        if not can_try or not self._can_estimate(source.block(0, 1).values):
            return self.values(source)
        for one in self.trees:
            source.warm_up(one.prepare)
            _ = one.float32

        def decide(rows: Rows) -> Array:
            found, errors = self._estimate(rows)
            few = np.flatnonzero(is_undecided(found, errors))
            if len(few):
                found[few] = self.evaluate(rows.part(few))
            return found

        tried = self._estimate(source.block(0, min(_TRIED_ROWS, source.n_rows)))
        if np.mean(is_undecided(*tried)) > _MAX_UNDECIDED:
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
        """Return ``score`` of all blocks, stacked, as ``source.map`` does.

        The blocks of rows in memory are large enough for every cell to get some rows.
        """
        n_rows, n_threads = source.n_rows, source.workers.n_threads
        # Each thread holds sorted rows, prepared rows and their values.
        row_bytes = 8 * (3 * source.row_entries + 8) * n_threads
        fit = int(source.memory_budget // (2 * row_bytes))
        wanted = _BLOCK_ROWS_PER_CELL * max(one.tree.n_cells for one in self.trees)
        step = int(np.clip(wanted, _MIN_BLOCK_ROWS, _MAX_BLOCK_ROWS))
        step = min(step, max(fit, 1024), max(1024, -(-n_rows // n_threads)))
        return source.map_blocks(score, step)

    def evaluate(self, rows: Rows) -> Array:
        """Return the mean over the trees for a block of rows."""
        total = self.trees[0].evaluate(rows)
        for one in self.trees[1:]:
            total += one.evaluate(rows)
        return total / len(self.trees)


def rows_between(values: Any, start: int, stop: int) -> Any:
    """Return the rows from `start` up to `stop`, as a view."""
    if not hasattr(values, "indptr"):
        return values[start:stop]
    first, last = values.indptr[start], values.indptr[stop]
    own = values.data[first:last], values.indices[first:last]
    places = values.indptr[start : stop + 1] - first
    part = type(values)((*own, places), shape=(stop - start, values.shape[1]))
    part.data, part.indices = own  # SciPy copies less than half of an array
    return part


def _bytes_of(values: Any) -> int:
    """Return the bytes of dense or CSR rows."""
    if hasattr(values, "indptr"):
        parts = (values.data, values.indices, values.indptr)
        return sum(int(part.nbytes) for part in parts)
    return int(values.nbytes)


# --- Compiled evaluation ---


def is_compiled(kernel: AnyKernel, *values: Any) -> bool:
    """Return whether compiled loops evaluate this kernel on rows of these types."""
    dense = all(isinstance(one, np.ndarray) for one in values)
    return dense and isinstance(kernel, Kernel) and kernel.name in _COMPILED_CODES


def _by_cell(cells: Array, n_cells: int) -> RowsByCell:
    """Return the rows sorted by cell."""
    # With 16 bits NumPy sorts by counting, ten times faster than by comparing.
    short = cells.astype(np.uint16) if n_cells <= 1 << 16 else cells
    order = np.argsort(short, kind="stable")
    counts = np.bincount(cells, minlength=n_cells)
    return RowsByCell(order, np.concatenate([[0], np.cumsum(counts)]))


def _add_compiled(
    kernel: AnyKernel,
    machines: Machines,
    values: Array,
    by_cell: RowsByCell,
    found: Array,
) -> Array:
    """Add the values to `found`; return each row's squared distance to its centre."""
    assert isinstance(kernel, Kernel)
    # Each signature takes seconds to compile: three of the four pairs of precisions
    # suffice, and read-only rows (of a file) are treated like all others.
    wide = np.promote_types(values.dtype, machines.vectors.dtype)
    values = np.ascontiguousarray(_scaled(kernel, values), dtype=wide).view()
    values.flags.writeable = False
    squares = np.zeros(len(values))
    code = _COMPILED_CODES[kernel.name]
    profile = profiles.Profile(code, kernel.gamma, kernel.coef0, float(kernel.degree))
    add_values(values, by_cell, profile, machines, found, squares)
    return squares


def centred_machines(
    kernel: AnyKernel, values: Array, coef: Array, starts: Array, dtype: Any
) -> Machines:
    """Return the support vectors of all cells for the compiled loops, in `dtype`."""
    assert isinstance(kernel, Kernel)
    n_cells, n_columns = len(starts) - 1, values.shape[1]
    centres, same = np.zeros((n_cells, n_columns)), np.zeros((n_cells, n_columns))
    by_difference = np.zeros(n_cells, dtype=bool)
    scale = scale_of(kernel)
    scale = np.ones(n_columns) if scale is None else scale
    parts = []
    for cell, (start, stop) in enumerate(pairwise(starts)):
        if start == stop:
            parts.append(_nothing(dtype))
            continue
        own = _scaled(kernel, values[start:stop]).astype(np.float64)
        alike = (own == own[0]).all(axis=0)
        # Divided before they are summed: a sum of values near 1e308 would overflow.
        centres[cell] = np.where(alike, own[0], (own / len(own)).sum(axis=0))
        same[cell] = alike * scale
        columns = np.flatnonzero(~alike & (scale > 0))
        off = (own - centres[cell])[:, columns] * scale[columns]
        by_difference[cell] = len(columns) <= FEW_COLUMNS
        off = np.column_stack([off, np.zeros(len(off))]).astype(dtype)
        squares = np.einsum("ij,ij->i", off, off, dtype=np.float64)
        # Contiguous outputs, so that the sums over vectors are vectorised.
        parts.append((columns, off.T.ravel(), squares, coef[start:stop].T.ravel()))
    differ, vectors, norms, weights = zip(*parts, strict=True)
    return Machines(
        centres,
        same,
        np.concatenate(differ).astype(np.int64),
        scale[np.concatenate(differ).astype(np.int64)],
        _ends(differ),
        np.concatenate(vectors),
        _ends(vectors),
        np.concatenate(norms).astype(dtype),
        np.concatenate(weights).astype(dtype),
        np.array(starts),
        by_difference,
    )


def _nothing(dtype: Any) -> tuple[Array, ...]:
    """Return the columns, vectors, squares and coefficients of an empty cell."""
    none = np.empty(0, dtype)
    return np.empty(0, np.int64), none, none, none


def _ends(parts: Any) -> Array:
    """Return where each part starts in their concatenation, and its end."""
    return np.concatenate([[0], np.cumsum([len(one) for one in parts])])


def _scaled(kernel: Kernel, values: Array) -> Array:
    """Return rows in the units of the kernel's gamma; a shift changes no distance."""
    exponent = kernel.row_map.exponent
    return np.ldexp(values.astype(np.float64), -exponent) if exponent else values


# --- Values in float32 with bounds of their errors ---


@dataclass(frozen=True)
class Float32Machines:
    """Machines in float32, with bounds of the errors of their values.

    Let u be the unit roundoff, |x| the distance of a row from the centre of its cell
    and |z| that of a vector. Rounding both, their product, the squares and the sum
    moves the squared distance by less than ``(d / 2 + 10) u (|x| + |z|)^2``, including
    gamma and the exponent; a root moves by at most the root of that. The exponential
    (2e-7), the coefficients and the sum over m vectors add ``(m + 8) u``, relative to
    the sum of ``|coef| k``. All values below e^-87 are rounded to that number.
    """

    machines: Machines  # of the coefficients, and of their absolute values
    takes_root: bool  # whether the kernel is a function of the distance, not its square
    rounding: Array  # gamma (d / 2 + 10) u of each cell
    added: Array  # (m + 8) u
    radius: Array  # distance of the farthest vector from the centre
    least: Array  # (n_cells, outputs): the most that values below e^-87 add up to

    @classmethod
    def of(
        cls, kernel: AnyKernel, values: Array, coef: Array, starts: Array
    ) -> Float32Machines:
        """Return the machines of all cells in float32, with their error constants."""
        assert isinstance(kernel, Kernel)
        both = np.concatenate([coef, np.abs(coef)], axis=1)
        machines = centred_machines(kernel, values, both, starts, np.dtype(np.float32))
        n_cells = len(starts) - 1
        cells = np.repeat(np.arange(n_cells), np.diff(starts))
        radius, mass = np.zeros(n_cells), np.zeros((n_cells, coef.shape[1]))
        np.maximum.at(radius, cells, np.sqrt(machines.squares, dtype=np.float64))
        np.add.at(mass, cells, np.abs(coef))
        n_columns = np.diff(machines.column_starts) + 1
        takes_root = kernel.name != "rbf"
        return cls(
            machines,
            takes_root,
            # With a root, the rounding of gamma and of the root itself add 2 u.
            kernel.gamma
            * (n_columns / 2 + 10)
            * _UNIT32
            * (1.1 if takes_root else 1.0),
            (np.diff(starts) + 8) * _UNIT32,
            radius,
            _TINY32 * (1 + mass),
        )

    def errors(self, cells: Array, squares: Array, sums: Array) -> Array:
        """Return bounds of the distance of each value from the one in float64.

        `squares` are the squared distances of the rows from the centres of their cells,
        `sums` those of ``|coef| k``, which are overwritten.
        """
        share = np.sqrt(squares)
        share += self.radius[cells]
        with np.errstate(over="ignore", invalid="ignore"):
            share *= share
            share *= self.rounding[cells]
            if self.takes_root:
                share = np.sqrt(share)
            share += share * share  # e^s - 1 < s + s^2 up to _MAX_ERROR_SHARE
            share += self.added[cells]
            share[~(share < _MAX_ERROR_SHARE)] = np.inf
            # A tenth more: the sums and the values in float64 are rounded, too.
            sums *= 1.1 * share[:, None]
            sums += self.least[cells]
        return sums
