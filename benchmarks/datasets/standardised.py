"""Ordinary tables as a newcomer brings them: standardised columns, nothing chosen.

The split is that of the file, or three quarters of the rows, shuffled once; columns
that are constant in the training part stay as they are.
"""

import numpy as np

from benchmarks.datasets import kddcup99
from benchmarks.datasets._base import (
    Dataset,
    RegressionDataset,
    open_file,
    shuffled,
    standardised,
)
from benchmarks.datasets.adult import read_part

TRAIN_SHARE = 0.75
MOST_TEST_ROWS = 20_000
# Rows of the training part, where not all.
CLASSES = {
    "adult_a9a": None,
    "ijcnn1": None,
    "mnist": None,
    "usps": None,
    "letter": None,
    "satimage": None,
    "shuttle": None,
    "spambase": None,
    "web_w8a": None,
    "skin_nonskin": 50_000,
    "kddcup99_10percent": 100_000,
    "covtype": 50_000,
}
# Further sets, which the newcomer's table does not show.
MORE_CLASSES = ("banana",)
MORE_NUMBERS = ("ailerons", "cpu_small", "house_8l")
NUMBERS = (
    "abalone",
    "california_housing",
    "cpu_act",
    "elevators",
    "pole",
    "house_16h",
    "kin8nm",
    "kin40k",
    "puma32h",
    "space_ga",
    "friedman",
)


def loader(name):
    """Return the function that loads a set by the name of its file."""
    most = CLASSES.get(name)

    def load(n=most, seed=0):
        X_train, y_train, X_test, y_test = _parts(name, seed)
        rows = shuffled(len(y_train), n, seed)
        few = shuffled(len(y_test), MOST_TEST_ROWS, seed)
        X_train, X_test = standardised(X_train[rows], X_test[few])
        is_regression = name in (*NUMBERS, *MORE_NUMBERS)
        kind = RegressionDataset if is_regression else Dataset
        # float64, which every solver would make of it: no copy is timed.
        parts = X_train.astype(float), y_train[rows], X_test.astype(float), y_test[few]
        return kind(*parts)

    return load


def _parts(name, seed):
    if name == "kddcup99_10percent":  # its columns are coded: as its own module has it
        data = kddcup99.load(CLASSES[name], seed)
        return data.X_train, data.y_train, data.X_test, data.y_test
    with open_file(f"{name}.npz") as archive:
        if "X_train_indptr" in archive:
            X, y = read_part(archive, "X_train").toarray(), archive["y_train"]
            if "y_test" in archive:
                X_test = read_part(archive, "X_test").toarray()
                return X, y, X_test, archive["y_test"]
        elif "X_train" in archive:
            names = "X_train", "y_train", "X_test", "y_test"
            return tuple(archive[name] for name in names)
        else:
            X, y = archive["X"], archive["y"]
    order = np.random.default_rng(seed).permutation(len(y))
    cut = int(TRAIN_SHARE * len(y))
    train, test = order[:cut], order[cut:]
    return X[train], y[train], X[test], y[test]
