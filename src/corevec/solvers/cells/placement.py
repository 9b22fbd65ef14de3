"""Rows of a device that are here too: trees are grown here, cells are solved there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.backend.arrays import here, is_tensor, there
from corevec.data.sources import CsrSource, DenseSource, Source
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows

# Share of this machine's memory that rows of a device may take here.
HERE_SHARE = 0.5


class RowsHere(CsrSource):
    """A copy of rows that live on a device, which `there` is the source of.

    Dense, or CSR where CSR rows were moved to the device, which has them dense.
    """

    def __init__(self, source: Any):
        values = getattr(source, "values_here", source.values)
        if is_tensor(values):  # others are here already
            _check_size(source)
        values = values if sparse.issparse(values) else here(values)
        super().__init__(values, source.memory_budget, source.workers)
        self.is_sparse, self.first_number = source.is_sparse, source.first_number
        self.brought = {name: here(one) for name, one in source.brought.items()}
        self.there = source

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Wrap what is done on the device, whose errors are explained."""
        with self.there.at_work():
            yield

    @property
    def row_entries(self) -> int:
        """Numbers that one row holds."""
        return super().row_entries if self.is_sparse else max(1, self.n_features)


def at_hand(source: Source) -> Source:
    """Return the rows here; those of a device are copied, others are left alone."""
    return RowsHere(source) if source.is_on_device else source


def _check_size(source: Source) -> None:
    n_bytes = source.n_rows * source.n_features * np.dtype(source.dtype).itemsize
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if n_bytes > HERE_SHARE * total:
        raise InvalidInputError(
            f"cells are cut from rows in this machine's memory, but {source!r} take "
            f"{n_bytes / 2**30:.1f} of its {total / 2**30:.1f} GiB, more than half. "
            "Fit a part of the rows, give float32 instead of float64, or write them to "
            "a file (corevec.open), from which cells are brought a group at a time."
        )


def valued_here(
    source: Source, values: Callable[[Source], Array]
) -> Callable[[Rows], Any]:
    """Return a function of blocks of a device, whose values are found here.

    `values` takes rows in memory; what it finds goes back to where the block is.
    """
    budget, workers = source.memory_budget, source.workers
    step = max(1 << 14, budget // (16 * source.row_entries))

    def score(rows: Rows) -> Any:
        found = []
        for start in range(0, len(rows), step):
            near = here(rows.values[start : start + step])
            found.append(values(DenseSource(near, budget, workers)))
        return there(np.concatenate(found), rows.values)

    return score


__all__ = ["RowsHere", "at_hand", "valued_here"]


def refuse_device_elsewhere(who: str, source: Source) -> None:
    """Raise for a cluster whose workers have devices: cells are solved here."""
    device = getattr(source, "device", None)
    if source.is_far and device is not None:
        raise InvalidInputError(
            f"{who}: cells of a Dask collection are solved in this process, but "
            f"device={device!r} was given. Use device=None, or rows in memory or on a "
            "GPU."
        )
