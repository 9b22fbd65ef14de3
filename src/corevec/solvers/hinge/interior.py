"""A small problem in a box, solved by a primal-dual interior-point method.

Near-equal rows make the kernel matrix of the free entries almost singular: Newton steps
then leave the box at once, and pairs creep. An interior-point method takes some 25
factors of the matrix whatever C and the kernel are (Mehrotra 1992).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array

MOST_STEPS = 60
# The sum of the complementarity products at the end, as a share of the objective, and
# the share of the way to the nearest bound that a step takes.
TOLERANCE, STEP_SHARE = 1e-11, 0.995


class Small(NamedTuple):
    """Maximise ``t'a - a'Ka/2``, ``low <= a <= high``, the sums of a as they are."""

    K: Array
    target: Array
    low: Array
    high: Array
    group: Array


class _Point(NamedTuple):
    """Multipliers, biases, and what the bounds pull with."""

    a: Array
    bias: Array
    z: Array  # of the lower bounds
    w: Array  # of the upper bounds


def interior_solution(small: Small, a: Array) -> Array | None:
    """Return the solution with the sums of `a`, entries at their bounds exactly.

    None where the matrix cannot be factored: it is not positive definite.
    """
    K, low, high = small.K, small.low, small.high
    n_groups = int(small.group.max()) + 1
    member = (small.group[:, None] == np.arange(n_groups)).astype(float)
    totals = member.T @ a
    start = np.clip(a, low + 0.05 * (high - low), high - 0.05 * (high - low))
    size = float(np.abs(K @ start - small.target).max()) + 1e-3
    ones = np.full(len(a), size)
    point = _Point(start, np.zeros(n_groups), ones, ones.copy())
    for _ in range(MOST_STEPS):
        gradient = K @ point.a - small.target
        products = (point.a - low) @ point.z + (high - point.a) @ point.w
        value = abs(float(small.target @ point.a - point.a @ (K @ point.a) / 2))
        missed = np.abs(member.T @ point.a - totals).max()
        if products <= TOLERANCE * value and missed <= 1e-9 * np.abs(point.a).sum():
            break
        pull = gradient - member @ point.bias - point.z + point.w
        found = _stepped(small, point, member, (pull, totals - member.T @ point.a))
        if found is None:
            return None
        point = found
    curve = float(np.trace(K)) / len(a)
    found_a = np.where((point.a - low) * curve < point.z, low, point.a)
    return np.where((high - point.a) * curve < point.w, high, found_a)


def _stepped(
    small: Small, point: _Point, member: Array, missed: tuple[Array, Array]
) -> _Point | None:
    """Return the point after one predictor and corrector step."""
    a, bias, z, w = point
    x, s = a - small.low, small.high - a
    M = small.K.copy()
    M[np.diag_indices_from(M)] += z / x + w / s
    try:
        factor = linalg.cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    ones = linalg.cho_solve(factor, member, check_finite=False)
    pull, lacking = missed

    def solve(right: Array) -> tuple[Array, Array]:
        """Return the change of a and of the biases for a right side."""
        toward = linalg.cho_solve(factor, right, check_finite=False)
        change = linalg.lstsq(member.T @ ones, lacking - member.T @ toward)[0]
        return toward + ones @ change, change

    da, _ = solve(-pull - z + w)
    dz, dw = -z - z / x * da, -w + w / s * da
    length = _length(((x, da), (s, -da), (z, dz), (w, dw)))
    mean = float(x @ z + s @ w) / (2 * len(a))
    after = (x + length * da) @ (z + length * dz) + (s - length * da) @ (
        w + length * dw
    )
    aim = (float(after) / (2 * len(a)) / mean) ** 3 * mean
    to_z, to_w = (aim - da * dz) / x, (aim + da * dw) / s
    da, dbias = solve(-pull - z + w + to_z - to_w)
    dz, dw = to_z - z - z / x * da, to_w - w + w / s * da
    length = STEP_SHARE * _length(((x, da), (s, -da), (z, dz), (w, dw)))
    return _Point(
        a + length * da, bias + length * dbias, z + length * dz, w + length * dw
    )


def _length(pairs: tuple[tuple[Array, Array], ...]) -> float:
    """Return how far all numbers stay positive, 1 at most."""
    least = 1.0
    for number, change in pairs:
        falls = change < 0
        if falls.any():
            least = min(least, float((-number[falls] / change[falls]).min()))
    return least
