"""Every answer to "how many rows fit?": into memory, a block, a part, a device.

A source inherits the class for its kind of storage: `RowBudget` for rows of this
process, `RemoteBudget` for files and clusters, `DeviceBudget` for tensors and
`StreamedBudget` for host rows that a device works on. The functions are for those who
ask a source.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from corevec.backend.arrays import ALIGNED
from corevec.data.sources.workers import Workers

LARGEST_SUBSET = 200_000
# Rows of a block are bounded both ways: below 256 the Python calls per block cost
# more than the arithmetic, above 16384 a block no longer stays in the last cache.
_MIN_BLOCK, _MAX_BLOCK = 256, 16384
# Random access to a file goes through batches of at most so many rows: 50 float32
# columns are 13 MB, and Arrow's few microseconds per column and batch no longer count.
_MOST_FETCHED = 65_536

# Share of the memory budget for the deck of a remote source, and for rows that were
# fetched on demand.
DECK_SHARE, CACHED_SHARE = 1 / 8, 1 / 8
# Rows of a deck: what the samples of one fit draw together (the growing samples and
# a probe of 4,000), and a tenth, for drawing with replacement drops repeats.
MOST_DEALT = 190_000
# Bytes of violating rows that a remote source sends to the host after every pass.
REMOTE_SCAN_BYTES = 1 << 19

# Rows of a block on a device at most: with 64 million of two columns the arithmetic of
# a pass takes 100 times as long as its hundred launches of 10 us.
MOST_ROWS, FEWEST_ROWS = 1 << 26, 1 << 14
# Bytes of a block that is streamed: 281 MB were copied at the full rate.
MOST_BYTES = 1 << 28
# Share of the card's free memory that a fit may use beside the rows, unless told.
CARD_SHARE = 0.25
# Rows that are drawn at most from a device: their numbers are drawn and sorted on the
# host, which takes 2 s for so many.
MOST_DRAWN = 10_000_000
# Of very many rows on a device one more sample, of one in so many: a thousand million
# are then solved nearly before their first pass.
LAST_SAMPLE_SHARE = 1000


def host_bytes() -> int:
    """Return the bytes of this machine's memory; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


