"""CSR rows have the kernel values of the same rows in a dense array."""

import numpy as np
import pytest
from scipy import sparse

from corevec.data.sources import as_source, row_statistics
from corevec.kernels import make_kernel

RNG = np.random.default_rng(0)


def rows_with_near_duplicates(n_features, offset):
    X = RNG.normal(size=(80, n_features)).round(2) + offset
    X *= RNG.random(X.shape) < 0.5
    X[1::4] = X[0::4]  # equal rows: a distance of 0
    X[3::4] = X[2::4]
    X[3::4, 0] += 1e-3
    return X


@pytest.mark.parametrize("offset", [0.0, 5.0, 1e4])
@pytest.mark.parametrize("n_features", [3, 8, 9, 30])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "inverse-distance"])
def test_sparse_rows_have_the_values_of_dense_ones(name, n_features, offset):
    """Also where |x|^2 + |z|^2 - 2 x.z cancels: a root of that is off by 1e-8."""
    X = rows_with_near_duplicates(n_features, offset)
    known = None
    for values in (X, sparse.csr_matrix(X)):
        source = as_source(values)
        rows = source.take(np.arange(len(X)))
        kernel = make_kernel(name, 0.3, statistics=row_statistics(source))
        bound = kernel.rounding(n_features)
        assert bound < 1e-12
        for basis in (kernel.prepare_basis(rows), kernel.prepare(rows)):
            found = kernel.block(kernel.prepare(rows), basis)
            known = found if known is None else known
            assert np.abs(found - known).max() <= 2 * bound
            equal = found[np.arange(0, 80, 4), np.arange(1, 80, 4)]
            assert np.abs(equal - 1).max() <= (bound if name == "rbf" else 0.0)
