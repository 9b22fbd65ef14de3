"""Kernel-times-vectors on a CUDA machine: values a second, error, and the ceilings.

    python -m benchmarks.gpu_kernels out.csv

Every line is one measurement: the fused kernel under some tile sizes, the blocked torch
path on fewer rows, or a ceiling of the machine (`values_per_s` is then bytes or
floating-point operations a second). Device events, the median of five after two
warm-ups; compiling is outside. The error is ||out - ref|| / ||ref|| against float64
torch on rows from both ends and the middle.
"""

from __future__ import annotations

import csv
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from corevec.backend import gpu
from corevec.backend.gpu import triton_times as _fused
from corevec.backend.profiles import Profile

COLUMNS = (2, 22, 54, 128, 784)
BASIS = (160, 1000)
MOST_VALUES = 4e10
MOST_BYTES = 4e9
TORCH_VALUES = 1e9
CHECKED_ROWS = 3000
NAMES = ("rbf", "laplacian", "inverse-distance", "linear", "poly", "sigmoid")
FIELDS = (
    "what",
    "d",
    "dtype",
    "k",
    "config",
    "seconds",
    "values_per_s",
    "relative_error",
)
# Tile sizes to try beside the chosen ones, by (columns, precision).
FEW_32 = (
    {"rows": 1024},
    {"rows": 256, "warps": 2},
    {"unroll": 8},
    {"rows": 1024, "unroll": 8},
)
FEW_64 = ({"rows": 512}, {"rows": 128, "warps": 2}, {"unroll": 8})
ONCE_32 = (
    {"basis": 32},
    {"basis": 64},
    {"basis": 64, "rows": 64},
    {"basis": 64, "rows": 256, "warps": 8},
)
LOOP_32 = (
    {"basis": 64, "warps": 4},
    {"basis": 128},
    {"basis": 128, "stages": 4},
    {"basis": 64, "stages": 2},
)
MANY_64 = (
    {"rows": 128, "warps": 8},
    {"rows": 128, "basis": 64, "warps": 8},
    {"columns": 16},
    {"basis": 64, "warps": 8},
)


def candidates(d: int, dtype: torch.dtype, k: int) -> list[dict[str, int]]:
    """Return the chosen sizes, then others, none of them twice."""
    single = dtype == torch.float32
    if d <= _fused.FEW_COLUMNS:
        others = FEW_32 if single else FEW_64
    elif not single:
        others = MANY_64
    else:
        others = ONCE_32 if d <= 64 else LOOP_32
    chosen = _fused.configuration(d, dtype, 1, k)
    found = [chosen]
    for other in others:
        if chosen | other not in found:
            found.append(chosen | other)
    return found


