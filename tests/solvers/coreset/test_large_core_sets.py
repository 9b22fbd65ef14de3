"""Behaviour that shows only above the sizes at which every look is at all rows."""

import warnings

import numpy as np
import pytest
import strategies

from corevec import (
    SVDD,
    CoreVectorClassifier,
    InvalidInputError,
    NotCertifiedWarning,
    certify,
    methods,
)

N = 9000  # above coreset.MAX_ROWS_WITHOUT_SUBSET and span.MIN_ROWS


@pytest.fixture(scope="module")
def board():
    return strategies.checkerboard(N)


@pytest.mark.parametrize("sampling", ["full", "auto"])
def test_the_papers_rule_with_full_search_holds_on_all_rows(board, sampling):
    model = CoreVectorClassifier(
        C=10.0,
        gamma=1.0,
        random_state=0,
        method=methods.CoreSet(sampling=sampling, ball_epsilon=0.01),
    ).fit(*board)
    found = model.certificate_
    assert found.converged
    assert found.stopped_by == "ball_epsilon"
    assert found.ball_epsilon <= 0.01


@pytest.mark.parametrize("method", ["auto", "coreset"])
def test_both_paths_find_the_same_optimum(board, method):
    model = CoreVectorClassifier(
        C=1.0, gamma=20.0, tol=1e-2, random_state=0, method=method
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        found = model.fit(*board).certificate_
    again = certify(model, *board)
    # Both intervals hold the one optimum.
    assert max(found.dual, again.dual) <= min(found.primal, again.primal) * (1 + 1e-9)


def test_a_soft_ball_with_tiny_C_keeps_its_radius_at_zero_or_above(rng):
    X = rng.normal(size=(N, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        model = SVDD(
            C=1e-7, gamma=0.5, random_state=0, method=methods.CoreSet(max_vectors=300)
        ).fit(X)
    d_sq = model.distance(X) ** 2
    # At R = 0 the objective is C sum d^4 for the best centre, so at most for this one.
    assert model.certificate_.dual <= 1e-7 * (d_sq**2).sum() * (1 + 1e-9)
    assert model.certificate_.primal > 0


def test_a_kernel_that_is_not_positive_definite_is_named_at_any_size(board):
    X, y = board
    model = CoreVectorClassifier(
        C=1.0, kernel="sigmoid", gamma=1.0, coef0=-1.0, max_iter=5, random_state=0
    )
    with pytest.warns(NotCertifiedWarning):
        model.fit(X, y)
    assert "not positive definite" in model.certificate_.problem
    assert not model.certificate_.converged


def test_a_warm_start_forgets_rows_that_lost_their_weight(board):
    X, y = board[0][:600], board[1][:600]
    model = CoreVectorClassifier(C=10.0, gamma=1.0, warm_start=True, random_state=0)
    gone = model.fit(X, y).support_[::2]
    weight = np.ones(600)
    weight[gone] = 0.0
    model.fit(X, y, sample_weight=weight)
    keep = weight > 0
    cold = CoreVectorClassifier(C=10.0, gamma=1.0, random_state=0).fit(X[keep], y[keep])
    assert model.certificate_.primal == pytest.approx(
        cold.certificate_.primal, rel=2e-3
    )  # tol of each
    assert not np.isin(model.support_, gone).any()


def test_a_class_without_weight_is_absent(rng):
    X = rng.normal(size=(90, 2))
    y = np.repeat(["a", "b", "c"], 30)
    weight = np.where(y == "b", 0.0, 1.0)
    for way in ("ovr", "ovo"):
        model = CoreVectorClassifier(multi_class=way, class_weight="balanced")
        model.fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(model.classes_, ["a", "c"])
        assert certify(model, X, y, weight).relative_gap <= 1e-3


def test_negative_class_weights_are_refused(rng):
    X, y = rng.normal(size=(20, 2)), np.repeat([0, 1], 10)
    model = CoreVectorClassifier(class_weight={0: -1.0, 1: 1.0})
    with pytest.raises(InvalidInputError, match="class_weight"):
        model.fit(X, y)


def test_a_sampled_fit_can_be_warm_started_with_another_sample(board):
    model = CoreVectorClassifier(
        C=10.0, gamma=1.0, warm_start=True, method=methods.Sample(500)
    )
    for seed in (0, 1):
        model.set_params(random_state=seed).fit(*board)
    assert model.certificate_.stopped_by == "sample"
    assert model.score(*board) > 0.85


def test_many_classes_share_the_budget(rng):
    X = rng.normal(size=(2000, 3))
    y = rng.integers(0, 5, 2000)
    model = CoreVectorClassifier(
        C=1.0, memory_budget=2**20, random_state=0, method="coreset"
    )
    with pytest.warns(NotCertifiedWarning, match="max_vectors"):
        model.fit(X, y)
    assert 5 * model.n_core_**2 * 8 <= 2**20
