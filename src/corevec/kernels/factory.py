"""The kernel object for what the user asks for: a name, a matrix or a function."""

from __future__ import annotations

from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend import profiles
from corevec.backend.arrays import is_finite
from corevec.exceptions import InvalidInputError, KernelError
from corevec.kernels.custom import CallableKernel, PrecomputedKernel
from corevec.kernels.kernel import DISTANCE_KERNELS, KERNEL_CODES, Kernel
from corevec.kernels.rows import RowMap, RowStatistics

AnyKernel = Kernel | PrecomputedKernel | CallableKernel

KERNEL_NAMES = (
    *KERNEL_CODES,
    *(f"normalized-{name}" for name in KERNEL_CODES),
    "precomputed",
)

# A column is wide if gamma times its squared range is more: shifted rows would add an
# error of 2e-13 to kernel values.
WIDE_RANGE = 1e6
# The square of such a value, times the largest C and summed over the rows, is a number.
MAX_KERNEL_VALUE = 1e100


def make_kernel(
    kernel: Any,
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    statistics: RowStatistics | None = None,
) -> AnyKernel:
    """Return the kernel object for a user's `kernel`, `gamma`, `degree`, `coef0`.

    `statistics` of the training rows are needed by every built-in kernel with a
    ``gamma`` given as a word, and by distance kernels for their shift and scale.
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
    found = Kernel(
        name,
        gamma=scaled_gamma,
        coef0=float(coef0),
        degree=degree,
        normalized=str(kernel).startswith("normalized-"),
        row_map=row_map,
    )
    if statistics is not None:
        _refuse_huge_values(found, statistics)
    return found


def _refuse_huge_values(kernel: Kernel, statistics: RowStatistics) -> None:
    """Raise where the squares of kernel values, and their sums, may be no numbers."""
    if kernel.name not in ("linear", "poly") or kernel.normalized:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        mean_square = statistics.column_variance + statistics.mean**2
        norm_sq = np.ldexp(mean_square.sum(), 2 * statistics.exponent)
        value = norm_sq
        if kernel.name == "poly":
            value = np.power(kernel.gamma * norm_sq + abs(kernel.coef0), kernel.degree)
    if np.isnan(value):  # 0 * inf: gamma or the squares are no numbers
        value = np.inf
    if value > MAX_KERNEL_VALUE:
        raise KernelError(
            f"the {kernel.name} kernel overflows on these rows: of values of the size "
            f"{value:.0e}, above {MAX_KERNEL_VALUE:g}, the sums of squares leave the "
            "range of floating-point numbers. Scale the columns (StandardScaler), or "
            "lower gamma, coef0 or degree."
        )


def _row_map(statistics: RowStatistics, gamma: float) -> RowMap:
    """Return the map of rows for a distance kernel.

    A column is shifted by its mean. That is exact where all entries are within a factor
    of two of each other (Sterbenz); otherwise the rounding error is UNIT times the
    column's range, so a column of very wide range is not shifted: its mean is too small
    beside the range to cost digits.
    """
    if statistics.is_sparse:
        return RowMap(None, statistics.exponent)
    low, high = statistics.low, statistics.high
    is_exact = (low * high > 0) & (
        np.maximum(abs(low), abs(high)) <= 2 * np.minimum(abs(low), abs(high))
    )
    with np.errstate(over="ignore"):
        ranges = high - low
        is_wide = ~(gamma * ranges**2 <= WIDE_RANGE)
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


def scale_of(kernel: AnyKernel) -> Array | None:
    """Return the roots of the learned metric of a kernel; None where it has none."""
    return kernel.row_map.scale if isinstance(kernel, Kernel) else None


def check_kernel_name(who: str, kernel: Any) -> None:
    """Raise an error that lists the kernels when `kernel` is none of them."""
    if callable(kernel) or kernel in KERNEL_NAMES:
        return
    raise InvalidInputError(
        f"{who}: kernel={kernel!r} is not known. Give one of "
        f"{', '.join(repr(n) for n in KERNEL_CODES)} (each also as 'normalized-...'), "
        "'precomputed', or a function k(X, Z) that returns one value per pair of "
        "rows.",
        parameter="kernel",
    )


def finite(values: Array, kernel: AnyKernel) -> Array:
    """Return `values`, or raise `KernelError` where kernel values overflowed."""
    if is_finite(values):
        return values
    if isinstance(kernel, CallableKernel):
        raise KernelError(
            "the kernel function returned values that are not finite on these rows. "
            "It must return one finite number per pair of rows."
        )
    raise KernelError(
        f"the {kernel.name} kernel overflows on these rows (values are not finite). "
        "Scale the columns (StandardScaler), or lower gamma, coef0 or degree."
    )


def rounding_share(kernel: AnyKernel, values: Any) -> float:
    """Return the share of the largest k(x, x) below which a pivot is rounding.

    Values that are given in float32 are a positive definite matrix plus errors of up to
    a unit u each. The norm of n x n random ones is some u sqrt(n), and several times
    that where the values are sums in float32 themselves. Values that are computed here
    are exact enough for the thresholds of the callers: 0.
    """
    unit = kernel.rounding(1, values.dtype) - kernel.rounding(1)
    return float(16 * np.sqrt(values.shape[0]) * unit)
