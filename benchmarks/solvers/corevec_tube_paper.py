"""Core Vector Regression exactly as printed: 59 samples, one row a round, SMO.

Section 4 of the CVR paper: epsilon 1e-6, a random sample of 59. The tube may be
negative, as in its eq. 6.
"""

from benchmarks.solvers._base import Solver, arguments, certificate_facts

AS_PRINTED = {
    "ball_epsilon": 1e-6,
    "sampling": 59,
    "batch": 1,
    "qp": "smo",
    "tube": "paper",
}


def build(params, seed, threads):
    from corevec import CoreVectorRegressor

    given = arguments(params) | AS_PRINTED
    return CoreVectorRegressor(**given, random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_tube_paper", "corevec", "corevec", build, certificate_facts)
