"""What every detector shares, whatever its scores are made of."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from sklearn.base import OutlierMixin

from corevec.arrays import cast
from corevec.estimators._lazy import lazily

Array = npt.NDArray[Any]


class ScoredDetector(OutlierMixin):
    """A detector with `score_samples` and `offset_`: +1 inside, -1 outside."""

    offset_: Any

    def score_samples(self, X: Any) -> Array:
        """Return the larger values, the more a row belongs."""
        raise NotImplementedError

    @lazily
    def predict(self, X: Any) -> Array:
        """Return +1 for rows that belong, -1 for outliers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to judge.

        Returns
        -------
        ndarray of int of shape (n_rows,)
            +1 where ``decision_function`` is at least 0.
        """
        inside = self.decision_function(X) >= 0
        return 2 * cast(inside, int) - 1

    @lazily
    def decision_function(self, X: Any) -> Array:
        """Return ``score_samples(X) - offset_``: below 0 for outliers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to judge.

        Returns
        -------
        ndarray of shape (n_rows,)
            Signed distance-like value.
        """
        return self.score_samples(X) - self.offset_
