"""RSVM: the published machine over all chosen vectors, dependent or not.

What it minimises, 1/2 (|c|^2 + b0^2) + C/2 sum s max(0, 1 - y f)^2 over the kernel
values as columns, is strongly convex with modulus 1: a gradient g proves that the least
value is at most |g|^2/2 below. The twin is scikit-learn's LinearSVC on those columns.
What is certified is another problem, the SVM in which w is any function, of which
`naive.hinge` has the optimum.
"""

import few_vectors
import naive
import numpy as np
import pytest
import reading
from scipy import sparse
from sklearn.base import clone
from sklearn.svm import LinearSVC

from corevec import KernelError, certify

SEED = {"random_state": 0, "n_jobs": 1}


def checkerboard(n, seed=0):
    """Return rows on which a wide Gaussian kernel is numerically of low rank."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, size=(n, 2))
    return X, np.where(np.floor(X).sum(axis=1) % 2 == 0, 1, -1)


def noisy(n, seed=0):
    """Return rows of two overlapping classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] * X[:, 1] + 0.4 * rng.normal(size=n) > 0, 1, -1)


X, Y = noisy(200)
TWICE = np.concatenate([X[:12], X[5:25], X[5:8]])  # 25 different vectors
WEIGHTS = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], size=200)


def rsvm(**shape):
    given = {"n_vectors": 0.1, "basis": "nystroem", "regulariser": "coefficients"}
    return few_vectors.classifier(**given | SEED | shape)


def columns_of(model, X, **kernel):
    """Return the features that RSVM is linear in."""
    B = model.support_vectors_
    return naive.gram(X, B.toarray() if sparse.issparse(B) else B, **kernel)


def value_and_slope(K, y, C, c, b0, s=1.0, bias=True):
    """Return RSVM's objective, and how far it can be from its least value."""
    slack = np.maximum(1 - y * (K @ c + b0), 0)
    pull = C * s * y * slack
    g = np.append(c - K.T @ pull, b0 - pull.sum() if bias else 0.0)
    return (c @ c + b0**2 + C * (s * slack) @ slack) / 2, g @ g / 2


def by_liblinear(K, y, C, s=None, bias=True):
    """Return the least objective that LinearSVC finds."""
    twin = LinearSVC(
        C=C / 2, fit_intercept=bias, dual=False, tol=1e-10, max_iter=100_000
    )
    twin.fit(K, y, sample_weight=s)
    b0 = twin.intercept_[0] if bias else 0.0
    weight = np.ones(len(y)) if s is None else s
    return value_and_slope(K, y, C, twin.coef_[0], b0, weight, bias)[0]


CASES = {
    "duplicates": (X, Y, {"basis": TWICE, "gamma": 0.5, "C": 5.0}),
    "one twice": (
        X,
        Y,
        {"basis": X[[*range(20), 0]], "kernel": "laplacian", "gamma": 1.0},
    ),
    "large C": (X, Y, {"basis": TWICE, "gamma": 0.5, "C": 1e4}),
    "no bias": (X, Y, {"basis": TWICE, "gamma": 0.5, "fit_intercept": False}),
    "weights": (X, Y, {"n_vectors": 0.5, "gamma": 0.5, "C": 10.0}),
    "linear": (X, Y, {"n_vectors": 0.2, "kernel": "linear", "C": 1.0}),
    "poly": (X, Y, {"n_vectors": 0.3, "kernel": "poly", "coef0": 1.0, "gamma": 0.5}),
    "full rank": (X, Y, {"n_vectors": 0.2, "kernel": "laplacian", "gamma": 1.0}),
    "low rank": (*checkerboard(600), {"n_vectors": 0.4, "gamma": 0.2, "C": 1000.0}),
    "all rows": (X, Y, {"n_vectors": 200, "gamma": 0.1, "C": 10.0}),
    "train": (X, Y, {"basis": "train", "n_vectors": 200, "gamma": 0.1, "C": 10.0}),
}
KERNEL = ("kernel", "gamma", "degree", "coef0")


@pytest.mark.parametrize("case", CASES)
def test_the_published_objective_is_least_over_all_chosen_vectors(case):
    rows, y, shape = CASES[case]
    s = WEIGHTS if case == "weights" else None
    model = reading.fit(rsvm(**shape), rows, y, s)
    K = columns_of(model, rows, **{k: v for k, v in shape.items() if k in KERNEL})
    C, bias = shape.get("C", 1.0), shape.get("fit_intercept", True)
    weight = np.ones(len(y)) if s is None else s
    n = shape["n_vectors"] if "n_vectors" in shape else len(shape["basis"])
    assert K.shape[1] == (n if n >= 1 else round(n * np.count_nonzero(weight)))
    own, above = value_and_slope(
        K, y, C, model.dual_coef_[0], model.intercept_[0], weight, bias
    )
    # 1e-16 at low rank, where columns are left out below twelve digits; else less.
    assert above <= 1e-13 * own
    assert own == pytest.approx(by_liblinear(K, y, C, s, bias), rel=1e-9)


