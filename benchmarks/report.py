"""CSV -> tables (markdown) and plots (PNG). Numbers in the docs come from here."""

import json
import logging

import pandas as pd

from benchmarks import plots
from benchmarks.experiments import EXPERIMENTS

log = logging.getLogger(__name__)

# The solver that a data set's times are divided by, first of these that ran.
REFERENCES = ("sklearn_svc", "sklearn_oneclass", "sklearn_svr")

# A reference that is tuned by itself: its C need not be the solver's.
TUNED = {"sklearn_svr"}

# Where the reference did not run on as many rows, this size of it is taken: the
# headline is corevec on 1,000,000 rows against SVC on 20,000.
REFERENCE_ROWS = 20_000

UNSHOWN = {"gamma_rule", "max_iter", "max_time", "tube"}
NUMBERS = [
    "n",
    "d",
    "n_test",
    "seed",
    "repeat",
    "compile_seconds",
    "fit_seconds",
    "predict_seconds",
    "peak_rss_mb",
    "train_error",
    "test_error",
    "n_support",
    "n_core",
    "sv_share",
    "primal",
    "dual",
    "gap",
    "passes",
    "rmse",
    "mre",
    "n_mre",
    "balanced_accuracy",
    "certify_seconds",
    "distance_mean",
    "distance_max",
    "n_pieces",
    "n_boundary_edges",
]
BOOLEANS = ("converged", "hit_limit", "cached")
GROUP = ["dataset", "n", "setting", "solver"]


def write_all(folder):
    """Write the report of every experiment's CSV in the folder."""
    for path in sorted(folder.glob("*.csv")):
        if path.stem in EXPERIMENTS:
            write(path)


def write(path):
    """Write `<experiment>.md` and its plots beside the CSV."""
    if not path.exists():
        log.warning("no rows for %s", path.stem)
        return
    rows = latest(read(path))
    failed = rows["note"].str.startswith("error:")
    pictures = plots.draw(path.stem, rows[~failed], path.parent)
    parts = [heading(path, rows), *own_report(path, rows[~failed])]
    parts += [table(summarise(rows[~failed]))]
    parts += [f"![{picture.stem}]({picture.name})" for picture in pictures]
    parts += remarks(rows)
    path.with_suffix(".md").write_text("\n\n".join(parts) + "\n")
    log.info("wrote %s", path.with_suffix(".md"))


def own_report(path, rows):
    """Return the tables and figures that an experiment makes of its rows itself."""
    make = getattr(EXPERIMENTS.get(path.stem), "report", None)
    return [] if make is None or rows.empty else make(rows, path.parent)


def read(path):
    """Return the rows of a CSV with numbers as numbers and the params spread out."""
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    for column in NUMBERS:
        if column not in rows:  # a file of an older version
            rows[column] = ""
        rows[column] = pd.to_numeric(rows[column], errors="coerce")
    for column in BOOLEANS:
        rows[column] = rows[column].map({"True": 1.0, "False": 0.0})
    params = rows["params"].map(json.loads)
    for name in ("C", "gamma", "nu"):
        rows[name] = [given.get(name) for given in params]
    rows["rule"] = [str(p.get("gamma_rule", p.get("gamma", ""))) for p in params]
    rows["setting"] = params.map(setting)
    return rows


def setting(params):
    """Return the parameters that distinguish cases, in words."""
    shown = {k: v for k, v in params.items() if k not in UNSHOWN}
    words = [
        f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in shown.items()
    ]
    if "gamma_rule" in params:
        words = [w for w in words if not w.startswith("gamma=")]
        words.append(f"gamma={params['gamma_rule']}")
    return ", ".join(sorted(words))


def latest(rows):
    """Return each case's rows of its last commit; if it ran twice, the last run."""
    rows = rows.sort_values("timestamp", kind="stable")
    newest = rows.groupby("case")["commit"].transform("last")
    rows = rows[rows["commit"] == newest]
    return rows.drop_duplicates(["case", "repeat"], keep="last")


