"""`OneClassSVM`: the region in which most rows lie."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin

from corevec._runtime.types import Array
from corevec.estimators._parameters import store
from corevec.estimators.svm._base import SupportVectorMachine
from corevec.estimators.svm._solver import Machine, Solver
from corevec.problems import one_class_nu


class OneClassSVM(OutlierMixin, SupportVectorMachine):
    r"""Outlier detection with the interface of scikit-learn's ``OneClassSVM``.

    It minimises

    .. math:: \tfrac12 |w|^2 - \nu S \rho + \sum_i s_i
              \max(0, \rho - \langle w, \varphi(x_i) \rangle),
              \quad S = \sum_i s_i

    exactly and measures the duality gap on all rows. Rows with
    :math:`\langle w, \varphi(x) \rangle > \rho` are inliers.

    Parameters
    ----------
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
    tol : float, default=1e-3
        Largest violation of an optimality condition that ends the fit, as in LIBSVM.
    nu : float, default=0.5
        Bound in (0, 1]: at most this share of the training rows is outside, and at
        least this share are support vectors.
    shrinking : bool, default=True
        Accepted for compatibility. The working sets of the solver have the same effect,
        and the result does not depend on it.
    cache_size : float, default=200
        Memory for kernel values in MB. `memory_budget` replaces it.
    verbose : bool, default=False
        Whether to log one record per round to the logger "corevec".
    max_iter : int, default=-1
        Limit on the steps of each machine; -1 for none. A warning says that it was
        reached.
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
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        Support vectors; empty for a kernel that is precomputed or a function.
    n_support_ : ndarray of shape (1,)
        Number of support vectors.
    dual_coef_ : ndarray or CSR matrix of shape (1, n_support)
        Dual coefficients.
    intercept_ : ndarray of shape (1,)
        Bias.
    offset_ : ndarray of shape (1,)
        Minus `intercept_`: ``decision_function = score_samples - offset_``.
    coef_ : ndarray or CSR matrix of shape (n_machines, n_features)
        Weights of the columns, for ``kernel="linear"`` only.
    fit_status_ : int
        0 if every machine reached `tol`, else 1.
    n_iter_ : int
        Steps of the solver.
    shape_fit_ : tuple of int
        Shape of the training rows.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where all are strings.
    certificate_ : Certificate
        Duality gap of the problem on all rows; not in scikit-learn.

    See Also
    --------
    corevec.CoreVectorOneClass : For files, clusters and very many rows.

    Examples
    --------
    >>> from corevec.svm import OneClassSVM
    >>> X = [[0], [0.44], [0.45], [0.46], [1]]
    >>> OneClassSVM(gamma="auto").fit(X).predict(X)
    array([-1,  1,  1,  1, -1])
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: Any = 3,
        gamma: Any = "scale",
        coef0: Any = 0.0,
        tol: Any = 1e-3,
        nu: Any = 0.5,
        shrinking: Any = True,
        cache_size: Any = 200,
        verbose: Any = False,
        max_iter: Any = -1,
        max_time: Any = None,
        n_jobs: Any = None,
        device: Any = None,
        memory_budget: Any = None,
    ):
        store(self, locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the region in which most rows lie.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Training rows; for ``kernel="precomputed"`` the kernel values between them,
            of shape (n_rows, n_rows). A kernel function gets them as they are.
        y : object, default=None
            Ignored; present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows. Rows with a weight of 0 or less are left out.

        Returns
        -------
        self
            The fitted detector, with `certificate_`.
        """
        self._fit(X, None, sample_weight)
        return self

    def _solve(self, solver: Solver, targets: Array, weights: Array) -> list[Machine]:
        rows = np.flatnonzero(weights > 0)
        return solver.solve([one_class_nu(rows, weights[rows], self.nu)])

    def _set_machines(self, X: Any, machines: list[Machine], targets: Array) -> None:
        self._set_one(X, machines[0])
        self.offset_ = -self._intercept_

    def decision_function(self, X: Any) -> Array:
        """Return the decision value of each row: above 0 for inliers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to score (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,)
            ``score_samples(X) - offset_``.
        """
        return self._values(X).ravel()

    def score_samples(self, X: Any) -> Array:
        """Return the score of each row: the larger, the more normal.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to score (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,)
            The weighted sum of the kernel values with the support vectors.
        """
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Array:
        """Return 1 for inliers and -1 for outliers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to judge (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,)
            1 where the decision value is above 0, else -1.
        """
        return np.where(self.decision_function(X) > 0, 1, -1).astype(np.intp)
