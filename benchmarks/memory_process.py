"""The process that `experiments/memory.py` measures: job in on stdin, row out."""

import json
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.measuring import peak_rss_mb, status_mb
from benchmarks.processes import job_from_parent
from benchmarks.solvers._base import certificate_facts, with_method
from benchmarks.solvers._span import span_facts

SAMPLE_SECONDS = 0.02
WARM_UP_ROWS = 3000


class AnonymousPeak:
    """The largest RssAnon seen inside a `with` block, by a thread that samples."""

    def __enter__(self):
        self.peak = status_mb("RssAnon")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self):
        while not self._stop.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, status_mb("RssAnon"))

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def main():
    import corevec

    warnings.simplefilter("ignore")  # a stop by max_time is stated in the row
    job = job_from_parent()
    folder = Path(job["folder"])
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    estimator = job.get("estimator", "CoreVectorClassifier")
    facts = certificate_facts if estimator == "CoreVectorClassifier" else span_facts
    model = getattr(corevec, estimator)(**with_method(job["params"]), random_state=0)
    model.fit(np.array(X[:WARM_UP_ROWS]), y[:WARM_UP_ROWS])
    before = status_mb("RssAnon")
    with AnonymousPeak() as watched:
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
    row = {
        "fit_seconds": seconds,
        "peak_rss_mb": peak_rss_mb(),
        "note": f"RssAnon grew by {watched.peak - before:.0f} MB "
        f"from {before:.0f} MB; peak_rss_mb includes the memmap's cached pages",
        **facts(model, {}),
    }
    sys.stdout.write(json.dumps(row, default=_plain) + "\n")


def _plain(value):
    return value.item() if isinstance(value, np.generic) else str(value)


if __name__ == "__main__":
    main()
