"""Shapley values of Gaussian machines, against the sum over all sets of columns."""

from itertools import combinations
from math import factorial

import naive
import numpy as np
import pytest
from sklearn.datasets import make_classification, make_friedman1
from sklearn.pipeline import make_pipeline

from corevec import (
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    explain,
    methods,
)
from corevec.exceptions import InvalidInputError


def by_brute_force(f, x, background, groups):
    """Return the Shapley values by their definition: a sum over all coalitions."""
    names = np.unique(groups)
    n = len(names)

    def value(coalition):
        rows = background.copy()
        for name in coalition:
            rows[:, groups == name] = x[groups == name]
        return f(rows).mean(axis=0)

    found = []
    for name in names:
        others = [one for one in names if one != name]
        total = 0.0
        for size in range(n):
            weight = factorial(size) * factorial(n - 1 - size) / factorial(n)
            for coalition in combinations(others, size):
                gain = value((*coalition, name)) - value(coalition)
                total = total + weight * gain
        found.append(total)
    return np.array(found)


def assert_exact(model, f, X, background, groups=None):
    found = explain(model, X, background=background, groups=groups)
    own = np.arange(X.shape[1]) if groups is None else np.asarray(groups)
    for i, x in enumerate(X):
        expected = by_brute_force(f, x, background, own)
        np.testing.assert_allclose(found.values[i], expected, atol=1e-8, rtol=0)
    np.testing.assert_allclose(
        found.base_values + found.values.sum(axis=1), found.function, atol=1e-8
    )
    np.testing.assert_allclose(found.function, f(X), atol=1e-8)
    return found


def test_eight_columns_of_a_regressor_equal_brute_force():
    X, y = make_friedman1(150, n_features=8, random_state=0)
    model = CoreVectorRegressor(C=10.0, tube=0.0, gamma=0.8, method="exact").fit(X, y)
    found = assert_exact(model, model.predict, X[:2], X[100:103])
    assert found.names[0] == "column 0"


def test_the_twin_of_the_function_itself_gives_the_same():
    """The function by NumPy, so that not both sides are evaluated by corevec."""
    X, y = make_friedman1(60, n_features=5, random_state=0)
    model = CoreVectorRegressor(C=3.0, tube=0.0, gamma=0.8, method="exact").fit(X, y)

    def f(A):
        K = naive.gram(A, model.support_vectors_, gamma=0.8)
        return K @ model.dual_coef_[0] + model.intercept_[0]

    assert_exact(model, f, X[:2], X[40:42])


def test_classes_groups_and_names():
    X, y = make_classification(
        200, 6, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=1
    )
    model = CoreVectorClassifier(gamma=0.1, multi_class="ovr").fit(X, y)
    groups = ["a", "a", "b", "c", "c", "c"]
    found = assert_exact(model, model.decision_function, X[:2], X[50:53], groups)
    assert found.names == ["a", "b", "c"]
    assert found.values.shape == (2, 3, 3)


@pytest.mark.parametrize("n_trees", [1, 2])
def test_a_row_is_explained_by_the_machine_of_its_cell(n_trees):
    """In its metric; over a background in the same cell that is the whole function."""
    X, y = make_classification(600, 5, n_redundant=0, random_state=0)
    method = methods.Cells(150, n_trees=n_trees, metric="learned")
    model = CoreVectorClassifier(method=method, random_state=0, gamma=0.5).fit(X, y)
    found = explain(model, X[:7])
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(X[:7]), atol=1e-8)


def test_a_column_that_does_not_enter_has_the_value_zero():
    X, y = make_friedman1(200, n_features=6, random_state=0)
    X = np.column_stack([X, np.ones(200)])
    model = CoreVectorRegressor(C=10.0, tube=0.0, gamma=0.5).fit(X, y)
    found = explain(model, X[:3])
    assert np.array_equal(found.values[:, 6], np.zeros(3))


def test_many_columns_do_not_cancel():
    """300 columns: the values still add up to rounding."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 300))
    y = np.sign(X[:, 0] + 0.1 * rng.normal(size=80))
    model = CoreVectorClassifier(C=10.0, gamma=0.005).fit(X, y)
    found = explain(model, X[:2], background=X[70:74])
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(X[:2]), rtol=1e-10)


def test_a_detector_can_be_explained():
    X = np.random.default_rng(0).normal(size=(150, 3))
    model = CoreVectorOneClass(gamma=0.5).fit(X)
    found = explain(model, X[:2])
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, found.function, atol=1e-10)


def test_what_cannot_be_explained_is_refused():
    X, y = make_classification(60, 4, n_redundant=0, random_state=0)
    model = CoreVectorClassifier().fit(X, y)
    for wrong, parameter in (
        (make_pipeline(model), "model"),
        (CoreVectorClassifier(kernel="laplacian").fit(X, y), "model"),
    ):
        with pytest.raises(InvalidInputError) as raised:
            explain(wrong, X)
        assert raised.value.parameter == parameter
    with pytest.raises(InvalidInputError, match="4 columns") as raised:
        explain(model, X, groups=[0, 1])
    assert raised.value.parameter == "groups"
    with pytest.raises(ValueError, match="features"):
        explain(model, X[:, :3])


def test_shapiq_takes_the_values():
    shapiq = pytest.importorskip("shapiq")
    X, y = make_friedman1(200, n_features=6, random_state=0)
    model = CoreVectorRegressor(method="exact", C=10).fit(X, y)
    found = explain(model, X[:3])
    theirs = found.to_shapiq(row=2)
    assert isinstance(theirs, shapiq.InteractionValues)
    assert [theirs[(c,)] for c in range(6)] == found.values[2].tolist()
    assert theirs.baseline_value == found.base_values[2]
    total = sum(theirs.dict_values.values())  # that of no column is the base value
    assert total == pytest.approx(model.predict(X[2:3])[0])
