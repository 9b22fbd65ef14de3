"""`corevec.svm.SVR`: SVR's own problem at its own tolerance, by our hinge solver.

Targets are standardised for it, as for scikit-learn's.
"""

from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler

from benchmarks.solvers import corevec_svc
from benchmarks.solvers._base import Solver, chosen
from corevec.svm import SVR


def build(params, seed, threads):
    given = chosen(params, "C", "gamma", "epsilon", "max_iter")
    machine = SVR(**given, n_jobs=threads)
    return TransformedTargetRegressor(machine, transformer=StandardScaler())


def facts(model, params):
    return corevec_svc.facts(model.regressor_, params)


SOLVER = Solver("corevec_svr", "corevec", "corevec", build, facts)
