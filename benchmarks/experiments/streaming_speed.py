"""Rows per second of one pass, one thread: from memory, and from a LIBSVM text file.

From memory: `partial_fit` in blocks of 10,000 rows that lie ready, of StreamSVM (one
ball, and 8) and of scikit-learn's SGDClassifier, in the same run, on the generated rows
of `datasets/clouds.py`; of StreamingClassifier with a Gaussian kernel, budgets of 50 to
1000, where hardly a row is inside the margin (islands) and where 40 % are (clouds), and
as a bound of it the prediction of the same rows by the last model. From text: file to
trained model, the reading included; a reader is `corevec.streams.read_libsvm`, or
scikit-learn's `load_svmlight_file` (told the number of columns, as ours is), each
before both learners. The files are written into a temporary folder (TMPDIR) and lie in
the page cache when they are read.

What compiles is compiled by a small pass before the timed one. `predict_seconds` is
that of all test rows from memory; of text there are no test rows.
"""

import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file
from threadpoolctl import threadpool_limits

from benchmarks import datasets, solvers
from benchmarks.case import Case
from benchmarks.datasets import clouds
from benchmarks.measuring import Timer, collected_warnings

REPEATS = 5
BLOCK_ROWS = 10_000
WARM_UP_ROWS = 1_000
CLASSES = np.array([-1, 1])
QUICK_ROWS = 5_000

FROM_MEMORY = {
    "clouds_d22": 2_000_000,
    "clouds_d784_f32": 100_000,
    "clouds_d784_f64": 100_000,
    "clouds_d40000": 100_000,
}
# 22 dense columns as ijcnn1's, and rows as rcv1's: 75 of 47,236 columns; 60 MB each.
FROM_TEXT = {
    "text_d22": {"n": 250_000, "d": 22},
    "text_d47236": {"n": 65_000, "d": 47_236, "entries": 75},
}
LEARNERS = (
    ("corevec_stream", {"C": 1.0, "n_balls": 1}),
    ("corevec_stream", {"C": 1.0, "n_balls": 8, "balls": "lookahead"}),
    ("sklearn_sgd", {"C": 1.0}),
)
TEXT_LEARNERS = (LEARNERS[0], LEARNERS[2])
# A Gaussian core against its budget; `predicting`: the bound.
BUDGETS = (50, 200, 1000)
CORE_SETS = {"islands_d22": 200_000, "clouds_d22": 20_000}
METHODS = ("corevec_stream", "corevec_core_stream", "sklearn_sgd")
READERS = ("read_libsvm", "load_svmlight_file")


def cases(quick):
    for dataset, n in FROM_MEMORY.items():
        sizes = {"n": QUICK_ROWS if quick else n}
        for solver, params in LEARNERS:
            yield Case(solver, dataset, params, sizes, probe=from_memory)
    if "corevec_core_stream" in METHODS:
        yield from _core_cases(quick)
    for dataset, shape in FROM_TEXT.items():
        sizes = shape | ({"n": QUICK_ROWS} if quick else {})
        for reader in READERS:
            for solver, params in TEXT_LEARNERS:
                given = params | {"reader": reader}
                yield Case(solver, dataset, given, sizes, probe=from_text)


def _core_cases(quick):
    for dataset, n in CORE_SETS.items():
        sizes = {"n": QUICK_ROWS if quick else n}
        for budget in BUDGETS:
            params = {"C": 1.0, "budget": budget}
            yield Case("corevec_core_stream", dataset, params, sizes, probe=from_memory)


def from_memory(case, threads):
    """Return the columns of one pass over blocks that lie in memory."""
    data = datasets.load(case.dataset, case.data_args)
    blocks = list(_blocks(data.X_train, data.y_train))
    with threadpool_limits(1), collected_warnings() as heard:
        few = data.first(WARM_UP_ROWS)
        _pass(_learner(case), [(few.X_train, few.y_train)]).predict(few.X_test)
        model = _learner(case)
        with Timer() as timer:
            _pass(model, blocks)
        if case.solver == "corevec_core_stream":
            with Timer() as whole:
                model.predict(data.X_train)
            heard.append(f"predicting: {len(data.y_train) / whole.seconds:,.0f} rows/s")
        with Timer() as predict:
            predicted = model.predict(data.X_test)
    return _columns(case, model, timer, heard) | {
        "checksum": data.checksum,
        "d": data.X_train.shape[1],
        "n_test": data.X_test.shape[0],
        "predict_seconds": predict.seconds,
        "test_error": data.error(predicted, data.y_test),
    }


def from_text(case, threads):
    """Return the columns of reading a text file and learning from it."""
    path = text_file(case.dataset, **case.data_args)
    small = text_file(case.dataset, **case.data_args | {"n": WARM_UP_ROWS})
    d = case.data_args["d"]
    read = _read_libsvm if case.params["reader"] == "read_libsvm" else _load_svmlight
    with threadpool_limits(1), collected_warnings() as heard:
        _pass(_learner(case), read(small, d))
        model = _learner(case)
        with Timer() as timer:
            _pass(model, read(path, d))
    heard.append(f"file of {path.stat().st_size / 1e6:.1f} MB")
    return _columns(case, model, timer, heard) | {"d": d}


