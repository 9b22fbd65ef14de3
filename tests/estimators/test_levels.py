"""Expectile and quantile regression: the two losses with a level."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import QuantileRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import CoreVectorRegressor, NotCertifiedWarning, certify
from corevec.exceptions import InvalidInputError

GAMMA = 0.5
LEVELS = (0.05, 0.5, 0.9)


def table(n, seed=0):
    """Return rows whose noise grows with the second column, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    noise = 0.2 + 0.3 * np.abs(X[:, 1])
    y = 5 + 3 * (np.sin(2 * X[:, 0]) + noise * rng.normal(size=n))
    return X, y, rng.integers(0, 4, n).astype(float)


def gram(X, Z):
    return np.exp(-GAMMA * ((X[:, None] - Z) ** 2).sum(axis=2))


def impossible(model):
    """Return the checks that compare two fits within tol to nine digits.

    A function at a gap g is within the root of 2 g of the optimum, so that nine digits
    need a gap of 1e-18; weights are tested against an independent solver below.
    """
    if model.loss != "quantile":
        return {}
    names = "dense_data", "sparse_data"
    reason = "the functions of two fits agree up to the root of the gap"
    checks = [f"check_sample_weight_equivalence_on_{name}" for name in names]
    return dict.fromkeys(checks, reason)


@parametrize_with_checks(
    [
        CoreVectorRegressor(loss="expectile", level=0.8),
        CoreVectorRegressor(loss="quantile", level=0.8),
    ],
    expected_failed_checks=impossible,
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [300, 1500])  # by a factor, by conjugate gradients
def test_expectiles_are_those_of_reweighted_least_squares(level, n):
    X, y, s = table(n)
    C = 5.0
    model = CoreVectorRegressor(
        C=C, loss="expectile", level=level, gamma=GAMMA, tol=1e-9
    ).fit(X, y, s)
    z = (y - model.target_mean_) / model.target_scale_
    own, f = np.flatnonzero(s), np.zeros(n)
    K = gram(X, X) + 1
    for _ in range(100):
        omega = (C * s * np.where(z > f, 2 * level, 2 * (1 - level)))[own]
        last, a = f, np.linalg.solve(K[np.ix_(own, own)] + np.diag(1 / omega), z[own])
        f = K[:, own] @ a
        if np.array_equal(z > f, z > last):
            break
    omega = C * s * np.where(z > f, 2 * level, 2 * (1 - level))
    primal = a @ f[own] / 2 + omega @ (z - f) ** 2 / 2
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-8)
    # |f - f*|^2 <= 2 (P - D), times k(x, x) + 1 = 2.
    found = (model.predict(X) - model.target_mean_) / model.target_scale_
    np.testing.assert_allclose(found, f, atol=np.sqrt(4 * 1e-9 * primal))
    again = certify(model, X, y, s)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert again.relative_gap <= 1e-9


