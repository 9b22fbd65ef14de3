"""``corevec convert`` and ``corevec scale``: convert files, and scale columns."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from corevec.cli.columns import with_names
from corevec.cli.console import OutputOptions
from corevec.cli.data import ReadingOptions, Table, blocks_of, read_table
from corevec.cli.errors import CliError, ExitCode, usage_error, writing
from corevec.cli.fitting import in_bytes
from corevec.cli.guess import checked
from corevec.cli.models import (
    check_model_name,
    is_model,
    load_model,
    make_scaler,
    replaced_when_done,
    save_model,
)
from corevec.cli.options import DataFile, Destination
from corevec.cli.predict import read_for
from corevec.cli.writers import write_data, write_text

# Rows per written block.
_BLOCK = 8192


@dataclass(frozen=True)
class ConvertOptions:
    """Options of ``corevec convert`` beside those of the files.

    Parameters
    ----------
    to : FORMAT
        Format to write; by default by the suffix.
    double
        ONNX in double precision, not single.
    """

    to: str | None = None
    double: bool = False


def convert(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Data or model file; - for data.")
    ],
    destination: Destination,
    options: ReadingOptions,
    out: OutputOptions,
    how: ConvertOptions,
) -> ExitCode:
    """Convert a data file, or a model file, into another format.

    Data: LIBSVM text, CSV, npz, npy, Parquet. Models: corevec's own, LIBSVM's text
    (.model), and to ONNX (.onnx).

    Examples
    --------
      corevec convert a9a.txt a9a.npz
      corevec convert rows.csv rows.libsvm.gz --target label
      corevec convert rows.csv - --target label --to libsvm    (to standard output)
      corevec convert a9a.corevec a9a.model            (for LIBSVM's svm-predict)
      corevec convert libsvm.model m.corevec
      corevec convert a9a.corevec a9a.onnx
    """
    path = Path(destination)
    if source != "-" and is_model(Path(source)):
        check_model_name(path)
        size = save_model(load_model(source), path, double=how.double)
        out.say(f"wrote   {path}, {in_bytes(size)}")
        out.result(command="convert", source=source, model=destination, bytes=size)
        return ExitCode.OK
    table = read_table(source, options)
    if destination != "-":
        out.say(f"read    {table}")
    rows = _write(table, destination, how.to, out)
    out.result(command="convert", source=source, data=destination, rows=rows)
    return ExitCode.OK


@dataclass(frozen=True)
class ScaleOptions:
    """Options of ``corevec scale`` beside those of the files.

    Parameters
    ----------
    kind : KIND
        minmax (to -1..1), maxabs or standard.
    save : FILE
        Write the fitted scaler to this file.
    load : FILE
        Use the scaler in this file; fit nothing.
    to : FORMAT
        Format to write; by default by the suffix.
    """

    kind: str = "minmax"
    save: Path | None = None
    load: str | None = None
    to: str | None = None


def scale(
    data: DataFile,
    destination: Destination,
    options: ReadingOptions,
    out: OutputOptions,
    how: ScaleOptions,
) -> ExitCode:
    """Scale the columns of a data file: fit, save and apply, or load and apply.

    To scale and fit in one: corevec train ... --scale standard, which saves both.

    Examples
    --------
      corevec scale train.csv train.npz --target label --save scaler.corevec
      corevec scale test.csv test.npz --target label --load scaler.corevec
    """
    if how.load is not None and how.save is not None:
        raise usage_error("--save and --load exclude each other: --load fits nothing.")
    if how.load is None:
        table = read_table(data, options)
        scaler = make_scaler(how.kind, table.is_sparse).fit(table.X)
    else:
        scaler = _loaded_scaler(how.load)
        table = read_for(scaler, data, options)
    check_model_name(how.save)
    if how.save is not None:
        with with_names(scaler, table.names):
            save_model(scaler, how.save)
    scaled = replace(table, X=scaler.transform(table.X))
    rows = _write(scaled, destination, how.to, out)
    out.result(
        command="scale",
        data=data,
        destination=destination,
        scaler=None if how.save is None else str(how.save),
        rows=rows,
    )
    return ExitCode.OK


def _loaded_scaler(name: str) -> Any:
    found = load_model(name)
    found = found[0] if hasattr(found, "steps") else found
    if not hasattr(found, "transform") or hasattr(found, "predict"):
        raise CliError(
            f"{name}: holds a {type(found).__name__}, no scaler. Make one with "
            "corevec scale --save.",
            ExitCode.BAD_MODEL,
        )
    return found


def _write(table: Table, destination: str, to: str | None, out: OutputOptions) -> int:
    from corevec.data.readers import format_by_name

    format = None if to is None else checked(to)
    if destination == "-":
        return _write_to_stdout(table, format or "libsvm", out)
    path = Path(destination)
    if format is None and format_by_name(path) is None and ".txt" not in path.suffixes:
        raise usage_error(
            f"{destination!r}: the suffix names no format. Use .libsvm, .csv, .npz, "
            ".npy or .parquet (text also with .gz, .bz2, .xz), or give --to."
        )
    suffix = "".join(path.suffixes)
    with writing(path), replaced_when_done(path) as part:
        blocks = blocks_of(table, _BLOCK)
        rows = write_data(part, blocks, format, suffix, table.header)
    out.say(f"wrote   {path}, {rows:,} rows, {in_bytes(path.stat().st_size)}")
    return rows


def _write_to_stdout(table: Table, format: str, out: OutputOptions) -> int:
    if format not in ("libsvm", "csv") or out.json:
        raise usage_error("only text goes to standard output: --to libsvm or --to csv.")
    return write_text(sys.stdout, blocks_of(table, _BLOCK), format, table.header)
