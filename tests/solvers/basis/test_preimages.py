"""Pre-images: what a residual points at is found, and never worse than a row."""

import naive
import numpy as np
import pytest
from scipy import sparse

from corevec.data.sources import as_source
from corevec.kernels import CallableKernel, Kernel, PrecomputedKernel, Rows
from corevec.models import NEW
from corevec.solvers.basis import Residual, best_training_row, preimage

KERNELS = {
    "rbf": Kernel("rbf", gamma=0.4),
    "laplacian": Kernel("laplacian", gamma=0.4),
    "inverse-distance": Kernel("inverse-distance", gamma=0.4),
    "poly": Kernel("poly", gamma=0.5, coef0=1.0, degree=3),
    "linear": Kernel("linear"),
}


def gram(name, X, Z):
    kernel = KERNELS[name]
    shape = {"gamma": kernel.gamma, "coef0": kernel.coef0, "degree": kernel.degree}
    return naive.gram(X, Z, kernel=name, **shape)


def rows(X):
    return Rows(X, np.full(len(X), NEW))


def mixed(rng, n=40, d=3):
    """Return a residual of rows of both signs and of a few basis vectors."""
    X, B = rng.normal(size=(n, d)), rng.normal(size=(4, d))
    theta = rng.choice([-1.0, 0.0, 1.0], size=n) / n
    return X, theta, B, rng.normal(size=4) / 8


def by_hand(name, X, theta, B, beta, z):
    product = gram(name, z, X) @ theta - gram(name, z, B) @ beta
    return product**2 / np.array([gram(name, v[None], v[None])[0, 0] for v in z])


@pytest.mark.parametrize("name", ["rbf", "laplacian", "inverse-distance", "poly"])
@pytest.mark.parametrize("coefficient", [2.5, -0.3])
def test_the_preimage_of_a_single_image_is_found(name, coefficient, rng):
    X, b = rng.normal(size=(50, 3)), np.array([[0.3, -0.2, 0.5]])
    # Minus the basis: the residual is coefficient * phi(b), and b is no row.
    residual = Residual(
        as_source(X), KERNELS[name], np.zeros(50), rows(b), np.array([-coefficient])
    )
    found = preimage(residual, rng)
    assert found.index.tolist() == [NEW]
    whole = coefficient**2 * gram(name, b, b)[0, 0]
    assert residual.objective(found)[0] == pytest.approx(whole, rel=1e-6)
    # The objective is flat at its top: 1e-6 of it is 1e-3 in the place. The fixed point
    # of one image is reached at once.
    near = 1e-2 if name == "poly" else 1e-6
    assert found.values == pytest.approx(b, abs=near)


def test_the_linear_preimage_is_the_residual_itself(rng):
    X, theta, B, beta = mixed(rng)
    residual = Residual(as_source(X), KERNELS["linear"], theta, rows(B), beta)
    r = theta @ X - beta @ B
    found = preimage(residual, rng).values[0]
    assert found / np.linalg.norm(found) == pytest.approx(r / np.linalg.norm(r))
    assert residual.objective(rows(found[None]))[0] == pytest.approx(r @ r)


@pytest.mark.parametrize("name", list(KERNELS))
def test_the_objective_is_what_a_vector_takes_off_the_residual(name, rng):
    X, theta, B, beta = mixed(rng)
    residual = Residual(as_source(X), KERNELS[name], theta, rows(B), beta)
    z = rng.normal(size=(6, 3))
    expected = by_hand(name, X, theta, B, beta, z)
    assert residual.objective(rows(z)) == pytest.approx(expected, rel=1e-9, abs=1e-15)
    # |r|^2 - min over c of |r - c phi(z)|^2, from the Gram matrix of everything.
    everything = np.concatenate([X, B, z[:1]])
    K = gram(name, everything, everything)
    r = np.concatenate([theta, -beta, [0.0]])
    c = (K @ r)[-1] / K[-1, -1]
    less = r.copy()
    less[-1] -= c
    assert r @ K @ r - less @ K @ less == pytest.approx(expected[0], abs=1e-10)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "inverse-distance", "poly"])
@pytest.mark.parametrize("seed", range(5))
def test_a_local_maximum_is_found_no_worse_than_any_row(name, seed):
    rng = np.random.default_rng(seed)
    X, theta, B, beta = mixed(rng)
    residual = Residual(as_source(X), KERNELS[name], theta, rows(B), beta)
    found = preimage(residual, rng)
    value = by_hand(name, X, theta, B, beta, found.values)[0]
    inside = X[theta != 0]
    assert value >= by_hand(name, X, theta, B, beta, inside).max() * (1 - 1e-9)

    # The search ends at a gain of 1e-7 of the value: nothing near is better by more
    # than a few of them.
    reach = 10.0 ** rng.uniform(-5, -1, size=(2000, 1))
    around = found.values + reach * rng.normal(size=(2000, 3))
    assert by_hand(name, X, theta, B, beta, around).max() <= value * (1 + 1e-5)


def test_any_other_kernel_is_searched_at_random(rng):
    X, theta, B, beta = mixed(rng, d=2)
    known = KERNELS["rbf"]
    kernel = CallableKernel(lambda A, Z: naive.gram(A, Z, gamma=known.gamma))
    residual = Residual(as_source(X), kernel, theta, rows(B), beta)
    found = residual.objective(preimage(residual, rng))[0]
    row = residual.objective(best_training_row(residual, rng))[0]
    fixed = Residual(as_source(X), known, theta, rows(B), beta)
    best = fixed.objective(preimage(fixed, rng))[0]
    assert found > row
    assert found >= 0.9 * best


def test_the_best_training_row_is_a_row_with_its_number(rng):
    X, theta, B, beta = mixed(rng)
    residual = Residual(as_source(X), KERNELS["rbf"], theta, rows(B), beta)
    found = best_training_row(residual, rng, 40)
    values = by_hand("rbf", X, theta, B, beta, X)
    values[theta == 0] = -1.0
    assert found.index.tolist() == [int(np.argmax(values))]
    assert found.values == pytest.approx(X[found.index])


def test_a_precomputed_kernel_has_no_vectors_but_its_rows(rng):
    X, theta, *_ = mixed(rng)
    K = gram("rbf", X, X)
    residual = Residual(as_source(K), PrecomputedKernel(), theta)
    found = preimage(residual, rng)
    assert found.index[0] >= 0
    assert theta[found.index[0]] != 0


@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly", "linear"])
def test_sparse_rows_give_the_preimage_of_dense_rows(name, rng):
    X, theta, B, beta = mixed(rng, d=12)
    X[np.abs(X) < 0.7] = 0.0
    found = [
        preimage(
            Residual(as_source(values), KERNELS[name], theta, rows(B), beta),
            np.random.default_rng(1),
        )
        for values in (X, sparse.csr_array(X))
    ]
    assert found[1].values.shape == (1, 12)
    assert not sparse.issparse(found[1].values)
    a, b = (by_hand(name, X, theta, B, beta, one.values)[0] for one in found)
    assert a == pytest.approx(b, rel=1e-6)


def test_float32_rows_are_searched_in_float32(rng):
    X, theta, B, beta = mixed(rng)
    found = [
        preimage(
            Residual(as_source(values), KERNELS["rbf"], theta, rows(B), beta),
            np.random.default_rng(1),
        )
        for values in (X, X.astype(np.float32))
    ]
    a, b = (by_hand("rbf", X, theta, B, beta, one.values)[0] for one in found)
    assert a == pytest.approx(b, rel=1e-4)
