"""What must not change the answer: units, origin, order, storage, threads, blocks.

Two runs need not follow the same path, so functions are compared as far as their
certificates let them differ (`reading.reach`), and values to the tolerance asked for.
"""

import numpy as np
import pytest
import reading
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st

from corevec import SVDD, CoreVectorClassifier, CoreVectorOneClass, methods

TIGHT = {"tol": 1e-8, "random_state": 0}
NAMES = ["rbf", "laplacian", "inverse-distance"]


@pytest.fixture(scope="module")
def board():
    X, y = strategies.checkerboard(400)
    return X - 2.0, y


def fitted(X, y, **params):
    return reading.fit(CoreVectorClassifier(**{**TIGHT, "gamma": 0.5, **params}), X, y)


def assert_same(one, other, f_one, f_other, factor=1.0):
    first, second = one.certificate_.primal, other.certificate_.primal
    assert first == pytest.approx(second, rel=1e-6 * factor)
    assert np.abs(f_one - f_other).max() <= factor * reading.reach(one, other)


@settings(max_examples=20)
@given(
    strategies.problems(
        C=strategies.penalties(-2, 3), among=strategies.DISTANCE_KERNELS
    ),
    st.sampled_from([2.0**-300, 2.0**-20, 8.0, 2.0**330]),
)
def test_units_of_the_rows_cancel_against_gamma(problem, unit):
    shape = {"C": problem.C, **problem.kernel}
    plain = fitted(problem.X, problem.y, **shape)
    shape["gamma"] = problem.kernel["gamma"] / unit**2
    scaled = fitted(problem.X * unit, problem.y, **shape)
    f = scaled.decision_function(problem.X * unit)
    assert_same(plain, scaled, plain.decision_function(problem.X), f)


@pytest.mark.parametrize("kernel", NAMES)
@pytest.mark.parametrize("unit", [2.0**664, 2.0**-1074], ids=["1e200", "subnormal"])
def test_huge_and_subnormal_scales_are_only_units(kernel, unit, rng):
    # Whole numbers times a power of two: the scaled rows are exact.
    X, y = rng.integers(-50, 51, size=(80, 2)).astype(float), np.array([1, -1] * 40)
    plain = fitted(X, y, kernel=kernel, gamma="scale")
    scaled = fitted(X * unit, y, kernel=kernel, gamma="scale")
    f = scaled.decision_function(X * unit)
    assert_same(plain, scaled, plain.decision_function(X), f)
    for detector in (SVDD, CoreVectorOneClass):
        shape = {"kernel": kernel, "gamma": "scale", "C": 2.0, **TIGHT}
        one = reading.fit(detector(**shape), X)
        other = reading.fit(detector(**shape), X * unit)
        values = one.certificate_.primal, other.certificate_.primal
        assert values[0] == pytest.approx(values[1], rel=1e-6)


@pytest.mark.parametrize("scale", [1e-16, 1e-12, 1e-6, 1e20])
@pytest.mark.parametrize("qp", ["newton", "smo"])
def test_a_squared_radius_is_in_the_units_of_the_rows(scale, qp, rng):
    """Rounding was judged beside 1: of rows of 1e-10 no hard ball was found."""
    X = rng.normal(size=(60, 3))
    shape = {"kernel": "linear", "method": methods.CoreSet(qp=qp), "tol": 1e-6}
    for C in (np.inf, 0.3):
        plain = SVDD(C=C, **shape).fit(X).certificate_
        scaled = SVDD(C=C / scale**2, **shape).fit(X * scale).certificate_
        assert plain.converged
        assert scaled.converged
        assert scaled.primal == pytest.approx(scale**2 * plain.primal, rel=1e-6, abs=0)


@pytest.mark.parametrize("kernel", NAMES)
@pytest.mark.parametrize("gamma", [0.5, "scale", "mean-distance"])
def test_an_offset_of_a_million_leaves_distance_kernels_alone(kernel, gamma, board):
    X, y = np.round(board[0] * 2**20) / 2**20, board[1]  # exact beside 1e6
    here = fitted(X, y, kernel=kernel, gamma=gamma)
    there = fitted(X + 1e6, y, kernel=kernel, gamma=gamma)
    f = there.decision_function(X + 1e6)
    assert_same(here, there, here.decision_function(X), f)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "poly"])
def test_flipped_labels_flip_the_sign(kernel, board):
    X, y = board
    one = fitted(X, y, kernel=kernel, tol=1e-6)
    other = fitted(X, -y, kernel=kernel, tol=1e-6)
    assert_same(one, other, one.decision_function(X), -other.decision_function(X), 2)


def test_the_order_of_the_rows_does_not_matter(board, rng):
    X, y = board
    order = rng.permutation(len(X))
    one, other = fitted(X, y), fitted(X[order], y[order])
    assert_same(one, other, one.decision_function(X), other.decision_function(X))


# Without low rank the budget also bounds the core set, whose matrix must fit: 64 MB
# hold the rows that this board needs, 1 MB does not (and the certificate says so).
@pytest.mark.parametrize(("method", "budget"), [("lowrank", 2**20), ("coreset", 2**26)])
def test_threads_and_blocks_do_not_matter(method, budget):
    X, y = strategies.checkerboard(2000, seed=1)
    shape = {"C": 10.0, "tol": 1e-5, "method": method}
    one = fitted(X, y, n_jobs=1, **shape)
    f = one.decision_function(X)
    for change in ({"n_jobs": 2}, {"memory_budget": budget}, {"memory_budget": 2**30}):
        other = fitted(X, y, **{"n_jobs": 1, **shape, **change})
        assert_same(one, other, f, other.decision_function(X), factor=10)
        assert other.certificate_.converged


