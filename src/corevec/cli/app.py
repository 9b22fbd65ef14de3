"""The Typer application with all commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from corevec.cli import (
    check,
    convert,
    info,
    letters,
    libsvm,
    predict,
    stream,
    surface,
    train,
)
from corevec.cli.errors import EXIT_CODES
from corevec.cli.expand import expanded
from corevec.cli.parameters import STREAMABLE, TRAINABLE, estimator_class, options_of

HELP = """\
Kernel machines on very large data, each with a certificate.

\b
A first session:
  corevec check a9a.txt
  corevec train a9a.txt --model a9a.corevec --C 10 --gamma 0.05
  corevec predict a9a.t --model a9a.corevec --output a9a.predicted
  corevec certify a9a.txt --model a9a.corevec

Each command has its own manual: corevec train --help.
"""


def build_app(arguments: list[str]) -> typer.Typer:
    """Return the application; the called command has the options of its estimator.

    The other commands do not, because importing the estimators takes seconds.
    """
    app = typer.Typer(
        help=HELP,
        epilog="\b\n" + EXIT_CODES,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_group)
    for function, short, epilog in _COMMANDS:
        more = _estimator_options(function.__name__, arguments)
        named = app.command(function.__name__, short_help=short, epilog=epilog)
        named(expanded(function, more))
    for function, text, files in _LETTERS:
        _add_letters(app, function, text, files)
    return app


_COMMANDS: tuple[tuple[Callable[..., Any], str, str | None], ...] = (
    (train.train, "fit a model on a data file", train.EPILOG),
    (predict.predict, "predictions of a model", predict.PREDICT_EPILOG),
    (predict.certify, "the duality gap of a model", predict.CERTIFY_EPILOG),
    (check.check, "every bad line of a data file", check.EPILOG),
    (convert.convert, "data and model formats", convert.CONVERT_EPILOG),
    (convert.scale, "scale the columns of a data file", convert.SCALE_EPILOG),
    (stream.stream, "learn from a file or a pipe in one pass", stream.EPILOG),
    (surface.surface, "points to a triangle mesh", surface.EPILOG),
    (info.info, "versions, threads, caches", None),
)


_LETTERS: tuple[tuple[Callable[[list[str]], Any], str, str], ...] = (
    (libsvm.svm_train, letters.TRAIN_HELP, letters.TRAIN_FILES),
    (libsvm.svm_predict, letters.PREDICT_HELP, letters.PREDICT_FILES),
    (libsvm.svm_scale, letters.SCALE_HELP, letters.SCALE_FILES),
)


def _show_version(asked: bool) -> None:
    if asked:
        import corevec

        typer.echo(f"corevec {corevec.__version__}")
        raise typer.Exit


def _group(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Define the options of the command group, whose help is `HELP`."""


def _add_letters(
    app: typer.Typer, function: Callable[[list[str]], Any], text: str, files: str
) -> None:
    """Add a command whose arguments are parsed as in LIBSVM."""

    def command(
        context: typer.Context,
        words: list[str] | None = typer.Argument(  # noqa: B008 - Typer reads it
            None, metavar=files, hidden=True
        ),
    ) -> Any:
        return function([*(words or []), *context.args])

    name = function.__name__.replace("_", "-")
    # -h is the shrinking option of LIBSVM.
    settings = {"ignore_unknown_options": True, "help_option_names": ["--help"]}
    app.command(
        name,
        help=text,
        short_help=f"LIBSVM's {name}, by its option letters",
        context_settings=settings,
    )(command)


def _estimator_options(name: str, arguments: list[str]) -> list[inspect.Parameter]:
    if arguments[:1] != [name]:
        return []
    if name == "train":
        chosen = _asked_estimator(arguments) or TRAINABLE[0]
        return options_of(estimator_class(chosen, TRAINABLE))
    if name == "stream":
        chosen = _asked_estimator(arguments) or STREAMABLE[0]
        return options_of(estimator_class(chosen, STREAMABLE))
    if name == "surface":
        from corevec import ImplicitSurface

        return options_of(ImplicitSurface)
    return []


def _asked_estimator(arguments: list[str]) -> str | None:
    """Return the value of --estimator among the arguments of a command."""
    for word, after in zip(arguments, [*arguments[1:], None], strict=True):
        if word in ("--estimator", "-e"):
            return after
        if word.startswith("--estimator="):
            return word.partition("=")[2]
    return None


def command_names() -> list[str]:
    """Return the names of all commands."""
    functions = [row[0] for row in (*_COMMANDS, *_LETTERS)]
    return [function.__name__.replace("_", "-") for function in functions]


def command_like(name: str) -> str:
    """Return a suggestion for a misspelt command, or an empty text."""
    close = get_close_matches(name, command_names(), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
