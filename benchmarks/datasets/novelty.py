"""A stream with outliers: five round clouds in 10 columns, 1 % uniform over a box.

The centres are uniform in [-5, 5]^10, the clouds have deviation 2.5, the box is
[-7, 7]^10: outliers lie between the clouds as well as around them. Who knew the two
densities would have an AUC of 0.986, who knew the mean of the clouds alone 0.78 (means
over five seeds). With deviation 1, tried first, the former is 0.9999: detectors with a
kernel could not be told apart. y is -1 for an outlier, 1 for others; learners do not
see it. There is no test part: rows are scored before they are learnt.
"""

import numpy as np

from benchmarks.datasets._base import Dataset, signs

N_CLOUDS = 5
CENTRES, DEVIATION, BOX = 5.0, 2.5, 7.0


def load(n, d=10, share=0.01, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-CENTRES, CENTRES, size=(N_CLOUDS, d))
    noise = DEVIATION * rng.standard_normal((n, d))
    X = centres[rng.integers(N_CLOUDS, size=n)] + noise
    is_outlier = rng.random(n) < share
    X[is_outlier] = rng.uniform(-BOX, BOX, size=(is_outlier.sum(), d))
    y = signs(~is_outlier)
    return Dataset(X, y, X[:0], y[:0], note="test_error is 1 - AUC")
