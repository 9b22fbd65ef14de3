"""xRFM (Beaglehole et al. 2025): kernel machines with a learned metric in leaves.

Its defaults, but for the size of the leaves: that of its own (60,000 rows) needs a GPU.
A fifth of the rows is held out for its choice of the iteration, as its documentation
has it; targets of a regression are standardised.
"""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split

from benchmarks.solvers._base import Solver
from benchmarks.solvers.sklearn_hgb import facts


class Leaves(BaseEstimator):
    """xRFM on arrays of NumPy, classes as they are."""

    def __init__(self, leaf_rows, is_regression, seed, threads):
        self.leaf_rows, self.is_regression = leaf_rows, is_regression
        self.seed, self.threads = seed, threads

    def fit(self, X, y):
        import torch
        from xrfm import xRFM

        torch.set_num_threads(self.threads)
        if self.is_regression:
            self.mean_, self.spread_ = float(np.mean(y)), float(np.std(y)) or 1.0
            target = ((y - self.mean_) / self.spread_).astype(np.float32)[:, None]
        else:
            self.classes_, target = np.unique(y, return_inverse=True)
        metric = "mse" if self.is_regression else "accuracy"
        own = {"random_state": self.seed, "n_threads": self.threads}
        self.model_ = xRFM(
            max_leaf_size=self.leaf_rows,
            tuning_metric=metric,
            device=torch.device("cpu"),
            verbose=False,
            **own,
        )
        # Its factor for a GPU's memory does not apply to a CPU.
        self.model_.max_leaf_size = self.model_.min_subset_size = self.leaf_rows
        rows = np.asarray(X, dtype=np.float32)
        parts = train_test_split(rows, target, test_size=0.2, random_state=self.seed)
        X_train, X_held, y_train, y_held = map(torch.from_numpy, parts)
        self.model_.fit(X_train, y_train, X_held, y_held)
        return self

    def predict(self, X):
        found = np.asarray(self.model_.predict(np.asarray(X, dtype=np.float32)))
        if self.is_regression:
            return found.ravel() * self.spread_ + self.mean_
        return self.classes_[found.ravel().astype(int)]


def build(params, seed, threads):
    return Leaves(params["leaf_rows"], params["is_regression"], seed, threads)


SOLVER = Solver("xrfm_trees", "xrfm", "xrfm", build, facts, is_peer=True)
