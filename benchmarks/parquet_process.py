"""The process that `experiments/parquet_size.py` measures: job in, row out."""

import json
import sys
import time
import warnings
from pathlib import Path

from benchmarks.measuring import peak_rss_mb
from benchmarks.memory_process import AnonymousPeak
from benchmarks.processes import job_from_parent


def main():
    import corevec

    warnings.simplefilter("ignore")
    job = job_from_parent()
    folder = Path(job["folder"])
    size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
    with AnonymousPeak() as watched:
        start = time.perf_counter()
        rows = corevec.open(folder, target="label")
        model = corevec.CoreVectorClassifier(**job["params"], random_state=0)
        model.fit(rows)
        seconds = time.perf_counter() - start
    found = model.certificate_
    row = {
        "n": rows.n_rows,
        "file_gb": size / 1e9,
        "fit_seconds": seconds,
        "peak_rss_mb": peak_rss_mb(),
        "peak_anonymous_mb": watched.peak,
        "gap": found.relative_gap,
        "converged": found.converged,
        "passes": found.passes,
        "n_vectors": len(model.support_),
        "seconds_of_rounds": json.dumps([one["seconds"] for one in model.history_]),
    }
    sys.stdout.write(json.dumps(row, default=float) + "\n")


if __name__ == "__main__":
    main()
