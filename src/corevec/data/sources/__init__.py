"""Access to rows: one class per kind of storage, which `as_source` chooses.

The sources of files, of Dask and of tensors are imported when they are asked for.
"""

from corevec._runtime.rooms import on_demand
from corevec.data.sources.base import Source
from corevec.data.sources.budget import (
    DEFAULT_MEMORY_BUDGET,
    rows_per_scan,
    rows_that_fit,
    rows_to_take,
    rows_within,
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
    columns_to_score,
    computed_rows,
    device_source,
    is_spark,
    map_values,
    named_columns,
    remote_source,
    require_host_rows,
    require_rows_in_memory,
)
from corevec.data.sources.frames import (
    as_table,
    columns_without_numbers,
    computed_column,
    place_without_number,
)
from corevec.data.sources.host_copy import HostCopy
from corevec.data.sources.memory import MemorySource, RowSubset, stacked
from corevec.data.sources.remote import RemoteSource, join_rows
from corevec.data.sources.statistics import row_statistics, statistics_and
from corevec.data.sources.workers import Workers

__all__ = [
    "CarriedColumn",
    "RowSubset",
    "Coded",
    "Column",
    "DEFAULT_MEMORY_BUDGET",
    "MemorySource",
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
    "as_table",
    "computed_rows",
    "check_values",
    "column_names",
    "columns_without_numbers",
    "computed_column",
    "columns_of",
    "columns_to_score",
    "device_source",
    "remote_source",
    "is_spark",
    "join_rows",
    "map_values",
    "named_columns",
    "place_without_number",
    "of_rows",
    "require_host_rows",
    "require_rows_in_memory",
    "row_statistics",
    "rows_per_scan",
    "rows_that_fit",
    "rows_to_take",
    "rows_within",
    "stacked",
    "statistics_and",
]

_, __getattr__ = on_demand(
    __name__,
    {
        "_files": "ReadAhead",
        "_libsvm": "LibsvmSource",
        "_npy": "NpySource",
        "_parquet": "ParquetSource",
        "dask": "DaskSource lost_rows_explained",
        "gpu": "StreamedSource TensorSource",
        "gpu_input": "part_source tensor_source",
        "opening": "open",
    },
)
