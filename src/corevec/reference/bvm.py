"""Ball Vector Machine: an enclosing ball of fixed radius, without a QP.

Tsang, Kocsor, Kwok, "Simpler core vector machines with enclosing balls", ICML 2007:
the algorithm of section 3 for one tolerance, and its multi-scale form.

The rows are lifted as in the Core Vector Machine, ``phi_i = [y_i phi(x_i), y_i,
e_i / sqrt(C s_i)]``, so that ``phi_i.phi_j = y_i y_j (k_ij + 1) + [i=j] / (C s_i)``.
With ``c = sum a_i phi_i``, a from the simplex, the squared distance of a row is ``|c|^2
- 2 c.phi_i + own_i``, ``own_i = k_ii + 1 + 1/(C s_i)``. The smallest ball that holds
all rows has the squared radius ``own - |c*|^2``; the machine fixes the radius at
``r = sqrt(own)``, which is a little more, and wants any ball of that radius that holds
all rows.

What that is worth. A row is inside iff ``c.phi_i >= |c|^2 / 2``: the centre separates
the lifted rows with a margin of ``|c| / 2`` at least. No direction has more than
``|c*|``, and ``|c| >= |c*|`` because c lies in the hull of the rows: that is *half of
the largest margin* at least. (The origin is inside too, and worthless: one starts at a
row, and goes no farther than needed.) The dual value of the squared-hinge machine at
``a / |c|^2`` is ``D = 1 / (2 |c|^2)``; scaled by its margin ``m = min c.phi_i``, w =
c / m has a primal value ``P <= |c|^2 / (2 m^2)``. With the tolerance, rows may be at
``(1 + epsilon) r``:

    m >= |c|^2 (1 - delta) / 2,    delta = (2 epsilon + epsilon^2) own / |c|^2,
    D <= optimum <= P <= 4 D / (1 - delta)^2.

Nothing is promised for delta near 1 or above, and |c|^2 falls with every row inside the
margin: the criticism of the Core Vector Machine's epsilon applies here too.

Weights make `own` differ from row to row. Each row then has its own radius: ``c.phi_i
>= |c|^2 / 2`` is what is asked of all of them, and delta is that of the largest `own`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from corevec._runtime.types import Array
from corevec.estimators._parameters import (
    _count,
    check_choice,
    check_number,
    check_positive,
    store,
)
from corevec.exceptions import InvalidInputError
from corevec.models.expansion import KernelExpansion
from corevec.reference import _online_loops as loops
from corevec.reference._base import (
    NO_LIMIT,
    Machine,
    ReferenceClassifier,
    check_limit,
    limit_of,
)
from corevec.reference._kernel_rows import KernelRows

# Samples that are scanned before all rows are. A sample of 59 rows misses the worst 5 %
# of the rows with probability 0.05; eight samples in succession do with 4e-11.
_TRIES = 8
# Rows of a full pass whose kernel values are computed together.
_PASS = 4096


class BallVectorMachine(ReferenceClassifier):
    r"""Ball Vector Machine: an enclosing ball of fixed radius, as published.

    Approximates the squared-hinge machine with penalised bias,

    .. math:: \min_f \tfrac12 (\|w\|^2 + b_0^2)
              + \tfrac C2 \sum_i s_i \max(0, 1 - y_i f(x_i))^2,

    by a ball around the lifted rows with the radius :math:`r = \sqrt{k(x,x) + 1 + 1/C}`
    (the module's docstring has the derivation). While some row is farther than
    ``(1 + epsilon) r`` from the centre, the centre goes straight towards it, until the
    row is at the distance r.

    When no such row is left, the objective is at most :math:`4 / (1 - \delta)^2` times
    the optimum, :math:`\delta = (2 \epsilon + \epsilon^2) r^2 / |c|^2`; nothing is
    promised where :math:`\delta > 1/2`. `relative_gap_` is what was reached, measured
    on all rows. At most :math:`1/\epsilon^2` moves are needed at each scale.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared slack, as in `CoreVectorClassifier`.
    kernel : str or callable, default="rbf"
        As in `CoreVectorClassifier`, with k(x, x) the same for all rows: "rbf",
        "laplacian", "inverse-distance", any "normalized-...".
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel width.
    degree, coef0 : float, default=3, 0.0
        Parameters of "normalized-poly" and "normalized-sigmoid".
    epsilon : float, default=1e-5
        Rows may be this much (relatively) farther away than the radius. On many noisy
        rows a large one promises nothing, and can be worth as little: see
        `relative_gap_`.
    scales : {"halving", "single"}, default="halving"
        "halving": with 1/2, 1/4, ... first and `epsilon` last, each from the centre
        before (the paper's multi-scale form); "single": with `epsilon` at once.
    sampling : int or None, default=59
        Move to the farthest of so many random rows, if it is outside; when none of
        eight such samples has one, all rows are looked at, and those outside and the
        core rows until they are inside. None: always the farthest of all rows, for one
        row of kernel values; the faster one unless there are many more rows than 59
        times the core set.
    max_iter : int, default=-1
        Most moves; -1 for no limit.
    max_vectors : int, default=-1
        Most core rows: the fit ends when it has as many; -1 for no limit.
    cache_size : float, default=200
        Megabytes of kernel values to keep, with ``sampling=None``.
    class_weight : dict or "balanced", optional
        Multiplies the weights of a class's rows.
    random_state : int or RandomState, optional
        Seed of the first row and the samples.

    Attributes
    ----------
    classes_ : ndarray
        Class labels.
    support_, support_vectors_ : ndarray or CSR
        Row numbers and rows of the centre: the core set.
    dual_coef_, intercept_ : ndarray
        The centre, scaled by its margin over all rows, one row and entry per machine.
    n_support_, n_iter_ : ndarray
        Core rows of each class; moves of each machine.
    epsilon_ : ndarray
        Where the farthest row is, in the unit of `epsilon`, one entry per machine.
    relative_gap_ : ndarray
        ``(P - D) / P`` of each machine, on all rows.
    fit_status_ : int
        0 if every machine met `epsilon`, else 1.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec.reference import BallVectorMachine
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> BallVectorMachine(C=10.0, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    # The problem that `corevec.certify` uses.
    loss, bias = "squared_hinge", "penalized"

    def __init__(
        self,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        *,
        epsilon: float = 1e-5,
        scales: str = "halving",
        sampling: int | None = 59,
        max_iter: int = -1,
        max_vectors: int = -1,
        cache_size: float = 200,
        class_weight: Any = None,
        random_state: Any = None,
    ):
        store(self, locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        who = "BallVectorMachine"
        check_positive(who, "C", self.C)
        check_number(who, "epsilon", self.epsilon, above=0, remedy="E.g. 1e-5.")
        check_choice(who, "scales", self.scales, ("halving", "single"))
        if self.sampling is not None:
            _count(who, "sampling", self.sampling)
        check_limit(who, "max_iter", self.max_iter)
        check_limit(who, "max_vectors", self.max_vectors)

    def _fit_machines(
        self, rows: KernelRows, codes: Array, weight: Array
    ) -> list[Machine]:
        _check_diagonal(rows.diagonal[weight > 0], rows.kernel.name)
        self._balls: list[Ball] = []
        machines = super()._fit_machines(rows, codes, weight)
        self.epsilon_ = np.array([ball.reach for ball in self._balls])
        self.relative_gap_ = np.array([ball.relative_gap for ball in self._balls])
        del self._balls
        return machines

    def _fit_binary(self, rows: KernelRows, y: Array, weight: Array) -> Machine:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        ball = Ball(rows, y, self.C * weight, np.random.default_rng(seed))
        ball.max_moves = limit_of(self.max_iter)
        ball.max_vectors = limit_of(self.max_vectors)
        for epsilon in self._scales():
            self._move(ball, epsilon)
            if ball.allowed <= 0:
                break
        self._balls.append(ball)
        coef = ball.scale * ball.weights * y
        met = ball.allowed > 0 or ball.reach <= self.epsilon
        return Machine(coef, float(coef.sum()), ball.moves, met, self._reason(ball))

    def _reason(self, ball: Ball) -> str:
        name = "max_vectors" if ball.moves < ball.max_moves else "max_iter"
        return (
            f"stopped by {name}={getattr(self, name)} with a row at 1 + "
            f"{ball.reach:.2e} radii, 1 + {self.epsilon:.2e} asked. Raise {name} or "
            "epsilon."
        )

    def _move(self, ball: Ball, epsilon: float) -> None:
        """Move towards rows that are outside, until there are none (steps 2 and 3)."""
        sample = len(ball.present) if self.sampling is None else int(self.sampling)
        # All rows are scanned if a few samples would contain as many.
        sampled = _TRIES * sample < len(ball.present)
        if sampled:
            ball.go_to_sampled(epsilon, sample)
        before = -1
        # No move in between: rows are outside by rounding only.
        while ball.find_outside(epsilon) and before < ball.moves and ball.allowed > 0:
            before = ball.moves
            ball.go_to_farthest(ball.pool if sampled else ball.all_rows, epsilon)

    def _scales(self) -> list[float]:
        """Return the tolerances, each at most half of the one before."""
        halves: list[float] = []
        if self.scales == "halving":
            count = int(np.ceil(np.log2(1 / self.epsilon))) - 1
            halves = [0.5**m for m in range(1, count + 1)]
        return [*halves, float(self.epsilon)]


class Ball:
    """A ball around the lifted rows: the weights of its centre, and its radii."""

    def __init__(
        self, rows: KernelRows, y: Array, price: Array, rng: np.random.Generator
    ):
        self.rows, self.y, self.price, self.rng = rows, y, price, rng
        self.all_rows, self.present = np.arange(len(y)), np.flatnonzero(price > 0)
        self.slack = np.zeros(len(y))  # 1 / (C s_i)
        self.slack[self.present] = 1 / price[self.present]
        self.own = rows.diagonal + 1 + self.slack
        # A row of weight 0 has an unlimited radius.
        self.own[price == 0] = np.inf
        # Step 1: the centre is one of the rows.
        first = rng.choice(self.present)
        self.weights = np.zeros(len(y))
        self.weights[first] = 1.0
        self.norm_sq = float(self.own[first])
        self.product = np.empty(0)
        self.was_outside = np.zeros(len(y), dtype=bool)
        self.moves = 0
        self.max_moves = self.max_vectors = NO_LIMIT

    @property
    def allowed(self) -> int:
        """Number of moves within the limits; a move adds at most one row."""
        room = self.max_vectors - int(np.count_nonzero(self.weights))
        return min(room, self.max_moves - self.moves)

    def products(self, numbers: Array) -> Array:
        """Return ``c.phi_i`` of the given rows."""
        core = np.flatnonzero(self.weights)
        coef = (self.weights * self.y)[core, None]
        basis = self.rows.take(core)
        f = KernelExpansion(self.rows.kernel, basis, coef, coef.sum(axis=0))
        points = f.prepared()
        values = [
            f.evaluate(self.rows.take(numbers[s : s + _PASS]), points)[:, 0]
            for s in range(0, len(numbers), _PASS)
        ]
        slack = (self.weights * self.slack)[numbers]
        return np.asarray(self.y[numbers] * np.concatenate(values) + slack)

    def find_outside(self, epsilon: float) -> bool:
        """Return whether any row is farther away than ``1 + epsilon`` radii."""
        self.product = self.products(self.all_rows)
        self.norm_sq = float(self.weights @ self.product)  # no accumulated rounding
        outside = self.ratios() > (1 + epsilon) * (1 + epsilon)
        self.was_outside |= outside
        return bool(outside.any())

    @property
    def pool(self) -> Array:
        """Rows that were outside in some pass over all rows, and those of the centre.

        They are looked at again and again, because each move pushes some of them out.
        """
        return np.flatnonzero(self.was_outside | (self.weights > 0))

    def go_to_sampled(self, epsilon: float, sample: int) -> None:
        """Move to the farthest of each `sample` rows, until some samples are inside."""
        moves = 1
        while moves and (allowed := self.allowed) > 0:
            size = sample * min(_TRIES, allowed)
            size = min(size, len(self.present))
            looked = self.rng.choice(self.present, size, replace=False)
            moves = self._go_through(looked, epsilon, sample)

    def _go_through(self, looked: Array, epsilon: float, sample: int) -> int:
        K = self.rows.block(looked, self.rows.prepared(looked))
        limit, state = (1 + epsilon) * (1 + epsilon), self._state(looked)
        moves = int(loops.sampled_moves(K, state, limit, sample))
        self._take(looked, state)
        self.moves += moves
        return moves

    def go_to_farthest(self, pool: Array, epsilon: float) -> None:
        """Move to the farthest row of `pool`, until all of them are inside."""
        everything = len(pool) == len(self.y)
        rows = self.rows if everything else self.rows.narrowed(pool)
        kept = (rows.store, rows.slot_of, rows.last_use, rows.clock)
        while (allowed := self.allowed) > 0:
            moves, state = np.array([0, allowed]), self._state(pool)
            lacking = 0
            while lacking >= 0:
                most = (1 + epsilon) * (1 + epsilon)
                lacking = loops.farthest_moves(kept, state, most, moves)
                if lacking >= 0:
                    rows.fetch([lacking])
            self._take(pool, state)
            self.moves += int(moves[0])
            if moves[0] < allowed:
                return

    def _state(self, numbers: Array) -> tuple[Array, ...]:
        """Return the arrays that the compiled loops read and update."""
        gains, left = np.zeros(len(numbers)), np.array([self.norm_sq, 1.0])
        own, product = self.own[numbers], self.products(numbers)
        return self.y[numbers], own, product, gains, left

    def _take(self, numbers: Array, state: tuple[Array, ...]) -> None:
        """Store the arrays of `_state` after the compiled loops."""
        *_, gains, left = state
        self.norm_sq = float(left[loops.NORM])
        self.weights *= left[loops.LEFT]
        self.weights[numbers] += gains

    def ratios(self) -> Array:
        """Return squared distances in units of the squared radii."""
        apart = self.norm_sq - 2 * self.product[self.present]
        ratios = np.zeros(len(self.y))
        ratios[self.present] = 1 + apart / self.own[self.present]
        return ratios

    @property
    def reach(self) -> float:
        """Distance of the farthest row: ``1 + reach`` radii."""
        return float(np.sqrt(max(self.ratios().max(), 0.0)) - 1)

    @property
    def scale(self) -> float:
        """Scale that makes the smallest margin 1, at most 4 |c|^-2."""
        margin = float(self.product[self.present].min())
        return 1 / max(margin, self.norm_sq / 4)

    @property
    def relative_gap(self) -> float:
        """``(P - D) / P`` of the machine, on all rows."""
        here, t = self.present, self.scale
        slack = (self.weights * self.slack)[here]
        margins = t * (self.product[here] - slack)
        norm_sq = t * t * (self.norm_sq - self.weights[here] @ slack)
        losses = self.price[here] @ np.clip(1 - margins, 0, None) ** 2
        primal, dual = (norm_sq + losses) / 2, 1 / (2 * self.norm_sq)
        return float((primal - dual) / primal)


def _check_diagonal(diagonal: Array, kernel: str) -> None:
    least, most = float(diagonal.min()), float(diagonal.max())
    # 1e-8: the rounding of a normalised kernel, with a margin.
    if least <= 0 or most - least > 1e-8 * most:
        raise InvalidInputError(
            f"kernel={kernel!r} has k(x, x) from {least:g} to {most:g} on these rows; "
            "the ball's radius needs the same positive k(x, x) for all of them. Use "
            "'rbf', 'laplacian', 'inverse-distance' or a 'normalized-...' kernel, or "
            "CoreVectorClassifier, which takes any kernel.",
            parameter="kernel",
        )
