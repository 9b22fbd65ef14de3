"""LSVM of the CVM paper's comparison: squared hinge, incomplete Cholesky as basis."""

from benchmarks.solvers._base import arguments
from benchmarks.solvers._span import SpanSolver, span_facts


def build(params, seed, threads):
    from corevec import CoreVectorClassifier, methods

    given = arguments(params)
    few = methods.FewVectors.lsvm(given.pop("n_basis", 100))
    return CoreVectorClassifier(**given, method=few, random_state=seed, n_jobs=threads)


SOLVER = SpanSolver("corevec_lsvm", "corevec", "corevec", build, span_facts)
