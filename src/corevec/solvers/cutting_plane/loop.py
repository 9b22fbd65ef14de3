"""The loop of cutting planes for the hinge loss, in any space.

Each round solves the quadratic programme over the cuts (lines 4-6 of the CPSP paper's
algorithms), evaluates its w on all rows (7-10), adds the cut that holds the rows
inside the margin (12-14) and, where the space can grow, adds basis vectors for the part
of that cut that the span misses (15-18).

Beyond the paper, unless its `epsilon` is asked for, the incumbent w is improved by an
exact line search towards the new one, and the cut is made near it (Franc and
Sonnenburg 2008). The best objective is an upper bound, the programme over the cuts a
lower bound of the problem in the space; the rounds end when they meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from corevec._runtime.progress import Progress, RoundState
from corevec._runtime.types import Array
from corevec.certificates.dual_bounds import BoundRequest, DualBound
from corevec.certificates.hinge import HingeProblem
from corevec.models.certificate import relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.solvers.cutting_plane.master_qp import Cuts

# A cut is removed after so many rounds without a multiplier. The paper removes it at
# once; it may be needed again, and 20 idle ones cost little.
MAX_IDLE_ROUNDS = 20
# The cut is made this far on the way from the incumbent w to the newest (OCAS: 0.1).
CUT_POINT_STEP = 0.1
# The problem in the space is solved to this share of `tol`.
INNER_TOL_SHARE = 0.5
MAX_ROUNDS = 20_000
# After so many rounds in which neither bound moves, rounding allows no more.
MAX_STALLED_ROUNDS = 30
# Beyond the paper: the span grows once the problem in it is solved to this relative
# gap, so that the first vectors are not spent on the first, rough cuts. adult, 10,000
# rows, 10 vectors: objective 3663 with 0.3, 3750 without; mnist 0-vs-rest, 20 vectors:
# 675 and 753.
GROW_BELOW_GAP = 0.3


class Space(Protocol):
    """The space of weight vectors w, as the loop and the certificate need it."""

    @property
    def width(self) -> int:
        """The length of a weight vector."""

    @property
    def size(self) -> int:
        """The number of basis vectors, for the record."""

    def values(self, weights: Array) -> Array:
        """Return f of all rows."""

    def direction(self, theta: Array) -> Array:
        """Return ``sum_i theta_i phi(x_i)`` (its projection, in a span)."""

    def inner(self, left: Array, right: Array) -> Any:
        """Return inner products of weight vectors."""

    def expansion(self, weights: Array) -> tuple[KernelExpansion, float]:
        """Return f as an expansion, and |w|^2 without the bias."""

    @property
    def can_grow(self) -> bool:
        """Whether more basis vectors may be added."""

    def extend(self, cuts: Cuts, theta: Array) -> None:
        """Add basis vectors for ``sum_i theta_i phi(x_i)``."""

    def dual_bound(
        self, problem: HingeProblem, beta: Array, request: BoundRequest
    ) -> DualBound:
        """Return what multipliers prove about the full problem."""

    def largest_distance(
        self, problem: HingeProblem, cuts: Cuts, affordable: float
    ) -> float:
        """Return Theorem 2's delta: 0 where the space holds every cut."""


@dataclass(frozen=True)
class Rules:
    """When the rounds stop, and whether they are the paper's own.

    Attributes
    ----------
    tol : float
        Relative duality gap of the full problem to reach.
    epsilon : float or None
        The paper's precision: run its algorithm literally and stop by its rule.
    """

    tol: float = 1e-3
    epsilon: float | None = None

    @property
    def is_literal(self) -> bool:
        """Whether the paper's rule stops the run, and its w is the answer."""
        return self.epsilon is not None


@dataclass
class Point:
    """A weight vector, its values on all rows and its objective in the space."""

    weights: Array
    values: Array
    norm_sq: float
    primal: float


