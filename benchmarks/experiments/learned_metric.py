"""A metric learned in the cells, beside one width for all columns, and boosting.

covtype, class 2 against the rest: gamma and C are chosen inside, and the metric is
learned inside (those seconds count), for five splits; then averaged trees, other sizes,
and all seven classes. Then the tables of more than 5,000 rows, classes and regressions
with the square loss. HistGradientBoosting at two settings, without early stopping.
"""

from benchmarks.case import Case

REPEATS = 1
SEEDS = 5
TUNE = {"C": 1.0, "gamma": "tune"}
METRICS = ("isotropic", "learned")
BOOST = {"learning_rate": 0.2, "max_leaf_nodes": 255}
SMALL_BOOST = {"learning_rate": 0.1, "max_leaf_nodes": 31}
CLASSES = ("ijcnn1", "adult_a9a", "shuttle", "letter")
NUMBERS = (
    "house_16h",
    "cpu_act",
    "elevators",
    "pole",
    "puma32h",
    "kin8nm",
    "kin40k",
    "california_housing",
    "friedman",
)


def cases(quick):
    few = {"n": 4_000} if quick else {}
    yield from covtype(few, quick)
    names = [f"plain_{name}" for name in NUMBERS]
    for dataset in ("friedman_1m", *names):
        for metric in METRICS:
            own = TUNE | {"cells": 1000, "metric": metric, "tube": 0.0, "mu": None}
            yield Case("corevec_cells_regressor", dataset, own, few)
        for max_iter in (100, 300):
            boost = SMALL_BOOST | {"max_iter": max_iter}
            yield Case("sklearn_hgb_regressor", dataset, boost, few)
    for dataset in [f"plain_{name}" for name in CLASSES]:
        for metric in METRICS:
            own = TUNE | {"cells": 1000, "metric": metric}
            yield Case("corevec_cells", dataset, own, few)
        for max_iter in (100, 300):
            boost = SMALL_BOOST | {"max_iter": max_iter}
            yield Case("sklearn_hgb", dataset, boost, few)


def covtype(few, quick):
    learned = TUNE | {"metric": "learned"}
    for seed in range(1 if quick else SEEDS):
        rows = few | ({"seed": seed} if seed else {})
        own = learned | {"cells": 500, "n_trees": 1}
        yield Case("corevec_cells", "covtype", own, rows)
    for size, n_trees in ((1000, 1), (500, 3)):
        own = learned | {"cells": size, "n_trees": n_trees}
        yield Case("corevec_cells", "covtype", own, few)
    own = TUNE | {"cells": 500, "n_trees": 1, "metric": "isotropic"}
    yield Case("corevec_cells", "covtype", own, few)
    for max_iter in (100, 300):
        yield Case("sklearn_hgb", "covtype", BOOST | {"max_iter": max_iter}, few)
    yield Case("corevec_cells", "covtype7", learned | {"cells": 500}, few)
