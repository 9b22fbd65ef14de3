"""Regression above the sizes at which every look is at all rows."""

import naive
import numpy as np
import pytest
import reading
import strategies
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge

from corevec import CoreVectorRegressor, certify, methods

ROWS = 9_000  # above coreset.MAX_ROWS_WITHOUT_SUBSET and span.MIN_ROWS
SHAPE = {"C": 1.0, "gamma": 0.5, "tol": 1e-2, "random_state": 0, "max_time": 20.0}


@pytest.fixture(scope="module")
def friedman():
    train, test = strategies.friedman(ROWS), strategies.friedman(2000, seed=1)
    return *train, *test


@pytest.mark.parametrize(
    ("form", "n"), [({}, ROWS), ({"tube": 0.5, "mu": None}, 8000)], ids=["auto", "0.5"]
)
def test_friedman_is_learnt_and_certified_on_all_rows(friedman, form, n):
    rows, y, test, truth = friedman[0][:n], friedman[1][:n], *friedman[2:]
    model = reading.fit(CoreVectorRegressor(**SHAPE, **form), rows, y)
    found = model.certificate_
    assert found.n_verified == found.n_rows == n
    # Half of the rows lie outside the tube: a basis of 1000 may end at max_vectors.
    assert found.converged == (found.relative_gap <= 1e-2)
    assert found.relative_gap <= 0.1
    again = certify(model, rows, y)
    assert again.primal == pytest.approx(found.primal, rel=1e-6)
    # Both intervals hold the one optimum.
    lowest = min(found.primal, again.primal)
    assert max(found.dual, again.dual) <= lowest * (1 + 1e-9)
    trees = HistGradientBoostingRegressor(random_state=0).fit(rows, y)
    assert model.score(test, truth) >= trees.score(test, truth) - 0.04


def test_the_certified_interval_holds_the_objective_of_another_machine(friedman):
    # Kernel ridge on 2000 rows: any function's objective is above the dual bound.
    rows, y = friedman[0][:2000], friedman[1][:2000]
    model = CoreVectorRegressor(**SHAPE | {"tol": 1e-3, "mu": 0.1}).fit(rows, y)
    problem = strategies.Regression(rows, y, None, 1.0, 0.1, {"gamma": 0.5})
    K = naive.gram(rows, gamma=0.5)
    ridge = KernelRidge(alpha=1.0, kernel="precomputed").fit(K + 1, problem.z)
    f, c = ridge.predict(K + 1), ridge.dual_coef_
    norm_sq = c @ K @ c + c.sum() ** 2
    s = problem.weight
    e = naive.best_tube(f, problem.z, s, 0.1)
    theirs = naive.tube_primal(f, norm_sq, problem.z, 1.0, s, e) + 0.1 * s.sum() * e
    assert model.certificate_.dual <= theirs
    assert model.certificate_.primal <= theirs * (1 + 1e-3)


def test_both_paths_bracket_the_same_optimum(friedman):
    rows, y = friedman[0][:3000], friedman[1][:3000]
    found = [
        reading.fit(
            CoreVectorRegressor(**SHAPE | {"max_time": 10.0, "method": method}),
            rows,
            y,
        ).certificate_
        for method in ("auto", "coreset")
    ]
    lowest = min(certificate.primal for certificate in found)
    assert max(certificate.dual for certificate in found) <= lowest * (1 + 1e-9)


def test_a_sampled_search_says_sample_and_states_no_false_bound(friedman):
    rows, y, test, truth = friedman
    model = CoreVectorRegressor(**SHAPE | {"method": methods.Sample(1000)})
    found = reading.fit(model, rows, y).certificate_
    assert found.stopped_by == "sample"
    assert not found.converged
    assert found.n_verified < ROWS
    whole = certify(model, rows, y)
    assert whole.n_verified == ROWS
    if np.isfinite(found.relative_gap):
        assert found.dual <= whole.primal * (1 + 1e-9)
    assert model.score(test, truth) > 0.8


def test_the_papers_rule_holds_on_all_rows_beyond_the_small_sizes(friedman):
    rows, y, _, _ = friedman
    model = CoreVectorRegressor(
        **SHAPE
        | {"C": 0.01, "tube": "paper", "method": methods.CoreSet(ball_epsilon=1e-3)}
    ).fit(rows, y)
    found = model.certificate_
    assert found.converged
    assert found.stopped_by == "ball_epsilon"
    assert found.ball_epsilon <= 1e-3
    assert found.n_verified == ROWS
