"""corevec's regression along a stream; `n_support`: rows that joined the core."""

from benchmarks.solvers._base import Solver, arguments


def build(params, seed, threads):
    from corevec import StreamingRegressor

    return StreamingRegressor(**arguments(params))


def facts(model, params):
    return {"n_support": int(model.n_updates_)}


SOLVER = Solver("corevec_core_regressor", "corevec", "corevec", build, facts)
