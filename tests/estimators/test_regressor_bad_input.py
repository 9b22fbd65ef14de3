"""Every bad input of a regression ends in an error that names who, what, value."""

import contextlib
import re

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from corevec import CoreVectorRegressor, InvalidInputError, certify, methods

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=120)


def assert_refuses(model, *parts, X=X, y=Y, **fit_params):
    """The fit fails with the class's name and every one of the parts in the text."""
    each = (re.escape(part) for part in ("CoreVectorRegressor", *parts))
    all_parts = "(?is)" + "".join(f"(?=.*{part})" for part in each)
    with pytest.raises(ValueError, match=all_parts):
        model.fit(X, y, **fit_params)


@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")]
)
def test_targets_and_rows_that_are_not_finite_are_refused(value, word):
    y = Y.copy()
    y[7] = value
    assert_refuses(CoreVectorRegressor(), word, y=y)
    assert_refuses(CoreVectorRegressor(), word, y=np.column_stack([Y, y]))
    rows = X.copy()
    rows[3, 1] = value
    assert_refuses(CoreVectorRegressor(), word, X=rows)


@pytest.mark.parametrize("mu", [0.0, -0.1, np.nan, np.inf, "small"])
def test_mu_must_be_a_positive_number(mu):
    for tube in ("auto", "paper"):
        assert_refuses(CoreVectorRegressor(mu=mu, tube=tube), "mu", str(mu))


@pytest.mark.parametrize("tube", ["auto", "paper"])
def test_a_variable_tube_needs_mu(tube):
    assert_refuses(CoreVectorRegressor(mu=None, tube=tube), "mu", "None")


@pytest.mark.parametrize("tube", [-0.1, np.nan, np.inf, "wide", None])
def test_the_tube_must_be_a_width_or_a_known_word(tube):
    assert_refuses(CoreVectorRegressor(tube=tube), "tube", str(tube))


def test_an_unknown_word_for_the_tube_lists_the_known_ones():
    assert_refuses(CoreVectorRegressor(tube="wide"), "auto", "paper")


def test_the_papers_rule_needs_the_simplex():
    model = CoreVectorRegressor(
        tube=0.1, mu=None, method=methods.CoreSet(ball_epsilon=0.01)
    )
    assert_refuses(model, "ball_epsilon", "tube")


def test_the_papers_small_solver_needs_the_simplex():
    assert_refuses(
        CoreVectorRegressor(tube=0.1, mu=None, method=methods.CoreSet(qp="smo")),
        "smo",
        "tube",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("C", 0.0),
        ("C", -3.5),
        ("C", np.nan),
        ("C", np.inf),
        ("tol", -0.5),
        ("kernel", "gaussish"),
        ("gamma", "wide"),
        ("gamma", -0.125),
        ("method", "perhaps"),
        ("max_iter", -7),
        ("max_time", -1.5),
        ("memory_budget", -8),
    ],
)
def test_a_parameter_out_of_range_is_refused_with_its_value(name, value):
    assert_refuses(CoreVectorRegressor(**{name: value}), name, str(value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ball_epsilon", -0.25),
        ("sampling", "often"),
        ("batch", -4),
        ("qp", "simplex"),
        ("init", "nowhere"),
        ("max_vectors", 0),
    ],
)
def test_a_parameter_of_a_method_is_refused_with_its_value(name, value):
    model = CoreVectorRegressor(method=methods.CoreSet(**{name: value}))
    assert_refuses(model, f"method__{name}", str(value))


def test_bad_weights_are_refused():
    n = len(X)
    negative = np.r_[-1.0, np.ones(n - 1)]
    assert_refuses(CoreVectorRegressor(), "weight", "-1", sample_weight=negative)
    assert_refuses(CoreVectorRegressor(), "weight", sample_weight=np.zeros(n))
    for weight in (np.r_[np.nan, np.ones(n - 1)], np.ones(n - 1)):
        with pytest.raises(ValueError, match="sample_weight"):
            CoreVectorRegressor().fit(X, Y, sample_weight=weight)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"(?s)120.*119|119.*120"):
        CoreVectorRegressor().fit(X, Y[:-1])
    with pytest.raises(ValueError, match=r"(?i)dim|shape"):
        CoreVectorRegressor().fit(X, np.zeros((120, 2, 2)))
    assert_refuses(CoreVectorRegressor(), "0 sample", X=np.empty((0, 3)), y=np.empty(0))
    with pytest.raises(ValueError, match=r"2 features.*3 features"):
        CoreVectorRegressor().fit(X, Y).predict(X[:, :2])


def test_words_for_targets_are_refused():
    with pytest.raises((ValueError, TypeError)):
        CoreVectorRegressor().fit(X, np.array(["low", "high"] * 60))
    with pytest.raises((ValueError, TypeError)):
        CoreVectorRegressor().fit(X, Y + 1j)


def test_targets_whose_squares_overflow_are_fitted_or_refused_by_name():
    plain = CoreVectorRegressor(gamma=0.5, random_state=0).fit(X, Y).predict(X)
    huge = CoreVectorRegressor(gamma=0.5, random_state=0)
    with contextlib.suppress(InvalidInputError):
        predicted = huge.fit(X, Y * 2.0**664).predict(X) / 2.0**664
        np.testing.assert_allclose(predicted, plain, atol=1e-2)


def test_an_unfitted_model_says_so():
    with pytest.raises(NotFittedError):
        CoreVectorRegressor().predict(X)


def test_certify_wants_the_targets():
    model = CoreVectorRegressor().fit(X, Y)
    with pytest.raises(ValueError, match="y"):
        certify(model, X)
    with pytest.raises(ValueError, match=r"(?s)120.*119|119.*120"):
        certify(model, X, Y[:-1])
