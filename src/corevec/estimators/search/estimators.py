"""The public estimators of the search: their parameters, and what they fit."""

from __future__ import annotations

from itertools import product
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from corevec._runtime.types import Array
from corevec.data.sources import DEFAULT_MEMORY_BUDGET
from corevec.estimators._parameters import store
from corevec.estimators.classify import CoreVectorClassifier
from corevec.estimators.regress import CoreVectorRegressor
from corevec.estimators.search.base import SearchCV, is_list
from corevec.estimators.search.refitted import Refitted, has_refit


class CoreVectorClassifierCV(Refitted, ClassifierMixin, SearchCV):
    """`CoreVectorClassifier` with C and gamma chosen by cross-validation.

    The same choice as a grid search over `CoreVectorClassifier`, in a fraction of the
    time: one kernel matrix serves all folds and all values of C of a gamma, each
    solution starts the next C, and poor candidates are dropped on samples of the rows.
    The best candidate is then fitted on all rows, with its certificate.

    Parameters
    ----------
    Cs : int or list of float, default=10
        Values of C: a list, or a number of values, log-spaced from 0.03 to 1000, of
        which every other one is tried first.
    gammas : "auto" or list, default="auto"
        Values of gamma: numbers, or words of `CoreVectorClassifier`. "auto": factors of
        two from 1/64 to 64 times "scale", of which every other one is tried first.
    cv : int, splitter or iterable, default=5
        Folds, as in scikit-learn's `GridSearchCV`: a number of stratified folds, a
        splitter, or pairs of row numbers.
    scoring : str or callable, default=None
        Name of a scorer of scikit-learn, or a function ``(estimator, X, y)``. None: the
        accuracy.
    kernel : str or callable, default="rbf"
        Kernel function. See `CoreVectorClassifier`.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    tol : float, default=1e-3
        Tolerance of the refit: the relative duality gap. Folds stop at 1e-2.
    refit : bool, default=True
        Whether to fit the best candidate on all rows.
    halving : {"auto", True, False}, default="auto"
        Whether candidates are first compared on samples of the rows, and dropped where
        they are worse than the best by more than one standard error of their
        difference: from 1,500 rows on ("auto"), from 300 (True), or never.
    class_weight : dict or "balanced", default=None
        Factor of the weights of the rows of each class.
    multi_class : {"auto", "ovr", "ovo"}, default="auto"
        One machine per class or per pair of classes. See `CoreVectorClassifier`.
    n_jobs : int, default=None
        Number of threads. None uses the available cores.
    max_time : float, default=None
        Maximum time in seconds, a quarter of it for the refit. As after Ctrl-C, the
        best candidate so far is then fitted.
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the data; by default an eighth of the memory of
        the machine (256 MiB to 4 GiB). Where it does not hold the kernel matrix of the
        rows, folds are fitted one by one.
    random_state : int or RandomState, default=None
        Seed of the fits. The folds are those of `cv`.
    verbose : int, default=0
        Verbosity of the refit.

    Attributes
    ----------
    best_params_ : dict
        C and gamma of the best candidate.
    best_score_ : float
        Its mean score on held-out rows.
    best_index_ : int
        Its row in `cv_results_`.
    best_estimator_ : CoreVectorClassifier
        The model of all rows with `best_params_`.
    certificate_ : Certificate
        The certificate of that model.
    cv_results_ : dict of arrays
        One row per candidate as in `GridSearchCV`: `params`, `param_C`, `param_gamma`,
        `mean_test_score`, `std_test_score`, `rank_test_score`, `split0_test_score`...,
        `mean_fit_time` (a fold's share of the time), and of the last sample that the
        candidate was scored on `iter` and `n_resources`, its rows.
    classes_ : ndarray
        Class labels.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds of the refit.
    stopped_by_ : str or None
        "max_time" or "interrupt" where the search ended early.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifierCV
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> search = CoreVectorClassifierCV(Cs=[1, 10], gammas=[0.5, 2], cv=3).fit(X, y)
    >>> sorted(search.best_params_), search.certificate_.converged
    (['C', 'gamma'], True)
    """

    _task = "classes"
    _model = CoreVectorClassifier

    def __init__(
        self,
        *,
        Cs: Any = 10,
        gammas: Any = "auto",
        cv: Any = 5,
        scoring: Any = None,
        kernel: Any = "rbf",
        degree: float = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        refit: bool = True,
        halving: str | bool = "auto",
        class_weight: Any = None,
        multi_class: str = "auto",
        n_jobs: int | None = None,
        max_time: float | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        random_state: Any = None,
        verbose: int = 0,
    ):
        store(self, locals())

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Choose C and gamma, and fit the best on all rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Training rows in memory; a square kernel matrix for
            ``kernel="precomputed"``.
        y : array-like of shape (n_rows,)
            Class labels: numbers or strings, at least two classes.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows, for the fits and for the scores.
        groups : array-like of shape (n_rows,), optional
            Groups for the splitter `cv`.

        Returns
        -------
        self
            With the best estimator.
        """
        return self._search(X, y, sample_weight, groups)

    def _fixed(self) -> dict[str, Any]:
        own = {"class_weight": self.class_weight, "multi_class": self.multi_class}
        return super()._fixed() | own

    @property
    def classes_(self) -> Array:
        """The class labels."""
        return np.asarray(self._refitted().classes_)

    @available_if(has_refit)
    def decision_function(self, X: Any) -> Any:
        """Return the decision values of the best estimator.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            See `CoreVectorClassifier`.
        """
        return self._refitted().decision_function(X)


class CoreVectorRegressorCV(Refitted, RegressorMixin, SearchCV):
    """`CoreVectorRegressor` with C and gamma chosen by cross-validation.

    See `CoreVectorClassifierCV` for how the search runs.

    Parameters
    ----------
    Cs : int or list of float, default=10
        Values of C: a list, or a number of values, log-spaced from 0.03 to 1000.
    gammas : "auto" or list, default="auto"
        Values of gamma. "auto": factors of two from 1/64 to 64 times "scale".
    mu : float or list of float, default=0.3
        Mean slack outside the automatic tube, or values to choose from.
    tube : {"auto", "paper"}, float or list, default="auto"
        Half-width of the tube, or values to choose from.
    cv : int, splitter or iterable, default=5
        Folds, as in scikit-learn's `GridSearchCV`.
    scoring : str or callable, default=None
        Name of a scorer of scikit-learn, or a function ``(estimator, X, y)``. None: the
        coefficient of determination.
    kernel : str or callable, default="rbf"
        Kernel function. See `CoreVectorClassifier`.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    tol : float, default=1e-3
        Tolerance of the refit: the relative duality gap. Folds stop at 1e-2.
    refit : bool, default=True
        Whether to fit the best candidate on all rows.
    halving : {"auto", True, False}, default="auto"
        Whether candidates are first compared on samples of the rows.
    n_jobs : int, default=None
        Number of threads. None uses the available cores.
    max_time : float, default=None
        Maximum time in seconds, a quarter of it for the refit.
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the data.
    random_state : int or RandomState, default=None
        Seed of the fits. The folds are those of `cv`.
    verbose : int, default=0
        Verbosity of the refit.

    Attributes
    ----------
    best_params_ : dict
        C and gamma of the best candidate, and `mu` and `tube` where lists were given.
    best_score_ : float
        Its mean score on held-out rows.
    best_index_ : int
        Its row in `cv_results_`.
    best_estimator_ : CoreVectorRegressor
        The model of all rows with `best_params_`.
    certificate_ : Certificate
        The certificate of that model.
    cv_results_ : dict of arrays
        One row per candidate. See `CoreVectorClassifierCV`.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds of the refit.
    stopped_by_ : str or None
        "max_time" or "interrupt" where the search ended early.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from corevec import CoreVectorRegressorCV
    >>> X, y = make_friedman1(300, random_state=0)
    >>> search = CoreVectorRegressorCV(Cs=[1, 100], gammas=["scale"], cv=3).fit(X, y)
    >>> search.best_params_["C"], search.certificate_.converged
    (100, True)
    """

    _task = "numbers"
    _model = CoreVectorRegressor

    def __init__(
        self,
        *,
        Cs: Any = 10,
        gammas: Any = "auto",
        mu: Any = 0.3,
        tube: Any = "auto",
        cv: Any = 5,
        scoring: Any = None,
        kernel: Any = "rbf",
        degree: float = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        refit: bool = True,
        halving: str | bool = "auto",
        n_jobs: int | None = None,
        max_time: float | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        random_state: Any = None,
        verbose: int = 0,
    ):
        store(self, locals())

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Choose C and gamma, and fit the best on all rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Training rows in memory; a square kernel matrix for
            ``kernel="precomputed"``.
        y : array-like of shape (n_rows,)
            Targets.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows, for the fits and for the scores.
        groups : array-like of shape (n_rows,), optional
            Groups for the splitter `cv`.

        Returns
        -------
        self
            With the best estimator.
        """
        return self._search(X, y, sample_weight, groups)

    def _others(self) -> list[dict[str, Any]]:
        axes = [
            [(name, one) for one in getattr(self, name)]
            for name in ("mu", "tube")
            if is_list(getattr(self, name))
        ]
        return [dict(one) for one in product(*axes)]

    def _fixed(self) -> dict[str, Any]:
        own = {
            name: getattr(self, name)
            for name in ("mu", "tube")
            if not is_list(getattr(self, name))
        }
        return super()._fixed() | own
