"""A weight of two is the row twice, a weight of zero is the row absent.

Compared are the optimal values, to 1e-6 as promised (tol is 1e-9), and the fitted
functions as far as two certified solutions may differ (`reading.reach`).
"""

import naive
import numpy as np
import pytest
import reading
import strategies
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight

from corevec import SVDD, CoreVectorClassifier, CoreVectorOneClass

TIGHT = {"tol": 1e-9, "random_state": 0}
# C up to 1e3 keeps the rounding of sum|b| below the 1e-6 that is compared.
PROBLEMS = strategies.problems(
    C=strategies.penalties(-3, 3), among=strategies.DISTANCE_KERNELS, weighted=False
)


@st.composite
def counted(draw):
    """A problem with whole-number weights, at least one of each class positive."""
    problem = draw(PROBLEMS)
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    counts = rng.integers(0, 4, size=len(problem.X))
    for label in (-1, 1):
        counts[np.flatnonzero(problem.y == label)[0]] = draw(st.integers(1, 3))
    return problem, counts


def assert_same_solution(one, other, X):
    first, second = one.certificate_.primal, other.certificate_.primal
    assert first == pytest.approx(second, rel=1e-6, abs=1e-12)
    apart = np.abs(one.decision_function(X) - other.decision_function(X)).max()
    assert apart <= reading.reach(one, other)


@given(counted())
def test_a_classifier_takes_a_weight_for_a_repetition(case):
    problem, counts = case
    weighted = CoreVectorClassifier(**TIGHT, **problem.params)
    repeated = CoreVectorClassifier(**TIGHT, **problem.params)
    reading.fit(weighted, problem.X, problem.y, counts.astype(float))
    reading.fit(repeated, problem.X.repeat(counts, 0), problem.y.repeat(counts))
    assert_same_solution(weighted, repeated, problem.X)


@given(counted())
def test_a_one_class_model_takes_a_weight_for_a_repetition(case):
    problem, counts = case
    weighted = CoreVectorOneClass(**TIGHT, **problem.params)
    repeated = CoreVectorOneClass(**TIGHT, **problem.params)
    reading.fit(weighted, problem.X, None, counts.astype(float))
    reading.fit(repeated, problem.X.repeat(counts, 0))
    first, second = weighted.certificate_.primal, repeated.certificate_.primal
    assert first == pytest.approx(second, rel=1e-6)
    scores = weighted.score_samples(problem.X), repeated.score_samples(problem.X)
    assert np.abs(scores[0] - scores[1]).max() <= reading.reach(weighted, repeated)


@given(counted())
def test_a_soft_ball_takes_a_weight_for_a_repetition(case):
    problem, counts = case
    weighted = SVDD(**TIGHT, **problem.params)
    repeated = SVDD(**TIGHT, **problem.params)
    rows = problem.X.repeat(counts, 0)
    assume(len(np.unique(rows, axis=0)) > 1)  # else the value is zero up to rounding
    reading.fit(weighted, problem.X, None, counts.astype(float))
    reading.fit(repeated, rows)
    first, second = weighted.certificate_.primal, repeated.certificate_.primal
    assert first == pytest.approx(second, rel=1e-6)


@given(counted())
def test_a_hard_ball_asks_only_whether_a_weight_is_zero(case):
    problem, counts = case
    rows = problem.X[counts > 0]
    assume(len(np.unique(rows, axis=0)) > 1)
    weighted, absent = SVDD(**TIGHT, **problem.kernel), SVDD(**TIGHT, **problem.kernel)
    reading.fit(weighted, problem.X, None, counts.astype(float))
    reading.fit(absent, rows)
    assert weighted.radius_ == pytest.approx(absent.radius_, rel=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        CoreVectorClassifier(gamma=0.5, **TIGHT),
        CoreVectorOneClass(C=2.0, gamma=0.5, **TIGHT),
        SVDD(C=2.0, gamma=0.5, **TIGHT),
        SVDD(gamma=0.5, **TIGHT),
    ],
    ids=["classifier", "one-class", "soft ball", "hard ball"],
)
def test_rows_of_weight_zero_are_absent_and_never_support_vectors(model, rng):
    X, y = rng.normal(size=(60, 2)), np.array([1, -1] * 30)
    s = np.repeat([1.0, 0.0], 30)
    X[30:] *= 100.0  # they would be the worst rows of all
    reading.fit(model, X, y, s)
    assert (model.support_ < 30).all()
    values = model.certificate_.primal, model.decision_function(X)
    reading.fit(model, X[:30], y[:30])
    assert model.certificate_.primal == pytest.approx(values[0], rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), values[1], atol=1e-3)


@given(PROBLEMS, st.sampled_from([1e-6, 0.5, 1e3]))
def test_one_weight_for_all_rows_is_a_factor_on_C(problem, weight):
    twin = naive.hinge(problem.K, problem.y, problem.C * weight)
    model = CoreVectorClassifier(**TIGHT, **problem.params)
    reading.fit(model, problem.X, problem.y, np.full(len(problem.y), weight))
    room = 1e-6 + twin.rounding
    assert model.certificate_.primal == pytest.approx(twin.primal, rel=room)


@given(PROBLEMS, st.sampled_from([0.1, 3.0]))
def test_class_weight_is_a_weight_on_the_rows_of_the_class(problem, weight):
    named = CoreVectorClassifier(
        class_weight={-1: weight, 1: 2.0}, **TIGHT, **problem.params
    )
    by_row = CoreVectorClassifier(**TIGHT, **problem.params)
    reading.fit(named, problem.X, problem.y)
    reading.fit(by_row, problem.X, problem.y, np.where(problem.y == -1, weight, 2.0))
    assert_same_solution(named, by_row, problem.X)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_balanced_class_weight_is_that_of_scikit_learn(multi_class, rng):
    X, y = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c"], [10, 20, 30])
    classes = np.unique(y)
    each = compute_class_weight("balanced", classes=classes, y=y)
    s = each[np.searchsorted(classes, y)]
    shape = {"multi_class": multi_class, "gamma": 0.5, **TIGHT}
    named = CoreVectorClassifier(class_weight="balanced", **shape)
    by_row = CoreVectorClassifier(**shape)
    reading.fit(named, X, y)
    reading.fit(by_row, X, y, s)
    apart = np.abs(named.decision_function(X) - by_row.decision_function(X)).max()
    assert apart <= 1e-3  # sqrt(2 * 1e-9 * P) with P near 30, four times


def test_sample_weight_and_class_weight_multiply(rng):
    X, y = rng.normal(size=(40, 2)), np.array([1, -1] * 20)
    s = rng.choice([0.5, 1.0, 2.0], size=40)
    both = CoreVectorClassifier(class_weight={1: 3.0, -1: 1.0}, gamma=0.5, **TIGHT)
    by_row = CoreVectorClassifier(gamma=0.5, **TIGHT)
    reading.fit(both, X, y, s)
    reading.fit(by_row, X, y, s * np.where(y == 1, 3.0, 1.0))
    assert_same_solution(both, by_row, X)
