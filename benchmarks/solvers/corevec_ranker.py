"""corevec's ranker: all pairs of each query, squared hinge."""

from benchmarks.solvers._base import Solver, with_method
from benchmarks.solvers._ranking import Pairwise, facts


def build(params, seed, threads):
    from corevec.estimators.rank import CoreVectorRanker

    model = CoreVectorRanker(**with_method(params), random_state=seed, n_jobs=threads)
    return Pairwise(model)


SOLVER = Solver("corevec_ranker", "corevec", "corevec", build, facts)
