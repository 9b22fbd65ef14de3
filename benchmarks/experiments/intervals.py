"""Coverage of 90 % intervals: quantile regressions at the levels 0.05 and 0.95.

Standardised columns, 3,000 rows at most for training. The share of *training* rows
between the two quantiles is 0.90 up to the rows on them, whatever C: the free bias sees
to that. On test rows it is lower, the more so the closer the functions follow the
training rows (a large C). `chosen` is the C of a grid with the least pinball loss of
both levels over five folds. `widened` moves both ends of that interval by the
0.9-quantile of how far the held-out rows of the folds lie outside it (a conformal
correction: Romano, Patterson and Candes 2019). Neither needs a test row. `test_error`
is the share of test rows outside the interval; the note has the shares below and above,
and the training share.
"""

import json

import numpy as np
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from benchmarks import datasets
from benchmarks.case import Case
from benchmarks.measuring import Timer, collected_warnings

REPEATS = 1
SETS = ["plain_california_housing", "plain_cpu_act", "plain_abalone"]
N_ROWS, QUICK_ROWS = 3_000, 400
LEVELS = (0.05, 0.95)
CS = (0.1, 0.3, 1.0, 3.0)


def cases(quick):
    sizes = {"n": QUICK_ROWS if quick else N_ROWS}
    for dataset in SETS[:1] if quick else SETS:
        for C in (*CS, "chosen", "widened"):
            params = {"C": C, "loss": "quantile"}
            yield Case("corevec_tube_auto", dataset, params, sizes, probe=probe)


def probe(case, threads):
    """Return the columns of the two fits of one interval."""
    data = datasets.load(case.dataset, case.data_args)
    X, y, y_test = data.X_train, data.y_train, data.y_test
    with threadpool_limits(threads), collected_warnings() as heard:
        wanted, margin = case.params["C"], 0.0
        C = wanted
        if isinstance(wanted, str):
            C, outside = chosen(X, y, threads)
            margin = float(np.quantile(outside, 0.9)) if wanted == "widened" else 0.0
        with Timer() as fit:
            models = [fitted(X, y, C, level, threads) for level in LEVELS]
        low, high = (model.predict(data.X_test) for model in models)
        low, high = low - margin, high + margin
        inside = [model.predict(X) for model in models]
    below, above = np.mean(y_test < low), np.mean(y_test > high)
    told = {
        "C": C,
        "below": round(float(below), 4),
        "above": round(float(above), 4),
        "train": round(float(np.mean((y >= inside[0]) & (y <= inside[1]))), 4),
        "width": round(float(np.mean(high - low) / y.std()), 4),
    }
    certificates = [model.certificate_ for model in models]
    return {
        "checksum": data.checksum,
        "n": X.shape[0],
        "d": X.shape[1],
        "n_test": len(y_test),
        "fit_seconds": fit.seconds,
        "test_error": float(below + above),
        "gap": max(one.relative_gap for one in certificates),
        "converged": all(one.converged for one in certificates),
        "note": " | ".join([json.dumps(told), *heard]),
    }


def fitted(X, y, C, level, threads):
    from corevec import CoreVectorRegressor

    model = CoreVectorRegressor(C=C, loss="quantile", level=level, n_jobs=threads)
    return model.fit(X, y)


def chosen(X, y, threads):
    """Return the C with the least pinball loss of both levels over five folds.

    And how far each held-out row lies outside the interval of its fold, negative
    inside.
    """
    found = []
    for C in CS:
        ends = np.empty((len(LEVELS), len(y)))
        for train, test in KFold(5, shuffle=True, random_state=0).split(X):
            for end, level in zip(ends, LEVELS, strict=True):
                model = fitted(X[train], y[train], C, level, threads)
                end[test] = model.predict(X[test])
        loss = sum(
            mean_pinball_loss(y, end, alpha=level)
            for end, level in zip(ends, LEVELS, strict=True)
        )
        found.append((loss, C, np.maximum(ends[0] - y, y - ends[1])))
    _, C, outside = min(found, key=lambda one: one[0])
    return C, outside


def report(rows, folder):
    """Return the coverage of each interval."""
    lines = [
        "| data | C | training rows inside | test rows inside | below | above "
        "| width / deviation of y | gap |",
        "|" + "---|" * 8,
    ]
    for _, row in rows.iterrows():
        told = json.loads(row["note"].split(" | ")[0])
        wanted = json.loads(row["params"])["C"]
        name = f"{told['C']:g}" + (f" ({wanted})" if isinstance(wanted, str) else "")
        lines.append(
            f"| {row['dataset']} | {name} | {told['train']:.3f} "
            f"| {1 - row['test_error']:.3f} | {told['below']:.3f} "
            f"| {told['above']:.3f} | {told['width']:.2f} | {row['gap']:.1e} |"
        )
    return ["## Coverage of 90 % intervals\n\n" + "\n".join(lines)]
