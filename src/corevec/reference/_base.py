"""Base class of the reference solvers with the interface of scikit-learn.

A solver fills in `_fit_binary` for two classes; more classes are one machine per class
against the rest. All machines of a fit share one store of kernel rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from corevec._runtime.types import Array
from corevec.data.sources import (
    Source,
    Workers,
    as_source,
    computed_rows,
    row_statistics,
)
from corevec.estimators._parameters import _check_gamma, check_number
from corevec.estimators._rows import CHECKS, check_square, named
from corevec.exceptions import InvalidInputError, KernelError, NotCertifiedWarning
from corevec.kernels import AnyKernel, check_kernel_name, make_kernel
from corevec.models.expansion import KernelExpansion
from corevec.reference._kernel_rows import KernelRows


@dataclass(frozen=True)
class Machine:
    """Solution for two classes: ``f(x) = sum_i coef_i k(x_i, x) + b``."""

    coef: Array  # alpha_i y_i, one per row
    intercept: float
    n_iter: int
    converged: bool = True
    reason: str = ""  # why it did not converge, and the remedy


class ReferenceClassifier(ClassifierMixin, BaseEstimator):
    """Base class of the reference classifiers; not for direct use.

    A subclass lists its parameters in its own constructor, among them ``kernel``,
    ``gamma``, ``degree``, ``coef0`` and ``class_weight``; ``cache_size`` (megabytes of
    kernel values) is 200 where it has none.
    """

    def _fit_binary(self, rows: KernelRows, y: Array, weight: Array) -> Machine:
        """Return the machine for labels -1 and +1 (float64) and weights of the rows.

        A weight multiplies the row's loss: 0 leaves the row out, 2 counts it twice.
        """
        raise NotImplementedError

    def _check_parameters(self) -> None:
        """Raise `InvalidInputError` for a parameter that cannot be used."""
        who, params = type(self).__name__, self.get_params(deep=False)
        check_kernel_name(who, params["kernel"])
        _check_gamma(who, params["gamma"])
        check_number(
            who, "degree", params["degree"], above=0, remedy="3 is a cubic kernel."
        )
        check_number(who, "coef0", params["coef0"])
        if "tol" in params:
            check_number(who, "tol", params["tol"], above=0, remedy="LIBSVM uses 1e-3.")
        check_number(
            who,
            "cache_size",
            params.get("cache_size", 200),
            above=0,
            remedy="Megabytes for kernel values; 200 is the default.",
        )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Training rows; a square kernel matrix for ``kernel="precomputed"``.
        y : array-like of shape (n_rows,)
            Labels: numbers or strings, two classes or more.
        sample_weight : array-like of shape (n_rows,), optional
            Multiplies C for a row: weight 0 leaves a row out, 2 counts it twice.

        Returns
        -------
        self
            The fitted classifier.
        """
        self._check_parameters()
        X, y = self._validate(X, y)
        weight = self._row_weights(sample_weight, X.shape[0])
        codes = self._set_classes(y, weight)
        total_weight = weight * self._class_weights(codes, weight)[codes]
        # One thread, as in LIBSVM, so that times are comparable.
        with Workers(1) as workers:
            source = as_source(X, workers=workers)
            try:
                kernel = self._make_kernel(source, weight)
                cache = 1e6 * getattr(self, "cache_size", 200)
                rows = KernelRows(kernel, source, cache)
                machines = self._fit_machines(rows, codes, total_weight)
            except (KernelError, InvalidInputError) as error:
                text = f"{type(self).__name__}: {error}"
                raise type(error)(text, parameter=error.parameter) from None
        self._set_fitted(machines, source, kernel, codes)
        return self

    def decision_function(self, X: Any) -> Array:
        """Return decision values: above 0 for ``classes_[1]``, or one column per class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            One column per class against the rest where there are more than two.
        """
        check_is_fitted(self)
        X = validate_data(
            self, computed_rows(type(self).__name__, X), reset=False, **CHECKS
        )
        with Workers() as workers:
            values = self._functions.values(as_source(X, workers=workers))
        return np.ascontiguousarray(values[:, 0]) if values.shape[1] == 1 else values

    def predict(self, X: Any) -> Array:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels out of ``classes_``.
        """
        values = self.decision_function(X)
        if values.ndim == 1:
            return np.asarray(self.classes_[(values > 0).astype(int)])
        return np.asarray(self.classes_[values.argmax(axis=1)])

    @property
    def coef_(self) -> Array:
        """Weights of the columns, for the linear kernel only."""
        if self.get_params(deep=False)["kernel"] != "linear":
            raise AttributeError("coef_ exists for kernel='linear' only")
        return np.asarray(self.dual_coef_ @ self.support_vectors_)

    def _validate(self, X: Any, y: Any) -> tuple[Any, Array]:
        try:
            who = type(self).__name__
            X, y = validate_data(self, computed_rows(who, X), y, **CHECKS)
            check_classification_targets(y)
        except ValueError as error:
            raise named(self, error) from None
        if self.get_params(deep=False)["kernel"] == "precomputed":
            check_square(type(self).__name__, X)
        return X, y

    def _row_weights(self, sample_weight: Any, n_rows: int) -> Array:
        who = type(self).__name__
        if sample_weight is None:
            return np.ones(n_rows)
        if isinstance(sample_weight, Real):
            sample_weight = np.full(n_rows, sample_weight)
        try:
            weight = check_array(
                sample_weight,
                ensure_2d=False,
                dtype=np.float64,
                input_name="sample_weight",
            )
        except ValueError as error:
            raise named(self, error) from None
        if weight.shape != (n_rows,) or (weight < 0).any():
            raise InvalidInputError(
                f"{who}: sample_weight.shape == {weight.shape}, expected ({n_rows},): "
                "one weight of at least 0 per row; 0 leaves a row out, 2 counts it "
                f"twice. The least given is {weight.min():g}."
            )
        if not weight.any():
            raise InvalidInputError(
                f"{who}: sample_weight is zero for all {n_rows} rows, so no row is "
                "left to fit. Give at least one row a positive weight."
            )
        return np.asarray(weight)

    def _set_classes(self, y: Array, weight: Array) -> Array:
        """Set `classes_` and return the class codes.

        A class whose rows all weigh nothing is absent; its rows get some code.
        """
        who = type(self).__name__
        self.classes_ = np.unique(y[weight > 0])
        if len(self.classes_) < 2:
            raise InvalidInputError(
                f"{who}: y holds {len(self.classes_)} class"
                f" ({self.classes_.tolist()}) among the rows of positive weight; a "
                "classifier needs at least 2 classes. For one class use "
                "CoreVectorOneClass or SVDD."
            )
        last = len(self.classes_) - 1
        codes = np.minimum(np.searchsorted(self.classes_, y), last)
        return np.asarray(codes)

    def _class_weights(self, codes: Array, weight: Array) -> Array:
        given = self.get_params(deep=False)["class_weight"]
        if isinstance(given, str) and given == "balanced":
            # By weight, so that weight 2 equals the row given twice here as well.
            mass = np.bincount(codes, weight)
            return np.asarray(mass.sum() / (len(mass) * mass))
        classes = self.classes_
        found = compute_class_weight(given, classes=classes, y=classes[codes])
        if (found < 0).any() or np.count_nonzero(found) < 2:
            raise InvalidInputError(
                f"{type(self).__name__}: class_weight={given!r} must be at least 0 for "
                "every class and above 0 for two of them.",
                parameter="class_weight",
            )
        return np.asarray(found)

    def _make_kernel(self, source: Source, weight: Array) -> AnyKernel:
        params = self.get_params(deep=False)
        if callable(params["kernel"]) or params["kernel"] == "precomputed":
            return make_kernel(params["kernel"])
        shape = {name: params[name] for name in ("kernel", "gamma", "degree", "coef0")}
        return make_kernel(statistics=row_statistics(source, weight), **shape)

    def _fit_machines(
        self, rows: KernelRows, codes: Array, weight: Array
    ) -> list[Machine]:
        first = 1 if len(self.classes_) == 2 else 0
        return [
            self._fit_binary(rows, np.where(codes == t, 1.0, -1.0), weight)
            for t in range(first, len(self.classes_))
        ]

    def _set_fitted(
        self, machines: list[Machine], source: Source, kernel: AnyKernel, codes: Array
    ) -> None:
        coef = np.stack([machine.coef for machine in machines])
        self.support_ = np.flatnonzero(coef.any(axis=0))
        basis = source.take(self.support_)
        self.support_vectors_ = (
            np.empty((0, 0)) if kernel.name == "precomputed" else basis.values
        )
        self.dual_coef_ = np.ascontiguousarray(coef[:, self.support_])
        self.intercept_ = np.array([machine.intercept for machine in machines])
        counts = np.bincount(codes[self.support_], minlength=len(self.classes_))
        self.n_support_ = counts.astype(np.int32)
        self.n_iter_ = np.array([machine.n_iter for machine in machines])
        self.fit_status_ = int(not all(machine.converged for machine in machines))
        self._functions = KernelExpansion(
            kernel, basis, self.dual_coef_.T, self.intercept_
        )
        for machine in machines:
            if not machine.converged:
                warnings.warn(
                    f"{type(self).__name__}: {machine.reason}",
                    NotCertifiedWarning,
                    stacklevel=3,
                )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        precomputed = self.get_params(deep=False)["kernel"] == "precomputed"
        tags.input_tags.pairwise = precomputed
        return tags


# Larger than any number of steps or rows, without overflow in sums.
NO_LIMIT = 2**62
# Most steps of pairs per row. Kernels whose values nearly agree (poly on 100 rows near
# 100) would take hours. LIBSVM ends after 10^7 steps or 100 per row, which 1,000 rows
# at C = 1e5 exceed (12.6 million steps).
_MOST_STEPS_PER_ROW = 10**5
STEPS_REMEDY = (
    "Where columns are far from zero, scale them (StandardScaler): kernel values that "
    "nearly agree need many steps. Else raise max_iter."
)
# Share of the box within which a coefficient counts as being at its end: sums of 200
# coefficients round to 1e-14 of it.
_AT_END = 1e-10


def limit_of(given: int) -> int:
    """Return a limit as a number; -1 means no limit."""
    return NO_LIMIT if given == -1 else min(int(given), NO_LIMIT)


def step_limit(given: int, n_rows: int) -> int:
    """Return a limit on the steps of pairs as a number; -1 means 100,000 per row."""
    return _MOST_STEPS_PER_ROW * n_rows if given == -1 else limit_of(given)


def away_from_ends(coef: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return which coefficients may rise and which may fall, up to rounding."""
    size = np.minimum(high - low, np.abs(coef).max(initial=0.0))
    return coef < high - _AT_END * size, coef > low + _AT_END * size


def optimal_bias(g: Array, may_rise: Array, may_fall: Array) -> float:
    """Return the mean of -g over the free rows, or the middle of its bounds.

    g is the gradient ``K b - y``. ``f_i = (K b)_i + bias`` has margin 1 less its slack
    exactly where g = -bias. Without free rows every bias between the bounds is optimal,
    and LIBSVM takes the middle.
    """
    free = may_rise & may_fall
    if free.any():
        return -float(g[free].mean())
    ends = [end for end in extremes(g, may_rise, may_fall) if np.isfinite(end)]
    return -float(np.mean(ends))


def extremes(g: Array, may_rise: Array, may_fall: Array) -> tuple[float, float]:
    """Return the smallest g of rows that may increase, the largest that may fall."""
    lowest = np.min(g, where=may_rise, initial=np.inf)
    highest = np.max(g, where=may_fall, initial=-np.inf)
    return float(lowest), float(highest)


def check_limit(who: str, name: str, value: Any) -> None:
    """Check a limit on iterations: -1 for none, or a whole number of at least 1."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (whole and (value == -1 or value >= 1)):
        raise InvalidInputError(
            f"{who}: {name}={value!r} must be a whole number of at least 1, or -1 for "
            "no limit.",
            parameter=name,
        )
