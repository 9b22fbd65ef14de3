"""Checks of what users give: rows, labels, targets and weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, time, timedelta
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from corevec._runtime.types import Array
from corevec.backend.arrays import is_tensor, to_numpy
from corevec.data.sources import (
    columns_without_numbers,
    computed_column,
    computed_rows,
    place_without_number,
)
from corevec.estimators._dataset import TINY, refuse_bad_weights
from corevec.exceptions import CorevecError, InvalidInputError, RowsLostError

CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "accept_large_sparse": True,
}
NO_LABELS = "no_validation"  # scikit-learn's own default of y
# The square of such a target, summed over all rows, is a floating-point number.
MAX_TARGET = 1e150
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
# What is no number although NumPy would make one of it, and what to give instead.
_NOT_NUMBERS = {
    "M": (
        "dates",
        "Give a number, such as days: (dates - dates.min()) / np.timedelta64(1, 'D').",
    ),
    "m": ("durations", "Give a number, such as seconds: d / np.timedelta64(1, 's')."),
    "U": (
        "text",
        "Convert digits by astype(float), and encode words (OneHotEncoder).",
    ),
    "S": ("bytes", "Convert digits by astype(float), and encode words."),
    "time": ("times of day", "Give a number, such as seconds since midnight."),
    "nested": ("nested values", "Give each entry a column of its own."),
    "Unknown": ("no numbers", "Convert the column, or leave it out."),
    "V": (
        "records with named fields",
        "Give one matrix: numpy.lib.recfunctions.structured_to_unstructured(X).",
    ),
}
_OBJECT_KINDS = (
    (str, "U"),
    (bytes, "S"),
    (date, "M"),
    (timedelta, "m"),
    (time, "time"),
    (list | dict | np.ndarray, "nested"),
)


def validated(
    model: Any, X: Any, y: Any = NO_LABELS, *, reset: bool = True, **checks: Any
) -> Any:
    """Return validated rows in memory, and validated labels where y is given.

    Finite float arrays with a plain vector of labels are accepted as they are; anything
    else goes through scikit-learn, which takes 600 Python calls for a data set.
    """
    who = type(model).__name__
    X = computed_rows(who, X)
    if not isinstance(y, str):
        y = computed_column(who, y, "y")
    if _is_ready(X, y, checks) and _same_columns(model, X, reset):
        return X if isinstance(y, str) else (X, y)
    refuse_targets(who, y)
    objects = _objects(X) if callable(getattr(model, "kernel", None)) else None
    if objects is not None:
        _same_columns(model, objects, reset)
        return objects if isinstance(y, str) else (objects, np.asarray(y))
    refuse_non_numbers(who, X)
    try:
        return validate_data(model, X, y, reset=reset, **CHECKS, **checks)
    except ValueError as error:
        place = place_without_number(X)
        if place is None:
            raise named(model, error) from None
        raise InvalidInputError(
            f"{who}: Input X contains NaN, null or infinity: {place}. Drop such rows, "
            "or impute them (SimpleImputer)."
        ) from None


def _is_ready(X: Any, y: Any, checks: dict[str, Any]) -> bool:
    """Whether X is a finite matrix of floats, and y, if given, a vector beside it."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.size == 0:
        return False
    if X.dtype not in _FLOATS or (
        checks.get("order") == "C" and not X.flags.c_contiguous
    ):
        return False
    if not isinstance(y, str) and not (_is_plain_vector(y) and len(y) == len(X)):
        return False
    return not checks.get("ensure_all_finite", True) or _is_finite(X)


