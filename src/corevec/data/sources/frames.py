"""Tables of other libraries: pandas, Polars, PyArrow, DuckDB, Modin, Ibis.

narwhals gives all of them one interface (docs/decisions/0024-tables-and-spark.md).
Tables in memory stay as they are; a query (a Polars LazyFrame, a DuckDB relation, an
Ibis table) is computed once, where the result fits into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from scipy import sparse

from corevec.data.sources.budget import host_bytes
from corevec.exceptions import InvalidInputError

# A computed query costs its own table and the matrix made of it, both of 8-byte values.
_BYTES_PER_VALUE = 16


def as_table(X: Any) -> nw.DataFrame[Any] | nw.LazyFrame[Any] | None:
    """Return a table by the interface of narwhals; None of anything else."""
    if isinstance(X, np.ndarray | list | tuple) or sparse.issparse(X):
        return None
    try:
        table = nw.from_native(X, pass_through=True)
    except DuplicateError as error:
        raise InvalidInputError(
            f"a data frame has columns of one name: {error} Rename them."
        ) from None
    return table if isinstance(table, nw.DataFrame | nw.LazyFrame) else None


def computed_table(who: str, X: Any, name: str = "X") -> Any:
    """Return the rows of a query as a table in memory; others as they are."""
    table = as_table(X)
    if not isinstance(table, nw.LazyFrame):
        return X
    n_columns = len(table.collect_schema())
    n_rows = int(table.select(nw.len()).collect().item())
    needed, there = _BYTES_PER_VALUE * n_rows * n_columns, host_bytes()
    if needed > there > 0:
        raise InvalidInputError(
            f"{who}: {name} is a query ({type(X).__name__}) of {n_rows:,} rows x "
            f"{n_columns} columns, which takes some {needed / 2**30:,.0f} GiB when it "
            f"is computed; this machine has {there / 2**30:,.0f} GiB. Write it to a "
            "Parquet file (sink_parquet of Polars, write_parquet of DuckDB), and give "
            "corevec.open(path, target=...), which reads it block by block."
        )
    return table.collect().to_native()


def computed_column(who: str, values: Any, name: str) -> Any:
    """Return a query of one column as an array; other values as they are."""
    computed = computed_table(who, values, name)
    if computed is values:
        return values
    found = np.asarray(nw.from_native(computed).to_numpy())
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


def without_columns(
    who: str, X: Any, taken: dict[str, str | None]
) -> tuple[Any, dict[str, Any]]:
    """Return a table without some of its columns, and these columns as arrays.

    `taken` has the name of the column for each parameter, or None.
    """
    table = as_table(computed_table(who, X))
    wanted = {role: name for role, name in taken.items() if name is not None}
    if not isinstance(table, nw.DataFrame):
        role, name = next(iter(wanted.items()))
        raise InvalidInputError(
            f"{who}: {role}={name!r} names a column, but X is {type(X).__name__}, "
            f"whose columns have no names. Give a data frame, or the values of {role}.",
            parameter=role,
        )
    refuse_unknown_columns(who, wanted, table.columns)
    columns = {role: table[name].to_numpy() for role, name in wanted.items()}
    return table.drop(*set(wanted.values())).to_native(), columns


def refuse_unknown_columns(
    who: str, wanted: dict[str, str], columns: Sequence[Any]
) -> None:
    """Raise for a name that is no column, with the parameter that has it."""
    for role, name in wanted.items():
        if name not in columns:
            shown = ", ".join(map(repr, columns[:10]))
            raise InvalidInputError(
                f"{who}: {role}={name!r} is not a column of X, which has {shown}.",
                parameter=role,
            )


def columns_without_numbers(X: Any, name: str) -> Iterator[tuple[str, Any, str]]:
    """Yield what may hold other things than numbers: its place, values and type."""
    table = as_table(X)
    for column in table.iter_columns() if isinstance(table, nw.DataFrame) else ():
        dtype = column.dtype
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            where = f"the column {column.name!r} of {name}"
            yield where, np.asarray(column.to_native()), str(dtype)


def place_without_number(X: Any) -> str | None:
    """Return in words the first column of a table with a null or NaN; None of others.

    The table is in memory.
    """
    table = as_table(X)
    if not isinstance(table, nw.DataFrame):
        return None
    for column in table.iter_columns():
        try:
            values = np.asarray(column.to_native(), dtype=np.float64)
        except (TypeError, ValueError):  # pandas.NA, decimals with nulls
            values = np.where(column.is_null().to_numpy(), np.nan, 0.0)
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            what = "no number" if np.isnan(values[bad[0]]) else "infinity"
            return (
                f"the column {column.name!r} has {what} in {len(bad):,} of "
                f"{len(values):,} rows, the first is row {bad[0]:,}"
            )
    return None


__all__ = [
    "as_table",
    "columns_without_numbers",
    "computed_column",
    "computed_table",
    "place_without_number",
    "refuse_unknown_columns",
    "without_columns",
]
