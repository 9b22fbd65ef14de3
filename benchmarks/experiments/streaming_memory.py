"""100,000,000 generated rows through `partial_fit`: resident memory along the way.

10 columns, blocks of 1,000,000 rows made on the fly, always in the same memory; one
thread, a process of its own. VmRSS and RssAnon (without the pages of files and
libraries) are read after 1, 10, 50 and 100 % of the rows, when the block is in memory:
wanted is that they stay. The same of 5,000,000 rows through StreamingClassifier with a
Gaussian core of 100 rows, in blocks of 50,000: 40 % of these rows are inside the margin
and are learned, and 100,000,000 were not run: an hour. `fit_seconds` is `partial_fit`
alone; making the rows is in the note. `train_error` is that of the last block.
"""

import json
import os
import subprocess
import sys

from benchmarks.case import Case
from benchmarks.records import ROOT

REPEATS = 1
SHARES = (0.01, 0.1, 0.5, 1.0)
D = 10
METHODS = ("corevec_stream", "corevec_core_stream")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def cases(quick):
    n, block = (200_000, 2_000) if quick else (100_000_000, 1_000_000)
    shape = {"n": n, "d": D, "block": block}
    if "corevec_stream" in METHODS:
        balls = {"C": 1.0}
        yield Case("corevec_stream", "clouds_on_the_fly", balls, shape, probe=probe)
    if "corevec_core_stream" in METHODS:
        n, block = (20_000, 1_000) if quick else (5_000_000, 50_000)
        core, shape = {"budget": 100}, {"n": n, "d": D, "block": block}
        yield Case("corevec_core_stream", "clouds_on_the_fly", core, shape, probe=probe)


def probe(case, threads):
    """Return the columns; the samples of memory go into the note."""
    job = case.data_args | {"params": case.params, "shares": SHARES}
    job["solver"] = case.solver
    found = _in_process(job)
    samples, making = found.pop("samples"), found.pop("making")
    seen = found.pop("n_seen")
    if seen != case.data_args["n"]:
        raise RuntimeError(f"{case.data_args['n']} rows were made, {seen} were seen")
    told = ", ".join(f"{100 * s:g} %: {rss:.1f} ({own:.1f})" for s, rss, own in samples)
    growth = samples[-1][1] - samples[0][1], samples[-1][2] - samples[0][2]
    note = (
        f"VmRSS (RssAnon) in MB after {told}; growth from the first to the last "
        f"{growth[0]:+.1f} ({growth[1]:+.1f}) MB; making the rows took {making:.1f} s; "
        f"{seen / found['fit_seconds']:,.0f} rows/s"
    )
    return {"threads": 1, "n": seen, "d": D, **found, "note": note}


def _in_process(job):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.stream_memory_process"],
        input=json.dumps(job),
        env=os.environ | ONE_THREAD,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the measured process failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def report(rows, folder):
    """Return what the note says, as a line of its own."""
    lines = [
        f"- {row.solver}, {int(row.n):,} rows: {row.note}" for row in rows.itertuples()
    ]
    return ["## Memory and rows per second\n\n" + "\n".join(lines)]
