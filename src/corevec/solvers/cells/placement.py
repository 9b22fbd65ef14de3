"""Values of rows on a device that are found on the host, and what cells refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import to_device_of, to_numpy
from corevec.data.sources import DenseSource, Source
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows


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
            near = to_numpy(rows.values[start : start + step])
            found.append(values(DenseSource(near, budget, workers)))
        return to_device_of(np.concatenate(found), rows.values)

    return score


def refuse_device_elsewhere(who: str, source: Source) -> None:
    """Raise for a cluster whose workers have devices: cells are solved here."""
    device = source.worker_device
    if device is not None:
        raise InvalidInputError(
            f"{who}: cells of a Dask collection are solved in this process, but "
            f"device={device!r} was given. Use device=None, or rows in memory or on a "
            "GPU."
        )
