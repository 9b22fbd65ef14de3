"""What the estimators share about rows: validation, and their source."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import (
    check_array,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from corevec._runtime.types import Array
from corevec.data.sources import (
    Source,
    Workers,
    as_source,
    columns_of,
    device_source,
    remote_source,
    require_host_rows,
    require_rows_in_memory,
)
from corevec.estimators._dataset import Dataset, RemoteDataset
from corevec.estimators._parameters import check_parameters
from corevec.exceptions import InvalidInputError, RowsLostError

CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "accept_large_sparse": True,
}


class TakesRows:
    """Rows as users give them: arrays, files, clusters, tensors."""

    # What the targets are: "classes", "numbers" or "none".
    _task = "none"
    _takes_remote = True

    kernel: Any
    memory_budget: Any
    n_jobs: Any
    n_features_in_: int
    _functions: Any
    _how_to_go_on: Any

    def _validate_fit(self, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
        check_parameters(self)
        who = type(self).__name__
        if not self._takes_remote:
            require_host_rows(who, X, "this estimator works on rows in memory")
            require_rows_in_memory(
                who,
                X,
                "the rows must be in memory, but {kind} was given, whose rows live "
                "elsewhere. Bring them here first: X.compute().",
            )
        elif callable(self.kernel):
            why = "a kernel that is a function works on rows in memory"
            require_host_rows(who, X, why)
        if self._check_remote_columns(X, reset=True):
            return X if isinstance(y, str) else (X, y)
        try:
            validated = validate_data(self, X, y, **CHECKS, **checks)
        except ValueError as error:
            raise named(self, error) from None
        rows = validated[0] if isinstance(validated, tuple) else validated
        if self.kernel == "precomputed":
            check_square(who, rows)
        return validated

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Dataset:
        """Return validated rows with what belongs to them."""
        who, device = type(self).__name__, getattr(self, "device", None)
        if self.kernel == "precomputed":
            require_rows_in_memory(
                who,
                X,
                "kernel='precomputed' needs the kernel matrix in memory, but remote "
                "rows were given ({kind}).",
                parameter="kernel",
            )
        target = None if self._task == "none" else y
        try:
            source = remote_source(who, X, target, sample_weight)
            if source is None:
                weights = checked_weights(self, sample_weight, X.shape[0])
                return self._moved(Dataset(who, X, y, weights))
            if device is not None:
                source = source.worked_on_by(who, device)
            with Workers(self.n_jobs) as workers, source.at_work():
                near = source.using(self.memory_budget, workers)
                given = RemoteDataset(who, near, self._task)
        except InvalidInputError as error:
            raise named(self, error) from None
        except RowsLostError as error:
            text = f"{who}: {error}{self._how_to_go_on()}"
            raise RowsLostError(text) from error.__cause__
        if self._task == "classes":
            check_labels(who, given.classes())
        return given

    def _moved(self, given: Dataset) -> Dataset:
        """Return rows in memory, or moved to the device that was asked for."""
        device = getattr(self, "device", None)
        if device is None or self.kernel == "precomputed" or callable(self.kernel):
            if device is not None:
                raise InvalidInputError(
                    f"{given.who}: device={device!r} needs a kernel by its name, but "
                    f"kernel={self.kernel!r} was given. Use device=None.",
                    parameter="device",
                )
            return given
        y, kinds = given.y, None
        if self._task == "none":
            y = None
        elif self._task == "classes" and y is not None:  # a device holds no words
            given.y = column_or_1d(y, warn=True)
            kinds = np.unique(given.y)
            check_labels(given.who, kinds)
            y = given.codes(kinds)
        source = device_source(given.who, given.X, y, given.weights, device)
        try:
            with Workers(self.n_jobs) as workers, source.at_work():
                there = source.using(self.memory_budget, workers)
                return RemoteDataset(given.who, there, self._task, kinds)
        except InvalidInputError as error:
            raise named(self, error) from None

    def _check_remote_columns(self, X: Any, *, reset: bool) -> bool:
        """Note, or compare, the number and the names of the columns of remote rows.

        False of rows in memory, which scikit-learn validates.
        """
        who = type(self).__name__
        found = columns_of(who, X)
        if found is None:
            return False
        n_features, names = found
        if reset:
            self.n_features_in_ = n_features
            self.__dict__.pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = names
            return True
        if n_features != self.n_features_in_:
            raise InvalidInputError(
                f"{who}: X has {n_features} features, but {who} is expecting "
                f"{self.n_features_in_} features as input."
            )
        check_same_names(who, self, names)
        return True

    def _values(self, X: Any) -> Array:
        """Return the model's values on new rows, shape (n_rows, outputs)."""
        check_is_fitted(self)
        return self._evaluate(self.__dict__.get("_forest") or self._functions, X)

    def _evaluate(self, functions: Any, X: Any) -> Array:
        """Return the functions' values on new rows, as an array of the user's kind."""
        X = self._validate_new(X)
        with Workers(self.n_jobs) as workers:
            source = self._source_of(X, workers)
            with source.at_work():
                return source.predict(type(self).__name__, functions)

    def _source_of(self, X: Any, workers: Workers) -> Source:
        """Return the source of validated rows, on the device that was asked for."""
        who, device = type(self).__name__, getattr(self, "device", None)
        if device is not None and isinstance(X, Source):
            X = X.worked_on_by(who, device)
        if "_forest" in self.__dict__:
            device = None  # cells predict on the host
        return as_source(X, self.memory_budget, workers, device, who)

    def _validate_new(self, X: Any) -> Any:
        """Return rows to predict, checked against those of the fit."""
        if self._check_remote_columns(X, reset=False):
            return X
        return validate_data(self, X, reset=False, **CHECKS)


