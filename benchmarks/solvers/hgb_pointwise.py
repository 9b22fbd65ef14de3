"""scikit-learn's HistGradientBoostingRegressor on the grades (it has no ranking loss).

Trees of the tuned size and number; no early stopping, whose validation part would split
queries.
"""

from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.solvers._base import Solver, chosen
from benchmarks.solvers._ranking import Pointwise


def build(params, seed, threads):
    given = chosen(params, "learning_rate", "max_iter", "max_leaf_nodes")
    model = HistGradientBoostingRegressor(
        **given, early_stopping=False, random_state=seed
    )
    return Pointwise(model)


def facts(ranking, params):
    return {}


SOLVER = Solver("hgb_pointwise", "scikit-learn", "sklearn", build, facts, is_peer=True)
