"""Rows on a GPU, as tensors of torch: passes run where the rows are.

`take` copies a few rows to the host, where a core set or a basis is solved; blocks and
`pick` stay on the device. Rows in this machine's memory that are too many for the card
are streamed: while one block is worked on, the next is copied over.

Every tensor device serves, the CPU's too: the tests use that one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.backend.arrays import counted, dtype_of, to_numpy
from corevec.data.sources._belt import Belt, Locks, shared
from corevec.data.sources._torch import torch
from corevec.data.sources.base import Source
from corevec.data.sources.budget import (
    CARD_SHARE,
    DEFAULT_MEMORY_BUDGET,
    DeviceBudget,
    StreamedBudget,
    free_device_bytes,
)
from corevec.data.sources.columns import check_values
from corevec.data.sources.host_copy import HostCopy
from corevec.data.sources.memory import ArraySource, RowSubset
from corevec.data.sources.workers import Workers
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows

T = TypeVar("T")


class TensorSource(DeviceBudget, ArraySource):
    """Rows of a tensor, with their targets and weights."""

    def __init__(
        self,
        values: Any,
        columns: dict[str, Any] | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        workers: Workers | None = None,
    ):
        super().__init__(memory_budget, workers)
        self.values, self.row_columns = values, columns or {}
        self.device, self.dtype = values.device, dtype_of(values)
        self.n_rows, self.n_features = (int(size) for size in values.shape)

    def __repr__(self) -> str:
        return f"{self.n_rows:,} rows x {self.n_features} columns on {self.device}"

    def __reduce__(self) -> Any:
        raise TypeError("rows on a GPU are not written to a file")

    def take(self, rows: Array) -> Rows:
        """Copy the rows with these numbers to the host."""
        found = self.pick(rows)
        columns = {name: to_numpy(column) for name, column in found.columns.items()}
        return Rows(to_numpy(found.values), to_numpy(found.index), columns)

    def pick(self, rows: Array) -> Rows:
        """Return the rows with these numbers, on the device."""
        index = self.numbers_on_device(rows)
        return self._rows_at(index - self.first_number, index)

    def numbers_on_device(self, rows: Any) -> Any:
        """Return row numbers on the device."""
        return torch.as_tensor(rows, dtype=torch.int64, device=self.device)

    def alone(self, rows: Array) -> Source:
        """Return these rows, sorted, as a source of their own on the device."""
        return DeviceSubset(self, self.pick(rows))

    def subset(self, rows: Array, on_host: Callable[[Source, Array], Source]) -> Source:
        """Return these rows, sorted, as a source of their own on the device."""
        return self.alone(rows)

    def in_memory(self) -> Source | None:
        """Return a copy on the host; None where it exceeds the memory budget."""
        if self.n_rows * self.value_bytes > self.memory_budget:
            return None
        return RowSubset(self, self.numbers, self.take(self.numbers))

    def working_copy(self) -> Source | None:
        """Return the rows themselves: passes run on the device."""
        return self

    def host_copy(self) -> Source:
        """Return a copy on the host that knows the rows on the device."""
        return HostCopy(self)

    def worked_on_by(self, who: str, device: Any) -> Source:
        """Return the rows themselves; raise where they are on another device."""
        # "cuda" is any of the cards.
        if str(device) in (str(self.device), self.device.type):
            return self
        raise InvalidInputError(
            f"{who}: device={device!r}, but the rows are a tensor "
            f"on {str(self.device)!r}. Move them there, X.to({device!r}), or give "
            "device=None: tensors are worked on where they are.",
            parameter="device",
        )

    @property
    def values_per_second(self) -> float:
        """About how many float32 kernel values are computed per second.

        On an H200: 1.6e12 with two columns, 0.5e12 with 54.
        """
        if self.device.type != "cuda":
            return super().values_per_second
        return 1.6e12 / (1 + self.n_features / 25)

    def part(self, rows: Array) -> Rows:
        """Return these rows, on the device where they fit it dense."""
        return self.pick(rows) if self.works_on(len(rows)) else self.take(rows)

    @property
    def device_numbers(self) -> Any:
        """The number of every row, on the device."""
        return self.map_on_device(lambda rows: rows.index)

    def block(self, start: int, stop: int) -> Rows:
        """Return a view of the rows from `start` up to `stop`."""
        index = counted(self.first_number + start, stop - start, self.values)
        return self._rows_at(slice(start, stop), index)

    def map_on_device(self, score: Callable[[Rows], Any]) -> Any:
        """Return ``score`` of every block, stacked on the device."""
        return torch.cat(list(self._each(score)))

    def map_rows(self, score: Callable[[Rows], T], rows: Any, step: int) -> list[T]:
        """Return ``score`` of these rows on the device, in parts as large as blocks."""
        step = max(step, self.block_rows)
        parts = [rows[s : s + step] for s in range(0, max(len(rows), 1), step)]
        return [score(self.pick(part)) for part in parts]

    def predict(self, who: str, functions: Any) -> Any:
        """Return the functions' values of all rows as a tensor on the device.

        No validation has seen the rows: they are checked on the way.
        """
        values = functions.ready_for(self)

        def score(rows: Rows) -> Any:
            check_values(who, rows)
            return values(rows)

        return self.map_on_device(score)

    def _each(self, score: Callable[[Rows], T]) -> Generator[T, None, None]:
        """Yield ``score`` of every block; a device works on one at a time."""
        for bounds in self.blocks():
            yield score(self.block(*bounds))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Multiply float32 in float32, and say what would fit where memory runs out.

        Also where the user allows TF32 (10 bits): models and certificates need more.
        """
        allowed = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise self.too_large(error) from None
        finally:
            torch.set_float32_matmul_precision(allowed)

    def too_large(self, error: Exception) -> InvalidInputError:
        """Return what to say where the memory of the card runs out."""
        free, total = (
            free_device_bytes(self.device),
            torch.cuda.mem_get_info(self.device)[1],
        )
        asked = str(error).split(". ")[0]
        return InvalidInputError(
            f"the memory of {self.device} does not suffice ({asked}; "
            f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB are free). A fit may use "
            f"{self.working_budget:.3g} bytes beside the rows: give "
            f"memory_budget={CARD_SHARE * free:.3g} or less, or keep the rows in host "
            "memory (a NumPy array and device='cuda'): they are streamed then."
        )


