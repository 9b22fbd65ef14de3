r"""The geometry of streaming balls: growing, merging, enclosing several.

Row i becomes the lifted point ``(z_i, e_i/sqrt(C_i), height_i)``: its image (times its
label), a slack coordinate of its own, and a height. Centres stay at height 0. There are
two kinds of ball:

===========  =======================  ==============================================
kind         squared height           used for
===========  =======================  ==============================================
constrained  eta - |z_i|^2 - 1/C_i    classifiers: the ball of the two-class L2-SVM
plain        eta - 1/C_i              detectors: the ball of the rows (soft SVDD)
===========  =======================  ==============================================

with eta the least number for which no squared height is negative. Either way the
squared distance of a new row from a centre ``(w, slack part of squared norm s, 0)`` is

    constrained   |w|^2 + s - 2 w.z + eta         plain   |w - z|^2 + s + eta

and when eta grows by e along the stream, so do every squared distance and R^2. A ball
is therefore stored by numbers that do not depend on eta:

- ``power = eta - R^2``;
- ``deficit = eta - D``, with D = sum a_i |p_i - c|^2 the dual value of the ball: the
  centre c is the mean of lifted points p_i with weights a_i, so ``R*^2 >= D`` for the
  smallest ball R*. Means of means follow ``D = sum_j l_j (D_j + |c_j - c|^2)``. For a
  constrained ball the deficit is |w|^2 + s.

- ``width``, an upper bound of the distance of the ball's rows from the centre, without
  heights and without the own slack of rows that have no part in any centre. Seen from
  a centre at a distance t, a row within R and width is within

      sqrt(R^2 + 2 t width + t^2)        (width = R, all heights 0: R + t, the paper's)

  so that heights do not accumulate when a ball moves.

Slack coordinates of different rows are orthogonal, so those of balls on disjoint rows
are too: only s is stored of them. A row that no ball has absorbed yet is an element
like the balls, of width 0; its power and deficit are eta minus its squared height.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import brentq

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.solvers.numeric.dual_qp import DualProblem, SmoRule, smo

# Inner products of the centres of the given elements, with the first one as the origin.
Gram = Callable[[Array], Array]

# Several wide balls are enclosed by cuts at their far points: the largest number of
# rounds, and the distance of R^2 from its lower bound at which they end, in units of
# the centres' largest squared distance. The ball encloses all, whatever these are.
MAX_CUT_ROUNDS = 30
RADIUS_TOL = 1e-6
# Quadratic programmes are scaled to entries of at most 1 and solved to rounding. Rows
# in general position need hundreds of steps, dependent ones thousands.
QP_RULE = SmoRule(1e-13, relative=False, max_steps=20_000)


class UnusableRow(InvalidInputError):
    """A row with NaN, infinity, or entries whose squares overflow."""

    def __init__(self, row: int):
        super().__init__(f"row {row} is not finite, or too large to be squared")
        self.row = row


@dataclass(frozen=True)
class Form:
    """The number of balls, their kind, and how they are merged.

    `general` merges the pair that grows least; otherwise all elements are enclosed at
    once as soon as there are more than `n_balls` of them.
    """

    n_balls: int = 1
    general: bool = False
    constrained: bool = True
    bias: float = 1.0


@dataclass(frozen=True)
class Balls:
    """The numbers of several elements on disjoint rows, each of shape (elements,).

    `slack` is s; `drift` bounds the distance of the centre from the mean of rows that
    it stands for (above 0 only after a budget on an expansion has moved it); `is_row`
    marks rows that wait to be absorbed: no row is searched inside them.
    """

    slack: Array
    power: Array
    deficit: Array
    width: Array
    drift: Array
    is_row: Array

    @staticmethod
    def none() -> Balls:
        """Return no elements."""
        empty = np.empty(0)
        return Balls(empty, empty, empty, empty, empty, np.empty(0, dtype=bool))

    @property
    def _columns(self) -> tuple[Array, ...]:
        numbers = self.slack, self.power, self.deficit, self.width, self.drift
        return *numbers, self.is_row

    def __len__(self) -> int:
        return len(self.slack)

    def __getitem__(self, which: Any) -> Balls:
        return Balls(*(column[which] for column in self._columns))

    def joined(self, other: Balls) -> Balls:
        """Return the elements of both, these first."""
        return Balls(*map(np.append, self._columns, other._columns))

    def with_row(self, inverse: float, lifted: float) -> Balls:
        """Return the elements and one row; `lifted` is eta minus its squared height."""
        own, zero = np.array([lifted]), np.zeros(1)
        given = np.array([inverse]), own, own, zero, zero
        return self.joined(Balls(*given, np.ones(1, dtype=bool)))

    def radius(self, eta: float) -> Array:
        """Return each radius; for a row its height."""
        return np.sqrt(np.maximum(eta - self.power, 0.0))

    @property
    def above(self) -> Array:
        """Each squared radius (a row's squared height), minus the smallest of them.

        Only differences decide how elements are enclosed: eta, which may be far larger
        than all of them, has no influence.
        """
        return np.asarray(self.power.max() - self.power)

    def displaced(self, which: int, by: float) -> Balls:
        """Return the elements after the centre of one has been moved by a length."""
        power, width, drift = self.power.copy(), self.width.copy(), self.drift.copy()
        power[which] -= 2 * by * width[which] + by**2
        width[which] += by
        drift[which] += by
        return replace(self, power=power, width=width, drift=drift)


def enclosed(gram: Array, balls: Balls) -> tuple[Array, Balls]:
    """Return the weights of the elements in the centre of one ball, and that ball.

    `gram` holds the inner products of the centres, images and slacks together, with the
    first centre as the origin.
    """
    if len(balls) == 1:
        return np.ones(1), balls
    above, width = balls.above, balls.width
    if len(balls) == 2:
        apart = np.sqrt(max(float(gram[1, 1]), 0.0))
        weight = float(_pair_weight(apart, above, width))
        weights = np.array([1.0 - weight, weight])
        distance = apart * weights[::-1]
    else:
        weights = _smallest(gram, above, width)
        distance = _distances(gram, weights)
    drift = float(weights @ balls.drift)
    sure = np.maximum(distance - balls.drift - drift, 0.0)
    ball = Balls(
        np.array([weights**2 @ balls.slack]),
        -_reach_sq(distance, -balls.power, width).max(keepdims=True),
        np.array([weights @ (balls.deficit - sure**2)]),
        np.array([float((distance + width).max())]),
        np.array([drift]),
        np.zeros(1, dtype=bool),
    )
    return weights, ball


def settle(
    gram: Gram, balls: Balls, eta: float, form: Form
) -> tuple[Array, Balls] | None:
    """Return one merge towards `n_balls` elements, None if there are no more.

    It is a matrix whose rows are the weights of the new elements in the old ones, and
    the new elements.
    """
    n = len(balls)
    if n <= form.n_balls:
        return None
    if n == 2 or not form.general:
        weights, ball = enclosed(gram(np.arange(n)), balls)
        return weights[None, :], ball
    pair = _least_growth(gram(np.arange(n)), balls, eta)
    weights, ball = enclosed(gram(pair), balls[pair])
    others = np.setdiff1d(np.arange(n), pair)
    change = np.zeros((n - 1, n))
    change[0, pair] = weights
    change[np.arange(1, n - 1), others] = 1.0
    return change, ball.joined(balls[others])


def _pair_weight(apart: Any, above: Any, width: Any) -> Any:
    """Return the second one's weight in the centre that encloses two elements.

    Where the two reach equally far: a linear equation, because the squares of the
    distances cancel. 0 or 1 where one holds the other.
    """
    lead = apart**2 + 2 * apart * width[1] + above[1] - above[0]
    base = 2 * apart * (apart + width[0] + width[1])
    inside = np.where(above[1] > above[0], 1.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(base > 0, np.clip(lead / base, 0.0, 1.0), inside)


def _reach_sq(distance: Any, above: Any, width: Any) -> Array:
    """Return the squared reach of each element from a centre at this distance.

    `above` holds squared radii, all minus the same number, and so does the answer.
    """
    return np.asarray(above + 2 * distance * width + distance**2)


def _least_growth(gram: Array, balls: Balls, eta: float) -> Array:
    """Return the two elements whose ball exceeds the larger of them least."""
    above, width, radius = balls.above, balls.width, balls.radius(eta)
    i, j = np.array(list(combinations(range(len(balls)), 2))).T
    own = gram.diagonal()
    apart = np.sqrt(np.maximum(own[i] + own[j] - 2 * gram[i, j], 0.0))
    weight = _pair_weight(apart, (above[i], above[j]), (width[i], width[j]))
    reach_sq = np.maximum(
        _reach_sq(weight * apart, above[i], width[i]),
        _reach_sq((1 - weight) * apart, above[j], width[j]),
    )
    # R' - R = (R'^2 - R^2) / (R' + R): the squares differ by numbers without eta.
    before, more = np.maximum(radius[i], radius[j]), np.maximum(above[i], above[j])
    gain = np.maximum(reach_sq - more, 0.0)
    both = before + np.sqrt(before**2 + gain)
    growth = np.where(gain > 0, gain / np.where(both > 0, both, 1.0), 0.0)
    best = int(np.argmin(growth))
    return np.array([i[best], j[best]])


def _distances(gram: Array, weights: Array) -> Array:
    """Return each centre's distance from the mean with these weights."""
    steps = weights[None, :] - np.eye(len(weights))
    squares = np.einsum("ij,ij->i", steps @ gram, steps)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def _smallest(gram: Array, above: Array, width: Array) -> Array:
    """Return weights that minimise the largest reach, over the hull of the centres."""
    scale = max(float(gram.diagonal().max()), float(above.max()))
    if scale <= 0.0:
        return np.full(len(above), 1.0 / len(above))
    gram, above, width = gram / scale, above / scale, width / np.sqrt(scale)
    wide = np.flatnonzero(width > 0)
    if len(wide) == 0:
        return _around_points(gram, gram.diagonal() + above)
    if len(wide) == 1:
        return _around_ball_and_points(gram, above, width, int(wide[0]))
    return _around_balls(gram, above, width)


def _around_points(gram: Array, linear: Array, start: Array | None = None) -> Array:
    """Return the weights that maximise ``linear'a - a' gram a``."""
    n = len(linear)
    start = np.full(n, 1.0 / n) if start is None else start
    problem = DualProblem(gram, np.zeros(n), linear / 2, total=1.0)
    return smo(problem, start, QP_RULE).multipliers


def _around_ball_and_points(
    gram: Array, above: Array, width: Array, ball: int
) -> Array:
    """Return the weights of the smallest ball around one ball and points.

    With the ball's centre as the origin, the best centre c for the points, if a price
    is put on |c|^2, is k times a mean of them, 0 <= k <= 1: ``c = k sum a_i v_i`` with
    the a that maximise ``a'q - k a'Ga``, ``q_i = |v_i|^2 + height_i^2``. As k grows,
    the points' reach falls and the ball's rises: the smallest ball is where they meet.
    """
    points = np.delete(np.arange(len(above)), ball)
    origin = gram - gram[ball] - gram[:, [ball]] + gram[ball, ball]
    own = origin[np.ix_(points, points)]
    linear = own.diagonal() + above[points]
    weights, last = np.zeros(len(above)), [np.full(len(points), 1.0 / len(points))]

    def lead(k: float) -> float:
        """Return the squared reach of the points minus that of the ball."""
        a = last[0] = _around_points(k * own, linear, last[0])
        values = own @ a
        moved_sq = max(k * k * float(a @ values), 0.0)
        reach_sq = float((linear - 2 * k * values).max()) + moved_sq
        moved = np.sqrt(moved_sq)
        return reach_sq - float(_reach_sq(moved, above[ball], width[ball]))

    share = 0.0
    if linear.max() > above[ball]:
        share = 1.0
        if lead(1.0) < 0:
            share = brentq(lead, 0.0, 1.0, xtol=1e-15)
            lead(share)
    weights[points], weights[ball] = share * last[0], 1.0 - share
    return weights


def _around_balls(gram: Array, above: Array, width: Array) -> Array:
    """Return weights of a small ball around several balls.

    A ball is replaced by some points that bound its reach from below: first one above
    its centre, at the height R, then in each round the one farthest from the centre
    found, `width` behind its own centre. Enclosing points is a quadratic programme,
    whose value is a lower bound.
    """
    n = len(above)
    points, heights, a = np.eye(n), above, np.full(n, 1.0 / n)
    best, least = a, np.inf
    for _ in range(MAX_CUT_ROUNDS):
        inner = points @ gram @ points.T
        linear = inner.diagonal() + heights
        a = _around_points(inner, linear, a)
        centre = points.T @ a
        # At the optimum the centre is in the hull; on the way there it may not be.
        weights = np.maximum(centre, 0.0)
        weights /= weights.sum()
        reach_sq = float(_reach_sq(_distances(gram, weights), above, width).max())
        if reach_sq < least:
            best, least = weights, reach_sq
        bound = float(linear @ a - a @ inner @ a)
        distance = _distances(gram, centre)
        beyond = _reach_sq(distance, above, width) > bound
        far = np.flatnonzero((width > 0) & beyond & (distance > 0))
        if least <= bound + RADIUS_TOL or len(far) == 0:
            break
        own = np.eye(n)[far]
        ahead = (width[far] / distance[far])[:, None]
        points = np.vstack([points, own + ahead * (own - centre)])
        heights = np.append(heights, above[far] - width[far] ** 2)
        a = np.append(a, np.zeros(len(far)))
    return best
