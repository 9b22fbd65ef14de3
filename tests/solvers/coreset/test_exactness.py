"""The optimum that the library reports is the optimum of the stated problem.

Tolerances: 1e-6 relative is the promise of the issue; `rounding` (naive.py) is added
because float64 itself cannot give more when the multipliers are huge.
"""

import naive
import numpy as np
import pytest
import reading
import strategies
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    InvalidInputError,
    kernels,
    methods,
)

PROMISE = 1e-6


def assert_brackets(certificate, twin, promise=PROMISE):
    """The certificate holds the optimum, and is as tight as the promise."""
    room = promise + twin.rounding
    assert certificate.primal == pytest.approx(twin.primal, rel=room)
    assert certificate.dual == pytest.approx(twin.dual, rel=room)
    assert_is_a_bound(certificate, twin)


def assert_is_a_bound(certificate, twin):
    """Primal above and dual below the optimum, whatever the tolerance was."""
    room = 1e-8 + twin.rounding
    assert certificate.primal >= twin.dual * (1 - room)
    assert certificate.dual <= twin.primal * (1 + room)


@settings(max_examples=300)
@given(strategies.problems())
def test_the_two_class_optimum_equals_an_independent_one(problem):
    model = CoreVectorClassifier(tol=1e-9, random_state=0, **problem.params)
    reading.fit(model, problem.X, problem.y, problem.s)
    twin = naive.hinge(problem.K, problem.y, problem.C, problem.s)
    assert_brackets(model.certificate_, twin)
    own = reading.hinge_primal(model, problem.K, problem.y, problem.C, problem.s)
    assert own == pytest.approx(twin.primal, rel=PROMISE + twin.rounding)


@settings(max_examples=120)
@given(strategies.problems())
def test_the_one_class_optimum_equals_an_independent_one(problem):
    # A row of zero kernel with itself is at the origin and cannot be moved: skip.
    assume(np.diag(problem.K).min() > 1e-6)
    model = CoreVectorOneClass(tol=1e-9, random_state=0, **problem.params)
    reading.fit(model, problem.X, None, problem.s)
    ones = np.ones(len(problem.X))
    twin = naive.hinge(problem.K, ones, problem.C, problem.s, bias=False)
    assert_brackets(model.certificate_, twin)
    own = reading.hinge_primal(
        model, problem.K, ones, problem.C, problem.s, with_bias=False
    )
    assert own == pytest.approx(twin.primal, rel=PROMISE + twin.rounding)


@settings(max_examples=120)
@given(strategies.problems())
def test_the_hard_ball_equals_an_independent_one(problem):
    twin = naive.hard_ball(problem.K, problem.s)
    assume(twin.primal > 1e-6 * np.abs(problem.K).max())
    model = SVDD(tol=1e-9, random_state=0, **problem.kernel)
    reading.fit(model, problem.X, None, problem.s)
    # A squared distance is a difference of kernel values: their rounding stays in it.
    lost = 1e-15 * np.abs(problem.K).max() / twin.primal
    assert model.certificate_.primal == pytest.approx(twin.primal, rel=PROMISE + lost)
    assert model.certificate_.dual == pytest.approx(twin.dual, rel=PROMISE + lost)


@settings(max_examples=120)
@given(strategies.problems(C=strategies.penalties(-3, 3)))
def test_the_soft_ball_equals_an_independent_one(problem):
    scale = np.abs(problem.K).max()
    # The twin wants a kernel near 1: min r + C sum xi^2 scales with K as C scale.
    twin = naive.soft_ball(problem.K / scale, problem.C * scale, problem.s)
    assume(twin.primal > 1e-6 and abs(twin.gap) < 1e-7)
    model = SVDD(tol=1e-9, random_state=0, **problem.params)
    reading.fit(model, problem.X, None, problem.s)
    assert model.certificate_.primal == pytest.approx(twin.primal * scale, rel=PROMISE)
    assert model.certificate_.dual == pytest.approx(twin.dual * scale, rel=PROMISE)


@settings(max_examples=200)
@given(strategies.problems(), st.sampled_from([0.5, 0.1, 1e-3, 1e-9]))
def test_the_reported_gap_is_never_below_the_true_one(problem, tol):
    model = CoreVectorClassifier(tol=tol, random_state=0, **problem.params)
    reading.fit(model, problem.X, problem.y, problem.s)
    twin = naive.hinge(problem.K, problem.y, problem.C, problem.s)
    certificate = model.certificate_
    assert_is_a_bound(certificate, twin)
    own = reading.hinge_primal(model, problem.K, problem.y, problem.C, problem.s)
    true_gap = (own - twin.primal) / own
    assert certificate.relative_gap >= true_gap - 1e-8 - 2 * twin.rounding
    larger = max(abs(certificate.primal), abs(certificate.dual))
    stated = (certificate.primal - certificate.dual) / larger
    # The reported gap may be clipped at zero; it is otherwise this very fraction.
    assert certificate.relative_gap == pytest.approx(max(stated, 0.0), abs=1e-12)


