"""The core set alone, and all rows in the span of a core set."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_friedman1
from sklearn.metrics.pairwise import rbf_kernel

from corevec import (
    CoreVectorClassifier,
    CoreVectorRegressor,
    NotCertifiedWarning,
    certify,
    methods,
)


def classes(n=3000):
    X, y = make_classification(
        n, 8, n_informative=4, flip_y=0.2, class_sep=0.5, random_state=0
    )
    return X, y


def fitted(model, X, y):
    with pytest.warns(NotCertifiedWarning):
        return model.fit(X, y)


def test_all_rows_decide_better_weights_in_the_span_of_the_core_set():
    X, y = classes()
    shared = {"C": 1.0, "gamma": 0.2, "random_state": 0}
    core = fitted(
        CoreVectorClassifier(method=methods.CoreSet(max_vectors=200), **shared), X, y
    )
    few = methods.FewVectors(200, basis="coreset")
    every = CoreVectorClassifier(method=few, **shared).fit(X, y)
    assert every.certificate_.primal < 0.9 * core.certificate_.primal
    assert len(every.support_) <= 200
    assert certify(every, X, y).primal == pytest.approx(
        every.certificate_.primal, rel=1e-9
    )


def test_the_weights_are_the_best_of_their_span():
    X, y = classes(1000)
    model = CoreVectorClassifier(
        C=2.0,
        gamma=0.2,
        tol=1e-4,
        random_state=0,
        method=methods.FewVectors(60, basis="coreset"),
    )
    model.fit(X, y)
    K = rbf_kernel(X, model.support_vectors_, gamma=0.2)
    G = rbf_kernel(model.support_vectors_, gamma=0.2)
    sign = np.where(y == 1, 1.0, -1.0)
    excess = np.maximum(1 - sign * (K @ model.dual_coef_[0] + model.intercept_), 0)
    pull = 2.0 * sign * excess
    # Stationary in the coefficients and in the bias.
    gradient = G @ model.dual_coef_[0] - K.T @ pull
    assert np.abs(gradient).max() < 1e-3 * np.abs(K.T @ np.abs(pull)).max()
    assert model.intercept_[0] == pytest.approx(
        pull.sum(), abs=1e-3 * np.abs(pull).sum()
    )


def test_core_alone_takes_no_other_way():
    X, y = make_friedman1(2500, noise=1.0, random_state=0)
    model = CoreVectorRegressor(
        C=1.0, random_state=0, max_time=20.0, method=methods.CoreSet(max_vectors=150)
    )
    fitted(model, X, y)
    few = methods.FewVectors(150, basis="coreset")
    every = CoreVectorRegressor(C=1.0, random_state=0, method=few).fit(X, y)
    assert len(model.support_) <= 150
    assert every.score(X, y) > model.score(X, y)
