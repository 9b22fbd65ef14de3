"""corevec's regressor with a tube of given width, as SVR's epsilon.

`tube` is in the units of y; `tube_sd` beside it says how many deviations that is.
"""

from benchmarks.solvers._base import Solver, certificate_facts, with_method


def build(params, seed, threads):
    from corevec import CoreVectorRegressor

    given = with_method(params) | {"mu": None}
    return CoreVectorRegressor(**given, random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_tube_fixed", "corevec", "corevec", build, certificate_facts)