def seconds_of(function: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median time of a call on the device."""
    for _ in range(2):
        function()
    taken = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function()
        stop.record()
        stop.synchronize()
        taken.append(start.elapsed_time(stop) / 1e3)
    return statistics.median(taken)


def line(
    what: str,
    d: int = 0,
    dtype: str = "",
    k: int = 0,
    config: str = "",
    seconds: float = float("nan"),
    rate: float = float("nan"),
    error: float = float("nan"),
) -> dict[str, Any]:
    """Return one row of the table, and print it."""
    numbers = (f"{seconds:.6g}", f"{rate:.4g}", f"{error:.3g}")
    row = dict(zip(FIELDS, (what, d, dtype, k, config, *numbers), strict=True))
    print(*row.values(), sep="  ", flush=True)
    return row


def copying() -> dict[str, Any]:
    """Measure a copy on the device; bytes read and written count."""
    a = torch.randn(1 << 29, device="cuda")
    b = torch.empty_like(a)
    seconds = seconds_of(lambda: b.copy_(a))
    rate = 2 * a.numel() * a.element_size() / seconds
    return line("copy (bytes/s)", dtype="float32", seconds=seconds, rate=rate)


def multiplying(what: str, dtype: torch.dtype, precision: str) -> dict[str, Any]:
    """Measure a large matrix product through torch."""
    torch.set_float32_matmul_precision(precision)
    m = torch.randn((8192, 8192), device="cuda", dtype=dtype)
    seconds = seconds_of(lambda: m @ m)
    torch.set_float32_matmul_precision("highest")
    word = str(dtype).removeprefix("torch.")
    return line(what, 8192, word, 8192, seconds=seconds, rate=2 * 8192**3 / seconds)


class Problem:
    """Rows, a basis and coefficients on the device, and what the truth is."""

    def __init__(
        self, X: torch.Tensor, k: int, name: str = "rbf", outputs: int = 1
    ) -> None:
        n, d = X.shape
        self.X = X[: max(1000, min(n, int(MOST_VALUES / k)) - 3)]  # a torn last tile
        self.Z = torch.randn((k, d), device="cuda", dtype=X.dtype)
        self.coef = torch.randn((k, outputs), device="cuda", dtype=X.dtype)
        self.kernel = Profile(NAMES.index(name), 1.0 / d, 1.0, 3.0)
        self.k, self.d, self.name = k, d, name
        self.dtype = str(X.dtype).removeprefix("torch.")
        self.prepared = [gpu.Prepared(a).with_squares() for a in (self.X, self.Z)]
        half = torch.arange(CHECKED_ROWS, device="cuda")
        middle = torch.randint(len(self.X), (CHECKED_ROWS,), device="cuda")
        self.some = torch.cat([half % len(self.X), middle, len(self.X) - 1 - half])
        self.some.clamp_(min=0)
        wide = [a.double() for a in (self.X[self.some], self.Z, self.coef)]
        rows, basis = (gpu.Prepared(a) for a in wide[:2])
        self.truth = gpu.block(self.kernel, rows, basis) @ wide[2]

    def error(self, out: torch.Tensor) -> float:
        """Return the relative error on some rows; not a number anywhere is one."""
        if not bool(torch.isfinite(out).all()):
            return float("inf")
        wrong = torch.linalg.norm(out[self.some] - self.truth)
        return float(wrong / torch.linalg.norm(self.truth))

    def fused(self, config: dict[str, int]) -> dict[str, Any]:
        """Measure the fused kernel under one set of sizes."""
        outputs = self.coef.shape[1]
        many = f", {outputs} outputs" if outputs > 1 else ""
        words = " ".join(f"{key}={value}" for key, value in config.items())
        about = (f"fused {self.name}{many}", self.d, self.dtype, self.k, words)

        def run() -> torch.Tensor:
            return _fused.times(self.kernel, *self.prepared, self.coef, config)

        try:
            error = self.error(run())
            seconds = seconds_of(run)
        except Exception as failure:
            # A set of sizes that the card cannot hold is a result too.
            print(f"failed: {failure}"[:300])
            return line(f"{about[0]} FAILED", *about[1:])
        rate = len(self.X) * self.k / seconds
        return line(*about, seconds=seconds, rate=rate, error=error)

    def blocked(self) -> dict[str, Any]:
        """Measure blocked torch on some of the rows."""
        n = min(len(self.X), int(TORCH_VALUES / self.k))
        x, z = self.prepared
        there = self.kernel, x.part(slice(n)), z, self.coef
        seconds = seconds_of(lambda: gpu.times_by_tiles(*there))
        rate = n * self.k / seconds
        about = (f"torch {self.name}", self.d, self.dtype, self.k, "")
        return line(*about, seconds=seconds, rate=rate)


def rows_of(d: int, dtype: torch.dtype) -> torch.Tensor:
    """Return as many random rows as a few gigabytes hold."""
    size = 4 if dtype == torch.float32 else 8
    n = int(min(MOST_BYTES / (size * d), MOST_VALUES / min(BASIS)))
    return torch.randn((n, d), device="cuda", dtype=dtype)


def measurements() -> Iterator[dict[str, Any]]:
    """Yield every line of the table."""
    yield copying()
    yield multiplying("matmul (flop/s)", torch.float32, "highest")
    yield multiplying("matmul tf32 (flop/s)", torch.float32, "high")
    yield multiplying("matmul (flop/s)", torch.float64, "highest")
    for d in COLUMNS:
        for dtype in (torch.float32, torch.float64):
            X = rows_of(d, dtype)
            for k in BASIS:
                problem = Problem(X, k)
                for config in candidates(d, dtype, k):
                    yield problem.fused(config)
                yield problem.blocked()
                del problem
            yield from others(X)
            del X
            torch.cuda.empty_cache()


def others(X: torch.Tensor) -> Iterator[dict[str, Any]]:
    """Yield other kernels and several outputs, at the chosen sizes."""
    d = X.shape[1]
    few = X[: int(5e9) // 160]
    if d in (2, 22):
        for name in ("laplacian", "inverse-distance", "poly", "sigmoid"):
            yield Problem(few, 160, name).fused(
                _fused.configuration(d, X.dtype, 1, 160)
            )
    if d in (2, 784):
        for outputs in (3, 10):
            problem = Problem(few, 1000, outputs=outputs)
            # Ten outputs of few columns are two launches of five.
            at_once = outputs // 2 if d == 2 and outputs == 10 else outputs
            sizes = _fused.configuration(d, X.dtype, at_once, 1000)
            yield problem.fused(sizes)


def run(out_csv: str) -> None:
    """Write all measurements to a CSV file, one line as soon as it is known."""
    started = time.perf_counter()
    torch.manual_seed(int(time.time()))  # fresh rows each time
    print(torch.cuda.get_device_name(), torch.__version__)
    best: dict[tuple[str, int, str, int], dict[str, Any]] = {}
    with open(out_csv, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for row in measurements():
            writer.writerow(row)
            file.flush()
            key = (row["what"], row["d"], row["dtype"], row["k"])
            known = best.get(key)
            if known is None or float(row["seconds"]) < float(known["seconds"]):
                best[key] = row
    print("\nthe fastest of each:")
    for row in best.values():
        print(*row.values(), sep="  ")
    print(f"{time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    run(sys.argv[1])
