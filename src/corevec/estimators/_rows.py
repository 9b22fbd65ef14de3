"""What the estimators share about rows: validation, and where they live."""

from __future__ import annotations

from functools import partial
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
    far_source,
    is_far,
    is_on_device,
)
from corevec.estimators._given import FarGiven, Given, check_values
from corevec.estimators._parameters import check_parameters
from corevec.exceptions import InvalidInputError, RowsLostError
from corevec.kernels import Rows
from corevec.solvers.cells.device_rows import evaluated_on_host

CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "accept_large_sparse": True,
}


class TakesRows:
    """Rows as users give them: arrays, files, clusters, tensors."""

    # What the targets are: "classes", "numbers" or "none".
    _task = "none"
    _takes_far = True

    kernel: Any
    memory_budget: Any
    n_jobs: Any
    n_features_in_: int
    _functions: Any
    _how_to_go_on: Any

    def _validate_fit(self, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
        check_parameters(self)
        if is_on_device(X) and (callable(self.kernel) or not self._takes_far):
            what = (
                "a kernel that is a function" if self._takes_far else "this estimator"
            )
            raise InvalidInputError(
                f"{type(self).__name__}: {what} works on rows in memory, but a tensor "
                "was given. Bring the rows here: X.cpu().numpy()."
            )
        if is_far(X) and not self._takes_far:
            raise InvalidInputError(
                f"{type(self).__name__}: the rows must be in memory, but "
                f"{type(X).__name__} was given, whose rows live elsewhere. Bring them "
                "here first: X.compute()."
            )
        if is_far(X):
            self._check_far_columns(X, reset=True)
            return X if isinstance(y, str) else (X, y)
        try:
            validated = validate_data(self, X, y, **CHECKS, **checks)
        except ValueError as error:
            raise named(self, error) from None
        rows = validated[0] if isinstance(validated, tuple) else validated
        if self.kernel == "precomputed":
            check_square(type(self).__name__, rows)
        return validated

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        """Return validated rows with what belongs to them."""
        who = type(self).__name__
        if not is_far(X):
            weights = checked_weights(self, sample_weight, X.shape[0])
            return self._moved(Given(who, X, y, weights))
        if self.kernel == "precomputed":
            raise InvalidInputError(
                f"{who}: kernel='precomputed' needs the kernel matrix in memory, but "
                f"rows that live elsewhere were given ({type(X).__name__}).",
                parameter="kernel",
            )
        target = None if self._task == "none" else y
        try:
            source = far_source(who, X, target, sample_weight)
            self._check_device(source)
            with Workers(self.n_jobs) as workers, source.at_work():
                near = source.using(self.memory_budget, workers)
                given = FarGiven(who, near, self._task)
        except InvalidInputError as error:
            raise named(self, error) from None
        except RowsLostError as error:
            text = f"{who}: {error}{self._how_to_go_on()}"
            raise RowsLostError(text) from error.__cause__
        if self._task == "classes":
            check_labels(who, given.classes())
        return given

    def _check_device(self, source: Source) -> None:
        """Tell the workers of a cluster their device; refuse what would ignore it."""
        device = getattr(self, "device", None)
        own = getattr(source, "device", None)
        if device is None or (source.is_on_device and _is_place(own, device)):
            return
        if source.is_on_device:
            raise InvalidInputError(
                f"{type(self).__name__}: device={device!r}, but the rows are a tensor "
                f"on {str(own)!r}. Move them there, X.to({device!r}), or give "
                "device=None: tensors are worked on where they are.",
                parameter="device",
            )
        if not hasattr(source, "device"):
            raise InvalidInputError(
                f"{type(self).__name__}: device={device!r} works on arrays, tensors "
                f"and Dask collections, but {source!r} was given. Give the rows as an "
                "np.memmap or a Dask collection, or device=None.",
                parameter="device",
            )
        source.device = device

    def _moved(self, given: Given) -> Given:
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
        elif self._task == "classes" and y is not None:  # words cannot live there
            given.y = column_or_1d(y, warn=True)
            kinds = np.unique(given.y)
            check_labels(given.who, kinds)
            y = given.codes(kinds)
        source = device_source(given.who, given.X, y, given.weights, device)
        try:
            with Workers(self.n_jobs) as workers, source.at_work():
                there = source.using(self.memory_budget, workers)
                return FarGiven(given.who, there, self._task, kinds)
        except InvalidInputError as error:
            raise named(self, error) from None

    def _check_far_columns(self, X: Any, *, reset: bool) -> None:
        """Note, or compare, the number and the names of the columns."""
        who = type(self).__name__
        n_features, names = columns_of(who, X)
        if reset:
            self.n_features_in_ = n_features
            self.__dict__.pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = names
            return
        if n_features != self.n_features_in_:
            raise InvalidInputError(
                f"{who}: X has {n_features} features, but {who} is expecting "
                f"{self.n_features_in_} features as input."
            )
        check_same_names(who, self, names)

    def _values(self, X: Any) -> Array:
        """Return the functions' values on new rows, shape (n_rows, outputs)."""
        check_is_fitted(self)
        X = self._validate_new(X)
        with Workers(self.n_jobs) as workers:
            source = self._source_of(X, workers)
            forest = self.__dict__.get("_forest")
            functions = forest or self._functions
            if is_on_device(X):
                values: Any = functions.ready()
                if forest is not None:
                    values = evaluated_on_host(source, forest.values)
                with source.at_work():
                    return source.map_there(partial(_checked_values, self, values))
            with source.at_work():
                return np.asarray(functions.values(source))

    def _source_of(self, X: Any, workers: Workers) -> Source:
        """Return the source of validated rows, on the device that was asked for."""
        device = getattr(self, "device", None)
        if device is not None and isinstance(X, Source):
            self._check_device(X)
        if device is None or is_far(X) or "_forest" in self.__dict__:  # cells: here
            return as_source(X, self.memory_budget, workers)
        moved = device_source(type(self).__name__, X, None, None, device)
        return moved.using(self.memory_budget, workers)

    def _validate_new(self, X: Any) -> Any:
        """Return rows to predict, checked against those of the fit."""
        if is_far(X):
            self._check_far_columns(X, reset=False)
            return X
        return validate_data(self, X, reset=False, **CHECKS)


def _is_place(own: Any, device: Any) -> bool:
    """Whether a tensor's device is the one asked for; "cuda" is any of them."""
    wanted = str(device)
    return wanted in (str(own), own.type)


def _checked_values(model: Any, values: Any, rows: Rows) -> Any:
    """Return values of tensors that no validation has looked at."""
    check_values(type(model).__name__, rows)
    return values(rows)


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
