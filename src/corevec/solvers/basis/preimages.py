"""Pre-images: the one vector whose image points most along a residual.

The residual ``r = sum_i theta_i phi(x_i) - sum_j beta_j phi(b_j)`` is what a basis
misses of a cut. The best new basis vector for it (CPSP paper, eq. 10, after minimising
over its coefficient) is

    argmax over z   <r, phi(z)>^2 / k(z, z)

- rbf, laplacian, inverse-distance: the fixed-point iteration ``z <- sum c_i g_i x_i /
  sum c_i g_i`` with ``g = -dk/d|x-z|^2`` (for the Gaussian, Schoelkopf and Smola 2002,
  section 18.2.2), a step taken only where it gains. The last two have cusps at the rows
  (g is infinite there), so that the rows themselves are candidates;
- linear: ``z = r``, exactly; poly: L-BFGS on the logarithm of the objective;
- any other kernel: a randomised search around the best training rows.

Rows are visited block by block; sparse rows stay sparse, only z is dense.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import optimize, sparse

from corevec._runtime.types import Array
from corevec.data.sources import Source
from corevec.exceptions import KernelError
from corevec.kernels import AnyKernel, Kernel, Points, PrecomputedKernel, Rows
from corevec.models.basis import free_vectors, rows_at

# Candidate training rows: with 59, one is among the best 5 % with probability 0.95.
CANDIDATES = 59
# Best candidates from which the search goes on, its steps, and the relative gain at
# which it ends. The objective has many local maxima; two starts cost little beside the
# pass that finds the candidates.
STARTS, MAX_STEPS, MIN_RELATIVE_GAIN = 2, 50, 1e-7
# Rows are prepared once for all steps where they fit this part of the memory budget, in
# blocks of so many.
CACHE_BUDGET_DIVISOR, CACHE_BLOCK_ROWS = 4, 4096
# A step that does not gain is halved down to this share.
MIN_STEP_SHARE = 2.0**-8


@dataclass(frozen=True)
class Residual:
    """``sum_i theta_i phi(x_i) - sum_j beta_j phi(b_j)``; theta for every row."""

    source: Source
    kernel: AnyKernel
    theta: Array
    basis: Rows | None = None
    beta: Array | None = None

    @property
    def dtype(self) -> Any:
        """The precision of the search: float32 will do where the rows have no more."""
        return np.float32 if self.source.dtype == np.float32 else np.float64

    def values(self, candidates: Rows) -> Array:
        """Return ``<r, phi(z)>`` for each row z; one pass."""
        points = self.kernel.prepare_basis(candidates, self.dtype)

        def score(rows: Points, coef: Array) -> Array:
            return self.kernel.times(points, rows, coef[:, None])[:, 0]

        return self.sum_prepared(score, np.zeros(len(candidates)))

    @cached_property
    def _cached(self) -> list[tuple[Points, Array]] | None:
        """The rows with a coefficient, prepared; None where they do not fit."""
        inside, source = np.flatnonzero(self.theta), self.source
        size = len(inside) * source.row_entries * np.dtype(self.dtype).itemsize
        if CACHE_BUDGET_DIVISOR * size > source.memory_budget:
            return None

        def task(few: Array) -> tuple[Points, Array]:
            rows = source.take(source.numbers[few])
            return self.kernel.prepare(rows, self.dtype), self.theta[few]

        starts = range(0, len(inside), CACHE_BLOCK_ROWS)
        return list(
            source.workers.run(task, [inside[s : s + CACHE_BLOCK_ROWS] for s in starts])
        )

    @cached_property
    def _basis_points(self) -> Points | None:
        if self.basis is None or len(self.basis) == 0:
            return None
        return self.kernel.prepare_basis(self.basis, self.dtype)

    def sum_prepared(
        self, score: Callable[[Points, Array], Array], total: Array
    ) -> Array:
        """Return what `sum` does, for a score of prepared rows."""
        if self._cached is None:

            def unprepared(rows: Rows, coef: Array) -> Array:
                return score(self.kernel.prepare(rows, self.dtype), coef)

            return self.sum(unprepared, total)

        def task(part: tuple[Points, Array]) -> Array:
            return score(*part)

        for found in self.source.workers.run(task, self._cached):
            total = total + found
        if self._basis_points is not None and self.beta is not None:
            total = total + score(self._basis_points, -self.beta)
        return total

    def sum(self, score: Callable[[Rows, Array], Array], total: Array) -> Array:
        """Return `total` plus ``score(rows, coefficients)`` over rows and basis."""
        if self.theta.any():
            numbers = self.source.numbers

            def block(rows: Rows) -> Array:
                theta = self.theta[np.searchsorted(numbers, rows.index)]
                inside = np.flatnonzero(theta)
                if len(inside) < len(theta):
                    rows = Rows(rows.values[inside], rows.index[inside])
                if len(inside) == 0:
                    return np.zeros_like(total)
                return score(rows, theta[inside])

            total = total + self.source.reduce(block, np.add)
        if self.basis is not None and self.beta is not None and len(self.basis):
            total = total + score(self.basis, -self.beta)
        return total

    def objective(self, candidates: Rows) -> Array:
        """Return ``<r, phi(z)>^2 / k(z, z)``: what each vector takes off |r|^2."""
        return self._share_of(candidates, self.values(candidates))

    def _share_of(self, candidates: Rows, products: Array) -> Array:
        own = self.kernel.diagonal(candidates)
        usable = own > 0
        found = np.zeros(len(own))
        found[usable] = products[usable] ** 2 / own[usable]
        return found


def best_training_row(
    residual: Residual, rng: np.random.Generator, size: int = CANDIDATES
) -> Rows:
    """Return the best of `size` random training rows, as one row (CPSP(tr))."""
    rows = _candidates(residual, rng, size)
    best = int(np.argmax(residual.objective(rows)))
    return rows_at(rows, np.array([best]))


def preimage(
    residual: Residual,
    rng: np.random.Generator,
    gain: float = MIN_RELATIVE_GAIN,
) -> Rows:
    """Return the vector found for `residual`: one row, numbered `models.basis.NEW`.

    A local maximum, started from the best of `CANDIDATES` random training rows; never
    worse than those. For a precomputed kernel, which has no other vectors, the best
    row. The fixed-point iteration ends with a step that gains less than the share
    `gain`.
    """
    kernel = residual.kernel
    if isinstance(kernel, PrecomputedKernel):
        return best_training_row(residual, rng)
    if isinstance(kernel, Kernel) and kernel.name == "linear" and not kernel.normalized:
        return _linear(residual)
    rows = _candidates(residual, rng, CANDIDATES)
    value = residual.objective(rows)
    order = np.argsort(-value)[:STARTS]
    z, best = _dense(rows.values[order]), value[order]
    z, best = _search_for(kernel)(residual, z, best, rng, gain)
    return _new(z[int(np.argmax(best))])


_Search = Callable[
    [Residual, Array, Array, np.random.Generator, float], tuple[Array, Array]
]


def _search_for(kernel: AnyKernel) -> _Search:
    if isinstance(kernel, Kernel) and kernel.uses_distance:
        return _fixed_point
    if isinstance(kernel, Kernel) and kernel.name == "poly" and not kernel.normalized:
        return _ascend
    return _wander


def _fixed_point(
    residual: Residual, z: Array, value: Array, rng: np.random.Generator, least: float
) -> tuple[Array, Array]:
    """Iterate ``z <- sum c g x / sum c g`` for all starts at once.

    A step that does not gain is halved: coefficients of both signs make the mean fly
    far off where they nearly cancel, and a cusp may be left by a short step only.
    """
    z, value, length = z.copy(), value.copy(), np.ones(len(z))
    target = _fixed_point_target(residual, z)[1]
    moving = np.arange(len(z))
    for _ in range(MAX_STEPS):
        proposal = z[moving] + length[moving, None] * (target[moving] - z[moving])
        new, following = _fixed_point_target(residual, proposal)
        gain = new - value[moving]
        better = gain > 0
        taken = moving[better]
        z[taken], value[taken] = proposal[better], new[better]
        target[taken] = following[better]
        length[taken] = np.minimum(1.0, 2 * length[taken])
        length[moving[~better]] /= 2
        enough = better & (gain <= least * value[moving])
        moving = moving[~enough & (length[moving] > MIN_STEP_SHARE)]
        if len(moving) == 0:
            break
    return z, value


def _fixed_point_target(residual: Residual, z: Array) -> tuple[Array, Array]:
    """Return the objective of each z, and where the fixed point goes from it.

    One pass: the pulls of the rows are made from the kernel values of the objective.
    """
    kernel, dtype = residual.kernel, residual.dtype
    assert isinstance(kernel, Kernel)
    candidates = free_vectors(z)
    points = kernel.prepare_basis(candidates, dtype)

    def score(rows: Points, coef: Array) -> Array:
        block = kernel.block(points, rows)
        pull = _slope(kernel, block) * coef.astype(dtype)
        # Sparse rows stay sparse: the answer has the size of z.
        moved = np.asarray((rows.values.T @ pull.T).T, dtype=np.float64)
        sums = np.stack([block @ coef, pull.sum(axis=1)], axis=1)
        return np.concatenate([sums, moved], axis=1)

    found = residual.sum_prepared(score, np.zeros((len(z), 2 + z.shape[1])))
    products, total, moved = found[:, 0], found[:, 1], found[:, 2:]
    safe = np.abs(total) > 1e-100
    with np.errstate(over="ignore"):
        mean = kernel.row_map.back(moved / np.where(safe, total, 1.0)[:, None])
        step = mean - z
    usable = safe & (np.abs(step) < 1e100).all(axis=1)
    # Uphill: for the Gaussian `total` is the product itself; for the others their
    # signs may differ.
    uphill = np.where(usable, np.sign(total) * np.sign(products), 0.0)
    step = np.where(usable[:, None], step, 0.0)
    return residual._share_of(candidates, products), z + uphill[:, None] * step


def _slope(kernel: Kernel, values: Array) -> Array:
    """Return ``-dk/d(distance^2)`` up to a factor, from the kernel's values."""
    if kernel.name == "rbf":
        return values
    # With t the scaled distance the slope is k/t and k^2/t. A row at z itself (t = 0)
    # is left out, as Vardi and Zhang (2000) do for Weiszfeld's iteration, which would
    # never leave it.
    values = np.clip(values, 1e-300, 1.0)
    match kernel.name:
        case "laplacian":  # k = exp(-t)
            t, top = -np.log(values), values
        case "inverse-distance":  # k = 1/(1 + t)
            t, top = 1.0 / values - 1.0, values**2
        case name:
            raise KernelError(f"the slope of the {name} kernel is not known here.")
    return np.where(t > 1e-6, top / np.maximum(t, 1e-6), 0.0).astype(values.dtype)


