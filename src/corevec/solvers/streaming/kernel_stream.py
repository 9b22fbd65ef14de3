r"""Streaming balls in the feature space of a kernel, within a budget of rows.

A centre is ``sum_j coef_j phi(x_j)`` over stored rows. No kernel matrix is stored: the
inner products of the few centres follow from the values of the new rows.

Above the budget the row whose loss moves the centre least is removed. "drop" removes
``a_i phi_i``, which moves it by ``|a_i| sqrt(k_ii)``; "merge" replaces it by its
projection on one other row of the same ball, ``a_i k_ij / k_jj phi_j``: it moves by

.. math:: |a_i| \sqrt{k_{ii} - k_{ij}^2 / k_{jj}}.

The radius grows by that length, so that every row seen remains inside.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from corevec._runtime.types import Array
from corevec.kernels import AnyKernel, Points, Rows, finite
from corevec.solvers.streaming.geometry import Form
from corevec.solvers.streaming.stream import BallStream, Signs, stacked

# Rows whose values are held at a time: each absorbed row costs one column of them.
CHUNK_ROWS = 2048
# Rows of least loss among which the cheapest merge is searched: each costs a row of
# kernel values. All of them would cost the square of the budget per absorbed row.
MERGE_CANDIDATES = 8


class KernelStream(BallStream):
    """Balls whose centres are expansions over stored rows.

    Attributes
    ----------
    rows : ndarray or CSR matrix
        The stored rows; each belongs to one element.
    own : ndarray
        Their k(x, x), with the bias.
    coef : ndarray of shape (elements, rows)
        The centres; coefficients carry the rows' labels.
    products : ndarray of shape (elements, elements)
        Inner products of the centres' images.
    """

    def __init__(
        self, form: Form, kernel: AnyKernel, budget: int | None, *, merge: bool
    ):
        super().__init__(form)
        self.kernel, self.budget, self.merge = kernel, budget, merge
        self.rows: Any = None
        self.own = np.empty(0)
        self.coef = np.empty((0, 0))
        self.products = np.empty((0, 0))
        self._values = np.empty((0, 0))  # of the centres, on the rows of a chunk

    def centre(self) -> Array:
        """Return the coefficients of the whole ball's centre over `rows`."""
        return np.asarray(self.whole().weights @ self.coef)

    def absorb(self, X: Any, signs: Signs) -> Self:
        """Return the stream after the rows of `X`, in their order."""
        new = self._begin()
        n = X.shape[0]
        for start in range(0, n, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, n)
            new._absorb_chunk(_Chunk(X[start:stop], signs.part(start, stop), new))
        new._values = np.empty((0, 0))
        new.n_rows += signs.n_present(n)
        return new

    def joined(self, other: Self) -> Self:
        """Return the stream of this one's rows and those of `other`."""
        new = self._begin()
        cross = self._block(new._points(), self.kernel.prepare(_rows(other.rows)))
        across = new.coef @ cross @ other.coef.T
        new.products = np.block(
            [[new.products, across], [across.T, other.products]],
        )
        new.coef = np.block(
            [
                [new.coef, np.zeros((len(new.coef), len(other.own)))],
                [np.zeros((len(other.coef), len(new.own))), other.coef],
            ]
        )
        new.rows = stacked(new.rows, other.rows)
        new.own = np.append(new.own, other.own)
        new._values = np.zeros((0, len(new.coef)))
        new._join_numbers(other)
        new._settle()
        new._shrink(None)
        return new

    def _absorb_chunk(self, chunk: _Chunk) -> None:
        self._values = self._values_on(chunk)
        at, n = 0, len(chunk.own)
        while at < n:
            balls = ~self.balls.is_row
            beyond = self._beyond(chunk, at)
            apart_sq = beyond
            if self.form.constrained:
                apart_sq = np.maximum(beyond + chunk.own[at:, None], 0.0)
            # The squared distance is `beyond` plus eta, R^2 is eta minus the power.
            held = beyond <= -self.balls.power[balls]
            outside = np.flatnonzero(chunk.present[at:] & ~held.any(axis=1))
            stop = int(outside[0]) if len(outside) else n - at
            self._widen(
                balls, held[:stop] & chunk.present[at : at + stop, None], apart_sq
            )
            at += stop
            if at < n:
                self._arrive(chunk, at)
                at += 1
        self.eta = float(chunk.eta[-1])

    def _beyond(self, chunk: _Chunk, at: int) -> Array:
        """Return squared distances of rows from centres, minus eta.

        For a plain ball: the squared distance of the images, and the centre's slack.
        """
        balls = ~self.balls.is_row
        centre_sq = self.products.diagonal()[balls] + self.balls.slack[balls]
        values = chunk.sign[at:, None] * self._values[at:, balls]
        beyond = centre_sq - 2 * values
        if not self.form.constrained:
            beyond = np.maximum(beyond + chunk.own[at:, None], 0.0)
        return np.asarray(beyond)

    def _widen(self, balls: Array, held: Array, apart_sq: Array) -> None:
        """Extend the width of the first ball that holds a row to the row's image."""
        if held.size == 0:
            return
        first = held & (np.cumsum(held, axis=1) == 1)
        reached = np.where(first, apart_sq[: len(held)], 0.0).max(axis=0)
        width = self.balls.width.copy()
        width[balls] = np.maximum(width[balls], np.sqrt(reached))
        self.balls = replace(self.balls, width=width)

    def _arrive(self, chunk: _Chunk, at: int) -> None:
        """Absorb a row that lies outside all balls."""
        row, sign = chunk.X[at : at + 1].copy(), float(chunk.sign[at])
        self.eta = float(chunk.eta[at])
        m, kept = self.coef.shape
        products = np.empty((m + 1, m + 1))
        products[:m, :m] = self.products
        products[m, :m] = products[:m, m] = sign * self._values[at]
        products[m, m] = chunk.own[at]
        coef = np.zeros((m + 1, kept + 1))
        coef[:m, :kept] = self.coef
        coef[m, kept] = sign
        column = self._block(chunk.points, self.kernel.prepare(_rows(row)))
        self.products, self.coef = products, coef
        self._values = np.hstack([self._values, sign * column])
        self.rows = row if self.rows is None else stacked(self.rows, row)
        self.own = np.append(self.own, chunk.own[at])
        inverse, lifted = float(chunk.inverse[at]), float(chunk.lifted[at])
        self.balls = self.balls.with_row(inverse, lifted)
        self.n_updates += 1
        self._settle()
        self._shrink(chunk)

    def _combine(self, change: Array) -> None:
        self.coef = change @ self.coef
        self.products = change @ self.products @ change.T
        self._values = self._values @ change.T

    def _products(self, which: Array) -> Array:
        part = self.products[np.ix_(which, which)]
        return np.asarray(part - part[:1] - part[:, :1] + part[0, 0])

    def _norm_sq(self, weights: Array) -> float:
        return float(weights @ self.products @ weights)

    def _points(self) -> Points:
        return self.kernel.prepare_basis(_rows(self.rows))

    def _block(self, x: Points, z: Points) -> Array:
        """Return kernel values with the bias in them."""
        values = self.kernel.block(x, z)
        if self.form.bias:
            values = values + self.form.bias
        return finite(values, self.kernel)

    def _values_on(self, chunk: _Chunk) -> Array:
        """Return the centres' values on the rows of a chunk, shape (rows, elements)."""
        if self.rows is None:
            return np.zeros((len(chunk.own), 0))
        values = self.kernel.times(chunk.points, self._points(), self.coef.T)
        return finite(values + self.form.bias * self.coef.sum(axis=1), self.kernel)

    def _shrink(self, chunk: _Chunk | None) -> None:
        """Remove rows, and enlarge their balls, until the budget is met."""
        while self.budget is not None and len(self.own) > self.budget:
            self._remove(*self._cheapest(), chunk)

    def _cheapest(self) -> tuple[int, int | None, Array]:
        """Return a row to remove, the row to merge it with, and kernel values of both.

        A ball of one row loses none: the budget exceeds the number of balls, so that
        another ball has more.
        """
        owner = np.abs(self.coef).argmax(axis=0)
        size = np.bincount(owner, minlength=len(self.coef))
        weight = self.coef[owner, np.arange(len(owner))]
        loss = np.where(size[owner] > 1, weight**2 * self.own, np.inf)
        few = np.argsort(loss)[: MERGE_CANDIDATES if self.merge else 1]
        few = few[np.isfinite(loss[few])]
        basis = self._points()
        K = self._block(self.kernel.prepare(_rows(self.rows[few])), basis)
        if not self.merge:
            return int(few[0]), None, K
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(self.own > 0, K**2 / self.own, 0.0)
        left = np.maximum(self.own[few, None] - share, 0.0)
        moved = weight[few, None] ** 2 * left
        moved[owner[few, None] != owner[None, :]] = np.inf
        moved[np.arange(len(few)), few] = np.inf
        best, other = np.unravel_index(int(np.argmin(moved)), moved.shape)
        second = self._block(self.kernel.prepare(_rows(self.rows[[other]])), basis)
        return int(few[best]), int(other), np.vstack([K[best], second])

    def _remove(self, row: int, to: int | None, K: Array, chunk: _Chunk | None) -> None:
        owner = int(np.abs(self.coef[:, row]).argmax())
        weight = float(self.coef[owner, row])
        moved, change, taken = 0.0, np.array([-weight]), [row]
        if to is not None:
            moved = weight * float(K[0, to] / self.own[to]) if self.own[to] > 0 else 0.0
            change, taken = np.array([-weight, moved]), [row, to]
        among = K[: len(taken)][:, taken]
        length = float(np.sqrt(max(float(change @ among @ change), 0.0)))
        step = self.coef @ (change @ K[: len(taken)])  # with every centre
        products, coef = self.products.copy(), self.coef.copy()
        products[owner, :] += step
        products[:, owner] += step
        products[owner, owner] += length**2
        if to is not None:
            coef[owner, to] += moved
        if chunk is not None:
            column = self._block(
                chunk.points, self.kernel.prepare(_rows(self.rows[taken]))
            )
            self._values = self._values.copy()
            self._values[:, owner] += column @ change
        rest = np.delete(np.arange(len(self.own)), row)
        self.products, self.coef = products, coef[:, rest]
        self.rows, self.own = self.rows[rest], self.own[rest]
        self.balls = self.balls.displaced(owner, length)


class _Chunk:
    """Some rows of a block, with the numbers that do not depend on the balls."""

    def __init__(self, X: Any, signs: Signs, stream: KernelStream):
        n = X.shape[0]
        form, rows = stream.form, _rows(X)
        self.X, self.points = X, stream.kernel.prepare(rows)
        self.sign = np.where(
            np.broadcast_to(signs.codes, n) == signs.positive, 1.0, -1.0
        )
        inverse = np.broadcast_to(signs.inverse, n)
        self.present = inverse != np.inf
        self.inverse = np.where(self.present, inverse, 0.0)
        own = stream.kernel.diagonal(rows) + form.bias
        self.own = finite(own, stream.kernel)
        self.lifted = self.inverse + (self.own if form.constrained else 0.0)
        seen = np.where(self.present, self.lifted, -np.inf)
        self.eta = np.maximum(np.maximum.accumulate(seen), stream.eta)


def _rows(values: Any) -> Rows:
    return Rows(values, np.arange(values.shape[0]))
