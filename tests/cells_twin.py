"""The slow twin of cells: rows descend the tree, and `naive` solves each cell."""

import naive
import numpy as np
import pytest

from corevec.data.sources import Workers, as_source, row_statistics
from corevec.kernels import make_kernel
from corevec.solvers.cells import solve_cell

NEAR = {"gamma": 2.0, "C": 5.0, "random_state": 0, "n_jobs": 1}
NAMES = np.array(["ash", "birch", "cedar", "dogwood"])


def board(n, seed=0, classes=2):
    """Return rows on a board of 4 x 4 fields; colours 0, 1, ... and some noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)) * 4
    y = X.astype(int).sum(axis=1) % classes
    noisy = rng.random(n) < 0.05
    return X, np.where(noisy, rng.integers(0, classes, n), y)


def waves(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)) * 4
    y = 7 + 3 * np.sin(3 * X[:, 0]) * X[:, 1] + rng.normal(size=n)
    return X, y, rng.integers(0, 3, n).astype(float)


def machine(X, y, new, model, s=None, *, bias=True):
    """Return the values of one cell's two-class machine on new rows, and its bracket.

    y is +1, -1 or 0 (absent). Rows of one sign: that sign, and nothing to prove.
    """
    s = np.ones(len(X)) if s is None else s
    here = (y != 0) & (s > 0)
    signs = np.unique(y[here])
    if len(signs) < 2:
        return np.full(len(new), signs[0] if len(signs) else 0.0), (0.0, 0.0)
    shape = {"kernel": model.kernel, "gamma": model.gamma}
    shape |= {"degree": model.degree, "coef0": model.coef0}
    X, y, s = X[here], y[here].astype(float), s[here]
    found = naive.hinge(naive.gram(X, **shape), y, model.C, s, bias=bias)
    c = found.b * y
    values = naive.gram(new, X, **shape) @ c + bias * c.sum()
    return values, (found.primal, found.dual)


def by_hand(model, X, signs, new, s=None):
    """Return the mean over the trees of the cells' machines; and the two sums.

    `signs` has a column of +1, -1 and 0 per machine.
    """
    trees = model._forest.trees
    values, proved = np.zeros((len(new), signs.shape[1])), np.zeros(2)
    for one in trees:
        old, where = one.tree.cells_of(X), one.tree.cells_of(new)
        for cell in np.unique(old):
            rows, at = old == cell, np.flatnonzero(where == cell)
            weight = None if s is None else s[rows]
            for t in range(signs.shape[1]):
                own = (X[rows], signs[rows, t], new[at], model, weight)
                found, bracket = machine(*own)
                values[at, t] += found / len(trees)
                proved += np.array(bracket) / len(trees)
    return values, proved


def assert_same_values(model, X, y, new, s=None):
    signs = np.where(y == model.classes_[1], 1, -1)[:, None]
    wanted, proved = by_hand(model, X, signs, new, s)
    assert model.decision_function(new) == pytest.approx(wanted[:, 0], abs=1e-6)
    return proved


def solve_one(problem, X, gamma=1.0):
    source = as_source(X, 2**28, Workers(1))
    kernel = make_kernel("rbf", gamma, 3, 0.0, row_statistics(source))
    return solve_cell([problem], source, kernel, source.numbers)
