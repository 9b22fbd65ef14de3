"""How the exact machine grows with the rows, at fixed C and gamma, and where time goes.

covtype at gamma = 32 and C = 10, where the kernel falls apart, from 5,000 rows to all
522,911; the same rows by default parameters up to 100,000, where one cloud of rows has
95 % support vectors. The note of a row has the seconds spent on products with the
matrix of the active rows, on preconditioners, and on passes over all rows; what is left
are line searches, choices of rows and the sample stages' bookkeeping.
"""

import time
from contextlib import contextmanager

from benchmarks import datasets
from benchmarks.case import Case
from benchmarks.solvers._base import certificate_facts

REPEATS = 1
NARROW = {"C": 10.0, "gamma": 32.0}
ROWS = (5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 522_911)
PLAIN_ROWS = (5_000, 10_000, 20_000, 50_000, 100_000)
WARM_UP_ROWS = 3_000


def cases(quick):
    for n in (1_000,) if quick else ROWS:
        yield Case("corevec_tol", "covtype", NARROW, {"n": n}, probe=probe)
    for n in (1_000,) if quick else PLAIN_ROWS:
        yield Case("corevec_tol", "plain_covtype", {}, {"n": n}, probe=probe)


def probe(case, threads):
    from corevec import CoreVectorClassifier

    data = datasets.load(case.dataset, case.data_args)
    X, y = data.X_train, data.y_train
    model = CoreVectorClassifier(**case.params, random_state=0, n_jobs=threads)
    model.fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
    with _watched() as seconds:
        start = time.perf_counter()
        model.fit(X, y)
        total = time.perf_counter() - start
    shares = ", ".join(f"{part} {spent:.2f} s" for part, spent in seconds.items())
    return {
        "n": len(y),
        "d": X.shape[1],
        "n_test": len(data.y_test),
        "fit_seconds": total,
        "test_error": float((model.predict(data.X_test) != data.y_test).mean()),
        "note": shares,
        **certificate_facts(model, case.params),
    }


@contextmanager
def _watched():
    """Count the seconds of products, preconditioners and passes inside the block.

    Calls inside a counted call are not counted again.
    """
    from corevec.data.sources.base import Source
    from corevec.solvers.exact import BlockGram, SquareGram, TiledGram, WorkingSet

    parts = {
        "products": [
            (kind, name)
            for kind in (BlockGram, SquareGram, TiledGram)
            for name in ("times", "on_active")
        ],
        "preconditioners": [(WorkingSet, "preconditioner")],
        "passes": [(Source, "map"), (Source, "map_rows")],
    }
    seconds, inside, restore = dict.fromkeys(parts, 0.0), [], []

    def counted(part, function):
        def call(*args, **kwargs):
            if inside:
                return function(*args, **kwargs)
            inside.append(part)
            start = time.perf_counter()
            try:
                found = function(*args, **kwargs)
                # A product made ready: its calls are what takes time.
                return counted(part, found) if callable(found) else found
            finally:
                seconds[part] += time.perf_counter() - start
                inside.pop()

        return call

    for part, places in parts.items():
        for kind, name in places:
            if name in vars(kind):
                restore.append((kind, name, vars(kind)[name]))
                setattr(kind, name, counted(part, vars(kind)[name]))
    try:
        yield seconds
    finally:
        for kind, name, function in restore:
            setattr(kind, name, function)
