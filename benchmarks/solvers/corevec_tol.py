"""corevec with its own rule: stop when the duality gap over all rows is below tol."""

from benchmarks.solvers._base import Solver, arguments, certificate_facts


def build(params, seed, threads):
    from corevec import CoreVectorClassifier

    return CoreVectorClassifier(**arguments(params), random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_tol", "corevec", "corevec", build, certificate_facts)
