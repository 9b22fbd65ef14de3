"""Tables of docs/larger.md: a cluster on this machine, and 20 GB of Parquet."""

import json

from benchmarks.readme import newest, table


def found(kind):
    """Return the rows of one kind, smallest first, with their notes."""
    rows = [one for one in newest("dask_cluster") if one["data_args"]["kind"] == kind]
    return sorted((one | json.loads(one["note"]) for one in rows), key=size)


def size(row):
    return int(row["n"])


def passes():
    lines = [
        f"| {size(row):,} | {float(row['fit_seconds']):.2f} "
        f"| {row['seconds_per_million']:.3f} | {row['client_mb']:.0f} "
        f"| {row['scheduler_mb']:.0f} | {row['largest_worker_mb']:.0f} |"
        for row in found("one_pass")
    ]
    title = (
        "**One pass**: a lazily made checkerboard, 300 vectors, two workers of one "
        "thread and 1.5 GB on one machine,\nmedian of 2 to 9 (`python -m benchmarks "
        "dask_cluster`, as the next two):"
    )
    head = "| rows | seconds | per million | client, peak MB | scheduler | worker |"
    return table(title, head, lines)


def fits():
    lines = [
        f"| {size(row):,} | {float(row['fit_seconds']):.0f} "
        f"| {float(row['passes']):.0f} | {row['n_vectors']} "
        f"| {float(row['gap']):.1e} | {row['client_mb']:.0f} "
        f"| {row['scheduler_mb']:.0f} | {row['largest_worker_mb']:.0f} |"
        for row in found("fit")
    ]
    title = (
        "**Certified fits** of that checkerboard, C = 1000, gamma = 1 (the passes that "
        "check the rows\nand bring a sample are in the seconds, not in the count):"
    )
    head = (
        "| rows | seconds | passes | vectors | gap on all rows "
        "| client, peak MB | scheduler | worker |"
    )
    return table(title, head, lines)


def price():
    lines = []
    for row in found("overhead"):
        lines.append(
            f"| a million rows held by the workers, against two threads | "
            f"{float(row['fit_seconds']):.2f} s against {row['plain_seconds']:.2f} s: "
            f"{row['ratio']:.2f} times |"
        )
    for row in found("traffic"):
        rounds = json.loads(row["all_rounds"])
        sent, received = max(rounds, key=sum)
        lines.append(
            f"| a round with {row['n_vectors']} core rows of 50 columns, at most | "
            f"{sent / 1e6:.2f} MB to each worker, {received / 1e6:.2f} MB back |"
        )
        lines.append(
            "| the random sample at the start of that fit | "
            f"{row['first_round_bytes'] / 1e6:.0f} MB, once |"
        )
    return table("**What Dask costs**:", "| | |", lines)


def files():
    lines = []
    for row in newest("parquet_size"):
        note = json.loads(row["note"])
        lines.append(
            f"| {size(row):,} | {note['file_gb']:.1f} GB "
            f"| {float(row['fit_seconds']):.0f} | {float(row['gap']):.1e} "
            f"| {float(row['peak_rss_mb']):.0f} | {note['peak_anonymous_mb']:.0f} |"
        )
    title = (
        "**Parquet** on this machine's disk, 25 float32 columns, linear kernel, "
        "`memory_budget=2**27`\n(`python -m benchmarks parquet_size`):"
    )
    head = "| rows | files | seconds | gap | peak resident MB | anonymous of it |"
    return table(title, head, lines)


LARGER = (passes, fits, price, files)
