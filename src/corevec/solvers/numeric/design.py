"""Design rows in the span of a basis: kept, or made again when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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

# Rows per task of the thread pool: few enough that 10,000 rows still make several. Of
# narrow designs more, for a task to be worth handing out (20,000 rows x 6: 90 us).
CHUNK, NARROW, MOST_CHUNKS = 2048, 64, 16
# Of wide ones fewer: a task has a copy of its rows, and 8 MB are enough for BLAS.
CHUNK_NUMBERS, FEWEST_ROWS = 1 << 20, 256
# From so many columns on the sum of squares is one matrix, with BLAS on all threads,
# not one for each thread: at 2000 columns each has 32 MB.
WIDE = 1000
# Numbers of design rows that a GPU is given at once: 256 MB of them in float64.
TENSOR_NUMBERS = 1 << 25
# Sums of squares of so few columns are brought here from a device: their system is
# solved here before it would be launched there.
FEW_COLUMNS = 256
MATRICES, ROW_BYTES = 5, 64


def size_of(problem: Problem, basis: Basis) -> int:
    """Return the number of variables: weights, bias, offset."""
    return len(basis) + int(problem.has_bias) + int(problem.has_offset)


def capacity(
    source: Source, width: int, dtype: Any = np.float64, beside: float = 0.0
) -> int:
    """Return how many design rows the memory budget holds."""
    row_bytes = np.dtype(dtype).itemsize * width
    return rows_within(room_for_rows(source, width, beside), row_bytes)


def room_for_rows(source: Source, width: int, beside: float = 0.0) -> float:
    """Return bytes of the budget for rows to work on, 0.6 of it at most.

    Matrices of the vectors come first: the factor of the basis and its inverse, two
    sums of squares, a system to solve, and what else is kept `beside` the rows; and a
    few numbers of every row. An eighth of the budget remains in any case: with fewer
    rows than vectors nothing can be solved. (With a quarter a million rows and 2000
    vectors would make 291 MB of 268.)
    """
    budget = source.working_budget
    rest = source.budget_beside(ROW_BYTES * source.n_rows + beside)
    rest -= MATRICES * 8 * width**2
    return float(np.clip(rest, budget / 8, 0.6 * budget))


class Design:
    """Design rows of some rows, and the terms of their entries.

    The entries of all rows on one side follow those on the other. ``design @ w`` is f
    of each row; an offset is one more variable, at the end.
    """

    def __init__(
        self, problem: Problem, workers: Workers, terms: Terms, design: Array | None
    ):
        self.problem, self.workers = problem, workers
        self.terms, self.design = terms, design
        self.n_rows = len(terms.sign) // len(problem.sides)
        self.signed = 0 if design is None else design.shape[1]

    @property
    def dtype(self) -> Any:
        """Precision of the design."""
        return np.float64 if self.design is None else dtype_of(self.design)

    @property
    def width(self) -> int:
        """Number of variables: weights, bias, offset."""
        return self.signed + int(self.problem.has_offset)

    def times(self, v: Array) -> Array:
        """Return ``y f + t`` of all entries."""

        def task(part: slice) -> Array:
            rows = self.rows(part)
            return rows @ cast(to_device_of(v[: self.signed], rows), dtype_of(rows))

        values = joined(list(self._run(task, self._slices(self.n_rows, self.width))))
        offset = float(v[-1]) if self.problem.has_offset else 0.0
        both = joined([values] * len(self.problem.sides))
        return self.terms.sign * both + offset

    @property
    def lives_elsewhere(self) -> bool:
        """Whether the rows are on a GPU: then one queue of large tasks serves it."""
        return is_tensor(self.terms.sign)

    def _slices(self, n: int, width: int) -> list[slice]:
        if not self.lives_elsewhere:
            return slices(n, width)
        step = max(FEWEST_ROWS, TENSOR_NUMBERS // max(width, 1))
        return [slice(s, min(s + step, n)) for s in range(0, n, step)] or [slice(0, 0)]

    def _run(self, task: Callable[[Any], Any], items: Any) -> Iterator[Any]:
        if self.lives_elsewhere:
            return map(task, items)
        return self.workers.run(task, items)

    def take(self, entries: Array) -> Array:
        """Return the design of some entries: y times the row's, 1 for the offset."""
        rows = self.rows(entries % self.n_rows)  # a copy, by numbers
        rows *= cast(self.terms.sign[entries], dtype_of(rows))[:, None]
        if self.problem.has_offset:
            last = full((len(rows), 1), 1.0, rows, dtype_of(rows))
            rows = joined([rows, last], axis=1)
        return rows

    def gram(self, entries: Array, omega: Array) -> tuple[Array, Array]:
        """Return ``sum omega d d'`` and ``sum omega p d`` over the entries, here."""
        matrix, vector = self.sums(entries, omega)
        return to_numpy(matrix), to_numpy(vector)

    def sums(self, entries: Array, omega: Array) -> tuple[Array, Array]:
        """Return what `gram` does; wide ones stay where the rows live."""

        def part(few: Array) -> tuple[Array, Array]:
            root = omega[few] ** 0.5
            rows = self.take(few)
            rows *= cast(root, dtype_of(rows))[:, None]
            pull = cast(root * self.terms.target[few], dtype_of(rows))
            return rows, pull @ rows

        return self._sum_of_squares(part, entries, self.width)

    def _sum_of_squares(
        self, part: Callable[[Array], tuple[Array, Array]], over: Array, width: int
    ) -> tuple[Array, Array]:
        """Return the sums of ``rows.T @ rows`` and of a vector over chunks of `over`.

        One matrix per thread, which BLAS adds to.
        """
        if self.lives_elsewhere:
            return self._sum_there(part, over, width)
        chunks = [over[few] for few in slices(len(over), width)]
        threads = min(self.workers.n_threads, max(1, len(chunks)))
        if width >= WIDE:
            threads = 1

        def task(thread: int) -> tuple[Array, Array]:
            matrix, vector = np.zeros((width, width), order="F"), np.zeros(width)
            for few in chunks[thread::threads]:
                rows, along = part(few)
                vector += along
                if rows.dtype == np.float64:
                    matrix = linalg.blas.dsyrk(
                        1.0, rows.T, beta=1.0, c=matrix, lower=1, overwrite_c=1
                    )
                else:  # in the matrix's order: across it, 1000 columns took 4 ms more
                    matrix += (rows.T @ rows).T
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
            _mirror_lower(matrix)  # what NumPy squares in float32 is symmetric
        return matrix, vector

    def _sum_there(
        self, part: Callable[[Array], tuple[Array, Array]], over: Array, width: int
    ) -> tuple[Array, Array]:
        matrix, vector = full((width, width), 0.0, over), full(width, 0.0, over)
        for some in self._slices(len(over), width):
            rows, along = part(over[some])
            matrix += rows.T @ rows
            vector += along
        if self.signed <= FEW_COLUMNS:
            return to_numpy(matrix), to_numpy(vector)
        return matrix, vector

    def row_gram(self, few: Array, weight: Array) -> Array:
        """Return ``sum weight d d'`` over some rows, whatever their sides.

        A wide one stays where the rows live.
        """

        def part(these: Array) -> tuple[Array, Array]:
            rows = self.rows(these)  # a copy, by numbers
            rows *= cast(weight[these] ** 0.5, dtype_of(rows))[:, None]
            return rows, full(self.signed, 0.0, rows)

        return self._sum_of_squares(part, few, self.signed)[0]

    def transposed_times(self, vectors: Array) -> Array:
        """Return ``design.T @ vectors``, one column per vector of row numbers."""

        def task(part: slice) -> Array:
            rows = self.rows(part)
            return rows.T @ cast(vectors[part], dtype_of(rows))

        total = np.zeros((self.signed, vectors.shape[1]))
        for part in self._run(task, self._slices(self.n_rows, self.width)):
            total += to_numpy(part)
        return total

    def rows(self, part: Any) -> Array:
        """Return the design rows of some rows."""
        assert self.design is not None
        return self.design[part]


