"""Kernels, each written once.

A kernel is a *profile* of one number per pair: the squared distance (``rbf``,
``laplacian``, ``inverse-distance``) or the inner product (``linear``, ``poly``,
``sigmoid``). The profiles live in ``_loops.profile``; this file gives them rows:
dense or CSR, float32 or float64, shifted and scaled so that nothing cancels or
overflows. ``precomputed`` and callables follow the same interface.

=================  ==========================================  ==================
name               k(x, z)                                     remark
=================  ==========================================  ==================
rbf                exp(-gamma |x-z|^2)                         papers: gamma=1/beta
laplacian          exp(-sqrt(gamma) |x-z|)                     Euclidean distance;
                                                               sigma=1/sqrt(gamma)
                                                               in the CVR paper
inverse-distance   1 / (1 + sqrt(gamma) |x-z|)
linear             x.z
poly               (gamma x.z + coef0)^degree
sigmoid            tanh(gamma x.z + coef0)                     not positive definite
normalized-NAME    k(x,z) / sqrt(k(x,x) k(z,z))
precomputed        row of the given square matrix
callable           k(X, Z) -> array (len(X), len(Z))
=================  ==========================================  ==================

scikit-learn's ``laplacian_kernel`` uses the L1 distance; this one, as the paper,
the Euclidean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.backend import profiles
from corevec.backend.arrays import (
    cast,
    constant,
    full,
    is_finite,
    is_tensor,
    namespace,
    row_sums_of_squares,
    shifted,
    to_device_of,
)
from corevec.backend.loops import kernels as _loops
from corevec.backend.profiles import FEW_COLUMNS
from corevec.exceptions import InvalidInputError, KernelError

_CODES = {
    "rbf": profiles.RBF,
    "laplacian": profiles.LAPLACIAN,
    "inverse-distance": profiles.INVERSE_DISTANCE,
    "linear": profiles.LINEAR,
    "poly": profiles.POLYNOMIAL,
    "sigmoid": profiles.SIGMOID,
}
DISTANCE_KERNELS = ("rbf", "laplacian", "inverse-distance")
KERNEL_NAMES = (*_CODES, *(f"normalized-{n}" for n in _CODES), "precomputed")

# Kernel values made at a time inside a block. Smaller tiles stay in a nearer cache,
# but the matrix product wants rows: 2**19 was 1.6x faster than 2**16 at d = 784.
_TILE_VALUES = 1 << 19
# A column is wide if gamma times its squared range is more: shifted rows would add an
# error of 2e-13 to kernel values.
WIDE = 1e6
# A sparse basis is kept dense while it stays below this many bytes: CSR times dense
# is 5-10x faster than CSR times CSR.
_DENSE_BASIS_BYTES = 1 << 26


@dataclass(frozen=True)
class Rows:
    """A few rows as a source hands them out: values and their row numbers (int64).

    Rows that live elsewhere bring what belongs to them along: `columns` then holds
    their "target" and "weight", one entry per row.
    """

    values: Any
    index: Array
    columns: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def part(self, few: Any) -> Rows:
        """Return some of the rows, with all that belongs to them."""
        columns = {name: column[few] for name, column in self.columns.items()}
        return Rows(self.values[few], self.index[few], columns)


@dataclass(frozen=True)
class RowMap:
    """``x -> x * 2**-exponent - shift``, applied before a distance is taken.

    Distances do not change by the shift; the kernel's gamma is multiplied by
    ``4**exponent`` in exchange for the scale. Without the shift, squared norms near
    1e12 (columns near 1e6) leave no digit for a distance of 1e-3; without the
    scale, columns near 1e200 overflow when squared. `error` bounds the rounding of a
    mapped row, as a length.
    """

    shift: Array | None = None
    exponent: int = 0
    error: float = 0.0

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
            return mapped.astype(dtype, copy=False)
        if self.exponent:
            values = np.ldexp(values.astype(np.float64), -self.exponent)
        if self.shift is not None:
            values = np.subtract(values, self.shift, dtype=np.float64)
        # One memory layout, so that each compiled loop has one signature per dtype.
        return np.ascontiguousarray(values, dtype=dtype)

    def _of_tensor(self, values: Any, dtype: Any) -> Any:
        if self.exponent:
            # In two halves: 2**1074 is no float64.
            half = -self.exponent // 2
            values = cast(values, np.float64)
            values = values * 2.0**half * 2.0 ** (-self.exponent - half)
        if self.shift is not None:
            return shifted(values, self.shift, dtype)
        return cast(values, dtype).contiguous()

    def back(self, mapped: Array) -> Array:
        """Return vectors of the mapped space in the user's units."""
        if self.shift is not None:
            mapped = mapped + self.shift
        return np.ldexp(mapped, self.exponent) if self.exponent else mapped


