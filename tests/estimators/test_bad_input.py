"""Every bad input of the issue ends in an error that names who, what and the value."""

import re

import numpy as np
import pytest
import reading
import scipy.sparse as sp

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    InvalidInputError,
    certify,
    methods,
)

MODELS = [CoreVectorClassifier, CoreVectorOneClass, SVDD]
X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.array([1, -1] * 10)


def spoiled(value):
    rows = X.copy()
    rows[3, 1] = value
    return rows


def assert_refuses(model, *parts, X=X, y=Y, **fit_params):
    """The fit fails with the class's name and every one of the parts in the text."""
    each = (re.escape(part) for part in (type(model).__name__, *parts))
    all_parts = "(?is)" + "".join(f"(?=.*{part})" for part in each)
    with pytest.raises(ValueError, match=all_parts):
        model.fit(X, y, **fit_params)


def test_the_error_is_a_value_error():
    assert issubclass(InvalidInputError, ValueError)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")]
)
def test_rows_that_are_not_finite_are_refused(model, value, word):
    assert_refuses(model(), word, X=spoiled(value))
    assert_refuses(model(), word, X=sp.csr_matrix(spoiled(value)))


@pytest.mark.parametrize("model", MODELS)
def test_rows_that_are_not_finite_are_refused_at_prediction_too(model):
    fitted = reading.fit(model(), X, Y)
    with pytest.raises(ValueError, match=r"(?i)nan"):
        fitted.predict(spoiled(np.nan))


@pytest.mark.parametrize("model", MODELS)
def test_no_rows_are_refused(model):
    assert_refuses(model(), "0 sample", X=np.empty((0, 3)), y=np.empty(0))


@pytest.mark.parametrize("model", MODELS)
def test_wrong_shapes_are_refused(model):
    assert_refuses(model(), X=np.arange(6.0), y=np.array([1, -1] * 3))
    assert_refuses(model(), X=np.zeros((2, 3, 4)), y=np.array([1, -1]))
    fitted = reading.fit(model(), X, Y)
    with pytest.raises(ValueError, match=r"2 features.*3 features"):
        fitted.predict(X[:, :2])


def test_labels_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"(?s)20.*19|19.*20"):
        CoreVectorClassifier().fit(X, Y[:-1])


def test_one_class_only_is_refused():
    assert_refuses(CoreVectorClassifier(), "class", y=np.full(20, 7))
    weight = (Y == 1).astype(float)  # the other class has no weight left
    assert_refuses(CoreVectorClassifier(), "class", sample_weight=weight)


def test_labels_that_are_not_finite_are_refused():
    y = Y.astype(float)
    y[0] = np.nan
    assert_refuses(CoreVectorClassifier(), "NaN", y=y)


@pytest.mark.parametrize("model", MODELS)
def test_bad_weights_are_refused(model):
    assert_refuses(model(), "weight", "-1", sample_weight=np.r_[-1.0, np.ones(19)])
    assert_refuses(model(), "weight", sample_weight=np.zeros(20))
    for weight in (np.r_[np.nan, np.ones(19)], np.r_[np.inf, np.ones(19)], np.ones(19)):
        with pytest.raises(ValueError, match="sample_weight"):
            model().fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("C", [0.0, -3.5, np.nan, np.inf])
def test_C_must_be_a_positive_number(model, C):
    if model is SVDD and np.isinf(C):  # a hard ball: its default
        return
    assert_refuses(model(C=C), "C", str(C))


@pytest.mark.parametrize("nu", [0.0, -0.1, 1.5])
def test_nu_must_be_a_fraction(nu):
    assert_refuses(CoreVectorOneClass(nu=nu), "nu", str(nu))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tol", -0.5),
        ("kernel", "gaussish"),
        ("kernel", "normalized-gaussish"),
        ("kernel", 17),
        ("gamma", "wide"),
        ("gamma", -0.125),
        ("gamma", np.nan),
        ("max_iter", -7),
        ("max_time", -1.5),
        ("memory_budget", -8),
    ],
)
def test_a_parameter_out_of_range_is_refused_with_its_value(model, name, value):
    assert_refuses(model(**{name: value}), name, str(value))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ball_epsilon", -0.25),
        ("sampling", "often"),
        ("sampling", 0),
        ("batch", "large"),
        ("batch", -4),
        ("qp", "simplex"),
        ("init", "nowhere"),
        ("max_vectors", 0),
    ],
)
def test_a_parameter_of_a_method_out_of_range_is_refused(model, name, value):
    method = methods.CoreSet(**{name: value})
    assert_refuses(model(method=method), name, str(value))


