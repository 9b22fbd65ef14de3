"""Classifiers by cells: each cell has the exact solution of its own problem."""

import pickle
import warnings
from itertools import combinations

import numpy as np
import pytest
from cells_twin import NAMES, NEAR, assert_same_values, board, by_hand

from corevec import CoreVectorClassifier, NotCertifiedWarning, methods

KERNELS = {
    "rbf": {},
    "laplacian": {},
    "linear": {"C": 0.5},
    "poly": {"gamma": 0.25, "degree": 2, "coef0": 1.0},
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_cell_holds_the_machine_of_its_rows(kernel):
    X, y = board(500)
    new = board(300, seed=1)[0]
    model = CoreVectorClassifier(
        kernel=kernel, method=methods.Cells(60), **{**NEAR, **KERNELS[kernel]}
    )
    model.fit(X, y)
    assert model.n_cells_ == 8
    assert_same_values(model, X, y, new)


@pytest.mark.parametrize("n_trees", [2, 3])
def test_several_trees_are_averaged(n_trees):
    X, y = board(400)
    model = CoreVectorClassifier(method=methods.Cells(50, n_trees=n_trees), **NEAR).fit(
        X, y
    )
    assert len(model._forest.trees) == n_trees
    assert model.n_cells_ == 8 * n_trees
    assert_same_values(model, X, y, board(200, seed=1)[0])
    alone = CoreVectorClassifier(method=methods.Cells(50), **NEAR).fit(X, y)
    first = model._forest.trees[0].tree
    assert np.array_equal(first.directions, alone._forest.trees[0].tree.directions)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 1: 0.5}])
def test_weights_count_in_every_cell(class_weight):
    X, y = board(500)
    y[X[:, 0] > 3] = 1
    s = np.random.default_rng(2).integers(1, 4, len(X)).astype(float)
    model = CoreVectorClassifier(
        class_weight=class_weight, method=methods.Cells(60), **NEAR
    )
    model.fit(X, y, sample_weight=s)
    mass = np.array([s[y == 0].sum(), s[y == 1].sum()])
    share = {"balanced": mass.sum() / (2 * mass), None: np.ones(2)}
    by_class = share[class_weight] if not isinstance(class_weight, dict) else [3.0, 0.5]
    assert_same_values(model, X, y, board(200, seed=1)[0], s * np.asarray(by_class)[y])


@pytest.mark.parametrize("n_trees", [1, 2])
def test_a_row_of_weight_zero_is_absent(n_trees):
    """From the tree too: the same model as without those rows."""
    X, y = board(900)
    # A corner where nothing weighs, large enough for cells of its own.
    s = np.where((X[:, 0] < 1.5) & (X[:, 1] < 2), 0.0, 1.0)
    s[::7] = 0.0
    kept = s > 0
    asked = {"method": methods.Cells(40, n_trees=n_trees)} | NEAR
    weighted = CoreVectorClassifier(**asked).fit(X, y, sample_weight=s)
    without = CoreVectorClassifier(**asked).fit(X[kept], y[kept])
    new = board(500, seed=1)[0]
    found, wanted = weighted.decision_function(new), without.decision_function(new)
    assert found == pytest.approx(wanted, abs=1e-9)
    assert kept[weighted.support_].all()


def test_a_class_of_weight_zero_is_absent():
    X, y = board(600, classes=3)
    asked = {
        "class_weight": {0: 1.0, 1: 0.0, 2: 1.0},
        "method": methods.Cells(50),
    } | NEAR
    model = CoreVectorClassifier(**asked).fit(X, y)
    without = CoreVectorClassifier(method=methods.Cells(50), **NEAR).fit(
        X[y != 1], y[y != 1]
    )
    new = board(300, seed=1)[0]
    assert np.array_equal(model.predict(new), without.predict(new))


def test_a_weight_of_two_is_the_row_twice():
    """In one cell: several are cut by rows, so their borders would differ."""
    X, y = board(150)
    s = np.random.default_rng(0).integers(0, 4, len(X))
    new = board(200, seed=1)[0]
    weighted = CoreVectorClassifier(method=methods.Cells(500), **NEAR).fit(
        X, y, s.astype(float)
    )
    repeated = CoreVectorClassifier(method=methods.Cells(500), **NEAR).fit(
        X.repeat(s, 0), y.repeat(s)
    )
    wanted = repeated.decision_function(new)
    assert weighted.decision_function(new) == pytest.approx(wanted, abs=1e-6)


def test_one_machine_per_class_in_every_cell():
    X, y = board(500, classes=4)
    new = board(300, seed=1)[0]
    model = CoreVectorClassifier(method=methods.Cells(60), **NEAR).fit(X, NAMES[y])
    signs = np.where(y[:, None] == np.arange(4), 1, -1)
    wanted, _ = by_hand(model, X, signs, new)
    assert model.decision_function(new) == pytest.approx(wanted, abs=1e-6)
    assert np.array_equal(model.predict(new), NAMES[wanted.argmax(axis=1)])


def test_one_machine_per_pair_in_every_cell():
    X, y = board(500, classes=4)
    new = board(300, seed=1)[0]
    model = CoreVectorClassifier(
        multi_class="ovo", method=methods.Cells(60), **NEAR
    ).fit(X, NAMES[y])
    pairs = list(combinations(range(4), 2))
    signs = np.stack([1 * (y == j) - 1 * (y == i) for i, j in pairs], axis=1)
    wanted, _ = by_hand(model, X, signs, new)
    votes = np.zeros((len(new), 4))
    for t, (i, j) in enumerate(pairs):
        votes[np.arange(len(new)), np.where(wanted[:, t] > 0, j, i)] += 1
    found = model.decision_function(new)
    assert np.array_equal(np.rint(found), votes)
    clear = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) == 1
    assert clear.mean() > 0.9
    assert np.array_equal(model.predict(new)[clear], NAMES[votes.argmax(axis=1)[clear]])


