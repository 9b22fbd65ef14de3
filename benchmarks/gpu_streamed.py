"""Rows in host memory, four times what the card may use: a pass against the copy."""

import operator
import statistics

import numpy as np
import torch

from benchmarks.gpu_sheet import DEVICE, IS_CUDA, SMALL, blocks, synchronised, timed_fit
from corevec import CoreVectorOneClass
from corevec.data.sources import Workers, device_source

COLUMNS = 16
ROWS = 200_000 if SMALL else 250_000_000  # 16 GB
BUDGET = ROWS * COLUMNS * 4 / 4
COPIED = 1 << (20 if SMALL else 30)
REPEATS = 3


def cases():
    """Yield what a copy takes, and what a pass takes."""
    if IS_CUDA:
        yield "copy", copies
    yield "pass", streamed


def copies(sheet):
    """Measure copies of a gigabyte to the card, from pinned and from other memory."""
    there = torch.empty(COPIED, dtype=torch.uint8, device=DEVICE)
    for name, pinned in (("pinned", True), ("pageable", False)):
        here = torch.empty(COPIED, dtype=torch.uint8, pin_memory=pinned).fill_(1)
        taken = [_copy_seconds(there, here) for _ in range(6)][1:]
        seconds = statistics.median(taken)
        rate = COPIED / seconds
        words = f"{rate:.3e} bytes/s, {COPIED} bytes, median of 5"
        sheet.write(f"copy, {name}", place="gpu", seconds=seconds, note=words)


def _copy_seconds(there, here):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    there.copy_(here, non_blocking=True)
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / 1e3


def streamed(sheet):
    """Time passes over all rows, then one whole prediction with its checks."""
    X = rows_here()
    few = torch.as_tensor(X[: 100_000 // (10 if SMALL else 1)], device=DEVICE)
    model = CoreVectorOneClass(C=10.0, gamma=0.05, random_state=0)
    _, model, _ = timed_fit(model, [few])
    k = len(model.support_)
    source = device_source("benchmark", X, None, None, DEVICE)
    source = source.using(BUDGET, Workers(1))
    note = f"{X.nbytes} bytes, budget {BUDGET:.3g}, {len(source.blocks())} blocks"

    def line(case, seconds, more=""):
        rate = f"; {X.nbytes / seconds:.3e} bytes/s"
        sheet.write(
            case,
            n_rows=len(X),
            n_columns=COLUMNS,
            place="gpu",
            seconds=seconds,
            n_vectors=k,
            peak_device_bytes=_peak(),
            values_per_second=len(X) * k / seconds,
            note=note + rate + more,
        )

    if IS_CUDA:
        torch.cuda.reset_peak_memory_stats(DEVICE)
    for dtype in (np.float32, np.float64):
        ready = model._functions.ready(dtype)
        for at in range(REPEATS):  # pages are locked before the second
            begun = synchronised()
            source.reduce(lambda rows, ready=ready: ready(rows).sum(), operator.add)
            seconds, name = synchronised() - begun, np.dtype(dtype).name
            line(f"one pass, {name}", seconds, f"; number {at + 1}")
            if sheet.left <= 0:
                return
    model.set_params(device=str(DEVICE), memory_budget=BUDGET)
    begun = synchronised()
    model.decision_function(X)
    line("decision_function", synchronised() - begun, "; with the checks of the rows")


def rows_here():
    """Return Gaussian rows in this machine's memory, made on the device."""
    X = np.empty((ROWS, COLUMNS), dtype=np.float32)
    torch.manual_seed(0)
    for part in blocks(ROWS, 1 << 23):
        size = (part.stop - part.start, COLUMNS)
        X[part] = torch.randn(size, device=DEVICE).cpu().numpy()
    return X


def _peak():
    return torch.cuda.max_memory_allocated(DEVICE) if IS_CUDA else 0
