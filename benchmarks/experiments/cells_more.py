"""Cells for one class, and how fast cells predict.

`one_class`: 1,000,000 rows of twelve Gaussian clouds of different size and spread in
five columns; outliers of the test part are uniform in the box of the rows. AUC of the
scores; the peers are OneClassSVM on 20,000 rows and SGDOneClassSVM on 300 Nystroem
features of all rows (gamma of the global models: 1/(2 x the mean variance of a cloud)).

`prediction`: rows per second of `predict` on covtype's 522,911 training rows: cells,
HistGradientBoosting (100 rounds of 255 leaves), and SVC of 20,000 rows on 20,000 of
them.
"""

import time

import numpy as np

from benchmarks import datasets
from benchmarks.case import Case
from benchmarks.records import noted

REPEATS = 1
CLOUDS, COLUMNS, NU = 12, 5, 0.01


def cases(quick):
    n = 20_000 if quick else 1_000_000
    for name in ("corevec_cells", "sklearn_oneclass", "sklearn_sgd_oneclass"):
        yield Case(name, "clouds12", {"nu": NU}, {"n": n}, probe=one_class)
    rows = {"n": 4_000} if quick else {}
    for name in ("corevec_cells", "sklearn_hgb", "sklearn_svc"):
        yield Case(name, "covtype", {"C": 25.0, "gamma": 40.0}, rows, probe=prediction)


def clouds(n, seed=0):
    """Return rows, test rows, and which of them are no outliers."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-10, 10, (CLOUDS, COLUMNS))
    spread = rng.uniform(0.2, 1.0, CLOUDS)
    share = rng.dirichlet(np.full(CLOUDS, 2.0))

    def draw(size):
        which = rng.choice(CLOUDS, size, p=share)
        noise = rng.standard_normal((size, COLUMNS)) * spread[which, None]
        return (centres[which] + noise).astype(np.float32)

    X, inside = draw(n), draw(20_000)
    low, high = X.min(axis=0), X.max(axis=0)
    outside = rng.uniform(low, high, (20_000, COLUMNS)).astype(np.float32)
    return X, np.concatenate([inside, outside]), np.repeat([True, False], 20_000)


def one_class(case, threads):
    from sklearn.metrics import roc_auc_score

    X, test, is_inside = clouds(case.data_args["n"])
    model, rows = detector(case.solver, X, threads)
    start = time.perf_counter()
    model.fit(rows)
    seconds = time.perf_counter() - start
    auc = roc_auc_score(is_inside, model.decision_function(test))
    share = float(np.mean(model.predict(X[:100_000]) == -1))
    return noted(
        {"n": len(rows), "d": COLUMNS, "fit_seconds": seconds, "auc": float(auc)}
        | {"outliers_of_training_rows": share}
    )


def detector(name, X, threads):
    """Return an unfitted detector and the rows it gets."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import SGDOneClassSVM
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import OneClassSVM

    from corevec import CoreVectorOneClass

    gamma = 1.0
    if name == "corevec_cells":
        how = {"method": "cells", "random_state": 0, "n_jobs": threads}
        return CoreVectorOneClass(nu=NU, gamma=gamma, **how), X
    if name == "sklearn_oneclass":
        return OneClassSVM(nu=NU, gamma=gamma), X[:20_000]
    features = Nystroem(gamma=gamma, n_components=300, random_state=0)
    return make_pipeline(features, SGDOneClassSVM(nu=NU, random_state=0)), X


def prediction(case, threads):
    data = datasets.load(case.dataset, case.data_args)
    n_fit = 20_000 if case.solver == "sklearn_svc" else len(data.y_train)
    model = machine(case, threads).fit(data.X_train[:n_fit], data.y_train[:n_fit])
    X = data.X_train[:n_fit]
    model.predict(X[:1000])
    times = []
    for _ in range(3):
        start = time.perf_counter()
        model.predict(X)
        times.append(time.perf_counter() - start)
    seconds = float(np.median(times))
    return noted(
        {"n": n_fit, "fit_seconds": seconds, "predict_seconds": seconds}
        | {"rows_per_second": len(X) / seconds}
    )


def machine(case, threads):
    from benchmarks.solvers import SOLVERS

    params = dict(case.params)
    if case.solver == "corevec_cells":
        params["cells"] = 1000
    if case.solver == "sklearn_hgb":
        params = {"learning_rate": 0.2, "max_leaf_nodes": 255, "max_iter": 100}
    return SOLVERS[case.solver].build(params, 0, threads)
