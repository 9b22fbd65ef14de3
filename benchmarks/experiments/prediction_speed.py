"""Rows per second of `predict`: SVC, scikit-learn-intelex, pursuit, compressed SVC.

On adult, ijcnn1 and OCR* as in `cpsp_tables`, whose CSV says how many vectors the
pursuit needs: within half a point of SVC (Table 2) and within a tenth; without that CSV
the numbers of issue 4 are taken. `compress(SVC)` gets the same numbers of vectors. The
SVCs are kept ones (`solvers/_kept.py`): run `cpsp_tables` first, else they are
fitted here.

`predict_seconds` is the median of several calls on the whole test part (at least 3, at
most 9, or 20 s), after one call that is not counted; rows per second are `n_test` over
it. Of a compressed SVC `fit_seconds` are those of `compress` alone.

The rows of ijcnn1 of 2026-11-16 were measured with another benchmark beside them.
"""

import statistics
import time

from threadpoolctl import threadpool_limits

from benchmarks import datasets, records
from benchmarks.case import Case
from benchmarks.experiments import cpsp_tables
from benchmarks.measuring import Timer, collected_warnings
from benchmarks.solvers._kept import compressed, fitted

REPEATS = 1
SETS = ("cpsp_adult", "cpsp_ijcnn1", "cpsp_ocr_star")
# Wanted in issue 4 of the pursuit: taken where `cpsp_tables` has no answer.
FALLBACK_K = {"cpsp_adult": 10, "cpsp_ijcnn1": 50, "cpsp_ocr_star": 100}
CLOSE_POINTS = 0.1
MIN_CALLS, MAX_CALLS, MAX_CALL_SECONDS = 3, 9, 20.0
RESULTS = records.ROOT / "benchmarks" / "results" / "cpsp_tables.csv"


def cases(quick):
    for dataset in SETS[:1] if quick else SETS:
        sizes = {"n": 800, "n_test": 500} if quick else {}
        svc = cpsp_tables.choose("sklearn_svc", dataset, quick=quick)
        for peer in ("sklearn_svc", "sklearnex_svc"):
            yield Case(peer, dataset, svc, sizes, probe=probe)
        for k in (10,) if quick else basis_sizes(dataset):
            pursuit = cpsp_tables.choose("corevec_pursuit", dataset, k, quick=quick)
            if pursuit is not None:
                limits = {"n_basis": k, "max_time": cpsp_tables.MAX_SECONDS}
                given = pursuit | limits
                yield Case("corevec_pursuit", dataset, given, sizes, probe=probe)
            params = svc | {"n_basis": k}
            yield Case("corevec_compressed", dataset, params, sizes, probe=probe)


def basis_sizes(dataset):
    """Return the pursuit's k within half a point and within a tenth of SVC's."""
    found = []
    if RESULTS.exists():
        from benchmarks import report

        rows = report.latest(report.read(RESULTS))
        rows = rows[~rows["note"].str.startswith("error:")]
        rows = cpsp_tables.whole_sets(cpsp_tables.with_basis(rows))
        found = [
            cpsp_tables.smallest_k(rows, "corevec_pursuit", dataset, points)
            for points in (cpsp_tables.WITHIN_POINTS, CLOSE_POINTS)
        ]
    ks = {k for k in found if k is not None} or {FALLBACK_K[dataset]}
    return sorted(ks)


def probe(case, threads):
    """Return the columns of one model: how it was come by, and its `predict`."""
    data = datasets.load(case.dataset, case.data_args)
    model, columns = _model(case, threads)
    with threadpool_limits(threads), collected_warnings() as heard:
        seconds, predicted = timed_predictions(model, data.X_test)
    told = " ".join(f"{s:.4g}" for s in seconds)
    notes = [columns.get("note", ""), f"predict seconds: {told}", *heard]
    return columns | {
        "predict_seconds": statistics.median(seconds),
        "test_error": data.error(predicted, data.y_test),
        "note": " | ".join(text for text in notes if text),
    }


def timed_predictions(model, X):
    """Return the seconds of several calls of `predict`, and what it said."""
    predicted = model.predict(X)
    seconds = []
    start = time.perf_counter()
    while len(seconds) < MAX_CALLS:
        if len(seconds) >= MIN_CALLS and time.perf_counter() - start > MAX_CALL_SECONDS:
            break
        with Timer() as timer:
            model.predict(X)
        seconds.append(timer.seconds)
    return seconds, predicted


def _model(case, threads):
    """Return (model, columns): a kept SVC, one compressed, or a fresh fit of ours."""
    if case.solver != "corevec_compressed":
        return fitted(case, threads)
    model, columns, _ = compressed(case, threads)
    return model, columns


def report(rows, folder):
    """Return vectors, accuracy, rows per second and its multiple of SVC's."""
    lines = [
        "| data | model | vectors | accuracy | rows per second | times SVC's |",
        "|" + "---|" * 6,
    ]
    for dataset, here in rows.groupby("dataset", sort=False):
        speeds = here["n_test"] / here["predict_seconds"]
        exact = speeds[here["solver"] == "sklearn_svc"].median()
        for case, fits in here.groupby("case", sort=False):
            speed = speeds[here["case"] == case].median()
            lines.append(
                f"| {dataset} | {fits['solver'].iloc[0]} "
                f"| {int(fits['n_support'].median()):,} "
                f"| {100 * (1 - fits['test_error'].mean()):.2f} % "
                f"| {speed:,.0f} | {speed / exact:.3g} |"
            )
    return ["## Prediction\n\n" + "\n".join(lines)]
