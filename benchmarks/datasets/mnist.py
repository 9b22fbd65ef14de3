"""MNIST, the digit 0 against the rest (OCR0 of the CPSP paper), pixels / 255."""

import numpy as np

from benchmarks.datasets._base import Dataset, open_file, shuffled, signs


def load(n=None, seed=0, digit=0):
    with open_file("mnist.npz") as archive:
        X_train, X_test = (
            archive[part].astype(np.float32) / 255 for part in ("X_train", "X_test")
        )
        y_train, y_test = (signs(archive[p] == digit) for p in ("y_train", "y_test"))
    rows = shuffled(X_train.shape[0], n, seed)
    return Dataset(X_train[rows], y_train[rows], X_test, y_test)
