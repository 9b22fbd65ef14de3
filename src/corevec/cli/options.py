"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataFile = Annotated[
    str, typer.Argument(metavar="DATA", help="Data file, or - for standard input.")
]
Destination = Annotated[
    str, typer.Argument(metavar="DESTINATION", help="File to write, or - for text.")
]
ModelFile = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="FILE",
        help="Model file: corevec's own, or LIBSVM's text.",
    ),
]
NewModelFile = Annotated[
    Path,
    typer.Option(
        "--model",
        "-m",
        metavar="FILE",
        help="Model file to write: .model is LIBSVM's text, .onnx is ONNX, any other "
        "name is corevec's own format.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="name=value of any parameter; may be repeated.",
    ),
]
WrittenFormat = Annotated[
    str | None,
    typer.Option("--to", metavar="FORMAT", help="Format; by default by the suffix."),
]
CertificateRequired = Annotated[
    bool,
    typer.Option(
        "--require-certificate", help="Exit with 1 unless the tolerance is met."
    ),
]
ScalerKind = Annotated[
    str | None,
    typer.Option(
        "--scale",
        metavar="KIND",
        help="Scale the columns first, saved with the model: minmax, maxabs or "
        "standard.",
    ),
]
