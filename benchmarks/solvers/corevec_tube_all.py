"""corevec's regressor, fixed tube, 2,000 core rows, weights solved over all rows."""

from benchmarks.solvers._base import Solver, arguments, certificate_facts

# As many vectors as weights="all" ended with on most sets.
N_VECTORS = 2000


def build(params, seed, threads):
    from corevec import CoreVectorRegressor, methods

    few = methods.FewVectors(N_VECTORS, basis="coreset")
    return CoreVectorRegressor(
        **arguments(params), method=few, random_state=seed, n_jobs=threads
    )


SOLVER = Solver("corevec_tube_all", "corevec", "corevec", build, certificate_facts)
