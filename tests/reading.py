"""Numbers read off a fitted model, by the documented meaning of its attributes."""

import warnings

import naive
import numpy as np

import corevec


def fit(model, X, y=None, sample_weight=None):
    """Fit and return the model; a missed tolerance is looked at by the caller."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", corevec.NotCertifiedWarning)
        return model.fit(X, y, sample_weight=sample_weight)


def coefficients(model):
    """Return the expansion's coefficients of a model with one output."""
    return np.asarray(model.dual_coef_, dtype=float).ravel()


def bias(model):
    return float(np.ravel(getattr(model, "intercept_", 0.0))[0])


def values(model, K, *, with_bias=True):
    """Return f on all rows from the kernel matrix of the training rows."""
    f = K[:, model.support_] @ coefficients(model)
    return f + bias(model) if with_bias else f


def norm_sq(model, K, *, with_bias=True):
    c = coefficients(model)
    inside = K[np.ix_(model.support_, model.support_)]
    return c @ inside @ c + (bias(model) ** 2 if with_bias else 0.0)


def hinge_primal(model, K, y, C, s=None, *, with_bias=True):
    """Return the standard primal value of the fitted function itself."""
    s = np.ones(len(K)) if s is None else s
    f = values(model, K, with_bias=with_bias)
    return naive.hinge_primal(f, norm_sq(model, K, with_bias=with_bias), y, C, s)


def simplex_weights(model, n):
    """Return a = |b| / sum |b| on all n rows: the centre of the enclosing ball."""
    a = np.zeros(n)
    np.add.at(a, model.support_, np.abs(coefficients(model)))
    return a / a.sum()


def reach(*models):
    """Return how far the certificates let two solutions' functions differ.

    The primal is strongly convex in (w, b0) with modulus 1, so a gap of g P puts each
    model within sqrt(2 g P) of the optimum, and a function of norm e is at most
    e sqrt(k(x, x) + 1) anywhere; 2 for k(x, x) <= 3, and 1e-6 for rounding.
    """
    gaps = [max(m.certificate_.primal - m.certificate_.dual, 0) for m in models]
    return 2 * sum(np.sqrt(2 * g) for g in gaps) + 1e-6 * max(
        1.0, *(abs(m.certificate_.primal) for m in models)
    )


def standard_function(model, problem):
    """Return f and |w|^2 + b0^2 of a regressor in units of the standardised target."""
    _, mean, scale = problem.units
    c, b0 = coefficients(model) / scale, (bias(model) - mean) / scale
    K = problem.K[:, model.support_]
    return K @ c + b0, c @ K[model.support_] @ c + b0**2


def tube_primal(model, problem, *, free=False, tube=None):
    """Return the primal value of the fitted function at its best tube width."""
    f, norm_sq = standard_function(model, problem)
    z, s = problem.z, problem.weight
    if tube is not None:
        return naive.tube_primal(f, norm_sq, z, problem.C, s, tube)
    e = naive.best_tube(f, z, s, problem.mu, free=free)
    price = problem.C * problem.mu * s.sum() * e
    return naive.tube_primal(f, norm_sq, z, problem.C, s, e) + price


def tube_reach(problem, *models):
    """Return `reach` for regressors, whatever k(x, x): in standardised units."""
    largest = np.sqrt(np.abs(np.diag(problem.K)).max() + 1)
    return max(1.0, largest / 2) * reach(*models)
