"""corevec's one-class L2-SVM."""

from benchmarks.solvers._base import Solver, certificate_facts, with_method


def build(params, seed, threads):
    from corevec import CoreVectorOneClass

    return CoreVectorOneClass(**with_method(params), random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_oneclass", "corevec", "corevec", build, certificate_facts)
