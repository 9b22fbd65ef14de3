"""The only file that imports pyarrow, and only when a reader asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from corevec._runtime.types import Array


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
    # By name: polars writes string_view, which pyarrow before 16 does not know.
    if str(data_type) in ("string", "large_string", "string_view"):
        return "string"
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return "number" if any(is_it(data_type) for is_it in numbers) else "other"


def as_floats(who: str, column: Any) -> Array:
    """Return an Arrow array of numbers as float64; nulls become nan."""
    pa = arrow(who)
    column = column.cast(pa.float64(), safe=False)
    return _filled(pa, column, np.nan)


def as_numbers(who: str, column: Any) -> Array:
    """Return an Arrow array of numbers in NumPy's type for it, without a copy.

    Where that cannot be (nulls, booleans, decimals, dictionaries): as float64.
    """
    pa = arrow(who)
    plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if plain and column.null_count == 0:
        return _viewed(pa, column)
    return as_floats(who, column)


def is_narrow(who: str, data_type: Any) -> bool:
    """Whether float32 holds every number of an Arrow type exactly."""
    pa = arrow(who)
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    narrow = (pa.float16(), pa.float32(), pa.int8(), pa.int16(), pa.uint8())
    return data_type in (*narrow, pa.uint16(), pa.bool_())


def as_labels(who: str, column: Any) -> tuple[Array, Array]:
    """Return an Arrow array of labels as a NumPy array, and which are not null.

    Whole numbers and booleans stay what they are, other numbers become float64.
    """
    pa = arrow(who)
    is_text = kind_of(who, column.type) == "string"
    is_coded = pa.types.is_dictionary(column.type)
    if is_coded and (not is_text or column.dictionary.null_count):
        column = column.dictionary_decode()
    if is_text:
        return _words(pa, column), _there(pa, column)
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        return _filled(pa, column, 0), _there(pa, column)
    values = as_floats(who, column)
    return values, np.isfinite(values)


def indices(who: str, numbers: Array) -> Any:
    """Return row numbers for Arrow's `take`, without a copy."""
    pa = arrow(who)
    numbers = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(
        pa.int64(), len(numbers), [None, pa.py_buffer(numbers)]
    )


def _words(pa: Any, column: Any) -> Array:
    """Return text as a NumPy array; each distinct text is converted once."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    words = np.array([*column.dictionary.to_pylist(), ""], dtype=str)
    codes = column.indices.cast(pa.int64())
    return np.asarray(words[_filled(pa, codes, len(words) - 1)])


def _filled(pa: Any, column: Any, value: float) -> Array:
    """Return an Arrow array as a NumPy array, with `value` for nulls."""
    values = _viewed(pa, column)
    if column.null_count == 0:
        return values
    return np.where(_there(pa, column), values, values.dtype.type(value))


def _there(pa: Any, column: Any) -> Array:
    if column.null_count == 0:
        return np.ones(len(column), dtype=bool)
    return _viewed(pa, column.is_valid())


def _viewed(pa: Any, column: Any) -> Array:
    """Return a NumPy view of an Arrow array; nulls have arbitrary values.

    Not by `to_numpy`, which imports pandas where that is installed: 0.5 s and 25 MB.
    """
    if pa.types.is_boolean(column.type):
        return _viewed(pa, column.cast(pa.uint8())).view(bool)
    dtype = np.dtype(column.type.to_pandas_dtype())
    if len(column) == 0:
        return np.empty(0, dtype=dtype)
    data, start = column.buffers()[1], column.offset * dtype.itemsize
    return np.frombuffer(data, dtype, len(column), start)
