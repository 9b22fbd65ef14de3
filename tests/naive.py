"""Slow twins of what the library computes, written from the mathematics alone.

Nothing here imports corevec. Every solver returns a *bracket*: a dual value and a
primal value, both of feasible points, so weak duality itself says how far the twin can
be from the optimum. A test that uses a twin may rely on `dual <= optimum <= primal`.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq, minimize, nnls

EPS = np.finfo(float).eps


# --- kernels --------------------------------------------------------------------------


def squared_distances(X, Z):
    """Return |x - z|^2 from explicit differences: nothing cancels far from zero."""
    return ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2)


def gram(X, Z=None, *, kernel="rbf", gamma=1.0, degree=3, coef0=0.0):
    """Return the matrix k(x_i, z_j) of one of the named kernels, or of a callable."""
    X = np.asarray(X, dtype=float)
    Z = X if Z is None else np.asarray(Z, dtype=float)
    shape = {"gamma": gamma, "degree": degree, "coef0": coef0}
    if callable(kernel):
        return np.asarray(kernel(X, Z), dtype=float)
    if kernel.startswith("normalized-"):
        plain = {"kernel": kernel.removeprefix("normalized-"), **shape}
        scale_x = np.sqrt([gram(x[None], **plain)[0, 0] for x in X])
        scale_z = np.sqrt([gram(z[None], **plain)[0, 0] for z in Z])
        return gram(X, Z, **plain) / np.outer(scale_x, scale_z)
    if kernel in ("rbf", "laplacian", "inverse-distance"):
        return _of_distance(kernel, squared_distances(X, Z), gamma)
    return _of_dot(kernel, X @ Z.T, **shape)


def _of_distance(kernel, d_sq, gamma):
    if kernel == "rbf":
        return np.exp(-gamma * d_sq)
    scaled = np.sqrt(gamma) * np.sqrt(d_sq)
    return np.exp(-scaled) if kernel == "laplacian" else 1.0 / (1.0 + scaled)


def _of_dot(kernel, dot, *, gamma, degree, coef0):
    if kernel == "linear":
        return dot
    inner = gamma * dot + coef0
    return {"poly": lambda: inner**degree, "sigmoid": lambda: np.tanh(inner)}[kernel]()


def gamma_value(gamma, X):
    """Return the number that a name of gamma stands for on the rows of X."""
    X = np.asarray(X, dtype=float)
    if gamma == "scale":
        return 1.0 / (X.shape[1] * X.var())
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma == "mean-distance":
        return 1.0 / squared_distances(X, X).mean()
    return gamma


# --- the squared-hinge problems -------------------------------------------------------


@dataclass(frozen=True)
class Solution:
    """Multipliers per row, and the bracket they prove for the optimum."""

    b: np.ndarray
    primal: float
    dual: float
    rounding: float

    @property
    def gap(self):
        return (self.primal - self.dual) / self.primal


def factor(K):
    """Return F with F F' = K, negative eigenvalues (rounding) set to zero."""
    values, vectors = eigh((K + K.T) / 2)
    return vectors * np.sqrt(np.clip(values, 0, None))


def hinge(K, y, C, s=None, *, bias=True):
    """Solve min 1/2 b'Qb - sum b over b >= 0, Q = yy'(K + bias) + diag(1/(C s)).

    Non-negative least squares on A = [F' ; diag(1/sqrt(C s))], for which A'A = Q, with
    the right-hand side d = [0 ; sqrt(C s)], for which A'd = 1. The diagonal is never
    added to Q, so a large C costs no digits. Columns are scaled to length one.
    """
    y = np.asarray(y, dtype=float)
    s = np.ones(len(y)) if s is None else np.asarray(s, dtype=float)
    here = s > 0
    slack = np.sqrt(C * s[here])
    signed = y[here, None] * factor(K[np.ix_(here, here)] + float(bias))
    A = np.vstack([signed.T, np.diag(1 / slack)])
    length = np.linalg.norm(A, axis=0)
    right = np.concatenate([np.zeros(len(slack)), slack])
    b = np.zeros(len(y))
    b[here] = nnls(A / length, right, maxiter=100 * len(y))[0] / length
    return _bracket(K, y, C, s, b, bias)


