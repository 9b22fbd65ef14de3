"""Exact local machines in the cells of a balanced tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corevec.solvers.cells.cell import rows_with_weight, solve_cell
from corevec.solvers.cells.certificate import cells_certificate, certify_cells
from corevec.solvers.cells.device_rows import refuse_worker_devices
from corevec.solvers.cells.duplicates import MERGE_MIN_ROWS, DuplicateMerge
from corevec.solvers.cells.fit import CellsTask, Solved, solve
from corevec.solvers.cells.forest import Cells, Forest
from corevec.solvers.cells.out_of_core import OutOfCoreRows
from corevec.solvers.cells.tree import Tree, graft, grow, levels
from corevec.solvers.cells.tuning import (
    MORE_CELLS,
    Trial,
    mean_error,
    trials,
    tune,
    weighted_error,
    with_C_times,
)

if TYPE_CHECKING:
    from corevec.solvers.cells.batches import solve_cells

__all__ = [
    "MERGE_MIN_ROWS",
    "MORE_CELLS",
    "Cells",
    "CellsTask",
    "DuplicateMerge",
    "Forest",
    "OutOfCoreRows",
    "Solved",
    "Tree",
    "Trial",
    "cells_certificate",
    "certify_cells",
    "graft",
    "grow",
    "levels",
    "mean_error",
    "refuse_worker_devices",
    "rows_with_weight",
    "solve",
    "solve_cell",
    "solve_cells",
    "trials",
    "tune",
    "weighted_error",
    "with_C_times",
]


def __getattr__(name: str) -> Any:
    """Return `solve_cells`, whose module imports torch, on first use."""
    if name != "solve_cells":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from corevec.solvers.cells.batches import solve_cells

    return solve_cells
