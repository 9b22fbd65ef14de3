"""One pass over remote rows: one model per partition, merged in a tree."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.base import clone

from corevec.data.sources import (
    TARGET,
    WEIGHT,
    remote_source,
    require_host_rows,
    require_rows_in_memory,
)
from corevec.estimators._base import kernel_for
from corevec.estimators._dataset import Dataset
from corevec.kernels import AnyKernel, Rows


def fit_remote(model: Any, X: Any, y: Any, sample_weight: Any, classes: Any) -> bool:
    """Fit a streaming model on every partition, in order, and merge the balls.

    False, and nothing is done, where the rows are in memory. The classes and the kernel
    coefficient are determined by earlier passes, because they must be the same in all
    partitions.
    """
    who, task = type(model).__name__, model._task
    if not model._check_remote_columns(X, reset=True):
        return False
    source = remote_source(who, X, None if task == "none" else y, sample_weight)
    assert source is not None
    given = Dataset.carried(who, source, task)
    if task == "classes" and classes is None:
        classes = given.classes
    kernel = None
    if not model._is_linear:
        kernel = kernel_for(model, given)
    begin = partial(_begin, clone(model), kernel)
    step = partial(_step, None if classes is None else list(classes))
    found = source.fold(begin, step, _joined)
    for name, value in found._fitted_attributes().items():
        if name not in ("n_features_in_", "feature_names_in_"):
            setattr(model, name, value)
    return True


def _begin(model: Any, kernel: AnyKernel | None) -> Any:
    fresh = clone(model)
    if kernel is not None:
        fresh._kernel_of_all = kernel
    return fresh


def _step(classes: Any, model: Any, rows: Rows) -> Any:
    weights = rows.columns.get(WEIGHT)
    if weights is not None and not (weights > 0).any():
        return model  # rows of weight 0 change nothing
    if classes is None:
        return model.partial_fit(rows.values, sample_weight=weights)
    labels = rows.columns[TARGET]
    return model.partial_fit(rows.values, labels, classes, sample_weight=weights)


def _joined(a: Any, b: Any) -> Any:
    if not b.__sklearn_is_fitted__():
        return a
    return a.merge(b) if a.__sklearn_is_fitted__() else b


def refuse_tensors(who: str, X: Any) -> None:
    """Raise for rows on a device: a ball grows row by row, on the host."""
    why = "rows are learned one after the other, on the host"
    require_host_rows(who, X, why)


def refuse_remote(who: str, X: Any) -> None:
    """Raise for remote rows: a few numbers per row are needed in memory."""
    require_rows_in_memory(
        who,
        X,
        "certify of a streaming model stores a few numbers per row, so the rows must "
        "be in memory; {kind} was given. Certify on a part of them, or fit "
        "CoreVectorClassifier or SVDD, which certify remote rows as well.",
    )
