"""Values on the host of rows on a device, and the devices that cells refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import to_device_of, to_numpy
from corevec.data.sources import MemorySource, Source
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows


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
            part = to_numpy(rows.values[start : start + step])
            found.append(values(MemorySource(part, budget, workers)))
        return to_device_of(np.concatenate(found), rows.values)

    return score


def refuse_worker_devices(who: str, source: Source) -> None:
    """Raise for a cluster whose workers have devices: cells are solved locally."""
    device = source.worker_device
    if device is not None:
        raise InvalidInputError(
            f"{who}: cells of a Dask collection are solved in this process, but "
            f"device={device!r} was given. Use device=None, or rows in memory or on a "
            "GPU."
        )
