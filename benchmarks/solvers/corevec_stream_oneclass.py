"""corevec's ball of a stream without labels; `n_support` are its updates."""

from benchmarks.solvers._base import Solver, arguments


def build(params, seed, threads):
    from corevec import StreamingBallOneClass

    return StreamingBallOneClass(**arguments(params))


def facts(model, params):
    return {"n_support": int(model.n_updates_)}


SOLVER = Solver("corevec_stream_oneclass", "corevec", "corevec", build, facts)
