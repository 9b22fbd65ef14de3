"""Exact local machines in the cells of a balanced tree."""

from corevec._runtime.rooms import on_demand

__all__, __getattr__ = on_demand(
    __name__,
    {
        "batches": "solve_cells",
        "cell": "rows_with_weight solve_cell",
        "certificate": "cells_certificate certify_cells",
        "device_rows": "refuse_worker_devices",
        "duplicates": "MERGE_MIN_ROWS DuplicateMerge",
        "fit": "CellsTask Solved solve",
        "forest": "Cells Forest",
        "out_of_core": "OutOfCoreRows",
        "tree": "Directions Tree graft grow levels",
        "tuning": (
            "FIRST_PLACE MORE_CELLS Start Trial climb local_gamma mean_error pair_at "
            "row_errors trials tune values_of weighted_error with_C_times"
        ),
    },
)
