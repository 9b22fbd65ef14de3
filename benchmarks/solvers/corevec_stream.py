"""corevec's StreamSVM: one or several balls, linear or with a kernel; one pass.

`n_support` are the updates, the paper's nSV; `n_core` the vectors that a kernel's
expansion holds at the end.
"""

import numpy as np

from benchmarks.solvers._base import Solver, arguments


def build(params, seed, threads):
    from corevec import StreamingBallClassifier

    return StreamingBallClassifier(**arguments(params))


def facts(model, params):
    vectors = getattr(model, "support_vectors_", None)
    kept = {} if vectors is None else {"n_core": vectors.shape[0]}
    return {"n_support": int(np.max(model.n_updates_))} | kept


SOLVER = Solver("corevec_stream", "corevec", "corevec", build, facts)
