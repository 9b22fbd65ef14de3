"""corevec with its own rule: stop when the duality gap over all rows is below tol."""

from benchmarks.solvers._base import Solver, certificate_facts, with_method


def build(params, seed, threads):
    from corevec import CoreVectorClassifier

    return CoreVectorClassifier(
        **with_method(params), random_state=seed, n_jobs=threads
    )


SOLVER = Solver("corevec_tol", "corevec", "corevec", build, certificate_facts)
