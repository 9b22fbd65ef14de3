"""Base class of the streaming estimators that carry a core set along."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.checks import is_count
from corevec._runtime.types import Array
from corevec.data.sources import Workers, as_source
from corevec.estimators._base import kernel_for, read_only
from corevec.estimators._dataset import Dataset
from corevec.estimators._parameters import check_parameters, check_positive
from corevec.estimators._stream import StreamingEstimator
from corevec.estimators._stream_checks import FREE
from corevec.exceptions import InvalidInputError, KernelError
from corevec.kernels import Rows, make_kernel
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.solvers.streaming.core_stream import CoreForm, CoreStream, Targets
from corevec.solvers.streaming.squared_stream import SquaredStream

# Parameters that may change in mid-stream, and differ between merged models.
CHANGEABLE = (*FREE, "block")


class CoreStreamEstimator(StreamingEstimator):
    """Base class of the learners with a core set; not for direct use."""

    block: Any
    forget: Any = None

    @property
    @abstractmethod
    def _core_form(self) -> CoreForm: ...

    @abstractmethod
    def _n_outputs(self) -> int: ...

    # Parts of the balls that a core set does not have.
    @property
    def _form(self) -> Any:
        raise NotImplementedError

    def _machines(self) -> list[int]:
        raise NotImplementedError

    def _check(self) -> None:
        check_parameters(self)
        who = type(self).__name__
        check_positive(who, "C", self.C)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise InvalidInputError(
                f"{who}: kernel='precomputed' has no rows to store. Give a kernel by "
                "name, or a function k(X, Z).",
                parameter="kernel",
            )
        if not is_count(self.budget) or self.budget < 10:
            raise InvalidInputError(
                f"{who}: budget={self.budget!r} must be a whole number of at least 10: "
                "the rows that are kept.",
                parameter="budget",
            )
        if not is_count(self.block) or self.block < 1:
            raise InvalidInputError(
                f"{who}: block={self.block!r} must be a whole number of at least 1: "
                "the rows that are judged at a time.",
                parameter="block",
            )
        if self.forget is not None:
            check_positive(who, "forget", self.forget)

    # Learning -----------------------------------------------------------------------

    def _learn_targets(
        self, X: Any, z: Array, weights: Array | None, factors: Array | None = None
    ) -> None:
        """Learn from validated rows with targets z: from all of them, or from none.

        C is multiplied by `weights` and by `factors`, which do not count as rows.
        """
        began = time.perf_counter()
        fitted = self.__sklearn_is_fitted__()
        self._raise_unless_finite(X)
        omega = np.full(len(z), float(self.C))
        if weights is not None:
            omega *= weights
        if factors is not None:
            omega *= factors
        if not fitted and not (omega > 0).any():
            return
        stream = self._streams[0] if fitted else self._new_stream(X, weights)
        try:
            with Workers(1):  # BLAS's threads cost more than small matrices gain
                stream = stream.absorb(X, Targets(z, omega), weights)
        except KernelError as error:
            raise KernelError(f"{type(self).__name__}: {error}") from None
        self._position = self.__dict__.get("_position", 0) + X.shape[0]
        self._seconds = self.__dict__.get("_seconds", 0.0)
        self._seconds += time.perf_counter() - began
        self._streams: list[Any] = [stream]
        if not fitted:
            self._begun_with = {
                name: value
                for name, value in self.get_params().items()
                if name not in CHANGEABLE
            }

    def _new_stream(self, X: Any, weights: Array | None) -> CoreStream:
        kernel = self.__dict__.get("_kernel_of_all")
        if kernel is None:
            source = as_source(X, self.memory_budget)
            kernel = kernel_for(self, Dataset.in_memory("X", source, weights))
        form = self._core_form
        squared = form.two_sided and form.tube == 0.0
        kind = SquaredStream if squared else CoreStream
        return kind(form, kernel, X.shape[1], self._n_outputs())

    def _raise_unless_finite(self, X: Any) -> None:
        values = X.data if hasattr(X, "indptr") else X
        if not np.isfinite(np.sum(values)):
            self._raise_bad_row(X)

    # Fitted attributes --------------------------------------------------------------

    @property
    def _stream(self) -> CoreStream:
        check_is_fitted(self)
        found: CoreStream = self._streams[0]
        return found

    @property
    def _is_linear(self) -> bool:
        """Whether the model is one weight per column."""
        if self.__sklearn_is_fitted__():
            return bool(self._stream.by_columns)
        return isinstance(self.kernel, str) and self.kernel == "linear"

    @property
    def n_updates_(self) -> int:
        """Number of rows that joined the core."""
        return int(self._stream.n_updates)

    @property
    def n_left_(self) -> int:
        """Number of rows that left the core into the summary."""
        return int(self._stream.n_left)

    @property
    def coef_(self) -> Array:
        """Weights of the columns, shape (n_outputs, n_features)."""
        if not self._is_linear:
            raise AttributeError(
                "coef_ exists for kernel='linear' with few columns only"
            )
        return read_only(self._functions.basis.values)

    @property
    def intercept_(self) -> Array:
        """Penalised biases, shape (n_outputs,)."""
        return self._functions.intercept

    @property
    def dual_coef_(self) -> Array:
        """Coefficients of `support_vectors_`, shape (n_outputs, n_core)."""
        if self._is_linear:
            raise AttributeError("a linear model of few columns has coef_ instead")
        return np.ascontiguousarray(self._stream.coef.T)

    @property
    def support_vectors_(self) -> Any:
        """The core rows."""
        return self._stream.rows

    @property
    def _functions(self) -> KernelExpansion:
        """The functions as one kernel expansion."""
        stream = self._stream
        if stream.by_columns:
            d, kernel = self.n_features_in_, make_kernel("linear")
            rows: Any = np.ascontiguousarray(stream.coef[:d].T)
            coef = np.eye(len(rows))
            intercept = stream.coef[d] if stream.form.bias else np.zeros(len(rows))
        else:
            kernel, rows, coef = stream.kernel, stream.rows, stream.coef
            intercept = coef.sum(axis=0) * float(stream.form.bias)
        basis = Rows(rows, np.arange(rows.shape[0]))
        return KernelExpansion(kernel, basis, coef, np.asarray(intercept))

    def _values_of(self, X: Any) -> Array:
        with Workers(1):
            return self._stream.values(X)

    def _join(self, other: Any) -> None:
        with Workers(1):
            super()._join(other)

    def _join_moved(self, other: Any, step: Array) -> None:
        """Join a model whose targets have had `step` more subtracted from them."""
        with Workers(1):
            self._streams = [self._stream.joined(other._stream.moved(step))]
            self._join_counts(other)

    def _total_updates(self) -> int:
        return int(self._stream.n_updates)

    @property
    def ball_bound_(self) -> Any:
        """Always raises AttributeError: a core set has no ball."""
        raise AttributeError(
            f"{type(self).__name__} has no ball_bound_: it keeps a core set, not a "
            "ball. corevec.certify(model, X, y) measures the gap on given rows."
        )

    def _certify(self, X: Any, y: Any, sample_weight: Any) -> Certificate:
        raise NotImplementedError
