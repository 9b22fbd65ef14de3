"""Local machines: in every cell the exact solution of the cell's own problem.

The slow twin: rows are routed by the tree, and each cell's rows solved by `naive`.
"""

import json
import pickle
import subprocess
import sys
import warnings
from itertools import combinations

import naive
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import corevec
from corevec import (
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    NotCertifiedWarning,
)
from corevec.cells import MERGED_FROM, solve_cell
from corevec.exceptions import InvalidInputError
from corevec.kernels import make_kernel
from corevec.problems import Labels, regression, two_class
from corevec.sources import Workers, as_source, row_statistics

NEAR = {"gamma": 2.0, "C": 5.0, "random_state": 0, "n_jobs": 1}


def board(n, seed=0, classes=2):
    """Return rows on a board of 4 x 4 fields; colours 0, 1, ... and some noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)) * 4
    y = X.astype(int).sum(axis=1) % classes
    noisy = rng.random(n) < 0.05
    return X, np.where(noisy, rng.integers(0, classes, n), y)


def machine(X, y, new, model, s=None, *, bias=True):
    """Return the values of one cell's two-class machine on new rows, and its bracket.

    y is +1, -1 or 0 (absent). Rows of one sign: that sign, and nothing to prove.
    """
    s = np.ones(len(X)) if s is None else s
    here = (y != 0) & (s > 0)
    signs = np.unique(y[here])
    if len(signs) < 2:
        return np.full(len(new), signs[0] if len(signs) else 0.0), (0.0, 0.0)
    shape = {"kernel": model.kernel, "gamma": model.gamma}
    shape |= {"degree": model.degree, "coef0": model.coef0}
    X, y, s = X[here], y[here].astype(float), s[here]
    found = naive.hinge(naive.gram(X, **shape), y, model.C, s, bias=bias)
    c = found.b * y
    values = naive.gram(new, X, **shape) @ c + bias * c.sum()
    return values, (found.primal, found.dual)


def by_hand(model, X, signs, new, s=None):
    """Return the mean over the trees of the cells' machines; and the two sums.

    `signs` has a column of +1, -1 and 0 per machine.
    """
    trees = model._forest.trees
    values, proved = np.zeros((len(new), signs.shape[1])), np.zeros(2)
    for one in trees:
        old, where = one.tree.cells_of(X), one.tree.cells_of(new)
        for cell in np.unique(old):
            rows, at = old == cell, np.flatnonzero(where == cell)
            weight = None if s is None else s[rows]
            for t in range(signs.shape[1]):
                own = (X[rows], signs[rows, t], new[at], model, weight)
                found, bracket = machine(*own)
                values[at, t] += found / len(trees)
                proved += np.array(bracket) / len(trees)
    return values, proved


def assert_same_values(model, X, y, new, s=None):
    signs = np.where(y == model.classes_[1], 1, -1)[:, None]
    wanted, proved = by_hand(model, X, signs, new, s)
    assert model.decision_function(new) == pytest.approx(wanted[:, 0], abs=1e-6)
    return proved


# --- the machine of a cell ------------------------------------------------------------


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
    model = CoreVectorClassifier(cells=60, kernel=kernel, **{**NEAR, **KERNELS[kernel]})
    model.fit(X, y)
    assert model.n_cells_ == 8
    assert_same_values(model, X, y, new)


@pytest.mark.parametrize("n_trees", [2, 3])
def test_several_trees_are_averaged(n_trees):
    X, y = board(400)
    model = CoreVectorClassifier(cells=50, n_trees=n_trees, **NEAR).fit(X, y)
    assert len(model._forest.trees) == n_trees
    assert model.n_cells_ == 8 * n_trees
    assert_same_values(model, X, y, board(200, seed=1)[0])
    alone = CoreVectorClassifier(cells=50, **NEAR).fit(X, y)
    first = model._forest.trees[0].tree
    assert np.array_equal(first.directions, alone._forest.trees[0].tree.directions)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 1: 0.5}])
def test_weights_count_in_every_cell(class_weight):
    X, y = board(500)
    y[X[:, 0] > 3] = 1
    s = np.random.default_rng(2).integers(1, 4, len(X)).astype(float)
    model = CoreVectorClassifier(cells=60, class_weight=class_weight, **NEAR)
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
    asked = {"cells": 40, "n_trees": n_trees} | NEAR
    weighted = CoreVectorClassifier(**asked).fit(X, y, sample_weight=s)
    without = CoreVectorClassifier(**asked).fit(X[kept], y[kept])
    new = board(500, seed=1)[0]
    found, wanted = weighted.decision_function(new), without.decision_function(new)
    assert found == pytest.approx(wanted, abs=1e-9)
    assert kept[weighted.support_].all()


def test_a_class_of_weight_zero_is_absent():
    X, y = board(600, classes=3)
    asked = {"cells": 50, "class_weight": {0: 1.0, 1: 0.0, 2: 1.0}} | NEAR
    model = CoreVectorClassifier(**asked).fit(X, y)
    without = CoreVectorClassifier(cells=50, **NEAR).fit(X[y != 1], y[y != 1])
    new = board(300, seed=1)[0]
    assert np.array_equal(model.predict(new), without.predict(new))


def test_a_weight_of_two_is_the_row_twice():
    """In one cell: several are cut by rows, so their borders would differ."""
    X, y = board(150)
    s = np.random.default_rng(0).integers(0, 4, len(X))
    new = board(200, seed=1)[0]
    weighted = CoreVectorClassifier(cells=500, **NEAR).fit(X, y, s.astype(float))
    repeated = CoreVectorClassifier(cells=500, **NEAR).fit(X.repeat(s, 0), y.repeat(s))
    wanted = repeated.decision_function(new)
    assert weighted.decision_function(new) == pytest.approx(wanted, abs=1e-6)


NAMES = np.array(["ash", "birch", "cedar", "dogwood"])


def test_one_machine_per_class_in_every_cell():
    X, y = board(500, classes=4)
    new = board(300, seed=1)[0]
    model = CoreVectorClassifier(cells=60, **NEAR).fit(X, NAMES[y])
    signs = np.where(y[:, None] == np.arange(4), 1, -1)
    wanted, _ = by_hand(model, X, signs, new)
    assert model.decision_function(new) == pytest.approx(wanted, abs=1e-6)
    assert np.array_equal(model.predict(new), NAMES[wanted.argmax(axis=1)])


def test_one_machine_per_pair_in_every_cell():
    X, y = board(500, classes=4)
    new = board(300, seed=1)[0]
    model = CoreVectorClassifier(cells=60, multi_class="ovo", **NEAR).fit(X, NAMES[y])
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


def test_as_many_rows_as_a_cell_are_the_global_model():
    X, y = board(300)
    new = board(300, seed=1)[0]
    local = CoreVectorClassifier(cells=300, **NEAR).fit(X, y)
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
    model = CoreVectorClassifier(cells=50, multi_class=multi_class, **NEAR)
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
        cells=60, multi_class=multi_class, kernel=kernel, **NEAR
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
    model = CoreVectorClassifier(cells=40, **{**NEAR, "C": 100.0, "gamma": 30.0})
    model.fit(X, y)
    assert_same_values(model, X, y, X)
    assert model.predict(X[[lonely]]) == [1]


def test_new_rows_far_away_are_predicted():
    X, y = board(500)
    model = CoreVectorClassifier(cells=60, **NEAR).fit(X, y)
    far = np.array([[1e9, 1e9], [-1e9, 0.0], [0.0, 1e150]])
    assert np.isfinite(model.decision_function(far)).all()


# --- equal rows -----------------------------------------------------------------------


def crowded():
    """Return rows of which more than a cell can merge from are the same."""
    X, y = board(600)
    rng = np.random.default_rng(1)
    many = 2 * MERGED_FROM  # a third of them will weigh nothing
    X = np.vstack([X, np.tile([1.5, 2.5], (many, 1))])
    y = np.concatenate([y, (rng.random(many) < 0.3).astype(int)])
    mixed = rng.permutation(len(X))
    s = rng.integers(0, 3, len(X)).astype(float)
    return X[mixed], y[mixed], s


@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_rows_of_a_label_are_one_row_of_their_weight(form, weighted):
    X, y, s = crowded()
    if form is np.float32:
        X = X.astype(np.float32)
    s = s if weighted else np.ones(len(X))
    model = CoreVectorClassifier(cells=100, **NEAR).fit(
        form(X), y, sample_weight=s if weighted else None
    )
    assert model.n_core_ > MERGED_FROM
    # The twin gets each different row once.
    keys, place = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True)
    weight = np.bincount(place.ravel(), s)
    signs = np.where(keys[:, 2] == 1, 1, -1)[:, None]
    new = board(200, seed=1)[0]
    # The tree is asked with the rows as they were: keys are float64.
    wanted, proved = by_hand(model, keys[:, :2], signs, new, weight)
    error = 1e-6 if form is not np.float32 else 1e-4
    assert model.decision_function(new) == pytest.approx(wanted[:, 0], abs=error)
    assert model.certificate_.primal == pytest.approx(proved[0], rel=10 * error)
    assert len(model.support_) < 700


def test_entries_stored_twice_or_as_zero_are_merged():
    """CSR rows may say the same in several ways."""
    n = MERGED_FROM + 100
    parts = [np.tile([1.0, 1.0, 0.0], n), np.tile([1, 1, 0], n), np.arange(n + 1) * 3]
    plain = sparse.csr_array((np.full(n, 2.0), np.full(n, 1), np.arange(n + 1)), (n, 2))
    odd = sparse.csr_array(tuple(parts), (n, 2))
    codes = np.arange(n) % 2
    both = sparse.vstack([plain[: n // 2], odd[n // 2 :]], format="csr")
    problem = two_class(Labels(n, codes), 1.0, 1, 0)
    found = solve_one(problem, both)
    assert len(found.basis) == 2
    assert found.primal == pytest.approx(solve_one(problem, plain).primal)


def solve_one(problem, X, gamma=1.0):
    source = as_source(X, 2**28, Workers(1))
    kernel = make_kernel("rbf", gamma, 3, 0.0, row_statistics(source))
    return solve_cell([problem], source, kernel, source.numbers)


@pytest.mark.parametrize("tube", [0.1, None])
def test_equal_rows_of_a_regression_are_merged(tube):
    """With a fixed tube and the automatic one, whose price is the weight of all."""
    rng = np.random.default_rng(0)
    few, counts = rng.random((20, 1)) * 4, rng.integers(100, 250, 20)
    z = np.round(np.sin(few[:, 0]) + 0.3 * rng.normal(size=20), 2)
    n = int(counts.sum())
    assert n > MERGED_FROM
    both = {"tube": tube, "mu": 0.1}
    many = regression(Labels(n), 2.0, z.repeat(counts), **both)
    found = solve_one(many, few.repeat(counts, 0))
    K = naive.gram(few, gamma=1.0)
    if tube is None:
        wanted = naive.automatic_tube(K, z, 2.0, 0.1, counts)
    else:
        wanted = naive.fixed_tube(K, z, 2.0, tube, counts)
    assert len(found.basis) <= 20
    assert found.primal[0] == pytest.approx(wanted.primal, rel=1e-6)
    assert found.dual[0] == pytest.approx(wanted.dual, rel=1e-6)


def test_rows_that_are_all_equal_are_one_cell():
    X, y = np.ones((5000, 3)), (np.arange(5000) % 3 == 0).astype(int)
    model = CoreVectorClassifier(cells=100, **NEAR).fit(X, y)
    assert model.n_cells_ == 1
    assert model.predict(X[:2]).tolist() == [0, 0]
    # f = (k + 1) c: minus a third, up to what C and the penalty take.
    assert model.decision_function(X[:1]) == pytest.approx([-1 / 3], abs=1e-3)


def odd_rows(seed):
    """Return rows: plain, of a coarse grid (equal ones), or far from zero; weights."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    X = rng.random((n, 2))
    X = [X, np.round(3 * X) / 3, X + 1e4][seed % 3]
    codes = rng.integers(0, 2, n)
    codes[:2] = 0, 1
    return X, codes, 10 ** rng.uniform(-3, 3, n), rng.normal(size=n)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("gamma", [1e-5, 1.0, 1e3])
