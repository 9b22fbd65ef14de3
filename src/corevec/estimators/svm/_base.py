"""What scikit-learn's five support vector machines share: fit, values, attributes."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from corevec._runtime.progress import Listener, Progress
from corevec._runtime.types import Array
from corevec.data.sources import (
    DEFAULT_MEMORY_BUDGET,
    Workers,
    as_source,
    computed_rows,
)
from corevec.estimators._base import REMEDIES, read_only
from corevec.estimators._dataset import TINY, refuse_bad_weights
from corevec.estimators._notebook import ShowsCertificate
from corevec.estimators._validation import (
    named,
    refuse_huge_targets,
    refuse_non_numbers,
)
from corevec.estimators.svm._parameters import check_svm_parameters
from corevec.estimators.svm._rows import (
    CHECKS,
    kernel_values,
    sorted_rows,
    training_rows,
    validated_rows,
)
from corevec.estimators.svm._solver import Machine, Solver, settings_of, told_of_round
from corevec.exceptions import CorevecError, InvalidInputError, NotCertifiedWarning
from corevec.kernels import AnyKernel, Rows
from corevec.models.certificate import Certificate, worst_of
from corevec.models.expansion import KernelExpansion


class SupportVectorMachine(ShowsCertificate, BaseEstimator):
    """Base class of `SVC`, `NuSVC`, `SVR`, `NuSVR` and `OneClassSVM`.

    Each subclass lists its parameters in its constructor, and its `_solve` says which
    problems its rows and targets pose.
    """

    # Parameters that all have.
    kernel: Any
    degree: Any
    gamma: Any
    coef0: Any
    tol: Any
    cache_size: Any
    max_iter: Any
    max_time: Any
    verbose: Any
    n_jobs: Any
    device: Any
    memory_budget: Any
    # What a fit sets.
    support_: Array
    support_vectors_: Any
    dual_coef_: Any
    intercept_: Array
    shape_fit_: tuple[int, ...]
    certificate_: Certificate
    _dual_coef_: Any
    _intercept_: Array
    _kernel: AnyKernel
    _n_support: Array
    n_iter_: Any
    _sparse: bool
    _rows_of_function: tuple[Any, Any] | None  # a kernel function, and its rows

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Validate, solve every machine, and set the fitted attributes."""
        check_svm_parameters(self)
        X, y = validated_rows(self, X, y)
        targets = self._targets_of(y)
        weights = self._weights_of(sample_weight, len(targets), np.shape(X))
        self._sparse = sparse.issparse(X) and not callable(self.kernel)
        with self._solver(X) as solver:
            machines = self._solve(solver, targets, weights)
        # A parameter that is changed afterwards does not change the model.
        self._rows_of_function = (self.kernel, X) if callable(self.kernel) else None
        self.shape_fit_ = X.shape if hasattr(X, "shape") else (len(targets),)
        self._set_machines(X, machines, targets)
        self._note_what_was_reached(machines)

    def _targets_of(self, y: Any) -> Array:
        """Return the code of each row's class, or its target value."""
        return np.asarray(y)

    @abstractmethod
    def _solve(self, solver: Solver, targets: Array, weights: Array) -> list[Machine]:
        """Return the machines of validated rows."""

    @abstractmethod
    def _set_machines(self, X: Any, machines: list[Machine], targets: Array) -> None:
        """Set the attributes of scikit-learn's class."""

    def _weights_of(self, sample_weight: Any, n: int, shape: tuple[int, ...]) -> Array:
        """Return the weight of each row; 0 for rows that are left out."""
        who = type(self).__name__
        if sample_weight is None:
            return np.ones(n)
        refuse_non_numbers(who, sample_weight, "sample_weight")
        try:
            given = np.asarray(sample_weight)
            if given.dtype.kind == "c":
                raise TypeError("Complex data not supported as sample_weight.")
            weights = given.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise named(self, InvalidInputError(str(error))) from None
        if weights.shape != (n,):
            raise InvalidInputError(
                f"{who}: sample_weight and X have incompatible shapes: {weights.shape} "
                f"vs {shape}. Give one weight per row, shape ({n},)."
            )
        if not np.isfinite(weights).all():
            row = int(np.argmin(np.isfinite(weights)))
            raise InvalidInputError(
                f"{who}: sample_weight[{row}] = {weights[row]} is not finite. Give "
                "finite weights; 0 leaves a row out."
            )
        refuse_bad_weights(who, np.maximum(weights, 0.0))  # below 0 is left out
        if not (weights >= TINY).any():
            raise InvalidInputError(
                f"{who}: Invalid input - all samples have zero or negative weights. "
                "Give at least one row a positive weight."
            )
        return np.where(weights < TINY, 0.0, weights)

    @contextmanager
    def _solver(self, X: Any) -> Iterator[Solver]:
        """Open the threads and the clock of a fit."""
        who = type(self).__name__
        with Workers(self.n_jobs) as workers:
            try:
                rows = training_rows(self, X, workers)
                self._gamma, self._kernel = rows.gamma, rows.kernel
                source = as_source(rows.values, self._budget, workers, self.device, who)
                listeners: list[Listener] = [told_of_round] if self.verbose else []
                progress = Progress(source.n_rows, None, self.max_time, listeners)
                with progress.listening_for_interrupt(), source.at_work():
                    yield Solver(source, self._kernel, settings_of(self), progress)
            except CorevecError as error:
                raise named(self, error) from error.__cause__

    @property
    def _budget(self) -> float:
        """Bytes for kernel values and blocks of rows."""
        if self.memory_budget is not None:
            return float(self.memory_budget)
        return max(float(self.cache_size) * 2**20, float(DEFAULT_MEMORY_BUDGET))

    def _set_functions(self, X: Any, support: Array, dual: Array) -> None:
        """Set the support vectors and their coefficients, sparse where the rows are."""
        self.support_ = support.astype(np.int32)
        self.support_vectors_ = np.empty((0, 0))
        if not callable(self.kernel) and self.kernel != "precomputed":
            self.support_vectors_ = X[support]
        self.dual_coef_ = sparse.csr_matrix(dual) if self._sparse else dual
        if self._sparse:
            self.support_vectors_ = sparse.csr_matrix(self.support_vectors_)
        self._dual_coef_ = self.dual_coef_

    def _set_one(self, X: Any, machine: Machine) -> None:
        """Set the attributes of a model with a single function."""
        self._set_functions(X, machine.rows, machine.coef[None, :])
        # scikit-learn counts the vectors of two sides here, and shows the first.
        self._n_support = np.full(2, len(machine.rows), dtype=np.int32)
        self._intercept_ = np.array([machine.intercept])
        self.intercept_ = self._intercept_.copy()
        self._probA, self._probB = np.empty(0), np.empty(0)
        self._num_iter = np.array([machine.n_steps], dtype=np.int32)
        self.n_iter_ = machine.n_steps

    def _note_what_was_reached(self, machines: list[Machine]) -> None:
        """Set the certificate and the status; warn unless every machine is solved."""
        for values in (self._dual_coef_, self._intercept_):
            numbers = values.data if sparse.issparse(values) else values
            if not np.isfinite(numbers).all():
                raise InvalidInputError(
                    f"{type(self).__name__}: The dual coefficients or intercepts are "
                    "not finite. The input data may contain large values and need to "
                    "be preprocessed."
                )
        parts = [machine.certificate for machine in machines]
        self.certificate_ = worst_of(parts, "one machine per pair of classes")
        # LIBSVM's criterion: a kernel that is not positive definite can meet it, too.
        unsolved = [one for one in machines if not one.violation <= self.tol]
        self.fit_status_ = int(bool(unsolved))
        if unsolved:
            worst = max(unsolved, key=lambda one: one.violation)
            self._warn_of(worst.certificate, worst.violation)

    def _warn_of(self, found: Certificate, violation: float) -> None:
        """Warn of the machine that violates its optimality conditions most."""
        who, reason = type(self).__name__, found.stopped_by
        if reason == "max_iter":
            text = (
                f"{who}: Solver terminated early (max_iter={self.max_iter}).  Consider "
                "pre-processing your data with StandardScaler or MinMaxScaler. Or set "
                "max_iter=-1."
            )
        else:
            text = (
                f"{who} stopped by {reason} where an optimality condition is violated "
                f"by {violation:.2e}, tol={self.tol:g} asked. The model is usable, and "
                f"certificate_ says how far from the optimum it may be: relative gap "
                f"{found.relative_gap:.2e}. {REMEDIES.get(reason, 'Raise tol.')}"
            )
        warning = NotCertifiedWarning(text, stopped_by=reason)
        warnings.warn(warning, stacklevel=5)

    # New rows -----------------------------------------------------------------------

    def _values(self, X: Any) -> Array:
        """Return the value of every machine on new rows, shape (n_rows, n_machines).

        Above 0 for the first class of its pair.
        """
        X = self._validated_new(X)
        functions = self._functions_now()
        with Workers(self.n_jobs) as workers:
            source = as_source(
                X, self._budget, workers, self.device, type(self).__name__
            )
            with source.at_work():
                return np.asarray(source.predict(type(self).__name__, functions))

    def _functions_now(self) -> KernelExpansion:
        """Return the functions that the attributes describe at this moment."""
        dual = self._dual_coef_
        dual = dual.toarray() if sparse.issparse(dual) else np.asarray(dual)
        vectors = self.support_vectors_
        if self._kernel.name == "precomputed":
            vectors = np.empty((len(self.support_), 0))
        basis = Rows(vectors, np.asarray(self.support_, dtype=np.int64))
        coef = np.ascontiguousarray(self._columns_of(dual), dtype=np.float64)
        return KernelExpansion(self._kernel, basis, coef, np.ravel(self._intercept_))

    def _columns_of(self, dual: Array) -> Array:
        """Return one column of coefficients per machine."""
        return np.asarray(dual.T)

    def _validated_new(self, X: Any) -> Any:
        """Return rows to predict as those of the fit; kernel values of a function."""
        check_is_fitted(self)
        who = type(self).__name__
        if self._rows_of_function is not None:
            function, rows = self._rows_of_function
            X = kernel_values(who, function, X, rows)
        else:
            X = computed_rows(who, X)
            refuse_non_numbers(who, X)
            try:
                X = validate_data(self, X, reset=False, **CHECKS)
            except ValueError as error:
                raise named(self, error) from None
        if self._sparse:
            X = sorted_rows(sparse.csr_matrix(X))
        elif sparse.issparse(X):
            raise InvalidInputError(
                f"{who}: cannot use sparse input in {who!r} trained on dense data. "
                "Give X.toarray(), or fit on sparse rows."
            )
        if self._kernel.name == "precomputed" and X.shape[1] != self.shape_fit_[0]:
            raise InvalidInputError(
                f"{who}: X.shape[1] = {X.shape[1]} should be equal to "
                f"{self.shape_fit_[0]}, the number of samples at training time."
            )
        vectors = self.support_vectors_
        if not self._sparse and vectors.size and self._count() != len(vectors):
            raise InvalidInputError(
                f"The internal representation of {who} was altered: it has "
                f"{len(vectors)} support vectors, but n_support_ counts "
                f"{self._count()}. Fit it again."
            )
        return X

    def _count(self) -> int:
        return int(np.sum(self.n_support_))

    # Attributes that follow from others -----------------------------------------------

    @property
    def n_support_(self) -> Array:
        """Number of support vectors: of each class, or of the only function."""
        if not hasattr(self, "_n_support"):
            raise AttributeError("n_support_ exists after fit only")
        return self._n_support if hasattr(self, "classes_") else self._n_support[:1]

    @property
    def coef_(self) -> Any:
        """Weight of each column for ``kernel="linear"``, one line per machine.

        Read-only, of shape (n_machines, n_features); sparse where the rows were.
        """
        fitted = getattr(self, "_kernel", None)
        if (self.kernel if fitted is None else fitted.name) != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        try:
            check_is_fitted(self)
        except NotFittedError as error:
            raise AttributeError(str(error)) from None
        dual, vectors = self.dual_coef_, self.support_vectors_
        if self._sparse:
            columns = sparse.csr_matrix(self._columns_of(dual.toarray()).T)
            coef = sparse.csr_matrix(columns @ vectors)
            coef.data.flags.writeable = False
            return coef
        return read_only(self._columns_of(dual).T @ vectors)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the model is fitted."""
        return hasattr(self, "certificate_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


def column_of_targets(model: Any, y: Any) -> Array:
    """Return the targets of a regression as a vector of float64."""
    refuse_non_numbers(type(model).__name__, y, "y")
    try:
        targets = np.asarray(column_or_1d(y, warn=True), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise named(model, InvalidInputError(str(error))) from None
    refuse_huge_targets(type(model).__name__, targets)
    return targets
