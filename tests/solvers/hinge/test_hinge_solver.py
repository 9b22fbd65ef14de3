"""The hinge solver against LIBSVM, a general QP solver, and its own definition."""

import tracemalloc

import hypothesis.strategies as st
import naive
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse
from scipy.optimize import minimize
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from corevec._runtime import Progress
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.exceptions import InvalidInputError
from corevec.kernels import make_kernel
from corevec.solvers.hinge import (
    HingeSettings,
    best_bias,
    c_svc,
    epsilon_svr,
    nu_svc,
    nu_svr,
    one_class_nu,
    solve_boxes,
)

RBF = {"kernel": "rbf", "gamma": 0.5}
KERNELS = (
    RBF,
    {"kernel": "laplacian", "gamma": 1.0},
    {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
    {"kernel": "linear"},
)
PROBLEMS = ("svc", "svr", "one-class", "nu-svc", "nu-svr")


def table(n, seed=0, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    z = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=n)
    return X, z, np.where(z > np.median(z), 1.0, -1.0), rng.integers(1, 4, n) / 2


def problem_of(which, z, y, s, C=2.0, nu=0.3):
    rows = np.arange(len(z))
    return {
        "svc": lambda: c_svc(rows, y, C * s),
        "svr": lambda: epsilon_svr(rows, z, C * s, 0.1),
        "one-class": lambda: one_class_nu(rows, s, nu),
        "nu-svc": lambda: nu_svc(rows, y, s, nu),
        "nu-svr": lambda: nu_svr(rows, z, C * s, nu, C),
    }[which]()


def solved_all(problems, X, kernel=RBF, tol=1e-8, budget=1 << 28, **more):
    progress = more.pop("progress", None) or Progress(X.shape[0])
    starts = more.pop("starts", None)
    with Workers(2) as workers:
        source = as_source(X, budget, workers)
        is_plain = isinstance(kernel["kernel"], str) and len(kernel) > 1
        statistics = row_statistics(source) if is_plain else None
        made = make_kernel(**kernel, statistics=statistics)
        asked = HingeSettings(tol=tol, **more)
        return solve_boxes(problems, source, made, asked, progress, starts)


def solved(problem, X, kernel=RBF, **more):
    return solved_all([problem], X, kernel, **more)[0]


def matrix(problem, K):
    """Return Q of the problem's entries."""
    pairs = K[np.ix_(problem.rows, problem.rows)]
    return problem.sign[:, None] * problem.sign * pairs


def objective(problem, Q, b):
    return float(problem.linear @ b - b @ Q @ b / 2)


def primal(problem, K, b, biases):
    """Return the primal value by its definition."""
    a = problem.sign * b
    f = K[np.ix_(problem.rows, problem.rows)] @ a
    slack = problem.linear - problem.sign * (f + biases[problem.group])
    price = float(np.dot(problem.totals, biases))
    return a @ f / 2 + problem.upper @ np.maximum(slack, 0) + price


def twin(problem, K):
    """Return feasible multipliers found by SciPy's SLSQP, and their dual value."""
    Q, u = matrix(problem, K), problem.upper
    groups = [problem.group == g for g in range(len(problem.totals))]
    equal = [
        {
            "type": "eq",
            "fun": lambda x, g=g, T=T: (problem.sign * u * x)[g].sum() - T,
            "jac": lambda x, g=g: problem.sign * u * g,
        }
        for g, T in zip(groups, problem.totals, strict=True)
    ]
    scale = max(1.0, float(u @ np.abs(Q) @ u))
    found = minimize(
        lambda x: -objective(problem, Q, u * x) / scale,
        np.abs(problem.feasible(np.zeros(len(u)))) / np.where(u > 0, u, 1),
        jac=lambda x: -u * (problem.linear - Q @ (u * x)) / scale,
        bounds=[(0.0, float(one > 0)) for one in u],
        constraints=equal,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-15},
    )
    b = np.abs(problem.feasible(problem.sign * u * found.x))
    return objective(problem, Q, b)


