"""Design matrices in basis coordinates: cached where they fit, else recomputed.

The design of a row x in the span of a basis is ``(phi(x), 1)``, with the features phi
of the basis and 1 for the bias. An entry is a row on one side of its problem (a
regression has two sides); its design is ``d = y (phi, 1)``, and 1 for an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, TypeVar

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.backend.arrays import (
    cast,
    dtype_of,
    full,
    is_tensor,
    joined,
    to_device_of,
    to_numpy,
)
from corevec.data.sources import Source, Workers
from corevec.data.sources.budget import rows_within
from corevec.kernels import AnyKernel, Rows
from corevec.models.basis import Basis
from corevec.problems.family import Problem, Terms

Own = TypeVar("Own", bound="Design")

# Rows per task of the thread pool: few enough that 10,000 rows still make several. Of
# designs below NARROW_COLUMNS more, up to MAX_CHUNKS times as many, for a task to be
# worth its dispatch (20,000 rows x 6: 90 us).
CHUNK_ROWS, NARROW_COLUMNS, MAX_CHUNKS = 2048, 64, 16
# Of wide ones fewer: a task has a copy of its rows, and 8 MB are enough for BLAS.
CHUNK_NUMBERS, MIN_CHUNK_ROWS = 1 << 20, 256
# From so many columns on the sum of squares is one matrix, with BLAS on all threads,
# not one for each thread: at 2000 columns each has 32 MB.
ONE_MATRIX_COLUMNS = 1000
# Numbers of design rows that a GPU works on at once: 256 MB of them in float64.
DEVICE_NUMBERS = 1 << 25
# Sums of squares of so few columns are copied from a device to the host: their system
# is solved there before it would be launched on the device.
HOST_COLUMNS = 256
# Square matrices of the basis's size that a solver holds, and bytes of every row.
MATRICES, ROW_BYTES = 5, 64


def size_of(problem: Problem, basis: Basis) -> int:
    """Return the number of variables: weights, bias, offset."""
    return len(basis) + int(problem.has_bias) + int(problem.has_offset)


def capacity(
    source: Source, width: int, dtype: Any = np.float64, reserved: float = 0.0
) -> int:
    """Return how many design rows the memory budget holds."""
    row_bytes = np.dtype(dtype).itemsize * width
    return rows_within(row_budget(source, width, reserved), row_bytes)


def row_budget(source: Source, width: int, reserved: float = 0.0) -> float:
    """Return the bytes of the memory budget for rows to work on, 0.6 of it at most.

    Matrices of the basis come first: its factor and the inverse, two sums of squares, a
    system to solve, and the bytes `reserved` by the caller; and a few numbers of every
    row. An eighth of the budget remains in any case: with fewer rows than vectors
    nothing can be solved. (With a quarter a million rows and 2000 vectors would make
    291 MB of 268.)
    """
    budget = source.working_budget
    rest = source.budget_beside(ROW_BYTES * source.n_rows + reserved)
    rest -= MATRICES * 8 * width**2
    return float(np.clip(rest, budget / 8, 0.6 * budget))


class Design:
    """The design of some rows, and the terms of their entries.

    The entries of all rows on one side follow those on the other. ``design @ w`` is f
    of each row; an offset is one more variable, at the end.
    """

    def __init__(
        self, problem: Problem, workers: Workers, terms: Terms, design: Array | None
    ):
        self.problem, self.workers = problem, workers
        self.terms, self.design = terms, design
        self.n_rows = len(terms.sign) // len(problem.sides)
        self.n_weights = 0 if design is None else design.shape[1]  # with the bias

    def using(self: Own, workers: Workers) -> Own:
        """Return the same design, worked on by these threads."""
        other = copy(self)
        other.workers = workers
        return other

    @property
    def dtype(self) -> Any:
        """Precision of the design."""
        return np.float64 if self.design is None else dtype_of(self.design)

    @property
    def width(self) -> int:
        """Number of variables: weights, bias, offset."""
        return self.n_weights + int(self.problem.has_offset)

    def times(self, v: Array) -> Array:
        """Return ``y f + t`` of all entries."""

        def task(part: slice) -> Array:
            rows = self.rows(part)
            return rows @ cast(to_device_of(v[: self.n_weights], rows), dtype_of(rows))

        values = joined(list(self._run(task, self._slices(self.n_rows, self.width))))
        offset = float(v[-1]) if self.problem.has_offset else 0.0
        both = joined([values] * len(self.problem.sides))
        return self.terms.sign * both + offset

    @property
    def has_tensors(self) -> bool:
        """Whether the rows are on a GPU: then one queue of large tasks serves it."""
        return is_tensor(self.terms.sign)

    def _slices(self, n: int, width: int) -> list[slice]:
        if not self.has_tensors:
            return slices(n, width)
        step = max(MIN_CHUNK_ROWS, DEVICE_NUMBERS // max(width, 1))
        return [slice(s, min(s + step, n)) for s in range(0, n, step)] or [slice(0, 0)]

    def _run(self, task: Callable[[Any], Any], items: Any) -> Iterator[Any]:
        if self.has_tensors:
            return map(task, items)
        return self.workers.run(task, items)

    def take(self, entries: Array) -> Array:
        """Return the design of some entries: y times the row's, 1 for the offset."""
        rows = self.rows(entries % self.n_rows)  # indexed by numbers: a copy
        rows *= cast(self.terms.sign[entries], dtype_of(rows))[:, None]
        if self.problem.has_offset:
            last = full((len(rows), 1), 1.0, rows, dtype_of(rows))
            rows = joined([rows, last], axis=1)
        return rows

    def gram(self, entries: Array, omega: Array) -> tuple[Array, Array]:
        """Return what `sums` does, on the host."""
        matrix, vector = self.sums(entries, omega)
        return to_numpy(matrix), to_numpy(vector)

    def sums(self, entries: Array, omega: Array) -> tuple[Array, Array]:
        """Return ``sum omega d d'`` and ``sum omega p d`` over the entries.

        Those of more than `HOST_COLUMNS` columns stay on the device of the rows.
        """

        def part(few: Array) -> tuple[Array, Array]:
            root = omega[few] ** 0.5
            rows = self.take(few)
            rows *= cast(root, dtype_of(rows))[:, None]
            pull = cast(root * self.terms.target[few], dtype_of(rows))
            return rows, pull @ rows

        return self._sum_of_squares(part, entries, self.width)

    def row_gram(self, few: Array, weight: Array) -> Array:
        """Return ``sum weight d d'`` over some rows, whatever their sides.

        One of more than `HOST_COLUMNS` columns stays on the device of the rows.
        """

        def part(these: Array) -> tuple[Array, Array]:
            rows = self.rows(these)  # indexed by numbers: a copy
            rows *= cast(weight[these] ** 0.5, dtype_of(rows))[:, None]
            return rows, full(self.n_weights, 0.0, rows)

        return self._sum_of_squares(part, few, self.n_weights)[0]

    def _sum_of_squares(
        self, part: Callable[[Array], tuple[Array, Array]], over: Array, width: int
    ) -> tuple[Array, Array]:
        """Return the sums of ``rows.T @ rows`` and of a vector over chunks of `over`.

        One matrix per thread, which BLAS adds to.
        """
        if self.has_tensors:
            return self._sum_on_device(part, over, width)
        chunks = [over[few] for few in slices(len(over), width)]
        threads = min(self.workers.n_threads, max(1, len(chunks)))
        if width >= ONE_MATRIX_COLUMNS:
            threads = 1

        def task(thread: int) -> tuple[Array, Array]:
            matrix, vector = np.zeros((width, width), order="F"), np.zeros(width)
            for few in chunks[thread::threads]:
                rows, along = part(few)
                vector += along
                matrix = _add_square(matrix, rows)
            return matrix, vector

        if threads == 1 and len(chunks) > 1:
            with self.workers.blas():
                matrix, vector = task(0)
        else:
            sums = self.workers.run(task, range(threads))
            matrix, vector = next(sums)
            for more, along in sums:
                matrix += more
                vector += along
        if dtype_of(matrix) == self.dtype:
            _mirror_lower(matrix)  # a square that NumPy makes in float32 is symmetric
        return matrix, vector

    def _sum_on_device(
        self, part: Callable[[Array], tuple[Array, Array]], over: Array, width: int
    ) -> tuple[Array, Array]:
        matrix, vector = full((width, width), 0.0, over), full(width, 0.0, over)
        for some in self._slices(len(over), width):
            rows, along = part(over[some])
            matrix += rows.T @ rows
            vector += along
        if self.n_weights <= HOST_COLUMNS:
            return to_numpy(matrix), to_numpy(vector)
        return matrix, vector

    def transposed_times(self, vectors: Array) -> Array:
        """Return ``design.T @ vectors``; a vector has one number per row."""

        def task(part: slice) -> Array:
            rows = self.rows(part)
            return rows.T @ cast(vectors[part], dtype_of(rows))

        total = np.zeros((self.n_weights, vectors.shape[1]))
        for part in self._run(task, self._slices(self.n_rows, self.width)):
            total += to_numpy(part)
        return total

    def rows(self, part: Any) -> Array:
        """Return the design of some rows."""
        assert self.design is not None
        return self.design[part]


