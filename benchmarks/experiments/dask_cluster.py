"""A Dask cluster on this machine: one scheduler, two workers of one thread and 1.5 GB.

Four questions (issue "7 of 9"): what Dask costs on a million rows that fit in memory
(`overhead`: the same fit on two threads beside it), how the time of a pass grows from
1M to 100M rows (`one_pass`: 300 vectors, two columns), certified fits of a checkerboard
that is made when it is asked for and never whole (`fit`), and the bytes of a round for
a core set of 1000 rows of 50 columns (`traffic`). Peak memory is that of each process.
"""

from benchmarks.case import Case
from benchmarks.processes import answer_of
from benchmarks.records import noted

REPEATS = 1
CLUSTER = {"workers": 2, "memory": "1.5GB"}
BOARD = {"C": 1000.0, "gamma": 1.0}
# Every round looks at all rows, so that every round has to be sent.
CORE = {"C": 1.0, "gamma": 0.01, "max_core": 1000}
CORE |= {"sampling": "full"}
# A hundred million rows take four minutes; a cluster that hangs is given up.
MOST_SECONDS = 1_800
PASSES = {1_000_000: 9, 3_000_000: 5, 10_000_000: 3, 30_000_000: 3, 100_000_000: 2}


def cases(quick):
    million = 20_000 if quick else 1_000_000
    yield case("overhead", BOARD, million, 125_000, repeats=3)
    yield case("traffic", CORE, million // 5, 25_000)
    for n, repeats in PASSES.items():
        if not quick or n == million:
            yield case("one_pass", {"vectors": 300}, n, 500_000, repeats=repeats)
    for n in (million,) if quick else (10_000_000, 100_000_000):
        yield case("fit", BOARD, n, 500_000)


def case(kind, params, n, partition, repeats=1):
    size = {"kind": kind, "n": n, "partition": partition, "repeats": repeats}
    name = "dask_traffic" if kind == "traffic" else "dask"
    return Case("corevec_tol", name, params, size, probe=probe)


def probe(case, threads):
    job = {**CLUSTER, **case.data_args, "params": case.params}
    return noted(answer_of("benchmarks.cluster_process", job, MOST_SECONDS))
