"""A partial Cholesky factor of a kernel matrix, grown by pivots."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.models.basis import SPREAD_THRESHOLD


class PartialFactor:
    """``K ~ F F'`` of many rows, grown by pivots among them.

    `columns` returns kernel values of all rows against the rows at some positions,
    shape (n, len(positions)). `left` is ``k_ii - |F_i|^2``, zero for rows that cannot
    be chosen: those of weight 0, and those within `SPREAD_THRESHOLD` of the span.
    """

    def __init__(
        self, columns: Callable[[Array], Array], diagonal: Array, size: int
    ) -> None:
        self.columns = columns
        self.left = np.array(diagonal, dtype=np.float64)
        self.floor = SPREAD_THRESHOLD * float(self.left.max(initial=0.0))
        self.chosen = np.empty(0, dtype=np.int64)
        self._transposed = np.empty((size, len(diagonal)))  # a new row is contiguous
        self._drop_noise()

    @property
    def room(self) -> int:
        """How many more pivots there is room for."""
        return len(self._transposed) - len(self.chosen)

    def features(self, positions: Array | slice) -> Array:
        """Return F of the rows at these positions, transposed: (rank, rows)."""
        return np.asarray(self._transposed[: len(self.chosen), positions])

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