class BasisDesign(Design):
    """The design ``(phi, 1)`` of some rows of a source in the span of a basis.

    Cached where the memory budget holds it, else recomputed, chunk by chunk, whenever
    it is needed: n k kernel values and n k^2 products each time.

    Parameters
    ----------
    index : ndarray
        Numbers of the rows.
    like : BasisDesign, optional
        That of the same rows for another problem, whose cache is shared.
    dtype : dtype
        float32 halves time and memory where a rough result will do.
    """

    def __init__(
        self,
        problem: Problem,
        source: Source,
        basis: Basis,
        index: Array,
        like: BasisDesign | None = None,
        dtype: Any = np.float64,
    ):
        self.source: Source = source.near(index) if like is None else like.source
        source = self.source
        index = source.numbers_on_device(index)
        terms = terms_of(problem, source, basis.kernel, index)
        super().__init__(problem, source.workers, terms, None)
        self.basis, self.index = basis, index
        self._dtype = dtype
        self.n_weights = len(basis) + int(problem.has_bias)
        self.points = basis.points
        if basis.points.dtype != dtype:
            self.points = basis.kernel.prepare_basis(basis.rows, dtype)
        if like is not None:
            self.design = like.design
        elif len(index) <= capacity(source, self.width, dtype):
            self.design = full((len(index), self.n_weights), 1.0, terms.sign, dtype)
            for _ in self._run(self._cache, self._slices(len(index), self.width)):
                pass

    @property
    def dtype(self) -> Any:
        """Precision of the design."""
        return self._dtype

    def rows(self, part: Any) -> Array:
        """Return the design of some rows, cached or recomputed."""
        return self._compute(part) if self.design is None else self.design[part]

    def _cache(self, part: slice) -> None:
        assert self.design is not None
        self.design[part] = self._compute(part)

    def _compute(self, part: Any) -> Array:
        """Return the design of some rows, from their kernel values."""
        k, kernel = len(self.basis), self.basis.kernel
        rows = self.source.pick(self.index[part])
        block = kernel.block(kernel.prepare(rows, self.points.dtype), self.points)
        design = full((len(rows), self.n_weights), 1.0, block, self.dtype)
        design[:, :k] = self.basis.features(cast(block, self.dtype))
        return design


