"""Data files as rows in memory, or as blocks for one pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corevec.cli.columns import Known, check_by_position, columns_to_read, listed
from corevec.cli.errors import ExitCode, data_error, reading, usage_error
from corevec.cli.guess import as_file, delimiter_of, format_of, has_header

if TYPE_CHECKING:
    from corevec.cli.encoding import Encoding
    from corevec.data.readers import Columns, RowStream

# Columns of LIBSVM text before they are counted: the largest index of SciPy.
_ANY_COLUMNS = 2**31 - 1


@dataclass(frozen=True)
class ReadingOptions:
    """Options for reading a data file.

    Parameters
    ----------
    format : FORMAT
        libsvm, csv, npz, npy or parquet; auto detects it by content.
    target : COLUMN
        Label column of CSV, Parquet or npy: its name, or its number from 0 (-1 is
        the last).
    target_type : TYPE
        Labels of CSV: auto, number or string.
    weight_column : COLUMN
        Column of row weights (CSV, Parquet).
    columns : NAMES
        Columns of CSV or Parquet to use, with commas: names or numbers from 0;
        default: all but labels and weights.
    drop : NAMES
        Columns of CSV or Parquet to leave out, with commas.
    categorical : NAMES
        Columns of CSV or Parquet to take as categories, with commas; auto takes every
        column of text. One column of 0 and 1 per category, kept in the model.
    missing : KIND
        Fill missing numbers of CSV or Parquet: mean or median of their column, kept
        in the model. By default they are errors.
    header
        Whether CSV begins with names; by default if its first line is not all
        numbers.
    delimiter : CHARACTER
        Character between CSV fields; default: , ; or tab.
    zero_based
        LIBSVM indices count from 0, not 1.
    n_features : NUMBER
        Columns of LIBSVM text, if more than are used.
    dense
        Hold LIBSVM rows as a dense array in any case.
    skip_bad_rows
        Leave out bad rows, and count them.
    """

    format: str = "auto"
    target: str | None = None
    target_type: str = "auto"
    weight_column: str | None = None
    columns: str | None = None
    drop: str | None = None
    categorical: str | None = None
    missing: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    zero_based: bool = False
    n_features: int | None = None
    dense: bool = False
    skip_bad_rows: bool = False


@dataclass(frozen=True)
class Table:
    """All rows of a data file."""

    name: str
    format: str
    X: Any
    y: Any = None
    sample_weight: Any = None
    skipped: int = 0
    names: tuple[str, ...] | None = None  # of the columns of X
    target_name: str | None = None
    encoding: Encoding | None = None  # of text and missing numbers in X

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are CSR."""
        from scipy import sparse

        return bool(sparse.issparse(self.X))

    @property
    def header(self) -> list[str] | None:
        """Names of the labels, if there are any, and of the columns, for a writer.

        None if the file has no names or a duplicate name, which would be ambiguous.
        """
        if self.names is None:
            return None
        labels = [] if self.target_name is None else [self.target_name]
        # A header may contain bytes that are not UTF-8, the encoding of the output.
        names = [
            name.encode("utf-8", "backslashreplace").decode()
            for name in [*labels, *self.names]
        ]
        return names if len(set(names)) == len(names) else None

    def fields(self) -> dict[str, Any]:
        """Return the JSON fields of the table."""
        return {
            "path": self.name,
            "format": self.format,
            "rows": self.X.shape[0],
            "columns": self.X.shape[1],
            "sparse": self.is_sparse,
            "skipped": self.skipped,
        }

    def __str__(self) -> str:
        rows, columns = self.X.shape
        kind = "sparse" if self.is_sparse else "dense"
        skipped = f", {self.skipped:,} bad rows left out" if self.skipped else ""
        return f"{self.name}: {rows:,} rows, {columns:,} columns, {kind}{skipped}"


def read_encoded(
    name: str, options: ReadingOptions, known: Known | None = None
) -> Table:
    """Read a whole data file for a model that may hold an encoding of its columns.

    For a fitted model, `known` are the columns that it was fitted on: those of the file
    are taken by their names, in the model's order, where both have names.
    """
    from corevec.cli.encoding import Encoding

    encoding = Encoding.asked_for(options) if known is None else known.encoding
    return _read(name, options, known, encoding)


def read_table(name: str, options: ReadingOptions) -> Table:
    """Read a whole data file of numbers, or standard input for ``-``."""
    refuse_encoding(options)
    return _read(name, options, None, None)


def refuse_encoding(options: ReadingOptions) -> None:
    """Refuse the options of an encoding, which only a model can hold."""
    given = {"--categorical": options.categorical, "--missing": options.missing}
    for option, value in given.items():
        if value is not None:
            raise usage_error(f"{option} {value!r} is for `corevec train` only.")


