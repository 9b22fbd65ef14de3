"""Values of one function per pair of classes, on the rows of its two classes.

Of the kernel values of all rows with all support vectors few are needed: a row of class
c is judged by the K - 1 pairs of c, and of class d by those support vectors alone that
the pair (c, d) has. Of mnist's ten classes that is a third.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import Workers
from corevec.kernels import AnyKernel, Rows

# Rows of one class that are evaluated at a time.
PASS_ROWS = 256
# Classes of a pair.
Pair = tuple[int | None, int | None]


@dataclass(frozen=True)
class _Block:
    """Rows of a class, with the support vectors of a class that they need."""

    start: int
    stop: int
    basis: Array
    pairs: list[int]


def values_of_pairs(
    kernel: AnyKernel,
    rows: Rows,
    codes: Array,
    coef: Array,
    pairs: list[Pair],
    workers: Workers,
) -> Array:
    """Return values of one function per pair of classes, 0 at rows of other classes.

    Rows are sorted by `codes`; `coef` has shape (rows, pairs).
    """
    out = np.zeros(coef.shape)

    def fill(block: _Block) -> None:
        few = Rows(rows.values[block.basis], rows.index[block.basis])
        basis = kernel.prepare_basis(few, np.float64)
        own = coef[block.basis][:, block.pairs]
        for start in range(block.start, block.stop, PASS_ROWS):
            part = slice(start, min(start + PASS_ROWS, block.stop))
            points = Rows(rows.values[part], rows.index[part])
            values = kernel.times(kernel.prepare(points, np.float64), basis, own)
            out[part, block.pairs] += values

    # Blocks of different classes first: those of a class with itself add to the same
    # places, and are not run beside them.
    for blocks in _blocks(codes, coef, pairs):
        list(workers.run(fill, blocks))
    return out


def _blocks(codes: Array, coef: Array, pairs: list[Pair]) -> list[list[_Block]]:
    """Return the blocks between classes, and those within one, the largest first."""
    classes = np.unique(codes)
    starts = np.searchsorted(codes, classes)
    stops = np.searchsorted(codes, classes, side="right")
    ranges = {int(c): (a, b) for c, a, b in zip(classes, starts, stops, strict=True)}

    def block(c: int, d: int, which: list[int]) -> _Block:
        start, stop = ranges[d]
        used = start + np.flatnonzero(coef[start:stop, which].any(axis=1))
        return _Block(*ranges[c], used, which)

    between, within = [], []
    for c in ranges:
        own = [t for t, pair in enumerate(pairs) if c in pair]
        within.append(block(c, c, own))
        for t in own:
            other = pairs[t][0] if pairs[t][1] == c else pairs[t][1]
            if other in ranges:
                between.append(block(c, int(other), [t]))
    return [
        sorted(
            (one for one in some if len(one.basis)),
            key=lambda one: -len(one.basis) * (one.stop - one.start),
        )
        for some in (between, within)
    ]
