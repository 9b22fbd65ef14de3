"""`SVR` and `NuSVR`: regression with a tube in which errors cost nothing."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from corevec._runtime.types import Array
from corevec.estimators._parameters import store
from corevec.estimators.svm._base import SupportVectorMachine, column_of_targets
from corevec.estimators.svm._solver import Machine, Solver, finite_price
from corevec.problems import BoxProblem, epsilon_svr, nu_svr


class TubeRegressor(RegressorMixin, SupportVectorMachine):
    """What `SVR` and `NuSVR` share; not for direct use."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the regression.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Training rows; for ``kernel="precomputed"`` the kernel values between them,
            of shape (n_rows, n_rows). A kernel function gets them as they are.
        y : array-like of shape (n_rows,)
            Target values.
        sample_weight : array-like of shape (n_rows,), optional
            Factors of C. Rows with a weight of 0 or less are left out.

        Returns
        -------
        self
            The fitted regressor, with `certificate_`.
        """
        self._fit(X, y, sample_weight)
        return self

    def _targets_of(self, y: Any) -> Array:
        return column_of_targets(self, y)

    def _problem(self, rows: Array, targets: Array, weights: Array) -> BoxProblem:
        """Return the problem of some rows."""
        raise NotImplementedError

    def _solve(self, solver: Solver, targets: Array, weights: Array) -> list[Machine]:
        rows = np.flatnonzero(weights > 0)
        problem = self._problem(rows, targets[rows], weights[rows])
        return solver.solve([problem])

    def _set_machines(self, X: Any, machines: list[Machine], targets: Array) -> None:
        self._set_one(X, machines[0])

    def predict(self, X: Any) -> Array:
        """Return the predicted target of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to predict (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions.
        """
        return self._values(X).ravel()


class SVR(TubeRegressor):
    r"""Support vector regression with the interface of scikit-learn's ``SVR``.

    It minimises

    .. math:: \tfrac12 |w|^2 + C \sum_i s_i
              \max(0, |y_i - \langle w, \varphi(x_i) \rangle - b| - \epsilon)

    exactly, with a free bias b, and measures the duality gap on all rows.

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
    C : float, default=1.0
        Price of an error: larger values fit the rows more closely. inf is a hard
        margin.
    epsilon : float, default=0.1
        Half the width of the tube, in units of y: smaller errors cost nothing.
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
        Dual coefficients: above 0 for rows above the tube.
    intercept_ : ndarray of shape (1,)
        Bias.
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
    NuSVR : The same with a share of the rows in place of epsilon.
    corevec.CoreVectorRegressor : For files, clusters and very many rows.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec.svm import SVR
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> y = np.sin(X).ravel()
    >>> SVR(C=10, epsilon=0.05).fit(X, y).score(X, y) > 0.99
    True
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: Any = 3,
        gamma: Any = "scale",
        coef0: Any = 0.0,
        tol: Any = 1e-3,
        C: Any = 1.0,
        epsilon: Any = 0.1,
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

    def _problem(self, rows: Array, targets: Array, weights: Array) -> BoxProblem:
        price = finite_price(self.C) * weights
        return epsilon_svr(rows, targets, price, self.epsilon)


class NuSVR(TubeRegressor):
    r"""Support vector regression with the interface of scikit-learn's ``NuSVR``.

    As `SVR`, but the width of the tube is found: it minimises

    .. math:: \tfrac12 |w|^2 + C \Big( \nu S \epsilon + \sum_i s_i
              \max(0, |y_i - \langle w, \varphi(x_i) \rangle - b| - \epsilon) \Big),
              \quad S = \sum_i s_i

    over epsilon as well.

    Parameters
    ----------
    nu : float, default=0.5
        Bound in (0, 1]: at most this share of the rows is outside the tube, and at
        least this share are support vectors. It takes the place of `epsilon`.
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
    tol : float, default=1e-3
        Largest violation of an optimality condition that ends the fit, as in LIBSVM.
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
        Dual coefficients: above 0 for rows above the tube.
    intercept_ : ndarray of shape (1,)
        Bias.
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
    SVR : The same with the width of the tube given.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec.svm import NuSVR
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> y = np.sin(X).ravel()
    >>> NuSVR(C=10, nu=0.3).fit(X, y).score(X, y) > 0.99
    True
    """

    def __init__(
        self,
        *,
        nu: Any = 0.5,
        C: Any = 1.0,
        kernel: Any = "rbf",
        degree: Any = 3,
        gamma: Any = "scale",
        coef0: Any = 0.0,
        shrinking: Any = True,
        tol: Any = 1e-3,
        cache_size: Any = 200,
        verbose: Any = False,
        max_iter: Any = -1,
        max_time: Any = None,
        n_jobs: Any = None,
        device: Any = None,
        memory_budget: Any = None,
    ):
        store(self, locals())

    def _problem(self, rows: Array, targets: Array, weights: Array) -> BoxProblem:
        C = finite_price(self.C)
        return nu_svr(rows, targets, C * weights, self.nu, C)