def _learner(case):
    params = {name: v for name, v in case.params.items() if name != "reader"}
    if solvers.SOLVERS[case.solver].is_peer:
        params["n_rows"] = case.data_args["n"]
    return solvers.SOLVERS[case.solver].build(params, case.seed, 1)


def _pass(model, blocks):
    for X, y in blocks:
        model.partial_fit(X, y, classes=CLASSES)
    return model


def _blocks(X, y):
    for start in range(0, X.shape[0], BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        yield X[rows], y[rows]


def _read_libsvm(path, d):
    from corevec.streams import read_libsvm

    return read_libsvm(path, n_features=d, block_rows=BLOCK_ROWS)


def _load_svmlight(path, d):
    return _blocks(*load_svmlight_file(str(path), n_features=d))


def _columns(case, model, timer, heard):
    if timer.compiling:
        heard.append(f"{timer.compiling:.2f} s of the pass were compiling")
    return {
        "threads": 1,
        "n": case.data_args["n"],
        "fit_seconds": timer.seconds,
        "note": " | ".join(heard),
        **solvers.SOLVERS[case.solver].facts(model, case.params),
    }


@cache
def _folder():
    """Return the temporary folder of this process; it goes with the process."""
    return tempfile.TemporaryDirectory(prefix="streaming_speed_")


@cache
def text_file(name, n, d, entries=None):
    """Write n rows as LIBSVM text, once per process: six digits a value."""
    path = Path(_folder().name) / f"{name}_{n}.libsvm"
    data = clouds.load(n, d, entries=entries, n_test=0)
    write = _dense_lines if entries is None else _sparse_lines
    with path.open("w") as file:
        file.writelines(write(data.X_train, data.y_train))
    return path


def _dense_lines(X, y):
    form = "%+d " + " ".join(f"{j + 1}:%.6g" for j in range(X.shape[1])) + "\n"
    for label, row in zip(y.tolist(), X.tolist(), strict=True):
        yield form % (label, *row)


def _sparse_lines(X, y):
    for i, label in enumerate(y.tolist()):
        here = slice(X.indptr[i], X.indptr[i + 1])
        pairs = zip(X.indices[here].tolist(), X.data[here].tolist(), strict=True)
        yield f"{label:+d} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in pairs) + "\n"


def report(rows, folder):
    """Return rows per second and their multiple of SGD's, as markdown."""
    parts = []
    is_core = rows["solver"] == "corevec_core_stream"
    for title, sets in (("From memory", FROM_MEMORY), ("From a text file", FROM_TEXT)):
        here = rows[rows["dataset"].isin(list(sets)) & ~is_core]
        if not here.empty:
            parts.append(_table(title, here))
    if is_core.any():
        parts.append(_core_table(rows[is_core]))
    return parts


def _core_table(rows):
    lines = [
        "## A Gaussian core against its budget: rows per second, one thread (medians)",
        "",
        "| data | rows | budget | rows/s | spread | predicting | learned | error |",
        "|" + "---|" * 8,
    ]
    rows = rows.assign(budget=[json.loads(given)["budget"] for given in rows["params"]])
    for (dataset, budget), runs in rows.groupby(["dataset", "budget"], sort=False):
        speeds = runs["n"] / runs["fit_seconds"]
        bound = [
            note.split("predicting: ")[1].split(" rows/s")[0] for note in runs.note
        ]
        bound = np.median([float(one.replace(",", "")) for one in bound])
        learned = (runs["n_support"] / runs["n"]).mean()
        lines.append(
            f"| {dataset} | {int(runs['n'].iloc[0]):,} | {budget} "
            f"| {speeds.median():,.0f} | {speeds.min():,.0f} to {speeds.max():,.0f} "
            f"| {bound:,.0f} | {100 * learned:.1f} % "
            f"| {100 * runs['test_error'].mean():.2f} % |"
        )
    return "\n".join(lines)


def _table(title, rows):
    lines = [
        f"## {title}: rows per second, one thread (medians)",
        "",
        "| data | rows | learner | setting | rows/s | spread | times SGD's | error |",
        "|" + "---|" * 8,
    ]
    for dataset, here in rows.groupby("dataset", sort=False):
        reference = _reference(here)
        for (solver, setting), runs in here.groupby(["solver", "setting"], sort=False):
            speeds = runs["n"] / runs["fit_seconds"]
            error = runs["test_error"].mean()
            middle, spread = (
                speeds.median(),
                f"{speeds.min():,.0f} to {speeds.max():,.0f}",
            )
            lines.append(
                f"| {dataset} | {int(runs['n'].iloc[0]):,} | {solver} | {setting} "
                f"| {middle:,.0f} | {spread} | {middle / reference:.2f} "
                f"| {'' if np.isnan(error) else f'{100 * error:.2f} %'} |"
            )
    return "\n".join(lines)


def _reference(rows):
    """Return SGD's median rows per second; of text, behind scikit-learn's reader."""
    sgd = rows[rows["solver"] == "sklearn_sgd"]
    behind = sgd[~sgd["setting"].str.contains("read_libsvm")]
    return (behind["n"] / behind["fit_seconds"]).median()