def test_the_same_seed_gives_the_same_model_bit_for_bit(board):
    X, y = board
    one, other = (fitted(X, y, random_state=3, n_jobs=1) for _ in range(2))
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize("kernel", [*NAMES, "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("place", ["csr_matrix", "csr_array", "memmap", "fortran"])
def test_every_storage_of_the_rows_gives_the_same_answer(place, kernel, rng, tmp_path):
    X = rng.normal(size=(120, 6)) * (rng.random((120, 6)) < 0.4)
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.2, 1, -1)
    stored = {
        "csr_matrix": lambda: sp.csr_matrix(X),
        "csr_array": lambda: sp.csr_array(X),
        "memmap": lambda: on_disk(X, tmp_path),
        "fortran": lambda: np.asfortranarray(X),
    }[place]()
    shape = {"kernel": kernel, "gamma": 0.3, "tol": 1e-6}
    dense, other = fitted(X, y, **shape), fitted(stored, y, **shape)
    assert_same(dense, other, dense.decision_function(X), other.decision_function(X))
    np.testing.assert_allclose(
        other.decision_function(stored), other.decision_function(X), atol=1e-9
    )


def on_disk(X, folder):
    rows = np.memmap(folder / "rows.dat", dtype=X.dtype, mode="w+", shape=X.shape)
    rows[:] = X
    rows.flush()
    return np.memmap(folder / "rows.dat", dtype=X.dtype, mode="r", shape=X.shape)


@pytest.mark.parametrize("detector", [SVDD, CoreVectorOneClass])
def test_the_detectors_take_sparse_rows(detector, rng):
    X = rng.normal(size=(120, 6)) * (rng.random((120, 6)) < 0.4)
    shape = {"C": 2.0, "gamma": 0.3, "tol": 1e-7, "random_state": 0}
    dense = reading.fit(detector(**shape), X)
    sparse = reading.fit(detector(**shape), sp.csr_array(X))
    values = dense.certificate_.primal, sparse.certificate_.primal
    assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_empty_sparse_rows_are_rows_of_zeros(rng):
    X = rng.normal(size=(40, 5)) * (rng.random((40, 5)) < 0.3)
    X[::4] = 0.0
    y = np.array([1, -1] * 20)
    dense, sparse = fitted(X, y), fitted(sp.csr_matrix(X), y)
    assert_same(dense, sparse, dense.decision_function(X), sparse.decision_function(X))
    nothing = sp.csr_matrix((3, 5))
    same = sparse.decision_function(np.zeros((3, 5)))
    np.testing.assert_allclose(sparse.decision_function(nothing), same, atol=1e-9)


def test_unsorted_and_duplicated_sparse_indices_are_summed():
    tangled = sp.csr_matrix(
        ([1.0, 2.0, 3.0, 1.0, 1.0], [2, 0, 1, 1, 1], [0, 2, 3, 5]), shape=(3, 3)
    )
    y = np.array([1, -1, 1])
    dense, sparse = fitted(tangled.toarray(), y), fitted(tangled, y)
    X = tangled.toarray()
    assert_same(dense, sparse, dense.decision_function(X), sparse.decision_function(X))


def test_float32_rows_give_the_same_answer_to_float32_precision(board):
    X, y = board[0].astype(np.float32), board[1]
    single, double = fitted(X, y, tol=1e-3), fitted(X.astype(float), y, tol=1e-3)
    assert single.certificate_.converged
    f, g = single.decision_function(X), double.decision_function(X)
    assert np.abs(f - g).max() <= 2 * reading.reach(single, double) + 1e-3


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.int8, np.uint8, bool])
def test_small_and_whole_number_types_mean_their_values(dtype, rng):
    X, y = rng.integers(0, 2, size=(60, 6)).astype(dtype), np.array([1, -1] * 30)
    given_type, double = fitted(X, y), fitted(X.astype(float), y)
    f, g = given_type.decision_function(X), double.decision_function(X.astype(float))
    # A half-precision row may be scanned in float32: 1e-3 beside values near 1.
    assert np.abs(f - g).max() <= reading.reach(given_type, double) + 1e-3


def test_constant_columns_do_not_change_a_distance_kernel(board):
    X, y = board
    wider = np.column_stack([np.full(len(X), 7.0), X, np.zeros(len(X))])
    one, other = fitted(X, y), fitted(wider, y)
    assert_same(one, other, one.decision_function(X), other.decision_function(wider))


def test_only_constant_columns_still_fit():
    X, y = np.full((10, 3), 4.0), np.array([1] * 7 + [-1] * 3)
    for gamma in ("scale", "mean-distance", 1.0):
        model = fitted(X, y, gamma=gamma)
        assert (model.predict(X) == 1).all()  # the larger class wins by its weight


def test_duplicated_rows_change_no_plain_ball(rng):
    X = rng.normal(size=(50, 3))
    once = reading.fit(SVDD(gamma=0.5, **TIGHT), X)
    thrice = reading.fit(SVDD(gamma=0.5, **TIGHT), np.repeat(X, 3, axis=0))
    assert once.radius_ == pytest.approx(thrice.radius_, rel=1e-7)


def test_clashing_twins_among_other_rows_do_no_harm(board):
    X, y = board
    X, y = np.vstack([X, X[:5]]), np.concatenate([y, -y[:5]])
    model = fitted(X, y, C=100.0, tol=1e-6)
    assert model.certificate_.converged
    assert model.score(X[:-5], y[:-5]) > 0.95
