"""Vectors along the moments of an expansion: `compress` where rows have many columns.

Text is generated: words by Zipf's law, two classes that prefer different words, rows of
unit length.
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, SVR

from corevec import compress
from corevec.kernels import Rows, make_kernel
from corevec.models import KernelExpansion
from corevec.solvers.compression import ARRAYS, moments_of

COLUMNS = 1500


def text(n, n_classes=2, seed=0):
    """Return tf-idf-like rows of some 40 words, and their classes."""
    rng = np.random.default_rng(seed)
    taste = np.random.default_rng(99).normal(size=(n_classes, COLUMNS))
    y = rng.integers(n_classes, size=n)
    common = 1.0 / np.arange(5, COLUMNS + 5)
    X = np.zeros((n, COLUMNS))
    for one in range(n_classes):
        chance = common * np.exp(0.4 * taste[one])
        rows = np.flatnonzero(y == one)
        X[rows] = rng.multinomial(40, chance / chance.sum(), size=len(rows))
    X = np.log1p(X) * np.log(1 / common)
    return sparse.csr_matrix(X / np.linalg.norm(X, axis=1, keepdims=True)), y


def room_for(n_vectors, n_functions=1):
    """Return a budget that has so many dense vectors, but not their moves."""
    return 8 * COLUMNS * (ARRAYS * n_vectors + 3 * n_functions)


@pytest.fixture(scope="module")
def machine():
    X, y = text(1200)
    return SVC(C=3.0, gamma=1.0).fit(X, y)


@pytest.fixture(scope="module")
def new_rows():
    return text(3000, seed=1)[0]


def agreement(model, small, X):
    return np.mean(model.predict(X) == small.predict(X))


def test_of_text_they_predict_as_the_machine_does_where_rows_do_not(machine, new_rows):
    small = compress(machine, 60, memory_budget=room_for(60), random_state=0)
    rows = compress(machine, 60, max_iter=0, random_state=0)
    assert not sparse.issparse(small.support_vectors_)
    assert sparse.issparse(rows.support_vectors_)
    # 99.5 % and 78.5 %.
    assert agreement(machine, small, new_rows) > 0.99
    assert agreement(machine, rows, new_rows) < 0.85


def test_the_distance_is_that_of_what_is_returned(machine):
    small = compress(machine, 21, memory_budget=room_for(21), random_state=0)
    V, a = machine.support_vectors_.toarray(), machine.dual_coef_.toarray().ravel()
    B, c = small.support_vectors_, small.dual_coef_.ravel()
    square = a @ rbf_kernel(V, gamma=1.0) @ a + c @ rbf_kernel(B, gamma=1.0) @ c
    square -= 2 * c @ rbf_kernel(B, V, gamma=1.0) @ a
    np.testing.assert_allclose(small.distance_[0], np.sqrt(square), rtol=1e-6)


def test_no_more_vectors_than_fit_the_budget(machine):
    small = compress(machine, 60, memory_budget=room_for(21), random_state=0)
    assert len(small.support_vectors_) == 21


@pytest.mark.parametrize("gamma", [100.0, 600.0, 1e5])
def test_of_a_narrow_kernel_rows_are_kept(gamma):
    # Rows are ten widths of the kernel apart: f is nothing at new ones, with either.
    X, y = text(300)
    model = SVC(gamma=gamma).fit(X, y)
    small = compress(model, 60, memory_budget=room_for(60), random_state=0)
    assert sparse.issparse(small.support_vectors_)


def test_the_same_seed_gives_the_same_vectors(machine):
    one, other = (
        compress(machine, 31, memory_budget=room_for(31), random_state=3)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.support_vectors_, other.support_vectors_)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(
    ("kernel", "n_vectors"),
    [({"kernel": "linear"}, 3), ({"kernel": "poly", "degree": 2, "coef0": 0.5}, 13)],
)
def test_a_function_of_two_powers_in_few_dimensions_is_met(
    kernel, n_vectors, make, rng
):
    # 400 columns, but rows of a space of five: one direction and a matrix of rank five.
    plane = np.linalg.qr(rng.normal(size=(400, 5)))[0].T
    X = rng.normal(size=(100, 5)) @ plane
    target = X.sum(axis=1) + (X @ plane.T)[:, 0] ** 2
    model = SVR(gamma=0.3, **kernel).fit(make(X), target)
    # A copy of dense rows fits, moves of 13 vectors do not.
    budget = 1e6
    small = compress(model, n_vectors, memory_budget=budget, random_state=0)
    new = rng.normal(size=(50, 5)) @ plane
    scale = np.abs(model.predict(new)).max()
    np.testing.assert_allclose(
        small.predict(new), model.predict(new), atol=1e-6 * scale
    )
    assert len(small.support_vectors_) <= n_vectors


def test_several_classes_share_them():
    X, y = text(1500, n_classes=3)
    model = SVC(C=3.0, gamma=1.0).fit(X, y)
    new, _ = text(2000, n_classes=3, seed=1)
    small = compress(model, 61, memory_budget=room_for(61, 3), random_state=0)
    assert not sparse.issparse(small.support_vectors_)
    assert agreement(model, small, new) > 0.98  # 99.4 %, rows 79.1 %


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("rbf", lambda s: np.exp(-0.6 * s) * (1 + 0.6 * s + 0.18 * s**2)),
        ("poly", lambda s: 2.0**3 + 3 * 4.0 * 0.3 * s + 3 * 2.0 * 0.09 * s**2),
    ],
)
def test_what_a_row_adds_to_its_own_value_is_its_part_of_the_series(name, series, rng):
    # Rows of four dimensions, four directions: then it is all of k(x, x) up to the
    # square, whatever the functions.
    X = rng.normal(size=(40, 4)) @ np.linalg.qr(rng.normal(size=(6, 4)))[0].T
    functions = KernelExpansion(
        make_kernel(name, 0.3, 3, 2.0),
        Rows(X, np.arange(40)),
        rng.normal(size=(40, 2)),
        np.zeros(2),
    )
    found = moments_of(functions, 1 + 4 + 2 * 4, 1e9, rng)
    centre = X.mean(axis=0) if name == "rbf" else np.zeros(6)
    squares = ((X - centre) ** 2).sum(axis=1)
    np.testing.assert_allclose(found.own, series(squares), rtol=1e-6)


def test_functions_without_a_direction_have_no_moments(rng):
    X = rng.normal(size=(20, 6))
    functions = KernelExpansion(
        make_kernel("rbf", 0.3), Rows(X, np.arange(20)), np.zeros((20, 1)), np.zeros(1)
    )
    assert moments_of(functions, 5, 1e9, rng) is None


def test_functions_without_a_square_have_directions_only(rng):
    # Unit vectors, their opposites with opposite weights: M is zero to the digit.
    X = np.concatenate([np.eye(30), -np.eye(30)])
    functions = KernelExpansion(
        make_kernel("rbf", 1.0),
        Rows(sparse.csr_matrix(X), np.arange(60)),
        np.repeat([[1.0], [-1.0]], 30, axis=0),
        np.zeros(1),
    )
    found = moments_of(functions, 9, 1e9, rng)
    assert len(found.vectors) == 3
    np.testing.assert_allclose(found.vectors.values.std(axis=1), 0, atol=1e-12)


def test_a_kernel_that_is_indefinite_between_rows_keeps_rows(rng):
    X = sparse.csr_matrix(np.abs(rng.normal(size=(80, 50))) + 1)
    target = rng.normal(size=80)
    model = SVR(kernel="poly", degree=3, coef0=-1.0, gamma=1.0).fit(X, target)
    small = compress(model, 4, memory_budget=8 * 50 * (4 * ARRAYS + 3), random_state=0)
    assert sparse.issparse(small.support_vectors_)


def test_directions_that_functions_share_are_held_once(rng):
    # Five targets, three of them equal, in a space of three dimensions.
    X = rng.normal(size=(150, 3)) @ rng.normal(size=(3, 200))
    functions = KernelExpansion(
        make_kernel("linear"),
        Rows(sparse.csr_matrix(X), np.arange(150)),
        rng.normal(size=(150, 5)),
        np.zeros(5),
    )
    found = moments_of(functions, 3, 1e9, rng)
    assert np.linalg.matrix_rank(found.vectors.values) == 3
    assert moments_of(functions, 2, 1e9, rng) is None