def test_the_bounds_of_a_cell_hold_and_are_close(seed, C, gamma):
    X, codes, s, z = odd_rows(seed)
    K, labels = naive.gram(X, gamma=gamma), Labels(len(X), codes, s)
    for bias in (True, False):
        y = np.where(codes == 1, 1.0, -1.0)
        twin = naive.hinge(K, y, C, s, bias=bias)
        found = solve_one(two_class(labels, C, 1, 0, has_bias=bias), X, gamma)
        slack = twin.rounding + 1e-12
        assert found.dual[0] <= twin.primal * (1 + slack)
        assert found.primal[0] >= twin.dual * (1 - slack)
        assert found.gap <= 1e-6 + 2 * twin.rounding
        fixed = regression(labels, C, z, tube=0.2, has_bias=bias)
        tube = naive.fixed_tube(K, z, C, 0.2, s, bias=bias)
        found = solve_one(fixed, X, gamma)
        slack = tube.rounding + 1e-12 * tube.size
        assert found.dual[0] <= tube.primal + slack
        assert found.primal[0] >= tube.dual - slack
        assert found.primal[0] - found.dual[0] <= 1e-6 * tube.size + 2 * tube.rounding


# --- what is said about it ------------------------------------------------------------


def test_the_certificate_adds_up_the_cells_and_claims_no_more():
    X, y = board(500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CoreVectorClassifier(cells=60, n_trees=2, **NEAR).fit(X, y)
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
    model = CoreVectorClassifier(cells=60, **NEAR).fit(X, y)
    worst = model.certificate_.relative_gap
    overall = 1 - model.certificate_.dual / model.certificate_.primal
    assert worst >= overall - 1e-15


def test_a_model_of_cells_that_ran_out_of_time_says_so():
    X, y = board(2000)
    asked = {"cells": 50, "n_trees": 50, "max_time": 1e-3} | NEAR
    with pytest.warns(NotCertifiedWarning, match="of 50 trees"):
        model = CoreVectorClassifier(**asked).fit(X, y)
    assert model.certificate_.stopped_by == "max_time"
    assert len(model._forest.trees) < 50
    assert_same_values(model, X, y, X[:50])


def test_a_local_boundary_is_learnt():
    """16 x 16 fields: no model of 500 rows can know them."""
    rng = np.random.default_rng(0)
    X = rng.random((44_000, 2)) * 16
    y = X.astype(int).sum(axis=1) % 2
    train, test = slice(0, 40_000), slice(40_000, None)
    asked = {"C": 100.0, "gamma": 5.0, "random_state": 0}
    local = CoreVectorClassifier(cells=400, **asked).fit(X[train], y[train])
    small = CoreVectorClassifier(max_core=500, low_rank=False, weights="core", **asked)
    with pytest.warns(NotCertifiedWarning):
        small.fit(X[train], y[train])
    assert local.score(X[test], y[test]) > 0.95
    assert local.score(X[test], y[test]) > small.score(X[test], y[test]) + 0.1


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"cells": 0}, "cells=0 must be None"),
        ({"cells": 19}, "at least 20"),
        ({"cells": -5}, "cells=-5"),
        ({"cells": 100.5}, "cells=100.5"),
        ({"cells": True}, "cells=True"),
        ({"cells": "many"}, "cells='many'"),
        ({"cells": 50, "n_trees": 0}, "n_trees=0 must be a whole number"),
        ({"cells": 50, "n_trees": 1.5}, "n_trees=1.5"),
        ({"cells": 50, "n_trees": True}, "n_trees=True"),
    ],
    ids=str,
)
def test_wrong_parameters_are_refused(wrong, text):
    X, y = board(100)
    with pytest.raises(InvalidInputError, match=f"CoreVectorClassifier: .*{text}"):
        CoreVectorClassifier(**wrong).fit(X, y)


