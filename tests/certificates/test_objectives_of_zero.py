"""Objectives of 0: models without support vectors, balls of equal rows."""

import numpy as np
import pytest
from scipy import sparse

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorRegressor,
    NotCertifiedWarning,
    certify,
)
from corevec.data.sources import as_source, row_statistics
from corevec.kernels import make_kernel
from corevec.models import Cancellation, relative_gap

RNG = np.random.default_rng(0)


def kernel_function(X, Z):
    return X @ Z.T


NAMES = ("rbf", "laplacian", "inverse-distance", "linear", "poly", "sigmoid")
KERNELS = (*NAMES, kernel_function)


@pytest.mark.parametrize("n_features", [3, 12])
@pytest.mark.parametrize(
    ("method", "kernel"),
    [
        (one, kernel)
        for one in ("auto", "few-vectors")
        for kernel in KERNELS
        if kernel != "sigmoid"  # not positive definite: nothing is certified
    ],
)
def test_a_model_without_support_vectors_is_certified(method, kernel, n_features):
    """A tube that holds every row: the objective of f = 0 is exact."""
    X, y = RNG.normal(size=(50, n_features)), 1e-3 * RNG.normal(size=50)
    model = CoreVectorRegressor(kernel=kernel, tube=1.0, method=method).fit(X, y)
    assert np.ptp(model.predict(X)) == 0
    certificate = certify(model, X, y)
    assert (certificate.primal, certificate.dual) == (0.0, 0.0)
    assert certificate.converged


@pytest.mark.parametrize("C", [np.inf, 1.0])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("value", [0.0, 0.1, 3.3, 1e-200])
@pytest.mark.parametrize("kind", ["dense", "float32", "CSR"])
def test_the_ball_of_equal_rows_has_converged(C, kernel, value, kind):
    """Its radius is 0; what rounding leaves of it is relative to k(x, x)."""
    X = np.full((30, 12), value)
    if kind == "CSR":
        X = sparse.csr_matrix(X)
    elif kind == "float32":
        X = X.astype(np.float32)
    model = SVDD(kernel=kernel, gamma=1.0, C=C).fit(X)
    for certificate in (model.certificate_, certify(model, X)):
        assert certificate.converged
        assert certificate.stopped_by == "tol"
        assert certificate.relative_gap < 1e-12
        assert 0.0 == certificate.dual <= certificate.primal


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_hard_ball_of_equal_large_rows_has_converged(kernel):
    """With C, the rounding of 3e12 squared times C would be more than that of R^2."""
    X = np.full((30, 3), 1e6)
    model = SVDD(kernel=kernel).fit(X)
    assert model.certificate_.converged
    assert certify(model, X).converged


def test_columns_of_one_value_have_no_variance():
    """Sums of equal entries are rounded; gamma="scale" then was 1e32, and is 1."""
    X = np.full((30, 12), 0.1)
    statistics = row_statistics(as_source(X))
    assert statistics.entry_variance == statistics.total_variance == 0.0
    assert np.array_equal(statistics.mean, X[0])
    assert make_kernel("poly", "scale", statistics=statistics).gamma == 1.0


def test_a_small_ball_keeps_its_gap():
    """A radius far above the rounding of k(x, x) = 1 is no zero."""
    X = 1e-5 * RNG.normal(size=(200, 3))
    model = SVDD(gamma=1.0, tol=1e-2).fit(X)
    certificate = certify(model, X)
    assert 1e-11 < certificate.primal < 1e-8
    gap = (certificate.primal - certificate.dual) / certificate.primal
    assert certificate.relative_gap == pytest.approx(gap, rel=1e-12)


def test_a_gap_within_rounding_is_relative_to_the_terms():
    assert relative_gap(2.0, 1.0) == 0.5
    assert relative_gap(2e-15, -2e-15) == 2.0
    cancelled = Cancellation(error=1e-15, terms=2.0)
    assert relative_gap(2e-15, -2e-15, cancelled) == 2e-15
    assert relative_gap(1e-14, 0.0, cancelled) == 1.0
    assert relative_gap(np.inf, 0.0, cancelled) == np.inf


def test_the_objective_of_a_machine_is_no_difference():
    """Where rounding exceeds the objective, nothing is claimed."""
    X = RNG.normal(size=(300, 3))
    K = ((X @ X.T + 1) ** 3).astype(np.float32)
    model = CoreVectorClassifier(C=1e3, kernel="precomputed")
    with pytest.warns(NotCertifiedWarning):
        model.fit(K, X[:, 0] * X[:, 1] > 0)
    found = model.certificate_
    assert found.rounding > 0.5
    assert found.relative_gap == (found.primal - found.dual) / found.primal


def test_a_ball_whose_radius_is_near_the_rounding_holds_every_row():
    # Directions of rows that lie far away in one direction: R^2 is 3.6e-12, of terms of
    # size 1. The offset that was measured must be that of the primal value.
    rng = np.random.default_rng(49)
    X = 1e6 + 0.6 * rng.normal(size=(40, 5))
    with np.errstate(all="ignore"):
        rows = (
            X.astype(np.longdouble)
            / np.sqrt((X.astype(np.longdouble) ** 2).sum(1))[:, None]
        )
    for seed in range(5):
        model = SVDD(kernel="normalized-linear", tol=1e-6, random_state=seed)
        with pytest.warns(NotCertifiedWarning, match="stall"):
            model.fit(X)
        centre = model.dual_coef_[0].astype(np.longdouble) @ rows[model.support_]
        farthest = float(((rows - centre) ** 2).sum(1).max())
        assert model.certificate_.primal >= farthest * (1 - 1e-9)
