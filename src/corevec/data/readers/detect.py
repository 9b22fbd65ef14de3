"""The format of a data file: from its first bytes, its name and its first line."""

from __future__ import annotations

import re
from pathlib import Path

from corevec.data.readers.text import WholeLines

COMPRESSED = (".gz", ".bz2", ".xz")
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
# A label and, if there is one, the first feature: enough to tell LIBSVM's text.
_LIBSVM_ROW = re.compile(rb"[+-]?[\d.]+([eE][+-]?\d+)?(\s+(qid|\d+):\S.*)?", re.DOTALL)
_LONGEST_LINE = 1 << 26


def format_of(path: Path) -> str | None:
    """Return the format of a file; None if nothing tells it.

    The first bytes decide, then the suffix, then the first line that is neither blank
    nor a comment. A folder is taken as Parquet.
    """
    if path.is_dir():
        return "parquet"
    with path.open("rb") as file:
        head = file.read(8)
    by_content = next(
        (kind for mark, kind in _FIRST_BYTES if head.startswith(mark)), None
    )
    return by_content or format_by_name(path) or _format_by_line(first_line(path))


def format_by_name(path: Path) -> str | None:
    """Return the format of a suffix; None for an unknown suffix."""
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in COMPRESSED]
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def _format_by_line(line: bytes) -> str | None:
    if b"," in line or (b"\t" in line and b":" not in line):
        return "csv"
    return "libsvm" if _LIBSVM_ROW.fullmatch(line) else None


def first_line(path: Path) -> bytes:
    """Return the first line that is neither blank nor a comment; empty if none."""
    with WholeLines("corevec", path, 1 << 16, _LONGEST_LINE) as lines:
        while lines.more():
            while lines.start < lines.stop:
                line = lines.next_line().strip()
                if line and not line.startswith(b"#"):
                    return line
                lines.skip(1)
    return b""