def test_a_kernel_matrix_has_no_columns_to_cut():
    X, y = board(100)
    model = CoreVectorClassifier(kernel="precomputed", cells=50)
    with pytest.raises(InvalidInputError, match="precomputed"):
        model.fit(naive.gram(X), y)


# --- the company of scikit-learn ------------------------------------------------------


@parametrize_with_checks(
    [
        CoreVectorClassifier(cells=30),
        CoreVectorClassifier(cells=30, n_trees=2),
        CoreVectorClassifier(cells=30, multi_class="ovo", kernel="linear"),
        CoreVectorRegressor(cells=30, n_trees=2),
        CoreVectorRegressor(cells=30, tube=0.1),
        CoreVectorOneClass(cells=30, nu=0.1),
        CoreVectorOneClass(cells=30, n_trees=2),
    ]
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def test_copies_give_the_same_answers():
    X, y = board(400)
    model = CoreVectorClassifier(cells=50, n_trees=2, **NEAR).fit(X, y)
    wanted = model.decision_function(X)
    assert np.array_equal(
        pickle.loads(pickle.dumps(model)).decision_function(X), wanted
    )
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "_forest")
    assert np.array_equal(again.fit(X, y).decision_function(X), wanted)


@pytest.mark.parametrize("n_trees", [1, 2])
def test_threads_do_not_matter(n_trees):
    X, y = board(1500)
    fits = [
        CoreVectorClassifier(cells=50, n_trees=n_trees, **{**NEAR, "n_jobs": jobs})
        for jobs in (1, 2, 3)
    ]
    one, *others = [model.fit(X, y).decision_function(X) for model in fits]
    for found in others:
        assert np.array_equal(found, one)


