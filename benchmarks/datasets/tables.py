"""More tables: skin (three bytes), letter (26 classes), covtype with its classes."""

import numpy as np

from benchmarks.datasets import covtype
from benchmarks.datasets._base import (
    Dataset,
    open_file,
    shuffled,
    signs,
    to_unit_range,
)

TEST_SHARE = 10


def skin(n=None, seed=0):
    """Skin pixels against others; a tenth of the rows is for testing.

    Only 51,444 of the 245,057 rows are different ones: most test rows are in the
    training part as well.
    """
    with open_file("skin_nonskin.npz") as archive:
        X, y = archive["X"], signs(archive["y"] == 1)
    rows = shuffled(len(y), None, seed)
    cut = len(y) // TEST_SHARE
    train = rows[cut:] if n is None else rows[cut : cut + n]
    X_train, X_test = to_unit_range(X[train], X[rows[:cut]])
    return Dataset(X_train, y[train], X_test, y[rows[:cut]])


def letter(n=None, seed=0):
    """26 letters, LIBSVM's split, columns in [0, 1]."""
    with open_file("letter.npz") as archive:
        X_train, X_test = archive["X_train"] / 15.0, archive["X_test"] / 15.0
        y_train, y_test = archive["y_train"], archive["y_test"]
    rows = shuffled(len(y_train), n, seed)
    return Dataset(X_train[rows], y_train[rows], X_test, y_test)


def covtype7(n=covtype.N_TRAIN, seed=0):
    """Covertype with its seven classes, split and scaled as in `covtype`."""
    with open_file("covtype.npz") as archive:
        X, y = archive["X"], archive["y"]
    rows = shuffled(X.shape[0], None, seed)
    train, test = rows[:n], rows[covtype.N_TRAIN :]
    X_train, X_test = to_unit_range(X[train], X[test])
    return Dataset(X_train, y[train], X_test, y[test])


def covtype_copies(copies=2, seed=0):
    """Covertype and jittered copies of its training rows (a thousandth of a range)."""
    data = covtype.load(seed=seed)
    rng = np.random.default_rng(seed)
    parts = [data.X_train]
    for _ in range(copies - 1):
        noise = rng.standard_normal(data.X_train.shape, dtype=np.float32) / 1000
        parts.append((data.X_train + noise).astype(data.X_train.dtype))
    y = np.tile(data.y_train, copies)
    order = rng.permutation(len(y))
    return Dataset(np.concatenate(parts)[order], y[order], data.X_test, data.y_test)


def friedman_1m(n=1_000_000, seed=0):
    """Friedman's function of ten uniform columns; 100,000 more rows for testing."""
    from benchmarks.datasets._base import RegressionDataset
    from benchmarks.datasets.regression import generate

    X, y = generate(n + 100_000, seed)
    return RegressionDataset(X[:n], y[:n], X[n:], y[n:])
