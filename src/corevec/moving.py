"""Basis vectors that move: the objective at the best weights, and its gradient.

See ``pursuit.py`` for the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from corevec.kernels import AnyKernel, Kernel, Points, RowMap, Rows
from corevec.newton import minimise_each
from corevec.problems import Problem, Terms
from corevec.sources import Source, Workers
from corevec.working import Design, slices, terms_of

Array = npt.NDArray[Any]

# While vectors move, weights are solved until no value moves by more than this.
STILL, NEWTON_STEPS = 0.03, 50
# Added to k(b, b) of the moving vectors, which may meet each other.
RIDGE = 1e-6


@dataclass
class Part:
    """Rows that are worked on, mapped for the kernel, with their terms."""

    problems: list[Problem]
    kernel: Kernel  # of mapped rows
    points: Points
    terms: list[Terms]
    workers: Workers
    stands_for: float  # how many rows each is
    v: list[Array] = field(default_factory=list)
    c: Array = field(default_factory=lambda: np.empty((0, 0)))
    pulls: Array = field(default_factory=lambda: np.empty((0, 0)))
    factor: Array = field(default_factory=lambda: np.empty((0, 0)))
    worst: Array = field(default_factory=lambda: np.empty(0))  # violation of each row
    worths: list[float] = field(default_factory=list)  # objective of each problem

    def __len__(self) -> int:
        return len(self.points)

    @property
    def pairs(self) -> list[tuple[Problem, Array]]:
        """Each problem with its weights, bias and offset."""
        return list(zip(self.problems, self.v, strict=True))

    def take(self, few: Array) -> Part:
        """Return the part of these rows."""
        n, sides = len(self), len(self.problems[0].sides)
        entries = np.concatenate([few + side * n for side in range(sides)])
        points = self.kernel.prepare(
            Rows(self.points.values[few], self.points.index[few]), self.points.dtype
        )
        return replace(
            self, points=points, terms=[terms[entries] for terms in self.terms]
        )

    def basis_points(self, B: Array, dtype: Any = None) -> Points:
        """Return vectors made ready for the kernel."""
        rows = Rows(B, np.full(len(B), -1))
        return self.kernel.prepare_basis(rows, dtype or self.points.dtype)

    def block(self, points: Points) -> Array:
        """Return kernel values of the rows and some points."""
        out = np.empty((len(self), len(points)), dtype=self.points.dtype)

        def task(part: slice) -> None:
            out[part] = self.kernel.block(_cut(self.points, part), points)

        # A kernel value is counted as ten products.
        for _ in self.workers.run(task, slices(len(self), 10 * len(points))):
            pass
        return out

    def solve(self, B: Array) -> tuple[float, Array]:
        """Set the best weights for the vectors B; return F(B) and the kernel values."""
        # With 2000 vectors each of these matrices has 32 MB: the old factor goes first,
        # the new one takes the place of G, which is symmetric.
        self.factor = np.empty((0, 0))
        own = self.basis_points(B, np.float64)
        G = self.kernel.block(own, own)
        G[np.diag_indices(len(G))] += RIDGE * float(G.diagonal().max())
        self.factor = linalg.cholesky(
            G.T, lower=True, overwrite_a=True, check_finite=False
        )
        K = self.block(self.basis_points(B))
        inverse = linalg.solve_triangular(
            self.factor,
            np.eye(len(B), order="F"),
            lower=True,
            overwrite_b=True,
            check_finite=False,
        )
        design = self._features(K, inverse)
        k = len(B)
        pairs = zip(self.problems, self.terms, strict=True)
        designs = [Design(one, self.workers, terms, design) for one, terms in pairs]
        starts = [self._start(t, rows, k) for t, rows in enumerate(designs)]
        ratios = [self.stands_for] * len(designs)
        found = minimise_each(designs, starts, ratios, NEWTON_STEPS, STILL)
        weights = [one.v for one in found]
        del found, G
        self.worst = np.full(len(self), -np.inf)
        worths = [self._worth(t, rows, weights[t]) for t, rows in enumerate(designs)]
        self.worths = [value for value, _ in worths]
        self.v = weights
        self.pulls = np.stack([pull for _, pull in worths], axis=1)
        self.c = inverse.T @ np.stack([v[:k] for v in weights], axis=1)
        return sum(self.worths), K

    def _features(self, K: Array, inverse: Array) -> Array:
        bias = int(self.problems[0].has_bias)
        design = np.ones((len(K), K.shape[1] + bias), dtype=K.dtype)
        turned = inverse.T.astype(K.dtype)

        def task(part: slice) -> None:
            design[part, : K.shape[1]] = K[part] @ turned

        for _ in self.workers.run(task, slices(len(K), K.shape[1])):
            pass
        return design

    def _start(self, t: int, rows: Design, k: int) -> Array:
        """Return the last weights, in the coordinates of the present vectors."""
        v = np.zeros(rows.width)
        if self.v:
            old = self.c.shape[0]
            few = min(old, k)
            v[:k] = self.factor[:few].T @ self.c[:few, t]
            v[k:] = self.v[t][old:]
        return v

    def _worth(self, t: int, rows: Design, v: Array) -> tuple[float, Array]:
        """Return the objective at weights v, and ``sum y beta`` of each row."""
        terms, problem = self.terms[t], self.problems[t]
        violation = terms.target - rows.times(v)
        by_side = violation.reshape(len(problem.sides), -1)
        self.worst = np.maximum(self.worst, by_side.max(axis=0))
        excess = np.maximum(violation, 0.0)
        beta = self.stands_for * terms.omega * excess
        offset = float(v[-1]) if problem.has_offset else 0.0
        w = v[:-1] if problem.has_offset else v
        value = float(w @ w) / 2 + problem.price * offset + float(beta @ excess) / 2
        pull = (terms.sign * beta).reshape(len(problem.sides), -1).sum(axis=0)
        return value, pull

    def gradient(self, B: Array, K: Array) -> Array:
        """Return dF/dB at the weights of the last `solve`."""
        active = np.flatnonzero(self.pulls.any(axis=1))
        chunks: list[Any] = [active[part] for part in slices(len(active))]
        if len(active) > len(self) / 2:
            chunks = slices(len(self))  # rows that do not pull cost less than a copy
        values, kernel = self.points.values, self.kernel

        def task(few: Any) -> tuple[Array, Array]:
            dtype = K.dtype
            mixed = (self.pulls[few] @ self.c.T).astype(dtype)
            mixed *= kernel.slope(K[few])
            return mixed.sum(axis=0), np.asarray((values[few].T @ mixed).T)

        pulled, moment = np.zeros(len(B)), np.zeros(B.shape)
        for sums, products in self.workers.run(task, chunks):
            pulled += sums
            moment += products
        own = self.basis_points(B, np.float64)
        mixed = (self.c @ self.c.T) * kernel.slope(kernel.block(own, own))
        pulled, moment = mixed.sum(axis=1) - pulled, mixed @ B - moment
        if kernel.uses_distance:
            moment = 2 * (pulled[:, None] * B - moment)
        return np.asarray(moment)

    def functional_gradient(self, B: Array, at: Array) -> tuple[Array, Array, Array]:
        """Return g at some of the rows, and what is left of their kernel matrix.

        Both beyond the span of B, where ``g`` is zero at the best weights.
        """
        some = self.take(at)
        active = np.flatnonzero(self.pulls.any(axis=1))
        g = np.zeros((len(at), self.pulls.shape[1]))
        chunks = [active[part] for part in slices(len(active))]

        def task(few: Array) -> Array:
            return self.kernel.times(
                some.points, _cut(self.points, few), self.pulls[few]
            )

        for found in self.workers.run(task, chunks):
            g += found
        K = self.kernel.block(some.points, some.points).astype(np.float64)
        if len(B):
            cross = some.block(self.basis_points(B)).astype(np.float64)
            g -= cross @ self.c
            phi = linalg.solve_triangular(
                self.factor, cross.T, lower=True, check_finite=False
            )
            # K -= phi'phi in place: as large as K, a temporary would count.
            K = linalg.blas.dgemm(
                -1.0, phi, phi, beta=1.0, c=K.T, trans_a=True, overwrite_c=True
            )
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
    """Return the rows with these numbers, each standing for so many."""
    rows = source.take(numbers)
    mapped = kernel.row_map(rows.values, np.float32)
    if sparse.issparse(mapped) and _is_better_dense(mapped, source):
        mapped = mapped.toarray()
    plain = replace(kernel, row_map=RowMap())
    points = plain.prepare(Rows(mapped, rows.index), np.float32)
    terms = [terms_of(problem, source, kernel, numbers) for problem in problems]
    return Part(problems, plain, points, terms, source.workers, stands_for)


def _is_better_dense(values: Any, source: Source) -> bool:
    """Whether a part is better held dense: few columns, and it fits the budget.

    A product of CSR rows runs on one thread, entry by entry; the matrix product of
    BLAS is worth it down to about one entry in forty (adult has one in nine).
    """
    size = values.shape[0] * values.shape[1]
    return bool(size <= 40 * values.nnz and 4 * size <= source.memory_budget / 8)
