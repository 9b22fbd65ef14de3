"""Kernel matrices in float32: of low rank, they are positive definite to rounding."""

import warnings

import few_vectors
import numpy as np
import pytest

from corevec import (
    SVDD,
    CoreSetNystroem,
    CoreVectorClassifier,
    CoreVectorRanker,
    CoreVectorRegressor,
    NotCertifiedWarning,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
SQUARES = (X**2).sum(axis=1)
MATRICES = {
    "linear": X @ X.T,
    "rbf": np.exp(-0.1 * (SQUARES[:, None] + SQUARES - 2 * X @ X.T)),
    "rbf of rank 10": np.exp(-1e-3 * (SQUARES[:, None] + SQUARES - 2 * X @ X.T)),
    "poly": (X @ X.T + 1) ** 3,
}
MODELS = (
    CoreVectorClassifier,
    CoreVectorRegressor,
    few_vectors.classifier,
    few_vectors.regressor,
    SVDD,
)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("model", MODELS)
def test_the_certificate_encloses_the_optimum_of_the_exact_matrix(model, name):
    """What rounding to float32 may hide is in the gap, and not claimed."""
    K = MATRICES[name]
    assert np.linalg.eigvalsh(K.astype(np.float32).astype(float))[0] < 0
    y = () if model is SVDD else (Y,)
    params = {"kernel": "precomputed", "C": 1.0}
    exact = model(**params, tol=1e-6).fit(K, *y).certificate_
    with warnings.catch_warnings():  # for some the gap is larger than tol
        warnings.simplefilter("ignore", NotCertifiedWarning)
        fitted = model(**params).fit(K.astype(np.float32), *y)
    found = fitted.certificate_
    assert found.dual_bound != "none"
    assert found.dual <= exact.primal
    assert found.primal >= exact.dual
    # The largest gap is that of poly: float32 leaves 1e-7 of entries of 1e4,
    # which C multiplies.
    assert found.relative_gap < 0.2


@pytest.mark.parametrize("name", MATRICES)
def test_a_ranking_from_such_a_matrix_encloses_the_optimum(name):
    K = MATRICES[name]
    exact = CoreVectorRanker(kernel="precomputed").fit(K, Y).certificate_
    with warnings.catch_warnings():  # poly: rounding leaves 2e-3, as above
        warnings.simplefilter("ignore", NotCertifiedWarning)
        model = CoreVectorRanker(kernel="precomputed").fit(K.astype(np.float32), Y)
    found = model.certificate_
    assert found.dual <= exact.primal
    assert found.primal >= exact.dual
    # Of poly 2.1e-3: the bound that is reported allows for the rounding of the matrix.
    assert found.primal == pytest.approx(exact.primal, rel=3e-3)
    assert found.converged or name == "poly"


def test_features_of_such_a_matrix_are_found():
    K = MATRICES["linear"].astype(np.float32)
    features = CoreSetNystroem(kernel="precomputed").fit_transform(K, Y)
    assert np.isfinite(features).all()


def test_a_matrix_that_is_indefinite_beyond_rounding_is_told_apart():
    K = MATRICES["linear"] - 0.1 * np.eye(200)
    with pytest.warns(NotCertifiedWarning):
        model = CoreVectorClassifier(kernel="precomputed").fit(K.astype(np.float32), Y)
    assert model.certificate_.dual_bound == "none"