def assert_feasible(problem, b):
    assert (b >= 0).all()
    assert (b <= problem.upper).all()
    sums = np.bincount(problem.group, problem.sign * b, minlength=len(problem.totals))
    np.testing.assert_allclose(sums, problem.totals, atol=1e-9 * problem.upper.sum())


# --- against other solvers ------------------------------------------------------------


@pytest.mark.parametrize("which", PROBLEMS)
def test_functions_are_those_of_libsvm(which):
    X, z, y, s = table(200)
    common, C, nu = {"gamma": 0.5, "tol": 1e-10}, 2.0, 0.3
    rival, response = {
        "svc": (SVC(C=C, **common), y),
        "svr": (SVR(C=C, **common), z),
        "one-class": (OneClassSVM(nu=nu, **common), None),
        "nu-svc": (NuSVC(nu=nu, **common), y),
        "nu-svr": (NuSVR(nu=nu, C=C, **common), z),
    }[which]
    found = solved(problem_of(which, z, y, s, C, nu), X)
    assert found.certificate.converged
    rival.fit(X, response, sample_weight=s)
    expected = rival.predict if which.endswith("svr") else rival.decision_function
    values = found.values[: len(X)] + found.bias
    if which == "nu-svc":
        values = values / found.width
    np.testing.assert_allclose(values, expected(X), atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 14),
    which=st.sampled_from(PROBLEMS),
    C=st.floats(-3, 6).map(lambda e: 10.0**e),
    kernel=st.sampled_from(KERNELS),
    weighted=st.booleans(),
    repeated=st.booleans(),
)
def test_the_bracket_holds_the_optimum(seed, n, which, C, kernel, weighted, repeated):
    X, z, y, s = table(n, seed)
    if repeated:  # equal rows with opposite labels
        X, z, y, s = (np.concatenate([one, one]) for one in (X, z, y, s))
        y[n:], z[n:] = -y[:n], z[:n] + 1
    s = s if weighted else np.ones(len(s))
    problem = problem_of(which, z, y, s, C, nu=0.2)
    found = solved(problem, X, kernel, tol=1e-6)
    optimum = twin(problem, naive.gram(X, **kernel))
    assert_feasible(problem, found.multipliers)
    # The twin's multipliers are feasible: their value is a lower bound.
    size = max(abs(found.primal), abs(found.dual))
    assert optimum <= found.primal + 1e-12 * size
    rounding = found.certificate.rounding  # at C = 1e6 it may exceed the tolerance
    assert found.certificate.converged or found.gap <= 1e-4 + rounding


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 40),
    which=st.sampled_from(PROBLEMS),
    C=st.sampled_from([0.01, 1.0, 1e4]),
    kernel=st.sampled_from(KERNELS),
    steps=st.integers(1, 60),
)
def test_a_gap_is_never_understated(seed, n, which, C, kernel, steps):
    X, z, y, s = table(n, seed)
    problem = problem_of(which, z, y, s, C)
    found = solved(problem, X, kernel, max_steps=steps)
    K, b = naive.gram(X, **kernel), found.multipliers
    assert_feasible(problem, b)
    width = found.width if len(problem.totals) > 1 else 0.0
    biases = found.bias + np.array([-width, width])[: len(problem.totals)]
    mass = 1e-12 * (1 + b.sum() + problem.upper.sum()) * (1 + b.sum()) * np.abs(K).max()
    assert found.primal >= primal(problem, K, b, biases) - mass
    assert found.dual <= objective(problem, matrix(problem, K), b) + mass
    assert found.certificate.converged or found.stopped_by in ("max_iter", "stall")


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    total=st.sampled_from([0.0, 1.0, -1.0]),
)
def test_the_bias_is_the_middle_of_the_best_ones(seed, n, total):
    rng = np.random.default_rng(seed)
    r = rng.integers(-3, 4, n).astype(float)
    high = rng.integers(0, 3, n).astype(float)
    low = -rng.integers(0, 3, n) * (high == 0.0)
    if not (low.sum() < total < high.sum()):
        return

    def loss(bias):
        gain = high * np.maximum(r - bias, 0) - low * np.maximum(bias - r, 0)
        return gain.sum() + total * bias

    losses = np.array([loss(bias) for bias in r])
    best = r[losses <= losses.min() + 1e-12]
    present = best if (high > low).all() else r[(high > low) & np.isin(r, best)]
    middle = (present.min() + present.max()) / 2
    assert best_bias(r, low, high, total) == pytest.approx(middle)


