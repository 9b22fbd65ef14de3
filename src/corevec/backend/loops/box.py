"""Steps of sequential minimal optimisation on a small kernel matrix with boxes."""

# mypy: ignore-errors
# Numba reads these functions, not Python: annotations would say nothing of use.

from typing import Any, NamedTuple

import numpy as np

from corevec.backend.loops.compiler import njit

# Values are finite; sums and maxima may be reordered for the vector unit.
_FASTEST = {"error_model": "numpy", "fastmath": True}

# The largest of an array is sought by parts: first the part, in vector code, then the
# entry within it.
_PART = 64
# Added to entries that may not move in a direction: no residual is as large.
_BARRED = -1e300
# Curvature below which a pair counts as flat, LIBSVM's value.
_FLAT = 1e-12


class Box(NamedTuple):
    """Multipliers a of some entries, changed in place, and what bounds them.

    Entries of group g are ``cuts[g]`` up to ``cuts[g + 1]``; their sum is fixed.
    `residual` is ``t - Ka``, and is kept up to date.
    """

    cuts: Any
    low: Any
    high: Any
    a: Any
    residual: Any


class _Free(NamedTuple):
    """What bars the entries from growing and from falling, and the diagonal of K."""

    up: Any
    down: Any
    diagonal: Any


class _Side(NamedTuple):
    """The entries of a group that may fall: those that may not are barred."""

    residual: Any
    barred: Any
    diagonal: Any


@njit(nogil=True, cache=True, **_FASTEST)
def _follow(rows, step, residual, barred, parts):
    """Take a step off the residuals; note the largest of each part that may grow."""
    row_up, row_down = rows
    n_parts = (residual.shape[0] + _PART - 1) // _PART
    for part in range(n_parts):
        start, best = part * _PART, -2e300
        for e in range(start, min(start + _PART, residual.shape[0])):
            residual[e] -= step * (row_up[e] - row_down[e])
            best = max(best, residual[e] + barred[e])
        parts[part] = best
    return n_parts


