"""The rows that are worked on: all, or as many as the memory budget allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corevec.certificates.scan import Subset
from corevec.data.sources import Source
from corevec.data.sources.budget import rows_that_fit as rows_to_copy
from corevec.problems.family import Problem

# Rows of a device that are drawn at most, where all are too many: their numbers are
# drawn and sorted on the host, which takes 2 s for so many.
MAX_DRAWN = 10_000_000
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
    half = source.room / 2
    if source.n_rows * row_bytes > half:
        entries = source.n_features if source.is_on_device else source.row_entries
        row_bytes += np.dtype(source.dtype).itemsize * entries
    return int(half / row_bytes)


def view_that_fits(
    problems: list[Problem], source: Source, rng: np.random.Generator
) -> tuple[Source, list[Problem]]:
    """Return all rows, or as many random ones as the budget allows to work on.

    Each of those then stands for n/m rows, and the problems' C is scaled by that. Rows
    on a device stay there.
    """
    most = rows_that_fit(problems, source)
    if source.n_rows <= most and source.is_on_device:
        return source, problems
    if source.n_rows <= most and source.holds(source.n_rows):
        return source.near(source.numbers), problems
    if source.is_on_device:
        view = source.alone(source.draw(rng, min(most, MAX_DRAWN)))
    else:
        size = min(most, rows_to_copy(source))
        view = Subset(source, source.draw(rng, size))
    ratio = source.n_rows / view.n_rows
    return view, [replace(one, slack=one.slack * ratio) for one in problems]