def _read(
    name: str, options: ReadingOptions, known: Known | None, encoding: Encoding | None
) -> Table:
    with as_file(name) as path, reading(ExitCode.BAD_DATA):
        format = format_of(path, options.format)
        if encoding is not None and format not in ("csv", "parquet"):
            raise usage_error(
                f"{name}: a model with --categorical or --missing needs CSV or Parquet."
            )
        if format in ("npy", "npz"):
            table = _from_arrays(name, path, format, options)
        elif format == "libsvm":
            table = _from_libsvm(name, path, options)
        else:
            stream, header = _table_stream(name, path, format, options, known)
            if encoding is None:
                table = _joined_dense(_blocks_in(name, stream))
            else:
                table = _encoded(name, stream, options, encoding)
            names = stream.feature_names
            table = replace(
                table,
                name=name,
                format=format,
                skipped=stream.skipped,
                names=None if names is None else tuple(names),
                target_name=None if header is None else header.target_name,
            )
    if known is not None and (known.names is None or table.names is None):
        check_by_position(name, table.X.shape[1], table.names, known)
    return table


def _from_libsvm(name: str, path: Path, options: ReadingOptions) -> Table:
    stream = open_stream(path, "libsvm", options)
    table = _joined_libsvm(_blocks_in(name, stream), options)
    return replace(table, name=name, format="libsvm", skipped=stream.skipped)


def _table_stream(
    name: str, path: Path, format: str, options: ReadingOptions, known: Known | None
) -> tuple[Any, Columns | None]:
    """Return the stream of a table, with the columns of the model, and its header."""
    stream: Any = open_stream(path, format, options)
    header: Columns | None = stream.header()
    if header is not None and known is not None and known.names is not None:
        wanted = columns_to_read(name, header, known.names)
        if wanted is not None:
            stream = open_stream(path, format, options, columns=wanted)
    return stream, header


def _encoded(
    name: str, stream: Any, options: ReadingOptions, encoding: Encoding
) -> Table:
    """Return rows with text and missing numbers, and their encoding."""
    from corevec.cli.encoding import complete_numbers, labels_of

    texts = [fields for _, fields in stream.texts()]
    if not texts:
        raise data_error(f"{name}: there is no row in this file.")
    wanted, names = stream.wanted, stream.column_names
    columns = [*zip(*texts, strict=True)]
    weight = columns.pop() if wanted.sample_weight is not None else None
    target = columns.pop() if wanted.target is not None else None
    rows = [list(fields[: len(names)]) for fields in texts]
    X, categorical = encoding.columns(name, names, rows)
    return Table(
        "",
        "",
        X,
        None if target is None else labels_of(name, target, options.target_type),
        None if weight is None else complete_numbers(name, "--weight-column", weight),
        encoding=replace(encoding, categorical=tuple(categorical)),
    )


def _blocks_in(name: str, stream: RowStream) -> list[Any]:
    """Return all blocks of a file, which must contain a row."""
    blocks = list(stream)
    if not blocks:
        raise data_error(
            f"{name}: there is no row in this file"
            + (f" ({stream.skipped:,} bad ones)." if stream.skipped else ".")
        )
    return blocks


def open_stream(
    path: Path, format: str, options: ReadingOptions, **how: Any
) -> RowStream:
    """Return the blocks of a text or Parquet file; `how` is passed to its reader."""
    from corevec.data.readers import read_csv, read_libsvm, read_parquet

    how["errors"] = "skip" if options.skip_bad_rows else "raise"
    if format == "libsvm":
        _refuse_columns(path, options)
        return read_libsvm(
            path,
            n_features=options.n_features or _ANY_COLUMNS,
            zero_based=options.zero_based,
            **how,
        )
    how["target"] = _column(options.target)
    how["sample_weight"] = _column(options.weight_column)
    if options.columns is not None:
        how.setdefault("columns", [_column(c) for c in options.columns.split(",")])
    reader: Any = read_parquet
    if format == "csv":
        reader, how = read_csv, how | _csv_arguments(path, options)
    if options.drop is not None and how.get("columns") is None:
        how["columns"] = _without(path, options.drop, reader(path, **how).header())
    return reader(path, **how)


def _csv_arguments(path: Path, options: ReadingOptions) -> dict[str, Any]:
    delimiter = delimiter_of(path, options.delimiter)
    header = options.header
    if header is None:
        header = has_header(path, delimiter)
    if isinstance(_column(options.target), str) and not header:
        raise usage_error(
            f"--target {options.target!r} names a column, but {path} has no header. "
            "Give its number from 0, or --header."
        )
    target_type = options.target_type
    return {"delimiter": delimiter, "header": header, "target_type": target_type}


