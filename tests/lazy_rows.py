"""Rows that are made when they are asked for; imported by the workers of a cluster."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import dask.array as da
import numpy as np


def board(n_rows: int, partition: int, pause: float = 0.0) -> tuple[da.Array, da.Array]:
    """Return a lazy 4 x 4 checkerboard: rows and labels, never all at once."""
    sizes = [partition] * (n_rows // partition)
    if n_rows % partition:
        sizes.append(n_rows % partition)
    X = da.map_blocks(
        partial(_squares, pause=pause),
        chunks=(tuple(sizes), (2,)),
        dtype=np.float64,
        meta=np.empty((0, 0)),
    )
    return X, X.astype(np.int8).sum(axis=1) % 2


def _squares(block_info: Any = None, pause: float = 0.0) -> np.ndarray:
    time.sleep(pause)  # a fit that takes long enough to be disturbed
    own = block_info[None]
    rng = np.random.default_rng(own["chunk-location"][0])
    return rng.random((own["chunk-shape"][0], 2)) * 4
