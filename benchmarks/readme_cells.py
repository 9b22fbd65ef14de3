"""Tables of docs/cells.md."""

import json
import statistics

from benchmarks.readme import newest, table

NAMES = {
    "corevec_cells": "cells",
    "corevec_tol": "global",
    "corevec_subspace": "200 vectors (pursuit)",
    "corevec_subspace_regressor": "500 vectors (pursuit)",
    "corevec_cells_regressor": "cells",
    "sklearn_svc": "SVC",
    "sklearn_hgb": "HistGradientBoosting",
    "sklearn_hgb_regressor": "HistGradientBoosting",
    "nystroem_linearsvc": "Nystroem + LinearSVC",
}


def of(*sets):
    return [
        row
        for row in newest("cells")
        if row["dataset"] in sets and row["fit_seconds"] and row["test_error"]
    ]


def named(row):
    """Return the solver in words, with what differs between its cases."""
    params, name = row["params"], NAMES[row["solver"]]
    if "cells" in params:
        size, trees = params["cells"], params.get("n_trees", 1)
        name = '"auto"' if size == "auto" else f"cells of {size}"
        name += f", {trees} trees" if trees > 1 else ""
    if "max_iter" in params:
        name += f", {params['max_iter']} rounds"
    if row["dataset"] == "covtype7" and "learning_rate" in params:
        name += f" of steps {params['learning_rate']}"
    return name


def curve():
    groups = {}
    for row in of("covtype"):
        if row["params"].get("gamma") == 40.0:
            continue  # of the growth
        groups.setdefault((named(row), row["n"]), []).append(row)
    lines = []
    for (name, n), rows in groups.items():
        errors = [100 * float(row["test_error"]) for row in rows]
        seconds = statistics.median(float(row["fit_seconds"]) for row in rows)
        spread = f" ({min(errors):.2f} to {max(errors):.2f})" if len(errors) > 1 else ""
        lines.append(
            f"| {name} | {int(n):,} | {seconds:.1f} "
            f"| {statistics.mean(errors):.2f} %{spread} |"
        )
    title = (
        "**covtype**, class 2 against the rest, gamma and C of the cells chosen inside "
        "(their seconds count;\nfive splits of the rows for the first line; `python -m "
        "benchmarks cells`, as all but the last table):"
    )
    return table(title, "| model | rows | fit seconds | test error |", lines)


def tables():
    lines = []
    for name in ("covtype7", "skin", "kddcup99", "ijcnn1", "letter", "adult"):
        for row in of(name):
            lines.append(
                f"| {name} | {named(row)} | {int(row['n']):,} "
                f"| {float(row['fit_seconds']):.1f} "
                f"| {100 * float(row['test_error']):.2f} % |"
            )
    title = (
        "**Other tables**; global model, cells and auto with the same C and gamma; one "
        "thread, other work on\nthe other core (boosting with these settings diverges "
        "on the seven classes of covtype):"
    )
    return table(title, "| data | model | rows | fit seconds | test error |", lines)


def regressions():
    lines = [
        f"| {row['dataset']} | {named(row)} | {int(row['n']):,} "
        f"| {float(row['fit_seconds']):.1f} | {float(row['test_error']):.4g} |"
        for row in of("house_16h", "friedman_1m")
    ]
    title = (
        "**Regression**, square loss, one thread (RMSE in the units of y; friedman's "
        "noise is 1):"
    )
    return table(title, "| data | model | rows | fit seconds | RMSE |", lines)


def growth():
    rows = [row for row in of("covtype") if row["params"].get("gamma") == 40.0]
    rows += of("covtype_copies")
    lines = [
        f"| {int(row['n']):,} | {float(row['fit_seconds']):.1f} "
        f"| {1e6 * float(row['fit_seconds']) / int(row['n']):.1f} "
        f"| {float(row['peak_rss_mb']):.0f} |"
        for row in sorted(rows, key=lambda row: int(row["n"]))
    ]
    title = (
        "**Growth**: covtype, and jittered copies of it, C = 25, gamma = 40, two "
        "threads (the rows were fitted after one\nanother in one process, 1x last: its "
        "peak is that of all):"
    )
    head = "| rows | fit seconds | microseconds per row | peak resident MB |"
    return table(title, head, lines)


def more():
    lines = []
    for row in newest("cells_more"):
        note = json.loads(row["note"])
        if "auc" in note:
            lines.append(
                f"| one class, {int(row['n']):,} rows | {row['solver']} | "
                f"fit {float(row['fit_seconds']):.1f} s, AUC {note['auc']:.4f} |"
            )
        else:
            lines.append(
                f"| prediction of covtype | {row['solver']} ({int(row['n']):,} rows) | "
                f"{note['rows_per_second'] / 1e6:.3f} million rows/s |"
            )
    threads = {row["threads"] for row in newest("cells_more")}
    title = (
        f"**One class and prediction**, {' and '.join(sorted(threads))} thread(s) "
        "(`python -m benchmarks cells_more`):"
    )
    return table(title, "| | model | |", lines)


CELLS = (curve, tables, regressions, growth, more)
