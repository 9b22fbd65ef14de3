"""Rows of Parquet files and folders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from corevec._runtime.types import Array
from corevec.data.readers._arrow import is_narrow, kind_of
from corevec.data.readers.base import Paths
from corevec.data.readers.parquet import (
    batches,
    check_types,
    check_unique,
    opened,
    parquet_files,
)
from corevec.data.readers.tables import (
    Column,
    Columns,
    Wanted,
    check_same_features,
    find_columns,
)
from corevec.data.sources._files import WHO, FileSource, in_order
from corevec.data.sources._parquet_rows import Piece, RowsInWork, cut
from corevec.data.sources.budget import DEFAULT_MEMORY_BUDGET
from corevec.data.sources.columns import TARGET, WEIGHT
from corevec.data.sources.workers import Workers
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows

T = TypeVar("T")

# What Arrow holds of a column that it reads: pyarrow writes pages of 1 MB, behind a
# dictionary of up to 1 MB; a page is there packed and unpacked.
_HELD_BYTES = 3 << 20

logger = logging.getLogger("corevec")


class ParquetSource(FileSource):
    """Rows of Parquet files, read group by group in bounded memory. Needs pyarrow.

    Rows are numbered over the files in their order. They are float32 where that holds
    every feature exactly (float16, float32, booleans, whole numbers of 8 and 16 bits),
    else float64. Beside the memory budget, Arrow holds a page of every column.

    Parameters
    ----------
    path : path or list of paths
        Files, or folders, of which all files ``*.parquet`` are read in the order of
        their names.
    target, sample_weight : str, int or None
        The columns beside X, by name or by position from 0.
    columns : list of str or int, default=None
        Columns of X, in this order; None means all but target and weight.
    memory_budget : float, default=2**28
        Bytes for blocks, and for rows that are kept for a while.
    workers : Workers, default=None
        Threads that score the blocks.
    """

    def __init__(
        self,
        path: Paths,
        target: Column | None = None,
        columns: Sequence[Column] | None = None,
        sample_weight: Column | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        workers: Workers | None = None,
    ):
        super().__init__(memory_budget, workers)
        self.paths = [file.absolute() for file in parquet_files(WHO, path)]
        self.wanted = Wanted(target, columns, sample_weight)
        given = {TARGET: target, WEIGHT: sample_weight}
        self.columns = tuple(name for name, one in given.items() if one is not None)
        self._look_at_files()

    def block(self, start: int, stop: int) -> Rows:
        """Return the rows from `start` up to `stop`, from their row groups."""
        return self._fetch(np.arange(start, stop))

    def _each(self, score: Callable[[Rows], T]) -> Generator[T, None, None]:
        """Yield ``score`` of every block, in order; the next ones are read ahead."""
        return self._scores(score, self.workers)

    def _blocks_in_order(self) -> Generator[Rows, None, None]:
        """Yield every block, one at a time, the next one read ahead."""
        return self._scores(lambda rows: rows, Workers(1))

    def _scores(
        self, score: Callable[[Rows], T], workers: Workers
    ) -> Generator[T, None, None]:
        def task(pieces: list[Piece]) -> T:
            return score(self._rows(pieces, sum(map(len, pieces))))

        blocks = cut(self._all_pieces(), self.block_rows)
        return in_order(workers, task, blocks, len(self.blocks()))

    def _fetch(self, rows: Array) -> Rows:
        return self._rows(self._wanted_pieces(rows), len(rows))

    def _rows(self, pieces: Iterable[Piece], n_rows: int) -> Rows:
        work = RowsInWork((n_rows, self.n_features), self.dtype, self.columns)
        for piece in pieces:
            work.add(piece)
        return work.hand_over()

    def _all_pieces(self) -> Iterator[Piece]:
        """Yield every row in turn."""
        for file in range(len(self.paths)):
            yield from self._pieces(file, self.block_rows)

    def _wanted_pieces(self, rows: Array) -> Iterator[Piece]:
        """Yield the rows with these numbers, which are sorted, from their groups."""
        for file in range(len(self.paths)):
            first, last = np.searchsorted(rows, self._starts[file : file + 2])
            if first < last:
                wanted = rows[first:last] - self._starts[file]
                yield from self._wanted_in(file, wanted)

    def _wanted_in(self, file: int, wanted: Array) -> Iterator[Piece]:
        counts = self._group_rows[file]
        # An empty group ends where the one before it ends, and never has the row.
        groups = np.unique(np.searchsorted(np.cumsum(counts), wanted, side="right"))
        done = 0
        for piece in self._pieces(file, self.batch_rows, groups.tolist()):
            ends = np.searchsorted(wanted, piece.numbers[[0, -1]] + [0, 1])
            if ends[0] < ends[1]:
                yield piece.only(wanted[ends[0] : ends[1]])
                done = ends[1]
            if done == len(wanted):
                return

    def _pieces(
        self, file: int, step: int, groups: list[int] | None = None
    ) -> Iterator[Piece]:
        """Yield the rows of some row groups, all of them by default."""
        path, counts = self.paths[file], self._group_rows[file]
        starts = np.cumsum(counts) - counts
        read = list(range(len(counts))) if groups is None else groups
        numbers = Numbers([(int(starts[g]), int(counts[g])) for g in read])
        with opened(WHO, path) as parquet:
            if not np.array_equal(_group_rows(parquet), counts):
                raise InvalidInputError(
                    f"{WHO}: {path}: the file has changed since it was opened. Open "
                    "it again."
                )
            columns = self._columns_of(path, parquet.schema_arrow)
            before = int(self._starts[file])
            for batch in batches(parquet, columns, step, read):
                at = 0
                # A batch may reach over groups that do not follow each other.
                for run in numbers.take(batch.num_rows):
                    part = batch.slice(at, len(run))
                    yield Piece(path, before, run, part, columns)
                    at += len(run)

    def _look_at_files(self) -> None:
        """Note columns, types, and the rows of each row group."""
        first: list[str] | None = None
        self._group_rows: list[Array] = []
        narrow, kinds, held = True, set(), 0
        for path in self.paths:
            with opened(WHO, path) as file:
                schema = file.schema_arrow
                columns = self._columns_of(path, schema)
                first = first or columns.feature_names
                check_same_features(f"{WHO}: {path}", columns, self.paths[0], first)
                types = {schema.field(p).type for p in columns.features}
                narrow = narrow and all(is_narrow(WHO, one) for one in types)
                if columns.target is not None:
                    kinds.add(kind_of(WHO, schema.field(columns.target).type))
                self._group_rows.append(_group_rows(file))
                held = max(held, _bytes_held(file, columns))
        self.dtype = np.dtype(np.float32 if narrow else np.float64)
        self.feature_names = np.array(first, dtype=object)
        self.n_features = len(self.feature_names)
        rows = [0, *(int(groups.sum()) for groups in self._group_rows)]
        self._starts = np.cumsum(rows, dtype=np.int64)
        self.n_rows = int(self._starts[-1])
        self._check(kinds, held)

    def _check(self, kinds: set[str], held: int) -> None:
        if self.n_rows == 0:
            raise InvalidInputError(f"{WHO}: {self.where}: there are no rows.")
        if len(kinds) > 1:
            raise InvalidInputError(
                f"{WHO}: {self.where}: the target {self.wanted.target!r} is text in "
                "one file and numbers in another. Write it as one of them."
            )
        if held > self.memory_budget:
            logger.warning(
                "%s: %s: a page of every column takes some %d MB beside the memory "
                "budget; row groups of 65,536 rows would take less.",
                WHO,
                self.where,
                held >> 20,
            )

    def _columns_of(self, path: Path, schema: Any) -> Columns:
        columns = find_columns(f"{WHO}: {path}", tuple(schema.names), self.wanted)
        check_types(WHO, path, schema, columns)
        check_unique(WHO, path, columns)
        return columns


class Numbers:
    """The numbers of the rows in some row groups, handed out in runs."""

    def __init__(self, groups: list[tuple[int, int]]):
        self.left = [(start, n) for start, n in reversed(groups) if n]

    def take(self, n_rows: int) -> Iterator[Array]:
        """Yield the next so many numbers; those of a run follow each other."""
        while n_rows:
            start, n = self.left.pop()
            now = min(n, n_rows)
            yield np.arange(start, start + now)
            n_rows -= now
            if now < n:
                self.left.append((start + now, n - now))


def _group_rows(file: Any) -> Array:
    """Return how many rows each row group has."""
    metadata = file.metadata
    rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    return np.array(rows, dtype=np.int64)


def _bytes_held(file: Any, columns: Columns) -> int:
    """Return about how many bytes Arrow holds to read the largest row group."""
    counts = _group_rows(file)
    if len(counts) == 0:
        return 0
    group = file.metadata.row_group(int(np.argmax(counts)))
    needed = {columns.names[p] for p in columns.needed}
    chunks = (group.column(j) for j in range(group.num_columns))
    return sum(
        min(2 * chunk.total_uncompressed_size, _HELD_BYTES)
        for chunk in chunks
        if chunk.path_in_schema in needed
    )


__all__ = ["ParquetSource"]