@dataclass(frozen=True)
class Points:
    """Rows made ready for one kernel and one precision."""

    values: Any
    index: Array
    dtype: Any
    squares: Array | None = None
    transposed: Array | None = None
    diagonal: Array | None = None

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def part(self, start: int, stop: int) -> Points:
        """Return the points from `start` up to `stop`, ready as they are."""

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

    def beside(self, other: Points) -> Points:
        """Return these points where `other` lives; a basis is moved there once."""
        if not is_tensor(other.values) or is_tensor(self.values):
            return self
        moved: dict[str, Points] = self.__dict__.setdefault("_moved", {})
        place = str(other.values.device)
        if place not in moved:
            values = self.values
            values = values.toarray() if sparse.issparse(values) else values

            def move(a: Any) -> Any:
                return None if a is None else to_device_of(a, other.values)

            parts = move(values), move(self.index), self.dtype, move(self.squares)
            moved[place] = Points(*parts, diagonal=move(self.diagonal))
        return moved[place]

    def beside_sparse(self) -> Points:
        """Return the points dense, laid out for products with sparse rows.

        SciPy takes ``values.T`` row by row: other layouts it copies, for every block.
        """
        if sparse.issparse(self.values):
            return replace(self, values=self.values.toarray(order="F"))
        return replace(self, values=np.asfortranarray(self.values))

    def __reduce__(self) -> Any:  # what was moved elsewhere does not travel
        own = (self.values, self.index, self.dtype, self.squares)
        return Points, (*own, self.transposed, self.diagonal)


