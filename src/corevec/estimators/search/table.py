"""What a search has found so far, and ``cv_results_`` in scikit-learn's form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import rankdata

from corevec._runtime.types import Array
from corevec.estimators.search.grid import Candidate, Grid


@dataclass(frozen=True)
class Score:
    """The scores of a candidate on the folds of one rung.

    `seconds` is the time of a fold: its share of what all candidates of one kernel
    matrix took together.
    """

    folds: Array
    seconds: float
    rung: int
    n_rows: int

    @property
    def mean(self) -> float:
        """The mean over the folds that have a score."""
        known = self.folds[~np.isnan(self.folds)]
        return float(known.mean()) if len(known) else float("nan")

    @property
    def order(self) -> tuple[int, float]:
        """What ranks it: scores of more rows first, and no score last."""
        mean = self.mean
        return self.rung, -np.inf if np.isnan(mean) else mean


@dataclass
class Table:
    """The latest score of each candidate."""

    grid: Grid
    scores: dict[Candidate, Score] = field(default_factory=dict)

    def best(self) -> Candidate:
        """Return the best candidate of the largest rung, the first among equals."""
        ranked = sorted(self.scores)
        return max(ranked, key=lambda one: self.scores[one].order)

    def results(self) -> dict[str, Any]:
        """Return the table as scikit-learn's searches do."""
        rows = sorted(self.scores)
        scores = [self.scores[one] for one in rows]
        params = [self.grid.params(one) for one in rows]
        found: dict[str, Any] = {
            "iter": np.array([one.rung for one in scores]),
            "n_resources": np.array([one.n_rows for one in scores]),
            "mean_fit_time": np.array([one.seconds for one in scores]),
        }
        for name in params[0]:
            values = np.empty(len(rows), dtype=object)
            values[:] = [one[name] for one in params]
            found[f"param_{name}"] = np.ma.MaskedArray(values)
        found["params"] = params
        folds = np.stack([one.folds for one in scores])
        for k, own in enumerate(folds.T):
            found[f"split{k}_test_score"] = own
        found["mean_test_score"] = np.array([one.mean for one in scores])
        present = np.ma.masked_invalid(folds)
        found["std_test_score"] = np.ma.filled(present.std(axis=1), np.nan)
        found["rank_test_score"] = _ranks(scores)
        return found


def _ranks(scores: list[Score]) -> Array:
    """Return 1 for the best; candidates dropped on fewer rows come after all others."""
    levels = sorted({one.order for one in scores}, reverse=True)
    position = np.array([levels.index(one.order) for one in scores])
    return rankdata(position, method="min").astype(np.int32)
