"""A warm start may change the road, never the place it leads to."""

import numpy as np
import pytest
import reading
import strategies

from corevec import SVDD, CoreVectorClassifier, CoreVectorOneClass

SHAPE = {"gamma": 1.0, "tol": 1e-6, "random_state": 0}
X, Y = strategies.checkerboard(400)


@pytest.mark.parametrize("method", ["auto", "coreset"])
def test_a_path_of_C_on_the_same_rows_ends_where_cold_fits_end(method):
    warm = CoreVectorClassifier(warm_start=True, method=method, **SHAPE)
    for C in (1.0, 10.0, 100.0, 1.0):
        warm.set_params(C=C).fit(X, Y)
        cold = CoreVectorClassifier(C=C, method=method, **SHAPE).fit(X, Y)
        assert warm.certificate_.converged
        values = warm.certificate_.primal, cold.certificate_.primal
        assert values[0] == pytest.approx(values[1], rel=3e-6)  # tol of each
        apart = np.abs(warm.decision_function(X) - cold.decision_function(X)).max()
        assert apart <= reading.reach(warm, cold)


def test_the_same_fit_again_starts_at_its_end():
    model = CoreVectorClassifier(C=10.0, warm_start=True, method="coreset", **SHAPE)
    cold = model.fit(X, Y).n_iter_
    assert model.fit(X, Y).n_iter_ <= cold
    assert model.certificate_.converged


def test_new_rows_are_taken_up():
    model = CoreVectorClassifier(C=10.0, warm_start=True, **SHAPE)
    model.fit(X[:150], Y[:150]).fit(X, Y)
    cold = CoreVectorClassifier(C=10.0, **SHAPE).fit(X, Y)
    assert model.certificate_.n_rows == 400
    assert model.certificate_.converged
    values = model.certificate_.primal, cold.certificate_.primal
    assert values[0] == pytest.approx(values[1], rel=3e-6)
    np.testing.assert_allclose(model.support_vectors_, X[model.support_])


def test_other_rows_of_the_same_number_are_not_mistaken_for_the_old_ones():
    model = CoreVectorClassifier(C=10.0, warm_start=True, **SHAPE)
    model.fit(X[:200], Y[:200]).fit(X[200:], Y[200:])
    cold = CoreVectorClassifier(C=10.0, **SHAPE).fit(X[200:], Y[200:])
    values = model.certificate_.primal, cold.certificate_.primal
    assert values[0] == pytest.approx(values[1], rel=3e-6)


def test_fewer_rows_and_other_columns_do_not_disturb_a_warm_start():
    model = CoreVectorClassifier(C=10.0, warm_start=True, **SHAPE).fit(X, Y)
    model.fit(X[:50], Y[:50])
    cold = CoreVectorClassifier(C=10.0, **SHAPE).fit(X[:50], Y[:50])
    values = model.certificate_.primal, cold.certificate_.primal
    assert values[0] == pytest.approx(values[1], rel=3e-6)
    wider = np.column_stack([X, X[:, 0] ** 2])
    model.fit(wider, Y)
    assert model.n_features_in_ == 3
    assert model.certificate_.converged


def test_another_kernel_width_does_not_disturb_a_warm_start():
    model = CoreVectorClassifier(C=10.0, warm_start=True, **SHAPE).fit(X, Y)
    model.set_params(gamma=0.1).fit(X, Y)
    cold = CoreVectorClassifier(C=10.0, **{**SHAPE, "gamma": 0.1}).fit(X, Y)
    values = model.certificate_.primal, cold.certificate_.primal
    assert values[0] == pytest.approx(values[1], rel=3e-6)


def test_flipped_labels_do_not_disturb_a_warm_start():
    model = CoreVectorClassifier(C=10.0, warm_start=True, **SHAPE).fit(X, Y)
    before = model.decision_function(X)
    model.fit(X, -Y)
    assert np.abs(model.decision_function(X) + before).max() <= 2 * reading.reach(model)


@pytest.mark.parametrize("detector", [CoreVectorOneClass, SVDD])
def test_the_detectors_start_warm_too(detector):
    if "warm_start" not in detector().get_params():
        pytest.skip("the issue promises warm_start for the classifier")
    warm = detector(warm_start=True, **SHAPE)
    for C in (1.0, 10.0):
        reading.fit(warm.set_params(C=C), X)
        cold = reading.fit(detector(C=C, **SHAPE), X)
        values = warm.certificate_.primal, cold.certificate_.primal
        assert values[0] == pytest.approx(values[1], rel=3e-6)
