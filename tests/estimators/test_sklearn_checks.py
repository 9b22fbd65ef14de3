"""The estimators are scikit-learn estimators: its own checks, with no exceptions."""

import numpy as np
import pytest
import reading
import strategies
from sklearn.base import clone, is_classifier, is_outlier_detector
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    methods,
)

# Every class as it comes, and what is another way through its code: 60 checks each.
CHECKED = [
    CoreVectorClassifier(),
    CoreVectorClassifier(kernel="linear"),
    CoreVectorClassifier(multi_class="ovo"),
    CoreVectorOneClass(),
    CoreVectorOneClass(nu=0.1),
    SVDD(),
    SVDD(C=1.0),
    CoreVectorClassifier(method="few-vectors"),
    CoreVectorClassifier(method=methods.FewVectors(basis="kmeans")),
    CoreVectorClassifier(loss="hinge", method=methods.FewVectors(basis="coreset")),
    CoreVectorRegressor(C=1.0, tube=0.0, method="few-vectors"),
    CoreVectorRegressor(tube=0.1, C=1.0, method=methods.FewVectors(basis="coreset")),
]
ONE_OF_EACH = [CoreVectorClassifier(C=2.0), CoreVectorOneClass(nu=0.2), SVDD(C=3.0)]


def impossible(model):
    """Return the checks that a hard ball cannot pass, and why.

    They want some training rows called outliers; the hard ball is the smallest that
    holds all of them. Every other estimator, the soft ball included, has none.
    """
    if not (isinstance(model, SVDD) and np.inf == model.C):
        return {}
    reason = "a hard-margin ball holds every training row, so none is an outlier"
    return dict.fromkeys(("check_outliers_train", "check_outliers_fit_predict"), reason)


# Few vectors do not reach the default tol on every one of scikit-learn's small sets.
@pytest.mark.filterwarnings("ignore::corevec.NotCertifiedWarning")
@parametrize_with_checks(CHECKED, expected_failed_checks=impossible)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize("model", ONE_OF_EACH, ids=lambda m: type(m).__name__)
def test_parameters_survive_get_set_and_clone(model):
    params = model.get_params()
    assert clone(model).get_params() == params
    changed = clone(model).set_params(C=7.0, tol=0.1)
    assert (changed.C, changed.tol) == (7.0, 0.1)
    assert set(params) >= {"C", "kernel", "gamma", "tol", "method"}


def test_the_documented_defaults_are_the_defaults():
    stated = {
        "C": 1.0,
        "kernel": "rbf",
        "gamma": "scale",
        "tol": 1e-3,
        "max_iter": None,
        "max_time": None,
        "multi_class": "auto",
        "class_weight": None,
        "n_jobs": None,
        "warm_start": False,
        "random_state": None,
        "verbose": 0,
        "method": "auto",
    }
    params = CoreVectorClassifier().get_params()
    assert {name: params[name] for name in stated} == stated


@pytest.mark.parametrize("model", ONE_OF_EACH, ids=lambda m: type(m).__name__)
def test_fitting_writes_no_constructor_parameter(model):
    X, y = strategies.checkerboard(60)
    before = model.get_params()
    fitted = reading.fit(clone(model), X, y)
    assert fitted.get_params() == before


def test_the_kinds_of_estimator_are_declared():
    assert is_classifier(CoreVectorClassifier())
    assert is_outlier_detector(CoreVectorOneClass())
    assert is_outlier_detector(SVDD())
    assert get_tags(CoreVectorClassifier(kernel="precomputed")).input_tags.pairwise
    assert not get_tags(CoreVectorClassifier()).input_tags.pairwise
    assert get_tags(CoreVectorClassifier()).input_tags.sparse


def test_the_attributes_of_a_fitted_classifier_have_the_names_of_svc():
    X, y = strategies.checkerboard(80)
    model = reading.fit(CoreVectorClassifier(random_state=0), X, y)
    assert list(model.classes_) == [-1, 1]
    assert model.n_features_in_ == 2
    assert model.n_iter_ >= 1
    n_core = len(model.support_)
    assert model.support_vectors_.shape == (n_core, 2)
    assert model.dual_coef_.shape == (1, n_core)
    assert model.intercept_.shape == (1,)
    assert sum(model.n_support_) == n_core
    assert not hasattr(model, "coef_")


def test_the_linear_kernel_has_coefficients():
    X, y = strategies.checkerboard(80)
    model = reading.fit(CoreVectorClassifier(kernel="linear", random_state=0), X, y)
    assert model.coef_.shape == (1, 2)
    by_hand = X @ model.coef_.ravel() + model.intercept_
    assert model.decision_function(X) == pytest.approx(by_hand, abs=1e-9)


def test_there_is_no_probability_of_our_own():
    assert "probability" not in CoreVectorClassifier().get_params()
    assert not hasattr(CoreVectorClassifier(), "predict_proba")
