"""scikit-learn's HistGradientBoostingRegressor: the honest rival on tables."""

from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.solvers._base import Solver, chosen
from benchmarks.solvers.sklearn_hgb import facts


def build(params, seed, threads):
    given = chosen(params, "learning_rate", "max_iter", "max_leaf_nodes")
    return HistGradientBoostingRegressor(
        **given, early_stopping=False, random_state=seed
    )


SOLVER = Solver(
    "sklearn_hgb_regressor", "scikit-learn", "sklearn", build, facts, is_peer=True
)
