"""Arrow's columns as rows: pieces of files, blocks of one length, missing values."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.data.readers._arrow import as_floats, as_labels, as_numbers, indices
from corevec.data.readers.parquet import no_value
from corevec.data.readers.tables import Columns
from corevec.data.sources._files import WHO, all_finite
from corevec.data.sources.columns import TARGET, WEIGHT
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows


@dataclass(frozen=True)
class Piece:
    """Some rows of one file as Arrow holds them.

    `numbers` are those of the rows in the file, and `before` the rows of the files
    before it.
    """

    path: Path
    before: int
    numbers: Array
    batch: Any
    columns: Columns

    def __len__(self) -> int:
        return len(self.numbers)

    def part(self, start: int, stop: int) -> Piece:
        """Return some of the rows, without a copy."""
        batch = self.batch.slice(start, stop - start)
        numbers = self.numbers[start:stop]
        return Piece(self.path, self.before, numbers, batch, self.columns)

    def only(self, wanted: Array) -> Piece:
        """Return a copy of the rows with these numbers; those here are in one run."""
        batch = self.batch.take(indices(WHO, wanted - self.numbers[0]))
        return Piece(self.path, self.before, wanted, batch, self.columns)


def cut(pieces: Iterable[Piece], n_rows: int) -> Generator[list[Piece], None, None]:
    """Yield pieces that have so many rows together; the last ones may have fewer."""
    held: list[Piece] = []
    room = n_rows
    for piece in pieces:
        start = 0
        while start < len(piece):
            part = piece.part(start, min(start + room, len(piece)))
            held.append(part)
            start += len(part)
            room -= len(part)
            if room == 0:
                yield held
                held, room = [], n_rows
    if held:
        yield held


class RowsInWork:
    """An array of rows that is filled piece by piece."""

    def __init__(self, shape: tuple[int, int], dtype: Any, columns: tuple[str, ...]):
        self.values = np.empty(shape, dtype=dtype)
        self.index = np.empty(shape[0], dtype=np.int64)
        self.row_columns: dict[str, list[Array]] = {name: [] for name in columns}
        self.filled = 0

    def add(self, piece: Piece) -> None:
        """Append the rows of a piece; null, nan and infinity are an error."""
        here = slice(self.filled, self.filled + len(piece))
        X = self.values[here]
        for j, name in enumerate(piece.columns.feature_names):
            X[:, j] = as_numbers(WHO, piece.batch.column(name))
        self.index[here] = piece.before + piece.numbers
        present = _labels_and_weights(piece)
        known = [there for _, there in present.values()]
        if not (all_finite(X) and all(there.all() for there in known)):
            raise _missing(piece, np.column_stack([np.isfinite(X), *known]))
        for name, (values, _) in present.items():
            self.row_columns[name].append(values)
        self.filled += len(piece)

    def hand_over(self) -> Rows:
        """Return the rows."""
        columns = {
            name: np.concatenate(parts) if parts else np.empty(0)
            for name, parts in self.row_columns.items()
        }
        return Rows(self.values, self.index, columns)


def _labels_and_weights(piece: Piece) -> dict[str, tuple[Array, Array]]:
    """Return target and weight of a piece, each with which values are present."""
    batch, columns = piece.batch, piece.columns
    present = {}
    if columns.target is not None:
        labels = batch.column(columns.names[columns.target])
        present[TARGET] = as_labels(WHO, labels)
    if columns.weight is not None:
        weight = as_floats(WHO, batch.column(columns.names[columns.weight]))
        present[WEIGHT] = weight, np.isfinite(weight)
    return present


def _missing(piece: Piece, there: Array) -> InvalidInputError:
    """Return the error for the first row of a piece that lacks a value."""
    row = int(np.argmin(there.all(axis=1)))
    bad = no_value(piece.batch, piece.columns, row, int(np.argmin(there[row])))
    return InvalidInputError(
        f"{WHO}: {piece.path}, row {int(piece.numbers[row]) + 1}: {bad}. Leave such "
        "rows out or fill them in, and write the file again."
    )


__all__ = ["Piece", "RowsInWork", "cut"]