def checked_weights(model: Any, sample_weight: Any, n_rows: int) -> Array | None:
    """Return weights as float64, or None where all rows weigh 1."""
    if sample_weight is None:
        return None
    who = type(model).__name__
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_rows, sample_weight)
    try:
        weights = check_array(
            sample_weight,
            ensure_2d=False,
            dtype=np.float64,
            input_name="sample_weight",
        )
    except ValueError as error:
        raise named(model, error) from None
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"{who}: sample_weight.shape == {weights.shape}, expected ({n_rows},): "
            "one weight per row."
        )
    if (weights < 0).any():
        row = int(np.argmin(weights))
        raise InvalidInputError(
            f"{who}: sample_weight[{row}] = {weights[row]:g} is negative. Weights "
            "count rows: 0 leaves a row out, 2 counts it twice."
        )
    if not (weights > 0).any():
        raise InvalidInputError(
            f"{who}: sample_weight is zero for all {n_rows} rows, so no row is "
            "left to fit. Give at least one row a positive weight."
        )
    return None if (weights == 1).all() else np.ascontiguousarray(weights)


def named(model: Any, error: ValueError) -> ValueError:
    """Return the error with the estimator's name in front, if it lacks it."""
    who = type(model).__name__
    text = str(error)
    text = text if who in text else f"{who}: {text}"
    return InvalidInputError(text, parameter=getattr(error, "parameter", None))


def check_same_names(who: str, model: Any, names: Any) -> None:
    """Raise where rows and fit both have names of columns, and these differ."""
    known = getattr(model, "feature_names_in_", None)
    if known is not None and names is not None and list(known) != list(names):
        raise InvalidInputError(
            f"{who}: The feature names should match those that were passed during "
            f"fit: {list(known)[:5]} there, {list(names)[:5]} here, in this order."
        )


def check_labels(who: str, kinds: Array) -> None:
    """Raise where some of the different labels can only be a regression's targets."""
    is_other = kinds % 1 != 0 if kinds.dtype.kind == "f" else np.zeros(0, dtype=bool)
    if is_other.any():
        raise InvalidInputError(
            f"{who}: Unknown label type: continuous. y holds {kinds[is_other][0]:g} "
            f"(and {len(kinds):,} different numbers in all), but the labels of classes "
            "are whole numbers, booleans or words. For such targets use a regressor "
            "(CoreVectorRegressor, SubspaceRegressor); for classes give whole numbers "
            "as y."
        )


def check_square(who: str, K: Any) -> None:
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
