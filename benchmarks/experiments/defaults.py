"""Default parameters on ordinary tables: what a newcomer sees first.

``CoreVectorClassifier()`` and ``CoreVectorRegressor()`` against ``SVC()`` and ``SVR()``
and those of scikit-learn-intelex, and `corevec.svm` on the problems of these;
standardised columns, nothing tuned. Targets of a regression are standardised for every
solver (corevec does it inside).
"""

from benchmarks.case import Case
from benchmarks.datasets import standardised

REPEATS = 1
QUICK_ROWS = 1_000
SETS = [f"plain_{name}" for name in (*standardised.CLASSES, *standardised.NUMBERS)]
CLASSIFIERS = ("corevec_tol", "corevec_svc", "sklearn_svc", "sklearnex_svc")
REGRESSORS = ("corevec_tube_auto", "corevec_svr", "sklearn_svr", "sklearnex_svr")


def cases(quick):
    data_args = {"n": QUICK_ROWS} if quick else {}
    for dataset in SETS:
        is_regression = dataset.removeprefix("plain_") in standardised.NUMBERS
        for solver in REGRESSORS if is_regression else CLASSIFIERS:
            yield Case(solver, dataset, {}, data_args)
        if dataset == "plain_mnist" and not quick:
            for solver in CLASSIFIERS:
                yield Case(solver, dataset, {}, {"n": 10_000})
