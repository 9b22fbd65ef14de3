"""Support vector machines with hinge loss and a free bias, in one form.

With *entries* e (one per row, or two for a regression) and signs ``y_e = +-1``:

    max  p'b - b'Qb/2,   Q_ef = y_e y_f k(x_e, x_f),   0 <= b_e <= u_e

where the sum of ``y_e b_e`` is fixed, either over all entries (one *group*), or over
those of each sign (two groups: the nu problems). The primal problem has a bias per
group:

    min  |w|^2/2 + sum_e u_e max(0, p_e - y_e (f(x_e) + bias_g)) + sum_g T_g bias_g

=============  ===  =======  ========  =====================================
problem        y_e  p_e      u_e       fixed sums T of y_e b_e
=============  ===  =======  ========  =====================================
C-SVC          +-1  1        C s_i     0
epsilon-SVR    +-1  +-z - e  C s_i     0
one-class      1    0        s_i       nu S
nu-SVC         +-1  0        s_i       nu S/2 and -nu S/2
nu-SVR         +-1  +-z      C s_i     C nu S/2 and -C nu S/2
=============  ===  =======  ========  =====================================

S is the sum of the weights s_i. These are LIBSVM's problems, in LIBSVM's units. With
``target t_e = y_e p_e`` and ``signed a_e = y_e b_e`` the optimality conditions read
alike for all: ``t_e - f(x_e)`` is at most the bias where ``a_e`` can grow, and at least
the bias where it can fall.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from corevec._runtime.types import EPS, Array
from corevec.exceptions import InvalidInputError

# A sum may miss its total by so many units of rounding of its terms.
SUM_ROUNDING = 64.0


@dataclass(frozen=True)
class BoxProblem:
    """One problem of the table above; a problem knows nothing of its rows' values.

    Attributes
    ----------
    name : str
        The problem in words, for the certificate.
    rows : ndarray of shape (entries,)
        The row number of each entry.
    sign, linear, upper : ndarray of shape (entries,)
        y_e, p_e and u_e. An entry with ``u_e = 0`` is absent.
    totals : tuple of float
        The fixed sum of ``y_e b_e`` over all entries, or the two sums over those of
        sign +1 and over those of sign -1.
    """

    name: str
    rows: Array
    sign: Array
    linear: Array
    upper: Array
    totals: tuple[float, ...] = (0.0,)

    @cached_property
    def target(self) -> Array:
        """``t_e = y_e p_e``: the value that f plus bias has at the edge."""
        return np.asarray(self.sign * self.linear)

    @cached_property
    def lower(self) -> Array:
        """Least signed multiplier of each entry."""
        return np.where(self.sign > 0, 0.0, -self.upper)

    @cached_property
    def higher(self) -> Array:
        """Largest signed multiplier of each entry."""
        return np.where(self.sign > 0, self.upper, 0.0)

    @cached_property
    def group(self) -> Array:
        """The group of each entry: its fixed sum."""
        if len(self.totals) == 1:
            return np.zeros(len(self.rows), dtype=np.int64)
        return np.where(self.sign > 0, 0, 1)

    def restricted(self, entries: Array, ratio: float = 1.0) -> BoxProblem:
        """Return the problem of some entries, whose bounds are `ratio` times as large.

        The fixed sums remain: other entries have the multiplier 0.
        """
        return replace(
            self,
            rows=self.rows[entries],
            sign=self.sign[entries],
            linear=self.linear[entries],
            upper=ratio * self.upper[entries],
        )

    def feasible(self, signed: Array, last: Array | None = None) -> Array:
        """Return signed multipliers within the box, with the sums that are fixed.

        As few as possible are changed: first those strictly within their bounds, then
        those that are not 0; or in the order of `last`, the least first.

        Raises
        ------
        InvalidInputError
            Where no multipliers have these sums.
        """
        a = np.clip(signed, self.lower, self.higher)
        for g, total in enumerate(self.totals):
            own = np.flatnonzero(self.group == g)
            missing = total - float(a[own].sum())
            if abs(missing) <= EPS * (float(np.abs(a[own]).sum()) + abs(total)):
                continue
            if last is None:
                is_free = (a > self.lower) & (a < self.higher)
                last = np.where(is_free, 0, np.where(a != 0, 1, 2))
            own = own[np.argsort(last[own], kind="stable")]
            size = float(self.upper[own].sum()) + abs(total)
            room = (
                self.higher[own] - a[own] if missing > 0 else a[own] - self.lower[own]
            )
            before = np.cumsum(room) - room
            taken = np.clip(abs(missing) - before, 0.0, room)
            if abs(missing) - float(taken.sum()) > SUM_ROUNDING * EPS * size:
                raise InvalidInputError(
                    f"{self.name}: no multipliers within their bounds have the sum "
                    f"{total:g}. Lower nu, or give the smaller class more weight.",
                    parameter="nu",
                )
            bound = self.higher[own] if missing > 0 else self.lower[own]
            moved = a[own] + np.sign(missing) * taken
            a[own] = np.where(taken == room, bound, moved)
        return a

    def measure(self, signed: Array, values: Array) -> Measured:
        """Return primal and dual value of feasible multipliers.

        `values` are those of ``f = sum_e a_e k(x_e, .)``, without a bias, per entry.
        The biases are those that minimise the primal value: the middle of the interval
        where several do.
        """
        residual = self.target - values
        biases = np.empty(len(self.totals))
        for g, total in enumerate(self.totals):
            own = self.group == g
            biases[g] = best_bias(
                residual[own], self.lower[own], self.higher[own], total
            )
        norm_sq = float(signed @ values)
        primal = self.primal(values, biases, norm_sq)
        # The Lagrangian at these biases: as sum t a where the sums are as fixed, and
        # without what targets far from 0 cancel, or sums that are off by rounding.
        edge = self.target - biases[self.group]
        dual = float(edge @ signed) + float(biases @ np.array(self.totals))
        sums = np.bincount(self.group, signed, minlength=len(self.totals))
        missed = float(np.abs(biases) @ np.abs(sums - self.totals))
        slack = self.slack(values, biases)
        return Measured(biases, primal, dual - norm_sq / 2, norm_sq, slack, missed)

    def slack(self, values: Array, biases: Array) -> Array:
        """Return ``p_e - y_e (f_e + bias)`` of each entry."""
        return np.asarray(self.sign * (self.target - values - biases[self.group]))

    def primal(self, values: Array, biases: Array, norm_sq: float) -> float:
        """Return the primal value of a function with these values and biases."""
        loss = float((self.upper * np.maximum(self.slack(values, biases), 0.0)).sum())
        return norm_sq / 2 + loss + float(biases @ np.array(self.totals))

    def violation(self, signed: Array, values: Array) -> float:
        """Return LIBSVM's criterion: the largest violation of an optimality condition.

        In a group it is the largest ``t - f`` of an entry whose signed multiplier can
        grow, less the smallest of one whose multiplier can fall.
        """
        residual = self.target - values
        worst = 0.0
        for g in range(len(self.totals)):
            up = residual[(self.group == g) & (signed < self.higher)]
            down = residual[(self.group == g) & (signed > self.lower)]
            if len(up) and len(down):
                worst = max(worst, float(up.max() - down.min()))
        return worst


class Measured(NamedTuple):
    """What `BoxProblem.measure` returns; `slack` is ``p_e - y_e (f_e + bias)``.

    `missed` is what sums of multipliers that are off by rounding may add to `dual`.
    """

    biases: Array
    primal: float
    dual: float
    norm_sq: float
    slack: Array
    missed: float

    @property
    def bias(self) -> float:
        """The bias of the function: the mean of those of two groups."""
        return float(self.biases.mean())

    @property
    def width(self) -> float:
        """LIBSVM's r of the nu problems: half the difference of the two biases.

        The margin of nu-SVC, by which its function is divided, and minus the tube of
        nu-SVR. 0 where there is one group.
        """
        return float((self.biases[-1] - self.biases[0]) / 2)


def best_bias(residual: Array, lower: Array, higher: Array, total: float) -> float:
    """Return the bias that minimises the primal value of one group.

    The slope of ``sum_e u_e max(0, y_e (r_e - bias)) + total bias`` between two sorted
    residuals: entries of sign +1 above the bias pull it up by ``u_e``, those of sign -1
    below it pull it down.
    """
    present = higher > lower
    if not present.any():
        return 0.0
    order = np.argsort(residual[present], kind="stable")
    r = residual[present][order]
    weight = (higher - lower)[present][order]
    # Slope to the left of all residuals, and behind each of them.
    first = total - float(higher.sum())
    slope = first + np.cumsum(weight)
    flat = SUM_ROUNDING * EPS * float(weight.sum())
    k = int(np.searchsorted(slope, -flat))
    if first >= -flat:  # never falls: all multipliers are as large as can be
        return float(r[0])
    if k >= len(r) - 1:
        return float(r[-1])
    if slope[k] <= flat:
        return float((r[k] + r[k + 1]) / 2)
    return float(r[k])


def c_svc(rows: Array, sign: Array, upper: Array) -> BoxProblem:
    """Return LIBSVM's C-SVC; `upper` is C times the weights."""
    name = "SVC: min 1/2 |w|^2 + C sum s_i max(0, 1 - y_i (f_i + b))"
    sign, upper = _floats(sign, upper)
    return BoxProblem(name, rows, sign, np.ones(len(rows)), upper)


