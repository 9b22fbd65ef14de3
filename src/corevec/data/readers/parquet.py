"""Parquet files in blocks of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.data.readers._arrow import arrow, as_floats, as_labels, kind_of
from corevec.data.readers.base import (
    DEFAULT_BLOCK_ROWS,
    DEFAULT_MEMORY_BUDGET,
    Argument,
    BadRecordError,
    Block,
    Paths,
    existing_files,
    reader_error,
    shown,
)
from corevec.data.readers.tables import Column, Columns, TableStream, Wanted

# Column chunks are read in pieces of this size, not whole: a row group may be large.
_READ_BYTES = 1 << 16


def read_parquet(
    path: Paths,
    *,
    target: Column | None,
    columns: Sequence[Column] | None = None,
    sample_weight: Column | None = None,
    block_rows: int = DEFAULT_BLOCK_ROWS,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
    errors: str = "raise",
) -> ParquetStream:
    """Read Parquet files as blocks of dense rows, in bounded memory. Needs pyarrow.

    Parameters
    ----------
    path : path or list of paths
        Files, or folders, of which all files ``*.parquet`` are read in the order of
        their names (folders within too; not names that begin with ``_`` or a point).
        Columns that exist only as names of folders are not read.
    target : str, int or None
        Column of the labels, by name or by position from 0 (-1 is the last one). None
        for rows without labels: y is then None. Text stays text, whole numbers and
        booleans stay what they are, other numbers become float64.
    columns : list of str or int, default=None
        Columns of X, in this order; None means all but target and weight. All must be
        numbers or booleans.
    sample_weight : str or int, default=None
        Column of the weights, the third part of each block.
    block_rows : int, default=8192
        Rows of a block; the last one may be shorter.
    memory_budget : int, default=2**26
        Bytes of a block, which has fewer rows where they are long. The reader needs
        about twice that beside the block, and a page of each column.
    errors : {"raise", "skip"}, default="raise"
        How to treat a row with a null, nan or infinity: raise an error with file, row
        (the first is 1) and column, or skip the row and count it in `skipped`.

    Returns
    -------
    ParquetStream
        Iterable of ``(X, y)`` or ``(X, y, sample_weight)``, X of float64. Each
        ``iter()`` is a pass.
    """
    who = "read_parquet"
    arrow(who)
    wanted = Wanted(target, columns, sample_weight)
    files = parquet_files(who, path)
    return ParquetStream(who, files, wanted, errors, block_rows, memory_budget)


class ParquetStream(TableStream):
    """Blocks of Parquet files; made by `read_parquet`."""

    def _names_of(self, path: Path) -> tuple[str, ...] | None:
        with opened(self.who, path) as file:
            return tuple(file.schema_arrow.names)

    def _parts(self) -> Iterator[Block]:
        for path in self.paths:
            n_rows = 0
            for batch, columns in self._batches(path):
                yield from self._part(path, n_rows, batch, columns)
                n_rows += batch.num_rows

    def texts(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the place and the texts of each record: features, target, weight."""
        self._start_pass()
        for path in self.paths:
            row = 0
            for batch, columns in self._batches(path, as_text=True):
                names = [columns.names[position] for position in columns.needed]
                parts = [batch.column(name).to_pylist() for name in names]
                for values in zip(*parts, strict=True):
                    row += 1
                    texts = ["" if v is None else str(v) for v in values]
                    yield f"{path}, row {row}", texts

    def _batches(
        self, path: Path, as_text: bool = False
    ) -> Iterator[tuple[Any, Columns]]:
        """Yield the batches of one file."""
        with opened(self.who, path) as file:
            columns = self._columns(path, file.schema_arrow.names)
            if not as_text:
                check_types(self.who, path, file.schema_arrow, columns)
            check_unique(self.who, path, columns)
            rows = self._rows_within_budget(len(columns.features))
            for batch in batches(file, columns, rows):
                yield batch, columns

    def _part(
        self, path: Path, n_before: int, batch: Any, columns: Columns
    ) -> Iterator[Block]:
        """Yield the rows of a batch, those before a bad row before its error."""
        part, there = self._arrays(batch, columns)
        fault = None
        good = np.asarray(there.all(axis=1))
        for row in np.flatnonzero(~good):
            bad = no_value(batch, columns, int(row), int(np.argmin(there[row])))
            missing = (
                columns.names[columns.needed[p]] for p in np.flatnonzero(~there[row])
            )
            bad.cells = [(name, str(batch.column(name)[row])) for name in missing]
            fault = self._fault(f"{path}, row {n_before + int(row) + 1}", bad)
            if fault is not None:
                good[row:] = False
                break
        if good.any():
            yield part if good.all() else tuple(column[good] for column in part)
        if fault is not None:
            raise fault

    def _arrays(self, batch: Any, columns: Columns) -> tuple[Block, Array]:
        """Return X, target and weight of a batch, and which values can be used."""
        X = np.empty((batch.num_rows, len(columns.features)))
        for j, name in enumerate(columns.feature_names):
            X[:, j] = as_floats(self.who, batch.column(name))
        part, there = [X], [np.isfinite(X)]
        if columns.target is not None:
            name = columns.names[columns.target]
            label, known = as_labels(self.who, batch.column(name))
            part.append(label)
            there.append(known[:, None])
        if columns.weight is not None:
            weight = as_floats(self.who, batch.column(columns.names[columns.weight]))
            part.append(weight)
            there.append(np.isfinite(weight)[:, None])
        return tuple(part), np.hstack(there)


