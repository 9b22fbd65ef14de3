"""Figures 1 and 2 of Loosli and Canu: time, SVs and errors while the rows grow.

The three settings of figure 1 up to 1,000,000 rows, and those of figure 2, small,
medium and large C with both widths, up to 30,000; a column of the picture for each.
Tolerance 1e-6 for the exact solvers, as in the text. Each solver runs as far as it can
be waited for: `LARGEST` has the rows at which it stops. SVC and SMO get at most
10,000,000 steps (`hit_limit` marks who needed more). The literal CVM gets 10 s, ours
60 s and its own tolerance, 1e-3 of the objective.
"""

from benchmarks import plots
from benchmarks.case import Case

REPEATS = 1
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
QUICK_SIZES = (500, 1_000)
FIGURE_1 = ((1e3, 0.37), (1e5, 0.37), (1e5, 1.0))
FIGURE_2 = ((1e0, 0.37), (1e0, 1.0), (1e3, 1.0))
FIGURE_2_ROWS = 30_000
# C -> rows at which a solver stops. At small C nearly all rows are support vectors.
LARGEST = {
    "corevec_tol": {1e0: 30_000, 1e3: 1_000_000, 1e5: 1_000_000},
    "corevec_paper": {1e0: 30_000, 1e3: 1_000_000, 1e5: 1_000_000},
    "sklearn_svc": {1e0: 30_000, 1e3: 100_000, 1e5: 100_000},
    "reference_smo": {1e0: 30_000, 1e3: 30_000, 1e5: 30_000},
    "reference_simplesvm": {1e0: 10_000, 1e3: 100_000, 1e5: 1_000_000},
}
EXACT = {"sklearn_svc", "reference_smo", "reference_simplesvm"}
TOL = 1e-6
MAX_ITER = 10_000_000
MAX_SECONDS = {"corevec_tol": 60.0, "corevec_paper": 10.0}
N_TEST = 20_000


def cases(quick):
    for C, gamma in FIGURE_1[:1] if quick else FIGURE_1 + FIGURE_2:
        most = SIZES[-1] if (C, gamma) in FIGURE_1 else FIGURE_2_ROWS
        for n in QUICK_SIZES if quick else SIZES:
            for solver, largest in LARGEST.items():
                if n <= min(most, largest[C]):
                    params = {"C": C, "gamma": gamma} | _limits(solver)
                    data_args = {"n": n, "n_test": 2_000 if quick else N_TEST}
                    yield Case(solver, "checkerboard", params, data_args)


def _limits(solver):
    if solver in MAX_SECONDS:
        return {"max_time": MAX_SECONDS[solver]}
    if solver == "reference_simplesvm":
        return {"tol": TOL}
    return {"tol": TOL, "max_iter": MAX_ITER}


def report(rows, folder):
    """Return the figure, drawn into the folder, as markdown."""
    name = "loosli_canu_rows_figures.png"
    plots.save(figures(rows), folder / name)
    return [f"![Figures 1 and 2: while the rows grow]({name})"]


def figures(rows):
    """Figures 1 and 2: time, SVs, training and test error against rows."""
    values = ("fit_seconds", "n_support", "train_error", "test_error")
    wanted = [s for s in FIGURE_1 + FIGURE_2 if not _at(rows, s).empty]
    figure, axes = plots.grid(len(values), len(wanted))
    for column, setting in enumerate(wanted):
        for axis, value in zip(axes[:, column], values, strict=True):
            plots.lines_of(axis, _at(rows, setting), "n", value)
        axes[0, column].set_title("C = {:g}, gamma = {:g}".format(*setting))
        axes[0, column].legend(fontsize=7)
    figure.tight_layout()
    return figure


def _at(rows, setting):
    return rows[(rows["C"] == setting[0]) & (rows["gamma"] == setting[1])]
