"""Interrupts and kills at random times: ``python tests/torture_signals.py``.

`--interrupts` fits are interrupted by Ctrl-C (SIGINT) at a random time of a fit, over
all estimators that keep their best model. What comes back must be a whole model, with
finite predictions and a certificate that claims no convergence it has not, or
KeyboardInterrupt where there was no model yet. `--kills` processes that save a model,
or write a checkpoint, are killed (SIGKILL) at a random time: the file must then be the
old or the new one, whole, and a fit must go on from the checkpoint.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import corevec

ROWS = 4000


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((ROWS, 6))
    return X, rng.integers(0, 2, ROWS), np.sin(9 * X[:, 0]) + rng.normal(size=ROWS)


def estimators():
    """Yield fits that would take seconds: nothing can be learned from the labels."""
    X, y, target = rows()
    hard = {"gamma": 20.0, "tol": 1e-9, "n_jobs": 1, "random_state": 0}
    three = (3 * X[:, 0]).astype(int)
    yield "CoreVectorClassifier", {"C": 1e3, **hard}, (X, y)
    yield "CoreVectorClassifier", {"C": 10.0, "multi_class": "ovr", **hard}, (X, three)
    yield "CoreVectorRegressor", {"C": 1e3, **hard}, (X, target)
    yield "CoreVectorOneClass", {"C": 1e3, **hard}, (X,)
    yield "CoreVectorOneClass", {"nu": 0.2, **hard}, (X,)
    yield "SVDD", {"C": 0.01, **hard}, (X,)
    yield "SVDD", dict(hard), (X,)
    yield "CoreVectorRanker", {"C": 10.0, **hard}, (X[:1500], np.round(target[:1500]))
    few = {"method": corevec.methods.FewVectors(60), **hard}
    yield "CoreVectorClassifier", few, (X, y)
    yield "CoreVectorClassifier", {"loss": "hinge", **few}, (X, y)
    yield "CoreVectorRegressor", {"tube": 0.0, **few}, (X, target)
    core = {"method": corevec.methods.CoreSet(), "C": 1e3, **hard}
    yield "CoreVectorClassifier", core, (X, y)
    cells = {"method": corevec.methods.Cells(500), "C": 1e3, **hard}
    yield "CoreVectorClassifier", cells, (X, y)
    stream = {"kernel": "rbf", "gamma": 20.0, "budget": 100}
    yield "StreamingBallClassifier", stream, (X, y)
    yield "StructuralSVM", {"C": 1e3, "tol": 1e-9}, (X, three)


def interrupted(make, data, delay):
    """Fit with an interrupt after a delay; return what came of it."""
    model = make()
    alarm = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    try:
        alarm.start()
        began = time.perf_counter()
        model.fit(*data)
        seconds = time.perf_counter() - began
    except KeyboardInterrupt:
        return "no model yet"
    except Exception as error:
        return f"FAILED {type(error).__name__}: {str(error)[:200]}"
    finally:
        alarm.cancel()
        with contextlib.suppress(KeyboardInterrupt):
            alarm.join()  # an interrupt that comes after the end
    return whole(model, data, seconds - delay)


def whole(model, data, late):
    """Return whether a model that was interrupted can be used."""
    ask = "decision_function" if hasattr(model, "decision_function") else "predict"
    if not np.isfinite(np.asarray(getattr(model, ask)(data[0]), dtype=float)).all():
        return f"FAILED {ask} is not finite"
    found = getattr(model, "certificate_", None) if has_certificate(model) else None
    if found is None:
        return "a model of one pass"
    if found.converged and not found.relative_gap <= found.tol:
        return f"FAILED converged at gap {found.relative_gap}"
    if not found.converged and found.stopped_by not in ("interrupt", *ALLOWED_ENDS):
        return f"FAILED stopped by {found.stopped_by}"
    if late > 20:
        return f"FAILED {late:.0f} s after the interrupt"
    return "finished before" if found.stopped_by != "interrupt" else "best model"


# The ends of fits that were over before the interrupt.
ALLOWED_ENDS = ("stall", "n_vectors", "tol", "max_vectors", "memory_budget", "cells")


def has_certificate(model):
    return "Streaming" not in type(model).__name__


def interrupts(count, seed):
    """Interrupt `count` fits; return how often what came of it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    cases = list(estimators())
    seen = Counter()
    for number in range(count):
        name, given, data = cases[number % len(cases)]
        cls = getattr(corevec, name, None)
        if cls is None:
            continue
        has = cls().get_params()
        parameters = {key: value for key, value in given.items() if key in has}
        if number < len(cases):  # compile first
            with warnings.catch_warnings():
                cls(**parameters).fit(*[part[:200] for part in data])
        delay = float(rng.choice([rng.uniform(0, 0.05), rng.uniform(0, 1.5)]))
        told = interrupted(lambda: cls(**parameters), data, delay)  # noqa: B023
        seen[told if not told.startswith("FAILED") else f"{name}: {told}"] += 1
    return seen