# --- rows, kernels, starts ------------------------------------------------------------


@pytest.mark.parametrize("which", ["svc", "svr"])
def test_many_rows_are_certified_through_samples(which):
    X, z, y, s = table(7000, d=3)
    found = solved(problem_of(which, z, y, s), X, tol=1e-3)
    assert found.certificate.converged
    assert found.certificate.n_verified == 7000
    rows, coef = found.coefficients()
    few = np.arange(0, 7000, 70)
    values = naive.gram(X[few], X[rows], **RBF) @ coef
    np.testing.assert_allclose(found.values[few], values, atol=1e-9)
    exact = solved(problem_of(which, z, y, s), X, tol=1e-6)
    assert exact.dual <= found.primal
    assert found.primal <= exact.primal * (1 + 1.01e-3)


@pytest.mark.parametrize("which", ["svc", "nu-svr"])
def test_kernel_rows_that_do_not_fit_are_computed_again(which):
    X, z, y, s = table(2500)
    problem = problem_of(which, z, y, s)
    solved(problem, X[:2500], tol=1e-3)  # compile
    tracemalloc.start()
    found = solved(problem, X, tol=1e-3, budget=1 << 21)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.certificate.converged
    # The whole matrix is 25 MB in float32.
    assert peak < 15e6


def test_other_layouts_and_kernels_give_the_same_solution():
    X, z, y, s = table(150)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    problem, K = problem_of("svc", z, y, s), naive.gram(X, **RBF)
    expected = solved(problem, X)
    others = [
        solved(problem, sparse.csr_matrix(X)),
        solved(problem, K, {"kernel": "precomputed"}),
        solved(problem, X, {"kernel": lambda A, B: naive.gram(A, B, **RBF)}),
    ]
    for found in others:
        assert found.certificate.converged
        np.testing.assert_allclose(found.values, expected.values, atol=1e-5)
        assert found.bias == pytest.approx(expected.bias, abs=1e-5)


def test_a_row_of_weight_zero_is_absent():
    X, z, y, s = table(80)
    s[::3] = 0.0
    found = solved(problem_of("svc", z, y, s), X)
    keep = s > 0
    alone = solved(problem_of("svc", z[keep], y[keep], s[keep]), X[keep])
    assert (found.multipliers[~keep] == 0).all()
    np.testing.assert_allclose(found.multipliers[keep], alone.multipliers, atol=1e-5)


def test_a_problem_without_weight_has_the_zero_function():
    X, z, y, s = table(30)
    found = solved(problem_of("svc", z, y, 0 * s), X)
    assert found.certificate.converged
    assert (found.primal, found.dual) == (0, 0)
    assert not found.multipliers.any()


def test_the_order_of_the_entries_changes_nothing():
    X, _, y, s = table(60)
    rows = np.arange(60)
    found = solved(c_svc(rows, y, s), X)
    back = solved(c_svc(rows[::-1].copy(), y[::-1], s[::-1]), X)
    np.testing.assert_allclose(back.values[::-1], found.values, atol=1e-6)


def test_problems_solved_together_are_those_solved_alone():
    X, z, y, s = table(120)
    problems = [problem_of(which, z, y, s) for which in PROBLEMS]
    together = solved_all(problems, X)
    for problem, found in zip(problems, together, strict=True):
        np.testing.assert_array_equal(found.multipliers, solved(problem, X).multipliers)


@pytest.mark.parametrize("which", PROBLEMS)
def test_a_start_at_the_solution_takes_no_step(which):
    X, z, y, s = table(150)
    problem = problem_of(which, z, y, s)
    first = solved(problem, X, tol=1e-6)
    again = solved(problem, X, tol=1e-5, starts=[first.multipliers])
    assert again.certificate.converged
    assert again.n_iter == 0


