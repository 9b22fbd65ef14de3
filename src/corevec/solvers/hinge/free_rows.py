"""The entries strictly within their bounds, solved together by a Cholesky factor.

Steps of one pair at a time converge slowly where many multipliers are free: the more,
the larger C. A Newton step sets all of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.solvers.numeric.jitter import with_jitter

# Free entries that reach a bound are held there, and the others solved again, so often.
MOST_SOLVES = 6
# A ridge on the matrix, as a share of its mean diagonal, and the share of a change that
# its sum may miss 0 by.
RIDGE, BALANCED = 1e-11, 1e-5


@dataclass(frozen=True)
class FreeStep:
    """A change of the free multipliers within the box, and what it gains."""

    change: Array
    gain: float


def free_step(
    K: Array, residual: Array, box: tuple[Array, Array], group: Array
) -> FreeStep:
    """Return the step of free multipliers that maximises the objective along a line.

    Parameters
    ----------
    K : ndarray of shape (free, free)
        Kernel values, float64.
    residual : ndarray of shape (free,)
        ``t - f``: the gradient.
    box : two ndarrays of shape (free,)
        How far each multiplier may fall (negative) and grow.
    group : ndarray of shape (free,)
        Changes sum to 0 over each group.

    Returns
    -------
    FreeStep
        Towards the solution of ``K d = residual - bias, sum_g d = 0``, in which entries
        that would leave the box are held at its edge; its length by an exact line
        search. A change of 0 where that is no direction of ascent.

    Notes
    -----
    Cost: a Cholesky factor of the entries that are not held, `MOST_SOLVES` times at
    most.
    """
    n, (low, high) = len(residual), box
    held = np.zeros(n, dtype=bool)
    change: Array = np.zeros(n)
    for _ in range(MOST_SOLVES):
        rest = np.flatnonzero(~held)
        change[rest] = _solved(K, residual, group, change, held)
        outside = ~held & ((change <= low) | (change >= high))
        change = np.clip(change, low, high)
        held |= outside
        if not outside.any():
            break
    for direction in (change, _first_direction(K, residual, group)):
        missed = np.bincount(group, weights=direction)
        if np.abs(missed).max() <= BALANCED * np.abs(direction).max():
            rest = direction - (missed / np.bincount(group).clip(1))[group]
            step = step_along(_cut(rest, box), K, residual)
            if step.gain > 0.0:
                return step
    return FreeStep(np.zeros(n), 0.0)


def step_along(direction: Array, K: Array, residual: Array) -> FreeStep:
    """Return the best step along a direction, not beyond it."""
    slope, curve = float(residual @ direction), float(direction @ (K @ direction))
    if not slope > 0.0:
        return FreeStep(np.zeros(len(direction)), 0.0)
    length = 1.0 if curve <= slope else slope / curve
    return FreeStep(length * direction, length * slope - length**2 * curve / 2)


def _cut(direction: Array, box: tuple[Array, Array]) -> Array:
    """Return a direction up to where the first entry reaches a bound."""
    bound = np.where(direction > 0, box[1], box[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = float(np.where(direction != 0, bound / direction, np.inf).min())
    return np.asarray(min(1.0, reach) * direction)


def _solved(
    K: Array, residual: Array, group: Array, change: Array, held: Array
) -> Array:
    """Return the change of the entries not held, given that of those held."""
    rest, fixed = np.flatnonzero(~held), np.flatnonzero(held)
    if len(rest) == 0:
        return np.empty(0)
    gradient = residual[rest]
    n_groups = int(group.max()) + 1
    wanted: Array = np.zeros(n_groups)
    if len(fixed):
        gradient = gradient - K[np.ix_(rest, fixed)] @ change[fixed]
        wanted = -np.bincount(group[fixed], change[fixed], minlength=n_groups)
    member = (group[rest][:, None] == np.arange(n_groups)).astype(float)
    there = member.any(axis=0)
    member, wanted = member[:, there], wanted[there]
    block = K[np.ix_(rest, rest)] if len(fixed) else K

    def factor(jitter: float) -> tuple[Array, bool]:
        M = block.copy()
        M[np.diag_indices_from(M)] += jitter
        found: tuple[Array, bool] = linalg.cho_factor(M, lower=True, overwrite_a=True)
        return found

    # Equal rows with free multipliers make the matrix singular: a ridge, for the line
    # search makes up for it.
    ridge = RIDGE * float(np.trace(block)) / len(rest)
    made = with_jitter(lambda jitter: factor(ridge + jitter), ridge / RIDGE)
    both = linalg.cho_solve(made, np.column_stack([gradient, member]))
    toward, ones = both[:, 0], both[:, 1:]
    biases = linalg.lstsq(member.T @ ones, member.T @ toward - wanted)[0]
    return np.asarray(toward - ones @ biases)


def _first_direction(K: Array, residual: Array, group: Array) -> Array:
    """Return the Newton step, with no entry held."""
    n = len(residual)
    return _solved(K, residual, group, np.zeros(n), np.zeros(n, dtype=bool))
