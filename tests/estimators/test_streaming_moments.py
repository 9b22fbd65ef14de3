"""What the core learners do with columns in any units, and with changing streams."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from corevec import (
    InvalidInputError,
    StreamingClassifier,
    StreamingOneClass,
    StreamingRegressor,
    certify,
    formats,
)

UNITS, ORIGIN = np.array([1.0, 1e4, 1e-3, 30.0]), np.array([5.0, 1e5, 0.0, 1.0])


def rows_of(n=1500, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    target = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, target, np.where(target > 0, 1, -1)


def in_blocks(model, X, y, size, **first):
    for start in range(0, len(X), size):
        part = slice(start, start + size)
        model.partial_fit(X[part], *(() if y is None else (y[part],)), **first)
    return model


def test_columns_in_different_units_are_found_and_scaled():
    X, target, y = rows_of()
    U = UNITS * X + ORIGIN
    model = StreamingClassifier(C=10.0, budget=150)
    plain = in_blocks(model, X, y, 50, classes=[-1, 1]).score(X, y)
    model = StreamingClassifier(C=10.0, budget=150)
    assert in_blocks(model, U, y, 50, classes=[-1, 1]).score(U, y) > plain - 0.02
    unscaled = StreamingClassifier(C=10.0, budget=150, standardize=False)
    assert in_blocks(unscaled, U, y, 50, classes=[-1, 1]).score(U, y) < plain - 0.1
    for Z in (X, U):
        found = in_blocks(StreamingRegressor(budget=150), Z, target, 50)
        assert found.score(Z, target) > 0.95


def test_scaled_by_all_rows_as_by_a_scaler_in_front():
    X, target, _y = rows_of(400)
    U = UNITS * X + ORIGIN
    S = StandardScaler().fit_transform(U)
    # Blocks of 50 and 400 in all: the moments are taken at 50, 100, 200 and 400 rows.
    for kernel in ("linear", "rbf", "poly"):
        own = {"kernel": kernel, "budget": 500, "gamma": 0.25, "coef0": 1.0}
        model = StreamingRegressor(**own, standardize=True)
        model = in_blocks(model, U, target, 50)
        model._resolved = 0  # at the end of the stream, once more
        model.partial_fit(U[:1], target[:1], sample_weight=[1e-12])
        front = StreamingRegressor(**own, standardize=False).fit(S, target)
        np.testing.assert_allclose(model.predict(U), front.predict(S), atol=2e-3)


def test_a_linear_model_loses_nothing_when_the_scaling_moves():
    X, _, _y = rows_of(800)
    X[400:] *= 20.0  # the deviations grow by far more than the tolerance
    U = UNITS * X + ORIGIN
    model = StreamingRegressor(kernel="linear", budget=20, standardize=True)
    in_blocks(model, U, X @ [1.0, 2.0, 3.0, 4.0], 100)
    assert certify(model, U, X @ [1.0, 2.0, 3.0, 4.0]).relative_gap < 1e-4
    by_hand = U @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.predict(U), by_hand, rtol=1e-9, atol=1e-9)


def test_gamma_by_name_is_that_of_all_rows_and_models_of_different_rows_join():
    X, target, y = rows_of(1200)
    X[600:] *= 3.0
    model = StreamingClassifier(budget=1200)
    in_blocks(model, X, y, 1, classes=[-1, 1])  # the first block is one row
    expected = 1.0 / (4 * X.var())
    assert model._stream.kernel.gamma == pytest.approx(expected, rel=0.5)
    left = StreamingRegressor(budget=1200).fit(X[:600], target[:600])
    right = StreamingRegressor(budget=1200).fit(X[600:], target[600:])
    left.merge(right)
    assert left._stream.kernel.gamma == pytest.approx(expected, rel=0.06)
    whole = StreamingRegressor(gamma=left._stream.kernel.gamma, budget=1200)
    whole = whole.fit(X, target).predict(X)
    np.testing.assert_allclose(left.predict(X), whole, atol=0.05)


def test_pixels_and_sparse_rows_are_left_as_they_are():
    X, y = load_digits(return_X_y=True)
    model = StreamingClassifier(budget=300).fit(X, y)
    assert model._stream.scaling is None
    thin = sparse.csr_matrix(np.abs(X) * np.geomspace(1, 1e4, 64))
    assert StreamingClassifier(budget=100).fit(thin, y)._stream.scaling is None
    scaled = StreamingClassifier(budget=300, standardize=True).fit(thin, y)
    dense = StreamingClassifier(budget=300).fit(thin.toarray(), y)
    assert scaled.score(thin, y) > 0.9
    assert dense.score(thin.toarray(), y) > 0.9


def test_files_keep_moments_and_scaling(tmp_path):
    X, _, y = rows_of(600)
    U = UNITS * X + ORIGIN
    model = StreamingClassifier(budget=50).fit(U[:300], y[:300])
    formats.save(model, tmp_path / "m.corevec")
    loaded = formats.load(tmp_path / "m.corevec")
    for one in (model, loaded):
        one.partial_fit(U[300:], y[300:])
    np.testing.assert_array_equal(
        loaded.decision_function(U), model.decision_function(U)
    )


def test_a_half_life_follows_a_stream_that_changes():
    X, target, y = rows_of(4000)
    turned = np.arange(4000) >= 2000
    y, target = np.where(turned, -y, y), np.where(turned, -target, target)
    seen, late = slice(2700), slice(2500, 2700)
    own = {"C": 10.0, "gamma": 0.5, "budget": 100}
    model = StreamingClassifier(**own, forget=150.0).fit(X[seen], y[seen])
    assert model.score(X[late], y[late]) > 0.85
    regressor = StreamingRegressor(gamma=0.5, budget=100, forget=150.0)
    regressor.fit(X[seen], target[seen])
    assert regressor.score(X[late], target[late]) > 0.8
    fixed = StreamingRegressor(gamma=0.5, budget=100).fit(X[seen], target[seen])
    assert fixed.score(X[late], target[late]) < 0.2


def test_a_detector_with_a_half_life_forgets_a_place():
    X, _, _ = rows_of(3000)
    X[1500:] += 6.0
    model = StreamingOneClass(gamma=0.05, budget=100, forget=200.0).fit(X)
    inside = [
        np.mean(model.predict(X[part]) > 0) for part in (slice(200), slice(2800, None))
    ]
    assert inside[0] < 0.1
    assert inside[1] > 0.8


@pytest.mark.parametrize(
    "wrong", [{"standardize": "yes"}, {"standardize": 2}, {"forget": 0.0}]
)
def test_parameters_that_cannot_be_used(wrong):
    X, _, y = rows_of(50)
    with pytest.raises(InvalidInputError) as caught:
        StreamingClassifier(**wrong).fit(X, y)
    assert caught.value.parameter == next(iter(wrong))


@pytest.mark.parametrize("scale", [1e160, 1e-160])
def test_columns_whose_variance_is_no_float_are_standardised(scale):
    """Warnings are errors: no square overflows on the way."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    for kernel in ("linear", "rbf"):
        plain, scaled = (
            StreamingClassifier(kernel=kernel, standardize=True, budget=50).fit(Z, y)
            for Z in (X, scale * X)
        )
        np.testing.assert_allclose(
            scaled.decision_function(scale * X), plain.decision_function(X), rtol=1e-6
        )
        assert scaled.objective_bound().estimate > 0
