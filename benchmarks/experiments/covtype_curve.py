"""covtype, 522,911 rows: error against time, each solver as far as it can be taken.

C = 32 and gamma = 32 for all, as in `real_data`. What limits each:

- SVC: time; its rows double, to 20,000 (LIBSVM's time grows like rows^2 and more);
- Nystroem + LinearSVC: memory; it stores rows x k float64, and gets as many rows as
  fit 2 GiB (all at k = 200, 268,435 at 1000, 134,217 at 2000);
- issue 1's core set: most rows are support vectors; `max_time` ends it;
- RSVM: its basis is 10 % of the rows, so a quadratic amount of kernel values: 20,000
  rows, 2,000 vectors;
- LSVM: the Cholesky basis, k = 500 of all rows: nothing else than our engine with
  another basis;
- ours: time, k = 200 to 2000 on all rows; `max_time` is 60 s.
"""

from benchmarks import plots
from benchmarks.case import Case
from benchmarks.datasets.covtype import N_TRAIN

REPEATS = 1
PROBLEM = {"C": 32.0, "gamma": 32.0}
K = (200, 1000, 2000)
SVC_ROWS = (5_000, 10_000, 20_000)
RSVM_ROWS, RSVM_SHARE = 20_000, 0.1
LSVM_K = 500
NYSTROEM_BYTES = 2**31
MAX_SECONDS = 60.0
CORE_SECONDS = 60.0  # as in `real_data`


def cases(quick):
    rows = 2_000 if quick else N_TRAIN
    for k in (20,) if quick else K:
        limits = {"n_basis": k, "max_time": MAX_SECONDS}
        for basis in ("pursuit", "nystroem"):
            params = PROBLEM | limits | {"basis": basis}
            yield Case("corevec_subspace", "covtype", params, {"n": rows})
        fitting = {"n": min(rows, NYSTROEM_BYTES // 8 // k)}
        params = PROBLEM | {"n_components": k}
        yield Case("nystroem_linearsvc", "covtype", params, fitting)
    for n in (500,) if quick else SVC_ROWS:
        yield Case("sklearn_svc", "covtype", PROBLEM, {"n": n})
    core = PROBLEM | {"tol": 1e-3, "max_time": CORE_SECONDS}
    yield Case("corevec_tol", "covtype", core, {"n": rows})
    limit = {"max_time": MAX_SECONDS}
    rsvm = PROBLEM | limit | {"share": RSVM_SHARE}
    yield Case("corevec_rsvm", "covtype", rsvm, {"n": min(rows, RSVM_ROWS)})
    lsvm = PROBLEM | limit | {"n_basis": 20 if quick else LSVM_K}
    yield Case("corevec_lsvm", "covtype", lsvm, {"n": rows})


def report(rows, folder):
    """Return the curve: test error against fit seconds, a line per solver."""
    path = plots.save(_curve(rows), folder / "covtype_curve_error.png")
    return [f"![test error against fit seconds]({path.name})"]


def _curve(rows):
    figure, axes = plots.grid(1, 1)
    axis = axes[0, 0]
    for name, fits in rows.groupby(rows.apply(_name, axis=1), sort=False):
        of_case = fits.groupby("case", sort=False)
        seconds, error = of_case["fit_seconds"].median(), of_case["test_error"].mean()
        axis.plot(seconds, 100 * error, "o-", ms=4, label=name)
    axis.set(xscale="log", xlabel="fit seconds", ylabel="test error, %")
    axis.legend(fontsize=7)
    return figure


def _name(row):
    """Return the solver, with its basis where the case names one."""
    word = [part for part in row["setting"].split(", ") if part.startswith("basis=")]
    return " ".join([row["solver"], *word])
