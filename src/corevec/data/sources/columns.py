"""What belongs to a row beside its values: a class code, a weight, a target.

Where rows are in memory, a column is an array with an entry per row of the source.
Blocks of remote rows carry their own (`Rows.columns`), and a column is a function of
them: nothing of the length of the data is kept on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import cast, is_tensor, namespace, to_device_of
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows

Column = Array | Callable[[Rows], Array]

TARGET, WEIGHT = "target", "weight"


def of_rows(column: Column, rows: Rows) -> Array:
    """Return the entries of a column that belong to these rows."""
    if isinstance(column, np.ndarray):
        return np.asarray(column[rows.index])
    return column(rows)


@dataclass(frozen=True)
class CarriedColumn:
    """The column of this name that blocks of rows carry, as it is."""

    name: str

    def __call__(self, rows: Rows) -> Array:
        """Return its entries for these rows."""
        column = rows.columns[self.name]
        return column if is_tensor(column) else np.asarray(column)


@dataclass(frozen=True)
class Coded:
    """The labels that blocks of rows carry, as positions among the classes."""

    classes: Array

    def __call__(self, rows: Rows) -> Array:
        """Return the code of each row; labels of absent classes get some code."""
        labels, classes = rows.columns[TARGET], self.classes
        if is_tensor(labels) and classes.dtype == bool:  # torch does not sort these
            labels, classes = cast(labels, np.int8), classes.astype(np.int8)
        classes = to_device_of(classes, labels)
        found = namespace(labels).searchsorted(classes, labels)
        return found.clip(max=len(self.classes) - 1)


@dataclass(frozen=True)
class Recoded:
    """The codes that blocks of rows carry, each as the place that a table gives it."""

    table: Array

    def __call__(self, rows: Rows) -> Array:
        """Return the code of each row."""
        codes = cast(rows.columns[TARGET], np.int64)
        return to_device_of(self.table, codes)[codes]


@dataclass(frozen=True)
class Standardised:
    """One column of the targets of blocks of rows, as ``(y - mean) / scale``."""

    mean: float
    scale: float
    place: int = 0

    def __call__(self, rows: Rows) -> Array:
        """Return the standardised target of each row."""
        y = cast(rows.columns[TARGET], np.float64)
        y = y if y.ndim == 1 else y[:, self.place]
        return (y - self.mean) / self.scale


def check_values(who: str, rows: Rows) -> None:
    """Raise where an entry of the rows is not finite."""
    is_sparse = hasattr(rows.values, "indptr")
    values = rows.values.data if is_sparse else rows.values
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(float(values.sum())):  # proves it without more memory
            return
    bad = namespace(values).nonzero(~namespace(values).isfinite(values))
    if len(bad[0]):
        first = tuple(int(place[0]) for place in bad)
        entry = first[0]
        kind = "NaN" if np.isnan(float(values[first])) else "infinity"
        if is_sparse:
            entry = int(np.searchsorted(rows.values.indptr, entry, "right")) - 1
        row = int(rows.index[entry])
        raise InvalidInputError(
            f"{who}: Input X contains {kind} in row {row:,}. Drop or impute such rows."
        )
