"""Prediction by cells, in compiled loops and in float32.

The slow twin takes the vectors and coefficients of a row's cell as they are and sums
kernel values of `naive`.
"""

import naive
import numpy as np
import pytest
from cells_twin import NAMES, NEAR, board
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from corevec import CoreVectorClassifier, CoreVectorRegressor, methods
from corevec.data.sources import as_source
from corevec.estimators import values_for_labels
from corevec.kernels import Rows


def flagged(n, n_numbers, n_flags, seed=0):
    """Return rows of numbers, and of flags that are the same in most cells."""
    rng = np.random.default_rng(seed)
    numbers = rng.random((n, n_numbers))
    kind = (3 * numbers[:, 0]).astype(int)
    flags = (kind[:, None] == np.arange(n_flags) % 4).astype(float)
    X = np.column_stack([5 * flags, numbers])
    return X, (np.sin(9 * numbers[:, 0]) + numbers[:, 1] > 0.7).astype(int)


def twin(model, new):
    """Return the mean over the trees of ``k(x, vectors) coef + intercept``."""
    total = 0.0
    for one in model._forest.trees:
        found = one.intercepts[one.tree.cells_of(new)]
        for row, cell in enumerate(one.tree.cells_of(new)):
            own = slice(one.starts[cell], one.starts[cell + 1])
            vectors = one.basis.values[own].astype(float)
            shape = {"kernel": model.kernel, "gamma": model.gamma}
            K = naive.gram(new[[row]].astype(float), vectors, **shape)
            found[row] += (K @ one.coef[own])[0]
        total = total + found / len(model._forest.trees)
    return total


# 3 and 20 numbers: by differences of columns and by products of rows.
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "inverse-distance"])
@pytest.mark.parametrize("n_numbers", [3, 20])
def test_values_are_those_of_the_vectors_of_the_cell(kernel, n_numbers):
    X, y = flagged(800, n_numbers, 6)
    model = CoreVectorClassifier(
        kernel=kernel, method=methods.Cells(60, n_trees=2), **NEAR
    ).fit(X, y)
    new, _ = flagged(150, n_numbers, 6, seed=1)
    new[:50] += 3 * np.random.default_rng(2).normal(size=(50, new.shape[1]))
    wanted = twin(model, new)[:, 0]
    assert model.decision_function(new) == pytest.approx(wanted, abs=1e-10)
    columns = np.asfortranarray(new)
    assert model.decision_function(columns) == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize("fitted", [np.float32, np.float64])
@pytest.mark.parametrize("given", [np.float32, np.float64])
def test_precisions_can_be_mixed(fitted, given):
    """Columns near 1e3: float32 keeps 6e-5 of them, and the cells' own centres help."""
    X, y = flagged(600, 12, 3)
    X += 1000.0
    model = CoreVectorRegressor(method=methods.Cells(60), **NEAR).fit(
        X.astype(fitted), y
    )
    new = (flagged(100, 12, 3, seed=1)[0] + 1000.0).astype(given)
    wanted = model.target_mean_ + model.target_scale_ * twin(model, new)[:, 0]
    exact = fitted == np.float64
    # gamma |x - z| 6e-5 sqrt(12) moves a kernel value by 1e-3 at most.
    assert model.predict(new) == pytest.approx(wanted, abs=1e-9 if exact else 1e-3)


def test_rows_predicted_alone_or_together_are_the_same():
    X, y = board(800)
    model = CoreVectorClassifier(method=methods.Cells(50), **NEAR).fit(X, y)
    wanted = model.decision_function(X)
    alone = [model.decision_function(X[[i]])[0] for i in range(40)]
    assert alone == pytest.approx(wanted[:40], abs=1e-12)
    turned = model.decision_function(X[::-1])[::-1]
    assert turned == pytest.approx(wanted, abs=1e-12)


# --- labels by float32 ----------------------------------------------------------------


def errors_kept(model, new):
    """Check that no value is farther off than its bound; return the bounds."""
    (one,) = model._forest.trees
    rows = Rows(new, np.arange(len(new)))
    found, errors = one.estimate(rows)
    off = np.abs(found - one.evaluate(rows))
    assert (off <= errors).all()
    return errors


@settings(max_examples=40, deadline=None)
@given(
    kernel=st.sampled_from(["rbf", "laplacian", "inverse-distance"]),
    gamma=st.sampled_from([1e-4, 0.1, 5.0, 500.0]),
    C=st.sampled_from([0.01, 1.0, 1e4]),
    n_numbers=st.sampled_from([2, 15]),
    shift=st.sampled_from([0.0, 1e4]),
    far=st.sampled_from([0.0, 1.0, 30.0, 1e6]),
    seed=st.integers(0, 99),
)
def test_errors_of_float32_stay_within_their_bounds(
    kernel, gamma, C, n_numbers, shift, far, seed
):
    X, y = flagged(150, n_numbers, 2, seed)
    X += shift
    asked = {"kernel": kernel, "gamma": gamma, "C": C, "random_state": 0}
    model = CoreVectorClassifier(n_jobs=1, method=methods.Cells(50), **asked).fit(X, y)
    rng = np.random.default_rng(seed)
    errors_kept(model, X[::2] + far * rng.normal(size=X[::2].shape))