class DeviceSubset(TensorSource):
    """Some rows of another source, on the device, with the numbers of that source."""

    def __init__(self, source: TensorSource, rows: Rows):
        columns = dict(rows.columns)
        super().__init__(rows.values, columns, source.memory_budget, source.workers)
        self.index, self._device_bytes = rows.index, source.working_budget

    @property
    def numbers(self) -> Array:
        """The number of every row in the source it comes from."""
        return to_numpy(self.index)

    def pick(self, rows: Array) -> Rows:
        """Return the rows with these numbers, which must be among these."""
        where = torch.searchsorted(self.index, self.numbers_on_device(rows))
        return self._rows_at(where, self.index[where])

    def block(self, start: int, stop: int) -> Rows:
        """Return the rows from `start` up to `stop` of these."""
        where = slice(start, stop)
        return self._rows_at(where, self.index[where])

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return about `size` random row numbers of these."""
        return self.numbers[super().draw(rng, size)]


class StreamedSource(StreamedBudget, TensorSource):
    """Rows in this machine's memory, or in a memmap, worked on by a GPU block by block.

    The next block is copied to the card while the last is worked on: from pinned memory
    a copy runs beside the arithmetic, so that a pass takes as long as the longer of the
    two.
    """

    def __init__(
        self,
        values: Any,
        device: Any,
        columns: dict[str, Any] | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        workers: Workers | None = None,
    ):
        Source.__init__(self, memory_budget, workers)
        self.values, self.row_columns = values, columns or {}
        self.device, self.is_sparse = torch.device(device), sparse.issparse(values)
        self.n_rows, self.n_features = (int(size) for size in values.shape)
        self.dtype = np.dtype(values.dtype)
        self.locks = Locks([values, *self.row_columns.values()])

    def using(self, memory_budget: float, workers: Workers) -> Source:
        """Return these rows, all of them on the device if they fit half its budget."""
        new = super().using(memory_budget, workers)
        assert isinstance(new, StreamedSource)
        if not new.dense_fits(new.n_rows, 1 / 2):
            return new
        rows = new.block(0, new.n_rows)
        own = _Moved(rows.values, dict(rows.columns), memory_budget, workers)
        own.host_values, own.is_sparse = new.values, new.is_sparse
        own.first_number = new.first_number
        return own

    def take(self, rows: Array) -> Rows:
        """Return the rows with these numbers, from the host."""
        numbers = np.asarray(rows, dtype=np.int64)
        at = numbers - self.first_number
        return self._rows_at(at, numbers)

    def near(self, rows: Any) -> Source:
        """Return these rows on the device, where they fit a part of its budget."""
        if not self.dense_fits(len(rows), 1 / 8):
            return self
        return self.alone(torch.unique(self.numbers_on_device(rows)))

    def pick(self, rows: Any) -> Rows:
        """Return the rows with these numbers, copied to the device."""
        return self._moved(self.take(to_numpy(rows)))

    def block(self, start: int, stop: int) -> Rows:
        """Return the rows from `start` up to `stop`, copied to the device."""
        index = self._numbers_of(start, stop)
        return self._moved(self._rows_at(slice(start, stop), index))

    def predict(self, who: str, functions: Any) -> Any:
        """Return the functions' values of all rows, on the host, as the rows are."""
        return Source.predict(self, who, functions)

    def _moved(self, rows: Rows) -> Rows:
        return Rows(
            self._copied(rows.values),
            self._copied(rows.index),
            {name: self._copied(column) for name, column in rows.columns.items()},
        )

    def _copied(self, a: Any) -> Any:
        if sparse.issparse(a):  # dense on the device, a block at a time
            own = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
            at = self._copied(own), self._copied(a.indices.astype(np.int64))
            data = self._copied(a.data)
            return data.new_zeros(a.shape).index_put_(at, data, accumulate=True)
        return shared(np.ascontiguousarray(a)).to(self.device)

    def _each(self, score: Callable[[Rows], T]) -> Generator[T, None, None]:
        if self.device.type != "cuda" or self.is_sparse:
            yield from super()._each(score)
            return
        yield from self._each_copied_ahead(score)

    def _each_copied_ahead(self, score: Callable[[Rows], T]) -> Iterator[T]:
        self.locks.count_pass(self.device)
        bounds, belt = self.blocks(), Belt(self)
        working = torch.cuda.current_stream(self.device)
        with ThreadPoolExecutor(1) as beside:
            coming = beside.submit(belt.fetch, *bounds[0])
            for following in [*bounds[1:], None]:
                rows, arrived = coming.result()
                if following is not None:
                    coming = beside.submit(belt.fetch, *following)
                working.wait_event(arrived)
                for tensor in (rows.values, rows.index, *rows.columns.values()):
                    tensor.record_stream(working)
                yield score(rows)


class _Moved(TensorSource):
    """Rows of this machine's memory, all of them copied to the device."""

    host_values: Any

    def take(self, rows: Array) -> Rows:
        """Return the rows with these numbers, from the copy on the host."""
        numbers = np.asarray(to_numpy(rows), dtype=np.int64)
        at = numbers - self.first_number
        columns = {
            name: to_numpy(column[at]) for name, column in self.row_columns.items()
        }
        return Rows(self.host_values[at], numbers, columns)

    def predict(self, who: str, functions: Any) -> Any:
        """Return the functions' values of all rows, on the host, as the rows are."""
        return Source.predict(self, who, functions)
