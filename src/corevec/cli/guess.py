"""Data files by their names on the command line: paths, formats, headers."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corevec.cli.errors import CliError, data_error, usage_error

FORMATS = ("libsvm", "csv", "npz", "npy", "parquet")


@contextmanager
def as_file(name: str) -> Iterator[Path]:
    """Provide a path to read: standard input (``-``) is copied to a temporary file."""
    if name != "-":
        yield existing(name)
        return
    with tempfile.TemporaryDirectory(prefix="corevec-") as folder:
        path = Path(folder) / "stdin"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        try:
            yield path
        except CliError as error:
            named = str(error).replace(str(path), "standard input")
            raise CliError(named, error.code) from error


def existing(name: str) -> Path:
    """Return the path of a data file, which must exist."""
    path = Path(name)
    if not path.exists():
        raise data_error(f"there is no file {name!r}. Check the name and the folder.")
    if path.is_dir() and not any(path.rglob("*.parquet")):
        raise data_error(f"{name!r} is a folder without *.parquet files. Give a file.")
    return path


def format_of(path: Path, asked: str = "auto") -> str:
    """Return the requested format, or the one that is detected."""
    if asked != "auto":
        return checked(asked)
    from corevec.data.readers import format_of

    # LIBSVM's reader says best what is wrong with a line that tells no format.
    return format_of(path) or "libsvm"


def checked(format: str) -> str:
    """Return the format; raise an error that lists the formats if it is unknown."""
    if format not in FORMATS:
        raise usage_error(f"--format {format!r} must be auto, {', '.join(FORMATS)}.")
    return format


def delimiter_of(path: Path, asked: str | None) -> str:
    r"""Return the requested delimiter, or the first of , ; \t in the file."""
    if asked is not None:
        return {"\\t": "\t", "tab": "\t"}.get(asked, asked)
    from corevec.data.readers import first_line

    line = first_line(path)
    counts = {mark: line.count(mark.encode()) for mark in (",", "\t", ";")}
    return max(counts, key=lambda mark: counts[mark])


def has_header(path: Path, delimiter: str) -> bool:
    """Whether the first line of a CSV file contains text other than numbers."""
    from corevec.data.readers import first_line

    return not all(_is_number(f) for f in first_line(path).split(delimiter.encode()))


def _is_number(field: bytes) -> bool:
    try:
        float(field.strip().strip(b'"'))
    except ValueError:
        return False
    return True
