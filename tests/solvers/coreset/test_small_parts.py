"""The rooms below the estimators, each against NumPy, SciPy or its own equations."""

import naive
import numpy as np
import pytest
from scipy import linalg, sparse

from corevec.backend import profiles
from corevec.backend.loops import kernels as _loops
from corevec.certificates import Subset, projection_dual
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.kernels import KERNEL_NAMES, Rows, make_kernel
from corevec.models import KernelExpansion, basis_from
from corevec.problems import Labels, two_class
from corevec.solvers import numeric as qp

# Rounding of a kernel value: a few units of the precision times the d terms of a
# distance, times gamma |x|^2 in the exponent (below 100 here).
ROUNDING = {np.float64: 1e-12, np.float32: 2e-4}
NAMED = [name for name in KERNEL_NAMES if name != "precomputed"]


def rows_of(values):
    return Rows(values, np.arange(values.shape[0]))


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("columns", [1, 8, 9, 20])
@pytest.mark.parametrize("name", NAMED)
def test_dense_and_sparse_rows_give_the_same_kernel_values(
    rng, name, columns, precision
):
    X = (rng.random((40, columns)) * (rng.random((40, columns)) < 0.7)) - 0.2
    if name != "normalized-linear":  # 0/0 in the twin; the next test has the case
        X[3] = 0.0
    Z = X[::3] + 0.1
    kernel = make_kernel(name, 0.3, 2, 1.0)
    want = naive.gram(X, Z, kernel=name, gamma=0.3, degree=2, coef0=1.0)
    for make in (np.asarray, sparse.csr_matrix, sparse.csr_array):
        x = kernel.prepare(rows_of(make(X)), precision)
        z = kernel.prepare_basis(rows_of(make(Z)), precision)
        np.testing.assert_allclose(kernel.block(x, z), want, atol=ROUNDING[precision])
        coef = rng.normal(size=(len(Z), 3))
        np.testing.assert_allclose(
            kernel.times(x, z, coef), want @ coef, atol=40 * ROUNDING[precision]
        )
    own = kernel.diagonal(rows_of(X))
    square = naive.gram(X, X, kernel=name, gamma=0.3, degree=2, coef0=1.0)
    np.testing.assert_allclose(own, np.diag(square), atol=1e-12)


def test_the_zero_row_stays_at_zero_when_a_kernel_is_normalised(rng):
    X = rng.random((5, 3))
    X[2] = 0.0
    kernel = make_kernel("normalized-linear")
    x = kernel.prepare_basis(rows_of(X))
    assert not kernel.block(x, x)[2].any()
    np.testing.assert_array_equal(kernel.diagonal(rows_of(X)), [1, 1, 0, 1, 1])


@pytest.mark.parametrize(("precision", "units"), [(np.float64, 4), (np.float32, 6)])
def test_the_exponential_is_right_to_a_few_units_in_the_last_place(precision, units):
    x = np.concatenate([np.linspace(0, 80, 10_001), np.geomspace(1e-12, 80, 2000)])
    x = x.astype(precision)
    got = x.copy()
    _loops.profile(profiles.RBF, 1.0, 0.0, 3.0, got)
    want = np.exp(-x.astype(np.float64))
    # Besides the last place, the product of -gamma and x is rounded once.
    room = units * np.finfo(precision).eps
    assert np.max(np.abs(got / want - 1)) <= room


@pytest.mark.parametrize("total", [None, 1.0, 30.0])
@pytest.mark.parametrize("power", [-2, 0, 2])
def test_smo_and_newton_agree(rng, total, power):
    X = rng.normal(size=(60, 3))
    K = naive.gram(X, X, gamma=0.5)
    ridge = np.full(60, 10.0**-power)
    p = K.diagonal() / 2 * rng.random(60) if total else np.ones(60)
    start = np.zeros(60)
    problem = qp.DualProblem(K, ridge, p, total)
    exact = qp.newton(problem, start)
    pairs = qp.smo(problem, start, qp.SmoRule(1e-10))
    assert pairs.dual == pytest.approx(exact.dual, rel=1e-8)
    for found in (exact, pairs):
        again = problem.value(found.multipliers)
        assert found.dual == pytest.approx(again, rel=1e-10)
        assert found.multipliers.min() >= 0


def test_balance_solves_its_equation(rng):
    for _ in range(50):
        slope, omega = rng.normal(size=20), 10.0 ** rng.uniform(-3, 6, size=20)
        t = qp.balance(slope, omega)
        assert omega @ np.maximum(slope - t, 0) == pytest.approx(1.0, rel=1e-9)


