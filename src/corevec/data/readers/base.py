"""What every reader of files shares: passes, blocks of a fixed size, bad records."""

from __future__ import annotations

import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from corevec._runtime.checks import check_choice
from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError

Block = tuple[Any, ...]
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

# 8192 rows of 100 numbers are 6 MB: some ms of work per block, against some 0.1 ms
# that the Python around a block costs.
DEFAULT_BLOCK_ROWS = 8192
# 64 MiB: 1,024 float64 columns at the default number of rows.
DEFAULT_MEMORY_BUDGET = 1 << 26
# Enough to see a pattern in what was skipped; the count has no limit.
_KEPT_MESSAGES = 5
_SHOWN_CHARACTERS = 60
# What float() takes, less blanks, underscores, nan and infinity.
# One way only to match digits: `\d+\.?\d*` takes n^2 steps for n digits and a letter.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)

logger = logging.getLogger("corevec")


class BadRecordError(Exception):
    """Why one record cannot be used; becomes an error or a count, with its place."""


class NotANumberError(BadRecordError):
    """A field that must hold a finite number holds other text."""


class RowStream(ABC):
    """Blocks ``(X, y)`` or ``(X, y, sample_weight)`` of files, in bounded memory.

    Each ``iter()`` opens the files anew and is one pass. Rows in front of a bad record
    are handed out before its error is raised.

    Attributes
    ----------
    rows : int
        Rows handed out so far in the latest pass.
    skipped : int
        Records left out so far in the latest pass, with ``errors="skip"``.
    messages : list of str
        What was wrong with the first five of them.
    """

    # Text read at once: with the arrays made of it, within a second-level cache.
    _chunk_bytes = 1 << 20

    def __init__(
        self,
        who: str,
        paths: list[Path],
        errors: str,
        block_rows: int,
        memory_budget: int,
    ):
        check_choice(who, "errors", errors, ("raise", "skip"))
        check_count(who, "block_rows", block_rows)
        check_count(who, "memory_budget", memory_budget)
        self.who = who
        self.paths = paths
        self.errors = errors
        self.block_rows = int(block_rows)
        self.memory_budget = int(memory_budget)
        self._start_pass()

    def __iter__(self) -> Iterator[Block]:
        self._start_pass()
        blocks = self._blocks()
        while True:
            try:
                block = next(blocks, None)
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"{error} Rows handed out before it: {self.rows}.",
                    parameter=error.parameter,
                ) from error.__cause__
            if block is None:
                break
            self.rows += block[0].shape[0]
            yield block
        if self.skipped:
            logger.info(
                "%s: skipped %d records",
                self.who,
                self.skipped,
                extra={"n_skipped": self.skipped},
            )

    @abstractmethod
    def _blocks(self) -> Iterator[Block]:
        """Yield the blocks of one pass; rows before an error come before it."""

    def _start_pass(self) -> None:
        self.rows = 0
        self.skipped = 0
        self.messages: list[str] = []

    def _fault(self, where: str, bad: BadRecordError) -> InvalidInputError | None:
        """Return the error to raise for a bad record; None where it is only counted."""
        message = f"{self.who}: {where}: {bad}."
        if self.errors == "raise":
            fault = InvalidInputError(
                f"{message} errors='skip' leaves such records out and counts them."
            )
            fault.__cause__ = bad
            return fault
        self.skipped += 1
        if len(self.messages) < _KEPT_MESSAGES:
            self.messages.append(message)
        return None


def existing_files(who: str, path: Paths) -> list[Path]:
    """Return the given path or paths as a list; each must exist."""
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    paths = [Path(one) for one in given]
    if not paths:
        raise InvalidInputError(f"{who}: the list of paths is empty. Give one file.")
    for found in paths:
        if not found.exists():
            raise FileNotFoundError(f"{who}: there is no file {str(found)!r}.")
    return paths


def check_count(who: str, name: str, value: Any) -> None:
    """Check a parameter that must be a whole number of at least 1."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or int(value) < 1:
        raise InvalidInputError(
            f"{who}: {name}={value!r} must be a whole number of at least 1."
        )


def finite_number(text: str | bytes, place: str, limit: float = np.inf) -> float:
    """Return the number that `text` is; its magnitude must be below `limit`."""
    plain = text if isinstance(text, str) else text.decode("utf-8", "backslashreplace")
    if not _NUMBER.fullmatch(plain):
        raise NotANumberError(f"expected a finite number {place}, got {shown(plain)}")
    value = float(plain)
    if not abs(value) < limit:
        raise BadRecordError(f"the number {place}, {shown(plain)}, is out of range")
    return value


def shown(text: str | bytes) -> str:
    """Return the text quoted for a message, its middle left out where it is long."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="backslashreplace")
    if len(text) > _SHOWN_CHARACTERS:
        half = _SHOWN_CHARACTERS // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return repr(text)


__all__ = [
    "Array",
    "BadRecordError",
    "Block",
    "DEFAULT_BLOCK_ROWS",
    "DEFAULT_MEMORY_BUDGET",
    "NotANumberError",
    "Paths",
    "RowStream",
    "check_count",
    "existing_files",
    "finite_number",
    "shown",
]
