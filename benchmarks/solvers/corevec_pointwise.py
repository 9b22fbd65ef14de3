"""corevec's regressor on the grades: ranking without knowing the queries."""

from benchmarks.solvers._base import Solver, with_method
from benchmarks.solvers._ranking import Pointwise, facts


def build(params, seed, threads):
    from corevec import CoreVectorRegressor

    model = CoreVectorRegressor(
        **with_method(params), random_state=seed, n_jobs=threads
    )
    return Pointwise(model)


SOLVER = Solver("corevec_pointwise", "corevec", "corevec", build, facts)
