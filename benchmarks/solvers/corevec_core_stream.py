"""corevec's core along a stream: `n_support` are the rows that joined the core."""

from benchmarks.solvers._base import Solver, arguments


def build(params, seed, threads):
    from corevec import StreamingClassifier

    return StreamingClassifier(**arguments(params))


def facts(model, params):
    kept = len(model._stream.targets.omega)
    return {"n_support": int(model.n_updates_), "n_core": kept}


SOLVER = Solver("corevec_core_stream", "corevec", "corevec", build, facts)