def _bracket(K, y, C, s, b, bias):
    coefficients = b * y
    f = K @ coefficients + bias * coefficients.sum()
    norm_sq = coefficients @ K @ coefficients + bias * coefficients.sum() ** 2
    here = s > 0
    b_Q_b = norm_sq + (b[here] ** 2 / (C * s[here])).sum()
    primal = best_scale_primal(f, norm_sq, y, C, s)
    dual = b.sum() ** 2 / (2 * b_Q_b)
    return Solution(b, primal, dual, rounding(K, b, primal))


def rounding(K, b, value):
    """Return the relative error that float64 cannot avoid in the value of a problem.

    f carries an error of about eps max|k| sum|b| in every row, and both |w|^2 and the
    sum of squared slacks multiply it by sum|b| once more. 100 covers the length of the
    sums and the different order of adding up in the two programs.
    """
    largest = max(1.0, float(np.abs(K).max()))
    return 100 * EPS * largest * np.abs(b).sum() ** 2 / value


def hinge_primal(f, norm_sq, y, C, s):
    """Return 1/2 |w|^2 + C/2 sum s max(0, 1 - y f)^2."""
    return 0.5 * norm_sq + 0.5 * C * (s * np.clip(1 - y * f, 0, None) ** 2).sum()


def best_scale_primal(f, norm_sq, y, C, s):
    """Return the least primal value of t f over 0 <= t <= 10.

    The derivative is piecewise linear and increasing in t: walk the kinks 1/(y f). Near
    the optimum t is 1; beyond 10 a function that is zero but for rounding would be
    blown up.
    """
    m, norm_sq = np.asarray(y * f, dtype=float), max(norm_sq, 0.0)
    edges = np.concatenate([[0.0], np.sort(1 / m[m > 0.1]), [10.0]])
    best = hinge_primal(0 * f, 0.0, y, C, s)
    for low, high in itertools.pairwise(edges):
        inside = (low + high) / 2 * m < 1
        top = C * (s * m * inside).sum()
        bottom = norm_sq + C * (s * m**2 * inside).sum()
        t = min(max(top / bottom, low), high) if bottom > 1e-100 else high
        best = min(best, hinge_primal(t * f, t * t * norm_sq, y, C, s))
    return best


# --- enclosing balls ------------------------------------------------------------------


def distances_sq(K, a):
    """Return |phi_i - c|^2 for c = sum a_j phi_j."""
    return np.diag(K) - 2 * K @ a + a @ K @ a


def hard_ball(K, s=None):
    """Solve max a'diag(K) - a'Ka over the simplex by pairwise steps, to 1e-10."""
    here = np.ones(len(K), bool) if s is None else np.asarray(s) > 0
    Q = K[np.ix_(here, here)]
    a = np.zeros(len(Q))
    a[0] = 1.0
    for _ in range(200_000):
        d_sq = np.diag(Q) - 2 * Q @ a
        top, low = d_sq.argmax(), np.where(a > 0, d_sq, np.inf).argmin()
        bend = Q[top, top] + Q[low, low] - 2 * Q[top, low]
        if d_sq[top] - d_sq[low] <= 1e-11 * np.abs(Q).max() or bend <= 0:
            break
        step = min(a[low], (d_sq[top] - d_sq[low]) / (2 * bend))
        a[top] += step
        a[low] = 0.0 if step == a[low] else a[low] - step
    full = np.zeros(len(K))
    full[here] = a / a.sum()
    radius_sq = full @ np.diag(K) - full @ K @ full
    return Solution(full, distances_sq(K, full)[here].max(), radius_sq, 1e-10)


