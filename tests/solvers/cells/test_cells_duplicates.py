"""Duplicate rows of a cell are merged, and the bounds of a cell hold."""

import naive
import numpy as np
import pytest
from cells_twin import NEAR, board, by_hand, solve_one
from scipy import sparse

from corevec import CoreVectorClassifier, methods
from corevec.problems import AutomaticTube, Labels, regression, two_class
from corevec.solvers.cells import MERGE_MIN_ROWS


def crowded():
    """Return rows of which so many are duplicates that they are merged."""
    X, y = board(600)
    rng = np.random.default_rng(1)
    many = 2 * MERGE_MIN_ROWS  # a third of them will weigh nothing
    X = np.vstack([X, np.tile([1.5, 2.5], (many, 1))])
    y = np.concatenate([y, (rng.random(many) < 0.3).astype(int)])
    mixed = rng.permutation(len(X))
    s = rng.integers(0, 3, len(X)).astype(float)
    return X[mixed], y[mixed], s


@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_duplicates_of_one_label_are_merged_with_summed_weights(form, weighted):
    X, y, s = crowded()
    if form is np.float32:
        X = X.astype(np.float32)
    s = s if weighted else np.ones(len(X))
    model = CoreVectorClassifier(method=methods.Cells(100), **NEAR).fit(
        form(X), y, sample_weight=s if weighted else None
    )
    assert model.n_core_ > MERGE_MIN_ROWS
    # The twin gets each distinct row once.
    keys, place = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True)
    weight = np.bincount(place.ravel(), s)
    signs = np.where(keys[:, 2] == 1, 1, -1)[:, None]
    new = board(200, seed=1)[0]
    # The keys are float64.
    wanted, proved = by_hand(model, keys[:, :2], signs, new, weight)
    error = 1e-6 if form is not np.float32 else 1e-4
    assert model.decision_function(new) == pytest.approx(wanted[:, 0], abs=error)
    assert model.certificate_.primal == pytest.approx(proved[0], rel=10 * error)
    assert len(model.support_) < 700


def test_sparse_duplicates_are_found_whatever_their_storage():
    """CSR rows can store one value twice or a zero explicitly."""
    n = MERGE_MIN_ROWS + 100
    parts = [np.tile([1.0, 1.0, 0.0], n), np.tile([1, 1, 0], n), np.arange(n + 1) * 3]
    plain = sparse.csr_array((np.full(n, 2.0), np.full(n, 1), np.arange(n + 1)), (n, 2))
    odd = sparse.csr_array(tuple(parts), (n, 2))
    codes = np.arange(n) % 2
    both = sparse.vstack([plain[: n // 2], odd[n // 2 :]], format="csr")
    problem = two_class(Labels(n, codes), 1.0, 1, 0)
    found = solve_one(problem, both)
    assert len(found.basis) == 2
    assert found.primal == pytest.approx(solve_one(problem, plain).primal)


@pytest.mark.parametrize("tube", [0.1, None])
def test_duplicates_of_a_regression_are_merged(tube):
    """With a fixed tube, and the automatic one, whose price is the total weight."""
    rng = np.random.default_rng(0)
    few, counts = rng.random((20, 1)) * 4, rng.integers(100, 250, 20)
    z = np.round(np.sin(few[:, 0]) + 0.3 * rng.normal(size=20), 2)
    n = int(counts.sum())
    assert n > MERGE_MIN_ROWS
    width = AutomaticTube(0.1) if tube is None else tube
    many = regression(Labels(n), 2.0, z.repeat(counts), width)
    found = solve_one(many, few.repeat(counts, 0))
    K = naive.gram(few, gamma=1.0)
    if tube is None:
        wanted = naive.automatic_tube(K, z, 2.0, 0.1, counts)
    else:
        wanted = naive.fixed_tube(K, z, 2.0, tube, counts)
    assert len(found.basis) <= 20
    assert found.primal[0] == pytest.approx(wanted.primal, rel=1e-6)
    assert found.dual[0] == pytest.approx(wanted.dual, rel=1e-6)


def test_a_training_set_of_one_repeated_row_is_one_cell():
    X, y = np.ones((5000, 3)), (np.arange(5000) % 3 == 0).astype(int)
    model = CoreVectorClassifier(method=methods.Cells(100), **NEAR).fit(X, y)
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


@pytest.mark.parametrize("seed", range(9))
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
        assert found.gap <= 1e-6 + 4 * twin.rounding
        fixed = regression(labels, C, z, tube=0.2, has_bias=bias)
        tube = naive.fixed_tube(K, z, C, 0.2, s, bias=bias)
        found = solve_one(fixed, X, gamma)
        slack = tube.rounding + 1e-12 * tube.size
        assert found.dual[0] <= tube.primal + slack
        assert found.primal[0] >= tube.dual - slack
        assert found.primal[0] - found.dual[0] <= 1e-6 * tube.size + 4 * tube.rounding
