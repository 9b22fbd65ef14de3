"""Probabilities of LIBSVM's models: Platt's sigmoids and the coupling of pairs.

Of two classes ``P(first | f) = 1 / (1 + exp(A f + B))``, where f is the value of the
machine of the pair (Lin, Lin and Weng 2007, A note on Platt's probabilistic outputs).
Of several classes p minimises the sum over pairs of ``(r_ji p_i - r_ij p_j)^2``, with r
the probabilities of the pairs (Wu, Lin and Weng 2004, their second approach).
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.model_selection import KFold

from corevec._runtime.types import Array
from corevec.cli.data import Table

# LIBSVM's: folds of the values that the sigmoid is fitted to, and the smallest
# probability of a pair, which keeps the coupled system regular.
_FOLDS, _SMALLEST = 5, 1e-7


def fit_sigmoids(
    model: Any, table: Table, labels: Array, weights: dict[float, float]
) -> dict[str, Array]:
    """Return ``probA`` and ``probB`` of every pair of `labels`, in their order."""
    found = []
    for first, second in combinations(labels.tolist(), 2):
        rows = np.flatnonzero((table.y == first) | (table.y == second))
        is_first = table.y[rows] == first
        if weights:
            pair = {1: weights.get(first, 1.0), 0: weights.get(second, 1.0)}
            model.set_params(class_weight=pair)
        X = table.X[np.ix_(rows, rows)] if _is_matrix(model) else table.X[rows]
        values = _held_out_values(model, X, is_first)
        found.append(_sigmoid(values, is_first))
    A, B = np.array(found).T
    return {"probA": A, "probB": B}


def _held_out_values(model: Any, X: Any, is_first: Array) -> Array:
    """Return the value of each row by a machine that was fitted without it."""
    values = np.empty(len(is_first))
    folds = KFold(min(_FOLDS, len(is_first)), shuffle=True, random_state=0)
    for fitted, held_out in folds.split(X):
        known = is_first[fitted]
        if known.all() or not known.any():  # one class only: as LIBSVM
            values[held_out] = 1.0 if known[0] else -1.0
            continue
        machine = clone(model).fit(_part(model, X, fitted), known.astype(int))
        values[held_out] = machine.decision_function(_part(model, X, held_out, fitted))
    return values


def _is_matrix(model: Any) -> bool:
    return bool(model.kernel == "precomputed")


def _part(model: Any, X: Any, rows: Array, columns: Array | None = None) -> Any:
    """Return rows; of a kernel matrix their values against the rows of a fit."""
    if not _is_matrix(model):
        return X[rows]
    return X[np.ix_(rows, rows if columns is None else columns)]


def fit_laplace(model: Any, table: Table) -> dict[str, Array]:
    """Return as ``probA`` the scale of the errors of a regression.

    The mean absolute error on held-out rows, without errors above five standard
    deviations (Chang and Lin 2011, LIBSVM, section 8).
    """
    errors = np.empty(len(table.y))
    folds = KFold(min(_FOLDS, len(errors)), shuffle=True, random_state=0)
    for fitted, held_out in folds.split(errors):
        machine = clone(model).fit(_part(model, table.X, fitted), table.y[fitted])
        predicted = machine.predict(_part(model, table.X, held_out, fitted))
        errors[held_out] = np.abs(table.y[held_out] - predicted)
    # Of a Laplace distribution the variance is twice the square of the scale.
    most = 5 * np.sqrt(2) * errors.mean()
    return {"probA": np.array([errors[errors <= most].mean()])}


def _sigmoid(values: Array, is_first: Array) -> Array:
    """Return A and B of the sigmoid, by maximum likelihood with Platt's targets."""
    n_first = int(is_first.sum())
    n_second = len(is_first) - n_first
    target = np.where(is_first, (n_first + 1) / (n_first + 2), 1 / (n_second + 2))

    def loss(parameters: Array) -> tuple[float, Array]:
        z = parameters[0] * values + parameters[1]
        slope = target - 1 / (1 + np.exp(np.clip(z, -700, 700)))
        value = np.sum(np.logaddexp(0, -z) + target * z)
        return float(value), np.array([slope @ values, slope.sum()])

    start = np.array([0.0, np.log((n_second + 1) / (n_first + 1))])
    return np.asarray(minimize(loss, start, jac=True, method="BFGS").x)


def probabilities(values: Array, A: Array, B: Array, n_classes: int) -> Array:
    """Return the probability of each class, from the values of the pairs."""
    z = np.clip(values * A + B, -700, 700)
    pairs = np.clip(1 / (1 + np.exp(z)), _SMALLEST, 1 - _SMALLEST)
    if n_classes == 2:
        return np.column_stack([pairs[:, 0], 1 - pairs[:, 0]])
    r = np.zeros((len(values), n_classes, n_classes))
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        r[:, i, j], r[:, j, i] = pairs[:, column], 1 - pairs[:, column]
    # The optimality conditions with the multiplier of sum p = 1.
    system = np.zeros((len(values), n_classes + 1, n_classes + 1))
    system[:, :-1, :-1] = -r * r.transpose(0, 2, 1)
    diagonal = np.arange(n_classes)
    system[:, diagonal, diagonal] = (r**2).sum(axis=1)
    system[:, -1, :-1] = system[:, :-1, -1] = 1
    right = np.zeros((len(values), n_classes + 1, 1))
    right[:, -1] = 1
    return np.asarray(np.linalg.solve(system, right)[:, :-1, 0])
