"""The driver that the experiment with Spark measures: job in on stdin, row out.

Starts a master and workers of Spark's own standalone cluster on loopback, each a
process group, so that killing a worker kills its executor and its Python processes.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pyspark

from benchmarks.processes import below, command_of, high_water, job_from_parent, say

CLASSES = "org.apache.spark.deploy"
WARM_UP_ROWS = 20_000


class SparkCluster:
    """A master and some workers of one core; killed at the end."""

    def __init__(self, folder, n_workers, memory):
        self.folder, self.memory = folder, memory
        self.home = Path(pyspark.__file__).parent
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"spark://127.0.0.1:{self.port}"
        master = ("--host", "127.0.0.1", "--port", str(self.port))
        self.master = self._start("master.Master", *master)
        self._wait_for_master()
        self.workers = [self.add_worker() for _ in range(n_workers)]

    def add_worker(self):
        own = ("--host", "127.0.0.1", "-c", "1", "-m", self.memory)
        own += ("--work-dir", str(self.folder))
        return self._start("worker.Worker", *own, self.address)

    def _start(self, what, *arguments):
        command = [str(self.home / "bin" / "spark-class"), f"{CLASSES}.{what}"]
        # Spark's own processes need little; the executor of a worker takes the memory.
        environment = os.environ | {"SPARK_DAEMON_MEMORY": "256m"}
        environment |= {"PYSPARK_PYTHON": sys.executable}
        environment |= {"SPARK_MASTER_OPTS": "-Dspark.worker.timeout=3600"}
        with open(self.folder / f"{what}-{time.monotonic_ns()}.log", "wb") as log:
            return subprocess.Popen(
                [*command, "--webui-port", "0", *arguments],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def _wait_for_master(self, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError("the master of Spark did not start")

    def kill(self, worker):
        """Kill a worker with its executor, as a machine that is switched off."""
        # The worker first: it would start an executor again.
        for one in (worker.pid, *below(worker.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        worker.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in (*self.workers, self.master):
            if one.poll() is None:
                self.kill(one)


def main():
    warnings.simplefilter("ignore")
    job = job_from_parent()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cluster = SparkCluster(Path(folder), job["workers"], job["memory"])
        with cluster:
            say(f"{job['kind']}: a master and {job['workers']} worker(s) are started")
            session = started(cluster.address, job)
            try:
                wait_for_workers(session, job["workers"])
                row = KINDS[job["kind"]](job, session, cluster)
                row |= peaks(cluster, session)
            finally:
                with contextlib.suppress(Exception):  # its JVM may have been ended
                    session.stop()
    sys.stdout.write(json.dumps(row, default=float) + "\n")


def started(address, job):
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": job["executor_memory"],
        "spark.log.level": "OFF",
        # A machine that is busy, or stopped for a while, is not lost.
        "spark.network.timeout": "3600s",
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(address)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def wait_for_workers(session, n_workers, seconds=120):
    """Wait until executors are there: the driver counts as one."""
    tracker = session.sparkContext._jsc.sc().statusTracker()
    end = time.monotonic() + seconds
    while len(tracker.getExecutorInfos()) <= n_workers:
        if time.monotonic() > end:
            raise RuntimeError(f"{n_workers} workers did not come in {seconds} s")
        time.sleep(0.2)


def board(session, n, partition, offset=0):
    """Return a lazy 4 x 4 checkerboard, never whole anywhere."""
    from pyspark.sql import functions as F

    rows = session.range(offset, offset + n, 1, max(1, n // partition))
    side = [(F.rand(seed) * 4).alias(name) for seed, name in ((1, "u"), (2, "v"))]
    return rows.select(*side).withColumn("y", (F.floor("u") + F.floor("v")) % 2)


def classifier(job):
    from corevec import CoreVectorClassifier

    return CoreVectorClassifier(**job["params"], random_state=0)


def peaks(cluster, session):
    """Return the peak resident memory of driver, its JVM and the executors, in MB."""
    python = [one for w in cluster.workers if w.poll() is None for one in below(w.pid)]
    java = [one for one in below(os.getpid()) if "java" in command_of(one)]
    own = [one for one in java if "SparkSubmit" in command_of(one)]
    return {
        "driver_mb": high_water("self"),
        "driver_jvm_mb": max(map(high_water, own), default=0.0),
        "executor_python_mb": max(
            (high_water(one) for one in python if "pyspark.daemon" in command_of(one)),
            default=0.0,
        ),
        "executor_jvm_mb": max(
            (high_water(one) for one in python if "CoarseGrained" in command_of(one)),
            default=0.0,
        ),
    }


def facts(model):
    """Return the certificate of a fit, its passes and its traffic."""
    found, rounds = model.certificate_, model.history_
    return {
        "gap": found.relative_gap,
        "primal": found.primal,
        "dual": found.dual,
        "converged": found.converged,
        "n_verified": found.n_verified,
        "n_vectors": len(model.support_),
        "passes": found.passes,
        "rounds": len(rounds),
        "first_round_bytes": rounds[0]["bytes_sent"] + rounds[0]["bytes_received"],
        "largest_later_round_bytes": max(
            (one["bytes_sent"] + one["bytes_received"] for one in rounds[1:]),
            default=0,
        ),
    }


def warm(job, session):
    """The executors start Python, import and compile."""
    rows = board(session, WARM_UP_ROWS, WARM_UP_ROWS // (2 * job["workers"]))
    return classifier(job).fit(rows, target="y")


def fit(job, session, cluster):
    """A fit of rows that are made when they are asked for."""
    warm(job, session)
    rows = board(session, job["n"], job["partition"])
    say(f"{job['n']:,} rows are fitted")
    start = time.perf_counter()
    model = classifier(job).fit(rows, target="y")
    seconds = time.perf_counter() - start
    say(f"fitted in {seconds:.1f} s")
    return {"n": job["n"], "fit_seconds": seconds, **facts(model)}


def killed(job, session, cluster):
    """The same fit, of which a worker is killed in the middle; another one joins."""
    first = fit(job, session, cluster)
    tracker = session.sparkContext.statusTracker()
    known, done = set(tracker.getJobIdsForGroup()), threading.Event()
    killed_at = []

    def kill():
        """Kill in the job after the first three: they count, check and sample."""
        while not done.is_set():
            time.sleep(0.05)
            if len(set(tracker.getJobIdsForGroup()) - known) > 3:
                killed_at.append(time.perf_counter())
                cluster.kill(cluster.workers[0])
                say("a worker is killed, another one is started")
                cluster.workers.append(cluster.add_worker())
                return

    killer = threading.Thread(target=kill)
    start = time.perf_counter()
    killer.start()
    try:
        rows = board(session, job["n"], job["partition"])
        model = classifier(job).fit(rows, target="y")
        end = time.perf_counter()
    finally:
        done.set()
        killer.join()
    if not killed_at or killed_at[0] > end:
        raise RuntimeError("the worker was not killed during the fit")
    return {
        "n": job["n"],
        "fit_seconds": end - start,
        "killed_at": killed_at[0] - start,
        "undisturbed": first,
        **facts(model),
    }


def overhead(job, session, cluster):
    """The same rows in memory and held by the executors, in turns; and predictions."""
    rows = board(session, job["n"], job["partition"]).persist()
    table = rows.toArrow()
    X = np.column_stack([table[name].to_numpy() for name in ("u", "v")])
    y = table["y"].to_numpy()
    plain = classifier(job).set_params(n_jobs=job["workers"])
    found = {"spark": [], "plain": [], "predict": [], "plain_predict": []}
    for repeat in range(job["repeats"] + 1):
        say(f"{job['n']:,} rows: turn {repeat} of {job['repeats']}")
        model = classifier(job)
        for name, act in (
            ("plain", lambda: plain.fit(X, y)),
            ("plain_predict", lambda: plain.predict(X)),
            ("spark", lambda model=model: model.fit(rows, target="y")),
            (
                "predict",
                lambda model=model: (
                    model.predict(rows).agg({"prediction": "sum"}).collect()
                ),
            ),
        ):
            start = time.perf_counter()
            act()
            found[name].append(time.perf_counter() - start)
    seconds = {name: float(np.median(times[1:])) for name, times in found.items()}
    return {
        "n": job["n"],
        "fit_seconds": seconds["spark"],
        "plain_seconds": seconds["plain"],
        "ratio": seconds["spark"] / seconds["plain"],
        "predicted_per_second": job["n"] / seconds["predict"],
        "plain_predicted_per_second": job["n"] / seconds["plain_predict"],
        "all_seconds": json.dumps(found),
        **facts(model),
    }


KINDS = {"fit": fit, "killed": killed, "overhead": overhead}

if __name__ == "__main__":
    main()
