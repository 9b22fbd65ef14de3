"""The process that `experiments/streaming_memory.py` measures: job in, row out."""

import json
import sys
import time

import numpy as np

from benchmarks.measuring import peak_rss_mb, status_mb

WARM_UP_ROWS = 1_000
CLASSES = np.array([0, 1])


class Rows:
    """Two Gaussian clouds, two deviations apart, block by block in the same memory."""

    def __init__(self, block_rows, d):
        self._rng = np.random.default_rng(0)
        self._X = np.empty((block_rows, d))

    def block(self):
        self._rng.standard_normal(out=self._X)
        y = self._rng.integers(0, 2, len(self._X), dtype=np.int8)
        self._X[:, 0] += 2.0 * y
        return self._X, y


def main():
    from benchmarks.solvers import SOLVERS

    job = json.load(sys.stdin)
    solver = SOLVERS[job["solver"]]
    rows = Rows(job["block"], job["d"])
    X, y = rows.block()
    warm = solver.build(job["params"], 0, 1)
    warm.partial_fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS], classes=CLASSES)
    model = solver.build(job["params"], 0, 1)
    n_blocks = job["n"] // job["block"]
    marks = {max(1, round(share * n_blocks)): share for share in job["shares"]}
    learning = making = 0.0
    samples = []
    for block in range(1, n_blocks + 1):
        start = time.perf_counter()
        X, y = rows.block()
        made = time.perf_counter()
        model.partial_fit(X, y, classes=CLASSES)
        learning += time.perf_counter() - made
        making += made - start
        if block in marks:
            samples.append([marks[block], status_mb("VmRSS"), status_mb("RssAnon")])
    row = {
        "fit_seconds": learning,
        "peak_rss_mb": peak_rss_mb(),
        "train_error": float(np.mean(model.predict(X) != y)),
        "n_support": int(np.max(model.n_updates_)),
        "samples": samples,
        "making": making,
        "n_seen": int(np.max(model.n_rows_seen_)),
    }
    sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
