"""scikit-learn's SVR (LIBSVM): the absolute slack outside the tube.

y is standardised for it and its predictions turned back, so that C and epsilon mean
what they mean to corevec. Default tolerance, a kernel cache of 1000 MB, one thread, as
sklearn_svc.
"""

from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from benchmarks.solvers._base import Solver, chosen, libsvm_facts

CACHE_MB = 1000


def build(params, seed, threads):
    given = chosen(params, "C", "gamma", "epsilon", "max_iter")
    machine = SVR(**given, cache_size=CACHE_MB)
    return TransformedTargetRegressor(machine, transformer=StandardScaler())


def facts(model, params):
    return libsvm_facts(model.regressor_, params)


SOLVER = Solver("sklearn_svr", "scikit-learn", "sklearn", build, facts, is_peer=True)
