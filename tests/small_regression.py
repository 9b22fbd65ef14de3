"""A small problem of regression, its tight machines, and how far they may differ."""

from __future__ import annotations

import numpy as np
import reading

from corevec import CoreVectorRegressor

TIGHT = {"tol": 1e-9, "random_state": 0, "gamma": 0.5}
FORMS = [{}, {"tube": "paper"}, {"tube": 0.2, "mu": None}]
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(120, 3))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * _RNG.normal(size=120)
Z = _RNG.normal(size=(40, 3))


def regressor(**params):
    return CoreVectorRegressor(**{**TIGHT, "C": 3.0, "mu": 0.05, **params})


def room_of(*models):
    """Return how far the certificates let predictions differ, in units of y."""
    scale = max(float(np.max(model.target_scale_)) for model in models)
    return scale * reading.reach(*models)
