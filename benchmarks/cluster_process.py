"""The client that the experiments with Dask measure: job in on stdin, row out.

Starts `dask scheduler` and `dask worker` processes on loopback (tests/cluster.py, the
one that the tests use) and says how much memory each of them had at its peak.
"""

import json
import logging
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from cluster import Cluster
from lazy_rows import board

from benchmarks.processes import high_water, job_from_parent

WARM_UP_ROWS = 20_000


def main():
    from distributed import Client

    warnings.simplefilter("ignore")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    job = job_from_parent()
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), job["workers"], job["memory"])
        with cluster, Client(cluster.address, timeout=30) as client:
            client.wait_for_workers(job["workers"])
            row = KINDS[job["kind"]](job)
            row |= peaks(cluster)
    sys.stdout.write(json.dumps(row, default=float) + "\n")


def peaks(cluster):
    """Return the peak resident memory of every process, in MB."""
    workers = [high_water(process.pid) for process in cluster.workers]
    return {
        "client_mb": high_water("self"),
        "scheduler_mb": high_water(cluster.scheduler.pid),
        "largest_worker_mb": max(workers),
    }


def classifier(job):
    from benchmarks.solvers._base import with_method
    from corevec import CoreVectorClassifier

    return CoreVectorClassifier(**with_method(job["params"]), random_state=0)


def facts(model):
    """Return the certificate of a fit, its passes and its traffic."""
    found, rounds = model.certificate_, model.history_
    last = ([one for one in rounds if one["exact"]] or rounds)[-1]
    return {
        "gap": found.relative_gap,
        "converged": found.converged,
        "n_vectors": len(model.support_),
        "passes": found.passes,
        "rounds": len(rounds),
        "sent_last_round": last.get("bytes_sent", 0),
        "received_last_round": last.get("bytes_received", 0),
        "largest_round_bytes": max(
            (r["bytes_sent"] + r["bytes_received"] for r in rounds[1:]), default=0
        )
        if "bytes_sent" in last
        else 0,
    }


def fit(job):
    """A fit of rows that are made when they are asked for."""
    X, y = board(WARM_UP_ROWS, WARM_UP_ROWS // 4)
    classifier(job).fit(X, y)  # the workers import and compile
    X, y = board(job["n"], job["partition"])
    start = time.perf_counter()
    model = classifier(job).fit(X, y)
    seconds = time.perf_counter() - start
    return {"n": job["n"], "fit_seconds": seconds, **facts(model)}


def overhead(job):
    """The same rows in memory: here, and held by the workers; in turns."""
    import dask

    X, y = dask.persist(*board(job["n"], job["partition"]))
    here = X.compute(), y.compute()
    plain = classifier(job).set_params(n_jobs=job["workers"])
    found = {"dask": [], "plain": []}
    for _ in range(job["repeats"] + 1):
        for name, model, rows in (
            ("plain", plain, here),
            ("dask", classifier(job), (X, y)),
        ):
            start = time.perf_counter()
            model.fit(*rows)
            found[name].append(time.perf_counter() - start)
    seconds = {name: np.median(times[1:]) for name, times in found.items()}
    return {
        "n": job["n"],
        "fit_seconds": seconds["dask"],
        "plain_seconds": seconds["plain"],
        "ratio": seconds["dask"] / seconds["plain"],
        "all_seconds": json.dumps(found),
        **facts(model),
    }


def one_pass(job):
    """One look at all rows with a given function, for several numbers of rows."""
    from corevec.certificates.scan import ScanRequest, scan
    from corevec.data.sources import Coded, Workers
    from corevec.data.sources.dask import dask_source
    from corevec.kernels import Rows, make_kernel
    from corevec.models.expansion import KernelExpansion
    from corevec.problems.family import Labels, two_class

    rng = np.random.default_rng(0)
    size = job["params"]["vectors"]
    vectors = Rows(rng.random((size, 2)) * 4, np.full(size, -1))
    kernel = make_kernel("rbf", 1.0)
    function = KernelExpansion(kernel, vectors, rng.normal(size=(size, 1)), np.zeros(1))
    nothing, times = np.empty(0, dtype=np.int64), []
    for repeat in range(job["repeats"] + 1):
        # First of all the workers import and compile.
        X, y = board(job["n"] if repeat else 4 * job["partition"], job["partition"])
        source = dask_source("one_pass", X, y, None).using(2**28, Workers(1))
        labels = Labels(source.n_rows, Coded(np.array([0, 1])))
        start = time.perf_counter()
        scan(source, function, [ScanRequest(two_class(labels, 1.0, 1, 0), nothing)])
        times.append(time.perf_counter() - start)
    seconds = float(np.median(times[1:]))
    return {
        "n": job["n"],
        "fit_seconds": seconds,  # of one pass: there is no fit here
        "seconds_per_million": seconds / job["n"] * 1e6,
        "all_seconds": json.dumps(times[1:]),
    }


def traffic(job):
    """A core set of 1000 rows of 50 columns: what every round sends and receives."""
    import dask.array as da

    state = da.random.default_rng(0)
    X = state.normal(size=(job["n"], 50), chunks=(job["partition"], 50))
    y = (X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.5).astype(np.int8)
    classifier(job).fit(X[: job["partition"]], y[: job["partition"]])
    start = time.perf_counter()
    model = classifier(job).fit(X, y)
    seconds = time.perf_counter() - start
    own = [(one["bytes_sent"], one["bytes_received"]) for one in model.history_]
    busy = [pair for pair in own[1:] if sum(pair)]  # the first brings a sample here
    return {
        "n": job["n"],
        "fit_seconds": seconds,
        **facts(model),
        "first_round_bytes": sum(own[0]),
        "all_rounds": json.dumps(busy),
    }


KINDS = {"fit": fit, "overhead": overhead, "one_pass": one_pass, "traffic": traffic}

if __name__ == "__main__":
    main()
