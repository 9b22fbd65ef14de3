"""A sample of ``make torture``, and the problems that it has found so far."""

import numpy as np
import pytest
from torture import evaluator as ev
from torture.__main__ import one, run

# Seeds of problems whose certificate was false, that crashed or that were refused
# without the name of the estimator, by estimator.
FOUND = {
    "CoreVectorClassifier": [45, 62, 79, 115, 1214, 11999, 13720, 13995, 15200, 17002],
    "CoreVectorOneClass": [35, 83, 1234, 1461, 13884],
    "CoreVectorRanker": [1403, 10512, 11320, 11946, 12276, 12772, 14076, 15339, 17389],
    "CoreVectorRegressor": [10207, 10882, 11413, 11681, 12945, 15469, 15597],
    "SVDD": [1595, 16534, 17198],
    "StreamingBallClassifier": [1440, 14795, 16608],
    "SubspaceClassifier": [10542, 10699, 10745, 16897, 17127, 17306],
}


@pytest.mark.parametrize(
    ("name", "seed"), [(name, seed) for name, seeds in FOUND.items() for seed in seeds]
)
def test_what_was_found_is_not_found_again(name, seed, tmp_path):
    assert one(seed, (name,), tmp_path)[1] == ""


def test_a_sample_of_random_problems_has_no_finding():
    counts, findings, brackets = run(50_000, 25, loud=False)
    assert findings == []
    assert counts.total() == 25
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
