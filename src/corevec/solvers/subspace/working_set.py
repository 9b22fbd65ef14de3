"""The rows that are worked on: all, or as many as the memory budget allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corevec.certificates.scan import Subset
from corevec.data.sources import Source
from corevec.problems.family import Problem
from corevec.solvers.subspace import iterative as subspace


def view_that_fits(
    problems: list[Problem], source: Source, rng: np.random.Generator
) -> tuple[Source, list[Problem]]:
    """Return all rows, or as many random ones as the budget allows to work on.

    Each of those then stands for n/m rows. Rows of a device are left there, and have
    its room.
    """
    most = subspace.rows_that_fit(problems, source)
    every_row = source.working_copy() if source.n_rows <= most else None
    if every_row is not None:
        return every_row, problems
    view = source.subset(source.draw(rng, min(most, source.most_drawn)), Subset)
    ratio = source.n_rows / view.n_rows
    return view, [replace(one, slack=one.slack * ratio) for one in problems]
