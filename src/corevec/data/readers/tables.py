"""Base class of the readers of tables: features, target and weight by column."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import numpy as np

from corevec.data.readers.base import (
    Argument,
    Block,
    ReaderError,
    RowStream,
    reader_error,
    shown,
)

Column = str | int

_LISTED_NAMES = 20


@dataclass(frozen=True)
class Wanted:
    """The columns that a user asked for, by name or position."""

    target: Column | None
    columns: Sequence[Column] | None
    sample_weight: Column | None


@dataclass(frozen=True)
class Columns:
    """The columns of one file, and the positions of those that are read."""

    names: tuple[str, ...]
    features: tuple[int, ...]
    target: int | None
    weight: int | None

    @property
    def needed(self) -> list[int]:
        """Positions of all columns that are read: features, target, weight."""
        extra = [p for p in (self.target, self.weight) if p is not None]
        return [*self.features, *extra]

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, in the order of the columns of X."""
        return [self.names[p] for p in self.features]

    @property
    def target_name(self) -> str | None:
        """Name of the target; None if no target is read."""
        return None if self.target is None else self.names[self.target]


class TableStream(RowStream):
    """Iterable of blocks of dense rows of files with columns."""

    def __init__(
        self,
        who: str,
        paths: list[Path],
        wanted: Wanted,
        errors: str,
        block_rows: int,
        memory_budget: int,
    ):
        super().__init__(who, paths, errors, block_rows, memory_budget)
        self.wanted = wanted
        self._first_features: list[str] | None = None

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features in the latest pass; None if the files have no names."""
        return self._first_features if self._has_names else None

    @property
    def column_names(self) -> list[str]:
        """Names of the features in the latest pass; their numbers if there are none."""
        return self._first_features or []

    def header(self) -> Columns | None:
        """Return the columns of the first file; None if it has no names."""
        names = self._names_of(self.paths[0]) if self._has_names else None
        if names is None:
            return None
        return find_columns(str(self.paths[0]), names, self.wanted, self.who)

    @property
    def _has_names(self) -> bool:
        """Whether the files name their columns."""
        return True

    def _names_of(self, path: Path) -> tuple[str, ...] | None:
        """Return the names of the columns of a file; None if the file is empty."""
        raise NotImplementedError

    def _start_pass(self) -> None:
        super()._start_pass()
        self._first_features = None

    def _blocks(self) -> Iterator[Block]:
        for block in fixed_blocks(self._parts(), self._rows_within_budget):
            # A part is X, then the target and the weight if they are requested.
            has_target = self.wanted.target is not None
            yield block if has_target else (block[0], None, *block[1:])

    def texts(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the place and the texts of each record: features, target, weight.

        What is missing is an empty text. A record of another length is bad.
        """
        raise NotImplementedError

    def _parts(self) -> Iterator[Block]:
        """Yield X and, if requested, target and weight, of any number of rows."""
        raise NotImplementedError

    def _rows_within_budget(self, n_features: int) -> int:
        fit = self.memory_budget // (8 * max(1, n_features))
        return max(1, min(self.block_rows, fit))

    def _columns(self, path: Path, names: Iterable[str]) -> Columns:
        """Find the wanted columns in a file; the features of all files must agree."""
        columns = find_columns(str(path), tuple(names), self.wanted, self.who)
        if self._first_features is None:
            self._first_features = columns.feature_names
        first = self._first_features
        check_same_features(str(path), columns, self.paths[0], first, self.who)
        return columns


def find_columns(
    where: str, names: tuple[str, ...], wanted: Wanted, who: str = ""
) -> Columns:
    """Return the positions of the wanted columns among `names`."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        places[name].append(place)

    def position_of(role: str, column: Column | None) -> int | None:
        if column is None:
            return None
        try:
            return _position(column, places, names)
        except LookupError as error:
            subject = (f"{where}: ", Argument(role, column))
            raise reader_error(who, *subject, str(error)) from None

    target = position_of("target", wanted.target)
    weight = position_of("sample_weight", wanted.sample_weight)
    used = {target, weight}
    if wanted.columns is None:
        features = [p for p in range(len(names)) if p not in used]
    else:
        found = [position_of("columns", column) for column in wanted.columns]
        features = [p for p in found if p is not None]
    asked = Counter(features)
    twice = [names[p] for p in features if p in used or asked[p] > 1]
    if twice:
        raise reader_error(
            who,
            f"{where}: column {twice[0]!r} is asked for twice. Give each column one "
            "role: feature, target or sample_weight.",
        )
    if not features:
        raise reader_error(
            who,
            f"{where}: no column is left for X among {_listed(names)}. Is this the "
            "right delimiter?",
        )
    return Columns(names, tuple(features), target, weight)


def check_same_features(
    where: str, columns: Columns, first_path: Path, first: list[str], who: str = ""
) -> None:
    """Check that a file has the features of the first file."""
    if first != columns.feature_names:
        raise reader_error(
            who,
            f"{where}: its features {_listed(columns.feature_names)} are not those of "
            f"{first_path}, {_listed(first)}. Name the features with ",
            *(Argument("columns"), "."),
        )


def _position(
    column: Column, places: dict[str, list[int]], names: tuple[str, ...]
) -> int:
    """Return the position of a column; raise a LookupError that says what is wrong."""
    if isinstance(column, str):
        found = places.get(column, [])
        if len(found) == 1:
            return found[0]
        raise LookupError(
            f" names {'more than one' if found else 'no'} column among "
            f"{_listed(names)}. Give a name or a position, counted from 0."
        )
    if not isinstance(column, Integral) or isinstance(column, bool):
        raise LookupError(" must be the name of a column or its position.")
    if not -len(names) <= column < len(names):
        raise LookupError(
            f" is beyond the {len(names)} columns {_listed(names)}; positions count "
            "from 0."
        )
    return int(column) % len(names)


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(shown(name) for name in names[:_LISTED_NAMES])
    return listed + (" ..." if len(names) > _LISTED_NAMES else "")


def fixed_blocks(
    parts: Iterable[Block], rows_for: Callable[[int], int]
) -> Iterator[Block]:
    """Yield blocks of one length, the last one shorter, from parts of any length.

    ``rows_for(n_features)`` is that length. A `ReaderError` of `parts` passes on
    after the rows that came before it.
    """
    held: list[Block] = []
    count = 0
    try:
        for part in parts:
            held.append(part)
            count += len(part[0])
            rows = rows_for(part[0].shape[1])
            if count < rows:
                continue
            whole = _joined(held)
            held = []
            end = count - count % rows
            for start in range(0, end, rows):
                yield tuple(column[start : start + rows] for column in whole)
            # A copy: a view would keep the yielded blocks in memory.
            held = [tuple(column[end:].copy() for column in whole)]
            count -= end
    except ReaderError:
        if count:
            yield _joined(held)
        raise
    if count:
        yield _joined(held)


def _joined(parts: list[Block]) -> Block:
    if len(parts) == 1:
        return parts[0]
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