def epsilon_svr(
    rows: Array, response: Array, upper: Array, epsilon: float
) -> BoxProblem:
    """Return LIBSVM's epsilon-SVR: entries of sign +1 first, then those of sign -1."""
    name = (
        f"SVR with epsilon = {epsilon:g}: min 1/2 |w|^2 + "
        "C sum s_i max(0, |z_i - f_i - b| - epsilon)"
    )
    z, upper = _floats(response, upper)
    linear = np.concatenate([z - epsilon, -z - epsilon])
    return BoxProblem(name, *_two_sided(rows, linear, upper))


def one_class_nu(rows: Array, weight: Array, nu: float) -> BoxProblem:
    """Return LIBSVM's one-class problem; the bias is minus its rho."""
    name = "one-class SVM: min 1/2 |w|^2 + sum s_i max(0, rho - f_i) - nu sum(s) rho"
    (s,) = _floats(weight)
    total = nu * float(s.sum())
    return BoxProblem(name, rows, np.ones(len(s)), np.zeros(len(s)), s, (total,))


def nu_svc(rows: Array, sign: Array, weight: Array, nu: float) -> BoxProblem:
    """Return LIBSVM's nu-SVC, before the function is divided by the margin r."""
    name = (
        "nu-SVC: min 1/2 |w|^2 + sum s_i max(0, r - y_i (f_i + b)) - nu sum(s) r, "
        "b and r free"
    )
    sign, s = _floats(sign, weight)
    half = nu * float(s.sum()) / 2
    return BoxProblem(name, rows, sign, np.zeros(len(s)), s, (half, -half))


