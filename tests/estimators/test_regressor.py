"""CoreVectorRegressor as an estimator: contract, targets, units, storage."""

import warnings

import naive
import numpy as np
import pandas as pd
import pytest
import reading
import scipy.sparse as sp
import strategies
from sklearn.base import clone, is_regressor
from sklearn.datasets import make_regression
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from small_regression import FORMS, TIGHT, X, Y, Z, regressor, room_of

from corevec import (
    CoreVectorRegressor,
)

RNG = np.random.default_rng(1)


def form_name(form):
    return str(form.get("tube", "auto"))


# --- scikit-learn's contract ----------------------------------------------------------


@parametrize_with_checks(
    [
        CoreVectorRegressor(),
        CoreVectorRegressor(tube="paper"),
        CoreVectorRegressor(tube=0.1, mu=None),
    ]
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def test_the_documented_defaults_are_the_defaults():
    stated = {
        "C": 3.0,
        "mu": 0.3,
        "loss": "squared_hinge",
        "level": 0.5,
        "tube": "auto",
        "kernel": "rbf",
        "gamma": "scale",
        "degree": 3,
        "coef0": 0.0,
        "fit_intercept": True,
        "tol": 1e-3,
        "max_iter": None,
        "max_time": None,
        "checkpoint": None,
        "memory_budget": CoreVectorRegressor().memory_budget,
        "n_jobs": None,
        "device": None,
        "warm_start": False,
        "random_state": None,
        "verbose": 0,
        "method": "auto",
    }
    assert CoreVectorRegressor().get_params() == stated


def test_the_kind_of_estimator_is_declared():
    assert is_regressor(CoreVectorRegressor())
    tags = get_tags(CoreVectorRegressor())
    assert tags.input_tags.sparse
    assert tags.target_tags.multi_output
    assert get_tags(CoreVectorRegressor(kernel="precomputed")).input_tags.pairwise


def test_parameters_survive_clone_and_fit():
    model = regressor(mu=0.07, tube="paper")
    before = model.get_params()
    assert clone(model).get_params() == before
    assert model.fit(X, Y).get_params() == before


def test_the_attributes_of_a_fitted_regressor_have_the_names_of_svr():
    model = regressor().fit(X, Y)
    n_support = len(model.support_)
    assert model.support_vectors_.shape == (n_support, 3)
    assert model.dual_coef_.shape == (1, n_support)
    assert np.shape(model.intercept_) == (1,)
    assert np.ndim(model.tube_) == 0
    assert model.n_features_in_ == 3
    assert model.n_iter_ >= 1
    assert model.n_core_ >= 1
    assert not hasattr(model, "coef_")
    np.testing.assert_allclose(model.target_mean_, Y.mean())
    np.testing.assert_allclose(model.target_scale_, Y.std())


@pytest.mark.parametrize("form", FORMS, ids=form_name)
@pytest.mark.parametrize(
    "kernel",
    strategies.KERNELS,
    ids=lambda k: str(getattr(k["kernel"], "__name__", k["kernel"])),
)
def test_predictions_are_the_stated_expansion_in_the_units_of_y(kernel, form):
    y = 100 * Y + 2000
    params = {**TIGHT, **kernel, **form, "tol": 1e-4}
    if params["kernel"] == "linear":
        del params["gamma"]
    model = reading.fit(CoreVectorRegressor(**params), X, y)
    np.testing.assert_allclose(model.support_vectors_, X[model.support_], rtol=1e-12)
    stated = naive.gram(Z, model.support_vectors_, **kernel)
    stated = stated @ reading.coefficients(model) + reading.bias(model)
    np.testing.assert_allclose(model.predict(Z), stated, rtol=1e-6)


def test_the_linear_kernel_has_coefficients():
    model = regressor(kernel="linear").fit(X, Y)
    assert model.coef_.shape in ((1, 3), (3,))
    by_hand = X @ np.ravel(model.coef_) + reading.bias(model)
    np.testing.assert_allclose(model.predict(X), by_hand, atol=1e-9)


def test_without_an_intercept_there_is_none():
    model = regressor(fit_intercept=False).fit(X, Y + 5.0)
    assert reading.bias(model) == 0.0
    assert float(np.ravel(model.target_mean_)[0]) == 0.0
    root_mean_square = np.sqrt(np.mean((Y + 5.0) ** 2))
    np.testing.assert_allclose(model.target_scale_, root_mean_square)
    far = np.full((1, 3), 1e3)
    np.testing.assert_allclose(model.predict(far), 0.0, atol=1e-12)


# --- several targets ------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=form_name)
@pytest.mark.parametrize("weighted", [False, True])
def test_several_targets_equal_one_by_one(form, weighted):
    many = np.column_stack([Y, 50 * X[:, 2] ** 2 + 7, np.abs(X[:, 1]) / 100])
    s = RNG.choice([0.0, 1.0, 2.0], size=len(X)) if weighted else None
    if "mu" in form:  # one width, in units of y, for targets of one size
        many = many / many.std(axis=0)
    together = reading.fit(regressor(**form), X, many, s)
    assert together.predict(Z).shape == (40, 3)
    assert np.shape(together.tube_) == (3,)
    assert together.dual_coef_.shape == (3, len(together.support_))
    assert np.shape(together.intercept_) == (3,)
    assert len(together.certificate_.parts) == 3
    for k in range(3):
        alone = reading.fit(regressor(**form), X, many[:, k], s)
        part = together.certificate_.parts[k]
        assert part.primal == pytest.approx(alone.certificate_.primal, rel=1e-6)
        room = 2 * room_of(alone) + 1e-9
        apart = np.abs(together.predict(Z)[:, k] - alone.predict(Z)).max()
        assert apart <= room
        assert together.tube_[k] == pytest.approx(float(alone.tube_), abs=room)
        assert together.target_mean_[k] == pytest.approx(
            float(np.ravel(alone.target_mean_)[0])
        )


def test_several_targets_report_the_worst_gap():
    many = np.column_stack([Y, RNG.normal(size=len(Y))])
    found = regressor(tol=1e-3).fit(X, many).certificate_
    assert found.relative_gap == max(part.relative_gap for part in found.parts)
    assert found.converged == all(part.converged for part in found.parts)


def test_one_column_of_targets_keeps_its_shape():
    model = regressor().fit(X, Y[:, None])
    np.testing.assert_allclose(
        model.predict(Z).ravel(), regressor().fit(X, Y).predict(Z)
    )


def test_a_constant_target_among_others_is_no_obstacle():
    many = np.column_stack([np.full(len(Y), 4.0), Y])
    predicted = reading.fit(regressor(), X, many).predict(Z)
    np.testing.assert_allclose(predicted[:, 0], 4.0, atol=1e-9)
    alone = regressor().fit(X, Y)
    assert np.abs(predicted[:, 1] - alone.predict(Z)).max() <= 2 * room_of(alone)


# --- what must not change the answer --------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=form_name)
@pytest.mark.parametrize(
    ("unit", "origin"),
    [(1e-6, 0.0), (-3.0, 1.0), (1e9, -1e10), (2.0**-664, 0.0)],
)
def test_the_units_of_y_do_not_matter(form, unit, origin):
    plain = regressor(**form).fit(X, Y)
    moved = dict(form)
    if "mu" in form:
        moved["tube"] = form["tube"] * abs(unit)
    scaled = regressor(**moved).fit(X, unit * Y + origin)
    assert scaled.certificate_.converged
    assert scaled.certificate_.primal == pytest.approx(
        plain.certificate_.primal, rel=1e-6
    )
    back = (scaled.predict(Z) - origin) / unit
    # An origin of 1e10 leaves y five digits fewer.
    assert np.abs(back - plain.predict(Z)).max() <= 2 * room_of(plain) + 1e-5
    assert scaled.tube_ / abs(unit) == pytest.approx(float(plain.tube_), abs=1e-3)


@pytest.mark.parametrize("form", FORMS, ids=form_name)
@pytest.mark.parametrize("value", [0.0, 5.0, -1e12])
def test_a_constant_y_is_predicted(form, value):
    model = regressor(**form).fit(X, np.full(len(X), value))
    np.testing.assert_allclose(model.predict(Z), value, rtol=1e-9, atol=1e-9)
    assert model.certificate_.converged
    assert model.certificate_.relative_gap <= 1e-9
    if not form:
        assert model.tube_ == 0


def test_y_may_be_integers_a_list_or_booleans():
    steps = np.floor(Y).astype(int)
    expected = regressor().fit(X, steps.astype(float)).predict(Z)
    for given in (steps, steps.tolist(), pd.Series(steps)):
        np.testing.assert_allclose(regressor().fit(X, given).predict(Z), expected)


@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_float32_rows_give_the_same_answer_to_float32_precision(form):
    shape = form | {"tol": 1e-4}
    rows, y = X.astype(np.float32), Y.astype(np.float32)
    single = regressor(**shape).fit(rows, y)
    double = regressor(**shape).fit(rows.astype(float), y.astype(float))
    assert single.certificate_.converged
    apart = np.abs(single.predict(rows) - double.predict(rows.astype(float))).max()
    assert apart <= 2 * room_of(single, double) + 1e-3


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "poly"])
@pytest.mark.parametrize("storage", [sp.csr_matrix, sp.csr_array, np.asfortranarray])
def test_every_storage_of_the_rows_gives_the_same_answer(kernel, storage):
    rows = X * (RNG.random(X.shape) < 0.5)
    shape = {"kernel": kernel, "gamma": 0.3, "tol": 1e-6}
    dense, other = (
        regressor(**shape).fit(rows, Y),
        regressor(**shape).fit(storage(rows), Y),
    )
    assert dense.certificate_.primal == pytest.approx(
        other.certificate_.primal, rel=1e-5
    )
    assert np.abs(dense.predict(rows) - other.predict(rows)).max() <= 10 * room_of(
        dense, other
    )
    np.testing.assert_allclose(
        other.predict(storage(rows)), other.predict(rows), atol=1e-9
    )


