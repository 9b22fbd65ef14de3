"""A sample of ``make torture``, and problems that it has found."""

import numpy as np
import pytest
import reading
from torture import evaluator as ev
from torture.__main__ import run

from corevec import CoreVectorRegressor
from corevec.problems import pairs_of


def test_a_dual_value_of_large_multipliers_is_no_larger_than_the_primal():
    # b'Qb cancels to nothing: at the best scale for it any dual value would be proved.
    rng = np.random.default_rng(71)
    X = 1e9 + rng.normal(size=(20, 1))
    y = 9e13 + 3e7 * rng.normal(size=20)
    model = CoreVectorRegressor(C=2.7e5, mu=0.03, kernel="linear", tol=1e-10)
    found = reading.fit(model, X, y).certificate_
    assert found.dual <= found.primal
    assert not found.converged


def test_a_light_query_beside_a_heavy_one_keeps_its_pair_weight():
    # "query": the pairs of each query weigh the same, whatever the weights of its rows.
    grades, query = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0, 0, 1, 1])
    heavy = np.array([1e6, 1e6, 1e-5, 3e-5])
    pairs = pairs_of(grades, query, heavy, 1.0, per_query=True)
    assert pairs.pair_weight == pytest.approx([1e12, 3e-10], rel=1e-14)


@pytest.mark.parametrize("seed", [101, 167, 189, 257, 224, 199])
def test_machines_with_a_free_bias_claim_no_more_than_their_sums_have_digits(seed):
    # Targets far from 0 and bounds of 1e8: sums that cancel, and miss by rounding.
    counts, findings, _ = run(seed, 1, ("corevec.svm",), loud=False)
    assert findings == []
    assert counts.total() == 1


def test_a_core_problem_without_a_lower_bound_does_not_overflow():
    # A sigmoid kernel, softened: the multipliers grew to 1e158 and warned of infinity.
    counts, findings, _ = run(731_005_513, 1, loud=False)
    assert findings == []
    assert counts["CoreVectorRegressor", "not converged"] == 1


def test_a_sample_of_random_problems_has_no_finding():
    counts, findings, brackets = run(50_000, 40, loud=False)
    assert findings == []
    assert counts.total() == 40
    assert np.mean(brackets < 1e-6) > 0.3  # the evaluator knows many of the optima


def test_the_evaluator_knows_a_case_by_hand():
    # One row at x = 2, linear kernel, no bias: C / (2 + 8 C).
    X, C = np.array([[2.0]]), 3.0
    gram = ev.Gram.of(X, X, {"kernel": "linear"})
    task = ev.Task(np.ones(1), np.ones(1), np.array([C]))
    coef, bias = ev.solve(task, gram.K)
    found = ev.primal(task, ev.Function.of(gram, gram, coef, bias))
    assert found.value == pytest.approx(C / (2 + 8 * C), rel=1e-14)
    assert found.error < 1e-14


def test_the_evaluator_refutes_a_gap_that_is_too_small():
    from torture import judge

    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    gram = ev.Gram.of(X, X, {"kernel": "rbf", "gamma": 1.0})
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    task = ev.Task(y, np.ones(30), np.full(30, 10.0), has_bias=True)
    best = ev.Function.of(gram, gram, *ev.solve(task, gram.K))
    worse = best.times(1.1)
    true, optimum = ev.primal(task, worse), ev.primal(task, best)
    honest = judge.Claim(task, worse, true.most, optimum.least * (1 - 1e-6), 1.0)
    assert judge.judge(honest, [best]).wrong == ""
    low = judge.Claim(task, worse, optimum.value, optimum.least, 0.0)
    assert "primal" in judge.judge(low, [best]).wrong
    high = judge.Claim(task, worse, true.most, true.most, 0.0)
    assert "dual" in judge.judge(high, [best]).wrong
