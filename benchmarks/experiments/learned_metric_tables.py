"""A learned metric on all tables of more than 5,000 rows, beside boosting and xRFM.

One setting for all sets: cells of 1000 rows, the mean of three trees, gamma and C
chosen inside, and the same without a metric; HistGradientBoosting at two settings,
LightGBM, and xRFM. Columns are standardised and nothing else is done to a table.
Errors are those of one split; three sets are samples of 50,000 and 100,000 rows.
`--sets plain_letter` runs one set; what the CSV holds already is not run again.
"""

import numpy as np

from benchmarks.case import Case

REPEATS = 1
OURS = {"C": 1.0, "gamma": "tune", "cells": 1000, "n_trees": 3}
METRICS = ("isotropic", "learned")
SQUARES = {"tube": 0.0, "mu": None}
BOOST = {"learning_rate": 0.1, "max_leaf_nodes": 31}
ROUNDS = (100, 300)
LIGHT = {"learning_rate": 0.1, "n_estimators": 300}
LEAF_ROWS = 4000
NUMBERS = (
    "house_16h",
    "elevators",
    "ailerons",
    "pole",
    "puma32h",
    "cpu_act",
    "kin8nm",
    "california_housing",
    "cpu_small",
    "house_8l",
    "friedman",
    "kin40k",
)
CLASSES = (
    "letter",
    "satimage",
    "banana",
    "ijcnn1",
    "adult_a9a",
    "shuttle",
    "skin_nonskin",
    "covtype",
    "web_w8a",
    "kddcup99_10percent",
)
SETS = [f"plain_{name}" for name in (*NUMBERS, *CLASSES)]
# How far the learned metric may be behind: a share of the RMSE, and of the rows.
MOST_RMSE, MOST_ERROR = 0.01, 0.002


def cases(quick):
    few = {"n": 2_000} if quick else {}
    for dataset in SETS:
        is_regression = dataset.removeprefix("plain_") in NUMBERS
        yield from of_set(dataset, is_regression, few)


def of_set(dataset, is_regression, few):
    for metric in METRICS:
        own = OURS | {"metric": metric} | (SQUARES if is_regression else {})
        solver = "corevec_cells_regressor" if is_regression else "corevec_cells"
        yield Case(solver, dataset, own, few)
    for max_iter in ROUNDS:
        solver = "sklearn_hgb_regressor" if is_regression else "sklearn_hgb"
        yield Case(solver, dataset, BOOST | {"max_iter": max_iter}, few)
    task = {"is_regression": is_regression}
    yield Case("lightgbm_gbdt", dataset, LIGHT | task, few)
    yield Case("xrfm_trees", dataset, {"leaf_rows": LEAF_ROWS} | task, few)


def machine_of(row):
    """Return what the tables call a row of the CSV."""
    if row["solver"].startswith("corevec"):
        return "cells, " + ("learned" if "learned" in row["params"] else "isotropic")
    if row["solver"].startswith("sklearn_hgb"):
        return "HGB 300" if '"max_iter": 300' in row["params"] else "HGB 100"
    return "LightGBM" if row["solver"] == "lightgbm_gbdt" else "xRFM"


def report(rows, folder):
    """Return a table of errors with average ranks, over the sets that all have."""
    rows = rows.assign(machine=[machine_of(row) for _, row in rows.iterrows()])
    errors = rows.pivot_table("test_error", "dataset", "machine", sort=False)
    parts = ["## Test errors", "RMSE of regressions, else the share of wrong rows."]
    parts.append(as_markdown(errors))
    counted = errors.dropna(axis=1, how="all")
    for leave in ((), ("xRFM",)):
        kept = counted.drop(columns=list(leave), errors="ignore").dropna()
        if len(kept) and (not leave or leave[0] in counted):
            parts.append(ranks_of(kept))
    return [*parts, behind(errors)]


def as_markdown(errors):
    names = list(errors.columns)
    lines = ["| data | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for dataset, row in errors.iterrows():
        cells = ["" if np.isnan(one) else f"{one:.4g}" for one in row]
        lines.append(f"| {dataset.removeprefix('plain_')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ranks_of(errors):
    """Return the average ranks in words."""
    mean = errors.rank(axis=1).mean().sort_values()
    words = ", ".join(f"{name} {rank:.2f}" for name, rank in mean.items())
    return f"Average ranks over the {len(errors)} sets that all of these have: {words}."


def behind(errors):
    """Return the sets on which the learned metric is too far behind none."""
    if not {"cells, learned", "cells, isotropic"} <= set(errors.columns):
        return ""
    both = errors[["cells, learned", "cells, isotropic"]].dropna()
    found = []
    for dataset, (learned, plain) in both.iterrows():
        is_regression = dataset.removeprefix("plain_") in NUMBERS
        most = plain * (1 + MOST_RMSE) if is_regression else plain + MOST_ERROR
        if learned > most:
            found.append(f"{dataset} ({learned:.4g} for {plain:.4g})")
    words = ", ".join(found) if found else "none"
    return (
        "Sets on which the learned metric is more than 1 % of the RMSE, or 0.2 points, "
        f"behind none, of {len(both)}: {words}."
    )
