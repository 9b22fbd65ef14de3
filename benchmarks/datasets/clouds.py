"""Generated rows for speed: dense clouds, and sparse rows as of text.

Dense: two round Gaussian clouds, two deviations apart, so that a linear classifier is
right for 84 % of the rows: neither the best nor the worst case of a learner whose
updates depend on its mistakes. Sparse: `entries` per row, columns of low number common
and others rare, as words are; positive, rows of unit length; the class is the sign of a
hidden linear function, wrong for a tenth of the rows.

Islands: eight small clouds, every other one of the same class. A Gaussian machine
learns them all, and then hardly a row is inside the margin.
"""

import numpy as np
from scipy import sparse

from benchmarks.datasets._base import Dataset, signs

HALF_DISTANCE = 1.0
WRONG_SHARE = 0.1
N_ISLANDS, ISLAND_DISTANCE, ISLAND_WIDTH = 8, 0.9, 0.45


def load(n, d, dtype="float64", entries=None, seed=0, n_test=10_000):
    """Return the rows; dense where `entries` is None."""
    rng = np.random.default_rng(seed)
    make = _dense if entries is None else _sparse
    X, y = make(n + n_test, d, entries, np.dtype(dtype), rng)
    return Dataset(X[:n], y[:n], X[n:], y[n:])


def islands(n, d, seed=0, n_test=10_000):
    """Return rows of small clouds in no order."""
    rng = np.random.default_rng(seed)
    centres = ISLAND_DISTANCE * rng.standard_normal((N_ISLANDS, d))
    which = rng.integers(N_ISLANDS, size=n + n_test)
    X = centres[which] + ISLAND_WIDTH * rng.standard_normal((n + n_test, d))
    y = signs(which % 2 == 0)
    return Dataset(X[:n], y[:n], X[n:], y[n:])


def _dense(n, d, _, dtype, rng):
    y = signs(rng.random(n) < 0.5)
    X = rng.standard_normal((n, d), dtype=dtype)
    X += (y * (HALF_DISTANCE / np.sqrt(d))).astype(dtype)[:, None]
    return X, y


def _sparse(n, d, entries, dtype, rng):
    # One column of each of `entries` stretches, wider and wider: sorted, none twice.
    edges = (d * (np.arange(entries + 1) / entries) ** 2).astype(np.int32)
    columns = rng.integers(edges[:-1], edges[1:], size=(n, entries), dtype=np.int32)
    values = rng.standard_exponential((n, entries), dtype=dtype)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    hidden = rng.standard_normal(d)
    side = (values * hidden[columns]).sum(axis=1) > 0
    wrong = rng.random(n) < WRONG_SHARE
    starts = np.arange(0, n * entries + 1, entries, dtype=np.int32)
    X = sparse.csr_matrix((values.ravel(), columns.ravel(), starts), shape=(n, d))
    return X, signs(side ^ wrong)
