"""``corevec svm-train`` and ``corevec svm-predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from corevec.cli.console import OutputOptions, note
from corevec.cli.data import ReadingOptions, Table, read_table
from corevec.cli.errors import ExitCode, data_error, writing
from corevec.cli.fitting import (
    Stages,
    ending,
    fit_model,
    n_vectors,
    or_nothing,
    state_of,
)
from corevec.cli.letters import (
    DIFFERENCE,
    TrainLetters,
    estimator_for,
    predict_letters,
    train_letters,
)
from corevec.cli.models import check_model_name, load_model, replaced_when_done
from corevec.cli.predict import read_for
from corevec.cli.scoring import compared, predictions_of, score_of, write_lines

_AS_LIBSVM = ReadingOptions(format="libsvm")


def svm_train(arguments: list[str]) -> ExitCode:
    """Fit with the options of svm-train, and write a LIBSVM model file."""
    letters = train_letters(arguments)
    out = OutputOptions(quiet=letters.q)
    if not letters.v:
        check_model_name(letters.model, letters.data)
    if not letters.q:
        note(DIFFERENCE)
    model = estimator_for(letters, out.verbosity)
    stages = Stages()
    with or_nothing(letters.model):
        with stages.stage("read"):
            table = read_table(letters.data, _AS_LIBSVM)
        _say_unused_weights(letters, table)
        if letters.v:
            return _cross_validate(model, table, letters.v)
        with stages.stage("fit"):
            fit_model(model, table)
    _write(model, letters.model)
    out.say(f"optimization finished, {state_of(model)[0]}")
    out.say(f"obj = {model.certificate_.primal:.6f}, Total nSV = {n_vectors(model)}")
    return ending(model, letters.model, require_certificate=False)


def _write(model: Any, path: Path) -> None:
    """Write a LIBSVM model file, for any suffix, as svm-train does."""
    from corevec.formats import save_libsvm

    with writing(path):
        save_libsvm(model, path)


def _say_unused_weights(letters: TrainLetters, table: Table) -> None:
    unknown = sorted(set(letters.weights) - set(table.y.tolist()))
    for label in unknown:
        note(f"warning: -w{label:g}: no row of {table.name} has this label.")
        del letters.weights[label]


def _cross_validate(model: Any, table: Table, folds: int) -> ExitCode:
    """Print the result of n-fold cross-validation in the format of LIBSVM."""
    from sklearn.base import is_classifier
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

    kind = StratifiedKFold if is_classifier(model) else KFold
    split = kind(folds, shuffle=True, random_state=0)
    try:
        predicted = cross_val_predict(model, table.X, table.y, cv=split)
    except ValueError as error:
        raise data_error(f"{table.name}: {error}") from error
    score = compared(model, table.y, predicted)
    _print_score(score, "Cross Validation ", "")
    return ExitCode.OK


def _print_score(score: dict[str, Any] | None, front: str, back: str) -> None:
    """Print a score in the format of LIBSVM, which scripts parse."""
    if score is None:
        return
    if "accuracy" in score:
        share = f"{100 * score['accuracy']:g}%"
        counted = f" ({score['right']}/{score['rows']}) (classification)"
        typer.echo(f"{front}Accuracy = {share}{counted if back else ''}")
        return
    error, correlation = score["mean_squared_error"], score["squared_correlation"]
    names = ("Mean squared error", "Squared correlation coefficient")
    for name, value in zip(names, (error, correlation), strict=True):
        tail = " (regression)" if back else ""
        typer.echo(f"{front}{name} = {value:g}{tail}")


def svm_predict(arguments: list[str]) -> ExitCode:
    """Predict with the options of svm-predict."""
    letters = predict_letters(arguments)
    model = load_model(letters.model)
    table = read_for(model, letters.test, _AS_LIBSVM)
    predicted = predictions_of(model, table)
    with writing(letters.output), replaced_when_done(letters.output) as part:
        write_lines(part, predicted)
    if not letters.quiet:
        _print_score(score_of(model, table, predicted), "", "of a file")
    return ExitCode.OK
