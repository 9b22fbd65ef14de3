"""The pictures of the report: error and gap against time, time against rows."""

import json
from math import isfinite, nan

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib import ticker

COLOURS = {
    "corevec_cells": "tab:blue",
    "corevec_cells_regressor": "tab:blue",
    "sklearn_hgb": "black",
    "sklearn_hgb_regressor": "black",
    "corevec_tol": "tab:blue",
    "corevec_sampled": "tab:cyan",
    "corevec_paper": "tab:purple",
    "corevec_oneclass": "tab:blue",
    "corevec_svdd": "tab:cyan",
    "sklearn_svc": "tab:red",
    "sklearn_oneclass": "tab:red",
    "corevec_svc": "tab:cyan",
    "corevec_svr": "tab:cyan",
    "sklearnex_svc": "tab:orange",
    "sklearnex_svr": "tab:olive",
    "nystroem_linearsvc": "tab:green",
    "corevec_tube_auto": "tab:blue",
    "corevec_tube_fixed": "tab:green",
    "corevec_tube_paper": "tab:purple",
    "corevec_tube_sampled": "tab:cyan",
    "sklearn_svr": "tab:red",
    "corevec_ranker": "tab:blue",
    "corevec_pointwise": "tab:cyan",
    "hgb_pointwise": "tab:red",
    "corevec_pursuit": "tab:blue",
    "corevec_subspace": "tab:blue",
    "corevec_cpsp": "tab:purple",
    "corevec_cpsp_tr": "tab:pink",
    "corevec_hinge_nystroem": "tab:olive",
    "corevec_hinge_cholesky": "tab:brown",
    "corevec_cvm": "tab:gray",
    "corevec_rsvm": "tab:olive",
    "corevec_lsvm": "tab:brown",
    "corevec_compressed": "tab:cyan",
    "corevec_core_compressed": "teal",
    "corevec_subspace_regressor": "tab:blue",
    "corevec_subspace_coreset": "tab:cyan",
    "corevec_tube_all": "tab:cyan",
    "sklearn_linear": "black",
    "corevec_core_oneclass": "tab:cyan",
    "corevec_core_regressor": "tab:cyan",
    "corevec_core_stream": "tab:cyan",
    "corevec_stream": "tab:blue",
    "corevec_stream_oneclass": "tab:blue",
    "pegasos": "tab:purple",
    "reference_smo": "tab:orange",
    "reference_smo_l2": "gold",
    "reference_simplesvm": "tab:green",
    "reference_lasvm": "tab:pink",
    "reference_lasvm_online": "tab:pink",
    "reference_lasvm_stream": "tab:pink",
    "reference_bvm": "tab:brown",
    "river_classifier": "tab:green",
    "river_oneclass": "tab:green",
    "sklearn_perceptron": "tab:orange",
    "sklearn_sgd": "tab:red",
    "sklearn_sgd_oneclass": "tab:red",
}
PANEL = 3.2  # inches
# The columns of the result files, as the axes name them.
NAMES = {
    "fit_seconds": "time of the fit (s)",
    "gap": "relative duality gap",
    "mre": "mean relative error",
    "n": "training rows",
    "n_core": "core set",
    "n_support": "support vectors",
    "rmse": "root mean squared error",
    "sv_share": "share of support vectors",
    "test_error": "test error",
    "train_error": "training error",
}


def named(column):
    """Return the name of a column for an axis."""
    return NAMES.get(column, column)


def draw(experiment, rows, folder):
    """Draw what suits the experiment; return the paths of the pictures."""
    drawn = [save(make(rows), folder / name) for name, make in wanted(experiment, rows)]
    gaps = gap_histories(rows, folder / "history")
    if gaps is not None:
        drawn.append(save(gaps, folder / f"{experiment}_gap_history.png"))
    return drawn


def wanted(experiment, rows):
    """Yield (file name, function of rows) for an experiment with real fits."""
    if rows.empty or rows["test_error"].isna().all():
        return
    yield f"{experiment}_against_time.png", against_time
    if experiment == "checkerboard_scaling":
        yield f"{experiment}_against_rows.png", against_rows
    if experiment == "regression":
        yield f"{experiment}_against_rows.png", regression_against_rows
    if experiment == "loosli_canu":
        yield f"{experiment}_sweep.png", sweep


def save(figure, path):
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
    return path


def grid(n_rows, n_columns):
    size = (PANEL * 1.35 * n_columns, PANEL * n_rows)
    return plt.subplots(n_rows, n_columns, figsize=size, squeeze=False)


def scale(axis, values):
    """Make both axes logarithmic where there is data, ticks as plain numbers."""
    if values.notna().any():
        axis.set_xscale("log")
        plain_ticks(axis.xaxis)
    if (values > 0).any():
        axis.set_yscale("log")
        axis.set_ylim(bottom=floor_of(values) / 1.5)
        plain_ticks(axis.yaxis)


def floor_of(values):
    """Return where zeros, and gaps below zero by rounding, are drawn: below the rest.

    A third of the least positive value. An axis that goes on to zero and beyond would
    have ticks at negative seconds.
    """
    positive = values[values > 0]
    return positive.min() / 3 if len(positive) else 0.0


def floored(values, floor):
    """Return the known values, not below the floor of their axis."""
    return values.clip(lower=floor)


