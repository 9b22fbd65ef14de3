"""Ways to choose basis rows: what they promise, against slow NumPy."""

from dataclasses import replace

import hypothesis.strategies as st
import naive
import numpy as np
import pytest
import strategies
from hypothesis import given
from scipy import sparse

from corevec._runtime import Progress
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.exceptions import InvalidInputError
from corevec.kernels import CallableKernel, PrecomputedKernel, make_kernel
from corevec.models import basis_of_rows
from corevec.solvers.basis import (
    BY_NAME,
    Pool,
    incomplete_cholesky,
    kmeans,
    randomly_pivoted_cholesky,
    uniform,
)
from corevec.solvers.numeric import Deadline

BY_ROWS = ["uniform", "rpcholesky", "cholesky"]


def kernel_for(X, **params):
    params = params or {"kernel": "rbf", "gamma": 0.5}
    return make_kernel(**params, statistics=row_statistics(as_source(X)))


def choose(name, X, size, seed=0, present=None, *, kernel=None, **options):
    source = as_source(X, options.pop("memory_budget", 2**28))
    present = np.arange(source.n_rows) if present is None else present
    kernel = kernel or kernel_for(X)
    rng = np.random.default_rng(seed)
    return BY_NAME[name](Pool(source, kernel, present, rng), size, **options)


def trace_error(X, rows, kernel):
    """Return trace(K - K_B) / trace(K), by NumPy's least squares."""
    few, all_rows = kernel.prepare(rows), kernel.prepare(as_source(X).block(0, len(X)))
    across, among = kernel.block(few, all_rows), kernel.block(few, few)
    explained = np.linalg.lstsq(among, across, rcond=1e-12)[0]
    return 1.0 - np.sum(across * explained) / np.trace(kernel.block(all_rows, all_rows))


@pytest.fixture(scope="module")
def clusters():
    """Nine tight clusters of very different size: what uniform rows miss."""
    rng = np.random.default_rng(3)
    sizes = [1000, 200, 60, 20, 10, 5, 4, 3, 2]
    centres = rng.normal(scale=6.0, size=(len(sizes), 4))
    parts = [
        c + 0.3 * rng.normal(size=(n, 4)) for c, n in zip(centres, sizes, strict=True)
    ]
    return np.concatenate(parts)


@given(strategies.clouds(min_rows=4), st.sampled_from(strategies.KERNELS))
def test_the_factor_of_all_rows_reproduces_the_kernel_matrix(X, params):
    kernel = kernel_for(X, **params)
    for name in BY_ROWS:
        rows = choose(name, X, len(X), kernel=kernel)
        basis, is_definite = basis_of_rows(rows, kernel, Workers(1), 1e-12)
        K = naive.gram(X, **params)
        if basis is None:
            assert not K.any()
            continue
        assert is_definite
        points = kernel.prepare(as_source(X).block(0, len(X)))
        Z = basis.features(kernel.block(points, basis.points))
        # What is left out is below SPREAD_THRESHOLD = 1e-9 of the largest k(x, x).
        assert np.abs(Z @ Z.T - K).max() <= 1e-8 * np.abs(K).max()


@given(strategies.clouds(min_rows=4), st.integers(1, 12), st.integers(0, 9))
def test_no_row_twice_none_of_weight_zero_and_values_of_their_numbers(X, size, seed):
    present = np.arange(len(X))[:: 1 + seed % 2]
    for name in BY_ROWS:
        rows = choose(name, X, size, seed, present)
        assert len(rows) <= min(size, len(present))
        assert len(np.unique(rows.index)) == len(rows)
        assert np.isin(rows.index, present).all()
        np.testing.assert_array_equal(rows.values, X[rows.index])


@pytest.mark.parametrize("name", ["rpcholesky", "cholesky", "kmeans"])
def test_equal_rows_are_chosen_once(name):
    X = np.repeat(np.arange(12.0).reshape(6, 2), 50, axis=0)
    rows = choose(name, X, 20)
    assert len(rows) == 6
    assert len(np.unique(rows.values, axis=0)) == 6


