"""Balls around the rows of a stream: their base class, and the linear ones.

A stream is a value: `absorb` returns a new one and leaves the old one unchanged, so
that a block with a bad row in its middle changes nothing. Memory is that of the
elements: ``n_balls`` centres, each of one number per column (StreamSVM, Rai, Daume and
Venkatasubramanian 2008; several balls, C, norms and merging: docs/mathematics.md,
4 Streaming balls).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.backend.loops import streaming as loops
from corevec.solvers.streaming.geometry import (
    Balls,
    Form,
    UnusableRow,
    enclosed,
    settle,
)


@dataclass(frozen=True)
class Signs:
    """The signs and weights of rows.

    `codes` are class codes (int32): +1 where they are `positive`, else -1. `inverse`
    is ``1/C_i`` of each row, infinite for a row that is absent. Either may have one
    entry for all rows.
    """

    codes: Array
    positive: int
    inverse: Array

    def part(self, start: int, stop: int) -> Signs:
        """Return those of the rows from `start` up to `stop`."""
        codes = self.codes[start:stop] if len(self.codes) > 1 else self.codes
        inverse = self.inverse[start:stop] if len(self.inverse) > 1 else self.inverse
        return Signs(codes, self.positive, inverse)

    def n_present(self, n_rows: int) -> int:
        """Return how many of the `n_rows` rows are not absent."""
        if len(self.inverse) == 1:
            return n_rows if np.isfinite(self.inverse[0]) else 0
        return int(np.count_nonzero(self.inverse != np.inf))


@dataclass(frozen=True)
class Whole:
    """The ball that holds all rows seen, and a lower bound of the smallest one.

    `weights` are those of the stream's elements in its centre. ``lower_radius <=
    radius of the smallest ball <= radius``.
    """

    weights: Array
    norm_sq: float
    slack: float
    radius: float
    lower_radius: float

    @property
    def centre_norm_sq(self) -> float:
        """Squared norm of the centre, slack coordinates included.

        At the smallest ball of a two-class machine it is the margin: ``w / this`` then
        is the solution of the L2-SVM with margin 1.
        """
        return self.norm_sq + self.slack


class BallStream(ABC):
    """The elements of one stream: balls, and rows that wait to be absorbed."""

    def __init__(self, form: Form):
        self.form = form
        self.balls = Balls.none()
        self.eta = 0.0
        self.n_rows = 0
        self.n_updates = 0
        self._whole: Whole | None = None

    @abstractmethod
    def absorb(self, X: Any, signs: Signs) -> Self:
        """Return the stream after the rows of `X`, in their order."""

    @abstractmethod
    def joined(self, other: Self) -> Self:
        """Return the stream of this one's rows and those of `other`."""

    @abstractmethod
    def _products(self, which: Array) -> Array:
        """Return inner products of centres' images, the first one as the origin."""

    @abstractmethod
    def _norm_sq(self, weights: Array) -> float:
        """Return the squared norm of the image of a mean of centres."""

    @abstractmethod
    def _combine(self, change: Array) -> None:
        """Replace the centres by means of centres, one per row of `change`."""

    def whole(self) -> Whole:
        """Return the ball that holds every row seen (cached until the next row)."""
        if self._whole is None:
            everything = np.arange(len(self.balls))
            weights, ball = enclosed(self._gram(everything), self.balls)
            norm_sq = max(self._norm_sq(weights), 0.0)
            slack, deficit = float(ball.slack[0]), float(ball.deficit[0])
            if self.form.constrained:
                # The centre's own norm, plus its drift, bounds the dual value too.
                norm = np.sqrt(norm_sq + slack) + float(ball.drift[0])
                deficit = min(deficit, norm**2)
            radius = float(ball.radius(self.eta)[0])
            lower = min(np.sqrt(max(self.eta - deficit, 0.0)), radius)
            self._whole = Whole(weights, norm_sq, slack, radius, float(lower))
        return self._whole

    def _begin(self) -> Self:
        new = copy.copy(self)
        new._whole = None
        return new

    def _gram(self, which: Array) -> Array:
        """Return inner products of centres, slacks included, from the first one."""
        gram = self._products(which)
        slack = self.balls.slack[which]
        gram[1:, 1:] += slack[0]
        gram[np.arange(1, len(which)), np.arange(1, len(which))] += slack[1:]
        return gram

    def _settle(self) -> None:
        while True:
            step = settle(self._gram, self.balls, self.eta, self.form)
            if step is None:
                return
            change, self.balls = step
            self._combine(change)

    def _join_numbers(self, other: BallStream) -> None:
        self.balls = self.balls.joined(other.balls)
        self.eta = max(self.eta, other.eta)
        self.n_rows += other.n_rows
        self.n_updates += other.n_updates