@njit(nogil=True, cache=True, **_FASTEST)
def _gains(row, own, top, side, parts):
    """Note what the best partner in each part gains; return the largest difference."""
    residual, barred, diagonal = side
    widest = -2e300
    for part in range((residual.shape[0] + _PART - 1) // _PART):
        start, best = part * _PART, 0.0
        for e in range(start, min(start + _PART, residual.shape[0])):
            d = top - residual[e] + barred[e]
            widest = max(widest, d)
            d = max(d, 0.0)
            curve = max(own + diagonal[e] - 2.0 * row[e], _FLAT)
            best = max(best, d * d / curve)
        parts[part] = best
    return widest


@njit(nogil=True, cache=True, error_model="numpy")
def _largest_part(parts, n):
    best = 0
    for k in range(1, n):
        if parts[k] > parts[best]:
            best = k
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def _best_up(residual, barred, part):
    start = part * _PART
    best = start
    for e in range(start + 1, min(start + _PART, residual.shape[0])):
        if residual[e] + barred[e] > residual[best] + barred[best]:
            best = e
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def _best_down(row, own, top, side, part):
    residual, barred, diagonal = side
    start = part * _PART
    best, largest = start, -1.0
    for e in range(start, min(start + _PART, residual.shape[0])):
        d = max(top - residual[e] + barred[e], 0.0)
        curve = max(own + diagonal[e] - 2.0 * row[e], _FLAT)
        if d * d / curve > largest:
            best, largest = e, d * d / curve
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def _bar(box, e, up, down):
    """Note whether an entry may grow and may fall."""
    up[e] = 0.0 if box.a[e] < box.high[e] else _BARRED
    down[e] = 0.0 if box.a[e] > box.low[e] else _BARRED


@njit(nogil=True, cache=True, error_model="numpy")
def _move_pair(box, i, j, step):
    """Move up to `step` from one multiplier to another; return how much."""
    room_up, room_down = box.high[i] - box.a[i], box.a[j] - box.low[j]
    if step >= room_up and room_up <= room_down:
        step = room_up
        box.a[i] = box.high[i]
        box.a[j] = max(box.a[j] - step, box.low[j])
    elif step >= room_down:
        step = room_down
        box.a[j] = box.low[j]
        box.a[i] = min(box.a[i] + step, box.high[i])
    else:
        box.a[i] += step
        box.a[j] -= step
    return step


@njit(nogil=True, cache=True, error_model="numpy")
def _best_pair(K, box, g, moved, free, parts):
    """Take the last move off the residuals of a group, and choose its next pair.

    Returns the largest difference of residuals, the gain of the pair, and the pair: the
    entry that may grow with the largest residual, and the partner that gains most.
    """
    first, last = box.cuts[g], box.cuts[g + 1]
    if first == last:
        return _BARRED, 0.0, 0, -1
    i, j, step = moved
    r, up = box.residual[first:last], free.up[first:last]
    n_parts = _follow((K[i, first:last], K[j, first:last]), step, r, up, parts)
    at = _best_up(r, up, _largest_part(parts, n_parts))
    if up[at] < 0.0:
        return _BARRED, 0.0, 0, -1
    own, row = free.diagonal[first + at], K[first + at, first:last]
    side = _Side(r, free.down[first:last], free.diagonal[first:last])
    violation = _gains(row, own, r[at], side, parts)
    part = _largest_part(parts, n_parts)
    k = _best_down(row, own, r[at], side, part)
    return violation, parts[part], first + at, first + k


@njit(nogil=True, cache=True, error_model="numpy")
def smo_pairs(K, box, tol, max_steps, found):
    """Maximise ``t'a - a'Ka/2`` over the box, sums per group fixed, by pairs, in place.

    Each step takes the pair of one group that gains most (second order; Fan, Chen and
    Lin 2005). Stops when no difference of residuals exceeds `tol`. `found` gets the
    last largest difference and the gain of the objective. Returns the steps taken.
    Twin: LIBSVM and SciPy in the tests.
    """
    residual = box.residual
    n = residual.shape[0]
    parts, free = np.empty(n // _PART + 2), _Free(np.empty(n), np.empty(n), np.empty(n))
    for e in range(n):
        free.diagonal[e] = K[e, e]
        _bar(box, e, free.up, free.down)
    gained, steps, moved = 0.0, 0, (0, 0, 0.0)
    while True:
        violation, most, i, j = _BARRED, 0.0, 0, -1
        for g in range(box.cuts.shape[0] - 1):
            widest, gain, up, down = _best_pair(K, box, g, moved, free, parts)
            violation = max(violation, widest)
            if gain > most:
                most, i, j = gain, up, down
        if violation <= tol or j < 0 or steps >= max_steps:
            break
        curve = max(free.diagonal[i] + free.diagonal[j] - 2.0 * K[i, j], _FLAT)
        d = residual[i] - residual[j]
        step = _move_pair(box, i, j, d / curve)
        gained += step * d - 0.5 * step * step * curve
        _bar(box, i, free.up, free.down)
        _bar(box, j, free.up, free.down)
        moved = i, j, step
        steps += 1
    found[0], found[1] = max(violation, 0.0), gained
    return steps


@njit(nogil=True, cache=True)
def gather(K, rows, columns, out):
    """Write ``K[rows[i], columns[j]]`` to ``out[i, j]``; twin: np.ix_."""
    for i in range(rows.shape[0]):
        row, to = K[rows[i]], out[i]
        for j in range(columns.shape[0]):
            to[j] = row[columns[j]]


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def add_rows(K, rows, coef, first, last, out):
    """Add ``sum_k coef[k] K[rows[k], first:last]`` to `out`; twin: NumPy.

    Four rows at a time are read, which halves the traffic of the sum.
    """
    whole = rows.shape[0] - rows.shape[0] % 4
    for k in range(0, whole, 4):
        a, b = K[rows[k]], K[rows[k + 1]]
        c, d = K[rows[k + 2]], K[rows[k + 3]]
        p, q, r, s = coef[k], coef[k + 1], coef[k + 2], coef[k + 3]
        for j in range(first, last):
            out[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * d[j])
    for k in range(whole, rows.shape[0]):
        a, p = K[rows[k]], coef[k]
        for j in range(first, last):
            out[j] += p * a[j]
