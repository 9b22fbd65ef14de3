"""The exact machine on all rows by its core set, then `compress` to `n_basis` vectors.

`max_vectors` is lifted: of text most rows are support vectors. One budget for both, as
large as what SVC took on text (2.1 GB at its peak).
"""

from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.solvers._base import arguments
from benchmarks.solvers._span import SpanSolver, n_vectors
from corevec import methods

MEMORY_BUDGET = 2**31
TOL = 1e-2


class CompressedCore(ClassifierMixin, BaseEstimator):
    """A `CoreVectorClassifier`, compressed."""

    def __init__(self, n_basis, given, seed, threads):
        self.n_basis = n_basis
        self.given = given
        self.seed = seed
        self.threads = threads

    def fit(self, X, y):
        from corevec import CoreVectorClassifier, compress

        shared = {
            "memory_budget": MEMORY_BUDGET,
            "random_state": self.seed,
            "n_jobs": self.threads,
        }
        core = CoreVectorClassifier(
            tol=TOL,
            method=methods.CoreSet(max_vectors=X.shape[0]),
            **self.given,
            **shared,
        ).fit(X, y)
        self.exact_ = core.certificate_
        self.small_ = compress(core, self.n_basis, **shared)
        return self

    def predict(self, X):
        return self.small_.predict(X)


def build(params, seed, threads):
    given = arguments(params)
    return CompressedCore(given.pop("n_basis"), given, seed, threads)


def facts(model, params):
    # Primal and gap would be those of the model before `compress`: not told.
    cut = model.exact_.stopped_by
    return {
        "n_support": n_vectors(model.small_),
        "stopped_by": cut,
        "hit_limit": cut in ("max_time", "max_iter", "max_vectors"),
    }


SOLVER = SpanSolver(
    "corevec_core_compressed", "corevec", "corevec", build, facts, imports="compress"
)
