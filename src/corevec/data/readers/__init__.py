"""Files as streams of rows: blocks ``(X, y)`` for one pass, in bounded memory."""

from corevec.data.readers.base import RowStream
from corevec.data.readers.delimited import read_csv
from corevec.data.readers.libsvm import LibsvmFacts, read_libsvm, scan_libsvm
from corevec.data.readers.parquet import read_parquet

__all__ = [
    "LibsvmFacts",
    "RowStream",
    "read_csv",
    "read_libsvm",
    "read_parquet",
    "scan_libsvm",
]
