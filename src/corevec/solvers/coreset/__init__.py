"""The Core Vector Machine: a small core set that grows until all rows fit."""

from corevec._runtime.rooms import on_demand

__all__, __getattr__ = on_demand(
    __name__,
    {
        "core": "Core Solver",
        "loop": "MAX_ROWS_WITHOUT_SUBSET core_rows largest_core_set run",
        "selection": "FIRST_SUBSET",
        "state": "Job",
    },
)
