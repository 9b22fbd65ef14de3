"""The thread pool that scores blocks of rows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

T = TypeVar("T")


class Workers:
    """A thread pool over blocks, with BLAS held to one thread while it is open.

    ``n_jobs=None`` means the cores this process may use, or ``OMP_NUM_THREADS``
    where that is set (joblib sets it in its workers, so nothing oversubscribes).
    BLAS gets its threads back only inside `blas`, for large factorisations: on small
    matrices its threads cost more than they bring (a Cholesky factor of 160 columns
    took 250 ms with spinning threads on a busy machine, 0.5 ms without).
    """

    def __init__(self, n_jobs: int | None = None):
        self.n_threads = _n_threads(n_jobs)
        self._pool: ThreadPoolExecutor | None = None
        self._controller: ThreadpoolController | None = None
        self._limit: Any = None

    def __enter__(self) -> Workers:
        self._controller = _controller(len(sys.modules))
        self._limit = self._controller.limit(limits=1, user_api="blas")
        self._limit.__enter__()
        if self.n_threads > 1:
            self._pool = ThreadPoolExecutor(self.n_threads)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        if self._limit is not None:
            self._limit.__exit__(None, None, None)
            self._limit = None

    def run(self, task: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
        """Yield ``task(item)`` for each item, in order."""
        items = list(items)
        if self._pool is None or len(items) < 2:
            yield from map(task, items)
        else:
            yield from self._pool.map(task, items)

    @contextmanager
    def blas(self) -> Iterator[None]:
        """Give BLAS this many threads, for large work outside the pool."""
        if self._controller is None or self.n_threads == 1:
            yield
            return
        with self._controller.limit(limits=self.n_threads, user_api="blas"):
            yield


@lru_cache(1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Return the controller of all BLAS libraries, sought again after an import.

    It looks at every loaded library, which took 11 ms beside torch.
    """
    return ThreadpoolController()


def _n_threads(n_jobs: int | None) -> int:
    cores = int(joblib.cpu_count())
    if n_jobs is None:
        asked = os.environ.get("OMP_NUM_THREADS", "")
        return max(1, min(cores, int(asked))) if asked.isdigit() else cores
    if n_jobs < 0:
        return max(1, cores + 1 + n_jobs)
    return max(1, n_jobs)
