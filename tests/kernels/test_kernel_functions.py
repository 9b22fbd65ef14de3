"""Kernel functions of the user: what they may return."""

import numpy as np
import pytest
from scipy import sparse
from strategies import KERNELS

from corevec import SVDD, CoreVectorClassifier, CoreVectorRegressor
from corevec.exceptions import KernelError
from corevec.kernels import KERNEL_CODES, NormalizedKernel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
LABELS = (X[:, 0] > 0).astype(int)


def dense(A, B):
    return (A @ B.T + 1.0) ** 2


def matrix(A, B):
    return sparse.csr_matrix(dense(A, B))


def array(A, B):
    return sparse.coo_array(dense(A, B))


@pytest.mark.parametrize("kernel", [matrix, array, NormalizedKernel(matrix)])
@pytest.mark.parametrize("model", [CoreVectorClassifier, CoreVectorRegressor, SVDD])
def test_a_kernel_function_may_return_a_sparse_matrix(model, kernel):
    """As SVC's may. Sums in another order change the steps, not the optimum."""
    known = NormalizedKernel(dense) if isinstance(kernel, NormalizedKernel) else dense
    y = None if model is SVDD else LABELS
    found = model(kernel=kernel).fit(X, y)
    wanted = model(kernel=known).fit(X, y)
    # Each is within 1e-3 of the optimum.
    primal = wanted.certificate_.primal
    assert found.certificate_.primal == pytest.approx(primal, rel=2e-3)
    assert found.certificate_.converged
    assert np.isfinite(found.predict(X)).all()


def words(A, B):
    return np.full((len(A), len(B)), "much")


def ragged(A, B):
    return [[1.0] * (i + 1) for i in range(len(A))]


def nothing(A, B):
    return None


@pytest.mark.parametrize("kernel", [words, ragged])
def test_what_is_no_array_of_numbers_is_refused(kernel):
    with pytest.raises(KernelError, match=type(kernel(X, X)).__name__):
        CoreVectorClassifier(kernel=kernel).fit(X, LABELS)


def test_a_function_that_returns_nothing_is_refused():
    with pytest.raises(KernelError):
        CoreVectorClassifier(kernel=nothing).fit(X, LABELS)


def test_every_kernel_takes_part_in_the_properties():
    """All but the sigmoid, which is not positive definite: see its own tests."""
    assert {k["kernel"] for k in KERNELS} >= {*KERNEL_CODES} - {"sigmoid"}
