"""Base class of the readers: passes over files, and the handling of bad records."""

from __future__ import annotations

import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from corevec._runtime.checks import check_choice, is_count
from corevec.exceptions import InvalidInputError

Block = tuple[Any, ...]
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

# 8192 rows of 100 numbers are 6 MB: parsing takes milliseconds per block, against the
# 0.1 ms of overhead of Python per block.
DEFAULT_BLOCK_ROWS = 8192
# 64 MiB: 1,024 float64 columns at the default number of rows.
DEFAULT_MEMORY_BUDGET = 1 << 26
# Enough to see a pattern in what was skipped; the count has no limit.
_KEPT_MESSAGES = 5
_SHOWN_CHARACTERS = 60
# The syntax of float() without blanks, underscores, nan and infinity. Digits match in
# one way only: `\d+\.?\d*` takes n^2 steps for n digits and a letter.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)

logger = logging.getLogger("corevec")


@dataclass(frozen=True)
class Argument:
    """An argument of a reader in a message; a program shows its own option instead."""

    name: str
    value: Any = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


Part = str | Argument


class BadRecordError(Exception):
    """Why a record cannot be used; it is counted, or raised with its place.

    ``args`` are the parts of the message, text and `Argument`; ``cells`` the name and
    the text of each column without a finite number, where that is the reason.
    """

    def __init__(self, *parts: Part, cells: Sequence[tuple[str, str]] = ()):
        super().__init__(*parts)
        self.cells = cells

    def __str__(self) -> str:
        return "".join(map(str, self.args))


class NotANumberError(BadRecordError):
    """A field that must hold a finite number holds other text."""


class ReaderError(InvalidInputError):
    """Exception for a file that cannot be read, or an argument of its reader.

    ``parts`` are the parts of the message, text and `Argument`, without the name of the
    function and its advice; ``record`` is the cause where it is a single record.
    """

    def __init__(
        self,
        message: str = "",
        *,
        parts: tuple[Part, ...] = (),
        record: BadRecordError | None = None,
    ):
        super().__init__(message)
        self.parts = parts
        self.record = record


def reader_error(
    who: str, *parts: Part, advice: str = "", record: BadRecordError | None = None
) -> ReaderError:
    """Return the error of the function `who`, with a message made of these parts."""
    front = f"{who}: " if who else ""
    text = "".join(map(str, parts))
    return ReaderError(f"{front}{text}{advice}", parts=parts, record=record)


Listener = Callable[[str, BadRecordError], None]


class RowStream(ABC):
    """Iterable of the blocks ``(X, y)`` or ``(X, y, sample_weight)`` of files.

    Memory is bounded by the size of a block. Each ``iter()`` opens the files again and
    is one pass. The rows before a bad record are yielded before its error is raised.

    Attributes
    ----------
    rows : int
        Rows yielded so far in the latest pass.
    skipped : int
        Records skipped so far in the latest pass, with ``errors="skip"``.
    messages : list of str
        The reasons for the first five of them.
    """

    # Bytes of text per chunk: with the arrays parsed from it, it fits a level-2 cache.
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
        self._listeners: tuple[Listener, ...] = ()
        self._start_pass()

    def __iter__(self) -> Iterator[Block]:
        self._start_pass()
        blocks = self._blocks()
        while True:
            try:
                block = next(blocks, None)
            except ReaderError as error:
                raise ReaderError(
                    f"{error} Rows yielded before it: {self.rows}.",
                    parts=error.parts,
                    record=error.record,
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
        """Yield the blocks of one pass; the rows before an error are yielded first."""

    def telling(self, listener: Listener) -> Self:
        """Return a stream that reports each bad record that it skips.

        Parameters
        ----------
        listener : callable
            Called with the place of the record, as text, and the reason: an exception
            whose text says what is wrong.

        Returns
        -------
        RowStream
            The same blocks.
        """
        stream = copy(self)
        stream._listeners = (listener,)
        return stream

    def _start_pass(self) -> None:
        self.rows = 0
        self.skipped = 0
        self.messages: list[str] = []

    def _fault(self, where: str, bad: BadRecordError) -> InvalidInputError | None:
        """Return the error to raise for a bad record; None where it is only counted."""
        if self.errors == "raise":
            return reader_error(
                self.who,
                *(f"{where}: ", *bad.args, "."),
                advice=" errors='skip' skips such records and counts them.",
                record=bad,
            )
        self.skipped += 1
        if len(self.messages) < _KEPT_MESSAGES:
            self.messages.append(f"{self.who}: {where}: {bad}.")
        for listener in self._listeners:
            listener(where, bad)
        return None


def existing_files(who: str, path: Paths) -> list[Path]:
    """Return the given path or paths as a list; each must exist."""
    given = [path] if isinstance(path, str | os.PathLike) else path
    if not isinstance(given, Iterable) or hasattr(given, "columns"):
        raise reader_error(
            who,
            f"expected a path or a list of paths, got a {type(given).__name__}. Rows "
            "in memory are given to fit; a data frame can be written to Parquet.",
        )
    paths = [Path(one) for one in given]
    if not paths:
        raise reader_error(who, "the list of paths is empty. Give one file.")
    for found in paths:
        if not found.exists():
            raise FileNotFoundError(f"{who}: there is no file {str(found)!r}.")
    return paths


def check_count(who: str, name: str, value: Any) -> None:
    """Check a parameter that must be a whole number of at least 1."""
    if not is_count(value):
        given = Argument(name, value)
        raise reader_error(who, given, " must be a whole number of at least 1.")


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
    """Return the text quoted for a message; the middle of a long text is omitted."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="backslashreplace")
    if len(text) > _SHOWN_CHARACTERS:
        half = _SHOWN_CHARACTERS // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return repr(text)
