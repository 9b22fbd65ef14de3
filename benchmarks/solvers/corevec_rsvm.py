"""RSVM of the CVM paper's comparison: a random `share` of the rows as basis."""

from benchmarks.solvers._base import arguments
from benchmarks.solvers._span import SpanSolver, span_facts


def build(params, seed, threads):
    from corevec import CoreVectorClassifier, methods

    given = arguments(params)
    few = methods.FewVectors.rsvm(given.pop("share", 0.1))
    return CoreVectorClassifier(**given, method=few, random_state=seed, n_jobs=threads)


SOLVER = SpanSolver("corevec_rsvm", "corevec", "corevec", build, span_facts)
