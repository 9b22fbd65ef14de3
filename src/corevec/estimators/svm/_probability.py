"""Probabilities of the classes from decision values, as ``probability=True`` has them.

A machine's value f becomes ``P(first class) = 1 / (1 + exp(A f + B))`` (Platt 2000),
with A and B fitted to values from cross-validation by Newton's method (Lin, Lin and
Weng 2007). The probabilities of the pairs are joined to those of k classes by the
second method of Wu, Lin and Weng (2004).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from corevec._runtime.types import Array
from corevec.estimators.svm._pairs import pairs_of

N_FOLDS = 5
# Lin, Lin and Weng: at most so many Newton steps, to a gradient of 1e-5; the ridge
# keeps the Hessian definite; no step below 1e-10 of Newton's.
_MAX_STEPS, _GRADIENT, _RIDGE, _LEAST_STEP = 100, 1e-5, 1e-12, 1e-10
# Rows whose systems are solved at a time: 8 MB for 10 classes.
ROWS_AT_A_TIME = 8192
# Pairwise probabilities stay so far from 0 and 1, or no joint ones exist.
_LEAST = 1e-7


def sigmoid_of(values: Array, is_first: Array) -> tuple[float, float]:
    """Return A and B with the largest regularised likelihood of the labels.

    The targets are those of Platt: ``(n_1 + 1)/(n_1 + 2)`` for the first class and
    ``1/(n_2 + 2)`` for the second, which no finite A has to reach exactly.
    """
    n_first = int(is_first.sum())
    n_second = len(values) - n_first
    target = np.where(is_first, (n_first + 1) / (n_first + 2), 1 / (n_second + 2))
    point = np.array([0.0, np.log((n_second + 1) / (n_first + 1))])
    loss = _loss(point, values, target)
    for _ in range(_MAX_STEPS):
        gradient, hessian = _derivatives(point, values, target)
        if np.abs(gradient).max() < _GRADIENT:
            break
        direction = -np.linalg.solve(hessian, gradient)
        slope, step = float(gradient @ direction), 1.0
        while step >= _LEAST_STEP:
            tried = _loss(point + step * direction, values, target)
            if tried < loss + 1e-4 * step * slope:
                break
            step /= 2
        else:
            break
        point, loss = point + step * direction, tried
    return float(point[0]), float(point[1])


def _loss(point: Array, values: Array, target: Array) -> float:
    """Return minus the log-likelihood, without an overflow of the exponential."""
    z = point[0] * values + point[1]
    return float(np.sum(target * z + np.logaddexp(0.0, -z)))


def _derivatives(point: Array, values: Array, target: Array) -> tuple[Array, Array]:
    first = probability_of(values, point[0], point[1])
    residual, weight = target - first, first * (1.0 - first)
    gradient = np.array([values @ residual, residual.sum()])
    mixed = float(values @ weight)
    hessian = np.array(
        [[float(values**2 @ weight), mixed], [mixed, float(weight.sum())]]
    )
    return gradient, hessian + _RIDGE * np.eye(2)


def probability_of(values: Array, A: float, B: float) -> Array:
    """Return the probability of the first class, ``1 / (1 + exp(A f + B))``."""
    z = A * values + B
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, small, 1.0) / (1.0 + small)


def cross_validated_sigmoid(
    n_rows: int,
    is_first: Array,
    values_without: Callable[[Array, Array], Array],
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return A and B of one machine from values of rows that were left out.

    Parameters
    ----------
    n_rows : int
        Rows of the machine.
    is_first : ndarray of bool, shape (n_rows,)
        Whether a row is of the first class.
    values_without : callable
        Given the rows to train on and those left out, both of both classes' rows,
        returns the values of the latter.
    rng : numpy.random.Generator
        Draws the folds.
    """
    order = rng.permutation(n_rows)
    values = np.zeros(n_rows)
    for fold in np.array_split(order, N_FOLDS):
        rest = np.setdiff1d(order, fold)
        if is_first[rest].all():
            values[fold] = 1.0
        elif not is_first[rest].any():
            values[fold] = -1.0
        else:
            values[fold] = values_without(rest, fold)
    return sigmoid_of(values, is_first)


def joint_probabilities(values: Array, A: Array, B: Array, n_classes: int) -> Array:
    """Return the probability of each class, shape (n_rows, n_classes).

    With ``r_ij`` the probability of i against j they minimise ``sum_i sum_j (r_ji p_i -
    r_ij p_j)^2`` where they sum to 1: one linear system for each row.
    """
    parts = range(0, max(len(values), 1), ROWS_AT_A_TIME)
    return np.concatenate(
        [_joined(values[s : s + ROWS_AT_A_TIME], A, B, n_classes) for s in parts]
    )


def _joined(values: Array, A: Array, B: Array, n_classes: int) -> Array:
    """Return the probabilities of a part of the rows."""
    n = len(values)
    r = np.full((n, n_classes, n_classes), 0.5)
    for column, (i, j) in enumerate(pairs_of(n_classes)):
        first = probability_of(values[:, column], A[column], B[column])
        r[:, i, j] = np.clip(first, _LEAST, 1.0 - _LEAST)
        r[:, j, i] = 1.0 - r[:, i, j]
    if n_classes == 2:
        return np.stack([r[:, 0, 1], r[:, 1, 0]], axis=1)
    across = np.swapaxes(r, 1, 2)  # r_ji at (i, j)
    system = np.zeros((n, n_classes + 1, n_classes + 1))
    system[:, :-1, :-1] = -across * r
    each = np.arange(n_classes)
    squares = across**2
    squares[:, each, each] = 0.0
    system[:, each, each] = squares.sum(axis=2)
    system[:, -1, :-1] = system[:, :-1, -1] = 1.0
    right = np.zeros((n, n_classes + 1, 1))
    right[:, -1] = 1.0
    found = np.linalg.solve(system, right)[:, :-1, 0]
    found = np.clip(found, 0.0, 1.0)  # rounding
    return np.asarray(found / found.sum(axis=1, keepdims=True))
