"""Tables of docs/larger.md: a cluster on this machine, and 20 GB of Parquet."""

import json

from benchmarks.readme import newest, table


def found(kind, experiment="dask_cluster"):
    """Return the rows of one kind, smallest first, with their notes."""
    rows = [one for one in newest(experiment) if one["data_args"]["kind"] == kind]
    rows = [one for one in rows if not one["note"].startswith("error:")]
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


def spark_fits():
    rows = [one | {"name": ""} for one in found("fit", "spark_cluster")]
    killed = ", one worker killed and another one started"
    for row in found("killed", "spark_cluster"):
        rows += [row | row["undisturbed"] | {"name": ""}, row | {"name": killed}]
    lines = [
        f"| {size(row):,}{row['name']} | {row['data_args']['workers']} "
        f"| {float(row['fit_seconds']):.0f} | {float(row['passes']):.0f} "
        f"| {float(row['gap']):.1e} | {row['first_round_bytes'] / 1e6:.1f} "
        f"| {row['largest_later_round_bytes'] / 1e6:.2f} | {row['driver_mb']:.0f} "
        f"| {row['driver_jvm_mb']:.0f} | {row['executor_python_mb']:.0f} |"
        for row in sorted(rows, key=size)
    ]
    title = (
        "**Certified fits** of a lazily made checkerboard, C = 1000, gamma = 1, a "
        "standalone cluster on one machine, workers of\none core (`python -m "
        "benchmarks spark_cluster`); MB of a round out and back, then peak MB of "
        "processes:"
    )
    head = (
        "| rows | workers | seconds | passes | gap on all rows | first round | later, "
        "at most | driver | its JVM | Python of an executor |"
    )
    return table(title, head, lines)


def spark_price():
    lines = [
        f"| a million rows held by two {who}, against two threads | "
        f"{float(row['fit_seconds']):.1f} s against {row['plain_seconds']:.1f} s: "
        f"{row['ratio']:.1f} times |"
        for kind, who in (("overhead", "executors"), ("dask", "workers of Dask"))
        for row in found(kind, "spark_cluster")
    ]
    for row in found("overhead", "spark_cluster"):
        lines.append(
            f"| predictions per second through `mapInArrow`, against two threads | "
            f"{row['predicted_per_second']:,.0f} against "
            f"{row['plain_predicted_per_second']:,.0f} |"
        )
    return table("**What Spark costs**:", "| | |", lines)


SPARK = (spark_fits, spark_price)
LARGER = (passes, fits, price, files)
