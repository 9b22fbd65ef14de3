"""What a search delegates to the model that it refitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from corevec.estimators.search.folds import Scoring
from corevec.models.certificate import Certificate


def has_refit(model: Any) -> bool:
    """Whether a search fits its best candidate on all rows."""
    return bool(model.refit)


class Refitted:
    """Methods of the best estimator; left of scikit-learn's mixins, for `score`."""

    scoring: Any
    refit: Any
    _task: str

    @property
    def certificate_(self) -> Certificate:
        """The certificate of the refit on all rows."""
        return self._refitted().certificate_

    def _refitted(self) -> Any:
        check_is_fitted(self)
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(
                f"{type(self).__name__} was fitted with refit=False: it has no model. "
                "Fit an estimator with best_params_, or use refit=True."
            )
        return self.best_estimator_

    @available_if(has_refit)
    def predict(self, X: Any) -> Any:
        """Return the predictions of the best estimator.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_rows,)
            Class labels, or targets.
        """
        return self._refitted().predict(X)

    @available_if(has_refit)
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of the best estimator, by `scoring`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to predict.
        y : array-like of shape (n_rows,)
            Labels or targets of the rows.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        float
            Accuracy or coefficient of determination, or what `scoring` says.
        """
        model = self._refitted()
        if self.scoring is None:
            return float(model.score(X, y, sample_weight))
        who, is_classifier = type(self).__name__, self._task == "classes"
        scoring = Scoring.of(who, self.scoring, is_classifier)
        return scoring(model, X, np.asarray(y), sample_weight)
