"""A grid over two columns, with the other columns held at fixed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.plots._model import as_seen, dense, names_of, rows_for, some_rows

# Rows for the medians and the range of the two columns, and the maximum number of
# values in them: 128 MiB when a sparse matrix with many columns becomes dense.
_MEASURED_ROWS, _MEASURED_VALUES = 10_000, 1 << 24
# The map extends beyond the rows by this share of the range, on each side.
_MARGIN = 0.08


@dataclass(frozen=True)
class Plane:
    """The grid of a map: its coordinates, and the complete rows at its points."""

    columns: tuple[int, int]
    names: tuple[str, str]
    held: Array
    xx: Array
    yy: Array

    def rows(self) -> Array:
        """Return one complete row per grid point."""
        rows = np.tile(self.held, (self.xx.size, 1))
        rows[:, self.columns[0]] = self.xx.ravel()
        rows[:, self.columns[1]] = self.yy.ravel()
        return rows

    def values(self, model: Any, method: str) -> Array:
        """Return the values of a method of the model at the grid points."""
        values = np.asarray(getattr(model, method)(as_seen(model, self.rows())))
        return values.reshape(*self.xx.shape, *values.shape[1:])

    def place(self, rows: Any) -> Array:
        """Return the two columns of complete rows."""
        return dense(rows[:, list(self.columns)])

    @property
    def is_slice(self) -> bool:
        """Whether there are other columns, which are held."""
        return len(self.held) > 2

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """The rectangle, in the form of ``imshow`` of matplotlib."""
        return (self.xx[0, 0], self.xx[0, -1], self.yy[0, 0], self.yy[-1, 0])


def make_plane(
    who: str, model: Any, X: Any, columns: Any, held: Any, resolution: int
) -> Plane:
    """Return the plane through the rows of `X`.

    Parameters
    ----------
    who : str
        Name of the caller, for error messages.
    model : estimator
        Model whose ``feature_names_in_`` are the names of the columns.
    X : array-like or sparse matrix of shape (n_rows, n_features)
        Rows that determine the range of the map and the medians.
    columns : pair of int or str
        The two columns.
    held : None, mapping {column: value} or sequence of n_features values
        Values of the other columns; their medians by default.
    resolution : int
        Grid points along each side.
    """
    if not isinstance(resolution, Integral) or resolution < 2:
        raise InvalidInputError(
            f"{who}: resolution={resolution!r} must be a whole number of at least 2.",
            parameter="resolution",
        )
    rows = rows_for(who, model, X)
    if rows.ndim != 2 or rows.shape[1] < 2:
        raise InvalidInputError(
            f"{who}: X of shape {rows.shape} has fewer than two columns to draw."
        )
    names = names_of(model, rows.shape[1])
    first, second = two_columns(who, columns, names)
    most = min(_MEASURED_ROWS, 1 + _MEASURED_VALUES // rows.shape[1])
    some = dense(rows[some_rows(rows.shape[0], most, 0)])
    sides = [_side(some[:, j], resolution) for j in (first, second)]
    xx, yy = np.meshgrid(*sides)
    return Plane(
        (first, second),
        (names[first], names[second]),
        _held(who, held, np.median(some, axis=0), names),
        xx,
        yy,
    )


def _side(values: Array, resolution: int) -> Array:
    low, high = float(values.min()), float(values.max())
    margin = _MARGIN * (high - low) if high > low else 1.0
    return np.linspace(low - margin, high + margin, int(resolution))


def two_columns(who: str, columns: Any, names: list[str]) -> tuple[int, int]:
    """Return the numbers of two columns that are given by number or name."""
    try:
        first, second = columns
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{who}: columns={columns!r} must be two columns, by number or name.",
            parameter="columns",
        ) from None
    found = _column(who, first, names), _column(who, second, names)
    if found[0] == found[1]:
        raise InvalidInputError(
            f"{who}: columns={columns!r} names one column twice.", parameter="columns"
        )
    return found


def _column(who: str, column: Any, names: list[str]) -> int:
    if isinstance(column, str) and column in names:
        return names.index(column)
    whole = isinstance(column, Integral) and not isinstance(column, bool)
    if whole and 0 <= int(column) < len(names):
        return int(column)
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    raise InvalidInputError(
        f"{who}: there is no column {column!r}. Columns are numbered from 0 to "
        f"{len(names) - 1}; their names: {shown}."
    )


def _held(who: str, held: Any, medians: Array, names: list[str]) -> Array:
    if held is None:
        return medians
    if isinstance(held, Mapping):
        values = medians.copy()
        for column, value in held.items():
            values[_column(who, column, names)] = float(value)
        return values
    values = np.asarray(held, dtype=np.float64)
    if values.shape != medians.shape:
        raise InvalidInputError(
            f"{who}: held has shape {values.shape}, expected {medians.shape}: one "
            "value per column. {column: value} holds the others at the median."
        )
    return values
