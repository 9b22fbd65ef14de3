"""The 1-slack structural machine (CPSP paper, problem 2 and Algorithm 1), linear.

    min  |w|^2/2 + C sum_i s_i max over y of
             loss(y_i, y) - <w, Psi(x_i, y_i) - Psi(x_i, y)>

A *model* defines Psi, the loss and the maximising y; the loop knows nothing else. The
programme over the cuts is a lower bound, the objective of any w an upper bound, so
their gap is the certificate, exact on all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from corevec._runtime.progress import Progress, RoundState
from corevec._runtime.types import Array
from corevec.data.sources import Source
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows
from corevec.models.certificate import Certificate, relative_gap
from corevec.solvers.cutting_plane.master_qp import Cuts

# Rounds without a multiplier after which a cut is removed, rounds in all, and rounds in
# which neither bound moves: then rounding allows no more.
MAX_IDLE_ROUNDS, MAX_ROUNDS, MAX_STALLED_ROUNDS = 20, 20_000, 50
# The cut is made at this share of the way from the incumbent w to the newest of the
# cuts (Ben-Ameur and Neto 2007). Rounds to a gap of 1e-3 at C = 1 with 1.0 (the paper),
# 0.5, 0.2, 0.1: satimage 657, 293, 178, 155; digits 1702, 951, 743, 812.
CUT_POINT_STEP = 0.2


class StructuralModel(Protocol):
    """A user's model of a structured output of any kind."""

    def joint_feature(self, x: Any, y: Any) -> Any:
        """Return the vector Psi(x, y), of one length for all x and y."""

    def loss(self, y_true: Any, y: Any) -> float:
        """Return what predicting y costs where y_true is right; 0 for y_true itself."""

    def argmax(self, x: Any, y_true: Any, w: Array) -> Any:
        """Return the y with the largest ``loss(y_true, y) + <w, joint_feature(x, y)>``.

        With ``y_true=None`` there is no loss: that is the prediction.
        """


@dataclass(frozen=True)
class MeanCut:
    """The most violated constraint at some w: ``risk(w) = delta - <w, direction>``."""

    direction: Array
    delta: float


class Oracle(Protocol):
    """Loss-augmented inference on all rows."""

    @property
    def width(self) -> int:
        """The length of w."""

    @property
    def n_rows(self) -> int:
        """The number of rows, for the record."""

    def worst(self, w: Array) -> MeanCut:
        """Return the most violated constraint (lines 5-11) as weighted means."""


class PlainOracle:
    """A user's model, row by row."""

    def __init__(
        self, model: StructuralModel, X: Sequence[Any], y: Sequence[Any], s: Array
    ):
        self.model, self.X, self.y = model, X, y
        self.share = s / s.sum()
        self.own = [self._feature(x, true) for x, true in zip(X, y, strict=True)]

    @property
    def width(self) -> int:
        """The length of a joint feature."""
        return len(self.own[0])

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.own)

    def worst(self, w: Array) -> MeanCut:
        """Return the weighted mean over the rows of the worst outputs."""
        direction, delta = np.zeros(self.width), 0.0
        for i in np.flatnonzero(self.share).tolist():
            x, true = self.X[i], self.y[i]
            found = self.model.argmax(x, true, w)
            direction += self.share[i] * (self.own[i] - self._feature(x, found))
            delta += self.share[i] * float(self.model.loss(true, found))
        return MeanCut(direction, delta)

    def _feature(self, x: Any, y: Any) -> Array:
        return np.asarray(self.model.joint_feature(x, y), dtype=np.float64)


class MulticlassOracle:
    """Crammer and Singer's joint feature: x in the place of its class, zeros elsewhere.

    ``Psi(x, y) = e_y (x) [x, 1]``, the 1 where there is a bias, with any costs.

    Parameters
    ----------
    source : Source
        Rows.
    codes, share : ndarray of shape (n_rows,)
        Classes, and weights that sum to 1.
    cost : ndarray of shape (n_classes, n_classes)
        Loss of predicting the column where the row is right; zero diagonal.
    has_bias : bool
        Whether a constant feature is added.
    """

    def __init__(
        self, source: Source, codes: Array, share: Array, cost: Array, has_bias: bool
    ):
        self.source, self.codes, self.share = source, codes, share
        self.cost, self.has_bias = cost, has_bias

    @property
    def width(self) -> int:
        """One weight per class and column, and per class where there is a bias."""
        return len(self.cost) * (self.source.n_features + int(self.has_bias))

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.source.n_rows

    def parts(self, w: Array) -> tuple[Array, Array]:
        """Return the weights of shape (n_classes, n_columns) and the biases."""
        table = w.reshape(len(self.cost), -1)
        d = self.source.n_features
        bias = table[:, d] if self.has_bias else np.zeros(len(table))
        return table[:, :d], bias

    def worst(self, w: Array) -> MeanCut:
        """Return the weighted mean over the rows of the worst classes; one pass."""
        weights, bias = self.parts(w)

        def score(rows: Rows) -> Array:
            return self._block(rows, weights, bias)

        found = self.source.reduce(score, np.add)
        return MeanCut(found[:-1], float(found[-1]))

    def _block(self, rows: Rows, weights: Array, bias: Array) -> Array:
        each = np.arange(len(rows))
        codes, share = self.codes[rows.index], self.share[rows.index]
        scores = np.asarray(rows.values @ weights.T, dtype=np.float64) + bias
        augmented = scores + self.cost[codes]
        worst = augmented.argmax(axis=1)
        # A tie is no violation: its row leaves the cut as it is.
        own = scores[each, codes] >= augmented[each, worst]
        worst = np.where(own, codes, worst)
        pull = np.zeros_like(scores)
        pull[each, codes] += share
        pull[each, worst] -= share
        table = np.asarray((rows.values.T @ pull).T, dtype=np.float64)
        if self.has_bias:
            table = np.concatenate([table, pull.sum(axis=0)[:, None]], axis=1)
        return np.append(table.ravel(), share @ self.cost[codes, worst])


