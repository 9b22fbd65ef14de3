"""`SVC` and `NuSVC`: their parameters, and the problem of two classes of each."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.estimators._dataset import TINY
from corevec.estimators._parameters import store
from corevec.estimators.svm._classifier import PairwiseClassifier
from corevec.estimators.svm._pairs import pairs_of
from corevec.estimators.svm._solver import Machine, Solver, finite_price
from corevec.exceptions import InvalidInputError, NotCertifiedWarning
from corevec.problems import BoxProblem, c_svc, nu_svc


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
        if not all(machine.width > TINY for machine in found):
            self._warn_of_no_margin()
        widths = [one.width if one.width > TINY else 1.0 for one in found]
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
