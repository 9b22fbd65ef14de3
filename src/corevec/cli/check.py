"""``corevec check``: every bad line of a data file, with its number and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corevec.cli.console import OutputOptions
from corevec.cli.data import ReadingOptions, open_stream, read_table, refuse_encoding
from corevec.cli.errors import CliError, ExitCode, joined, reading
from corevec.cli.guess import as_file, format_of
from corevec.cli.options import DataFile
from corevec.cli.scoring import value_lines

if TYPE_CHECKING:
    from corevec.data.readers import BadRecordError

# More distinct labels than this are regression targets.
_MOST_LABELS = 20


@dataclass
class BadCells:
    """The first value of a column that is no finite number, and how many there are."""

    first: str
    count: int = 0


@dataclass
class Findings:
    """Counts of one pass over a file.

    Bad lines are reported immediately, bad cells in a summary of their column.
    """

    name: str
    tell: Callable[[str], None]
    rows: int = 0
    columns: int = 0
    entries: int = 0
    bad: int = 0
    labels: Counter[str] | None = field(default_factory=Counter)
    cells: dict[str, BadCells] = field(default_factory=dict)

    def add(self, X: Any, y: Any) -> None:
        """Count a block."""
        import numpy as np
        from scipy import sparse

        self.rows += X.shape[0]
        if sparse.issparse(X):
            self.entries += X.nnz
            used = int(X.indices.max()) + 1 if X.nnz else 0
            self.columns = max(self.columns, used)
        else:
            self.entries += X.size
            self.columns = X.shape[1]
        if y is not None and self.labels is not None:
            names, counts = np.unique(y, return_counts=True)
            for name, count in zip(value_lines(names), counts.tolist(), strict=True):
                self.labels[name] += count
            if len(self.labels) > _MOST_LABELS:
                self.labels = None

    def add_bad(self, path: Path, message: str) -> None:
        """Count and report a bad line; standard input is a temporary file here."""
        self.bad += 1
        self.tell(message.replace(str(path), self.name))

    def add_record(self, path: Path, where: str, bad: BadRecordError) -> None:
        """Count a bad record; report it, unless its columns are to be summarised."""
        if not bad.cells:
            self.add_bad(path, f"{where}: {joined(bad.args)}.")
            return
        self.bad += 1
        for column, text in bad.cells:
            first = f"{where}: column {column!r} holds {text!r}, no finite number"
            named = first.replace(str(path), self.name)
            self.cells.setdefault(column, BadCells(named)).count += 1

    def tell_columns(self) -> None:
        """Report the columns that have bad cells."""
        for column, cells in self.cells.items():
            more = (
                f"; {cells.count - 1:,} more rows likewise" if cells.count > 1 else ""
            )
            # A column whose values are mostly text is no column of numbers.
            is_text = 2 * cells.count > self.rows + self.bad
            hint = (
                f" --drop {column!r} leaves the column out; "
                f"`corevec train --categorical {column!r}` takes it as categories."
            )
            self.tell(f"{cells.first}{more}.{hint if is_text else ''}")


def check(
    data: DataFile,
    options: ReadingOptions,
    out: OutputOptions,
) -> ExitCode:
    """Read a data file and report every invalid line with the reason.

    Values of CSV and Parquet that are no finite numbers are counted by column. The exit
    code is 0 if every line is good, 3 if any is not.

    Examples
    --------
      corevec check a9a.txt
      corevec check rows.csv --target label --json
      xzcat rows.xz | corevec check - --format libsvm
    """
    refuse_encoding(options)
    kept: list[str] = []
    tell = kept.append if out.json else out.say
    findings = Findings("standard input" if data == "-" else data, tell)
    with as_file(data) as path, reading(ExitCode.BAD_DATA):
        format = format_of(path, options.format)
        try:
            _go_through(path, format, options, findings)
        except CliError as error:  # an error of the whole file
            if error.code is ExitCode.USAGE:
                raise
            findings.add_bad(path, str(error))
        if not findings.rows and not findings.bad:
            findings.add_bad(path, f"{path}: there is no row in this file.")
    _say(format, findings, kept, out)
    return ExitCode.BAD_DATA if findings.bad else ExitCode.OK


def _go_through(
    path: Path, format: str, options: ReadingOptions, findings: Findings
) -> None:
    if format in ("npy", "npz"):
        table = read_table(str(path), replace(options, format=format))
        findings.add(table.X, table.y)
        return
    stream = open_stream(path, format, replace(options, skip_bad_rows=True))

    stream = stream.telling(partial(findings.add_record, path))
    with reading(ExitCode.BAD_DATA):
        for block in stream:
            findings.add(block[0], block[1])
    findings.tell_columns()


def _say(format: str, findings: Findings, bad: list[str], out: OutputOptions) -> None:
    out.say(
        f"{findings.name}: {format}, {findings.rows:,} good rows, "
        f"{findings.columns:,} columns, {findings.entries:,} values"
    )
    if findings.labels:
        named = sorted(findings.labels.items())
        out.say("labels: " + ", ".join(f"{name} ({n:,})" for name, n in named))
    count = findings.bad
    out.say(f"{count:,} bad line{'s' * (count > 1)}" if count else "no bad line")
    out.result(
        command="check",
        data=findings.name,
        format=format,
        rows=findings.rows,
        columns=findings.columns,
        values=findings.entries,
        labels=None if findings.labels is None else dict(findings.labels),
        bad=bad,
    )
