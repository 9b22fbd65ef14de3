"""Outliers in a stream: AUC of scores that were given before the row was learnt.

`datasets/novelty.py`: 200,000 rows, 1 % outliers, 10 columns. Each block of 1,000 rows
is scored, then learnt; the first is only learnt. River's detector goes row by row, on
20,000 rows, and the others do that many too. Read `test error` as 1 - AUC over the rows
after the first 1,000; `fit_seconds` is learning, `predict_seconds` scoring. Ours: one
ball, linear and RBF, and with 63 rows beside it as in `streaming_kernel`; and
StreamingOneClass, also with its own gamma ("scale") and linear (Mahalanobis).

There is nothing to choose parameters by, since a detector has no labels. gamma is the
papers' 1/beta of a single cloud (0.008) for every RBF kernel or map (River's: that of
rows scaled to variance 1), nu = 0.01 the true share, C = 0.01, 1 and 100: all are
shown. Of River's two possible signs the better counts.
"""

import time

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks import datasets, solvers
from benchmarks.case import Case
from benchmarks.datasets.novelty import DEVIATION
from benchmarks.measuring import collected_warnings

REPEATS = 1
N_SEEDS = 5
NU = 0.01
GAMMA = 1 / (2 * 10 * DEVIATION**2)
BLOCK_ROWS = 1_000
WARM_UP_ROWS = 200
SIZES = (20_000, 200_000)
QUICK_SIZES = (2_000, 4_000)
BUDGET = 200

LINEAR = {"kernel": "linear", "n_balls": 1}
RBF = {"kernel": "rbf", "gamma": GAMMA, "budget": BUDGET, "n_balls": 1}
BALLS = RBF | {"n_balls": 64}
OURS = [{"C": C} | ball for ball in (LINEAR, RBF, BALLS) for C in (0.01, 1.0, 100.0)]
CORES = [{"C": C, "gamma": GAMMA, "budget": BUDGET} for C in (0.01, 1.0, 100.0)]
LEARNERS = (
    *(("corevec_core_oneclass", params) for params in CORES),
    ("corevec_core_oneclass", {"C": 1.0, "budget": BUDGET}),
    ("corevec_core_oneclass", {"C": 1.0}),
    ("corevec_core_oneclass", {"C": 1.0, "kernel": "linear"}),
    *(("corevec_stream_oneclass", params) for params in OURS),
    ("sklearn_sgd_oneclass", {"nu": NU}),
    ("sklearn_sgd_oneclass", {"nu": NU, "map": "nystroem", "gamma": GAMMA}),
    ("river_oneclass", {"nu": NU}),
    ("river_oneclass", {"nu": NU, "map": "rbf_sampler", "gamma": GAMMA}),
)


def cases(quick):
    few, many = QUICK_SIZES if quick else SIZES
    for seed in range(1 if quick else N_SEEDS):
        for solver, params in LEARNERS:
            for n in (few,) if solver == "river_oneclass" else (few, many):
                sizes = {"n": n, "seed": seed}
                yield Case(solver, "novelty", params, sizes, probe=probe)


def probe(case, threads):
    """Return the columns of one pass: score a block, learn it, and so on."""
    data = datasets.load(case.dataset, case.data_args)
    solver = solvers.SOLVERS[case.solver]
    block = 1 if case.solver == "river_oneclass" else BLOCK_ROWS
    params = _in_units(case, data)
    with threadpool_limits(1), collected_warnings() as heard:
        warm = solver.build(params, case.seed, 1).partial_fit(
            data.X_train[:WARM_UP_ROWS]
        )
        warm.score_samples(data.X_train[:WARM_UP_ROWS])
        model = solver.build(params, case.seed, 1)
        scores, learning, scoring = test_then_train(model, data.X_train, block)
    judged = len(data.X_train) - BLOCK_ROWS
    auc = float(roc_auc_score(data.y_train[-judged:] == 1, scores[-judged:]))
    if not getattr(model, "is_sign_known", True):
        heard.append(f"AUC {auc:.4f} with River's sign, {1 - auc:.4f} with the other")
        auc = max(auc, 1 - auc)
    return {
        "threads": 1,
        "checksum": data.checksum,
        "n": len(data.X_train),
        "d": data.X_train.shape[1],
        "n_test": judged,
        "fit_seconds": learning,
        "predict_seconds": scoring,
        "test_error": 1 - auc,
        "note": " | ".join([*heard, data.note]),
        **solver.facts(model, params),
    }


def _in_units(case, data):
    """Return the params; River's gamma is that of rows scaled to variance 1."""
    if case.solver != "river_oneclass" or "gamma" not in case.params:
        return case.params
    return case.params | {"gamma": case.params["gamma"] * float(data.X_train.var())}


def test_then_train(model, X, block):
    """Return the scores of the rows after the first block, and the seconds of both."""
    scores, learning, scoring = [], 0.0, 0.0
    for start in range(0, len(X), block):
        rows = X[start : start + block]
        began = time.perf_counter()
        if start:
            scores.append(model.score_samples(rows))
        scored = time.perf_counter()
        model.partial_fit(rows)
        learning += time.perf_counter() - scored
        scoring += scored - began
    return np.concatenate(scores), learning, scoring


def report(rows, folder):
    """Return AUC and rows per second of scoring and learning, as markdown."""
    lines = [
        "## AUC, scored before learnt (means ± deviations over the seeds)",
        "",
        "| detector | setting | rows | AUC | rows/s, scored and learnt | updates |",
        "|" + "---|" * 6,
    ]
    same = ["n", "solver", "setting"]
    for (n, solver, setting), runs in rows.groupby(same, sort=False):
        auc = 1 - runs["test_error"]
        spread = f" ± {auc.std():.4f}" if len(auc) > 1 else ""
        speed = (n / (runs["fit_seconds"] + runs["predict_seconds"])).median()
        updates = runs["n_support"].median()
        lines.append(
            f"| {solver} | {setting} | {int(n):,} | {auc.mean():.4f}{spread} "
            f"| {speed:,.0f} | {'' if np.isnan(updates) else f'{updates:,.0f}'} |"
        )
    return ["\n".join(lines)]
