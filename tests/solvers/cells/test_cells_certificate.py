"""The certificate of a model of cells on given rows, against sums by NumPy."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel

import corevec
from corevec import methods
from corevec.data.sources import Workers
from corevec.solvers.cells import MERGE_MIN_ROWS, certify_cells

X, Y = make_moons(600, noise=0.25, random_state=0)
NEW, NEW_Y = make_moons(500, noise=0.25, random_state=1)
THREE, NEW_THREE = (np.digitize(rows[:, 0], [0.0, 1.0]) for rows in (X, NEW))
TARGET, NEW_TARGET = (np.sin(3 * rows[:, 0]) + rows[:, 1] for rows in (X, NEW))
LOCAL = {
    "gamma": 2.0,
    "random_state": 0,
    "n_jobs": 1,
    "method": methods.Cells(70, n_trees=2),
}


def certified(model, rows, y=None, weights=None, n_jobs=1):
    """Return what `certify` asks for, whoever calls it."""
    with Workers(n_jobs) as workers:
        given = model._given(model._validate_new(rows), y, weights, workers)
        problems = model._problems_for(given)
        return certify_cells(problems, given.source, model._forest, model.tol)


def machines(model, rows):
    """Yield, by NumPy alone, tree, rows of a cell, vectors, coef, intercepts."""
    for one in model._forest.trees:
        tree = one.tree
        node = np.zeros(len(rows), dtype=int)
        for _ in range(tree.depth):
            along = np.einsum("ij,ij->i", rows, tree.directions[node])
            node = 2 * node + 1 + (along > tree.thresholds[node])
        cells = node - (2**tree.depth - 1)
        for cell in np.unique(cells):
            part = slice(*one.starts[cell : cell + 2])
            vectors, coef = one.basis.values[part], one.coef[part]
            yield np.flatnonzero(cells == cell), vectors, coef, one.intercepts[cell]


def bounds(K, own, values, signs, omega, targets, bias, price=0.0, offset=0.0):
    """Return primal and dual of one problem: K among the entries, |w|^2 in `own`."""
    v = np.maximum(targets - signs * values - offset, 0.0)
    primal = own / 2 + omega @ v**2 / 2 + price * offset
    b = omega * v
    if b.sum() == 0:
        return primal, 0.0
    curve = (b * signs) @ (K + bias) @ (b * signs) + b @ (b / omega)
    scale = targets @ b / curve
    if price:
        scale = min(scale, price / b.sum())
    return primal, max(0.0, scale * (targets @ b) - scale**2 * curve / 2)


def by_hand(model, rows, signs, C, weights):
    """Return gaps, summed primal and dual of two-class machines, tree by tree."""
    gaps, total = [], np.zeros(2)
    for here, vectors, coef, intercept in machines(model, rows):
        worst = 0.0
        for t in range(len(intercept)):
            y, omega = signs[here, t], C * weights[here]
            used = coef[:, t] != 0
            if not used.any() and (y == intercept[t]).all():
                continue
            if not used.any():  # a constant: any vector will do, it counts 0
                used, vectors = np.ones(1, dtype=bool), rows[here[:1]]
                coef = np.zeros((1, len(intercept)))
            a, b = coef[used, t], vectors[used]
            values = rbf_kernel(rows[here], b, gamma=2.0) @ a + intercept[t]
            own = a @ rbf_kernel(b, gamma=2.0) @ a + intercept[t] ** 2
            K = rbf_kernel(rows[here], gamma=2.0)
            found = bounds(K, own, values, y, omega, np.ones(len(here)), 1.0)
            total += found
            worst = max(worst, (found[0] - found[1]) / found[0])
        gaps.append(worst)
    return np.array(gaps), *(total / len(model._forest.trees))


def signs_of(y, classes):
    return np.where(y[:, None] == np.asarray(classes), 1.0, -1.0)


@pytest.mark.parametrize("which", ["training", "new"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_certificate_of_a_classifier_is_that_by_hand(which, weighted, n_classes):
    y, new_y = (Y, NEW_Y) if n_classes == 2 else (THREE, NEW_THREE)
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.5, 2.0, len(X)) if weighted else np.ones(len(X))
    model = corevec.CoreVectorClassifier(C=5.0, **LOCAL).fit(X, y, weights)
    classes = [1] if n_classes == 2 else [0, 1, 2]
    if which == "new":
        weights = rng.uniform(0.5, 2.0, len(NEW)) if weighted else np.ones(len(NEW))
    rows, labels = (X, y) if which == "training" else (NEW, new_y)
    found = certified(model, rows, labels, weights)
    signs = signs_of(labels, classes)
    gaps, primal, dual = by_hand(model, rows, signs, 5.0, weights)
    np.testing.assert_allclose([found.primal, found.dual], [primal, dual], rtol=1e-9)
    np.testing.assert_allclose(found.relative_gap, gaps.max(), rtol=1e-6, atol=1e-9)
    assert f"{len(gaps)} local problems" in found.problem
    mean = float(found.problem.split("the mean ")[1].split(". ")[0])
    np.testing.assert_allclose(mean, gaps.mean(), rtol=0.06, atol=1e-9)


def fits():
    weights = np.random.default_rng(0).uniform(0, 2, len(X))
    weights[:30] = 0.0
    classifier, regressor = corevec.CoreVectorClassifier, corevec.CoreVectorRegressor
    yield "classes", classifier(C=5.0, **LOCAL), X, Y, None
    yield "weights", classifier(C=5.0, **LOCAL), X, Y, weights
    yield "classes weighted", classifier(class_weight="balanced", **LOCAL), X, Y, None
    yield "sparse", classifier(**LOCAL), sparse.csr_matrix(X), THREE, None
    yield "single", classifier(**LOCAL), X.astype(np.float32), Y, None
    yield "pairs", classifier(multi_class="ovo", **LOCAL), X, THREE, None
    yield "tube", regressor(mu=0.1, **LOCAL), X, TARGET, None
    yield "tube weighted", regressor(mu=0.1, **LOCAL), X, TARGET, weights
    yield "paper's tube", regressor(mu=2.0, tube="paper", **LOCAL), X, TARGET, None
    yield "fixed tube", regressor(tube=0.1, **LOCAL), X, TARGET, None
    tuned = {**LOCAL, "method": methods.Cells(70, n_trees=2, tune=True)}
    yield "tuned", classifier(C=5.0, **tuned), X, Y, None
    yield "tuned tube", regressor(mu=0.1, **tuned), X, TARGET, None
    two = np.stack([TARGET, X[:, 0]], axis=1)
    yield "targets", regressor(mu=0.1, **LOCAL), X, two, None
    yield "one-class", corevec.CoreVectorOneClass(C=0.5, **LOCAL), X, None, weights


FITS = {name: rest for name, *rest in fits()}


@pytest.mark.parametrize("name", FITS)
def test_the_training_set_gives_the_certificate_of_the_fit(name):
    model, rows, y, weights = FITS[name]
    said = model.fit(rows, y, weights).certificate_
    found = certified(model, rows, y, weights)
    assert said.relative_gap < 1e-6
    # Cells are solved to 1e-6 at least; float32 vectors are the rows themselves.
    np.testing.assert_allclose(found.primal, said.primal, rtol=1e-6)
    np.testing.assert_allclose(found.dual, said.dual, rtol=1e-6)
    assert found.relative_gap < 1e-6
    assert (found.n_verified, found.n_rows) == (len(Y), len(Y))
    weighing = 1.0 if weights is None else np.mean(weights > 0)
    assert found.passes == pytest.approx(said.passes) == 2.0 * weighing
    assert (found.converged, found.stopped_by) == (False, "cells")
    before, after = "local problems, one per cell", "Nothing is claimed about"
    assert found.problem.split(before)[0] == said.problem.split(before)[0]
    assert found.problem.split(after)[1] == said.problem.split(after)[1]


def test_certify_returns_the_certificate_of_cells():
    model = corevec.CoreVectorClassifier(C=5.0, **LOCAL).fit(X, Y)
    found, own = corevec.certify(model, NEW, NEW_Y), certified(model, NEW, NEW_Y)
    for name in ("problem", "primal", "dual", "relative_gap", "stopped_by", "tol"):
        assert getattr(found, name) == getattr(own, name), name


def test_the_tube_of_new_rows_is_the_best_one():
    model = corevec.CoreVectorRegressor(mu=0.2, C=3.0, **LOCAL).fit(X, TARGET)
    found = certified(model, NEW, NEW_TARGET)
    z = (NEW_TARGET - model.target_mean_[0]) / model.target_scale_[0]
    total = 0.0
    for here, vectors, coef, intercept in machines(model, NEW):
        a = coef[:, 0]
        values = rbf_kernel(NEW[here], vectors, gamma=2.0) @ a + intercept[0]
        own = a @ rbf_kernel(vectors, gamma=2.0) @ a + intercept[0] ** 2
        off, price = np.abs(z[here] - values), 3.0 * 0.2 * len(here)

        def objective(t, off=off, price=price):
            return price * t + 1.5 * np.sum(np.maximum(off - t, 0.0) ** 2)

        how = {
            "bounds": (0, off.max()),
            "method": "bounded",
            "options": {"xatol": 1e-9},
        }
        total += own / 2 + min(minimize_scalar(objective, **how).fun, objective(0.0))
    np.testing.assert_allclose(found.primal, total / 2, rtol=1e-8)
    assert found.dual <= found.primal


def test_threads_do_not_change_the_certificate():
    model = corevec.CoreVectorClassifier(C=5.0, **LOCAL).fit(X, THREE)
    one, three = (certified(model, NEW, NEW_THREE, n_jobs=n) for n in (1, 3))
    assert (one.primal, one.dual, one.problem) == (
        three.primal,
        three.dual,
        three.problem,
    )


def test_duplicates_of_a_large_cell_are_merged():
    """Repeated rows that no tree splits: the same values as with a weight each."""
    times = MERGE_MIN_ROWS // 40 + 1
    rows, labels = np.repeat(X[:40], times, axis=0), np.repeat(Y[:40], times)
    model = corevec.CoreVectorClassifier(
        gamma=2.0, n_jobs=1, method=methods.Cells(40 * times)
    ).fit(rows, labels)
    many = certified(model, rows, labels)
    weighted = certified(model, X[:40], Y[:40], np.full(40, float(times)))
    np.testing.assert_allclose(
        [many.primal, many.dual], [weighted.primal, weighted.dual], rtol=1e-12
    )
    np.testing.assert_allclose(many.primal, model.certificate_.primal, rtol=1e-6)


def test_a_pure_cell_that_meets_the_other_class_has_a_gap():
    apart = np.vstack([X[:100] - 50.0, X[100:200] + 50.0])
    labels = np.repeat([0, 1], 100)
    model = corevec.CoreVectorClassifier(gamma=2.0, n_jobs=1, method=methods.Cells(100))
    model.fit(apart, labels)
    assert len(model.support_) == 0  # nothing to solve on either side
    assert certified(model, apart, labels).relative_gap == 0.0
    labels[0] = 1
    found = certified(model, apart, labels)
    # The cell says -1 for all: 1/2 for the bias, and a row at distance 2 of C/2 4.
    assert found.primal == pytest.approx(0.5 + 2.0)
    assert 0.1 < found.relative_gap <= 1.0


def test_out_of_core_rows_are_loaded_in_batches(tmp_path):
    """A file whose rows do not fit the budget at once gives the same certificate."""
    rows = np.tile(NEW, (8, 1)) + np.repeat(np.arange(8) * 1e-3, len(NEW))[:, None]
    labels = np.tile(NEW_Y, 8)
    model = corevec.CoreVectorClassifier(C=5.0, **LOCAL).fit(X, Y)
    expected = certified(model, rows, labels)
    np.save(tmp_path / "X.npy", rows)
    np.save(tmp_path / "y.npy", labels)
    remote = corevec.open(tmp_path / "X.npy", target=tmp_path / "y.npy")
    model.memory_budget = 4 * 8 * 2 * 2000  # two thousand rows fit a quarter
    found = certified(model, remote)
    np.testing.assert_allclose(
        [found.primal, found.dual, found.relative_gap],
        [expected.primal, expected.dual, expected.relative_gap],
        rtol=1e-12,
    )
    assert found.n_verified == len(rows)
