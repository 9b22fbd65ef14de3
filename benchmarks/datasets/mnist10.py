"""MNIST, all ten digits, 60,000 / 10,000 as distributed.

Pixels / 255, or (`unit`) rows of unit length, as `sklearn.preprocessing.Normalizer`
makes them: bold and thin strokes are then as near to each other as their shapes are.
"""

import numpy as np
from sklearn.preprocessing import normalize

from benchmarks.datasets._base import Dataset, open_file, shuffled

N_VALIDATE = 10_000


def load(n=None, validate=False, n_test=None, seed=0, unit=False):
    """Return the set; `validate`: the last training rows instead of the test part."""
    with open_file("mnist.npz") as archive:
        X, X_test = (
            archive[part].astype(np.float32) / 255 for part in ("X_train", "X_test")
        )
        y, y_test = archive["y_train"].astype(int), archive["y_test"].astype(int)
    if unit:
        X, X_test = normalize(X), normalize(X_test)
    rows = shuffled(len(y), None, seed)
    if validate:
        held = rows[-N_VALIDATE:]
        rows, X_test, y_test = rows[:-N_VALIDATE], X[held], y[held]
    return Dataset(X[rows[:n]], y[rows[:n]], X_test[:n_test], y_test[:n_test])