# Saves one of two models over and over, or fits with a checkpoint; says when it begins.
SAVING = """
import sys, warnings; warnings.simplefilter("ignore")
import numpy as np, corevec
from corevec.formats import save
rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 20)); y = rng.integers(0, 2, 3000)
models = [corevec.CoreVectorClassifier(C=C, gamma=1.0).fit(X[:n], y[:n])
          for C, n in ((1.0, 300), (10.0, 3000))]
save(models[0], sys.argv[1])
print("begun", flush=True)
while True:
    for model in models:
        save(model, sys.argv[1])
"""
FITTING = """
import sys, warnings; warnings.simplefilter("ignore")
import numpy as np, corevec
rng = np.random.default_rng(0)
X = rng.random((20000, 8)); y = rng.integers(0, 2, 20000)
given = dict(C=1e3, gamma=20.0, tol=1e-9, random_state=0, n_jobs=1, max_iter={most},
             method=corevec.methods.CoreSet())
model = corevec.CoreVectorClassifier(checkpoint=sys.argv[1], **given)
print("begun", flush=True)
model.fit(X, y)
print("done", model.certificate_.stopped_by, flush=True)
"""


def killed(code, path, delay):
    """Start a process, kill it `delay` after it says that it has begun."""
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == "begun"
        time.sleep(delay)
        process.kill()


def kills(count, seed):
    """Kill `count` processes while they write; return what was left."""
    from corevec.formats import load

    rng = np.random.default_rng(seed)
    seen = Counter()
    with tempfile.TemporaryDirectory(prefix="corevec-kill-") as folder:
        for number in range(count):
            if number % 5:
                path = Path(folder) / "model.npz"
                killed(SAVING, path, float(rng.uniform(0.0, 0.3)))
                try:
                    model = load(path)
                    model.predict(np.zeros((2, 20)))
                    seen[f"saved: a whole model of {len(model.support_) > 300}"] += 1
                except Exception as error:
                    seen[f"FAILED {type(error).__name__}: {error}"[:300]] += 1
                continue
            path = Path(folder) / f"{number}.checkpoint"
            killed(FITTING.replace("{most}", "None"), path, float(rng.uniform(0.5, 4)))
            if not path.exists():
                seen["checkpoint: none written yet"] += 1
                continue
            command = [sys.executable, "-c", FITTING.replace("{most}", "1"), str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            good = done.returncode == 0 and "done" in done.stdout
            seen["checkpoint: gone on" if good else f"FAILED {done.stderr[-300:]}"] += 1
        left = [p.name for p in Path(folder).iterdir()]
        seen[f"files left: {len(left)}"] += 1
    return seen


def main() -> int:
    """Read the words of the command line, interrupt and kill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interrupts", type=int, default=200)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    seen = interrupts(words.interrupts, words.seed) + kills(words.kills, words.seed)
    print(json.dumps(dict(seen.most_common()), indent=1, ensure_ascii=False))
    return int(any("FAILED" in what for what in seen))


if __name__ == "__main__":
    sys.exit(main())
