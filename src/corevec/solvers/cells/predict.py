"""The values of rows at the machines of their cells.

Kernels of a distance between dense rows go through compiled loops
(`_cell_value_loops.py`); the others meet the vectors cell by cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend import profiles
from corevec.backend.loops.cell_values import Machines, add_values
from corevec.backend.profiles import FEW_COLUMNS
from corevec.kernels import AnyKernel, Kernel, Points, Rows

_CODES = {
    "rbf": profiles.RBF,
    "laplacian": profiles.LAPLACIAN,
    "inverse-distance": profiles.INVERSE_DISTANCE,
}

# Of float32: the unit roundoff, e^-87 and a little (the least exponential there), and
# the share of a sum above which an error is not worth a bound.
_UNIT, _TINY, _MOST_SHARE = 2.0**-24, 2e-38, 0.05


def is_compiled(kernel: AnyKernel, *values: Any) -> bool:
    """Whether rows and vectors of these kinds meet in compiled loops."""
    dense = all(isinstance(one, np.ndarray) for one in values)
    return dense and isinstance(kernel, Kernel) and kernel.name in _CODES


def in_order(cells: Array, n_cells: int) -> tuple[Array, Array]:
    """Return the rows cell after cell, and where each cell begins."""
    # Of 16 bits: NumPy then counts instead of comparing, ten times faster.
    short = cells.astype(np.uint16) if n_cells <= 1 << 16 else cells
    order = np.argsort(short, kind="stable")
    counts = np.bincount(cells, minlength=n_cells)
    return order, np.concatenate([[0], np.cumsum(counts)])


def add_by_kernel(
    kernel: AnyKernel,
    points: Points,
    coef: Array,
    starts: Array,
    values: Any,
    order: Array,
    bounds: Array,
    found: Array,
) -> None:
    """Add the values of rows at their cells' machines to `found`, cell by cell."""
    x = kernel.prepare(Rows(values[order], order), points.dtype)
    for cell in np.flatnonzero(np.diff(bounds) * np.diff(starts)):
        start, stop = starts[cell], starts[cell + 1]
        here, there = bounds[cell], bounds[cell + 1]
        own = points.part(start, stop), coef[start:stop]
        found[order[here:there]] += kernel.times(x.part(here, there), *own)


def add_by_loops(
    kernel: AnyKernel,
    machines: Machines,
    values: Array,
    order: Array,
    bounds: Array,
    found: Array,
) -> Array:
    """Add the values in compiled loops; return each row's square about its centre."""
    assert isinstance(kernel, Kernel)
    # Few signatures, each takes seconds to compile: three of four pairs of precisions,
    # and rows that can be written to (or not, as those of a file) are like the others.
    wide = np.promote_types(values.dtype, machines.vectors.dtype)
    values = np.ascontiguousarray(_scaled(kernel, values), dtype=wide).view()
    values.flags.writeable = False
    squares = np.zeros(len(values))
    how = _CODES[kernel.name], kernel.gamma, kernel.coef0, float(kernel.degree)
    add_values(values, order, bounds, how, machines, found, squares)
    return squares


@dataclass(frozen=True)
class Rough:
    """Machines in float32, and what that costs: a bound on the error of each value.

    With u the unit roundoff, a row at the distance |x| from the centre of its cell and
    a vector at |z|, rounding both, their product, the squares and the sum of all moves
    the squared distance by less than ``(d / 2 + 10) u (|x| + |z|)^2``, gamma and the
    exponent included; a root moves by the root of that at most. The exponential (2e-7),
    the coefficients and the sum over m vectors add ``(m + 8) u``, as shares of the sum
    of ``|coef| k``. Below e^-87 all values are that one.
    """

    machines: Machines  # of the coefficients, and of their absolute values
    takes_root: bool  # whether the kernel is a function of the distance, not its square
    rounding: Array  # gamma (d / 2 + 10) u of each cell
    added: Array  # (m + 8) u
    radius: Array  # the farthest vector from the centre
    least: Array  # (n_cells, outputs): what values below e^-87 can add up to

    def errors(self, cells: Array, squares: Array, sums: Array) -> Array:
        """Return how far each value can be from the one in float64.

        `squares` are those of the rows' distances to the centres of their cells, `sums`
        those of ``|coef| k``, which are written over.
        """
        share = np.sqrt(squares)
        share += self.radius[cells]
        with np.errstate(over="ignore", invalid="ignore"):
            share *= share
            share *= self.rounding[cells]
            if self.takes_root:
                share = np.sqrt(share)
            share += share * share  # e^s - 1 < s + s^2 for shares that count
            share += self.added[cells]
            share[~(share < _MOST_SHARE)] = np.inf
            # A tenth more: the sums, and the values in float64, are rounded too.
            sums *= 1.1 * share[:, None]
            sums += self.least[cells]
        return sums


