"""Compiled prediction by cells: each row meets the vectors of its own cell only.

Rows come in the order of their cells. A row is centred at its cell and cut down to the
columns in which the cell's vectors differ (covtype: 11 of 54 in the mean); what the
other columns add to a squared distance is the same for all vectors, and summed once.
"""

# mypy: ignore-errors
# Numba reads these functions, not Python: annotations would say nothing of use.

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from corevec.backend.loops.kernels import difference_block, product_block

# Rows that meet the vectors at a time: their kernel values stay in the nearest caches
# (16 x 300 float64 are 38 KB), and a matrix product of 16 rows is as fast as one of 64.
_ROWS = 16


class Machines(NamedTuple):
    """The vectors of all cells, cut down to the columns in which they differ.

    A cell whose distances are taken by differences has one column more, the length of
    what the other columns leave: that of its vectors is 0.
    """

    centres: npt.NDArray  # (n_cells, columns of the rows), float64
    same: npt.NDArray  # as many: 1 where all vectors of the cell are the same, else 0
    columns: npt.NDArray  # those that differ, cell after cell
    column_starts: npt.NDArray  # (n_cells + 1,)
    vectors: npt.NDArray  # (columns, vectors) of each cell, centred, flat
    vector_starts: npt.NDArray  # (n_cells + 1,)
    squares: npt.NDArray  # squared norm of each vector, centred
    coef: npt.NDArray  # (outputs, vectors) of each cell, flat
    starts: npt.NDArray  # (n_cells + 1,), counts vectors
    by_difference: npt.NDArray  # (n_cells,)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _centred(row, centre, same, columns, few):
    """Write the columns that differ into `few`; return the square of the others."""
    others = 0.0
    for c in range(row.shape[0]):
        off = (row[c] - centre[c]) * same[c]
        others += off * off
    for k in range(columns.shape[0]):
        few[k] = row[columns[k]] - centre[columns[k]]
    return others


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _touched(values, rows):
    """Read a number of every cache line of some rows, and return their sum.

    Rows of one cell lie anywhere: loads that wait for nothing else overlap, and save a
    third of the 200 ns that a row of 54 columns takes to arrive.
    """
    total = 0.0
    for row in rows:
        for c in range(0, values.shape[1], 8):
            total += values[row, c]
    return total


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _square(x):
    total = 0.0
    for k in range(x.shape[0]):
        total += np.float64(x[k]) * x[k]
    return total


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _add_weighted(q, coef, found):
    """Add the kernel values of one row, weighted by the coefficients of each output."""
    for o in range(coef.shape[0]):
        total = q.dtype.type(0.0)
        for j in range(q.shape[0]):
            total += q[j] * coef[o, j]
        found[o] += total


@njit(nogil=True, cache=True, error_model="numpy")
def add_values(values, order, bounds, kernel, machines, out, squares):
    """Add the values of rows at their cells' machines to `out`.

    `order` are the rows cell after cell, those of cell c from ``bounds[c]`` up to
    ``bounds[c + 1]``; `kernel` the code and the parameters of a profile of squared
    distances. Writes the squared distance of each row to the centre of its cell into
    `squares`. Twin: test_cells.by_hand.
    """
    code, gamma, coef0, degree = kernel
    starts, column_starts = machines.starts, machines.column_starts
    n_outputs = out.shape[1]
    m_most = (starts[1:] - starts[:-1]).max()
    d_most = 1 + (column_starts[1:] - column_starts[:-1]).max()
    kind = machines.vectors.dtype
    room_x, room_q = np.empty(_ROWS * d_most, kind), np.empty(_ROWS * m_most, kind)
    own = np.empty(_ROWS, kind)
    for cell in range(len(bounds) - 1):
        start, stop = starts[cell], starts[cell + 1]
        m = stop - start
        if m == 0 or bounds[cell] == bounds[cell + 1]:
            continue
        columns = machines.columns[column_starts[cell] : column_starts[cell + 1]]
        by_difference = machines.by_difference[cell]
        d = len(columns) + 1  # the last: the distance in all columns that are the same
        at = machines.vector_starts[cell]
        z = machines.vectors[at : at + d * m].reshape((d, m))
        coef = machines.coef[start * n_outputs : stop * n_outputs]
        coef = coef.reshape((n_outputs, m))
        centre, same = machines.centres[cell], machines.same[cell]
        for first in range(bounds[cell], bounds[cell + 1], _ROWS):
            n = min(_ROWS, bounds[cell + 1] - first)
            own[0] = _touched(values, order[first : first + n])
            x, q = room_x[: n * d].reshape((n, d)), room_q[: n * m].reshape((n, m))
            for r in range(n):
                row = order[first + r]
                others = _centred(values[row], centre, same, columns, x[r])
                x[r, d - 1] = np.sqrt(others)
                squares[row] = _square(x[r])
                own[r] = squares[row]
            if by_difference:
                difference_block(code, gamma, coef0, degree, x, z, q)
            else:
                np.dot(x, z, q)
                norms = machines.squares[start:stop]
                product_block(code, gamma, coef0, degree, x, z.T, own, norms, q)
            for r in range(n):
                _add_weighted(q[r], coef, out[order[first + r]])
