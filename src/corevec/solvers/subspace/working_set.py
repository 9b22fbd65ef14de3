"""The rows that are worked on: all, or as many as the memory budget allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corevec.certificates.scan import Subset
from corevec.data.sources import Source
from corevec.data.sources.budget import rows_within
from corevec.problems.family import Problem

# Float64 numbers of a row: of each entry (terms, values, violations, steps), and of the
# row itself (three design columns among them).
NUMBERS_PER_ENTRY, NUMBERS_PER_ROW = 11, 8


def rows_that_fit(problems: list[Problem], source: Source) -> int:
    """Return for how many rows half of the memory budget holds the numbers per row.

    On a device the budget is that of the device, also for rows that are streamed to it.
    Where not all rows fit, those that do are copied, too: on a device CSR rows are
    dense.
    """
    numbers = NUMBERS_PER_ENTRY, NUMBERS_PER_ROW
    row_bytes = 8 * sum(numbers[0] * len(one.sides) + numbers[1] for one in problems)
    half = source.working_budget / 2
    if source.n_rows * row_bytes > half:
        row_bytes += source.subset_row_bytes
    return rows_within(half, row_bytes)


def view_that_fits(
    problems: list[Problem], source: Source, rng: np.random.Generator
) -> tuple[Source, list[Problem]]:
    """Return all rows, or as many random ones as the budget allows to work on.

    Each of those then stands for n/m rows, and the problems' C is scaled by that. Rows
    on a device stay there.
    """
    most = rows_that_fit(problems, source)
    every_row = source.working_copy() if source.n_rows <= most else None
    if every_row is not None:
        return every_row, problems
    view = source.subset(source.draw(rng, min(most, source.most_drawn)), Subset)
    ratio = source.n_rows / view.n_rows
    return view, [replace(one, slack=one.slack * ratio) for one in problems]