def rough_machines(
    kernel: AnyKernel, values: Array, coef: Array, starts: Array
) -> Rough:
    """Return the machines in float32, with what their errors follow from."""
    assert isinstance(kernel, Kernel)
    both = np.concatenate([coef, np.abs(coef)], axis=1)
    made = machines_of(kernel, values, both, starts, np.dtype(np.float32))
    cells = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    radius, mass = np.zeros(len(starts) - 1), np.zeros((len(starts) - 1, coef.shape[1]))
    np.maximum.at(radius, cells, np.sqrt(made.squares, dtype=np.float64))
    np.add.at(mass, cells, np.abs(coef))
    n_columns = np.diff(made.column_starts) + 1
    takes_root = kernel.name != "rbf"
    return Rough(
        made,
        takes_root,
        # Of a root, the rounding of gamma and of the root itself beside it: 2 u.
        kernel.gamma * (n_columns / 2 + 10) * _UNIT * (1.1 if takes_root else 1.0),
        (np.diff(starts) + 8) * _UNIT,
        radius,
        _TINY * (1 + mass),
    )


def machines_of(
    kernel: AnyKernel, values: Array, coef: Array, starts: Array, dtype: Any
) -> Machines:
    """Return the vectors of all cells ready to meet rows, in the precision `dtype`."""
    assert isinstance(kernel, Kernel)
    n_cells, n_columns = len(starts) - 1, values.shape[1]
    centres, same = np.zeros((n_cells, n_columns)), np.zeros((n_cells, n_columns))
    by_difference = np.zeros(n_cells, dtype=bool)
    parts = []
    for cell, (start, stop) in enumerate(pairwise(starts)):
        if start == stop:
            parts.append(_nothing(dtype))
            continue
        own = _scaled(kernel, values[start:stop]).astype(np.float64)
        alike = (own == own[0]).all(axis=0)
        # In two halves: the sum of columns near 1e308 would overflow.
        centres[cell] = np.where(alike, own[0], (own / len(own)).sum(axis=0))
        same[cell] = alike
        columns = np.flatnonzero(~alike)
        off = (own - centres[cell])[:, columns]
        by_difference[cell] = len(columns) <= FEW_COLUMNS
        off = np.column_stack([off, np.zeros(len(off))]).astype(dtype)
        squares = np.einsum("ij,ij->i", off, off, dtype=np.float64)
        # Of contiguous outputs, so that the sums over vectors use the vector unit.
        parts.append((columns, off.T.ravel(), squares, coef[start:stop].T.ravel()))
    differ, vectors, norms, weights = zip(*parts, strict=True)
    return Machines(
        centres,
        same,
        np.concatenate(differ).astype(np.int64),
        _ends(differ),
        np.concatenate(vectors),
        _ends(vectors),
        np.concatenate(norms).astype(dtype),
        np.concatenate(weights).astype(dtype),
        np.array(starts),
        by_difference,
    )


def _nothing(dtype: Any) -> tuple[Array, ...]:
    none = np.empty(0, dtype)
    return np.empty(0, np.int64), none, none, none


def _ends(parts: Any) -> Array:
    return np.concatenate([[0], np.cumsum([len(one) for one in parts])])


def _scaled(kernel: Kernel, values: Array) -> Array:
    """Return rows in the units of the kernel's gamma; a shift changes no distance."""
    exponent = kernel.row_map.exponent
    return np.ldexp(values.astype(np.float64), -exponent) if exponent else values


__all__ = [
    "Machines",
    "Rough",
    "add_by_kernel",
    "add_by_loops",
    "in_order",
    "is_compiled",
    "machines_of",
    "rough_machines",
]
