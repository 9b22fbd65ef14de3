"""The twins themselves: their brackets close, and a general solver agrees with them."""

import naive
import numpy as np
import pytest
import strategies
from hypothesis import assume, given
from scipy.optimize import minimize
from sklearn.metrics import pairwise


@given(strategies.problems())
def test_the_least_squares_twin_closes_its_own_bracket(problem):
    twin = naive.hinge(problem.K, problem.y, problem.C, problem.s)
    # 1e-14: a few units in the last place of the two values themselves.
    assert -1e-14 - twin.rounding <= twin.gap <= 1e-8 + twin.rounding


@given(strategies.problems(C=strategies.penalties(-3, 3)))
def test_the_ball_twins_close_their_own_brackets(problem):
    assume(np.abs(problem.K).max() > 0)
    K = problem.K / np.abs(problem.K).max()
    hard = naive.hard_ball(K, problem.s)
    soft = naive.soft_ball(K, problem.C, problem.s)
    assume(hard.primal > 1e-9)  # all rows at one place: nothing to solve
    assert abs(hard.primal - hard.dual) <= 1e-8 * hard.primal
    assert abs(soft.primal - soft.dual) <= 1e-7 * soft.primal
    a_sum = soft.b.sum()
    assert a_sum <= 1 + 1e-12
    s = np.ones(len(K)) if problem.s is None else problem.s
    at_centre = naive.distances_sq(K, soft.b / a_sum)
    value = naive.soft_ball_primal(at_centre, problem.C, s)
    assert value == pytest.approx(soft.primal, rel=1e-6)


def test_a_general_purpose_optimiser_finds_the_same_optima(rng):
    X, y = rng.normal(size=(8, 2)), np.array([1, -1] * 4)
    K = naive.gram(X, gamma=0.5)
    Q = np.outer(y, y) * (K + 1) + np.eye(8) / 3.0
    bounds = [(0, None)] * 8
    found = minimize(lambda b: b @ Q @ b / 2 - b.sum(), np.ones(8), bounds=bounds)
    assert -found.fun == pytest.approx(naive.hinge(K, y, 3.0).dual, rel=1e-6)

    # SLSQP stops at about 1e-6 in the function value.
    simplex = {"type": "eq", "fun": lambda a: a.sum() - 1}
    start = np.full(8, 1 / 8)
    ball = minimize(
        lambda a: a @ K @ a - a @ np.diag(K), start, bounds=bounds, constraints=simplex
    )
    assert -ball.fun == pytest.approx(naive.hard_ball(K).dual, rel=1e-5)


def test_the_kernels_equal_those_of_scikit_learn_where_it_has_them(rng):
    X, Z = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    shape = {"gamma": 0.7, "coef0": 0.5}
    for name, theirs in {
        "rbf": pairwise.rbf_kernel(X, Z, gamma=0.7),
        "linear": pairwise.linear_kernel(X, Z),
        "poly": pairwise.polynomial_kernel(X, Z, degree=3, **shape),
        "sigmoid": pairwise.sigmoid_kernel(X, Z, **shape),
        "normalized-linear": pairwise.cosine_similarity(X, Z),
    }.items():
        ours = naive.gram(X, Z, kernel=name, degree=3, **shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
