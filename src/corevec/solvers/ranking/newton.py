"""Newton's method over pairs, in the span of a basis.

In the coordinates ``phi(x) = L^-1 k(b, x)`` of the span (docs/mathematics.md, 3 Span of
a basis) the gradient is ``v - sum pull_i phi_i`` and the Hessian ``1 + Phi' A Phi``, A
the Laplacian of the pairs inside the margin (Chapelle and Keerthi 2010). The loss along
a line is piecewise quadratic, so step lengths are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from corevec._runtime.types import EPS, Array
from corevec.data.sources import Source
from corevec.kernels import finite
from corevec.models.basis import Basis
from corevec.problems.pairs import Pairs, PairSums
from corevec.solvers.numeric.jitter import with_jitter

MAX_ROUNDS = 100
# Rows of a part of the features, where the memory budget allows as many.
_PART_ROWS = 2048


@dataclass(frozen=True)
class Span:
    """The rows of some pairs in the coordinates of a basis, cached or recomputed."""

    source: Source
    rows: Array
    basis: Basis
    must_cache: bool = False  # cache the features whatever their size

    @cached_property
    def design(self) -> Array | None:
        """Features of all rows, where half of the budget holds them."""
        size = 8 * len(self.rows) * len(self.basis)
        if not self.must_cache and size > self.source.memory_budget / 2:
            return None
        features = np.empty((len(self.rows), len(self.basis)))

        def fill(part: slice) -> None:
            features[part] = self.basis.features(self._block(part))

        self._each(fill)
        return features

    def times(self, v: Array) -> Array:
        """Return the values of ``v . phi`` on all rows."""
        if self.design is not None:
            return np.asarray(self.design @ v)
        coef = self.basis.coefficients(v)[:, None]
        kernel = self.basis.kernel

        def task(part: slice) -> Array:
            points = kernel.prepare(self.source.take(self.rows[part]))
            return np.asarray(kernel.times(points, self.basis.points, coef)[:, 0])

        return np.concatenate(self._each(task))

    def pulled(self, pull: Array) -> Array:
        """Return ``sum_i pull_i phi(x_i)`` in the span."""
        if self.design is not None:
            return np.asarray(pull @ self.design)
        total = sum(self._each(lambda part: pull[part] @ self._block(part)))
        return np.asarray(self.basis.inverse_factor @ total)

    @cached_property
    def outside(self) -> Array:
        """The distance ``delta_i`` of each row's phi from the span, rounded up."""

        def task(part: slice) -> Array:
            whole = self.design
            phi = (
                self.basis.features(self._block(part)) if whole is None else whole[part]
            )
            own = self.basis.kernel.diagonal(self.source.take(self.rows[part]))
            left = np.maximum(own - np.einsum("ij,ij->i", phi, phi), 0.0)
            return np.asarray(np.sqrt(left + 8 * EPS * np.abs(own)))

        return np.concatenate(self._each(task))

    @cached_property
    def largest(self) -> float:
        """The largest k(x, x)."""

        def task(part: slice) -> float:
            own = self.basis.kernel.diagonal(self.source.take(self.rows[part]))
            return float(np.abs(own).max())

        return float(max(self._each(task)))

    def _block(self, part: slice) -> Array:
        kernel = self.basis.kernel
        points = kernel.prepare(self.source.take(self.rows[part]))
        return finite(kernel.block(points, self.basis.points), kernel)

    def _each(self, task: Callable[[slice], Any]) -> list[Any]:
        # Kernel values, features and the rows of each thread within the budget.
        workers = self.source.workers
        width = 2 * len(self.basis) + 2 * self.source.n_features
        most = self.source.memory_budget // (32 * width * workers.n_threads)
        step = int(np.clip(most, 64, _PART_ROWS))
        parts = [slice(s, s + step) for s in range(0, len(self.rows), step)]
        return list(workers.run(task, parts))


@dataclass
class State:
    """The weights of a round, and the sums of all pairs there."""

    v: Array
    f: Array
    sums: PairSums
    pulled: Array

    @property
    def primal(self) -> float:
        """The objective."""
        return (float(self.v @ self.v) + self.sums.square) / 2