def _is_finite(values: Array) -> bool:
    """Whether the sum of the values, and so each of them, is finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.add.reduce(values, axis=None)))


def _is_plain_vector(y: Any) -> bool:
    """Whether y is a vector of finite numbers or words."""
    if type(y) is not np.ndarray or y.ndim != 1:
        return False
    return y.dtype.kind in "iubU" or (y.dtype.kind == "f" and _is_finite(y))


def _objects(X: Any) -> Array | None:
    """Return rows for a kernel function that are no vectors, such as words or graphs.

    They become a column of objects; None of rows of numbers.
    """
    is_list = isinstance(X, list | tuple) or type(X) is np.ndarray
    shape = getattr(X, "shape", ())
    if shape[1:] == (1,) and X.dtype == object and not isinstance(X[0, 0], Real):
        return np.asarray(X)  # such a column
    if not is_list or getattr(X, "ndim", 1) != 1 or len(X) == 0:
        return None
    try:
        if np.asarray(X).dtype.kind in "biuf":
            return None
    except ValueError:  # ragged lists
        pass
    column = np.empty((len(X), 1), dtype=object)
    for row, one in enumerate(X):
        column[row, 0] = one
    return column


def _same_columns(model: Any, X: Array, reset: bool) -> bool:
    """Note the number of columns, or return whether it is that of the fit."""
    known = model.__dict__
    if not reset:
        named_columns = "feature_names_in_" in known
        return not named_columns and known.get("n_features_in_") == X.shape[1]
    known.pop("feature_names_in_", None)
    model.n_features_in_ = X.shape[1]
    return True


def refuse_non_numbers(who: str, X: Any, name: str = "X") -> None:
    """Raise where values would be taken for numbers that they are not.

    Masked entries, dates, durations, text, bytes, records and mappings; a frame is
    looked at column by column.
    """
    first = X[0] if isinstance(X, list | tuple) and len(X) else X
    if isinstance(first, Mapping) and not sparse.issparse(X):  # a DOK matrix is one
        raise InvalidInputError(
            f"{who}: {name} is a {type(X).__name__} with names in place of columns. "
            "Give a matrix, or a data frame: pandas.DataFrame(X)."
        )
    refuse_masked(who, X, name)
    for where, values, own_type in _columns(X, name):
        kind, found = _kind_of(values)
        if own_type == "Unknown":  # to narwhals: Arrow's intervals, only nulls
            kind = own_type
        if kind == "nested" and not own_type:  # scikit-learn's words for arrays
            continue
        if kind in _NOT_NUMBERS:
            what, instead = _NOT_NUMBERS[kind]
            shown = "" if found is None else f", such as {found!r}"
            raise InvalidInputError(
                f"{who}: {where} holds {what} ({own_type or values.dtype}{shown}) "
                f"instead of numbers. {instead}"
            )


def refuse_targets(who: str, y: Any) -> None:
    """Raise for labels and targets that have no value in each row."""
    refuse_masked(who, y, "y")
    if sparse.issparse(y):
        raise InvalidInputError(
            f"{who}: y is a sparse matrix, but one label or target per row is needed. "
            "Give y.toarray(), flat: y.toarray().ravel()."
        )


def refuse_huge_targets(who: str, y: Array) -> None:
    """Raise for targets whose squares are no numbers, where squares are needed."""
    size = np.abs(y).max(initial=0.0)
    if size > MAX_TARGET:
        raise InvalidInputError(
            f"{who}: y holds numbers of the size {size:g}, but must stay within "
            f"{MAX_TARGET:g}: their squares leave the range of floating-point numbers. "
            "Divide y by its standard deviation."
        )


def refuse_masked(who: str, values: Any, name: str) -> None:
    """Raise for masked entries, which NumPy would replace by what lies below them."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        at = tuple(int(i) for i in np.argwhere(np.ma.getmaskarray(values))[0])
        raise InvalidInputError(
            f"{who}: {name} has masked entries, the first at {at}. Impute them "
            f"({name}.filled(value)), or drop such rows."
        )


def _columns(X: Any, name: str) -> Iterator[tuple[str, Any, str]]:
    """Yield what may hold other things than numbers: its place, values and type."""
    if hasattr(X, "columns"):
        yield from columns_without_numbers(X, name)
    elif not (sparse.issparse(X) or hasattr(X, "__array_namespace__")):
        try:
            yield name, np.asarray(X), ""
        except (TypeError, ValueError):
            return  # ragged lists: scikit-learn says so
    elif isinstance(X, np.ndarray):
        yield name, X, ""


def _kind_of(values: Any) -> tuple[str, Any]:
    """Return the kind of values, and an entry of objects that shows it."""
    if values.dtype.kind != "O":
        return values.dtype.kind, None
    for value in islice(values.flat, values.size):
        for cls, kind in _OBJECT_KINDS:
            if isinstance(value, cls):
                return kind, value
    return "O", None


def host_array(values: Any) -> Array:
    """Return the array of another library as one of NumPy, copied from its device."""
    if isinstance(values, np.ndarray):
        return values
    if is_tensor(values):
        return to_numpy(values)
    return np.from_dlpack(values)