@dataclass(frozen=True)
class StructuralTask:
    """A structural machine to be solved.

    Attributes
    ----------
    oracle : Oracle
        Loss-augmented inference on all rows.
    C : float
        The paper's C, ``C sum(s)`` of the estimator's.
    tol : float
        Relative gap at which the rounds stop.
    epsilon : float or None
        The paper's rule instead (line 12): the rounds stop where the worst constraint
        is violated by at most this more than the model's slack.
    """

    oracle: Oracle
    C: float
    tol: float = 1e-3
    epsilon: float | None = None


@dataclass
class StructuralFit:
    """The incumbent w, the bounds of the optimum, and what stopped the rounds."""

    w: Array
    primal: float
    dual: float
    stopped_by: str

    @property
    def gap(self) -> float:
        """Relative gap."""
        return relative_gap(self.primal, self.dual)


def solve(task: StructuralTask, progress: Progress) -> StructuralFit:
    """Return the machine by Algorithm 1."""
    oracle, C, tol, epsilon = task.oracle, task.C, task.tol, task.epsilon
    literal = epsilon is not None
    cuts = Cuts(C, oracle.width, 0)
    found = StructuralFit(np.zeros(oracle.width), np.inf, 0.0, "stall")
    without_gain = 0
    for _ in range(MAX_ROUNDS):
        before = found.primal, found.dual
        found.dual = max(found.dual, cuts.solve())  # line 4
        newest = cuts.combined()
        slack = cuts.slack
        at = newest
        if not literal and np.isfinite(found.primal):
            at = (1 - CUT_POINT_STEP) * found.w + CUT_POINT_STEP * newest
        cut = oracle.worst(at)  # lines 5-7, 10-11
        progress.rows_looked_at += oracle.n_rows
        risk = cut.delta - float(at @ cut.direction)
        primal = float(at @ at) / 2 + C * risk
        if primal < found.primal or literal:
            found.w, found.primal = at, primal
        _record(found, cuts, progress, oracle)
        done = risk <= slack + epsilon if epsilon is not None else found.gap <= tol
        spent = progress.spent()
        without_gain = 0 if (found.primal, found.dual) != before else without_gain + 1
        if done or spent is not None or without_gain >= MAX_STALLED_ROUNDS:
            found.stopped_by = "tol" if found.gap <= tol else (spent or "stall")
            break
        cuts.drop_idle(0 if literal else MAX_IDLE_ROUNDS)  # line 8
        cuts.add(cut.direction, _products(cuts, cut), cut.delta)
    return found


def _products(cuts: Cuts, cut: MeanCut) -> Array:
    """Return the inner products of a cut with the others and itself."""
    with np.errstate(over="ignore", invalid="ignore"):
        own = cut.direction @ cut.direction
        products = np.append(cuts.directions @ cut.direction, own)
    if np.isfinite(products).all() and np.isfinite(cut.delta):
        return products
    largest = float(np.abs(cut.direction).max())
    raise InvalidInputError(
        f"StructuralSVM: joint features of the size {largest:.3g} have products that "
        "are not finite. They must stay below 1e154 and be numbers, as must the losses."
        " Scale the columns, e.g. with StandardScaler."
    )


def certificate(
    found: StructuralFit, name: str, tol: float, progress: Progress
) -> Certificate:
    """Return the certificate: both bounds are exact, on all rows."""
    bounds = found.primal, found.dual
    stopped_by = found.stopped_by
    return Certificate.of(name, bounds, progress, tol=tol, stopped_by=stopped_by)


def _record(
    found: StructuralFit, cuts: Cuts, progress: Progress, oracle: Oracle
) -> None:
    w = found.w
    progress.record(
        RoundState(lambda: w),
        core=len(cuts),
        support=int(np.count_nonzero(cuts.alpha)),
        gap=found.gap,
        dual=found.dual,
        primal=found.primal,
        looked_at=oracle.n_rows,
        exact=True,
    )
