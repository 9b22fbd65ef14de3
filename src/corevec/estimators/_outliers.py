"""Base classes of the detectors: predictions from scores and an offset."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils import check_array

from corevec._runtime.types import Array
from corevec.backend.arrays import cast
from corevec.data.sources import as_source
from corevec.estimators._rows import lazily
from corevec.estimators._validation import named
from corevec.exceptions import InvalidInputError
from corevec.kernels import AnyKernel


class ScoredDetector(OutlierMixin):
    """A detector with `score_samples` and `offset_`: +1 inside, -1 outside."""

    offset_: Any

    def score_samples(self, X: Any) -> Array:
        """Return the score of each row: the larger, the more normal."""
        raise NotImplementedError

    @lazily
    def predict(self, X: Any) -> Array:
        """Return +1 for inliers and -1 for outliers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to predict.

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
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_rows,)
            Scores minus the offset.
        """
        return self.score_samples(X) - self.offset_


class BallDetector(ScoredDetector):
    """A detector by the distance from a centre, which needs k(x, x) of every row.

    A named kernel and a kernel function compute it. A precomputed matrix of new rows
    against the training rows does not contain it: it is a constant that the fit found,
    or it is given as `diagonal`.
    """

    def score_samples(self, X: Any, diagonal: Any = None) -> Array:
        """Return minus the squared distance from the centre."""
        raise NotImplementedError

    @lazily
    def predict(self, X: Any, diagonal: Any = None) -> Array:
        """Return +1 for inliers and -1 for outliers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to predict (kernel values against the training rows if precomputed).
        diagonal : array-like of shape (n_rows,), optional
            The value k(x, x) of each row; see `score_samples`.

        Returns
        -------
        ndarray of int of shape (n_rows,)
            +1 where ``decision_function`` is at least 0.
        """
        inside = self.decision_function(X, diagonal=diagonal) >= 0
        return 2 * cast(inside, int) - 1

    @lazily
    def decision_function(self, X: Any, diagonal: Any = None) -> Array:
        """Return ``score_samples(X) - offset_``: below 0 for outliers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to predict (kernel values against the training rows if precomputed).
        diagonal : array-like of shape (n_rows,), optional
            The value k(x, x) of each row; see `score_samples`.

        Returns
        -------
        ndarray of shape (n_rows,)
            Scores minus the offset.
        """
        return self.score_samples(X, diagonal=diagonal) - self.offset_

    def _diagonal_of(
        self, X: Any, kernel: AnyKernel, constant: float | None, diagonal: Any
    ) -> Any:
        """Return k(x, x) of validated rows; `constant` is its common value, if known.

        Raises `InvalidInputError` if it is unknown.
        """
        who = type(self).__name__
        source = as_source(X, self.memory_budget)
        if kernel.name != "precomputed":
            if diagonal is not None:
                raise refused_diagonal(
                    who, f"the kernel {kernel.name!r} computes k(x, x) of the rows"
                )
            return source.map_on_device(kernel.diagonal)
        if diagonal is not None:
            return _checked_diagonal(self, diagonal, source.n_rows)
        if constant is None:
            raise InvalidInputError(
                f"{who}: the distance from the centre needs k(x, x) of each row, which "
                "a precomputed matrix against the training rows does not contain, and "
                "which is not the same for all training rows. Give it as diagonal=, an "
                f"array with one number for each of the {source.n_rows} rows of X; for "
                "the training matrix K, K.diagonal()."
            )
        return np.full(source.n_rows, constant)


def refused_diagonal(who: str, reason: str) -> InvalidInputError:
    """Return the error for a diagonal that would be ignored."""
    return InvalidInputError(
        f"{who}: diagonal= was given, but {reason}. It belongs to a ball with "
        "kernel='precomputed'; leave it out.",
        parameter="diagonal",
    )


def _checked_diagonal(model: Any, diagonal: Any, n_rows: int) -> Array:
    """Return the given diagonal as float64."""
    try:
        found = check_array(
            diagonal, ensure_2d=False, dtype=np.float64, input_name="diagonal"
        )
    except (TypeError, ValueError) as error:
        raise named(model, ValueError(f"diagonal: {error}")) from None
    if found.shape != (n_rows,):
        raise InvalidInputError(
            f"{type(model).__name__}: diagonal has shape {found.shape}, but X has "
            f"{n_rows} rows. Give k(x, x) of each row, shape ({n_rows},)."
        )
    return np.asarray(found)


# Relative deviation of a constant diagonal that float32 rounding of the matrix may
# cause; `check_square` allows the same deviation from symmetry.
_CONSTANT_WITHIN = 1e-6


def constant_of(diagonal: Array) -> float | None:
    """Return the common k(x, x) of all training rows, or None.

    A single row does not show that other rows have the same value.
    """
    low, high = float(diagonal.min()), float(diagonal.max())
    if len(diagonal) < 2 or high - low > _CONSTANT_WITHIN * max(abs(low), abs(high)):
        return None
    return float(np.median(diagonal))


__all__ = ["BallDetector", "ScoredDetector", "constant_of", "refused_diagonal"]
