"""corevec's smallest enclosing ball, hard or soft (`C`)."""

from benchmarks.solvers._base import Solver, certificate_facts, with_method


def build(params, seed, threads):
    from corevec import SVDD

    return SVDD(**with_method(params), random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_svdd", "corevec", "corevec", build, certificate_facts)
