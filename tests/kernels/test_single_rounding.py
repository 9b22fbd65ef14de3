"""The bound on the errors of float32 Gaussian values, against values in long double."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corevec.kernels import Rows, make_kernel


def gaussian(X, Z, gamma):
    """Return kernel values in long double, from differences."""
    X, Z = X.astype(np.longdouble), Z.astype(np.longdouble)
    return np.exp(-gamma * ((X[:, None] - Z[None]) ** 2).sum(axis=2))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([1, 3, 8, 9, 40, 300]),
    scale=st.floats(0.01, 100.0),
    width=st.floats(1e-3, 10.0),
    offset=st.floats(-30.0, 30.0),
)
def test_no_float32_value_is_further_off_than_the_bound(seed, d, scale, width, offset):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(40, d)) + offset
    Z = np.concatenate([X[:5] + 1e-3 * scale, scale * rng.normal(size=(20, d))])
    kernel = make_kernel("rbf", width / (d * scale**2))
    x, z = (kernel.prepare(Rows(a, np.arange(len(a))), np.float32) for a in (X, Z))
    found = kernel.block(x, z).astype(np.longdouble)
    exact = gaussian(X, Z, kernel.gamma)
    rows, basis = kernel.single_rounding(x, z)
    bound = exact * np.expm1(rows[:, None] + basis) + 2.0**-120
    assert (np.abs(found - exact) <= bound).all()


@pytest.mark.parametrize("name", ["laplacian", "inverse-distance", "poly"])
def test_no_bound_is_claimed_for_other_kernels(name):
    kernel = make_kernel(name, 0.5)
    points = kernel.prepare(Rows(np.ones((3, 9)), np.arange(3)), np.float32)
    assert kernel.single_rounding(points, points) is None
