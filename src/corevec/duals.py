"""The exact dual value of given multipliers, for any number of entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from corevec.kernels import AnyKernel
from corevec.problems import Problem, Terms
from corevec.sources import Source

Array = npt.NDArray[Any]

# Entries per part of the sum: two parts and the values between them stay in cache.
_PART = 2048
_EPS = float(np.finfo(np.float64).eps)


def dual_of_entries(
    problem: Problem, source: Source, kernel: AnyKernel, entries: Array, b: Array
) -> float:
    """Return the dual value of multipliers `b` of `entries`.

    Part by part of the symmetric matrix: memory does not grow with their number.
    """
    if len(entries) == 0 or b.sum() <= 0:
        return problem.least
    rows, side = problem.rows_of(entries), problem.side_of(entries)
    parts = [slice(s, s + _PART) for s in range(0, len(entries), _PART)]

    def own(part: slice) -> tuple[Terms, float]:
        taken = source.take(rows[part])
        largest = float(np.abs(kernel.diagonal(taken)).max())
        return problem.terms(taken, kernel, side[part]), largest

    found = list(source.workers.run(own, parts))
    terms, diagonal = Terms.join([one for one, _ in found]), max(d for _, d in found)
    if not (terms.omega > 0).all():
        return problem.least
    signed = b * terms.sign

    def product(pair: tuple[slice, slice]) -> float:
        left = kernel.prepare(source.take(rows[pair[0]]))
        right = kernel.prepare_basis(source.take(rows[pair[1]]))
        values = kernel.times(left, right, signed[pair[1], None])[:, 0]
        twice = 1.0 if pair[0] == pair[1] else 2.0
        return twice * float(signed[pair[0]] @ values)

    pairs = [(p, q) for i, p in enumerate(parts) for q in parts[i:]]
    curve = sum(source.workers.run(product, pairs))
    curve += signed.sum() ** 2 if problem.has_bias else 0.0
    curve += 0.0 if problem.is_hard else float(b @ (b / terms.omega))
    curve += 8 * _EPS * float(b.sum()) ** 2 * diagonal
    slope = float(terms.target @ b)
    return problem.dual_at_best_scale(slope, curve, float(b.sum()))
