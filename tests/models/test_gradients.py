"""Squared gradients of kernel functions, against differences of their values."""

import naive
import numpy as np
import pytest
from scipy import sparse

from corevec.exceptions import KernelError
from corevec.kernels import RowMap, Rows, make_kernel
from corevec.models import KernelExpansion, squared_gradients

DISTANCE = ("rbf", "laplacian", "inverse-distance")


def case(kernel, d, scale=None, n=40, m=25, outputs=2, seed=0):
    """Return functions with their NumPy twin, rows that are no vectors, and weights."""
    rng = np.random.default_rng(seed)
    Z, X = rng.normal(size=(m, d)), rng.normal(size=(n, d))
    coef, gamma = rng.normal(size=(m, outputs)), 0.7 / d
    made = make_kernel(kernel, gamma)
    made = type(made)(
        kernel, gamma=gamma, row_map=RowMap(shift=rng.normal(size=d), exponent=0)
    )
    factor = np.ones(d)
    if scale is not None:
        factor, made = scale, made.with_scale(scale)
    basis = Rows(Z, np.arange(m))
    functions = KernelExpansion(made, basis, coef, np.zeros(outputs))

    def values(A):
        K = naive.gram(A * factor, Z * factor, kernel=kernel, gamma=gamma)
        return K @ coef

    return functions, values, Rows(X, np.arange(n)), rng.random(n)


def by_differences(values, X, s, h=1e-5):
    """Return the weighted sums of squared central differences, column by column."""
    found = []
    for c in range(X.shape[1]):
        step = h * np.eye(X.shape[1])[c]
        slope = (values(X + step) - values(X - step)) / (2 * h)
        found.append(s @ (slope**2).sum(axis=1))
    return np.array(found)


@pytest.mark.parametrize("d", [3, 12])  # by differences, and by products
@pytest.mark.parametrize("kernel", DISTANCE)
@pytest.mark.parametrize("is_scaled", [False, True])
def test_squared_gradients_equal_differences_of_the_values(kernel, d, is_scaled):
    scale = np.linspace(0.0, 2.0, d) if is_scaled else None
    functions, values, rows, s = case(kernel, d, scale)
    expected = by_differences(values, rows.values, s)
    found = squared_gradients(functions, rows, s)
    # The error of central differences is about h^2 = 1e-10 times third derivatives.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kernel", DISTANCE)
def test_at_a_vector_itself_a_kink_counts_zero(kernel):
    functions, _, _, _ = case(kernel, 2, m=1, outputs=1)
    own = functions.basis
    assert np.array_equal(squared_gradients(functions, own, np.ones(1)), np.zeros(2))


def test_sparse_rows_and_blocks_of_columns_give_the_same():
    d = 1100  # three blocks of columns
    rng = np.random.default_rng(1)
    Z, X = (rng.normal(size=(9, d)) * (rng.random((9, d)) < 0.02) for _ in range(2))
    kernel = make_kernel("rbf", 0.05).with_scale(rng.random(d))
    coef, index = rng.normal(size=(9, 1)), np.arange(9)
    found = [
        squared_gradients(
            KernelExpansion(kernel, Rows(form(Z), index), coef, np.zeros(1)),
            Rows(form(X), index),
            np.ones(9),
        )
        for form in (np.asarray, sparse.csr_matrix)
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12, atol=1e-14)
    assert (found[0] > 0).any()


def test_weight_two_counts_a_row_twice_and_no_vectors_give_zero():
    functions, _, rows, _ = case("rbf", 4)
    twice = Rows(np.repeat(rows.values, 2, axis=0), np.arange(80))
    one = squared_gradients(functions, rows, np.full(40, 2.0))
    np.testing.assert_allclose(
        one, squared_gradients(functions, twice, np.ones(80)), rtol=1e-12
    )
    none = KernelExpansion(
        functions.kernel,
        functions.basis.part(slice(0)),
        functions.coef[:0],
        np.zeros(2),
    )
    assert not squared_gradients(none, rows, np.ones(40)).any()


def test_a_kernel_of_inner_products_is_refused():
    rows = Rows(np.ones((2, 3)), np.arange(2))
    functions = KernelExpansion(
        make_kernel("linear"), rows, np.ones((2, 1)), np.zeros(1)
    )
    with pytest.raises(KernelError, match="linear"):
        squared_gradients(functions, rows, np.ones(2))


def test_tensors_give_the_same():
    torch = pytest.importorskip("torch")
    functions, _, rows, s = case("laplacian", 5, np.linspace(0.5, 1.0, 5))
    on_torch = Rows(torch.as_tensor(rows.values), rows.index)
    np.testing.assert_allclose(
        squared_gradients(functions, on_torch, s),
        squared_gradients(functions, rows, s),
        rtol=1e-10,
    )


@pytest.mark.parametrize("kernel", DISTANCE)
def test_a_scale_is_a_metric(kernel):
    """Values are those of scaled rows, and `back` inverts the map."""
    rng = np.random.default_rng(3)
    X, Z, scale = rng.normal(size=(7, 9)), rng.normal(size=(5, 9)), rng.random(9)
    scale[4] = 0.0
    made = make_kernel(kernel, 0.3).with_scale(scale)
    for form in (np.asarray, sparse.csr_matrix):
        x, z = (made.prepare(Rows(form(A), np.arange(len(A)))) for A in (X, Z))
        expected = naive.gram(X * scale, Z * scale, kernel=kernel, gamma=0.3)
        np.testing.assert_allclose(made.block(x, z), expected, rtol=1e-12)
        back = made.row_map.back(made.row_map(form(X), np.float64))
        back = back.toarray() if sparse.issparse(back) else back
        np.testing.assert_allclose(back[:, scale > 0], X[:, scale > 0], rtol=1e-12)
        assert not back[:, 4].any()
    few = np.array([0, 8])
    x, z = (made.on_columns(few).prepare(Rows(A[:, few], None)) for A in (X, Z))
    expected = naive.gram(
        (X * scale)[:, few], (Z * scale)[:, few], kernel=kernel, gamma=0.3
    )
    np.testing.assert_allclose(made.on_columns(few).block(x, z), expected, rtol=1e-12)
