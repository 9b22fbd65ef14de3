"""``corevec predict`` and ``corevec certify``: a model file on a data file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from corevec.cli.columns import forget_names, known_columns
from corevec.cli.console import OutputOptions, certificate_fields
from corevec.cli.data import ReadingOptions, Table, read_encoded
from corevec.cli.errors import ExitCode, usage_error, writing
from corevec.cli.fitting import Stages, explained, peak_memory
from corevec.cli.guess import existing, format_of
from corevec.cli.kernel_values import read_kernel_values, takes_kernel_values
from corevec.cli.models import (
    check_model_name,
    entered,
    estimator_of,
    load_model,
    needs_dense_rows,
    replaced_when_done,
)
from corevec.cli.options import DataFile, ModelFile
from corevec.cli.parameters import set_parameters
from corevec.cli.scoring import (
    predictions_of,
    score_in_words,
    score_of,
    value_lines,
    write_lines,
)


@dataclass(frozen=True)
class PredictOptions:
    """Options of ``corevec predict`` beside those of the files.

    Parameters
    ----------
    output : FILE
        Where to; default: standard output.
    decision
        Decision values, not labels.
    """

    output: Path | None = None
    decision: bool = False


@dataclass(frozen=True)
class CertifyOptions:
    """Options of ``corevec certify`` beside those of the files.

    Parameters
    ----------
    require_certificate
        Exit with 1 unless the tolerance is met.
    set_ : NAME=VALUE
        Parameter that a LIBSVM model file lacks: C=10, or nu, epsilon.
    """

    require_certificate: bool = False
    set_: list[str] | None = None


def predict(
    data: DataFile,
    model: ModelFile,
    options: ReadingOptions,
    out: OutputOptions,
    how: PredictOptions,
) -> ExitCode:
    """Write the predictions of a model for the rows of a data file, one per line.

    Where the rows have labels (LIBSVM text always does; CSV and Parquet with --target)
    the score is said on standard error.

    Columns of CSV with a header and of Parquet are found by the names that the model
    holds, in any order; others are left out, and a missing one is an error.

    Examples
    --------
      corevec predict a9a.t --model a9a.corevec --output a9a.predicted
      corevec predict a9a.t --model a9a.corevec | sort | uniq -c
      corevec predict rows.csv --target label --model rows.corevec --json
      corevec predict a9a.t --model libsvm.model --decision      (svm-train's own model)
    """
    output = how.output
    if output is not None and not output.is_char_device():  # /dev/null
        check_model_name(output, data, model)
    stages = Stages()
    with stages.stage("read"):
        loaded = load_model(model)
        table = read_for(loaded, data, options)
    with stages.stage("predict"):
        method = "decision_function" if how.decision else "predict"
        values = predictions_of(loaded, table, method)
    score = None if how.decision else score_of(loaded, table, values)
    if output is not None:
        with writing(output), replaced_when_done(output) as part:
            write_lines(part, values)
    elif not out.json:
        typer.echo("\n".join(value_lines(values)))
    if score is not None and not out.quiet and not out.json:
        typer.echo(score_in_words(score), err=True)
    out.result(
        command="predict",
        data=data,
        model=model,
        rows=len(values),
        score=score,
        output=None if output is None else str(output),
        predictions=values if output is None else None,
        **stages.fields(),
    )
    return ExitCode.OK


def certify(
    data: DataFile,
    model: ModelFile,
    options: ReadingOptions,
    out: OutputOptions,
    how: CertifyOptions,
) -> ExitCode:
    """Measure the duality gap of a model on the rows of a data file.

    On the training rows this repeats the certificate of the fit; also for a model that
    LIBSVM's svm-train wrote. Columns are found by name, as by `corevec predict`.

    Examples
    --------
      corevec certify a9a.txt --model a9a.corevec
      corevec certify a9a.txt --model libsvm.model --set C=10      (of LIBSVM's answer)
    """
    import corevec

    loaded = load_model(model)
    set_parameters(estimator_of(loaded), how.set_ or [])
    table = read_for(loaded, data, options)
    estimator, X = estimator_of(loaded), entered(loaded, table.X)
    with explained(f"{model} on {data}", estimator):
        found = corevec.certify(estimator, X, table.y, table.sample_weight)
    out.say(str(found))
    out.result(
        command="certify",
        data=data,
        model=model,
        certificate=certificate_fields(found),
        peak_memory_bytes=peak_memory(),
    )
    missed = how.require_certificate and not found.converged
    return ExitCode.NOT_CERTIFIED if missed else ExitCode.OK


def read_for(model: Any, data: str, options: ReadingOptions) -> Table:
    """Return the rows for a fitted model, with its columns in its order."""
    known = known_columns(model)
    if takes_kernel_values(model) and _is_libsvm_text(data, options):
        return read_kernel_values(data, replace(options, n_features=known.width))[0]
    if known.width is not None:
        if options.n_features not in (None, known.width):
            raise usage_error(
                f"--n-features {options.n_features}: the model was fitted on "
                f"{known.width}."
            )
        dense = options.dense or needs_dense_rows(model)
        options = replace(options, n_features=known.width, dense=dense)
    table = read_encoded(data, options, known)
    forget_names(model)
    return table


def _is_libsvm_text(data: str, options: ReadingOptions) -> bool:
    """Whether a file is LIBSVM's text; standard input where the format says so."""
    if data == "-" or options.format != "auto":
        return options.format == "libsvm"
    return format_of(existing(data)) == "libsvm"
