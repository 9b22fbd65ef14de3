"""A low-rank preconditioner of the active rows' system, by Woodbury's formula.

Landmarks are chosen by a randomly pivoted Cholesky factor (Chen, Epperly, Tropp and
Webber 2025) of a random subset of the rows. With ``F`` the coordinates of the rows in
their span, ``K ~ F F' + diag(d)``, d what is left of k(x, x). The system of the active
rows A, ``K_AA + 1 + diag(mu)``, is approximated by ``G G' + diag(d + mu)``, G = (F, 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.backend.arrays import (
    dtype_of,
    is_tensor,
    joined,
    to_device_of,
    to_numpy,
)
from corevec.backend.loops.low_rank import rows_times, rows_transposed_times
from corevec.data.sources import Workers
from corevec.kernels import AnyKernel, Points, Rows
from corevec.solvers.exact.components import Partition
from corevec.solvers.numeric.partial_cholesky import PartialFactor

# The rank grows until the next eigenvalues are this multiple of the ridge: conjugate
# gradients then take ten to twenty iterations, and a larger factor costs more than it
# saves. At most this multiple of the root of the rows: r^2 n for the factor of every
# step, against n^2 per product.
RIDGES, RANK_FACTOR, MOST_RANK = 3.0, 4.0, 1500
# Kernels that fall apart are narrow, and the matrix of a component is mostly computed
# again in every product: one of 16,106 rows of covtype (C = 10) took 41 iterations with
# 508 landmarks and 20 with 1000.
COMPONENT_FACTOR, MOST_COMPONENT_RANK = 8.0, 2500
# Share of the memory budget that the coordinates of all rows may take.
COORDINATES_SHARE = 0.3
# Pivots drawn at a time, and the rows of the subset that they are drawn from. A pivot
# is the landmark of three of its rows at least.
PIVOTS, SUBSET_ROWS, ROWS_PER_PIVOT = 64, 4000, 3
# On a device arithmetic costs less: more landmarks, from more rows.
MOST_DEVICE_RANK, DEVICE_SUBSET_ROWS = 4000, 12_000
# The sum of the scales up to which Woodbury's formula serves in float32.
MOST_SINGLE = 1e5
# Rows whose coordinates one thread computes at a time, or a device.
BLOCK, DEVICE_BLOCK = 1024, 1 << 16


@dataclass(frozen=True)
class Later:
    """The rows that landmarks have to serve in the end: how many, and with how many."""

    n_rows: int
    most: int

    @staticmethod
    def whole(n_rows: int, memory: float) -> Later:
        """Return the most landmarks for a matrix as one."""
        most = min(int(RANK_FACTOR * np.sqrt(n_rows)), MOST_RANK)
        return Later(n_rows, max(1, min(most, _that_fit(n_rows, memory))))

    @staticmethod
    def component(n_rows: int, n_all: int, memory: float) -> Later:
        """Return the most landmarks of a component of `n_all` rows altogether."""
        most = min(int(COMPONENT_FACTOR * np.sqrt(n_rows)), MOST_COMPONENT_RANK)
        return Later(n_rows, max(1, min(most, _that_fit(n_all, memory))))


def _that_fit(n_rows: int, memory: float) -> int:
    """Return how many coordinates of each row fit into their share of the memory."""
    return int(COORDINATES_SHARE * memory / (4 * n_rows))


@dataclass(frozen=True)
class Landmarks:
    """Rows that span the leading eigenvectors of a kernel matrix.

    `n_rows` are the rows that they were chosen from, where these were too few for as
    many landmarks as were wanted; else 0.
    """

    kernel: AnyKernel
    rows: Rows
    n_rows: int = 0

    def is_short_for(self, n: int) -> bool:
        """Whether `n` rows have many more landmarks than these."""
        return 0 < 2 * self.n_rows < n

    @staticmethod
    def choose(
        rows: Rows,
        kernel: AnyKernel,
        ridge: float,
        later: Later,
        rng: np.random.Generator,
    ) -> Landmarks:
        """Return landmarks for a matrix of later rows plus ``ridge`` times one.

        A subset of m rows of n has eigenvalues that are smaller by m/n, so that the
        ridge they are compared with is smaller by as much.
        """
        n, few = len(rows), np.arange(len(rows))
        n_later, rank = later.n_rows, later.most
        most = max(SUBSET_ROWS, ROWS_PER_PIVOT * rank)
        most = DEVICE_SUBSET_ROWS if is_tensor(rows.values) else most
        if n > most:
            few = np.sort(rng.choice(n, most, replace=False))
        rows = Rows(rows.values[to_device_of(few, rows.values)], rows.index[few])
        least = RIDGES * ridge * len(few) / n_later
        if is_tensor(rows.values):
            chosen = _chosen_on_device(rows, kernel, least, n_later, rng)
            values = rows.values[to_device_of(chosen, rows.values)]
            return Landmarks(kernel, Rows(to_numpy(values), rows.index[chosen]))
        m = len(rows)
        points = kernel.prepare(rows, np.float64)

        def columns(positions: Array) -> Array:
            few = Rows(rows.values[positions], rows.index[positions])
            return kernel.block(points, kernel.prepare_basis(few, np.float64))

        diagonal = np.asarray(kernel.diagonal(rows), dtype=np.float64)
        factor = PartialFactor(
            columns, diagonal, max(1, min(rank, m // ROWS_PER_PIVOT))
        )
        while factor.can_grow:
            most = min(PIVOTS, factor.n_left, int(np.count_nonzero(factor.left)))
            share = factor.left / factor.left.sum()
            new = factor.add(np.sort(rng.choice(m, most, replace=False, p=share)))
            # |F_j|^2 of the latest columns estimates the next eigenvalues.
            if np.einsum("ij,ij->", new, new) < least * len(new):
                break
        chosen = factor.chosen
        n_rows = m if m // ROWS_PER_PIVOT <= len(chosen) < rank else 0
        own = Rows(rows.values[chosen], rows.index[chosen])
        return Landmarks(kernel, own, n_rows)

    @cached_property
    def points(self) -> Points:
        """The landmarks, prepared for blocks of kernel values."""
        return self.kernel.prepare_basis(self.rows, np.float32)

    @cached_property
    def to_coordinates(self) -> Array:
        """The transposed inverse of the factor of the landmarks' own matrix."""
        own = self.kernel.prepare(self.rows, np.float64)
        K = np.array(self.kernel.block(own, own), dtype=np.float64)
        base, jitter = K.diagonal().copy(), 1e-12 * float(K.diagonal().max(initial=0))
        while True:
            K[np.diag_indices_from(K)] = base + jitter
            try:
                factor = linalg.cholesky(K, lower=True, check_finite=False)
                break
            except linalg.LinAlgError:  # equal rows: raise the ridge, never crash
                jitter = max(10 * jitter, 1e-300)
        inverse = linalg.solve_triangular(
            factor, np.eye(len(K)), lower=True, check_finite=False
        )
        return np.ascontiguousarray(inverse.T, dtype=np.float32)

    def coordinates(self, rows: Rows, workers: Workers, out: Array) -> None:
        """Write ``F`` of some rows, float32, to `out`: (len(rows), landmarks)."""
        prepared, to_coordinates = self.points, self.to_coordinates

        def fill(start: int) -> None:
            part = slice(start, start + BLOCK)
            few = Rows(rows.values[part], rows.index[part])
            values = self.kernel.block(self.kernel.prepare(few, np.float32), prepared)
            np.matmul(values, to_coordinates, out=out[part])

        list(workers.run(fill, range(0, len(rows), BLOCK)))


