"""New basis vectors: rows where the functional gradient is largest beyond the span.

At weights that are best in the span of B, the functional gradient of the objective is
``g = sum_i r_i k(x_i, .) - f`` with the multipliers r. Orthogonal matching pursuit
chooses the row of the largest ``g(x)^2 / delta^2``, with ``delta^2`` what the span
leaves of k(x, x), takes what it explains away from the gradient at the others, and goes
on. For m candidates and s new vectors: m^2 kernel values and m s^2 products.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import (
    empty,
    full,
    namespace,
    places,
    to_device_of,
    to_numpy,
)
from corevec.models.certificate import relative_gap
from corevec.solvers.basis.variable_projection import RIDGE, Part
from corevec.solvers.numeric.deadline import Deadline


class Candidates(NamedTuple):
    """Rows that may become basis vectors."""

    values: Any  # mapped rows, on the device of the part
    g: Array  # the functional gradient at each, a column per problem
    K: Array  # what the present span leaves of their kernel matrix
    gap: float  # the largest relative gap, estimated from these rows


def draw_candidates(
    part: Part, B: Array, n_wanted: int, rng: np.random.Generator
) -> Candidates:
    """Return `n_wanted` random rows among those that pull, or all of these."""
    if not part.v:
        part.pull_from_zero()
    pulling = part.pulling()
    if len(pulling) == 0:
        pulling = places(part.pulls[:, 0] == 0)  # all rows
    count = min(len(pulling), n_wanted)
    drawn = np.sort(rng.choice(len(pulling), count, replace=False))
    at = pulling[to_device_of(drawn, pulling)]
    g, K, values = part.functional_gradient(B, at)
    # At the best weights primal - dual = |g|^2/2, and |g|^2 = sum_i r_i g(x_i).
    halves = to_numpy(len(pulling) / count * (part.pulls[at] * g).sum(axis=0) / 2)
    gaps = [
        relative_gap(worth, worth - half)
        for worth, half in zip(part.worths, halves, strict=False)
    ]
    return Candidates(values, g, K, max(gaps, default=np.inf))


def best_candidates(
    found: Candidates, size: int, is_first: bool, deadline: Deadline | None = None
) -> Any:
    """Return at most `size` of the candidates; at least one where there is no basis."""
    chosen = _pursue(found.g, found.K, size, deadline)
    if not chosen and is_first:
        chosen = [0]  # rows that contradict each other pull nowhere: f = 0 is best
    return found.values[chosen]


def _pursue(g: Array, K: Array, size: int, deadline: Deadline | None) -> list[int]:
    xp, infinite = namespace(K), full((), np.inf, K)
    own = 1.0 * K.diagonal()
    floor = RIDGE * float(own.clip(min=0.0).max())
    # Of the factor of K, whose pivots are chosen; a row of it for each.
    columns = empty((min(size, len(own)), len(own)), K)
    chosen: list[int] = []
    while len(chosen) < len(columns):
        if deadline is not None and deadline.is_over():
            break
        gain = (g**2).sum(axis=1) / xp.where(own > floor, own, infinite)
        best, j = int(xp.argmax(gain)), len(chosen)
        if float(gain[best]) <= 0:
            break
        column = K[:, best] - columns[:j, best] @ columns[:j]
        column /= xp.sqrt(own[best])
        g = g - column[:, None] * g[best] / column[best]
        own -= column**2
        own[best] = 0.0
        columns[j] = column
        chosen.append(best)
    return chosen
