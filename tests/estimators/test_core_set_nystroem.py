"""CoreSetNystroem: features whose inner products are kernel values."""

import pickle
import tracemalloc

import naive
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification, make_friedman1, make_moons
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import (
    CoreSetNystroem,
    CoreVectorClassifier,
    CoreVectorOneClass,
    InvalidInputError,
    KernelError,
    NotCertifiedWarning,
    methods,
)

BASES = ["coreset", "uniform", "kmeans", "rpcholesky", "cholesky"]


# A basis is a choice of vectors: those that are no rows and those drawn stand for all.
@parametrize_with_checks(
    [CoreSetNystroem(), *(CoreSetNystroem(basis=b) for b in ("kmeans", "rpcholesky"))]
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def moons():
    return make_moons(600, noise=0.2, random_state=0)


@pytest.mark.parametrize("basis", BASES)
def test_features_are_those_of_the_formula(basis, moons):
    X, y = moons
    model = CoreSetNystroem(25, basis, gamma=0.5, random_state=0).fit(X, y)
    B = model.components_
    K = naive.gram(B, kernel="rbf", gamma=0.5)
    across = naive.gram(X, B, kernel="rbf", gamma=0.5)
    Z = model.transform(X)
    # The projection on the span, by NumPy's pseudo-inverse: what ZZ' must be. The
    # tolerance is that of a basis with pivots of 1e-9.
    expected = across @ np.linalg.pinv(K, rcond=1e-14, hermitian=True) @ across.T
    np.testing.assert_allclose(Z @ Z.T, expected, atol=1e-5)
    np.testing.assert_allclose(Z, across @ model.normalization_.T, atol=1e-8)
    chosen = model.component_indices_
    if basis == "kmeans":
        assert (chosen == -1).all()
    else:
        np.testing.assert_array_equal(X[chosen], B)


def test_features_of_all_rows_give_the_kernel_matrix_as_scikit_learn_does():
    X = np.random.default_rng(0).normal(size=(60, 5))
    model = CoreSetNystroem(60, "uniform", gamma=0.3, random_state=0)
    theirs = Nystroem(n_components=60, gamma=0.3, random_state=0)
    K = naive.gram(X, kernel="rbf", gamma=0.3)
    for features in (model, theirs):
        Z = features.fit_transform(X)
        np.testing.assert_allclose(Z @ Z.T, K, atol=1e-8)


def test_the_core_set_is_that_of_the_classifier(moons):
    X, y = moons
    model = CoreSetNystroem(20, random_state=0).fit(X, y)
    with pytest.warns(NotCertifiedWarning):
        machine = CoreVectorClassifier(
            random_state=0, method=methods.CoreSet(max_vectors=20)
        ).fit(X, y)
    assert len(machine.support_) > 10
    assert set(machine.support_) <= set(model.component_indices_)
    # Rows near the border, which a choice that does not see y does not prefer.
    f = np.abs(SVC(C=1.0).fit(X, y).decision_function(X))
    other = CoreSetNystroem(20, "rpcholesky", random_state=0).fit(X, y)
    assert np.median(f[model.component_indices_]) < np.median(
        f[other.component_indices_]
    )


def test_without_labels_the_core_set_is_filled_up(moons):
    X, _ = moons
    model = CoreSetNystroem(100, gamma=2.0, random_state=0).fit(X)
    machine = CoreVectorOneClass(C=1e4, gamma=2.0, random_state=0).fit(X)
    assert 5 < len(machine.support_) < 100
    assert set(machine.support_) <= set(model.component_indices_)
    few = CoreSetNystroem(basis=machine.support_vectors_, gamma=2.0).fit(X)
    K = naive.gram(X, kernel="rbf", gamma=2.0)
    full, part = (F @ F.T for F in (model.transform(X), few.transform(X)))
    assert 0 <= np.trace(K - full) < 0.01 * np.trace(K - part)


@pytest.mark.parametrize("basis", BASES)
def test_linear_models_on_the_features_reach_the_kernel_machine(basis, moons):
    X, y = moons
    features = CoreSetNystroem(40, basis, gamma=1.0, random_state=0)
    model = make_pipeline(features, LogisticRegression(C=100.0, max_iter=1000))
    reached = model.fit(X, y).score(X, y)
    assert reached >= SVC(gamma=1.0).fit(X, y).score(X, y) - 0.015


def test_targets_words_and_many_classes():
    X, y = make_friedman1(400, random_state=0)
    model = make_pipeline(CoreSetNystroem(100, gamma=0.5, random_state=0), Ridge(1e-3))
    assert model.fit(X, y).score(X, y) > 0.9
    X, codes = make_classification(
        300, n_informative=6, n_classes=5, n_redundant=0, random_state=0
    )
    words = np.array(["a", "b", "c", "d", "e"])[codes]
    same = [
        CoreSetNystroem(30, random_state=0).fit(X, labels).component_indices_
        for labels in (codes, words, codes.astype(float))
    ]
    np.testing.assert_array_equal(same[0], same[1])
    np.testing.assert_array_equal(same[0], same[2])


def test_equal_rows_leave_fewer_features():
    X = np.repeat(np.random.default_rng(0).normal(size=(7, 3)), 20, axis=0)
    for basis in BASES:
        model = CoreSetNystroem(50, basis, random_state=0).fit(X)
        Z = model.transform(X)
        assert Z.shape == (140, 7)
        assert len(model.get_feature_names_out()) == 7
        # kmeans takes the mean of equal rows, which rounds.
        K = naive.gram(X, kernel="rbf", gamma=1 / (3 * X.var()))
        np.testing.assert_allclose(Z @ Z.T, K, atol=1e-8)


def test_rows_of_weight_zero_are_never_chosen(moons):
    X, y = moons
    weights = (np.arange(len(X)) % 3 > 0).astype(float)
    for basis in BASES:
        model = CoreSetNystroem(40, basis, random_state=0)
        with_weights = model.fit(X, y, sample_weight=weights)
        without = CoreSetNystroem(40, basis, random_state=0).fit(
            X[weights > 0], y[weights > 0]
        )
        assert (with_weights.component_indices_ % 3 != 0).all()
        if basis in ("cholesky", "kmeans"):
            np.testing.assert_allclose(
                with_weights.components_, without.components_, atol=1e-12
            )


def test_sparse_rows_precision_pandas_and_pickle(moons):
    pytest.importorskip("pandas")
    X = sparse.random(300, 40, density=0.1, random_state=0, format="csr")
    sparse_model = CoreSetNystroem(20, "rpcholesky", random_state=0).fit(X)
    assert sparse.issparse(sparse_model.components_)
    dense = CoreSetNystroem(basis=sparse_model.components_.toarray())
    np.testing.assert_allclose(
        sparse_model.transform(X),
        dense.fit(X.toarray()).transform(X.toarray()),
        atol=1e-9,
    )
    rows, y = moons
    single = CoreSetNystroem(20, random_state=0).fit(rows.astype(np.float32), y)
    assert single.transform(rows.astype(np.float32)).dtype == np.float32
    assert single.transform(rows).dtype == np.float64
    framed = CoreSetNystroem(3, random_state=0).set_output(transform="pandas")
    frame = framed.fit(rows, y).transform(rows)
    assert list(frame.columns) == [f"coresetnystroem{i}" for i in range(3)]
    again = pickle.loads(pickle.dumps(single))
    np.testing.assert_array_equal(again.transform(rows), single.transform(rows))


def test_precomputed_and_callable_kernels_give_the_same_features(moons):
    X, y = moons
    K = naive.gram(X, kernel="rbf", gamma=1.0)

    def called(A, B):
        return naive.gram(A, B, kernel="rbf", gamma=1.0)

    for basis in ("coreset", "rpcholesky"):
        params = {"n_components": 15, "basis": basis, "random_state": 0}
        plain = CoreSetNystroem(gamma=1.0, **params).fit(X, y).transform(X[:50])
        by_call = CoreSetNystroem(kernel=called, **params).fit(X, y).transform(X[:50])
        given = CoreSetNystroem(kernel="precomputed", **params).fit(K, y)
        np.testing.assert_allclose(by_call, plain, atol=1e-6)
        Z = given.transform(
            K[:50]
        )  # the same up to a rotation: other pivots come first
        np.testing.assert_allclose(Z @ Z.T, plain @ plain.T, atol=1e-6)


def test_memory_is_the_features_and_a_few_tiles():
    X = np.random.default_rng(0).normal(size=(20_000, 10))
    model = CoreSetNystroem(200, "uniform", memory_budget=2**22, random_state=0).fit(X)
    tracemalloc.start()
    Z = model.transform(X)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < Z.nbytes + 2**22


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_components": 0}, r"n_components=0 must be a whole number of at least 1"),
        ({"n_components": 2.5}, r"n_components=2.5"),
        ({"basis": "best"}, r"basis='best' must be one of 'coreset', 'uniform'"),
        ({"basis": np.eye(3)}, r"basis has 3 columns, X has 2"),
        ({"basis": [1.0, 2.0]}, r"CoreSetNystroem: Expected 2D array"),
        ({"kernel": "rbff"}, r"kernel='rbff' is not known"),
        ({"gamma": -1}, r"gamma=-1"),
        ({"memory_budget": 0}, r"memory_budget=0"),
    ],
)
def test_bad_parameters_are_named(params, text, moons):
    with pytest.raises(InvalidInputError, match=text):
        CoreSetNystroem(**params).fit(*moons)


def test_kernels_that_have_no_features_are_refused():
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(KernelError, match="sigmoid"):
        CoreSetNystroem(20, "uniform", kernel="sigmoid", gamma=2.0, coef0=-1.0).fit(X)
    with pytest.raises(InvalidInputError, match=r"k\(x, x\) is zero"):
        CoreSetNystroem(5, "uniform", kernel="linear").fit(np.zeros((10, 2)))
    with pytest.raises(InvalidInputError, match=r"kernel=.precomputed."):
        CoreSetNystroem(basis=np.eye(2), kernel="precomputed").fit(np.eye(2))