@dataclass
class State:
    """One run: the cuts, the incumbent, the bounds of the last round."""

    problem: HingeProblem
    cuts: Cuts
    best: Point
    lower: float = 0.0
    excess: float = np.inf  # risk(w) - xi of the newest w (line 19)
    rounds_without_gain: int = 0
    bounds: tuple[float, float] = (0.0, np.inf)

    @property
    def gap(self) -> float:
        """Relative gap of the problem in the space."""
        return relative_gap(self.best.primal, self.lower)


def cutting_planes(
    problem: HingeProblem, space: Space, rules: Rules, progress: Progress
) -> tuple[State, str]:
    """Return the state after the last round, and what stopped the rounds.

    Cost of a round: two passes over the rows (one product each with the cached
    features), and the programme over some 30-100 cuts.
    """
    n = len(problem.sign)
    zero = Point(np.zeros(space.width), np.zeros(n), 0.0, problem.loss(np.zeros(n)))
    state = State(problem, Cuts(problem.C, space.width, n), zero)
    stopped_by = "stall"
    for _ in range(MAX_ROUNDS):
        state.lower = state.cuts.solve()  # lines 4-6
        newest = _point(state, space, progress)  # lines 7-10
        at = _improve(state, newest, space, rules)
        _record(state, space, progress)
        spent = progress.spent()
        done = _is_done(state, space, rules)
        if spent is not None or done or _is_stalled(state):
            stopped_by = spent or ("max_vectors" if done else "stall")
            break
        state.cuts.drop_idle(0 if rules.is_literal else MAX_IDLE_ROUNDS)  # line 11
        _add_cut(state, at, space, progress)  # lines 12-14
        if space.can_grow:
            _grow(state, space, rules)  # lines 15-18
    return state, stopped_by


def _point(state: State, space: Space, progress: Progress) -> Point:
    """Return the model's w with its values on all rows; set `excess`."""
    cuts, problem = state.cuts, state.problem
    weights = cuts.combined()
    values = space.values(weights)
    progress.rows_looked_at += len(values)
    norm_sq = float(cuts.alpha @ (cuts.H @ cuts.alpha))
    loss = problem.loss(values)
    state.excess = loss / problem.C - cuts.slack
    return Point(weights, values, norm_sq, norm_sq / 2 + loss)


def _improve(state: State, newest: Point, space: Space, rules: Rules) -> Array:
    """Update the incumbent; return the values at which the next cut is made."""
    best = state.best
    if rules.is_literal:
        state.best = newest
        return newest.values
    cross = float(space.inner(best.weights, newest.weights))
    step_sq = max(newest.norm_sq - 2 * cross + best.norm_sq, 0.0)
    slope = cross - best.norm_sq
    t = line_search(state.problem, best.values, newest.values, slope, step_sq)
    moved = _between(state.problem, best, newest, t, cross)
    if moved.primal < best.primal:
        state.best = best = moved
    return np.asarray(
        (1 - CUT_POINT_STEP) * best.values + CUT_POINT_STEP * newest.values
    )


def _between(
    problem: HingeProblem, a: Point, b: Point, t: float, cross: float
) -> Point:
    weights = (1 - t) * a.weights + t * b.weights
    values = (1 - t) * a.values + t * b.values
    norm_sq = (1 - t) ** 2 * a.norm_sq + 2 * t * (1 - t) * cross + t**2 * b.norm_sq
    norm_sq = max(norm_sq, 0.0)
    return Point(weights, values, norm_sq, norm_sq / 2 + problem.loss(values))


