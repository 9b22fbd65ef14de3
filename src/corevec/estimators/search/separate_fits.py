"""Scores from a fit per fold and C, where no kernel matrix of all rows serves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.estimators.search.folds import Rung, Scoring, TrainingSet
from corevec.exceptions import NotCertifiedWarning


@dataclass(frozen=True)
class SeparateFits:
    """The evaluator: rows beyond the memory budget, kernels given by the user.

    Attributes
    ----------
    given : TrainingSet
        All rows.
    scoring : Scoring
        How held-out predictions are scored.
    build : callable
        Returns an estimator with the given parameters.
    is_pairwise : bool
        Whether X is a kernel matrix, whose columns are the rows as well.
    may_go_on : callable
        False once the search has to stop.
    """

    given: TrainingSet
    scoring: Scoring
    build: Callable[[dict[str, Any]], Any]
    is_pairwise: bool
    may_go_on: Callable[[], bool]

    def scores(self, params: list[dict[str, Any]], rung: Rung) -> Array:
        """Return scores of shape (candidates, folds); NaN for those without."""
        found = np.full((len(params), len(rung.folds)), np.nan)
        for k, fold in enumerate(rung.folds):
            train, test = (rung.rows[one] for one in fold)
            if not self.given.can_be_learned(train):
                continue
            for c, own in enumerate(params):
                if not self.may_go_on():
                    return np.full_like(found, np.nan)
                found[c, k] = self._score(own, train, test)
        return found

    def _score(self, params: dict[str, Any], train: Array, test: Array) -> float:
        given = self.given
        weight = given.weight if given.is_weighted else None
        own = None if weight is None else weight[train]
        with warnings.catch_warnings():
            # A fold stops at a loose tolerance; the refit says how far it came.
            warnings.simplefilter("ignore", NotCertifiedWarning)
            model = self.build(params)
            model.fit(self._rows(train, train), given.y[train], own)
        held = None if weight is None else weight[test]
        return self.scoring(model, self._rows(test, train), given.y[test], held)

    def _rows(self, rows: Array, columns: Array) -> Any:
        X = self.given.X[rows]
        return X[:, columns] if self.is_pairwise else X