def test_statistics_survive_a_far_origin_and_count_weights(rng):
    X = rng.normal(size=(2000, 3)) * [1, 2, 3] + 1e6
    weights = rng.integers(0, 4, size=2000).astype(float)
    found = row_statistics(as_source(X, memory_budget=1), weights)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    np.testing.assert_allclose(found.mean, repeated.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found.column_variance, repeated.var(axis=0), rtol=1e-9)
    assert found.entry_variance == pytest.approx(repeated.var(), rel=1e-9)
    pairs = naive.squared_distances(X[:300], X[:300]).mean()
    few = row_statistics(as_source(X[:300]))
    assert 2 * few.total_variance == pytest.approx(pairs, rel=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_blocks_cover_all_rows_once_whatever_the_budget(rng, make):
    X = make(rng.random((1000, 5)))
    for budget in (1, 2**20):
        with Workers(2) as workers:
            source = as_source(X, budget, workers)
            index = source.map(lambda rows: rows.index)
            total = source.reduce(lambda rows: float(rows.values.sum()), float.__add__)
        np.testing.assert_array_equal(index, np.arange(1000))
        assert total == pytest.approx(float(X.sum()))


def test_drawn_rows_are_different_rows(rng):
    source = as_source(np.zeros((1000, 1)))
    for size in (1, 50, 500, 1000):
        drawn = source.draw(rng, size)
        assert len(np.unique(drawn)) == len(drawn)
        assert 0 <= drawn.min() <= drawn.max() < 1000
        assert 0.85 * size <= len(drawn) <= size


def test_a_subset_evaluates_from_kept_columns_what_all_rows_would(rng):
    X = rng.random((500, 2))
    source = as_source(X)
    kernel = make_kernel("rbf", 2.0)
    subset = Subset(source, rng.permutation(500)[:100])
    for basis in ([3, 50, 7], [7, 99, 3, 400], [1]):
        coef = rng.normal(size=(len(basis), 2))
        rows = source.take(np.array(basis))
        functions = KernelExpansion(kernel, rows, coef, np.array([0.5, -1.0]))
        want = functions.values(source)[subset.index]
        np.testing.assert_allclose(subset.evaluate(functions, np.float64), want)


def test_a_basis_and_its_extension_factor_the_kernel_matrix(rng):
    X = rng.random((300, 2)) * 3
    kernel = make_kernel("rbf", 1.0)
    basis = basis_from(rows_of(X[:50]), kernel)
    longer = basis.extended(rows_of(X[50:]))
    assert len(longer) > len(basis)
    for one in (basis, longer):
        K = naive.gram(one.rows.values, one.rows.values, gamma=1.0)
        np.testing.assert_allclose(one.factor @ one.factor.T, K, atol=1e-13)
        block = naive.gram(X, one.rows.values, gamma=1.0)
        solved = linalg.solve_triangular(one.factor, block.T, lower=True).T
        # The product with the inverse keeps |phi|^2, which delta is made of, to a few
        # units: what the certificate rounds up by.
        got, want = (np.einsum("ij,ij->i", f, f) for f in (one.features(block), solved))
        np.testing.assert_allclose(got, want, atol=1e-14)
    assert np.all((one.features(block) ** 2).sum(axis=1) <= 1 + 1e-12)


def test_the_projection_bound_is_below_the_exact_dual(rng):
    X = rng.random((400, 2)) * 4
    codes = (np.floor(X).sum(axis=1) % 2).astype(np.int8)
    source, kernel = as_source(X), make_kernel("rbf", 1.0)
    problem = two_class(Labels(400, codes), 100.0, 1, 0)
    rows = source.take(np.arange(40))
    function = KernelExpansion(kernel, rows, rng.normal(size=(40, 1)), np.array([0.1]))
    y = np.where(codes == 1, 1.0, -1.0)
    beta = 100.0 * np.maximum(0, 1 - y * function.values(source)[:, 0])
    Q = np.outer(y, y) * (naive.gram(X, X, gamma=1.0) + 1) + np.eye(400) / 100.0
    exact = beta.sum() ** 2 / (2 * beta @ Q @ beta)
    for size in (5, 40):
        basis = basis_from(source.take(np.arange(size)), kernel)
        bound = projection_dual(problem, function, 0.0, source, basis)
        assert 0 < bound <= exact * (1 + 1e-12)
    full = basis_from(rows_of(X), kernel)
    tight = projection_dual(problem, function, 0.0, source, full)
    assert tight == pytest.approx(exact, rel=1e-5)
