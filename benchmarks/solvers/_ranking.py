"""Estimators as the ranking experiment calls them: y is (grade, query)."""

from benchmarks.solvers._base import certificate_facts


class _OnRanking:
    def __init__(self, model):
        self.model = model

    def predict(self, X):
        return self.model.predict(X)

    @property
    def history_(self):
        return getattr(self.model, "history_", None)


class Pairwise(_OnRanking):
    """Told the queries."""

    def fit(self, X, y):
        self.model.fit(X, y[:, 0], qid=y[:, 1])
        return self


class Pointwise(_OnRanking):
    """Told the grades only, as a regression."""

    def fit(self, X, y):
        self.model.fit(X, y[:, 0])
        return self


def facts(ranking, params):
    return certificate_facts(ranking.model, params)
