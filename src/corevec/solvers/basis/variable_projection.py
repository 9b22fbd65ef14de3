"""The objective of basis vectors at their best weights, and its gradient.

For vectors B, ``F(B) = min_w |w|^2/2 + 1/2 sum_e omega_e max(0, p_e - y_e f(x_e))^2``
over the w in their span. At the best weights ``w = sum c_j phi(b_j)`` the gradient of F
is that with the weights held fixed (variable projection, Golub and Pereyra 1973). With
the multipliers ``r_i = y_i omega_i max(0, p_i - y_i f(x_i))``

    dF/db_j = c_j d/db_j [ sum_l c_l k(b_j, b_l) - sum_i r_i k(b_j, x_i) ],

one matrix product more than the kernel values themselves. The rows are worked on by
the device that holds them: only the vectors, their weights, F and its gradient are
copied to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.backend.arrays import (
    add_to_diagonal,
    cast,
    cholesky,
    dtype_of,
    empty,
    full,
    is_tensor,
    joined,
    lower_inverse,
    lower_solved,
    namespace,
    places,
    to_device_of,
    to_numpy,
    without_squares,
)
from corevec.data.sources import Source, Workers
from corevec.kernels import AnyKernel, Kernel, Points, RowMap, Rows
from corevec.problems.family import Problem, Terms
from corevec.solvers.numeric.design import (
    DEVICE_NUMBERS,
    MIN_CHUNK_ROWS,
    NARROW_COLUMNS,
    Design,
    slices,
)
from corevec.solvers.numeric.primal_newton import NewtonSettings, minimise_each
from corevec.solvers.numeric.primal_value import (
    multipliers,
    primal_value,
    row_pulls,
)

# While vectors move, weights are solved until no value moves by more than 0.03.
NEWTON = NewtonSettings(max_steps=50, value_tolerance=0.03)
# Added to k(b, b) of the moving vectors, which may meet each other.
RIDGE = 1e-6
# Numbers of vectors that sparse rows pull at once: 32 MB in float64.
PULLED_NUMBERS = 1 << 22


@dataclass
class Part:
    """Rows that are worked on, mapped for the kernel, with their terms.

    Attributes
    ----------
    kernel : Kernel
        Of mapped rows.
    stands_for : float
        How many rows each of them is.
    device_budget, budget : float
        Bytes that may be used on the device of the rows, and on the host.
    v, c : list of ndarray, ndarray
        Weights, bias and offset of each problem; coefficients of the vectors.
    pulls : ndarray
        ``r_i``, a column per problem.
    factor : ndarray
        Cholesky factor of the vectors' kernel matrix.
    worst : ndarray
        The largest violation of each row.
    worths : list of float
        The objective of each problem.
    """

    problems: list[Problem]
    kernel: Kernel
    points: Points
    terms: list[Terms]
    workers: Workers
    stands_for: float
    device_budget: float
    budget: float
    v: list[Array] = field(default_factory=list)
    c: Array = field(default_factory=lambda: np.empty((0, 0)))
    pulls: Array = field(default_factory=lambda: np.empty((0, 0)))
    factor: Array = field(default_factory=lambda: np.empty((0, 0)))
    worst: Array = field(default_factory=lambda: np.empty(0))
    worths: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.points)

    def biases(self) -> Array:
        """Return the bias of each problem, 0 where it has none."""
        k, pairs = len(self.c), zip(self.problems, self.v, strict=True)
        return np.array([v[k] if one.has_bias else 0.0 for one, v in pairs])

    def offsets(self) -> list[float]:
        """Return the offset of each problem, 0 where it has none."""
        pairs = zip(self.problems, self.v, strict=True)
        return [v[-1] if one.has_offset else 0.0 for one, v in pairs]

    def take_weights(self, other: Part) -> None:
        """Take over the weights of a part of other rows, maybe on another device."""
        self.v, self.c = other.v, to_device_of(to_numpy(other.c), self.points.values)

    def drop_factor(self) -> None:
        """Free the factor of the vectors' kernel matrix."""
        self.factor = np.empty((0, 0))

    def take(self, few: Array, with_pulls: bool = False) -> Part:
        """Return the part of these rows; with their pulls if asked."""
        few = to_device_of(few, self.points.values)
        n, sides = len(self), len(self.problems[0].sides)
        entries = joined([few + side * n for side in range(sides)])
        points = self.kernel.prepare(
            Rows(self.points.values[few], self.points.index[few]), self.points.dtype
        )
        terms = [terms[entries] for terms in self.terms]
        pulls = self.pulls[few] if with_pulls else self.pulls
        return replace(self, points=points, terms=terms, pulls=pulls)

    def basis_points(self, B: Array, dtype: Any = None) -> Points:
        """Return vectors prepared for the kernel, on the device of the rows."""
        B = to_device_of(B, self.points.values)
        rows = Rows(B, full(len(B), -1, B, np.int64))
        points = self.kernel.prepare_basis(rows, dtype or self.points.dtype)
        is_sparse = sparse.issparse(self.points.values)
        return points.for_sparse_products() if is_sparse else points

    def block(self, points: Points) -> Array:
        """Return kernel values of the rows and some points."""
        k = len(points)
        out = empty((len(self), k), self.points.values, self.points.dtype)

        def task(part: slice) -> None:
            out[part] = self.kernel.block(_cut(self.points, part), points)

        # A kernel value is counted as ten products.
        for _ in self._run(task, self._slices(len(self), k, 10 * k)):
            pass
        return out

    @property
    def has_tensors(self) -> bool:
        """Whether the rows are on a device: then one queue of large tasks serves it."""
        return is_tensor(self.points.values)

    def _run(self, task: Callable[[Any], Any], items: Any) -> Iterator[Any]:
        return map(task, items) if self.has_tensors else self.workers.run(task, items)

    def _slices(self, n: int, numbers: int, width: int = NARROW_COLUMNS) -> list[slice]:
        """Return slices of n rows: by `width`; on a device by a row's numbers."""
        if not self.has_tensors:
            return slices(n, width)
        # In float64 an eighth of the device's budget, at most.
        at_once = min(DEVICE_NUMBERS, int(self.device_budget / 64))
        step = max(MIN_CHUNK_ROWS, at_once // max(numbers, 1))
        return [slice(s, min(s + step, n)) for s in range(0, n, step)]

    def solve(self, B: Array) -> tuple[float, Array]:
        """Set the best weights for the vectors B; return F(B) and the kernel values."""
        # With 2000 vectors each of these matrices has 32 MB: the old factor goes first,
        # the new one takes the place of G, which is symmetric.
        self.drop_factor()
        B = to_device_of(B, self.points.values)
        own = self.basis_points(B, np.float64)
        G = self.kernel.block(own, own)
        add_to_diagonal(G, RIDGE * float(G.diagonal().max()))
        self.factor = cholesky(G)
        K = self.block(self.basis_points(B))
        inverse = lower_inverse(self.factor)
        design = self._features(K, inverse)
        k = len(B)
        pairs = zip(self.problems, self.terms, strict=True)
        designs = [Design(one, self.workers, terms, design) for one, terms in pairs]
        starts = [self._start(t, rows, k) for t, rows in enumerate(designs)]
        ratios = [self.stands_for] * len(designs)
        weights = minimise_each(
            designs, starts, ratios, lambda _, __, one: one.v, NEWTON
        )
        del G
        self.worst = full(len(self), -np.inf, K)
        worths = [self._worth(t, rows, weights[t]) for t, rows in enumerate(designs)]
        self.worths = [value for value, _ in worths]
        self.v = weights
        self.pulls = namespace(K).stack([pull for _, pull in worths], axis=1)
        self.c = inverse.T @ to_device_of(np.stack([v[:k] for v in weights], axis=1), K)
        return sum(self.worths), K

    def _features(self, K: Array, inverse: Array) -> Array:
        bias = int(self.problems[0].has_bias)
        k, dtype = K.shape[1], dtype_of(K)
        design = full((len(K), k + bias), 1.0, K, dtype)
        turned = cast(inverse.T, dtype)

        def task(part: slice) -> None:
            design[part, :k] = K[part] @ turned

        for _ in self._run(task, self._slices(len(K), k, k)):
            pass
        return design

    def _start(self, t: int, rows: Design, k: int) -> Array:
        """Return the last weights, in the coordinates of the present vectors."""
        v = np.zeros(rows.width)
        if self.v:
            old = self.c.shape[0]
            few = min(old, k)
            v[:k] = to_numpy(self.factor[:few].T @ self.c[:few, t])
            v[k:] = self.v[t][old:]
        return v

    def _worth(self, t: int, rows: Design, v: Array) -> tuple[float, Array]:
        """Return the objective at weights v, and ``sum y beta`` of each row."""
        terms, problem = self.terms[t], self.problems[t]
        violation = terms.target - rows.times(v)
        by_side, xp = violation.reshape(len(problem.sides), -1), namespace(violation)
        self.worst = xp.maximum(self.worst, xp.max(by_side, axis=0))
        beta, loss = multipliers(terms, violation, self.stands_for)
        return primal_value(problem, v, loss), row_pulls(problem, terms, beta)

    def gradient(self, B: Array, K: Array) -> Array:
        """Return dF/dB at the weights of the last `solve`."""
        B = to_device_of(B, self.points.values)
        is_sparse = sparse.issparse(self.points.values)
        add = self._pulls_by_vectors if is_sparse else self._pulls_by_rows
        pulled, moment = full(len(B), 0.0, B), full(tuple(B.shape), 0.0, B)
        add(K, pulled, moment)
        own = self.basis_points(B, np.float64)
        kernel = self.kernel
        mixed = (self.c @ self.c.T) * kernel.slope(kernel.block(own, own))
        # In place: of text each of these is as large as all vectors.
        found = mixed @ B
        found -= moment
        if kernel.uses_distance:
            found -= (mixed.sum(axis=1) - pulled)[:, None] * B
            found *= -2
        return to_numpy(found)

    def _pulls_by_rows(self, K: Array, pulled: Array, moment: Array) -> None:
        """Add ``sum_i r_i k'(b_j, x_i)`` and the same of the rows themselves."""
        active, numbers = self.pulling(), K.shape[1] + moment.shape[1]
        chunks: list[Any] = [
            active[part] for part in self._slices(len(active), numbers)
        ]
        if len(active) > len(self) / 2:
            # Rows that do not pull cost less than a copy.
            chunks = self._slices(len(self), numbers)
        values = self.points.values

        def task(few: Any) -> tuple[Array, Array]:
            mixed = self._mixed(K[few], few)
            return mixed.sum(axis=0), (values[few].T @ mixed).T

        for sums, products in self._run(task, chunks):
            pulled += sums
            moment += products

    def _pulls_by_vectors(self, K: Array, pulled: Array, moment: Array) -> None:
        """Add the same, some vectors at a time: sparse rows have many columns.

        By rows each part would be as large as all vectors: 156 MB for 1000 of text.
        """
        active = self.pulling()
        turned = self.points.values[active].T
        step = max(1, PULLED_NUMBERS // max(moment.shape[1], 1))

        def task(few: slice) -> None:
            mixed = self._mixed(K[:, few][active], active, few)
            pulled[few] += mixed.sum(axis=0)
            moment[few] += (turned @ mixed).T

        parts = [slice(s, s + step) for s in range(0, len(moment), step)]
        for _ in self._run(task, parts):
            pass

    def _mixed(self, K: Array, rows: Any, vectors: Any = slice(None)) -> Array:
        """Return ``r_i c_j k'`` of some rows and vectors, summed over the problems."""
        mixed = cast(self.pulls[rows] @ self.c[vectors].T, dtype_of(K))
        mixed *= self.kernel.slope(K)
        return mixed

    def pull_from_zero(self) -> None:
        """Set the pulls that rows have where f = 0."""
        self.pulls = namespace(self.points.values).stack(
            [
                self.stands_for
                * (terms.sign * terms.omega * terms.target.clip(min=0.0))
                .reshape(len(problem.sides), -1)
                .sum(axis=0)
                for problem, terms in zip(self.problems, self.terms, strict=True)
            ],
            axis=1,
        )

    def pulling(self) -> Array:
        """Return the positions of the rows that pull in some problem."""
        return places(namespace(self.pulls).any(self.pulls != 0, axis=1))

    def functional_gradient(self, B: Array, at: Array) -> tuple[Array, Array, Array]:
        """Return g at some of the rows, and what is left of their kernel matrix.

        Both beyond the span of B, where ``g`` is zero at the best weights.
        """
        some, active = self.take(at), self.pulling()
        g = full((len(at), self.pulls.shape[1]), 0.0, self.pulls)
        numbers = self.points.values.shape[1]
        chunks = [active[part] for part in self._slices(len(active), numbers)]

        def task(few: Array) -> Array:
            return self.kernel.times(
                some.points, _cut(self.points, few), self.pulls[few]
            )

        for found in self._run(task, chunks):
            g += found
        K = cast(self.kernel.block(some.points, some.points), np.float64)
        if len(B):
            cross = cast(some.block(self.basis_points(B)), np.float64)
            g -= cross @ self.c
            K = without_squares(K, lower_solved(self.factor, cross.T))
        return g, K, some.points.values


def _cut(points: Points, few: Any) -> Points:
    def cut(a: Array | None) -> Array | None:
        return None if a is None else a[few]

    transposed = None if points.transposed is None else points.transposed[:, few]
    if transposed is not None:
        transposed = np.ascontiguousarray(transposed)
    return Points(
        points.values[few],
        points.index[few],
        points.dtype,
        cut(points.squares),
        transposed,
        cut(points.diagonal),
    )


def can_move(kernel: AnyKernel) -> bool:
    """Whether the kernel is smooth in its points, so that these can be moved."""
    return isinstance(kernel, Kernel) and kernel.name == "rbf"


def part_of(
    problems: list[Problem],
    source: Source,
    kernel: Kernel,
    numbers: Array,
    stands_for: float,
) -> Part:
    """Return the rows with these numbers, on their device or on the host.

    Each stands for so many rows.
    """
    rows = source.part(numbers)
    terms = [_terms(problem, rows, kernel) for problem in problems]
    mapped = kernel.row_map(rows.values, np.float32)
    if sparse.issparse(mapped) and _is_better_dense(mapped, source):
        mapped = mapped.toarray()
    plain = replace(kernel, row_map=RowMap())
    points = plain.prepare(Rows(mapped, rows.index), np.float32)
    budgets = source.part_budget(len(numbers)), float(source.memory_budget)
    return Part(problems, plain, points, terms, source.workers, stands_for, *budgets)


def _terms(problem: Problem, rows: Rows, kernel: Kernel) -> Terms:
    return Terms.join([problem.terms(rows, kernel, side) for side in problem.sides])


def _is_better_dense(values: Any, source: Source) -> bool:
    """Whether a part is better dense: few columns, and it fits the memory budget.

    A product of CSR rows runs on one thread, entry by entry; the matrix product of
    BLAS is worth it down to about one entry in forty (adult has one in nine).
    """
    size = values.shape[0] * values.shape[1]
    return bool(size <= 40 * values.nnz and 4 * size <= source.memory_budget / 8)
