"""`corevec.open`: the source for a path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corevec._runtime.checks import check_choice
from corevec.data.readers import (
    Paths,
    existing_files,
    first_line,
    format_of,
    shown,
)
from corevec.data.sources._files import WHO
from corevec.data.sources._libsvm import LibsvmSource
from corevec.data.sources._npy import NpySource
from corevec.data.sources._parquet import ParquetSource
from corevec.data.sources.base import Source
from corevec.data.sources.dispatch import is_spark
from corevec.exceptions import InvalidInputError

FORMATS = ("parquet", "libsvm", "npy")


def open(
    path: Paths | Any,
    *,
    target: Any = None,
    columns: Sequence[str | int] | None = None,
    sample_weight: Any = None,
    format: str | None = None,
) -> Source:
    """Open rows on a disk or in Spark for `fit`, `predict` and `certify`.

    The rows are not loaded.

    Parameters
    ----------
    path : path, list of paths or Spark data frame
        Parquet files and folders of them (needs pyarrow), LIBSVM text, or one ``.npy``
        file. Several files are taken as one table, in this order.
    target : str, int, path or array, default=None
        What is to be learned. Spark: a column, by name. Parquet: a column, by name or
        by position from 0 (-1 is the last one). ``.npy``: another ``.npy`` file, an
        array, or the number of a column. LIBSVM text has its labels: None or True.
    columns : list of str or int, default=None
        Columns of X, in this order; None means all but target and weight.
    sample_weight : str, int, path or array, default=None
        Weights of the rows, given as `target` is. Not in LIBSVM text.
    format : {"parquet", "libsvm", "npy"}, default=None
        None detects it: by the first bytes, then by the suffix (``.parquet``, ``.pq``
        or a folder; ``.libsvm``, ``.svm``, ``.svmlight``; ``.npy``), then by the first
        line.

    Returns
    -------
    Source
        Rows that are read when they are needed, in bounded memory.

    Examples
    --------
    >>> import corevec
    >>> rows = corevec.open("clicks/", target="clicked")  # doctest: +SKIP
    >>> corevec.CoreVectorClassifier().fit(rows)  # doctest: +SKIP
    """
    if is_spark(path):
        from corevec.data.sources.spark import spark_source

        return spark_source(WHO, path, target, sample_weight, columns)
    paths = existing_files(WHO, path)
    if isinstance(columns, str):
        raise InvalidInputError(
            f"{WHO}: columns={columns!r} is one name. Give a list: [{columns!r}]."
        )
    if format is not None:
        check_choice(WHO, "format", format, FORMATS)
    kinds = [format or _format_of(one) for one in paths]
    if len(set(kinds)) > 1:
        several = ", ".join(sorted(set(kinds)))
        raise InvalidInputError(
            f"{WHO}: the paths are of several formats, {several}. Open one at a time."
        )
    if kinds[0] == "parquet":
        return ParquetSource(paths, target, columns, sample_weight)
    if kinds[0] == "npy":
        return NpySource(_only(paths), target, _numbers(columns), sample_weight)
    _check_labels(target, columns, sample_weight)
    return LibsvmSource(paths)


def _format_of(path: Path) -> str:
    """Return the format of a file, which must be one that can be opened."""
    found = format_of(path)
    if found == "csv":
        raise InvalidInputError(
            f"{WHO}: {path}: CSV text cannot be read from its middle. Convert it to "
            "Parquet once (pyarrow.csv and pyarrow.parquet, or pandas), or read it in "
            "one pass with corevec.streams.read_csv."
        )
    if found == "npz":
        raise InvalidInputError(
            f"{WHO}: {path}: the arrays of a .npz file cannot be read in part. Save "
            "each one by numpy.save, and open the .npy file of the rows."
        )
    if found is None:
        raise InvalidInputError(
            f"{WHO}: {path}: neither its first bytes nor its suffix nor its first line "
            f"{shown(first_line(path))} tells the format. Give format='parquet', "
            "'libsvm' or 'npy'."
        )
    return found


def _only(paths: list[Path]) -> Path:
    if len(paths) > 1:
        raise InvalidInputError(
            f"{WHO}: {len(paths)} .npy files; one array can be opened at a time."
        )
    return paths[0]


def _numbers(columns: Sequence[str | int] | None) -> list[int] | None:
    if columns is None:
        return None
    names = [column for column in columns if isinstance(column, str)]
    if names:
        raise InvalidInputError(
            f"{WHO}: columns={list(columns)!r}: a .npy file has no names of columns. "
            "Give numbers, counted from 0."
        )
    return [column for column in columns if not isinstance(column, str)]


def _check_labels(target: Any, columns: Any, sample_weight: Any) -> None:
    if target is not None and target is not True:
        raise InvalidInputError(
            f"{WHO}: target={target!r}, but in LIBSVM text the label of each line is "
            "the target. Give None or True."
        )
    for name, given in (("columns", columns), ("sample_weight", sample_weight)):
        if given is not None:
            raise InvalidInputError(
                f"{WHO}: {name}={given!r}, but LIBSVM text has no named columns and no "
                "weights. Leave it out, or convert to Parquet."
            )


__all__ = ["FORMATS", "open"]
