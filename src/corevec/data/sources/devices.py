"""Rows in host memory of which each of several devices works on a part.

What a cluster does on machines, this does on cards: each device has its own copy of a
request and its own rows, and the answers are merged in the order of the rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import all_to_numpy
from corevec.data.sources.base import Source
from corevec.data.sources.cluster import ClusterSource
from corevec.data.sources.gpu import StreamedSource
from corevec.data.sources.gpu_input import moved_source, part_source
from corevec.data.sources.workers import Workers
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows

T = TypeVar("T")


class DevicesSource(ClusterSource):
    """Rows of an array or CSR matrix, and the devices that share them."""

    def __init__(self, values: Any, devices: list[Any], columns: dict[str, Array]):
        super().__init__()
        self.values, self.devices, self.row_columns = values, devices, columns
        self.columns = tuple(columns)
        self.n_rows, self.n_features = (int(size) for size in values.shape)
        self.dtype, self.is_sparse = np.dtype(values.dtype), hasattr(values, "indptr")
        self.parts: list[Source] = []

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.devices))
        return f"{self.n_rows:,} rows x {self.n_features} columns on {names}"

    @property
    def n_stored(self) -> int | None:
        """Stored entries of all rows; None of dense ones."""
        return int(self.values.nnz) if self.is_sparse else None

    def using(self, memory_budget: float, workers: Workers) -> Source:
        """Return these rows, a part on each device as far as it fits there."""
        new = super().using(memory_budget, workers)
        assert isinstance(new, DevicesSource)
        ends = np.linspace(0, self.n_rows, len(self.devices) + 1).astype(int)
        new.parts = []
        for device, (start, stop) in zip(self.devices, pairwise(ends), strict=True):
            rows = slice(int(start), int(stop))
            own = {name: column[rows] for name, column in self.row_columns.items()}
            values = self.values[rows]
            part = part_source(values, own, rows.start, memory_budget, device)
            new.parts.append(part)
        return new

    def working_copy(self) -> Source | None:
        """Return all rows on the first device; None where they do not fit there."""
        whole = StreamedSource(self.values, self.devices[0], self.row_columns)
        found = whole.using(self.memory_budget, self.workers)
        return None if isinstance(found, StreamedSource) else found

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Wrap all work on the rows, as each device does."""
        with ExitStack() as stack:
            for part in self.parts[:1]:  # what it sets holds for all of torch
                stack.enter_context(part.at_work())
            yield

    def _ask(self, go: Callable[[Any], T], merge: Callable[[T, T], T]) -> T:
        return functools.reduce(merge, self._answers(go))

    def _answers(self, go: Callable[[Any], T]) -> list[T]:
        # A copy for each: what a request has prepared on one device, another lacks.
        packed = cloudpickle.dumps(go)

        def answer(part: Source) -> T:
            found: T = all_to_numpy(cloudpickle.loads(packed)(part))
            return found

        with ThreadPoolExecutor(len(self.parts)) as pool:
            found = list(pool.map(answer, self.parts))
        self.n_computes += 1
        return found

    def _fetch(self, rows: Array) -> Rows:
        own = {name: column[rows] for name, column in self.row_columns.items()}
        return Rows(self.values[rows], rows, own)


def devices_source(
    who: str, X: Any, y: Any, sample_weight: Any, devices: Sequence[Any]
) -> DevicesSource:
    """Return the source of host rows that several devices work on."""
    if not devices or len(devices) > X.shape[0]:
        raise InvalidInputError(
            f"{who}: device={list(devices)!r} must name one to {X.shape[0]} devices: "
            "each works on a part of the rows.",
            parameter="device",
        )
    each = [moved_source(who, X, y, sample_weight, device) for device in devices]
    columns = {name: np.asarray(one) for name, one in each[0].row_columns.items()}
    return DevicesSource(X, [one.device for one in each], columns)


__all__ = ["DevicesSource", "devices_source"]
