"""`SVC` and `NuSVC`: one machine per pair of classes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state, compute_class_weight, deprecated
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from corevec._runtime.types import Array
from corevec.estimators._parameters import store
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
from corevec.estimators.svm._solver import Machine, Solver, finite_price
from corevec.exceptions import InvalidInputError, NotCertifiedWarning
from corevec.problems import BoxProblem, c_svc, nu_svc

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


class SVC(PairwiseClassifier):
    r"""Support vector classification with the interface of scikit-learn's ``SVC``.

    For two classes it minimises

    .. math:: \tfrac12 |w|^2 + C \sum_i s_i
              \max(0, 1 - y_i (\langle w, \varphi(x_i) \rangle + b))

    exactly, with a free bias b, and measures the duality gap on all rows. More classes
    have one machine per pair. Everything that code written for scikit-learn reads or
    sets is here with the same name, shape and meaning.

    Parameters
    ----------
    C : float, default=1.0
        Price of an error: larger values fit the rows more closely. inf is a hard
        margin.
    kernel : str or callable, default="rbf"
        "linear", "poly", "rbf" or "sigmoid":
        ``<x, z>``, ``(gamma <x, z> + coef0)^degree``, ``exp(-gamma |x - z|^2)``
        or ``tanh(gamma <x, z> + coef0)``; "precomputed" takes kernel values in place of
        rows. A function k(X, Z) gets the rows as the user gave them and returns one
        value per pair. The other kernels of corevec ("laplacian", "inverse-distance",
        "normalized-poly", ...) are accepted as well.
    degree : int, default=3
        Degree of the "poly" kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel: "scale" is ``1 / (n_features * X.var())``, "auto" is
        ``1 / n_features``.
    coef0 : float, default=0.0
        Constant of the "poly" and the "sigmoid" kernel.
    shrinking : bool, default=True
        Accepted for compatibility. The working sets of the solver have the same effect,
        and the result does not depend on it.
    probability : bool
        Whether `predict_proba` exists: a sigmoid for each pair of classes, fitted by
        cross-validation in 5 folds. Deprecated in scikit-learn 1.9: give the classifier
        to ``CalibratedClassifierCV(..., ensemble=False)``. Without it (the default)
        there is no `predict_proba`.
    tol : float, default=1e-3
        Largest violation of an optimality condition that ends the fit, as in LIBSVM.
    cache_size : float, default=200
        Memory for kernel values in MB. `memory_budget` replaces it.
    class_weight : dict or "balanced", default=None
        Factors of C per class: ``{label: factor}``, or "balanced" for
        ``n_rows / (n_classes * n_rows_of_class)``.
    verbose : bool, default=False
        Whether to log one record per round to the logger "corevec".
    max_iter : int, default=-1
        Limit on the steps of each machine; -1 for none. A warning says that it was
        reached.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` returns for more than two classes: one column per class
        or one per pair. The machines are those of the pairs either way.
    break_ties : bool, default=False
        Whether `predict` decides between classes with equal votes by the decision
        values ("ovr", more than two classes); else the first of them is taken.
    random_state : int, RandomState or None, default=None
        Seed of the folds for ``probability=True``; nothing else is random.
    max_time : float, optional
        Limit on the seconds of a fit, not in scikit-learn. The model is then the best
        that was found, and `certificate_` says how far from the optimum it may be; so
        it is after Ctrl-C.
    n_jobs : int, optional
        Number of threads, not in scikit-learn. None uses the available cores (or
        ``OMP_NUM_THREADS``).
    device : str or torch.device, optional
        Device that computes kernel values, such as "cuda"; not in scikit-learn.
    memory_budget : float, optional
        Bytes for kernel values and blocks of rows, beside the rows; not in
        scikit-learn. None takes 2**28 or `cache_size`, whichever is more.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    class_weight_ : ndarray of shape (n_classes,)
        Factor of C of each class.
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors, class by class.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        Support vectors; empty for a kernel that is precomputed or a function.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray or CSR matrix of shape (n_classes - 1, n_support)
        Dual coefficients times the signs of the labels. A support vector of class i has
        one for each other class; see `User Guide of scikit-learn
        <https://scikit-learn.org/stable/modules/svm.html#multi-class-classification>`_.
    intercept_ : ndarray of shape (n_pairs,)
        Bias of each machine; 1 of them for two classes.
    coef_ : ndarray or CSR matrix of shape (n_machines, n_features)
        Weights of the columns, for ``kernel="linear"`` only.
    fit_status_ : int
        0 if every machine reached `tol`, else 1.
    n_iter_ : ndarray of shape (n_pairs,)
        Steps of the solver for each machine.
    shape_fit_ : tuple of int
        Shape of the training rows.
    probA_ : ndarray of shape (n_pairs,)
        Slopes of the sigmoids; empty without ``probability=True``. Deprecated.
    probB_ : ndarray of shape (n_pairs,)
        Intercepts of the sigmoids. Deprecated.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where all are strings.
    certificate_ : Certificate
        Duality gap on all rows of the worst pair; not in scikit-learn.

    See Also
    --------
    NuSVC : The same with a share of the rows in place of C.
    corevec.CoreVectorClassifier : For files, clusters and very many rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from corevec.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC(C=10).fit(X, y)
    >>> model.score(X, y) > 0.97
    True
    >>> model.certificate_.converged
    True
    """

    def __init__(
        self,
        *,
        C: Any = 1.0,
        kernel: Any = "rbf",
        degree: Any = 3,
        gamma: Any = "scale",
        coef0: Any = 0.0,
        shrinking: Any = True,
        probability: Any = "deprecated",
        tol: Any = 1e-3,
        cache_size: Any = 200,
        class_weight: Any = None,
        verbose: Any = False,
        max_iter: Any = -1,
        decision_function_shape: Any = "ovr",
        break_ties: Any = False,
        random_state: Any = None,
        max_time: Any = None,
        n_jobs: Any = None,
        device: Any = None,
        memory_budget: Any = None,
    ):
        store(self, locals())

    def _weights_of_problem(self, codes: Array, weights: Array) -> Array:
        factors = self.class_weight_
        if not (factors > 0).all() or not np.isfinite(factors).all():
            raise InvalidInputError(
                f"SVC: class_weight={self.class_weight!r} must be above 0 and finite "
                "for every class.",
                parameter="class_weight",
            )
        weights = weights * factors[codes]
        if len(np.unique(codes[weights > 0])) < 2:
            raise InvalidInputError(
                "SVC: Invalid input - all samples with positive weights belong to the "
                "same class. Give rows of two classes a positive weight."
            )
        return weights

    def _problem(self, rows: Array, is_first: Array, weights: Array) -> BoxProblem:
        sign = np.where(is_first, 1.0, -1.0)
        return c_svc(rows, sign, finite_price(self.C) * weights)


class NuSVC(PairwiseClassifier):
    r"""Support vector classification with the interface of scikit-learn's ``NuSVC``.

    As `SVC`, but the share `nu` of the rows takes the place of C: for two classes it
    minimises

    .. math:: \tfrac12 |w|^2 - \nu S r + \sum_i s_i
              \max(0, r - y_i (\langle w, \varphi(x_i) \rangle + b)),
              \quad S = \sum_i s_i

    and divides the function by the margin r.

    Parameters
    ----------
    nu : float, default=0.5
        Bound in (0, 1]: at most this share of the rows is on the wrong side of the
        margin, and at least this share are support vectors.
    kernel : str or callable, default="rbf"
        "linear", "poly", "rbf" or "sigmoid":
        ``<x, z>``, ``(gamma <x, z> + coef0)^degree``, ``exp(-gamma |x - z|^2)``
        or ``tanh(gamma <x, z> + coef0)``; "precomputed" takes kernel values in place of
        rows. A function k(X, Z) gets the rows as the user gave them and returns one
        value per pair. The other kernels of corevec ("laplacian", "inverse-distance",
        "normalized-poly", ...) are accepted as well.
    degree : int, default=3
        Degree of the "poly" kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel: "scale" is ``1 / (n_features * X.var())``, "auto" is
        ``1 / n_features``.
    coef0 : float, default=0.0
        Constant of the "poly" and the "sigmoid" kernel.
    shrinking : bool, default=True
        Accepted for compatibility. The working sets of the solver have the same effect,
        and the result does not depend on it.
    probability : bool
        Whether `predict_proba` exists: a sigmoid for each pair of classes, fitted by
        cross-validation in 5 folds. Deprecated in scikit-learn 1.9: give the classifier
        to ``CalibratedClassifierCV(..., ensemble=False)``. Without it (the default)
        there is no `predict_proba`.
    tol : float, default=1e-3
        Largest violation of an optimality condition that ends the fit, as in LIBSVM.
    cache_size : float, default=200
        Memory for kernel values in MB. `memory_budget` replaces it.
    class_weight : dict or "balanced", default=None
        Factors of C per class: ``{label: factor}``, or "balanced" for
        ``n_rows / (n_classes * n_rows_of_class)``. Ignored by this class, as in
        scikit-learn.
    verbose : bool, default=False
        Whether to log one record per round to the logger "corevec".
    max_iter : int, default=-1
        Limit on the steps of each machine; -1 for none. A warning says that it was
        reached.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` returns for more than two classes: one column per class
        or one per pair. The machines are those of the pairs either way.
    break_ties : bool, default=False
        Whether `predict` decides between classes with equal votes by the decision
        values ("ovr", more than two classes); else the first of them is taken.
    random_state : int, RandomState or None, default=None
        Seed of the folds for ``probability=True``; nothing else is random.
    max_time : float, optional
        Limit on the seconds of a fit, not in scikit-learn. The model is then the best
        that was found, and `certificate_` says how far from the optimum it may be; so
        it is after Ctrl-C.
    n_jobs : int, optional
        Number of threads, not in scikit-learn. None uses the available cores (or
        ``OMP_NUM_THREADS``).
    device : str or torch.device, optional
        Device that computes kernel values, such as "cuda"; not in scikit-learn.
    memory_budget : float, optional
        Bytes for kernel values and blocks of rows, beside the rows; not in
        scikit-learn. None takes 2**28 or `cache_size`, whichever is more.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    class_weight_ : ndarray of shape (n_classes,)
        Factor of C of each class.
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors, class by class.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        Support vectors; empty for a kernel that is precomputed or a function.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray or CSR matrix of shape (n_classes - 1, n_support)
        Dual coefficients times the signs of the labels. A support vector of class i has
        one for each other class; see `User Guide of scikit-learn
        <https://scikit-learn.org/stable/modules/svm.html#multi-class-classification>`_.
    intercept_ : ndarray of shape (n_pairs,)
        Bias of each machine; 1 of them for two classes.
    coef_ : ndarray or CSR matrix of shape (n_machines, n_features)
        Weights of the columns, for ``kernel="linear"`` only.
    fit_status_ : int
        0 if every machine reached `tol`, else 1.
    n_iter_ : ndarray of shape (n_pairs,)
        Steps of the solver for each machine.
    shape_fit_ : tuple of int
        Shape of the training rows.
    probA_ : ndarray of shape (n_pairs,)
        Slopes of the sigmoids; empty without ``probability=True``. Deprecated.
    probB_ : ndarray of shape (n_pairs,)
        Intercepts of the sigmoids. Deprecated.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where all are strings.
    certificate_ : Certificate
        Duality gap on all rows of the worst pair; not in scikit-learn.

    See Also
    --------
    SVC : The same with C.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from corevec.svm import NuSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> NuSVC(nu=0.1).fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        *,
        nu: Any = 0.5,
        kernel: Any = "rbf",
        degree: Any = 3,
        gamma: Any = "scale",
        coef0: Any = 0.0,
        shrinking: Any = True,
        probability: Any = "deprecated",
        tol: Any = 1e-3,
        cache_size: Any = 200,
        class_weight: Any = None,
        verbose: Any = False,
        max_iter: Any = -1,
        decision_function_shape: Any = "ovr",
        break_ties: Any = False,
        random_state: Any = None,
        max_time: Any = None,
        n_jobs: Any = None,
        device: Any = None,
        memory_budget: Any = None,
    ):
        store(self, locals())

    def _weights_of_problem(self, codes: Array, weights: Array) -> Array:
        sums = np.bincount(codes, weights, minlength=len(self.classes_))
        for i, j in pairs_of(len(sums)):
            if self.nu * (sums[i] + sums[j]) / 2 > min(sums[i], sums[j]):
                largest = 2 * min(sums[i], sums[j]) / (sums[i] + sums[j])
                raise InvalidInputError(
                    f"NuSVC: specified nu is infeasible: nu={self.nu!r}, but for the "
                    f"classes {self.classes_[[i, j]].tolist()} it can be "
                    f"{largest:.4g} at most, twice the share of the smaller class. "
                    "Lower nu.",
                    parameter="nu",
                )
        return weights

    def _problem(self, rows: Array, is_first: Array, weights: Array) -> BoxProblem:
        return nu_svc(rows, np.where(is_first, 1.0, -1.0), weights, self.nu)

    def _machines(self, solver: Solver, problems: list[BoxProblem]) -> list[Machine]:
        """Return the machines of these problems, divided by their margins."""
        found = solver.solve(problems)
        if not all(machine.width > 0 for machine in found):
            self._warn_of_no_margin()
        widths = [one.width if one.width > 0 else 1.0 for one in found]
        return [
            replace(one, coef=one.coef / width, intercept=one.intercept / width)
            for one, width in zip(found, widths, strict=True)
        ]

    def _warn_of_no_margin(self) -> None:
        """Warn that the optimum of some pair is w = 0, which scikit-learn hides."""
        warning = NotCertifiedWarning(
            f"NuSVC: with nu={self.nu!r} the best margin of some pair of classes is 0, "
            "and its function is an arbitrary one. Raise nu, or use SVC.",
            stopped_by="stall",
        )
        warnings.warn(warning, stacklevel=7)
