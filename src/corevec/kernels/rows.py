"""Rows as sources hand them out, and rows prepared for a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.backend.arrays import (
    cast,
    is_tensor,
    row_sums_of_squares,
    shifted,
    to_device_of,
)


@dataclass(frozen=True)
class Rows:
    """Some rows as a source hands them out: values and row numbers (int64).

    Rows of an out-of-core or distributed source carry their labels: `columns` then
    holds their "target" and "weight", one entry per row.
    """

    values: Any
    index: Array
    columns: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def part(self, few: Any) -> Rows:
        """Return some of the rows, with their columns."""
        columns = {name: column[few] for name, column in self.columns.items()}
        return Rows(self.values[few], self.index[few], columns)


@dataclass(frozen=True)
class RowMap:
    """The map ``x -> scale (x * 2**-exponent - shift)``, applied before a distance.

    The shift leaves distances unchanged; the kernel's gamma is multiplied by
    ``4**exponent`` to compensate for the scale. Without the shift, squared norms near
    1e12 (columns near 1e6) leave no digit for a distance of 1e-3; without the
    power of two, columns near 1e200 overflow when squared. `scale` has a factor per
    column: the roots of a diagonal metric, which is a part of the kernel; None is all
    ones. `error` bounds the rounding of a mapped row, as a length.
    """

    shift: Array | None = None
    exponent: int = 0
    error: float = 0.0
    scale: Array | None = None

    def on_columns(self, columns: Array) -> RowMap:
        """Return this map for rows with some of the columns only."""
        shift, scale = self.shift, self.scale
        return replace(
            self,
            shift=None if shift is None else shift[columns],
            scale=None if scale is None else scale[columns],
        )

    def __call__(self, values: Any, dtype: Any) -> Any:
        """Return the mapped rows, in one memory layout."""
        if is_tensor(values):
            return self._of_tensor(values, dtype)
        if sparse.issparse(values) and self.shift is not None:
            values = values.toarray()
        if sparse.issparse(values):
            mapped = values.astype(dtype if not self.exponent else np.float64)
            if self.exponent:
                mapped.data = np.ldexp(mapped.data, -self.exponent)
            if self.scale is not None:
                mapped.data *= self.scale[mapped.indices]
            return mapped.astype(dtype, copy=False)
        if self.exponent:
            values = np.ldexp(values.astype(np.float64), -self.exponent)
        if self.shift is not None:
            values = np.subtract(values, self.shift, dtype=np.float64)
        if self.scale is not None:
            values = np.multiply(values, self.scale, dtype=np.float64)
        # One memory layout, so that each compiled loop has one signature per dtype.
        return np.ascontiguousarray(values, dtype=dtype)

    def _of_tensor(self, values: Any, dtype: Any) -> Any:
        if self.exponent:
            # In two steps: 2**1074 is not a float64.
            half = -self.exponent // 2
            values = cast(values, np.float64)
            values = values * 2.0**half * 2.0 ** (-self.exponent - half)
        if self.scale is not None:
            values = cast(values, np.float64)
            if self.shift is not None:
                values = values - to_device_of(self.shift, values)
            values = values * to_device_of(self.scale, values)
        elif self.shift is not None:
            return shifted(values, self.shift, dtype)
        return cast(values, dtype).contiguous()

    def back(self, mapped: Any) -> Any:
        """Return mapped vectors in the user's units.

        A column whose scale is 0 has no effect on a distance: it gets the shift.
        """
        if sparse.issparse(mapped):  # is not shifted
            found = mapped.astype(np.float64)
            if self.scale is not None:
                found.data *= self._inverse_scale[found.indices]
            found.data = np.ldexp(found.data, self.exponent)
            return found
        if self.scale is not None:
            mapped = mapped * self._inverse_scale
        if self.shift is not None:
            mapped = mapped + self.shift
        return np.ldexp(mapped, self.exponent) if self.exponent else mapped

    @property
    def _inverse_scale(self) -> Array:
        assert self.scale is not None
        used = self.scale > 0
        return np.where(used, 1.0 / np.where(used, self.scale, 1.0), 0.0)


@dataclass(frozen=True)
class Points:
    """Rows prepared for one kernel and one precision."""

    values: Any
    index: Array
    dtype: Any
    squares: Array | None = None
    transposed: Array | None = None
    diagonal: Array | None = None

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def part(self, start: int, stop: int) -> Points:
        """Return the points from `start` up to `stop`."""

        def cut(a: Any) -> Any:
            return None if a is None else a[start:stop]

        transposed = self.transposed
        if transposed is not None:  # in one memory layout, for the compiled loops
            transposed = np.ascontiguousarray(transposed[:, start:stop])
        return Points(
            self.values[start:stop],
            self.index[start:stop],
            self.dtype,
            cut(self.squares),
            transposed,
            cut(self.diagonal),
        )

    def to_device_of(self, other: Points) -> Points:
        """Return these points on the device of `other`; a basis is copied once."""
        if not is_tensor(other.values) or is_tensor(self.values):
            return self
        copies: dict[str, Points] = self.__dict__.setdefault("_copies", {})
        device = str(other.values.device)
        if device not in copies:
            values = self.values
            values = values.toarray() if sparse.issparse(values) else values

            def copied(a: Any) -> Any:
                return None if a is None else to_device_of(a, other.values)

            parts = copied(values), copied(self.index), self.dtype, copied(self.squares)
            copies[device] = Points(*parts, diagonal=copied(self.diagonal))
        return copies[device]

    def for_sparse_products(self) -> Points:
        """Return the points dense and in Fortran order, for products with sparse rows.

        SciPy reads ``values.T`` row by row and would copy another layout for every
        block.
        """
        if sparse.issparse(self.values):
            return replace(self, values=self.values.toarray(order="F"))
        return replace(self, values=np.asfortranarray(self.values))

    def __reduce__(self) -> Any:  # copies on devices are not pickled
        own = (self.values, self.index, self.dtype, self.squares)
        return Points, (*own, self.transposed, self.diagonal)


@dataclass(frozen=True)
class RowStatistics:
    """Column statistics from one pass over the rows, in units of ``2**exponent``.

    `low` and `high` are the least and the largest entry of each column; they are not
    known of sparse rows.
    """

    mean: Array
    column_variance: Array
    exponent: int
    is_sparse: bool
    low: Array
    high: Array

    @property
    def total_variance(self) -> float:
        """Sum of the columns' variances: half the mean squared distance of pairs."""
        return float(self.column_variance.sum())

    @property
    def entry_variance(self) -> float:
        """Variance of all entries, what scikit-learn's ``gamma="scale"`` uses."""
        if not self.is_sparse and np.ptp([self.low, self.high]) == 0:
            return 0.0  # the mean of equal numbers is rounded
        overall = self.mean.mean()
        spread = ((self.mean - overall) ** 2).mean()
        return float(self.column_variance.mean() + spread)


def squared_norms(values: Any) -> Array:
    """Return the squared Euclidean norm of each row, dense, sparse or a tensor."""
    if is_tensor(values):
        return row_sums_of_squares(values)
    with np.errstate(over="ignore"):
        if sparse.issparse(values):
            return np.asarray(values.multiply(values).sum(axis=1)).ravel()
        return np.asarray(np.einsum("ij,ij->i", values, values))
