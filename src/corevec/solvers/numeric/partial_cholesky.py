"""A partial Cholesky factor of a kernel matrix, grown by pivots."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.models.basis import SPREAD_THRESHOLD


class PartialFactor:
    """``K ~ F F'`` of many rows, grown by pivots among them.

    Parameters
    ----------
    columns : callable
        Returns kernel values of all rows against the rows at some positions, shape
        (n, len(positions)).
    diagonal : ndarray
        k(x, x) of all rows; 0 for rows that cannot be chosen.
    size : int
        Pivots at most. Each costs n kernel values and n * (pivots so far) products.
    threshold : float
        Rows within this share of the largest k(x, x) of the span are no pivots.

    Attributes
    ----------
    left : ndarray
        ``k_ii - |F_i|^2``, 0 for rows that cannot be chosen.
    chosen : ndarray
        Positions of the pivots, in order.
    """

    def __init__(
        self,
        columns: Callable[[Array], Array],
        diagonal: Array,
        size: int,
        threshold: float = SPREAD_THRESHOLD,
    ) -> None:
        self.columns = columns
        self.left = np.array(diagonal, dtype=np.float64)
        self.floor = SPREAD_THRESHOLD * float(self.left.max(initial=0.0))
        self.chosen = np.empty(0, dtype=np.int64)
        self._transposed = np.empty((size, len(diagonal)))  # a new row is contiguous
        self._drop_noise()
        # Rows of a k(x, x) below SPREAD_THRESHOLD are no pivots at any threshold.
        self.floor *= threshold / SPREAD_THRESHOLD

    @property
    def can_grow(self) -> bool:
        """Whether there is a row to choose, and space for one more pivot."""
        return self.n_left > 0 and bool(self.left.any())

    @property
    def n_left(self) -> int:
        """How many more pivots there is space for."""
        return len(self._transposed) - len(self.chosen)

    def features(self, positions: Array | slice) -> Array:
        """Return F of the rows at these positions, transposed: (rank, rows)."""
        return np.asarray(self._transposed[: len(self.chosen), positions])

    def add_largest(self) -> None:
        """Make the row of the largest residual a pivot."""
        self.add(np.array([int(np.argmax(self.left))]))

    def add(self, positions: Array) -> Array:
        """Make rows pivots; return the new columns of F, transposed: (pivots, n).

        Those among them that the others leave nothing of are left out.
        """
        columns = self.columns(positions).T
        columns -= self.features(positions).T @ self.features(slice(None))
        corner = np.array(columns[:, positions])
        factor, order, rank, _ = linalg.lapack.dpstrf(corner, tol=self.floor, lower=1)
        kept = order[:rank] - 1
        new = linalg.solve_triangular(
            factor[:rank, :rank], columns[kept], lower=True, check_finite=False
        )
        k = len(self.chosen)
        self._transposed[k : k + rank] = new
        self.left -= np.einsum("ij,ij->j", new, new)
        self.left[positions] = 0.0
        self.chosen = np.append(self.chosen, positions[kept])
        self._drop_noise()
        return np.asarray(new)

    def _drop_noise(self) -> None:
        self.left[self.left <= self.floor] = 0.0
