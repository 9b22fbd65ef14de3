"""The Core Vector Machine: a small core set that grows until all rows fit."""

from corevec.solvers.coreset.core import Core, Solver
from corevec.solvers.coreset.loop import (
    MAX_ROWS_WITHOUT_SUBSET,
    core_rows,
    largest_core_set,
    run,
)
from corevec.solvers.coreset.selection import FIRST_SUBSET
from corevec.solvers.coreset.state import Job

__all__ = [
    "FIRST_SUBSET",
    "MAX_ROWS_WITHOUT_SUBSET",
    "Core",
    "Job",
    "Solver",
    "core_rows",
    "largest_core_set",
    "run",
]
