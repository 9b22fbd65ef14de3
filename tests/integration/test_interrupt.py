"""Ctrl-C in a real process keeps the best model."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

# Shells start background jobs with SIGINT ignored, which is inherited: the first line.
SCRIPT = """
import signal; signal.signal(signal.SIGINT, signal.default_int_handler)
import json, sys, warnings
import numpy as np
from corevec import (
    CoreVectorClassifier, CoreVectorOneClass, NotCertifiedWarning, methods
)

rng = np.random.default_rng(0)
X = rng.random((200_000, 8))
y = rng.integers(0, 2, 200_000)          # nothing to learn: every row is in the margin
core = methods.CoreSet(max_vectors=20_000)
hard = dict(gamma=20.0, method=core, tol=1e-6, random_state=0, n_jobs=1)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    CoreVectorClassifier(C=1e3, **hard).fit(X[:300], y[:300])  # compile first
    CoreVectorOneClass(C=1e3, **hard).fit(X[:300])
for model in {models}:
    print("fitting", flush=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    c = model.certificate_
    print(json.dumps(dict(
        stopped_by=c.stopped_by, converged=bool(c.converged), n_rows=int(c.n_rows),
        core=len(model.support_), f=len(model.decision_function(X[:9])),
        warned=[w.category.__name__ for w in caught],
    )), flush=True)
"""
# What is fitted, and the seconds after which it is interrupted.
FITS = [
    ("CoreVectorClassifier(C=1e3, **hard)", 0.5),
    ("CoreVectorClassifier(C=1e3, **hard)", 3.0),
    ("CoreVectorOneClass(C=1e3, **hard)", 2.0),
    ("CoreVectorOneClass(nu=0.3, **hard)", 2.0),
]


@contextmanager
def started(code, seconds):
    """Start a Python with this code; end it after so many seconds at the latest."""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        too_long = threading.Timer(seconds, process.kill)
        too_long.start()
        try:
            yield process
        finally:
            too_long.cancel()
            process.kill()


@pytest.mark.slow
def test_an_interrupted_fit_returns_the_best_model_so_far():
    code = SCRIPT.replace("{models}", "[" + ", ".join(model for model, _ in FITS) + "]")
    with started(code, seconds=240) as process:
        for model, after in FITS:
            assert process.stdout.readline().strip() == "fitting", process.stderr.read()
            time.sleep(after)
            process.send_signal(signal.SIGINT)
            line = process.stdout.readline()
            assert line, f"{model}: {process.stderr.read()}"
            told = json.loads(line)
            assert told["stopped_by"] == "interrupt", model
            assert not told["converged"]
            assert told["n_rows"] == 200_000
            assert told["core"] >= 1
            assert told["f"] == 9
            assert "NotCertifiedWarning" in told["warned"]
        assert process.wait(timeout=60) == 0, process.stderr.read()


OFTEN = """
import signal; signal.signal(signal.SIGINT, signal.default_int_handler)
import json, os, threading, warnings
import numpy as np
from corevec import CoreVectorClassifier

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, y = rng.random((20_000, 8)), rng.integers(0, 2, 20_000)
hard = dict(C=1e3, gamma=20.0, method="coreset", tol=1e-9, random_state=0, n_jobs=1)
CoreVectorClassifier(**hard).fit(X[:300], y[:300])
told = dict(models=0, too_early=0, not_whole=[])
for delay in rng.uniform(0.0, 0.5, size=24):
    model = CoreVectorClassifier(**hard)
    alarm = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    try:
        alarm.start()
        model.fit(X, y)
        alarm.join()
        stopped = model.certificate_.stopped_by
        if stopped != "interrupt" or not np.isfinite(model.decision_function(X)).all():
            told["not_whole"].append(stopped)
        told["models"] += 1
    except KeyboardInterrupt:
        told["too_early"] += 1
    except Exception as error:
        told["not_whole"].append(repr(error))
print(json.dumps(told))
"""


@pytest.mark.slow
def test_an_interrupt_at_any_moment_leaves_a_whole_model_or_none():
    done = subprocess.run(
        [sys.executable, "-c", OFTEN], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["not_whole"] == []
    # Before the first round there is no model to keep: the interrupt passes through.
    assert told["models"] >= 15
