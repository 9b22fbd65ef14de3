"""Compiled prediction by cells: a row meets only the support vectors of its cell.

Rows come in the order of their cells. A row is centred at its cell and reduced to the
columns in which the cell's vectors differ (covtype: 11 of 54 on average). What the
other columns add to a squared distance is the same for all vectors and is summed once.
"""

# mypy: ignore-errors
# These functions are typed by Numba; annotations would add nothing.

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corevec.backend.loops.compiler import njit
from corevec.backend.loops.kernels import difference_block, product_block

# Rows that meet the vectors at a time: their kernel values stay in the L1 and L2 caches
# (16 x 300 float64 are 38 KB), and a matrix product of 16 rows is as fast as one of 64.
_BLOCK_ROWS = 16


class RowsByCell(NamedTuple):
    """Row numbers cell after cell; cell c has ``order[bounds[c]:bounds[c + 1]]``."""

    order: npt.NDArray
    bounds: npt.NDArray  # (n_cells + 1,)


class Machines(NamedTuple):
    """The support vectors of all cells, reduced to the columns in which they differ.

    Each cell has one column more: the distance from the centre in all other columns,
    which is 0 for its vectors.
    """

    centres: npt.NDArray  # (n_cells, columns of the rows), float64
    same: npt.NDArray  # of that shape: the scale where all vectors agree, else 0
    columns: npt.NDArray  # columns in which vectors differ, cell after cell
    scales: npt.NDArray  # their factors, the roots of the metric
    column_starts: npt.NDArray  # (n_cells + 1,)
    vectors: npt.NDArray  # (columns, vectors) of each cell, centred, flat
    vector_starts: npt.NDArray  # (n_cells + 1,)
    squares: npt.NDArray  # squared norm of each centred vector
    coef: npt.NDArray  # (outputs, vectors) of each cell, flat
    starts: npt.NDArray  # (n_cells + 1,), first vector of each cell
    by_difference: npt.NDArray  # (n_cells,), whether distances are sums of differences


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _centred(row, centre, same, columns, scales, few):
    """Write the differing columns into `few`; return the squared norm of the rest."""
    others = 0.0
    for c in range(row.shape[0]):
        off = (row[c] - centre[c]) * same[c]
        others += off * off
    for k in range(columns.shape[0]):
        few[k] = (row[columns[k]] - centre[columns[k]]) * scales[k]
    return others


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _prefetch(values, rows):
    """Return the sum of one number per cache line of some rows: a prefetch.

    The rows of a cell are scattered in memory. These loads are independent, so they
    overlap, which saves a third of the 200 ns that a row of 54 columns takes to load.
    """
    total = 0.0
    for row in rows:
        for c in range(0, values.shape[1], 8):
            total += values[row, c]
    return total


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _square(x):
    """Return the squared norm of a vector, summed in float64."""
    total = 0.0
    for k in range(x.shape[0]):
        total += np.float64(x[k]) * x[k]
    return total


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _add_weighted(q, coef, found):
    """Add the kernel values of one row, weighted by each output's coefficients."""
    for o in range(coef.shape[0]):
        total = q.dtype.type(0.0)
        for j in range(q.shape[0]):
            total += q[j] * coef[o, j]
        found[o] += total


@njit(nogil=True, cache=True, error_model="numpy")
def _vectors_of(machines, cell, n_outputs):
    """Return the differing columns of a cell, their scales, its vectors and coef."""
    start, stop = machines.starts[cell], machines.starts[cell + 1]
    first, last = machines.column_starts[cell], machines.column_starts[cell + 1]
    columns, scales = machines.columns[first:last], machines.scales[first:last]
    m = stop - start
    d = len(columns) + 1  # the last is the distance in all other columns
    at = machines.vector_starts[cell]
    z = machines.vectors[at : at + d * m].reshape((d, m))
    coef = machines.coef[start * n_outputs : stop * n_outputs]
    return columns, scales, z, coef.reshape((n_outputs, m))


@njit(nogil=True, cache=True, error_model="numpy")
def add_values(values, rows, kernel, machines, out, squares):
    """Add the values of rows at the machines of their cells to `out`.

    `rows` is a `RowsByCell`; `kernel` is a `Profile` of squared distances. Writes the
    squared distance of each row to the centre of its cell into `squares`. Twin:
    ``by_hand`` of tests/cells_twin.py.
    """
    order, bounds = rows
    starts, column_starts = machines.starts, machines.column_starts
    m_most = (starts[1:] - starts[:-1]).max()
    d_most = 1 + (column_starts[1:] - column_starts[:-1]).max()
    dtype = machines.vectors.dtype
    buffer_x = np.empty(_BLOCK_ROWS * d_most, dtype)
    buffer_q = np.empty(_BLOCK_ROWS * m_most, dtype)
    own = np.empty(_BLOCK_ROWS, dtype)
    for cell in range(len(bounds) - 1):
        start, stop = starts[cell], starts[cell + 1]
        m = stop - start
        if m == 0 or bounds[cell] == bounds[cell + 1]:
            continue
        columns, scales, z, coef = _vectors_of(machines, cell, out.shape[1])
        d = z.shape[0]
        centre, same = machines.centres[cell], machines.same[cell]
        for first in range(bounds[cell], bounds[cell + 1], _BLOCK_ROWS):
            n = min(_BLOCK_ROWS, bounds[cell + 1] - first)
            own[0] = _prefetch(values, order[first : first + n])
            x = buffer_x[: n * d].reshape((n, d))
            q = buffer_q[: n * m].reshape((n, m))
            for r in range(n):
                row = order[first + r]
                others = _centred(values[row], centre, same, columns, scales, x[r])
                x[r, d - 1] = np.sqrt(others)
                squares[row] = _square(x[r])
                own[r] = squares[row]
            if machines.by_difference[cell]:
                difference_block(kernel, x, z, q)
            else:
                np.dot(x, z, q)
                norms = machines.squares[start:stop]
                product_block(kernel, x, z.T, own, norms, q)
            for r in range(n):
                _add_weighted(q[r], coef, out[order[first + r]])
