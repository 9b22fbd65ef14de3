"""Access to rows: one class per kind of storage, which `as_source` chooses."""

from corevec.data.sources.base import (
    DEFAULT_MEMORY_BUDGET,
    Source,
)
from corevec.data.sources.columns import (
    TARGET,
    WEIGHT,
    CarriedColumn,
    Coded,
    Column,
    Recoded,
    Standardised,
    check_values,
    of_rows,
)
from corevec.data.sources.dispatch import (
    answer_in_kind,
    as_source,
    column_names,
    columns_of,
    computed_rows,
    device_source,
    map_values,
    remote_source,
    require_host_rows,
    require_rows_in_memory,
)
from corevec.data.sources.host_copy import HostCopy
from corevec.data.sources.memory import CsrSource, DenseSource, RowSubset, stacked
from corevec.data.sources.remote import RemoteSource, join_rows
from corevec.data.sources.statistics import row_statistics, statistics_and
from corevec.data.sources.workers import Workers

__all__ = [
    "CarriedColumn",
    "RowSubset",
    "Coded",
    "Column",
    "CsrSource",
    "DEFAULT_MEMORY_BUDGET",
    "DenseSource",
    "RemoteSource",
    "HostCopy",
    "Recoded",
    "Source",
    "Standardised",
    "TARGET",
    "WEIGHT",
    "Workers",
    "answer_in_kind",
    "as_source",
    "computed_rows",
    "check_values",
    "column_names",
    "columns_of",
    "device_source",
    "remote_source",
    "join_rows",
    "map_values",
    "of_rows",
    "require_host_rows",
    "require_rows_in_memory",
    "row_statistics",
    "stacked",
    "statistics_and",
]
