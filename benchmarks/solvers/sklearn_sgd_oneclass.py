"""scikit-learn's SGDOneClassSVM, linear or behind a Nystroem map.

Linear, it separates the rows from the origin: on rows all around the origin it cannot
do much. Its documentation pairs it with Nystroem for the RBF kernel (`map="nystroem"`):
100 components, from the first block that it learns.
"""

from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDOneClassSVM

from benchmarks.solvers._base import Solver, chosen

N_COMPONENTS = 100


class OneClass:
    """SGDOneClassSVM on the rows or on their features."""

    def __init__(self, model, features=None):
        self.model = model
        self.features = features
        self._is_fitted = False

    def partial_fit(self, X):
        if self.features is not None and not self._is_fitted:
            self.features.fit(X)
        self._is_fitted = True
        self.model.partial_fit(self._mapped(X))
        return self

    def score_samples(self, X):
        return self.model.score_samples(self._mapped(X))

    def _mapped(self, X):
        return X if self.features is None else self.features.transform(X)


def build(params, seed, threads):
    model = SGDOneClassSVM(**chosen(params, "nu"), shuffle=False, random_state=seed)
    if "map" not in params:
        return OneClass(model)
    features = Nystroem(
        gamma=params["gamma"], n_components=N_COMPONENTS, random_state=seed
    )
    return OneClass(model, features)


def facts(model, params):
    return {}


SOLVER = Solver(
    "sklearn_sgd_oneclass", "scikit-learn", "sklearn", build, facts, is_peer=True
)
