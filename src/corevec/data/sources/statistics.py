"""Mean, variance and range of each column, from one pass over the rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import cast, full, namespace, to_numpy
from corevec.data.sources.base import Source
from corevec.data.sources.columns import Column, of_rows
from corevec.kernels import RowMap, Rows, RowStatistics

T = TypeVar("T")


def row_statistics(source: Source, weights: Column | None = None) -> RowStatistics:
    """Return mean and variance of each column, weighted by `weights`.

    Merged block by block (Chan, Golub, LeVeque 1979), so columns near 1e6 lose no
    digits. One pass; a second one where squares are out of range, with the power of
    two that keeps them there.
    """
    return statistics_and(source, weights, lambda _: None, lambda a, b: None)[0]


def statistics_and(
    source: Source,
    weights: Column | None,
    look: Callable[[Rows], T],
    join: Callable[[T, T], T],
) -> tuple[RowStatistics, T]:
    """Return the statistics of the columns, and ``source.reduce(look, join)``.

    One pass gives both; each block is given to `look` first.
    """

    def score(rows: Rows, exponent: int = 0) -> Any:
        found = look(rows)
        w = None if weights is None else of_rows(weights, rows)
        with np.errstate(over="ignore", invalid="ignore"):
            return _ranges(rows), _moments(rows, exponent, w), found

    def merge(a: Any, b: Any) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            (low, high), (other_low, other_high) = a[0], b[0]
            ranges = np.minimum(low, other_low), np.maximum(high, other_high)
            return ranges, _merge_moments(a[1], b[1]), join(a[2], b[2])

    (low, high), (_, mean, second), found = source.reduce(score, merge)
    largest = float(max(high.max(initial=0.0), -low.min(initial=0.0)))
    exponent = 0
    # Squares of entries within 1e-9..1e9 are safe in float32 too: leave those alone.
    if largest > 0 and not 1e-9 < largest < 1e9:
        exponent = int(np.frexp(largest)[1])
        again = partial(score, exponent=exponent)
        _, (_, mean, second), _ = source.reduce(again, merge)
    low, high = np.ldexp(low, -exponent), np.ldexp(high, -exponent)
    if not source.is_sparse:
        # Sums of equal entries are rounded: a constant column would vary by 1e-32.
        is_constant = low == high
        mean, second = (
            np.where(is_constant, low, mean),
            np.where(is_constant, 0, second),
        )
    return RowStatistics(mean, second, exponent, source.is_sparse, low, high), found


def _ranges(rows: Rows) -> tuple[Array, Array]:
    """Return the least and the largest entry of each column; of all, if sparse."""
    values = rows.values
    if hasattr(values, "indptr"):
        values = values.data.reshape(-1, 1)
    if 0 in values.shape:
        nothing = np.full(values.shape[1], np.inf)
        return nothing, -nothing
    xp = namespace(values)
    low, high = xp.min(values, axis=0), xp.max(values, axis=0)
    return to_numpy(cast(low, np.float64)), to_numpy(cast(high, np.float64))


def _moments(
    rows: Rows, exponent: int, weights: Array | None
) -> tuple[float, Array, Array]:
    """Return (total weight, mean, variance) of the columns of one block."""
    values = rows.values
    w = full(len(rows), 1.0, rows.index)
    if weights is not None:
        w = cast(weights, np.float64)
    total = float(w.sum())
    scale = w / total if total > 0 else w
    if hasattr(values, "indptr"):
        scaled = values.astype(np.float64)
        scaled.data = np.ldexp(scaled.data, -exponent)
        mean = np.asarray(scaled.T @ scale).ravel()
        squares = np.asarray(scaled.multiply(scaled).T @ scale).ravel()
        return total, mean, np.maximum(squares - mean**2, 0.0)
    values = RowMap(None, exponent)(values, np.float64)
    mean = scale @ values
    return total, to_numpy(mean), to_numpy(scale @ (values - mean) ** 2)


def _merge_moments(
    a: tuple[float, Array, Array], b: tuple[float, Array, Array]
) -> tuple[float, Array, Array]:
    total = a[0] + b[0]
    if total <= 0:
        return a
    left, right = a[0] / total, b[0] / total
    step = b[1] - a[1]
    variance = left * a[2] + right * b[2] + left * right * step**2
    return total, a[1] + right * step, variance
