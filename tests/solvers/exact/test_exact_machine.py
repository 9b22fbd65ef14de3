"""The exact machine over all rows, against dense algebra and independent optima."""

import tracemalloc

import hypothesis.strategies as st
import naive
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import linalg, sparse

from corevec import (
    CoreVectorClassifier,
    CoreVectorRegressor,
    NotCertifiedWarning,
)
from corevec._runtime import Progress
from corevec.backend.loops.ascent import ascend
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.kernels import Rows, make_kernel
from corevec.models import Settings
from corevec.problems import (
    AutomaticTube,
    Labels,
    Task,
    one_class,
    regression,
    svdd,
    two_class,
)
from corevec.solvers.exact import (
    LEVEL_ERROR,
    ActiveRows,
    Ascent,
    Exact,
    Landmarks,
    Later,
    LowRank,
    SquareGram,
    TiledGram,
    levels_serve,
)
from corevec.solvers.numeric import Systems

KERNELS = (
    {"kernel": "rbf", "gamma": 0.5},
    {"kernel": "laplacian", "gamma": 1.0},
    {"kernel": "inverse-distance", "gamma": 2.0},
    {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
    {"kernel": "linear"},
)


def cloud(n, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    noise = rng.normal(size=n)
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + noise, rng.integers(0, 3, n) + 0.5


def solved(problems, X, kernel, tol=1e-9, method=None, budget=1 << 28):
    source = as_source(X, budget, Workers(1))
    made = make_kernel(**kernel, statistics=row_statistics(source))
    task = Task(problems, source, made, Settings(tol=tol, random_state=0))
    return (method or Exact()).solve(task, Progress(source.n_rows))


def assert_optimal(found, twin, tol=1e-9):
    """The bracket holds the twin's optimum, and is as narrow as was asked for."""
    size = getattr(twin, "size", twin.primal)
    slack = twin.rounding * (1 if hasattr(twin, "size") else size) + 1e-12 * size
    assert found.dual <= twin.primal + slack
    assert found.primal >= twin.dual - slack
    assert found.primal - twin.primal <= 1e-6 * size + slack
    assert found.converged or found.relative_gap < 1e-6


# --- against independent solutions ----------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 60),
    C=st.sampled_from([1e-3, 0.1, 1.0, 30.0, 1e3]),
    kernel=st.sampled_from(KERNELS),
    weighted=st.booleans(),
)
def test_the_two_class_optimum_is_that_of_least_squares(seed, n, C, kernel, weighted):
    X, z, s = cloud(n, seed=seed)
    codes = (z > np.median(z)).astype(np.int64)
    s = s if weighted else None
    found = solved([two_class(Labels(n, codes, s), C, 1, 0)], X, kernel)
    twin = naive.hinge(naive.gram(X, **kernel), 2.0 * codes - 1, C, s)
    assert_optimal(found.certificates[0], twin)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 50),
    C=st.sampled_from([0.1, 1.0, 100.0]),
    tube=st.sampled_from([0.0, 0.1, 1.0, 9.0]),
    weighted=st.booleans(),
)
def test_a_fixed_tube_has_the_optimum_of_its_twin(seed, n, C, tube, weighted):
    X, z, s = cloud(n, seed=seed)
    s = s if weighted else None
    kernel = {"kernel": "rbf", "gamma": 0.5}
    found = solved([regression(Labels(n, None, s), C, z, tube=tube)], X, kernel)
    twin = naive.fixed_tube(naive.gram(X, **kernel), z, C, tube, s)
    assert_optimal(found.certificates[0], twin)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(6, 40),
    mu=st.sampled_from([0.01, 0.1, 0.5]),
    C=st.sampled_from([0.5, 20.0]),
)
def test_an_automatic_tube_has_the_optimum_of_its_twin(seed, n, mu, C):
    X, z, _ = cloud(n, seed=seed)
    kernel = {"kernel": "rbf", "gamma": 0.5}
    found = solved(
        [regression(Labels(n), C, z, AutomaticTube(mu))], X, kernel, tol=1e-8
    )
    twin = naive.automatic_tube(naive.gram(X, **kernel), z, C, mu)
    assert_optimal(found.certificates[0], twin)


