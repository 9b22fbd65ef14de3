"""Parameters of one-pass learners: the least mean error over three orders.

On the validation part of a set of `datasets/streaming.py`: the last fifth of its
training rows. A point of the grid may hold `unit` (rows scaled to length 1), which is
an argument of the data and not of the learner. Choices are kept in `.cache/` as those
of `tuning.py` are.
"""

import logging
import time
from dataclasses import dataclass, field

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import datasets, records, solvers
from benchmarks.measuring import collected_warnings
from benchmarks.tuning import _version as version_of
from benchmarks.tuning import points

log = logging.getLogger(__name__)

# None of the orders that are measured: generated sets are drawn anew for each.
ORDERS = (1000, 1001, 1002)
OF_DATA = ("unit",)


@dataclass(frozen=True)
class Choice:
    """How to choose: rows and orders, and whether each class counts the same."""

    sizes: dict = field(default_factory=dict)
    orders: tuple = ORDERS
    balanced: bool = False


def chosen(solver, dataset, grid, fixed, choice):
    """Return (params, arguments of the data) of the best point of the grid.

    `fixed` is given to every fit and is part of the answer. Where the solver or the
    data are missing it is the first point: the case then says what is missing.
    """
    first = points(grid)[0]
    if solvers.SOLVERS[solver].skip_reason():
        return _split(fixed | first)
    try:
        checksum = _data(dataset, choice, choice.orders[0], {}).checksum
    except ValueError as error:
        log.warning("nothing chosen for %s on %s: %s", solver, dataset, error)
        return _split(fixed | first)
    facts = [solver, dataset, grid, fixed, choice, checksum, version_of(solver)]
    key = "streamed-" + records.digest_of(facts)
    kept = records.cached_peer(key)
    if not kept:
        kept = _tried(solver, dataset, grid, fixed, choice)
        records.keep_peer(key, kept)
    return _split(fixed | kept["params"])


def _tried(solver, dataset, grid, fixed, choice):
    start = time.perf_counter()
    errors = _mean_errors(solver, dataset, grid, fixed, choice)
    error, params = min(errors, key=lambda pair: pair[0])
    log.info(
        "chose for %s on %s in %.0f s: %s, validation error %.4g",
        *(solver, dataset, time.perf_counter() - start, fixed | params, error),
    )
    return {"params": params, "error": error, "tried": errors}


def _mean_errors(solver, dataset, grid, fixed, choice):
    """Return (mean error, point) of every point; data by data, as they are cached."""
    found = {}
    tried = sorted(enumerate(points(grid)), key=lambda pair: str(_split(pair[1])[1]))
    for order in choice.orders:
        for place, point in tried:
            params, of_data = _split(fixed | point)
            data = _data(dataset, choice, order, of_data)
            error = _error(solver, params, data, choice.balanced)
            found.setdefault(place, []).append(error)
    return [(float(np.mean(found[i])), point) for i, point in enumerate(points(grid))]


def _data(dataset, choice, order, of_data):
    arguments = choice.sizes | {"validate": True, "order": order} | of_data
    return datasets.load(dataset, arguments)


def _split(point):
    """Return (params of the learner, arguments of the data)."""
    params = {name: value for name, value in point.items() if name not in OF_DATA}
    return params, {name: point[name] for name in OF_DATA if name in point}


def _error(solver, params, data, balanced):
    """Return the error; infinite, and said so, where the fit fails."""
    with threadpool_limits(1), collected_warnings():
        try:
            model = solvers.SOLVERS[solver].build(params, 0, 1)
            predicted = model.fit(data.X_train, data.y_train).predict(data.X_test)
        except (MemoryError, TypeError, ValueError, RuntimeError, ImportError):
            log.exception("%s with %s failed", solver, params)
            return np.inf
    if balanced:
        return 1 - data.measures(predicted)["balanced_accuracy"]
    return data.error(predicted, data.y_test)
