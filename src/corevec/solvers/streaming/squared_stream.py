r"""The squared loss along a stream: a span of core rows, and a summary of all rows.

Without a tube every row keeps its loss for ever, and that loss is quadratic. So no row
needs multipliers: the summary holds the losses of all rows, and the core holds the rows
that span the function,

.. math:: \min_{f \in span} \tfrac12 \|f\|^2
          + \sum_i \tfrac{\omega_i}2 (z_i - f(x_i))^2,

solved exactly after each block. In the span of the columns (linear kernel) that is
ridge regression of all rows, whatever the budget; in the span of core rows it is
exact while the core only grows, and each row's value is taken in the span of its time
(Csato and Opper 2002; Van Vaerenbergh et al. 2012).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.kernels import AnyKernel, Points
from corevec.solvers.streaming.core_stream import (
    LEAVING_SHARE,
    CoreForm,
    CoreStream,
    Targets,
    as_rows,
    factor_of,
)
from corevec.solvers.streaming.summary import Summary

# A row joins a span that has space if so much of its squared norm is outside.
LEAST_NEW = 1e-6
# It joins a full span if this is outside, and more than GAIN times what the rows of
# the core have outside the span of the others, at the least.
NEW_TO_FULL, GAIN = 1e-2, 2.0


class SquaredStream(CoreStream):
    """Core rows that span the function, and the summary of all rows."""

    def __init__(self, form: CoreForm, kernel: AnyKernel, n_columns: int, outputs: int):
        super().__init__(form, kernel, n_columns, outputs)
        if self.F is None:
            self.F = np.empty((0, 0))
        self.summary = Summary.empty(len(self.F), outputs)

    @property
    def _most_violators(self) -> int:
        return self.form.block

    @property
    def _rows_that_violate_enough(self) -> int:
        return self.n_rows

    def _begin_span(self, own: Array) -> None:
        assert self.summary is not None
        self.F = factor_of(own, float(own.diagonal().max()))
        self.summary = self.summary.with_directions(len(own))

    def _learn(self, X: Any, targets: Targets) -> None:
        assert self.summary is not None
        if self.rows is None:
            self.rows = X[:0].copy()
        if self.by_columns:
            F = self._columns(X)
            self.n_updates += X.shape[0]
        else:
            F = self._spanned(X)
        self.summary = self.summary.after(F, targets.z, targets.omega)
        if self.rows.shape[0] > self.form.budget:
            self._shrink()
        self._set_coef()

    def unknown(self, X: Any) -> tuple[Array, Array]:
        """Return what the rows seen leave open about f at some rows.

        That is the variance of f as a Gaussian process: the part outside the span, and
        the part in it, which the losses have reduced.
        """
        assert self.summary is not None
        if self.by_columns:
            T, outside = self._columns(X), np.zeros(X.shape[0])
        else:
            T = self._coordinates(self._points_of(X))
            outside = self._outside(X, T)
        inside = (T * (self.summary.spread @ T)).sum(axis=0)
        return outside, np.asarray(inside)

    def _outside(self, X: Any, T: Array) -> Array:
        """Return the squared norms of rows outside the span."""
        own = self.kernel.diagonal(as_rows(self.scaled(X))) + float(self.form.bias)
        return np.asarray(np.maximum(own - (T**2).sum(axis=0), 0.0))

    def _spanned(self, X: Any) -> Array:
        """Return coordinates of rows, after those that are new have joined the span."""
        points = self._points_of(X)
        T = self._coordinates(points)
        outside = self._outside(X, T)
        own = outside + (T**2).sum(axis=0)
        joining = self._joining(outside / np.where(own > 0, own, 1.0))
        if len(joining) == 0:
            return T
        n = len(joining)
        self._append(X[joining], Targets(np.zeros((n, self.n_outputs)), np.zeros(n)))
        self.n_updates += n
        return self._coordinates(points)

    def _joining(self, outside: Array) -> Array:
        """Return the numbers of the rows that join, by the share outside the span."""
        assert self.F is not None
        budget, n = self.form.budget, self.rows.shape[0]
        if n < budget:
            return np.flatnonzero(outside > LEAST_NEW)[: budget - n]
        scale = (self.F**2).sum(axis=0)
        least = float((1.0 / (_inverse_diagonal(self.F) * scale)).min())
        new = np.flatnonzero(outside > max(NEW_TO_FULL, GAIN * least))
        most = max(1, int(LEAVING_SHARE * budget))
        return np.sort(new[np.argsort(-outside[new], kind="stable")[:most]])

    def _coordinates(self, points: Points) -> Array:
        assert self.F is not None
        if self.rows.shape[0] == 0:
            return np.empty((0, len(points)))
        cross = self._block(self._core_points(), points)
        return np.asarray(
            linalg.solve_triangular(
                self.F, cross, trans="T", check_finite=False, overwrite_b=True
            )
        )

    def _shrink(self) -> None:
        """Let the rows leave without which the function changes least."""
        assert self.F is not None
        assert self.summary is not None
        coef = linalg.solve_triangular(self.F, self.summary.mean, check_finite=False)
        change = (coef**2).sum(axis=1) / _inverse_diagonal(self.F)
        if self.form.half_life is not None:
            change = np.where(self._are_old(), -1.0, change)
        order = np.argsort(-change, kind="stable")
        self._keep(np.sort(order[: self.form.budget]))

    def _set_coef(self) -> None:
        assert self.F is not None
        assert self.summary is not None
        self.coef = self.summary.mean
        if not self.by_columns:
            self.coef = linalg.solve_triangular(self.F, self.coef, check_finite=False)

    def _append_gram(self, X: Any) -> None:
        if self.by_columns or X.shape[0] == 0:
            return
        points = self._points_of(X)
        own = self._block(points, points)
        if self.rows.shape[0] == 0:
            self._begin_span(own)
        else:
            self._extend(self._block(self._core_points(), points), own)

    # What core rows with losses of their own would need.
    def _solve(self) -> None:
        self.a = np.zeros((self.rows.shape[0], self.n_outputs))

    def _set_gram(self) -> None:
        self.gram = np.empty((0, 0))
        self.prior = np.zeros((self.rows.shape[0], self.n_outputs))


def _inverse_diagonal(F: Array) -> Array:
    """Return the diagonal of the inverse of ``F' F`` for an upper triangular F."""
    inverse = linalg.lapack.dtrtri(F)[0]
    return np.asarray((np.triu(inverse) ** 2).sum(axis=1))
