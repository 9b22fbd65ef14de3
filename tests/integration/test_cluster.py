"""A real scheduler and real workers, killed in the middle of a fit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("distributed")

from cluster import HERE, Cluster
from distributed import Client, default_client
from lazy_rows import board

from corevec import CoreVectorClassifier
from corevec.exceptions import RowsLostError

ROWS, PARTITION = 12_000, 1_200
# A kernel of high rank: the core set grows over many rounds, the last on all rows.
MODEL = {"C": 1.0, "gamma": 20.0, "tol": 0.01, "random_state": 0, "method": "coreset"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One for all tests: a killed worker is replaced, the scheduler is killed last."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def answer():
    """The fit of the same rows in memory."""
    X, y = board(ROWS, PARTITION)
    rows, labels = X.compute(scheduler="sync"), y.compute(scheduler="sync")
    return CoreVectorClassifier(**MODEL).fit(rows, labels).certificate_


def client_of(cluster):
    # A scheduler that is gone is waited for as long as this.
    client = Client(cluster.address, timeout=5, set_as_default=True)
    client.wait_for_workers(len(cluster.workers), timeout=60)
    return client


def same_answer(found, wanted):
    """Both optima lie between the same bounds: neither gap excludes the other."""
    assert found.converged
    assert wanted.converged
    assert found.n_verified == ROWS
    assert found.dual <= wanted.primal
    assert wanted.dual <= found.primal


def wait_for(condition, what, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in {seconds} s"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_worker_killed_in_mid_fit_twice_changes_nothing(cluster, answer):
    X, y = board(ROWS, PARTITION, pause=0.05)
    model = CoreVectorClassifier(**MODEL)
    killed = []

    def kill_one_after_the_other(client):
        for number in (0, 1):
            seen = set(client.scheduler_info()["workers"])
            before = sum(len(found) for found in client.processing().values())
            wait_for(
                lambda client=client: any(client.processing().values()),
                f"work to disturb ({before} tasks, {len(seen)} workers)",
            )
            cluster.kill(cluster.workers[number])
            killed.append(number)
            cluster.workers[number] = cluster.add_worker(10 + number)
            wait_for(
                lambda client=client: len(client.scheduler_info()["workers"]) == 2,
                "the new worker",
            )

    with client_of(cluster) as client:
        disturbing = threading.Thread(target=kill_one_after_the_other, args=(client,))
        disturbing.start()
        model.fit(X, y)
        fitted = time.monotonic()
        disturbing.join()
        assert time.monotonic() - fitted < 30  # both kills fell into the fit
    assert killed == [0, 1]
    same_answer(model.certificate_, answer)


FIT = """
import sys
from distributed import Client, default_client
from lazy_rows import board
from corevec import CoreVectorClassifier
if __name__ == "__main__":
    address, path = sys.argv[1:]
    with Client(address, timeout=60):
        X, y = board({rows}, {partition}, pause=0.1)
        CoreVectorClassifier(**{model}, checkpoint=path).fit(X, y)
"""


@pytest.mark.slow
def test_a_client_killed_goes_on_from_its_checkpoint(cluster, answer, tmp_path):
    path, script = tmp_path / "fit.npz", tmp_path / "fit.py"
    script.write_text(FIT.format(rows=ROWS, partition=PARTITION, model=MODEL))
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    first = subprocess.Popen(
        [sys.executable, str(script), cluster.address, str(path)],
        env={**os.environ, "PYTHONPATH": paths.rstrip(os.pathsep)},
    )
    try:
        wait_for(path.exists, "the first checkpoint")
        assert first.poll() is None  # it is killed in the middle
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    X, y = board(ROWS, PARTITION)
    model = CoreVectorClassifier(**MODEL, checkpoint=path)
    with client_of(cluster):
        model.fit(X, y)
    same_answer(model.certificate_, answer)
    assert not path.exists()  # a certified fit needs it no more


@pytest.mark.slow
def test_a_scheduler_that_goes_away_leaves_the_checkpoint(cluster, answer, tmp_path):
    path = tmp_path / "fit.npz"
    X, y = board(ROWS, PARTITION, pause=0.1)
    model = CoreVectorClassifier(**MODEL, checkpoint=path)

    def end_it():
        wait_for(path.exists, "the first checkpoint")
        cluster.kill(cluster.scheduler)

    client = client_of(cluster)
    ending = threading.Thread(target=end_it)
    ending.start()
    try:
        with pytest.raises(RowsLostError, match=r"scheduler .* stored in"):
            model.fit(X, y)
        ending.join()
    finally:
        client.close(timeout=1)
    with pytest.raises(ValueError, match="No clients found"):
        default_client()  # or what follows in this process would wait for it for ever
    assert path.exists()
    # The same rows in memory, on this machine: it goes on from there.
    rows, labels = (part.compute(scheduler="sync") for part in board(ROWS, PARTITION))
    model.fit(rows, labels)
    same_answer(model.certificate_, answer)
