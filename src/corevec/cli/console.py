"""Output: results to standard output, messages to standard error."""

from __future__ import annotations

import json
import logging
import math
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import typer

# A fit may have a thousand rounds: one line per second suffices.
_SECONDS_BETWEEN_LINES = 1.0


@dataclass(frozen=True)
class OutputOptions:
    """What a command writes.

    Parameters
    ----------
    json
        One JSON object on standard output.
    quiet
        No progress and no summary.
    verbose
        Seconds, peak memory and the whole certificate.
    debug
        Show the traceback of an error.
    """

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    debug: bool = False

    def say(self, text: str) -> None:
        """Write a line of the summary, except with --json or --quiet."""
        if not (self.json or self.quiet):
            typer.echo(text)

    def warn(self, text: str) -> None:
        """Write a line that is shown even with --quiet."""
        note(text)

    def result(self, **fields: Any) -> None:
        """Write the JSON object, with --json."""
        if self.json:
            typer.echo(json.dumps(jsonable(fields), allow_nan=False))

    @property
    def verbosity(self) -> int:
        """The value of ``verbose``: 0 if quiet, 1 on a terminal, 2 otherwise."""
        if self.quiet:
            return 0
        return 1 if sys.stderr.isatty() else 2


def note(text: str) -> None:
    """Write a message on standard error."""
    typer.echo(f"corevec: {text}", err=True)


@contextmanager
def one_line_messages(quiet: bool) -> Iterator[None]:
    """Show log records and warnings as single lines on standard error."""
    log = logging.getLogger("corevec")
    handler = _Lines()
    handler.addFilter(_at_most_one_per_second())
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


class _Lines(logging.Handler):
    """Writes each record as a message."""

    def emit(self, record: logging.LogRecord) -> None:
        from tqdm import tqdm

        # Above the progress line of a terminal.
        tqdm.write(f"corevec: {record.getMessage()}", file=sys.stderr)


def _at_most_one_per_second() -> Any:
    shown_at = -math.inf

    def passes(record: logging.LogRecord) -> bool:
        nonlocal shown_at
        if record.levelno > logging.INFO:
            return True
        if hasattr(record, "n_skipped"):  # the summary of the command repeats it
            return False
        if time.monotonic() - shown_at < _SECONDS_BETWEEN_LINES:
            return False
        shown_at = time.monotonic()
        return True

    return passes


def _show_warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    if getattr(message, "stopped_by", None) == "interrupt":
        return  # the command reports it, with the path of the model
    note(f"warning: {message}")


def jsonable(value: Any) -> Any:
    """Return a value with JSON types: Python numbers for NumPy ones, None for nan."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def certificate_fields(certificate: Any) -> dict[str, Any]:
    """Return a certificate as a dict, with a summary of its parts."""
    found = asdict(certificate)
    found["parts"] = [
        {
            "problem": part.problem,
            "relative_gap": part.relative_gap,
            "converged": part.converged,
        }
        for part in certificate.parts
    ]
    return found


def ball_fields(bound: Any) -> dict[str, Any]:
    """Return the bound of a ball as a dict, with its approximation factor."""
    parts = [ball_fields(part) for part in bound.parts]
    return asdict(bound) | {"factor": bound.factor, "parts": parts}