def _ascend(
    residual: Residual, z: Array, value: Array, rng: np.random.Generator, least: float
) -> tuple[Array, Array]:
    """Maximise ``log <r, phi(z)>^2 - log k(z, z)`` of a polynomial kernel by L-BFGS."""
    kernel = residual.kernel
    assert isinstance(kernel, Kernel)
    g, c, p = kernel.gamma, kernel.coef0, kernel.degree

    def loss(v: Array) -> tuple[float, Array]:
        def score(rows: Rows, coef: Array) -> Array:
            inner = g * np.asarray(rows.values @ v, dtype=np.float64) + c
            slope = coef * p * g * inner ** (p - 1)
            return np.append(coef @ inner**p, rows.values.T @ slope)

        found = residual.sum(score, np.zeros(1 + len(v)))
        product, gradient = found[0], found[1:]
        own = g * float(v @ v) + c
        if product == 0 or own <= 0:
            return 1e300, np.zeros_like(v)
        value = p * np.log(own) - 2 * np.log(abs(float(product)))
        return float(value), 2 * p * g * v / own - 2 * gradient / float(product)

    for t in range(len(z)):
        if value[t] <= 0:
            continue
        found = optimize.minimize(
            loss, z[t], jac=True, method="L-BFGS-B", options={"maxiter": MAX_STEPS}
        )
        new = residual.objective(free_vectors(found.x[None]))[0]
        if new > value[t]:
            z[t], value[t] = found.x, new
    return z, value


