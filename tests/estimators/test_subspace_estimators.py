"""Few vectors: exact in a given span, honest about more.

The twins are `naive.py`'s for squared losses, coordinate descent below for the hinge,
the normal equations for ridge regression. What is promised is stated for the problem in
which w is any function: the certificate must hold the twin's optimum.
"""

import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace

import few_vectors
import naive
import numpy as np
import pandas as pd
import pytest
import reading
import strategies
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from corevec import (
    CoreVectorClassifier,
    CoreVectorRegressor,
    InvalidInputError,
    KernelError,
    NotCertifiedWarning,
    certify,
)
from corevec.models import worst_of

BASES = (
    "pursuit",
    "train",
    "nystroem",
    "kmeans",
    "rpcholesky",
    "cholesky",
    "coreset",
)
ROWS_ONLY = ("train", "nystroem", "rpcholesky", "cholesky", "coreset")
LOSSES = ("squared_hinge", "hinge")
SEED = {"random_state": 0, "n_jobs": 1}
SHAPE = {"gamma": 0.5, "C": 5.0, **SEED}


def noisy(n, seed=0, d=2):
    """Return rows of two overlapping classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] * X[:, 1] + 0.4 * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


X, Y = noisy(200)
T = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * np.random.default_rng(5).normal(size=200)
THREE = np.array(["red", "green", "blue"])[np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])]


def dense(values):
    return values.toarray() if sparse.issparse(values) else np.asarray(values)


def pieces(model, X, t=0, **kernel):
    """Return f on the rows, |w|^2 and b0, from the documented attributes alone."""
    B, c = dense(model.support_vectors_), model.dual_coef_[t]
    f = naive.gram(X, B, **kernel) @ c + model.intercept_[t]
    return f, c @ naive.gram(B, **kernel) @ c, model.intercept_[t]


def lost(model, K, value):
    """Return what float64 loses in the norm of an expansion, as a share of `value`."""
    largest = max(1.0, float(np.abs(K).max()))
    total = np.abs(model.dual_coef_).sum() + np.abs(model.intercept_).sum()
    return 100 * naive.EPS * largest * total**2 / value


# --- the optimum in the span of all rows ----------------------------------------------


def hinge_bracket(K, y, C, s=None, *, bias=True, sweeps=20_000):
    """Return (dual, primal) of the hinge machine by coordinate descent on the dual."""
    s = np.ones(len(y)) if s is None else s
    Q = np.outer(y, y) * (K + bias)
    b, margin, top = np.zeros(len(y)), np.zeros(len(y)), C * s
    for _ in range(sweeps):
        for i in np.flatnonzero((top > 0) & (np.diag(Q) > 1e-12)):
            new = np.clip(b[i] + (1 - margin[i]) / Q[i, i], 0, top[i])
            margin += Q[i] * (new - b[i])
            b[i] = new
        dual = b.sum() - b @ Q @ b / 2
        primal = b @ Q @ b / 2 + top @ np.maximum(1 - Q @ b, 0)
        if primal - dual <= 1e-6 * primal:
            break
    return dual, primal


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_in_the_span_of_all_rows_the_hinge_is_that_of_coordinate_descent(C, bias):
    rows, y = X[:60], Y[:60]
    s = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], size=60)
    dual, primal = hinge_bracket(naive.gram(rows, gamma=1.0), y, C, s, bias=bias)
    assert primal - dual <= 1e-6 * primal
    model = few_vectors.classifier(
        basis=rows, loss="hinge", C=C, gamma=1.0, fit_intercept=bias, tol=1e-5, **SEED
    )
    found = reading.fit(model, rows, y, s).certificate_
    assert found.converged
    assert found.primal == pytest.approx(primal, rel=1e-4)
    assert found.primal >= dual * (1 - 1e-9)
    assert found.dual <= primal * (1 + 1e-9)


@pytest.mark.parametrize("kernel", strategies.KERNELS[:5], ids=str)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_in_the_span_of_all_rows_the_squared_hinge_is_the_core_vector_machine(
    kernel, C
):
    rows, y = X[:80], Y[:80]
    exact = CoreVectorClassifier(C=C, tol=1e-9, **SEED, **kernel)
    model = few_vectors.classifier(basis=rows, C=C, tol=1e-9, **SEED, **kernel)
    value = reading.fit(exact, rows, y).certificate_.primal
    found = reading.fit(model, rows, y).certificate_
    assert found.primal == pytest.approx(value, rel=1e-6)
    assert found.dual <= value * (1 + 1e-9)
    assert len(model.support_) <= 80


@pytest.mark.parametrize("tube", [0.0, 0.2])
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_in_the_span_of_all_rows_the_tube_is_that_of_core_vector_regression(C, tube):
    rows, t = X[:80], 7 * T[:80] + 3
    shape = {"C": C, "tube": tube, "gamma": 0.7, "tol": 1e-9, **SEED}
    exact = reading.fit(CoreVectorRegressor(mu=None, **shape), rows, t)
    model = reading.fit(few_vectors.regressor(basis=rows, **shape), rows, t)
    value = exact.certificate_.primal
    assert model.certificate_.primal == pytest.approx(value, rel=1e-6)
    assert model.tube_ == exact.tube_ == pytest.approx(tube)
    np.testing.assert_allclose(model.predict(rows), exact.predict(rows), atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_the_square_loss_is_kernel_ridge_regression(bias):
    # min c'Kc/2 + b0^2/2 + C/2 |z - Kc - b0|^2: (K + bias + I/C) a = z, c = a.
    C, s = 3.0, np.random.default_rng(2).choice([0.5, 1.0, 2.0], size=200)
    z, mean, scale = naive.standardised(T, s, centre=bias)
    K = naive.gram(X, gamma=0.5)
    a = np.linalg.solve(K + bias + np.diag(1 / (C * s)), z)
    closed = (K @ a + bias * a.sum()) * scale + mean
    model = few_vectors.regressor(
        basis=X, C=C, gamma=0.5, fit_intercept=bias, tol=1e-8, **SEED
    )
    reading.fit(model, X, T, s)
    assert model.certificate_.converged
    np.testing.assert_allclose(model.predict(X), closed, atol=1e-6)
    own = a @ (K + bias) @ a / 2 + (a**2 / (C * s)).sum() / 2
    assert model.certificate_.primal == pytest.approx(own, rel=1e-8)


def test_in_few_vectors_the_square_loss_is_the_normal_equations():
    # The problem in the span, which the certificate does not speak of.
    B, C = X[:7] + 0.1, 20.0
    z, mean, scale = naive.standardised(T)
    G, K = naive.gram(B, gamma=0.5), naive.gram(X, B, gamma=0.5)
    K, R = np.c_[K, np.ones(200)], np.eye(8)
    R[:7, :7] = G
    c = np.linalg.solve(R + C * K.T @ K, C * K.T @ z)
    model = few_vectors.regressor(basis=B, C=C, gamma=0.5, tol=1e-6, **SEED)
    reading.fit(model, X, T)
    np.testing.assert_allclose(model.predict(X), K @ c * scale + mean, atol=1e-6)
    value = c @ R @ c / 2 + C / 2 * ((z - K @ c) ** 2).sum()
    assert model.certificate_.primal == pytest.approx(value, rel=1e-9)
    assert not model.certificate_.converged


# --- the certificate holds the optimum ------------------------------------------------

CASES = strategies.problems(
    C=strategies.penalties(-2, 3), among=strategies.KERNELS[:6], min_rows=4
)


@settings(max_examples=60)
@given(CASES, st.sampled_from(BASES), st.integers(1, 12), st.booleans())
def test_the_squared_hinge_is_never_certified_beyond_the_optimum(problem, basis, k, b):
    # A row with k(x, x) = 0 spans nothing.
    assume(np.diag(problem.K).min() > 1e-6)
    model = few_vectors.classifier(k, basis, fit_intercept=b, **SEED, **problem.params)
    reading.fit(model, problem.X, problem.y, problem.s)
    twin = naive.hinge(problem.K, problem.y, problem.C, problem.s, bias=b)
    found = model.certificate_
    room = 1e-8 + twin.rounding
    assert found.primal >= twin.dual * (1 - room)
    assert found.dual <= twin.primal * (1 + room)
    s = np.ones(len(problem.y)) if problem.s is None else problem.s
    f, norm_sq, b0 = pieces(model, problem.X, **problem.kernel)
    own = naive.hinge_primal(f, norm_sq + b0**2, problem.y, problem.C, s)
    assert found.primal == pytest.approx(own, rel=1e-8 + lost(model, problem.K, own))


@settings(max_examples=30)
@given(
    strategies.problems(
        C=strategies.penalties(-2, 1), among=strategies.KERNELS[:6], min_rows=4
    ),
    st.sampled_from(BASES),
    st.integers(1, 12),
    st.booleans(),
)
def test_the_hinge_is_never_certified_beyond_the_optimum(problem, basis, k, b):
    assume(np.diag(problem.K).min() > 1e-6)
    model = few_vectors.classifier(
        k, basis, "hinge", fit_intercept=b, **SEED, **problem.params
    )
    reading.fit(model, problem.X, problem.y, problem.s)
    dual, primal = hinge_bracket(
        problem.K, problem.y, problem.C, problem.s, bias=b, sweeps=300
    )
    found = model.certificate_
    assert found.primal >= dual * (1 - 1e-8)
    assert found.dual <= primal * (1 + 1e-8)
    s = np.ones(len(problem.y)) if problem.s is None else problem.s
    f, norm_sq, b0 = pieces(model, problem.X, **problem.kernel)
    own = (norm_sq + b0**2) / 2 + problem.C * s @ np.maximum(1 - problem.y * f, 0)
    assert found.primal == pytest.approx(own, rel=1e-8 + lost(model, problem.K, own))


@settings(max_examples=30)
@given(
    strategies.regressions(
        C=strategies.penalties(-2, 3), among=strategies.KERNELS[:6], mu=st.just(0.3)
    ),
    st.sampled_from(BASES),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.3]),
)
def test_a_regression_is_never_certified_beyond_the_optimum(problem, basis, k, tube):
    assume(np.diag(problem.K).min() > 1e-6)
    z, _, scale = problem.units
    model = few_vectors.regressor(
        k,
        basis,
        C=problem.C,
        tube=tube * scale,
        fit_intercept=problem.bias,
        **SEED,
        **problem.kernel,
    )
    reading.fit(model, problem.X, problem.y, problem.s)
    twin = naive.fixed_tube(problem.K, z, problem.C, tube, problem.s, bias=problem.bias)
    found, room = model.certificate_, 1e-8 * twin.primal + twin.rounding
    assert found.primal >= twin.dual - room
    assert found.dual <= twin.primal + room


@pytest.mark.parametrize("how", ["exact", "projection", "sample"])
@pytest.mark.parametrize("loss", LOSSES)
def test_each_way_to_the_dual_value_is_named_and_stays_below_the_optimum(how, loss):
    model = few_vectors.classifier(12, "cholesky", loss, certificate=how, **SHAPE)
    found = reading.fit(model, X, Y).certificate_
    best = few_vectors.classifier(basis=X, loss=loss, tol=1e-5, **SHAPE).fit(X, Y)
    assert found.dual <= best.certificate_.primal * (1 + 1e-9)
    assert found.dual_bound == how
    assert found.confidence == (0.999 if how == "sample" else 1.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_more_vectors_come_closer(loss):
    values = [
        reading.fit(few_vectors.classifier(k, "cholesky", loss, **SHAPE), X, Y)
        for k in (2, 10, 100)
    ]
    gaps = [model.certificate_.relative_gap for model in values]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] <= 1e-3


def test_moved_vectors_need_fewer():
    few = reading.fit(few_vectors.classifier(6, **SHAPE), X, Y)
    rows = reading.fit(few_vectors.classifier(6, "nystroem", **SHAPE), X, Y)
    assert few.certificate_.primal < rows.certificate_.primal


# --- RSVM, LSVM and the paper ---------------------------------------------------------


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_rsvm_minimises_the_squared_coefficients(C):
    B = X[:25]
    model = few_vectors.rsvm(gamma=0.5, C=C, tol=1e-6, **SEED)
    model.set_params(method__basis=B)
    reading.fit(model, X, Y)
    assert len(model.support_) == 25
    K = np.c_[naive.gram(X, B, gamma=0.5), np.ones(200)]

    def value(c):
        slack = np.maximum(1 - Y * (K @ c), 0)
        return c @ c / 2 + C / 2 * slack @ slack, c - C * K.T @ (Y * slack)

    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000, "maxfun": 20_000}
    best = minimize(value, np.zeros(26), jac=True, method="L-BFGS-B", options=options)
    # The basis comes back in the order of its pivots.
    at = [int(np.flatnonzero((b == B).all(axis=1))[0]) for b in model.support_vectors_]
    own = np.append(np.zeros(25), model.intercept_)
    own[at] = model.dual_coef_[0]
    assert value(own)[0] == pytest.approx(best.fun, rel=1e-8)
    np.testing.assert_allclose(model.decision_function(X), K @ best.x, atol=1e-4)
    # What is certified is the standard problem, whose optimum is below.
    exact = CoreVectorClassifier(gamma=0.5, C=C, tol=1e-8, **SEED).fit(X, Y)
    assert model.certificate_.primal >= exact.certificate_.dual
    assert model.certificate_.dual <= exact.certificate_.primal * (1 + 1e-9)


def test_rsvm_and_lsvm_are_settings():
    rsvm = reading.fit(few_vectors.rsvm(0.1, **SHAPE), X, Y)
    assert (rsvm.method.basis, rsvm.method.regulariser) == ("nystroem", "coefficients")
    assert len(rsvm.support_) == 20
    lsvm = reading.fit(few_vectors.lsvm(15, **SHAPE), X, Y)
    same = reading.fit(few_vectors.classifier(15, "cholesky", **SHAPE), X, Y)
    np.testing.assert_array_equal(lsvm.decision_function(X), same.decision_function(X))


def test_a_share_counts_the_rows_that_are_there():
    s = np.repeat([1.0, 0.0], 100)
    model = reading.fit(few_vectors.rsvm(0.1, **SHAPE), X, Y, s)
    assert len(model.support_) == 10
    assert model.support_.max() < 100


@pytest.mark.parametrize("basis", ["pursuit", "train"])
def test_cpsp_of_the_paper_has_no_bias(basis):
    model = few_vectors.classifier(8, basis, "hinge", fit_intercept=False, **SHAPE)
    reading.fit(model, X, Y)
    assert model.intercept_ == 0
    assert len(model.support_) == 8
    assert (model.support_ == -1).all() == (basis == "pursuit")
    assert model.score(X, Y) > 0.75


# --- weights and classes --------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weight_is_a_number_of_rows(loss):
    counts = np.random.default_rng(3).integers(0, 3, size=200)
    shape = {"basis": X[::10], "loss": loss, **SHAPE, "tol": 1e-6}
    weighted = reading.fit(few_vectors.classifier(**shape), X, Y, counts.astype(float))
    rows, y = X.repeat(counts, 0), Y.repeat(counts)
    repeated = reading.fit(few_vectors.classifier(**shape), rows, y)
    value = repeated.certificate_.primal
    assert weighted.certificate_.primal == pytest.approx(value, rel=1e-9)
    assert certify(weighted, rows, y).primal == pytest.approx(
        weighted.certificate_.primal, rel=1e-9
    )
    apart = weighted.decision_function(X) - repeated.decision_function(X)
    assert np.abs(apart).max() < 1e-6


def test_a_weight_is_a_number_of_rows_in_a_regression():
    counts = np.random.default_rng(3).integers(0, 3, size=200)
    shape = {"basis": X[::10], "tube": 0.1, **SHAPE}
    weighted = reading.fit(few_vectors.regressor(**shape), X, T, counts.astype(float))
    repeated = reading.fit(
        few_vectors.regressor(**shape), X.repeat(counts, 0), T.repeat(counts)
    )
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("basis", BASES)
def test_rows_without_a_weight_are_not_in_the_basis(basis, loss):
    s = np.repeat([1.0, 0.0], 100)
    model = few_vectors.classifier(10, basis, loss, **SHAPE)
    reading.fit(model, X + 100.0 * (s[:, None] == 0), Y, s)
    assert model.support_.max() < 100
    assert np.abs(model.support_vectors_).max() < 20


@pytest.mark.parametrize("loss", LOSSES)
def test_class_weight_is_a_weight_on_the_rows_of_the_class(loss):
    shape = {"basis": X[::10], "loss": loss, **SHAPE, "tol": 1e-6}
    named = few_vectors.classifier(class_weight={"low": 3.0}, **shape)
    reading.fit(named, X, np.where(Y == 1, "top", "low"))
    by_row = few_vectors.classifier(**shape)
    reading.fit(by_row, X, Y, np.where(Y == 1, 1.0, 3.0))
    assert list(named.classes_) == ["low", "top"]
    value = by_row.certificate_.primal
    assert named.certificate_.primal == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("basis", BASES)
def test_many_classes_share_one_basis(basis, loss):
    model = few_vectors.classifier(30, basis, loss, **SHAPE)
    reading.fit(model, X, THREE)
    assert list(model.classes_) == ["blue", "green", "red"]
    assert len(model.support_vectors_) == len(model.support_) <= 30
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert model.decision_function(X).shape == (200, 3)
    assert model.score(X, THREE) > 0.9
    assert len(model.certificate_.parts) == 3
    again = certify(model, X, THREE)
    for one, part in zip(model.certificate_.parts, again.parts, strict=True):
        assert part.primal == pytest.approx(one.primal, rel=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_each_class_is_a_problem_of_its_own_in_the_given_span(loss):
    shape = {"basis": X[::10], "loss": loss, **SHAPE, "tol": 1e-6}
    many = reading.fit(few_vectors.classifier(**shape), X, THREE)
    for t, name in enumerate(many.classes_):
        two = reading.fit(few_vectors.classifier(**shape), X, name == THREE)
        part = many.certificate_.parts[t]
        assert part.primal == pytest.approx(two.certificate_.primal, rel=1e-9)


def test_fewer_vectors_than_classes_are_refused_where_each_needs_its_own():
    model = few_vectors.classifier(2, loss="hinge", **SHAPE)
    with pytest.raises(ValueError, match=r"CoreVectorClassifier.*3 classes.*n_vectors"):
        model.fit(X, THREE)
    reading.fit(few_vectors.classifier(2, **SHAPE), X, THREE)


def test_several_targets_share_one_basis():
    both = np.c_[T, -3 * T + 1, X[:, 0] ** 2]
    model = reading.fit(few_vectors.regressor(12, **SHAPE), X, both)
    assert model.predict(X).shape == (200, 3)
    assert model.dual_coef_.shape == (3, len(model.support_vectors_))
    np.testing.assert_allclose(
        model.predict(X)[:, 1], -3 * model.predict(X)[:, 0] + 1, atol=1e-6
    )


# --- the bases ------------------------------------------------------------------------

RARE = {
    "as they are": X,
    "duplicates": X[np.arange(200) % 7],
    "constant column": np.c_[X, np.full(200, 3.0)],
    "far away": X + 1e4,
    "tiny": X * 1e-12,
    "one column": X[:, :1],
}


@pytest.mark.parametrize("rows", RARE.values(), ids=RARE.keys())
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("loss", LOSSES)
def test_any_rows_give_at_most_so_many_vectors(basis, loss, rows):
    for n_vectors in (1, 9, 0.1, 1000):
        if n_vectors == 1000:
            rows, y = rows[:40], Y[:40]
        else:
            y = Y
        model = few_vectors.classifier(n_vectors, basis, loss, **SEED)
        reading.fit(model, rows, y)
        most = {0.1: 20, 1000: 40}.get(n_vectors, n_vectors)
        index = model.support_
        assert 1 <= len(index) == len(model.support_vectors_) <= most
        assert np.isfinite(model.decision_function(rows)).all()
        assert certify(model, rows, y).primal == pytest.approx(
            model.certificate_.primal, rel=1e-7
        )
        if basis in ROWS_ONLY:
            assert (index >= 0).all()
        at = index >= 0
        np.testing.assert_array_equal(model.support_vectors_[at], rows[index[at]])


@pytest.mark.parametrize("loss", LOSSES)
def test_an_own_basis_may_be_dependent_and_is_no_row(loss):
    own = np.r_[X[:5], X[:5], X[:3] + 1.0]
    model = reading.fit(few_vectors.classifier(basis=own, loss=loss, **SHAPE), X, Y)
    assert len(model.support_vectors_) == 8
    assert (model.support_ == -1).all()
    for vector in model.support_vectors_:
        assert (np.abs(own - vector).max(axis=1) < 1e-12).any()


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("tube", [0.0, 100.0])
def test_targets_that_zero_fits_are_fitted_by_a_constant(basis, tube):
    for n in (200, 3, 1):
        t = np.full(n, 4.0) if tube == 0 else T[:n]
        model = reading.fit(
            few_vectors.regressor(9, basis, tube=tube, **SEED), X[:n], t
        )
        assert model.certificate_.primal == pytest.approx(0.0, abs=1e-20)
        assert model.certificate_.converged
        np.testing.assert_allclose(model.predict(X), t.mean(), atol=1e-12)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("loss", LOSSES)
def test_rows_that_tell_nothing_give_a_constant(basis, loss):
    y = np.array([1, -1] * 50)
    model = few_vectors.classifier(9, basis, loss, gamma=1.0, **SEED)
    reading.fit(model, np.ones((100, 2)), y)
    np.testing.assert_allclose(model.decision_function(X), 0.0, atol=1e-9)


@pytest.mark.parametrize("basis", [b for b in BASES if b != "kmeans"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_precomputed_kernel_gives_the_same_machine(basis, loss):
    K = rbf_kernel(X, gamma=0.5)
    model = few_vectors.classifier(
        200, basis, loss, kernel="precomputed", C=5.0, **SEED
    )
    reading.fit(model, K, Y)
    plain = reading.fit(few_vectors.classifier(200, basis, loss, **SHAPE), X, Y)
    assert model.certificate_.primal == pytest.approx(
        plain.certificate_.primal, rel=2e-3
    )
    few = few_vectors.classifier(11, basis, loss, kernel="precomputed", C=5.0, **SEED)
    reading.fit(few, K, Y)
    assert (few.support_ >= 0).all()
    stated = K[:, few.support_] @ few.dual_coef_[0] + few.intercept_
    np.testing.assert_allclose(few.decision_function(K), stated, atol=1e-6)


def gaussian(A, B):
    return rbf_kernel(A, B, gamma=0.5)


@pytest.mark.parametrize("basis", [b for b in BASES if b != "kmeans"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_callable_kernel_is_evaluated_as_given(basis, loss):
    model = few_vectors.classifier(9, basis, loss, kernel=gaussian, C=5.0, **SEED)
    reading.fit(model, X, Y)
    f, _, _ = pieces(model, X, gamma=0.5)
    np.testing.assert_allclose(model.decision_function(X), f, atol=1e-6)
    assert model.score(X, Y) > 0.7


@pytest.mark.parametrize("kernel", ["precomputed", strategies.quadratic_features])
@pytest.mark.parametrize("loss", LOSSES)
def test_centres_need_a_kernel_of_vectors(kernel, loss):
    rows = X @ X.T if kernel == "precomputed" else X
    model = few_vectors.classifier(5, "kmeans", loss, kernel=kernel)
    with pytest.raises(ValueError, match=r"CoreVectorClassifier.*kmeans.*cholesky"):
        model.fit(rows, Y)


def test_an_own_basis_has_no_precomputed_kernel():
    model = few_vectors.classifier(basis=X[:3], kernel="precomputed")
    with pytest.raises(
        ValueError, match=r"CoreVectorClassifier.*precomputed.*nystroem"
    ):
        model.fit(X @ X.T, Y)


@pytest.mark.parametrize("basis", ["train", "nystroem", "kmeans", "cholesky"])
def test_a_kernel_that_is_zero_on_all_rows_is_refused(basis):
    model = few_vectors.classifier(5, basis, kernel="linear")
    with pytest.raises(KernelError, match=r"CoreVectorClassifier.*linear.*another"):
        model.fit(np.zeros((20, 2)), Y[:20])


# --- among the tools of scikit-learn --------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("basis", [b for b in BASES if b != "pursuit"])
def test_sparse_rows_are_the_same_rows(basis, loss):
    rows = np.where(np.abs(X) < 0.4, 0.0, X)
    model = few_vectors.classifier(12, basis, loss, **SHAPE)
    plain = reading.fit(clone(model), rows, Y)
    reading.fit(model, sparse.csr_array(rows), Y)
    value = plain.certificate_.primal
    assert model.certificate_.primal == pytest.approx(value, rel=1e-7)
    apart = model.decision_function(rows) - plain.decision_function(rows)
    assert np.abs(apart).max() < 1e-5


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("classes", [Y, THREE], ids=["two", "three"])
def test_vectors_move_among_sparse_rows_too(classes, loss):
    rows = np.where(np.abs(X) < 0.4, 0.0, X)
    model = few_vectors.classifier(12, "pursuit", loss, **SHAPE)
    plain = reading.fit(clone(model), rows, classes).certificate_
    found = reading.fit(model, sparse.csr_array(rows), classes).certificate_
    # Class by class: the certificate of several is that of the worst, and which class
    # that is depends on the vectors.
    pairs = zip(found.parts or (found,), plain.parts or (plain,), strict=True)
    for one, other in pairs:
        assert max(one.dual, other.dual) <= min(one.primal, other.primal) * (1 + 1e-9)
    assert model.score(sparse.csr_array(rows), classes) > 0.75


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("basis", ["pursuit", "cholesky"])
def test_float32_rows_are_certified_in_float64(basis, loss):
    rows = X.astype(np.float32)
    model = reading.fit(few_vectors.classifier(12, basis, loss, **SHAPE), rows, Y)
    f, norm_sq, b0 = pieces(model, rows.astype(float), gamma=0.5)
    slack = np.maximum(1 - Y * f, 0)
    loss = slack.sum() if loss == "hinge" else slack @ slack / 2
    own = (norm_sq + b0**2) / 2 + 5.0 * loss
    assert model.certificate_.primal == pytest.approx(own, rel=1e-6)


def test_pandas_rows_keep_their_names():
    frame = pd.DataFrame(X, columns=["east", "north"])
    model = reading.fit(few_vectors.classifier(9, **SHAPE), frame, pd.Series(THREE))
    assert list(model.feature_names_in_) == ["east", "north"]
    assert set(model.predict(frame)) <= set(THREE)
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(X)


@pytest.mark.parametrize(
    "model",
    [
        few_vectors.classifier(9, **SHAPE),
        few_vectors.classifier(9, "train", "hinge", **SHAPE),
        few_vectors.classifier(basis=X[:9], **SHAPE),
        few_vectors.rsvm(0.05, **SHAPE),
    ],
    ids=["pursuit", "hinge", "own", "rsvm"],
)
def test_a_pickled_model_decides_bit_alike_and_a_clone_fits_alike(model):
    reading.fit(model, X, Y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.decision_function(X), model.decision_function(X)
    )
    assert str(again.certificate_) == str(model.certificate_)
    copy = reading.fit(clone(model), X, Y)
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize(
    "model", [few_vectors.classifier(**SHAPE), few_vectors.regressor()]
)
def test_a_search_over_the_basis_finds_that_one_vector_is_too_few(model):
    y = Y if is_classifier(model) else T
    grid = {
        "method__n_vectors": [1, 25, 0.2],
        "method__basis": ["pursuit", "nystroem"],
    }
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert search.best_params_["method__n_vectors"] != 1
    assert search.best_score_ > 0.7


def test_a_pipeline_scales_and_hands_frames_on():
    pipe = make_pipeline(
        StandardScaler().set_output(transform="pandas"),
        FunctionTransformer(feature_names_out="one-to-one"),
        few_vectors.classifier(20, C=10.0, **SEED),
    )
    pipe.set_output(transform="pandas")
    frame = pd.DataFrame(X * [1, 1e4], columns=["east", "north"])
    assert pipe.fit(frame, Y).score(frame, Y) > 0.75
    assert list(pipe[-1].feature_names_in_) == ["east", "north"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("basis", BASES)
def test_a_seed_repeats_the_fit_with_any_number_of_threads(basis, loss):
    rows, y = noisy(700, seed=4)
    models = [
        reading.fit(
            few_vectors.classifier(
                10, basis, loss, gamma=0.5, random_state=3, n_jobs=jobs
            ),
            rows,
            y,
        )
        for jobs in (1, 1, 2)
    ]
    first, again, threaded = (model.decision_function(rows) for model in models)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, threaded, atol=1e-6)


def test_fitting_writes_no_constructor_parameter():
    for model in (few_vectors.classifier(9, basis=X[:4]), few_vectors.regressor(9)):
        before = dict(model.get_params())
        reading.fit(model, X, Y)
        assert all(model.get_params()[name] is before[name] for name in before)


# --- bad input ------------------------------------------------------------------------


def assert_refuses(model, *parts, X=X, y=Y):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is checked below
        model.fit(X, y)
    text = str(caught.value)
    for part in (type(model).__name__, *parts):
        assert part in text, text


@pytest.mark.parametrize("kind", [few_vectors.classifier, few_vectors.regressor])
@pytest.mark.parametrize("n", [0, -1, 1.5, 1.0, 0.0, -0.5, "ten", True, None, np.nan])
def test_the_size_is_a_number_or_a_share(kind, n):
    assert_refuses(kind(n_vectors=n), f"n_vectors={n!r}", "at least 1", "share")


@pytest.mark.parametrize("kind", [few_vectors.classifier, few_vectors.regressor])
@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("basis", "nonsense", "'rpcholesky'"),
        ("certificate", "maybe", "'projection'"),
        ("certificate", None, "'projection'"),
        ("fit_intercept", "yes", "True or False"),
        ("C", 0.0, "above 0"),
        ("C", -3.5, "above 0"),
        ("C", np.nan, "finite"),
        ("tol", -0.5, "above 0"),
        ("kernel", "gaussish", "rbf"),
        ("gamma", -0.125, "scale"),
        ("max_iter", -7, "at least 1"),
        ("max_time", -1.5, "above 0"),
        ("memory_budget", -8, "above 0"),
    ],
)
def test_a_parameter_out_of_range_is_refused_with_its_value(kind, name, value, allowed):
    assert_refuses(kind(**{name: value}), f"{name}={value!r}", allowed)


@pytest.mark.parametrize("tube", [-0.1, np.nan, np.inf, "wide", None])
def test_the_tube_is_a_width(tube):
    assert_refuses(
        few_vectors.regressor(tube=tube), f"tube={tube!r}", "at least 0", y=T
    )


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("loss", "log", "'squared_hinge', 'hinge'"),
        ("regulariser", "l1", "'coefficients'"),
    ],
)
def test_a_word_that_is_not_known_is_refused_with_those_that_are(name, value, allowed):
    model = few_vectors.classifier(**{name: value})
    assert_refuses(model, f"{name}={value!r}", allowed)


def test_the_coefficients_of_the_hinge_are_not_penalised():
    model = few_vectors.classifier(loss="hinge", regulariser="coefficients")
    assert_refuses(model, "regulariser='coefficients'", "loss='squared_hinge'")


@pytest.mark.parametrize("kind", [few_vectors.classifier, few_vectors.regressor])
@pytest.mark.parametrize(
    ("basis", "part"),
    [
        (X[:4, :1], "1 columns, X has 2"),
        (np.full((3, 2), np.nan), "NaN"),
        (np.array([[np.inf, 0.0]]), "infinity"),
        (X[0], "1D array"),
        (np.empty((0, 2)), "0 sample"),
        (None, "basis"),
        (17, "basis"),
        ([["a", "b"]], "strings"),
    ],
    ids=["width", "nan", "inf", "flat", "empty", "none", "number", "words"],
)
def test_an_own_basis_must_be_vectors_like_the_rows(kind, basis, part):
    assert_refuses(kind(basis=basis), "basis", part)


def test_labels_and_targets_must_fit():
    assert_refuses(few_vectors.classifier(), "1 class", y=np.full(200, 7))
    for model in (few_vectors.classifier(), few_vectors.regressor()):
        with pytest.raises(ValueError, match=r"(?s)200.*199|199.*200"):
            model.fit(X, Y[:-1])
        with pytest.raises(ValueError, match=r"2 features.*3 features"):
            reading.fit(model, np.c_[X, X[:, 0]], Y).predict(X)
    bad = X.copy()
    bad[3, 1] = np.nan
    assert_refuses(few_vectors.regressor(), "NaN", X=bad, y=T)


def test_certify_asks_for_labels_and_for_a_fit():
    model = reading.fit(few_vectors.classifier(5, **SHAPE), X, Y)
    with pytest.raises(ValueError, match="labels y"):
        certify(model, X)
    with pytest.raises(ValueError, match="not fitted"):
        certify(few_vectors.classifier(), X, Y)


# --- budgets and interrupts -----------------------------------------------------------


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "budget", [{"max_time": 1e-9}, {"max_iter": 1}], ids=["time", "rounds"]
)
def test_a_spent_budget_leaves_a_model_that_claims_nothing(basis, loss, budget):
    name = next(iter(budget))
    for y in (Y, THREE):
        model = few_vectors.classifier(12, basis, loss, **SHAPE, **budget)
        with pytest.warns(NotCertifiedWarning, match=f"CoreVectorClassifier.*{name}"):
            model.fit(X, y)
        assert model.certificate_.stopped_by == name
        assert not model.certificate_.converged
        assert model.certificate_.n_verified == 200
        assert set(model.predict(X)) <= set(y)
        assert certify(model, X, y).primal == pytest.approx(
            model.certificate_.primal, rel=1e-8
        )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("basis", BASES)
def test_few_vectors_are_named_as_the_cause_without_a_warning(basis, loss):
    model = few_vectors.classifier(3, basis, loss, **SHAPE)
    for y in (Y, THREE):
        found = model.fit(X, y).certificate_  # a warning is an error
        assert (found.converged, found.stopped_by) == (False, "n_vectors")
        assert found.relative_gap > found.tol == 1e-3
        assert "NOT converged (n_vectors reached)" in str(found)


@pytest.mark.parametrize("loss", LOSSES)
def test_n_vectors_is_said_only_where_the_weights_are_solved(loss):
    """A basis of given rows: the twin solves the same problem in their span."""
    shape = {"basis": X[:9], "loss": loss, "fit_intercept": False, **SHAPE}
    model = few_vectors.classifier(9, **shape).fit(X, Y)
    assert model.certificate_.stopped_by == "n_vectors"
    K = rbf_kernel(X, model.support_vectors_, gamma=0.5)
    G = rbf_kernel(model.support_vectors_, gamma=0.5)
    power = 2 if loss == "squared_hinge" else 1

    def primal(c):
        lost = np.maximum(1 - Y * (K @ c), 0) ** power
        return 0.5 * c @ G @ c + 5.0 / power * lost.sum()

    start = model.dual_coef_[0]
    best = minimize(primal, start, method="Powell", options={"maxiter": 2000}).fun
    assert primal(start) == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert primal(start) <= best * (1 + 1e-3)
    for cut in ({"max_iter": 1}, {"max_time": 1e-9}):
        if loss == "hinge":  # one round of cutting planes solves nothing
            with pytest.warns(NotCertifiedWarning):
                ended = few_vectors.classifier(9, **shape, **cut).fit(X, Y).certificate_
            assert ended.stopped_by == next(iter(cut))


def test_rows_that_do_not_fit_are_named_where_a_part_decides_the_weights():
    rows, y = noisy(20_000, seed=1, d=4)
    shape = {"basis": "nystroem", "memory_budget": 2**21, **SHAPE}
    with pytest.warns(NotCertifiedWarning, match="by memory_budget.*Raise memory_budg"):
        model = few_vectors.classifier(600, **shape).fit(rows, y)
    assert model.certificate_.stopped_by == "memory_budget"
    # With few vectors all rows decide, in passes.
    few = few_vectors.classifier(20, **shape).fit(rows, y)
    assert few.certificate_.stopped_by == "n_vectors"


def test_a_gap_below_rounding_is_not_blamed_on_the_number_of_vectors():
    model = few_vectors.classifier(200, "nystroem", tol=1e-17, **SHAPE)
    with pytest.warns(NotCertifiedWarning, match="stopped by stall"):
        model.fit(X, Y)
    assert model.certificate_.relative_gap < 1e-8


def test_a_class_that_was_cut_short_is_not_hidden_by_one_that_is_solved():
    found = few_vectors.classifier(9, **SHAPE).fit(X, THREE).certificate_
    best = min(found.parts, key=lambda part: part.relative_gap)
    parts = [
        replace(part, stopped_by="max_time") if part is best else part
        for part in found.parts
    ]
    assert worst_of(parts, "").stopped_by == "max_time"
    assert worst_of(list(found.parts), "").stopped_by == "n_vectors"


def test_classes_share_the_rounds():
    model = few_vectors.classifier(30, "train", "hinge", max_iter=30, **SHAPE)
    reading.fit(model, X, THREE)
    assert model.certificate_.stopped_by == "max_iter"
    assert model.n_iter_ <= 30
    assert (np.abs(model.dual_coef_).sum(axis=1) > 0).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("basis", ["pursuit", "nystroem"])
def test_the_weights_are_solved_also_where_a_large_gap_will_do(basis, loss):
    shape = {"n_vectors": 9, "basis": basis, "loss": loss, **SHAPE}
    model = few_vectors.classifier(tol=0.99, **shape).fit(X, Y)
    assert model.certificate_.converged
    n = len(model.support_vectors_)  # the pursuit may end with fewer
    assert n == 9 or basis == "pursuit"
    own = {**shape, "basis": model.support_vectors_}
    closer = few_vectors.classifier(**own).fit(X, Y).certificate_
    assert closer.stopped_by == "n_vectors"
    assert model.certificate_.primal == pytest.approx(closer.primal, rel=0.01)


@pytest.mark.parametrize("tol", [1.0, 1, 2.5])
@pytest.mark.parametrize("kind", [few_vectors.classifier, few_vectors.regressor])
def test_a_gap_that_says_nothing_is_refused(kind, tol):
    with pytest.raises(InvalidInputError, match=r"tol=.* must be below 1.*1e-3 is"):
        kind(9, tol=tol).fit(X, Y)


@pytest.mark.parametrize("regulariser", ["norm", "coefficients"])
def test_the_weights_are_the_same_where_the_rows_do_not_fit_the_budget(regulariser):
    rows, y = noisy(3000, seed=7)
    shape = {"basis": rows[:20], "regulariser": regulariser, **SHAPE}
    whole = reading.fit(few_vectors.classifier(**shape), rows, y)
    # The numbers of 1724 rows fit, the rows near the margin do.
    blocks = reading.fit(few_vectors.classifier(memory_budget=2**19, **shape), rows, y)
    assert len(blocks.support_vectors_) == len(whole.support_vectors_) == 20
    value = whole.certificate_.primal
    assert blocks.certificate_.primal == pytest.approx(value, rel=1e-9)
    assert certify(blocks, rows, y).primal == pytest.approx(
        blocks.certificate_.primal, rel=1e-8
    )
    # Neither fits: weights of a part of the rows, and the certificate of all.
    part = reading.fit(few_vectors.classifier(memory_budget=2**17, **shape), rows, y)
    # 20 weights of 1500 rows: 20/1500 above the optimum, about.
    assert value * (1 - 1e-9) <= part.certificate_.primal <= 1.02 * value


def interrupting(after):
    """Return a kernel that sends Ctrl-C to this process at its `after`-th call."""
    calls = []

    def kernel(A, B):
        calls.append(1)
        if len(calls) == after:
            os.kill(os.getpid(), signal.SIGINT)
        return rbf_kernel(A, B, gamma=0.5)

    return kernel


@pytest.mark.parametrize("basis", [b for b in BASES if b != "kmeans"])
@pytest.mark.parametrize("loss", LOSSES)
def test_an_interrupt_leaves_a_whole_model(basis, loss):
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        pytest.skip("something else listens to Ctrl-C here")
    model = few_vectors.classifier(12, basis, loss, kernel=interrupting(2), **SEED)
    with pytest.warns(NotCertifiedWarning, match="interrupted; fit again"):
        model.fit(X, Y)
    assert model.certificate_.stopped_by == "interrupt"
    assert not model.certificate_.converged
    assert np.isfinite(model.decision_function(X)).all()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


MOVING = """
import os, signal, threading, warnings
signal.signal(signal.SIGINT, signal.default_int_handler)   # background jobs ignore it
import numpy as np
import few_vectors

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.random((20_000, 8))
y = rng.integers(0, 2, 20_000)
for model in (few_vectors.classifier(300, C=1e3, gamma=5.0),
              few_vectors.classifier(300, loss="hinge", C=1e2, gamma=5.0),
              few_vectors.regressor(300, C=1e3, gamma=5.0)):
    model.set_params(random_state=0, n_jobs=1).fit(X[:500], y[:500])   # compile
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    model.fit(X, y)
    print(model.certificate_.stopped_by, model.certificate_.converged,
          len(model.support_vectors_) >= 1, model.predict(X[:9]).shape, flush=True)
