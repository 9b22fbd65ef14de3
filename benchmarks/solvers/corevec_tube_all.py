"""corevec's regressor, fixed tube, weights solved over all rows (weights="all")."""

from inspect import signature

from benchmarks.solvers._base import Solver, arguments, certificate_facts

ALL_ROWS = {"mu": None, "weights": "all"}


class _Solver(Solver):
    def skip_reason(self):
        from corevec import CoreVectorRegressor

        there = "weights" in signature(CoreVectorRegressor).parameters
        return "" if there else "this corevec has no weights='all'"


def build(params, seed, threads):
    from corevec import CoreVectorRegressor

    given = arguments(params) | ALL_ROWS
    return CoreVectorRegressor(**given, random_state=seed, n_jobs=threads)


SOLVER = _Solver("corevec_tube_all", "corevec", "corevec", build, certificate_facts)
