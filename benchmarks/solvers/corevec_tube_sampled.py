"""The automatic tube, looking for rows in samples of 20,000 only.

The cost of the fit is nearly independent of n. What the model is worth on all rows is
one pass of `certify`, timed apart (`certify_seconds`); `gap` is that pass's.
"""

from benchmarks.solvers._base import Solver, certificate_facts, with_method


def build(params, seed, threads):
    from corevec import CoreVectorRegressor

    given = with_method(params) | {"method": "sample"}
    return CoreVectorRegressor(**given, random_state=seed, n_jobs=threads)


SOLVER = Solver(
    "corevec_tube_sampled",
    "corevec",
    "corevec",
    build,
    certificate_facts,
    certifies_apart=True,
)
