"""Spark's standalone cluster on this machine: a master, one or two workers of one core.

What Spark costs on a million rows that fit in memory, and how fast it predicts
(`overhead`); a certified fit of ten million rows that are made when they are asked for,
with one worker and with two (`fit`); the same with a worker killed in its middle
(`killed`). Peak memory is that of each process.
"""

import json
import subprocess
import sys

from benchmarks.case import Case
from benchmarks.records import noted

REPEATS = 1
CLUSTER = {"memory": "1500m", "executor_memory": "1g"}
BOARD = {"C": 1000.0, "gamma": 1.0}
# A cluster that hangs is given up; the fits of ten million rows take two minutes each.
MOST_SECONDS = 1_500


def cases(quick):
    million = 20_000 if quick else 1_000_000
    yield case("overhead", million, million // 8, workers=2, repeats=3)
    for workers in (1, 2):
        yield case("fit", 10 * million, million // 4, workers)
    yield case("killed", 10 * million, million // 4, workers=2)


def case(kind, n, partition, workers, repeats=1):
    size = {"kind": kind, "n": n, "partition": partition}
    size |= {"workers": workers, "repeats": repeats}
    return Case("corevec_tol", "spark", BOARD, size, probe=probe)


def probe(case, threads):
    job = {**CLUSTER, **case.data_args, "params": case.params}
    command = [sys.executable, "-m", "benchmarks.spark_process"]
    done = subprocess.run(
        command,
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"the measured process failed:\n{done.stderr[-2000:]}")
    return noted(json.loads(done.stdout.splitlines()[-1]))
