"""UCI Adult in Platt's 123 binary columns (LIBSVM a9a, a9a.t), CSR, not scaled."""

from scipy import sparse

from benchmarks.datasets._base import Dataset, open_file, shuffled


def load(n=None, seed=0):
    with open_file("adult_a9a.npz") as archive:
        X_train, X_test = (read_part(archive, part) for part in ("X_train", "X_test"))
        y_train, y_test = archive["y_train"], archive["y_test"]
    rows = shuffled(X_train.shape[0], n, seed)
    return Dataset(X_train[rows], y_train[rows], X_test, y_test)


def read_part(archive, part):
    values = archive[f"{part}_data"].astype("float64")
    indices, indptr = archive[f"{part}_indices"], archive[f"{part}_indptr"]
    shape = tuple(archive[f"{part}_shape"])
    return sparse.csr_matrix((values, indices, indptr), shape=shape)