def terms_of(
    problem: Problem,
    source: Source,
    kernel: AnyKernel,
    index: Array,
) -> Terms:
    """Return the terms of some rows' entries, side after side, beside the rows."""

    def task(rows: Rows) -> list[Terms]:
        return [problem.terms(rows, kernel, side) for side in problem.sides]

    found = source.map_rows(task, index, CHUNK_ROWS)
    return Terms.join([part for side in zip(*found, strict=True) for part in side])


def slices(n: int, width: int = NARROW_COLUMNS) -> list[slice]:
    """Return slices that cover n rows; more rows each if narrow, fewer if wide."""
    step = CHUNK_ROWS * min(MAX_CHUNKS, max(1, NARROW_COLUMNS // max(width, 1)))
    step = min(step, max(MIN_CHUNK_ROWS, CHUNK_NUMBERS // max(width, 1)))
    return [slice(s, min(s + step, n)) for s in range(0, n, step)]


def _add_square(matrix: Array, rows: Array) -> Array:
    """Return ``matrix + rows.T @ rows``, in place; in float64 its lower triangle."""
    if rows.dtype == np.float64:
        return np.asarray(
            linalg.blas.dsyrk(1.0, rows.T, beta=1.0, c=matrix, lower=1, overwrite_c=1)
        )
    # In the matrix's order: across it, 1000 columns took 4 ms more.
    matrix += (rows.T @ rows).T
    return matrix


def _mirror_lower(matrix: Array) -> None:
    """Copy the lower triangle to the upper one, some columns at a time."""
    for start in range(0, len(matrix), MIN_CHUNK_ROWS):
        stop = start + MIN_CHUNK_ROWS
        corner = matrix[start:stop, start:stop]
        upper = np.triu_indices(len(corner), 1)
        corner[upper] = corner.T[upper]
        matrix[start:stop, stop:] = matrix[stop:, start:stop].T
