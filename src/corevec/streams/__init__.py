"""Files as streams of rows: blocks ``(X, y)`` for one pass, in bounded memory."""

from corevec.streams.base import RowStream
from corevec.streams.delimited import read_csv
from corevec.streams.libsvm import LibsvmFacts, read_libsvm, scan_libsvm
from corevec.streams.parquet import read_parquet

__all__ = [
    "LibsvmFacts",
    "RowStream",
    "read_csv",
    "read_libsvm",
    "read_parquet",
    "scan_libsvm",
]