def soft_ball(K, C, s=None):
    """Solve min r + C sum s max(0, d_i^2(c) - r)^2 over c and r >= 0.

    Newton with trust regions on (c, r) in the coordinates of `factor(K)`; r is fixed
    at zero when it would be negative. The multipliers 2 C s xi are dual feasible (their
    sum is scaled down to one if it is above), with value
    `a'diag(K) - |sum a phi|^2 / sum a - sum a^2/(4 C s)`.
    """
    s = np.ones(len(K)) if s is None else np.asarray(s, dtype=float)
    points = factor(K)[s > 0]
    weight = C * s[s > 0]
    value = _soft_value(points, weight)
    start = np.append(points.mean(axis=0), np.var(points, axis=0).sum())
    end = minimize(
        value,
        start,
        jac=True,
        hess=_soft_hessian(points, weight),
        method="trust-exact",
        options={"gtol": 1e-11, "maxiter": 2000},
    ).x
    if end[-1] < 0:
        end = minimize(
            lambda c: _without_last(value(np.append(c, 0.0))),
            end[:-1],
            jac=True,
            hess=lambda c: _soft_hessian(points, weight)(np.append(c, 0.0))[:-1, :-1],
            method="trust-exact",
            options={"gtol": 1e-11, "maxiter": 2000},
        ).x
        end = np.append(end, 0.0)
    slack = np.clip(((points - end[:-1]) ** 2).sum(axis=1) - end[-1], 0, None)
    a = 2 * weight * slack
    a = a / max(1.0, a.sum())
    total = max(a.sum(), np.finfo(float).tiny)
    dual = a @ (points**2).sum(axis=1) - ((a @ points) ** 2).sum() / total
    dual -= (a**2 / (4 * weight)).sum()
    full = np.zeros(len(K))
    full[s > 0] = a
    return Solution(full, value(end)[0], dual, 1e-9)


def _without_last(value_and_gradient):
    value, gradient = value_and_gradient
    return value, gradient[:-1]


def _soft_value(points, weight):
    def value(z):
        away = z[:-1] - points
        slack = np.clip((away**2).sum(axis=1) - z[-1], 0, None)
        a = 2 * weight * slack
        gradient = np.append(2 * a @ away, 1 - a.sum())
        return z[-1] + (weight * slack**2).sum(), gradient

    return value


def _soft_hessian(points, weight):
    def hessian(z):
        away = z[:-1] - points
        slack = np.clip((away**2).sum(axis=1) - z[-1], 0, None)
        inner = np.hstack([2 * away, -np.ones((len(away), 1))])
        inside = np.where(slack > 0, 2 * weight, 0.0)
        H = inner.T @ (inside[:, None] * inner)
        H[:-1, :-1] += 4 * (weight * slack).sum() * np.eye(len(z) - 1)
        return H

    return hessian


def soft_ball_primal(d_sq, C, s):
    """Return min over r >= 0 of r + C sum s max(0, d^2 - r)^2 for given distances."""
    d_sq, s = d_sq[s > 0], s[s > 0]
    edges = np.concatenate([[0.0], np.sort(d_sq[d_sq > 0])])
    best = np.inf
    for low, high in zip(edges, np.append(edges[1:], edges[-1]), strict=True):
        above = d_sq > low
        mass = (C * s * above).sum()
        r = (C * s * above) @ d_sq / mass - 0.5 / mass if mass > 0 else low
        r = min(max(r, low), high)
        best = min(best, r + C * (s * np.clip(d_sq - r, 0, None) ** 2).sum())
    return best


# --- regression with a tube -----------------------------------------------------------


def standardised(y, s=None, *, centre=True):
    """Return z = (y - mean) / deviation, both weighted, and the two numbers.

    `centre=False`: the mean is 0 and the deviation the root mean square. A constant y
    has deviation 1.
    """
    y = np.asarray(y, dtype=float)
    s = np.ones(len(y)) if s is None else np.asarray(s, dtype=float)
    mean = s @ y / s.sum() if centre else 0.0
    scale = np.sqrt(s @ (y - mean) ** 2 / s.sum())
    scale = 1.0 if scale == 0 else scale
    return (y - mean) / scale, mean, scale


@dataclass(frozen=True)
class TubeSolution:
    """Multipliers (upper side, then lower), tube width, and the bracket they prove.

    `size` is the sum of the objective's terms without their signs: what an error is
    relative to. It is the primal value itself unless the tube is negative. `rounding`
    is absolute.
    """

    b: np.ndarray
    f: np.ndarray
    tube: float
    primal: float
    dual: float
    size: float
    rounding: float


