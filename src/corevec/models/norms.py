"""Norms of sums of rows in the kernel's space, for any number of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import is_tensor, to_numpy
from corevec.data.sources import Source, Workers
from corevec.kernels import AnyKernel, Rows

# Rows per part of a sum: two parts and the values between them stay in cache.
_PART_ROWS = 2048
# Of rows with many numbers each fewer, so that a block of them has 8 MB.
_PART_NUMBERS, _MIN_PART_ROWS = 1 << 20, 256


def parts_of(numbers: Array, width: int = 1) -> list[slice]:
    """Return parts of some rows, each small enough to be worked on at once.

    `width` is how many numbers the work stores for each row of a part.
    """
    most, numbers_of_part = _PART_ROWS, _PART_NUMBERS
    if is_tensor(numbers):  # a GPU is busy with more: 256 MB
        most, numbers_of_part = _PART_ROWS << 10, _PART_NUMBERS << 5
    step = min(most, max(_MIN_PART_ROWS, numbers_of_part // max(width, 1)))
    return [slice(s, s + step) for s in range(0, len(numbers), step)]


def norms_sq(
    source: Source, kernel: AnyKernel, numbers: Array, coef: Array
) -> tuple[Array, float]:
    """Return ``|sum_i coef[i, t] phi(x_i)|^2`` for each t, and the largest |k_ii|.

    Part by part of the symmetric matrix: memory does not grow with the rows.
    """
    numbers = source.numbers_on_device(numbers)

    def pick(part: slice) -> Rows:
        return source.pick(numbers[part])

    parts = parts_of(numbers, source.picked_entries)
    return _norms_sq(pick, parts, kernel, coef, source.part_workers)


def norms_sq_of_rows(
    rows: Rows, kernel: AnyKernel, coef: Array, workers: Workers
) -> Array:
    """Return ``|sum_i coef[i, t] phi(x_i)|^2`` of any vectors, rounded up."""

    def take(part: slice) -> Rows:
        return Rows(rows.values[part], rows.index[part])

    parts = parts_of(rows.index)
    total, diagonal = _norms_sq(take, parts, kernel, coef, workers)
    relative = kernel.rounding(rows.values.shape[1], rows.values.dtype)
    rounding = relative * np.abs(coef).sum(axis=0) ** 2 * diagonal
    return np.asarray(np.maximum(total, 0.0) + rounding)


def _norms_sq(
    take: Callable[[slice], Rows],
    parts: list[slice],
    kernel: AnyKernel,
    coef: Array,
    workers: Workers,
) -> tuple[Array, float]:
    def product(pair: tuple[slice, slice]) -> Array:
        left = kernel.prepare(take(pair[0]))
        right = kernel.prepare_basis(take(pair[1]))
        values = to_numpy(kernel.times(left, right, coef[pair[1]]))
        twice = 1.0 if pair[0] == pair[1] else 2.0
        return np.asarray(twice * np.einsum("it,it->t", coef[pair[0]], values))

    def largest(part: slice) -> float:
        own = abs(kernel.diagonal(take(part)))
        return float(own.max()) if len(own) else 0.0

    pairs = [(p, q) for i, p in enumerate(parts) for q in parts[i:]]
    total = np.zeros(coef.shape[1])
    for part in workers.run(product, pairs):
        total += part
    return total, max(workers.run(largest, parts), default=0.0)
