"""Remote rows: on a disk, on other machines.

A pass over all rows is as for any source, but random access is expensive: a file or a
worker reads many rows to find a few. So rows that were fetched are cached for a while,
and random rows come from a shuffled *deck*: one fetch serves many draws.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources.base import Source
from corevec.data.sources.budget import DEFAULT_MEMORY_BUDGET, RemoteBudget
from corevec.data.sources.memory import RowSubset, stacked
from corevec.data.sources.workers import Workers
from corevec.kernels import Rows


class RemoteSource(RemoteBudget, Source):
    """Rows that `_fetch` copies to the host, at a cost per call."""

    draws_cheaply = False
    columns: tuple[str, ...] = ()

    _deck: RowSubset | None
    _order: Array
    _dealt: int
    _kept: list[RowSubset]

    def __init__(
        self,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        workers: Workers | None = None,
    ):
        super().__init__(memory_budget, workers)
        self._forget()

    @abstractmethod
    def _fetch(self, rows: Array) -> Rows:
        """Fetch the rows with these numbers, which are sorted and different."""

    def using(self, memory_budget: float, workers: Workers) -> Source:
        """Return these rows with the budget and the threads of one fit."""
        new = super().using(memory_budget, workers)
        assert isinstance(new, RemoteSource)
        new._forget()
        return new

    def take(self, rows: Array) -> Rows:
        """Return the rows with these numbers, fetched where they are not cached."""
        rows = np.asarray(rows, dtype=np.int64)
        wanted, place = np.unique(rows, return_inverse=True)
        known = [held for held in (self._deck, *self._kept) if held is not None]
        parts, missing = [], wanted
        for held in known:
            here = _is_in(missing, held.index)
            if here.any():
                parts.append(held.take(missing[here]))
                missing = missing[~here]
        if len(missing) or not parts:
            fetched = self._fetch(missing)
            self._keep(RowSubset(self, fetched.index, fetched))
            parts.append(fetched)
        if (
            len(parts) == 1
            and len(wanted) == len(rows)
            and (place[:-1] < place[1:]).all()
        ):
            return parts[0]
        joined = join_rows(parts)
        return joined.part(np.argsort(joined.index, kind="stable")[place])

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return about `size` random row numbers, sorted: the next of the deck."""
        if size > self.deck_size or size >= self.n_rows:
            return super().draw(rng, size)
        if self._deck is None or self._dealt + size > len(self._order):
            numbers = super().draw(rng, self.deck_size)
            if self._deck is not None:  # rows of it may be wanted yet
                self._keep(self._deck)
            self._deck = RowSubset(self, numbers, self._fetch(numbers))
            self._order, self._dealt = rng.permutation(numbers), 0
        size = min(size, len(self._order))
        cards = self._order[self._dealt : self._dealt + size]
        self._dealt += size
        return np.sort(cards)

    def near(self, rows: Array) -> Source:
        """Return these rows as a source in memory, with the same numbers."""
        rows = np.unique(np.asarray(rows, dtype=np.int64))
        return RowSubset(self, rows, self.take(rows))

    def in_memory(self) -> Source | None:
        """Return all rows on the host; None where the memory budget is too small."""
        return self.near(self.numbers) if self.holds(self.n_rows) else None

    def grouped(self, parts: Sequence[Array]) -> Iterator[tuple[Source, slice]]:
        """Yield the rows of as many parts as the budget holds, and which parts."""
        first, n_rows = 0, 0
        for last, rows in enumerate(parts):
            if last > first and not self.holds(n_rows + len(rows)):
                yield self.near(np.concatenate(parts[first:last])), slice(first, last)
                first, n_rows = last, 0
            n_rows += len(rows)
        yield self.near(np.concatenate(parts[first:])), slice(first, len(parts))

    def map_blocks(self, score: Callable[[Rows], Array], block_rows: int) -> Array:
        """Return ``score`` of every row, in the blocks that the rows are stored in."""
        return self.map(score)

    def warm_up(self, prepare: Callable[[Any], object]) -> None:
        """Do nothing: functions are prepared where the rows are."""

    def _forget(self) -> None:
        self._deck = None
        self._order, self._dealt = np.empty(0, dtype=np.int64), 0
        self._kept = []

    def _keep(self, rows: RowSubset) -> None:
        """Cache what was fetched; the oldest rows make way."""
        self._kept.insert(0, rows)
        while sum(one.n_rows for one in self._kept) > self.most_cached:
            self._kept.pop()


def join_rows(parts: list[Rows]) -> Rows:
    """Return the rows of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    values = stacked([part.values for part in parts])
    columns = {
        name: np.concatenate([part.columns[name] for part in parts])
        for name in parts[0].columns
    }
    return Rows(values, np.concatenate([part.index for part in parts]), columns)


def _is_in(numbers: Array, index: Array) -> Array:
    """Whether each of the sorted `numbers` is in the sorted `index`."""
    if len(index) == 0:
        return np.zeros(len(numbers), dtype=bool)
    at = np.minimum(np.searchsorted(index, numbers), len(index) - 1)
    return np.asarray(index[at] == numbers)
