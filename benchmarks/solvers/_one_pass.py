"""One pass in the order given, of learners that have `partial_fit`."""

import numpy as np


class OnePass:
    """A learner whose `fit` is one pass.

    `make(n_rows)` returns the learner for a stream of so many rows, because C is a
    price per row where these learners know a penalty of the mean: 1 / (C n_rows). The
    first block's rows are taken where `n_rows` is not given.
    """

    def __init__(self, make, n_rows=None):
        self.make = make
        self.n_rows = n_rows
        self.model = None

    def fit(self, X, y):
        self.model = None
        return self.partial_fit(X, y, classes=np.unique(y))

    def partial_fit(self, X, y, classes=None):
        if self.model is None:
            self.model = self.make(self.n_rows or X.shape[0])
        self.model.partial_fit(X, y, classes=classes)
        return self

    def predict(self, X):
        return self.model.predict(X)