"""


@pytest.mark.slow
def test_an_interrupt_while_vectors_move_leaves_a_whole_model():
    done = subprocess.run(
        [sys.executable, "-c", MOVING],
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["interrupt False True (9,)"] * 3


def test_iris_with_one_shared_basis_is_as_good_as_one_core_set_per_class():
    rows, labels = load_iris(return_X_y=True)
    model = reading.fit(few_vectors.classifier(12, C=10.0, **SEED), rows, labels)
    assert model.score(rows, labels) >= 0.97


def test_the_stated_coefficients_of_a_regressor_are_in_the_units_of_y():
    t = 1000 + 50 * T
    model = few_vectors.regressor(20, C=5.0, gamma=0.5, **SEED).fit(X, t)
    stated = rbf_kernel(X, model.support_vectors_, gamma=0.5) @ model.dual_coef_[0]
    np.testing.assert_allclose(model.predict(X), stated + model.intercept_[0])


@pytest.mark.parametrize("unit", [1e80, 1e-80])
@pytest.mark.parametrize("basis", ["pursuit", "kmeans"])
def test_rows_far_from_the_origin_in_any_unit(basis, unit, rng):
    # Such rows are shifted and multiplied by a power of two, and vectors go back.
    X = rng.normal(size=(200, 5)) + 5
    y = (X[:, 0] - 5) * (X[:, 1] - 5) > 0
    scores = []
    for rows in (X, unit * X):
        model = few_vectors.classifier(20, basis, gamma="scale", C=10.0, **SEED)
        scores.append(reading.fit(model, rows, y).score(rows, y))
    assert scores[0] > 0.85
    assert scores[1] > scores[0] - 0.03
