"""Rows of a ``.npy`` file, mapped into memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.data.readers.base import existing_files
from corevec.data.sources._files import WHO, all_finite
from corevec.data.sources.budget import DEFAULT_MEMORY_BUDGET
from corevec.data.sources.columns import TARGET, WEIGHT
from corevec.data.sources.memory import MemorySource
from corevec.data.sources.workers import Workers
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows

# A second file, an array, or the number of a column of X.
Beside = str | os.PathLike[str] | int | Array


class NpySource(MemorySource):
    """Rows of a two-dimensional array in a ``.npy`` file, never loaded as a whole.

    Floats of 32 and 64 bits are handed out as they are; other numbers become float32
    where that holds them exactly (16 bits and fewer), else float64.

    Parameters
    ----------
    path : path
        What ``np.save`` wrote, in C order.
    target, sample_weight : path, int, array or None
        The columns beside X: another ``.npy`` file, the number of a column (which X
        then leaves out), or an array with an entry per row.
    columns : list of int, default=None
        Columns of X, in this order; None means all but target and weight.
    memory_budget : float, default=2**28
        Bytes for blocks.
    workers : Workers, default=None
        Threads that score the blocks.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: Beside | None = None,
        columns: Sequence[int] | None = None,
        sample_weight: Beside | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        workers: Workers | None = None,
    ):
        self.path = existing_files(WHO, path)[0].absolute()
        table = _mapped(self.path)
        _check_table(self.path, table)
        super().__init__(table, memory_budget, workers)
        # Where target and weight are: a column of X, a file, or the array itself.
        given = {TARGET: target, WEIGHT: sample_weight}
        self._beside = {
            name: self._place(name, one)
            for name, one in given.items()
            if one is not None
        }
        self._map_columns()
        self._features = self._chosen(columns)
        self.n_features = len(np.arange(table.shape[1])[self._features])
        self.dtype = _float_type(table.dtype)

    def __repr__(self) -> str:
        brings = f", with {' and '.join(self.columns)}" if self.columns else ""
        return (
            f"NpySource({self.n_rows} rows x {self.n_features} columns{brings}: "
            f"{self.path})"
        )

    def take(self, rows: Array) -> Rows:
        """Return the rows with these numbers (a copy)."""
        rows = np.asarray(rows, dtype=np.int64)
        return self._rows(rows, rows)

    def block(self, start: int, stop: int) -> Rows:
        """Return the rows from `start` up to `stop`, a view where X is all floats."""
        return self._rows(slice(start, stop), np.arange(start, stop))

    def _rows(self, where: Any, index: Array) -> Rows:
        X = np.asarray(self.values[where][:, self._features], dtype=self.dtype)
        _check_finite(str(self.path), X, index)
        columns = {}
        for name, column in self.row_columns.items():
            kind = np.float64 if name == WEIGHT else column.dtype.newbyteorder("=")
            columns[name] = np.asarray(column[where], dtype=kind)
            _check_finite(f"{self.path}, {name}", columns[name], index)
        return Rows(X, index, columns)

    def _place(self, name: str, given: Beside) -> int | Path | Array:
        if isinstance(given, Integral):
            return self._column(name, given)
        if isinstance(given, str | os.PathLike):
            return existing_files(WHO, given)[0].absolute()
        return np.asarray(given)

    def _map_columns(self) -> None:
        self.row_columns = {
            name: self._entries(one) for name, one in self._beside.items()
        }
        for name, entries in self.row_columns.items():
            if entries.ndim not in (1, 2) or len(entries) != self.n_rows:
                raise InvalidInputError(
                    f"{WHO}: {name} of shape {entries.shape} for {self.n_rows} rows in "
                    f"{self.path}. Give one entry per row."
                )
            if entries.shape[1:] == (1,):
                self.row_columns[name] = entries[:, 0]

    def _entries(self, place: int | Path | Array) -> Array:
        if isinstance(place, int):
            return np.asarray(self.values[:, place])
        return _mapped(place) if isinstance(place, Path) else place

    def _column(self, name: str, number: Any) -> int:
        n = self.values.shape[1]
        is_whole = isinstance(number, Integral) and not isinstance(number, bool)
        if not is_whole or not -n <= int(number) < n:
            raise InvalidInputError(
                f"{WHO}: {name}={number!r} is no column of {self.path}, which has {n}; "
                "columns count from 0."
            )
        return int(int(number) % n)

    def _chosen(self, columns: Sequence[int] | None) -> Any:
        """Return the columns of X: a slice where they follow each other."""
        used = [place for place in self._beside.values() if isinstance(place, int)]
        if columns is None:
            chosen = [j for j in range(self.values.shape[1]) if j not in used]
        else:
            chosen = [self._column("columns", j) for j in columns]
        twice = [j for j in chosen if j in used or chosen.count(j) > 1]
        if twice or not chosen:
            what = (
                f"column {twice[0]} is asked for twice" if twice else "no column left"
            )
            raise InvalidInputError(
                f"{WHO}: {self.path}: {what}. Give each column one role: feature, "
                "target or sample_weight."
            )
        if chosen == list(range(chosen[0], chosen[-1] + 1)):
            return slice(chosen[0], chosen[-1] + 1)
        return np.array(chosen)

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: paths where there are files."""
        state = self.__dict__.copy()
        del state["values"], state["row_columns"]
        state["workers"] = Workers(self.workers.n_threads)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.values = _mapped(self.path)
        if self.values.shape[0] != self.n_rows:
            raise InvalidInputError(
                f"{WHO}: {self.path}: the file has changed since it was opened. Open "
                "it again."
            )
        self._map_columns()


def _mapped(path: Path) -> Array:
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise InvalidInputError(
            f"{WHO}: {path}: cannot be read as .npy; is it whole, and an array of "
            f"numbers or text? ({type(error).__name__}: {error})"
        ) from error


def _check_table(path: Path, table: Array) -> None:
    if table.ndim != 2 or 0 in table.shape:
        raise InvalidInputError(
            f"{WHO}: {path}: expected a two-dimensional array with rows and columns, "
            f"got shape {table.shape}."
        )
    if table.dtype.kind not in "fiub" or table.dtype.itemsize > 8:
        raise InvalidInputError(
            f"{WHO}: {path}: expected numbers of at most 64 bits, got {table.dtype}."
        )
    if not table.flags.c_contiguous:
        raise InvalidInputError(
            f"{WHO}: {path}: the array is in Fortran order, in which a row lies all "
            "over the file. Save it again: np.save(path, np.ascontiguousarray(X))."
        )


def _float_type(dtype: Any) -> Any:
    narrow = dtype.itemsize <= (4 if dtype.kind == "f" else 2)
    return np.dtype(np.float32 if narrow else np.float64)


def _check_finite(where: str, values: Array, index: Array) -> None:
    if values.dtype.kind != "f" or all_finite(values):
        return
    there = np.isfinite(values.reshape(len(values), -1))
    row = int(np.argmin(there.all(axis=1)))
    column = int(np.argmin(there[row]))
    got = values.reshape(len(values), -1)[row, column]
    raise InvalidInputError(
        f"{WHO}: {where}, row {int(index[row]) + 1}: expected a value in column "
        f"{column}, got {got}. Leave such rows out or fill them in, and save again."
    )


__all__ = ["NpySource"]
