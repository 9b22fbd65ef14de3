"""Where rows live. `as_source` is the only isinstance ladder on user data."""

from corevec.data.sources.base import (
    DEFAULT_MEMORY_BUDGET,
    Source,
    Workers,
    row_statistics,
)
from corevec.data.sources.columns import (
    TARGET,
    WEIGHT,
    Brought,
    Coded,
    Column,
    Recoded,
    Standardised,
    of_rows,
)
from corevec.data.sources.dispatch import (
    as_source,
    brought_here,
    column_names,
    columns_of,
    device_source,
    far_source,
    is_dask,
    is_far,
    is_on_device,
)
from corevec.data.sources.memory import Chosen, CsrSource, DenseSource, stacked
from corevec.data.sources.remote import FarSource, join_rows

__all__ = [
    "Brought",
    "Chosen",
    "Coded",
    "Column",
    "CsrSource",
    "DEFAULT_MEMORY_BUDGET",
    "DenseSource",
    "FarSource",
    "Recoded",
    "Source",
    "Standardised",
    "TARGET",
    "WEIGHT",
    "Workers",
    "as_source",
    "brought_here",
    "column_names",
    "columns_of",
    "device_source",
    "far_source",
    "is_dask",
    "is_far",
    "is_on_device",
    "join_rows",
    "of_rows",
    "row_statistics",
    "stacked",
]
