"""scikit-learn's OneClassSVM (LIBSVM): the nu formulation, one thread."""

from sklearn.svm import OneClassSVM

from benchmarks.solvers._base import Solver, chosen, libsvm_facts

CACHE_MB = 1000


def build(params, seed, threads):
    given = chosen(params, "nu", "gamma", "max_iter")
    return OneClassSVM(**given, cache_size=CACHE_MB)


SOLVER = Solver(
    "sklearn_oneclass", "scikit-learn", "sklearn", build, libsvm_facts, is_peer=True
)
