"""Writers of data files: LIBSVM text, CSV, npz, npy, Parquet."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from corevec.cli.errors import usage_error
from corevec.cli.scoring import value_lines

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

Blocks = Iterable[tuple[Any, Any]]
Header = Sequence[str] | None


def write_data(
    path: Path, blocks: Blocks, format: str | None, suffix: str, header: Header
) -> int:
    """Write blocks of rows and labels; return the number of rows.

    The format is that of the suffix unless one is given; the suffix also says whether
    text is to be compressed. The header names labels, if there are any, and columns.
    """
    from corevec.data.readers import format_by_name

    format = format or format_by_name(Path(f"x{suffix}")) or "libsvm"
    if format in _ARRAYS:
        return _ARRAYS[format](path, blocks, header)
    opened = _OPENERS.get(Path(f"x{suffix}").suffix.lower(), open)
    with (
        opened(path, "wb") as file,
        io.TextIOWrapper(file, "utf-8", newline="") as text,
    ):
        return write_text(text, blocks, format, header)


def write_text(file: Any, blocks: Blocks, format: str, header: Header) -> int:
    """Write blocks as LIBSVM text or CSV; return the number of rows."""
    return _TEXTS[format](file, blocks, header)


def _write_libsvm(file: Any, blocks: Blocks, _: Header) -> int:
    from scipy import sparse

    n_rows = 0
    for X, y in blocks:
        rows = sparse.csr_matrix(X)
        labels = ["0"] * X.shape[0] if y is None else value_lines(y)
        _refuse_text_labels(labels)
        for i, label in enumerate(labels):
            part = slice(rows.indptr[i], rows.indptr[i + 1])
            values = zip(
                rows.indices[part] + 1, value_lines(rows.data[part]), strict=True
            )
            entries = [f"{index}:{value}" for index, value in values]
            file.write(" ".join([label, *entries]) + "\n")
        n_rows += len(labels)
    return n_rows


def _refuse_text_labels(labels: list[str]) -> None:
    for label in labels[:1]:
        try:
            float(label)
        except ValueError:
            raise usage_error(
                f"labels such as {label!r} cannot be written as LIBSVM text, which has "
                "numbers only. Choose npz, CSV or Parquet."
            ) from None


def _write_csv(file: Any, blocks: Blocks, header: Header) -> int:
    n_rows = 0
    writer = csv.writer(file, lineterminator="\n")
    for X, y in blocks:
        rows = _dense(X)
        if not n_rows:
            writer.writerow(header or _numbered(rows, y))
        labels = None if y is None else value_lines(y)
        for i, row in enumerate(rows):
            fields = value_lines(row)
            writer.writerow(fields if labels is None else [labels[i], *fields])
        n_rows += rows.shape[0]
    return n_rows


def _write_npz(path: Path, blocks: Blocks, _: Header) -> int:
    import numpy as np
    from scipy import sparse

    X, y = _whole(blocks)
    parts = {"X": X}
    if sparse.issparse(X):
        # The names of scipy.sparse.load_npz, which can read the file as well.
        parts = {
            "format": np.array(b"csr"),
            "shape": np.array(X.shape),
            "data": X.data,
            "indices": X.indices,
            "indptr": X.indptr,
        }
    if y is not None:
        parts["y"] = y
    with path.open("wb") as file:  # savez appends .npz to a name, not to a file
        np.savez(file, **parts)
    return int(X.shape[0])


def _write_npy(path: Path, blocks: Blocks, _: Header) -> int:
    import numpy as np

    X, y = _whole(blocks)
    X = _dense(X)
    if y is not None:
        _refuse_text_labels(value_lines(y[:1]))
        X = np.column_stack([np.asarray(y, dtype=np.float64), X])
    with path.open("wb") as file:
        np.save(file, X)
    return int(X.shape[0])


def _write_parquet(path: Path, blocks: Blocks, header: Header) -> int:
    from corevec.data.readers._arrow import arrow

    pa = arrow("corevec convert")
    writer, n_rows = None, 0
    try:
        for X, y in blocks:
            rows = _dense(X)
            columns = [*([] if y is None else [y]), *rows.T]
            names = header or _numbered(rows, y)
            table = pa.table([pa.array(part) for part in columns], names=list(names))
            if writer is None:
                writer = pa.parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
            n_rows += rows.shape[0]
    finally:
        if writer is not None:
            writer.close()
    return n_rows


def _numbered(rows: Any, y: Any) -> list[str]:
    """Return the header for rows without column names."""
    names = [f"x{j}" for j in range(rows.shape[1])]
    return names if y is None else ["label", *names]


def _whole(blocks: Blocks) -> tuple[Any, Any]:
    import numpy as np
    from scipy import sparse

    parts, labels = zip(*((X, y) for X, y in blocks), strict=True)
    joined = sparse.vstack if sparse.issparse(parts[0]) else np.concatenate
    return joined(parts), None if labels[0] is None else np.concatenate(labels)


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


Writer = Callable[[Any, Blocks, Header], int]
_TEXTS: dict[str, Writer] = {"csv": _write_csv, "libsvm": _write_libsvm}
_ARRAYS: dict[str, Writer] = {
    "npy": _write_npy,
    "npz": _write_npz,
    "parquet": _write_parquet,
}
