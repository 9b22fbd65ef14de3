"""The problems of the ball family, in one form.

With ``f(x) = <w, phi(x)> + b0`` every problem here reads

    min  |w|^2/2 (+ b0^2/2) (+ T t) + 1/2 sum_e omega_e max(0, p_e - y_e f(x_e) - t)^2

over *entries* e: one per row, or two for a regression, where a row may be too low or
too high.

================  ====  ===  =======  =========  =======  ============================
problem           y_e   b0   omega_e  p_e        T        dual over b >= 0
================  ====  ===  =======  =========  =======  ============================
two-class         +-1   yes  C s_i    1          no t     p'b - b'Qb/2
one-class         1     no   C s_i    1          no t     p'b - b'Qb/2
soft SVDD         1     no   4 C s_i  k_ii/2     1        p'b - b'Qb/2, sum(b) = 1
hard SVDD         1     no   inf      k_ii/2     1        p'b - b'Kb/2, sum(b) = 1
SVR, fixed tube   +-1   yes  C s_i    +-z_i - e  no t     p'b - b'Qb/2
SVR, free tube t  +-1   yes  C s_i    +-z_i      C mu S   p'b - b'Qb/2, sum(b) <= T
expectile tau     +-1   yes  C s_i w  +-z_i      no t     p'b - b'Qb/2
================  ====  ===  =======  =========  =======  ============================

with ``Q_ij = y_i y_j (k_ij + [bias]) + [i = j]/omega_i``. SVDD values are doubled
for the user: then they are squared radii. An entry is *worse* the larger its violation
``p_e - y_e f(x_e) - t``: for the two-class problem the least ``y f``, for SVDD the
largest distance from the centre, for SVR the largest residual (docs/mathematics.md,
1 Problems). The expectile's w is 2 tau for a row above f and 2 (1 - tau) below. The
tube of SVR is constrained to ``t >= 0``, or free as the CVR paper prints it; then
``sum(b) = T``. A problem knows nothing of the source of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from corevec._runtime.enumerations import ProblemKind
from corevec._runtime.types import Array
from corevec.backend.arrays import constant, joined, multiplied, namespace, to_device_of
from corevec.data.sources import Column, of_rows
from corevec.kernels import AnyKernel, Rows
from corevec.models.certificate import Cancellation


@dataclass(frozen=True)
class Labels:
    """Class codes and weights of all rows; `None` where all rows are alike.

    A column is an array with an entry per row, or a function of rows that carry their
    labels (see `data.sources.of_rows`).
    """

    n_rows: int
    codes: Column | None = None
    sample_weight: Column | None = None
    class_weight: Array | None = None
    mass: float | None = None  # the sum of the weights, where they are not an array

    def weights(self, rows: Rows) -> Array:
        """Return the weight s_i of each of the rows."""
        s = constant(len(rows.index), 1.0, rows.index)
        if self.sample_weight is not None:
            s = s * of_rows(self.sample_weight, rows)
        if self.class_weight is not None and self.codes is not None:
            s = s * to_device_of(self.class_weight, s)[of_rows(self.codes, rows)]
        return s

    @property
    def total_weight(self) -> float:
        """The sum S of the weights of all rows, without class weights."""
        if self.mass is not None:
            return self.mass
        if self.sample_weight is None:
            return float(self.n_rows)
        assert isinstance(self.sample_weight, np.ndarray)
        return float(self.sample_weight.sum())


@dataclass(frozen=True)
class Terms:
    """The terms of a problem that depend on one row: y_i, omega_i and p_i."""

    sign: Array
    omega: Array
    target: Array

    def __getitem__(self, rows: Any) -> Terms:
        return Terms(self.sign[rows], self.omega[rows], self.target[rows])

    @staticmethod
    def join(parts: list[Terms]) -> Terms:
        """Return the terms of several row sets, one after the other."""
        return Terms(
            joined([part.sign for part in parts]),
            joined([part.omega for part in parts]),
            joined([part.target for part in parts]),
        )


class Floor(Enum):
    """The lower bound of the offset t."""

    NONE = "none"
    ZERO = "t >= 0"  # the tube of a regression
    RADIUS = "t >= -|w|^2/2"  # R^2 >= 0 of a soft ball


@dataclass(frozen=True)
class Problem:
    """One quadratic programme of the family, over the rows that `labels` describe.

    Attributes
    ----------
    name : str
        The problem in words, for the certificate.
    slack : float
        omega of a row of weight 1; infinite for the hard margin.
    positive, negative : int or None
        Class codes with y = +1 and y = -1. ``negative=None`` takes every other code
        (one-vs-rest). Rows of other codes are absent: their omega is 0.
    has_bias : bool
        Whether there is the bias b0 of the formula above.
    price : float
        T of the formula above; 0 where there is no offset t.
    floor : Floor
        The lower bound of the offset.
    response : Column or None
        z_i of a regression; each row then has two entries.
    tube : float
        The fixed half-width e of a regression.
    unit : float
        Factor from this file's objective to the user's.
    side_weights : tuple of two floats
        Factors of omega of the two sides of a regression.
    """

    name: str
    labels: Labels
    slack: float
    positive: int | None = None
    negative: int | None = None
    has_bias: bool = False
    price: float = 0.0
    floor: Floor = Floor.NONE
    response: Column | None = None
    tube: float = 0.0
    unit: float = 1.0
    side_weights: tuple[float, float] = (1.0, 1.0)

    @property
    def kind(self) -> ProblemKind:
        """Which kind of problem its certificate is about."""
        is_ball = self.floor is Floor.RADIUS
        return ProblemKind.BALL if is_ball else ProblemKind.MACHINE

    @property
    def is_hard(self) -> bool:
        """Whether no row may be violated."""
        return bool(np.isinf(self.slack))

    @property
    def has_offset(self) -> bool:
        """Whether there is the offset t of the formula above."""
        return self.price > 0

    @property
    def sides(self) -> tuple[int, ...]:
        """The sides on which a row can be violated: its entries."""
        return (0,) if self.response is None else (0, 1)

    @property
    def has_free_signs(self) -> bool:
        """Whether multipliers of either sign are feasible: those of one of the sides.

        With a tube a multiplier whose sign turns belongs to the other edge.
        """
        return len(self.sides) == 2 and self.tube == 0.0 and not self.has_offset

    @property
    def has_unit_targets(self) -> bool:
        """Whether all p are 1, so that multipliers of any sum are a ball."""
        return not self.has_offset and self.response is None

    def entries(self, rows: Array, side: int) -> Array:
        """Return the numbers of the entries that these rows have on one side."""
        return rows + side * self.labels.n_rows

    def rows_of(self, entries: Array) -> Array:
        """Return the row number of each entry."""
        return entries % self.labels.n_rows

    def side_of(self, entries: Array) -> Array:
        """Return the side of each entry: 0, or 1 where a regression is too high."""
        return entries // self.labels.n_rows

    def terms(self, rows: Rows, kernel: AnyKernel, side: Array | int = 0) -> Terms:
        """Return y, omega and p of the entries that the given rows have on `side`."""
        weight = self.labels.weights(rows)
        xp, n = namespace(weight), len(weight)
        sign = one = constant(n, 1.0, weight)
        if self.positive is not None:
            assert self.labels.codes is not None
            codes = of_rows(self.labels.codes, rows)
            sign = xp.where(codes == self.positive, one, constant(n, -1.0, weight))
            if self.negative is not None:
                present = (codes == self.positive) | (codes == self.negative)
                weight = xp.where(present, weight, multiplied(one, 0.0))
        if self.is_hard:
            present = weight > 0
            omega = xp.where(present, multiplied(one, np.inf), multiplied(one, 0.0))
        else:
            omega = multiplied(weight, self.slack)
        if self.response is not None:
            side = to_device_of(np.asarray(side), weight)
            if self.side_weights != (1.0, 1.0):
                below, above = self.side_weights
                omega = omega * (below + (above - below) * side)
            sign = sign - 2.0 * side
            target = sign * of_rows(self.response, rows) - self.tube
        elif self.has_offset:
            target = multiplied(kernel.diagonal(rows), 0.5)
        else:
            target = one
        return Terms(sign, omega, target)

    def loss_error(self, loss: float, error: float) -> float:
        """Return the most that an error in the values of all rows can add to the loss.

        With xi the violations and Omega the sum of all omega that is ``sum omega xi
        error <= sqrt(2 loss Omega) error`` (Cauchy-Schwarz), and a square. An upper
        bound may be given for the loss.
        """
        if self.is_hard:
            return error
        omega = self.slack * self.labels.total_weight * len(self.sides)
        omega *= max(self.side_weights)
        if self.labels.class_weight is not None:
            omega *= float(self.labels.class_weight.max())
        return float(
            error * np.sqrt(2 * max(loss, 0.0) * omega) + omega * error * error / 2
        )

    def cancellation(self, error: float, largest: float) -> Cancellation | None:
        """Return what the objective is a difference of, given the error of ``|w|^2``.

        A squared radius is one of terms of the size of `largest`, the largest k(x, x);
        the objectives of machines are sums.
        """
        is_difference = self.floor is Floor.RADIUS
        return Cancellation(error, largest) if is_difference else None

    def signed(self, K: Array, left: Terms, right: Terms) -> Array:
        """Return ``y_i y_j (k_ij + [bias])`` for kernel values between two row sets."""
        K = K + 1.0 if self.has_bias else K
        return np.asarray(K * np.outer(left.sign, right.sign))

    @property
    def least(self) -> float:
        """A lower bound of the optimum, whatever the rows.

        0 where no term of the objective can be negative; a free tube can.
        """
        free = self.has_offset and self.floor is Floor.NONE
        return -np.inf if free else 0.0

    def dual_at_best_scale(self, slope: float, curve: float, total: float) -> float:
        """Return the dual value of ``s b`` at the best feasible s.

        `slope` is ``p'b``, `curve` is ``b'Qb`` and `total` is ``sum(b)``.
        """
        if total <= 0:
            return self.least
        if self.has_offset and self.floor is not Floor.ZERO:
            s = self.price / total
        elif slope <= 0:
            return self.least
        else:
            s = slope / curve if curve > 0 else np.inf
            if self.has_offset:
                s = min(s, self.price / total)
        return float(s * slope - s**2 * curve / 2) if np.isfinite(s) else self.least


def two_class(
    labels: Labels,
    C: float,
    positive: int,
    negative: int | None = None,
    *,
    has_bias: bool = True,
) -> Problem:
    """Return the squared-hinge machine, with penalised bias (CVM paper, eq. 8)."""
    norm = "1/2 (|w|^2 + b0^2)" if has_bias else "1/2 |w|^2"
    name = f"two-class L2-SVM: min {norm} + C/2 sum s_i max(0, 1 - y_i f_i)^2"
    return Problem(name, labels, float(C), positive, negative, has_bias=has_bias)


def one_class(labels: Labels, C: float) -> Problem:
    """Return the one-class L2-SVM at rho = 1 (CVM paper, section 3.2.1)."""
    name = "one-class L2-SVM at rho = 1: min 1/2 |w|^2 + C/2 sum s_i max(0, 1 - f_i)^2"
    return Problem(name, labels, float(C))


def svdd(labels: Labels, C: float | None) -> Problem:
    """Return the enclosing ball: hard for ``C=None``, else with squared slack."""
    if C is None:
        name = "hard-margin SVDD: min R^2, |phi(x_i) - c|^2 <= R^2"
        return Problem(name, labels, np.inf, price=1.0, floor=Floor.RADIUS, unit=2.0)
    name = (
        "soft-margin SVDD: min R^2 + C sum s_i xi_i^2, "
        "|phi(x_i) - c|^2 <= R^2 + xi_i, R^2 >= 0"
    )
    return Problem(name, labels, 4.0 * C, price=1.0, floor=Floor.RADIUS, unit=2.0)


@dataclass(frozen=True)
class AutomaticTube:
    """A tube whose half-width is a variable of the problem (CVR paper, eq. 6).

    Its price is ``C mu S``, S the sum of all weights: that is the paper's C, whose
    weight of a squared slack, C/(mu m), then is ours. With `may_be_negative` the width
    is free, as the paper prints it.
    """

    mu: float
    may_be_negative: bool = False


def regression(
    labels: Labels,
    C: float,
    response: Column,
    tube: float | AutomaticTube,
    *,
    units: str = "z = y",
    has_bias: bool = True,
) -> Problem:
    """Return L2-SVR with a fixed tube or the automatic one.

    `units` describes the response z, for the certificate.
    """
    C, loss = float(C), "C/2 sum s_i max(0, |z_i - f_i| - e)^2"
    norm = "1/2 (|w|^2 + b0^2)" if has_bias else "1/2 |w|^2"
    if not isinstance(tube, AutomaticTube):
        name = f"L2-SVR with the tube e = {tube:g}: min {norm} + {loss}, {units}"
        return Problem(name, labels, C, has_bias=has_bias, response=response, tube=tube)
    which = "any sign" if tube.may_be_negative else "e >= 0"
    name = (
        f"L2-SVR with automatic tube ({which}): min {norm} + {loss} + C mu S e, {units}"
    )
    return Problem(
        name,
        labels,
        C,
        has_bias=has_bias,
        price=C * tube.mu * labels.total_weight,
        floor=Floor.NONE if tube.may_be_negative else Floor.ZERO,
        response=response,
    )


def expectile(
    labels: Labels,
    C: float,
    response: Column,
    level: float,
    *,
    units: str = "z = y",
    has_bias: bool = True,
) -> Problem:
    """Return the regression of an expectile (Newey and Powell 1987).

    The squared loss with the weight ``2 level`` of a row above the function and
    ``2 (1 - level)`` below; at level 1/2 least squares.
    """
    norm = "1/2 (|w|^2 + b0^2)" if has_bias else "1/2 |w|^2"
    weight = f"{2 * level:g} if z_i > f_i else {2 * (1 - level):g}"
    name = (
        f"expectile regression at the level {level:g}: min {norm} + C/2 sum s_i w_i "
        f"(z_i - f_i)^2, w_i = {weight}, {units}"
    )
    return Problem(
        name,
        labels,
        C,
        has_bias=has_bias,
        response=response,
        side_weights=(2 * level, 2 * (1 - level)),
    )
