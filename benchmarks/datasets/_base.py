"""What a data set is, and where the files of the real ones are."""

import hashlib
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy import sparse

SHARED = Path(__file__).parents[3] / "shared" / "data"


class MissingDataError(ValueError):
    """The file of a data set is not on this machine."""


def data_folders():
    """Return the folders with data sets: $COREVEC_DATA, if not empty, then SHARED."""
    given = os.environ.get("COREVEC_DATA", "").strip()
    return [Path(given), SHARED] if given else [SHARED]


@dataclass(frozen=True)
class Dataset:
    """Training and test part. `y_*` is None where the task is to detect outliers."""

    X_train: np.ndarray
    y_train: np.ndarray | None
    X_test: np.ndarray
    y_test: np.ndarray | None
    note: str = ""

    @cached_property
    def checksum(self):
        """Name the numbers themselves: a changed generator or scaling shows here."""
        digest = hashlib.sha256()
        for part in (self.X_train, self.y_train, self.X_test, self.y_test):
            for array in _arrays(part):
                digest.update(np.ascontiguousarray(array).view(np.uint8))
        return digest.hexdigest()[:16]

    @cached_property
    def mean_distance_gamma(self):
        """The papers' 1/beta, beta the mean squared distance of all pairs of rows.

        That mean is twice the total variance, so one pass gives it exactly.
        """
        X = self.X_train
        if sparse.issparse(X):
            mean_sq = X.multiply(X).mean(axis=0)
            variance = np.asarray(mean_sq - np.square(X.mean(axis=0))).sum()
        else:
            variance = X.var(axis=0, dtype=np.float64).sum()
        return float(1 / (2 * variance))

    def first(self, n):
        """Return the same with at most n rows in each part (for warm-up fits)."""
        return replace(
            self,
            X_train=self.X_train[:n],
            y_train=None if self.y_train is None else self.y_train[:n],
            X_test=self.X_test[:n],
            y_test=None if self.y_test is None else self.y_test[:n],
        )

    def error(self, predicted, truth):
        """Return the share of wrong rows; without labels, of rows called outliers."""
        return float(np.mean(predicted == -1 if truth is None else predicted != truth))

    def measures(self, predicted):
        """Return further columns about the predictions of the test part."""
        return {}


@dataclass(frozen=True)
class BalancedDataset(Dataset):
    """Classes of very different size: each counts the same."""

    def measures(self, predicted):
        """Return the mean over the classes of the share of right rows."""
        right = predicted == self.y_test
        each = [right[self.y_test == label].mean() for label in np.unique(self.y_test)]
        return {"balanced_accuracy": float(np.mean(each))}


@dataclass(frozen=True)
class RegressionDataset(Dataset):
    """Real targets. `is_signs`: they are +1 and -1, and the sign is what counts."""

    is_signs: bool = False

    def error(self, predicted, truth):
        """Return the root mean square in the units of y, or the share of wrong signs.

        The latter is what the CVR paper reports for the forest cover type data.
        """
        if self.is_signs:
            return float(np.mean(np.sign(predicted) != truth))
        return float(np.sqrt(np.mean((predicted - truth) ** 2)))

    def measures(self, predicted):
        """Return RMSE and MRE as in footnote 10 of the CVR paper, on the test part.

        RMSE is divided by the largest y; MRE leaves out rows with y = 0, where it is
        not defined, and `n_mre` counts those that are left.
        """
        truth = self.y_test
        root = np.sqrt(np.mean((predicted - truth) ** 2))
        there = truth != 0
        relative = np.abs((predicted[there] - truth[there]) / truth[there])
        return {
            "rmse": float(root / truth.max()),
            "mre": float(relative.mean()),
            "n_mre": int(there.sum()),
        }


def _arrays(part):
    if part is None:
        return []
    return [part.data, part.indices, part.indptr] if sparse.issparse(part) else [part]


def open_file(name):
    """Return the opened archive `name`, from $COREVEC_DATA or ../shared/data."""
    folders = data_folders()
    for folder in folders:
        if (folder / name).exists():
            return np.load(folder / name)
    looked = ", ".join(str(folder) for folder in folders)
    raise MissingDataError(
        f"benchmarks: {name} is in none of: {looked}. Set COREVEC_DATA to the folder "
        "that holds it; benchmarks/README.md says where the data come from."
    )


def shuffled(n_rows, n_wanted, seed):
    """Return `n_wanted` (None: all) row numbers in random order."""
    return np.random.default_rng(seed).permutation(n_rows)[:n_wanted]


def standardised(train, test):
    """Return both parts scaled by the training part's means and deviations."""
    mean = train.mean(axis=0, dtype=np.float64)
    deviation = train.std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1
    return [((part - mean) / deviation).astype(np.float32) for part in (train, test)]


def to_unit_range(train, test):
    """Return both parts with the training part's columns scaled to [0, 1]."""
    low = train.min(axis=0).astype(np.float32)
    span = train.max(axis=0).astype(np.float32) - low
    span[span == 0] = 1
    return [(part.astype(np.float32) - low) / span for part in (train, test)]


def signs(is_positive):
    return np.where(is_positive, 1, -1).astype(np.int8)
