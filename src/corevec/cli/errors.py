"""Errors of the command line: an exit code and one line of text each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


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


# Arguments of the readers, as options of the command line.
_IN_OUR_WORDS = (
    (re.compile(r"^(read|scan|load)(_(libsvm|csv|parquet))?: "), ""),
    (
        re.compile(r"errors='skip' leaves such records out and counts them\."),
        "`corevec check` lists every bad line; --skip-bad-rows leaves them out.",
    ),
    (re.compile(r" Rows handed out before it: \d+\."), ""),
    (re.compile(r"give zero_based=True"), "give --zero-based"),
    (re.compile(r"\btarget=('[^']*'|-?\d+)"), r"--target \1"),
    (re.compile(r"\bsample_weight=('[^']*'|-?\d+)"), r"--weight-column \1"),
    (re.compile(r"\bdelimiter=('[^']*')"), r"--delimiter \1"),
    (re.compile(r"give target_type='string'"), "give --target-type string"),
    (
        re.compile(r"is beyond n_features=(\d+); give a larger n_features.*?\)"),
        r"is beyond the \1 columns expected (--n-features)",
    ),
)


def in_our_words(message: str) -> str:
    """Return the message of a reader, with options instead of arguments."""
    for pattern, words in _IN_OUR_WORDS:
        message = pattern.sub(words, message)
    return message


@contextmanager
def reading(code: ExitCode) -> Iterator[None]:
    """Convert the errors of a reader into a `CliError` with this exit code."""
    from corevec.exceptions import CorevecError

    try:
        yield
    except (CorevecError, OSError, EOFError) as error:
        raise CliError(in_our_words(_plain(error)), code) from error
    except ImportError as error:
        raise CliError(str(error), ExitCode.CANNOT) from error


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
        raise CliError(f"{reason} Choose another place.", ExitCode.CANNOT) from error
    except ImportError as error:
        raise CliError(str(error), ExitCode.CANNOT) from error


def _plain(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return str(error)


__all__ = [
    "CliError",
    "EXIT_CODES",
    "ExitCode",
    "data_error",
    "in_our_words",
    "reading",
    "usage_error",
    "writing",
]