class WorkingRows(Design):
    """Design rows ``(phi, 1)`` in the span of a basis.

    Kept in memory where the budget holds them, else made again, chunk by chunk,
    whenever they are needed. `like` has the same rows for another problem with the
    same design; `dtype` float32 halves time and memory where a rough result will do.
    """

    def __init__(
        self,
        problem: Problem,
        source: Source,
        basis: Basis,
        index: Array,
        like: WorkingRows | None = None,
        dtype: Any = np.float64,
    ):
        self.source: Source = source.near(index) if like is None else like.source
        source = self.source
        index = source.numbers_on_device(index)
        terms = terms_of(problem, source, basis.kernel, index)
        super().__init__(problem, source.workers, terms, None)
        self.basis, self.index = basis, index
        self._dtype = dtype
        self.signed = len(basis) + int(problem.has_bias)
        self.points = basis.points
        if basis.points.dtype != dtype:
            self.points = basis.kernel.prepare_basis(basis.rows, dtype)
        if like is not None:
            self.design = like.design
        elif len(index) <= capacity(source, self.width, dtype):
            self.design = full((len(index), self.signed), 1.0, terms.sign, dtype)
            for _ in self._run(self._keep, self._slices(len(index), self.width)):
                pass

    @property
    def dtype(self) -> Any:
        """Precision of the design."""
        return self._dtype

    def rows(self, part: Any) -> Array:
        """Return the design rows of some rows, kept or made."""
        return self._make(part) if self.design is None else self.design[part]

    def _keep(self, part: slice) -> None:
        assert self.design is not None
        self.design[part] = self._make(part)

    def _make(self, part: Any) -> Array:
        """Return the design of some rows, from their kernel values."""
        k, kernel = len(self.basis), self.basis.kernel
        rows = self.source.pick(self.index[part])
        block = kernel.block(kernel.prepare(rows, self.points.dtype), self.points)
        design = full((len(rows), self.signed), 1.0, block, self.dtype)
        design[:, :k] = self.basis.features(cast(block, self.dtype))
        return design


def terms_of(
    problem: Problem,
    source: Source,
    kernel: AnyKernel,
    index: Array,
) -> Terms:
    """Return the terms of some rows' entries, side after side, where the rows live."""

    def task(rows: Rows) -> list[Terms]:
        return [problem.terms(rows, kernel, side) for side in problem.sides]

    found = source.map_rows(task, index, CHUNK)
    return Terms.join([part for side in zip(*found, strict=True) for part in side])


def slices(n: int, width: int = NARROW) -> list[slice]:
    """Return slices that cover n rows: `CHUNK` each, more of narrow, fewer of wide."""
    step = CHUNK * min(MOST_CHUNKS, max(1, NARROW // max(width, 1)))
    step = min(step, max(FEWEST_ROWS, CHUNK_NUMBERS // max(width, 1)))
    return [slice(s, min(s + step, n)) for s in range(0, n, step)]


def _mirror_lower(matrix: Array) -> None:
    """Copy the lower triangle to the upper one, some columns at a time."""
    for start in range(0, len(matrix), FEWEST_ROWS):
        stop = start + FEWEST_ROWS
        corner = matrix[start:stop, start:stop]
        upper = np.triu_indices(len(corner), 1)
        corner[upper] = corner.T[upper]
        matrix[start:stop, stop:] = matrix[stop:, start:stop].T
