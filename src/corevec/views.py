"""The rows that are worked on: all, or as many as the memory budget allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corevec import coreset, subspace
from corevec.oracle import Subset
from corevec.problems import Problem
from corevec.sources import Source


def view_that_fits(
    problems: list[Problem], source: Source, rng: np.random.Generator
) -> tuple[Source, list[Problem]]:
    """Return all rows, or as many random ones as the budget allows to work on.

    Each of those then stands for n/m rows.
    """
    most = subspace.rows_that_fit(problems, source)
    if source.n_rows <= most and source.holds(source.n_rows):
        return source.near(source.numbers), problems
    size = min(most, coreset.rows_that_fit(source))
    drawn = source.draw(rng, size)
    view = source.alone(drawn) if source.is_on_device else Subset(source, drawn)
    ratio = source.n_rows / view.n_rows
    return view, [replace(one, slack=one.slack * ratio) for one in problems]