def test_the_expectile_of_one_half_is_least_squares():
    X, y, _ = table(200)
    half = CoreVectorRegressor(loss="expectile", tol=1e-9).fit(X, y)
    plain = CoreVectorRegressor(tube=0.0, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(half.predict(X), plain.predict(X), rtol=1e-6)
    assert half.tube_ == 0.0


def test_expectiles_of_many_rows_are_certified_and_balance_their_residuals():
    X, y, _ = table(9000, seed=1)  # samples first, and a span of low rank
    model = CoreVectorRegressor(C=10, loss="expectile", level=0.9).fit(X, y)
    assert model.certificate_.converged
    residual = y - model.predict(X)
    above, below = residual.clip(min=0).sum(), (-residual).clip(min=0).sum()
    # Only the penalised bias keeps the two weighted sums from being equal.
    assert 0.9 * above == pytest.approx(0.1 * below, rel=0.02)


@pytest.mark.parametrize("level", LEVELS)
def test_quantiles_are_the_optima_of_an_independent_solver(level):
    X, y, s = table(24)
    C = 2.0
    model = CoreVectorRegressor(
        C=C, loss="quantile", level=level, gamma=GAMMA, tol=1e-9
    ).fit(X, y, s)
    z = (y - model.target_mean_) / model.target_scale_
    K = gram(X, X)
    found = minimize(
        lambda a: a @ K @ a / 2 - z @ a,
        np.zeros(24),
        jac=lambda a: K @ a - z,
        bounds=[(-C * w * (1 - level), C * w * level) for w in s],
        constraints={"type": "eq", "fun": np.sum, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert model.certificate_.dual == pytest.approx(-found.fun, rel=1e-6)
    inner = K @ found.x
    values = (model.predict(X) - model.target_mean_) / model.target_scale_
    shift = np.median(values - inner)  # the bias
    np.testing.assert_allclose(values, inner + shift, atol=1e-3)
    residual = z - values
    loss = s @ np.maximum(level * residual, (level - 1) * residual)
    norm = found.x @ K @ found.x / 2
    assert model.certificate_.primal == pytest.approx(norm + C * loss, rel=1e-5)


def test_the_share_of_rows_below_a_quantile_is_its_level():
    X, y, _ = table(1000)
    for level in LEVELS:
        model = CoreVectorRegressor(loss="quantile", level=level, gamma=GAMMA)
        below = np.mean(y < model.fit(X, y).predict(X))
        on_it = np.mean(np.abs(y - model.predict(X)) < 1e-3)
        assert abs(below - level) <= on_it + 2e-3


def test_a_linear_quantile_is_that_of_a_linear_programme():
    X, y, _ = table(60)
    model = CoreVectorRegressor(C=100, kernel="linear", loss="quantile", level=0.05)
    rival = QuantileRegressor(quantile=0.05, alpha=0.0).fit(X, y)
    residual = y - rival.predict(X)
    least = np.maximum(0.05 * residual, -0.95 * residual).sum()
    residual = y - model.set_params(tol=1e-6).fit(X, y).predict(X)
    own = np.maximum(0.05 * residual, -0.95 * residual).sum()
    # The norm is penalised: |w|^2 / 2 of the rival is what ours may lose, over C.
    norm = np.sum((rival.coef_ / model.target_scale_) ** 2) / 2
    assert least - 1e-9 <= own <= least + norm / 100 * model.target_scale_[0] + 1e-5


def test_several_targets_have_a_quantile_each():
    X, y, _ = table(120)
    Y = np.column_stack([y, -y])
    model = CoreVectorRegressor(loss="quantile", level=0.5, tol=1e-8).fit(X, Y)
    assert model.tube_.tolist() == [0.0, 0.0]
    found = model.predict(X)
    np.testing.assert_allclose(found[:, 0], -found[:, 1], atol=1e-3)


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"loss": "absolute"}, "loss"),
        ({"loss": "expectile", "level": 0.0}, "level"),
        ({"loss": "quantile", "level": 1.0}, "level"),
        ({"loss": "expectile", "method": "cells"}, "method"),
        ({"loss": "quantile", "fit_intercept": False}, "fit_intercept"),
        ({"loss": "quantile", "method": "coreset"}, "loss"),
    ],
    ids=str,
)
def test_what_cannot_be_combined_is_refused_by_its_name(given, parameter):
    X, y, _ = table(30)
    with pytest.raises(InvalidInputError) as caught:
        CoreVectorRegressor(**given).fit(X, y)
    assert caught.value.parameter == parameter


def test_a_quantile_that_runs_out_of_time_says_what_it_reached():
    X, y, _ = table(2000)
    model = CoreVectorRegressor(
        C=1e6, loss="quantile", kernel="linear", tol=1e-10, max_time=0.2
    )
    with pytest.warns(NotCertifiedWarning):
        model.fit(X, y)
    assert model.certificate_.stopped_by == "max_time"
    assert np.isfinite(model.certificate_.primal)


def test_the_level_is_a_parameter_like_others():
    model = CoreVectorRegressor(loss="quantile", level=0.3)
    assert clone(model).get_params()["level"] == 0.3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(level=0.7).fit(*table(40)[:2])
