"""One machine per pair of classes: how their coefficients are stored, and their votes.

With k classes there are k (k - 1)/2 machines, in the order (0, 1), (0, 2), ...,
(k - 2, k - 1), and the value of a machine is above 0 for the first class of its pair.
A support vector of class i takes part in the k - 1 machines of i, and scikit-learn
stores its k - 1 coefficients as one column: row j - 1 for the machine (i, j), row i for
(i, j) seen from class j. Support vectors are sorted by class, then by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from corevec._runtime.types import Array


@dataclass(frozen=True)
class Packed:
    """The coefficients of all machines, as scikit-learn stores them.

    Attributes
    ----------
    support : ndarray of shape (n_support,)
        Row numbers, by class, then by row.
    counts : ndarray of shape (n_classes,)
        Support vectors of each class.
    dual : ndarray of shape (n_classes - 1, n_support)
        Coefficients (see the module).
    """

    support: Array
    counts: Array
    dual: Array


def pairs_of(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs of classes, in the order of their machines."""
    return list(combinations(range(n_classes), 2))


def packed(codes: Array, n_classes: int, machines: list[tuple[Array, Array]]) -> Packed:
    """Return the coefficients of all pairs in one matrix.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,)
        The class of each row, 0, 1, ...
    n_classes : int
        Number of classes.
    machines : list of tuple of two ndarrays
        For each pair the rows with a coefficient, and these, above 0 for the first
        class.
    """
    found = [rows for rows, _ in machines]
    rows = np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)
    support = rows[np.argsort(codes[rows], kind="stable")]
    place = np.empty(len(codes), dtype=np.int64)
    place[support] = np.arange(len(support))
    dual = np.zeros((n_classes - 1, len(support)))
    for (i, j), (own, coef) in zip(pairs_of(n_classes), machines, strict=True):
        line = np.where(codes[own] == i, j - 1, i)
        dual[line, place[own]] = coef
    counts = np.bincount(codes[support], minlength=n_classes)
    return Packed(support, counts, dual)


def columns_of_pairs(dual: Array, counts: Array) -> Array:
    """Return one column of coefficients per machine, shape (n_support, n_machines)."""
    ends = np.concatenate([[0], np.cumsum(counts)])
    pairs = pairs_of(len(counts))
    coef = np.zeros((dual.shape[1], len(pairs)))
    for column, (i, j) in enumerate(pairs):
        first, second = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        coef[first, column] = dual[j - 1, first]
        coef[second, column] = dual[i, second]
    return coef


def winners(values: Array, n_classes: int) -> Array:
    """Return the class with most votes, the first of several, for each row.

    `values` has one column per machine; a value of 0 is a vote for the second class of
    the pair.
    """
    votes = np.zeros((len(values), n_classes), dtype=np.int64)
    for column, (i, j) in enumerate(pairs_of(n_classes)):
        first = values[:, column] > 0
        votes[:, i] += first
        votes[:, j] += ~first
    return np.asarray(votes.argmax(axis=1))


def one_column_per_class(values: Array, n_classes: int) -> Array:
    """Return the votes of each class plus its summed values, scaled below half a vote.

    What scikit-learn calls ``decision_function_shape="ovr"``; a value of 0 counts for
    the first class of its pair.
    """
    votes = np.zeros((len(values), n_classes))
    confidence = np.zeros((len(values), n_classes))
    for column, (i, j) in enumerate(pairs_of(n_classes)):
        value = values[:, column]
        votes[:, i] += value >= 0
        votes[:, j] += value < 0
        confidence[:, i] += value
        confidence[:, j] -= value
    return np.asarray(votes + confidence / (3 * (np.abs(confidence) + 1)))