def test_every_chosen_vector_has_a_coefficient():
    model = reading.fit(rsvm(basis=TWICE, gamma=0.5), X, Y)
    assert model.dual_coef_.shape == (1, 35)
    assert sorted(map(tuple, model.support_vectors_)) == sorted(map(tuple, TWICE))
    # The shortest coefficients: equal vectors have equal ones.
    order = np.lexsort(model.support_vectors_.T)
    vectors, c = model.support_vectors_[order], model.dual_coef_[0][order]
    same = (vectors[1:] == vectors[:-1]).all(axis=1)
    assert same.sum() == 10
    np.testing.assert_allclose(c[1:][same], c[:-1][same], rtol=1e-9, atol=1e-12)
    rows, y = checkerboard(600)
    model = reading.fit(rsvm(n_vectors=0.4, gamma=0.2, C=1000.0), rows, y)
    assert len(np.unique(model.support_)) == len(model.support_vectors_) == 240
    np.testing.assert_array_equal(model.support_vectors_, rows[model.support_])
    assert model.n_core_ == 240


def test_every_vector_twice_is_twice_the_c():
    """Each half of c then has a fourth of its square, and |c|^2 is halved."""
    shape = {"gamma": 0.5, "fit_intercept": False}
    both = reading.fit(rsvm(basis=np.tile(X[:20], (2, 1)), C=3.0, **shape), X, Y)
    once = reading.fit(rsvm(basis=X[:20], C=6.0, **shape), X, Y)
    # Both are solved to rounding.
    np.testing.assert_allclose(
        both.decision_function(X), once.decision_function(X), rtol=1e-9, atol=1e-9
    )


def test_each_class_is_a_problem_of_its_own():
    labels = np.array(["red", "green", "blue"])[np.digitize(X.sum(axis=1), [-0.5, 0.5])]
    model = reading.fit(rsvm(basis=TWICE, gamma=0.5, C=5.0), X, labels)
    K = columns_of(model, X, gamma=0.5)
    for t, name in enumerate(model.classes_):
        y = np.where(labels == name, 1, -1)
        own, above = value_and_slope(
            K, y, 5.0, model.dual_coef_[t], model.intercept_[t]
        )
        assert above <= 1e-10 * own
        exact = naive.hinge(naive.gram(X, gamma=0.5), y, 5.0)
        part = model.certificate_.parts[t]
        assert part.dual <= exact.primal * (1 + exact.rounding)
        assert exact.dual * (1 - exact.rounding) <= part.primal


def test_sparse_rows_are_the_same_rows():
    rows = np.where(np.abs(X) < 0.4, 0.0, X)
    plain = reading.fit(rsvm(n_vectors=0.5, gamma=0.2, C=10.0), rows, Y)
    packed = reading.fit(clone(plain), sparse.csr_matrix(rows), Y)
    assert sparse.issparse(packed.support_vectors_)
    value = plain.certificate_.primal
    assert packed.certificate_.primal == pytest.approx(value, rel=1e-9)
    apart = plain.decision_function(rows) - packed.decision_function(rows)
    assert np.abs(apart).max() < 1e-6


def test_a_kernel_matrix_is_the_kernel():
    K = naive.gram(X, gamma=0.2)
    plain = reading.fit(rsvm(n_vectors=0.5, gamma=0.2, C=10.0), X, Y)
    given = reading.fit(rsvm(n_vectors=0.5, kernel="precomputed", C=10.0), K, Y)
    apart = plain.decision_function(X) - given.decision_function(K)
    assert np.abs(apart).max() < 1e-6


class Watcher:
    """A callback of scikit-learn that keeps the model's coefficients of every round."""

    def __init__(self):
        self.seen = []

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **kwargs):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.seen.append(fitted_estimator.dual_coef_)

    def teardown(self, estimator, context):
        pass