def plain_ticks(axis):
    """Label a logarithmic axis: 0.2 and 500, and powers where there are many digits.

    Over fewer than two decades powers of ten alone would leave one label or none.
    """
    low, high = axis.get_view_interval()
    parts = (1.0, 2.0, 5.0) if high < 100 * max(low, 1e-300) else (1.0,)
    axis.set_major_locator(ticker.LogLocator(subs=parts))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def against_time(rows):
    """Test error (above) and gap (below) against seconds, one column per data set."""
    names = list(rows["dataset"].unique())
    figure, axes = grid(2, len(names))
    for column, name in enumerate(names):
        here = rows[rows["dataset"] == name]
        for axis, value in zip(axes[:, column], ("test_error", "gap"), strict=True):
            floor = floor_of(here[value])
            for solver, group in here.groupby("solver"):
                axis.scatter(
                    group["fit_seconds"],
                    floored(group[value], floor),
                    14,
                    COLOURS[solver],
                    label=solver,
                )
            axis.set(xlabel=named("fit_seconds"), ylabel=named(value), title=name)
            scale(axis, here[value])
        axes[0, column].legend(fontsize=7)
    figure.tight_layout()
    return figure


def lines_of(axis, rows, x, y):
    """Draw the median of y for each x, one line per solver."""
    floor = floor_of(rows[y])
    for solver, group in rows.groupby("solver"):
        medians = floored(group.groupby(x)[y].median().dropna(), floor)
        if not medians.empty:
            axis.plot(
                medians.index, medians, "o-", ms=3, c=COLOURS[solver], label=solver
            )
    axis.set(xlabel=named(x), ylabel=named(y))
    scale(axis, rows[y])


def against_rows(rows):
    """Figure 2 of the CVM paper: time, SVs, errors against rows, by choice of gamma."""
    values = ("fit_seconds", "n_support", "train_error", "test_error")
    rules = list(rows["rule"].unique())
    figure, axes = grid(len(values), len(rules))
    for column, rule in enumerate(rules):
        for axis, value in zip(axes[:, column], values, strict=True):
            lines_of(axis, rows[rows["rule"] == rule], "n", value)
        axes[0, column].set_title(f"gamma = {rule}")
        axes[0, column].legend(fontsize=7)
    figure.tight_layout()
    return figure


def regression_against_rows(rows):
    """Figures 2 and 3 of the CVR paper: errors, SVs, time against rows, by data set.

    Crosses are times that were extrapolated, not measured.
    """
    values = ("rmse", "mre", "n_support", "n_core", "fit_seconds")
    names = list(rows["dataset"].unique())
    figure, axes = grid(len(values), len(names))
    for column, name in enumerate(names):
        here = rows[rows["dataset"] == name]
        told = here["stopped_by"] == "extrapolated"
        for axis, value in zip(axes[:, column], values, strict=True):
            is_time = value == "fit_seconds"
            lines_of(axis, here if is_time else here[~told], "n", value)
        axes[-1, column].scatter(
            here["n"][told], here["fit_seconds"][told], 40, "black", "x"
        )
        axes[0, column].set_title(name)
        axes[0, column].legend(fontsize=7)
    figure.tight_layout()
    return figure


def sweep(rows):
    """Figure 3 of Loosli and Canu: time, error, SVs and core, SVs' share, against C."""
    values = ("fit_seconds", "test_error", "n_support", "n_core", "sv_share", "gap")
    columns = list(rows.groupby(["gamma", "n"]).groups)
    figure, axes = grid(len(values), len(columns))
    for column, (gamma, n) in enumerate(columns):
        here = rows[(rows["gamma"] == gamma) & (rows["n"] == n)]
        for axis, value in zip(axes[:, column], values, strict=True):
            lines_of(axis, here, "C", value)
        cut = here[(here["hit_limit"] == 1) & (here["solver"] == "sklearn_svc")]
        axes[0, column].scatter(
            cut["C"], cut["fit_seconds"], 40, "black", "x", label="SVC at its limit"
        )
        axes[0, column].set_title(f"gamma = {gamma:g}, {int(n):,} rows")
        axes[0, column].legend(fontsize=7)
    figure.tight_layout()
    return figure


def gap_histories(rows, folder):
    """Gap against seconds inside single fits, where the rounds were recorded."""
    traces = [t for t in (trace(row, folder) for row in first_fits(rows)) if t]
    if not traces:
        return None
    figure, axes = grid(1, 1)
    for solver, label, seconds, gaps in traces:
        axes[0, 0].plot(
            seconds, gaps, c=COLOURS[solver], lw=0.8, alpha=0.7, label=label
        )
    axes[0, 0].set(xscale="log", yscale="log", xlabel="seconds", ylabel="relative gap")
    axes[0, 0].legend(fontsize=5, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def first_fits(rows, limit=24):
    """Return one row per case of the first seed, as many as can be told apart."""
    rows = rows[rows["seed"] == 0].drop_duplicates("case")
    return list(rows.head(limit).itertuples())


def trace(row, folder):
    """Return (solver, label, seconds, gaps) of a recorded fit, or None."""
    path = folder / f"{row.case}.json"
    if not path.exists():
        return None
    rounds = json.loads(path.read_text())
    kept = [
        (r["seconds"], r["gap"])
        for r in rounds
        if r.get("seconds") and isfinite(r.get("gap") or nan)
    ]
    if not kept:
        return None
    label = f"{row.solver}, {row.dataset} {int(row.n):,}, {row.setting}"
    return row.solver, label, *zip(*kept, strict=True)