def _wander(
    residual: Residual, z: Array, value: Array, rng: np.random.Generator, least: float
) -> tuple[Array, Array]:
    """Search around the best vector with steps made of differences of rows.

    Steps shrink by half where none of 16 gains, and end at a thousandth.
    """
    best = int(np.argmax(value))
    scale = 0.5
    while scale > 1e-3:
        others = _dense(_candidates(residual, rng, 32).values)
        half = len(others) // 2
        if half == 0:
            break
        steps = scale * (others[:half] - others[half : 2 * half])
        trial = z[best] + steps
        new = residual.objective(free_vectors(trial))
        top = int(np.argmax(new))
        if new[top] > value[best]:
            z[best], value[best] = trial[top], new[top]
        else:
            scale /= 2
    return z, value


def _linear(residual: Residual) -> Rows:
    def score(rows: Rows, coef: Array) -> Array:
        return np.asarray(rows.values.T @ coef, dtype=np.float64)

    found = residual.sum(score, np.zeros(residual.source.n_features))
    largest = float(np.abs(found).max())
    # Only its direction matters: at the size of a row, k(z, z) neither over- nor
    # underflows.
    return _new(found / largest if largest > 0 else found)


def _candidates(residual: Residual, rng: np.random.Generator, size: int) -> Rows:
    """Return random training rows among those that the residual holds."""
    inside = np.flatnonzero(residual.theta)
    if len(inside) == 0:
        inside = np.arange(residual.source.n_rows)
    chosen = rng.choice(inside, min(size, len(inside)), replace=False)
    return residual.source.take(np.sort(residual.source.numbers[chosen]))


def _new(z: Array) -> Rows:
    return free_vectors(np.ascontiguousarray(z[None]))


def _dense(values: Any) -> Array:
    if sparse.issparse(values):
        values = values.toarray()
    return np.array(values, dtype=np.float64)
