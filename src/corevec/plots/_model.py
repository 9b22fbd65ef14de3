"""What the displays read from a fitted model or pipeline."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.data.sources import column_names
from corevec.estimators._rows import check_same_names
from corevec.exceptions import InvalidInputError


def last_step(model: Any) -> Any:
    """Return the estimator itself: the last step of a pipeline."""
    return model[-1] if isinstance(model, Pipeline) else model


def vectors_of(model: Any) -> tuple[Any, Array] | None:
    """Return the core vectors in the units of the rows, and their coefficients.

    Those of a pipeline are transformed back through the earlier steps. None for a
    model without vectors: a linear streaming model, or a precomputed kernel.
    """
    own = last_step(model)
    check_is_fitted(own)
    vectors = getattr(own, "support_vectors_", None)
    if vectors is None or min(vectors.shape) == 0:
        return None
    coef = np.atleast_2d(own.dual_coef_)
    if isinstance(model, Pipeline):
        for _, step in reversed(model.steps[:-1]):
            if step not in (None, "passthrough"):
                vectors = step.inverse_transform(vectors)
    return vectors, coef


def names_of(model: Any, n_columns: int) -> list[str]:
    """Return the names of the columns: those of the fit, or numbers."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"column {j}" for j in range(n_columns)]
    return [str(name) for name in names]


def rows_of(X: Any) -> Any:
    """Return rows as an array or a CSR matrix, without column names."""
    if sparse.issparse(X):
        return X.tocsr()
    return np.asarray(X)


def rows_for(who: str, model: Any, X: Any) -> Any:
    """Return rows as an array or a CSR matrix, after a check of the column names."""
    check_same_names(who, model, column_names(X))
    return rows_of(X)


def some_rows(n_rows: int, most: int, seed: Any) -> Array:
    """Return the numbers of a random subset of at most `most` rows, in order."""
    if n_rows <= most:
        return np.arange(n_rows)
    chosen = np.random.default_rng(seed).choice(n_rows, most, replace=False)
    return np.sort(chosen)


def dense(rows: Any) -> Array:
    """Return a few rows as a dense float array."""
    rows = rows.toarray() if sparse.issparse(rows) else rows
    return np.asarray(rows, dtype=np.float64)


def as_seen(model: Any, rows: Array) -> Any:
    """Return rows in the form of the fit: a frame if its columns had names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return rows
    try:
        frames = import_module("pandas")
    except ImportError:  # the fit used another kind of frame; the names are lost
        return rows
    return frames.DataFrame(rows, columns=names)


def refuse(who: str, model: Any, what: str, instead: str) -> InvalidInputError:
    """Return the error for a model that a display cannot draw."""
    return InvalidInputError(f"{who}: {type(model).__name__} {what}. {instead}")
