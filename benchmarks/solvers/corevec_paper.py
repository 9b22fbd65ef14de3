"""The Core Vector Machine exactly as printed: 59 samples, one row a round, SMO."""

from benchmarks.solvers._base import Solver, arguments, certificate_facts

AS_PRINTED = {"ball_epsilon": 1e-6, "sampling": 59, "batch": 1, "qp": "smo"}


def build(params, seed, threads):
    from corevec import CoreVectorClassifier

    given = arguments(params) | AS_PRINTED
    return CoreVectorClassifier(**given, random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_paper", "corevec", "corevec", build, certificate_facts)
