"""Rows on a disk: Parquet files, LIBSVM text, arrays mapped into memory.

`corevec.open` chooses among them.
"""

from corevec.data.sources._libsvm import LibsvmSource
from corevec.data.sources._npy import NpySource
from corevec.data.sources._parquet import ParquetSource

__all__ = ["LibsvmSource", "NpySource", "ParquetSource"]
