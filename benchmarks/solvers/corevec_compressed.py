"""`compress` of scikit-learn's SVC, a kept one: see `compressed` in `_kept.py`.

There is nothing to build: `cpsp_tables` and `prediction_speed` give it a probe.
"""

from benchmarks.solvers._span import SpanSolver, n_vectors


def build(params, seed, threads):
    raise TypeError("corevec_compressed compresses a fitted model, it does not fit")


def facts(model, params):
    return {"n_support": n_vectors(model)}


SOLVER = SpanSolver(
    "corevec_compressed", "corevec", "corevec", build, facts, imports="compress"
)