def test_one_class_has_the_optimum_of_its_twin():
    X, _, s = cloud(60)
    kernel = {"kernel": "rbf", "gamma": 0.5}
    found = solved([one_class(Labels(60, None, s), 2.0)], X, kernel)
    twin = naive.hinge(naive.gram(X, **kernel), np.ones(60), 2.0, s, bias=False)
    assert_optimal(found.certificates[0], twin)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", KERNELS[:4], ids=lambda one: one["kernel"])
@pytest.mark.parametrize("C", [0.05, 1.0, 50.0])
def test_a_soft_ball_has_the_optimum_of_its_twin(C, kernel, weighted):
    X, _, s = cloud(50)
    s = s if weighted else None
    found = solved([svdd(Labels(50, None, s), C)], X, kernel)
    K = naive.gram(X, **kernel)
    twin = naive.soft_ball(K, C, s)
    certificate = found.certificates[0]
    assert_optimal(certificate, twin, tol=1e-6)
    centre = naive.distances_sq(K, found_coefficients(found, 50))
    wanted = naive.soft_ball_primal(centre, C, np.ones(50) if s is None else s)
    assert abs(certificate.primal - wanted) <= 1e-8 * wanted


def found_coefficients(found, n):
    coef = np.zeros(n)
    coef[found.functions.basis.index] = found.functions.coef[:, 0]
    return coef


def test_a_ball_whose_radius_would_be_imaginary_is_left_to_the_core_set():
    X, _, _ = cloud(40)
    kernel = {"kernel": "rbf", "gamma": 0.5}
    assert solved([svdd(Labels(40), 1e-3)], X, kernel) is None


@pytest.mark.parametrize("method", [Exact(), Ascent()], ids=["newton", "ascent"])
def test_kernels_of_the_user_are_solved_exactly_where_they_are_definite(method):
    X, z, _ = cloud(200)
    codes = (z > 0).astype(np.int64)
    problems = [two_class(Labels(200, codes), 2.0, 1, 0)]
    K = naive.gram(X, gamma=0.5)
    wanted = naive.hinge(K, 2.0 * codes - 1, 2.0)
    own = {"kernel": lambda A, B: naive.gram(A, B, gamma=0.5)}
    for rows, kernel in ((K, {"kernel": "precomputed"}), (X, own)):
        found = solved(problems, rows, kernel, method=method)
        assert_optimal(found.certificates[0], wanted)
    wave = {"kernel": lambda A, B: np.sin(A @ B.T)}  # indefinite
    task = Task(
        problems,
        as_source(X, 1 << 28, Workers(1)),
        make_kernel(**wave),
        Settings(tol=1e-3),
    )
    assert not method.applies(task)


# --- the identities of docs/mathematics.md, 5 -----------------------------------------


def test_the_gap_is_a_sum_over_the_rows():
    """P - D = C/2 sum s (xi - mu b)^2 + sum over m > 1 of b (m - 1), for any b >= 0."""
    rng = np.random.default_rng(0)
    X, z, s = cloud(50)
    y, C = np.where(z > 0, 1.0, -1.0), 3.0
    K = naive.gram(X, kernel="rbf", gamma=0.5) + 1.0
    for scale in (0.1, 1.0, 5.0):
        b = scale * rng.random(50)
        f = K @ (y * b)
        margin, mu = y * f, 1 / (C * s)
        slack = np.maximum(0.0, 1 - margin)
        primal = (y * b) @ f / 2 + C / 2 * (s @ slack**2)
        dual = b.sum() - ((y * b) @ f + b @ (mu * b)) / 2
        own = C / 2 * (s @ (slack - mu * b) ** 2)
        own += (b * np.maximum(margin - 1, 0.0)).sum()
        assert primal - dual == pytest.approx(own, rel=1e-12)