def test_a_classifier_of_one_cell_is_the_global_model():
    X, y = board(300)
    new = board(300, seed=1)[0]
    local = CoreVectorClassifier(method=methods.Cells(300), **NEAR).fit(X, y)
    whole = CoreVectorClassifier(tol=1e-10, **NEAR).fit(X, y)
    assert local.n_cells_ == 1
    assert whole.certificate_.converged
    wanted = whole.decision_function(new)
    assert local.decision_function(new) == pytest.approx(wanted, abs=1e-6)
    assert local.certificate_.primal == pytest.approx(whole.certificate_.primal)


# --- cells that are not like others ---------------------------------------------------


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_pure_cells_predict_their_class(multi_class, n_classes):
    """All cells are pure: no cell has a vector at all."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8) % n_classes, 100)
    X = 100.0 * np.repeat(np.arange(8), 100)[:, None] + rng.random((800, 1))
    model = CoreVectorClassifier(
        multi_class=multi_class, method=methods.Cells(50), **NEAR
    )
    model.fit(X, NAMES[y % 4] if n_classes < 5 else y)
    assert len(model.support_) == 0
    labels = NAMES[y % 4] if n_classes < 5 else y
    assert np.array_equal(model.predict(X), labels)
    assert np.array_equal(model.predict(X[:1]), labels[:1])
    assert model.certificate_.relative_gap == 0
    assert not model.certificate_.converged
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), labels)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_a_class_that_is_not_in_a_cell_is_not_predicted_there(multi_class, kernel):
    rng = np.random.default_rng(0)
    X = rng.random((1200, 2)) * 6
    y = (X[:, 0].astype(int) + rng.integers(0, 2, 1200)) % 6
    model = CoreVectorClassifier(
        multi_class=multi_class, kernel=kernel, method=methods.Cells(60), **NEAR
    )
    model.fit(X, y)
    new = rng.normal(size=(20_000, 2)) * 10
    tree = model._forest.trees[0].tree
    old, where = tree.cells_of(X), tree.cells_of(new)
    predicted = model.predict(new)
    missing = 0
    for cell in np.unique(where):
        here = np.unique(y[old == cell])
        missing += len(here) < 6
        assert np.isin(predicted[where == cell], here).all()
    assert missing > 5


def test_a_single_row_of_a_class_counts():
    X, y = board(600)
    y = np.where((X[:, 0] < 2) & (X[:, 1] < 2), 0, y)
    lonely = np.argmin(np.abs(X - 1).sum(axis=1))
    y[lonely] = 1
    model = CoreVectorClassifier(
        method=methods.Cells(40), **{**NEAR, "C": 100.0, "gamma": 30.0}
    )
    model.fit(X, y)
    assert_same_values(model, X, y, X)
    assert model.predict(X[[lonely]]) == [1]


def test_new_rows_far_away_are_predicted():
    X, y = board(500)
    model = CoreVectorClassifier(method=methods.Cells(60), **NEAR).fit(X, y)
    far = np.array([[1e9, 1e9], [-1e9, 0.0], [0.0, 1e150]])
    assert np.isfinite(model.decision_function(far)).all()


# --- what is said about it ------------------------------------------------------------


def test_the_certificate_adds_up_the_cells_and_claims_no_more():
    X, y = board(500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CoreVectorClassifier(method=methods.Cells(60, n_trees=2), **NEAR).fit(
            X, y
        )
    found = model.certificate_
    primal, dual = assert_same_values(model, X, y, X)
    assert found.primal == pytest.approx(primal, rel=1e-6)
    assert found.dual == pytest.approx(dual, rel=1e-6)
    assert found.dual <= primal * (1 + 1e-12)
    assert dual <= found.primal * (1 + 1e-12)
    assert not found.converged
    assert str(found).startswith("Certificate: of each cell, not of the whole problem")
    assert found.stopped_by == "cells"
    assert (found.n_verified, found.n_rows) == (500, 500)
    assert 0 <= found.relative_gap < 1e-6
    assert "global problem" in found.problem
    assert "16 local problems" in found.problem


def test_the_worst_gap_is_that_of_the_worst_cell():
    X, y = board(500)
    model = CoreVectorClassifier(method=methods.Cells(60), **NEAR).fit(X, y)
    worst = model.certificate_.relative_gap
    overall = 1 - model.certificate_.dual / model.certificate_.primal
    assert worst >= overall - 1e-15


def test_a_local_boundary_is_learnt():
    """16 x 16 fields: no model of 500 rows can know them."""
    rng = np.random.default_rng(0)
    X = rng.random((44_000, 2)) * 16
    y = X.astype(int).sum(axis=1) % 2
    train, test = slice(0, 40_000), slice(40_000, None)
    asked = {"C": 100.0, "gamma": 5.0, "random_state": 0}
    local = CoreVectorClassifier(method=methods.Cells(400), **asked).fit(
        X[train], y[train]
    )
    small = CoreVectorClassifier(method=methods.CoreSet(max_vectors=500), **asked)
    with pytest.warns(NotCertifiedWarning):
        small.fit(X[train], y[train])
    assert local.score(X[test], y[test]) > 0.95
    assert local.score(X[test], y[test]) > small.score(X[test], y[test]) + 0.1
