"""Problems of a few rows each share one kernel matrix; its values are their own."""

import numpy as np
import pytest
from scipy import sparse

from corevec.backend.loops import box as loops
from corevec.data.sources import Workers, as_source
from corevec.kernels import make_kernel
from corevec.problems import c_svc
from corevec.solvers.hinge.few_rows import MOST_SHARED_ROWS, Shared
from tests import naive


def pairs_of_rows(n):
    return [
        c_svc(rows, np.where(rows % 4 < 2, 1.0, -1.0), np.ones(len(rows)))
        for rows in (np.arange(0, n, 3), np.arange(1, n, 2))
    ]


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "CSR"])
@pytest.mark.parametrize("memory", [0, 1 << 28], ids=["apart", "shared"])
def test_kernel_values_are_those_of_the_rows(memory, is_sparse):
    X = np.random.default_rng(0).normal(size=(90, 5))
    numbers = np.arange(1, 90, 2)
    with Workers(2) as workers:
        source = as_source(sparse.csr_array(X) if is_sparse else X, 1 << 28, workers)
        kernel = make_kernel("rbf", 0.5)
        shared = Shared.of(pairs_of_rows(90), source, kernel, memory)
        found = shared.values(numbers)
    assert (shared.matrix is None) == (memory == 0)
    wanted = naive.gram(X[numbers], gamma=0.5)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


def test_one_problem_and_many_narrow_rows_share_nothing():
    X = np.zeros((MOST_SHARED_ROWS + 1, 2))
    kernel, memory = make_kernel("rbf", 0.5), 1 << 30
    with Workers(1) as workers:
        source = as_source(X, 1 << 30, workers)
        few = pairs_of_rows(90)
        assert Shared.of(few, source, kernel, memory).matrix is None
        source = as_source(X[:90], 1 << 30, workers)
        assert Shared.of(few[:1], source, kernel, memory).matrix is None


def test_gather_is_indexing():
    K = np.random.default_rng(0).normal(size=(7, 9))
    rows, columns, out = np.array([5, 0, 5]), np.array([8, 1]), np.empty((3, 2))
    loops.gather(K, rows, columns, out)
    np.testing.assert_array_equal(out, K[np.ix_(rows, columns)])
