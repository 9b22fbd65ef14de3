"""Cells for regression and detection, from every source and of any scale."""

import naive
import numpy as np
import pytest
from cells_twin import NEAR, board, by_hand, waves
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs

import corevec
from corevec import (
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    methods,
)


def spread():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 5))
    X[:, 3] *= rng.random(3000) < 0.5  # zeros, for CSR
    y = np.where(np.sin(3 * X[:, 0]) + X[:, 1] > 0, 7, 2)
    return X, y, rng.integers(0, 3, 3000).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("where", ["csr", "memmap", "parquet", "dask"])
def test_every_source_gives_the_same_cells(where, weighted, tmp_path):
    X, y, s = spread()
    weight = s if weighted else None
    model = CoreVectorClassifier(random_state=0, method=methods.Cells(100, n_trees=2))
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
def test_huge_and_tiny_columns_change_nothing(exponent):
    """Powers of two: the same machines to the last digits."""
    X, y = board(600)
    asked = {"C": 5.0, "random_state": 0, "method": methods.Cells(50, n_trees=2)}
    plain = CoreVectorClassifier(**asked).fit(X, y).decision_function(X)
    scaled = np.ldexp(X, exponent)
    found = CoreVectorClassifier(**asked).fit(scaled, y).decision_function(scaled)
    assert found == pytest.approx(plain, abs=1e-6)


def test_float32_rows_are_solved_and_predicted():
    X, y = board(600)
    half = X.astype(np.float32)
    model = CoreVectorClassifier(method=methods.Cells(60), **NEAR).fit(half, y)
    assert model.support_vectors_.dtype == np.float32
    new = board(200, seed=1)[0].astype(np.float32)
    signs = np.where(y == 1, 1, -1)[:, None]
    exact = by_hand(model, half.astype(float), signs, new.astype(float))[0]
    assert model.decision_function(new) == pytest.approx(exact[:, 0], abs=1e-3)


def test_a_wide_sparse_training_set_is_solved():
    X, y = make_blobs(600, 40, centers=6, cluster_std=4.0, random_state=0)
    X[np.abs(X) < 2] = 0.0
    asked = {"gamma": 0.01, "C": 5.0, "random_state": 0, "method": methods.Cells(60)}
    dense = CoreVectorClassifier(**asked).fit(X, y)
    thin = CoreVectorClassifier(**asked).fit(sparse.csr_array(X), y)
    assert sparse.issparse(thin.support_vectors_)
    wanted = dense.decision_function(X)
    assert thin.decision_function(X) == pytest.approx(wanted, abs=1e-6)


# --- numbers, and a single class ------------------------------------------------------


@pytest.mark.parametrize("tube", [0.5, "auto", "paper"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_regressor_solves_the_problem_of_every_cell(tube, weighted):
    """The target is standardised once, by all rows; a tube costs its cell's weight."""
    X, y, s = waves(400)
    s = s if weighted else np.ones(len(X))
    asked = {"C": 5.0, "gamma": 2.0, "mu": 0.2}
    model = CoreVectorRegressor(
        tube=tube, random_state=0, method=methods.Cells(50), **asked
    )
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


def test_a_regressor_of_one_cell_is_the_global_model():
    X, y, s = waves(300)
    asked = {"C": 5.0, "gamma": 2.0, "random_state": 0}
    both = np.column_stack([y, -2 * y + X[:, 0]])
    local = CoreVectorRegressor(method=methods.Cells(300), **asked).fit(X, both, s)
    whole = CoreVectorRegressor(tol=1e-10, **asked).fit(X, both, s)
    assert local.predict(X) == pytest.approx(whole.predict(X), abs=1e-5)
    assert local.tube_ == pytest.approx(whole.tube_, abs=1e-6)


@pytest.mark.parametrize("n_trees", [1, 2])
def test_a_detector_solves_the_problem_of_every_cell(n_trees):
    X, _, s = waves(400)
    model = CoreVectorOneClass(
        C=0.5, gamma=2.0, random_state=0, method=methods.Cells(50, n_trees=n_trees)
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
    model = CoreVectorOneClass(
        nu=0.05, gamma=0.5, random_state=0, method=methods.Cells(100)
    ).fit(X)
    assert (model.predict(X) < 0).mean() == pytest.approx(0.05, abs=0.002)
    assert model.predict([[4.0, 4.0], [30.0, -30.0]]).tolist() == [-1, -1]
    assert model.predict([[0.0, 0.0], [8.0, 8.0]]).tolist() == [1, 1]


@pytest.mark.parametrize(
    "estimator", [CoreVectorRegressor, CoreVectorOneClass], ids=lambda e: e.__name__
)
def test_rows_of_weight_zero_are_absent_from_regressors_and_detectors(estimator):
    X, y, _ = waves(600)
    s = np.where(X[:, 0] < 1.5, 0.0, 1.0)
    kept = s > 0
    asked = {"gamma": 2.0, "C": 1.0, "random_state": 0, "method": methods.Cells(40)}
    weighted = estimator(**asked).fit(X, y, sample_weight=s)
    without = estimator(**asked).fit(X[kept], y[kept])
    values = getattr(weighted, "score_samples", weighted.predict)(X)
    wanted = getattr(without, "score_samples", without.predict)(X)
    assert values == pytest.approx(wanted, abs=1e-9)
