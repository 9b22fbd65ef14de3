"""Checks and timings on a machine with a GPU, in one call.

    PYTHONPATH=src python benchmarks/gpu.py OUT_FOLDER [--parts answers,board,...]

Each part writes OUT_FOLDER/gpu_<part>.csv, a line as soon as it is known; a table of
medians is printed at the end. A part has a limit in seconds, looked at between its
cases; what fails is a line that says so. ``COREVEC_GPU_BENCH_DEVICE=cpu`` and
``COREVEC_GPU_BENCH_SMALL=1`` try the script where there is no GPU.
"""

import argparse
import platform
import statistics
import sys
import time
from importlib import import_module
from pathlib import Path

if __package__ in (None, ""):  # run as a file: its folder is on the path, not ours
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.gpu_sheet import DEVICE, IS_CUDA, Sheet

# Seconds of each part; 1,070 in all. A case that has begun is not cut.
PARTS = {
    "answers": 80,
    "edges": 60,
    "board": 110,
    "kernels": 60,
    "sets": 300,
    "streamed": 60,
    "exact": 420,
}
MODULES = {"kernels": "kernel_rates"}


def main():
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--cases", default="", help="only those that begin with these")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    describe()
    lines = []
    for part in asked.parts.split(","):
        lines += run_part(asked.folder, part, tuple(asked.cases.split(",")))
    print("\nmedians")
    for line in table(lines):
        print(line)


def describe():
    """Print the machine and the versions."""
    import numpy
    import sklearn
    import torch

    device = torch.cuda.get_device_name(DEVICE) if IS_CUDA else str(DEVICE)
    words = (device, platform.python_version(), torch.__version__)
    print(*words, numpy.__version__, sklearn.__version__, flush=True)


def run_part(folder, part, begin=("",)):
    """Run one part; return its lines, whatever happens in it."""
    begun = time.perf_counter()
    sheet = Sheet(folder, part, PARTS[part])
    try:
        module = import_module(f"benchmarks.gpu_{MODULES.get(part, part)}")
        sheet.run(case for case in module.cases() if case[0].startswith(begin))
    except Exception as error:
        # The other parts still have something to say.
        sheet.write("all", note=f"FAILED: {type(error).__name__}: {error}"[:400])
    print(f"[{part}] took {time.perf_counter() - begun:.0f} s", flush=True)
    return sheet.lines


def table(lines):
    """Return a line of text for each case: the median of its repeats."""
    groups = {}
    for line in lines:
        if line["seconds"] != "" and "compiles" not in line["note"]:
            key = tuple(line[k] for k in ("part", "case", "n_rows", "place"))
            groups.setdefault(key, []).append(line)
        elif "FAILED" in line["note"] or "DIFFERS" in line["note"]:
            yield f"{line['part']:9} {line['case']:34} {line['note'][:90]}"
    for (part, case, n_rows, place), group in groups.items():
        seconds = statistics.median(line["seconds"] for line in group)
        last = group[-1]
        more = [
            f"{name} {last[name]:.3g}"
            for name in ("relative_gap", "error", "values_per_second")
            if isinstance(last[name], float)
        ]
        rows = f"{n_rows:>14,}" if n_rows != "" else f"{'':14}"
        yield f"{part:9} {case:34} {rows} {place:6} {seconds:9.4g} s  {', '.join(more)}"


if __name__ == "__main__":
    main()