def test_rows_predicted_alone_or_together_are_the_same():
    X, y = board(800)
    model = CoreVectorClassifier(cells=50, **NEAR).fit(X, y)
    wanted = model.decision_function(X)
    alone = [model.decision_function(X[[i]])[0] for i in range(40)]
    assert alone == pytest.approx(wanted[:40], abs=1e-12)
    turned = model.decision_function(X[::-1])[::-1]
    assert turned == pytest.approx(wanted, abs=1e-12)


def test_a_grid_search_over_cells_and_a_pipeline():
    X, y = board(600)
    line = make_pipeline(StandardScaler(), CoreVectorClassifier(**NEAR))
    grid = {"corevectorclassifier__cells": [None, 40, 200]}
    search = GridSearchCV(line, grid, cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ > 0.7


def test_data_frames_keep_their_names():
    pd = pytest.importorskip("pandas")
    X, y = board(300)
    frame = pd.DataFrame(X, columns=["left", "right"])
    labels = pd.Series(NAMES[y], index=np.arange(300) + 7)
    model = CoreVectorClassifier(cells=50, **NEAR).fit(frame, labels)
    assert list(model.feature_names_in_) == ["left", "right"]
    plain = CoreVectorClassifier(cells=50, **NEAR).fit(X, NAMES[y])
    assert np.array_equal(model.predict(frame), plain.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["right", "left"]])


