"""Show what a change of the code changed in the time of fits and predictions.

Two checkouts, interleaved on a quiet machine, with the same interpreter::

    python tools/compare_speed.py OLD/src NEW/src --repeats 3

Each process imports one checkout, makes every fit below once to compile and to load
what it needs, and once for the clock; processes of the two take turns. A line for each
fit: the shortest time of each checkout, and their ratio. Real data are added where
``COREVEC_DATA`` names a folder that has them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# C and gamma of the experiment `real_data`.
REAL = {
    "mnist": (10.0, 0.009483),
    "kddcup99": (10.0, 0.01333),
    "ijcnn1": (32.0, 2.0),
    "adult": (1.0, 0.05),
}


def fits() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield a name and a fit or prediction of the checkout that is imported."""
    import corevec as cv
    from benchmarks import datasets

    for n in (1_000, 10_000, 100_000, 1_000_000):
        board = datasets.load("checkerboard", {"n": n})
        X, y = board.X_train, board.y_train
        model = cv.CoreVectorClassifier(C=1000.0, gamma=0.37, random_state=0)
        yield f"checkerboard {n:,}", lambda m=model, X=X, y=y: m.fit(X, y)
    yield "predict 1,000,000 rows", lambda m=model, X=X: m.predict(X)
    few = datasets.load("checkerboard", {"n": 10_000})
    for C in (1e-2, 1.0, 1e2, 1e4, 1e6):
        model = cv.CoreVectorClassifier(C=C, gamma=1.0, random_state=0)
        X, y = few.X_train, few.y_train
        yield f"checkerboard 10,000, C={C:g}", lambda m=model, X=X, y=y: m.fit(X, y)
    X = datasets.load("gaussian", {"n": 1_000_000}).X_train
    for C in (10.0, 1000.0):
        one = cv.CoreVectorOneClass(C=C, gamma=0.05, random_state=0)
        yield f"one class 1,000,000, C={C:g}", lambda m=one, X=X: m.fit(X)
    for name, given in (("hard", {}), ("C=10", {"C": 10.0})):
        ball = cv.SVDD(gamma=0.05, random_state=0, **given)
        yield f"SVDD 1,000,000, {name}", lambda m=ball, X=X: m.fit(X)
    yield from real_fits()


def real_fits() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield fits of real data with the parameters of the experiment `real_data`."""
    import corevec as cv
    from benchmarks import datasets
    from benchmarks.datasets._base import MissingDataError

    for name, (C, gamma) in REAL.items():
        try:
            data = datasets.load(name, {})
        except MissingDataError:
            continue
        model = cv.CoreVectorClassifier(C=C, gamma=gamma, random_state=0, max_time=60.0)
        X, y = data.X_train, data.y_train
        yield name, lambda m=model, X=X, y=y: m.fit(X, y)


def measure() -> dict[str, float]:
    """Return the seconds of every fit, the second time that it is made."""
    warnings.simplefilter("ignore")
    seconds = {}
    for name, run in fits():
        run()
        start = time.perf_counter()
        run()
        seconds[name] = time.perf_counter() - start
    return seconds


def main() -> None:
    """Measure both checkouts in turn, and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    best: dict[str, dict[str, float]] = {given.old: {}, given.new: {}}
    for _ in range(given.repeats):
        for checkout, shortest in best.items():
            for name, seconds in _measured_in(checkout).items():
                shortest[name] = min(seconds, shortest.get(name, seconds))
    old, new = best[given.old], best[given.new]
    sys.stdout.write(f"{'':34} {'old s':>9} {'new s':>9} {'new/old':>8}\n")
    for name in old:
        line = (
            f"{name:34} {old[name]:9.4f} {new[name]:9.4f} {new[name] / old[name]:8.2f}"
        )
        sys.stdout.write(line + "\n")


def _measured_in(checkout: str) -> dict[str, float]:
    path = os.pathsep.join([str(Path(checkout).resolve()), str(ROOT)])
    command = [sys.executable, __file__, "--child"]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        sys.stdout.write(json.dumps(measure()) + "\n")
    else:
        main()
