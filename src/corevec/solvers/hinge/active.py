"""Which entries will have a multiplier: predicted by the function of a sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from corevec._runtime.types import Array
from corevec.problems import BoxProblem

# Rows of the first sample, and how many times larger the next one is.
FIRST_ROWS, GROWTH = 3000, 8
# Bounds on a sample grow with what its rows stand for, up to this: a stiff problem is
# slow, and the sample only a start.
SAMPLE_SLACK = 10.0
# Entries beside those with a multiplier or a violation that are active too, as a share
# of these and at least.
BAND_SHARE, LEAST_BAND = 1.0, 2000
# More active entries than this share are all entries.
MOST_OF_ALL = 0.8


@dataclass(frozen=True)
class Guess:
    """Feasible signed multipliers, and ``p_e - y_e (f_e + bias)`` of each entry."""

    signed: Array
    slack: Array

    def of_sample(self, part: BoxProblem, few: Array, ratio: float) -> Guess:
        """Return the guess for the entries of a sample, bounds `ratio` as large."""
        slack = self.slack[few]
        return Guess(part.feasible(ratio * self.signed[few], -slack), slack)


def blank_guess(problem: BoxProblem) -> Guess:
    """Return a guess that knows nothing: any entry may get a multiplier."""
    nothing = np.zeros(len(problem.rows))
    return Guess(problem.feasible(nothing), nothing + np.inf)


def predicted(problem: BoxProblem, values: Array) -> Guess:
    """Return what a function with these values says about all entries.

    Entries beyond the edge have their largest multiplier, others none; the bias is the
    one at which the sums are met.
    """
    slack = problem.measure(np.zeros(len(values)), values).slack
    multipliers = np.where(slack > 0, problem.upper, 0.0)
    return Guess(problem.feasible(problem.sign * multipliers, np.abs(slack)), slack)


def active_entries(guess: Guess, problem: BoxProblem) -> Array:
    """Return the entries that have a multiplier, may get one, or nearly may."""
    present = problem.upper > 0
    is_active = present & ((guess.signed != 0) | (guess.slack > 0))
    others = np.flatnonzero(present & ~is_active)
    n_active = int(is_active.sum())
    band = int(BAND_SHARE * n_active) + LEAST_BAND
    if n_active + band > MOST_OF_ALL * present.sum():
        return np.flatnonzero(present)
    if len(others) > band:
        others = others[np.argpartition(-guess.slack[others], band)[:band]]
    return np.union1d(np.flatnonzero(is_active), others)


def samples(place: Array, random_state: int | None) -> Iterator[Array]:
    """Yield the entries of growing random samples of the rows, the smallest first.

    `place` numbers the row of each entry from 0. Nothing is yielded for few rows.
    """
    n = int(place.max()) + 1
    size, sizes = n, []
    while size > 2 * FIRST_ROWS:
        size = max(size // GROWTH, FIRST_ROWS)
        sizes.append(size)
    if not sizes:
        return
    order = np.random.default_rng(random_state).permutation(n)[place]
    for size in sizes[::-1]:
        yield np.flatnonzero(order < size)


def sample_problem(problem: BoxProblem, few: Array) -> tuple[BoxProblem, float]:
    """Return the problem of a sample, and how many times larger its bounds are."""
    upper = problem.upper
    ratio = float(upper.sum()) / max(float(upper[few].sum()), 1e-300)
    if problem.linear.any():  # else all scales are alike
        ratio = float(np.clip(SAMPLE_SLACK / upper.max(), 1.0, ratio))
    totals = []
    for g, total in enumerate(problem.totals):
        own = upper * (problem.group == g)
        share = float(own[few].sum()) / max(float(own.sum()), 1e-300)
        totals.append(ratio * share * total)
    return replace(problem.restricted(few, ratio), totals=tuple(totals)), ratio
