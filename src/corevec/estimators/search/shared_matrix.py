"""Scores from one kernel matrix for all folds and all C of a gamma."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import Workers, as_source
from corevec.estimators._dataset import Dataset
from corevec.estimators.search.folds import (
    HeldOutClassifier,
    HeldOutRegressor,
    Rung,
    Scoring,
    TrainingSet,
)
from corevec.kernels import AnyKernel
from corevec.solvers.exact.path import PathMatrix


@dataclass
class SharedMatrix:
    """The evaluator; it keeps the matrix of the last gamma and rung.

    Attributes
    ----------
    given : TrainingSet
        All rows.
    scoring : Scoring
        How held-out predictions are scored.
    build : callable
        Returns an estimator with the given parameters.
    kernel_of : callable
        Returns the kernel of the given parameters.
    tol : float
        Relative gap to reach.
    workers : Workers
        An open thread pool.
    may_go_on : callable
        False once the search has to stop.
    """

    given: TrainingSet
    scoring: Scoring
    build: Callable[[dict[str, Any]], Any]
    kernel_of: Callable[[dict[str, Any]], AnyKernel]
    tol: float
    workers: Workers
    may_go_on: Callable[[], bool]
    _last: tuple[Any, PathMatrix] | None = None
    _datasets: dict[int, dict[int, Dataset]] = field(default_factory=dict)

    def scores(self, params: list[dict[str, Any]], rung: Rung) -> Array:
        """Return scores of shape (candidates, folds); the C of `params` grow.

        NaN for folds that cannot be learned, and for all where the search has to stop.
        """
        matrix, folds = self._matrix(params[0], rung), self._folds(rung)
        models = {k: [self.build(one) for one in params] for k in folds}
        paths: list[Any] = []
        parts = {}
        for k, given in folds.items():
            problems = [model._begin(given) for model in models[k]]
            # A fold that lacks a class has fewer machines than others.
            parts[k] = slice(len(paths), len(paths) + len(problems[0]))
            paths += [list(path) for path in zip(*problems, strict=True)]
        solved = matrix.solve(paths, self.may_go_on)
        found = np.full((len(params), len(rung.folds)), np.nan)
        if not self.may_go_on():
            return found
        for k, own in models.items():
            test = rung.folds[k][1]
            points = [path[c] for c in range(len(params)) for path in solved[parts[k]]]
            values = matrix.values(points, test).reshape(len(test), len(params), -1)
            for c, model in enumerate(own):
                found[c, k] = self._score(model, values[:, c], rung.rows[test])
        return found

    def _score(self, model: Any, values: Array, rows: Array) -> float:
        """Return the score of the values of a model's machines on held-out rows."""
        held_out: Any
        if hasattr(model, "classes_"):
            held_out = HeldOutClassifier(model._decisions(values), model.classes_)
        else:
            held_out = HeldOutRegressor(model._targets_of(values))
        given = self.given
        weight = given.weight[rows] if given.is_weighted else None
        return self.scoring(held_out, np.empty((len(rows), 0)), given.y[rows], weight)

    def _matrix(self, params: dict[str, Any], rung: Rung) -> PathMatrix:
        key = params["gamma"], rung.number
        if self._last is None or self._last[0] != key:
            self._last = None  # its memory is needed
            source = next(iter(self._folds(rung).values())).source
            rows = source.take(source.numbers)
            kernel = self.kernel_of(params)
            self._last = key, PathMatrix(rows, kernel, self.tol, self.workers)
        return self._last[1]

    def _folds(self, rung: Rung) -> dict[int, Dataset]:
        """Return the rows of a rung per fold to learn: held-out rows weigh nothing."""
        if rung.number not in self._datasets:
            given, rows = self.given, rung.rows
            model = self.build({})
            who, task = type(model).__name__, model._task
            y = given.y[rows]
            y = y[:, None] if task == "numbers" else y
            source = as_source(given.X[rows], model.memory_budget, self.workers)
            found = {}
            for k, (train, _) in enumerate(rung.folds):
                if not given.can_be_learned(rows[train]):
                    continue
                weight = np.zeros(len(rows))
                weight[train] = given.weight[rows[train]]
                found[k] = Dataset.in_memory(who, source, weight, y, task)
            self._datasets = {rung.number: found}
        return self._datasets[rung.number]
