"""The format of a data file: from its first bytes, its name and its first line."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corevec.cli.errors import CliError, data_error, usage_error

FORMATS = ("libsvm", "csv", "npz", "npy", "parquet")
# First bytes of zip archives (such as npz), of the array format of NumPy, of Parquet.
_FIRST_BYTES = ((b"PK\x03\x04", "npz"), (b"\x93NUMPY", "npy"), (b"PAR1", "parquet"))
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".libsvm": "libsvm",
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}
COMPRESSED = (".gz", ".bz2", ".xz")
_LONGEST_LINE = 1 << 26


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
    if path.is_dir():
        return "parquet"
    with path.open("rb") as file:
        head = file.read(8)
    for mark, format in _FIRST_BYTES:
        if head.startswith(mark):
            return format
    return format_by_name(path) or _format_by_first_line(path)


def checked(format: str) -> str:
    """Return the format; raise an error that lists the formats if it is unknown."""
    if format not in FORMATS:
        raise usage_error(f"--format {format!r} must be auto, {', '.join(FORMATS)}.")
    return format


def format_by_name(path: Path) -> str | None:
    """Return the format of a suffix; None for an unknown suffix."""
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in COMPRESSED]
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def _format_by_first_line(path: Path) -> str:
    line = first_line(path)
    if b"," in line or (b"\t" in line and b":" not in line):
        return "csv"
    return "libsvm"


def first_line(path: Path) -> bytes:
    """Return the first line that is neither blank nor a comment; empty if none."""
    from corevec.data.readers.text import WholeLines

    with WholeLines("corevec", path, 1 << 16, _LONGEST_LINE) as lines:
        while lines.more():
            while lines.start < lines.stop:
                line = lines.next_line().strip()
                if line and not line.startswith(b"#"):
                    return line
                lines.skip(1)
    return b""


def delimiter_of(path: Path, asked: str | None) -> str:
    r"""Return the requested delimiter, or the first of , ; \t in the file."""
    if asked is not None:
        return {"\\t": "\t", "tab": "\t"}.get(asked, asked)
    line = first_line(path)
    counts = {mark: line.count(mark.encode()) for mark in (",", "\t", ";")}
    return max(counts, key=lambda mark: counts[mark])


def has_header(path: Path, delimiter: str) -> bool:
    """Whether the first line of a CSV file contains text other than numbers."""
    return not all(_is_number(f) for f in first_line(path).split(delimiter.encode()))


def _is_number(field: bytes) -> bool:
    try:
        float(field.strip().strip(b'"'))
    except ValueError:
        return False
    return True


__all__ = [
    "COMPRESSED",
    "FORMATS",
    "as_file",
    "checked",
    "delimiter_of",
    "existing",
    "first_line",
    "format_by_name",
    "format_of",
    "has_header",
]
