"""A ball of a precomputed kernel: k(x, x) of new rows is known, given, or refused.

The twin is the same ball fitted on the rows themselves with the kernel by its name.
"""

import numpy as np
import pytest
import reading
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    InvalidInputError,
    certify,
    compress,
    methods,
    reference,
)
from corevec.formats import load, save
from corevec.report import write_report

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Z = 2 * RNG.normal(size=(20, 3))  # as many new rows as training rows
FEW = Z[:7]
Y = np.where(X[:, 0] > 0, 1, -1)
TIGHT = {"tol": 1e-9, "random_state": 0}
LINEAR = X @ X.T
METHODS = ("distance", "score_samples", "decision_function", "predict")


def gaussian(A, B):
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def own(A):
    return (A**2).sum(axis=1)


def ball(K=LINEAR, C=0.5):
    return reading.fit(SVDD(C, kernel="precomputed", **TIGHT), K)


def assert_says_the_same(given, K, by_rows, A, **more):
    for name in METHODS:
        found, expected = getattr(given, name)(K, **more), getattr(by_rows, name)(A)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("C", [np.inf, 0.5])
def test_new_rows_are_judged_by_the_diagonal_that_is_given(C, as_matrix):
    model = ball(as_matrix(LINEAR), C)
    by_rows = reading.fit(SVDD(C, kernel="linear", **TIGHT), X)
    shuffled = X[RNG.permutation(len(X))]
    for rows in (Z, FEW, X, shuffled):
        K = as_matrix(rows @ X.T)
        assert_says_the_same(model, K, by_rows, rows, diagonal=own(rows))


@pytest.mark.parametrize("rows", [Z, FEW, X, X[::-1]], ids=["Z", "few", "X", "back"])
@pytest.mark.parametrize("method", METHODS)
def test_without_a_diagonal_that_varies_nothing_is_guessed(method, rows):
    words = rf"SVDD: .*k\(x, x\).*diagonal=.*{len(rows)} rows"
    with pytest.raises(InvalidInputError, match=words):
        getattr(ball(), method)(rows @ X.T)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_kernel_whose_diagonal_is_constant_needs_none(dtype):
    model = ball(gaussian(X, X).astype(dtype))
    assert model.diagonal_ == pytest.approx(1.0)
    by_rows = reading.fit(SVDD(0.5, gamma=0.5, **TIGHT), X)
    for rows in (Z, FEW, X[::-1]):
        assert_says_the_same(model, gaussian(rows, X), by_rows, rows)
        ones = np.ones(len(rows))
        assert_says_the_same(model, gaussian(rows, X), by_rows, rows, diagonal=ones)


def test_a_constant_that_is_not_one_and_that_rounding_blurs_is_known_too():
    lengths = np.linalg.norm(X, axis=1)[:, None]
    unit = 3 * X / lengths
    model = ball(unit @ unit.T)
    assert model.diagonal_ == pytest.approx(9.0)
    by_rows = reading.fit(SVDD(0.5, kernel="linear", **TIGHT), unit)
    far = 3 * FEW / np.linalg.norm(FEW, axis=1)[:, None]
    assert_says_the_same(model, far @ unit.T, by_rows, far)


def test_the_diagonal_that_is_given_goes_before_the_constant():
    model = ball(gaussian(X, X))
    K = gaussian(FEW, X)
    farther = model.distance(K, diagonal=np.full(7, 2.0)) ** 2
    np.testing.assert_allclose(farther - model.distance(K) ** 2, 1.0)


def test_one_row_does_not_show_that_the_diagonal_is_constant():
    model = ball(np.array([[4.0]]))
    assert model.diagonal_ is None
    with pytest.raises(InvalidInputError, match="diagonal="):
        model.predict([[2.0]])
    assert model.distance([[2.0]], diagonal=[1.0]) == pytest.approx(1.0)


def test_fit_predict_takes_the_diagonal_of_the_training_matrix():
    by_rows = SVDD(0.5, kernel="linear", **TIGHT)
    weights = np.arange(20.0)
    for K in (LINEAR, LINEAR.tolist(), sparse.csr_matrix(LINEAR)):
        model = SVDD(0.5, kernel="precomputed", **TIGHT)
        found = model.fit_predict(K, sample_weight=weights)
        np.testing.assert_array_equal(
            found, by_rows.fit_predict(X, sample_weight=weights)
        )
    assert -1 in found


def test_folds_of_a_constant_kernel_are_predicted():
    K = gaussian(X, X)
    by_rows = cross_val_predict(SVDD(0.5, gamma=0.5, **TIGHT), X, cv=4)
    found = cross_val_predict(SVDD(0.5, kernel="precomputed", **TIGHT), K, cv=4)
    np.testing.assert_array_equal(found, by_rows)


@pytest.mark.parametrize(
    ("diagonal", "words"),
    [
        (np.ones(6), r"diagonal has shape \(6,\).*7 rows"),
        (np.ones((7, 1)), r"diagonal has shape \(7, 1\)"),
        (1.0, r"diagonal: .*at least 1 dimension"),
        ([1.0] * 6 + [np.nan], r"diagonal.*NaN"),
        (["a"] * 7, "diagonal"),
    ],
)
def test_a_diagonal_that_is_none_is_refused(diagonal, words):
    for model in (ball(), compress(ball(), 3, random_state=0)):
        with pytest.raises(InvalidInputError, match=words) as caught:
            model.predict(FEW @ X.T, diagonal=diagonal)
        assert str(caught.value).startswith(type(model).__name__)