def attributes(model):
    found = {name for name in vars(model) if name.endswith("_") or name[0] == "_"}
    return found - {"_stop_asked"}  # whether Ctrl-C came, set anew by every global fit


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_refit_leaves_nothing_of_the_other_kind(warm_start):
    X, y = board(300)
    asked = {"tol": 1e-6, "warm_start": warm_start} | NEAR
    local = CoreVectorClassifier(cells=50, **asked).fit(X, y)
    whole = CoreVectorClassifier(**asked).fit(X, y)
    there = CoreVectorClassifier(cells=50, **asked).fit(X, y)
    there.set_params(cells=None).fit(X, y)
    assert attributes(there) == attributes(whole)
    assert there.certificate_.converged
    wanted = whole.decision_function(X)
    assert there.decision_function(X) == pytest.approx(wanted, abs=1e-3)
    there.set_params(cells=50).fit(X, y)
    assert attributes(there) == attributes(local)
    assert np.array_equal(there.decision_function(X), local.decision_function(X))


# --- the same from every place --------------------------------------------------------


def spread():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 5))
    X[:, 3] *= rng.random(3000) < 0.5  # zeros, for CSR
    y = np.where(np.sin(3 * X[:, 0]) + X[:, 1] > 0, 7, 2)
    return X, y, rng.integers(0, 3, 3000).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("where", ["csr", "memmap", "parquet", "dask"])
def test_cells_are_the_same_from_every_place(where, weighted, tmp_path):
    X, y, s = spread()
    weight = s if weighted else None
    model = CoreVectorClassifier(cells=100, n_trees=2, random_state=0)
    wanted = clone(model).fit(X, y, weight)
    rows = placed(where, tmp_path, X, y, weight)
    found = clone(model).fit(*rows)
    assert found.n_cells_ == wanted.n_cells_
    exact = wanted.decision_function(X)
    # gamma="scale" is merged from the parts: it differs by rounding errors.
    values = found.decision_function(rows[0])
    assert np.asarray(values) == pytest.approx(exact, abs=1e-6)
    # And back: rows there, a model from here.
    if where != "parquet":  # whose columns have names
        values = wanted.decision_function(rows[0])
        assert np.asarray(values) == pytest.approx(exact, abs=1e-6)


