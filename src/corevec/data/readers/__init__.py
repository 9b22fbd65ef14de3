"""Files as streams of rows: blocks ``(X, y)`` for one pass, in bounded memory."""

from corevec.data.readers.base import (
    Argument,
    BadRecordError,
    NotANumberError,
    Part,
    Paths,
    ReaderError,
    RowStream,
    existing_files,
    finite_number,
    shown,
)
from corevec.data.readers.delimited import read_csv
from corevec.data.readers.detect import first_line, format_by_name, format_of
from corevec.data.readers.libsvm import LibsvmFacts, read_libsvm, scan_libsvm
from corevec.data.readers.libsvm_rows import RowBuffer, Rules
from corevec.data.readers.parquet import read_parquet
from corevec.data.readers.tables import Columns, TableStream, Wanted, find_columns
from corevec.data.readers.text import WholeLines

__all__ = [
    "Argument",
    "BadRecordError",
    "RowBuffer",
    "Columns",
    "ReaderError",
    "LibsvmFacts",
    "NotANumberError",
    "Part",
    "Paths",
    "RowStream",
    "Rules",
    "TableStream",
    "Wanted",
    "WholeLines",
    "existing_files",
    "find_columns",
    "finite_number",
    "first_line",
    "format_by_name",
    "format_of",
    "read_csv",
    "read_libsvm",
    "read_parquet",
    "scan_libsvm",
    "shown",
]