# --- many rows: samples, working sets, tiles ------------------------------------------


@pytest.mark.parametrize("budget", [1 << 30, 1 << 24], ids=["cached", "recomputed"])
@pytest.mark.parametrize("kind", ["classes", "tube", "sparse"])
def test_working_sets_end_at_the_optimum_of_all_rows(kind, budget):
    n = 1500
    X, z, s = cloud(n, d=9)
    small = Exact(first_rows=200, growth=3)
    labels = Labels(n, np.digitize(z, [-1.0, 1.0]), s)
    problems = [two_class(labels, 1.0, c, None) for c in range(3)]
    if kind == "tube":
        problems = [regression(Labels(n, None, s), 1.0, z, tube=0.5)]
    rows = sparse.csr_matrix(X) if kind == "sparse" else X
    kernel = {"kernel": "rbf", "gamma": 0.1}
    found = solved(problems, rows, kernel, tol=1e-6, method=small, budget=budget)
    whole = solved(problems, rows, kernel, tol=1e-9, method=Exact(first_rows=n))
    for one, other in zip(found.certificates, whole.certificates, strict=True):
        assert one.converged
        assert one.primal == pytest.approx(other.primal, rel=2e-6)


def test_a_part_of_a_matrix_is_gathered():
    X, _, _ = cloud(300)
    kernel, rows = make_kernel("rbf", 0.5), Rows(X, np.arange(300))
    whole = SquareGram.of(rows, kernel, np.float64, Workers(1))
    few = np.random.default_rng(0).permutation(300)[:290]
    assert np.array_equal(whole.part(few).values, whole.values[np.ix_(few, few)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_vectors", [1, 3, 7])
def test_every_kind_of_matrix_has_the_same_products(dtype, n_vectors):
    X, _, _ = cloud(103)
    kernel, rows = make_kernel("rbf", 0.5), Rows(X, np.arange(103))
    how = kernel, dtype, Workers(1)
    grown = TiledGram(Rows(X[:41], np.arange(41)), *how, n_cached=99, tile=32)
    grown.extend(Rows(X[41:], np.arange(41, 103)))
    made = [
        SquareGram.of(rows, *how),
        TiledGram(rows, *how, n_cached=99, tile=32),
        TiledGram(rows, *how, n_cached=3, tile=32),
        TiledGram(rows, *how, n_cached=0, tile=32),
        grown,
    ]
    V = np.random.default_rng(0).normal(size=(103, n_vectors))
    K = naive.gram(X, gamma=0.5)
    close = {"rtol": 0, "atol": 1e-12 if dtype == np.float64 else 2e-4}
    for one in made:
        np.testing.assert_allclose(one.times(V, 103), K @ V, **close)
        np.testing.assert_allclose(one.times(V, 42), K[:42, :42] @ V[:42], **close)


@pytest.mark.parametrize("n_cached", [0, 3, 99])
def test_products_skip_tiles_that_are_multiplied_by_zero(n_cached):
    X, _, _ = cloud(103)
    how = make_kernel("rbf", 0.5), np.float64, Workers(2)
    tiles = TiledGram(Rows(X, np.arange(103)), *how, n_cached=n_cached, tile=32)
    K, rng = naive.gram(X, gamma=0.5), np.random.default_rng(0)
    for active in (np.arange(40, 60), np.array([5, 100]), np.array([102])):
        V = np.zeros((103, 2))
        V[active] = rng.normal(size=(len(active), 2))
        between = tiles.on_active(active)(V)
        np.testing.assert_allclose(between[active], (K @ V)[active], atol=1e-12)
        for _ in range(2):  # computed, then perhaps kept
            np.testing.assert_allclose(tiles.times(V, 103), K @ V, atol=1e-12)
    assert len(tiles.tiles) <= n_cached
    assert (0, 0) not in TiledGram(
        Rows(X, np.arange(103)), *how, n_cached=99, tile=32
    ).tiles  # nothing is computed before it is needed


def test_values_in_16_bits_are_off_by_half_a_level():
    X, _, _ = cloud(103)
    how = make_kernel("rbf", 0.5), np.uint16, Workers(2)
    rows, K = Rows(X, np.arange(103)), naive.gram(X, gamma=0.5)
    tiles = TiledGram(rows, *how, n_cached=99, tile=32)
    assert not tiles.can_be_factored
    found = np.column_stack([tiles.times(v[:, None], 103) for v in np.eye(103)])
    np.testing.assert_allclose(found, K, rtol=0, atol=0.5 / 65535 + 1e-6)
    assert abs(found - K).max() > 0.3 / 65535  # levels it is
    assert np.std(found - K) < 1.05 * LEVEL_ERROR
    assert all(tile.dtype == np.uint16 for tile in tiles.tiles.values())
    few = TiledGram(rows, *how, n_cached=2, tile=32)  # the others stay in float32
    V = np.random.default_rng(0).normal(size=(103, 3))
    bound = (0.5 / 65535 + 1e-6) * np.abs(V).sum(axis=0).max()
    np.testing.assert_allclose(few.times(V, 103), K @ V, rtol=0, atol=bound)


def test_16_bits_serve_where_their_errors_add_less_than_the_tolerance():
    rbf, polynomial = make_kernel("rbf", 0.5), make_kernel("poly", 0.5)
    assert levels_serve(rbf, 50_000, slack=1.0, tol=1e-3)
    assert not levels_serve(rbf, 50_000, slack=100.0, tol=1e-3)
    assert not levels_serve(rbf, 50_000, slack=1.0, tol=1e-9)
    assert not levels_serve(polynomial, 50_000, slack=1.0, tol=1e-3)
    # The bound: the objective of the solution with rounded values.
    X, z, _ = cloud(300)
    K, y = naive.gram(X, gamma=0.5), np.where(z > 0, 1.0, -1.0)
    rounded, slack = np.round(K * 255) / 255, 3.0  # fewer levels: an effect to see

    def objective(K, a):  # of a ridge regression on the labels
        return a @ K @ a / 2 + slack * ((y - K @ a) ** 2).sum() / 2

    ridge = np.eye(300) / slack
    best = objective(K, linalg.solve(K + ridge, y))
    found = objective(K, linalg.solve(rounded + ridge, y))
    error = np.std(rounded - K)
    assert best < found <= best * (1 + 2 * 300 * (slack * error) ** 2)


def test_a_certificate_of_a_fit_with_16_bits_is_that_of_the_true_values():
    X, z, _ = cloud(5000, d=3)
    y = np.where(z > 0, 1.0, -1.0)
    problems = [two_class(Labels(5000, (z > 0).astype(np.int64)), 1.0, 1, 0)]
    found = solved(problems, X, KERNELS[0], tol=1e-3, method=Exact())
    basis, coef = found.functions.basis, found.functions.coef[:, 0]
    K = naive.gram(X, gamma=0.5)
    f = K[:, basis.index] @ coef + coef.sum()
    loss = np.maximum(1.0 - y * f, 0.0)
    norm = coef @ f[basis.index]
    primal = norm / 2 + (loss**2).sum() / 2
    certificate = found.certificates[0]
    assert certificate.converged
    np.testing.assert_allclose(certificate.primal, primal, rtol=1e-9)
    assert primal - certificate.dual <= 1e-3 * primal


def test_the_preconditioner_is_the_inverse_of_what_it_says():
    X, _, _ = cloud(120)
    kernel, rows = make_kernel("rbf", 0.5), Rows(X, np.arange(120))
    later, rng = Later.whole(120, 1 << 28), np.random.default_rng(0)
    landmarks = Landmarks.choose(rows, kernel, 1e-3, later, rng)
    factor = LowRank(landmarks, Rows(X[:70], np.arange(70)), Workers(1))
    factor.extend(Rows(X[70:], np.arange(70, 120)))
    chosen = landmarks.rows.index
    K = naive.gram(X, gamma=0.5)
    projected = K[:, chosen] @ linalg.solve(K[np.ix_(chosen, chosen)], K[chosen])
    F = factor.features.astype(float)
    np.testing.assert_allclose(F @ F.T, projected, atol=1e-3)  # float32 coordinates
    np.testing.assert_allclose(factor.left, (K - F @ F.T).diagonal(), atol=1e-6)
    active, mu = np.arange(0, 120, 2), np.full(60, 0.5)
    inverse = factor.inverse(active, mu, has_bias=True)
    P = (F @ F.T)[np.ix_(active, active)] + 1.0 + np.diag(factor.left[active] + mu)
    r = np.random.default_rng(1).normal(size=60)
    np.testing.assert_allclose(inverse(r), linalg.solve(P, r), atol=2e-4)
    assert (factor.left >= 0).all()


def test_conjugate_gradients_solve_several_systems_at_once():
    rng = np.random.default_rng(0)
    A = [m @ m.T + np.eye(30) for m in rng.normal(size=(3, 30, 30))]
    right = rng.normal(size=(30, 3))

    def product(V):
        return np.column_stack([a @ v for a, v in zip(A, V.T, strict=True)])

    systems = Systems(np.zeros_like(right), right.copy())
    bounds = np.array([1e-3, 1e-10, 1e-10])
    systems.improve(product, lambda R: R, bounds, lambda: True, 200)
    residual = right - product(systems.solution)
    assert (np.linalg.norm(residual, axis=0) <= 2 * bounds + 1e-12).all()
    for t in (1, 2):
        wanted = linalg.solve(A[t], right[:, t])
        np.testing.assert_allclose(systems.solution[:, t], wanted, atol=1e-8)


# --- one multiplier at a time ---------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 60),
    C=st.sampled_from([1e-3, 0.1, 1.0, 30.0]),
    kernel=st.sampled_from(KERNELS),
    weighted=st.booleans(),
)
def test_coordinate_ascent_ends_at_the_optimum(seed, n, C, kernel, weighted):
    X, z, s = cloud(n, seed=seed)
    codes = (z > np.median(z)).astype(np.int64)
    s = s if weighted else None
    problems = [two_class(Labels(n, codes, s), C, 1, 0)]
    found = solved(problems, X, kernel, method=Ascent())
    if found is None:  # too stiff: Newton steps take over, which others test
        assert C >= 1.0
        return
    twin = naive.hinge(naive.gram(X, **kernel), 2.0 * codes - 1, C, s)
    assert_optimal(found.certificates[0], twin)


FEW = ActiveRows(sample_rows=20, joining_share=0.1)


@pytest.mark.parametrize(
    "method",
    [
        Ascent(refined_rows=0),
        Ascent(refined_rows=0, double_rows=0),
        Ascent(refined_rows=0, few_columns=0),
        Ascent(),
        Ascent(refined_rows=0, whole_rows=0, active=FEW),
        Ascent(refined_rows=0, whole_rows=0, matrix_share=0.0),
    ],
    ids=["float64", "float32", "shared", "refined", "active rows", "newton"],
)
@pytest.mark.parametrize("absent", [False, True], ids=["all", "two classes absent"])
def test_pairs_of_classes_are_that_many_two_class_problems(method, absent):
    n, s = 400, np.ones(400)
    X, z, _ = cloud(n)
    s[::7] = 0.0
    if absent:
        s[z < 0.0] = 0.0
    codes = np.digitize(z, [-1.0, 0.0, 1.0])
    labels, tol = Labels(n, codes, s), 1e-4
    pairs = [two_class(labels, 1.0, j, i) for i in range(4) for j in range(i + 1, 4)]
    kernel = {"kernel": "rbf", "gamma": 0.5}
    found = solved(pairs, X, kernel, tol=tol, method=method)
    K = naive.gram(X, **kernel)
    for problem, one in zip(pairs, found.certificates, strict=True):
        own = np.flatnonzero(np.isin(codes, (problem.positive, problem.negative)))
        y = np.where(codes[own] == problem.positive, 1.0, -1.0)
        assert one.converged
        if not s[own].any():
            assert one.primal == one.dual == 0.0
            continue
        twin = naive.hinge(K[np.ix_(own, own)], y, 1.0, s[own])
        assert one.dual <= twin.primal + twin.rounding + 1e-12 * one.primal
        assert one.primal >= twin.dual - twin.rounding - 1e-12 * one.primal
        assert one.primal - twin.primal <= tol * one.primal + twin.rounding


@pytest.mark.parametrize("weighted", [False, True])
def test_a_large_problem_is_solved_on_its_active_rows(weighted):
    X, z, s = cloud(500)
    codes = (z > 1.0).astype(np.int64)
    s = s if weighted else None
    method = Ascent(most_rows=0, refined_rows=0, alone=FEW)
    problems = [two_class(Labels(500, codes, s), 1.0, 1, 0)]
    found = solved(problems, X, KERNELS[0], tol=1e-6, method=method)
    twin = naive.hinge(naive.gram(X, **KERNELS[0]), 2.0 * codes - 1, 1.0, s)
    assert found.certificates[0].converged
    assert_optimal(found.certificates[0], twin)


REST = {"refined_rows": 0, "whole_rows": 0}


@pytest.mark.parametrize(
    "method",
    [
        Ascent(refined_rows=0),
        Ascent(**REST, most_rows=0, against_rest=FEW),
        Ascent(**REST, most_rows=0, few_columns=0),
    ],
    ids=["shared", "active rows", "shared, wide"],
)
def test_classes_against_the_rest_are_solved_one_by_one(method):
    X, z, s = cloud(400)
    codes = np.digitize(z, [-1.0, 0.0, 1.0])
    labels, kernel = Labels(400, codes, s), KERNELS[0]
    found = solved(
        [two_class(labels, 1.0, k) for k in range(4)], X, kernel, 1e-6, method
    )
    K = naive.gram(X, **kernel)
    for k, one in enumerate(found.certificates):
        assert one.converged
        assert_optimal(one, naive.hinge(K, np.where(codes == k, 1.0, -1.0), 1.0, s))


def test_classes_with_many_active_rows_are_left_to_newton_steps():
    X, z, _ = cloud(400)
    labels = Labels(400, np.digitize(z, [-1.0, 0.0, 1.0]))
    few = ActiveRows(sample_rows=20, most_active=50)
    method = Ascent(**REST, most_rows=0, against_rest=few)
    problems = [two_class(labels, 1.0, k) for k in range(4)]
    assert solved(problems, X, KERNELS[0], tol=1e-4, method=method) is None


def test_a_problem_with_many_active_rows_is_left_to_newton_steps():
    X, z, _ = cloud(500)
    few = ActiveRows(sample_rows=20, most_active=50)
    problems = [two_class(Labels(500, (z > 0).astype(np.int64)), 1.0, 1, 0)]
    method = Ascent(most_rows=0, refined_rows=0, alone=few)
    assert solved(problems, X, KERNELS[0], tol=1e-3, method=method) is None


def test_a_step_limit_is_reported():
    X, z, _ = cloud(50)
    K = naive.gram(X, gamma=0.5)
    y, omega = np.where(z > 0, 1.0, -1.0), np.full(50, 1e6)
    b, gradient = np.zeros(50), np.full(50, -1.0)
    assert ascend(K, 1.0, y, omega, b, gradient, 1e-9, 10) < 0
    # The gradient is that of what was reached.
    Q = (y[:, None] * (K + 1.0) * y) + np.diag(1 / omega)
    np.testing.assert_allclose(gradient, Q @ b - 1.0, atol=1e-12)


# --- as a user meets it ---------------------------------------------------------------


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4, 1e7])
def test_duplicated_rows_with_opposite_labels_are_certified_at_any_C(C):
    X, _, _ = cloud(200, seed=3)
    X, y = np.repeat(X, 2, axis=0), np.tile([0, 1], 200)
    model = CoreVectorClassifier(C=C, gamma=0.5, random_state=0).fit(X, y)
    assert model.certificate_.converged
    assert np.isfinite(model.decision_function(X)).all()
    assert np.abs(model.decision_function(X)).max() < 1e-3  # each row says both


