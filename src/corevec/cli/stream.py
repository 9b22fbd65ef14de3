"""``corevec stream``: one pass over a file or standard input."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corevec.cli.columns import with_names
from corevec.cli.console import OutputOptions
from corevec.cli.data import ReadingOptions, refuse_encoding, stream_of
from corevec.cli.errors import ExitCode, data_error, reading, usage_error
from corevec.cli.fitting import (
    Stages,
    explained,
    fields_of_fit,
    in_bytes,
    or_nothing,
    state_of,
    was_interrupted,
    write_model,
)
from corevec.cli.guess import existing, format_of
from corevec.cli.models import check_model_name, in_pipeline, make_scaler
from corevec.cli.options import DataFile
from corevec.cli.parameters import STREAMABLE, estimator_class, model_of, value_of


@dataclass(frozen=True)
class StreamOptions:
    """Options of ``corevec stream`` beside those of the file and of the estimator.

    Parameters
    ----------
    model : FILE
        Model file to write.
    estimator : NAME
        StreamingClassifier, StreamingRegressor, StreamingOneClass,
        StreamingBallClassifier or StreamingBallOneClass.
    classes : LABELS
        All labels of the stream, with commas: --classes=-1,1.
    block_rows : ROWS
        Rows per block: predicted, then learned.
    set_ : NAME=VALUE
        name=value of any parameter; may be repeated.
    scale : KIND
        Scale the columns first, saved with the model: minmax, maxabs or standard.
    """

    model: Path | None = None
    estimator: str = STREAMABLE[0]
    classes: str | None = None
    block_rows: int = 1000
    set_: list[str] | None = None
    scale: str | None = None


def stream(
    data: DataFile,
    options: ReadingOptions,
    out: OutputOptions,
    parameters: dict[str, str],
    how: StreamOptions,
) -> ExitCode:
    """Learn from every row once, in order; report how well rows were predicted before.

    Each block of rows is predicted before it is learned; the share that was right is
    the accuracy (of a regression: the RMSE). Memory does not grow with the number of
    rows.

    LIBSVM text from a file is read once before, to count its columns and labels, unless
    --n-features and --classes are given; --scale takes a pass of its own. Ctrl-C keeps
    the model of the rows so far.

    Examples
    --------
      corevec stream webspam.txt.gz --model m.corevec
      zcat log.gz | corevec stream - --format libsvm --n-features 1000 --classes=-1,1
      corevec stream rows.csv --target label --budget 500 --model m.corevec --json
      corevec stream rows.csv --target label --scale standard --model m.corevec
    """
    estimator = estimator_class(how.estimator, STREAMABLE)
    fresh = model_of(estimator, parameters, how.set_, out.verbosity)
    check_model_name(how.model, data)
    stages = Stages()
    options, known = _facts(data, options, how.classes)
    with stages.stage("scale"):
        scaler = _fitted_scaler(data, options, how)
    with stages.stage("stream"), stream_of(data, options, how.block_rows) as blocks:
        counted = _Counted(blocks, scaler)
        _fit(fresh, counted, known, data)
    _say(fresh, counted, stages, out)
    size = None
    if how.model is not None:
        whole = in_pipeline(fresh, scale=scaler)
        with with_names(whole, counted.names):
            size = write_model(whole, how.model, stages)
        out.say(f"wrote   {how.model}, {in_bytes(size)}")
    out.result(
        command="stream",
        rows=counted.rows,
        skipped=counted.skipped,
        **_measured(fresh),
        **fields_of_fit(fresh),
        model=None if size is None else {"path": str(how.model), "bytes": size},
        **stages.fields(),
    )
    if was_interrupted(fresh):
        saved = "" if how.model is None else f" is saved in {how.model} and"
        out.warn(
            f"interrupted: the model{saved} knows the first {counted.rows:,} rows."
        )
        return ExitCode.INTERRUPTED
    return ExitCode.OK


def _fitted_scaler(data: str, options: ReadingOptions, how: StreamOptions) -> Any:
    """Return a scaler, fitted in a pass of its own; None if none is asked for."""
    if how.scale is None:
        return None
    if data == "-":
        raise usage_error(
            "--scale needs a pass of its own before the rows are learned, and standard "
            "input can be read once. Give a file."
        )
    scaler = None
    with stream_of(data, options, how.block_rows) as blocks, reading(ExitCode.BAD_DATA):
        for block in blocks:
            if scaler is None:
                scaler = make_scaler(how.scale, hasattr(block[0], "tocsr"))
            scaler.partial_fit(block[0])
    if scaler is None:
        raise data_error(f"{data}: there is no row in this file.")
    return scaler


class _Counted:
    """Blocks of rows, scaled if there is a scaler, with a counter of the rows."""

    def __init__(self, blocks: Any, scaler: Any):
        self.blocks = blocks
        self.scaler = scaler
        self.rows = 0

    def __iter__(self) -> Iterator[Any]:
        with reading(ExitCode.BAD_DATA):
            for block in self.blocks:
                self.rows += block[0].shape[0]
                if self.scaler is not None:
                    block = (self.scaler.transform(block[0]), *block[1:])
                yield block

    @property
    def skipped(self) -> int:
        return int(getattr(self.blocks, "skipped", 0))

    @property
    def names(self) -> list[str] | None:
        """The names of the columns, if the file has a header."""
        found: list[str] | None = getattr(self.blocks, "feature_names", None)
        return found


def _fit(model: Any, blocks: _Counted, classes: list[Any] | None, data: str) -> None:
    from sklearn.base import is_classifier, is_regressor

    def hint(error: Exception) -> str:
        about_classes = getattr(error, "parameter", None) == "classes"
        return " Give all labels with --classes." if about_classes else ""

    with or_nothing("the model"), explained(data, model, hint):
        if is_regressor(model):
            model.fit(blocks)
        elif not is_classifier(model):
            model.fit((block[0], None) for block in blocks)
        elif classes is None:
            model.fit(blocks)
        else:
            model.fit(blocks, classes=classes)


def _facts(
    data: str, options: ReadingOptions, classes: str | None
) -> tuple[ReadingOptions, list[Any] | None]:
    """Return the number of columns and the labels, counted if necessary."""
    refuse_encoding(options)
    known = None if classes is None else [value_of(one) for one in classes.split(",")]
    if data == "-":
        if options.format == "libsvm" and options.n_features is None:
            raise usage_error(
                "the columns of standard input cannot be counted before its end: give "
                "--n-features (more than needed do no harm)."
            )
        return options, known
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
    return options, known


# What models measure on rows before they learn them, in words.
_MEASURES = {
    "test_then_train_accuracy": "test-then-train accuracy {0:.4%}",
    "test_then_train_balanced_accuracy": "balanced {0:.4%}",
    "test_then_train_rmse": "test-then-train RMSE {0:.6g}",
}


def _measured(model: Any) -> dict[str, float]:
    """Return what was measured on rows before they were learned; nan where nothing."""
    found = {
        name: float(getattr(model, f"{name}_"))
        for name in _MEASURES
        if hasattr(model, f"{name}_")
    }
    return {"test_then_train_accuracy": float("nan"), **found}


def _say(model: Any, blocks: _Counted, stages: Stages, out: OutputOptions) -> None:
    seconds = stages.seconds["stream"]
    updates = int(getattr(model, "_total_updates", lambda: 0)())
    skipped = f", {blocks.skipped:,} bad rows left out" if blocks.skipped else ""
    rate = blocks.rows / max(seconds, 1e-9)
    out.say(
        f"stream  {blocks.rows:,} rows in {seconds:.2f} s ({rate:,.0f} rows/s), "
        f"{updates:,} updates{skipped}"
    )
    measured = [
        _MEASURES[name].format(value)
        for name, value in _measured(model).items()
        if not math.isnan(value)
    ]
    if measured:
        out.say(f"        {', '.join(measured)}")
    for line in state_of(model):
        out.say(f"        {line}")
