"""``corevec train``: fit a model and write a model file."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corevec.cli.columns import Known, with_names
from corevec.cli.console import OutputOptions
from corevec.cli.data import ReadingOptions, Table, read_encoded
from corevec.cli.errors import CliError, ExitCode, data_error, usage_error, writing
from corevec.cli.fitting import (
    Stages,
    ending,
    fields_of_fit,
    fit_model,
    in_bytes,
    or_nothing,
    peak_memory,
    summary_of_fit,
    write_model,
)
from corevec.cli.models import (
    check_model_name,
    estimator_of,
    in_pipeline,
    make_scaler,
    replaced_when_done,
)
from corevec.cli.options import DataFile, NewModelFile
from corevec.cli.parameters import TRAINABLE, estimator_class, model_of
from corevec.cli.scoring import score_in_words, score_of


@dataclass(frozen=True)
class TrainOptions:
    """Options of ``corevec train`` beside those of the file and of the estimator.

    Parameters
    ----------
    estimator : NAME
        What to fit: CoreVectorClassifier, CoreVectorOneClass,
        CoreVectorRegressor, SVDD, StreamingBallClassifier, StreamingOneClass,
        StructuralSVM.
    set_ : NAME=VALUE
        name=value of any parameter; may be repeated.
    scale : KIND
        Scale the columns first, saved with the model: minmax, maxabs or standard.
    test : FILE
        Data file to measure the model on.
    report : FILE
        Write a one-page HTML report.
    require_certificate
        Exit with 1 unless the tolerance is met.
    """

    estimator: str = TRAINABLE[0]
    set_: list[str] | None = None
    scale: str | None = None
    test: str | None = None
    report: Path | None = None
    require_certificate: bool = False


def train(
    data: DataFile,
    model: NewModelFile,
    options: ReadingOptions,
    out: OutputOptions,
    parameters: dict[str, str],
    how: TrainOptions,
) -> ExitCode:
    """Fit a kernel machine on a data file and write the model to another.

    DATA is LIBSVM (SVMlight) text, CSV, npz, npy or Parquet; text may be compressed by
    gzip, bzip2 or xz.

    Ctrl-C ends the fit after its round: the best model so far is saved with its
    certificate, and the exit code is 130. A second Ctrl-C aborts.

    Examples
    --------
      corevec train a9a.txt --model a9a.corevec --C 10 --gamma 0.05
      corevec train rows.csv --target label --scale standard --model rows.corevec
      corevec train rows.npz --model m.corevec --estimator CoreVectorRegressor --mu 0.2
      corevec train a9a.txt --model a9a.model --multi-class ovo      (LIBSVM's format)
      corevec train a9a.txt --model m.corevec --max-time 60 --require-certificate
      corevec train a9a.txt --model m.corevec --method few-vectors --n-vectors 50
      corevec train a9a.txt --model m.corevec --test a9a.t --report a9a.html
      zcat rows.gz | corevec train - --model m.corevec --json
      corevec train --estimator SVDD --help                  (the parameters of SVDD)
    """
    estimator = estimator_class(how.estimator)
    fresh = model_of(estimator, parameters, how.set_, out.verbosity)
    check_model_name(model, data, how.test)
    check_model_name(how.report, data, how.test)
    stages = Stages()
    with or_nothing(model):
        table, tested = _read(data, how.test, options, stages)
        check_labels(table, fresh)
        out.say(f"read    {table}, {stages.seconds['read']:.2f} s")
        fitted = with_steps(fresh, how.scale, table)
        with stages.stage("fit"):
            fit_model(fitted, table)
    with with_names(fitted, table.names):
        size = write_model(fitted, model, stages)
    _say(fitted, f"{model}, {in_bytes(size)}", stages, out)
    score = None if tested is None else score_of(fitted, tested)
    if tested is not None:
        out.say(f"test    {tested.name}: {score_in_words(score)}")
    if how.report is not None:
        _write_report(how.report, fitted, table, tested, stages)
        out.say(f"report  {how.report}")
    out.result(
        command="train",
        data=table.fields(),
        **fields_of_fit(fitted),
        scale=how.scale,
        model={"path": str(model), "bytes": size},
        test=score,
        report=None if how.report is None else str(how.report),
        **stages.fields(),
    )
    return ending(fitted, model, how.require_certificate)


def _read(
    data: str, test: str | None, options: ReadingOptions, stages: Stages
) -> tuple[Table, Table | None]:
    """Return the training rows, and the test rows if there are any."""
    with stages.stage("start"):
        import corevec.data.readers  # noqa: F401 - not part of the reading time
    with stages.stage("read"):
        try:
            table = read_encoded(data, options)
        except CliError as error:
            if options.target is None and _is_text_in_a_column(error):
                hint = (
                    "If that column holds the labels, give --target; if it holds "
                    "categories, --categorical."
                )
                raise CliError(f"{error} {hint}", error.code) from error
            raise
    if test is None:
        return table, None
    width = table.X.shape[1]
    known = Known(width, table.names, table.encoding)
    dense = options.dense or not table.is_sparse
    options = replace(options, n_features=width, dense=dense)
    return table, read_encoded(test, options, known)


def _is_text_in_a_column(error: CliError) -> bool:
    """Whether a CSV file has text where a column of numbers was expected."""
    from corevec.data.readers import NotANumberError, ReaderError

    found = error.__cause__
    return isinstance(found, ReaderError) and isinstance(found.record, NotANumberError)


def check_labels(table: Table, model: Any) -> None:
    """Raise an error if the fit needs labels and the file has none."""
    from sklearn.base import is_outlier_detector

    if table.y is not None or is_outlier_detector(model):
        return
    if table.format == "npz":
        raise data_error(f"{table.name}: has no array named y, the labels.")
    raise usage_error(
        f"{table.name}: which of its {table.X.shape[1]:,} columns holds the labels? "
        "Give --target with its name, or its number from 0 (-1 is the last)."
    )


def with_steps(model: Any, scale: str | None, table: Table) -> Any:
    """Return the estimator, or a pipeline with the encoder and the scaler before it."""
    scaler = None if scale is None else make_scaler(scale, table.is_sparse)
    encoder = table.encoding and table.encoding.transformer(table.X.shape[1])
    return in_pipeline(model, encode=encoder, scale=scaler)


def _write_report(
    path: Path, model: Any, table: Table, tested: Table | None, stages: Stages
) -> None:
    from corevec.report import write_report

    extra = {} if tested is None else {"X_test": tested.X, "y_test": tested.y}
    seconds = stages.seconds["fit"]
    stage = stages.stage("report")
    with stage, writing(path), replaced_when_done(path) as part:
        write_report(
            part,
            model,
            table.X,
            table.y,
            command=shlex.join(["corevec", *sys.argv[1:]]),
            data_name=table.name,
            seconds=seconds,
            **extra,
        )


def _say(model: Any, written: str, stages: Stages, out: OutputOptions) -> None:
    for line in summary_of_fit(model, stages.seconds["fit"]):
        out.say(line)
    if out.verbose:
        _say_more(model, stages, out)
    out.say(f"wrote   {written}, {stages.seconds['write']:.2f} s")


def _say_more(model: Any, stages: Stages, out: OutputOptions) -> None:
    for name in ("certificate_", "ball_bound_"):
        found = getattr(estimator_of(model), name, None)
        if found is not None:
            out.say(str(found))
    times = ", ".join(f"{name} {value:.2f} s" for name, value in stages.seconds.items())
    out.say(f"time    {times}")
    memory = peak_memory()
    if memory is not None:
        out.say(f"memory  {in_bytes(memory)} at most")
