"""Kernels that are not positive definite: the fit ends soon and claims nothing."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    NotCertifiedWarning,
)


def sine(A, B):
    return np.sin(A @ B.T)


INDEFINITE = {
    "sigmoid": {"kernel": "sigmoid"},
    "sigmoid, shifted": {"kernel": "sigmoid", "gamma": 1.0, "coef0": -1.0},
    "poly, negative": {"kernel": "poly", "degree": 3, "coef0": -2.0},
    "callable": {"kernel": sine},
}


def noisy_rows(n=800):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + rng.normal(size=n) / 2 > 0, 1, -1)


@pytest.mark.parametrize("name", INDEFINITE)
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e4])
def test_a_classifier_ends_with_a_stall_that_names_the_kernel(name, C):
    X, y = noisy_rows()
    given = INDEFINITE[name]
    model = CoreVectorClassifier(C=C, random_state=0, **given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    found = model.certificate_
    assert len(model.history_) < 100
    if found.converged:  # the rows and C may be such that nothing is indefinite
        return
    assert found.stopped_by == "stall"
    assert found.dual == -np.inf
    (warning,) = caught
    assert warning.category is NotCertifiedWarning
    kernel = given["kernel"]
    assert (kernel if isinstance(kernel, str) else "sine") in str(warning.message)
    assert "max_time" not in str(warning.message)


def test_a_core_set_of_many_noisy_rows_ends_too():
    """More than 300 core rows at a small C, which no factor had looked at."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 5))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + rng.normal(size=1200) > 0
    with pytest.warns(NotCertifiedWarning, match="sine"):
        model = CoreVectorClassifier(kernel=sine, random_state=0).fit(X, y)
    assert model.certificate_.stopped_by == "stall"
    assert len(model.history_) < 100


def test_the_model_of_a_sigmoid_kernel_is_as_good_as_that_of_svc():
    X, y = noisy_rows()
    given = {"kernel": "sigmoid", "C": 1.0}
    with pytest.warns(NotCertifiedWarning, match="sigmoid"):
        ours = CoreVectorClassifier(random_state=0, **given).fit(X, y)
    # SVC stops at a stationary point of the same indefinite problem (hinge loss).
    assert ours.score(X, y) > SVC(**given).fit(X, y).score(X, y) - 0.02


def test_several_classes_end_too():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(NotCertifiedWarning, match="sigmoid"):
        model = CoreVectorClassifier(kernel="sigmoid", random_state=0).fit(X, y)
    assert len(model.history_) < 100


@pytest.mark.filterwarnings("ignore::corevec.NotCertifiedWarning")
@pytest.mark.parametrize("name", INDEFINITE)
@pytest.mark.parametrize(
    "model",
    [
        CoreVectorOneClass(C=1.0, random_state=0),
        CoreVectorRegressor(C=1.0, tube=0.1, random_state=0),
        CoreVectorRegressor(C=1.0, random_state=0),
        SVDD(C=1.0, random_state=0),
        SVDD(random_state=0),
    ],
    ids=["one-class", "fixed tube", "free tube", "soft ball", "hard ball"],
)
def test_every_machine_ends(name, model):
    X, _ = noisy_rows(300)
    target = [np.sin(X[:, 0])] if isinstance(model, CoreVectorRegressor) else []
    model.set_params(**INDEFINITE[name]).fit(X, *target)
    assert len(model.history_) < 100
    assert np.isfinite(model.predict(X)).all()


def test_a_matrix_with_a_negative_eigenvalue_is_named():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(200, 200))
    K = (A + A.T) / 2
    y = np.where(rng.random(200) > 0.5, 1, -1)
    with pytest.warns(NotCertifiedWarning, match="precomputed"):
        model = CoreVectorClassifier(kernel="precomputed", random_state=0).fit(K, y)
    assert model.certificate_.stopped_by == "stall"
