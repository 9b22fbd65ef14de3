"""Rows of LIBSVM text, read from places that one pass at the beginning notes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.data.readers.base import DEFAULT_MEMORY_BUDGET as LONGEST_LINE
from corevec.data.readers.base import BadRecordError, Paths, existing_files
from corevec.data.readers.libsvm import ANY_ROWS, LibsvmStream, LibsvmTally, Place
from corevec.data.readers.libsvm_rows import Rules
from corevec.data.readers.text import is_compressed
from corevec.data.sources._files import WHO, FileSource
from corevec.data.sources.budget import DEFAULT_MEMORY_BUDGET
from corevec.data.sources.columns import TARGET
from corevec.data.sources.remote import join_rows
from corevec.data.sources.workers import Workers
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows

# A place is noted every so many rows: random access to one row reads half of them, some
# 0.5 ms, and the places of 1e9 rows are 24 MB.
PLACE_ROWS = 1024
# Text read at once for random access to few rows.
_FEW_BYTES = 1 << 17


class LibsvmSource(FileSource):
    """Rows of LIBSVM (SVMlight) text as CSR blocks; the labels come along as target.

    One pass over the files counts rows and columns and notes where rows begin. Values
    and labels are float64, as `corevec.streams.read_libsvm` reads them.

    Parameters
    ----------
    path : path or list of paths
        Plain text; several files are read as one. Text that is compressed cannot be
        read from its middle, and is refused.
    memory_budget : float, default=2**28
        Bytes for blocks, and for rows that are kept for a while.
    workers : Workers, default=None
        Threads that read and score the blocks.
    """

    is_sparse = True
    columns = (TARGET,)

    def __init__(
        self,
        path: Paths,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        workers: Workers | None = None,
    ):
        super().__init__(memory_budget, workers)
        self.paths = [file.absolute() for file in existing_files(WHO, path)]
        for file in self.paths:
            _check_plain(file)
        self.dtype = np.dtype(np.float64)
        self._scan()

    @property
    def n_stored(self) -> int:
        """Stored entries of all rows."""
        return self.n_entries

    @property
    def block_rows(self) -> int:
        """Rows per block, from their entries; blocks begin at a noted place."""
        rows = super().block_rows
        return rows - rows % PLACE_ROWS if rows > PLACE_ROWS else rows

    def block(self, start: int, stop: int) -> Rows:
        """Return the rows from `start` up to `stop`."""
        if start >= stop:
            return self._empty()
        return join_rows(list(self._read(start, stop, stop - start)))

    def _fetch(self, rows: Array) -> Rows:
        """Return rows, read from the noted places before them; near places together."""
        if len(rows) == 0:
            return self._empty()
        place = np.searchsorted(self._place_rows, rows, side="right")
        parts = []
        for run in np.split(rows, np.flatnonzero(np.diff(place) > 1) + 1):
            for part in self._read(int(run[0]), int(run[-1]) + 1, PLACE_ROWS):
                few = run[np.searchsorted(run, part.index[0]) :]
                few = few[: np.searchsorted(few, part.index[-1], side="right")]
                if len(few):
                    parts.append(part.part(few - part.index[0]))
        return join_rows(parts)

    def _read(self, start: int, stop: int, step: int) -> Iterator[Rows]:
        """Yield the rows from `start` up to `stop`, about `step` at a time."""
        place = int(np.searchsorted(self._place_rows, start, side="right")) - 1
        at = int(self._place_rows[place])
        step = max(step, start - at + min(step, stop - start))
        stream = Text(self.paths, self._rules, step, self._places[place])
        stream.read_at_once(stop - start)
        for X, y in stream.blocks():
            first, last = max(start - at, 0), min(stop - at, len(y))
            if first < last:
                whole = first == 0 and last == len(y)
                values = X if whole else X[first:last]
                index = np.arange(at + first, at + last)
                yield Rows(values, index, {TARGET: y[first:last]})
            at += len(y)
            if at >= stop:
                return
        raise InvalidInputError(
            f"{WHO}: {self.where}: the text has changed since it was opened. Open it "
            "again."
        )

    def _scan(self) -> None:
        """Read all once: rows, columns, entries, and where rows begin."""
        stream = Text(self.paths, ANY_ROWS, PLACE_ROWS)
        begin = stream.begin
        tally = LibsvmTally()
        # Flat arrays: a list of tuples would take 150 bytes per place.
        rows, places = array("q"), array("q")
        for X, y in stream.blocks():
            rows.append(tally.rows)
            places.extend(begin)
            tally.add(X, y)
            begin = stream.place
        facts = tally.facts(0)
        self.n_rows, self.n_features = facts.n_rows, facts.n_features
        self.n_entries = facts.n_entries
        if self.n_rows == 0 or self.n_features == 0:
            what = "rows" if self.n_rows == 0 else "columns: every row is empty"
            raise InvalidInputError(f"{WHO}: {self.where}: there are no {what}.")
        self._rules = Rules(0 if facts.zero_based else 1, self.n_features, self.dtype)
        self._place_rows = np.array(rows)
        self._places = np.array(places).reshape(-1, 3)

    def _empty(self) -> Rows:
        X = sparse.csr_matrix((0, self.n_features), dtype=self.dtype)
        return Rows(X, np.empty(0, dtype=np.int64), {TARGET: np.empty(0)})


class Text(LibsvmStream):
    """Blocks of LIBSVM text from a noted place on."""

    def __init__(
        self, paths: list[Any], rules: Rules, step: int, begin: Any = (0, 0, 0)
    ):
        file, byte, line = (int(part) for part in begin)
        place: Place = (file, byte, line)
        super().__init__(WHO, paths, rules, "raise", step, LONGEST_LINE, place)

    def read_at_once(self, n_rows: int) -> None:
        """Choose how much text is read at once, for so many rows."""
        if n_rows <= PLACE_ROWS:
            self._chunk_bytes = _FEW_BYTES

    def blocks(self) -> Iterator[Any]:
        """Yield the blocks of one pass."""
        self._start_pass()
        yield from self._blocks()

    def _fault(self, where: str, bad: BadRecordError) -> InvalidInputError:
        return InvalidInputError(
            f"{WHO}: {where}: {bad}. Correct the line, or leave it out."
        )


def _check_plain(path: Any) -> None:
    if path.is_dir():
        raise InvalidInputError(
            f"{WHO}: {path} is a folder. Give the LIBSVM files in it as a list."
        )
    if is_compressed(path):
        raise InvalidInputError(
            f"{WHO}: {path}: compressed text cannot be read from its middle. Unpack it "
            "first, or read it in one pass with corevec.streams.read_libsvm."
        )


__all__ = ["LibsvmSource"]
