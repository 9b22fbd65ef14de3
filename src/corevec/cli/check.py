"""``corevec check``: every bad line of a data file, with its number and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from corevec.cli.console import OutputOptions
from corevec.cli.data import ReadingOptions, open_stream, read_table
from corevec.cli.errors import CliError, ExitCode, in_our_words, reading
from corevec.cli.guess import as_file, format_of
from corevec.cli.scoring import value_lines

EPILOG = """\
\b
Examples:
  corevec check a9a.txt
  corevec check rows.csv --target label --json
  xzcat rows.xz | corevec check - --format libsvm
"""
# More distinct labels than this are the targets of a regression.
_MOST_LABELS = 20


@dataclass
class Findings:
    """What a pass over a file found."""

    name: str
    rows: int = 0
    columns: int = 0
    entries: int = 0
    bad: list[str] = field(default_factory=list)
    labels: Counter[str] | None = field(default_factory=Counter)

    def add(self, X: Any, y: Any) -> None:
        """Count a block."""
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
            self.labels.update(value_lines(y))
            if len(self.labels) > 500:
                self.labels = None


def check(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Data file, or - for standard input.")
    ],
    options: ReadingOptions,
    out: OutputOptions,
) -> ExitCode:
    """Read a data file and say every line that cannot be used, and why.

    Exit code 0 if every line is good, 3 if any is not.
    """

    def tell(message: str) -> None:
        if not (out.json or out.quiet):
            typer.echo(message)

    findings = Findings("standard input" if data == "-" else data)
    with as_file(data) as path, reading(ExitCode.BAD_DATA):
        format = format_of(path, options.format)
        try:
            if format in ("npy", "npz"):
                table = read_table(str(path), replace(options, format=format))
                findings.add(table.X, table.y)
            else:
                _check_stream(path, format, options, findings, tell)
        except CliError as error:  # a fault of the file as a whole
            findings.bad.append(str(error).replace(str(path), findings.name))
            tell(findings.bad[-1])
    if not findings.rows and not findings.bad:
        findings.bad.append(f"{data}: there is no row in this file.")
        tell(findings.bad[-1])
    _say(data, format, findings, out)
    return ExitCode.BAD_DATA if findings.bad else ExitCode.OK


def _check_stream(
    path: Path,
    format: str,
    options: ReadingOptions,
    findings: Findings,
    tell: Callable[[str], None],
) -> None:
    """Go through all blocks; `skip` keeps five messages, so each is caught here."""
    stream: Any = open_stream(path, format, replace(options, skip_bad_rows=True))

    def fault(where: str, bad: Exception) -> None:
        stream.skipped += 1
        message = in_our_words(f"{where}: {bad}.").replace(str(path), findings.name)
        findings.bad.append(message)
        tell(message)

    stream._fault = fault
    with reading(ExitCode.BAD_DATA):
        for block in stream:
            findings.add(block[0], block[1])


def _say(data: str, format: str, findings: Findings, out: OutputOptions) -> None:
    labels = findings.labels
    if labels is not None and not 0 < len(labels) <= _MOST_LABELS:
        labels = None
    out.say(
        f"{data}: {format}, {findings.rows:,} good rows, {findings.columns:,} columns, "
        f"{findings.entries:,} values"
    )
    if labels:
        counted = ", ".join(f"{name} ({n:,})" for name, n in sorted(labels.items()))
        out.say(f"labels: {counted}")
    bad = len(findings.bad)
    out.say("no bad line" if not bad else f"{bad:,} bad line{'s' if bad > 1 else ''}")
    out.result(
        command="check",
        data=data,
        format=format,
        rows=findings.rows,
        columns=findings.columns,
        values=findings.entries,
        labels=None if labels is None else dict(labels),
        bad=findings.bad,
    )


__all__ = ["EPILOG", "Findings", "check"]