@settings(max_examples=40)
@given(strategies.problems(C=strategies.penalties(-3, 1)))
def test_smo_reaches_the_same_optimum_at_moderate_C(problem):
    model = CoreVectorClassifier(
        tol=1e-7, random_state=0, method=methods.CoreSet(qp="smo"), **problem.params
    )
    reading.fit(model, problem.X, problem.y, problem.s)
    twin = naive.hinge(problem.K, problem.y, problem.C, problem.s)
    assert_brackets(model.certificate_, twin, promise=1e-5)


@settings(max_examples=40)
@given(strategies.problems())
def test_newton_reaches_the_same_optimum_at_any_C(problem):
    model = CoreVectorClassifier(
        tol=1e-9, random_state=0, method=methods.CoreSet(qp="newton"), **problem.params
    )
    reading.fit(model, problem.X, problem.y, problem.s)
    twin = naive.hinge(problem.K, problem.y, problem.C, problem.s)
    assert_brackets(model.certificate_, twin)


# C up to 1e3 only: the features are cut where the kernel's residual is 1e-12, which the
# multipliers (about C) square and multiply.
@settings(max_examples=40)
@given(strategies.problems(C=strategies.penalties(-3, 3)))
def test_the_low_rank_path_reaches_the_same_optimum(problem):
    model = CoreVectorClassifier(
        tol=1e-7, random_state=0, method="lowrank", **problem.params
    )
    try:
        reading.fit(model, problem.X, problem.y, problem.s)
    except InvalidInputError:  # a rank that is not low is refused
        return
    twin = naive.hinge(problem.K, problem.y, problem.C, problem.s)
    assert_brackets(model.certificate_, twin, promise=1e-5)


@settings(max_examples=30)
@given(strategies.problems())
def test_a_precomputed_kernel_is_the_same_problem(problem):
    model = CoreVectorClassifier(
        C=problem.C, kernel="precomputed", tol=1e-9, random_state=0
    )
    reading.fit(model, problem.K, problem.y, problem.s)
    twin = naive.hinge(problem.K, problem.y, problem.C, problem.s)
    assert_brackets(model.certificate_, twin)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3, 1e6, 1e8])
def test_one_small_problem_is_exact_from_tiny_to_enormous_C(C, rng):
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    model = CoreVectorClassifier(
        C=C, gamma=0.5, tol=1e-6, random_state=0, method=methods.CoreSet(qp="newton")
    )
    reading.fit(model, X, y)
    twin = naive.hinge(naive.gram(X, gamma=0.5), y, C)
    assert_brackets(model.certificate_, twin, promise=1e-5)


@pytest.mark.parametrize("gamma", ["scale", "auto", "mean-distance", 0.3])
def test_every_name_of_gamma_means_its_formula(gamma, rng):
    X, y = rng.normal(size=(30, 3)) * [1, 5, 0.2] + 3.0, np.array([1, -1] * 15)
    model = reading.fit(CoreVectorClassifier(gamma=gamma, tol=1e-9), X, y)
    twin = naive.hinge(naive.gram(X, gamma=naive.gamma_value(gamma, X)), y, 1.0)
    assert_brackets(model.certificate_, twin)


def test_the_normalising_wrapper_takes_a_callable(rng):
    X, y = rng.normal(size=(20, 3)), np.array([1, -1] * 10)
    wrapped = kernels.NormalizedKernel(strategies.quadratic_features)
    model = reading.fit(CoreVectorClassifier(kernel=wrapped, tol=1e-9), X, y)
    K = naive.gram(X, kernel=strategies.quadratic_features)
    size = np.sqrt(np.diag(K))
    assert_brackets(model.certificate_, naive.hinge(K / np.outer(size, size), y, 1.0))


@pytest.mark.parametrize(
    "kernel",
    [*strategies.KERNELS, {"kernel": "sigmoid", "gamma": 0.1, "coef0": -0.5}],
    ids=lambda k: str(getattr(k["kernel"], "__name__", k["kernel"])),
)
def test_the_decision_function_is_the_stated_expansion(kernel, rng):
    X, y, Z = rng.normal(size=(40, 3)), np.array([1, -1] * 20), rng.normal(size=(9, 3))
    model = reading.fit(CoreVectorClassifier(random_state=0, **kernel), X, y)
    np.testing.assert_allclose(model.support_vectors_, X[model.support_], rtol=1e-12)
    stated = naive.gram(Z, model.support_vectors_, **kernel)
    stated = stated @ reading.coefficients(model) + reading.bias(model)
    np.testing.assert_allclose(model.decision_function(Z), stated, rtol=1e-6, atol=1e-6)