@dataclass
class Newton:
    """Newton's method for some pairs, in a span.

    `factor` is the Cholesky factor of the Hessian: given, or (None) recomputed from all
    of these pairs in every round, for which the span must cache its design.
    """

    pairs: Pairs
    span: Span
    factor: Any = None

    def run(
        self, v: Array, until: float, is_spent: Callable[[State], bool]
    ) -> tuple[State, str]:
        """Return the minimiser from the warm start `v`, and why the rounds ended.

        "until": a round was expected to gain less than `until` of the objective;
        "spent": `is_spent`, which is called after each round, said so; or "stall".
        Each round minimises exactly along the Newton step and the last step.
        """
        state, last = self._state(v, self.span.times(v)), None
        whole = self.factor is None
        for _ in range(MAX_ROUNDS):
            gradient = state.v - state.pulled
            if whole:
                self.factor = self._hessian(state.f)
            step = -linalg.cho_solve(self.factor, gradient, check_finite=False)
            gain = -float(gradient @ step) / 2
            values = self.span.times(step)
            directions = [(step, values)] + ([last] if last and not whole else [])
            v, f = _best_within(self.pairs, state.v, state.f, directions)
            last = (v - state.v, f - state.f)
            before, state = state.primal, self._state(v, f)
            if is_spent(state):
                return state, "spent"
            if gain <= until * before:
                return state, "until"
            if state.primal >= before:
                break
        return state, "stall"

    def _state(self, v: Array, f: Array) -> State:
        sums = self.pairs.sums(f)
        return State(v, f, sums, self.span.pulled(sums.pull))

    def _hessian(self, f: Array) -> Any:
        assert self.span.design is not None
        with self.span.source.workers.blas():
            matrix = self.pairs.curvature(f, self.span.design)
            return _cholesky(matrix)


def _cholesky(matrix: Array) -> Any:
    """Return the factor of ``1 + matrix``; its diagonal grows until it is definite."""
    own = matrix.diagonal() + 1.0

    def factored(jitter: float) -> Any:
        np.fill_diagonal(matrix, own + jitter)
        return linalg.cho_factor(matrix, check_finite=False)

    return with_jitter(factored, float(own.sum()))


def _best_within(
    pairs: Pairs, v: Array, f: Array, directions: list[tuple[Array, Array]]
) -> tuple[Array, Array]:
    """Return v and its values moved to the best point along one or two directions."""
    lengths = [max(float(np.linalg.norm(step)), 1e-300) for step, _ in directions]
    D = np.stack([d / size for (d, _), size in zip(directions, lengths, strict=True)])
    F = np.stack([x / size for (_, x), size in zip(directions, lengths, strict=True)])
    for _ in range(10):
        sums = pairs.sums(f, np.ascontiguousarray(F.T))
        gradient = D @ v - F @ sums.pull
        step = -np.linalg.lstsq(D @ D.T + F @ sums.bend, gradient, rcond=1e-12)[0]
        length = _exact_length(pairs, v, f, step @ D, step @ F)
        v, f = v + length * (step @ D), f + length * (step @ F)
        if len(D) == 1 or -float(gradient @ step) <= 1e-8 * float(v @ v):
            break
    return v, f


def _exact_length(
    pairs: Pairs, v: Array, f: Array, step: Array, values: Array
) -> float:
    """Return the minimiser along a step: the derivative is piecewise linear."""
    slope0, curve0 = float(v @ step), float(step @ step)
    low, high, s = 0.0, np.inf, 1.0
    for _ in range(50):
        sums = pairs.sums(f + s * values, values[:, None])
        slope = slope0 + s * curve0 - float(sums.pull @ values)
        curve = curve0 + float(sums.bend[:, 0] @ values)
        low, high = (low, s) if slope > 0 else (s, high)
        new = s - slope / curve if curve > 0 else s
        if not low <= new <= high:
            new = (low + high) / 2 if high < np.inf else 2 * s
        if abs(new - s) <= 1e-9 * s:
            return float(new)
        s = new
    return float(s)
