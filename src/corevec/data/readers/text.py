"""Text files, plain or compressed, as whole lines in one buffer."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from corevec.data.readers.base import reader_error

_READ_BYTES = 1 << 17
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# By the first bytes of the file, not by its name: RFC 1952, bzip2's block and
# end-of-stream marks, the .xz specification 2.1.1.1.
_COMPRESSED: tuple[tuple[re.Pattern[bytes], Any], ...] = (
    (re.compile(rb"\x1f\x8b\x08"), gzip.open),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), bz2.open),
    (re.compile(rb"\xfd7zXZ\x00"), lzma.open),
)
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError)


class WholeLines:
    """A buffer of whole lines of a file, ``text[start:stop]``.

    `more` loads the next lines, each ending in a newline, after those in the buffer
    have been consumed. `line` counts the newlines before `start`; the consumer advances
    both. With `quoted`, a newline between double quotes does not end a line. Reading
    begins at `begin`, a `place` of an earlier pass.
    """

    def __init__(
        self,
        who: str,
        path: Path,
        chunk: int,
        longest: int,
        quoted: bool = False,
        begin: tuple[int, int] = (0, 0),
    ):
        self.who = who
        self.path = path
        self.start = self.stop = 0
        self._before, self.line = begin
        self._longest = longest
        self._quoted = quoted
        self._filled = 0
        self._at_begin = self._before == 0
        self._at_end = False
        self._damage: Exception | None = None
        self._set_store(bytearray(chunk))
        self._plain = path.open("rb")
        self._file: Any = self._opened()

    def __enter__(self) -> WholeLines:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._plain.close()

    def more(self) -> bool:
        """Load the next whole lines; return False at the end of the file."""
        self._drop_what_was_read()
        while self._fill():
            self.stop = self._end_of_lines()
            if self.stop:
                self._skip_byte_order_mark()
                return True
            if self._filled == len(self.store):
                self._grow()
        if self._damage is not None:
            raise reader_error(
                self.who,
                f"{self.path}: the file is cut off or damaged after line "
                f"{self.line} ({type(self._damage).__name__}: {self._damage}). Copy or "
                "write it again.",
            ) from self._damage
        return False

    def widen(self, chunk: int) -> None:
        """Let `more` load up to `chunk` bytes, beginning again at `start`."""
        self.stop = self.start
        if chunk > len(self.store):
            self._set_store(self.store + bytes(chunk - len(self.store)))

    @property
    def place(self) -> tuple[int, int]:
        """The bytes and the lines of the file before the line at `start`."""
        return self._before + self.start, self.line

    def next_line(self) -> bytes:
        """Return the line at `start`, without consuming it."""
        return bytes(self.store[self.start : self.store.index(b"\n", self.start)])

    def whole_lines(self) -> memoryview:
        """Return the lines in the buffer, not consumed; valid until `more`."""
        return memoryview(self.store)[self.start : self.stop]

    def skip(self, n_lines: int) -> None:
        """Consume this number of lines."""
        for _ in range(n_lines):
            self.start = self.store.index(b"\n", self.start) + 1
        self.line += n_lines

    def skip_all(self) -> None:
        """Consume all lines in the buffer."""
        self.line += self.store.count(b"\n", self.start, self.stop)
        self.start = self.stop

    def where(self, line: int) -> str:
        """Return the position of a line in this file, for a message."""
        return f"{self.path}, line {line}"

    def _opened(self) -> Any:
        if self._before:
            self._plain.seek(self._before)
            return self._plain
        unpack = _unpacker(self._plain.peek(16))
        return self._plain if unpack is None else unpack(self._plain)

    def _skip_byte_order_mark(self) -> None:
        if self._at_begin and self.store.startswith(_BYTE_ORDER_MARK):
            self.start = len(_BYTE_ORDER_MARK)
        self._at_begin = False

    def _drop_what_was_read(self) -> None:
        self._before += self.stop
        rest = self._filled - self.stop
        self.text[:rest] = self.text[self.stop : self._filled]
        self.start = self.stop = 0
        self._filled = rest

    def _fill(self) -> bool:
        """Read until the buffer is full or the file ends; False if it is empty."""
        while not self._at_end and self._filled < len(self.store):
            end = min(self._filled + _READ_BYTES, len(self.store))
            try:
                # readinto1: what came before damage is not lost, unlike with readinto.
                size = self._file.readinto1(memoryview(self.store)[self._filled : end])
            except _DAMAGE as error:
                self._damage = error
                size = 0
            self._filled += size
            self._at_end = size == 0
        if self._at_end and self._damage is None:
            self._end_in_newline()
        return self._filled > 0 and (not self._at_end or self._end_of_lines() > 0)

    def _end_in_newline(self) -> None:
        if self._filled and self.store[self._filled - 1] != ord("\n"):
            if self._filled == len(self.store):
                self._set_store(self.store + b"\0")
            self.store[self._filled] = ord("\n")
            self._filled += 1

    def _end_of_lines(self) -> int:
        """Return the position after the last whole line; 0 if there is none."""
        end = self.store.rfind(b"\n", 0, self._filled) + 1
        all_there = self._at_end and self._damage is None
        if not self._quoted or all_there or self.store.find(b'"', 0, end) < 0:
            return end
        text = self.text[: self._filled]
        inside = np.logical_xor.accumulate(text == ord('"'))
        ends = np.flatnonzero((text == ord("\n")) & ~inside)
        return int(ends[-1]) + 1 if len(ends) else 0

    def _grow(self) -> None:
        if len(self.store) >= self._longest:
            quotes = " (a double quote without its second one?)" if self._quoted else ""
            raise reader_error(
                self.who,
                f"{self.where(self.line + 1)} is longer than memory_budget="
                f"{self._longest} bytes{quotes}. Is this a text file? Give a larger "
                "memory_budget if so.",
            )
        self._set_store(self.store + bytes(len(self.store)))

    def _set_store(self, store: bytearray) -> None:
        self.store = store
        self.text = np.frombuffer(store, dtype=np.uint8)


def is_compressed(path: Path) -> bool:
    """Whether the first bytes of a file are those of gzip, bzip2 or xz."""
    with path.open("rb") as file:
        return _unpacker(file.read(16)) is not None


def _unpacker(head: bytes) -> Any:
    return next((unpack for mark, unpack in _COMPRESSED if mark.match(head)), None)
