"""Compiled loops of the cells: the cell of a row, and the solution of one cell.

Both descents also write the last projection of each row. Growing a tree and descending
it then use the same sums, to the last bit, so equal rows never fall into different
cells. (The rows of one matrix product can differ by a rounding error.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops.compiler import njit

# Rows that go down a tree together: 32 rows of 54 float64 columns are 14 KB.
_ROWS_TOGETHER = 32
# Relative accuracy of the step length, and the change of the values below which a step
# counts as rounding; after three such steps in a row Newton's method stops.
_STEP_TOLERANCE, _MIN_CHANGE, _MAX_TINY_STEPS = 1e-12, 1e-12, 3


class Nodes(NamedTuple):
    """The inner nodes of a complete binary tree of `depth` levels."""

    directions: Array  # (2^depth - 1, columns)
    thresholds: Array  # (2^depth - 1,)
    depth: int


class Machine(NamedTuple):
    """The loss of one problem in a cell: ``omega max(0, s (z - f) - tube)^2 / 2``."""

    z: Array  # target of each row
    side: Array  # s: +1 or -1; 0 where a row can be violated on both sides
    tube: float
    omega: Array  # weight of the loss; 0 for rows that are absent


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def descend(values: Array, nodes: Nodes, cells: Array, projected: Array) -> None:
    """Write the cell of each row: right where the projection exceeds the threshold.

    Goes level by level for a few rows at a time: the latency of one row (its sum, the
    next direction) is hidden behind the others, twice as fast as row by row. Twin:
    ``cell_by_hand`` of tests/solvers/cells/test_cells_tree.py.
    """
    directions, thresholds, depth = nodes
    n, d = values.shape
    first = (1 << depth) - 1
    for start in range(0, n, _ROWS_TOGETHER):
        stop = min(start + _ROWS_TOGETHER, n)
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


@njit(nogil=True, cache=True)
def descend_sparse(
    indptr: Array,
    indices: Array,
    data: Array,
    nodes: Nodes,
    cells: Array,
    projected: Array,
) -> None:
    """Write the cell of each row of a CSR matrix."""
    directions, thresholds, depth = nodes
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


@njit(nogil=True, cache=True)
def _violations(machine: Machine, f: Array) -> Array:
    """Return the violation of each row; -1 for rows that are absent."""
    z, side, tube, omega = machine
    out = np.empty(len(z))
    for i in range(len(z)):
        if omega[i] <= 0.0:
            out[i] = -1.0
        elif side[i] == 0.0:
            out[i] = abs(z[i] - f[i]) - tube
        else:
            out[i] = side[i] * (z[i] - f[i]) - tube
    return out


@njit(nogil=True, cache=True)
def _solve_triangular(L: Array, right: Array) -> Array:
    """Return the solution x of ``L L' x = right``."""
    m = len(right)
    x = right.copy()
    for i in range(m):
        total = x[i]
        for j in range(i):
            total -= L[i, j] * x[j]
        x[i] = total / L[i, i]
    for i in range(m - 1, -1, -1):
        x[i] /= L[i, i]
        for j in range(i):  # along the rows of L, which are contiguous
            x[j] -= L[i, j] * x[i]
    return x


@njit(nogil=True, cache=True)
def _step_length(machine: Machine, f: Array, step: Array, change: Array) -> float:
    """Return the exact minimiser along a step: the derivative is piecewise linear.

    `step` changes the coefficients and `change` the values `f`. Newton's method within
    a bracket goes from piece to piece.
    """
    z, side, tube, omega = machine
    slope0, curve0 = 0.0, 0.0
    for i in range(len(f)):
        slope0 += step[i] * f[i]
        curve0 += step[i] * change[i]
    low, high, s = 0.0, 1e3, 1.0
    for _ in range(60):
        slope, curve = slope0 + s * curve0, curve0
        for i in range(len(f)):
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
        if abs(new - s) <= _STEP_TOLERANCE * s:
            break
        s = new
    return s


@njit(nogil=True, cache=True)
def _solve_on_active(K: Array, machine: Machine, f: Array, active: Array) -> Array:
    """Return the coefficients that solve ``(K_AA + 1/omega) a_A = z_A - tube s_A``.

    A are the `active` rows; the coefficients of the others are 0. One step of
    refinement follows the Cholesky factor.
    """
    z, side, tube, omega = machine
    m, new = len(active), np.zeros(len(z))
    if m == 0:
        return new
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
    L = np.linalg.cholesky(system)
    x = _solve_triangular(L, right)
    x += _solve_triangular(L, right - system @ x)
    for i in range(m):
        new[active[i]] = x[i]
    return new


@njit(nogil=True, cache=True)
def _is_same_set(before: Array, after: Array) -> bool:
    """Return whether the violated rows are the same, given violations of two points."""
    for i in range(len(before)):
        inside = before[i] > 0
        if (not inside and after[i] > 1e-13) or (inside and after[i] < 0):
            return False
    return True


@njit(nogil=True, cache=True)
def newton(K: Array, machine: Machine, a: Array, max_steps: int) -> int:
    """Solve a cell exactly from the coefficients `a`, in place; return the steps.

    Minimises ``a'Ka/2 + sum omega max(0, s (z - f) - tube)^2 / 2``, ``f = K a``, with s
    the side of a row, or the sign of its residual where `side` is 0. Each step solves
    the system of the violated rows and goes as far as the objective falls. The count is
    negative where rounding or `max_steps` ended it. Holds no interpreter lock, so that
    threads solve cells side by side (SciPy's Cholesky factor holds it). Twin: `naive`
    in the tests.
    """
    f = K @ a
    n_tiny = 0
    for count in range(1, max_steps + 1):
        wrong = _violations(machine, f)
        new = _solve_on_active(K, machine, f, np.flatnonzero(wrong > 0))
        moved = K @ new
        if _is_same_set(wrong, _violations(machine, moved)):
            a[:] = new
            return count
        step, change = new - a, moved - f
        s = _step_length(machine, f, step, change)
        size = s * np.abs(change).max()
        a += s * step
        f = K @ a
        n_tiny = n_tiny + 1 if size <= _MIN_CHANGE else 0
        if n_tiny == _MAX_TINY_STEPS:
            return -count
    return -max_steps
