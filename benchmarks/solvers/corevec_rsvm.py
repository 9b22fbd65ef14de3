"""RSVM of the CVM paper's comparison: a random `share` of the rows as basis."""

from benchmarks.solvers._base import arguments
from benchmarks.solvers._span import SpanSolver, span_facts


def build(params, seed, threads):
    from corevec import SubspaceClassifier

    given = arguments(params)
    limit = {"max_time": given.pop("max_time", None)}
    model = SubspaceClassifier.rsvm(**given)
    return model.set_params(**limit, random_state=seed, n_jobs=threads)


SOLVER = SpanSolver("corevec_rsvm", "corevec", "corevec", build, span_facts)
