r"""Reduced sets: the functions of many vectors, nearly, by few.

Burges and Schoelkopf (1997) replace ``f = sum_i a_i phi(x_i)`` by
``f' = sum_j c_j phi(b_j)`` with few vectors b_j that need be no rows. Here several
outputs t share the vectors, and

    J(b) = min_c sum_t |f_t - f'_t|^2 / |f_t|^2

is minimised in three steps:

1. choose rows of the expansion one after the other, each time the one whose addition
   lowers J most (orthogonal least squares, exact on the candidates). Where vectors can
   move, a few random choices compete with it. (The fixed-point iteration, one vector
   after the other, is a worse start: 0.24 against 0.018 after step 2 for 20 vectors of
   an SVC on two moons, where the vectors it finds lie close together.)
2. move all of them together by L-BFGS, where the kernel has a gradient: the
   coefficients are solved for at each evaluation, so that the gradient is that at fixed
   coefficients (variable projection, Golub and Pereyra 1973; envelope theorem). Where
   the expansion is long, the functions that agree with it on a few thousand of its rows
   stand for it, and only the last steps are made with all of them;
3. solve for the coefficients once more, and measure the distance.

Where the rows have so many columns that vectors cannot move within the budget, vectors
along the first moments of the expansion (``moments.py``) compete with the rows: by what
each is expected to be off at a new row, since the distance counts f's peaks at its own
rows, which new rows do not see.

Each evaluation costs two products of (vectors x columns) and (columns x basis), in
blocks. For k = u(s), with s the inner product or the squared distance,

    dJ/db_j = 2 sum_l v_jl dk(b_j, b_l) - 2 sum_i w_ij dk(x_i, b_j)

with ``w = A C'`` and ``v = C C'`` of coefficients scaled by 1/|f_t|.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, optimize, sparse

from corevec._runtime.types import Array
from corevec.data.sources import Workers
from corevec.exceptions import KernelError
from corevec.kernels import AnyKernel, Kernel, Points, RowMap, Rows, finite
from corevec.models.basis import (
    RANK_THRESHOLD,
    Basis,
    basis_of_rows,
    free_vectors,
    rows_at,
)
from corevec.models.expansion import KernelExpansion
from corevec.solvers.compression.moments import error_at_new, moments_of
from corevec.solvers.numeric.jitter import with_jitter
from corevec.solvers.numeric.partial_cholesky import PartialFactor

# The last steps, this share, are made with all rows: with 30,000 of them, 784 columns
# and 500 vectors each costs some 5e10 products.
LAST_STEPS_SHARE = 0.1
# Added to the diagonal of the basis's kernel matrix, relative to its largest entry,
# while vectors move: two of them may meet.
RIDGE = 1e-10
# L-BFGS stores this many past steps; with the vectors themselves, their gradient and
# work arrays it takes about three times as many arrays of the basis's size.
PAST_STEPS = 10
# Random choices beside the greedy one, and the share of the iterations after which the
# best is known: J of six random starts differs by 5 %, and some beat the greedy choice.
RANDOM_STARTS, TRIAL_SHARE = 2, 0.2
# Mean square at new rows, of functions of norm 1, that is as good as none: the kernel
# is so narrow that new rows are out of reach of all vectors.
NEGLIGIBLE_ERROR = 1e-12


@dataclass(frozen=True)
class Reduced:
    """Functions in few vectors, their distance from the given ones, and norms."""

    functions: KernelExpansion
    distance: Array  # |f_t - f'_t| in the feature space
    norm: Array  # |f_t|, the intercept apart


@dataclass(frozen=True)
class Budget:
    """What the work may use.

    `candidates` are the rows of the expansion that may become basis vectors, and that
    stand for all of them while vectors move: a random part, drawn with the chance of
    their coefficients, where there are more.
    """

    workers: Workers
    memory: int
    max_iter: int
    candidates: int = 4000


def reduce_expansion(
    functions: KernelExpansion, size: int, budget: Budget, rng: np.random.Generator
) -> Reduced:
    """Return functions of `size` vectors close to the given ones.

    The functions come back unchanged where they have no more than `size` vectors.
    Raises `KernelError` where the kernel is not positive definite: then there is no
    distance.
    """
    kernel, rows = functions.kernel, functions.basis
    values = _own_values(functions, budget)
    norm_sq = np.einsum("it,it->t", functions.coef, values)
    norm = np.sqrt(np.maximum(norm_sq, 0.0))
    if size >= len(rows):
        return Reduced(functions, np.zeros(len(norm)), norm)
    if (norm_sq < 0).any() or kernel.name == "sigmoid":
        raise _indefinite(kernel)
    scale = _inverse(norm)
    scaled = KernelExpansion(kernel, rows, functions.coef * scale, np.zeros(len(norm)))
    some = _drawn(scaled, max(budget.candidates, 2 * size), rng)
    start = _best_rows(rows_at(rows, some), kernel, values[some] * scale, size)
    rows_kept = _solved(functions, start, norm_sq, budget)
    if budget.max_iter == 0 or not _has_gradient(kernel):
        return rows_kept.reduced
    if not _moves_fit(scaled, size, budget):
        return _for_new_rows(functions, values, rows_kept, size, budget, rng)
    moved = _moved(scaled, some, values[some] * scale, start, budget, rng)
    fits = [rows_kept.reduced, _solved(functions, moved, norm_sq, budget).reduced]
    return min(fits, key=lambda fit: float(((fit.distance * scale) ** 2).sum()))


def _for_new_rows(
    functions: KernelExpansion,
    values: Array,
    rows_kept: _Solved,
    size: int,
    budget: Budget,
    rng: np.random.Generator,
) -> Reduced:
    """Return rows, or vectors along the moments if these should be nearer at new rows.

    `values` are those of the functions at their own rows.
    """
    norm = rows_kept.reduced.norm
    scale = _inverse(norm)
    scaled = replace(functions, coef=functions.coef * scale)
    moments = moments_of(scaled, size, budget.memory, rng)
    if moments is None:
        return rows_kept.reduced
    try:
        along = _solved(functions, moments.vectors, norm**2, budget)
    except KernelError:  # positive definite on the rows, not between them
        return rows_kept.reduced
    most = int(budget.memory / (32 * size))
    count = min(len(values), budget.candidates, max(size, most))
    some = np.sort(rng.choice(len(values), count, replace=False))

    def error(fit: _Solved, own: Array | None) -> float:
        coef = fit.reduced.functions.coef * scale
        return error_at_new(scaled, values * scale, some, fit.basis, coef, own)

    of_rows = error(rows_kept, None)
    largest = float(scaled.kernel.diagonal(scaled.basis).max())
    if of_rows <= NEGLIGIBLE_ERROR * largest or of_rows <= error(along, moments.own):
        return rows_kept.reduced
    return along.reduced


def _inverse(norm: Array) -> Array:
    return np.where(norm > 0, 1.0 / np.where(norm > 0, norm, 1.0), 0.0)


def _moved(
    scaled: KernelExpansion,
    some: Array,
    values: Array,
    start: Rows,
    budget: Budget,
    rng: np.random.Generator,
) -> Rows:
    """Return the vectors that L-BFGS finds.

    `values` are the scaled functions at the rows `some` of their expansion.
    """
    size, n_rows = len(start), len(scaled.basis)
    random = [
        rows_at(scaled.basis, _drawn(scaled, size, rng)) for _ in range(RANDOM_STARTS)
    ]
    if len(some) == n_rows or 8 * len(some) ** 2 > budget.memory:
        return moving(scaled, size, budget).best_of([start, *random])
    thin = _through(values, rows_at(scaled.basis, some), scaled.kernel)
    moved = moving(thin, size, budget).best_of([start, *random])
    last = max(1, int(LAST_STEPS_SHARE * budget.max_iter))
    return moving(scaled, size, replace(budget, max_iter=last)).best_of([moved])


def _through(values: Array, rows: Rows, kernel: AnyKernel) -> KernelExpansion:
    """Return functions of `rows` that have these values at the rows.

    They are the projection of any functions with those values on the rows' span.
    """
    points = kernel.prepare_basis(rows)
    system = finite(kernel.block(points, points), kernel)
    # Ten times the threshold of a basis: it is a stand-in, and must factor.
    system[np.diag_indices(len(system))] += 1e-8 * float(system.diagonal().max())
    factor = linalg.cho_factor(system, lower=True, overwrite_a=True)
    coef = linalg.cho_solve(factor, values)
    return KernelExpansion(kernel, rows, coef, np.zeros(coef.shape[1]))


def _indefinite(kernel: AnyKernel) -> KernelError:
    return KernelError(
        f"the {kernel.name} kernel is not positive definite on the model's vectors, so "
        "there is no distance between functions to make small. Fit the model with "
        "kernel='rbf', 'linear' or 'poly' (coef0 >= 0)."
    )


def _parts(rows: Rows, step: int) -> list[slice]:
    return [slice(s, s + step) for s in range(0, len(rows), step)]


def _own_values(functions: KernelExpansion, budget: Budget) -> Array:
    """Return ``K A``: the functions on their own vectors, without intercept.

    Each block above the diagonal serves twice.
    """
    kernel, rows, coef = functions.kernel, functions.basis, functions.coef
    parts, out = _parts(rows, 1024), np.zeros(functions.coef.shape)
    for j, part in enumerate(parts):
        own = kernel.prepare_basis(rows_at(rows, part))

        def products(
            other: slice, part: slice = part, own: Points = own
        ) -> tuple[Array, Array]:
            block = kernel.block(kernel.prepare(rows_at(rows, other)), own)
            return block @ coef[part], block.T @ coef[other]

        results = budget.workers.run(products, parts[: j + 1])
        for other, (along, back) in zip(parts[: j + 1], results, strict=True):
            out[other] += along
            if other != part:
                out[part] += back
    return finite(out, kernel)


def _best_rows(few: Rows, kernel: AnyKernel, values: Array, size: int) -> Rows:
    """Return the rows that lower the distance most, one by one.

    `values` are those of the scaled functions at the rows. With r the part of the
    functions that the rows so far leave, and delta_i^2 what they leave of k(x_i, x_i),
    adding row i gains ``sum_t r_t(x_i)^2 / delta_i^2``.
    """
    points, left = kernel.prepare_basis(few), values.copy()

    def columns(positions: Array) -> Array:
        one = kernel.prepare_basis(rows_at(few, positions))
        return kernel.block(one, points).T

    factor = PartialFactor(columns, kernel.diagonal(few), size)
    while factor.can_grow:
        open_ = factor.left > 0
        gain = np.full(len(few), -1.0)
        gain[open_] = (left[open_] ** 2).sum(axis=1) / factor.left[open_]
        best = int(np.argmax(gain))
        new = factor.add(np.array([best]))
        if len(new):
            left -= np.outer(new, left[best] / new[0, best])
    return rows_at(few, factor.chosen)


def _drawn(scaled: KernelExpansion, size: int, rng: np.random.Generator) -> Array:
    """Return positions of rows, drawn with the chance of their coefficients."""
    rows = scaled.basis
    if size >= len(rows):
        return np.arange(len(rows))
    own = np.sqrt(np.maximum(scaled.kernel.diagonal(rows), 0.0))
    worth = np.abs(scaled.coef).sum(axis=1) * own
    worth += 1e-9 * worth.max() + 1e-300
    share = worth / worth.sum()
    return np.sort(rng.choice(len(rows), size, replace=False, p=share))


class _Solved(NamedTuple):
    reduced: Reduced
    basis: Basis


def _solved(
    functions: KernelExpansion, vectors: Rows, norm_sq: Array, budget: Budget
) -> _Solved:
    """Return the functions in the span of `vectors` nearest to the given ones."""
    kernel = functions.kernel
    basis, is_definite = basis_of_rows(vectors, kernel, budget.workers, RANK_THRESHOLD)
    if basis is None or not is_definite:
        raise _indefinite(kernel)
    pull = _pull(functions, basis.points, budget)
    coef = basis.coefficients(basis.features(pull.T).T)
    among = kernel.block(basis.points, basis.points)
    # Not by the solution's identity but for these very coefficients, rounded as they
    # are: what is reported is the distance of what is returned.
    gap = norm_sq - 2 * np.einsum("jt,jt->t", coef, pull)
    gap += np.einsum("jt,jt->t", coef, among @ coef)
    found = KernelExpansion(kernel, basis.rows, coef, functions.intercept)
    norm = np.sqrt(np.maximum(norm_sq, 0.0))
    return _Solved(Reduced(found, np.sqrt(np.maximum(gap, 0.0)), norm), basis)


def _pull(functions: KernelExpansion, points: Points, budget: Budget) -> Array:
    """Return the functions at `points`, without intercept: ``k(b, x) A``."""
    kernel, rows = functions.kernel, functions.basis

    def values(part: slice) -> Array:
        some = kernel.prepare(rows_at(rows, part))
        return kernel.block(some, points).T @ functions.coef[part]

    step = max(64, int(budget.memory / (64 * len(points) * budget.workers.n_threads)))
    parts = list(budget.workers.run(values, _parts(rows, min(step, 4096))))
    return np.asarray(np.sum(parts, axis=0))


@dataclass(frozen=True)
class _Moving:
    """J and its gradient for vectors that move, in units where columns are near 1.

    `parts` are the expansion's rows, mapped as the kernel maps them and multiplied by
    `unit`, and their scaled coefficients.
    """

    kernel: Kernel  # of the mapped rows
    row_map: RowMap
    unit: float
    parts: list[tuple[Points, Array]]
    n_outputs: int
    budget: Budget

    def best_of(self, starts: list[Rows]) -> Rows:
        """Return the vectors where L-BFGS takes the most promising start."""
        share = TRIAL_SHARE if len(starts) > 1 else 1.0
        trial = max(1, int(share * self.budget.max_iter))
        rest = self.budget.max_iter - trial
        tried = [self._moved(self._mapped(start), trial) for start in starts]
        found, _ = min(tried, key=lambda one: one[1])
        if rest > 0:
            found, _ = self._moved(found, rest)
        vectors = self.row_map.back(found / self.unit)
        return free_vectors(vectors)

    def _mapped(self, start: Rows) -> Array:
        return np.asarray(self.row_map(_dense(start.values), np.float64) * self.unit)

    def _moved(self, first: Array, n_iter: int) -> tuple[Array, float]:
        """Return vectors and J after L-BFGS."""
        found = optimize.minimize(
            lambda flat: self.value_and_gradient(flat.reshape(first.shape)),
            first.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": n_iter,
                "maxfun": 2 * n_iter,
                "maxcor": PAST_STEPS,
                # J is a share: what a step gains below these is rounding.
                "ftol": 1e-12,
                "gtol": 1e-10,
            },
        )
        return found.x.reshape(first.shape), float(found.fun)

    def value_and_gradient(self, vectors: Array) -> tuple[float, Array]:
        """Return J and its gradient, flat."""
        points = self._points(vectors)
        run = self.budget.workers.run
        keep = self._all_fit(len(vectors))
        kept: list[Array | None] = []

        def pull(part: tuple[Points, Array]) -> tuple[Array, Array | None]:
            inner = self._inner(part[0], points)
            return self._value(inner).T @ part[1], inner if keep else None

        h = np.zeros((len(vectors), self.n_outputs))
        for one, inner in run(pull, self.parts):
            h += one
            kept.append(inner)
        own = self._inner(points, points)
        coef = self._coefficients(own, h)

        def force(i: int) -> Array:
            some, a = self.parts[i]
            inner = kept[i]
            inner = self._inner(some, points) if inner is None else inner
            return self._force(inner, a @ coef.T, some.values, vectors)

        gradient = 2 * self._force(own, coef @ coef.T, vectors, vectors)
        for one in run(force, range(len(self.parts))):
            gradient -= 2 * one
        return self.n_outputs - float((coef * h).sum()), gradient.ravel()

    def _coefficients(self, own: Array, h: Array) -> Array:
        matrix = self._value(own)
        largest = float(matrix.diagonal().max())

        def solved(jitter: float) -> Array:
            system = matrix.copy()
            system[np.diag_indices(len(system))] += RIDGE * largest + jitter
            factor = linalg.cho_factor(system, lower=True, check_finite=False)
            return np.asarray(linalg.cho_solve(factor, h, check_finite=False))

        return with_jitter(solved, largest, first=100 * RIDGE, growth=100.0)

    def _force(self, inner: Array, weights: Array, left: Any, vectors: Array) -> Array:
        """Return ``sum_i weights_ij dk(x_i, b_j)/db_j`` for the rows x of `left`."""
        weights = weights * self._slope(inner)
        if sparse.issparse(left):
            total = np.asarray((left.T @ weights).T)
        else:
            total = weights.T @ left
        if self.kernel.uses_distance:
            total -= weights.sum(axis=0)[:, None] * vectors
        return np.asarray(total)

    def _points(self, vectors: Array) -> Points:
        return self.kernel.prepare(free_vectors(vectors))

    def _inner(self, x: Points, b: Points) -> Array:
        """Return k for the Gaussian kernel, ``gamma x.b + coef0`` for "poly"."""
        if self.kernel.uses_distance:
            return self.kernel.block(x, b)
        return np.asarray(
            self.kernel.gamma * (x.values @ b.values.T) + self.kernel.coef0
        )

    def _value(self, inner: Array) -> Array:
        if self.kernel.uses_distance:
            return inner
        return np.asarray(inner**self.kernel.degree)

    def _slope(self, inner: Array) -> Array:
        """Return dk/db_j over ``x_i - b_j`` (Gaussian) or over ``x_i`` ("poly")."""
        if self.kernel.uses_distance:
            return 2 * self.kernel.gamma * inner
        degree, gamma = self.kernel.degree, self.kernel.gamma
        return np.asarray(degree * gamma * inner ** (degree - 1))

    def _all_fit(self, size: int) -> bool:
        n_rows = sum(len(points) for points, _ in self.parts)
        return 8 * size * n_rows <= self.budget.memory / 2


def _has_gradient(kernel: AnyKernel) -> bool:
    """Whether the kernel has a useful gradient and a power series.

    The Gaussian, the linear and the polynomial kernel of a whole degree have them.
    """
    if not isinstance(kernel, Kernel) or kernel.normalized:
        return False
    whole = kernel.name == "poly" and float(kernel.degree).is_integer()
    return kernel.name in ("rbf", "linear") or whole


def _moves_fit(scaled: KernelExpansion, size: int, budget: Budget) -> bool:
    """Whether L-BFGS fits the memory."""
    return (
        3 * PAST_STEPS * 8 * size * int(scaled.basis.values.shape[1]) <= budget.memory
    )


def moving(scaled: KernelExpansion, size: int, budget: Budget) -> _Moving:
    """Return J of scaled functions for `size` vectors that move."""
    kernel, rows = scaled.kernel, scaled.basis
    assert isinstance(kernel, Kernel)
    mapped = kernel.row_map(rows.values, np.float64)
    unit = _unit(kernel, mapped)
    gamma, row_map = kernel.gamma / unit**2, kernel.row_map
    if kernel.name == "linear":
        kernel = replace(kernel, name="poly", degree=1, coef0=0.0)
    own = replace(kernel, gamma=gamma, row_map=RowMap())
    near_one = Rows(mapped * unit, rows.index)
    step = max(64, int(budget.memory / (64 * size * budget.workers.n_threads)))
    parts = [
        (own.prepare(rows_at(near_one, part)), scaled.coef[part])
        for part in _parts(rows, min(step, 4096))
    ]
    return _Moving(own, row_map, unit, parts, scaled.coef.shape[1], budget)


def _unit(kernel: Kernel, mapped: Any) -> float:
    """Return the factor that makes steps of 1 sensible: kernel width, or row length."""
    if kernel.uses_distance:
        return float(np.sqrt(kernel.gamma))
    squares = mapped.multiply(mapped) if sparse.issparse(mapped) else mapped**2
    length = float(np.sqrt(squares.sum() / max(mapped.shape[0], 1)))
    return 1.0 / length if length > 0 else 1.0


def _dense(values: Any) -> Array:
    return np.asarray(values.toarray() if sparse.issparse(values) else values)
