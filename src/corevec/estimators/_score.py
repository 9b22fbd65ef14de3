"""The score of a model: of arrays by scikit-learn, of remote rows block by block."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import tensors_to_numpy
from corevec.data.sources import TARGET, WEIGHT, Source, Workers, columns_to_score
from corevec.estimators._rows import named
from corevec.exceptions import InvalidInputError, RowsLostError
from corevec.kernels import Rows

_WHAT = {"classes": "the labels", "numbers": "the targets"}


class Scored:
    """Mixin of classifiers and regressors: `score`, also of rows with a target."""

    _task: str
    predict: Any

    def score(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: str | None = None,
    ) -> float:
        """Return the accuracy of a classifier, the R^2 of a regressor.

        Rows of files and of Spark are scored block by block, where they are.

        Parameters
        ----------
        X : array-like, CSR matrix, tensor or remote rows of shape (n_rows, n_features)
            Rows to predict. Rows opened by `corevec.open` bring their y and weights.
        y : array-like or tensor of shape (n_rows,) or (n_rows, n_targets)
            Labels or targets of the rows.
        sample_weight : array-like or tensor of shape (n_rows,), optional
            Weights of the rows.
        target : str, optional
            The name of a column of X, a data frame, that is y; `sample_weight` may be
            such a name, too.

        Returns
        -------
        float
            The share of rows whose class is right; or the coefficient of determination,
            1 for exact predictions, 0 for predicting the mean.
        """
        who = type(self).__name__
        names = getattr(self, "feature_names_in_", None)
        given = columns_to_score(who, X, y, sample_weight, target, names)
        X, y, sample_weight = given
        if isinstance(X, Source) and TARGET in getattr(X, "columns", ()):
            return self._score_of_source(X)
        if y is None:
            raise InvalidInputError(
                f"{who}: {_WHAT[self._task]} y are needed for the score. Give score(X, "
                "y), score(frame, target='label'), or "
                "score(corevec.open(path, target='label')).",
                parameter="y",
            )
        asked = tensors_to_numpy(y, self.predict(X), sample_weight)
        return self._measure(*asked)

    def _measure(self, y: Any, predicted: Any, sample_weight: Any) -> float:
        """Return the score of predictions, by scikit-learn."""
        # They load slowly.
        if self._task == "classes":
            from sklearn.metrics import accuracy_score

            return float(accuracy_score(y, predicted, sample_weight=sample_weight))
        from sklearn.metrics import r2_score

        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def _score_of_source(self, source: Source) -> float:
        """Return the score of rows that bring their target, in one pass."""
        model: Any = self
        if hasattr(model, "_check_remote_columns"):
            model._check_remote_columns(source, reset=False)
        one = copy(model)
        one.__dict__.pop("feature_names_in_", None)  # compared; blocks have none
        one.n_jobs = 1  # of each block
        sums, merge, value_of = _SUMS[self._task]

        def of_block(rows: Rows) -> Array:
            found = rows.columns[TARGET], one.predict(rows.values)
            return sums(*tensors_to_numpy(*found, rows.columns.get(WEIGHT)))

        try:
            with Workers(model.n_jobs) as workers:
                source = source.using(model.memory_budget, workers)
                with source.at_work():
                    return float(value_of(source.reduce(of_block, merge)))
        except (InvalidInputError, RowsLostError) as error:
            raise named(self, error) from error.__cause__


def _right(labels: Array, predicted: Array, weights: Array | None) -> Array:
    """Return the weight of all rows, and of those whose class is right."""
    if (labels.dtype.kind in "OSU") != (predicted.dtype.kind in "OSU"):
        raise InvalidInputError(
            f"the labels of the rows are {labels.dtype}, such as {labels[0]!r}, and "
            f"those of the model {predicted.dtype}, such as {predicted[0]!r}. Give "
            "labels of the type that the model was fitted on."
        )
    own = np.ones(len(labels)) if weights is None else weights
    return np.array([own.sum(), own[labels == predicted].sum()])


def _share(found: Array) -> float:
    """Return the share of the weight whose class is right."""
    return float(found[1] / found[0])


def _moments(y: Array, predicted: Array, weights: Array | None) -> Array:
    """Return weight, mean, squared deviations and squared residuals of the targets."""
    own = np.ones(len(y)) if weights is None else weights
    total = own.sum()
    mean = own @ y / total if total else 0.0
    return np.array([total, mean, own @ (y - mean) ** 2, own @ (y - predicted) ** 2])


def _merged_moments(a: Array, b: Array) -> Array:
    """Return the moments of the rows of both (Chan et al. 1983, eq. 2.1)."""
    total = a[0] + b[0]
    if total == 0:
        return a
    step = b[1] - a[1]
    spread = a[2] + b[2] + step**2 * a[0] * b[0] / total
    return np.array([total, a[1] + step * b[0] / total, spread, a[3] + b[3]])


def _determination(moments: Array) -> float:
    """Return R^2; as in scikit-learn, equal targets give 1 if all are met, else 0."""
    _, _, spread, residual = moments
    if spread == 0:
        return 1.0 if residual == 0 else 0.0
    return float(1 - residual / spread)


# What is summed over a block, how two blocks are merged, and the score of the sums.
_SUMS: Any = {
    "classes": (_right, np.add, _share),
    "numbers": (_moments, _merged_moments, _determination),
}


__all__ = ["Scored"]
