"""Core Vector Regression exactly as printed: 59 samples, one row a round, SMO.

Section 4 of the CVR paper: epsilon 1e-6, a random sample of 59. The tube may be
negative, as in its eq. 6.
"""

from benchmarks.solvers._base import Solver, certificate_facts, with_method


def build(params, seed, threads):
    from corevec import CoreVectorRegressor, methods

    printed = {"method": methods.CoreSet.as_published(), "tube": "paper"}
    given = with_method(params) | printed
    return CoreVectorRegressor(**given, random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_tube_paper", "corevec", "corevec", build, certificate_facts)
