"""KDD Cup 1999, normal against every attack, 100,000 rows of the 10 % training file.

38 numeric columns, log(1 + x) because byte counts span nine decades, then standardised
on the training rows; protocol, service and flag one-hot (3 + 67 + 11 columns). The test
part is the contest's `corrected` file, which holds attacks that training does not, so
every method errs more there than on the training rows.
"""

import numpy as np

from benchmarks.datasets._base import (
    Dataset,
    open_file,
    shuffled,
    signs,
    standardised,
)

CODES = (3, 67, 11)  # protocols, services, flags


def load(n=100_000, seed=0):
    with open_file("kddcup99_10percent.npz") as archive:
        rows = shuffled(archive["y_train"].shape[0], n, seed)
        normal = list(archive["class_names"]).index("normal")
        numbers = standardised(
            np.log1p(archive["Xnum_train"][rows]), np.log1p(archive["Xnum_test"])
        )
        codes = archive["Xcat_train"][rows], archive["Xcat_test"]
        y_train = signs(archive["y_train"][rows] == normal)
        y_test = signs(archive["y_test"] == normal)
    X_train, X_test = (
        np.hstack([number, _one_hot(code)])
        for number, code in zip(numbers, codes, strict=True)
    )
    return Dataset(X_train, y_train, X_test, y_test)


def _one_hot(codes):
    columns = [
        np.eye(count, dtype=np.float32)[codes[:, column]]
        for column, count in enumerate(CODES)
    ]
    return np.hstack(columns)
