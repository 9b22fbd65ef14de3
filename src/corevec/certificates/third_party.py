r"""The certificate of a kernel machine that any solver has fitted.

Every machine here is one convex programme over *entries* e: a row x_e, a side s_e = 1
or -1, a target p_e and a cap c_e. With f(x) = <w, phi(x)> + b,

    P = 1/2 |w|^2 + b^2/(2 sigma^2) - T l + sum_e c_e max(0, p_e + l - s_e f(x_e))
    D = sum_e p_e beta_e - 1/2 |u|^2,         u = sum_e s_e beta_e phi(x_e)

and 0 <= beta_e <= c_e, where sigma = inf is a free bias (then sum s_e beta_e = 0) and
sigma = 0 is none. Each machine has its own terms and conditions:

=================  ==============  ==========  =========  ======================
machine            entries         p           cap        level l, and T
=================  ==============  ==========  =========  ======================
C-SVC              (i, y_i)        1           C s_i      none
epsilon-SVR        (i, 1), (i,-1)  +-y - eps   C s_i      none
nu-SVC             (i, y_i)        0           s_i        margin, sum beta = T
one-class          (i, 1)          0           s_i        offset, sum beta = T
nu-SVR             (i, 1), (i,-1)  +-y         C s_i      -eps,   sum beta <= T
=================  ==============  ==========  =========  ======================

T is nu times the sum of the caps (half of it for nu-SVR, which counts every row
twice). A squared loss has c/2 max(0, .)^2, no upper bound of beta, and ``- 1/2 sum
beta^2/c`` in D. Any feasible beta makes D a lower bound of the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corevec._runtime.enumerations import StopReason
from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.certificates.definite import is_definite_by_name
from corevec.certificates.hinge import dual_at_best_scale
from corevec.data.sources import Source
from corevec.exceptions import InvalidInputError
from corevec.kernels import AnyKernel, Kernel
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.models.norms import norms_sq

# Rounding error of a sum of many terms, relative to the sum of their sizes.
ROUNDING = 8 * float(np.finfo(np.float64).eps)
# A dual variable this near to a bound, relative to its cap, counts as at the bound:
# scikit-learn-intelex keeps float32 ones, whose rounding is 6e-8.
_AT_BOUND = 1e-7


@dataclass(frozen=True)
class Machine:
    """The problem of one machine, entry by entry (the table of this module).

    Attributes
    ----------
    name : str
        The problem in words.
    row, sign, target, cap : ndarray of shape (n_entries,)
        Number of the row, s, p and c of each entry; cap 0 for rows that are absent.
    squared : bool
        Whether the loss is ``c/2 max(0, .)^2``.
    bias_scale : float
        sigma: inf for a free bias, 0 for none.
    level : float or None
        l; None for the best one, at most 0 (the tube of nu-SVR).
    total : float
        T; inf where the sum of beta is not bounded.
    """

    name: str
    row: Array
    sign: Array
    target: Array
    cap: Array
    squared: bool = False
    bias_scale: float = float("inf")
    level: float | None = 0.0
    total: float = float("inf")

    def inside(self, values: Array) -> Array:
        """Return ``p_e - s_e f(x_e)``: how far each entry is inside its margin."""
        return np.asarray(self.target - self.sign * values[self.row])

    def primal(self, values: Array, norm_sq: float, bias: float) -> float:
        """Return P of a function with these values, |w|^2 and bias, rounded up."""
        inside = self.inside(values)
        level = -self._best_tube(inside) if self.level is None else self.level
        loss = np.maximum(inside + level, 0.0)
        risk = self.cap @ (loss**2 / 2 if self.squared else loss)
        price = -self.total * level if np.isfinite(self.total) else 0.0
        penalised = 0.0 < self.bias_scale < np.inf
        penalty = (bias / self.bias_scale) ** 2 if penalised else 0.0
        terms = np.array([norm_sq / 2, penalty / 2, risk, price])
        return float(terms.sum() + ROUNDING * np.abs(terms).sum())

    def _best_tube(self, inside: Array) -> float:
        """Return the eps >= 0 with the least ``T eps + sum c max(0, inside - eps)``."""
        order = np.argsort(-inside)
        reached = np.cumsum(self.cap[order]) >= self.total
        if not reached.any():
            return 0.0
        return max(float(inside[order[np.argmax(reached)]]), 0.0)

    @property
    def _sum_is_fixed(self) -> bool:
        return np.isfinite(self.total) and self.level is not None

    def feasible(self, beta: Array) -> Array:
        """Return dual variables near `beta` that meet every condition.

        They are clipped to the box; the heavier side is then scaled down (or each side
        brought to the sum that the problem fixes).
        """
        beta = np.clip(beta, 0.0, None if self.squared else self.cap)
        if not self._sum_is_fixed and np.isfinite(self.bias_scale):
            return beta
        sides = [s for s in (self.sign > 0, self.sign < 0) if s.any()]
        if self._sum_is_fixed:
            goal = self.total / len(sides)
        else:
            goal = min(float(beta[side].sum()) for side in sides)
        for side in sides:
            beta[side] = _with_sum(beta[side], self.cap[side], goal)
        return beta

    def dual(self, beta: Array, curve: float) -> float:
        """Return D of feasible dual variables with ``|u|^2 = curve``, rounded down.

        At the best scale of `beta` within the conditions, where they leave one free.
        """
        if not (beta > 0).any():
            return 0.0
        if np.isfinite(self.bias_scale):
            curve += (self.bias_scale * float(self.sign @ beta)) ** 2
        if self._sum_is_fixed:
            return -curve / 2
        some = beta > 0
        if self.squared:
            curve += float((beta[some] ** 2 / self.cap[some]).sum())
        most = np.inf if self.squared else float((self.cap[some] / beta[some]).min())
        most = min(most, self.total / float(beta.sum()))
        slope = float(self.target @ beta - ROUNDING * np.abs(self.target) @ beta)
        return float(dual_at_best_scale(max(slope, 0.0), curve, most)[0])

    def violation(self, values: Array, beta: Array) -> float:
        """Return the largest violation of an optimality condition by any entry.

        Entries with beta < c may not be inside the margin, those with beta > 0 not
        outside: what `tol` of LIBSVM bounds. ``P - D`` is at most this times ``sum c``
        if no variable had to be repaired.
        """
        inside = self.inside(values) + (self.level or 0.0)
        present = self.cap > 0
        below = present & (beta < self.cap * (1 - _AT_BOUND))
        above = present & (beta > self.cap * _AT_BOUND)
        if self.squared:
            inside[present] -= beta[present] / self.cap[present]
            below, above = present, beta > 0
        most = float(inside[below].max(initial=-np.inf))
        least = float(inside[above].min(initial=np.inf))
        if self.level is None:  # at the tube that suits both best
            ends = [end for end in (most, least) if np.isfinite(end)]
            tube = max(sum(ends) / max(len(ends), 1), 0.0)
            most, least = most - tube, least - tube
        return max(most, -least, 0.0)


def _with_sum(beta: Array, cap: Array, goal: float) -> Array:
    """Return variables in [0, cap] that sum to `goal`: scaled down, or increased.

    They are increased row after row, those that have a multiplier first, so that no
    more rows than necessary get one.
    """
    total = float(beta.sum())
    if total >= goal:
        return beta * (goal / total) if total > 0 else beta
    order = np.argsort(beta <= 0, kind="stable")
    free = (cap - beta)[order]
    before = np.cumsum(free) - free
    filled = beta.copy()
    filled[order] += np.clip(goal - total - before, 0.0, free)
    if filled.sum() < goal * (1 - 1e-9):
        raise InvalidInputError(
            f"certify: this nu asks that the dual variables of one side sum to "
            f"{goal:g}, but the weights of its rows sum to {cap.sum():g}: the problem "
            "has no optimum. Give the rows, labels and weights that the model was "
            "fitted on."
        )
    return filled


@dataclass(frozen=True)
class Rule:
    """When a model counts as converged: its `tol`, and what stopped its fit."""

    tol: float
    stopped_by: str = "tol"


def judge(
    machine: Machine,
    function: KernelExpansion,
    beta: Array,
    source: Source,
    rule: Rule,
) -> Certificate:
    """Return the certificate of a function and dual variables on all rows.

    Parameters
    ----------
    machine : Machine
        The problem; its rows are those of `source`.
    function : KernelExpansion
        The model as it predicts; its basis rows are rows of `source`.
    beta : ndarray of shape (n_entries,)
        The model's dual variables, feasible or nearly so.
    source : Source
        All rows.
    rule : Rule
        A model has converged if it violates no optimality condition by more than its
        ``tol``.
    """
    progress, n = Progress(source.n_rows), source.n_rows
    bias = float(function.intercept[0])
    values = np.full(n, bias)
    if len(function.basis):
        values = function.values(source)[:, 0]
    repaired = machine.feasible(beta)
    signed = np.zeros((n, 2))
    signed[function.basis.index, 0] = function.coef[:, 0]
    signed[:, 1] = np.bincount(machine.row, machine.sign * repaired, minlength=n)
    numbers = np.flatnonzero(signed.any(axis=1))
    norm, diagonal = norms_sq(source, function.kernel, numbers, signed[numbers])
    relative = function.kernel.rounding(source.n_features, source.dtype)
    rounding = relative * np.abs(signed).sum(axis=0) ** 2 * diagonal
    definite = _is_definite(function.kernel) and bool((norm >= -rounding).all())
    if definite:
        norm = np.maximum(norm, 0.0)
    norm = norm + rounding
    primal = machine.primal(values, float(norm[0]), bias)
    violation = machine.violation(values, beta)
    converged = violation <= rule.tol
    dual = machine.dual(repaired, float(norm[1]))
    return Certificate.of(
        machine.name if definite else machine.name + _INDEFINITE,
        (primal, dual),
        progress,
        passes=1.0,
        confidence=float(definite),
        converged=converged,
        stopped_by=StopReason.TOL if converged else rule.stopped_by,
        largest_violation=violation,
    )


_INDEFINITE = (
    "; the kernel is not positive definite, so the gap measures the optimality "
    "conditions but does not enclose the optimum"
)


def _is_definite(kernel: AnyKernel) -> bool:
    """Whether the kernel is positive definite, judged by its name."""
    return not isinstance(kernel, Kernel) or is_definite_by_name(kernel)
