"""Steps of sequential minimal optimisation on a small kernel matrix with boxes."""

# mypy: ignore-errors
# Numba reads these functions, not Python: annotations would say nothing of use.

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


@njit(nogil=True, cache=True, **_FASTEST)
def _follow(row_up, row_down, step, residual, barred, first, last, parts):
    """Take a step off the residuals; note the largest of each part that may grow."""
    n_parts = (last - first + _PART - 1) // _PART
    for part in range(n_parts):
        start, best = first + part * _PART, -2e300
        for e in range(start, min(start + _PART, last)):
            residual[e] -= step * (row_up[e] - row_down[e])
            best = max(best, residual[e] + barred[e])
        parts[part] = best
    return n_parts


@njit(nogil=True, cache=True, **_FASTEST)
def _gains(row, own, diagonal, top, residual, barred, first, last, parts):
    """Note what the best partner in each part gains; return the largest difference."""
    widest = -2e300
    for part in range((last - first + _PART - 1) // _PART):
        start, best = first + part * _PART, 0.0
        for e in range(start, min(start + _PART, last)):
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
def _best_up(residual, barred, start, last):
    best = start
    for e in range(start + 1, min(start + _PART, last)):
        if residual[e] + barred[e] > residual[best] + barred[best]:
            best = e
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def _best_down(row, own, diagonal, top, residual, barred, start, last):
    best, largest = start, -1.0
    for e in range(start, min(start + _PART, last)):
        d = max(top - residual[e] + barred[e], 0.0)
        curve = max(own + diagonal[e] - 2.0 * row[e], _FLAT)
        if d * d / curve > largest:
            best, largest = e, d * d / curve
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def smo_pairs(K, cuts, low, high, a, residual, tol, max_steps, found):
    """Maximise ``t'a - a'Ka/2`` over the box, sums per group fixed, by pairs, in place.

    The groups are ``cuts[g]:cuts[g + 1]``; `residual`
    holds ``t - Ka`` and is kept up to date. Each step takes the entry whose multiplier
    may grow with the largest residual, and the partner in its group that gains most
    (second order). Stops when no difference of residuals exceeds `tol`. `found` gets
    the last largest difference, the gain of the objective and the least curvature.
    Returns the steps taken. Twin: SciPy's quadratic programmes in the tests.
    """
    n = a.shape[0]
    n_groups = cuts.shape[0] - 1
    parts = np.empty(n // _PART + 2)
    up, down = np.empty(n), np.empty(n)
    diagonal = np.empty(n)
    for e in range(n):
        diagonal[e] = K[e, e]
        up[e] = 0.0 if a[e] < high[e] else _BARRED
        down[e] = 0.0 if a[e] > low[e] else _BARRED
    gained, least = 0.0, np.inf
    i, j, step, violation = 0, 0, 0.0, 0.0
    steps = 0
    while True:
        row_i, row_j = K[i], K[j]
        best_i = -1
        violation, best_gain, best_j = -2e300, 0.0, -1
        for g in range(n_groups):
            first, last = cuts[g], cuts[g + 1]
            if first == last:
                continue
            n_parts = _follow(row_i, row_j, step, residual, up, first, last, parts)
            k = _largest_part(parts, n_parts)
            top_at = _best_up(residual, up, first + k * _PART, last)
            if up[top_at] < 0.0:
                continue
            top = residual[top_at]
            row = K[top_at]
            widest = _gains(
                row, diagonal[top_at], diagonal, top, residual, down, first, last, parts
            )
            violation = max(violation, widest)
            k = _largest_part(parts, n_parts)
            if parts[k] > best_gain:
                best_gain, best_i = parts[k], top_at
                best_j = _best_down(
                    row,
                    diagonal[top_at],
                    diagonal,
                    top,
                    residual,
                    down,
                    first + k * _PART,
                    last,
                )
        step = 0.0
        if violation <= tol or best_j < 0 or steps >= max_steps:
            break
        i, j = best_i, best_j
        curve = diagonal[i] + diagonal[j] - 2.0 * K[i, j]
        least = min(least, curve)
        curve = max(curve, _FLAT)
        d = residual[i] - residual[j]
        step = d / curve
        room_up, room_down = high[i] - a[i], a[j] - low[j]
        if step >= room_up and room_up <= room_down:
            step = room_up
            a[i] = high[i]
            a[j] = max(a[j] - step, low[j])
        elif step >= room_down:
            step = room_down
            a[j] = low[j]
            a[i] = min(a[i] + step, high[i])
        else:
            a[i] += step
            a[j] -= step
        gained += step * d - 0.5 * step * step * curve
        for e in (i, j):
            up[e] = 0.0 if a[e] < high[e] else _BARRED
            down[e] = 0.0 if a[e] > low[e] else _BARRED
        steps += 1
    found[0] = max(violation, 0.0)
    found[1] = gained
    found[2] = least
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
