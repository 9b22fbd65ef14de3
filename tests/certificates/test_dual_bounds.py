"""The three lower bounds of the optimum: valid, ordered, at the stated rate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from corevec.certificates import (
    BoundRequest,
    Candidate,
    Combination,
    PassRequest,
    Projection,
    all_sums,
    prove,
)
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.kernels import make_kernel
from corevec.models import KernelExpansion, basis_of_rows
from corevec.problems import Labels, regression, two_class


def set_up(seed, n=120, k=15, C=2.0, kind="rbf", task="classes"):
    """Return a problem, its source, a random function in a small span, its basis."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    source = as_source(X, 2**28, Workers(1))
    kernel = make_kernel(kind, 0.3, 3, 1.0, row_statistics(source))
    s = rng.integers(1, 4, n).astype(float)
    if task == "classes":
        codes = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)
        problem = two_class(Labels(n, codes, s), C, 1, 0)
    else:
        z = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
        problem = regression(Labels(n, None, s), C, z, tube=0.1)
    basis, _ = basis_of_rows(source.take(np.arange(k)), kernel, source.workers)
    coef = rng.normal(size=(len(basis), 1)) * 0.5
    function = KernelExpansion(kernel, basis.rows, coef, rng.normal(size=1) * 0.2)
    return problem, source, function, basis


def bound_of(problem, source, function, basis, how, seed=0, affordable=1e9):
    """Return the bound of the optimum, and the loss of the function."""
    rng = np.random.default_rng(seed)
    request = BoundRequest(how, affordable, 1e-12, rng)
    candidate = Candidate(function, [0.0])
    proofs, losses = prove([problem], candidate, source, basis, request)
    return proofs[0], losses[0]


def full_optimum(problem, source):
    """Return the optimum of the full problem, by projected Newton on the dual."""
    K = make_gram(problem, source)
    n = source.n_rows
    rows = source.take(np.arange(n))
    kernel = make_kernel("rbf", 0.3, 3, 1.0, row_statistics(source))
    signs, targets, omegas = [], [], []
    for side in problem.sides:
        terms = problem.terms(rows, kernel, side)
        signs.append(terms.sign)
        targets.append(terms.target)
        omegas.append(terms.omega)
    sign, p, omega = map(np.concatenate, (signs, targets, omegas))
    Q = np.tile(K + 1.0, (len(problem.sides),) * 2) * np.outer(sign, sign)
    Q += np.diag(1.0 / omega)
    # min 1/2 b'Qb - p'b over b >= 0 is the least squares |L'b - L^-1 p|^2.
    L = np.linalg.cholesky(Q)
    b, _ = nnls(L.T, np.linalg.solve(L, p), maxiter=20_000)
    return p @ b - b @ Q @ b / 2


def make_gram(problem, source):
    X = source.take(np.arange(source.n_rows)).values
    return np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["classes", "regression"]))
def test_bounds_are_ordered_and_below_the_optimum(seed, task):
    problem, source, function, basis = set_up(seed, task=task)
    found = {}
    for how in ("exact", "projection", "sample"):
        bound, _ = bound_of(problem, source, function, basis, how, seed)
        found[how] = bound.value
    optimum = full_optimum(problem, source)
    assert found["projection"] <= found["exact"] * (1 + 1e-9) + 1e-9
    # The sample may do better than the projection, never better than the truth; its
    # own probability of failing is 0.001, and 25 fixed draws are no lottery.
    assert found["projection"] <= found["sample"] + 1e-9
    assert found["sample"] <= found["exact"] * (1 + 1e-9) + 1e-9
    assert found["exact"] <= optimum * (1 + 1e-7)


@pytest.mark.parametrize("task", ["classes", "regression"])
def test_exact_bound_is_the_dual_value_of_the_violations(task):
    problem, source, function, basis = set_up(3, task=task)
    bound, measured = bound_of(problem, source, function, basis, "exact")
    K = make_gram(problem, source)
    f = K[:, basis.rows.index] @ function.coef[:, 0] + function.intercept[0]
    rows = source.take(np.arange(source.n_rows))
    beta, sign, loss, slope = [], [], 0.0, 0.0
    for side in problem.sides:
        terms = problem.terms(rows, basis.kernel, side)
        excess = np.maximum(terms.target - terms.sign * f, 0.0)
        beta.append(terms.omega * excess)
        sign.append(terms.sign)
        loss += terms.omega @ excess**2 / 2
        slope += beta[-1] @ terms.target
    u = np.sum([b * y for b, y in zip(beta, sign, strict=True)], axis=0)
    curve = u @ (K + 1.0) @ u + 2 * loss  # sum beta^2/omega = 2 loss
    assert measured == pytest.approx(loss, rel=1e-10)
    assert bound.value == pytest.approx(slope**2 / (2 * curve), rel=1e-9)


def test_sampled_bound_fails_no_more_often_than_it_says():
    problem, source, function, basis = set_up(0, n=300, k=10)
    sums = all_sums([PassRequest(problem, keep=True)], function, source, basis)[0]
    pulls = sums.pulls()
    K = make_gram(problem, source)
    theta = np.zeros(source.n_rows)
    np.add.at(theta, problem.rows_of(pulls.entries), pulls.pull)
    true = theta @ K @ theta - sums.pulled @ sums.pulled
    u = Combination(source, problem.rows_of(pulls.entries), pulls.pull)
    projection = Projection(sums.pulled, pulls.delta)
    draws = [
        u.sampled_residual(projection, basis, 40, np.random.default_rng(seed), 0.1)
        for seed in range(1000)
    ]
    bounds = np.array([one.norm**2 for one in draws])
    # 1000 draws, each allowed to fail with 0.1: 131 are three deviations.
    assert np.mean(bounds < true) <= 0.131
    assert np.median(bounds) < sums.missed**2


def test_auto_is_exact_where_that_is_affordable():
    problem, source, function, basis = set_up(5)
    kinds = []
    for affordable in (1e9, 1.0):
        bound, _ = bound_of(
            problem, source, function, basis, "auto", affordable=affordable
        )
        kinds.append(bound.kind)
    assert kinds == ["exact", "projection"]
