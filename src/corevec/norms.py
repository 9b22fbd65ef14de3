"""Norms of sums of rows in the kernel's space, for any number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from corevec.kernels import AnyKernel
from corevec.sources import Source

Array = npt.NDArray[Any]

# Rows per part of a sum: two parts and the values between them stay in cache.
_PART = 2048
# Of rows with many numbers each fewer: a block of them has 8 MB.
_PART_NUMBERS, _FEWEST = 1 << 20, 256


def parts_of(numbers: Array, width: int = 1) -> list[slice]:
    """Return parts of some rows, each small enough to be worked on at once.

    `width`: how many numbers the work makes of a row, where it keeps those of a part.
    """
    step = min(_PART, max(_FEWEST, _PART_NUMBERS // max(width, 1)))
    return [slice(s, s + step) for s in range(0, len(numbers), step)]


def norms_sq(
    source: Source, kernel: AnyKernel, numbers: Array, coef: Array
) -> tuple[Array, float]:
    """Return ``|sum_i coef[i, t] phi(x_i)|^2`` for each t, and the largest |k_ii|.

    Part by part of the symmetric matrix: memory does not grow with the rows.
    """
    parts = parts_of(numbers)

    def product(pair: tuple[slice, slice]) -> Array:
        left = kernel.prepare(source.take(numbers[pair[0]]))
        right = kernel.prepare_basis(source.take(numbers[pair[1]]))
        values = kernel.times(left, right, coef[pair[1]])
        twice = 1.0 if pair[0] == pair[1] else 2.0
        return np.asarray(twice * np.einsum("it,it->t", coef[pair[0]], values))

    def largest(part: slice) -> float:
        own = kernel.diagonal(source.take(numbers[part]))
        return float(np.abs(own).max(initial=0.0))

    pairs = [(p, q) for i, p in enumerate(parts) for q in parts[i:]]
    total = np.zeros(coef.shape[1])
    for part in source.workers.run(product, pairs):
        total += part
    return total, max(source.workers.run(largest, parts), default=0.0)
