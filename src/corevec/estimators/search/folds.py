"""The splits of a search, and the score of a prediction on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, get_scorer, make_scorer, r2_score

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError


@dataclass(frozen=True)
class TrainingSet:
    """Validated rows in memory, with a target and a weight each.

    `is_weighted`: whether the user gave weights; `has_classes`: whether the targets are
    labels.
    """

    X: Any
    y: Array
    weight: Array
    is_weighted: bool
    has_classes: bool

    def __len__(self) -> int:
        return len(self.y)

    def can_be_learned(self, rows: Array) -> bool:
        """Whether rows of positive weight are among these, of two classes if any."""
        y = self.y[rows[self.weight[rows] > 0]]
        return len(y) > 0 and (not self.has_classes or bool((y != y[0]).any()))


@dataclass(frozen=True)
class Rung:
    """Rows that candidates are compared on, and their folds.

    Attributes
    ----------
    number : int
        0 for the first, smallest rung.
    rows : ndarray
        Row numbers in the training set, sorted.
    folds : list of pairs of ndarray
        Training and held-out rows of each fold, as positions among `rows`.
    """

    number: int
    rows: Array
    folds: list[tuple[Array, Array]]

    @property
    def spread(self) -> float:
        """The variance of a difference of means, in units of that between folds.

        ``1/K + n_test/n_train``: training sets of different folds overlap (Nadeau and
        Bengio 2003, the corrected resampled t-test).
        """
        shares = [len(test) / max(len(train), 1) for train, test in self.folds]
        return 1.0 / len(self.folds) + float(np.mean(shares))


def make_rungs(
    splits: list[tuple[Array, Array]], sizes: list[int], strata: Array
) -> list[Rung]:
    """Return a rung for each of the growing sizes, whose rows contain the last one's.

    Each class keeps its share: rows are taken in an order in which every part holds the
    classes in proportion. `strata` are the codes of the classes.
    """
    n, rng = len(strata), np.random.default_rng(0)
    place, order = np.empty(n), rng.permutation(n)
    for code in np.unique(strata):
        own = order[strata[order] == code]
        place[own] = (np.arange(len(own)) + rng.random()) / len(own)
    order = np.argsort(place, kind="stable")
    found = []
    for number, size in enumerate(sizes):
        rows = np.sort(order[:size])
        folds = []
        for pair in splits:
            kept = (one[np.isin(one, rows)] for one in pair)
            train, test = (np.searchsorted(rows, one) for one in kept)
            folds.append((train, test))
        found.append(Rung(number, rows, folds))
    return found


class Evaluator(Protocol):
    """A way to score the candidates of one path of C."""

    def scores(self, params: list[dict[str, Any]], rung: Rung) -> Array:
        """Return scores of shape (candidates, folds); the C of `params` grow."""


class HeldOutClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose answers for some rows are known: scorers ask it for them."""

    def __init__(self, decisions: Any = None, classes: Any = None):
        self.decisions, self.classes = decisions, classes

    @property
    def classes_(self) -> Any:
        """The class labels of the training part."""
        return self.classes

    def decision_function(self, X: Any) -> Any:
        """Return the decision values of the held-out rows."""
        return self.decisions

    def predict(self, X: Any) -> Any:
        """Return the classes of the held-out rows."""
        if self.decisions.ndim == 1:
            return self.classes[(self.decisions > 0).astype(int)]
        return self.classes[self.decisions.argmax(axis=1)]

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the answers are known."""
        return True


class HeldOutRegressor(RegressorMixin, BaseEstimator):
    """A regressor whose answers for some rows are known."""

    def __init__(self, predictions: Any = None):
        self.predictions = predictions

    def predict(self, X: Any) -> Any:
        """Return the predictions of the held-out rows."""
        return self.predictions

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the answers are known."""
        return True


@dataclass(frozen=True)
class Scoring:
    """How a prediction is scored: a scorer of scikit-learn, or any callable."""

    who: str
    scorer: Any
    is_plain: bool  # a scorer of scikit-learn asks for answers alone

    @staticmethod
    def of(who: str, scoring: Any, is_classifier: bool) -> Scoring:
        """Return the scoring that a user asks for; None is that of the estimator."""
        if scoring is None:
            metric = accuracy_score if is_classifier else r2_score
            return Scoring(who, make_scorer(metric), is_plain=True)
        try:
            scorer = get_scorer(scoring)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(
                f"{who}: scoring={scoring!r} must be the name of a scorer of scikit-"
                f"learn (sklearn.metrics.get_scorer_names()), a callable or None: "
                f"{error}",
                parameter="scoring",
            ) from None
        is_plain = isinstance(scorer, type(make_scorer(accuracy_score)))
        return Scoring(who, scorer, is_plain)

    def __call__(self, model: Any, X: Any, y: Array, weight: Array | None) -> float:
        """Return the score; NaN where no held-out row has a weight."""
        if len(y) == 0 or (weight is not None and not weight.any()):
            return float("nan")
        if weight is None:
            return float(self.scorer(model, X, y))
        try:
            return float(self.scorer(model, X, y, sample_weight=weight))
        except TypeError as error:
            raise InvalidInputError(
                f"{self.who}: sample_weight was given, but scoring={self.scorer!r} "
                f"takes no weights ({error}). Use a scorer that does, such as "
                "'accuracy', 'balanced_accuracy' or 'r2'.",
                parameter="scoring",
            ) from None
