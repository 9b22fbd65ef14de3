"""LSVM of the CVM paper's comparison: squared hinge, incomplete Cholesky as basis."""

from benchmarks.solvers._base import arguments
from benchmarks.solvers._span import SpanSolver, span_facts


def build(params, seed, threads):
    from corevec import SubspaceClassifier

    given = arguments(params)
    rest = {name: given.pop(name) for name in ("max_time", "n_basis") if name in given}
    model = SubspaceClassifier.lsvm(**given)
    return model.set_params(**rest, random_state=seed, n_jobs=threads)


SOLVER = SpanSolver("corevec_lsvm", "corevec", "corevec", build, span_facts)