@pytest.mark.parametrize("budget", [2**28, 2**19, 2**17])
def test_between_rounds_too_every_vector_has_a_coefficient(budget):
    pytest.importorskip("sklearn.callback", reason="callbacks came with 1.9")
    rows, y = noisy(3000, seed=7)
    watcher = Watcher()
    model = rsvm(basis=TWICE, gamma=0.5, C=5.0, memory_budget=budget)
    reading.fit(model.set_callbacks(watcher), rows, y)
    assert len(watcher.seen) == len(model.history_) + 1
    assert {c.shape for c in watcher.seen} == {(1, 35)}
    np.testing.assert_allclose(watcher.seen[-1], model.dual_coef_, rtol=1e-9)


# --- the certificate ------------------------------------------------------------------


def exactly(model, X, y, C, gamma):
    """Return the SVM's objective at the model, in extended precision."""
    wide = np.longdouble

    def gram(A, B):
        return np.exp(-wide(gamma) * naive.squared_distances(A, B))

    B, c = model.support_vectors_.astype(wide), model.dual_coef_[0].astype(wide)
    b0 = wide(model.intercept_[0])
    slack = np.maximum(1 - y * (gram(X.astype(wide), B) @ c + b0), 0)
    return float((c @ gram(B, B) @ c + b0**2 + wide(C) * slack @ slack) / 2)


@pytest.mark.parametrize("how", ["exact", "projection", "sample", "auto"])
@pytest.mark.parametrize("C", [0.1, 1000.0])
def test_the_certificate_holds_the_optimum_of_the_svm(how, C):
    rows, y = checkerboard(300)
    shape = {"n_vectors": 0.4, "gamma": 0.2, "C": C, "certificate": how}
    model = reading.fit(rsvm(**shape), rows, y)
    exact = naive.hinge(naive.gram(rows, gamma=0.2), y, C)
    found = model.certificate_
    assert 0 < found.dual <= exact.primal * (1 + exact.rounding)
    assert exact.dual * (1 - exact.rounding) <= found.primal
    # Stated no smaller than it is, but for rounding in f.
    value = exactly(model, rows, y, C, 0.2)
    assert value * (1 - 1e-12) <= found.primal <= value * (1 + 1e-8)
    again = certify(model, rows, y)
    assert again.primal == pytest.approx(found.primal, rel=1e-8)


def test_a_gap_that_is_met_is_met():
    """Where |c|^2 is nearly |w|^2, the machine nearly is the SVM."""
    rows, y = checkerboard(200)
    model = rsvm(n_vectors=200, kernel="laplacian", gamma=1e4, C=1.0, tol=1e-3)
    found = reading.fit(model, rows, y).certificate_
    assert found.converged
    exact = naive.hinge(naive.gram(rows, kernel="laplacian", gamma=1e4), y, 1.0)
    assert found.dual <= exact.primal * (1 + exact.rounding)
    assert found.primal <= exact.dual * (1 + 1e-3) / (1 - 1e-3)


# --- the memory budget ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("gamma", "C"), [(0.2, 1000.0), (50.0, 1.0)], ids=["low rank", "high rank"]
)
def test_the_budget_decides_how_and_not_what(gamma, C):
    """Of 240 vectors the kernel matrix and its factor take 0.9 MB."""
    rows, y = checkerboard(600)
    shape = {"n_vectors": 0.4, "gamma": gamma, "C": C}
    whole = reading.fit(rsvm(**shape), rows, y)
    small = reading.fit(rsvm(memory_budget=500_000, **shape), rows, y)
    assert set(small.support_) == set(whole.support_)
    best, own = (
        value_and_slope(
            columns_of(model, rows, gamma=gamma),
            y,
            C,
            model.dual_coef_[0],
            model.intercept_[0],
        )[0]
        for model in (whole, small)
    )
    # In rounds over all rows the weights are solved to a twentieth of `tol`.
    assert best * (1 - 1e-9) <= own <= best * (1 + 1e-4)


# --- kernels that span nothing --------------------------------------------------------


@pytest.mark.parametrize("budget", [2**28, 1000], ids=["matrix", "columns"])
@pytest.mark.parametrize(
    "shape",
    [
        {"kernel": "linear"},
        {"kernel": "poly", "coef0": -1.0, "degree": 2},
        {"kernel": "sigmoid"},
    ],
    ids=["zero", "indefinite", "sigmoid"],
)
def test_a_kernel_without_a_space_is_refused(shape, budget):
    rows = np.zeros((40, 2)) if shape["kernel"] == "linear" else X[:40]
    model = rsvm(n_vectors=0.5, gamma=1.0, memory_budget=budget, **shape)
    with pytest.raises(KernelError, match="span no space"):
        model.fit(rows, Y[:40])
