"""Scores of a model on labelled rows, by the metrics of scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corevec.cli.data import Table
from corevec.cli.errors import data_error
from corevec.cli.models import estimator_of


def predictions_of(model: Any, table: Table, method: str = "predict") -> Any:
    """Return the predictions (or decision values) of a model for a table."""
    from corevec.exceptions import CorevecError

    estimator = estimator_of(model)
    if not hasattr(estimator, method):
        raise data_error(f"{type(estimator).__name__} has no {method}.")
    try:
        return getattr(model, method)(table.X)
    except (CorevecError, ValueError) as error:
        raise data_error(f"{table.name}: {error}") from error


def score_of(model: Any, table: Table, predicted: Any = None) -> dict[str, Any] | None:
    """Return accuracy, or errors of a regression; None without comparable labels."""
    if table.y is None:
        return None
    if predicted is None:
        predicted = predictions_of(model, table)
    return compared(model, table.y, predicted)


def compared(model: Any, y: Any, predicted: Any) -> dict[str, Any] | None:
    """Return the score of predictions for rows with labels y."""
    import numpy as np
    from sklearn.base import is_outlier_detector, is_regressor

    if is_regressor(estimator_of(model)):
        return _regression(y, predicted)
    if is_outlier_detector(estimator_of(model)) and not np.isin(y, [-1, 1]).all():
        return None
    same = np.asarray(y).dtype.kind in "US"
    if same != (np.asarray(predicted).dtype.kind in "US"):
        raise data_error(
            f"the labels are like {y[0]!r}, the predictions like {predicted[0]!r}: "
            "the model was trained on labels of another kind."
        )
    right = int(np.count_nonzero(np.asarray(y) == predicted))
    return {"rows": len(y), "right": right, "accuracy": right / len(y)}


def _regression(y: Any, predicted: Any) -> dict[str, Any]:
    import numpy as np
    from sklearn.metrics import mean_squared_error, r2_score

    # The squared correlation of svm-predict; undefined if either is constant.
    spread = np.std(y) > 0 and np.std(predicted) > 0
    correlation = np.corrcoef(y, predicted)[0, 1] if spread else np.nan
    return {
        "rows": len(y),
        "mean_squared_error": float(mean_squared_error(y, predicted)),
        "squared_correlation": float(correlation**2),
        "r2": float(r2_score(y, predicted)) if len(y) > 1 else float("nan"),
    }


def score_in_words(score: dict[str, Any] | None) -> str:
    """Return a score as a line of text."""
    if score is None:
        return "no labels to compare with"
    if "accuracy" in score:
        return (
            f"accuracy {100 * score['accuracy']:.4g} % "
            f"({score['right']:,} of {score['rows']:,} rows)"
        )
    return (
        f"mean squared error {score['mean_squared_error']:.6g}, R2 {score['r2']:.4f} "
        f"({score['rows']:,} rows)"
    )


def value_lines(values: Any) -> list[str]:
    """Return one line per row: its label, its number, or its several values."""
    import math

    def text(value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return str(value)
        number = float(value)
        whole = math.isfinite(number) and number == int(number) and abs(number) < 2**53
        return str(int(number)) if whole else repr(number)

    rows = values.tolist()
    if rows and isinstance(rows[0], list):
        return [" ".join(text(value) for value in row) for row in rows]
    return [text(value) for value in rows]


def write_lines(path: Path, values: Any) -> None:
    """Write predictions to a file, one line per row."""
    text = "".join(f"{line}\n" for line in value_lines(values))
    path.write_text(text, encoding="utf-8")