def placed(where, folder, X, y, weight):
    if where == "csr":
        return sparse.csr_array(X), y, weight
    if where == "memmap":
        np.save(folder / "X.npy", X)
        return np.load(folder / "X.npy", mmap_mode="r"), y, weight
    if where == "dask":
        da = pytest.importorskip("dask.array")
        return da.from_array(X, chunks=(700, 5)), da.from_array(y, chunks=999), weight
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = {f"x{j}": X[:, j] for j in range(5)} | {"y": y}
    table |= {} if weight is None else {"w": weight}
    parquet.write_table(pa.table(table), folder / "a.parquet", row_group_size=800)
    named = {} if weight is None else {"sample_weight": "w"}
    return corevec.open(folder / "a.parquet", target="y", **named), None, None


@pytest.mark.parametrize("exponent", [-900, -500, 500, 900])
def test_huge_and_tiny_columns_are_like_others(exponent):
    """Powers of two: the same machines to the last digits."""
    X, y = board(600)
    asked = {"cells": 50, "C": 5.0, "n_trees": 2, "random_state": 0}
    plain = CoreVectorClassifier(**asked).fit(X, y).decision_function(X)
    scaled = np.ldexp(X, exponent)
    found = CoreVectorClassifier(**asked).fit(scaled, y).decision_function(scaled)
    assert found == pytest.approx(plain, abs=1e-6)


def test_float32_rows_are_solved_and_predicted():
    X, y = board(600)
    half = X.astype(np.float32)
    model = CoreVectorClassifier(cells=60, **NEAR).fit(half, y)
    assert model.support_vectors_.dtype == np.float32
    new = board(200, seed=1)[0].astype(np.float32)
    signs = np.where(y == 1, 1, -1)[:, None]
    exact = by_hand(model, half.astype(float), signs, new.astype(float))[0]
    assert model.decision_function(new) == pytest.approx(exact[:, 0], abs=1e-3)


def test_sharp_blobs_of_many_columns_in_csr():
    X, y = make_blobs(600, 40, centers=6, cluster_std=4.0, random_state=0)
    X[np.abs(X) < 2] = 0.0
    asked = {"cells": 60, "gamma": 0.01, "C": 5.0, "random_state": 0}
    dense = CoreVectorClassifier(**asked).fit(X, y)
    thin = CoreVectorClassifier(**asked).fit(sparse.csr_array(X), y)
    assert sparse.issparse(thin.support_vectors_)
    wanted = dense.decision_function(X)
    assert thin.decision_function(X) == pytest.approx(wanted, abs=1e-6)


# --- numbers, and a single class ------------------------------------------------------


def waves(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)) * 4
    y = 7 + 3 * np.sin(3 * X[:, 0]) * X[:, 1] + rng.normal(size=n)
    return X, y, rng.integers(0, 3, n).astype(float)


