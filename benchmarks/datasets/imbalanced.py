"""Two classes, 1:100: Gaussian clouds on the corners of a hypercube.

By scikit-learn's `make_classification`; 8 columns of 10 matter. Four clouds a
class, 1.5 apart, overlap a little; eight, 0.8 apart, much. No label is flipped: a
tenth of a percent of flipped rows would be a tenth of the rare class. All
rows are drawn at once, in random order: fewer training rows are the first of them.
"""

import numpy as np
from sklearn.datasets import make_classification

from benchmarks.datasets._base import BalancedDataset, standardised

RARE = 1 / 101
N_TRAIN, N_TEST = 200_000, 50_000


def load(n, n_test=N_TEST, seed=0, clouds=4, distance=1.5):
    X, y = make_classification(
        N_TRAIN + N_TEST,
        n_features=10,
        n_informative=8,
        n_redundant=0,
        n_clusters_per_class=clouds,
        weights=[1 - RARE],
        flip_y=0.0,
        class_sep=distance,
        random_state=seed,
    )
    X_train, X_test = standardised(X[:n], X[-n_test:])
    y = np.where(y == 1, 1, -1).astype(np.int8)
    return BalancedDataset(X_train, y[:n], X_test, y[-n_test:])
