"""The rows that are worked on: all, or as many as the memory budget allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corevec.certificates.scan import Subset
from corevec.data.sources import Source
from corevec.data.sources.budget import rows_that_fit
from corevec.problems.family import Problem
from corevec.solvers.subspace import iterative as subspace

# Rows of a device that are drawn at most, where all are too many: their numbers are
# drawn and sorted here, which takes 2 s for so many.
MOST_DRAWN = 10_000_000


def view_that_fits(
    problems: list[Problem], source: Source, rng: np.random.Generator
) -> tuple[Source, list[Problem]]:
    """Return all rows, or as many random ones as the budget allows to work on.

    Each of those then stands for n/m rows. Rows of a device are left there, and have
    its room.
    """
    most = subspace.rows_that_fit(problems, source)
    if source.n_rows <= most and source.is_on_device:
        return source, problems
    if source.n_rows <= most and source.holds(source.n_rows):
        return source.near(source.numbers), problems
    if source.is_on_device:
        view = source.alone(source.draw(rng, min(most, MOST_DRAWN)))
    else:
        size = min(most, rows_that_fit(source))
        view = Subset(source, source.draw(rng, size))
    ratio = source.n_rows / view.n_rows
    return view, [replace(one, slack=one.slack * ratio) for one in problems]
