"""The three verbs of a source, and the passes that every source shares.

A source gives access to rows. `take(rows)` copies a few to the host; `reduce(score,
merge)` runs `score` on each block and merges the small answers in the order of the
rows, so that the result does not depend on the number of threads; `map(score)` keeps
one value per row. A new kind of storage (a file format, a cluster, a GPU) implements
`take` and `block` and inherits the rest, or overrides `reduce` and `map`. What a source
costs and holds it answers itself: nothing outside `data/` asks where the rows are.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import to_numpy
from corevec.data.sources.budget import RowBudget
from corevec.data.sources.workers import Workers
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows

T = TypeVar("T")


class Source(RowBudget, ABC):
    """Rows that can be visited block by block."""

    is_sparse: bool = False
    # Whether random access is cheap: a file or a cluster reads many rows to find a few.
    draws_cheaply: bool = True
    feature_names: Array | None = None
    # The device that each worker of a cluster uses.
    worker_device: Any = None

    @abstractmethod
    def take(self, rows: Array) -> Rows:
        """Return the rows with these numbers."""

    @abstractmethod
    def block(self, start: int, stop: int) -> Rows:
        """Return the rows from `start` up to `stop`, without a copy if possible."""

    def pick(self, rows: Array) -> Rows:
        """Return the rows with these numbers, on their device."""
        return self.take(rows)

    def numbers_on_device(self, rows: Array) -> Any:
        """Return row numbers on the device of the rows."""
        return rows

    def using(self, memory_budget: float, workers: Workers) -> Source:
        """Return these rows with the budget and the threads of one fit."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.memory_budget, new.workers = int(memory_budget), workers
        return new

    def near(self, rows: Array) -> Source:
        """Return a source with cheap access to these rows, by the same numbers."""
        return self

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Wrap all work on the rows: errors of their storage are explained."""
        yield

    # Copies ------------------------------------------------------------------------

    def subset(self, rows: Array, on_host: Callable[[Source, Array], Source]) -> Source:
        """Return these rows as a source of their own, on the device of the rows.

        On the host it is ``on_host(self, rows)``.
        """
        return on_host(self, rows)

    def in_memory(self) -> Source | None:
        """Return all rows on the host; None where the memory budget is too small."""
        return self

    def working_copy(self) -> Source | None:
        """Return all rows for many passes; None where they exceed the memory budget.

        Rows on a device stay there.
        """
        return self.in_memory()

    def host_copy(self) -> Source:
        """Return all rows on the host; remote rows only where they fit the budget."""
        return self.in_memory() or self

    def grouped(self, parts: Sequence[Array]) -> Iterator[tuple[Source, slice]]:
        """Yield sources with cheap access to the rows of some parts, and which parts.

        Together they cover all parts, in order.
        """
        yield self, slice(None)

    def worked_on_by(self, who: str, device: Any) -> Source:
        """Return these rows with `device` doing the work; raise where it cannot."""
        raise InvalidInputError(
            f"{who}: device={device!r} works on arrays, tensors "
            f"and Dask collections, but {self!r} was given. Give the rows as an "
            "np.memmap or a Dask collection, or device=None.",
            parameter="device",
        )

    @property
    def values_per_second(self) -> float:
        """About how many float32 kernel values are computed per second.

        1.5e9 for each thread where rows are short, half of it at 20 columns.
        """
        return 1.5e9 / (1 + self.n_features / 20) * self.workers.n_threads

    def part(self, rows: Array) -> Rows:
        """Return these rows to be worked on, on the device where they fit it dense."""
        return self.take(rows)

    # Passes ------------------------------------------------------------------------

    @property
    def numbers(self) -> Array:
        """The number of every row, in the order of the blocks."""
        return np.arange(self.n_rows)

    @property
    def device_numbers(self) -> Any:
        """The number of every row, on the device of the rows."""
        return self.numbers

    def blocks(self) -> list[tuple[int, int]]:
        """Return the (start, stop) of every block."""
        step = self.block_rows
        return [(s, min(s + step, self.n_rows)) for s in range(0, self.n_rows, step)]

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return about `size` random row numbers, each at most once, sorted.

        Memory and time O(size): drawing with replacement and dropping repeats. At
        least nine in ten of the rows asked for remain for ``size <= n_rows / 5``.
        """
        if 5 * size > self.n_rows:
            return np.sort(rng.permutation(self.n_rows)[:size])
        drawn = np.sort(rng.integers(self.n_rows, size=size))
        return drawn[np.diff(drawn, prepend=-1) > 0]

    def reduce(self, score: Callable[[Rows], T], merge: Callable[[T, T], T]) -> T:
        """Return ``score`` of every block merged from the first block to the last."""
        with closing(self._each(score)) as results:
            return functools.reduce(merge, results)

    def fold(
        self,
        begin: Callable[[], T],
        step: Callable[[T, Rows], T],
        merge: Callable[[T, T], T],
    ) -> T:
        """Return the state after every block, in order; remote parts are merged."""
        state = begin()
        with closing(self._blocks_in_order()) as blocks:
            for rows in blocks:
                state = step(state, rows)
        return state

    def map(self, score: Callable[[Rows], Array]) -> Array:
        """Return ``score`` of every block, stacked: one entry (or row) per row."""
        with closing(self._each(score)) as results:
            return np.concatenate([to_numpy(part) for part in results])

    def _each(self, score: Callable[[Rows], T]) -> Generator[T, None, None]:
        """Yield ``score`` of every block, in order."""

        def task(bounds: tuple[int, int]) -> T:
            return score(self.block(*bounds))

        yield from self.workers.run(task, self.blocks())

    def _blocks_in_order(self) -> Generator[Rows, None, None]:
        """Yield every block, one at a time."""
        for bounds in self.blocks():
            yield self.block(*bounds)

    def map_on_device(self, score: Callable[[Rows], Any]) -> Any:
        """Return ``score`` of every block, stacked on the device of the rows."""
        return self.map(score)

    def map_blocks(self, score: Callable[[Rows], Array], block_rows: int) -> Array:
        """Return ``score`` as `map` does, in blocks of this many rows.

        Remote rows keep their own blocks.
        """
        n = self.n_rows
        bounds = [(s, min(s + block_rows, n)) for s in range(0, n, block_rows)]
        parts = self.workers.run(lambda b: score(self.block(*b)), bounds)
        return np.concatenate(list(parts))

    def map_rows(self, score: Callable[[Rows], T], rows: Any, step: int) -> list[T]:
        """Return ``score`` of these rows, in parts of at least `step` rows."""
        parts = [rows[s : s + step] for s in range(0, max(len(rows), 1), step)]
        return list(self.workers.run(lambda few: score(self.take(few)), parts))

    def warm_up(self, prepare: Callable[[Any], object]) -> None:
        """Call `prepare` with the values of one row, before threads share its result.

        Remote sources skip this: their workers prepare a function themselves.
        """
        prepare(self.block(0, 1).values)

    def predict(self, who: str, functions: Any) -> Any:
        """Return the functions' values of all rows, as an array of the user's kind."""
        return np.asarray(functions.values(self))
