"""One-class and ball: consistent with themselves, with each other, and with nu."""

import naive
import numpy as np
import pytest
import reading
import strategies
from hypothesis import assume, given, settings

from corevec import SVDD, CoreVectorOneClass, certify, methods

TIGHT = {"tol": 1e-9, "random_state": 0}
CONSTANT = [*strategies.DISTANCE_KERNELS, strategies.KERNELS[6]]


def cloud(n=600, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2))


@settings(max_examples=25)
@given(
    strategies.problems(C=strategies.penalties(-1, 2), among=CONSTANT, weighted=False)
)
def test_the_two_detectors_coincide_on_constant_kernels(problem):
    """C_oneclass = 4 C_svdd: the ball's centre is w over the sum of multipliers."""
    twin = naive.soft_ball(problem.K, problem.C)
    assume(twin.b.sum() > 1 - 1e-9)  # where R^2 >= 0 binds they part
    ball = reading.fit(SVDD(**TIGHT, **problem.params), problem.X)
    params = {**problem.params, "C": 4 * problem.C}
    one = reading.fit(CoreVectorOneClass(**TIGHT, **params), problem.X)
    a = reading.simplex_weights(one, len(problem.X))
    expected = naive.distances_sq(problem.K, a)
    # 1e-9 in the value is about sqrt(1e-9) in the centre, a few of them in distances.
    np.testing.assert_allclose(ball.distance(problem.X) ** 2, expected, atol=5e-4)


def test_the_ball_and_the_half_space_rank_rows_alike():
    X, Z = cloud(), cloud(200, seed=1) * 1.5
    ball = SVDD(C=2.0, gamma=0.5, **TIGHT).fit(X)
    one = CoreVectorOneClass(C=8.0, gamma=0.5, **TIGHT).fit(X)
    f, d_sq = one.score_samples(Z), ball.distance(Z) ** 2
    slope, constant = np.polyfit(f, d_sq, 1)
    np.testing.assert_allclose(d_sq, slope * f + constant, atol=1e-3)
    assert slope < 0


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_the_wanted_fraction_of_outliers_is_found(nu, kernel):
    X = cloud(500)
    model = CoreVectorOneClass(nu=nu, kernel=kernel, gamma=0.5, random_state=0)
    reading.fit(model, X)
    share = (model.predict(X) == -1).mean()
    # The share is a step function of C; rows on the edge move within tol = 1e-3.
    assert abs(share - nu) <= 0.01 + 0.1 * nu
    assert model.certificate_.primal >= model.certificate_.dual


def test_a_larger_nu_never_has_fewer_outliers():
    X = cloud(300)
    shares = []
    for nu in (0.02, 0.1, 0.4):
        model = CoreVectorOneClass(nu=nu, gamma=0.5, random_state=0)
        shares.append((reading.fit(model, X).predict(X) == -1).mean())
    assert (np.diff(shares) >= 0).all()


def test_scores_offset_and_decision_fit_together():
    X, Z = cloud(), cloud(300, seed=2) * 2
    for model in (CoreVectorOneClass(C=5.0, gamma=0.5), CoreVectorOneClass(nu=0.1)):
        reading.fit(model, X)
        f = model.decision_function(Z)
        np.testing.assert_allclose(
            f, model.score_samples(Z) - model.offset_, atol=1e-12
        )
        np.testing.assert_array_equal(model.predict(Z), np.where(f >= 0, 1, -1))
        assert set(model.predict(Z)) == {-1, 1}


def test_the_score_is_the_stated_expansion():
    X, Z = cloud(), cloud(50, seed=3)
    model = CoreVectorOneClass(C=5.0, gamma=0.5, random_state=0).fit(X)
    by_hand = naive.gram(Z, model.support_vectors_, gamma=0.5)
    by_hand = by_hand @ reading.coefficients(model)
    # The scores may be shifted by a constant, never bent.
    shift = model.score_samples(Z) - by_hand
    np.testing.assert_allclose(shift, shift[0], atol=1e-6)


@pytest.mark.parametrize("C", [np.inf, 0.05, 5.0])
def test_distance_radius_and_decision_fit_together(C):
    X, Z = cloud(), cloud(300, seed=2) * 2
    model = SVDD(C=C, gamma=0.5, random_state=0)
    reading.fit(model, X)
    away = model.distance(Z)
    assert (away >= 0).all()
    assert model.radius_ >= 0
    inside = model.decision_function(Z) >= 0
    edge = np.abs(away - model.radius_) < 1e-9
    np.testing.assert_array_equal(inside[~edge], (away <= model.radius_)[~edge])
    np.testing.assert_array_equal(model.predict(Z), np.where(inside, 1, -1))
    centre = np.asarray(model.dual_coef_, float).ravel()
    assert centre.sum() == pytest.approx(1.0, abs=1e-9)  # a centre, not a multiple
    K = naive.gram(model.support_vectors_, gamma=0.5)
    d_sq = 1 + centre @ K @ centre
    d_sq = d_sq - 2 * naive.gram(Z, model.support_vectors_, gamma=0.5) @ centre
    np.testing.assert_allclose(away**2, d_sq, atol=1e-6)


def test_the_hard_ball_holds_its_rows():
    X = cloud(150)
    model = SVDD(gamma=0.5, tol=1e-6, random_state=0).fit(X)
    twin = naive.hard_ball(naive.gram(X, gamma=0.5))
    # P is the largest squared distance, so 1e-6 in R^2 is the gap that was asked for.
    assert model.radius_**2 == pytest.approx(twin.primal, rel=2e-6)
    assert model.distance(X).max() <= np.sqrt(twin.primal) * (1 + 2e-6)


