"""StreamingRegressor inside scikit-learn and River, and with bad streams."""

import logging
import pickle

import numpy as np
import pytest
from river import compat, stream
from scipy import sparse
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import (
    CoreVectorRegressor,
    InvalidInputError,
    StreamingRegressor,
    certify,
    formats,
)

REASON = "which rows span the function depends on their order, which this shuffles"
ORDER = {
    "check_sample_weight_equivalence_on_dense_data": REASON,
    "check_sample_weight_equivalence_on_sparse_data": REASON,
}
CHECKED = {
    StreamingRegressor(): {},
    StreamingRegressor(kernel="linear", budget=20): {},
    StreamingRegressor(budget=20): ORDER,
    StreamingRegressor(tube=0.1, budget=100): {},
}


@parametrize_with_checks(
    list(CHECKED), expected_failed_checks=lambda model: CHECKED[model]
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def friedman(n=1500, seed=0):
    return make_friedman1(n, noise=0.5, random_state=seed)


def test_a_linear_stream_is_ridge_regression_of_all_rows():
    X, y = friedman()
    y = 1000.0 + y
    model = StreamingRegressor(C=2.0, kernel="linear", budget=10)
    for start in range(0, 1500, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    rows = np.column_stack([X, np.ones(1500)])  # the bias is penalised
    m = y[:64].mean()
    ridge = Ridge(alpha=0.5, fit_intercept=False).fit(rows, y - m)
    np.testing.assert_allclose(model.coef_[0], ridge.coef_[:-1], rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, ridge.coef_[-1:] + m, rtol=1e-8)


@pytest.mark.parametrize("tube", [0.0, 0.5])
def test_within_the_budget_it_is_the_machine_of_all_rows(tube):
    X, y = friedman(300)
    y = y - y[:64].mean()
    model = StreamingRegressor(gamma=0.5, tube=tube, budget=400, block=400).fit(X, y)
    found = certify(model, X, y)
    assert found.relative_gap < (1e-5 if tube == 0 else 0.2)
    assert not found.converged or tube == 0


def test_a_small_budget_comes_near_the_batch_machine():
    X, y = friedman(6000)
    test, truth = make_friedman1(2000, noise=0.0, random_state=1)
    model = StreamingRegressor(C=10.0, gamma=0.4, budget=600).fit(X, y)
    batch = CoreVectorRegressor(C=10.0, gamma=0.4, tube=0.0, tol=0.01).fit(X, y)
    # With the noise of 0.5 that any prediction has.
    error = [
        np.hypot(0.5, np.sqrt(np.mean((one.predict(test) - truth) ** 2)))
        for one in (model, batch)
    ]
    assert error[0] < 1.1 * error[1]


def test_the_error_so_far_is_that_before_learning(caplog):
    X, y = friedman(600)
    model, squares = StreamingRegressor(budget=50), []
    for start in range(0, 600, 50):
        part = slice(start, start + 50)
        if start:
            squares.append((model.predict(X[part]) - y[part]) ** 2)
        model.partial_fit(X[part], y[part])
    expected = np.sqrt(np.mean(squares))
    assert model.test_then_train_rmse_ == pytest.approx(expected)
    with caplog.at_level(logging.INFO):
        StreamingRegressor(budget=50, verbose=2).fit([(X[:300], y[:300])])
    assert "RMSE so far" in caplog.messages[-1]


def test_several_targets_share_the_core():
    X, y = friedman(500)
    both = np.column_stack([y, -2.0 * y])
    model = StreamingRegressor(budget=60).fit(X, both)
    single = StreamingRegressor(budget=60).fit(X, y)
    found = model.predict(X)
    np.testing.assert_allclose(found[:, 1], -2.0 * found[:, 0], atol=1e-6)
    np.testing.assert_allclose(found[:, 0], single.predict(X), atol=0.3)
    assert model.test_then_train_rmse_.shape == (2,)
    assert model.dual_coef_.shape == (2, 60)
    with pytest.raises(InvalidInputError, match="y has 1 columns here and 2"):
        model.partial_fit(X, y)


def test_sparse_rows_and_weights():
    X, y = friedman(400)
    X[X < 0.4] = 0.0
    dense = StreamingRegressor(gamma=0.5).fit(X, y).predict(X)
    thin = StreamingRegressor(gamma=0.5).fit(sparse.csr_matrix(X), y).predict(X)
    np.testing.assert_allclose(thin, dense, atol=1e-6)
    plain = StreamingRegressor(C=8.0, gamma=0.5).fit(X, y).predict(X)
    twice = StreamingRegressor(C=4.0, gamma=0.5).fit(X, y, sample_weight=[2.0] * 400)
    np.testing.assert_allclose(twice.predict(X), plain, atol=1e-6)


def test_halves_join_although_their_means_differ():
    X, y = friedman(1000)
    order = np.argsort(y)
    X, y = X[order], y[order]
    whole = StreamingRegressor(gamma=0.5, budget=1000).fit(X, y).predict(X)
    left = StreamingRegressor(gamma=0.5, budget=1000).fit(X[:500], y[:500])
    right = StreamingRegressor(gamma=0.5, budget=1000).fit(X[500:], y[500:])
    found = left.merge(right).predict(X)
    assert left.n_rows_seen_ == 1000
    np.testing.assert_allclose(found, whole, atol=0.05)


def test_bad_streams_change_nothing():
    X, y = friedman(300)
    model = StreamingRegressor(budget=30).fit(X[:200], y[:200])
    before = model.predict(X)
    bad = X[200:].copy()
    bad[3, 1] = np.inf
    with pytest.raises(InvalidInputError, match=r"infinity in row 3 .* \(row 203"):
        model.partial_fit(bad, y[200:])
    with pytest.raises(InvalidInputError, match="y"):
        model.partial_fit(X[200:], np.full(100, np.nan))
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(InvalidInputError) as caught:
        StreamingRegressor(tube=-1.0).fit(X, y)
    assert caught.value.parameter == "tube"


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_files_and_pickles_keep_the_stream(kernel, tmp_path):
    X, y = friedman(300)
    model = StreamingRegressor(kernel=kernel, budget=30).fit(X[:200], y[:200])
    formats.save(model, tmp_path / "m.corevec")
    others = [formats.load(tmp_path / "m.corevec"), pickle.loads(pickle.dumps(model))]
    for one in (model, *others):
        one.partial_fit(X[200:], y[200:])
    for one in others:
        np.testing.assert_array_equal(one.predict(X), model.predict(X))


def test_a_river_model():
    X, y = friedman(300)
    model = compat.convert_sklearn_to_river(StreamingRegressor(gamma=0.5, budget=100))
    for row, target in stream.iter_array(X, y):
        model.learn_one(row, target)
    found = [model.predict_one(row) for row, _ in stream.iter_array(X, y)]
    assert np.sqrt(np.mean((np.array(found) - y) ** 2)) < 0.5 * y.std()