@pytest.mark.parametrize("tube", [0.5, "auto", "paper"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_regressor_solves_the_problem_of_every_cell(tube, weighted):
    """The target is standardised once, by all rows; a tube costs its cell's weight."""
    X, y, s = waves(400)
    s = s if weighted else np.ones(len(X))
    asked = {"C": 5.0, "gamma": 2.0, "mu": 0.2}
    model = CoreVectorRegressor(cells=50, tube=tube, random_state=0, **asked)
    model.fit(X, y, s if weighted else None)
    z, mean, scale = naive.standardised(y, s)
    new = waves(200, seed=1)[0]
    tree = model._forest.trees[0].tree
    old, where = tree.cells_of(X), tree.cells_of(new)
    wanted, proved = np.empty(len(new)), np.zeros(2)
    for cell in np.unique(old):
        here = (old == cell) & (s > 0)
        K = naive.gram(X[here], gamma=2.0)
        if tube == 0.5:
            found = naive.fixed_tube(K, z[here], 5.0, 0.5 / scale, s[here])
        else:
            free = tube == "paper"
            found = naive.automatic_tube(K, z[here], 5.0, 0.2, s[here], free=free)
        c = np.subtract(*found.b.reshape(2, -1))
        at = where == cell
        wanted[at] = naive.gram(new[at], X[here], gamma=2.0) @ c + c.sum()
        proved += found.primal, found.dual
    assert model.predict(new) == pytest.approx(mean + scale * wanted, abs=1e-5)
    assert model.certificate_.primal == pytest.approx(proved[0], rel=1e-6)
    assert model.certificate_.dual == pytest.approx(proved[1], rel=1e-6)
    assert not model.certificate_.converged


def test_a_regressor_of_as_many_rows_as_a_cell_is_the_global_one():
    X, y, s = waves(300)
    asked = {"C": 5.0, "gamma": 2.0, "random_state": 0}
    both = np.column_stack([y, -2 * y + X[:, 0]])
    local = CoreVectorRegressor(cells=300, **asked).fit(X, both, s)
    whole = CoreVectorRegressor(tol=1e-10, **asked).fit(X, both, s)
    assert local.predict(X) == pytest.approx(whole.predict(X), abs=1e-5)
    assert local.tube_ == pytest.approx(whole.tube_, abs=1e-6)


@pytest.mark.parametrize("n_trees", [1, 2])
def test_a_detector_solves_the_problem_of_every_cell(n_trees):
    X, _, s = waves(400)
    model = CoreVectorOneClass(
        C=0.5, gamma=2.0, cells=50, n_trees=n_trees, random_state=0
    ).fit(X, sample_weight=s)
    new = waves(200, seed=1)[0]
    wanted = np.zeros(len(new))
    for one in model._forest.trees:
        old, where = one.tree.cells_of(X), one.tree.cells_of(new)
        for cell in np.unique(old):
            here, at = (old == cell) & (s > 0), where == cell
            K = naive.gram(X[here], gamma=2.0)
            found = naive.hinge(K, np.ones(len(K)), 0.5, s[here], bias=False)
            wanted[at] += naive.gram(new[at], X[here], gamma=2.0) @ found.b / n_trees
    assert model.score_samples(new) == pytest.approx(wanted, abs=1e-6)


def test_a_detector_calls_the_share_asked_for_outliers():
    X = np.random.default_rng(0).normal(size=(1000, 2))
    X[:500] += 8
    model = CoreVectorOneClass(nu=0.05, gamma=0.5, cells=100, random_state=0).fit(X)
    assert (model.predict(X) < 0).mean() == pytest.approx(0.05, abs=0.002)
    assert model.predict([[4.0, 4.0], [30.0, -30.0]]).tolist() == [-1, -1]
    assert model.predict([[0.0, 0.0], [8.0, 8.0]]).tolist() == [1, 1]


@pytest.mark.parametrize(
    "estimator", [CoreVectorRegressor, CoreVectorOneClass], ids=lambda e: e.__name__
)
def test_a_weight_of_zero_is_absent_from_numbers_and_detectors(estimator):
    X, y, _ = waves(600)
    s = np.where(X[:, 0] < 1.5, 0.0, 1.0)
    kept = s > 0
    asked = {"cells": 40, "gamma": 2.0, "C": 1.0, "random_state": 0}
    weighted = estimator(**asked).fit(X, y, sample_weight=s)
    without = estimator(**asked).fit(X[kept], y[kept])
    values = getattr(weighted, "score_samples", weighted.predict)(X)
    wanted = getattr(without, "score_samples", without.predict)(X)
    assert values == pytest.approx(wanted, abs=1e-9)


# --- chosen inside --------------------------------------------------------------------


def test_gamma_and_C_are_chosen_by_a_part_of_the_training_rows():
    X, y = board(2000)
    model = CoreVectorClassifier(cells=100, gamma="tune", random_state=0).fit(X, y)
    new, colour = board(1000, seed=1)
    assert model.score(new, colour) > 0.85
    # Machines of what was chosen, in every cell.
    model.set_params(gamma=model.gamma_, C=model.C_)
    wanted, _ = by_hand(model, X, np.where(y == 1, 1, -1)[:, None], new)
    assert model.decision_function(new) == pytest.approx(wanted[:, 0], rel=1e-5)
    model.set_params(gamma=2.0).fit(X, y)
    assert not hasattr(model, "gamma_")
    assert not hasattr(model, "C_")


@pytest.mark.parametrize("n", [2, 8, 12])
def test_few_rows_can_be_tuned_too(n):
    X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2
    model = CoreVectorClassifier(cells=20, gamma="tune", random_state=0).fit(X, y)
    assert set(model.predict(X)) <= {0, 1}


def test_gamma_is_tuned_without_the_rows_of_weight_zero():
    X, y = board(800)
    s = np.where(X[:, 0] < 2, 0.0, 1.0)
    asked = {"cells": 50, "gamma": "tune", "random_state": 0}
    weighted = CoreVectorClassifier(**asked).fit(X, y, s)
    without = CoreVectorClassifier(**asked).fit(X[s > 0], y[s > 0])
    assert weighted.gamma_ == pytest.approx(without.gamma_)
    assert weighted.C_ == without.C_


# --- memory ---------------------------------------------------------------------------

# RssAnon leaves out the page cache, into which the file's own pages go.
SCRIPT = """
import json, sys, threading, time
import numpy as np
from corevec import CoreVectorClassifier

def anonymous():
    with open("/proc/self/status") as lines:
        return next(int(l.split()[1]) / 1024 for l in lines if l.startswith("RssAnon"))

peak, running = [0.0], True
def watch():
    while running:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.005)

X, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2])
model = CoreVectorClassifier(C=100.0, gamma=0.01, cells=500, memory_budget=2**25,
                             n_jobs=2, random_state=0)
model.fit(X[:1500], y[:1500]).predict(X[:1500])       # compile, start the threads
before = anonymous()
threading.Thread(target=watch, daemon=True).start()
model.fit(X, y)
fit_peak, peak[0] = peak[0], 0.0
right = float((model.predict(X) == y).mean())
running = False
print(json.dumps(dict(before=before, fit=fit_peak, predict=peak[0], right=right,
                      cells=model.n_cells_, size=model._forest.n_bytes / 2**20)))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_a_fit_needs_memory_for_its_model_and_the_cells_in_work(tmp_path):
    """160 MB in a file; the cells are long in one column and cut across it."""
    n, d = 100_000, 400
    rng = np.random.default_rng(0)
    X = 0.05 * rng.standard_normal((n, d), dtype=np.float32)
    y = rng.integers(0, 2, n)
    X[:, 0] += 8 * y
    X[:, 1] = 4000 * rng.random(n)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    del X
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "X.npy", tmp_path / "y.npy"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "X.npy").unlink()
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["cells"] == 256
    assert told["right"] > 0.99
    # The model twice (cell by cell, then stacked), 32 MB of budget, the kernel
    # matrices of two cells, the allocator.
    assert told["fit"] - told["before"] < 2 * told["size"] + 64
    # The model, and its vectors once more, prepared (`Cells.points`).
    assert told["predict"] - told["before"] < 2 * told["size"] + 64


def test_trees_left_out_for_want_of_time_are_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = X[:, 0] * X[:, 1] > 0
    model = CoreVectorClassifier(cells=200, n_trees=4, gamma=1.0, max_time=1e-6)
    with pytest.warns(NotCertifiedWarning, match="after 1 of 4 trees"):
        model.fit(X, y)
    assert model.certificate_.stopped_by == "max_time"
    assert not model.certificate_.converged
    whole = CoreVectorClassifier(cells=200, gamma=1.0, max_time=1e-6).fit(X, y)
    assert whole.certificate_.stopped_by == "cells"


@pytest.mark.filterwarnings("ignore::corevec.exceptions.NotCertifiedWarning")
def test_auto_takes_cells_where_the_boundary_is_local_and_says_so():
    rng = np.random.default_rng(0)
    X = rng.random((12_000, 2)) * 24
    y = X.astype(int).sum(axis=1) % 2  # 24 x 24 squares
    # A small core set: the global model is not what is looked at here.
    limits = {"max_core": 200, "low_rank": False, "weights": "core", "max_time": 5.0}
    asked = {"C": 100.0, "gamma": 2.0, "random_state": 0} | limits
    model = CoreVectorClassifier(cells="auto", **asked)
    few = model.fit(X[:2000], y[:2000])
    assert few.choice_ == {"choice": "global", "reason": "few rows"}
    assert not hasattr(few, "n_cells_")
    found = model.fit(X, y)
    assert set(found.choice_) == {"choice", "cells_error", "global_error"}
    better = found.choice_["cells_error"] < found.choice_["global_error"] - 0.003
    assert (found.choice_["choice"] == "cells") == better == hasattr(found, "n_cells_")
    assert found.history_[0]["choice"] == found.choice_["choice"]
