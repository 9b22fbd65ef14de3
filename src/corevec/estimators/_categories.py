"""Columns of categories in data frames: one column of 0 and 1 per category.

The categories of the fit are remembered in `categories_`, and new rows get the same
columns. A category that the fit did not see has 0 in all of them. Only columns that a
frame itself calls categories (pandas' and Polars' Categorical and Enum, Arrow's
dictionaries) are encoded at the fit: text is refused, since it may be a key, and
categories that are numbers stay numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import as_table
from corevec.exceptions import InvalidInputError

Categories = dict[str, list[Any]]


def with_categories(model: Any, X: Any, *, reset: bool) -> Any:
    """Return a frame with its columns of categories encoded; other rows as they are.

    With `reset`, the categories are those of X, and are remembered.
    """
    known: Categories | None = model.__dict__.get("categories_")
    if reset:
        model.__dict__.pop("categories_", None)
    elif known is None:
        return X
    table = as_table(X)
    if not isinstance(table, nw.DataFrame):
        return X
    who = type(model).__name__
    if reset:
        columns = [one for one in table.iter_columns() if _is_category(one)]
        found = {one.name: _sorted(_values(who, one)) for one in columns}
        known = {name: many for name, many in found.items() if not _are_numbers(many)}
        if not known:
            return X
        model.categories_ = known
    assert known is not None
    if not set(known) & set(table.columns):  # encoded already
        return X
    return _encoded(who, table, known)


def _is_category(column: Any) -> bool:
    return bool(column.dtype == nw.Categorical or column.dtype == nw.Enum)


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(one, Real) for one in values)


def _values(who: str, column: Any) -> list[Any]:
    """Return the category of each row."""
    absent = np.flatnonzero(column.is_null().to_numpy())
    if len(absent):
        raise InvalidInputError(
            f"{who}: Input X contains null: the column {column.name!r} has no "
            f"category in {len(absent):,} of {len(column):,} rows, the first is row "
            f"{absent[0]:,}. Drop such rows, or give them a category of their own, "
            "such as 'unknown'."
        )
    return list(column.to_list())


def _sorted(values: list[Any]) -> list[Any]:
    """Return each value once, in an order that does not depend on the rows."""
    distinct = set(values)
    try:
        return sorted(distinct)
    except TypeError:  # of several types
        return sorted(distinct, key=str)


def _encoded(who: str, table: nw.DataFrame[Any], known: Categories) -> Any:
    """Return the frame with columns `name=category` in place of the known ones."""
    found: dict[str, Array] = {}
    for column in table.iter_columns():
        if column.name in known:
            parts = _columns_of(who, column, known[column.name])
        else:
            parts = iter([(column.name, column.to_numpy())])
        for name, values in parts:
            if name in found:
                raise InvalidInputError(
                    f"{who}: X has two columns {name!r}, of which one stands for a "
                    "category. Rename the column or the category."
                )
            found[name] = values
    return nw.from_dict(found, backend=table.implementation).to_native()


def _columns_of(
    who: str, column: Any, categories: list[Any]
) -> Iterator[tuple[str, Array]]:
    """Yield name and values of the column of each category."""
    place = {category: at for at, category in enumerate(categories)}
    own = (place.get(value, -1) for value in _values(who, column))
    codes = np.fromiter(own, dtype=np.int64, count=len(column))
    for at, category in enumerate(categories):
        yield _name(column.name, category), (codes == at).astype(np.float64)


def _name(column: str, category: Any) -> str:
    return f"{column}={category}"


def columns_before(model: Any) -> list[str] | None:
    """Return the column of the user's frame that each column of the model comes from.

    None where none was encoded.
    """
    known: Categories | None = model.__dict__.get("categories_")
    if known is None:
        return None
    origin = {_name(own, one): own for own, many in known.items() for one in many}
    return [origin.get(name, name) for name in model.feature_names_in_]


def shared_columns(model: Any) -> Array | None:
    """Return a number per column, the same for those of one column of categories."""
    names = columns_before(model)
    if names is None:
        return None
    return np.asarray(np.unique(names, return_inverse=True)[1]).ravel()


__all__ = ["columns_before", "shared_columns", "with_categories"]
