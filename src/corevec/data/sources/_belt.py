"""How blocks of rows in this machine's memory get to a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import weakref
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.data.sources._torch import torch
from corevec.kernels import Rows


class Locks:
    """Keeps the pages of arrays in memory, for copies to a card at the full rate.

    From the second pass on: on an H200's host locking runs at 25 GB/s, once, a copy
    from locked pages at 55 GB/s, one through a buffer at 27 GB/s. Of a file's pages
    (memmap) none are locked.
    """

    def __init__(self, arrays: list[Any]):
        self.arrays, self.passes = arrays, 0
        self.held: bool | None = None  # not tried yet

    def count_pass(self, device: Any) -> None:
        """Lock the pages before the second pass."""
        self.passes += 1
        if self.passes < 2 or self.held is not None:
            return
        plain = [a for a in self.arrays if not sparse.issparse(a) and not _is_file(a)]
        whole = len(plain) == len(self.arrays)
        self.held = whole and all(self._lock(array, device) for array in plain)

    def _lock(self, array: Array, device: Any) -> bool:
        if not array.flags.c_contiguous:
            return False
        if all(shared(end).is_pinned() for end in (array[:1], array[-1:])):
            return True  # by somebody else
        cudart, at = torch.cuda.cudart(), array.ctypes.data
        if int(cudart.cudaHostRegister(at, array.nbytes, 0)) != 0:
            with contextlib.suppress(RuntimeError):
                torch.zeros(1, device=device)  # takes the error that a refusal leaves
            return False
        weakref.finalize(self, cudart.cudaHostUnregister, at)
        return True


def _is_file(array: Any) -> bool:
    while array is not None:
        if isinstance(array, (np.memmap, mmap.mmap)):
            return True
        array = getattr(array, "base", None)
    return False


class Belt:
    """Brings blocks to the card, through two buffers of page-locked memory.

    From there a copy runs beside arithmetic and at the full rate (55 GB/s to an H200;
    7 GB/s from memory that may be paged). One buffer is filled while the other is read.
    Where the rows' own pages are locked no buffer is needed.
    """

    def __init__(self, source: Any):
        self.source, self.turn, self.is_direct = source, 0, bool(source.locks.held)
        self.stream = torch.cuda.Stream(source.device)
        step = min(source.block_rows, source.n_rows)
        arrays = {"": source.values, **source.row_columns}
        self.buffers: list[dict[str, Any]] = [dict.fromkeys(arrays)] * 2
        if not self.is_direct:
            self.buffers = [
                {name: _locked(step, array) for name, array in arrays.items()}
                for _ in range(2)
            ]
        self.read = [torch.cuda.Event(), torch.cuda.Event()]

    def fetch(self, start: int, stop: int) -> tuple[Rows, Any]:
        """Return a block on its way, and the event of its arrival."""
        source, buffers = self.source, self.buffers[self.turn]
        read = self.read[self.turn]
        self.turn = 1 - self.turn
        read.synchronize()
        with torch.cuda.stream(self.stream):
            values = self._sent(buffers[""], source.values, start, stop)
            columns = {
                name: self._sent(buffers[name], column, start, stop)
                for name, column in source.row_columns.items()
            }
            read.record(self.stream)
            first = source.first_number
            index = torch.arange(first + start, first + stop, device=source.device)
        arrived = torch.cuda.Event()
        arrived.record(self.stream)
        return Rows(values, index, columns), arrived

    def _sent(self, buffer: Any, array: Array, start: int, stop: int) -> Any:
        part = shared(np.asarray(array[start:stop]))
        if not self.is_direct:
            part = buffer[: stop - start].copy_(part)  # by all cores
        return part.to(self.source.device, non_blocking=True)


def shared(a: Array) -> Any:
    """Return a tensor that shares the memory of an array, which nobody writes to.

    Of arrays that may not be written to (those of joblib's workers) torch warns.
    """
    if a.flags.writeable or a.size == 0:
        return torch.as_tensor(a)
    held: Any = (ctypes.c_char * a.nbytes).from_address(a.ctypes.data)
    held.array = a  # stays as long as its memory is used
    if not a.flags.c_contiguous:
        return torch.as_tensor(a.copy())
    return torch.as_tensor(np.frombuffer(held, dtype=a.dtype).reshape(a.shape))


def _locked(n_rows: int, array: Array) -> Any:
    kind = torch.from_numpy(np.empty(0, dtype=array.dtype)).dtype
    return torch.empty((n_rows, *array.shape[1:]), dtype=kind, pin_memory=True)
