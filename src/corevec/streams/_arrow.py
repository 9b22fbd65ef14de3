"""The only file that imports pyarrow, and only when a reader asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from corevec.streams.base import Array


def arrow(who: str) -> Any:
    """Return pyarrow with its readers, or say how to install it."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            f'{who} needs pyarrow. Run: pip install "corevec[arrow]"'
        ) from None
    return pyarrow


def parsed_csv(
    who: str, text: Any, n_columns: int, kinds: dict[int, str], delimiter: str
) -> list[Array] | None:
    """Return the columns at the positions `kinds`, or None if any row is not plain.

    Kinds are "number", which gives float64 with nan for what is missing, and "string".
    """
    pa = arrow(who)
    types = {"number": pa.float64(), "string": pa.string()}
    names = [str(position) for position in range(n_columns)]
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(text),
            pa.csv.ReadOptions(
                use_threads=False, block_size=len(text) + 1, column_names=names
            ),
            pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            pa.csv.ConvertOptions(
                column_types={str(p): types[kind] for p, kind in kinds.items()},
                include_columns=[str(p) for p in kinds],
            ),
        )
    except pa.ArrowInvalid:
        return None
    return [column.to_numpy() for column in table.columns]


def kind_of(who: str, data_type: Any) -> str:
    """Return "number", "string" or "other" for an Arrow type."""
    types = arrow(who).types
    if types.is_dictionary(data_type):
        data_type = data_type.value_type
    if types.is_string(data_type) or types.is_large_string(data_type):
        return "string"
    numbers = (
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_decimal,
    )
    return "number" if any(is_it(data_type) for is_it in numbers) else "other"


def as_floats(who: str, column: Any) -> Array:
    """Return an Arrow array of numbers as float64; nulls become nan."""
    pa = arrow(who)
    return np.asarray(
        column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    )


def as_labels(who: str, column: Any) -> tuple[Array, Array]:
    """Return an Arrow array of labels as NumPy's, and which of them are there.

    Whole numbers and booleans stay what they are, other numbers become float64.
    """
    pa = arrow(who)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    there = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    if kind_of(who, column.type) == "string":
        return np.array(column.fill_null("").to_pylist(), dtype=str), there
    if pa.types.is_boolean(column.type):
        column = column.fill_null(False)
    elif pa.types.is_integer(column.type):
        column = column.fill_null(0)
    else:
        values = as_floats(who, column)
        return values, np.isfinite(values)
    return np.asarray(column.to_numpy(zero_copy_only=False)), there


__all__ = ["arrow", "as_floats", "as_labels", "kind_of", "parsed_csv"]
