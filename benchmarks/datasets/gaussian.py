"""A standard Gaussian cloud for the detectors; the test part is drawn alike.

There are no labels, so "error" is the share of rows that a detector calls outliers.
"""

import numpy as np

from benchmarks.datasets._base import Dataset


def load(n, d=10, seed=0, n_test=100_000):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + n_test, d), dtype=np.float32)
    return Dataset(
        X[:n], None, X[n:], None, note="no labels: error is the share called outliers"
    )
