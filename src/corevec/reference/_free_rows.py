"""The free rows of SimpleSVM: their kernel matrix and its updated factor.

The coefficients of the free rows solve ``K b + bias = right, sum b = total``. The first
free row is the origin: with its image subtracted from every other the kernel becomes
``k_ij - k_i0 - k_0j + k_00``, the sum and the bias are gone, and what is left has a
Cholesky factor L. One more row is one more row of L; one row less is a rank-one update
of L; only when the origin itself is removed is L recomputed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from corevec._runtime.types import Array
from corevec.reference import _smo_loops as loops

# A row whose image lies in the affine hull of the others, up to this share of k(x, x),
# cannot be added. The rounding of a squared pivot is about 1e-15; 1e-12 leaves a margin
# of three digits.
FLAT = 1e-12


class Direction(NamedTuple):
    """Change of the free rows per unit of a new coefficient that keeps them optimal."""

    coef: Array  # of each free row
    bias: float
    curvature: float  # of the objective; 0 if the new row is in the affine hull


class FreeRows:
    """Rows whose coefficients are strictly inside their box, in order of arrival."""

    def __init__(self) -> None:
        self.members = np.empty(0, dtype=np.int64)
        self.coef = np.empty(0)
        self._K = np.empty((64, 64))
        self._L = np.empty((64, 64))

    def __len__(self) -> int:
        return len(self.members)

    @property
    def K(self) -> Array:
        """The kernel matrix of the free rows."""
        return self._K[: len(self), : len(self)]

    def direction(self, column: Array, own: float) -> Direction:
        """Return the direction for a row with kernel values `column` and `own`."""
        k = len(self)
        rest, curvature = self._next_row(column, own)
        loops.solve_upper(self._L, k - 1, rest)
        coef = np.concatenate(([rest.sum() - 1.0], -rest))
        bias = -(column[0] + self._K[0, :k] @ coef)
        return Direction(coef, float(bias), curvature)

    def correction(self, residual: Array) -> Array:
        """Return the change of coefficients, of sum 0, that removes `residual`.

        A constant residual is the bias's to take away.
        """
        rest = residual[0] - residual[1:]
        loops.solve_lower(self._L, len(rest), rest)
        loops.solve_upper(self._L, len(rest), rest)
        return np.concatenate(([-rest.sum()], rest))

    def join(self, row: int, coef: float, column: Array, own: float) -> bool:
        """Add a row; return False if it lies in the affine hull of the others."""
        k = len(self)
        if k == len(self._K):
            self._K, self._L = _larger(self._K), _larger(self._L)
        if k > 0:
            row_of_factor, curvature = self._next_row(column, own)
            if curvature == 0.0:
                return False
            self._L[k - 1, : k - 1] = row_of_factor
            self._L[k - 1, k - 1] = np.sqrt(curvature)
        self._K[k, :k] = self._K[:k, k] = column
        self._K[k, k] = own
        self.members = np.append(self.members, row)
        self.coef = np.append(self.coef, coef)
        return True

    def leave(self, place: int) -> list[tuple[int, float]]:
        """Remove the row at `place`; return (row, coefficient) of others to remove.

        These are rows that a new origin shows to lie in the flat of the others.
        """
        k = len(self)
        if place > 0:
            scratch = np.empty((2, k))
            loops.remove_from_factor(self._L, k - 1, place - 1, *scratch)
        self._K[place : k - 1, :k] = self._K[place + 1 : k, :k].copy()
        self._K[: k - 1, place : k - 1] = self._K[: k - 1, place + 1 : k].copy()
        self.members = np.delete(self.members, place)
        self.coef = np.delete(self.coef, place)
        return self.factor_again() if place == 0 else []

    def factor_again(self) -> list[tuple[int, float]]:
        """Recompute the factor; return (row, coefficient) of the removed rows."""
        K, members, coef = self.K.copy(), self.members, self.coef
        self.members, self.coef = np.empty(0, dtype=np.int64), np.empty(0)
        kept: list[int] = []
        out = []
        for i, (row, b) in enumerate(zip(members, coef, strict=True)):
            if self.join(int(row), float(b), K[i, kept], float(K[i, i])):
                kept.append(i)
            else:
                out.append((int(row), float(b)))
        return out

    def _next_row(self, column: Array, own: float) -> tuple[Array, float]:
        """Return the next row of the factor, and the square of its diagonal entry."""
        origin, first = float(self._K[0, 0]), self._K[1 : len(self), 0]
        row = column[1:] - column[0] - (first - origin)
        loops.solve_lower(self._L, len(row), row)
        curvature = origin - 2 * float(column[0]) + own - float(row @ row)
        return row, curvature if curvature > FLAT * (origin + own) else 0.0


def _larger(square: Array) -> Array:
    size = len(square)
    new = np.empty((2 * size, 2 * size))
    new[:size, :size] = square
    return new