class LinearStream(BallStream):
    """Balls whose centres are vectors: one number per column, and the bias."""

    def __init__(self, form: Form, n_features: int):
        super().__init__(form)
        self.vectors = np.empty((0, n_features + 1))

    def centre(self) -> tuple[Array, float]:
        """Return the centre of the whole ball: columns, and bias."""
        centre = self.whole().weights @ self.vectors
        return centre[:-1], float(centre[-1])

    def absorb(self, X: Any, signs: Signs) -> Self:
        """Return the stream after the rows of `X`, in their order.

        Raises `UnusableRow` with the number of the first row that is not finite.
        """
        new = self._begin()
        scan = _Scan(X, signs, new.form, new.vectors.shape[1])
        n, at = X.shape[0], 0
        while at < n:
            if new.form.n_balls == 1 and len(new.balls) == 1:
                at = new._move_the_only_ball(scan, at)
                continue
            at = scan.next_outside(at, new)
            if at < n:
                new._arrive(scan.row, signs.inverse[at % len(signs.inverse)])
                at += 1
        new.n_rows += signs.n_present(n)
        return new

    def joined(self, other: Self) -> Self:
        """Return the stream of this one's rows and those of `other`."""
        new = self._begin()
        new._join_numbers(other)
        new.vectors = np.vstack([new.vectors, other.vectors])
        new._settle()
        return new

    def _arrive(self, row: Array, inverse: float) -> None:
        """Absorb a row that lies outside all balls."""
        lifted = float(inverse)
        if self.form.constrained:
            lifted += float(row @ row)
        self.eta = max(self.eta, lifted)  # the scan may have summed in another order
        self.vectors = np.vstack([self.vectors, row])
        self.balls = self.balls.with_row(float(inverse), lifted)
        self.n_updates += 1
        self._settle()

    def _move_the_only_ball(self, scan: _Scan, at: int) -> int:
        """Absorb all rows from `at` on in compiled code; return the row after them."""
        balls = self.balls
        numbers = np.zeros(5)
        numbers[loops.ETA] = self.eta
        numbers[loops.POWER], numbers[loops.DEFICIT] = balls.power[0], balls.deficit[0]
        numbers[loops.IS_ROW] = float(balls.is_row[0])
        centres, table = self._table(~balls.is_row)
        if balls.is_row[0]:
            centres = self.vectors.copy()
            table[0, loops.SLACK] = balls.slack[0]
        end = scan.run(at, centres, table, numbers, alone=True)
        self.vectors = centres
        self.eta = float(numbers[loops.ETA])
        self.n_updates += int(numbers[loops.UPDATES])
        self.balls = Balls(
            table[:, loops.SLACK].copy(),
            numbers[[loops.POWER]],
            numbers[[loops.DEFICIT]],
            np.sqrt(table[:, loops.WIDTH]),
            np.zeros(1),
            numbers[[loops.IS_ROW]] > 0,
        )
        return end

    def _table(self, which: Array) -> tuple[Array, Array]:
        """Return the centres of some balls, and their numbers for the compiled loops.

        Where there is no ball, a centre that holds no row.
        """
        if not which.any():
            table = np.zeros((1, 4))
            table[0, loops.LEAST] = np.inf
            return np.zeros((1, self.vectors.shape[1])), table
        centres = np.ascontiguousarray(self.vectors[which])
        balls = self.balls[which]
        table = np.empty((len(centres), 4))
        table[:, loops.NORM] = np.einsum("ij,ij->i", centres, centres)
        table[:, loops.SLACK] = balls.slack
        table[:, loops.LEAST] = balls.slack + balls.power
        table[:, loops.WIDTH] = balls.width**2
        if self.form.constrained:
            table[:, loops.LEAST] += table[:, loops.NORM]
            table[:, loops.LEAST] /= 2
        return centres, table

    def _products(self, which: Array) -> Array:
        steps = self.vectors[which] - self.vectors[which[0]]
        return np.asarray(steps @ steps.T)

    def _norm_sq(self, weights: Array) -> float:
        centre = weights @ self.vectors
        return float(centre @ centre)

    def _combine(self, change: Array) -> None:
        self.vectors = change @ self.vectors


class _Scan:
    """The rows of one block, in the form of the compiled loops."""

    def __init__(self, X: Any, signs: Signs, form: Form, width: int):
        self.signs = signs
        self.how = (form.bias, not form.constrained)
        self.row = np.empty(width)
        self.n = X.shape[0]
        self.X = X
        if sparse.issparse(X):
            self.rows: Any = (X.data, X.indices, X.indptr)
        else:
            self.rows = np.ascontiguousarray(X)

    def next_outside(self, at: int, stream: LinearStream) -> int:
        """Return the next row outside all balls; the rows before it raise eta."""
        balls = ~stream.balls.is_row
        centres, table = stream._table(balls)
        numbers = np.zeros(5)
        numbers[loops.ETA] = stream.eta
        found = self.run(at, centres, table, numbers, alone=False)
        stream.eta = float(numbers[loops.ETA])
        if balls.any():
            width = stream.balls.width.copy()
            width[balls] = np.sqrt(table[:, loops.WIDTH])
            stream.balls = replace(stream.balls, width=width)
        return found

    def run(
        self, at: int, centres: Array, table: Array, numbers: Array, *, alone: bool
    ) -> int:
        """Return the row at which the compiled pass ends.

        Raises `UnusableRow` where a row is not finite.
        """
        signs = loops.RowSigns(
            self.signs.codes, self.signs.positive, self.signs.inverse
        )
        balls = loops.Balls(centres, table, numbers, self.row, *self.how, alone)
        loop = loops.csr_pass if isinstance(self.rows, tuple) else loops.dense_pass
        found = loop(self.rows, at, signs, balls)
        if found < -self.n:
            self._sort()
            place = -1 - self.n - int(found)
            return self.run(place, centres, table, numbers, alone=alone)
        if found < 0:
            raise UnusableRow(-1 - int(found))
        return int(found)

    def _sort(self) -> None:
        """Copy CSR rows into their canonical form.

        Only where the pass needs it: a check beforehand would take a tenth of its time.
        """
        X = self.X.copy()
        X.has_canonical_format = X.has_sorted_indices = False
        X.sum_duplicates()
        self.rows = (X.data, X.indices, X.indptr)


def stacked(above: Any, below: Any) -> Any:
    """Return rows above other rows, dense if the first ones are."""
    if sparse.issparse(above):
        return sparse.vstack([above, sparse.csr_matrix(below)], format="csr")
    if sparse.issparse(below):
        below = below.toarray()
    return np.vstack([above, below])
