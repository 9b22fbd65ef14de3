"""A copy on the host of rows on a device: trees are grown on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scipy import sparse

from corevec.backend.arrays import is_tensor, to_numpy
from corevec.data.sources.base import Source
from corevec.data.sources.budget import host_bytes
from corevec.data.sources.memory import MemorySource
from corevec.exceptions import InvalidInputError

# Share of the host's memory that a copy of rows on a device may take.
MAX_HOST_SHARE = 0.5


class HostCopy(MemorySource):
    """A copy on the host of the rows of `on_device`.

    The copy is dense, or CSR where CSR rows were moved to the device, which holds them
    dense.
    """

    def __init__(self, source: Any):
        values = getattr(source, "host_values", source.values)
        if is_tensor(values):  # others are on the host already
            _check_size(source)
        values = values if sparse.issparse(values) else to_numpy(values)
        super().__init__(values, source.memory_budget, source.workers)
        self.first_number = source.first_number
        self.row_columns = {
            name: to_numpy(one) for name, one in source.row_columns.items()
        }
        self.on_device = source

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Wrap what is done on the device, whose errors are explained."""
        with self.on_device.at_work():
            yield


def _check_size(source: Source) -> None:
    n_bytes, total = source.n_rows * source.value_bytes, host_bytes()
    if total and n_bytes > MAX_HOST_SHARE * total:
        raise InvalidInputError(
            f"cells are cut from rows in host memory, but {source!r} take "
            f"{n_bytes / 2**30:.1f} of its {total / 2**30:.1f} GiB, more than half. "
            "Fit a part of the rows, give float32 instead of float64, or write them to "
            "a file (corevec.open), from which cells are loaded in groups."
        )