def checked_target(who: str, y: Any, n_rows: int, task: str) -> Array:
    """Return labels as a vector, or targets as a matrix of finite numbers."""
    y = computed_column(who, y, "y")
    refuse_targets(who, y)
    try:
        if task == "classes":
            y = y if _is_plain_vector(y) else column_or_1d(y, warn=True)
            check_labels(who, y)
        else:
            refuse_non_numbers(who, y, "y")
            if not (_is_plain_vector(y) and y.dtype == np.float64):
                y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    except CorevecError:
        raise
    except (TypeError, ValueError) as error:
        must = "" if task == "classes" else " Targets y must be finite numbers."
        raise InvalidInputError(f"{who}: {error}{must}") from None
    if len(y) != n_rows:
        raise InvalidInputError(
            f"{who}: X has {n_rows} rows, but y has {len(y)} entries. Give one for "
            "each row."
        )
    return y[:, None] if task == "numbers" and y.ndim == 1 else np.asarray(y)


def checked_weights(model: Any, sample_weight: Any, n_rows: int) -> Array | None:
    """Return weights as float64, or None where all rows weigh 1."""
    if sample_weight is None:
        return None
    who = type(model).__name__
    sample_weight = computed_column(who, sample_weight, "sample_weight")
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_rows, sample_weight)
    if hasattr(sample_weight, "__dlpack__"):  # of any library
        sample_weight = host_array(sample_weight)
    refuse_non_numbers(who, sample_weight, "sample_weight")
    try:
        weights = check_array(
            sample_weight,
            ensure_2d=False,
            dtype=np.float64,
            input_name="sample_weight",
        )
    except ValueError as error:
        raise named(model, error) from None
    refuse_bad_weights(who, weights)
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"{who}: sample_weight.shape == {weights.shape}, expected ({n_rows},): "
            "one weight per row."
        )
    weights = np.where(weights < TINY, 0.0, weights)
    if not (weights > 0).any():
        raise InvalidInputError(
            f"{who}: sample_weight is zero for all {n_rows} rows, so no row is "
            f"left to fit. Give at least one row a positive weight (below {TINY:g} "
            "they count as zero)."
        )
    return None if (weights == 1).all() else weights


def named(model: Any, error: ValueError | CorevecError) -> CorevecError:
    """Return the error with the estimator's name and, for lost rows, the remedy."""
    who, text = type(model).__name__, str(error)
    text = text if who in text else f"{who}: {text}"
    if isinstance(error, RowsLostError):
        text += model._how_to_go_on()
    kind = type(error) if isinstance(error, CorevecError) else InvalidInputError
    return kind(text, parameter=getattr(error, "parameter", None))


def check_same_names(who: str, model: Any, names: Any) -> None:
    """Raise where rows and fit both have names of columns, and these differ."""
    known = getattr(model, "feature_names_in_", None)
    if known is not None and names is not None and list(known) != list(names):
        raise InvalidInputError(
            f"{who}: The feature names should match those that were passed during "
            f"fit: {list(known)[:5]} there, {list(names)[:5]} here, in this order."
        )


def check_labels(who: str, labels: Array) -> None:
    """Raise where some of the labels can only be a regression's targets."""
    if labels.dtype.kind == "O":
        try:
            check_classification_targets(labels)
        except (TypeError, ValueError) as error:  # labels that have no order, too
            raise InvalidInputError(f"{who}: {error}") from None
    is_other = labels % 1 != 0 if labels.dtype.kind == "f" else np.zeros(0, dtype=bool)
    if is_other.any():
        raise InvalidInputError(
            f"{who}: Unknown label type: continuous. y holds {labels[is_other][0]:g} "
            f"(and {len(labels):,} different numbers in all), but the labels of "
            "classes are whole numbers, booleans or words. For such targets use a "
            "regressor (CoreVectorRegressor); for classes give "
            "whole numbers as y."
        )


def check_square(who: str, K: Any) -> None:
    """Raise where a precomputed kernel matrix is not square or not symmetric."""
    if K.shape[0] != K.shape[1]:
        raise InvalidInputError(
            f"{who}: kernel='precomputed' needs a square matrix of kernel values "
            f"between the training rows; X has shape {K.shape}.",
            parameter="kernel",
        )
    scale = max(abs(K[s : s + 1024]).max() for s in range(0, K.shape[0], 1024))
    for start in range(0, K.shape[0], 1024):
        rows = slice(start, start + 1024)
        difference = abs(K[rows] - K[:, rows].T)
        if difference.max() > 1e-6 * scale:
            flat = difference.toarray() if sparse.issparse(difference) else difference
            i, j = np.unravel_index(np.argmax(flat), flat.shape)
            raise InvalidInputError(
                f"{who}: the precomputed kernel is not symmetric: entries "
                f"({start + i}, {j}) and ({j}, {start + i}) are {K[start + i, j]:g} "
                f"and {K[j, start + i]:g}. A kernel matrix has k(x, z) = k(z, x)."
            )
