"""``corevec convert`` and ``corevec scale``: convert files, and scale columns."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from corevec.cli.columns import forget_names, known_columns, with_names
from corevec.cli.console import OutputOptions
from corevec.cli.data import ReadingOptions, Table, blocks_of, read_table
from corevec.cli.errors import CliError, ExitCode, usage_error, writing
from corevec.cli.fitting import in_bytes
from corevec.cli.guess import checked, format_by_name
from corevec.cli.models import (
    check_model_name,
    is_model,
    load_model,
    make_scaler,
    replaced_when_done,
    save_model,
)
from corevec.cli.writers import write_data, write_text

CONVERT_EPILOG = """\
\b
Examples:
  corevec convert a9a.txt a9a.npz
  corevec convert rows.csv rows.libsvm.gz --target label
  corevec convert rows.csv - --target label --to libsvm      (to standard output)
  corevec convert a9a.corevec a9a.model                      (for LIBSVM's svm-predict)
  corevec convert libsvm.model m.corevec
  corevec convert a9a.corevec a9a.onnx
"""
SCALE_EPILOG = """\
\b
Examples:
  corevec scale train.csv train.npz --target label --save scaler.corevec
  corevec scale test.csv test.npz --target label --load scaler.corevec

To scale and fit in one: corevec train ... --scale standard, which saves both.
"""
# Rows per written block.
_BLOCK = 8192


def convert(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Data or model file; - for data.")
    ],
    destination: Annotated[
        str, typer.Argument(metavar="DESTINATION", help="File to write, or - for text.")
    ],
    options: ReadingOptions,
    out: OutputOptions,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="Format to write; by default by the suffix."
        ),
    ] = None,
    double: Annotated[
        bool, typer.Option("--double", help="ONNX in double precision, not single.")
    ] = False,
) -> ExitCode:
    """Convert a data file, or a model file, into another format.

    Data: LIBSVM text, CSV, npz, npy, Parquet. Models: corevec's own, LIBSVM's text
    (.model), and to ONNX (.onnx).
    """
    path = Path(destination)
    if source != "-" and is_model(Path(source)):
        check_model_name(path)
        size = save_model(load_model(source), path, double=double)
        out.say(f"wrote   {path}, {in_bytes(size)}")
        out.result(command="convert", source=source, model=destination, bytes=size)
        return ExitCode.OK
    table = read_table(source, options)
    if destination != "-":
        out.say(f"read    {table}")
    rows = _write(table, destination, to, out)
    out.result(command="convert", source=source, data=destination, rows=rows)
    return ExitCode.OK


def scale(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Data file, or - for standard input.")
    ],
    destination: Annotated[
        str, typer.Argument(metavar="DESTINATION", help="File to write, or - for text.")
    ],
    options: ReadingOptions,
    out: OutputOptions,
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="minmax (to -1..1), maxabs or standard.")
    ] = "minmax",
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the fitted scaler to this file."),
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Use the scaler in this file; fit nothing."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="Format to write; by default by the suffix."
        ),
    ] = None,
) -> ExitCode:
    """Scale the columns of a data file: fit, save and apply, or load and apply."""
    if load is not None and save is not None:
        raise usage_error("--save and --load exclude each other: --load fits nothing.")
    if load is None:
        table = read_table(data, options)
        scaler = make_scaler(kind, table.is_sparse).fit(table.X)
    else:
        scaler = _loaded_scaler(load)
        table = _read_for_scaler(scaler, data, options)
    if save is not None:
        check_model_name(save)
        with with_names(scaler, table.names):
            save_model(scaler, save)
    rows = _write(replace(table, X=scaler.transform(table.X)), destination, to, out)
    out.result(
        command="scale",
        data=data,
        destination=destination,
        scaler=None if save is None else str(save),
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


def _read_for_scaler(scaler: Any, data: str, options: ReadingOptions) -> Table:
    """Return the rows for a fitted scaler, with its columns in its order."""
    known = known_columns(scaler)
    dense = options.dense or hasattr(scaler, "data_min_")
    options = replace(options, n_features=known.width, dense=dense)
    table = read_table(data, options, known)
    forget_names(scaler)
    return table


def _write(table: Table, destination: str, to: str | None, out: OutputOptions) -> int:
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


__all__ = ["CONVERT_EPILOG", "SCALE_EPILOG", "convert", "scale"]
