"""Results of a model on rows: metrics, and a figure for its kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, r2_score

from corevec._runtime.types import Array
from corevec.plots import last_step, plain
from corevec.report import _rows

# Maximum number of predicted rows: bounds the time of a report on large data.
MOST_SCORED = 50_000
_INSIDE, _OUTSIDE = 1, -1


@dataclass(frozen=True)
class Confusion:
    """Counts of true classes (rows) against predicted ones (columns)."""

    names: list[str]
    counts: Array


@dataclass(frozen=True)
class Results:
    """Metrics, the rows they were measured on, and data of the figure."""

    rows: str
    is_test: bool
    metrics: list[tuple[str, str]] = field(default_factory=list)
    headline: tuple[str, str] | None = None
    confusion: Confusion | None = None
    residuals: tuple[Array, Array] | None = None  # predicted, residual
    scores: Array | None = None


def kind_of(model: Any) -> str:
    """Return "classifier", "regressor", "detector" or "other"."""
    own = last_step(model)
    if is_classifier(own) or hasattr(own, "classes_"):
        return "classifier"
    if is_outlier_detector(own):
        return "detector"
    return "regressor" if is_regressor(own) else "other"


def measure(model: Any, X: Any, y: Any, *, is_test: bool) -> Results:
    """Return the results of a model on rows, at most 50,000 of them."""
    chosen = _rows.sample(X.shape[0], MOST_SCORED)
    part = _rows.take(X, chosen)
    kind = kind_of(model)
    name = "test rows" if is_test else "training rows"
    rows = f"{len(chosen):,} {name}"
    if len(chosen) < X.shape[0]:
        rows = f"{len(chosen):,} of {X.shape[0]:,} {name}, a random subset"
    labels = None if y is None else np.asarray(y)[chosen]
    if kind == "classifier" and labels is not None:
        return _classified(rows, is_test, labels, model.predict(part), last_step(model))
    if kind == "regressor" and labels is not None:
        return _regressed(rows, is_test, labels, np.asarray(model.predict(part)))
    if kind == "detector":
        return _detected(rows, is_test, labels, model, part)
    if kind == "other":
        scores = np.asarray(model.predict(part))
        return Results(rows, is_test, scores=scores if scores.ndim == 1 else None)
    return Results(rows, is_test)


def _classified(
    rows: str, is_test: bool, y: Array, predicted: Array, own: Any
) -> Results:
    # Test rows may contain classes that the model does not know.
    labels = np.union1d(np.asarray(own.classes_), y)
    right = float(np.mean(predicted == y))
    error = _with_error(1 - right, len(y))
    metrics = [("error", error), ("accuracy", f"{right:.2%}")]
    if len(np.unique(y)) > 1 and np.isin(predicted, y).all():
        balanced = balanced_accuracy_score(y, predicted)
        metrics.append(("balanced accuracy", f"{balanced:.2%}"))
    counts = confusion_matrix(y, predicted, labels=labels)
    return Results(
        rows,
        is_test,
        metrics,
        ("test error" if is_test else "training error", f"{1 - right:.2%}"),
        Confusion([plain(name) for name in labels], counts),
    )


def _regressed(rows: str, is_test: bool, y: Array, predicted: Array) -> Results:
    residual = y - predicted
    rmse = float(np.sqrt(np.mean(residual**2)))
    metrics = [
        ("root mean squared error", f"{rmse:.4g}"),
        ("mean absolute error", f"{np.mean(np.abs(residual)):.4g}"),
    ]
    if len(y) > 1:
        metrics.append(("R²", f"{r2_score(y, predicted):.4f}"))
    first = (predicted, residual)
    if residual.ndim == 2:
        first = (predicted[:, 0], residual[:, 0])
    name = "test RMSE" if is_test else "training RMSE"
    return Results(rows, is_test, metrics, (name, f"{rmse:.4g}"), residuals=first)


def _detected(rows: str, is_test: bool, y: Array | None, model: Any, X: Any) -> Results:
    scores = np.asarray(model.decision_function(X))
    outside = float(np.mean(scores < 0))
    metrics = [("judged outside", _with_error(outside, len(scores)))]
    confusion = None
    if y is not None and set(np.unique(y).tolist()) <= {_INSIDE, _OUTSIDE}:
        predicted = np.where(scores >= 0, _INSIDE, _OUTSIDE)
        counts = confusion_matrix(y, predicted, labels=[_INSIDE, _OUTSIDE])
        confusion = Confusion(["inside", "outside"], counts)
        metrics.append(("error", _with_error(float(np.mean(predicted != y)), len(y))))
    headline = ("judged outside", f"{outside:.2%}")
    return Results(rows, is_test, metrics, headline, confusion, scores=scores)


def _with_error(share: float, n: int) -> str:
    """Return a share in per cent with its standard error."""
    return f"{share:.2%} ± {np.sqrt(share * (1 - share) / max(n, 1)):.2%}"
