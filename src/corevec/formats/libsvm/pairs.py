"""Machines of pairs of classes, in the form of LIBSVM files.

LIBSVM lists each support vector once under one class c, with one coefficient for each
other class: those of the machines of c. Machines that were solved in a span, or fitted
one by one, may need a vector in pairs that share no class; it is then listed under
several, each pair in one of them, and the machines' values stay what they are.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from corevec._runtime.types import Array


class Listing(NamedTuple):
    """The vectors of a file, in order, with their coefficients.

    Attributes
    ----------
    vectors : ndarray
        Their numbers, class by class; a vector may occur several times.
    counts : ndarray of shape (n_classes,) or None
        How many belong to each class; None without classes.
    packed : ndarray of shape (len(vectors), n_classes - 1)
        LIBSVM's coefficients: column j - 1 of class i and column i of class j belong
        to the pair i < j.
    """

    vectors: Array
    counts: Array | None
    packed: Array


def listed_by_class(coef: Array, n_classes: int) -> Listing:
    """Return the order of the vectors in the file, and their coefficients.

    Parameters
    ----------
    coef : ndarray of shape (n_vectors, n_pairs)
        Coefficients in the machines of the pairs (0, 1), (0, 2), ..., each with its
        first class as the positive one.
    n_classes : int
        Classes.

    Returns
    -------
    Listing
        The order of the file.
    """
    pairs = np.array(list(combinations(range(n_classes), 2)))
    left = coef != 0
    found: list[tuple[Array, Array, Array]] = []
    while left.any():
        rows = np.flatnonzero(left.any(axis=1))
        chosen = _best_class(coef[rows], left[rows], pairs, n_classes)
        packed = np.zeros((len(rows), n_classes - 1))
        for pair, (i, j) in enumerate(pairs):
            here = left[rows, pair] & ((chosen == i) | (chosen == j))
            at = np.where(chosen == i, j - 1, i)
            packed[here, at[here]] = coef[rows[here], pair]
            left[rows[here], pair] = False
        found.append((rows, chosen, packed))
    if not found:
        empty = np.empty(0, dtype=np.int64)
        counts = np.zeros(n_classes, dtype=np.int64)
        return Listing(empty, counts, np.empty((0, n_classes - 1)))
    rows, chosen, packed = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.lexsort((rows, chosen))
    counts = np.bincount(chosen, minlength=n_classes)
    return Listing(rows[order], counts, packed[order])


def _best_class(coef: Array, left: Array, pairs: Array, n_classes: int) -> Array:
    """Return, for each vector, the class that covers most of the remaining pairs.

    A support vector has coefficients in the machines of its own class only, and there
    on that class's side: half a point for the side finds the class where there is only
    one pair.
    """
    score = np.zeros((len(coef), n_classes))
    for pair, (i, j) in enumerate(pairs):
        score[:, i] += left[:, pair] * (1 + 0.5 * (coef[:, pair] > 0))
        score[:, j] += left[:, pair] * (1 + 0.5 * (coef[:, pair] < 0))
    return np.asarray(score.argmax(axis=1))


__all__ = ["Listing", "listed_by_class"]
