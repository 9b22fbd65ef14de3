"""The bound of the objective over all rows seen, against the objective itself."""

import numpy as np
import pytest

from corevec import (
    StreamingClassifier,
    StreamingOneClass,
    StreamingRegressor,
    formats,
)
from corevec.exceptions import InvalidInputError
from corevec.solvers.streaming import excess_of_mean


def rows_of(n, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1, -1)
    return X, y


def norm_sq(model):
    """Return ``|w|^2 + b0^2`` of a model with one output, by NumPy."""
    if hasattr(model, "coef_"):
        return (model.coef_**2).sum() + model.intercept_[0] ** 2
    Z, a = model.support_vectors_, model.dual_coef_[0]
    distances = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
    return a @ (np.exp(-model.gamma * distances) + 1) @ a


def objective(model, X, y, weights=1.0):
    wrong = np.maximum(1 - y * model.decision_function(X), 0)
    return norm_sq(model) / 2 + model.C / 2 * (weights * wrong**2).sum()


def learner(kernel, **more):
    return StreamingClassifier(C=2.0, kernel=kernel, gamma=0.5, budget=60, **more)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_sample_of_all_rows_gives_the_objective_itself(kernel):
    X, y = rows_of(900)
    weights = np.random.default_rng(3).uniform(0, 2, 900).round()  # some are 0
    model = learner(kernel).fit(X, y, sample_weight=weights)
    found = model.objective_bound()
    assert found.confidence == 1.0
    assert found.n_measured == found.n_rows == np.count_nonzero(weights)
    expected = objective(model, X, y, weights)
    assert found.estimate == pytest.approx(expected, rel=1e-6)
    assert found.estimate <= found.upper <= found.estimate * (1 + 1e-8)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_the_objective_and_its_optimum_are_within_the_bounds(kernel):
    X, y = rows_of(12_000)
    model = learner(kernel, degree=2, coef0=1.0)
    for start in range(0, 12_000, 3000):
        part = slice(start, start + 3000)
        model.partial_fit(X[part], y[part], classes=[-1, 1])
    found = model.objective_bound(0.9)
    assert found.n_measured == 4000
    assert 0 < found.lower < found.upper
    assert 0 < found.relative_gap < 1
    assert "12,000 rows" in str(found)
    if kernel != "poly":
        actual = objective(model, X, y)
        assert actual <= found.upper
        # The range of the loss is far above its deviation, and is paid for.
        assert found.upper < 2 * actual
        assert found.lower < actual


def test_the_lower_bound_is_below_every_other_function():
    """Also below the best one, which is nearly that of a large budget."""
    X, y = rows_of(3000)
    small, large = learner("rbf"), learner("rbf").set_params(budget=3000)
    best = objective(large.fit(X, y), X, y)
    found = small.fit(X, y).objective_bound()
    assert 0 < found.lower <= best <= objective(small, X, y)


def test_a_large_budget_closes_the_gap_on_all_rows():
    """With the core of all violators the core's dual is nearly that of all rows."""
    X, y = rows_of(400)
    model = learner("rbf").set_params(budget=400).fit(X, y)
    found = model.objective_bound()
    assert found.lower == pytest.approx(objective(model, X, y), rel=0.05)


def test_means_of_samples_exceed_the_bound_less_often_than_promised():
    """Losses with a rare large value: the worst case for a sample."""
    rng = np.random.default_rng(0)
    values = rng.exponential(size=2000) ** 2
    values[:4] = 60.0
    missed = 0
    for _ in range(400):
        sample = rng.choice(values, 300, replace=False)
        margin = excess_of_mean(sample, 2000, 60.0, 0.8)
        missed += values.mean() > sample.mean() + margin
    assert missed <= 400 * 0.2


def test_the_sample_does_not_depend_on_the_later_blocks():
    X, y = rows_of(9000)
    models = [learner("linear").partial_fit(X[:500], y[:500], [-1, 1]) for _ in "ab"]
    models[0].partial_fit(X[500:], y[500:])
    for start in range(500, 9000, 700):
        part = slice(start, start + 700)
        models[1].partial_fit(X[part], y[part])
    samples = [np.sort(one._seen.rows[:, 0]) for one in models]
    np.testing.assert_array_equal(*samples)


def test_merged_models_are_bounded_over_the_rows_of_both():
    X, y = rows_of(8000)
    parts = [learner("rbf").fit(X[s], y[s]) for s in np.split(np.arange(8000), 2)]
    found = parts[0].merge(parts[1]).objective_bound()
    assert (found.n_rows, found.n_measured) == (8000, 4000)
    actual = objective(parts[0], X, y)
    assert actual <= found.upper
    assert found.estimate == pytest.approx(actual, rel=0.1)


@pytest.mark.parametrize("tube", [0.0, 0.2])
def test_of_a_regressor(tube):
    X, _ = rows_of(6000)
    y = 30 + np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=6000)
    halves = np.split(np.arange(6000), 2)
    first, second = (
        StreamingRegressor(C=2.0, gamma=0.5, budget=60, tube=tube).fit(X[s], y[s])
        for s in halves
    )
    model = first.merge(second)
    wrong = np.maximum(np.abs(y - model.predict(X)) - tube, 0)
    a, Z = model.dual_coef_[0], model.support_vectors_
    K = np.exp(-0.5 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2)) + 1
    actual = a @ K @ a / 2 + model.C / 2 * (wrong**2).sum()
    found = model.objective_bound()
    assert found.lower <= actual <= found.upper
    assert found.estimate == pytest.approx(actual, rel=0.1)


def test_several_classes_and_scaled_columns():
    X, y = rows_of(6000)
    X[:, 1:] *= [1e3, 1e-3]
    model = StreamingClassifier(gamma=0.5, budget=60, standardize=True)
    found = model.fit(X, y + (X[:, 1] > 1e3)).objective_bound()
    assert 0 < found.lower < found.estimate < found.upper < np.inf


def test_a_kernel_without_a_known_range_has_no_upper_bound():
    X, y = rows_of(6000)
    model = StreamingClassifier(kernel=lambda A, B: A @ B.T, budget=30).fit(X, y)
    found = model.objective_bound()
    assert found.upper == np.inf
    assert found.estimate > found.lower > 0


def test_a_saved_model_goes_on_with_its_sample(tmp_path):
    X, y = rows_of(6000)
    model = learner("rbf").partial_fit(X[:5000], y[:5000], classes=[-1, 1])
    formats.save(model, tmp_path / "model.corevec")
    found = formats.load(tmp_path / "model.corevec")
    assert found.objective_bound() == model.objective_bound()
    for one in (found, model):
        one.partial_fit(X[5000:], y[5000:])
    assert found.objective_bound() == model.objective_bound()


def test_with_forget_there_is_no_objective():
    X, y = rows_of(200)
    with pytest.raises(InvalidInputError, match="forget=None has this bound"):
        StreamingClassifier(forget=50).fit(X, y).objective_bound()
    assert not hasattr(StreamingOneClass().fit(X), "objective_bound")