def test_the_violation_of_libsvm_is_a_stopping_criterion_too():
    X, z, y, s = table(300)
    problem = problem_of("svc", z, y, s)
    found = solved(problem, X, tol=1e-3, rule="violation")
    r, a = y - found.values, y * found.multipliers
    violation = r[a < problem.higher].max() - r[a > problem.lower].min()
    assert found.certificate.converged
    assert found.violation == pytest.approx(violation)
    assert violation <= 1e-3


def test_large_penalties_are_certified():
    X = np.random.default_rng(0).random((1500, 2)) * 4
    y = np.where(np.floor(X).sum(axis=1) % 2 == 0, 1.0, -1.0)
    for C in (1e5, 1e6):
        upper = np.full(len(X), C)
        found = solved(c_svc(np.arange(len(X)), y, upper), X, tol=1e-3)
        assert found.certificate.converged


# --- limits ---------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["svc", "one-class"])
def test_time_that_is_over_leaves_feasible_multipliers(which):
    X, z, y, s = table(7000)
    problem = problem_of(which, z, y, s)
    found = solved(problem, X, progress=Progress(7000, max_time=0.0))
    assert found.stopped_by == "max_time"
    assert not found.certificate.converged
    assert_feasible(problem, found.multipliers)
    assert found.dual <= found.primal


def test_an_interrupt_leaves_the_best_multipliers_so_far():
    X, z, y, s = table(7000)
    problem = problem_of("svc", z, y, s)
    progress = Progress(7000, listeners=[lambda record, state: True])
    found = solved(problem, X, tol=1e-12, progress=progress)
    assert found.stopped_by == "interrupt"
    assert len(progress.history) == 1
    assert_feasible(problem, found.multipliers)
    assert found.gap < 1


def test_sums_that_cannot_be_reached_are_refused():
    X, z, y, s = table(40)
    y[:] = 1.0
    y[0] = -1.0
    with pytest.raises(InvalidInputError, match="Lower nu"):
        solved(problem_of("nu-svc", z, y, s, nu=0.9), X)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(6, 60),
    which=st.sampled_from(PROBLEMS),
    C=st.sampled_from([0.1, 10.0, 1e4]),
)
def test_an_indefinite_matrix_ends_without_a_claim(seed, n, which, C):
    _, z, y, s = table(n, seed)
    K = np.random.default_rng(seed).normal(size=(n, n))
    K = K + K.T
    problem = problem_of(which, z, y, s, C)
    found = solved(problem, K, {"kernel": "precomputed"}, tol=1e-3)
    assert_feasible(problem, found.multipliers)
    assert not found.certificate.converged
    assert found.certificate.dual_bound == "none"


def test_libsvms_criterion_ends_a_sigmoid_kernel():
    X, z, y, s = table(200)
    kernel = {"kernel": "sigmoid", "gamma": 0.5, "coef0": -1.0}
    found = solved(problem_of("svc", z, y, s), X, kernel, tol=1e-3, rule="violation")
    assert found.certificate.converged
    assert found.violation <= 1e-3
    assert found.gap == np.inf


def test_huge_kernel_values_do_not_hide_a_gap():
    """Rows near 100 have cubic values near 1e12, whose rounding exceeds the loss."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) + 100
    y = (X[:, 0] + 0.3 * rng.normal(size=300) > 100).astype(int)
    source = as_source(X, 1 << 28, Workers(1))
    statistics = row_statistics(source)
    kernel = make_kernel("poly", "scale", 3, 1.0, statistics)
    sign, upper = np.where(y == 1, 1.0, -1.0), np.full(300, 10.0)
    problem = c_svc(np.arange(300), sign, upper)
    found = solve_boxes(
        [problem], source, kernel, HingeSettings(tol=1e-3), Progress(300, max_time=5)
    )[0]
    certificate = found.certificate
    # The function 0 loses 10 per row: the gap is relative to no more than that.
    width = (certificate.primal - certificate.dual) / max(certificate.primal, 3000.0)
    assert certificate.relative_gap >= width * (1 - 1e-12)
    assert not certificate.converged or width <= 1e-3
