"""scikit-learn's LinearSVC (LIBLINEAR) with the hinge loss: the paper's linear SVM.

The bias is penalised, as LIBLINEAR does. `max_iter` is 10,000 instead of 1,000, so that
the larger values of C of a grid are not cut short; `hit_limit` says where they are.
"""

from sklearn.svm import LinearSVC

from benchmarks.solvers._base import Solver, chosen


def build(params, seed, threads):
    given = chosen(params, "C")
    return LinearSVC(
        **given, loss="hinge", dual=True, max_iter=10_000, random_state=seed
    )


def facts(model, params):
    hit_limit = bool(model.n_iter_ >= model.max_iter)
    return {
        "n_support": 1,
        "converged": not hit_limit,
        "stopped_by": "max_iter" if hit_limit else "tol",
        "hit_limit": hit_limit,
    }


SOLVER = Solver("sklearn_linear", "scikit-learn", "sklearn", build, facts, is_peer=True)
