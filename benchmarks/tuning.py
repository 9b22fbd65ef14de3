"""Parameters chosen on a validation part of a small subset, once per solver and set.

As in section 4.1 of the CVR paper: "tuned by using a small subset of the training
data". 2000 of the first 3000 rows train, 1000 validate; the test part is not touched.
The choice is kept in `.cache/` (keyed by data, grid and versions; by the state of
`src/` for corevec), so that an interrupted run goes on with the same parameters.
"""

import json
import logging
import time
from dataclasses import replace
from itertools import product

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import datasets, records, solvers
from benchmarks.measuring import collected_warnings

log = logging.getLogger(__name__)

N_TRAIN, N_VALIDATE = 2000, 1000
# A point of the grid that takes longer (corevec only) is cut off, and judged as it is.
MAX_SECONDS = 10.0


def subset(dataset, n_train=N_TRAIN, n_validate=N_VALIDATE):
    """Return a data set whose test part is the validation part."""
    data = datasets.load(dataset, {"n": n_train + n_validate})
    return replace(
        data,
        X_train=data.X_train[:n_train],
        y_train=data.y_train[:n_train],
        X_test=data.X_train[n_train:],
        y_test=data.y_train[n_train:],
    )


def tuned(solver, dataset, grid, *, quick=False, threads=2):
    """Return the point of the grid with the least validation RMSE.

    `grid` maps a parameter to its values; `tube_sd` becomes `tube` in units of y.
    """
    data = subset(dataset, 300, 100) if quick else subset(dataset)
    key = "tuned-" + records.digest_of([solver, grid, data.checksum, _version(solver)])
    kept = records.cached_peer(key)
    if kept:
        return kept["params"]
    start = time.perf_counter()
    tried = [_try(solver, params, data, threads) for params in points(grid)]
    error, params = min(tried, key=lambda pair: pair[0])
    seconds = time.perf_counter() - start
    log.info(
        "tuned %s on %s in %.0f s: %s, validation RMSE %.4g",
        *(solver, dataset, seconds, params, error),
    )
    records.keep_peer(key, {"params": params, "rmse": error, "tried": tried})
    return params


def on_subset(solver, dataset, grid, *, quick=False, threads=2):
    """Return the point of the grid with the least error on the validation rows.

    As `tuned`, with the parameters as they are.
    """
    data = subset(dataset, 300, 100) if quick else subset(dataset)
    facts = [solver, grid, data.checksum, _version(solver)]
    key = "subset-" + records.digest_of(facts)
    kept = records.cached_peer(key)
    if kept:
        return kept["params"]
    tried = [
        (_validation_error(solver, params, data, threads), params)
        for params in points(grid)
    ]
    error, params = min(tried, key=lambda pair: pair[0])
    log.info("chose for %s on %s: %s, error %.4g", solver, dataset, params, error)
    records.keep_peer(key, {"params": params, "error": error, "tried": tried})
    return params


def points(grid):
    """Return every combination of the values."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def in_units(params, data):
    """Return params with the tube of `tube_sd` deviations in the units of y."""
    if "tube_sd" not in params:
        return params
    return params | {"tube": float(f"{params['tube_sd'] * data.y_train.std():.6g}")}


def _try(solver, params, data, threads):
    given = in_units(params, data) | {"gamma": data.mean_distance_gamma}
    if not solvers.SOLVERS[solver].is_peer:
        given["max_time"] = MAX_SECONDS
    with threadpool_limits(threads), collected_warnings():
        model = solvers.SOLVERS[solver].build(given, 0, threads)
        predicted = model.fit(data.X_train, data.y_train).predict(data.X_test)
    return float(np.sqrt(np.mean((predicted - data.y_test) ** 2))), params


def _version(solver):
    chosen = solvers.SOLVERS[solver]
    if chosen.package == "corevec":
        return records.source_commit()
    return json.dumps([chosen.package, records.package_version(chosen.package)])


def chosen(solver, dataset, grid, *, n, fixed=None, quick=False, threads=2):
    """Return the point of the grid with the least error on the validation part.

    For classes: the data set's own validation part (`validate=True`), the first `n`
    training rows. `fixed` is given to every fit and is not part of the answer. None
    where the solver cannot run here or failed at every point.
    """
    if solvers.SOLVERS[solver].skip_reason():
        return None
    sizes = {"n": 400, "n_test": 300} if quick else {"n": n}
    data = datasets.load(dataset, sizes | {"validate": True})
    facts = [solver, grid, fixed, data.checksum, _version(solver)]
    key = "chosen-" + records.digest_of(facts)
    kept = records.cached_peer(key)
    if kept:
        return kept["params"]
    start = time.perf_counter()
    tried = [
        (_validation_error(solver, params | (fixed or {}), data, threads), params)
        for params in points(grid)
    ]
    error, params = min(tried, key=lambda pair: pair[0])
    if error == np.inf:
        return None
    log.info(
        "chose for %s on %s in %.0f s: %s, validation error %.4g",
        *(solver, dataset, time.perf_counter() - start, params, error),
    )
    records.keep_peer(key, {"params": params, "error": error, "tried": tried})
    return params


def _validation_error(solver, params, data, threads):
    """Return the error; infinite, and said so, where the fit fails."""
    with threadpool_limits(threads), collected_warnings():
        try:
            model = solvers.SOLVERS[solver].build(params, 0, threads)
            predicted = model.fit(data.X_train, data.y_train).predict(data.X_test)
        except (MemoryError, TypeError, ValueError, RuntimeError, ArithmeticError):
            log.exception("%s with %s failed", solver, params)
            return np.inf
    return data.error(predicted, data.y_test)
