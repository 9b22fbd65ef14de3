"""The hinge loss by cutting planes: exact, within the theorems, honestly certified."""

import tracemalloc

import hinge_fits as hinge
import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from sklearn.svm import SVC

from corevec._runtime import Progress
from corevec.certificates import BoundRequest, HingeProblem, dual_value, hinge_problem
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.kernels import Kernel, PrecomputedKernel, make_kernel
from corevec.models import basis_of
from corevec.problems import Labels
from corevec.solvers.cutting_plane import (
    Rules,
    cutting_planes,
    line_search,
    part_in_time,
    span_of,
)

GAMMA = 0.7
RBF = Kernel("rbf", gamma=GAMMA)
LINEAR = Kernel("linear")


def noisy(n, seed=0, d=2):
    """Return rows of two overlapping classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] * X[:, 1] + 0.4 * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


def labels_of(y, s=None):
    return Labels(len(y), (y > 0).astype(np.int8), s)


def optimum(K, y, C, s=None, *, bias):
    """Return a bracket of the optimum: L-BFGS-B on the dual, f of its multipliers."""
    s = np.ones(len(y)) if s is None else s
    Q = np.outer(y, y) * (K + bias)
    found = minimize(
        lambda b: (b @ Q @ b / 2 - b.sum(), Q @ b - 1),
        np.zeros(len(y)),
        jac=True,
        bounds=[(0, C * w) for w in s],
        method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-10},
    )
    b = found.x
    margins = Q @ b
    primal = b @ margins / 2 + C * s @ np.maximum(1 - margins, 0)
    return b.sum() - b @ margins / 2, primal


def objective_of(outcome, X, y, C, s=None, *, gram=None):
    """Return the primal value of the fitted function, by hand."""
    s = np.ones(len(y)) if s is None else s
    gram = gram or (lambda A, B: naive.gram(A, B, gamma=GAMMA))
    basis = outcome.functions.basis.values
    basis = basis.toarray() if sparse.issparse(basis) else basis
    c, b0 = outcome.functions.coef[:, 0], outcome.functions.intercept[0]
    f = gram(X, basis) @ c + b0
    norm_sq = c @ gram(basis, basis) @ c + b0**2
    return norm_sq / 2 + C * s @ np.maximum(1 - y * f, 0)


def in_the_full_span(X, y, C, s=None, **given):
    source = as_source(X)
    basis, _ = basis_of(source, RBF, np.arange(len(y)), 1e-13)
    return hinge.fit_in_basis(labels_of(y, s), C, 1, 0, source, basis, **given)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("C", [0.3, 20.0])
def test_in_the_full_span_the_objective_is_that_of_an_independent_solver(bias, C):
    X, y = noisy(60)
    dual, primal = optimum(naive.gram(X, gamma=GAMMA), y, C, bias=bias)
    found = in_the_full_span(X, y, C, has_bias=bias, tol=1e-5)
    certificate = found.certificates[0]
    assert certificate.converged
    assert certificate.primal <= primal * (1 + 1e-4)
    assert certificate.primal >= dual * (1 - 1e-9)
    assert certificate.dual <= primal * (1 + 1e-9)
    by_hand = objective_of(found, X, y, C)
    assert certificate.primal == pytest.approx(by_hand, rel=1e-7)


@pytest.mark.parametrize("C", [0.5, 10.0])
def test_in_the_full_span_the_objective_is_that_of_svc(C):
    # With every row mirrored (-phi, -y) the free bias of SVC is zero by symmetry, and
    # its problem with C/2 is the one without a bias.
    X, y = noisy(80, seed=1)
    K = naive.gram(X, gamma=GAMMA)
    both = np.block([[K, -K], [-K, K]])
    twice = np.concatenate([y, -y])
    svc = SVC(C=C / 2, kernel="precomputed", tol=1e-8).fit(both, twice)
    b = np.zeros(2 * len(y))
    b[svc.support_] = svc.dual_coef_[0]
    w = b[: len(y)] - b[len(y) :]
    value = w @ K @ w / 2 + C * np.maximum(1 - y * (K @ w), 0).sum()
    found = in_the_full_span(X, y, C, has_bias=False, tol=1e-5)
    assert found.certificates[0].primal == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("epsilon", [None, 1e-6])
def test_algorithm_2_finds_the_same(bias, epsilon):
    X, y = noisy(50, seed=2)
    dual, primal = optimum(naive.gram(X, gamma=GAMMA), y, 5.0, bias=bias)
    found = hinge.fit_exact(
        labels_of(y),
        5.0,
        1,
        0,
        as_source(X),
        RBF,
        has_bias=bias,
        tol=1e-5,
        epsilon=epsilon,
    )
    assert found.certificates[0].primal <= primal * (1 + 1e-4)
    assert found.certificates[0].primal >= dual * (1 - 1e-9)
    assert objective_of(found, X, y, 5.0) == pytest.approx(
        found.certificates[0].primal, rel=1e-9
    )


@pytest.mark.parametrize("bias", [False, True])
def test_algorithm_1_solves_the_linear_problem_on_dense_and_sparse_rows(bias):
    X, y = noisy(90, seed=3, d=6)
    X[np.abs(X) < 0.8] = 0.0
    dual, primal = optimum(X @ X.T, y, 2.0, bias=bias)
    found = [
        hinge.fit_linear(
            labels_of(y), 2.0, 1, 0, as_source(rows), LINEAR, has_bias=bias, tol=1e-5
        )
        for rows in (X, sparse.csr_array(X))
    ]
    for one in found:
        certificate = one.certificates[0]
        assert certificate.converged
        assert dual * (1 - 1e-9) <= certificate.primal <= primal * (1 + 1e-4)
        assert certificate.dual <= primal * (1 + 1e-9)
        linear = objective_of(one, X, y, 2.0, gram=lambda A, B: A @ B.T)
        assert certificate.primal == pytest.approx(linear, rel=1e-9)
    a, b = (one.functions.basis.values for one in found)
    assert a == pytest.approx(b, abs=1e-9)


def test_forty_thousand_sparse_columns_never_become_dense(rng):
    n, d = 1500, 40_000
    columns = np.sort(rng.integers(d, size=(n, 20)), axis=1)
    starts = np.arange(0, 20 * n + 1, 20)
    X = sparse.csr_array((rng.uniform(size=20 * n), columns.ravel(), starts), (n, d))
    y = np.where(rng.uniform(size=n) < 0.5, 1, -1)
    tracemalloc.start()
    try:
        found = hinge.fit_linear(
            labels_of(y), 1.0, 1, 0, as_source(X), LINEAR, tol=1e-2
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.certificates[0].converged
    # A dense copy would be 480 MB; the cuts, 320 kB each, are what is held.
    assert peak < n * d * 8 / 6


@given(
    st.integers(0, 10**6), st.sampled_from([0.05, 1.0]), st.sampled_from([0.02, 0.1])
)
def test_the_iterations_stay_within_theorem_1(seed, C, epsilon):
    # Joachims, Finley and Yu 2009, theorem 5: with R the largest |Psi(x, y) - Psi(x,
    # y')| (here 1) and losses up to 1, at most log2(1/(4 R^2 C)) + 16 R^2 C/epsilon.
    X, y = noisy(30, seed)
    paper_C = C * len(y)
    bound = max(0.0, np.ceil(-np.log2(4 * paper_C))) + np.ceil(16 * paper_C / epsilon)
    exact, pursuit = Progress(len(y)), Progress(len(y))
    given = (labels_of(y), C, 1, 0, as_source(X), RBF)
    hinge.fit_exact(*given, progress=exact, epsilon=epsilon)
    assert len(exact.history) <= bound
    assert exact.history[-1]["excess"] <= epsilon
    hinge.fit_pursuit(*given, 8, progress=pursuit, epsilon=epsilon)
    assert len(pursuit.history) <= 8 + bound
    assert pursuit.history[-1]["excess"] <= epsilon


@given(st.integers(0, 10**6), st.sampled_from([0.1, 3.0]), st.booleans())
def test_the_objective_stays_within_theorem_2(seed, C, from_rows):
    X, y = noisy(40, seed)
    epsilon, paper_C = 0.01, C * len(y)
    found = hinge.fit_pursuit(
        labels_of(y),
        C,
        1,
        0,
        as_source(X),
        RBF,
        6,
        from_training_rows=from_rows,
        epsilon=epsilon,
    )
    _, best = optimum(naive.gram(X, gamma=GAMMA), y, C, bias=False)
    value = found.certificates[0].primal
    assert value - best <= paper_C * (found.delta * np.sqrt(2 * paper_C) + epsilon)
    assert value == pytest.approx(objective_of(found, X, y, C), rel=1e-6)


@given(
    st.integers(0, 10**6),
    st.sampled_from([0.1, 10.0]),
    st.sampled_from(["exact", "projection", "sample", "auto"]),
    st.booleans(),
)
def test_the_optimum_lies_between_the_certified_values(seed, C, how, bias):
    X, y = noisy(50, seed)
    rng = np.random.default_rng(seed)
    dual, primal = optimum(naive.gram(X, gamma=GAMMA), y, C, bias=bias)
    found = hinge.fit_pursuit(
        labels_of(y),
        C,
        1,
        0,
        as_source(X),
        RBF,
        7,
        has_bias=bias,
        certificate=how,
        rng=rng,
    )
    certificate = found.certificates[0]
    assert certificate.dual <= primal * (1 + 1e-9)
    assert certificate.primal >= dual * (1 - 1e-9)
    assert certificate.dual_bound == ("exact" if how == "auto" else how)
    assert certificate.confidence == (0.999 if how == "sample" else 1.0)
    assert certificate.converged == (certificate.relative_gap <= 1e-3)
    assert (found.beta >= 0).all()
    assert (found.beta <= C).all()


def test_the_three_dual_bounds_are_ordered_and_the_sampled_one_holds_its_rate():
    X, y = noisy(300, seed=5)
    source = as_source(X)
    basis, _ = basis_of(source, RBF, np.arange(12))
    problem = hinge_problem(labels_of(y), 2.0, 1, 0, source, has_bias=True)
    beta = np.random.default_rng(0).uniform(0, 0.02, size=len(y))
    values = {
        how: dual_value(problem, beta, source, RBF, basis, BoundRequest(how)).value
        for how in ("exact", "projection")
    }
    signed = beta * y
    curve = signed @ (naive.gram(X, gamma=GAMMA) + 1) @ signed
    t = min(beta.sum() / curve, (2.0 / beta).min())
    by_hand = t * beta.sum() - t**2 * curve / 2
    assert values["exact"] == pytest.approx(by_hand, rel=1e-9)
    drawn = [
        dual_value(
            problem,
            beta,
            source,
            RBF,
            basis,
            BoundRequest("sample", rng=np.random.default_rng(seed)),
        ).value
        for seed in range(1000)
    ]
    sampled = np.array(drawn)
    # 1000 draws at 99.9 %: more than 6 failures have a probability of 8e-5.
    assert np.count_nonzero(sampled > values["exact"] * (1 + 1e-12)) <= 6
    assert values["projection"] <= sampled.min() + 1e-12
    assert np.median(sampled) > values["projection"]


@pytest.mark.parametrize("how", ["span", "pursuit", "exact", "linear"])
def test_weight_two_is_the_row_twice_and_weight_zero_no_row(how):
    X, y = noisy(40, seed=7)
    s = np.random.default_rng(0).integers(0, 3, size=40).astype(float)
    s[:2] = 1
    again = np.repeat(np.arange(40), s.astype(int))

    def fit(X, y, s):
        given = (labels_of(y, s), 1.5, 1, 0, as_source(X))
        if how == "span":
            basis, _ = basis_of(as_source(X), RBF, np.arange(len(y)), 1e-13)
            return hinge.fit_in_basis(*given, basis, tol=1e-6)
        if how == "pursuit":
            return hinge.fit_pursuit(*given, RBF, 40, has_bias=True, tol=1e-6)
        if how == "exact":
            return hinge.fit_exact(*given, RBF, has_bias=True, tol=1e-6)
        return hinge.fit_linear(*given, LINEAR, tol=1e-6)

    weighted, repeated = fit(X, y, s), fit(X[again], y[again], None)
    values = [one.functions.values(as_source(X))[:, 0] for one in (weighted, repeated)]
    primal = [one.certificates[0].primal for one in (weighted, repeated)]
    # One optimum, within both brackets; pre-images start from random rows.
    gap = max(one.certificates[0].relative_gap for one in (weighted, repeated))
    assert gap <= (2e-3 if how == "pursuit" else 1e-6)
    assert primal[0] == pytest.approx(primal[1], rel=1.1 * gap)
    # |w - w*|^2 <= 2 (P - P*), and |f(x)|^2 <= |w|^2 (k(x, x) + 1).
    radius_sq = 1 + (X**2).sum(axis=1).max() if how == "linear" else 2.0
    allowed = 2 * np.sqrt(2 * gap * primal[0] * radius_sq)
    assert values[0] == pytest.approx(values[1], abs=allowed)


def test_rows_far_from_zero_and_a_precomputed_kernel_give_the_same_model():
    X, y = noisy(80, seed=13)
    far = X + 1e6
    source = as_source(far)
    shifted = make_kernel("rbf", GAMMA, statistics=row_statistics(source))
    K = naive.gram(X, gamma=GAMMA)

    def fit(source, kernel, from_rows):
        return hinge.fit_pursuit(
            labels_of(y),
            1.0,
            1,
            0,
            source,
            kernel,
            12,
            from_training_rows=from_rows,
            rng=np.random.default_rng(0),
        ).certificates[0]

    for from_rows in (False, True):
        near = fit(as_source(X), RBF, from_rows)
        assert fit(source, shifted, from_rows).primal == pytest.approx(
            near.primal, rel=1e-3
        )
    precomputed = fit(as_source(K), PrecomputedKernel(), True)
    assert precomputed.primal == pytest.approx(near.primal, rel=1e-6)


def test_delta_is_the_distance_of_the_cuts_from_the_span_or_above_it():
    X, y = noisy(60, seed=14)
    source, K = as_source(X), naive.gram(X, gamma=GAMMA)
    basis, _ = basis_of(source, RBF, np.arange(5))
    problem = hinge_problem(labels_of(y), 1.0, 1, 0, source)
    space = span_of(source, basis, False)
    state, _ = cutting_planes(problem, space, Rules(1e-3), Progress(60))
    B = basis.rows.index
    left = K - K[:, B] @ np.linalg.solve(K[np.ix_(B, B)], K[B])
    cuts = state.cuts
    by_hand = max(
        np.sqrt(theta @ left @ theta)
        for theta in (cuts.held(j) * y / 60 for j in range(len(cuts)))
    )
    exact = space.largest_distance(problem, cuts, 1e9)
    bound = space.largest_distance(problem, cuts, 0.0)
    assert exact == pytest.approx(by_hand, rel=1e-6)
    assert bound >= exact


@pytest.mark.parametrize("from_rows", [False, True])
def test_sparse_rows_give_the_model_of_dense_rows(from_rows):
    X, y = noisy(60, seed=8, d=12)
    X[np.abs(X) < 0.7] = 0.0
    kernel = Kernel("rbf", gamma=0.1)
    found = [
        hinge.fit_pursuit(
            labels_of(y),
            1.0,
            1,
            0,
            as_source(rows),
            kernel,
            10,
            from_training_rows=from_rows,
            rng=np.random.default_rng(3),
        )
        for rows in (X, sparse.csr_array(X))
    ]
    a, b = (one.functions.values(as_source(X)) for one in found)
    assert a == pytest.approx(b, abs=1e-6)
    basis = found[1].functions.basis
    assert sparse.issparse(basis.values) == from_rows
    assert (basis.index >= 0).all() == from_rows


@pytest.mark.parametrize("how", ["span", "pursuit"])
def test_features_recomputed_per_block_give_the_model_of_cached_ones(how):
    X, y = noisy(700, seed=9)
    found = []
    for budget in (2**28, 150_000, 30_000):  # cached, cached in float32, recomputed
        source = as_source(X, budget)
        given = (labels_of(y), 1.0, 1, 0, source)
        rng = np.random.default_rng(0)
        if how == "span":
            basis, _ = basis_of(source, RBF, np.arange(20))
            found.append(hinge.fit_in_basis(*given, basis, tol=1e-5))
        else:
            found.append(hinge.fit_pursuit(*given, RBF, 20, tol=1e-5, rng=rng))
    a, b, c = (one.certificates[0].primal for one in found)
    assert a == pytest.approx(b, rel=1e-4)
    assert a == pytest.approx(c, rel=1e-4)


def test_a_budget_stops_the_rounds_with_the_best_model_so_far():
    X, y = noisy(200, seed=10)
    given = (labels_of(y), 10.0, 1, 0, as_source(X), RBF)
    objectives = []
    for most in (3, 10, 30):
        progress = Progress(len(y), max_iter=most)
        found = hinge.fit_exact(*given, tol=1e-7, progress=progress)
        assert len(progress.history) == most
        assert found.certificates[0].stopped_by == "max_iter"
        assert not found.certificates[0].converged
        objectives.append(found.certificates[0].primal)
    assert objectives[0] > objectives[1] > objectives[2]
    at_once = Progress(len(y), max_time=1e-9)
    found = hinge.fit_pursuit(*given, 5, progress=at_once)
    assert found.certificates[0].stopped_by == "max_time"
    assert found.functions.values(as_source(X)).shape == (200, 1)


def test_every_cut_adds_one_vector_until_there_are_enough():
    X, y = noisy(150, seed=11)
    given = (labels_of(y), 1.0, 1, 0, as_source(X), RBF)
    progress = Progress(len(y))
    hinge.fit_pursuit(*given, 3, progress=progress, epsilon=1e-3)
    sizes = [record["core"] for record in progress.history]
    assert sizes[:5] == [0, 1, 2, 3, 3]


@given(st.integers(0, 10**6), st.floats(0.0, 3.0))
def test_the_line_search_finds_the_minimum(seed, curve):
    rng = np.random.default_rng(seed)
    n = 25
    problem = HingeProblem("", rng.choice([-1.0, 1.0], n), rng.uniform(0, 1, n))
    start, end = rng.normal(size=n), rng.normal(size=n)
    slope = rng.normal()

    def value(t):
        moved = start + t * (end - start)
        return slope * t + curve * t**2 / 2 + problem.loss(moved)

    t = line_search(problem, start, end, slope, curve)
    if curve > 0.05:
        best = minimize_scalar(value, bounds=(0, 200), method="bounded").fun
        assert value(t) <= min(best, value(0.0)) + 1e-7 * (1 + abs(best))
    for nearby in (t * 0.999, t * 1.001):
        assert value(t) <= value(nearby) + 1e-9 or curve == 0


def test_one_class_against_the_rest_and_rows_of_other_classes_are_absent():
    X, y = noisy(90, seed=12)
    codes = np.where(y > 0, 2, 0).astype(np.int8)
    codes[::5] = 1
    present = codes != 1
    pair = hinge.fit_exact(
        Labels(90, codes), 1.0, 2, 0, as_source(X), RBF, tol=1e-6
    ).certificates[0]
    alone = hinge.fit_exact(
        labels_of(y[present]), 1.0, 1, 0, as_source(X[present]), RBF, tol=1e-6
    ).certificates[0]
    assert pair.primal == pytest.approx(alone.primal, rel=1e-5)
    rest = hinge.fit_exact(
        Labels(90, codes), 1.0, 2, None, as_source(X), RBF, tol=1e-6
    ).certificates[0]
    other = hinge.fit_exact(
        labels_of(np.where(codes == 2, 1, -1)), 1.0, 1, 0, as_source(X), RBF, tol=1e-6
    ).certificates[0]
    assert rest.primal == pytest.approx(other.primal, rel=1e-5)


def test_fewer_vectors_have_features_where_there_is_little_time():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    source = as_source(X, 2**28, Workers(1))
    kernel = make_kernel("rbf", 0.5, 3, 0.0, row_statistics(source))
    basis, _ = basis_of(source, kernel, np.arange(200))
    sizes = []
    for limit in (None, 1e6, 1e-9):
        part = part_in_time(source, basis, Progress(3000, max_time=limit))
        sizes.append(len(part))
        np.testing.assert_array_equal(part.rows.values, basis.rows.values[: len(part)])
    assert sizes == [len(basis), len(basis), 1]
