"""IJCNN 2001 challenge (LIBSVM ijcnn1, ijcnn1.t), 22 columns, as distributed."""

from benchmarks.datasets._base import Dataset, open_file, shuffled


def load(n=None, seed=0):
    with open_file("ijcnn1.npz") as archive:
        X_train, y_train = archive["X_train"], archive["y_train"]
        X_test, y_test = archive["X_test"], archive["y_test"]
    rows = shuffled(X_train.shape[0], n, seed)
    return Dataset(X_train[rows], y_train[rows], X_test, y_test)