# An eighth of the machine's memory, from 256 MiB to 4 GiB. 256 MiB is an eighth of a
# small cloud machine, and holds a core set of 4,000 rows; 3 GiB hold the float32 kernel
# matrix of 33,000 active rows.
DEFAULT_MEMORY_BUDGET = int(min(max(host_bytes() // 8, 1 << 28), 1 << 32))


class RowBudget:
    """How many rows fit, for a source in the memory of this process."""

    n_rows: int
    n_features: int
    dtype: Any
    # Bytes of rows that one scan may return: no limit within this process.
    scan_bytes: int = sys.maxsize

    def __init__(
        self,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        workers: Workers | None = None,
    ):
        self.memory_budget = int(memory_budget)
        self.workers = workers or Workers(1)

    @property
    def working_budget(self) -> int:
        """Bytes to work with: of the host, or of the device of the rows."""
        return self.memory_budget

    def holds(self, n_rows: int) -> bool:
        """Whether this many rows can be copied to the host within the budget."""
        return True

    def budget_beside(self, host_bytes: float) -> float:
        """Return the bytes left to work with beside what is kept on the host."""
        return self.working_budget - host_bytes

    @property
    def n_stored(self) -> int | None:
        """Stored entries of all rows; None of dense ones."""
        return getattr(getattr(self, "values", None), "nnz", None)

    @property
    def row_entries(self) -> int:
        """Numbers that one row holds: of a sparse one values and column numbers."""
        if self.n_stored is None:
            return max(1, self.n_features)
        return int(2 * (1 + self.n_stored // max(self.n_rows, 1)))

    @property
    def value_bytes(self) -> int:
        """Bytes of the values of one row."""
        return int(self.row_entries * np.dtype(self.dtype).itemsize)

    @property
    def block_rows(self) -> int:
        """Rows per block: what all threads hold at once stays within the budget.

        A row in work costs its float64 copy (twice) and some 16 numbers of its own. At
        least eight blocks, so that few rows keep several threads busy too.
        """
        in_work = 8 * (2 * self.row_entries + 16)
        fit = self.memory_budget // (2 * in_work * self.workers.n_threads)
        most = min(_MAX_BLOCK, max(_MIN_BLOCK, self.n_rows // 8))
        return int(np.clip(fit, _MIN_BLOCK, most))

    @property
    def batch_rows(self) -> int:
        """Rows of a batch that random access to a file reads."""
        fit = self.memory_budget // (64 * self.n_features)
        return int(np.clip(fit, _MIN_BLOCK, _MOST_FETCHED))

    @property
    def most_drawn(self) -> int:
        """The largest random subset that the memory budget allows."""
        return rows_that_fit(self)

    @property
    def subset_row_bytes(self) -> int:
        """Bytes of one row of a `subset`."""
        return self.value_bytes

    def part_budget(self, n_rows: int) -> int:
        """Return the bytes for work on a `part` of this many rows."""
        return self.memory_budget

    @property
    def part_workers(self) -> Workers:
        """The threads that work on parts of the rows at the same time."""
        return self.workers

    @property
    def picked_entries(self) -> int:
        """Numbers that a part of a sum copies for each row that it picks."""
        return 1

    def sample_sizes(self, sizes: Sequence[int]) -> list[int]:
        """Return the sizes of the growing samples that are solved before all rows."""
        return [size for size in sizes if 2 * size < self.n_rows]


class RemoteBudget(RowBudget):
    """How many rows fit, for a source that copies them to the host at a cost."""

    scan_bytes = REMOTE_SCAN_BYTES

    def holds(self, n_rows: int) -> bool:
        """Whether a quarter of the budget holds a copy of this many rows."""
        return n_rows * self.value_bytes <= self.memory_budget / 4

    @property
    def row_bytes(self) -> int:
        """Bytes of one row that is cached, with its number and its columns."""
        return self.value_bytes + 24

    @property
    def most_cached(self) -> int:
        """Rows that were fetched on demand and are cached at most."""
        return rows_within(CACHED_SHARE * self.memory_budget, self.row_bytes)

    @property
    def deck_size(self) -> int:
        """Rows of a deck, from which random ones are dealt."""
        fit = rows_within(DECK_SHARE * self.memory_budget, self.row_bytes)
        return min(self.n_rows, MOST_DEALT, fit)


class DeviceBudget(RowBudget):
    """How many rows fit, for rows on a device."""

    device: Any
    is_sparse: bool
    fewest_rows = FEWEST_ROWS
    _device_bytes: int | None = None

    @property
    def working_budget(self) -> int:
        """Bytes on the card to work with.

        A card has many times the memory of the default budget, and needs large blocks:
        so the default stands for a quarter of what was free at first.
        """
        if self.memory_budget != DEFAULT_MEMORY_BUDGET or self.device.type != "cuda":
            return self.memory_budget
        if self._device_bytes is None:
            self._device_bytes = int(CARD_SHARE * free_device_bytes(self.device))
        return self._device_bytes

    def budget_beside(self, host_bytes: float) -> float:
        """Return the bytes to work with on the device, which holds nothing else."""
        return self.working_budget

    def dense_fits(self, n_rows: int, share: float) -> bool:
        """Whether so many rows, dense, fit a share of the device's budget."""
        return n_rows * self.subset_row_bytes <= share * self.working_budget

    @property
    def block_rows(self) -> int:
        """Rows per block: in work a row has twice its values, and some 24 numbers."""
        fit = self.working_budget // (8 * (2 * self.n_features + 24))
        return int(np.clip(fit // ALIGNED * ALIGNED, self.fewest_rows, MOST_ROWS))

    @property
    def most_drawn(self) -> int:
        """The largest random subset, which stays on the device."""
        return MOST_DRAWN

    @property
    def subset_row_bytes(self) -> int:
        """Bytes of one row of a `subset`, which is dense on the device."""
        return int(self.n_features * np.dtype(self.dtype).itemsize)

    def works_on(self, n_rows: int) -> bool:
        """Whether the device works on this many rows; on CSR rows if they fit dense."""
        fit = 4 * n_rows * self.n_features <= self.working_budget / 8
        return fit or not self.is_sparse

    def part_budget(self, n_rows: int) -> int:
        """Return the bytes for work on a `part` of this many rows."""
        return self.working_budget if self.works_on(n_rows) else self.memory_budget

    @property
    def part_workers(self) -> Workers:
        """One thread: the device works on one part after the other."""
        return Workers(1)

    @property
    def picked_entries(self) -> int:
        """Numbers that are copied on the device for each row that is picked."""
        return self.n_features

    def sample_sizes(self, sizes: Sequence[int]) -> list[int]:
        """Return the sizes of the growing samples that are solved before all rows."""
        found = super().sample_sizes(sizes)
        if len(found) > 1:
            found = found[1:]  # steps on few rows wait as long as steps on many
        if self.n_rows // LAST_SAMPLE_SHARE > sizes[-1]:
            found.append(self.n_rows // LAST_SAMPLE_SHARE)
        return found


class StreamedBudget(DeviceBudget):
    """How many rows fit, for host rows that are copied to a device block by block."""

    @property
    def block_rows(self) -> int:
        """Rows per block: two are on the card, and two in locked memory on the host."""
        most = MOST_BYTES // self.subset_row_bytes
        return max(self.fewest_rows, min(super().block_rows // 2, most))


def free_device_bytes(device: Any) -> int:
    """Return what can still be taken on a card: of torch's own reserve, too."""
    from corevec.data.sources._torch import torch

    free, _ = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free) + int(kept)


def rows_within(n_bytes: float, bytes_per_row: float) -> int:
    """Return how many rows of this size fit into so many bytes: at least one."""
    return max(1, int(n_bytes / bytes_per_row))


def rows_that_fit(source: RowBudget) -> int:
    """Return how many rows may be copied to the host: a quarter of the budget."""
    quarter = source.memory_budget / 4
    return min(LARGEST_SUBSET, rows_within(quarter, source.value_bytes))


def rows_to_take(source: RowBudget, wanted: int) -> int:
    """Return `wanted`, or as many rows as can be copied to the host at once."""
    return wanted if source.holds(wanted) else rows_that_fit(source)


def rows_per_scan(source: RowBudget) -> int:
    """Return how many rows one scan may return to the host."""
    return min(rows_that_fit(source), source.scan_bytes // source.value_bytes)