def test_the_order_of_the_rows_does_not_matter():
    order = RNG.permutation(len(X))
    one, other = regressor().fit(X, Y), regressor().fit(X[order], Y[order])
    assert np.abs(one.predict(Z) - other.predict(Z)).max() <= room_of(one, other)


def test_the_same_seed_gives_the_same_model_bit_for_bit():
    one, other = (regressor(n_jobs=1).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
    np.testing.assert_array_equal(one.predict(Z), other.predict(Z))


@pytest.mark.parametrize("method", ["auto", "coreset"])
def test_threads_and_blocks_do_not_matter(method):
    rows, y = strategies.friedman(1500)
    shape = {
        "gamma": 0.3,
        "C": 1.0,
        "tol": 1e-4,
        "mu": 0.1,
        "method": method,
    }
    one = reading.fit(regressor(n_jobs=1, **shape), rows, y)
    for change in ({"n_jobs": 2}, {"memory_budget": 2**27}):
        other = reading.fit(regressor(**shape, **change), rows, y)
        assert np.abs(one.predict(rows) - other.predict(rows)).max() <= room_of(
            one, other
        )


def test_duplicated_rows_with_different_targets_are_averaged():
    rows, y = np.repeat(X[:20], 2, axis=0), np.tile([0.0, 1.0], 20)
    # The rounding of sums of multipliers near C is 1e-9 of the objective.
    model = regressor(C=1e4, tol=1e-8).fit(rows, y)
    np.testing.assert_allclose(model.predict(X[:20]), 0.5, atol=1e-6)


def test_one_row_and_two_rows_can_be_fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = CoreVectorRegressor(gamma=1.0).fit(X[:1], Y[:1])
    np.testing.assert_allclose(one.predict(X[:1]), Y[:1])
    two = regressor(C=1e4, mu=0.01).fit(X[:2], Y[:2])
    np.testing.assert_allclose(two.predict(X[:2]), Y[:2], atol=0.1)


# --- agreement with other machines ----------------------------------------------------


def test_a_closed_tube_is_kernel_ridge_regression():
    """e = 0: C/2 (z - f)^2 + |w|^2/2 with b0 penalised is ridge with alpha = 1/C."""
    z = (Y - Y.mean()) / Y.std()
    model = regressor(tube=0.0, mu=None, C=2.0).fit(X, Y)
    ridge = KernelRidge(alpha=0.5, kernel="precomputed")
    ridge.fit(rbf_kernel(X, gamma=0.5) + 1, z)
    expected = ridge.predict(rbf_kernel(Z, X, gamma=0.5) + 1) * Y.std() + Y.mean()
    assert np.abs(model.predict(Z) - expected).max() <= 2 * room_of(model)


def test_it_fits_as_well_as_support_vector_regression():
    # A squared slack of 0.1 deviations weighs a tenth of SVR's: ten times its C.
    rows, y = strategies.friedman(1000)
    test, truth = strategies.friedman(1000, seed=1)
    ours = CoreVectorRegressor(C=100.0, gamma=0.5, random_state=0).fit(rows, y)
    theirs = SVR(C=10.0, gamma=0.5, epsilon=0.1).fit(rows, (y - y.mean()) / y.std())
    peer = theirs.score(test, (truth - y.mean()) / y.std())
    assert ours.score(test, truth) >= peer - 0.01


def test_defaults_work_on_standardised_data_without_tuning():
    rows, y = make_regression(400, 5, n_informative=5, noise=5.0, random_state=0)
    rows = StandardScaler().fit_transform(rows)
    model = CoreVectorRegressor(random_state=0).fit(rows[:300], y[:300])
    assert model.certificate_.converged
    assert model.score(rows[300:], y[300:]) > 0.9
