"""Regressions that f = 0, or a constant, solves: no row has a multiplier."""

import numpy as np
import pytest
import reading
from sklearn.datasets import load_iris

from corevec import CoreVectorRegressor, certify, methods

X = load_iris().data
Y = load_iris().target.astype(float)
CASES = {
    "constant targets": (X, np.ones(150), "auto"),
    "zero targets": (X, np.zeros(150), "auto"),
    "a tube wider than the targets": (X, Y, 10.0),
    "one row": (X[:1], Y[:1], "auto"),
}


SPAN = methods.FewVectors(100, basis="coreset")


@pytest.mark.parametrize("method", ["auto", "coreset", SPAN])
@pytest.mark.parametrize("case", CASES)
def test_a_constant_is_fitted_and_certified(case, method):
    rows, targets, tube = CASES[case]
    model = CoreVectorRegressor(tube=tube, random_state=0, method=method)
    found = reading.fit(model, rows, targets).certificate_
    assert found.converged
    assert found.n_verified == len(rows)
    assert np.ptp(model.predict(rows)) == 0
    assert certify(model, rows, targets).primal == pytest.approx(found.primal)


# Of these seeds ten draw 59 rows of one class, whose targets are 0.
@pytest.mark.parametrize("seed", range(30))
def test_a_sample_may_be_solved_by_zero(seed):
    model = CoreVectorRegressor(random_state=seed, method=methods.Sample(59))
    reading.fit(model, X, Y)
    assert model.certificate_.n_verified == 59
    assert np.isfinite(model.predict(X)).all()


def test_a_sample_within_a_wide_tube_is_solved_by_its_mean():
    model = CoreVectorRegressor(tube=10.0, random_state=0, method=methods.Sample(5))
    reading.fit(model, X, Y)
    assert np.ptp(model.predict(X)) == 0