def _without(path: Path, dropped: str, header: Columns | None) -> list[str]:
    """Return the names of the features without those of ``--drop``."""
    if header is None:
        raise usage_error(
            f"--drop {dropped!r} names columns, but {path} has no header. Give the "
            "numbers of the others with --columns."
        )
    every = header.names
    left_out = set()
    for column in map(_column, dropped.split(",")):
        is_name = isinstance(column, str)
        if not (column in every if is_name else -len(every) <= column < len(every)):
            raise data_error(
                f"{path}: --drop {column!r} is no column among {listed(every)}."
            )
        left_out.add(column if is_name else every[column])
    return [name for name in header.feature_names if name not in left_out]


def _refuse_columns(name: object, options: ReadingOptions) -> None:
    given = {"--columns": options.columns, "--drop": options.drop}
    for option, value in given.items():
        if value is not None:
            raise usage_error(f"{option} {value!r}: {name} has no names of columns.")


@contextmanager
def stream_of(name: str, options: ReadingOptions, block_rows: int) -> Iterator[Any]:
    """Provide the blocks of a file, or of standard input as they arrive."""
    live = Path("/dev/stdin")
    if name == "-" and live.exists():
        if options.format not in ("libsvm", "csv"):
            raise usage_error(
                "the format of standard input is unknown before it is read: give "
                "--format libsvm or --format csv."
            )
        with reading(ExitCode.BAD_DATA):
            if options.format == "csv":
                options = replace(
                    options,
                    delimiter=options.delimiter or ",",
                    header=options.header is not False,
                )
            yield open_stream(live, options.format, options, block_rows=block_rows)
        return
    with as_file(name) as path, reading(ExitCode.BAD_DATA):
        format = format_of(path, options.format)
        if format in ("npy", "npz"):
            table = _from_arrays(name, path, format, options)
            yield list(blocks_of(table, block_rows))
        else:
            yield open_stream(path, format, options, block_rows=block_rows)


def blocks_of(table: Table, block_rows: int) -> Iterator[tuple[Any, Any]]:
    """Yield the rows and labels of a table in blocks."""
    for start in range(0, table.X.shape[0], block_rows):
        part = slice(start, start + block_rows)
        yield table.X[part], None if table.y is None else table.y[part]


def _from_arrays(name: str, path: Path, format: str, options: ReadingOptions) -> Table:
    from corevec.cli.arrays import load_npy, load_npz

    _refuse_columns(name, options)
    if format == "npz":
        return Table(name, format, *load_npz(path))
    rows = load_npy(path)
    target = _column(options.target)
    if target is None:
        return Table(name, format, rows)
    columns = rows.shape[1]
    if isinstance(target, str) or not -columns <= target < columns:
        raise data_error(
            f"{name}: --target {target!r} must be the number of a column, from 0 to "
            f"{columns - 1}: a .npy file has no names."
        )
    import numpy as np

    return Table(name, format, np.delete(rows, target, axis=1), rows[:, target])


def _joined_dense(blocks: list[Any]) -> Table:
    import numpy as np

    parts: list[Any] = [
        None if column[0] is None else np.concatenate(column)
        for column in zip(*blocks, strict=True)
    ]
    return Table("", "", *parts)


def _joined_libsvm(blocks: list[Any], options: ReadingOptions) -> Table:
    """Return the joined CSR blocks, with the used columns or the given number."""
    import numpy as np
    from scipy import sparse

    used = max((int(X.indices.max()) + 1 for X, _ in blocks if X.nnz), default=0)
    columns = options.n_features or max(used, 1)
    labels = np.concatenate([y for _, y in blocks])
    sizes = np.concatenate([np.diff(X.indptr) for X, _ in blocks])
    indptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    indices = np.concatenate([X.indices for X, _ in blocks])
    data = np.concatenate([X.data for X, _ in blocks])
    blocks.clear()
    if indptr[-1] < _ANY_COLUMNS:
        indptr = indptr.astype(np.int32)
    X = sparse.csr_matrix((data, indices, indptr), shape=(len(labels), columns))
    X.has_sorted_indices = X.has_canonical_format = True
    # 8 bytes per value, or 12 with its index: dense if that takes less.
    if options.dense or 12 * X.nnz >= 8 * X.shape[0] * columns:
        return Table("", "", X.toarray(), labels)
    return Table("", "", X, labels)


def _column(text: str | None) -> Any:
    """Return the number of a column if the text is a number, else its name, or None."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return text
