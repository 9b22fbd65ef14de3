"""A stream that changes twice: accuracy over time, beside River's learners.

`datasets/drifting.py`: 30,000 rows, 8 columns, other rules from row 10,000 and 20,000
on, a tenth of the labels wrong (90 % is the best that there is). Each row is predicted,
then learned: River's learners row by row, ours in blocks of 100. All parameters are
defaults, but `forget=1000` of ours and its budget of 200; nothing was chosen by the
result. `train_error` is that of the last sixth; the shares of right rows in each sixth
are in the note: the second, fourth and sixth are those of a rule that is known for
5,000 rows, the third and fifth those after a change.
"""

import json

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import datasets, solvers
from benchmarks.case import Case
from benchmarks.measuring import Timer, collected_warnings

REPEATS = 1
N_ROWS, QUICK_ROWS, N_PARTS = 30_000, 1_200, 6
BLOCK_ROWS, WARM_UP_ROWS = 100, 200
CLASSES = [-1, 1]
RIVER = ("hoeffding_tree", "hoeffding_adaptive_tree", "logistic_regression", "alma")
CORES = (
    {"kernel": "rbf", "budget": 200, "forget": 1000},
    {"kernel": "linear", "budget": 200, "forget": 1000},
    {"kernel": "rbf", "budget": 200},
    {"kernel": "linear", "budget": 200},
)


def cases(quick):
    sizes = {"n": QUICK_ROWS if quick else N_ROWS}
    for params in CORES:
        yield Case("corevec_core_stream", "drifting", params, sizes, probe=probe)
    for name in RIVER:
        yield Case("river_classifier", "drifting", {"model": name}, sizes, probe=probe)


def probe(case, threads):
    """Return the columns of one pass of predicting and learning."""
    data = datasets.load(case.dataset, case.data_args)
    solver = solvers.SOLVERS[case.solver]
    block = 1 if case.solver == "river_classifier" else BLOCK_ROWS
    with threadpool_limits(1), collected_warnings() as heard:
        few = data.first(WARM_UP_ROWS)
        solver.build(case.params, case.seed, 1).partial_fit(
            few.X_train, few.y_train, CLASSES
        ).predict(few.X_train)
        model = solver.build(case.params, case.seed, 1)
        with Timer() as timer:
            right = _right(model, data, block)
    shares = [float(part.mean()) for part in np.array_split(right, N_PARTS)]
    told = [json.dumps({"right": [round(share, 4) for share in shares]})]
    return {
        "threads": 1,
        "checksum": data.checksum,
        "n": len(right),
        "d": data.X_train.shape[1],
        "n_test": len(right),
        "fit_seconds": timer.seconds,
        "train_error": 1 - shares[-1],
        "test_error": 1 - float(right.mean()),
        "note": " | ".join([*told, *heard]),
        **solver.facts(model, case.params),
    }


def _right(model, data, block):
    """Return whether each row was predicted correctly; the first block is not."""
    X, y = data.X_train, data.y_train
    right = np.zeros(len(y), dtype=bool)
    for start in range(0, len(y), block):
        rows = slice(start, start + block)
        if start:
            right[rows] = np.asarray(model.predict(X[rows])) == y[rows]
        model.partial_fit(X[rows], y[rows], classes=CLASSES)
    return right


def report(rows, folder):
    """Return the accuracy in each sixth of the stream, as markdown."""
    lines = [
        "## Accuracy in %, predicted before learned, by sixths of the stream",
        "",
        "| learner | setting | 1 | 2 | 3 (changed) | 4 | 5 (changed) | 6 | all "
        "| rows/s |",
        "|" + "---|" * 10,
    ]
    for row in rows.itertuples():
        shares = json.loads(row.note.split(" | ")[0])["right"]
        cells = " | ".join(f"{100 * share:.1f}" for share in shares)
        lines.append(
            f"| {row.solver} | {row.setting} | {cells} "
            f"| {100 * (1 - row.test_error):.1f} | {row.n / row.fit_seconds:,.0f} |"
        )
    return ["\n".join(lines)]
