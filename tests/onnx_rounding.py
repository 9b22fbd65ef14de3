"""What rounding may change in an ONNX graph: bounds from the formulas alone.

The number of terms, the coefficients and the sizes of the rows say it; u is the unit
roundoff, and n terms summed in any order err by n u of their sizes. Terms of the order
u^2 are left out; the constants have room for them.
"""

from itertools import combinations

import naive
import numpy as np
from scipy import sparse

from corevec.formats.onnx.models import meaning_of
from corevec.kernels import Rows


def rounding(model, X, u):
    """Return a bound on the error of decisions, values or features; one per entry."""
    meaning = meaning_of(model)
    f, form = meaning.functions, meaning.form
    is_linear = f.kernel.name == "linear" and not f.kernel.normalized
    if form.kind == "ball":
        return (linear_ball if is_linear else ball)(meaning, X, u)
    bound = (linear if is_linear else expansion)(f, X, u)
    if form.kind == "ovo" and not form.raw:
        values = np.abs(f.evaluate(Rows(X, np.arange(len(X))), f.prepared()))
        bound = votes(bound, values, len(form.classes), u)
    return bound


def linear(f, X, u):
    """Return the bound for ``x.w + b``."""
    w = (dense(f.basis.values).T @ f.coef).T
    return (X.shape[1] + 3) * u * (np.abs(X) @ np.abs(w).T + np.abs(f.intercept))


def expansion(f, X, u):
    """Return the bound for ``sum_j c_j k_j + b``."""
    K, error = kernel_values(f.kernel, X, dense(f.basis.values), u)
    sums = (len(f.basis) + 3) * u
    return (error + sums * K) @ np.abs(f.coef) + sums * np.abs(f.intercept)


def linear_ball(meaning, X, u):
    """Return the bound for ``-|x - c|^2`` and a constant."""
    centre = meaning.functions.coef.T @ dense(meaning.functions.basis.values)
    r = np.linalg.norm(X - centre, axis=1, keepdims=True)
    norm_sq = np.sum(centre**2)
    rest = np.abs(norm_sq - meaning.centre_norm_sq - meaning.form.offset)
    # The centre is there in two parts: what it lacks is of the order u^2.
    return (X.shape[1] + 8) * u * (r**2 + rest) + 2 * r * u**2 * np.sqrt(norm_sq)


def ball(meaning, X, u):
    """Return the bound for ``2 f(x) - k(x, x) - |c|^2 - offset``."""
    own, own_error = own_values(meaning.functions.kernel, X, u)
    rest = np.abs(meaning.centre_norm_sq + meaning.form.offset)
    sizes = 3 * own + 2 * rest + 4
    return 2 * expansion(meaning.functions, X, u) + own_error + u * sizes


def votes(bound, values, n_classes, u):
    """Return a bound for votes plus confidence; where a vote can turn, the vote."""
    pairs = list(combinations(range(n_classes), 2))
    total = np.zeros((len(bound), n_classes))
    for column, pair in enumerate(pairs):
        turns = values[:, column] <= bound[:, column]
        error = (bound[:, column] + len(pairs) * u * values[:, column]) / 3 + turns
        total[:, pair] += error[:, None]
    return total + 4 * u * n_classes


def kernel_values(kernel, X, Z, u):
    """Return sizes of kernel values, and a bound on the error of each."""
    shape = {"gamma": kernel.gamma, "coef0": kernel.coef0, "degree": kernel.degree}
    prefix = "normalized-" if kernel.normalized else ""
    K = np.abs(naive.gram(X, Z, kernel=prefix + kernel.name, **shape))
    return K, (of_distance if kernel.uses_distance else of_dot)(kernel, X, Z, u, K)


def of_distance(kernel, X, Z, u, K):
    d, s, centre = X.shape[1], np.sqrt(kernel.gamma), Z.mean(axis=0)
    r = s * np.sqrt(naive.squared_distances(X, Z))
    sizes = s * np.add.outer(
        np.linalg.norm(X - centre, axis=1), np.linalg.norm(Z - centre, axis=1)
    )
    # Rows are moved and scaled, two roundings; the vectors were, one; the difference.
    shift = 3 * u * sizes + (d / 2 + 3) * u * r
    if kernel.name == "rbf" and d > 8:
        # |x|^2 - 2 x.z + |z|^2: errors of the squares of the sizes.
        return K * ((d + 6) * u * sizes**2 + 2 * r * shift) + 5 * u
    slope = {"rbf": 2 * r * K, "laplacian": K, "inverse-distance": K**2}[kernel.name]
    return slope * shift + 5 * u  # 5 u: exp and reciprocal


def of_dot(kernel, X, Z, u, K):
    g, c0 = (1.0, 0.0) if kernel.name == "linear" else (kernel.gamma, kernel.coef0)
    base = g * X @ Z.T + c0
    error = (X.shape[1] + 4) * u * (g * np.abs(X) @ np.abs(Z).T + abs(c0))
    if kernel.name == "sigmoid":
        base, error = np.tanh(base), error + 5 * u
    if kernel.normalized:
        mine, relative = inverse_roots(kernel.name, g, c0, X, u)
        theirs, _ = inverse_roots(kernel.name, g, c0, Z, u)
        base = base * mine * theirs.T
        error = error * mine * theirs.T + np.abs(base) * (relative + 6 * u)
    if kernel.name == "poly":
        return power(np.abs(base), error, kernel.degree, u)
    return error


def inverse_roots(name, g, c0, X, u):
    """Return one over the root that normalises the base, and its relative error."""
    own = g * (X**2).sum(axis=1, keepdims=True) + c0
    error = (X.shape[1] + 4) * u * own
    if name == "sigmoid":
        own, error = np.tanh(own), error + 5 * u
    return 1 / np.sqrt(own), error / own / 2 + 2 * u


def own_values(kernel, X, u):
    """Return k(x, x) and a bound on its error."""
    if kernel.uses_distance or kernel.normalized:
        return 1.0, 0.0
    own = kernel.gamma * (X**2).sum(axis=1, keepdims=True) + kernel.coef0
    error = (X.shape[1] + 4) * u * own
    if kernel.name == "sigmoid":
        return np.tanh(own), error + 5 * u
    return own**kernel.degree, power(own, error, kernel.degree, u)


def power(base, error, degree, u):
    """Return the error of ``base**degree`` for a base of that size and error."""
    return degree * (base + error) ** (degree - 1) * error + 5 * u * base**degree


def dense(values):
    return values.toarray() if sparse.issparse(values) else values
