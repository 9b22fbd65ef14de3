"""Table 2 and figure 3 (right) of the CPSP paper: sizes that `cpsp_tables` leaves out.

The paper tries 10, 20, 50, ... 20,000 basis vectors with every method; `cpsp_tables`
tries two for most of them. Here are the others, up to 5000 for the methods that keep
training rows only (CVM, BVM, LASVM) and up to 500 for those that solve in their span;
and CPSP with 1000 vectors while the rows grow. C and gamma are those that `cpsp_tables`
chose, read from its results: nothing is chosen anew. The dearest set
comes last, so that an interrupted run has whole columns.

Processor seconds of one thread (`COREVEC_BENCH_CLOCK=processor`, `--threads 1`): the
machine had other work. The paper's are CPU seconds, too.
"""

import json

from benchmarks.case import Case
from benchmarks.datasets.cpsp import SPLITS
from benchmarks.records import RESULTS, read

REPEATS = 1
SETS = ("cpsp_adult", "cpsp_ijcnn1", "cpsp_ocr0", "cpsp_ocr_star")
QUICK_SETS = SETS[:1]
MAX_SECONDS = 300.0
SPANNED, KEPT = (10, 20, 100, 200, 500), (10, 20, 50, 100, 500, 2000, 5000)
SIZES = {
    "corevec_cvm": KEPT,
    "reference_lasvm": KEPT,
    "reference_bvm": KEPT,
    "corevec_hinge_nystroem": SPANNED,
    "corevec_hinge_cholesky": SPANNED,
    "corevec_cpsp_tr": SPANNED,
    "corevec_cpsp": (100,),
}
# Figure 3, right: shares of the rows, with as many vectors as the paper.
ROWS_K, PARTS = 1000, (8, 4, 2)
ROWS_SETS = ("cpsp_adult", "cpsp_ijcnn1")


def cases(quick):
    for dataset in QUICK_SETS if quick else SETS:
        for solver, sizes in SIZES.items():
            for k in sizes[:1] if quick else sizes:
                rows = {"n": 800, "n_test": 500} if quick else {}
                yield Case(solver, dataset, _params(solver, dataset, k), rows)
        if dataset in ROWS_SETS and not quick:
            yield from _fewer_rows(dataset)


def _fewer_rows(dataset):
    rows = SPLITS[dataset.removeprefix("cpsp_")][0]
    for part in PARTS:
        params = _params("corevec_cpsp", dataset, ROWS_K)
        yield Case("corevec_cpsp", dataset, params, {"n": rows // part})


def _params(solver, dataset, k):
    """Return the parameters of the nearest size that `cpsp_tables` chose for."""
    given = {}
    for row in read(RESULTS / "cpsp_tables.csv"):
        params = json.loads(row["params"])
        is_here = (row["solver"], row["dataset"]) == (solver, dataset)
        if is_here and "gamma_rule" not in params:
            given[params["n_basis"]] = params
    nearest = max([size for size in given if size <= k], default=min(given))
    chosen = {name: given[nearest][name] for name in ("C", "gamma")}
    return chosen | {"n_basis": k, "max_time": MAX_SECONDS}
