"""``corevec svm-train``, ``svm-predict`` and ``svm-scale``."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from corevec.cli.console import OutputOptions, note
from corevec.cli.data import ReadingOptions, Table, read_table
from corevec.cli.errors import CliError, ExitCode, data_error, reading, writing
from corevec.cli.fitting import Stages, ending, fit_model, or_nothing, state_of
from corevec.cli.kernel_values import read_training_matrix
from corevec.cli.letters import (
    TrainLetters,
    estimator_for,
    predict_letters,
    scale_letters,
    train_letters,
)
from corevec.cli.libsvm_lines import laplace_lines, trained_lines
from corevec.cli.models import check_model_name, load_model, replaced_when_done
from corevec.cli.predict import read_for
from corevec.cli.scoring import compared, predictions_of, score_of, write_lines
from corevec.cli.writers import write_text

_AS_LIBSVM = ReadingOptions(format="libsvm")


def svm_train(arguments: list[str]) -> ExitCode:
    """Fit by the option letters of LIBSVM's svm-train.

    The machines of `corevec.svm`, which solve LIBSVM's own problems; the model file is
    LIBSVM's text, which its svm-predict reads. For very many rows use `corevec train`.

    -s svm_type      0 C-SVC, 1 nu-SVC, 2 one-class, 3 epsilon-SVR, 4 nu-SVR (default 0)
    -t kernel_type   0 linear, 1 polynomial, 2 RBF, 3 sigmoid, 4 precomputed: rows of
                     kernel values, `label 0:i 1:K(x_i,x_1) ...` (default 2)
    -d degree        of the polynomial kernel (default 3)
    -g gamma         of the kernel (default 1/num_features)
    -r coef0         of the polynomial and sigmoid kernels (default 0)
    -c cost          C of C-SVC, epsilon-SVR and nu-SVR (default 1)
    -n nu            of nu-SVC, one-class and nu-SVR (default 0.5)
    -p epsilon       width of the tube of epsilon-SVR (default 0.1)
    -m memory        megabytes for kernel values (default 256 at least)
    -e tolerance     largest violation of an optimality condition (default 0.001)
    -h shrinking     0 or 1: the result does not depend on it
    -b probability   1 adds what svm-predict -b 1 needs, by five folds: sigmoids of
                     Platt, or the scale of the errors of a regression (default 0)
    -wi weight       multiplies C of class i, as in -w1 5 -w-1 1
    -v n             n-fold cross-validation; writes no model
    -q               quiet

    Examples
    --------
      corevec svm-train -c 10 -g 0.5 a9a a9a.model
      corevec svm-train -s 3 -p 0.2 -t 2 cpusmall
      corevec svm-train -v 5 heart_scale
    """
    letters = train_letters(arguments)
    out = OutputOptions(quiet=letters.q)
    if not letters.v:
        check_model_name(letters.model, letters.data)
    stages = Stages()
    with or_nothing(letters.model):
        with stages.stage("read"):
            table, numbers = _training_rows(letters)
        if letters.is_classifier:
            table = _with_whole_labels(table)
        _say_unused_weights(letters, table)
        if letters.v:
            return _cross_validate(estimator_for(letters, 0), table, letters.v)
        with stages.stage("fit"):
            model, labels = _fitted(letters, table, out.verbosity)
    text = _write(model, _Source(table, labels, numbers), letters)
    if letters.b and not letters.is_classifier:
        out.say(laplace_lines(float(text.extras["probA"][0])))
    for line in trained_lines(model, text, letters, table):
        out.say(line)
    out.say(state_of(model)[0])
    return ending(model, letters.model, require_certificate=False)


@dataclass(frozen=True)
class _Source:
    """The rows of a fit, the labels of its classes, and the numbers of its rows."""

    table: Table
    labels: Any
    numbers: Any


def _training_rows(letters: TrainLetters) -> tuple[Table, Any]:
    """Return the rows and, of a file of kernel values, their numbers."""
    if letters.t == 4:
        return read_training_matrix(letters.data, _AS_LIBSVM)
    return read_table(letters.data, _AS_LIBSVM), None


def _with_whole_labels(table: Table) -> Table:
    """Return the table with the labels as LIBSVM takes them: cut to whole numbers."""
    import numpy as np

    whole = np.trunc(table.y)
    if (whole != table.y).any():
        note(f"warning: {table.name}: labels are cut to whole numbers, as by LIBSVM.")
    return replace(table, y=whole)


def _fitted(letters: TrainLetters, table: Table, verbosity: int) -> tuple[Any, Any]:
    """Return the fitted model, and the label of each of its classes.

    A classifier is fitted on numbers of classes, so that its file lists the labels in
    the order of LIBSVM: that seen first comes first; 1 comes before -1.
    """
    import numpy as np

    model = estimator_for(letters, verbosity)
    if not letters.is_classifier:
        return fit_model(model, table), None
    labels, first, codes = np.unique(table.y, return_index=True, return_inverse=True)
    if len(labels) == 1:
        raise data_error(
            f"{table.name}: all rows have the label {labels[0]:g}; a classifier needs "
            "two classes at least."
        )
    order = np.argsort(first)
    if labels.tolist() == [-1, 1]:  # these two in this order, as LIBSVM since 3.17
        order = np.array([1, 0])
    codes = np.argsort(order)[codes]
    weights = {
        code: letters.weights.get(labels[k], 1.0) for code, k in enumerate(order)
    }
    model.set_params(class_weight=weights if letters.weights else None)
    return fit_model(model, replace(table, y=codes)), labels[order]


def _say_unused_weights(letters: TrainLetters, table: Table) -> None:
    unknown = sorted(set(letters.weights) - set(table.y.tolist()))
    for label in unknown:
        note(f"warning: -w{label:g}: no row of {table.name} has this label.")
        del letters.weights[label]


def _write(model: Any, given: _Source, letters: TrainLetters) -> Any:
    """Write a LIBSVM model file, for any suffix; return what it contains."""
    from corevec import formats

    path = letters.model
    with writing(path):
        formats.save_libsvm(model, path)
    with reading(ExitCode.BAD_MODEL):
        written = formats.load_libsvm(path)
    changes: dict[str, Any] = {}
    if given.labels is not None:
        named = given.labels[written.text_.labels].astype("int64")
        changes["labels"] = named
    if given.numbers is not None:
        vectors = written.text_.vectors
        vectors.data = given.numbers[written.text_.row_numbers].astype(float)
    if letters.b:
        from corevec.cli.probability import fit_laplace, fit_sigmoids

        fresh = estimator_for(letters, 0)
        changes["extras"] = (
            fit_sigmoids(fresh, given.table, named, letters.weights)
            if letters.is_classifier
            else fit_laplace(fresh, given.table)
        )
    written.text_ = replace(written.text_, **changes)
    with writing(path):
        formats.save_libsvm(written, path)
    return written.text_


def _cross_validate(model: Any, table: Table, folds: int) -> ExitCode:
    """Print the result of n-fold cross-validation in the format of LIBSVM."""
    import numpy as np
    from sklearn.base import is_classifier
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

    n_rows = len(table.y)
    if folds > n_rows:
        note(f"warning: -v {folds}: {n_rows} rows, so {n_rows} folds (leave one out).")
        folds = n_rows
    counts = np.unique(table.y, return_counts=True)[1]
    in_each = is_classifier(model) and counts.min() >= folds
    kind = StratifiedKFold if in_each else KFold
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
    """Predict by the option letters of LIBSVM's svm-predict.

    Reads LIBSVM's model text and corevec's own models.

    -b probability   1 writes the labels first, then the label of each row and the
                     probability of each label; of a regression it prints the scale of
                     the errors (default 0)
    -q               quiet

    Examples
    --------
      corevec svm-predict a9a.t a9a.model a9a.predicted
    """
    from sklearn.base import is_regressor

    letters = predict_letters(arguments)
    test, model_file, output = letters.files
    model = load_model(model_file)
    table = read_for(model, test, _AS_LIBSVM)
    lines: list[str] = []
    note_first = _about_probabilities(model, letters.b, model_file)
    if letters.b and not is_regressor(model):
        predicted, lines = _with_probabilities(model, table, model_file)
    else:
        predicted = predictions_of(model, table)
    path = Path(output)
    with writing(path), replaced_when_done(path) as part:
        if lines:
            part.write_text("\n".join(lines) + "\n")
        else:
            write_lines(part, predicted)
    if not letters.q:
        if note_first:
            typer.echo(note_first)
        _print_score(score_of(model, table, predicted), "", "of a file")
    return ExitCode.OK


def _about_probabilities(model: Any, wanted: int, model_file: str) -> str:
    """Return what svm-predict prints first; raise where the model lacks what is asked.

    A regression's probability is one number, the scale of its errors.
    """
    from sklearn.base import is_regressor

    extras = getattr(getattr(model, "text_", None), "extras", {})
    if not wanted:
        unused = "probA" in extras
        said = "Model supports probability estimates, but disabled in prediction."
        return said if unused else ""
    if not is_regressor(model):
        return ""
    if "probA" not in extras:
        raise _no_probabilities(model_file)
    return laplace_lines(float(extras["probA"][0]))


def _no_probabilities(model_file: str) -> CliError:
    return CliError(
        f"{model_file}: -b 1: the model has no probabilities. Train it with -b 1.",
        ExitCode.BAD_MODEL,
    )


def _with_probabilities(
    model: Any, table: Table, model_file: str
) -> tuple[Any, list[str]]:
    """Return the predictions, and the lines that svm-predict -b 1 writes."""
    import numpy as np

    if hasattr(model, "predict_proba"):
        labels = getattr(model, "classes_", np.array([-1, 1]))  # none of a detector
        shares = model.predict_proba(table.X)
    else:
        labels, shares = _of_libsvm(model, table, model_file)
    predicted = labels[shares.argmax(axis=1)]
    lines = [f"labels {' '.join(f'{label:g}' for label in labels)}"]
    for label, row in zip(predicted.tolist(), shares.tolist(), strict=True):
        lines.append(f"{label:g} {' '.join(f'{share:g}' for share in row)}")
    return predicted, lines


def _of_libsvm(model: Any, table: Table, model_file: str) -> tuple[Any, Any]:
    """Return the labels of a LIBSVM file, and their probabilities by its sigmoids."""
    from corevec.cli.probability import probabilities

    text = getattr(model, "text_", None)
    if (
        text is None
        or text.labels is None
        or not {"probA", "probB"} <= set(text.extras)
    ):
        raise _no_probabilities(model_file)
    values = model.pair_values(table.X)
    A, B = text.extras["probA"], text.extras["probB"]
    return text.labels, probabilities(values, A, B, len(text.labels))


def svm_scale(arguments: list[str]) -> ExitCode:
    """Scale by the option letters of LIBSVM's svm-scale.

    LIBSVM text in, scaled LIBSVM text on standard output. Columns with one value only
    are left out, as there.

    -l lower         of the columns (default -1)
    -u upper         of the columns (default 1)
    -y lower upper   scale the labels too (default: leave them)
    -s file          save the ranges to this file, which LIBSVM's svm-scale reads
    -r file          restore the ranges from this file, svm-scale's or ours

    Examples
    --------
      corevec svm-scale -l 0 -s a9a.range a9a > a9a.scaled
      corevec svm-scale -r a9a.range a9a.t > a9a.t.scaled
    """
    from corevec.cli.ranges import Ranges

    letters = scale_letters(arguments)
    table = read_table(letters.files[0], _AS_LIBSVM)
    if letters.r is not None:
        with reading(ExitCode.BAD_DATA):
            ranges = Ranges.read(letters.r)
    else:
        ranges = Ranges.of(table, letters.l, letters.u, letters.y)
    if letters.s is not None:
        with writing(letters.s), replaced_when_done(letters.s) as part:
            part.write_text(ranges.text())
    write_text(sys.stdout, ranges.applied(table), "libsvm", None)
    return ExitCode.OK
