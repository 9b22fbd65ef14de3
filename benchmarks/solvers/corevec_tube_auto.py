"""corevec's regressor with the tube found from mu (the CVR paper's, kept at >= 0)."""

from benchmarks.solvers._base import Solver, certificate_facts, with_method


def build(params, seed, threads):
    from corevec import CoreVectorRegressor

    return CoreVectorRegressor(**with_method(params), random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_tube_auto", "corevec", "corevec", build, certificate_facts)
