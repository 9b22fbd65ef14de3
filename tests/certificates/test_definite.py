"""A kernel that is not positive definite bounds nothing, whatever the support rows."""

import numpy as np
import pytest
import reading

import corevec
from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRanker,
    CoreVectorRegressor,
    StreamingBallClassifier,
)

# On these rows the sigmoid kernel has negative eigenvalues, but not on the few support
# rows of most machines.
SIGMOID = {"kernel": "sigmoid", "gamma": 1.0, "coef0": 1.0}


def rows(n=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 1))
    return X, np.where(X[:, 0] + 0.1 * rng.normal(size=n) > 0, 1, -1), np.sin(X[:, 0])


def sigmoid(X):
    return np.tanh(X @ X.T + 1.0)


def test_the_rows_are_what_they_are_meant_to_be():
    X, *_ = rows()
    assert np.linalg.eigvalsh(sigmoid(X))[0] < -0.01


@pytest.mark.parametrize(
    "model",
    [
        CoreVectorClassifier(C=100.0, **SIGMOID),
        CoreVectorOneClass(C=100.0, **SIGMOID),
        CoreVectorRegressor(C=0.1, **SIGMOID),
        CoreVectorRanker(C=1.0, **SIGMOID),
        SVDD(C=0.1, **SIGMOID),
        SVDD(**SIGMOID),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.C}",
)
def test_no_lower_bound_is_claimed(model):
    X, y, target = rows()
    regression = isinstance(model, CoreVectorRegressor | CoreVectorRanker)
    with pytest.warns(corevec.NotCertifiedWarning, match="sigmoid"):
        model.fit(X, target if regression else y)
    found = model.certificate_
    assert found.dual == -np.inf
    assert found.dual_bound == "none"
    assert found.confidence == 0.0
    assert not found.converged


def test_certify_claims_none_either():
    X, y, _ = rows()
    model = StreamingBallClassifier(budget=10, **SIGMOID).fit(X, y)
    assert corevec.certify(model, X, y).dual == -np.inf


def test_a_definite_matrix_given_as_numbers_keeps_its_bound():
    X, y, _ = rows()
    K = np.exp(-((X - X.T) ** 2))
    model = CoreVectorClassifier(kernel="precomputed").fit(K, y)
    assert model.certificate_.converged
    assert corevec.certify(model, K, y).dual > 0


def test_rows_without_weight_do_not_count():
    X, y, _ = rows()
    K = np.exp(-((X - X.T) ** 2))
    K[0, 0] = -1.0  # indefinite with this row only
    weight = np.ones(len(y))
    weight[0] = 0.0
    model = CoreVectorClassifier(kernel="precomputed").fit(K, y, weight)
    assert model.certificate_.converged


@pytest.mark.parametrize("C", [1.0, 1e4])
def test_the_primal_value_is_that_of_the_C_that_was_asked_for(C):
    # The model is solved at a lower C, at which the dual is concave.
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] + rng.normal(size=60) / 2 > 0, 1, -1)
    model = CoreVectorClassifier(C=C, kernel="sigmoid", gamma=1.0, coef0=-1.0)
    reading.fit(model, X, y)
    K = np.tanh(X @ X.T - 1.0)
    found = model.certificate_
    assert found.dual == -np.inf
    norm = reading.norm_sq(model, K)
    primal = reading.hinge_primal(model, K, y, C)
    # Where the squared norm is negative it counts as 0: an upper bound.
    assert found.primal >= primal * (1 - 1e-12)
    assert found.primal <= primal + max(-norm, 0.0) + 1e-9 * abs(primal)
