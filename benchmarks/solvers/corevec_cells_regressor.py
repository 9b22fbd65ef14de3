"""corevec's regressor in cells: the square loss (tube 0), gamma and C chosen inside."""

from benchmarks.solvers._base import Solver, with_method
from benchmarks.solvers.corevec_cells import facts


def build(params, seed, threads):
    from corevec import CoreVectorRegressor

    return CoreVectorRegressor(**with_method(params), random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_cells_regressor", "corevec", "corevec", build, facts)
