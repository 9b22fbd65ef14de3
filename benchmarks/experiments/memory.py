"""A fit on a memmap of 4 GB (10,000,000 x 100, float32): growth of resident memory.

Measured in a process of its own as the growth of RssAnon during the fit, sampled every
20 ms: RssAnon leaves out the page cache, which holds the memmap's pages as long as
nobody else wants the memory. The baseline is taken after import, after a small fit and
with the labels in memory. The file lies in a temporary folder (TMPDIR) and is removed.

The exact machine on 60,000 x 20 rows of the same clouds, a third of them support
vectors, at three memory budgets: the file is small, so that what grows is the solver's.

The span of a basis likewise: 1,000,000 x 20, 2000 basis vectors, a memory budget of
256 MiB. All kernel values of rows and basis would be 15 GiB in float64.
"""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.case import Case
from benchmarks.processes import answer_of

REPEATS = 1
BLOCK = 100_000
MAX_SECONDS = 120.0
ESTIMATORS = {
    "corevec_tol": "CoreVectorClassifier",
    "corevec_subspace": "CoreVectorClassifier",
}
BUDGETS = (128 << 20, 512 << 20, 2 << 30)
SPAN = {"C": 1.0, "gamma": 0.025, "loss": "squared_hinge", "max_time": MAX_SECONDS}
SPAN |= {"memory_budget": 256 << 20}
MOST_SECONDS = 3_600


def cases(quick):
    shape = {"n": 20_000 if quick else 10_000_000, "d": 100}
    params = {"C": 1.0, "gamma": 0.005, "max_time": MAX_SECONDS}
    yield Case("corevec_tol", "memmap", params, shape, probe=probe)
    shape = {"n": 20_000 if quick else 60_000, "d": 20}
    for budget in BUDGETS:
        params = {"C": 1.0, "gamma": 0.05, "memory_budget": budget}
        yield Case("corevec_tol", "memmap", params, shape, probe=probe)
    shape = {"n": 20_000 if quick else 1_000_000, "d": 20}
    for basis in ("nystroem", "pursuit"):
        params = SPAN | {"basis": basis, "n_basis": 100 if quick else 2000}
        yield Case("corevec_subspace", "memmap", params, shape, probe=probe)


def probe(case, threads):
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder), **case.data_args)
        job = {"folder": folder, "params": case.params | {"n_jobs": threads}}
        job["estimator"] = ESTIMATORS[case.solver]
        found = answer_of("benchmarks.memory_process", job, MOST_SECONDS)
    return case.data_args | found


def write_rows(folder, n, d):
    """Write two Gaussian clouds, two deviations apart, block by block."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n, dtype=np.int8)
    X = np.lib.format.open_memmap(
        folder / "X.npy", mode="w+", dtype=np.float32, shape=(n, d)
    )
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        block = rng.standard_normal((stop - start, d), dtype=np.float32)
        block[:, 0] += 2 * y[start:stop]
        X[start:stop] = block
    X.flush()
    np.save(folder / "y.npy", y)
