"""Blocks of a stream: recognition, labels and progress reports."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import column_or_1d

from corevec._runtime.progress import logger
from corevec._runtime.types import Array
from corevec.estimators._callbacks import RoundReporter
from corevec.estimators._validation import check_labels
from corevec.exceptions import InvalidInputError

Block = tuple[Any, Any, Any]  # rows, labels, weights


def is_stream(X: Any) -> bool:
    """Whether `X` is an iterable of blocks rather than one array of rows.

    Arrays, data frames and matrices are not; a list is if its first item is a block.
    """
    if any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__")):
        return False
    if isinstance(X, list | tuple):
        return len(X) > 0 and _is_block(X[0])
    return isinstance(X, Iterable) and not isinstance(X, str | bytes | dict)


def _is_block(item: Any) -> bool:
    rows = item[0] if isinstance(item, tuple) and len(item) > 0 else item
    return len(getattr(rows, "shape", ())) == 2


def blocks_of(who: str, stream: Iterable[Any], *, labelled: bool) -> Iterator[Block]:
    """Yield (rows, labels, weights) of every block that is not empty."""
    for number, item in enumerate(stream):
        parts = item
        if not isinstance(item, tuple) and not labelled:
            parts = (item, None)
        if not isinstance(parts, tuple) or not 2 <= len(parts) <= 3:
            what = type(item).__name__
            if isinstance(item, tuple):
                what += f" of {len(item)}"
            wanted = "(X, y) or (X, y, sample_weight)"
            if not labelled:
                wanted = f"X, {wanted}"
            raise InvalidInputError(
                f"{who}: block {number} of the stream is a {what}; every block must be "
                f"{wanted}."
            )
        X, y = parts[0], parts[1]
        if getattr(X, "shape", (1,))[0] > 0:
            yield X, y, parts[2] if len(parts) == 3 else None


def first_unusable(X: Any) -> tuple[int, str] | None:
    """Return the first row that is not finite, and what it contains."""
    if sparse.issparse(X):
        bad = np.flatnonzero(~np.isfinite(X.data))
        if len(bad) == 0:
            return None
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        return row, _kind(X.data[X.indptr[row] : X.indptr[row + 1]])
    bad = np.flatnonzero(~np.isfinite(X).all(axis=1))
    return None if len(bad) == 0 else (int(bad[0]), _kind(X[bad[0]]))


def _kind(values: Array) -> str:
    return "NaN" if np.isnan(values).any() else "infinity"


# Up to this number of classes, comparing with each is cheaper than a search.
_FEW_CLASSES = 16


def first_classes(who: str, y: Array, weights: Array | None, classes: Any) -> Array:
    """Return the classes of a stream: the given ones, or those of its first block."""
    if classes is None:
        check_labels(who, y)
        found = np.unique(y if weights is None else y[weights > 0])
    else:
        found = np.unique(column_or_1d(classes))
        check_labels(who, found)
    if len(found) < 2:
        raise InvalidInputError(
            f"{who}: only 1 class ({found.tolist()[0]!r}) was found; a classifier "
            "needs at least 2 classes. Give all labels that a stream will have as "
            "classes=; for one class use StreamingBallOneClass.",
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


# What a record may hold of the rows before they were learned, and its words.
RESULTS = {
    "accuracy": "accuracy so far",
    "balanced": "balanced",
    "rmse": "RMSE so far",
}


class BlockReporter(RoundReporter):
    """Reports each block to the progress line, the log and the callbacks."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.begun = time.perf_counter()
        if self.line is not None:
            self.line.unit, self.line.unit_scale = " rows", True
        return self

    def _show(self, record: dict[str, Any]) -> None:
        rate = record["rows"] / max(time.perf_counter() - self.begun, 1e-9)
        right = "".join(
            f", {word} {record[name]:.4f}"
            for name, word in RESULTS.items()
            if not np.isnan(record.get(name, np.nan))
        )
        if self.model.verbose > 1:
            logger.log(
                logging.INFO,
                "%s block %d: %d rows, %.0f rows/s%s, %d updates",
                type(self.model).__name__,
                record["block"],
                record["rows"],
                rate,
                right,
                record["updates"],
            )
        if self.line is not None:
            self.line.set_postfix_str(f"{record['updates']} updates{right}", False)
            self.line.update(record["rows"] - self.line.n)
