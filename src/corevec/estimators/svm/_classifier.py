"""What `SVC` and `NuSVC` share: one machine per pair of classes, votes, sigmoids."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state, compute_class_weight, deprecated
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from corevec._runtime.types import Array
from corevec.estimators._validation import named
from corevec.estimators.svm._base import SupportVectorMachine
from corevec.estimators.svm._pairs import (
    columns_of_pairs,
    one_column_per_class,
    packed,
    pairs_of,
    winners,
)
from corevec.estimators.svm._probability import (
    cross_validated_sigmoid,
    joint_probabilities,
)
from corevec.estimators.svm._solver import Machine, Solver
from corevec.exceptions import InvalidInputError
from corevec.problems import BoxProblem

_PLATT_IS_DEPRECATED = (
    "The `probability` parameter was deprecated in 1.9 and will be removed in version "
    "1.11. Use `CalibratedClassifierCV({who}(), ensemble=False)` instead of "
    "`{who}(probability=True)`"
)
_SIGMOIDS_ARE_DEPRECATED = (
    "Attribute `{name}` was deprecated in version 1.9 and will be removed in 1.11 as "
    "the `probability=True` option for SVC and NuSVC was deprecated and will be "
    "removed in 1.11."
)


def _has_probability(model: Any) -> bool:
    """Whether `predict_proba` exists; raises for a message that says why not."""
    if model.probability == "deprecated" or not model.probability:
        raise AttributeError("predict_proba is not available when probability=False")
    return True


class PairwiseClassifier(ClassifierMixin, SupportVectorMachine):
    """What `SVC` and `NuSVC` share; not for direct use."""

    probability: Any
    class_weight: Any
    decision_function_shape: Any
    break_ties: Any
    random_state: Any
    classes_: Array
    class_weight_: Array

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit one machine per pair of classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Training rows; for ``kernel="precomputed"`` the kernel values between them,
            of shape (n_rows, n_rows). A kernel function gets them as they are.
        y : array-like of shape (n_rows,)
            Class labels: numbers or strings, at least two classes.
        sample_weight : array-like of shape (n_rows,), optional
            Factors of C (of the rows' share for nu). Rows with a weight of 0 or less
            are left out.

        Returns
        -------
        self
            The fitted classifier, with `certificate_`.
        """
        self._fit(X, y, sample_weight)
        return self

    def _targets_of(self, y: Any) -> Array:
        try:
            labels = column_or_1d(y, warn=True)
            check_classification_targets(labels)
            classes, codes = np.unique(labels, return_inverse=True)
            self.class_weight_ = compute_class_weight(
                self.class_weight, classes=classes, y=labels
            )
        except (TypeError, ValueError) as error:
            raise named(self, InvalidInputError(str(error))) from None
        if len(classes) < 2:
            raise InvalidInputError(
                f"{type(self).__name__}: The number of classes has to be greater than "
                f"one; got {len(classes)} class: {classes.tolist()}."
            )
        self.classes_ = classes
        return codes

    def _problem(self, rows: Array, is_first: Array, weights: Array) -> BoxProblem:
        """Return the problem of some rows of two classes."""
        raise NotImplementedError

    def _weights_of_problem(self, codes: Array, weights: Array) -> Array:
        """Return the weights that the problems have; raise where they have none."""
        raise NotImplementedError

    def _solve(self, solver: Solver, targets: Array, weights: Array) -> list[Machine]:
        self._warn_of_probability()
        weights = self._weights_of_problem(targets, weights)
        pairs = []
        for first, second in pairs_of(len(self.classes_)):
            both = (targets == first) | (targets == second)
            rows = np.flatnonzero(both & (weights > 0))
            pairs.append((rows, targets[rows] == first, weights[rows]))
        machines = self._machines(solver, [self._problem(*pair) for pair in pairs])
        sigmoids: list[tuple[float, float]] = []
        if self._effective_probability:
            state = check_random_state(self.random_state)
            rng = np.random.default_rng(state.randint(np.iinfo("i").max))
            sigmoids = [self._sigmoid(solver, *pair, rng) for pair in pairs]
        self._probA, self._probB = np.reshape(sigmoids, (-1, 2)).T.copy()
        return machines

    def _machines(self, solver: Solver, problems: list[BoxProblem]) -> list[Machine]:
        """Return the machines of these problems."""
        return solver.solve(problems)

    def _sigmoid(
        self,
        solver: Solver,
        rows: Array,
        is_first: Array,
        weights: Array,
        rng: np.random.Generator,
    ) -> tuple[float, float]:
        """Return what turns a machine's values into probabilities."""

        def values_without(rest: Array, fold: Array) -> Array:
            problem = self._problem(rows[rest], is_first[rest], weights[rest])
            machine = self._machines(solver, [problem])[0]
            return solver.values(machine, rows[fold])

        return cross_validated_sigmoid(len(rows), is_first, values_without, rng)

    def _warn_of_probability(self) -> None:
        self._effective_probability = self.probability
        if self.probability == "deprecated":
            self._effective_probability = False
            return
        text = _PLATT_IS_DEPRECATED.format(who=type(self).__name__)
        warnings.warn(text, FutureWarning, stacklevel=5)

    def _set_machines(self, X: Any, machines: list[Machine], targets: Array) -> None:
        n_classes = len(self.classes_)
        found = packed(
            targets, n_classes, [(machine.rows, machine.coef) for machine in machines]
        )
        self._set_functions(X, found.support, found.dual)
        self._n_support = found.counts.astype(np.int32)
        self._intercept_ = np.array([machine.intercept for machine in machines])
        self.intercept_ = self._intercept_.copy()
        if n_classes == 2:  # scikit-learn's value is above 0 for the second class
            self.intercept_, self.dual_coef_ = -self._intercept_, -self._dual_coef_
        self._num_iter = np.array([m.n_steps for m in machines], dtype=np.int32)
        self.n_iter_ = self._num_iter

    def _columns_of(self, dual: Array) -> Array:
        if len(self.classes_) == 2:
            return np.asarray(dual.T)
        return columns_of_pairs(dual, self._n_support)

    @property
    def _has_pairs(self) -> bool:
        """Whether there is one machine per pair of more than two classes."""
        return len(self.classes_) > 2

    def decision_function(self, X: Any) -> Array:
        """Return decision values.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to predict (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,), (n_rows, n_classes) or (n_rows, n_pairs)
            Of two classes, above 0 for ``classes_[1]``. Of more, with "ovr" one column
            per class: the votes of the pairs plus their summed values, scaled below
            half a vote; with "ovo" one column per pair, above 0 for its first class.
        """
        values = self._values(X)
        if len(self.classes_) == 2:
            return -values.ravel()
        if self.decision_function_shape == "ovr":
            return one_column_per_class(values, len(self.classes_))
        return values

    def predict(self, X: Any) -> Array:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to classify (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels from ``classes_``: the class with most votes of its pairs; with
            ``break_ties=True``, the largest decision value decides.
        """
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise InvalidInputError(
                f"{type(self).__name__}: break_ties must be False when "
                "decision_function_shape is 'ovo'. Set decision_function_shape='ovr'.",
                parameter="break_ties",
            )
        if self.break_ties and len(self.classes_) > 2:
            codes = np.argmax(self.decision_function(X), axis=1)
        else:
            codes = winners(self._values(X), len(self.classes_))
        return np.asarray(self.classes_.take(codes))

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, with ``probability=True`` only.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to predict (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Probabilities, in the order of ``classes_``. Fitted by cross-validation:
            the most probable class may differ from that of `predict`.
        """
        values = self._values(X)
        if not len(self._probA):
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False"
            )
        return joint_probabilities(values, self._probA, self._probB, len(self.classes_))

    @available_if(_has_probability)
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to predict (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Logarithms of `predict_proba`.
        """
        return np.asarray(np.log(self.predict_proba(X)))

    @property
    @deprecated(_SIGMOIDS_ARE_DEPRECATED.format(name="probA_"))
    def probA_(self) -> Array:
        """A of each pair's ``1 / (1 + exp(A f + B))``; empty without probabilities."""
        return self._probA

    @property
    @deprecated(_SIGMOIDS_ARE_DEPRECATED.format(name="probB_"))
    def probB_(self) -> Array:
        """B of each pair's ``1 / (1 + exp(A f + B))``; empty without probabilities."""
        return self._probB
