"""scikit-learn's HistGradientBoostingClassifier: the honest rival on tables."""

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.solvers._base import Solver, chosen


def build(params, seed, threads):
    given = chosen(params, "learning_rate", "max_iter", "max_leaf_nodes")
    model = HistGradientBoostingClassifier(
        **given, early_stopping=False, random_state=seed
    )
    return make_pipeline(FunctionTransformer(_dense, accept_sparse=True), model)


def _dense(X):
    """Return sparse rows as dense ones: it takes no others."""
    return X.toarray() if hasattr(X, "toarray") else X


def facts(model, params):
    return {}


SOLVER = Solver("sklearn_hgb", "scikit-learn", "sklearn", build, facts, is_peer=True)
