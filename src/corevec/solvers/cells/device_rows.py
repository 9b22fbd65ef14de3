"""Rows on a device with a copy on the host.

Trees are grown and rows are predicted on the host; cells are solved on the device.
"""

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

# Share of the host's memory that a copy of rows on a device may take.
MAX_HOST_SHARE = 0.5


class HostCopy(CsrSource):
    """A copy on the host of the rows of `on_device`.

    The copy is dense, or CSR where CSR rows were moved to the device, which holds them
    dense.
    """

    def __init__(self, source: Any):
        values = getattr(source, "values_here", source.values)
        if is_tensor(values):  # otherwise they are on the host already
            _check_size(source)
        values = values if sparse.issparse(values) else here(values)
        super().__init__(values, source.memory_budget, source.workers)
        self.is_sparse, self.first_number = source.is_sparse, source.first_number
        self.brought = {name: here(one) for name, one in source.brought.items()}
        self.on_device = source

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Wrap work on the device, to explain its errors."""
        with self.on_device.at_work():
            yield

    @property
    def row_entries(self) -> int:
        """Numbers that one row holds."""
        return super().row_entries if self.is_sparse else max(1, self.n_features)


def on_host(source: Source) -> Source:
    """Return the source itself, or a host copy of it if its rows are on a device."""
    return HostCopy(source) if source.is_on_device else source


def _check_size(source: Source) -> None:
    n_bytes = source.n_rows * source.n_features * np.dtype(source.dtype).itemsize
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if n_bytes > MAX_HOST_SHARE * total:
        raise InvalidInputError(
            f"cells are cut from rows in host memory, but {source!r} take "
            f"{n_bytes / 2**30:.1f} of its {total / 2**30:.1f} GiB, more than half. "
            "Fit a part of the rows, give float32 instead of float64, or write them to "
            "a file (corevec.open), from which cells are loaded in groups."
        )


def evaluated_on_host(
    source: Source, values: Callable[[Source], Array]
) -> Callable[[Rows], Any]:
    """Return a function of blocks on a device whose values are computed on the host.

    `values` takes a source in host memory; its result is copied back to the device.
    """
    budget, workers = source.memory_budget, source.workers
    step = max(1 << 14, budget // (16 * source.row_entries))

    def score(rows: Rows) -> Any:
        found = []
        for start in range(0, len(rows), step):
            part = here(rows.values[start : start + step])
            found.append(values(DenseSource(part, budget, workers)))
        return there(np.concatenate(found), rows.values)

    return score


def refuse_worker_devices(who: str, source: Source) -> None:
    """Raise for a cluster whose workers have devices: cells are solved locally."""
    device = getattr(source, "device", None)
    if source.is_far and device is not None:
        raise InvalidInputError(
            f"{who}: cells of a Dask collection are solved in this process, but "
            f"device={device!r} was given. Use device=None, or rows in memory or on a "
            "GPU."
        )


__all__ = ["HostCopy", "evaluated_on_host", "on_host", "refuse_worker_devices"]
