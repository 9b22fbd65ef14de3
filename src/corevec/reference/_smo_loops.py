"""The compiled loops of the exact reference solvers.

SMO: pairs of rows, as long as the kernel rows they need are in the store. SimpleSVM:
the triangular factor of a few rows, one row more or less. The rules are those of
``_loops.py``; the twins are scikit-learn's SVC and SciPy in
``tests/reference/test_reference_exact.py``.
"""

# mypy: ignore-errors
# Numba compiles these functions: annotations would not help.

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from corevec.backend.loops.compiler import njit

# Where all values are finite (the store checks them) all of fastmath is safe. Bounds
# may be infinite: what compares them keeps infinity's meaning.
_FASTEST = {"error_model": "numpy", "fastmath": True}
_FAST = {"error_model": "numpy", "fastmath": {"contract"}}
_LARGEST = np.int64(2**63 - 1)
# The extreme value is sought block by block, its place in the best block only.
_BLOCK = 512
# LIBSVM's floor of the curvature, for kernels that are not positive definite.
_FLAT = 1e-12

# Places in `state`, which carries a run of `smo` over the calls that fetch a row.
UP, DOWN, STEPS = range(3)
DONE, LIMIT, ROUNDING = -1, -2, -3


@intrinsic
def _bits(typingctx, value):
    """Reinterpret a float64 as the int64 with the same bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


# LLVM turns the least of integers into vector code, and that of floats not: 2.4 against
# 7 us for the step below at 5000 rows. The bits of floats that are not negative are in
# the order of the floats; a negative one has all bits but its sign flipped first.
@njit(**_FASTEST)
def _ordered(value):
    bits = _bits(value)
    return bits ^ ((bits >> 63) & _LARGEST)


@njit(nogil=True, cache=True, **_FASTEST)
def _step_block(g, move, row_up, row_down, may_rise):
    """Add ``move (row_up - row_down)`` to g; return the least that may rise."""
    least = _LARGEST
    for i in range(g.shape[0]):
        value = g[i] + move * (row_up[i] - row_down[i])
        g[i] = value
        least = min(least, _ordered(value) if may_rise[i] else _LARGEST)
    return least


@njit(nogil=True, cache=True, **_FASTEST)
def _step_and_lowest(g, move, row_up, row_down, may_rise):
    """Do `_step_block` for all rows; return the first lowest that may rise, or -1."""
    best, start = _LARGEST, -1
    for s in range(0, g.shape[0], _BLOCK):
        here = slice(s, s + _BLOCK)
        least = _step_block(g[here], move, row_up[here], row_down[here], may_rise[here])
        if least < best:
            best, start = least, s
    if start >= 0:
        for i in range(start, g.shape[0]):
            if may_rise[i] and _ordered(g[i]) == best:
                return i
    return -1


@njit(nogil=True, cache=True, **_FASTEST)
def _gain_block(lowest, own_up, g, row_up, own, may_fall):
    """Return the largest gain and the largest violation, as bits."""
    most = worst = np.int64(0)
    for j in range(g.shape[0]):
        apart = max(g[j] - lowest, 0.0) if may_fall[j] else 0.0
        curve = max(own_up + own[j] - 2.0 * row_up[j], _FLAT)
        worst = max(worst, _bits(apart))
        most = max(most, _bits(apart * apart / curve))
    return most, worst


@njit(nogil=True, cache=True, **_FASTEST)
def _best_partner(up, g, row_up, own, may_fall, tol):
    """Return the row to take from that gains most, -1 where nothing exceeds `tol`.

    The second-order rule of Fan, Chen and Lin (2005): the largest
    ``(g_j - g_up)^2 / (2 curvature)`` among the rows that may fall.
    """
    lowest, own_up = g[up], own[up]
    best, start, worst = np.int64(0), -1, np.int64(0)
    for s in range(0, g.shape[0], _BLOCK):
        here = slice(s, s + _BLOCK)
        most, largest = _gain_block(
            lowest, own_up, g[here], row_up[here], own[here], may_fall[here]
        )
        worst = max(worst, largest)
        if most > best:
            best, start = most, s
    if start < 0 or worst <= _bits(tol):
        return -1
    gain, found = -1.0, -1
    for j in range(start, min(start + _BLOCK, g.shape[0])):
        apart = g[j] - lowest
        if may_fall[j] and apart > 0.0:
            own_gain = apart * apart / max(own_up + own[j] - 2.0 * row_up[j], _FLAT)
            if own_gain > gain:
                gain, found = own_gain, j
    return found


@njit(nogil=True, cache=True, **_FAST)
def _move_pair(up, down, move, b, low, high):
    """Move up to `move` from row `down` to row `up` within the box; return the move."""
    room_up, room_down = high[up] - b[up], b[down] - low[down]
    if move < min(room_up, room_down):
        b[up] += move
        b[down] -= move
        return move
    if room_up <= room_down:
        b[up] = high[up]
        b[down] = low[down] if room_up == room_down else b[down] - room_up
        return room_up
    b[down] = low[down]
    b[up] += room_down
    return room_down


@njit(nogil=True, cache=True, **_FAST)
def smo(cache, problem, point, state, tol, max_steps):
    """Minimise ``b'(K + diag(ridge))b/2 - y'b``, sum b = 0, low <= b <= high, by pairs.

    Runs until a kernel row is missing (returns its number), until
    ``max over rows that may fall of g - min over rows that may rise of g <= tol``
    (DONE), until `max_steps` (LIMIT), or until a step changes nothing any more
    (ROUNDING). `cache` is (store, slot_of, last_use, clock)
    of `KernelRows`, `problem` (diagonal with ridge, ridge, low, high), `point` (b,
    gradient, may_rise, may_fall).
    """
    store, slot_of, last_use, clock = cache
    own, ridge, low, high = problem
    b, g, may_rise, may_fall = point
    up, down = state[UP], state[DOWN]
    if up < 0:
        up = _step_and_lowest(g, 0.0, own, own, may_rise)
    while up >= 0:
        state[UP], state[DOWN] = up, down
        if slot_of[up] < 0:
            return up
        clock[0] += 1
        last_use[slot_of[up]] = clock[0]
        row_up = store[slot_of[up]]
        if down < 0:
            down = _best_partner(up, g, row_up, own, may_fall, tol)
            if down < 0:
                break
            if state[STEPS] >= max_steps:
                state[UP] = -1
                return LIMIT
        state[DOWN] = down
        if slot_of[down] < 0:
            return down
        last_use[slot_of[down]] = clock[0]
        row_down = store[slot_of[down]]
        curve = max(own[up] + own[down] - 2.0 * row_up[down], _FLAT)
        b_up, b_down = b[up], b[down]
        move = _move_pair(up, down, (g[down] - g[up]) / curve, b, low, high)
        if b[up] == b_up and b[down] == b_down:
            return ROUNDING
        may_rise[up], may_fall[up] = b[up] < high[up], b[up] > low[up]
        may_rise[down], may_fall[down] = b[down] < high[down], b[down] > low[down]
        g[up] += move * ridge[up]
        g[down] -= move * ridge[down]
        state[STEPS] += 1
        up = _step_and_lowest(g, move, row_up, row_down, may_rise)
        down = -1
    state[UP], state[DOWN] = -1, -1
    return DONE


@njit(nogil=True, cache=True, **_FASTEST)
def solve_lower(L, m, x):
    """Replace the first m entries of x by ``L^-1 x``, in place."""
    for i in range(m):
        row, total = L[i], x[i]
        for j in range(i):
            total -= row[j] * x[j]
        x[i] = total / row[i]


@njit(nogil=True, cache=True, **_FASTEST)
def solve_upper(L, m, x):
    """Replace the first m entries of x by ``L'^-1 x``, in place."""
    for i in range(m - 1, -1, -1):
        row = L[i]
        x[i] /= row[i]
        for j in range(i):
            x[j] -= row[j] * x[i]


@njit(nogil=True, cache=True, **_FASTEST)
def remove_from_factor(L, m, q, cosines, sines):
    """Make L the factor without row and column q, in place; the last two are scratch.

    The rows above q stay. With l the part of column q below q, the corner below
    becomes the factor of ``L3 L3' + l l'``: a rank-one update by Givens rotations
    (Golub and Van Loan, 6.5.4), which is stable, unlike a down-date. Row by row, each
    turned by the rotations of the rows above it.
    """
    for i in range(q, m - 1):
        old, new = L[i + 1], L[i]
        for j in range(q):
            new[j] = old[j]
        extra = old[q]
        for j in range(q, i):
            value = old[j + 1]
            new[j] = cosines[j] * value + sines[j] * extra
            extra = cosines[j] * extra - sines[j] * value
        length = (old[i + 1] * old[i + 1] + extra * extra) ** 0.5
        cosines[i], sines[i] = old[i + 1] / length, extra / length
        new[i] = length
