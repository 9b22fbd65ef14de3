"""Kernels that are a profile of the squared distance or of the inner product.

The profiles are compiled in ``backend.loops.kernels``; `Kernel` applies them to rows
that are dense or CSR, float32 or float64, on the host or on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    is_tensor,
    namespace,
    to_device_of,
)
from corevec.backend.loops import kernels as _loops
from corevec.backend.profiles import FEW_COLUMNS
from corevec.exceptions import KernelError
from corevec.kernels.rows import Points, RowMap, Rows, squared_norms

KERNEL_CODES = {
    "rbf": profiles.RBF,
    "laplacian": profiles.LAPLACIAN,
    "inverse-distance": profiles.INVERSE_DISTANCE,
    "linear": profiles.LINEAR,
    "poly": profiles.POLYNOMIAL,
    "sigmoid": profiles.SIGMOID,
}
DISTANCE_KERNELS = ("rbf", "laplacian", "inverse-distance")

# Kernel values computed at a time inside a block. Smaller tiles stay in a nearer cache,
# but the matrix product wants rows: 2**19 was 1.6x faster than 2**16 at d = 784.
TILE_VALUES = 1 << 19
BASIS_PART = 2048
# Functions up to which products with their coefficients are made one by one.
FEW_OUTPUTS = 4
# Columns from which half of a symmetric product is worth mirroring.
WIDE_COLUMNS = 128
# Values below count as this one where a slope divides by a function of them, and scaled
# distances below count as zero: rounding leaves nothing of so small a distance.
_TINY_VALUE, _KINK = 1e-30, 1e-6
# A sparse basis is stored dense while it stays below this many bytes: CSR times dense
# is 5-10x faster than CSR times CSR.
_DENSE_BASIS_BYTES = 1 << 26


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
    def _is_scaled(self) -> bool:
        """Whether values are divided by the roots of k(x, x) and k(z, z)."""
        return self.normalized and not self.uses_distance

    @property
    def _parameters(self) -> profiles.Profile:
        """Code and parameters, as every backend takes them."""
        code, degree = KERNEL_CODES[self.name], float(self.degree)
        return profiles.Profile(code, self.gamma, self.coef0, degree)

    def on_columns(self, columns: Array) -> Kernel:
        """Return this kernel of distances for rows with some of the columns only."""
        return replace(self, row_map=self.row_map.on_columns(columns))

    def with_scale(self, scale: Array) -> Kernel:
        """Return this kernel of distances after column c is multiplied by ``scale[c]``.

        That is the kernel of the diagonal metric ``M = diag(scale**2)``: its squared
        distances are ``(x - z)' M (x - z)``.
        """
        error = self.row_map.error * float(scale.max(initial=0.0))
        row_map = replace(self.row_map, scale=scale, error=2.0 * error)
        return replace(self, row_map=row_map)

    def prepare(self, rows: Rows, dtype: Any = np.float64) -> Points:
        """Return `rows` mapped, in `dtype`, with the norms that the kernel needs."""
        values = self.row_map(rows.values, dtype)
        squares = squared_norms(values) if self._needs_squares(values) else None
        transposed = None
        if self._by_difference(values) and not is_tensor(values):
            transposed = np.ascontiguousarray(values.T)
        diagonal = self._diagonal_of(squares) if self._is_scaled else None
        return Points(values, rows.index, dtype, squares, transposed, diagonal)

    def prepare_basis(self, rows: Rows, dtype: Any = np.float64) -> Points:
        """Return `rows` prepared for many blocks: dense where that is small."""
        values = rows.values
        is_small = values.shape[0] * values.shape[1] * 8 <= _DENSE_BASIS_BYTES
        if not sparse.issparse(values) or not is_small:
            return self.prepare(rows, dtype)
        if values.shape[1] <= FEW_COLUMNS:
            return self.prepare(replace(rows, values=values.toarray()), dtype)
        return self.prepare(rows, dtype).for_sparse_products()

    def block(self, x: Points, z: Points) -> Array:
        """Return kernel values, shape (len(x), len(z)), in the points' precision."""
        x, z = x.to_device_of(z), z.to_device_of(x)
        if is_tensor(x.values):
            return self._tensor_block(x, z)
        if self._by_difference(x.values) and self._by_difference(z.values):
            out = np.empty((len(x), len(z)), dtype=x.dtype)
            _loops.difference_block(self._parameters, x.values, z.transposed, out)
            return out
        out = _inner_products(x.values, z.values)
        norms = _norms(x, self), _norms(z, self)
        if self.uses_distance and not _are_plain(x, z):
            self._distances(x, z, norms, out)
            _loops.profile(*self._parameters, out.reshape(-1))
        elif self.name != "linear":
            rows = (x.values, z.values) if _are_plain(x, z) else (out[:0], out[:0])
            _loops.product_block(self._parameters, *rows, *norms, out)
        if self._is_scaled:
            assert x.diagonal is not None
            assert z.diagonal is not None
            scale = np.outer(inverse_root(x.diagonal), inverse_root(z.diagonal))
            with np.errstate(invalid="ignore"):  # inf * 0, which `finite` refuses
                out *= scale
        return out

    def _distances(
        self, x: Points, z: Points, norms: tuple[Array, Array], out: Array
    ) -> None:
        """Turn inner products into squared distances, in place, for any layout.

        As in `_loops.product_block`, pairs that cancel are computed from differences.
        """
        xx, zz = norms
        cancelled = np.empty(len(x), dtype=bool)
        n_columns = x.values.shape[1]
        _loops.distances(self._parameters, n_columns, xx, zz, out, cancelled)
        for i in np.flatnonzero(cancelled):
            near = np.flatnonzero(out[i] < profiles.NEAR * (xx[i] + zz))
            out[i, near] = _squared_differences(x.values[i : i + 1], z.values, near)

    def rounding(self, n_columns: int, dtype: Any = np.float64) -> float:
        """Return a bound on the error of a float64 value, relative to the largest.

        "Largest" is the largest k(x, x). Included are the roundings of the sums that
        values enter, and for distance kernels those of the row map: an error e of a
        row changes ``exp(-gamma t^2)`` by ``2 sqrt(gamma) e`` at most, and the other
        distance kernels by no more. `dtype` is that of the rows.
        """
        unit = profiles.UNIT
        if not self.uses_distance:
            degree = max(1.0, float(self.degree)) if self.name == "poly" else 1.0
            return unit * (16 + degree * n_columns)
        bound = unit * (16 + n_columns) + 2.0 * np.sqrt(self.gamma) * self.row_map.error
        if n_columns > FEW_COLUMNS or self.row_map.shift is None:
            bound += 0.37 * (n_columns + 4) * unit / profiles.NEAR + profiles.HARMLESS
        return float(bound)

    def single_rounding(self, x: Points, z: Points) -> tuple[Array, Array] | None:
        """Return a bound on the relative errors of float32 values; None if unknown.

        It is ``exp(a_i + b_j) - 1`` for row i of x and row j of z, beside 2**-120: with
        u = 2**-24, ``|x|^2 + |z|^2 - 2 x.z`` of rows in float32 is wrong by up to
        ``2 u (d + 8) (|x|^2 + |z|^2)``, and the exponential by 8 u. Kernels that are
        functions of the distance's root have no useful bound.
        """
        if self.name != "rbf" or sparse.issparse(x.values):
            return None
        slope = 2.0 * profiles.SINGLE_UNIT * self.gamma * (x.values.shape[1] + 8)
        both = (_norms(points, self).astype(np.float64) for points in (x, z))
        rows, basis = (slope * squares for squares in both)
        return rows + 8 * profiles.SINGLE_UNIT, basis

    def times(self, x: Points, z: Points, coef: Array) -> Array:
        """Return ``block(x, z) @ coef`` without storing the block; float64.

        `coef` has shape (len(z), outputs).
        """
        x, z = x.to_device_of(z), z.to_device_of(x)
        if is_tensor(x.values):
            return self._tensor_times(x, z, to_device_of(coef, x.values))
        if self._by_difference(x.values) and self._by_difference(z.values):
            out = np.empty((len(x), coef.shape[1]))
            scratch = np.empty(len(z), dtype=x.dtype)
            coefT = np.ascontiguousarray(coef.T, dtype=x.dtype)
            _loops.difference_times(
                self._parameters, x.values, z.transposed, coefT, scratch, out
            )
            return out
        out = np.zeros((len(x), coef.shape[1]))
        coef = coef.astype(x.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            for points, part in _basis_parts(z):
                step = max(16, TILE_VALUES // max(len(points), 1))
                for start in range(0, len(x), step):
                    rows = slice(start, start + step)
                    values = self.block(x.part(start, start + step), points)
                    _add_product(values, coef[part], out[rows])
        return out

    def _tensor_block(self, x: Points, z: Points) -> Any:
        gpu = _gpu_kernels()
        out = gpu.block(
            self._parameters, *(gpu.Prepared(p.values, p.squares) for p in (x, z))
        )
        if self._is_scaled:
            assert x.diagonal is not None
            assert z.diagonal is not None
            out *= cast(inverse_root(x.diagonal), x.dtype)[:, None]
            out *= cast(inverse_root(z.diagonal), x.dtype)[None, :]
        return out

    def _tensor_times(self, x: Points, z: Points, coef: Any) -> Any:
        if self._is_scaled:
            assert z.diagonal is not None
            coef = coef * inverse_root(z.diagonal)[:, None]
        gpu = _gpu_kernels()
        points = (gpu.Prepared(p.values, p.squares) for p in (x, z))
        out = gpu.times(self._parameters, *points, coef)
        if self._is_scaled:
            assert x.diagonal is not None
            out *= inverse_root(x.diagonal)[:, None]
        return out

    def repeated(self, x: Points, z: Points) -> Callable[[Any], Any]:
        """Return ``coef -> times(x, z, coef)`` of tensors, made ready once."""
        if self._is_scaled:
            return lambda coef: self._tensor_times(x, z, coef)
        gpu = _gpu_kernels()
        points = (gpu.Prepared(p.values, p.squares) for p in (x, z))
        product: Callable[[Any], Any] = gpu.repeated(self._parameters, *points)
        return product

    def diagonal(self, rows: Rows) -> Array:
        """Return k(x, x) for each row (float64)."""
        if self.constant_diagonal:
            if self._is_scaled:
                own = self._diagonal_of(squared_norms(self.row_map(rows.values, "d")))
                return cast(own > 0, np.float64)
            return constant(len(rows), 1.0, rows.values)
        return self._diagonal_of(squared_norms(self.row_map(rows.values, "d")))

    def slope(self, values: Array) -> Array:
        """Return dk/d(squared distance), or dk/d(inner product), at kernel values.

        For all but "sigmoid": the value determines the slope. At distance zero, where
        "laplacian" and "inverse-distance" have a kink, it is 0.
        """
        if self.name == "rbf":
            return -self.gamma * values
        if self.uses_distance:
            return self._slope_at_kink(values)
        if self.name == "linear":
            return namespace(values).ones_like(values)
        root = abs(values) ** (1.0 - 1.0 / self.degree)
        return self.degree * self.gamma * root

    def _slope_at_kink(self, values: Array) -> Array:
        """Return the slope of "laplacian" or "inverse-distance"."""
        xp = namespace(values)
        k = values.clip(_TINY_VALUE, 1.0)
        if self.name == "laplacian":  # exp(-t), t = sqrt(gamma q)
            t, top = -xp.log(k), k
        else:  # 1 / (1 + t)
            t, top = 1.0 / k - 1.0, k * k
        slope = -self.gamma * top / (2.0 * t.clip(_KINK, None))
        return xp.where(t > _KINK, slope, 0.0 * slope)

    def _diagonal_of(self, squares: Array | None) -> Array:
        assert squares is not None
        if is_tensor(squares):
            own = cast(squares, np.float64) * (0.0 if self.uses_distance else 1.0)
            return _gpu_kernels().apply_profile(self._parameters, own)
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
        return by_product or self._is_scaled


def _gpu_kernels() -> Any:
    """Return the kernels of the device; imported late, because they need torch."""
    from corevec.backend import gpu

    return gpu


def _inner_products(x: Any, z: Any) -> Array:
    # `finite` reports an overflow, with an error that says what to do.
    with np.errstate(over="ignore", invalid="ignore"):
        if sparse.issparse(x) and sparse.issparse(z):
            return np.ascontiguousarray((x @ z.T).toarray())
        if sparse.issparse(z):
            return np.ascontiguousarray((z @ x.T).T)
        is_same = not sparse.issparse(x) and x.ctypes.data == z.ctypes.data
        if is_same and x.shape[1] < WIDE_COLUMNS:
            # NumPy then computes a triangle and mirrors it value by value: with 16
            # columns 6 times slower than the whole product.
            z = z.copy()
        return np.ascontiguousarray(x @ z.T)


def _add_product(values: Array, coef: Array, out: Array) -> None:
    """Add ``values @ coef`` to `out`, in place.

    BLAS's matrix products want many columns: two at once took four times as long as
    one after the other (1 million rows, 830 vectors: 0.75 s).
    """
    if coef.shape[1] > FEW_OUTPUTS:
        out += values @ coef
        return
    for c, column in enumerate(np.ascontiguousarray(coef.T)):
        out[:, c] += values @ column


def _basis_parts(z: Points) -> Iterator[tuple[Points, slice]]:
    """Yield the basis in parts for which tiles have rows enough; sparse ones whole.

    A matrix product packs its right side for every tile of rows: with 20,000 basis rows
    and tiles of 26 rows it ran at half the speed.
    """
    if sparse.issparse(z.values) or len(z) <= BASIS_PART or z.values.flags.f_contiguous:
        yield z, slice(None)
        return
    for start in range(0, len(z), BASIS_PART):
        part = slice(start, min(start + BASIS_PART, len(z)))
        yield z.part(part.start, part.stop), part


def _are_plain(x: Points, z: Points) -> bool:
    """Whether the compiled loops can read the rows: dense and C-contiguous."""
    both = x.values, z.values
    return not any(sparse.issparse(v) or not v.flags.c_contiguous for v in both)


def _norms(points: Points, kernel: Kernel) -> Array:
    if points.squares is not None:
        return points.squares
    if kernel.uses_distance:
        return squared_norms(points.values)
    return np.empty(0, dtype=points.dtype)


def _squared_differences(x: Any, z: Any, near: Array) -> Array:
    """Return the squared distances of one row to some others, sparse or dense."""
    one = x.toarray() if sparse.issparse(x) else x
    step = max(1, TILE_VALUES // max(one.shape[1], 1))
    parts = []
    for start in range(0, len(near), step):
        others = z[near[start : start + step]]
        others = others.toarray() if sparse.issparse(others) else others
        parts.append(squared_norms(others - one))
    return np.concatenate(parts)


def inverse_root(diagonal: Array) -> Array:
    """Return ``1 / sqrt(k(x, x))`` of each row, 0 where k(x, x) is 0."""
    xp = namespace(diagonal)
    if (diagonal < 0).any():
        raise KernelError(
            f"the kernel cannot be normalised: k(x, x) = {diagonal.min():g} for some "
            "row. Use a positive definite kernel (for poly: coef0 >= 0)."
        )
    # A row with k(x, x) = 0 is the zero of the feature space: its values stay 0.
    is_positive = diagonal > 0
    roots = xp.sqrt(xp.where(is_positive, diagonal, full((), 1.0, diagonal)))
    return is_positive / roots