def fixed_tube(K, z, C, tube, s=None, *, bias=True):
    """Solve min (|w|^2 + b0^2)/2 + C/2 sum s max(0, |z - f| - tube)^2."""
    s = np.ones(len(z)) if s is None else np.asarray(s, dtype=float)
    b = _tube_multipliers(K, z, C, s, tube, bias)
    f, norm_sq = _tube_function(K, b, bias)
    primal = tube_primal(f, norm_sq, z, C, s, tube)
    p_b = np.concatenate([z - tube, -z - tube]) @ b
    dual = p_b - _tube_energy(norm_sq, b, C, s) / 2
    return TubeSolution(b, f, tube, primal, dual, primal, rounding(K, b, 1.0))


def automatic_tube(K, z, C, mu, s=None, *, bias=True, free=False):
    """Solve the same with the width e a variable that costs C mu sum(s) e.

    e >= 0 unless `free`. At a given e this is `fixed_tube`, and the derivative of its
    value in e is C mu sum(s) - sum(b(e)), increasing and piecewise linear: find its
    root. It lies above -mu/2, where a mean of xi + xi* >= -2 e alone is mu.
    """
    s = np.ones(len(z)) if s is None else np.asarray(s, dtype=float)
    total = C * mu * s.sum()

    def lacking(e):
        return total - _tube_multipliers(K, z, C, s, e, bias).sum()

    low, high = -0.51 * mu if free else 0.0, np.abs(z[s > 0]).max() + 1e-9
    inside = lacking(low) < 0
    e = brentq(lacking, low, high, xtol=1e-15, rtol=4 * EPS) if inside else low
    b = _tube_multipliers(K, z, C, s, e, bias)
    if free or b.sum() > total:
        b = b * (total / b.sum())
    f, norm_sq = _tube_function(K, b, bias)
    e = best_tube(f, z, s, mu, free=free)
    loss = tube_primal(f, norm_sq, z, C, s, e)
    dual = np.concatenate([z, -z]) @ b - _tube_energy(norm_sq, b, C, s) / 2
    size = loss + total * abs(e)
    return TubeSolution(
        b, f, e, loss + total * e, dual, size, rounding(K, b, 1.0) + 100 * EPS * size
    )


def tube_primal(f, norm_sq, z, C, s, tube):
    """Return norm_sq/2 + C/2 sum s (both squared slacks); no price for the width."""
    above, below = np.clip(z - f - tube, 0, None), np.clip(f - z - tube, 0, None)
    return 0.5 * norm_sq + 0.5 * C * (s * (above**2 + below**2)).sum()


def best_tube(f, z, s, mu, *, free=False):
    """Return the e at which the weighted mean of both slacks is mu, else 0.

    The mean over any set of sides is a lower bound, with equality for the sides that
    are above e: the root is the largest over the sets "the k largest residuals".
    """
    here = s > 0
    residual = (z - f)[here]
    sides, weight = np.concatenate([residual, -residual]), np.tile(s[here], 2)
    order = np.argsort(-sides)
    mass = np.cumsum(weight[order])
    sums = np.cumsum((weight * sides)[order])
    e = ((sums - mu * s.sum()) / mass).max()
    return float(e) if free else max(float(e), 0.0)


def mean_slack(f, z, s, tube):
    """Return the weighted mean of xi + xi*."""
    both = np.clip(z - f - tube, 0, None) + np.clip(f - z - tube, 0, None)
    return s @ both / s.sum()


def _tube_multipliers(K, z, C, s, tube, bias):
    """Return b >= 0 of both sides by non-negative least squares, as in `hinge`."""
    here = s > 0
    root = np.tile(np.sqrt(C * s[here]), 2)
    F = factor(K[np.ix_(here, here)] + float(bias))
    A = np.vstack([np.vstack([F, -F]).T, np.diag(1 / root)])
    length = np.linalg.norm(A, axis=0)
    p = np.concatenate([z[here] - tube, -z[here] - tube])
    right = np.concatenate([np.zeros(F.shape[1]), root * p])
    found = nnls(A / length, right, maxiter=100 * len(root))[0] / length
    b = np.zeros((2, len(z)))
    b[:, here] = found.reshape(2, -1)
    return b.ravel()


def _tube_function(K, b, bias):
    c = np.subtract(*b.reshape(2, -1))
    return K @ c + bias * c.sum(), c @ K @ c + bias * c.sum() ** 2


def _tube_energy(norm_sq, b, C, s):
    here = np.tile(s > 0, 2)
    return norm_sq + (b[here] ** 2 / (C * np.tile(s, 2)[here])).sum()
