"""SMO: the dual of LIBSVM by pairs of rows, the exact baseline for both losses.

From Platt (1999), Fan, Chen and Lin (JMLR 2005) and the LIBSVM paper (Chang and Lin
2011, sections 4 and 5), written in ``b_i = alpha_i y_i`` so that no sign is left in a
loop: the gradient is ``g = (K + diag(ridge)) b - y``, a row may rise while b < high and
fall while b > low, and the pair (up, down) moves weight from down to up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.estimators._parameters import (
    check_choice,
    check_flag,
    check_positive,
    store,
)
from corevec.reference import _smo_loops as loops
from corevec.reference._base import (
    STEPS_REMEDY,
    Machine,
    ReferenceClassifier,
    check_limit,
    extremes,
    optimal_bias,
    step_limit,
)
from corevec.reference._kernel_rows import KernelRows

# Steps between two attempts at shrinking in LIBSVM (or n, if that is less), and the
# factor for the attempts after so many: few rows whose values nearly agree spent nine
# tenths of their time on attempts that found nothing to leave out.
_SHRINK_EVERY, _ATTEMPTS, _LATER = 1000, 1000, 100
# Share of active rows below which copying them together is faster.
_WORTH_SHRINKING = 0.8


class SMO(ReferenceClassifier):
    r"""Sequential minimal optimisation: the exact kernel machine, as in LIBSVM.

    Solves, with a bias that is not penalised,

    .. math:: \min_{w,b} \tfrac12 \|w\|^2 + C \sum_i s_i \max(0, 1 - y_i f(x_i))

    (``loss="hinge"``, scikit-learn's ``SVC``), or the same with
    :math:`\tfrac C2 \sum_i s_i \max(0, 1 - y_i f(x_i))^2` (``loss="squared_hinge"``),
    by its dual

    .. math:: \min_\alpha \tfrac12 \sum_{ij} \alpha_i \alpha_j y_i y_j (k_{ij} + d_i
              [i=j]) - \sum_i \alpha_i, \quad \sum_i y_i \alpha_i = 0,

    :math:`0 \le \alpha_i \le C s_i` and d = 0 for the hinge, :math:`\alpha_i \ge 0` and
    :math:`d_i = 1/(C s_i)` for its square. Two rows at a time, chosen by second-order
    information (Fan, Chen and Lin 2005).

    Parameters
    ----------
    loss : {"hinge", "squared_hinge"}, default="hinge"
        The loss.
    C : float, default=1.0
        Weight of the loss, in the problems above.
    kernel : str or callable, default="rbf"
        As in `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel width, as in `CoreVectorClassifier`.
    degree, coef0 : float, default=3, 0.0
        Parameters of "poly" and "sigmoid".
    tol : float, default=1e-3
        Stop when the most violating pair violates its conditions by at most this, in
        units of the decision function (LIBSVM's rule and default).
    shrinking : bool, default=True
        Leave rows out that seem to stay at their bound, until the rest is solved, as
        LIBSVM does. Same solution, within `tol`; at a large C many times faster.
    cache_size : float, default=200
        Megabytes of kernel values to keep. Shrinking may use as much again.
    max_iter : int, default=-1
        Most steps for one machine; -1 for 100,000 per row.
    class_weight : dict or "balanced", optional
        Multiplies the weights of a class's rows.

    Attributes
    ----------
    classes_ : ndarray
        Class labels. More than two: one machine per class against the rest.
    support_, support_vectors_ : ndarray or CSR
        Row numbers and rows with a coefficient that is not zero in some machine.
    n_support_ : ndarray
        Number of them in each class.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        ``alpha_i y_i``.
    intercept_ : ndarray of shape (n_machines,)
        Biases.
    n_iter_ : ndarray of shape (n_machines,)
        Steps taken.
    fit_status_ : int
        0 where every machine reached `tol`, otherwise 1.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec.reference import SMO
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> SMO(C=1000).fit(X, y).score(X, y)
    1.0
    """

    def __init__(
        self,
        loss: str = "hinge",
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        *,
        tol: float = 1e-3,
        shrinking: bool = True,
        cache_size: float = 200,
        max_iter: int = -1,
        class_weight: Any = None,
    ):
        store(self, locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("SMO", "loss", self.loss, ("hinge", "squared_hinge"))
        check_positive("SMO", "C", self.C)
        check_flag("SMO", "shrinking", self.shrinking)
        check_limit("SMO", "max_iter", self.max_iter)

    def _fit_binary(self, rows: KernelRows, y: Array, weight: Array) -> Machine:
        box = Box.of(self.loss, y, self.C * weight)
        limit = step_limit(self.max_iter, len(y))
        run = Descent(rows, box, self.tol)
        run.go(limit, self.shrinking)
        violation = run.violation()
        why = f"after {run.steps:,} steps (max_iter={self.max_iter})"
        remedy = STEPS_REMEDY
        if run.steps < limit:
            why, remedy = "where rounding allows no more", "Relax tol or lower C."
        reason = (
            f"stopped {why} with a violation of {violation:.2e}, {self.tol:.2e} asked "
            f"(tol). {remedy}"
        )
        return Machine(run.b, run.bias(), run.steps, violation <= self.tol, reason)


@dataclass(frozen=True)
class Box:
    """The problem without its kernel: labels, bounds of b, ridge on k(x, x)."""

    y: Array
    low: Array
    high: Array
    ridge: Array

    @classmethod
    def of(cls, loss: str, y: Array, C: Array) -> Box:
        """Return the box of a loss for labels -1, +1 and one C per row, 0 for none."""
        size, ridge = C, np.zeros(len(y))
        if loss == "squared_hinge":
            size = np.where(C > 0, np.inf, 0.0)
            ridge[C > 0] = 1.0 / C[C > 0]
        return cls(y, np.where(y < 0, -size, 0.0), np.where(y > 0, size, 0.0), ridge)

    def take(self, keep: Array) -> Box:
        """Return the problem of the rows `keep`."""
        return Box(self.y[keep], self.low[keep], self.high[keep], self.ridge[keep])


class Descent:
    """Coefficients and gradient of all rows, and of the active rows."""

    def __init__(self, rows: KernelRows, box: Box, tol: float):
        self.all_rows, self.all_box, self.tol = rows, box, tol
        self.b, self.g = np.zeros(len(box.y)), -box.y
        self.steps = 0
        self._work_on(np.arange(len(box.y)), rows)

    def _work_on(self, active: Array, rows: KernelRows) -> None:
        self.active, self.rows, self.box = active, rows, self.all_box.take(active)
        b, g = self.b[active], self.g[active]
        self.point = (b, g, b < self.box.high, b > self.box.low)

    def _write_back(self) -> None:
        self.b[self.active], self.g[self.active] = self.point[0], self.point[1]

    def go(self, limit: int, shrinking: bool) -> None:
        """Step until `tol` or `limit` is reached, or rounding prevents progress."""
        n, attempts = len(self.b), 0
        while True:
            pause = min(n, _SHRINK_EVERY) * (1 if attempts < _ATTEMPTS else _LATER)
            most = min(limit, self.steps + pause) if shrinking else limit
            end = self._step_until(most)
            self._write_back()
            if end == loops.LIMIT and self.steps < limit:
                self._shrink()
                attempts += 1
                continue
            all_rows = len(self.active) == n
            self._take_all_rows()
            if all_rows or end != loops.DONE:
                return

    def _step_until(self, limit: int) -> int:
        rows = self.rows
        cache = (rows.store, rows.slot_of, rows.last_use, rows.clock)
        box = self.box
        problem = (rows.diagonal + box.ridge, box.ridge, box.low, box.high)
        state = np.array([-1, -1, self.steps])
        while True:
            wanted = loops.smo(cache, problem, self.point, state, self.tol, limit)
            if wanted < 0:
                break
            rows.fetch(self._with_others(wanted))
        self.steps = int(state[loops.STEPS])
        return int(wanted)

    def _with_others(self, wanted: int) -> list[int]:
        """Return the missing row, and the rows that are likely to be next."""
        each = self.rows.at_once // 2
        if each == 0:
            return [wanted]
        _, g, may_rise, may_fall = self.point
        missing = self.rows.slot_of < 0
        missing[wanted] = False
        chosen = [wanted]
        for key, may in ((g, may_rise), (-g, may_fall)):
            rows = np.flatnonzero(may & missing)
            if len(rows) > each:
                rows = rows[np.argpartition(key[rows], each)[:each]]
            missing[rows] = False
            chosen += rows.tolist()
        return chosen

    def _shrink(self) -> None:
        """Shrink: remove rows that probably stay at a bound (LIBSVM paper, 5.1)."""
        _, g, may_rise, may_fall = self.point
        lowest, highest = extremes(g, may_rise, may_fall)
        stays_high = ~may_rise & (g < lowest)
        stays_low = ~may_fall & (g > highest)
        keep = np.flatnonzero(~(stays_high | stays_low))
        if 2 <= len(keep) <= _WORTH_SHRINKING * len(g):
            self._work_on(self.active[keep], self.rows.narrowed(keep))

    def _take_all_rows(self) -> None:
        """Reactivate all rows; the gradient of the shrunk rows is recomputed."""
        left_out = np.ones(len(self.b), dtype=bool)
        left_out[self.active] = False
        rows = np.flatnonzero(left_out)
        if len(rows) == 0:
            return
        support = np.flatnonzero(self.b)
        kernel, box = self.all_rows.kernel, self.all_box
        basis = kernel.prepare_basis(self.all_rows.take(support))
        coef = self.b[support, None]
        values = kernel.times(self.all_rows.prepared(rows), basis, coef)[:, 0]
        self.g[rows] = values + box.ridge[rows] * self.b[rows] - box.y[rows]
        self._work_on(np.arange(len(self.b)), self.all_rows)

    def violation(self) -> float:
        """Return the violation of the most violating pair."""
        lowest, highest = extremes(*self.point[1:])
        return float(max(highest - lowest, 0.0))

    def bias(self) -> float:
        """Return the bias that is optimal for the coefficients."""
        return optimal_bias(*self.point[1:])