def summarise(rows):
    """Return one line per case: medians over repeats and seeds, and every time."""
    # A probe (memory, cold start) knows no n of its own data set: keep it with n = 0.
    groups = rows.fillna({"n": 0}).groupby(GROUP, sort=False)
    lines = groups.agg(
        fits=("fit_seconds", "size"),
        seconds=("fit_seconds", "median"),
        compile_seconds=("compile_seconds", "max"),
        predict_seconds=("predict_seconds", "median"),
        test_error=("test_error", "mean"),
        error_sem=("test_error", "sem"),
        train_error=("train_error", "mean"),
        n_support=("n_support", "median"),
        n_core=("n_core", "median"),
        worst_gap=("gap", "max"),
        converged=("converged", count),
        hit_limit=("hit_limit", count),
        cached=("cached", count),
        peak_rss_mb=("peak_rss_mb", "max"),
        rmse=("rmse", "mean"),
        mre=("mre", "mean"),
        n_mre=("n_mre", "max"),
        balanced_accuracy=("balanced_accuracy", "mean"),
        certify_seconds=("certify_seconds", "median"),
        distance_mean=("distance_mean", "mean"),
        distance_max=("distance_max", "max"),
        n_pieces=("n_pieces", "max"),
        n_boundary_edges=("n_boundary_edges", "max"),
        C=("C", "first"),
        gamma=("gamma", "first"),
    ).reset_index()
    lines["all_seconds"] = [
        " ".join(f"{s:.3g}" for s in sorted(times))
        for _, times in groups["fit_seconds"]
    ]
    # A gamma in words ("tune") is that of no peer.
    lines["gamma"] = pd.to_numeric(lines["gamma"], errors="coerce")
    lines["ratio"] = [ratio(line, lines) for line in lines.itertuples()]
    return lines


def count(values):
    """Return how many are true; nothing where nobody said."""
    return values.sum(min_count=1)


def ratio(line, lines):
    """Return seconds divided by the reference's, on as many rows where it ran."""
    peers = lines[
        (lines["dataset"] == line.dataset)
        & lines["solver"].isin(REFERENCES)
        & ((lines["C"] == line.C) | lines["C"].isna() | lines["solver"].isin(TUNED))
        & (lines["gamma"].sub(line.gamma or 0).abs() < 0.02 * (line.gamma or 1))
    ]
    if peers.empty or line.solver in REFERENCES:
        return ""
    distance = (peers["n"] - line.n).abs()
    wanted = line.n if (distance == 0).any() else REFERENCE_ROWS
    peer = peers.loc[(peers["n"] - wanted).abs().idxmin()]
    size = "" if peer["n"] == line.n else f" (n={int(peer['n']):,})"
    return f"{line.seconds / peer['seconds']:.3g}{size}"


SHOWN = {
    "dataset": "data",
    "n": "rows",
    "setting": "setting",
    "solver": "solver",
    "seconds": "fit s (median)",
    "ratio": "time / SVC's",
    "test_error": "test error",
    "error_sem": "± s.e.",
    "train_error": "train error",
    "worst_gap": "gap (worst)",
    "n_support": "SVs",
    "n_core": "core",
    "converged": "converged",
    "hit_limit": "hit limit",
    "cached": "cached",
    "fits": "fits",
    "compile_seconds": "compile s",
    "predict_seconds": "predict s",
    "peak_rss_mb": "peak MB",
    "all_seconds": "all fit seconds",
}
# Shown where some row has them.
SPECIAL = {
    "rmse": "RMSE / max y",
    "mre": "MRE",
    "n_mre": "rows of MRE",
    "balanced_accuracy": "balanced accuracy",
    "certify_seconds": "certify s",
    "distance_mean": "mean distance, % of the diagonal",
    "distance_max": "max distance, %",
    "n_pieces": "pieces",
    "n_boundary_edges": "boundary edges",
}


def table(lines):
    """Return the summary as a markdown table."""
    there = {k: v for k, v in SPECIAL.items() if lines[k].notna().any()}
    shown = SHOWN | there
    header = "| " + " | ".join(shown.values()) + " |"
    rule = "|" + "---|" * len(shown)
    body = [
        "| " + " | ".join(cell(line[column]) for column in shown) + " |"
        for _, line in lines.iterrows()
    ]
    return "\n".join([header, rule, *body])


def cell(value):
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.3g}"


def heading(path, rows):
    """Return the title and where the numbers come from."""
    row = rows.iloc[-1]
    facts = ("python", "numpy", "numba", "sklearn", "corevec")
    versions = ", ".join(f"{name} {row[name]}" for name in facts)
    commits = ", ".join(rows["commit"].unique())
    return (
        f"# {path.stem}\n\n"
        f"Generated from `{path.name}` by `python -m benchmarks report`; do not edit. "
        f"Commit {commits}, {row['machine']}, {row['threads']} threads "
        f"(scikit-learn's SVC uses one), {versions}. {len(rows)} fits, "
        f"{rows['timestamp'].min()} to {rows['timestamp'].max()}. Ratios below 1 mean "
        "faster than the reference; a number of rows in brackets is the reference's, "
        "where it was not run on as many. `cached`: fits of a slow peer measured "
        "earlier on this machine with the same versions."
    )


def remarks(rows):
    """Return the warnings and errors that were heard, each distinct one once."""
    told = rows[rows["note"] != ""]
    if told.empty:
        return []
    lines = ["## Notes of the runs", ""]
    for (solver, dataset), group in told.groupby(["solver", "dataset"], sort=False):
        for note in group["note"].str.slice(0, 300).unique()[:3]:
            text = " ".join(note.split()).replace("|", ";")
            lines.append(f"- {solver} on {dataset}: {text}")
    return ["\n".join(lines)]
