"""River's classifiers behind its StandardScaler, row by row, with their defaults.

`model` is "hoeffding_tree", "hoeffding_adaptive_tree" (made for drift),
"logistic_regression" or "alma".
"""

from benchmarks.solvers._base import Solver


class Classifier:
    """River's pipeline with scikit-learn's method names; one row per call."""

    def __init__(self, model):
        self.model = model

    def partial_fit(self, X, y, classes=None):
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), label > 0)
        return self

    def predict(self, X):
        found = [self.model.predict_one(dict(enumerate(row))) for row in X.tolist()]
        return [1 if one else -1 for one in found]


def build(params, seed, threads):
    from river import linear_model, preprocessing, tree

    kinds = {
        "hoeffding_tree": tree.HoeffdingTreeClassifier,
        "hoeffding_adaptive_tree": tree.HoeffdingAdaptiveTreeClassifier,
        "logistic_regression": linear_model.LogisticRegression,
        "alma": linear_model.ALMAClassifier,
    }
    more = {"seed": seed} if params["model"] == "hoeffding_adaptive_tree" else {}
    return Classifier(preprocessing.StandardScaler() | kinds[params["model"]](**more))


def facts(model, params):
    return {}


SOLVER = Solver("river_classifier", "river", "river", build, facts, is_peer=True)
