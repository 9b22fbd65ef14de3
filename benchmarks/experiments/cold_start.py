"""A fresh process: import, the first small fit with an empty Numba cache, the second.

Each number is of a process of its own. `fit_seconds` holds the seconds of the step that
params["step"] names, measured inside that process (the interpreter's start is apart).
"""

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.case import Case

REPEATS = 3
IMPORT = """
import json, time
start = time.perf_counter()
from corevec import CoreVectorClassifier
print(json.dumps({"fit_seconds": time.perf_counter() - start}))
"""
FIRST_FIT = """
import json, time
import numpy as np
from corevec import CoreVectorClassifier
X = np.random.default_rng(0).uniform(0, 4, (1000, 2))
y = np.floor(X).sum(axis=1) % 2
start = time.perf_counter()
model = CoreVectorClassifier(C=1000, gamma=0.37, n_jobs=2).fit(X, y)
seconds = time.perf_counter() - start
found = model.certificate_
row = {"fit_seconds": seconds, "gap": found.relative_gap, "converged": found.converged}
print(json.dumps(row | {"n": 1000}, default=float))
"""


def cases(quick):
    for step in ("import", "first fit, empty cache", "first fit, second process"):
        yield Case("corevec_tol", "cold", {"step": step}, {"n": 1000}, probe=probe)


def probe(case, threads):
    """Return the seconds of the step, with a Numba cache made for this call."""
    with tempfile.TemporaryDirectory() as cache:
        step = case.params["step"]
        if step == "import":
            return _in_process(IMPORT, cache)
        first = _in_process(FIRST_FIT, cache)
        return first if step.endswith("empty cache") else _in_process(FIRST_FIT, cache)


def _in_process(code, cache):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the measured process failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