def test_a_kernel_that_computes_its_diagonal_takes_none():
    model = SVDD(kernel="linear").fit(X)
    assert not hasattr(model, "diagonal_")
    with pytest.raises(InvalidInputError, match=r"diagonal= .*'precomputed'"):
        model.predict(Z, diagonal=own(Z))
    again = ball(gaussian(X, X)).set_params(kernel="linear").fit(X)
    assert not hasattr(again, "diagonal_")


def test_a_compressed_ball_does_as_the_ball_does():
    K = Z @ X.T
    small = compress(ball(), 5, random_state=0)
    again = compress(small, 4, random_state=0)
    for model in (small, again):
        with pytest.raises(InvalidInputError, match=r"CompressedDetector: .*diagonal="):
            model.predict(K)
    expected = ball().score_samples(K, diagonal=own(Z))
    found = small.score_samples(K, diagonal=own(Z))  # three dimensions: exact
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    constant = ball(gaussian(X, X))
    whole = compress(constant, 20, random_state=0)
    K = gaussian(FEW, X)
    np.testing.assert_allclose(whole.distance_, 0.0, atol=1e-6)
    np.testing.assert_allclose(
        whole.score_samples(K), constant.score_samples(K), atol=1e-5
    )
    one = compress(CoreVectorOneClass(C=1.0).fit(X), 3, random_state=0)
    with pytest.raises(InvalidInputError, match="diagonal="):
        one.predict(Z, diagonal=own(Z))


def test_the_diagonal_comes_back_from_a_file(tmp_path):
    K = gaussian(FEW, X)
    for model in (ball(gaussian(X, X)), compress(ball(gaussian(X, X)), 20)):
        save(model, tmp_path / "model")
        read = load(tmp_path / "model")
        np.testing.assert_array_equal(read.score_samples(K), model.score_samples(K))
    save(ball(), tmp_path / "model")
    with pytest.raises(InvalidInputError, match="diagonal="):
        load(tmp_path / "model").predict(FEW @ X.T)


def test_a_one_class_machine_needs_no_diagonal():
    model = reading.fit(CoreVectorOneClass(C=2.0, kernel="precomputed"), LINEAR)
    by_rows = reading.fit(CoreVectorOneClass(C=2.0, kernel="linear"), X)
    for rows in (Z, X[::-1], FEW):
        np.testing.assert_allclose(
            model.score_samples(rows @ X.T), by_rows.score_samples(rows), atol=1e-2
        )


CERTIFIED = {
    "ball": (SVDD(0.5, kernel="precomputed", **TIGHT), None),
    "half-space": (CoreVectorOneClass(C=2.0, kernel="precomputed"), None),
    "classifier": (CoreVectorClassifier(kernel="precomputed"), Y),
    "subspace": (
        CoreVectorClassifier(kernel="precomputed", method=methods.FewVectors(20)),
        Y,
    ),
    "hinge": (
        CoreVectorClassifier(
            loss="hinge", kernel="precomputed", method=methods.FewVectors(20)
        ),
        Y,
    ),
    "reference": (reference.SMO(kernel="precomputed"), Y),
}


@pytest.mark.parametrize("name", CERTIFIED)
def test_certify_takes_the_training_matrix_and_no_other(name):
    model, y = CERTIFIED[name]
    reading.fit(model, LINEAR, y)
    primal = certify(model, LINEAR, y).primal
    rows = clone(model).set_params(kernel="linear")
    expected = certify(reading.fit(rows, X, y), X, y).primal
    assert primal == pytest.approx(expected, rel=5e-3)
    order = np.argsort(X[:, 1])
    other = None if y is None else y[order]
    for K in (LINEAR[np.ix_(order, order)], Z @ Z.T):
        with pytest.raises(InvalidInputError, match=r"training matrix|fitted on"):
            certify(model, K, other)
    with pytest.raises(InvalidInputError, match=r"symmetric|square"):
        certify(model, Z @ X.T, y)


def test_certify_takes_the_training_matrix_in_another_form():
    model = ball()
    expected = certify(model, LINEAR)
    for K in (sparse.csr_matrix(LINEAR), sparse.csr_array(LINEAR), LINEAR.tolist()):
        assert certify(model, K).primal == pytest.approx(expected.primal)
    rounded = certify(model, LINEAR.astype("f4"))
    assert rounded.primal == pytest.approx(expected.primal, rel=1e-5)
    svc = SVC(kernel="precomputed").fit(LINEAR, Y)
    assert certify(svc, LINEAR, Y).relative_gap < 1e-2


def test_a_report_needs_a_constant_diagonal(tmp_path):
    with pytest.raises(InvalidInputError, match=r"write_report: k\(x, x\) varies"):
        write_report(tmp_path / "page.html", ball(), LINEAR)
    K = gaussian(X, X)
    page = write_report(tmp_path / "page.html", ball(K), K)
    assert "SVDD" in page.read_text()
