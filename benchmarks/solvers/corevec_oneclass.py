"""corevec's one-class L2-SVM."""

from benchmarks.solvers._base import Solver, arguments, certificate_facts


def build(params, seed, threads):
    from corevec import CoreVectorOneClass

    return CoreVectorOneClass(**arguments(params), random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_oneclass", "corevec", "corevec", build, certificate_facts)
