"""Probabilities of a detector, from bins of the decision values of training rows.

Without labels nothing can be calibrated. As in LIBSVM since version 3.31 (Que and Lin
2025, "One-class SVM probabilistic outputs"), a probability says where a decision value
lies among those of the training rows: each side of the boundary is cut into bins of
equal weight, whose probabilities grow from 0.05 to 0.45 among outliers, and from 0.55
to 0.95 among inliers. The number of bins and these values are ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import namespace, to_device_of
from corevec.certificates.scan import Subset
from corevec.data.sources import Source
from corevec.estimators._dataset import weights_of
from corevec.kernels import Rows

# Bins on each side of the boundary.
N_BINS = 5
# Training rows that the marks are measured on: the share of a bin is then within 0.003
# (one standard deviation of 20 % of the rows).
MARKED_ROWS = 20_000
# Scores closer than this, relative to the largest, may be equal but for rounding: the
# sums behind them are taken in blocks whose shape depends on the other rows.
_SAME_SCORE = 1e-10


def marks_of(decisions: Array, weights: Array) -> Array:
    """Return the decision values between the bins, ascending; the middle one is 0.

    A side without rows has no bins but the outermost.
    """
    sides = [decisions < 0, decisions >= 0]
    low, high = (_between_bins(decisions[own], weights[own]) for own in sides)
    return np.concatenate([low, [0.0], np.maximum(high, 0.0)])


def _between_bins(values: Array, weights: Array) -> Array:
    """Return the values that cut the weight into `N_BINS` equal parts."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    if len(below) == 0 or below[-1] <= 0:
        return np.zeros(N_BINS - 1)
    shares = np.arange(1, N_BINS) / N_BINS
    firsts = np.searchsorted(below, shares * below[-1], side="right")
    return np.array([just_below(values[order], first) for first in firsts])


def just_below(scores: Array, first: int) -> float:
    """Return a number below the score at `first` that is the score of no row.

    `scores` are sorted. A row whose score were the offset itself would change its label
    with the rounding of that score.
    """
    kept = float(scores[first])
    space = _SAME_SCORE * float(np.abs(scores).max())
    lower = scores[:first][scores[:first] < kept - space]
    return (kept + float(lower[-1])) / 2 if len(lower) else kept - space


def probabilities(decisions: Array, marks: Array) -> Array:
    """Return the probability of an outlier and of an inlier, shape (n_rows, 2)."""
    xp = namespace(decisions)
    place = xp.searchsorted(to_device_of(marks, decisions), decisions, side="right")
    inlier = (place + 0.5) / (2 * N_BINS)
    found: Array = xp.stack([1.0 - inlier, inlier], axis=1)
    return found


def scores_of(
    functions: Any, source: Source, weights: Any, most: int, seed: int
) -> tuple[Array, Array]:
    """Return the scores and weights of the rows, or of `most` drawn from them."""
    view: Source = source
    if source.n_rows > most:
        view = Subset(source, source.draw(np.random.default_rng(seed), most))
    ready = functions.ready()

    def score(rows: Rows) -> Array:
        values = ready(rows)[:, 0]
        own = weights_of(weights, rows)
        return namespace(values).stack([values, own], axis=1)

    values, own = view.map(score).T
    return values, own


__all__ = ["MARKED_ROWS", "just_below", "marks_of", "probabilities", "scores_of"]
