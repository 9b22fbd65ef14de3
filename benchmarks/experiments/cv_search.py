"""gamma and C by cross-validation: corevec's search beside grid searches.

The grid of 5 x 5 values and the five folds are the same for `CoreVectorClassifierCV`
(`CoreVectorRegressorCV`), for `GridSearchCV` over the same estimator, and for
`GridSearchCV` over SVC (SVR), each with its default parameters besides. Standardised
columns, 5,000 rows at most; targets of SVR are standardised, as corevec's are inside.
`fit_seconds` is the search with the refit. The grid searches run one fit after the
other: corevec's fits on `threads` threads, SVC's on the one that LIBSVM has.

The note holds the choice, and of a grid search the mean and the standard error of every
score: the report says whether the choice of the search is that of the grid over the
same estimator, or by how many standard errors of the best score it is behind there.
"""

import json

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from benchmarks import datasets
from benchmarks.case import Case
from benchmarks.datasets import standardised
from benchmarks.measuring import Timer, collected_warnings

REPEATS = 1
SETS = [
    f"plain_{name}"
    for name in ("satimage", "spambase", "usps", "california_housing", "cpu_act")
]
N_ROWS, QUICK_ROWS, WARM_UP_ROWS = 5_000, 600, 200
CS = (0.1, 1.0, 10.0, 100.0, 1000.0)
# In units of gamma="scale".
FACTORS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
N_FOLDS = 5
HOW = {"search": "corevec_tol", "grid": "corevec_tol", "svc": "sklearn_svc"}
HOW_NUMBERS = {
    "search": "corevec_tube_auto",
    "grid": "corevec_tube_auto",
    "svc": "sklearn_svr",
}


def cases(quick):
    sizes = {"n": QUICK_ROWS if quick else N_ROWS}
    for dataset in SETS[:1] if quick else SETS:
        solvers = HOW_NUMBERS if is_regression(dataset) else HOW
        for how, solver in solvers.items():
            yield Case(solver, dataset, {"how": how}, sizes, probe=probe)


def is_regression(dataset):
    return dataset.removeprefix("plain_") in standardised.NUMBERS


def probe(case, threads):
    """Return the columns of one search."""
    data = datasets.load(case.dataset, case.data_args)
    X, y = data.X_train, data.y_train
    grid = {"C": CS, "gamma": [f / (X.shape[1] * X.var()) for f in FACTORS]}
    how, numbers = case.params["how"], is_regression(case.dataset)
    with threadpool_limits(threads), collected_warnings() as heard:
        few = {name: values[:2] for name, values in grid.items()}
        search(how, few, numbers, threads).fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
        model = search(how, grid, numbers, threads)
        with Timer() as fit:
            model.fit(X, y)
        with Timer() as predict:
            predicted = model.predict(data.X_test)
    told = {"chosen": plain(model.best_params_), "score": model.best_score_}
    if how != "search":
        told["table"] = table_of(model)
    return {
        "checksum": data.checksum,
        "n": X.shape[0],
        "d": X.shape[1],
        "n_test": data.X_test.shape[0],
        "fit_seconds": fit.seconds,
        "predict_seconds": predict.seconds,
        "test_error": data.error(predicted, data.y_test),
        "note": " | ".join([json.dumps(told), *heard]),
        **data.measures(predicted),
    }


def search(how, grid, numbers, threads):
    """Return the search: ours, or a grid search over our estimator or LIBSVM's."""
    from corevec import (
        CoreVectorClassifier,
        CoreVectorClassifierCV,
        CoreVectorRegressor,
        CoreVectorRegressorCV,
    )

    # The same folds for all: stratified ones, or parts of the rows as they come.
    folds = KFold(N_FOLDS) if numbers else StratifiedKFold(N_FOLDS)
    if how == "search":
        kind = CoreVectorRegressorCV if numbers else CoreVectorClassifierCV
        axes = {"Cs": list(grid["C"]), "gammas": list(grid["gamma"])}
        return kind(**axes, cv=folds, n_jobs=threads)
    if how == "grid":
        kind = CoreVectorRegressor if numbers else CoreVectorClassifier
        return GridSearchCV(kind(n_jobs=threads), grid, cv=folds)
    if not numbers:
        return GridSearchCV(SVC(), grid, cv=folds)
    machine = TransformedTargetRegressor(SVR(), transformer=StandardScaler())
    return GridSearchCV(
        machine, {f"regressor__{name}": own for name, own in grid.items()}, cv=folds
    )


def plain(params):
    return {name.removeprefix("regressor__"): float(v) for name, v in params.items()}


def table_of(model):
    """Return C, gamma, mean score and its standard error of every candidate."""
    found = model.cv_results_
    errors = found["std_test_score"] / np.sqrt(N_FOLDS)
    return [
        [*plain(params).values(), round(float(mean), 6), round(float(error), 6)]
        for params, mean, error in zip(
            found["params"], found["mean_test_score"], errors, strict=True
        )
    ]


def report(rows, folder):
    """Return time, choice and test error of each search, set by set."""
    lines = [
        "| data | search | seconds | of SVC's | of the grid's | C | gamma | score "
        "| test error | choice |",
        "|" + "---|" * 10,
    ]
    for dataset, here in rows.groupby("dataset", sort=False):
        how = here["params"].map(lambda text: json.loads(text)["how"])
        own = {name: here[how == name].iloc[-1] for name in how.unique()}
        told = {
            name: json.loads(row["note"].split(" | ")[0]) for name, row in own.items()
        }
        for name, row in own.items():
            chosen, score = told[name]["chosen"], told[name]["score"]
            ratios = [
                row["fit_seconds"] / own[peer]["fit_seconds"]
                if peer in own
                else float("nan")
                for peer in ("svc", "grid")
            ]
            choice = behind(told) if name == "search" and "grid" in told else ""
            lines.append(
                f"| {dataset} | {name} | {row['fit_seconds']:.1f} | {ratios[0]:.2f} "
                f"| {ratios[1]:.2f} | {chosen['C']:g} | {chosen['gamma']:.3g} "
                f"| {score:.4f} | {row['test_error']:.4f} | {choice} |"
            )
    return ["## Choosing gamma and C\n\n" + "\n".join(lines)]


def behind(told):
    """Return where the choice of the search stands in the table of the grid search."""
    chosen, table = told["search"]["chosen"], told["grid"]["table"]
    best = max(table, key=lambda row: row[2])
    own = next(
        row
        for row in table
        if np.allclose(row[:2], [chosen["C"], chosen["gamma"]], rtol=1e-9)
    )
    if own is best:
        return "the same"
    return f"{(best[2] - own[2]) / best[3]:.2f} standard errors behind"
