"""SimpleSVM: an exact active-set method that moves one row at a time.

From section 2.1.3 of Loosli and Canu's comments on the Core Vector Machine (2006),
whose step numbers the comments bear, after Vishwanathan, Smola and Murty (2003). In
``b_i = alpha_i y_i``: the groups are I_w, the free rows (`FreeRows`), solved exactly
together with the bias; I_C, rows at the end of their box; I_0, rows at zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.estimators._parameters import check_positive, store
from corevec.exceptions import InvalidInputError
from corevec.reference._base import (
    Machine,
    ReferenceClassifier,
    away_from_ends,
    check_limit,
    optimal_bias,
)
from corevec.reference._free_rows import FreeRows
from corevec.reference._kernel_rows import KernelRows

# Rows among which the worst is sought at a time: all of them up to here, so that few
# steps are wasted, and no more, so that a step over a million rows costs what it does
# over these. Fewer where the kernel values of these with the free rows pass cache_size.
_WINDOW, _LEAST_WINDOW = 1 << 14, 1 << 8
# Steps without a decrease of the objective after which only rounding is left. Ties at a
# bound take one or two such steps each.
_IDLE = 100


class SimpleSVM(ReferenceClassifier):
    r"""SimpleSVM: the exact kernel machine by its free rows, fast where they are few.

    Solves, with a bias that is not penalised,

    .. math:: \min_{w,b} \tfrac12 \|w\|^2 + C \sum_i s_i \max(0, 1 - y_i f(x_i)),

    scikit-learn's ``SVC``; with ``C=inf`` the hard margin, ``y_i f(x_i) >= 1`` for all
    rows. The rows with :math:`0 < \alpha_i < C s_i` are solved exactly by a factor of
    their kernel matrix that changes by rank one; the row that violates its condition
    most is added; a row that meets the end of its box on the way leaves. Time and
    memory grow with the number of those rows: large C on separable rows suits it.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss; ``numpy.inf`` for the hard margin.
    kernel : str or callable, default="rbf"
        As in `CoreVectorClassifier`; it must be positive semi-definite.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel width, as in `CoreVectorClassifier`.
    degree, coef0 : float, default=3, 0.0
        Parameters of "poly" and "sigmoid".
    tol : float, default=1e-3
        Stop when no row violates its condition by more than this, in units of the
        decision function (the paper uses 1e-6).
    cache_size : float, default=200
        Megabytes of kernel values for the search, and as many for whole kernel rows.
        The free rows need 16 bytes for each pair of them besides.
    max_iter : int, default=-1
        Most rows to add for one machine; -1 for no limit.
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
        Rows added.
    fit_status_ : int
        0 where every machine reached `tol`, otherwise 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from corevec.reference import SimpleSVM
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> SimpleSVM(C=np.inf).fit(X, y).score(X, y)
    1.0
    """

    def __init__(
        self,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        *,
        tol: float = 1e-3,
        cache_size: float = 200,
        max_iter: int = -1,
        class_weight: Any = None,
    ):
        store(self, locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.C, float) and np.isposinf(self.C)):
            check_positive("SimpleSVM", "C", self.C)
        check_limit("SimpleSVM", "max_iter", self.max_iter)

    def _fit_binary(self, rows: KernelRows, y: Array, weight: Array) -> Machine:
        size = np.zeros(len(y))
        size[weight > 0] = self.C * weight[weight > 0]
        groups = _Groups(rows, y, size, self.tol)
        reason = groups.solve(self.max_iter)
        if not reason:
            groups.centre_bias()
        return Machine(groups.all_coef(), groups.bias, groups.added, not reason, reason)


class _Groups:
    """The active sets: the free rows, and one coefficient per row at a bound."""

    def __init__(self, rows: KernelRows, y: Array, size: Array, tol: float):
        self.rows, self.tol = rows, tol
        self.low, self.high = np.where(y < 0, -size, 0.0), np.where(y > 0, size, 0.0)
        self.free = FreeRows()
        self.is_free = np.zeros(len(y), dtype=bool)
        self.b = np.zeros(len(y))  # for free rows: the value when they became free
        self.rest = -y  # gradient K b - y without the part of the free rows
        self.fixed_sum = 0.0  # of the coefficients of rows that are not free
        self.bias = 0.0
        self.added = 0
        self.window = _Window(rows, self.free, 0)

    def all_coef(self) -> Array:
        """Return the coefficient of every row."""
        coef = self.b.copy()
        coef[self.free.members] = self.free.coef
        return np.clip(coef, self.low, self.high)  # removes rounding only

    def solve(self, max_iter: int) -> str:
        """Add rows until none violates; return why it stopped earlier, if it did."""
        if not self._start():
            return ""
        total, idle = 0.0, 0
        while True:
            row, violation = self._worst_row()  # steps 2 and 3
            if row < 0:
                return ""
            left = f"a violation of {violation:.2e}, tol={self.tol:.2e} asked."
            if self.added == max_iter:
                return f"stopped by max_iter={max_iter} with {left} Raise max_iter."
            gain = self._add(row)
            self._repair()
            self.added += 1
            total += gain
            idle = 0 if gain > 1e-15 * total else idle + 1
            if idle == _IDLE:
                return f"rounding stopped the descent with {left} Relax tol or lower C."

    def centre_bias(self) -> None:
        """Take the middle of the optimal biases where no row is strictly in its box."""
        may_rise, may_fall = away_from_ends(self.all_coef(), self.low, self.high)
        present = self.high > self.low
        if not (may_rise & may_fall).any() and present.any():
            g = np.concatenate(
                [self.rest[w.span] + w.values() for w in self._all_windows()]
            )
            self.bias = optimal_bias(g, may_rise & present, may_fall & present)

    def _all_windows(self) -> Iterator[_Window]:
        stop = 0
        while stop < self.rows.n_rows:
            window = _Window(self.rows, self.free, stop)
            yield window
            stop = window.span.stop

    def _start(self) -> bool:
        """Step 1: two rows, one of each class; return False if a class has none."""
        first = np.flatnonzero(self.high > 0)[:1]
        second = np.flatnonzero(self.low < 0)[:1]
        if len(first) == 0 or len(second) == 0:
            self.bias = float(np.sign(len(first) - len(second)))
            return False
        self._make_free(int(second[0]), np.empty(0))
        self.bias = -float(self.rest[second[0]])
        self._add(int(first[0]))
        self.added = 1
        return True

    def _worst_row(self) -> tuple[int, float]:
        """Return the most violating row of the next window that has one (2, 3).

        Returns -1 for the row once all windows in turn had none.
        """
        seen = 0
        while seen < self.rows.n_rows:
            span = self.window.span
            f = self.rest[span] + self.window.values() + self.bias
            too_low = np.where(self.b[span] < self.high[span], -f, 0.0)
            too_high = np.where(self.b[span] > self.low[span], f, 0.0)
            violation = np.maximum(too_low, too_high)
            violation[self.is_free[span]] = 0.0
            worst = int(np.argmax(violation))
            if violation[worst] > self.tol:
                return span.start + worst, float(violation[worst])
            seen += len(violation)
            if seen < self.rows.n_rows:
                start = span.stop if span.stop < self.rows.n_rows else 0
                self.window = _Window(self.rows, self.free, start)
        return -1, 0.0

    def _add(self, row: int) -> float:
        """Move the row and the free rows with it (4 to 6); return the gain."""
        self._release(row)
        column = self._values_with_free(row)
        own, b = float(self.rows.diagonal[row]), float(self.b[row])
        value = self.rest[row] + column @ self.free.coef + own * b
        slope = float(value) + self.bias
        sign = 1.0 if slope < 0 else -1.0
        gain = 0.0
        while len(self.free):
            # Step 4: the factor gives the direction to the solution with this row.
            way = self.free.direction(column, own)
            whole = np.inf
            if way.curvature > 0:
                whole = max(-sign * slope / way.curvature, 0.0)
            room = self.high[row] - b if sign > 0 else b - self.low[row]
            place, free_room = self._room(sign * way.coef)
            length = min(whole, room, free_room)
            if not np.isfinite(length):
                raise InvalidInputError(_NOT_SEPARABLE)
            gain += float(length * (abs(slope) - length * way.curvature / 2))
            self.free.coef += sign * length * way.coef
            self.bias += sign * length * way.bias
            slope += sign * length * way.curvature
            b += sign * length
            if length == whole:
                break  # step 5: solved, all in their boxes
            if length == room:
                self._fix(row, self.high[row] if sign > 0 else self.low[row])
                return gain
            # Step 6: the free row at the end of its box goes to I_0 or I_C.
            before = self.free.members
            self._let_go(place, at_high=bool(sign * way.coef[place] > 0))
            column = column[self.is_free[before]]
        else:
            # No other free row: the single free row determines the bias.
            self.bias -= slope
        self.b[row] = b
        if not self._make_free(row, column):
            self._fix(row, b)
        return gain

    def _room(self, way: Array) -> tuple[int, float]:
        """Return the free row that reaches its bound first, and the step length."""
        members, coef = self.free.members, self.free.coef
        end = np.where(way > 0, self.high[members], self.low[members])
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(way == 0, np.inf, (end - coef) / way)
        place = int(np.argmin(room))
        return place, max(float(room[place]), 0.0)

    def _values_with_free(self, row: int) -> Array:
        members = self.free.members
        if len(members) == 0:
            return np.empty(0)
        return np.asarray(self.rows.block([row], self.rows.prepared(members))[0])

    def _make_free(self, row: int, column: Array) -> bool:
        own = float(self.rows.diagonal[row])
        if not self.free.join(row, float(self.b[row]), column, own):
            return False
        self.is_free[row] = True
        if not self.window.join(row):
            self.window = _Window(self.rows, self.free, self.window.span.start)
        return True

    def _let_go(self, place: int, *, at_high: bool) -> None:
        row = int(self.free.members[place])
        end = self.high[row] if at_high else self.low[row]
        self._settle([(row, end), *self.free.leave(place)])

    def _settle(self, rows: list[tuple[int, float]]) -> None:
        """Record rows that are no longer free, with their coefficients."""
        for row, b in rows:
            self.is_free[row] = False
            self.window.leave(row)
            self._fix(row, b)

    def _fix(self, row: int, b: float) -> None:
        self.b[row] = b
        if b != 0:
            self.rest += b * self.rows.row(row)
            self.fixed_sum += b

    def _release(self, row: int) -> None:
        if self.b[row] != 0:
            self.rest -= self.b[row] * self.rows.row(row)
            self.fixed_sum -= self.b[row]

    def _residual(self) -> Array:
        """Return ``g + bias`` of the free rows, 0 where they are solved."""
        self.free.coef[0] -= self.fixed_sum + self.free.coef.sum()  # rounding only
        g = self.rest[self.free.members] + self.free.K @ self.free.coef
        self.bias = -float(g.mean())
        return np.asarray(g + self.bias)

    def _repair(self) -> None:
        """Correct the rounding error in the equations of the free rows.

        Corrected with the factor at hand; where that does not help, the factor is
        recomputed from the kernel matrix.
        """
        for again in (False, False, True):
            residual = self._residual()
            if np.abs(residual).max() <= 1e-3 * self.tol:
                return
            if again:
                self._settle(self.free.factor_again())
                residual = self._residual()
            self.free.coef += self.free.correction(residual)
        self._residual()


class _Window:
    """Kernel values of the free rows with the rows of one window."""

    def __init__(self, rows: KernelRows, free: FreeRows, start: int):
        slots = 2 * len(free) + 64
        size = int(np.clip(rows.budget // (8 * slots), _LEAST_WINDOW, _WINDOW))
        self.rows, self.free = rows, free
        self.span = slice(start, min(start + size, rows.n_rows))
        here = np.arange(self.span.start, self.span.stop)
        self._points = rows.points if len(here) == rows.n_rows else rows.prepared(here)
        self._slot_of: dict[int, int] = {}
        self._empty = list(range(slots))[::-1]
        self._top = 0
        self._store = np.zeros((slots, len(here)))
        if len(free):
            made = rows.block(free.members, self._points)
            for row, values in zip(free.members.tolist(), made, strict=True):
                self._put(row, values)

    def values(self) -> Array:
        """Return ``sum over free rows of b_j k(x_i, x_j)`` for the rows of the span."""
        coef = np.zeros(self._top)
        coef[[self._slot_of[j] for j in self.free.members.tolist()]] = self.free.coef
        return np.asarray(coef @ self._store[: self._top])

    def join(self, row: int) -> bool:
        """Record that a row has become free; return False if the cache is full."""
        if not self._empty:
            return False
        self._put(row, self.rows.block([row], self._points)[0])
        return True

    def leave(self, row: int) -> None:
        """Record that a row is no longer free."""
        self._empty.append(self._slot_of.pop(row))

    def _put(self, row: int, values: Array) -> None:
        slot = self._empty.pop()
        self._slot_of[row] = slot
        self._store[slot] = values
        self._top = max(self._top, slot + 1)


_NOT_SEPARABLE = (
    "C=inf asks for a hard margin, but the kernel does not separate the two classes "
    "(to working precision). Give a finite C, or a kernel that separates them (a "
    "larger gamma)."
)
