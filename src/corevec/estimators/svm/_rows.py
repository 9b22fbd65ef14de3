"""The rows of a fit as scikit-learn's machines take them, and their kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_outlier_detector
from sklearn.utils.validation import check_consistent_length, validate_data

from corevec._runtime.types import Array
from corevec.data.sources import (
    Workers,
    as_source,
    computed_column,
    computed_rows,
    require_rows_in_memory,
    row_statistics,
)
from corevec.estimators._validation import named, refuse_non_numbers, refuse_targets
from corevec.exceptions import InvalidInputError, KernelError
from corevec.kernels import AnyKernel, make_kernel, resolve_gamma

# Sparse rows of up to so many entries are worked on dense (8 MB): products by BLAS are
# faster than sparse ones, and the model is then bit by bit that of dense rows.
MAX_DENSE_ENTRIES = 1 << 20
CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": np.float64,
    "order": "C",
    "accept_large_sparse": True,
}


@dataclass(frozen=True)
class TrainingRows:
    """What the solver works on: rows with their kernel, or a matrix of kernel values.

    Attributes
    ----------
    values : ndarray or CSR matrix of shape (n_rows, n_features) or (n_rows, n_rows)
        Rows, or kernel values.
    kernel : Kernel
        The kernel of `values`.
    gamma : float
        gamma as a number, in units of the user's rows; 0 for kernel values.
    """

    values: Any
    kernel: AnyKernel
    gamma: float


def validated_rows(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return validated rows and targets; rows of a kernel function as they are.

    Without targets (`y` is None for a detector) these are 1 for every row.
    """
    who = type(model).__name__
    require_rows_in_memory(
        who,
        X,
        "the rows must be in memory, but {kind} was given. For files, clusters and "
        "tensors use CoreVectorClassifier, CoreVectorRegressor or CoreVectorOneClass.",
    )
    if sparse.issparse(X) and model.kernel == "precomputed":
        raise TypeError(
            f"{who}: Sparse precomputed kernels are not supported. Give the matrix of "
            "kernel values dense: X.toarray()."
        )
    X, y = computed_rows(who, X), computed_column(who, y, "y")
    is_detector = y is None and is_outlier_detector(model)
    refuse_targets(who, y)
    if not callable(model.kernel):
        refuse_non_numbers(who, X)
    try:
        if callable(model.kernel):
            y = np.ones(n_rows_of(X)) if is_detector else y
            check_consistent_length(X, y)
            return X, y
        if is_detector:
            X = validate_data(model, X, **CHECKS)
            y = np.ones(X.shape[0])
        else:
            X, y = validate_data(model, X, y, **CHECKS)
    except ValueError as error:
        raise named(model, error) from None
    if model.kernel == "precomputed" and X.shape[0] != X.shape[1]:
        raise InvalidInputError(
            f"{who}: Precomputed matrix must be a square matrix. Input is a "
            f"{X.shape[0]}x{X.shape[1]} matrix. Give the kernel values between the "
            "training rows.",
            parameter="kernel",
        )
    return sorted_rows(X), y


def n_rows_of(X: Any) -> int:
    """Return the number of rows of whatever a kernel function takes."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def sorted_rows(X: Any) -> Any:
    """Return sparse rows with sorted and unique columns, others as they are."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def training_rows(model: Any, X: Any, workers: Workers) -> TrainingRows:
    """Return what the solver works on, for validated rows."""
    if callable(model.kernel):
        values = kernel_values(type(model).__name__, model.kernel, X, X)
        if values.shape[0] != values.shape[1]:
            raise KernelError(
                f"{type(model).__name__}: X.shape[0] should be equal to X.shape[1], "
                f"but the kernel function returned an array of shape {values.shape}. "
                "It must return one value per pair of rows."
            )
        return TrainingRows(values, make_kernel("precomputed"), 0.0)
    if model.kernel == "precomputed":
        return TrainingRows(X, make_kernel("precomputed"), 0.0)
    values = X
    if sparse.issparse(X) and X.shape[0] * X.shape[1] <= MAX_DENSE_ENTRIES:
        values = X.toarray()
    statistics = row_statistics(as_source(values, workers=workers))
    gamma = float(resolve_gamma(model.gamma, statistics, 0))
    kernel = make_kernel(model.kernel, gamma, model.degree, model.coef0, statistics)
    return TrainingRows(values, kernel, gamma)


def kernel_values(who: str, function: Any, X: Any, Z: Any) -> Array:
    """Return what the user's kernel function returns, as a matrix of float64."""
    values = function(X, Z)
    values = values.toarray() if sparse.issparse(values) else values
    values = np.asarray(values, dtype=np.float64, order="C")
    n_rows = n_rows_of(X)
    if values.ndim != 2 or values.shape[0] != n_rows:
        raise KernelError(
            f"{who}: the kernel function returned an array of shape "
            f"{values.shape} for {n_rows} rows; it must return one value per pair of "
            "rows, shape (len(X), len(Z))."
        )
    return values
