"""Tables of docs/gpu.md."""

import csv
import statistics
from pathlib import Path

from benchmarks.readme import table

RESULTS = Path(__file__).parent / "results"
CEILING = {"float32": "matmul tf32 (flop/s)", "float64": "matmul (flop/s)"}


def lines_of(part):
    path = RESULTS / f"gpu_{part}.csv"
    if not path.exists():
        return []
    with path.open() as file:
        return [line for line in csv.DictReader(file) if line["seconds"]]


def grouped(part, *by):
    """Return the repeats of each case, first fits (which compile) apart."""
    groups = {}
    for line in lines_of(part):
        if "compiles" not in line["note"] and "warm-up" not in line["case"]:
            groups.setdefault(tuple(line[name] for name in by), []).append(line)
    return groups


def seconds(repeats):
    return statistics.median(float(line["seconds"]) for line in repeats)


def rate(repeats):
    return statistics.median(float(line["values_per_second"]) for line in repeats)


def board():
    groups, found = grouped("board", "case", "n_rows"), []
    for (case, n), repeats in groups.items():
        if not case.startswith("checkerboard"):
            continue
        last, passed = repeats[-1], groups.get(("one pass, float64", n))
        memory = float(last["peak_device_bytes"]) / 1e9
        each = f"{1e3 * seconds(passed):.3g} ms, {rate(passed):.1e}" if passed else ""
        found.append(
            f"| {case.split('=')[1]} | {int(n):,} | {seconds(repeats):.3g} | "
            f"{float(last['relative_gap']):.1e} | {float(last['passes']):.0f} | "
            f"{last['n_vectors']} | {each if case.endswith('=1000') else ''} | "
            f"{memory:.1f} |"
        )
    head = (
        "| C | rows | seconds | gap, all rows | passes | vectors | a float64 pass, "
        "kernel values/s | GB on the card, with the rows |"
    )
    title = (
        "**Checkerboard**, gamma = 0.37, tol = 1e-3, float32 rows and int8 labels on "
        "the card:"
    )
    return table(title, head, found)


def kernels():
    groups = grouped("kernels", "case")
    ceilings = {
        kind: rate(groups[(f"{name}, d=8192, {kind}",)])
        for kind, name in CEILING.items()
        if (f"{name}, d=8192, {kind}",) in groups
    }
    found = []
    for (case,), repeats in groups.items():
        if not case.startswith("fused rbf"):
            continue
        _, d, kind = case.split(", ")
        plain = groups.get((case.replace("fused", "torch"),))
        width, own = int(d.removeprefix("d=")), rate(repeats)
        # The products of 3xTF32 are three for one.
        products = 2 * width * own * (3 if kind == "float32" else 1)
        share = products / ceilings[kind] if width > 8 and kind in ceilings else None
        found.append(
            f"| {width} | {kind} | {own:.2e} | {float(repeats[-1]['error']):.1e} | "
            f"{rate(plain):.1e} | {f'{share:.0%}' if share else ''} |"
        )
    head = (
        "| columns | precision | kernel values/s | relative error | blocked torch | "
        "share of the matrix ceiling |"
    )
    title = (
        "**Kernel times vector**, Gaussian, 1000 vectors, beside blocked torch in the "
        "same run (float32 products are\nthree TF32 products; the ceiling is that of "
        "`torch.matmul` in TF32, or in float64, 8192 x 8192):"
    )
    return table(title, head, found)


def sets():
    found = []
    commits = " and ".join(
        dict.fromkeys(line["commit"].partition(" ")[0] for line in lines_of("sets"))
    )
    for (case, n, place, how), repeats in grouped(
        "sets", "case", "n_rows", "place", "commit"
    ).items():
        last = repeats[-1]
        words = how.partition(" ")[2]
        where = {"gpu": "H200", "cpu16": "16 cores"}[place]
        found.append(
            f"| {case} {words} | {int(n):,} | {where} | {seconds(repeats):.3g} | "
            f"{float(last['error']):.4g} | {float(last['relative_gap']):.1e} |"
        )
    head = "| set | rows | where | seconds | error | gap |"
    title = (
        "**Cells, one class and few vectors**, on the card and on that machine's 16 "
        f"cores (commits {commits}; error:\nshare of wrong labels, share of outliers "
        "of the one class; cells have a gap each, the worst is told):"
    )
    return table(title, head, found)


def exact():
    found = []
    for (case, n), repeats in grouped("exact", "case", "n_rows").items():
        last = repeats[-1]
        memory = float(last["peak_device_bytes"]) / 1e9
        ended = "" if last["converged"] == "True" else f" ({last['note']})"
        found.append(
            f"| {case} | {int(n):,} | {seconds(repeats):.3g} | "
            f"{float(last['error']):.4g} | {float(last['relative_gap']):.1e}{ended} | "
            f"{int(last['n_vectors']):,} | {memory:.1f} |"
        )
    head = (
        "| problem | rows | seconds | error | gap, all rows | support vectors | "
        "GB on the card |"
    )
    title = (
        "**All rows decide** (the exact machine and `corevec.svm`; default parameters "
        "where none are named; error: share\nof wrong labels, RMSE of friedman, share "
        "of outliers of the one class; one fit each, after one of 20,000 rows):"
    )
    return table(title, head, found)


def streamed():
    found = [
        f"| {line['case']} | {float(line['seconds']):.3g} | {line['note']} |"
        for line in lines_of("streamed")
    ]
    title = "**Rows in host memory**, four times what the card was allowed:"
    return table(title, "| what | seconds | remark |", found)


def answers():
    path = RESULTS / "gpu_answers.csv"
    if not path.exists():
        return ""
    with path.open() as file:
        notes = [line["note"] for line in csv.DictReader(file)]
    agree = sum(note.startswith("agree") for note in notes)
    differ = sum(note.startswith("DIFFERS") for note in notes)
    return (
        f"**Answers**: of {agree + differ} comparisons of a fit on the card with the "
        f"CPU's (twelve models, float32 and float64\nrows) {agree} agree: primal "
        "values within each other's certificates, the same certificate of one model in "
        "both\nplaces (benchmarks/results/gpu_answers.csv).\n\n"
    )


GPU = (board, kernels, exact, sets, streamed, answers)
