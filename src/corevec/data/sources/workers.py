"""The thread pool that scores blocks of rows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController

from corevec._runtime.types import Array

T = TypeVar("T")

# Rows from which the product of a matrix is shared out: a thread starts in 20 us.
MIN_SHARED_ROWS = 1000


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

    def product(self, A: Array, B: Array) -> Array:
        """Return ``A @ B``, the rows of A shared out to the threads.

        BLAS's own threads spin for some 25 ms after every call, which takes a core from
        what comes next: a regression of 6,144 rows took 1.2 s of processor time with
        them and 0.45 s without.
        """
        shares = self.shares(len(A))
        if len(shares) < 2:
            return np.asarray(A @ B)
        out = np.empty((len(A), *B.shape[1:]), dtype=np.result_type(A, B))

        def fill(part: slice) -> None:
            np.matmul(A[part], B, out=out[part])

        list(self.run(fill, shares))
        return out

    def transposed_product(self, A: Array, B: Array) -> Array:
        """Return ``A.T @ B``, summed over shares of the rows."""
        shares = self.shares(len(A))
        if len(shares) < 2:
            return np.asarray(A.T @ B)
        return np.asarray(sum(self.run(lambda part: A[part].T @ B[part], shares)))

    def shares(self, n: int) -> list[slice]:
        """Return a part of ``range(n)`` for each thread; one where n is small."""
        n_shares = 1 if self._pool is None or n < MIN_SHARED_ROWS else self.n_threads
        cuts = [n * k // n_shares for k in range(n_shares + 1)]
        return [slice(*pair) for pair in pairwise(cuts)]

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
    if n_jobs is not None and n_jobs > 0:
        return n_jobs
    cores = int(joblib.cpu_count())
    if n_jobs is None:
        asked = os.environ.get("OMP_NUM_THREADS", "")
        return max(1, min(cores, int(asked))) if asked.isdigit() else cores
    return max(1, cores + 1 + n_jobs)