@pytest.mark.parametrize("name", ["rpcholesky", "cholesky"])
def test_the_trace_error_falls_with_the_size_and_beats_uniform(name, clusters):
    # Wide enough for a cluster to be nearly one point: greedy pivots are the outliers,
    # which pays only where few directions are left within a cluster.
    kernel = kernel_for(clusters, kernel="rbf", gamma=0.05)
    seeds = range(5)
    means = [
        np.mean(
            [
                trace_error(
                    clusters, choose(name, clusters, k, seed, kernel=kernel), kernel
                )
                for seed in seeds
            ]
        )
        for k in (5, 10, 20, 40, 80)
    ]
    assert (np.diff(means) < 0).all()
    at_random = np.mean(
        [
            trace_error(
                clusters, choose("uniform", clusters, 40, seed, kernel=kernel), kernel
            )
            for seed in seeds
        ]
    )
    assert means[3] < 0.7 * at_random


def test_greedy_pivots_are_those_of_a_plain_loop():
    X = np.random.default_rng(0).normal(size=(200, 2))
    K = naive.gram(X, kernel="rbf", gamma=0.5)
    expected = []
    for _ in range(20):
        # k(x, x) = 1 for all rows: the first pivot is the first row.
        pivot = int(np.argmax(K.diagonal())) if expected else 0
        expected.append(pivot)
        K = K - np.outer(K[pivot], K[pivot]) / K[pivot, pivot]
    assert choose("cholesky", X, 20).index.tolist() == expected


def test_randomly_pivoted_rows_have_the_chance_of_their_residual():
    # Two clusters of 3 equal rows and 1: the first pivot leaves exactly the other
    # cluster, so two rows are one of each, and the lone row is always among them.
    X = np.array([[0.0], [0.0], [0.0], [50.0]])
    drawn = [choose("rpcholesky", X, 2, seed).index for seed in range(300)]
    assert all(3 in rows and len(rows) == 2 for rows in drawn)
    # The lone row comes first with probability 1/4: 75 of 300, deviation 7.5.
    first = sum(rows[0] == 3 for rows in drawn)
    assert 75 - 4 * 7.5 < first < 75 + 4 * 7.5


def test_rows_given_first_stay_and_the_others_complete_them(clusters):
    first = np.array([1, 500, 999])
    rows = choose("rpcholesky", clusters, 30, first=first)
    assert set(first) <= set(rows.index)
    assert len(rows) == 30
    only = choose("uniform", clusters, 30, present=first)
    kernel = kernel_for(clusters)
    assert trace_error(clusters, rows, kernel) < trace_error(clusters, only, kernel) / 2


@pytest.mark.parametrize("name", ["rpcholesky", "cholesky", "kmeans"])
def test_a_small_budget_looks_at_a_sample(name):
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    kernel = kernel_for(X)
    full, small = (
        trace_error(X[:500], choose(name, X, 60, memory_budget=budget), kernel)
        for budget in (2**28, 2**20)
    )
    at_random = trace_error(X[:500], choose("uniform", X, 60), kernel)
    assert small < min(1.5 * full, at_random)


def test_centres_are_near_those_of_lloyd_run_to_its_end(clusters):
    rows = choose("kmeans", clusters, 9)
    assert (rows.index == -1).all()
    inertia = ((clusters[:, None] - rows.values) ** 2).sum(-1).min(axis=1).sum()
    centres = rows.values
    for _ in range(100):
        near = ((clusters[:, None] - centres) ** 2).sum(-1).argmin(axis=1)
        centres = np.stack([clusters[near == j].mean(axis=0) for j in range(9)])
    best = ((clusters[:, None] - centres) ** 2).sum(-1).min(axis=1).sum()
    assert inertia < 1.05 * best


