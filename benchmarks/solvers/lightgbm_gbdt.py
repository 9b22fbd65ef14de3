"""LightGBM with its defaults but for the number of trees, classes and regressions."""

from sklearn.base import BaseEstimator

from benchmarks.solvers._base import Solver, chosen
from benchmarks.solvers.sklearn_hgb import facts


class Boosting(BaseEstimator):
    """LightGBM's classifier or regressor, as the targets say."""

    def __init__(self, given, is_regression, seed, threads):
        self.given, self.is_regression = given, is_regression
        self.seed, self.threads = seed, threads

    def fit(self, X, y):
        from lightgbm import LGBMClassifier, LGBMRegressor

        kind = LGBMRegressor if self.is_regression else LGBMClassifier
        own = {"random_state": self.seed, "n_jobs": self.threads, "verbose": -1}
        self.model_ = kind(**self.given, **own).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


def build(params, seed, threads):
    given = chosen(params, "learning_rate", "n_estimators", "num_leaves")
    return Boosting(given, params["is_regression"], seed, threads)


SOLVER = Solver("lightgbm_gbdt", "lightgbm", "lightgbm", build, facts, is_peer=True)
