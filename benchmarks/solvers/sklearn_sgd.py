"""One pass of scikit-learn's SGDClassifier: the hinge, its own step rule ("optimal").

alpha = 1 / (C n). Its `partial_fit` shuffles each block by default: not here, so that
every learner sees the same order. scikit-learn does not count updates.
"""

from sklearn.linear_model import SGDClassifier

from benchmarks.solvers._base import Solver, chosen
from benchmarks.solvers._one_pass import OnePass


def build(params, seed, threads):
    given = chosen(params, "fit_intercept")

    def make(n_rows):
        alpha = 1 / (params.get("C", 1.0) * n_rows)
        return SGDClassifier(
            loss="hinge", alpha=alpha, shuffle=False, random_state=seed, **given
        )

    return OnePass(make, params.get("n_rows"))


def facts(model, params):
    return {}


SOLVER = Solver("sklearn_sgd", "scikit-learn", "sklearn", build, facts, is_peer=True)
