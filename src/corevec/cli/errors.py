"""Errors of the command line: an exit code and one line of text each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corevec.data.readers import Argument, Part


class ExitCode(IntEnum):
    """The exit codes of every command; ``corevec --help`` lists them."""

    OK = 0
    NOT_CERTIFIED = 1
    USAGE = 2
    BAD_DATA = 3
    BAD_MODEL = 4
    CANNOT = 5
    BUG = 70  # EX_SOFTWARE of BSD's sysexits
    INTERRUPTED = 130  # 128 + SIGINT, as in shells


EXIT_CODES = """\
Exit codes:
  0    done
  1    not certified, where --require-certificate asks for it
  2    wrong command, option or parameter
  3    a data file that is missing or cannot be used
  4    a model file that is missing or cannot be used
  5    a file cannot be written, or an optional package is missing
  70   an error inside corevec: please report it
  130  interrupted by Ctrl-C (a fit saves its best model so far)
"""


class CliError(Exception):
    """An error that ends the command with one line and an exit code."""

    def __init__(self, message: str, code: ExitCode):
        super().__init__(message)
        self.code = code


def usage_error(message: str) -> CliError:
    """Return the error for a wrong option or parameter."""
    return CliError(message, ExitCode.USAGE)


def data_error(message: str) -> CliError:
    """Return the error for a data file that cannot be used."""
    return CliError(message, ExitCode.BAD_DATA)


def cannot(message: str) -> CliError:
    """Return the error for a file that cannot be written, or a missing package."""
    return CliError(message, ExitCode.CANNOT)


@contextmanager
def reading(code: ExitCode) -> Iterator[None]:
    """Convert the errors of a reader into a `CliError` with this exit code."""
    from corevec.exceptions import CorevecError

    try:
        yield
    except (CorevecError, OSError, EOFError) as error:
        raise CliError(_in_options(error), code) from error
    except ImportError as error:
        raise cannot(str(error)) from error


@contextmanager
def writing(path: object) -> Iterator[None]:
    """Convert the errors of a writer into a `CliError`."""
    from corevec.exceptions import CorevecError

    try:
        yield
    except CorevecError as error:
        raise usage_error(str(error)) from error
    except OSError as error:
        reason = f"{path}: cannot be written ({error.strerror or error})."
        raise cannot(f"{reason} Choose another place.") from error
    except ImportError as error:
        raise cannot(str(error)) from error


def _in_options(error: Exception) -> str:
    """Return the message of a reader, with options in place of arguments."""
    from corevec.data.readers import ReaderError

    if isinstance(error, ReaderError):
        text = joined(error.parts)
        advice = (
            " `corevec check` lists every bad line; --skip-bad-rows leaves them out."
        )
        return text if error.record is None else text + advice
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return str(error)


def joined(parts: tuple[Part, ...]) -> str:
    """Return the parts of a reader's message, with options in place of arguments."""
    return "".join(part if isinstance(part, str) else _option(part) for part in parts)


def _option(argument: Argument) -> str:
    names = {"sample_weight": "weight-column"}
    name = "--" + names.get(argument.name, argument.name.replace("_", "-"))
    if argument.value is None or argument.value is True:
        return name
    return f"{name} {argument.value!r}"
