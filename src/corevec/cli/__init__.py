"""The command ``corevec``. No numerics here: files in, estimators, files out.

Nothing heavy is imported before a command needs it: ``corevec --help`` answers at once.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from typing import Any

from corevec.cli.errors import CliError, ExitCode


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : list of str, optional
        The words after ``corevec``; those of the process if not given.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        main(["--help"])
        return int(ExitCode.USAGE)
    try:
        return int(_run(words))
    except CliError as error:
        return _failed(words, error, str(error), error.code)
    except (BrokenPipeError, SystemExit):  # Typer makes the second of the first
        # Whoever read our output has gone, as `head` does: nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    except KeyboardInterrupt:
        # An interrupt within an `exec`, by which dataclasses are made, leaves a mark
        # that makes Python end by SIGINT (-2) in place of our code; this wipes it off.
        exec("")
        return _failed(words, None, "interrupted.", ExitCode.INTERRUPTED)
    except MemoryError as error:
        message = "not enough memory: fewer rows, or a smaller --memory-budget."
        return _failed(words, error, message, ExitCode.CANNOT)
    except Exception as error:
        if hasattr(error, "format_message"):  # Typer's own, of any version
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
        except typer.Abort:  # what Typer's versions before 0.20 make of Ctrl-C
            raise KeyboardInterrupt from None
    if code == ExitCode.INTERRUPTED and not isinstance(code, ExitCode):
        raise KeyboardInterrupt  # of which Typer made its own exit code
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
    """Return Typer's message, and whose option an unknown one is."""
    from corevec.cli.app import command_like, command_names

    message = str(error.format_message())
    # Typer says it in one way, its versions before 0.20 in another.
    message = re.sub(r" \(Possible options: (.*)\)", r" Did you mean \1?", message)
    message = re.sub(r"(No such option: [\w-]+) Did", r"\1. Did", message)
    option = getattr(error, "option_name", None)
    is_unknown = hasattr(error, "possibilities")  # Typer's NoSuchOption
    if words[:1] == ["train"] and isinstance(option, str) and is_unknown:
        from corevec.cli.parameters import owners_of

        owners = owners_of(option)
        if owners:
            return f"{message} It is a parameter of {', '.join(owners)} (--estimator)."
    command = words[0] if words[0][0] != "-" else ""
    if command and command not in command_names():
        return (
            f"No such command {command!r}.{command_like(command)} See: corevec --help"
        )
    return f"{message} See: {f'corevec {command}'.strip()} --help"


__all__ = ["main"]
