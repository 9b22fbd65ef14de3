"""UCI Covertype, class 2 against the rest; 522,911 training rows as in the CVM paper.

Nine tenths of the rows, drawn with a fixed seed, are for training. Every column is
scaled to [0, 1] by its range in the training part (columns 10..53 are 0/1 already).
"""

from benchmarks.datasets._base import (
    Dataset,
    open_file,
    shuffled,
    signs,
    to_unit_range,
)

N_TRAIN = 522_911


def load(n=N_TRAIN, seed=0):
    with open_file("covtype.npz") as archive:
        X, y = archive["X"], signs(archive["y"] == 2)
    rows = shuffled(X.shape[0], None, seed)
    train, test = rows[:n], rows[N_TRAIN:]
    X_train, X_test = to_unit_range(X[train], X[test])
    return Dataset(X_train, y[train], X_test, y[test])