@pytest.mark.parametrize("model", MODELS)
def test_an_unknown_method_is_refused(model):
    assert_refuses(model(method="perhaps"), "method", "perhaps")


def test_an_unknown_multi_class_is_refused():
    model = CoreVectorClassifier(multi_class="all-at-once")
    assert_refuses(model, "multi_class", "all-at-once")


def test_an_unknown_kernel_error_lists_the_known_ones():
    assert_refuses(CoreVectorClassifier(kernel="gauss"), "rbf", "laplacian", "poly")


@pytest.mark.parametrize("model", MODELS)
def test_a_precomputed_kernel_must_be_square_and_symmetric(model):
    assert_refuses(model(kernel="precomputed"), "square", "20", "3")
    tilted = X @ X.T
    tilted[2, 5] += 1.0
    assert_refuses(model(kernel="precomputed"), "symmetric", X=tilted)


def test_a_precomputed_kernel_of_other_columns_is_refused_at_prediction():
    fitted = reading.fit(CoreVectorClassifier(kernel="precomputed"), X @ X.T, Y)
    with pytest.raises(ValueError, match=r"19 features.*20 features"):
        fitted.predict(np.zeros((4, 19)))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "kernel",
    [
        lambda A, B: np.zeros((len(A), len(B) + 1)),
        lambda A, B: np.zeros(len(A)),
        lambda A, B: 1.0,
    ],
    ids=["wide", "flat", "number"],
)
def test_a_callable_kernel_of_the_wrong_shape_is_refused(model, kernel):
    assert_refuses(model(kernel=kernel), "shape", "kernel")


def test_a_callable_kernel_that_returns_nan_is_refused():
    model = CoreVectorClassifier(kernel=lambda A, B: np.full((len(A), len(B)), np.nan))
    assert_refuses(model, "kernel", "finite")


@pytest.mark.parametrize("model", MODELS)
def test_objects_and_text_are_refused(model):
    words = np.array([["a", "b"], ["c", "d"]] * 5, dtype=object)
    with pytest.raises((ValueError, TypeError)):
        model().fit(words, Y[:10])
    with pytest.raises((ValueError, TypeError)):
        model().fit(np.array([[{}], [[]]] * 5, dtype=object), Y[:10])


def test_complex_rows_are_refused():
    with pytest.raises(ValueError, match=r"(?i)complex"):
        CoreVectorClassifier().fit(X + 1j, Y)


@pytest.mark.parametrize("model", MODELS)
def test_a_polynomial_that_overflows_is_refused(model):
    huge = X * 1e150
    assert_refuses(model(kernel="poly", gamma=1.0, degree=3), "poly", X=huge)
    normal = model(kernel="linear")
    assert_refuses(normal, "kernel", X=X * 1e200)


def test_a_kernel_that_is_not_positive_is_stated_in_the_certificate(rng):
    rows = rng.normal(size=(60, 4)) * 2
    y = np.where(rng.random(60) < 0.5, 1, -1)
    model = CoreVectorClassifier(
        kernel="sigmoid", gamma=1.0, coef0=-1.0, C=1e4, random_state=0
    )
    certificate = reading.fit(model, rows, y).certificate_
    assert "not positive" in (certificate.problem + str(certificate)).lower()
    assert np.isfinite(model.decision_function(rows)).all()


@pytest.mark.parametrize("model", MODELS)
def test_an_unfitted_model_says_so(model):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        model().predict(X)
    with pytest.raises((NotFittedError, ValueError)):
        certify(model(), X, Y)


def test_certify_refuses_what_the_model_cannot_judge():
    model = CoreVectorClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="features"):
        certify(model, X[:, :2], Y)
    with pytest.raises(ValueError, match=r"(?s)20.*19|19.*20"):
        certify(model, X, Y[:-1])
    with pytest.raises(ValueError, match="y"):
        certify(model, X)  # a classifier's problem needs the labels


def test_more_trees_than_anybody_waits_for_are_refused():
    model = CoreVectorClassifier(method=methods.Cells(n_trees=2**64))
    assert_refuses(model, "n_trees", str(2**64), "10,000")
