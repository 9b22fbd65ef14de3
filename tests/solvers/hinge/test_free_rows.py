"""The free multipliers of a hinge machine, solved together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from corevec.solvers.hinge.free_rows import free_step


def problem_of(seed, n, n_groups):
    """Return kernel values of points, a gradient, and groups of two or more."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    K = np.exp(-np.square(X[:, None] - X[None]).sum(axis=2))
    group = np.r_[
        np.arange(n_groups), np.arange(n_groups), rng.integers(0, n_groups, n)
    ]
    return K, rng.normal(size=n), np.sort(group[:n])


def gained(K, residual, change):
    return residual @ change - change @ K @ change / 2


@settings(max_examples=30)
@given(st.integers(0, 99), st.integers(4, 30), st.integers(1, 2))
def test_without_bounds_the_step_solves_the_bordered_system(seed, n, n_groups):
    K, residual, group = problem_of(seed, n, n_groups)
    wide = np.full(n, -1e9), np.full(n, 1e9)
    step = free_step(K, residual, wide, group)
    member = (group[:, None] == np.arange(n_groups)).astype(float)
    bordered = np.block([[K, member], [member.T, np.zeros((n_groups, n_groups))]])
    exact = np.linalg.solve(bordered, np.r_[residual, np.zeros(n_groups)])[:n]
    best = gained(K, residual, exact)
    assert step.gain == pytest.approx(gained(K, residual, step.change), rel=1e-6)
    assert step.gain == pytest.approx(best, rel=1e-5)
    assert np.abs(member.T @ step.change).max() <= 1e-9 * np.abs(step.change).max()


@settings(max_examples=30)
@given(st.integers(0, 99), st.integers(4, 12), st.floats(0.01, 1.0))
def test_in_a_box_it_gains_something_and_no_more_than_the_optimum(seed, n, width):
    K, residual, group = problem_of(seed, n, 1)
    rng = np.random.default_rng(seed)
    low, high = -width * rng.uniform(0.1, 1, n), width * rng.uniform(0.1, 1, n)
    step = free_step(K, residual, (low, high), group)
    assert (step.change >= low * (1 + 1e-9)).all()
    assert (step.change <= high * (1 + 1e-9)).all()
    assert abs(step.change.sum()) <= 1e-9 * n * width
    best = optimize.minimize(
        lambda d: -gained(K, residual, d),
        np.zeros(n),
        jac=lambda d: K @ d - residual,
        bounds=list(zip(low, high, strict=True)),
        constraints={"type": "eq", "fun": np.sum, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    assert 0 < step.gain <= -best.fun * (1 + 1e-6)


def test_no_entry_can_move_where_the_gradient_is_a_bias():
    K, _, group = problem_of(0, 6, 1)
    step = free_step(K, np.full(6, 0.7), (np.full(6, -1.0), np.full(6, 1.0)), group)
    assert step.gain == pytest.approx(0.0, abs=1e-12)


def test_equal_rows_are_no_obstacle():
    K = np.ones((4, 4))
    K[:2, 2:] = K[2:, :2] = 0.5
    residual = np.array([1.0, 1.0, -1.0, -1.0])
    box = np.full(4, -10.0), np.full(4, 10.0)
    step = free_step(K, residual, box, np.zeros(4, dtype=int))
    # d = (t, t, -t, -t): the slope is 4 t, the curve 4 t^2, so the optimum gains 2.
    assert step.gain == pytest.approx(2.0, rel=1e-6)