@contextmanager
def opened(who: str, path: Path) -> Iterator[Any]:
    """Provide an open Parquet file; convert the errors of Arrow."""
    pa = arrow(who)
    try:
        with pa.parquet.ParquetFile(
            path, buffer_size=_READ_BYTES, pre_buffer=False
        ) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise reader_error(
            who,
            f"{path}: cannot be read as Parquet; is it whole? "
            f"({type(error).__name__}: {error})",
        ) from error


def batches(
    file: Any, columns: Columns, rows: int, groups: list[int] | None = None
) -> Iterator[Any]:
    """Yield batches of at most `rows` rows of the row groups: the needed columns."""
    wanted = range(file.num_row_groups) if groups is None else groups
    yield from file.iter_batches(
        batch_size=rows,
        row_groups=list(wanted),
        columns=[columns.names[p] for p in columns.needed],
        use_threads=False,
    )


def check_types(who: str, path: Path, schema: Any, columns: Columns) -> None:
    """Check that features and weight are numbers, and the target numbers or text."""
    for position in columns.needed:
        kind = kind_of(who, schema.field(position).type)
        allowed = {"number", "string"} if position == columns.target else {"number"}
        if kind not in allowed:
            raise reader_error(
                who,
                f"{path}: column {shown(columns.names[position])} is "
                f"of type {schema.field(position).type}; expected "
                f"{' or '.join(sorted(allowed))}. Choose others with ",
                *(Argument("columns"), "."),
            )


def check_unique(who: str, path: Path, columns: Columns) -> None:
    """Refuse columns that share their name: Arrow finds columns by name."""
    counts = Counter(columns.names)
    for name in (columns.names[p] for p in columns.needed):
        if counts[name] > 1:
            raise reader_error(
                who,
                f"{path}: {counts[name]} columns have the name {name!r}. Rename them, "
                "or choose others with ",
                *(Argument("columns"), "."),
            )


def no_value(batch: Any, columns: Columns, row: int, place: int) -> BadRecordError:
    """Return the reason why a row without a value in this needed column is bad."""
    name = columns.names[columns.needed[place]]
    value = batch.column(name)[row].as_py()
    return BadRecordError(
        f"expected a value in column {shown(name)}, got "
        f"{'null' if value is None else value}"
    )


def parquet_files(who: str, path: Paths) -> list[Path]:
    """Return the files of the given paths; those of a folder by their names."""
    files: list[Path] = []
    for one in existing_files(who, path):
        if not one.is_dir():
            files.append(one)
            continue
        inside = [
            file
            for file in sorted(one.rglob("*.parquet"))
            if not any(p[0] in "._" for p in file.relative_to(one).parts)
        ]
        if not inside:
            raise reader_error(who, f"{one}: no file *.parquet in this folder.")
        files += inside
    return files
