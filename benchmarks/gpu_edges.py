"""What only a GPU machine can try: CuPy, locked pages, a full card, Dask workers.

Each case raises where something is not as it should be: a line that says FAILED.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.gpu_sheet import DEVICE, IS_CUDA, SMALL, fits
from corevec import CoreVectorClassifier
from corevec.exceptions import InvalidInputError

MODEL = CoreVectorClassifier(C=100.0, gamma=0.37, random_state=0)
N = 20_000 if SMALL else 2_000_000
# The models are those of two precisions, or of other blocks: values agree to the gap.
NEAR = 1e-3


def cases():
    """Yield every case."""
    yield "CuPy", of_cupy
    yield "locked pages", of_locked_pages
    yield "full card", of_full_card
    yield "Dask worker", of_dask_worker


def data():
    """Return rows in two columns and their classes."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (N, 2)).astype(np.float32)
    return X, (np.floor(X).sum(axis=1) % 2).astype(np.int64)


def _agrees(model, other):
    a, b = model.certificate_.primal, other.certificate_.primal
    assert abs(a - b) <= NEAR * abs(b), (a, b)


def of_cupy(sheet):
    """Arrays of CuPy come back as arrays of CuPy, by way of the same memory."""
    import cupy

    X, y = data()
    here = fits(sheet, "CuPy: as NumPy on the CPU", MODEL, (X, y), "cpu16")
    there = [cupy.asarray(X), cupy.asarray(y)]
    model = fits(sheet, "CuPy", MODEL, there, "gpu", first=True)
    _agrees(model, here)
    for method in (model.predict, model.decision_function):
        found = method(there[0])
        assert isinstance(found, cupy.ndarray), type(found)
    wrong = float(cupy.mean(model.predict(there[0]) != there[1]))
    sheet.write("CuPy: check", error=wrong, note="predictions are CuPy arrays")


def of_locked_pages(sheet):
    """Rows in page-locked memory, and plain ones, streamed through a small budget."""
    X, y = data()
    model = MODEL.__class__(**MODEL.get_params() | {"device": str(DEVICE)})
    model.set_params(memory_budget=2**23)
    plain = fits(sheet, "plain pages", model, (X, y), "gpu", first=True)
    locked = torch.from_numpy(X)
    locked = locked.pin_memory() if IS_CUDA else locked
    own = fits(sheet, "locked pages", model, (locked.numpy(), y), "gpu")
    _agrees(own, plain)


def of_full_card(sheet):
    """Where the card is full, the error says what is free; afterwards a fit works."""
    if not IS_CUDA:
        return
    X, y = (torch.as_tensor(a, device=DEVICE) for a in data())
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(DEVICE)
    taken = torch.empty(free - 2**27, dtype=torch.uint8, device=DEVICE)
    for name, more in {"": {}, ", cells": {"method": "cells", "gamma": 5.0}}.items():
        model = MODEL.__class__(**MODEL.get_params() | more)
        model.set_params(memory_budget=2**35)
        try:
            model.fit(X, y)
        except InvalidInputError as error:
            sheet.write(f"full card{name}", note=str(error)[:300])
        else:
            sheet.write(f"full card{name}", note="it fitted into 128 MB")
    del taken
    fits(sheet, "full card: afterwards", MODEL, (X, y), "gpu")


def of_dask_worker(sheet):
    """A scheduler and one worker with the GPU, processes of their own."""
    import dask.array
    from distributed import Client

    X, y = data()
    here = fits(sheet, "Dask worker: rows here", MODEL, (X, y), "cpu16")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        run = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
        work = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1"]
        same = ["--scheduler-file", str(file), "--no-dashboard"]
        log = open(Path(folder) / "log", "w")  # noqa: SIM115 - closed below
        options = {"stdout": log, "stderr": log, "env": os.environ}
        started = [subprocess.Popen([*run, "--port", "0", *same], **options)]
        try:
            _wait_for(file)
            more = ["--no-nanny", "--local-directory", folder]
            started.append(subprocess.Popen([*work, *same, *more], **options))
            with Client(scheduler_file=str(file), timeout=30) as client:
                client.wait_for_workers(1, timeout=60)
                sizes = (N // 8, 2)
                parts = [dask.array.from_array(X, chunks=sizes)]
                parts.append(dask.array.from_array(y, chunks=N // 8))
                parts = [client.persist(part) for part in parts]
                model = MODEL.__class__(**MODEL.get_params() | {"device": str(DEVICE)})
                own = fits(sheet, "Dask worker", model, parts, "gpu", first=True)
                _agrees(own, here)
                held = client.run(_bytes_held)
                found = own.predict(parts[0]).compute()
            wrong = float(np.mean(found != y))
            told = f"most bytes on its card: {list(held.values())}"
            sheet.write("Dask worker: check", error=wrong, note=told)
        except Exception:
            log.flush()
            print(Path(log.name).read_text()[-3000:])
            raise
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(20)
            log.close()


def _bytes_held():
    """Return the most bytes that a worker has had on its card."""
    import torch

    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0


def _wait_for(file):
    for _ in range(300):
        if file.exists():
            return
        time.sleep(0.1)
    raise TimeoutError(f"no {file}: the scheduler did not start")
