"""The command ``corevec``: reads files, runs estimators, writes files.

Slow imports are deferred until a command needs them, so that ``--help`` is fast.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module
from typing import Any

from corevec.cli.errors import CliError, ExitCode

# Public names of modules that import slow libraries, imported on first use.
_LAZY = {
    "PREDICT_FILES": "letters",
    "ReadingOptions": "data",
    "TRAINABLE": "parameters",
    "TRAIN_FILES": "letters",
    "estimator_for": "letters",
    "fit_sigmoids": "probability",
    "predict_letters": "letters",
    "read_table": "data",
    "texts_of": "parameters",
    "train_letters": "letters",
    "value_of": "parameters",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : list of str, optional
        Arguments after ``corevec``. The default is those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        main(["--help"])
        return int(ExitCode.USAGE)
    try:
        return int(_run(words))
    except CliError as error:
        return _failed(words, error, str(error), error.code)
    except (BrokenPipeError, SystemExit):  # Typer converts the former into the latter
        # The reader of our output has closed the pipe, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    except KeyboardInterrupt:
        # An interrupt within an `exec`, which dataclasses use, sets a flag that makes
        # Python exit by SIGINT (-2) instead of our code; another `exec` clears it.
        exec("")
        return _failed(words, None, "interrupted.", ExitCode.INTERRUPTED)
    except MemoryError as error:
        message = "not enough memory: fewer rows, or a smaller --memory-budget."
        return _failed(words, error, message, ExitCode.CANNOT)
    except Exception as error:
        if hasattr(error, "format_message"):  # an error of Typer, of any version
            return _failed(words, error, _usage_text(error, words), ExitCode.USAGE)
        message = (
            f"an error inside corevec ({type(error).__name__}: {error}). Please report "
            "it with the output of the same command and --debug."
        )
        return _failed(words, error, message, ExitCode.BUG)


def _run(words: list[str]) -> Any:
    import typer

    from corevec.cli.app import build_app
    from corevec.cli.console import one_line_messages

    with one_line_messages(quiet="-q" in words or "--quiet" in words):
        command = typer.main.get_command(build_app(words))
        try:
            code = command.main(words, prog_name="corevec", standalone_mode=False)
        except typer.Abort:  # Ctrl-C in Typer before 0.20
            raise KeyboardInterrupt from None
    if code == ExitCode.INTERRUPTED and not isinstance(code, ExitCode):
        raise KeyboardInterrupt  # Typer has converted it into its own exit code
    sys.stdout.flush()
    return code or ExitCode.OK


def _failed(
    words: list[str], error: Exception | None, message: str, code: ExitCode
) -> int:
    if "--debug" in words and error is not None:
        traceback.print_exception(error)
    name = words[0] if words and not words[0].startswith("-") else ""
    front = f"corevec {name}".strip()
    message = " ".join(message.split())
    print(f"{front}: {message}", file=sys.stderr)
    if "--json" in words:
        print(json.dumps({"error": message, "exit_code": int(code)}))
    return int(code)


def _usage_text(error: Any, words: list[str]) -> str:
    """Return the message of Typer, with the estimators that have an unknown option."""
    from corevec.cli.app import command_like, command_names

    message = str(error.format_message())
    if hasattr(error, "possibilities"):  # Typer's NoSuchOption
        similar = ", ".join(sorted(error.possibilities or ()))
        message = f"No such option: {error.option_name}."
        if similar:
            message += f" Did you mean {similar}?"
        if words[0] == "train":
            from corevec.cli.parameters import owners_of

            if owners := ", ".join(owners_of(error.option_name)):
                return f"{message} It is a parameter of {owners} (--estimator)."
    command = words[0] if words[0][0] != "-" else ""
    if command and command not in command_names():
        return (
            f"No such command {command!r}.{command_like(command)} See: corevec --help"
        )
    return f"{message} See: {f'corevec {command}'.strip()} --help"


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


__all__ = ["CliError", "ExitCode", "main", *_LAZY]
