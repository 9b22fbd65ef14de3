"""LIBSVM text, block by block: ``label [qid:query] index:value ... [# note]``."""

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
    ReaderError,
    RowStream,
    existing_files,
    shown,
)
from corevec.data.readers.libsvm_rows import (
    MOST_FEATURES,
    BlockInWork,
    Row,
    Rules,
    row_of,
)
from corevec.data.readers.text import WholeLines
from corevec.exceptions import InvalidInputError

# Enough for classes; the targets of a regression may be as many as the rows.
_MOST_LABELS = 10_000
# Columns counted from 0 or 1, as many as there may be.
ANY_ROWS = Rules(0, MOST_FEATURES, np.dtype(np.float64))

# Number of a file, bytes and lines of it in front of a row.
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
    Blank lines, notes behind ``#`` and ``qid:`` are passed over.

    Parameters
    ----------
    path : path or list of paths
        Plain text, or compressed by gzip, bzip2 or xz, which the first bytes tell.
        Several files are read as one.
    n_features : int
        Number of columns. One pass cannot find it out before its end; more than
        needed do no harm, and `scan_libsvm` counts them in a pass of its own.
    zero_based : bool, default=False
        Whether the columns are counted from 0 and not from 1, as the format has it.
        Nor can one pass find this out: `scan_libsvm` can.
    dtype : float64 or float32, default=float64
        Type of the values; labels are float64.
    block_rows : int, default=8192
        Rows of a block; the last one may be shorter.
    memory_budget : int, default=2**26
        Bytes of a block of long rows, which ends before `block_rows` where it would
        grow larger, and of a line. The reader needs about twice that beside the block.
    errors : {"raise", "skip"}, default="raise"
        What becomes of a line that is not a row of finite numbers with ascending
        indices within `n_features`: an error with file and line, or a count in
        `skipped`. A file that is cut off or damaged is always an error.

    Returns
    -------
    LibsvmStream
        Iterable of ``(X, y)``: a ``csr_matrix`` and labels. Each ``iter()`` is a pass.
    """
    who = "read_libsvm"
    paths = existing_files(who, path)
    if n_features is None:
        raise InvalidInputError(
            f"{who}: n_features=None, but one pass cannot know the number of columns "
            "before its end. Give it (more than needed do no harm), or read the file "
            "once more before: n_features=scan_libsvm(path).n_features."
        )
    rules = Rules.checked(who, n_features, zero_based, dtype)
    return LibsvmStream(who, paths, rules, errors, block_rows, memory_budget)


@dataclass(frozen=True)
class LibsvmFacts:
    """What `scan_libsvm` found in a file.

    Attributes
    ----------
    n_rows, n_features, n_entries : int
        Rows, columns, and values written down.
    zero_based : bool
        Whether an index 0 occurs, by which scikit-learn's "auto" goes too.
    labels : ndarray or None
        The distinct labels, ascending; None if there are more than 10,000.
    skipped : int
        Lines left out, with ``errors="skip"``.
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
    """What the blocks of a pass with the rules `ANY_ROWS` tell about a file."""

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

    A pass may begin at a place, of which `place` holds the one behind the block just
    handed out: number of the file, bytes and lines of it before.
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
        block = BlockInWork(self.rules, self.block_rows, self.memory_budget)
        try:
            for file in range(self.begin[0], len(self.paths)):
                self._file = file
                with self._open(file) as lines:
                    yield from self._full_blocks(lines, block)
        except ReaderError:
            if block.n_rows:
                yield block.hand_over()
            raise
        if block.n_rows:
            yield block.hand_over()

    def _open(self, file: int) -> WholeLines:
        begin = self.begin[1:] if file == self.begin[0] else (0, 0)
        path, chunk = self.paths[file], self._chunk_bytes
        return WholeLines(self.who, path, chunk, self.memory_budget, begin=begin)

    def _full_blocks(self, lines: WholeLines, block: BlockInWork) -> Iterator[Block]:
        while lines.more():
            while (ending := block.parse(lines)) != ALL_READ:
                self.place = (self._file, *lines.place)
                if ending == BY_HAND:
                    row = self._row_by_hand(lines)
                    if row is None:
                        continue
                    if not block.has_room_for(row):
                        yield block.hand_over()
                    block.append(row)
                elif not block.grow(ending):
                    yield block.hand_over()

    def _row_by_hand(self, lines: WholeLines) -> Row | None:
        """Read the next line and pass it; None where it is to be skipped."""
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