@dataclass(frozen=True)
class Kernel:
    """A kernel given by a profile of the squared distance or the inner product."""

    name: str
    gamma: float = 1.0
    coef0: float = 0.0
    degree: float = 3
    normalized: bool = False
    row_map: RowMap = field(default_factory=RowMap)

    @property
    def uses_distance(self) -> bool:
        """Whether values depend on the rows through their distance only."""
        return self.name in DISTANCE_KERNELS

    @property
    def constant_diagonal(self) -> bool:
        """Whether k(x, x) = 1 for every row."""
        return self.uses_distance or self.normalized

    @property
    def _parameters(self) -> tuple[int, float, float, float]:
        return _CODES[self.name], self.gamma, self.coef0, float(self.degree)

    def prepare(self, rows: Rows, dtype: Any = np.float64) -> Points:
        """Return `rows` mapped, in `dtype`, with what the kernel needs of each."""
        values = self.row_map(rows.values, dtype)
        squares = _squared_norms(values) if self._needs_squares(values) else None
        transposed = None
        if self._by_difference(values) and not is_tensor(values):
            transposed = np.ascontiguousarray(values.T)
        scaled = self.normalized and not self.uses_distance
        diagonal = self._diagonal_of(squares) if scaled else None
        return Points(values, rows.index, dtype, squares, transposed, diagonal)

    def prepare_basis(self, rows: Rows, dtype: Any = np.float64) -> Points:
        """`prepare` for rows that many blocks will meet: dense where that is small."""
        values = rows.values
        is_small = values.shape[0] * values.shape[1] * 8 <= _DENSE_BASIS_BYTES
        if not sparse.issparse(values) or not is_small:
            return self.prepare(rows, dtype)
        if values.shape[1] <= FEW_COLUMNS:
            return self.prepare(replace(rows, values=values.toarray()), dtype)
        return self.prepare(rows, dtype).beside_sparse()

    def block(self, x: Points, z: Points) -> Array:
        """Return kernel values, shape (len(x), len(z)), in the points' precision."""
        x, z = x.beside(z), z.beside(x)
        if is_tensor(x.values):
            return self._tensor_block(x, z)
        if self._by_difference(x.values) and self._by_difference(z.values):
            out = np.empty((len(x), len(z)), dtype=x.dtype)
            _loops.difference_block(*self._parameters, x.values, z.transposed, out)
            return out
        out = _inner_products(x.values, z.values)
        norms = _norms(x, self), _norms(z, self)
        if self.uses_distance and not _are_plain(x, z):
            self._distances(x, z, norms, out)
            _loops.profile(*self._parameters, out.reshape(-1))
        elif self.name != "linear":
            rows = (x.values, z.values) if _are_plain(x, z) else (out[:0], out[:0])
            _loops.product_block(*self._parameters, *rows, *norms, out)
        if self.normalized and not self.uses_distance:
            assert x.diagonal is not None
            assert z.diagonal is not None
            out *= np.outer(_inverse_root(x.diagonal), _inverse_root(z.diagonal))
        return out

    def _distances(
        self, x: Points, z: Points, norms: tuple[Array, Array], out: Array
    ) -> None:
        """Turn inner products into squared distances, in place, for any layout.

        As `_loops.product_block`: pairs that cancel are computed from differences.
        """
        xx, zz = norms
        cancelled = np.empty(len(x), dtype=bool)
        how = *self._parameters[:2], x.values.shape[1]
        _loops.distances(*how, xx, zz, out, cancelled)
        for i in np.flatnonzero(cancelled):
            near = np.flatnonzero(out[i] < profiles.NEAR * (xx[i] + zz))
            out[i, near] = _squared_differences(x.values[i : i + 1], z.values, near)

    def rounding(self, n_columns: int) -> float:
        """Return a bound on the error of a float64 value, relative to the largest.

        "Largest" is the largest k(x, x). Included are the roundings of the sums that
        values enter, and for distance kernels those of the row map: with rows wrong by
        e, ``exp(-gamma t^2)`` is wrong by ``2 sqrt(gamma) e`` at most, the others by
        as much.
        """
        unit = profiles.UNIT
        if not self.uses_distance:
            degree = max(1.0, float(self.degree)) if self.name == "poly" else 1.0
            return unit * (16 + degree * n_columns)
        bound = unit * (16 + n_columns) + 2.0 * np.sqrt(self.gamma) * self.row_map.error
        if n_columns > FEW_COLUMNS or self.row_map.shift is None:
            bound += 0.37 * (n_columns + 4) * unit / profiles.NEAR + profiles.HARMLESS
        return float(bound)

    def times(self, x: Points, z: Points, coef: Array) -> Array:
        """Return ``block(x, z) @ coef`` without storing the block; float64.

        `coef` has shape (len(z), outputs).
        """
        x, z = x.beside(z), z.beside(x)
        if is_tensor(x.values):
            return self._tensor_times(x, z, to_device_of(coef, x.values))
        if self._by_difference(x.values) and self._by_difference(z.values):
            out = np.empty((len(x), coef.shape[1]))
            scratch = np.empty(len(z), dtype=x.dtype)
            coefT = np.ascontiguousarray(coef.T, dtype=x.dtype)
            _loops.difference_times(
                *self._parameters, x.values, z.transposed, coefT, scratch, out
            )
            return out
        tile = max(16, _TILE_VALUES // max(len(z), 1))
        coef = coef.astype(x.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [
                self.block(x.part(start, start + tile), z) @ coef
                for start in range(0, len(x), tile)
            ]
        return np.concatenate(parts).astype(np.float64, copy=False)

    def _tensor_block(self, x: Points, z: Points) -> Any:
        from corevec.backend.gpu import (
            kernels as _torch_kernels,  # its module needs torch
        )

        given = *self._parameters, x.values, z.values
        out = _torch_kernels.block(*given, x.squares, z.squares)
        if self.normalized and not self.uses_distance:
            assert x.diagonal is not None
            assert z.diagonal is not None
            out *= cast(_inverse_root(x.diagonal), x.dtype)[:, None]
            out *= cast(_inverse_root(z.diagonal), x.dtype)[None, :]
        return out

    def _tensor_times(self, x: Points, z: Points, coef: Any) -> Any:
        from corevec.backend.gpu import (
            kernels as _torch_kernels,  # its module needs torch
        )

        scaled = self.normalized and not self.uses_distance
        if scaled:
            assert z.diagonal is not None
            coef = coef * _inverse_root(z.diagonal)[:, None]
        given = *self._parameters, x.values, z.values, coef
        out = _torch_kernels.times(*given, x.squares, z.squares)
        if scaled:
            assert x.diagonal is not None
            out *= _inverse_root(x.diagonal)[:, None]
        return out

    def diagonal(self, rows: Rows) -> Array:
        """Return k(x, x) for each row (float64)."""
        if self.constant_diagonal:
            if self.normalized and not self.uses_distance:
                own = self._diagonal_of(_squared_norms(self.row_map(rows.values, "d")))
                return cast(own > 0, np.float64)
            return constant(len(rows), 1.0, rows.values)
        return self._diagonal_of(_squared_norms(self.row_map(rows.values, "d")))

    def slope(self, values: Array) -> Array:
        """Return dk/d(squared distance), or dk/d(inner product), at kernel values.

        For "rbf", "linear" and "poly", whose values tell it.
        """
        if self.name == "rbf":
            return -self.gamma * values
        if self.name == "linear":
            return namespace(values).ones_like(values)
        root = abs(values) ** (1.0 - 1.0 / self.degree)
        return self.degree * self.gamma * root

    def _diagonal_of(self, squares: Array | None) -> Array:
        assert squares is not None
        if is_tensor(squares):
            from corevec.backend.gpu import (
                kernels as _torch_kernels,  # its module needs torch
            )

            own = cast(squares, np.float64) * (0.0 if self.uses_distance else 1.0)
            return _torch_kernels.profile(*self._parameters, own)
        own = np.array(squares, dtype=np.float64)
        if self.uses_distance:
            own[:] = 0.0
        _loops.profile(*self._parameters, own)
        return own

    def _by_difference(self, values: Any) -> bool:
        return (
            self.uses_distance
            and not sparse.issparse(values)
            and 0 < values.shape[1] <= FEW_COLUMNS
        )

    def _needs_squares(self, values: Any) -> bool:
        by_product = self.uses_distance and not self._by_difference(values)
        return by_product or (self.normalized and not self.uses_distance)


@dataclass(frozen=True)
class PrecomputedKernel:
    """Rows of a square kernel matrix; a row's number is its column."""

    name: str = "precomputed"
    normalized: bool = False
    constant_diagonal: bool = False
    uses_distance: bool = False

    def prepare(self, rows: Rows, dtype: Any = np.float64) -> Points:
        """Return `rows` as they are."""
        return Points(rows.values, rows.index, np.float64)

    prepare_basis = prepare

    def rounding(self, n_columns: int) -> float:
        """Return the rounding of sums of values, which are taken as they are given."""
        return 16 * profiles.UNIT

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
        """Return `rows` as they are: the function sees the user's own values."""
        return Points(rows.values, rows.index, np.float64)

    prepare_basis = prepare

    def rounding(self, n_columns: int) -> float:
        """Return the rounding of sums of values, which are taken as they are given."""
        return 16 * profiles.UNIT

    def block(self, x: Points, z: Points) -> Array:
        """Return the function's values, checked for shape."""
        if len(x) == 0 or len(z) == 0:
            return np.zeros((len(x), len(z)))
        values = np.asarray(self.function(x.values, z.values), dtype=np.float64)
        if values.shape != (len(x), len(z)):
            raise KernelError(
                f"the kernel function returned an array of shape {values.shape} for "
                f"blocks of {len(x)} and {len(z)} rows; it must return shape "
                f"({len(x)}, {len(z)}), one value per pair of rows."
            )
        return values

    def times(self, x: Points, z: Points, coef: Array) -> Array:
        """Return ``block(x, z) @ coef`` in tiles."""
        tile = max(16, 4 * _TILE_VALUES // max(len(z), 1))
        starts = range(0, len(x), tile)
        parts = [self.block(x.part(s, s + tile), z) @ coef for s in starts]
        return np.concatenate(parts)

    def diagonal(self, rows: Rows) -> Array:
        """Return k(x, x), asked for in squares of 16 rows."""
        points = self.prepare(rows)
        parts = []
        for start in range(0, len(rows), 16):
            few = points.part(start, start + 16)
            parts.append(np.diag(self.block(few, few)).copy())
        return np.concatenate(parts) if parts else np.empty(0)


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
        values = np.asarray(self.function(X, Z), dtype=np.float64)
        scale = np.outer(_inverse_root(own[0]), _inverse_root(own[1]))
        return np.asarray(values * scale)


AnyKernel = Kernel | PrecomputedKernel | CallableKernel


@dataclass(frozen=True)
class RowStatistics:
    """What one pass over the rows says about them, in units of ``2**exponent``."""

    mean: Array  # of each column
    column_variance: Array
    exponent: int
    is_sparse: bool
    low: Array  # the least entry of each column, and the largest (not if sparse)
    high: Array

    @property
    def total_variance(self) -> float:
        """Sum of the columns' variances: half the mean squared distance of pairs."""
        return float(self.column_variance.sum())

    @property
    def entry_variance(self) -> float:
        """Variance of all entries, what scikit-learn's ``gamma="scale"`` uses."""
        overall = self.mean.mean()
        spread = ((self.mean - overall) ** 2).mean()
        return float(self.column_variance.mean() + spread)


def make_kernel(
    kernel: Any,
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    statistics: RowStatistics | None = None,
) -> AnyKernel:
    """Return the kernel object for a user's `kernel`, `gamma`, `degree`, `coef0`.

    `statistics` of the training rows are needed by every built-in kernel with a
    ``gamma`` given in words, and by distance kernels for their shift and scale.
    """
    if callable(kernel):
        return CallableKernel(kernel)
    if kernel == "precomputed":
        return PrecomputedKernel()
    name = str(kernel).removeprefix("normalized-")
    is_mapped = statistics is not None and name in DISTANCE_KERNELS
    exponent = statistics.exponent if statistics is not None and is_mapped else 0
    scaled_gamma, row_map = 1.0, RowMap()
    if name != "linear":
        scaled_gamma = resolve_gamma(gamma, statistics, exponent)
    if statistics is not None and is_mapped:
        row_map = _row_map(statistics, scaled_gamma)
    return Kernel(
        name,
        gamma=scaled_gamma,
        coef0=float(coef0),
        degree=degree,
        normalized=str(kernel).startswith("normalized-"),
        row_map=row_map,
    )


def _row_map(statistics: RowStatistics, gamma: float) -> RowMap:
    """Return the map of rows for a distance kernel.

    A column is shifted by its mean. That is exact where all entries are within a factor
    of two of each other (Sterbenz); else it costs UNIT times the column's range, so a
    column of very wide range stays where it is: there a mean costs no digits.
    """
    if statistics.is_sparse:
        return RowMap(None, statistics.exponent)
    low, high = statistics.low, statistics.high
    is_exact = (low * high > 0) & (
        np.maximum(abs(low), abs(high)) <= 2 * np.minimum(abs(low), abs(high))
    )
    with np.errstate(over="ignore"):
        ranges = high - low
        is_wide = ~(gamma * ranges**2 <= WIDE)
    rounded = ranges[~is_exact & ~is_wide]
    shift = np.where(is_exact | ~is_wide, statistics.mean, 0.0)
    error = profiles.UNIT * float(np.sqrt(rounded @ rounded))
    return RowMap(shift, statistics.exponent, error)


def resolve_gamma(gamma: Any, statistics: RowStatistics | None, exponent: int) -> float:
    """Return gamma for rows that were divided by ``2**exponent``.

    ``"scale"`` is ``1 / (d X.var())``, ``"auto"`` ``1 / d``, ``"mean-distance"``
    ``1 / beta`` with beta the mean squared distance of all pairs of rows, which is
    twice the total variance. Rows that are all equal give 1, as in scikit-learn.
    """
    with np.errstate(over="ignore", under="ignore"):
        if not isinstance(gamma, str):
            return float(min(np.ldexp(float(gamma), 2 * exponent), 1e300))
        assert statistics is not None
        d = max(len(statistics.mean), 1)
        if gamma == "auto":
            return float(min(np.ldexp(1.0 / d, 2 * exponent), 1e300))
        variance = (
            d * statistics.entry_variance
            if gamma == "scale"
            else 2.0 * statistics.total_variance
        )
        if variance <= 0.0:
            return 1.0
        # The variance is in units of 4**statistics.exponent, the rows in 2**exponent.
        return float(np.ldexp(1.0 / variance, 2 * (exponent - statistics.exponent)))


def check_kernel_name(who: str, kernel: Any) -> None:
    """Raise an error that lists the kernels when `kernel` is none of them."""
    if callable(kernel) or kernel in KERNEL_NAMES:
        return
    raise InvalidInputError(
        f"{who}: kernel={kernel!r} is not known. Give one of "
        f"{', '.join(repr(n) for n in _CODES)} (each also as 'normalized-...'), "
        f"'precomputed', or a function k(X, Z) that returns one value per pair of rows."
    )


def _squared_norms(values: Any) -> Array:
    if is_tensor(values):
        return row_sums_of_squares(values)
    with np.errstate(over="ignore"):
        if sparse.issparse(values):
            return np.asarray(values.multiply(values).sum(axis=1)).ravel()
        return np.asarray(np.einsum("ij,ij->i", values, values))


def _inner_products(x: Any, z: Any) -> Array:
    # Overflow is noticed in the values, with an error that says what to do.
    with np.errstate(over="ignore", invalid="ignore"):
        if sparse.issparse(x) and sparse.issparse(z):
            return np.ascontiguousarray((x @ z.T).toarray())
        if sparse.issparse(z):
            return np.ascontiguousarray((z @ x.T).T)
        return np.ascontiguousarray(x @ z.T)


def _are_plain(x: Points, z: Points) -> bool:
    """Whether the compiled loops can read the rows: dense, one after the other."""
    both = x.values, z.values
    return not any(sparse.issparse(v) or not v.flags.c_contiguous for v in both)


def _norms(points: Points, kernel: Kernel) -> Array:
    if points.squares is not None:
        return points.squares
    if kernel.uses_distance:
        return _squared_norms(points.values)
    return np.empty(0, dtype=points.dtype)


def _squared_differences(x: Any, z: Any, near: Array) -> Array:
    """Return the squared distances of one row and some others, sparse or dense."""
    one = x.toarray() if sparse.issparse(x) else x
    step = max(1, _TILE_VALUES // max(one.shape[1], 1))
    parts = []
    for start in range(0, len(near), step):
        others = z[near[start : start + step]]
        others = others.toarray() if sparse.issparse(others) else others
        parts.append(_squared_norms(others - one))
    return np.concatenate(parts)


def _inverse_root(diagonal: Array) -> Array:
    xp = namespace(diagonal)
    if (diagonal < 0).any():
        raise KernelError(
            f"the kernel cannot be normalised: k(x, x) = {diagonal.min():g} for some "
            "row. Use a positive definite kernel (for poly: coef0 >= 0)."
        )
    # A row with k(x, x) = 0 is the zero of the feature space: its values stay 0.
    there_is = diagonal > 0
    roots = xp.sqrt(xp.where(there_is, diagonal, full((), 1.0, diagonal)))
    return there_is / roots


def finite(values: Array, kernel: AnyKernel) -> Array:
    """Return `values` made of kernel values, or raise where they overflowed."""
    if is_finite(values):
        return values
    raise KernelError(
        f"the {kernel.name} kernel overflows on these rows (values are not finite). "
        "Scale the columns (StandardScaler), or lower gamma, coef0 or degree."
    )
