"""Spark's standalone cluster on this machine: a master, one or two workers of one core.

What Spark costs on a million rows that fit in memory, and how fast it predicts
(`overhead`), beside Dask on such rows (`dask`); certified fits of rows that are made
when they are asked for: three million with one worker (`fit`), with two, and with two
of which one is killed in the middle (`killed`), then ten million. Peak memory is that
of each process.
"""

from benchmarks.case import Case
from benchmarks.processes import answer_of
from benchmarks.records import noted

REPEATS = 1
CLUSTER = {"memory": "1500m", "executor_memory": "1g"}
DASK = {"memory": "1.5GB"}
BOARD = {"C": 1000.0, "gamma": 1.0}
# A cluster that hangs is given up; all cases together take some six minutes.
MOST_SECONDS = 900


def cases(quick):
    million = 20_000 if quick else 1_000_000
    yield case("overhead", million, million // 8, workers=2, repeats=3)
    yield case("dask", million, million // 8, workers=2, repeats=3)
    yield case("fit", 3 * million, million // 4, workers=1)
    yield case("killed", 3 * million, million // 4, workers=2)
    yield case("fit", 10 * million, million // 4, workers=2)


def case(kind, n, partition, workers, repeats=1):
    size = {"kind": kind, "n": n, "partition": partition}
    size |= {"workers": workers, "repeats": repeats}
    return Case("corevec_tol", "spark", BOARD, size, probe=probe)


def probe(case, threads):
    job = {**CLUSTER, **case.data_args, "params": case.params}
    if job["kind"] == "dask":
        job |= {**DASK, "kind": "overhead"}
        return noted(answer_of("benchmarks.cluster_process", job, MOST_SECONDS))
    return noted(answer_of("benchmarks.spark_process", job, MOST_SECONDS))
