"""scikit-learn's SVC (LIBSVM): the hinge loss, the same number C, as the papers do.

Default tolerance where a case sets none. The kernel cache is 1000 MB instead of 200, as
its user guide advises for large problems. It runs on one thread whatever it is told.
`max_iter` is its only limit; where a case sets one the column `hit_limit` says whether
it was reached.
"""

from sklearn.svm import SVC

from benchmarks.solvers._base import Solver, chosen, libsvm_facts

CACHE_MB = 1000


def build(params, seed, threads):
    given = chosen(params, "C", "gamma", "max_iter", "class_weight", "tol")
    return SVC(**given, cache_size=CACHE_MB)


SOLVER = Solver(
    "sklearn_svc", "scikit-learn", "sklearn", build, libsvm_facts, is_peer=True
)
