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