def test_what_rounding_hides_is_not_claimed():
    """At C = 1e9 the multipliers of duplicate rows cancel; their rounding is stated."""
    X, _, _ = cloud(200, seed=3)
    X, y = np.repeat(X, 2, axis=0), np.tile([0, 1], 200)
    with pytest.warns(NotCertifiedWarning, match="stall"):
        model = CoreVectorClassifier(C=1e9, gamma=0.5, random_state=0).fit(X, y)
    found = model.certificate_
    assert found.rounding == pytest.approx(found.relative_gap, rel=0.01)


def test_rows_of_weight_zero_are_absent():
    X, z, _ = cloud(300)
    y, s = (z > 0).astype(int), np.ones(300)
    s[150:] = 0.0
    y[150:] = 1 - y[150:]
    weighted = CoreVectorClassifier(random_state=0, tol=1e-8, gamma=0.5).fit(X, y, s)
    alone = CoreVectorClassifier(random_state=0, tol=1e-8, gamma=0.5)
    alone.fit(X[:150], y[:150])
    np.testing.assert_allclose(
        weighted.decision_function(X), alone.decision_function(X), atol=1e-3
    )


def test_noisy_rows_of_every_kind_are_certified_by_default():
    X, z, _ = cloud(9000, d=8)
    for model, target in (
        (CoreVectorClassifier(random_state=0), (z > 0).astype(int)),
        (CoreVectorClassifier(random_state=0), np.digitize(z, [-1, 0, 1])),
        (CoreVectorRegressor(random_state=0), z),
    ):
        found = model.fit(X, target).certificate_
        assert found.converged
        assert found.n_verified == 9000
        assert found.relative_gap <= 1e-3


