"""The Core Vector Machine exactly as printed: 59 samples, one row a round, SMO."""

from benchmarks.solvers._base import Solver, certificate_facts, with_method


def build(params, seed, threads):
    from corevec import CoreVectorClassifier, methods

    given = with_method(params) | {"method": methods.CoreSet.as_published()}
    return CoreVectorClassifier(**given, random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_paper", "corevec", "corevec", build, certificate_facts)
