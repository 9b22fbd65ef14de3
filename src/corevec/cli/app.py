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
from corevec.cli.options import expanded
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
    for function, short in _COMMANDS:
        name = function.__name__
        named = app.command(name, short_help=short, **_manual(function))
        named(expanded(function, _estimator_options(name, arguments)))
    for function, files in _LETTERS:
        _add_letters(app, function, files)
    return app


_COMMANDS: tuple[tuple[Callable[..., Any], str], ...] = (
    (train.train, "fit a model on a data file"),
    (predict.predict, "predictions of a model"),
    (predict.certify, "the duality gap of a model"),
    (check.check, "every bad line of a data file"),
    (convert.convert, "data and model formats"),
    (convert.scale, "scale the columns of a data file"),
    (stream.stream, "learn from a file or a pipe in one pass"),
    (surface.surface, "points to a triangle mesh"),
    (info.info, "versions, threads, caches"),
)
_LETTERS: tuple[tuple[Callable[[list[str]], Any], str], ...] = (
    (libsvm.svm_train, letters.TRAIN_FILES),
    (libsvm.svm_predict, letters.PREDICT_FILES),
    (libsvm.svm_scale, letters.SCALE_FILES),
)


def _manual(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the manual of a command: its docstring, with the examples at the end."""
    text = inspect.cleandoc(function.__doc__ or "")
    body, _, examples = text.partition("\n\nExamples\n--------\n")
    # Behind \b Typer keeps the lines of a paragraph: those of a table of letters.
    paragraphs = [
        f"\b\n{paragraph}" if paragraph.startswith("-") else paragraph
        for paragraph in body.split("\n\n")
    ]
    manual: dict[str, Any] = {"help": "\n\n".join(paragraphs)}
    if examples:
        manual["epilog"] = f"\b\nExamples:\n{examples}"
    return manual


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
    app: typer.Typer, function: Callable[[list[str]], Any], files: str
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
        **_manual(function),
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
