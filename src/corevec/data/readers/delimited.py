"""CSV files in blocks of rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corevec._runtime.checks import check_choice, check_flag
from corevec.data.readers._arrow import arrow, parsed_csv
from corevec.data.readers.base import (
    DEFAULT_BLOCK_ROWS,
    DEFAULT_MEMORY_BUDGET,
    Argument,
    BadRecordError,
    Block,
    NotANumberError,
    Paths,
    existing_files,
    finite_number,
    reader_error,
    shown,
)
from corevec.data.readers.tables import Column, Columns, TableStream, Wanted
from corevec.data.readers.text import WholeLines

# Labels that may mean a missing number or a class of that name.
_TELLS_NOTHING = ("", "nan", "na", "null", "none")
# Arrow needs 16 us per column and chunk, as much as for 100 numbers. Chunks of 1 MB
# hold 50 rows of this many columns, and of 40,000 columns one row, which took 0.7 s:
# the chunks of wider tables are longer.
_COLUMNS_OF_A_CHUNK = 1 << 10


def read_csv(
    path: Paths,
    *,
    target: Column | None,
    columns: Sequence[Column] | None = None,
    sample_weight: Column | None = None,
    target_type: str = "auto",
    delimiter: str = ",",
    header: bool = True,
    block_rows: int = DEFAULT_BLOCK_ROWS,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
    errors: str = "raise",
) -> CsvStream:
    """Read CSV files as blocks of dense rows, in bounded memory. Needs pyarrow.

    Parameters
    ----------
    path : path or list of paths
        UTF-8 text, plain or compressed by gzip, bzip2 or xz, which the first bytes
        tell. Several files are read as one; each has its header.
    target : str, int or None
        Column of the labels, by name or by position from 0 (-1 is the last one). None
        for rows without labels: y is then None.
    columns : list of str or int, default=None
        Columns of X, in this order; None means all but target and weight.
    sample_weight : str or int, default=None
        Column of the weights, the third part of each block.
    target_type : {"auto", "number", "string"}, default="auto"
        What labels are: float64 or text. "auto" goes by the first row.
    delimiter : str, default=","
        One character between the fields. Fields may stand in double quotes.
    header : bool, default=True
        Whether the first line names the columns; if not, they are "0", "1", ...
    block_rows : int, default=8192
        Rows of a block; the last one may be shorter.
    memory_budget : int, default=2**26
        Bytes of a block, which has fewer rows where they are long, and of a line. The
        reader needs about twice that beside the block.
    errors : {"raise", "skip"}, default="raise"
        How to treat a record with another number of fields than the header, or
        without a finite number where one is expected: raise an error with file, line
        and column, or skip the record and count it in `skipped`. A truncated or damaged
        file always raises an error.

    Returns
    -------
    CsvStream
        Iterable of ``(X, y)`` or ``(X, y, sample_weight)``, X of float64. Each
        ``iter()`` is a pass.
    """
    who = "read_csv"
    check_choice(who, "target_type", target_type, ("auto", "number", "string"))
    check_flag(who, "header", header)
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        reason = r" must be one character, such as ',', ';' or '\t'."
        raise reader_error(who, Argument("delimiter", delimiter), reason)
    arrow(who)
    format = CsvFormat(delimiter, header, target_type)
    wanted, paths = Wanted(target, columns, sample_weight), existing_files(who, path)
    return CsvStream(format, paths, wanted, errors, block_rows, memory_budget)


@dataclass(frozen=True)
class CsvFormat:
    """The format of the text: delimiter, header or not, type of the target."""

    delimiter: str
    header: bool
    target_type: str

    def records(self, text: memoryview) -> Iterator[tuple[int, int, list[str]]]:
        """Yield (first line, last line, fields) of each record that is not blank.

        Bytes that are not UTF-8 are accepted in fields that are not read.
        """
        lines = (line.decode("utf-8", "surrogateescape") for line in io.BytesIO(text))
        reader = csv.reader(lines, delimiter=self.delimiter)
        while True:
            first = reader.line_num + 1
            try:
                fields = next(reader, None)
            except csv.Error as error:
                # A field beyond csv.field_size_limit(), or a stray carriage return:
                # as one field, it has the wrong number of fields.
                fields = [f"({error})"]
            if fields is None:
                return
            if fields:
                yield first, reader.line_num, fields


class CsvStream(TableStream):
    """Blocks of CSV text; made by `read_csv`."""

    def __init__(
        self,
        format: CsvFormat,
        paths: list[Path],
        wanted: Wanted,
        errors: str,
        block_rows: int,
        memory_budget: int,
    ):
        super().__init__("read_csv", paths, wanted, errors, block_rows, memory_budget)
        self.format = format

    def _start_pass(self) -> None:
        super()._start_pass()
        self._target_kind: str | None = None

    @property
    def _has_names(self) -> bool:
        return self.format.header

    def _names_of(self, path: Path) -> tuple[str, ...] | None:
        with self._lines(path) as lines:
            while lines.more():
                for _, _, fields in self.format.records(lines.whole_lines()):
                    return _names(fields)
                lines.skip_all()
        return None

    def _lines(self, path: Path) -> WholeLines:
        chunk, budget = self._chunk_bytes, self.memory_budget
        return WholeLines(self.who, path, chunk, budget, quoted=True)

    def _parts(self) -> Iterator[Block]:
        for lines, columns in self._chunks():
            part = self._part_at_once(lines.whole_lines(), columns)
            if part is None:
                yield from self._records(lines, columns)
            else:
                yield part

    def texts(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the place and the texts of each record: features, target, weight."""
        self._start_pass()
        for lines, columns in self._chunks():
            for first, _, fields in self.format.records(lines.whole_lines()):
                where = lines.where(lines.line + first)
                try:
                    self._check_length(fields, columns)
                except BadRecordError as bad:
                    if fault := self._fault(where, bad):
                        raise fault from bad
                else:
                    yield where, [fields[position] for position in columns.needed]

    def _chunks(self) -> Iterator[tuple[WholeLines, Columns]]:
        """Yield the lines of each chunk after the header, with the columns."""
        for path in self.paths:
            with self._lines(path) as lines:
                columns = None
                while lines.more():
                    if columns is None:
                        columns = self._begin(lines)
                        if columns is not None:
                            lines.widen(self._chunk_for(len(columns.names)))
                        continue
                    yield lines, columns
                    lines.skip_all()

    def _chunk_for(self, n_columns: int) -> int:
        """Return the bytes to parse at once, for some 50 rows of a wide table."""
        wide = self._chunk_bytes * n_columns // _COLUMNS_OF_A_CHUNK
        return max(self._chunk_bytes, min(wide, self.memory_budget))

    def _begin(self, lines: WholeLines) -> Columns | None:
        """Find the columns from the first record; consume it if it is the header."""
        for _, last, fields in self.format.records(lines.whole_lines()):
            if not self.format.header:
                return self._columns(lines.path, map(str, range(len(fields))))
            lines.skip(last)
            return self._columns(lines.path, _names(fields))
        lines.skip_all()
        return None

    def _part_at_once(self, text: memoryview, columns: Columns) -> Block | None:
        """Return the rows of `text`; None if any of them needs the slow path."""
        kinds = dict.fromkeys(columns.needed, "number")
        if columns.target is not None:
            kinds[columns.target] = self._kind_of_target(text, columns)
        delimiter = self.format.delimiter
        found = parsed_csv(self.who, text, len(columns.names), kinds, delimiter)
        return None if found is None else _plain_part(found, len(columns.features))

    def _kind_of_target(self, text: memoryview, columns: Columns) -> str:
        """Return "number" or "string", the same for all rows of the pass."""
        if self.format.target_type != "auto":
            return self.format.target_type
        if self._target_kind is None:
            for _, _, fields in self.format.records(text):
                if len(fields) != len(columns.names):
                    continue
                label = fields[columns.target or 0].strip()
                if label.lower() not in _TELLS_NOTHING:
                    self._target_kind = "number" if _is_number(label) else "string"
                    break
        return self._target_kind or "number"

    def _records(self, lines: WholeLines, columns: Columns) -> Iterator[Block]:
        """Yield the good records of the lines, parsed one by one."""
        good: list[Block] = []
        fault = None
        for first, _, fields in self.format.records(lines.whole_lines()):
            try:
                good.append(self._row(fields, columns))
            except BadRecordError as bad:
                fault = self._fault(lines.where(lines.line + first), bad)
                if fault is not None:
                    break
        if good:
            yield tuple(np.array(column) for column in zip(*good, strict=True))
        if fault is not None:
            raise fault

    def _row(self, fields: list[str], columns: Columns) -> Block:
        """Return the features of a record and, if requested, its target and weight."""
        self._check_length(fields, columns)
        numbers = [*columns.features]
        numbers += [] if columns.weight is None else [columns.weight]
        try:
            values = [self._number(fields, columns, position) for position in numbers]
        except NotANumberError as bad:
            found = ((columns.names[p], fields[p].strip()) for p in numbers)
            bad.cells = [cell for cell in found if not _is_number(cell[1])]
            raise
        row: list[Any] = [values[: len(columns.features)]]
        if columns.target is not None:
            row.append(self._label(fields[columns.target], columns))
        return (*row, *values[len(columns.features) :])

    def _check_length(self, fields: list[str], columns: Columns) -> None:
        if len(fields) != len(columns.names):
            raise BadRecordError(
                f"expected {len(columns.names)} fields, got {len(fields)}, in "
                f"{shown(self.format.delimiter.join(fields))}"
            )

    def _number(self, fields: list[str], columns: Columns, position: int) -> float:
        place = f"in column {shown(columns.names[position])}"
        return finite_number(fields[position].strip(), place)

    def _label(self, text: str, columns: Columns) -> float | str:
        name = shown(columns.names[columns.target or 0])
        if (self._target_kind or self.format.target_type) != "string":
            place = f"in the target column {name}"
            try:
                return finite_number(text.strip(), place)
            except BadRecordError as bad:
                if self.format.target_type == "auto":
                    given = Argument("target_type", "string")
                    more = (", as in the first row (or give ", given, ")")
                    raise BadRecordError(*bad.args, *more) from None
                raise
        if not text:
            raise BadRecordError(f"expected a label in the target column {name}")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise BadRecordError(
                f"expected UTF-8 text in the target column {name}, got {shown(text)}"
            ) from None
        return text


def _names(fields: list[str]) -> tuple[str, ...]:
    """Return the names in a header."""
    return tuple(name.strip() for name in fields)


def _plain_part(found: list[Any], n_features: int) -> Block | None:
    """Return the columns as X, target, weight; None if any value is missing."""
    X = np.empty((len(found[0]), n_features))
    for j in range(n_features):
        X[:, j] = found[j]
    part = [X]
    for column in found[n_features:]:
        is_text = column.dtype == object
        if is_text and not all(column):
            return None
        part.append(column.astype(str) if is_text else column)
    numbers = (column for column in part if column.dtype.kind == "f")
    return tuple(part) if all(np.isfinite(c).all() for c in numbers) else None


def _is_number(text: str) -> bool:
    try:
        finite_number(text, "")
    except BadRecordError:
        return False
    return True
