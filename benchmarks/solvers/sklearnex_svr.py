"""SVR of scikit-learn-intelex (oneDAL): as scikit-learn's, several threads."""

import logging

from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler

from benchmarks.solvers._base import Solver, chosen
from benchmarks.solvers.sklearn_svr import CACHE_MB, facts


def build(params, seed, threads):
    import daal4py
    from sklearnex.svm import SVR

    logging.getLogger("sklearnex").setLevel(logging.WARNING)  # else a line per call
    daal4py.daalinit(threads)
    given = chosen(params, "C", "gamma", "epsilon", "max_iter")
    machine = SVR(**given, cache_size=CACHE_MB)
    return TransformedTargetRegressor(machine, transformer=StandardScaler())


SOLVER = Solver(
    "sklearnex_svr",
    "scikit-learn-intelex",
    "sklearnex",
    build,
    facts,
    is_peer=True,
)