def test_the_hard_ball_calls_none_of_its_own_rows_an_outlier():
    X = cloud()
    for tol in (0.1, 1e-3):
        model = SVDD(gamma=0.5, tol=tol, random_state=0).fit(X)
        assert (model.predict(X) == 1).all()


def test_the_linear_hard_ball_is_the_smallest_ball_in_the_plane():
    X = cloud(200) + np.array([100.0, -50.0])
    model = SVDD(kernel="linear", tol=1e-9, random_state=0)
    reading.fit(model, X)
    centre = np.asarray(model.dual_coef_).ravel() @ model.support_vectors_
    away = np.linalg.norm(X - centre, axis=1)
    assert model.radius_ == pytest.approx(away.max(), rel=1e-6)
    # Smallest: the rows on the sphere hold the centre in their hull (three suffice).
    centred = X - X.mean(axis=0)
    twin = naive.hard_ball(centred @ centred.T)
    assert model.radius_ == pytest.approx(np.sqrt(twin.primal), rel=1e-6)


@pytest.mark.parametrize("C", [1e-6, 1e-4, 1e-2])
def test_a_small_C_ends_at_radius_zero_and_not_below(C):
    X = cloud(50)
    twin = naive.soft_ball(naive.gram(X, gamma=0.5), C)
    model = SVDD(C=C, gamma=0.5, tol=1e-7, random_state=0)
    certificate = reading.fit(model, X).certificate_
    assert certificate.primal == pytest.approx(twin.primal, rel=1e-5)
    assert certificate.dual == pytest.approx(twin.dual, rel=1e-5)
    assert certificate.primal >= 0
    assert model.radius_ >= 0
    if twin.b.sum() < 0.999:
        assert model.radius_ == pytest.approx(0.0, abs=1e-6)


def test_an_outlier_far_away_is_found_by_all():
    X = np.vstack([cloud(300), [[40.0, 40.0]]])
    for model in (CoreVectorOneClass(nu=0.05), SVDD(C=0.1)):
        reading.fit(model.set_params(gamma=0.5, random_state=0), X)
        assert model.predict(X)[-1] == -1
        assert model.decision_function(X).argmin() == len(X) - 1


@pytest.mark.parametrize("C", [np.inf, 1.0])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("value", [0.1, 1.0])
def test_a_ball_around_equal_rows_is_certified(kernel, C, value):
    # Both bounds are rounding errors of terms near k(x, x): no quotient to speak of.
    X = np.full((20, 3), value)
    model = SVDD(C=C, kernel=kernel, gamma=1.0).fit(X)
    assert model.certificate_.converged
    # Relative to k(x, x), of which both bounds are a difference: a few roundings.
    assert model.certificate_.relative_gap < 1e-14
    assert certify(model, X).relative_gap < 1e-14
    assert model.radius_ < 1e-5


def test_a_small_ball_has_a_gap_all_the_same():
    X = 1e-3 * np.random.default_rng(0).normal(size=(50, 3))
    found = SVDD(gamma=1.0).fit(X).certificate_
    assert 0.0 < found.relative_gap <= 1e-3


PROBABILITIES = np.arange(0.05, 1.0, 0.1)


@pytest.mark.parametrize("asked", [{}, {"loss": "hinge"}, {"method": "cells"}])
def test_the_probabilities_of_a_detector_cut_each_side_into_five_bins(asked):
    X = np.random.default_rng(0).normal(size=(2000, 2))
    s = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    model = CoreVectorOneClass(nu=0.2, **asked).fit(X, sample_weight=s)
    found, inside = model.predict_proba(X), model.predict(X) == 1
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.array_equal(found[:, 1] > 0.5, inside)
    # Monotone in the decision value, and a fifth of the weight of a side in each bin.
    order = np.argsort(model.decision_function(X))
    assert (np.diff(found[order, 1]) >= 0).all()
    for side in (inside, ~inside):
        values, place = np.unique(found[side, 1].round(12), return_inverse=True)
        assert len(values) == 5
        shares = np.bincount(place, weights=s[side]) / s[side].sum()
        np.testing.assert_allclose(shares, 0.2, atol=0.02)
    assert np.unique(found[:, 1]) == pytest.approx(PROBABILITIES)


def test_the_probabilities_of_a_sample_are_nearly_those_of_all_rows():
    X = np.random.default_rng(0).normal(size=(45_000, 2))
    model = CoreVectorOneClass(nu=0.3, tol=1e-2).fit(X)
    found = model.predict_proba(X)[:, 1]
    for side in (found < 0.5, found > 0.5):
        _, counts = np.unique(found[side], return_counts=True)
        # 20,000 rows, at least 6,000 of them on a side: within four deviations.
        np.testing.assert_allclose(counts / side.sum(), 0.2, atol=0.02)


def test_equal_rows_are_one_bin_and_a_side_may_be_empty():
    model = CoreVectorOneClass(nu=0.1).fit(np.ones((20, 1)))
    found = model.predict_proba([[1.0], [5.0]])
    assert found[0, 1] > 0.5 > found[1, 1]


def test_a_model_without_marks_has_no_probabilities():
    model = CoreVectorOneClass(nu=0.1).fit(
        np.random.default_rng(0).normal(size=(50, 1))
    )
    del model.probability_marks_  # as a file of an older version
    assert not hasattr(model, "predict_proba")
    assert hasattr(CoreVectorOneClass(), "predict_proba")


def test_a_hard_ball_of_a_sample_has_the_radius_of_the_sample():
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = SVDD(method=methods.Sample(50), random_state=0).fit(X)
    assert np.isfinite(model.decision_function(X)).all()
    inside = model.distance(X) <= model.radius_ * (1 + 1e-9)
    assert 50 <= inside.sum() < 200
