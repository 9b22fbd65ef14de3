"""A peer on more rows than it can be waited for: measured, else a power law.

LIBSVM's time grows like a power of the rows between 2 and 3. The peer is fitted on
10,000, 20,000 and 40,000 rows as long as each is expected within the limit; the line
through the logarithms of the last two tells the time on all. If that is within the
limit too the peer is fitted on all, and the row is an ordinary measurement.
"""

import logging
from dataclasses import replace

import numpy as np

from benchmarks import datasets, harness

log = logging.getLogger(__name__)

LIMIT_SECONDS = 300.0
LADDER = (10_000, 20_000, 40_000)


def fit_or_extrapolate(case, threads):
    """Return the columns of a fit, or of its extrapolation, which the note states."""
    n = datasets.load(case.dataset, case.data_args).X_train.shape[0]
    steps = []
    for rows in [r for r in LADDER if r < n]:
        if expected(steps, rows) > LIMIT_SECONDS:
            break
        few = {k: v for k, v in case.data_args.items() if k != "share"} | {"n": rows}
        found = harness.measured_peer(replace(case, data_args=few, probe=None), threads)
        log.info(
            "%s on %s, %d rows: %.1f s",
            case.solver,
            case.dataset,
            rows,
            found["fit_seconds"],
        )
        steps.append(found)
    seconds = expected(steps, n)
    if seconds <= LIMIT_SECONDS:
        return harness.measured_peer(replace(case, probe=None), threads)
    return extrapolated(steps, n, seconds)


def expected(steps, n):
    """Return the seconds that n rows will take; 0 while too little is known to say."""
    if len(steps) < 2:
        return 0.0
    (n0, t0), (n1, t1) = [(s["n"], s["fit_seconds"]) for s in steps[-2:]]
    power = np.log(t1 / t0) / np.log(n1 / n0)
    return float(t1 * (n / n1) ** power)


def extrapolated(steps, n, seconds):
    """Return the row: the expected seconds; all else is that of the largest fit."""
    told = ", ".join(f"{s['n']:,} rows {s['fit_seconds']:.1f} s" for s in steps)
    note = (
        f"extrapolated: {told}; errors, SVs and memory are those of the fit on "
        f"{steps[-1]['n']:,} rows"
    )
    return steps[-1] | {
        "n": n,
        "fit_seconds": seconds,
        "stopped_by": "extrapolated",
        "note": note,
        "cached": False,
    }
