"""The squared loss along a stream, against ridge regression written out."""

import numpy as np
import pytest

from corevec.kernels import make_kernel
from corevec.solvers.streaming import CoreForm, SquaredStream, Targets

GAMMA = 0.3


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    z = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)
    return X, np.column_stack([z, X[:, 0]])


def kernel_of(name, X, Z):
    if name == "linear":
        return X @ Z.T + 1
    return np.exp(-GAMMA * ((X[:, None] - Z[None]) ** 2).sum(axis=2)) + 1


def stream_of(name, X, z, C=2.0, **form):
    form = CoreForm(two_sided=True, **form)
    own = SquaredStream(form, make_kernel(name, gamma=GAMMA), 3, z.shape[1])
    return own.absorb(X, Targets(z, np.full(len(z), C)))


@pytest.mark.parametrize("block", [7, 300])
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_within_the_budget_it_is_ridge_regression(name, block):
    X, z = rows_of(150)
    stream = stream_of(name, X, z, budget=200, block=block)
    K = kernel_of(name, X, X)
    expected = K @ np.linalg.solve(K + np.eye(150) / 2.0, z)
    np.testing.assert_allclose(stream.values(X), expected, atol=1e-5)


def test_a_full_core_is_nystroem_regression_of_all_rows():
    X, z = rows_of(2000)
    X = np.tanh(X)  # no row is so far away that it replaces one of the core
    stream = stream_of("rbf", X, z, budget=64, block=250)
    core = stream.rows
    np.testing.assert_array_equal(core, X[:64])
    K, cross = kernel_of("rbf", core, core), kernel_of("rbf", core, X)
    # In function values at the landmarks: min a'Ka/2 + sum (z - K'a)^2.
    a = np.linalg.solve(K / 2.0 + cross @ cross.T, cross @ z)
    expected = kernel_of("rbf", X, core) @ a
    np.testing.assert_allclose(stream.values(X), expected, atol=1e-4)


def test_the_core_follows_rows_that_move():
    X, z = rows_of(2000)
    X[1000:] += 10.0
    stream = stream_of("rbf", X, z[:, 1:], budget=40)
    assert len(stream.rows) == 40
    assert stream.n_updates > 40
    found = stream.values(X)
    for part in (slice(0, 1000), slice(1000, None)):
        assert np.mean((found[part] - z[part, 1:]) ** 2) < 0.3  # the variance is 1


def test_joined_streams_and_moved_targets():
    X, z = rows_of(800)
    for name in ("linear", "rbf"):
        whole = stream_of(name, X, z, budget=900).values(X)
        left = stream_of(name, X[:400], z[:400], budget=900)
        right = stream_of(name, X[400:], z[400:], budget=900)
        np.testing.assert_allclose(left.joined(right).values(X), whole, atol=1e-4)
        step = np.array([0.5, -1.0])
        moved = stream_of(name, X, z - step, budget=900).moved(step)
        np.testing.assert_allclose(moved.values(X), whole, atol=1e-4)
