"""Primal and dual values of kernel machines in long double, without corevec.

Every problem is brought to one form, over *entries* e (a row, one side of a row in a
regression, or a pair of rows in a ranking),

    min 1/2 |w|^2 (+ 1/2 b0^2) + T t + loss,   v_e = p_e - y_e f_e - t,
    squared loss: 1/2 sum omega_e max(0, v_e)^2,   hinge: sum omega_e max(0, v_e).

Any function has a primal value, which is an upper bound of the optimum; `solve` looks
for a good one. A certificate is refuted where it claims less for its own function, or a
lower bound above the value of another one, by more than the rounding of this file.

That rounding follows from the data. With eps the unit of long double and d columns, a
squared distance taken from differences has the relative error (d + 3) eps, a value of a
kernel in [0, 1] that falls with it at most that (x e^-x < 0.37), an inner product d eps
|x| |z|. A value of f is then wrong by e = error(k) sum |c|, the squared norm by
e sum |c|, and the loss by e sqrt(2 L Omega) + Omega e^2 / 2 (Cauchy-Schwarz).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

LD = np.longdouble
EPS = np.finfo(LD).eps
UNIT = np.finfo(float).eps


def squared_distances(X, Z):
    """Return |x - z|^2 from differences, in long double."""
    found = np.zeros((len(X), len(Z)), dtype=LD)
    for x, z in zip(X.T, Z.T, strict=True):
        found += (x[:, None] - z[None, :]) ** 2
    return found


@dataclass(frozen=True)
class Gram:
    """Kernel values in long double, and the bound of their error."""

    K: np.ndarray
    error: float

    @classmethod
    def of(cls, X, Z, shape):
        """Return the values of one of the named kernels."""
        X, Z = np.asarray(X, dtype=LD), np.asarray(Z, dtype=LD)
        name, d = shape["kernel"], X.shape[1]
        if name.startswith("normalized-"):
            return cls._normalized(X, Z, {**shape, "kernel": name[11:]})
        gamma = LD(shape.get("gamma", 1.0))
        if name in ("rbf", "laplacian", "inverse-distance"):
            d_sq = gamma * squared_distances(X, Z)
            values = {
                "rbf": lambda: np.exp(-d_sq),
                "laplacian": lambda: np.exp(-np.sqrt(d_sq)),
                "inverse-distance": lambda: 1 / (1 + np.sqrt(d_sq)),
            }[name]()
            return cls(values, float((d + 8) * EPS))
        dot = X @ Z.T
        size = float(np.abs(X).max(initial=0) * np.abs(Z).max(initial=0) * d)
        if name == "linear":
            return cls(dot, float((d + 2) * EPS * size))
        inner, coef0 = gamma * dot + LD(shape["coef0"]), abs(shape["coef0"])
        size = float(gamma) * size + coef0
        if name == "sigmoid":
            return cls(np.tanh(inner), float((d + 8) * EPS * (1 + size)))
        q = shape["degree"]
        return cls(inner**q, float((d + 8) * EPS * q * max(size, 1e-300) ** q))

    @classmethod
    def _normalized(cls, X, Z, shape):
        def length(rows):
            return np.sqrt([cls.of(r[None], r[None], shape).K[0, 0] for r in rows])

        plain = cls.of(X, Z, shape)
        left, right = np.asarray(length(X), LD), np.asarray(length(Z), LD)
        least = max(float(left.min(initial=1) * right.min(initial=1)), 1e-300)
        scale = np.outer(left, right)
        K = np.divide(plain.K, scale, out=np.zeros_like(plain.K), where=scale > 0)
        return cls(K, float(plain.error / least * 3 + 8 * EPS))


@dataclass(frozen=True)
class Task:
    """The entries of one problem; `rows` as (n_entries, n_rows) where these differ."""

    y: np.ndarray
    p: np.ndarray
    omega: np.ndarray
    has_bias: bool = False
    price: float = 0.0
    floor: float = 0.0  # of t, where it has a price
    is_hinge: bool = False
    # The price of a free bias: of all entries, or of those of sign +1 and of sign -1.
    totals: tuple[float, ...] = ()
    rows: np.ndarray | None = None
    # Error of p, which is a float64 number that somebody else has rounded.
    p_error: float = 0.0

    def groups(self):
        """Yield the entries of each free bias, and its price."""
        if len(self.totals) == 1:
            yield np.ones(len(self.y), dtype=bool), self.totals[0]
        else:
            for sign, total in zip((1, -1), self.totals, strict=bool(self.totals)):
                yield self.y == sign, total

    def of_rows(self, values):
        """Return the values of the entries from those of the rows."""
        if self.rows is not None:
            return self.rows @ values
        return np.tile(values, len(self.y) // len(values))


@dataclass(frozen=True)
class Function:
    """A function by its values on the rows, its squared norm, and their errors."""

    f: np.ndarray
    norm_sq: LD
    f_error: float
    norm_error: float
    bias: LD = field(default_factory=lambda: LD(0))

    @classmethod
    def of(cls, gram, own, coef, bias=0.0, unit=EPS):
        """Return sum_j c_j k(b_j, .) + b0; `unit` is the rounding of its numbers."""
        coef, bias = np.asarray(coef, dtype=LD), LD(bias)
        size = float(np.abs(coef).sum())
        largest = float(
            max(np.abs(own.K).max(initial=0), np.abs(gram.K).max(initial=0))
        )
        f_error = gram.error * size + (len(coef) * EPS + unit) * (
            largest * size + abs(float(bias))
        )
        norm_sq = coef @ own.K @ coef
        norm_error = (
            own.error * size**2 + (2 * len(coef) * EPS + unit) * largest * size**2
        )
        return cls(
            gram.K @ coef + bias, norm_sq, float(f_error), float(norm_error), bias
        )

    def times(self, factor):
        """Return a multiple of the function."""
        a = abs(float(factor))
        return Function(
            self.f * factor,
            self.norm_sq * factor**2,
            self.f_error * a,
            self.norm_error * a**2,
            self.bias * factor,
        )


@dataclass(frozen=True)
class Value:
    """A primal value, and the bound of its error."""

    value: float
    error: float

    @property
    def least(self):
        return self.value - self.error

    @property
    def most(self):
        return self.value + self.error


def primal(task, function, t=None):
    """Return the primal value of a function, at the best t (and free bias)."""
    v = task.p.astype(LD) - task.y * task.of_rows(function.f)
    norm = function.norm_sq / 2
    if task.has_bias:
        norm = norm + function.bias**2 / 2
    for here, total in task.groups():
        bias = best_free_bias(task.y[here], task.omega[here], v[here], LD(total))
        v[here] -= task.y[here] * bias
        norm = norm + LD(total) * bias
    if task.price > 0 and t is None:
        t = best_offset(task, v)
    elif t is None:
        t = LD(0)
    v = v - LD(t)
    loss = loss_of(task, v)
    total, e = task.omega.sum().astype(LD), LD(2 * function.f_error + task.p_error)
    if task.is_hinge:
        loss_error = total * e
    else:
        loss_error = e * np.sqrt(2 * loss * total) + total * e * e / 2
    value = norm + loss + LD(task.price) * LD(t)
    size = sum(abs(total) for total in task.totals) * float(np.abs(v).max(initial=0))
    rounding = (
        EPS
        * (len(v) + 8)
        * (abs(float(norm)) + float(loss) + abs(task.price * float(t)) + size)
    )
    rounding += (len(v) / 2 + 4) * UNIT * abs(float(norm + loss))  # sums in float64
    # A norm below zero is rounding, of which the bound is `norm_error`.
    error = function.norm_error / 2 + loss_error + abs(rounding)
    return Value(float(value), float(error))


def loss_of(task, v):
    """Return the loss of violations."""
    over = np.clip(v, 0, None)
    return (task.omega * (over if task.is_hinge else over**2 / 2)).sum()


def best_free_bias(y, omega, v, total):
    """Return b of the least sum of omega max(0, v - y b) + total b, at a kink."""
    kinks = v * y
    order = np.argsort(kinks)
    # The slope at b: entries of y = -1 are violated above their kink, y = +1 below it.
    slope = np.cumsum(omega[order].astype(LD)) - omega[y > 0].sum() + total
    return kinks[order][min(int(np.searchsorted(slope, 0)), len(order) - 1)]


def best_offset(task, v):
    """Return the t at which the sum of omega max(0, v - t) is the price."""
    order = np.argsort(-v)
    mass, sums = np.cumsum(task.omega[order]), np.cumsum((task.omega * v)[order])
    with np.errstate(divide="ignore", invalid="ignore"):
        each = (sums - LD(task.price)) / mass
    each = each[~np.isnan(each)]
    return max(each.max(initial=-np.inf), LD(task.floor)) if len(each) else LD(0)


# --- a good function, by Newton's method on the active entries ------------------------


def solve(task, K, rounds=60):
    """Return coefficients over the rows, and a bias, of a low primal value.

    Each step solves (G_AA + diag(1/omega)) x = p_A - t in float64 over the violated
    entries A, with sum(x) = T where t has a price, and searches the line to it. What it
    returns may be far from optimal where float64 has no digits left; it is a function
    nonetheless, whose value `primal` bounds.
    """
    n = len(K)
    B = np.eye(n)[np.arange(len(task.y)) % n] if task.rows is None else task.rows
    B = B * task.y[:, None]
    G = B @ np.asarray(K, dtype=float) @ B.T
    if task.has_bias:
        G += np.outer(B.sum(axis=1), B.sum(axis=1))
    omega, p = task.omega.astype(float), task.p.astype(float)
    b, t, g = np.zeros(len(p)), max(task.floor, 0.0), np.zeros(len(p))
    if task.price > 0:
        t = float(best_offset(task, task.p))
    with np.errstate(all="ignore"):
        for _ in range(rounds):
            active = np.flatnonzero((p - g - t > 0) & (omega > 0))
            step = _newton(G, p, omega, active, task) if len(active) else None
            if step is None:
                break
            new_b, new_t = step
            new_g = G[:, active] @ new_b[active]
            move = _line(task, (b, g, t), (new_b, new_g, new_t), p)
            if not move > 0:
                break
            change = np.abs(move * (new_g - g)).max()
            b, g = b + move * (new_b - b), g + move * (new_g - g)
            t = t + move * (new_t - t)
            if change <= 1e-14 * max(1.0, np.abs(g).max()):
                break
    coef = B.T @ b
    return coef, float(coef.sum()) if task.has_bias else 0.0


def _newton(G, p, omega, active, task):
    M = G[np.ix_(active, active)] + np.diag(1 / omega[active])
    right = np.stack([p[active], np.ones(len(active))], axis=1)
    try:
        x, one = cho_solve(cho_factor(M), right).T
    except (LinAlgError, ValueError):
        try:
            x, one = np.linalg.lstsq(M, right, rcond=None)[0].T
        except (LinAlgError, ValueError):
            return None
    t = 0.0
    if task.price > 0:
        t = max(task.floor, (x.sum() - task.price) / one.sum())
        x = x - t * one
    if not np.isfinite(x).all():
        return None
    b = np.zeros(len(p))
    b[active] = x
    return b, t


def _line(task, old, new, p):
    """Return the step of the least objective between two points, by bisection."""
    (b, g, t), (b1, g1, t1) = old, new
    db, dg, dt = b1 - b, g1 - g, t1 - t
    omega = task.omega.astype(float)

    def slope(s):
        over = np.clip(p - (g + s * dg) - (t + s * dt), 0, None)
        return (b + s * db) @ dg + task.price * dt - (omega * over) @ (dg + dt)

    low, high = 0.0, 1.0
    if not slope(0.0) < 0:
        return 0.0
    while slope(high) < 0 and high < 16:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return (low + high) / 2


def solve_hinge(task, K, sweeps=200):
    """Return coefficients of a low hinge value, by coordinate steps in the box.

    Without a free bias: `judge.witnesses` asks scikit-learn where there is one.
    """
    y = task.y.astype(float)
    Q = (np.asarray(K, dtype=float) + task.has_bias) * np.outer(y, y)
    cap, b, g = task.omega.astype(float), np.zeros(len(y)), -np.ones(len(y))
    for _ in range(sweeps * len(y)):
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.clip(b - g / np.diag(Q), 0, cap) - b
        step = np.where(np.isfinite(step), step, 0.0)
        gain = np.abs(step * g)
        i = int(gain.argmax())
        if gain[i] <= 1e-13 * max(abs(b.sum()), 1e-300):
            break
        b[i] += step[i]
        g += step[i] * Q[:, i]
    coef = b * y
    return coef, float(coef.sum()) if task.has_bias else 0.0


# --- enclosing balls ------------------------------------------------------------------


def ball_value(d_sq, error, C, s):
    """Return min over r >= 0 of r + C sum s max(0, d^2 - r)^2, or the largest d^2."""
    here = s > 0
    d_sq, s = d_sq[here], s[here].astype(LD)
    if C is None:
        return Value(float(d_sq.max()), error + 4 * UNIT * abs(float(d_sq.max())))
    task = Task(np.ones(len(s)), d_sq, 2 * C * s, price=1.0)
    r = best_offset(task, d_sq)
    over = np.clip(d_sq - r, 0, None)
    loss, total = (C * s * over**2).sum(), float((C * s).sum())
    value = float(r + loss)
    # r moves with the distances by no more than their error.
    more = 2 * error * np.sqrt(float(loss) * total) + total * error * error
    return Value(value, error + more + 4 * UNIT * abs(value))


def solve_ball(K, C, s, rounds=2000):
    """Return the weights of a centre of small value."""
    K = np.asarray(K, dtype=float)
    here = np.flatnonzero(s > 0)
    Q, a = K[np.ix_(here, here)], np.zeros(len(here))
    diagonal = np.diag(Q)
    if C is not None:
        omega = 4 * C * s[here]
        task = Task(np.ones(len(here)), diagonal / 2, omega, price=1.0, floor=-np.inf)
        a, _ = solve(task, Q)
        # With R^2 = 0 the sum of the weights is below 1.
        least = Task(np.ones(len(here)), diagonal / 2, omega, price=1.0, floor=0.0)
        other, _ = solve(least, Q)
        found = [np.zeros(len(K)), np.zeros(len(K))]
        found[0][here], found[1][here] = a, other
        return found
    a[0] = 1.0
    for _ in range(rounds):
        d_sq = diagonal - 2 * Q @ a
        top, low = d_sq.argmax(), np.where(a > 0, d_sq, np.inf).argmin()
        bend = Q[top, top] + Q[low, low] - 2 * Q[top, low]
        if d_sq[top] - d_sq[low] <= 1e-13 * np.abs(Q).max() or bend <= 0:
            break
        step = min(a[low], (d_sq[top] - d_sq[low]) / (2 * bend))
        a[top] += step
        a[low] = 0.0 if step == a[low] else a[low] - step
    full = np.zeros(len(K))
    full[here] = a / a.sum()
    return [full]