def test_bounds_are_small_where_they_matter():
    X, y = flagged(1500, 10, 4)
    model = CoreVectorClassifier(
        gamma=5.0, C=10.0, random_state=0, method=methods.Cells(200)
    ).fit(X, y)
    new, _ = flagged(1000, 10, 4, seed=1)
    errors = errors_kept(model, new)
    assert np.median(errors) < 0.01 * np.abs(model.decision_function(new)).mean()


CASES = {
    "two classes": ({}, 2),
    "trees": ({"method": methods.Cells(60, n_trees=3)}, 2),
    "one per class": ({}, 4),
    "one per class, trees": ({"method": methods.Cells(60, n_trees=2)}, 4),
    "one per pair": ({"multi_class": "ovo"}, 4),
    "sharp": ({"gamma": 1e4, "C": 1e4}, 2),
    "linear": ({"kernel": "linear"}, 2),
    "float32": ({}, 3),
}


@pytest.mark.parametrize("case", CASES)
def test_labels_by_float32_are_those_of_the_exact_values(case):
    more, classes = CASES[case]
    X, y = board(900, classes=classes)
    new = np.vstack([board(2000, seed=1)[0], 8 * board(500, seed=2)[0] - 10])
    if case == "float32":
        X, new = X.astype(np.float32), new.astype(np.float32)
    given = {"method": methods.Cells(60), **NEAR, **more}
    model = CoreVectorClassifier(**given).fit(X, NAMES[y])
    exact = model._values(new)
    found = values_for_labels(model, new)
    if case == "one per pair":
        assert np.array_equal(found, exact)
        return
    codes = exact.argmax(axis=1) if classes > 2 else (exact[:, 0] > 0).astype(int)
    assert np.array_equal(model.predict(new), NAMES[codes])
    if case in ("linear", "float32"):
        assert np.array_equal(found, exact)
    elif case != "sharp":  # where float32 proves nothing
        assert not np.array_equal(found, exact)


def test_rows_that_float32_leaves_undecided_are_recomputed():
    """Along a line across borders, and at the border itself found by bisection."""
    X, y = board(900)
    model = CoreVectorClassifier(method=methods.Cells(60), **NEAR).fit(X, y)
    low, high = X[y == 0][:200], X[y == 1][:200]
    for _ in range(45):
        middle = (low + high) / 2
        up = model.decision_function(middle) > 0
        high, low = (
            np.where(up[:, None], middle, high),
            np.where(~up[:, None], middle, low),
        )
    border = np.vstack([low, high])
    exact = model.decision_function(border)
    assert np.median(np.abs(exact)) < 1e-9
    assert np.array_equal(values_for_labels(model, border)[:, 0] > 0, exact > 0)
    asked = []

    def is_open(values, errors):
        asked.append(np.abs(values) <= errors)
        return asked[-1][:, 0]

    model._forest.values_that_decide(as_source(board(2000, seed=1)[0]), is_open)
    assert np.concatenate(asked).mean() < 0.02


def test_a_model_without_an_intercept_is_decided_far_away():
    """All kernel values are below what float32 holds: the sign is not."""
    X, y = board(500)

    class Plain(CoreVectorClassifier):
        fit_intercept = False

    model = Plain(method=methods.Cells(60), **NEAR).fit(X, y)
    turn = np.linspace(0, 2 * np.pi, 200)
    # On a circle around the board: gamma |x - z|^2 is 100 to 400.
    new = 2 + 11 * np.column_stack([np.cos(turn), np.sin(turn)])
    exact = model._values(new)
    assert np.array_equal(values_for_labels(model, new) > 0, exact > 0)
    assert len(np.unique(exact > 0)) == 2


# --- memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("n_trees", [1, 3])
def test_support_vectors_and_coefficients_are_stored_once(form, n_trees):
    X, y = flagged(300, 3, 2)
    model = CoreVectorClassifier(method=methods.Cells(60, n_trees=n_trees), **NEAR).fit(
        form(X), y
    )
    values, trees = model.support_vectors_, model._forest.trees
    start = 0
    for one in trees:
        stop = start + len(one.basis)
        part = one.basis.values
        assert abs(part - values[start:stop]).max() == 0
        both = (part, values) if form is np.asarray else (part.data, values.data)
        assert np.shares_memory(*both)
        assert np.shares_memory(one.coef, model.dual_coef_)
        assert np.array_equal(one.coef, model.dual_coef_.T[start:stop])
        assert np.array_equal(
            X[one.basis.index], part if form is np.asarray else part.toarray()
        )
        start = stop
    assert start == len(values if form is np.asarray else values.indptr[1:])
    assert start == len(model.support_)
