"""Kernels that the user gives: a matrix of values, or a Python function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.backend import profiles
from corevec.exceptions import KernelError
from corevec.kernels.kernel import TILE_VALUES, inverse_root
from corevec.kernels.rows import Points, Rows


@dataclass(frozen=True)
class PrecomputedKernel:
    """A square matrix of kernel values; row number i belongs to column i."""

    name: str = "precomputed"
    normalized: bool = False
    constant_diagonal: bool = False
    uses_distance: bool = False

    def prepare(self, rows: Rows, dtype: Any = np.float64) -> Points:
        """Return `rows` unchanged."""
        return Points(rows.values, rows.index, np.float64)

    prepare_basis = prepare

    def rounding(self, n_columns: int, dtype: Any = np.float64) -> float:
        """Return the rounding error of sums of values, and of values of this type.

        Those in float64 count as exact; those in float32 were rounded to it, so that a
        matrix of low rank has negative eigenvalues of that size.
        """
        is_single = np.dtype(dtype).itemsize < 8
        unit = float(np.finfo(np.float32).eps) / 2 if is_single else 0.0
        return 16 * profiles.UNIT + unit

    def block(self, x: Points, z: Points) -> Array:
        """Return the columns of `x` that belong to the rows `z`."""
        values = x.values[:, z.index]
        if sparse.issparse(values):
            values = values.toarray()
        return np.asarray(values, dtype=np.float64)

    def times(self, x: Points, z: Points, coef: Array) -> Array:
        """Return ``block(x, z) @ coef``."""
        return np.asarray(self.block(x, z) @ coef)

    def diagonal(self, rows: Rows) -> Array:
        """Return the diagonal entries of the rows."""
        if len(rows) == 0:
            return np.empty(0)
        values = rows.values[np.arange(len(rows)), rows.index]
        return np.asarray(values, dtype=np.float64).ravel()


@dataclass(frozen=True)
class CallableKernel:
    """A Python function of two blocks of rows."""

    function: Callable[[Any, Any], Any]
    name: str = "callable"
    normalized: bool = False
    constant_diagonal: bool = False
    uses_distance: bool = False

    def prepare(self, rows: Rows, dtype: Any = np.float64) -> Points:
        """Return `rows` unchanged: the function gets the user's own values."""
        return Points(rows.values, rows.index, np.float64)

    prepare_basis = prepare

    def rounding(self, n_columns: int, dtype: Any = np.float64) -> float:
        """Return the rounding error of sums of values; the values count as exact."""
        return 16 * profiles.UNIT

    def block(self, x: Points, z: Points) -> Array:
        """Return the function's values, checked for shape."""
        if len(x) == 0 or len(z) == 0:
            return np.zeros((len(x), len(z)))
        values = _as_values(self.function(_plain(x.values), _plain(z.values)))
        if values.shape != (len(x), len(z)):
            raise KernelError(
                f"the kernel function returned an array of shape {values.shape} for "
                f"blocks of {len(x)} and {len(z)} rows; it must return shape "
                f"({len(x)}, {len(z)}), one value per pair of rows."
            )
        return values

    def times(self, x: Points, z: Points, coef: Array) -> Array:
        """Return ``block(x, z) @ coef`` in tiles."""
        tile = max(16, 4 * TILE_VALUES // max(len(z), 1))
        starts = range(0, max(len(x), 1), tile)
        parts = [self.block(x.part(s, s + tile), z) @ coef for s in starts]
        return np.concatenate(parts) if parts else np.zeros((0, coef.shape[1]))

    def diagonal(self, rows: Rows) -> Array:
        """Return k(x, x) of each row, from square blocks of 16 rows."""
        points = self.prepare(rows)
        parts = []
        for start in range(0, len(rows), 16):
            few = points.part(start, start + 16)
            parts.append(np.diag(self.block(few, few)).copy())
        return np.concatenate(parts) if parts else np.empty(0)


def _plain(values: Any) -> Any:
    """Return rows as the user gave them: objects (words, graphs) without a column."""
    is_objects = isinstance(values, np.ndarray) and values.dtype == object
    return values[:, 0] if is_objects else values


@dataclass(frozen=True)
class NormalizedKernel:
    """``k(x, z) / sqrt(k(x, x) k(z, z))`` of a Python kernel function.

    A plain picklable callable, to be given as ``kernel=``. For the built-in kernels
    write ``kernel="normalized-poly"`` and so on.
    """

    function: Callable[[Any, Any], Any]

    def __call__(self, X: Any, Z: Any) -> Array:
        """Return the normalised values for two blocks of rows."""
        inner = CallableKernel(self.function)
        own = [inner.diagonal(Rows(V, np.arange(V.shape[0]))) for V in (X, Z)]
        values = _as_values(self.function(X, Z))
        scale = np.outer(inverse_root(own[0]), inverse_root(own[1]))
        return np.asarray(values * scale)


def _as_values(returned: Any) -> Array:
    """Return what a kernel function returned as an array of float64."""
    values = returned.toarray() if sparse.issparse(returned) else returned
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise KernelError(
            f"the kernel function returned a {type(returned).__name__} that is not "
            f"numbers ({error}); it must return one number per pair of rows, as a "
            "NumPy array or a SciPy sparse matrix."
        ) from None
