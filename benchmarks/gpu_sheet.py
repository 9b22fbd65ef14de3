"""What the parts of `benchmarks.gpu` share: the device, the clock, the table."""

import csv
import math
import os
import time
import traceback
import warnings
from pathlib import Path

import torch
from sklearn.base import clone

from corevec.exceptions import NotCertifiedWarning

DEVICE = torch.device(os.environ.get("COREVEC_GPU_BENCH_DEVICE", "cuda"))
IS_CUDA = DEVICE.type == "cuda"
# Tiny sizes: to try the script itself where there is no GPU.
SMALL = os.environ.get("COREVEC_GPU_BENCH_SMALL") == "1"
# A fit on the CPU may take so long; then it ends by `max_time`, and says so.
CPU_SECONDS = 60.0
FIELDS = (
    "part",
    "case",
    "n_rows",
    "n_columns",
    "place",
    "seconds",
    "relative_gap",
    "converged",
    "error",
    "n_vectors",
    "peak_device_bytes",
    "passes",
    "values_per_second",
    "note",
)


class Sheet:
    """The table of one part: each line is in the file as soon as it is known."""

    def __init__(self, folder, part, limit):
        self.part, self.ends = part, time.perf_counter() + limit
        self.lines = []
        self.path = Path(folder) / f"gpu_{part}.csv"
        with open(self.path, "w", newline="") as file:
            csv.DictWriter(file, FIELDS).writeheader()

    @property
    def left(self):
        """Seconds until the part's limit."""
        return self.ends - time.perf_counter()

    def write(self, case, **known):
        """Add a line, and print it."""
        line = dict.fromkeys(FIELDS, "") | {"part": self.part, "case": case} | known
        self.lines.append(line)
        with open(self.path, "a", newline="") as file:
            csv.DictWriter(file, FIELDS).writerow(line)
        print(as_text(line), flush=True)

    def run(self, cases):
        """Run (name, function) pairs while there is time; an error ends one case."""
        for name, case in cases:
            if self.left <= 0:
                self.write(name, note="left out: no time")
                continue
            try:
                case(self)
            except Exception as error:
                # The device time of all other cases would be lost.
                traceback.print_exc(limit=-4)
                self.write(name, note=f"FAILED: {type(error).__name__}: {error}"[:400])
            if IS_CUDA:
                torch.cuda.empty_cache()


def as_text(line):
    """Return the entries that are known, short."""
    words = []
    for name, value in line.items():
        if value == "" or name == "part":
            continue
        number = f"{value:.4g}" if isinstance(value, float) else f"{value}"
        words.append(number if name == "case" else f"{name}={number}")
    return "  ".join([f"[{line['part']}]", *words])


def synchronised():
    """Return the time once the device has done what it was told."""
    if IS_CUDA:
        torch.cuda.synchronize(DEVICE)
    return time.perf_counter()


def fits(sheet, case, model, rows, place, *, repeats=1, first=False, **more):
    """Fit so many times, one line each; `first` adds one before, for compiling.

    `more`: `error`, a function of the fitted model, and `note`. Returns the last model.
    """
    error, note = more.get("error"), more.get("note", "")
    for at in range(-1 if first else 0, repeats):
        seconds, fitted, peak = timed_fit(model, rows)
        words = [note, "first fit: compiles" if at < 0 else "", _stop_of(fitted)]
        found = fitted.certificate_
        sheet.write(
            case,
            n_rows=int(rows[0].shape[0]),
            n_columns=int(rows[0].shape[1]),
            place=place,
            seconds=seconds,
            relative_gap=float(found.relative_gap),
            converged=found.converged,
            error=math.nan if error is None else float(error(fitted)),
            n_vectors=n_vectors(fitted),
            peak_device_bytes=peak,
            passes=float(found.passes),
            note="; ".join(word for word in words if word),
        )
    return fitted


def timed_fit(model, rows):
    """Return seconds, the fitted model and the most bytes held on the device."""
    model = clone(model)
    if IS_CUDA:
        torch.cuda.reset_peak_memory_stats(DEVICE)
    begun = synchronised()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        model.fit(*rows)
    seconds = synchronised() - begun
    peak = torch.cuda.max_memory_allocated(DEVICE) if IS_CUDA else 0
    return seconds, model, peak


def n_vectors(model):
    """Return how many vectors the functions have."""
    if hasattr(model, "support_"):
        return len(model.support_)
    return len(model._functions.basis)


def _stop_of(model):
    found = model.certificate_
    return "" if found.converged else f"stopped by {found.stopped_by}"


def blocks(n, size=1 << 26):
    """Yield slices of so many rows at most."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