class Preconditioner(Protocol):
    """What approximates the inverse of a system of active rows."""

    def inverse(
        self, active: Array, mu: Array, has_bias: bool
    ) -> Callable[[Array], Array]:
        """Return the approximate inverse for the rows `active`, of ridges `mu`."""


def _chosen_on_device(
    rows: Rows, kernel: AnyKernel, least: float, n_later: int, rng: np.random.Generator
) -> Array:
    """Return the positions of landmarks among some rows on a device."""
    from corevec.backend.gpu.preconditioner import Draws, chosen_landmarks

    most = min(int(RANK_FACTOR * np.sqrt(n_later)), MOST_DEVICE_RANK)
    draws = Draws(max(1, min(most, len(rows) // ROWS_PER_PIVOT)), rng)
    points = kernel.prepare(rows, np.float64)
    diagonal = kernel.diagonal(rows)
    return to_numpy(
        chosen_landmarks(_tensor_block(kernel), points.values, diagonal, least, draws)
    )


def _tensor_block(kernel: AnyKernel) -> Callable[[Any, Any], Any]:
    """Return the kernel as a function of two tensors of prepared rows."""
    nothing = np.empty(0, dtype=np.int64)

    def block(X: Any, Z: Any) -> Any:
        left, right = (Points(one, nothing, dtype_of(one)) for one in (X, Z))
        return kernel.block(left, right)

    return block


def on_device(landmarks: Landmarks, rows: Rows) -> Preconditioner:
    """Return low rank plus cells, on the device of the rows."""
    from corevec.backend.gpu.preconditioner import LowRankAndCells  # needs torch

    kernel = landmarks.kernel
    points = kernel.prepare(rows, np.float32)
    spanning = landmarks.points.to_device_of(points)
    to_coordinates = to_device_of(landmarks.to_coordinates, points.values)
    parts = [
        kernel.block(points.part(s, s + DEVICE_BLOCK), spanning) @ to_coordinates
        for s in range(0, len(points), DEVICE_BLOCK)
    ]
    features = joined(parts)

    return LowRankAndCells(_tensor_block(kernel), points.values, features)


@dataclass(frozen=True)
class Blocks:
    """The preconditioners of components, which only the bias couples.

    `factors` has one for each component with rows; `partition` says which these are.
    """

    factors: dict[int, Preconditioner]
    partition: Partition

    def inverse(
        self, active: Array, mu: Array, has_bias: bool
    ) -> Callable[[Array], Array]:
        """Return the approximate inverse of the system of the rows `active`."""
        split = self.partition.split(active)
        parts = [(one, *split[c]) for c, one in self.factors.items()]
        parts = [(one, own, rows) for one, own, rows in parts if len(own)]
        solve = self._solver(parts, mu)
        return _with_bias(solve, len(active)) if has_bias else solve

    def _solver(
        self, parts: list[tuple[Any, Array, Array]], mu: Array
    ) -> Callable[[Array], Array]:
        """Return the approximate inverse, of components and their rows."""
        inverses = [
            (own, one.inverse(rows, mu[own], has_bias=False))
            for one, own, rows in parts
        ]

        def solve(r: Array) -> Array:
            out = np.empty_like(r)
            for own, inverse in inverses:
                out[own] = inverse(r[own])
            return out

        return solve


class DeviceBlocks(Blocks):
    """Preconditioners of components on a device, which are applied together."""

    def _solver(
        self, parts: list[tuple[Any, Array, Array]], mu: Array
    ) -> Callable[[Array], Array]:
        from corevec.backend.gpu.preconditioner import Inverses, Part  # needs torch

        return Inverses([Part(*one) for one in parts], mu, has_bias=False)


def _with_bias(solve: Callable[[Array], Array], n: int) -> Callable[[Array], Array]:
    """Return the inverse of ``P + 1 1'``, given that of P (Sherman and Morrison)."""
    v = solve(np.ones(n))
    whole = 1.0 + float(v.sum())
    return lambda r: (u := solve(r)) - v * (float(u.sum()) / whole)


class LowRank:
    """``F`` of all rows of a working set, and what it leaves of k(x, x)."""

    def __init__(self, landmarks: Landmarks, rows: Rows, workers: Workers):
        self.landmarks, self.workers = landmarks, workers
        self.left = np.empty(0)
        self._reserved = np.empty((0, len(landmarks.rows)), dtype=np.float32)
        self.extend(rows)

    @property
    def features(self) -> Array:
        """``F`` of the rows."""
        return self._reserved[: len(self.left)]

    def extend(self, rows: Rows) -> None:
        """Add rows to the working set."""
        before, n = len(self.left), len(self.left) + len(rows)
        if n > len(self._reserved):
            # Twice the rows: pages that are never written to take no memory, and what
            # is there is rarely copied (both at once were half of a small budget).
            larger = np.empty((2 * n, self._reserved.shape[1]), dtype=np.float32)
            larger[:before] = self.features
            self._reserved = larger
        new = self._reserved[before:n]
        self.landmarks.coordinates(rows, self.workers, new)
        own = np.asarray(self.landmarks.kernel.diagonal(rows), dtype=np.float64)
        left = np.maximum(own - np.einsum("ij,ij->i", new, new), 0)
        self.left = np.concatenate([self.left, left])

    def inverse(
        self, active: Array, mu: Array, has_bias: bool
    ) -> Callable[[Array], Array]:
        """Return the approximate inverse of the system of the rows `active`.

        `active` are positions, `mu` the ridge of each.
        """
        diagonal = self.left[active] + mu
        solve = Inverse(self.features, active, diagonal, self.workers)
        return _with_bias(solve, len(active)) if has_bias else solve


class Inverse:
    """``(F F' + diag(e))^-1`` of some rows of F, as an operator on vectors."""

    def __init__(self, F: Array, rows: Array, diagonal: Array, workers: Workers):
        self.F, self.rows, self.workers = F, rows, workers
        self.scale = 1.0 / diagonal
        inner = self._inner()
        jitter = 0.0
        while True:
            inner[np.diag_indices_from(inner)] += 1.0 + jitter
            try:
                self.factor = linalg.cho_factor(inner, lower=True, check_finite=False)
                return
            except linalg.LinAlgError:  # float32 sums: raise the ridge, never crash
                inner[np.diag_indices_from(inner)] -= 1.0 + jitter
                jitter = max(10 * jitter, 1e-6 * float(np.abs(inner).max()))

    def _inner(self) -> Array:
        """Return ``F' diag(1/e) F``, summed over blocks of rows."""
        roots = np.sqrt(self.scale)
        # What the leading directions leave is a difference of 1 in about the sum of
        # the scales: beyond float32's digits it would come out with any sign.
        is_wide = self.scale.sum() > MOST_SINGLE
        dtype: Any = np.float64 if is_wide else np.float32

        def share(part: slice) -> Array:
            total = np.zeros((self.F.shape[1], self.F.shape[1]))
            for start in range(part.start, part.stop, BLOCK):
                block = slice(start, min(start + BLOCK, part.stop))
                rooted: Array = self.F[self.rows[block]].astype(dtype)
                rooted *= roots[block, None].astype(dtype)
                total += rooted.T @ rooted
            return total

        return np.asarray(sum(self.workers.run(share, self._shares)))

    @property
    def _shares(self) -> list[slice]:
        return self.workers.shares(len(self.rows))

    def __call__(self, r: Array) -> Array:
        """Return the product with one vector."""
        u = self.scale * r

        def project(part: slice) -> Array:
            out = np.zeros(self.F.shape[1])
            rows_transposed_times(self.F, self.rows[part], u[part], out)
            return out

        inner = np.asarray(sum(self.workers.run(project, self._shares)))
        w = linalg.cho_solve(self.factor, inner, check_finite=False)
        spanned = np.empty(len(r))

        def span(part: slice) -> None:
            rows_times(self.F, self.rows[part], w, spanned[part])

        list(self.workers.run(span, self._shares))
        return np.asarray(u - self.scale * spanned)
