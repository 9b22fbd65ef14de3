"""``corevec stream``: one pass over a file or standard input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from corevec.cli.columns import with_names
from corevec.cli.console import OutputOptions
from corevec.cli.data import ReadingOptions, stream_of
from corevec.cli.errors import CliError, ExitCode, data_error, reading, usage_error
from corevec.cli.fitting import (
    Stages,
    ball_in_a_line,
    fields_of_fit,
    in_bytes,
    nothing_saved,
    peak_memory,
    was_interrupted,
    write_model,
)
from corevec.cli.guess import existing, format_of
from corevec.cli.models import check_model_name
from corevec.cli.parameters import (
    STREAMABLE,
    estimator_class,
    is_about_a_parameter,
    model_of,
    value_of,
)

EPILOG = """\
\b
Examples:
  corevec stream webspam.txt.gz --model m.corevec
  zcat log.gz | corevec stream - --format libsvm --n-features 1000 --classes=-1,1
  corevec stream rows.csv --target label --n-balls 16 --model m.corevec --json

LIBSVM text from a file is read once before, to count its columns and labels, unless
--n-features and --classes are given. Ctrl-C keeps the model of the rows so far.
"""


def stream(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Data file, or - for standard input.")
    ],
    options: ReadingOptions,
    out: OutputOptions,
    parameters: dict[str, str],
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", metavar="FILE", help="Model file to write."),
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(
            "--estimator", "-e", metavar="NAME", help=f"{' or '.join(STREAMABLE)}."
        ),
    ] = STREAMABLE[0],
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="LABELS",
            help="All labels of the stream, with commas: --classes=-1,1.",
        ),
    ] = None,
    block_rows: Annotated[
        int,
        typer.Option(metavar="ROWS", help="Rows per block: predicted, then learned."),
    ] = 1000,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="name=value of any parameter; may be repeated.",
        ),
    ] = None,
) -> ExitCode:
    """Learn from every row once, in order, and report the test-then-train accuracy.

    Each block of rows is predicted before it is learned; the share that was right is
    the accuracy. Memory does not grow with the number of rows.
    """
    fresh = model_of(estimator_class(estimator, STREAMABLE), parameters, set_ or [])
    if model is not None:
        check_model_name(model, data)
    fresh.set_params(verbose=out.verbosity)
    stages = Stages()
    options, known = _facts(data, options, classes)
    labelled = estimator == STREAMABLE[0]
    with stages.stage("stream"), stream_of(data, options, block_rows) as blocks:
        counted = _Counted(blocks)
        _fit(fresh, counted, known if labelled else None, labelled, data)
    size = None
    if model is not None:
        with with_names(fresh, counted.names):
            size = write_model(fresh, model, stages)
    return _ended(fresh, counted, model, size, stages, out)


class _Counted:
    """Blocks of rows, with a counter of the rows."""

    def __init__(self, blocks: Any):
        self.blocks = blocks
        self.rows = 0

    def __iter__(self) -> Iterator[Any]:
        with reading(ExitCode.BAD_DATA):
            for block in self.blocks:
                self.rows += block[0].shape[0]
                yield block

    @property
    def skipped(self) -> int:
        return int(getattr(self.blocks, "skipped", 0))

    @property
    def names(self) -> list[str] | None:
        """The names of the columns, if the file has a header."""
        found: list[str] | None = getattr(self.blocks, "feature_names", None)
        return found


def _fit(model: Any, blocks: Any, classes: Any, labelled: bool, data: str) -> None:
    from corevec.exceptions import CorevecError

    more = {"classes": classes} if labelled and classes is not None else {}
    rows = blocks if labelled else ((block[0], None) for block in blocks)
    try:
        model.fit(rows, **more)
    except CliError:
        raise
    except (CorevecError, ValueError) as error:
        message = str(error)
        if is_about_a_parameter(error, model):
            raise usage_error(message) from error
        if getattr(error, "parameter", None) == "classes":
            message += " Give all labels with --classes."
        raise data_error(f"{data}: {message}") from error
    except KeyboardInterrupt:
        raise nothing_saved(Path("the model")) from None


def _facts(
    data: str, options: ReadingOptions, classes: str | None
) -> tuple[ReadingOptions, list[Any] | None]:
    """Return the number of columns and the labels, counted if necessary."""
    known = None
    if classes is not None:
        known = [value_of(label) for label in classes.split(",")]
    is_libsvm = options.format == "libsvm"
    if data != "-":
        with reading(ExitCode.BAD_DATA):
            path = existing(data)
            is_libsvm = format_of(path, options.format) == "libsvm"
            if is_libsvm and (options.n_features is None or known is None):
                from corevec.data.readers import scan_libsvm

                how = "skip" if options.skip_bad_rows else "raise"
                facts = scan_libsvm(path, errors=how)
                width = options.n_features or max(facts.n_features, 1)
                options = replace(options, n_features=width)
                if known is None and facts.labels is not None:
                    known = facts.labels.tolist()
    elif is_libsvm and options.n_features is None:
        raise usage_error(
            "the columns of standard input cannot be counted before its end: give "
            "--n-features (more than needed do no harm)."
        )
    return options, known


def _ended(
    model: Any,
    blocks: _Counted,
    path: Path | None,
    size: int | None,
    stages: Stages,
    out: OutputOptions,
) -> ExitCode:
    seconds = stages.seconds["stream"]
    accuracy = getattr(model, "test_then_train_accuracy_", float("nan"))
    updates = int(getattr(model, "_total_updates", lambda: 0)())
    skipped = f", {blocks.skipped:,} bad rows left out" if blocks.skipped else ""
    rate = blocks.rows / max(seconds, 1e-9)
    out.say(
        f"stream  {blocks.rows:,} rows in {seconds:.2f} s ({rate:,.0f} rows/s), "
        f"{updates:,} updates{skipped}"
    )
    if accuracy == accuracy:
        out.say(f"        test-then-train accuracy {100 * accuracy:.4g} %")
    out.say(f"        {ball_in_a_line(model)}")
    if path is not None:
        out.say(f"wrote   {path}, {in_bytes(size or 0)}")
    out.result(
        command="stream",
        rows=blocks.rows,
        skipped=blocks.skipped,
        test_then_train_accuracy=accuracy,
        **fields_of_fit(model),
        model=None if path is None else {"path": str(path), "bytes": size},
        seconds=stages.seconds,
        peak_memory_bytes=peak_memory(),
    )
    if was_interrupted(model):
        saved = "" if path is None else f" is saved in {path} and"
        out.warn(f"interrupted: the model{saved} knows the first {blocks.rows:,} rows.")
        return ExitCode.INTERRUPTED
    return ExitCode.OK


__all__ = ["EPILOG", "stream"]
