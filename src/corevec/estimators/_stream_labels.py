"""Labels of a stream: its classes, and the integer codes of labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError

# Up to this number of classes, comparing with each is cheaper than a search.
_FEW_CLASSES = 16


def first_classes(who: str, y: Array, weights: Array | None, classes: Any) -> Array:
    """Return the classes of a stream: the given ones, or those of its first block."""
    if classes is None:
        check_classification_targets(y)
        found = np.unique(y if weights is None else y[weights > 0])
    else:
        found = np.unique(column_or_1d(classes))
        check_classification_targets(found)
    if len(found) < 2:
        raise InvalidInputError(
            f"{who}: only 1 class ({found.tolist()[0]!r}) was found; a classifier "
            "needs at least 2 classes. Give all labels that a stream will have as "
            "classes=; for one class use StreamingOneClass.",
            parameter="classes",
        )
    return found


def encoded(
    who: str,
    y: Array,
    weights: Array | None,
    classes: Array,
    where: Callable[[int], str],
) -> Array:
    """Return the class code of each label (int32); an unknown label is an error.

    `where` describes the position of a row of the block in the stream, for messages.
    """
    codes = np.zeros(len(y), dtype=np.int32)
    known = np.zeros(len(y), dtype=bool)
    if len(classes) <= _FEW_CLASSES:
        for code, label in enumerate(classes):
            here = np.asarray(y == label)
            codes[here] = code
            known |= here
    else:
        found = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        codes, known = found.astype(np.int32), np.asarray(classes[found] == y)
    if weights is not None:
        known |= weights == 0
    if not known.all():
        row = int(np.argmin(known))
        label = y[row].item() if isinstance(y[row], np.generic) else y[row]
        raise InvalidInputError(
            f"{who}: the label {label!r} of {where(row)} is unknown: the classes are "
            f"{classes[:10].tolist()}. Give all labels that the stream will have as "
            "classes= at the start.",
            parameter="classes",
        )
    return codes


def winner(values: Array) -> Array:
    """Return the predicted class codes of decision values."""
    if values.ndim == 1:
        return (values > 0).astype(np.intp)
    return np.asarray(values.argmax(axis=1))


def same_classes(some: Any, others: Any) -> bool:
    """Whether two lists of labels are equal up to their order."""
    return np.array_equal(np.unique(np.asarray(some)), np.unique(np.asarray(others)))
