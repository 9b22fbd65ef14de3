"""Dual coordinate ascent for the squared hinge, on a kernel matrix in memory."""

# mypy: ignore-errors
# Numba reads these functions, not Python: annotations would say nothing of use.

import numpy as np

from corevec.backend.loops.compiler import njit

# Sums and maxima may be reordered, which lets the loops use the vector unit; values are
# finite here. The parts are inlined before types are inferred: the first fit on a
# machine then compiles them in 0.3 s in place of 0.7 s.
_FASTEST = {"error_model": "numpy", "fastmath": True}
_PART = {"inline": "always", **_FASTEST}

# The gap costs as much as a step.
CHECK_STEPS = 64


@njit(**_PART)
def _gains(b, g, curve, pace, gains):
    """Set what the best move of each multiplier gains; return the largest."""
    largest = 0.0
    for j in range(b.shape[0]):
        step, least = -g[j] * pace[j], -b[j]
        step = step if step > least else least
        gain = -step * (g[j] + 0.5 * curve[j] * step)
        gains[j] = gain
        largest = gain if gain > largest else largest
    return largest


@njit(**_PART)
def _add_row(row, scale, bias, sign, g):
    """Add what a move of one multiplier changes in the gradients of some rows."""
    for j in range(g.shape[0]):
        g[j] += scale * sign[j] * (row[j] + bias)


@njit(**_PART)
def _excess(b, g, ridge, omega):
    """Return the gap between primal and dual value, and their mean.

    With ``g = y f + b/omega - 1``: the gap is ``sum omega (xi - b/omega)^2 / 2`` plus
    ``sum b (y f - 1)`` over the rows beyond the margin (docs/mathematics.md, 5).
    """
    gap, dual = 0.0, 0.0
    for j in range(b.shape[0]):
        margin = g[j] - ridge[j] * b[j]  # y f - 1
        beyond = margin if margin > 0.0 else 0.0
        left = beyond - g[j]  # xi - b/omega
        gap += 0.5 * omega[j] * left * left + b[j] * beyond
        dual += 0.5 * b[j] * (1.0 - g[j])
    return gap, dual


@njit(nogil=True, cache=True, **_FASTEST)
def ascend(K, bias, sign, omega, b, g, tol, max_steps):
    """Raise ``sum(b) - b'Qb/2`` over ``b >= 0`` by one multiplier at a time, in place.

    ``Q = yy'(K + bias) + diag(1/omega)``. Each step takes the multiplier that gains
    most. `g` holds the gradient ``Qb - 1`` and is kept up to date. Returns the steps
    taken, negative where the relative gap did not fall to `tol`. Twin: naive.hinge.
    """
    n = b.shape[0]
    # A row of weight 0 is absent: its move is 0 and gains nothing.
    numbers = np.empty((4, n))
    curve, ridge, pace, gains = numbers[0], numbers[1], numbers[2], numbers[3]
    for j in range(n):
        present = omega[j] > 0.0
        ridge[j] = 1.0 / omega[j] if present else 0.0
        curve[j] = K[j, j] + bias + ridge[j] if present else 0.0
        pace[j] = 1.0 / curve[j] if present else 0.0
    for step in range(max_steps):
        largest = _gains(b, g, curve, pace, gains)
        if step % CHECK_STEPS == 0 or largest == 0.0:
            gap, dual = _excess(b, g, ridge, omega)
            if gap <= tol * (dual + gap):
                return step
            if largest == 0.0:
                return -step - 1
        best = 0
        while gains[best] < largest:
            best += 1
        move, least = -g[best] * pace[best], -b[best]
        move = move if move > least else least
        b[best] += move
        _add_row(K[best], move * sign[best], bias, sign, g)
        g[best] += move * ridge[best]
    return -max_steps - 1