def nu_svr(
    rows: Array, response: Array, upper: Array, nu: float, C: float
) -> BoxProblem:
    """Return LIBSVM's nu-SVR; `upper` is C times the weights s.

    The tube e is free, and costs ``nu sum(upper)``; minus `Measured.width` is e.
    """
    name = (
        f"nu-SVR, C = {C:g}: min 1/2 |w|^2 + "
        "C sum s_i (max(0, |z_i - f_i - b| - e) + nu e), b and e free"
    )
    z, upper = _floats(response, upper)
    half = nu * float(upper.sum()) / 2
    entries = _two_sided(rows, np.concatenate([z, -z]), upper)
    return BoxProblem(name, *entries, totals=(half, -half))


def _two_sided(
    rows: Array, linear: Array, upper: Array
) -> tuple[Array, Array, Array, Array]:
    n = len(rows)
    sign = np.repeat([1.0, -1.0], n)
    return np.tile(rows, 2), sign, linear, np.tile(upper, 2)


def _floats(*given: Array) -> tuple[Array, ...]:
    return tuple(np.asarray(one, dtype=np.float64) for one in given)


def numbered(rows: Array) -> tuple[Array, Array]:
    """Return the different row numbers, sorted, and which of them is each entry's.

    As ``np.unique``, which is slow where nothing repeats and all are sorted.
    """
    if len(rows) < 2 or (rows[1:] > rows[:-1]).all():
        return rows, np.arange(len(rows))
    numbers, place = np.unique(rows, return_inverse=True)
    return numbers, place
