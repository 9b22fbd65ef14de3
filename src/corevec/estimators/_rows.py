"""Rows as users give them: validated, as a `Dataset`, and answered in their kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.data.sources import (
    Source,
    Workers,
    answer_in_kind,
    as_source,
    columns_of,
    computed_rows,
    device_source,
    is_spark,
    remote_source,
    require_host_rows,
    require_rows_in_memory,
)
from corevec.estimators._categories import with_categories
from corevec.estimators._dataset import Dataset, encoded
from corevec.estimators._parameters import LARGEST_C, check_parameters
from corevec.estimators._validation import (
    CHECKS,
    NO_LABELS,
    check_labels,
    check_same_names,
    check_square,
    checked_target,
    checked_weights,
    named,
    validated,
)
from corevec.exceptions import InvalidInputError, RowsLostError

Method = TypeVar("Method", bound=Callable[..., Any])


def lazily(method: Method) -> Method:
    """Return a method of rows that answers rows of a cluster lazily.

    A Dask collection gives a Dask array, a Spark data frame a frame with one more
    column. The same method then runs on every partition; other rows are answered by an
    array of their own kind.
    """

    @wraps(method)
    def called(self: Any, X: Any, *others: Any, **more: Any) -> Any:
        def answer(rows: Any) -> Any:
            return method(self, rows, *others, **more)

        def lazy_answer(collection: Any) -> Any:
            check_is_fitted(self)
            if is_spark(collection):
                from corevec.data.sources.spark_lazy import with_answers

                name = method.__name__
                return with_answers(self, collection, name, *others, **more)
            # Its module needs Dask, which whoever gives a collection has.
            from corevec.data.sources.dask_lazy import mapped

            if hasattr(self, "_check_remote_columns"):
                self._check_remote_columns(collection, reset=False)
            return mapped(partial(called, self, *others, **more), collection)

        return answer_in_kind(type(self).__name__, X, answer, lazy_answer)

    return called  # type: ignore[return-value]


class TakesRows:
    """Rows as users give them: arrays, files, clusters, tensors."""

    # What the targets are: "classes", "numbers" or "none".
    _task = "none"
    _takes_remote = True

    kernel: Any
    memory_budget: Any
    n_jobs: Any
    device: Any = None
    n_features_in_: int
    _functions: Any
    _how_to_go_on: Any

    def _validate_fit(self, X: Any, y: Any = NO_LABELS, **checks: Any) -> Any:
        check_parameters(self)
        who = type(self).__name__
        if not self._takes_remote:
            require_host_rows(who, X, "this estimator works on rows in memory")
            require_rows_in_memory(
                who,
                X,
                "the rows must be in memory, but {kind} was given. Load them first: "
                "X.compute().",
            )
        elif callable(self.kernel):
            why = "a kernel that is a function works on rows in memory"
            require_host_rows(who, X, why)
        if self._check_remote_columns(X, reset=True):
            return X if isinstance(y, str) else (X, y)
        X = with_categories(self, computed_rows(who, X), reset=True)
        found = validated(self, X, y, **checks)
        if self.kernel == "precomputed":
            check_square(who, found[0] if isinstance(found, tuple) else found)
        return found

    @contextmanager
    def _dataset(self, X: Any, y: Any, sample_weight: Any) -> Iterator[Dataset]:
        """Open the threads of the fit, and return validated rows as a `Dataset`."""
        who = type(self).__name__
        if self.kernel == "precomputed":
            require_rows_in_memory(
                who,
                X,
                "kernel='precomputed' needs the kernel matrix in memory, but remote "
                "rows were given ({kind}).",
                parameter="kernel",
            )
        with Workers(self.n_jobs) as workers:
            try:
                given = self._given(X, y, sample_weight, workers)
            except (InvalidInputError, RowsLostError) as error:
                raise named(self, error) from error.__cause__
            self._check_total(given)
            yield given

    def _check_total(self, given: Dataset) -> None:
        """Raise where C times the sum of the weights is out of range."""
        C: Any = getattr(self, "C", None)
        is_number = isinstance(C, Real) and float(C) < np.inf
        if is_number and C * given.mass > LARGEST_C:
            raise InvalidInputError(
                f"{given.who}: C={C:g} times the sum of sample_weight, {given.mass:g}, "
                f"is above {LARGEST_C:g}: sums leave the range of floating-point "
                "numbers. Only the product counts: divide the weights by their mean.",
                parameter="C",
            )

    def _given(self, X: Any, y: Any, sample_weight: Any, workers: Workers) -> Dataset:
        who, task, labels = type(self).__name__, self._task, None
        source = remote_source(who, X, None if task == "none" else y, sample_weight)
        if source is None:
            weights = checked_weights(self, sample_weight, X.shape[0])
            if task != "none" and y is not None:
                y = checked_target(who, y, X.shape[0], task)
            if self.device is None:
                source = as_source(X, self.memory_budget, workers)
                return Dataset.in_memory(who, source, weights, y, task)
            self._check_device_kernel()
            if task == "classes" and y is not None:  # a device holds no words
                labels = np.unique(y)
                y = encoded(y, labels)
            source = device_source(who, X, y, weights, self.device)
        elif self.device is not None:
            source = source.worked_on_by(who, self.device)
        source = source.using(self.memory_budget, workers)
        with source.at_work():
            given = Dataset.carried(who, source, task, labels)
        if task == "classes":
            check_labels(who, given.classes)
        return given

    def _check_device_kernel(self) -> None:
        if self.kernel == "precomputed" or callable(self.kernel):
            raise InvalidInputError(
                f"{type(self).__name__}: device={self.device!r} needs a kernel by its "
                f"name, but kernel={self.kernel!r} was given. Use device=None.",
                parameter="device",
            )

    def _check_remote_columns(self, X: Any, *, reset: bool) -> bool:
        """Note, or compare, the number and the names of the columns of remote rows.

        False of rows in memory, which `validated` checks.
        """
        who = type(self).__name__
        found = columns_of(who, X)
        if found is None:
            return False
        n_features, names = found
        if reset:
            self.n_features_in_ = n_features
            for name in ("feature_names_in_", "categories_"):
                self.__dict__.pop(name, None)
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
        functions = self.__dict__.get("_forest") or self._functions
        return self._evaluate(functions, self._validate_new(X))

    def _evaluate(self, functions: Any, X: Any) -> Array:
        """Return the functions' values on validated rows, in the kind of the rows."""
        with Workers(self.n_jobs) as workers:
            source = self._source_of(X, workers)
            with source.at_work():
                return source.predict(type(self).__name__, functions)

    def _source_of(self, X: Any, workers: Workers) -> Source:
        """Return the source of validated rows, on the device that was asked for."""
        who, device = type(self).__name__, self.device
        if device is not None and isinstance(X, Source):
            X = X.worked_on_by(who, device)
        if "_forest" in self.__dict__:
            device = None  # cells predict on the host
        return as_source(X, self.memory_budget, workers, device, who)

    def _validate_new(self, X: Any) -> Any:
        """Return rows to predict, checked against those of the fit."""
        if self._check_remote_columns(X, reset=False):
            return X
        X = computed_rows(type(self).__name__, X)
        return validated(self, with_categories(self, X, reset=False), reset=False)


__all__ = [
    "CHECKS",
    "TakesRows",
    "check_same_names",
    "check_square",
    "checked_weights",
    "lazily",
    "named",
]
