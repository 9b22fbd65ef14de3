"""`compress` of scikit-learn's SVC: fitted by `experiments/prediction_speed.py` only.

There is nothing to build: the SVC is a kept one, and its compression is what is timed.
"""

from benchmarks.solvers._span import SpanSolver, n_vectors


def build(params, seed, threads):
    raise TypeError("corevec_compressed compresses a fitted model, it does not fit")


def facts(model, params):
    return {"n_support": n_vectors(model)}


SOLVER = SpanSolver(
    "corevec_compressed", "corevec", "corevec", build, facts, imports="compress"
)
