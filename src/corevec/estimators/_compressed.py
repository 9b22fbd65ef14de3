"""The models that `compress` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
)
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.data.sources import (
    DEFAULT_MEMORY_BUDGET,
    Workers,
    as_source,
)
from corevec.estimators._categories import with_categories
from corevec.estimators._outliers import BallDetector, refused_diagonal
from corevec.estimators._parameters import store
from corevec.estimators._rows import lazily
from corevec.estimators._score import Scored
from corevec.estimators._validation import validated
from corevec.estimators.classify import _votes


@dataclass(frozen=True)
class Form:
    """How the predictions of a model follow from the values of its functions."""

    kind: str  # "two classes", "ovr", "ovo", "regressor", "detector", "ball"
    classes: Array | None = None
    breaks_ties: bool = True  # "ovo": whether `predict` uses the confidence as well
    raw: bool = False  # "ovo": whether `decision_function` returns the pairs
    offset: float = 0.0  # "detector", "ball": score_samples - offset decides
    one_output: bool = True
    upright: bool = True  # "ovo": whether a pair's value is above 0 for its second
    diagonal: float | None = None  # "ball", precomputed: k(x, x) of all rows, if known


class CompressedModel(BaseEstimator):
    """A kernel model with a small basis, as returned by `compress`.

    It has the methods of the original: ``predict``, for classifiers and detectors
    ``decision_function``, and for detectors ``score_samples``. ``fit`` returns it
    unchanged, so that it can be the last step of a pipeline.

    Parameters
    ----------
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the rows to predict.
    n_jobs : int, optional
        Number of threads. None uses the available cores (or ``OMP_NUM_THREADS``).

    Attributes
    ----------
    support_vectors_ : ndarray or CSR of shape (n_vectors, n_features)
        Basis vectors b_j; empty for ``kernel="precomputed"``.
    dual_coef_ : ndarray of shape (n_outputs, n_vectors)
        Coefficients of the basis vectors, one row per machine (per pair of classes for
        "ovo").
    intercept_ : ndarray of shape (n_outputs,)
        As in the original.
    distance_ : ndarray of shape (n_outputs,)
        ``|f - f'|`` in the feature space; rounding limits it to about 1e-7 ``|f|``.
    relative_distance_ : ndarray of shape (n_outputs,)
        `distance_` divided by ``|f|``. ``|f(x) - f'(x)| <= distance_ sqrt(k(x, x))``
        holds for every row x.
    classes_ : ndarray
        Class labels of a classifier.
    offset_ : float
        For a detector: ``decision_function = score_samples - offset_``.
    """

    def __init__(
        self,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        n_jobs: int | None = None,
    ):
        store(self, locals())

    def fit(self, X: Any = None, y: Any = None) -> CompressedModel:
        """Return the model unchanged, because `compress` has fitted it.

        Parameters
        ----------
        X : object, default=None
            Ignored; present for compatibility with scikit-learn.
        y : object, default=None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        self
            The model itself.
        """
        check_is_fitted(self)
        return self

    @lazily
    def predict(self, X: Any) -> Array:
        """Return the predicted targets, or the scores of a ranker.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_targets)
            Approximations of the predictions of the original.
        """
        values = self._values(X)
        return np.ascontiguousarray(values[:, 0]) if self._form.one_output else values

    def _values(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validated(self, with_categories(self, X, reset=False), reset=False)
        with Workers(self.n_jobs) as workers:
            source = as_source(X, self.memory_budget, workers)
            return np.asarray(self._functions.values(source))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `compress` has set the functions."""
        return hasattr(self, "_functions")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.requires_fit = True
        return tags


class CompressedClassifier(Scored, ClassifierMixin, CompressedModel):
    """The `CompressedModel` of a classifier."""

    _task = "classes"

    @lazily
    def decision_function(self, X: Any) -> Array:
        """Return decision values in the form of the original.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,), (n_rows, n_classes) or (n_rows, n_pairs)
            Above 0 for ``classes_[1]``; or one column per class, or per pair of classes
            for an SVC with ``decision_function_shape="ovo"``.
        """
        values, form = self._values(X), self._form
        if form.kind == "two classes":
            return np.ascontiguousarray(values[:, 0])
        if form.kind == "ovr" or form.raw:
            return values
        return _votes(values if form.upright else -values, len(self.classes_))

    @lazily
    def predict(self, X: Any) -> Array:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels from ``classes_``.
        """
        values, form = self._values(X), self._form
        if form.kind == "two classes":
            return np.asarray(self.classes_[(values[:, 0] > 0).astype(int)])
        if form.kind == "ovo":
            n_classes = len(self.classes_)
            values = _votes(values if form.upright else -values, n_classes)
            # The confidence is less than half a vote: rounding removes it.
            values = values if form.breaks_ties else np.round(values)
        return np.asarray(self.classes_[values.argmax(axis=1)])


class CompressedRegressor(Scored, RegressorMixin, CompressedModel):
    """The `CompressedModel` of a regressor."""

    _task = "numbers"


class CompressedDetector(BallDetector, CompressedModel):
    """The `CompressedModel` of a one-class machine or a ball."""

    @lazily
    def score_samples(self, X: Any, diagonal: Any = None) -> Array:
        """Return the score of each row: the larger, the more normal.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to score (kernel values against the training rows if precomputed).
        diagonal : array-like of shape (n_rows,), optional
            The value k(x, x) of each row, for a ball with ``kernel="precomputed"``;
            see `SVDD`.

        Returns
        -------
        ndarray of shape (n_rows,)
            f(x), or minus the squared distance from a ball's centre.
        """
        values, form = self._values(X)[:, 0], self._form
        if form.kind == "detector":
            if diagonal is not None:
                raise refused_diagonal(
                    type(self).__name__, "a one-class machine needs no k(x, x)"
                )
            return np.asarray(values - self.intercept_[0])
        X = validated(self, with_categories(self, X, reset=False), reset=False)
        kernel = self._functions.kernel
        own = self._diagonal_of(X, kernel, form.diagonal, diagonal)
        return np.asarray(2 * values - own - self._centre_norm_sq)
