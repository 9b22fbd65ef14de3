"""Compiled loops of the cells: which leaf a row falls into, and a leaf's machine.

Both descents write the last projection of each row too: growing a tree and descending
it then use the same sums, to the last bit, and equal rows can never fall into different
cells. (Rows at different places of one matrix product can differ by a rounding error.)
"""

from __future__ import annotations

import numba
import numpy as np

from corevec._runtime.types import Array

# Rows that go down a tree together: 32 of 54 float64 columns are 14 KB.
_TOGETHER = 32


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def descend(
    values: Array,
    directions: Array,
    thresholds: Array,
    depth: int,
    cells: Array,
    projected: Array,
) -> None:
    """Write the cell of each row: right where the projection is above the threshold.

    Level by level for a few rows: what one row waits for (the sum, the next direction)
    is hidden behind the others, twice as fast as row by row.
    """
    n, d = values.shape
    first = (1 << depth) - 1
    for start in range(0, n, _TOGETHER):
        stop = min(start + _TOGETHER, n)
        for i in range(start, stop):
            cells[i], projected[i] = 0, 0.0
        for _ in range(depth):
            for i in range(start, stop):
                node = cells[i]
                total = 0.0
                for j in range(d):
                    total += np.float64(values[i, j]) * directions[node, j]
                projected[i] = total
                cells[i] = 2 * node + (2 if total > thresholds[node] else 1)
        for i in range(start, stop):
            cells[i] -= first


@numba.njit(nogil=True, cache=True)
def descend_sparse(
    indptr: Array,
    indices: Array,
    data: Array,
    directions: Array,
    thresholds: Array,
    depth: int,
    cells: Array,
    projected: Array,
) -> None:
    """Write the cell of each row of a CSR matrix."""
    first = (1 << depth) - 1
    for i in range(len(indptr) - 1):
        node = 0
        total = 0.0
        for _ in range(depth):
            total = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                total += np.float64(data[k]) * directions[node, indices[k]]
            node = 2 * node + (2 if total > thresholds[node] else 1)
        cells[i], projected[i] = node - first, total


@numba.njit(nogil=True, cache=True)
def _violations(z: Array, f: Array, side: Array, tube: float, omega: Array) -> Array:
    """Return by how much each row is wrong; -1 for rows that are not there."""
    out = np.empty(len(z))
    for i in range(len(z)):
        if omega[i] <= 0.0:
            out[i] = -1.0
        elif side[i] == 0.0:
            out[i] = abs(z[i] - f[i]) - tube
        else:
            out[i] = side[i] * (z[i] - f[i]) - tube
    return out


@numba.njit(nogil=True, cache=True)
def _triangular(L: Array, right: Array) -> Array:
    """Solve ``L L' x = right``."""
    m = len(right)
    x = right.copy()
    for i in range(m):
        total = x[i]
        for j in range(i):
            total -= L[i, j] * x[j]
        x[i] = total / L[i, i]
    for i in range(m - 1, -1, -1):
        x[i] /= L[i, i]
        for j in range(i):  # along the rows of L, as they lie in memory
            x[j] -= L[i, j] * x[i]
    return x


@numba.njit(nogil=True, cache=True)
def _length(
    a: Array,
    f: Array,
    step: Array,
    change: Array,
    z: Array,
    side: Array,
    tube: float,
    omega: Array,
) -> float:
    """Return the exact minimiser along a step: the derivative is piecewise linear."""
    slope0, curve0 = 0.0, 0.0
    for i in range(len(a)):
        slope0 += step[i] * f[i]
        curve0 += step[i] * change[i]
    low, high, s = 0.0, 1e3, 1.0
    for _ in range(60):
        slope, curve = slope0 + s * curve0, curve0
        for i in range(len(a)):
            if omega[i] <= 0.0:
                continue
            left = z[i] - f[i] - s * change[i]
            sign = side[i]
            if sign == 0.0:
                sign = 1.0 if left > 0 else -1.0
            wrong = sign * left - tube
            if wrong > 0:
                slope -= omega[i] * wrong * sign * change[i]
                curve += omega[i] * change[i] * change[i]
        if slope > 0:
            high = s
        else:
            low = s
        new = s - slope / curve if curve > 0 else 0.5 * (low + high)
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(new - s) <= 1e-12 * s:
            break
        s = new
    return s


@numba.njit(nogil=True, cache=True)
def newton(
    K: Array,
    z: Array,
    side: Array,
    tube: float,
    omega: Array,
    a: Array,
    most: int,
) -> int:
    """Solve a cell exactly, from the coefficients `a`, in place; return the steps.

    Minimises ``a'Ka/2 + sum omega max(0, s (z - f) - tube)^2 / 2``, ``f = K a``, with s
    the side of a row, or the sign of its residual where `side` is 0. Each step solves
    ``(K_AA + 1/omega) a_A = z_A - tube s_A`` over the violated rows A, with one step of
    refinement, and goes as far as the objective falls. Minus the steps where rounding
    or `most` ended it. Without the interpreter's lock, so that threads solve cells side
    by side: SciPy's Cholesky factor holds it.
    """
    n = len(z)
    f = K @ a
    strikes = 0
    for count in range(1, most + 1):
        wrong = _violations(z, f, side, tube, omega)
        active = np.flatnonzero(wrong > 0)
        m = len(active)
        system, right = np.empty((m, m)), np.empty(m)
        for i in range(m):
            row = active[i]
            for j in range(m):
                system[i, j] = K[row, active[j]]
            system[i, i] += 1.0 / omega[row]
            sign = side[row]
            if sign == 0.0:
                sign = 1.0 if z[row] > f[row] else -1.0
            right[i] = z[row] - tube * sign
        new = np.zeros(n)
        if m > 0:
            L = np.linalg.cholesky(system)
            x = _triangular(L, right)
            x += _triangular(L, right - system @ x)
            for i in range(m):
                new[active[i]] = x[i]
        moved = K @ new
        after = _violations(z, moved, side, tube, omega)
        same = True
        for i in range(n):
            inside = wrong[i] > 0
            if (not inside and after[i] > 1e-13) or (inside and after[i] < 0):
                same = False
                break
        if same:
            a[:] = new
            return count
        step, change = new - a, moved - f
        s = _length(a, f, step, change, z, side, tube, omega)
        size = s * np.abs(change).max()
        a += s * step
        f = K @ a
        strikes = strikes + 1 if size <= 1e-12 else 0
        if strikes == 3:
            return -count
    return -most
