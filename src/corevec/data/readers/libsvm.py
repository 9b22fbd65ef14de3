"""LIBSVM text in blocks of rows: ``label [qid:query] index:value ... [# comment]``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from corevec._runtime.types import Array
from corevec.backend.loops.text import ALL_READ, BY_HAND
from corevec.data.readers.base import (
    DEFAULT_BLOCK_ROWS,
    DEFAULT_MEMORY_BUDGET,
    BadRecordError,
    Block,
    Paths,
    RowStream,
    existing_files,
    shown,
)
from corevec.data.readers.libsvm_rows import (
    MOST_FEATURES,
    Row,
    RowBuffer,
    Rules,
    row_of,
)
from corevec.data.readers.text import WholeLines
from corevec.exceptions import InvalidInputError

# Enough for classes; a regression may have as many distinct targets as rows.
_MOST_LABELS = 10_000
# Columns counted from 0 or 1, as many as there may be.
ANY_ROWS = Rules(0, MOST_FEATURES, np.dtype(np.float64))

# Number of a file, and its bytes and lines before a row.
Place = tuple[int, int, int]


def read_libsvm(
    path: Paths,
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    dtype: npt.DTypeLike = np.float64,
    block_rows: int = DEFAULT_BLOCK_ROWS,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
    errors: str = "raise",
) -> LibsvmStream:
    """Read LIBSVM (SVMlight) text files as blocks of rows, in bounded memory.

    Values and labels are those of scikit-learn's ``load_svmlight_file``, bit by bit.
    Blank lines, comments after ``#`` and ``qid:`` are ignored.

    Parameters
    ----------
    path : path or list of paths
        Plain text, or compressed by gzip, bzip2 or xz, detected from the first bytes.
        Several files are read as one.
    n_features : int
        Number of columns. It cannot be determined before the end of a pass; a larger
        number is allowed, and `scan_libsvm` counts the columns in a separate pass.
    zero_based : bool, default=False
        Whether the indices count from 0 and not, as the format defines, from 1.
        `scan_libsvm` determines it.
    dtype : float64 or float32, default=float64
        Type of the values; labels are float64.
    block_rows : int, default=8192
        Rows of a block; the last one may be shorter.
    memory_budget : int, default=2**26
        Maximum bytes of a block, which ends before `block_rows` if it would become
        larger, and of a line. The reader needs about twice that besides the block.
    errors : {"raise", "skip"}, default="raise"
        How to treat a line that is not a row of finite numbers with ascending indices
        within `n_features`: raise an error with file and line, or skip the line and
        count it in `skipped`. A truncated or damaged file always raises an error.

    Returns
    -------
    LibsvmStream
        Iterable of ``(X, y)``: a ``csr_matrix`` and labels. Each ``iter()`` is a pass.
    """
    who = "read_libsvm"
    paths = existing_files(who, path)
    if n_features is None:
        raise InvalidInputError(
            f"{who}: n_features=None, but the number of columns is unknown before the "
            "end of a pass. Give it (a larger number is allowed), or count them in a "
            "separate pass: n_features=scan_libsvm(path).n_features."
        )
    rules = Rules.checked(who, n_features, zero_based, dtype)
    return LibsvmStream(who, paths, rules, errors, block_rows, memory_budget)


@dataclass(frozen=True)
class LibsvmFacts:
    """What `scan_libsvm` found in a file.

    Attributes
    ----------
    n_rows, n_features, n_entries : int
        Rows, columns, and stored values.
    zero_based : bool
        Whether an index 0 occurs, the criterion of scikit-learn's "auto".
    labels : ndarray or None
        The distinct labels, ascending; None if there are more than 10,000.
    skipped : int
        Lines skipped, with ``errors="skip"``.
    """

    n_rows: int
    n_features: int
    n_entries: int
    zero_based: bool
    labels: Array | None
    skipped: int


def scan_libsvm(path: Paths, *, errors: str = "raise") -> LibsvmFacts:
    """Return the size and the labels of LIBSVM text files, in one pass.

    Parameters
    ----------
    path : path or list of paths
        As for `read_libsvm`.
    errors : {"raise", "skip"}, default="raise"
        As for `read_libsvm`.

    Returns
    -------
    LibsvmFacts
        Rows, columns, labels and the first index: the arguments of `read_libsvm`.
    """
    who = "scan_libsvm"
    size = (DEFAULT_BLOCK_ROWS, DEFAULT_MEMORY_BUDGET)
    stream = LibsvmStream(who, existing_files(who, path), ANY_ROWS, errors, *size)
    tally = LibsvmTally()
    for X, y in stream:
        tally.add(X, y)
    return tally.facts(stream.skipped)


class LibsvmTally:
    """Accumulates the facts about a file from blocks, read with `ANY_ROWS`."""

    def __init__(self) -> None:
        self.rows = self.entries = 0
        self._lowest, self._highest = MOST_FEATURES, -1
        self._labels: Array | None = np.empty(0)

    def add(self, X: Any, y: Array) -> None:
        """Count the rows of a block."""
        self.rows += len(y)
        self.entries += X.nnz
        if X.nnz:
            self._lowest = min(self._lowest, int(X.indices.min()))
            self._highest = max(self._highest, int(X.indices.max()))
        if self._labels is not None:
            labels = np.union1d(self._labels, y)
            self._labels = labels if len(labels) <= _MOST_LABELS else None

    def facts(self, skipped: int) -> LibsvmFacts:
        """Return what was found."""
        zero_based = self._lowest == 0
        columns = self._highest + 1 if zero_based else max(self._highest, 0)
        return LibsvmFacts(
            self.rows, columns, self.entries, zero_based, self._labels, skipped
        )


class LibsvmStream(RowStream):
    """Blocks ``(X, y)`` of LIBSVM text; made by `read_libsvm`.

    A pass may begin at a place: the number of a file, and its bytes and lines before.
    `place` is the one after the block that was yielded last.
    """

    def __init__(
        self,
        who: str,
        paths: list[Path],
        rules: Rules,
        errors: str,
        block_rows: int,
        memory_budget: int,
        begin: Place = (0, 0, 0),
    ):
        self.begin = begin
        super().__init__(who, paths, errors, block_rows, memory_budget)
        self.rules = rules

    def _start_pass(self) -> None:
        super()._start_pass()
        self.place = self.begin
        self._file = self.begin[0]

    def _blocks(self) -> Iterator[Block]:
        block = RowBuffer(self.rules, self.block_rows, self.memory_budget)
        try:
            for file in range(self.begin[0], len(self.paths)):
                self._file = file
                with self._open(file) as lines:
                    yield from self._full_blocks(lines, block)
        except InvalidInputError:
            if block.n_rows:
                yield block.take_block()
            raise
        if block.n_rows:
            yield block.take_block()

    def _open(self, file: int) -> WholeLines:
        begin = self.begin[1:] if file == self.begin[0] else (0, 0)
        path, chunk = self.paths[file], self._chunk_bytes
        return WholeLines(self.who, path, chunk, self.memory_budget, begin=begin)

    def _full_blocks(self, lines: WholeLines, block: RowBuffer) -> Iterator[Block]:
        while lines.more():
            while (ending := block.parse(lines)) != ALL_READ:
                self.place = (self._file, *lines.place)
                if ending == BY_HAND:
                    row = self._row_in_python(lines)
                    if row is None:
                        continue
                    if not block.has_room_for(row):
                        yield block.take_block()
                    block.append(row)
                elif not block.grow(ending):
                    yield block.take_block()

    def _row_in_python(self, lines: WholeLines) -> Row | None:
        """Parse the next line in Python and consume it; None if it is to be skipped."""
        line = lines.next_line()
        lines.start += len(line) + 1
        lines.line += 1
        try:
            return row_of(line, self.rules)
        except BadRecordError as bad:
            whole = BadRecordError(*bad.args, f", in {shown(line.rstrip())}")
            if fault := self._fault(lines.where(lines.line), whole):
                raise fault from bad
            return None
