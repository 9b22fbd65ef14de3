"""Rows on the workers of a cluster: a pass is a request, and one small answer.

A request goes to every partition; its answers are merged on the workers in a tree, in
the order of the rows. An engine (Dask, Spark) says how in `_ask`, `_answers` and
`_fetch`.
"""

from __future__ import annotations

import pickle
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources.base import Source
from corevec.data.sources.remote import RemoteSource
from corevec.kernels import Rows

T = TypeVar("T")


class ClusterSource(RemoteSource):
    """Rows whose partitions answer requests where they are."""

    bytes_sent = bytes_received = n_computes = 0

    def __reduce__(self) -> Any:
        raise TypeError("a function sent to the partitions holds the source itself")

    @abstractmethod
    def _ask(self, go: Callable[[Any], T], merge: Callable[[T, T], T]) -> T:
        """Return ``go(part)`` of all partitions, merged on the workers."""

    @abstractmethod
    def _answers(self, go: Callable[[Any], T]) -> list[T]:
        """Return ``go(part)`` of every partition, in order."""

    def block(self, start: int, stop: int) -> Rows:
        """Copy the rows from `start` up to `stop` to the host."""
        return self.take(np.arange(start, stop))

    def reduce(self, score: Callable[[Rows], T], merge: Callable[[T, T], T]) -> T:
        """Return ``score`` of every block, merged on the workers in a tree."""

        def go(part: Source) -> T:
            return part.reduce(score, merge)

        return self._ask(go, merge)

    def fold(
        self,
        begin: Callable[[], T],
        step: Callable[[T, Rows], T],
        merge: Callable[[T, T], T],
    ) -> T:
        """Return one state per partition, gone through in order, merged in a tree."""

        def go(part: Source) -> T:
            return part.fold(begin, step, merge)

        return self._ask(go, merge)

    def map(self, score: Callable[[Rows], Array]) -> Array:
        """Return ``score`` of every block, copied to the host and stacked."""

        def go(part: Source) -> Array:
            return part.map(score)

        return np.concatenate(self._answers(go))

    def meter(self) -> dict[str, Any]:
        """Return what went to the workers and came back since the last call."""
        found = {
            "bytes_sent": self.bytes_sent,
            "bytes_received": self.bytes_received,
            "computes": self.n_computes,
        }
        self.bytes_sent = self.bytes_received = self.n_computes = 0
        return found

    def _count(self, n_bytes: int) -> None:
        """Note one computation, and the bytes that it returned."""
        self.n_computes += 1
        self.bytes_received += n_bytes


def size_of(answer: Any) -> int:
    """Return the bytes of an answer that is sent."""
    return len(pickle.dumps(answer, protocol=5))
