"""Nystroem features and LinearSVC: scikit-learn's own advice for many rows.

The squared hinge, as ours; LinearSVC puts no 1/2 before its C, so it gets C/2 and then
solves our problem in the span of the sampled rows. `dual=False` is what its guide
recommends when rows outnumber columns.
"""

from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.solvers._base import Solver

N_COMPONENTS = 500


def build(params, seed, threads):
    n_components = params.get("n_components", N_COMPONENTS)
    return make_pipeline(
        Nystroem(
            gamma=params["gamma"],
            n_components=n_components,
            random_state=seed,
            n_jobs=threads,
        ),
        LinearSVC(C=params["C"] / 2, dual=False),
    )


def facts(model, params):
    linear = model[-1]
    hit_limit = bool(linear.n_iter_ >= linear.max_iter)
    return {
        "n_support": model[0].components_.shape[0],
        "converged": not hit_limit,
        "stopped_by": "max_iter" if hit_limit else "tol",
        "hit_limit": hit_limit,
    }


SOLVER = Solver(
    "nystroem_linearsvc", "scikit-learn", "sklearn", build, facts, is_peer=True
)