def line_search(
    problem: HingeProblem, start: Array, end: Array, slope: float, curve: float
) -> float:
    """Return the t >= 0 that minimises the objective at ``start + t (end - start)``.

    `slope` and `curve` are those of ``|w|^2/2`` along the line. Exact: the derivative
    is piecewise linear and grows by ``C s_i |change of the margin|`` where row i enters
    or leaves the margin; one sort of those places.
    """
    present = problem.omega > 0
    sign, omega = problem.sign[present], problem.omega[present]
    margin = sign * start[present]
    change = sign * end[present] - margin
    inside = (margin < 1) | ((margin == 1) & (change < 0))
    slope -= float(omega[inside] @ change[inside])
    if slope >= 0:
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        place = (1.0 - margin) / change
    ahead = np.flatnonzero((place > 0) & np.isfinite(place))
    ahead = ahead[np.argsort(place[ahead])]
    place, jump = place[ahead], (omega * np.abs(change))[ahead]
    after = slope + curve * place + np.cumsum(jump)
    first = int(np.searchsorted(after >= 0, True))
    before = slope + float(jump[:first].sum())
    if curve > 0:
        inner = -before / curve
        return float(inner if first == len(place) else min(inner, place[first]))
    return float(place[first]) if first < len(place) else 1.0


def rescale(state: State) -> None:
    """Move the incumbent to its best multiple (a line search from zero)."""
    best = state.best
    nothing = np.zeros_like(best.values)
    t = line_search(state.problem, nothing, best.values, 0.0, best.norm_sq)
    zero = Point(np.zeros_like(best.weights), nothing, 0.0, np.inf)
    scaled = _between(state.problem, zero, best, t, 0.0)
    if scaled.primal < best.primal:
        state.best = scaled


def _add_cut(state: State, values: Array, space: Space, progress: Progress) -> None:
    """Add the cut that holds the rows inside the margin."""
    problem, cuts = state.problem, state.cuts
    held = (problem.sign * values < 1) & (problem.omega > 0)
    share = problem.omega / problem.C
    direction = space.direction(np.where(held, share * problem.sign, 0.0))
    progress.rows_looked_at += len(values)
    products = space.inner(cuts.directions, direction)
    own = float(space.inner(direction, direction))
    cuts.add(direction, np.append(products, own), float(share[held].sum()), held)


def _grow(state: State, space: Space, rules: Rules) -> None:
    """Add basis vectors for the newest cut; pad the incumbent with zeros.

    Where the problem in the span is solved already, the vectors are for the part of
    the whole solution that the span misses.
    """
    cuts, problem = state.cuts, state.problem
    if not rules.is_literal and space.size and state.gap > GROW_BELOW_GAP:
        return
    share = problem.sign * problem.omega / problem.C
    if not rules.is_literal and state.gap <= INNER_TOL_SHARE * rules.tol:
        weight = cuts.row_share() / max(float(cuts.alpha.sum()), 1e-300)
        space.extend(cuts, share * weight)
    else:
        space.extend(cuts, np.where(cuts.held(len(cuts) - 1), share, 0.0))
    missing = space.width - len(state.best.weights)
    state.best.weights = np.append(state.best.weights, np.zeros(missing))


def _is_done(state: State, space: Space, rules: Rules) -> bool:
    if rules.epsilon is not None:
        return state.excess <= rules.epsilon
    return state.gap <= INNER_TOL_SHARE * rules.tol and not space.can_grow


def _is_stalled(state: State) -> bool:
    return state.rounds_without_gain >= MAX_STALLED_ROUNDS


def _record(state: State, space: Space, progress: Progress) -> None:
    bounds = state.lower, state.best.primal
    moved = np.abs(np.subtract(bounds, state.bounds)) > 1e-13 * bounds[1]
    stuck = not moved.any() and not space.can_grow
    state.rounds_without_gain = state.rounds_without_gain + 1 if stuck else 0
    state.bounds = bounds
    weights = state.best.weights
    progress.record(
        RoundState(lambda: space.expansion(weights)[0]),
        core=space.size,
        support=space.size,
        gap=float("nan"),  # of the full problem: known only at the end
        promise=state.gap,
        dual=float("nan"),
        primal=state.best.primal,
        lower=state.lower,
        excess=state.excess,
        cuts=len(state.cuts),
        looked_at=len(state.problem.sign),
        exact=True,
    )