def test_a_warm_start_goes_on_from_the_last_solution():
    X, z, _ = cloud(3000, d=9)
    y = (z > 0).astype(int)
    model = CoreVectorClassifier(C=1.0, warm_start=True, random_state=0).fit(X, y)
    first = model.certificate_.primal
    again = model.fit(X, y)
    assert again.certificate_.converged
    assert again.certificate_.primal == pytest.approx(first, rel=2e-3)
    other = CoreVectorClassifier(C=2.0, random_state=0).fit(X, y)
    path = model.set_params(C=2.0).fit(X, y)
    assert path.certificate_.primal == pytest.approx(
        other.certificate_.primal, rel=2e-3
    )


def test_a_fit_takes_its_budget_some_tiles_and_some_numbers_per_row():
    """Cached tiles take half of the budget, coordinates 0.3 (twice that is reserved).

    Each of two threads computes a tile of 1024 x 1024 values in float64 at a time, and
    sums by it.
    """
    X, z, _ = cloud(12_000, d=8)
    budget, tiles = 16 << 20, 2 * 2 * (8 << 20)
    given = {"gamma": 0.2, "memory_budget": budget, "random_state": 0, "n_jobs": 2}
    model = CoreVectorClassifier(**given)
    model.fit(X[:600], z[:600] > 0)  # compiled
    tracemalloc.start()
    try:
        model.fit(X, z > 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.certificate_.converged
    assert len(model.support_) > 5000  # whose matrix takes 400 MB in float32
    assert peak <= 1.1 * budget + tiles + 8 * 50 * len(X)
