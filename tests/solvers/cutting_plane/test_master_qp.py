"""The quadratic programme over cuts, against SciPy; and which cuts are kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from corevec.solvers.cutting_plane import Cuts, solve_cuts


def by_scipy(H, delta, C):
    """Return the maximum by SLSQP."""
    m = len(delta)
    scale = max(1.0, C)
    found = minimize(
        lambda x: x @ H @ x * scale / 2 - delta @ x,
        np.zeros(m),
        jac=lambda x: H @ x * scale - delta,
        bounds=[(0, None)] * m,
        constraints={
            "type": "ineq",
            "fun": lambda x: C / scale - x.sum(),
            "jac": lambda x: -np.ones(m),
        },
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return -found.fun * scale


@st.composite
def programmes(draw):
    m, width = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    directions = rng.normal(size=(m, width)) * draw(st.sampled_from([0.01, 1.0]))
    return directions, rng.uniform(size=m), draw(st.sampled_from([0.1, 1.0, 50.0]))


@given(programmes())
def test_the_maximum_is_that_of_scipy_and_meets_kkt(programme):
    directions, delta, C = programme
    H = directions @ directions.T
    found = solve_cuts(H, delta, C)
    assert found.alpha.min() >= 0
    assert found.alpha.sum() <= C * (1 + 1e-12)
    reference = by_scipy(H, delta, C)
    assert found.value >= reference - 1e-6 * max(abs(reference), 1e-3)
    # The gap is a bound of what is missing, and it is closed.
    assert found.gap <= 1e-9 * max(found.value, C * np.abs(H).max())
    slope = delta - H @ found.alpha
    price = max(slope.max(), 0.0)
    assert C * price - slope @ found.alpha == pytest.approx(0.0, abs=1e-8 * max(C, 1.0))


@given(programmes())
def test_a_warm_start_changes_nothing(programme):
    directions, delta, C = programme
    H = directions @ directions.T
    cold = solve_cuts(H, delta, C)
    rng = np.random.default_rng(0)
    warm = solve_cuts(H, delta, C, rng.uniform(size=max(len(delta) - 1, 0)) * C)
    assert warm.value == pytest.approx(cold.value, rel=1e-8, abs=1e-10)


def test_the_same_cut_many_times_is_no_trouble(rng):
    one = rng.normal(size=(1, 4))
    directions = np.repeat(one, 7, axis=0)
    H, delta = directions @ directions.T, np.full(7, 0.5)
    found = solve_cuts(H, delta, 100.0)
    own = float(one[0] @ one[0])
    assert found.value == pytest.approx(0.5**2 / (2 * own), rel=1e-9)


def test_one_cut_by_hand():
    # max a/2 - 2 a^2/2 over 0 <= a <= 1: a = 1/4, value 1/16; capped at 0.1: 0.04.
    H, delta = np.array([[2.0]]), np.array([0.5])
    assert solve_cuts(H, delta, 1.0).value == pytest.approx(1 / 16)
    assert solve_cuts(H, delta, 0.1).value == pytest.approx(0.05 - 0.01)


def test_no_cut_gives_zero():
    assert solve_cuts(np.zeros((0, 0)), np.zeros(0), 3.0).value == 0.0


def test_removing_idle_cuts_keeps_the_solution(rng):
    cuts = Cuts(5.0, 3, 20)
    held = rng.uniform(size=(12, 20)) < 0.5
    for j in range(12):
        direction = rng.normal(size=3)
        old = cuts.directions @ direction
        cuts.add(
            direction, np.append(old, direction @ direction), rng.uniform(), held[j]
        )
    value = cuts.solve()
    w, share = cuts.combined(), cuts.row_share()
    assert share == pytest.approx(cuts.alpha @ held)
    n_active = np.count_nonzero(cuts.alpha)
    cuts.drop_idle(0)
    assert len(cuts) == n_active < 12
    assert pytest.approx(cuts.directions @ cuts.directions.T) == cuts.H
    assert cuts.combined() == pytest.approx(w)
    assert cuts.row_share() == pytest.approx(share)
    assert cuts.solve() == pytest.approx(value, rel=1e-10)


def test_a_wider_span_adds_to_the_inner_products(rng):
    cuts = Cuts(1.0, 2, 5)
    for _ in range(4):
        direction = rng.normal(size=2)
        old = cuts.directions @ direction
        cuts.add(direction, np.append(old, direction @ direction), 0.5)
    cuts.widen(rng.normal(size=(4, 3)))
    assert cuts.directions.shape == (4, 5)
    assert pytest.approx(cuts.directions @ cuts.directions.T) == cuts.H
