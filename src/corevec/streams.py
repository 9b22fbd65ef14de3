"""Readers of files, in blocks: the public name of `corevec.data.readers`."""

from corevec.data.readers import (
    LibsvmFacts,
    RowStream,
    read_csv,
    read_libsvm,
    read_parquet,
    scan_libsvm,
)

__all__ = [
    "LibsvmFacts",
    "RowStream",
    "read_csv",
    "read_libsvm",
    "read_parquet",
    "scan_libsvm",
]