def test_centres_count_a_row_as_often_as_its_weight(clusters):
    weights = np.random.default_rng(0).integers(1, 4, size=len(clusters)).astype(float)
    # One centre is the weighted mean.
    one = choose("kmeans", clusters, 1, weights=weights)
    expected = np.average(clusters, axis=0, weights=weights)
    np.testing.assert_allclose(one.values[0], expected, rtol=1e-10)


def test_centres_far_from_the_origin_and_of_huge_columns():
    X = np.random.default_rng(0).normal(size=(300, 12))
    plain = choose("kmeans", X, 5)
    shifted = choose("kmeans", X + 2.0**20, 5)
    np.testing.assert_allclose(shifted.values - 2.0**20, plain.values, atol=1e-6)
    huge = choose("kmeans", np.ldexp(X, 600), 5)
    np.testing.assert_allclose(np.ldexp(huge.values, -600), plain.values, rtol=1e-9)


@pytest.mark.parametrize("name", [*BY_NAME])
def test_sparse_rows_give_what_dense_ones_give(name):
    X = sparse.random_array((400, 30), density=0.1, rng=np.random.default_rng(0))
    X = sparse.csr_array(X)
    # One kernel for both: the shift that dense rows get moves the rounding errors.
    kernel = kernel_for(X)
    rows = choose(name, X, 20, kernel=kernel)
    dense = choose(name, X.toarray(), 20, kernel=kernel)
    np.testing.assert_array_equal(rows.index, dense.index)
    values = rows.values.toarray() if sparse.issparse(rows.values) else rows.values
    np.testing.assert_allclose(values, dense.values, atol=1e-12)


@pytest.mark.parametrize("name", BY_ROWS)
def test_precomputed_and_callable_kernels_choose_the_same_rows(name):
    X = np.random.default_rng(0).normal(size=(80, 2))
    K = naive.gram(X, kernel="rbf", gamma=0.5)
    called = CallableKernel(lambda A, B: naive.gram(A, B, kernel="rbf", gamma=0.5))
    expected = choose(name, X, 15).index
    precomputed = choose(name, K, 15, kernel=PrecomputedKernel())
    np.testing.assert_array_equal(precomputed.index, expected)
    np.testing.assert_array_equal(choose(name, X, 15, kernel=called).index, expected)


def test_kmeans_says_which_bases_a_kernel_without_means_can_have():
    with pytest.raises(InvalidInputError, match=r"'precomputed'.*basis='rpcholesky'"):
        choose("kmeans", np.eye(5), 2, kernel=PrecomputedKernel())


def test_kmeans_says_so_when_dense_centres_do_not_fit():
    X = sparse.csr_array((10, 100_000))
    with pytest.raises(InvalidInputError, match=r"8 dense centres of 100,000 columns"):
        choose("kmeans", X, 8, memory_budget=2**20)


def test_the_functions_are_those_of_the_table():
    assert list(BY_NAME.values()) == [
        uniform,
        kmeans,
        randomly_pivoted_cholesky,
        incomplete_cholesky,
    ]


class Questions(Deadline):
    """A deadline that is over after so many questions, whatever the clock says."""

    def __init__(self, most):
        super().__init__(Progress(1, max_time=1e3), 1e3)
        self.__dict__["most"] = most

    def is_over(self, needed=0.0):
        self.__dict__["most"] -= 1
        return self.most < 0


@pytest.mark.parametrize("name", ["rpcholesky", "cholesky", "kmeans"])
@pytest.mark.parametrize("most", [0, 2])
def test_at_the_deadline_there_are_fewer_vectors_but_some(name, most, clusters):
    source, kernel = as_source(clusters), kernel_for(clusters)
    present, rng = np.arange(source.n_rows), np.random.default_rng(0)
    pool = Pool(source, kernel, present, rng, Questions(most))
    few = BY_NAME[name](pool, 120)
    assert 16 <= len(few) < 120
    assert len(BY_NAME[name](replace(pool, deadline=Questions(1000)), 120)) == 120
