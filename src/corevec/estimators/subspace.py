"""SubspaceClassifier and SubspaceRegressor: few vectors, weights from all rows."""

from __future__ import annotations

from numbers import Real
from os import PathLike
from typing import Any

import numpy as np

from corevec.data.sources import DEFAULT_MEMORY_BUDGET, Source
from corevec.estimators._parameters import check_flag, check_positive
from corevec.estimators._span import InSpan
from corevec.estimators.classify import CoreVectorClassifier
from corevec.estimators.regress import CoreVectorRegressor
from corevec.exceptions import InvalidInputError
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Problem
from corevec.solvers.strategy import hinge as hinge_engine


class SubspaceClassifier(InSpan, CoreVectorClassifier):
    r"""Kernel classifier with few basis vectors, whose weights see every row.

    With :math:`f = \sum_j c_j k(b_j, \cdot) + b_0` over few vectors :math:`b_j`, solves

    .. math:: \min_{c, b_0} \tfrac12 (\|w\|^2 + b_0^2)
              + \tfrac C2 \sum_i s_i \max(0, 1 - y_i f(x_i))^2,
              \quad w = \sum_j c_j \phi(b_j)

    or, with ``loss="hinge"``, the machine of scikit-learn's ``SVC``,
    :math:`C \sum_i s_i \max(0, 1 - y_i f(x_i))`, by cutting planes (Joachims and Yu
    2009). Prediction costs `n_basis` kernel values per row and class. The certificate
    is that of the *full* problem, in which w is any function: a model can be as
    accurate as the full one while its gap is not small, so read both.

    Parameters
    ----------
    n_basis : int or float, default=100
        Basis vectors; a float between 0 and 1 is a share of the rows. The pursuit
        (squared hinge) ends with fewer where the certificate meets `tol` earlier.
    basis : str or array of shape (k, n_features), default="pursuit"
        How they are chosen. "pursuit": by the functional gradient of the full
        objective and then moved, so that they are no training rows (kernel "rbf";
        for other kernels like "train"); where moving all of them exceeds
        `memory_budget`, some are moved and the others are training rows. With the
        hinge, the pre-images of CPSP.
        "train": training rows, half at random, half where those fail; with the hinge,
        CPSP(tr), the best of 59 random rows per cut. "nystroem": random rows;
        "kmeans": centres; "rpcholesky", "cholesky": randomly pivoted and incomplete
        Cholesky; "coreset": the core set of `CoreVectorClassifier`; an array: your
        own. Vectors that others span are left out, unless coefficients are penalised
        (see `regulariser`). All classes share the basis, except that
        with the hinge "pursuit" and "train" grow one each, `n_basis` in all. Where
        `n_basis` is no less than the rows, these are the basis.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        See above.
    C : float, default=1.0
        Weight of the loss: as in `CoreVectorClassifier`, or, with the hinge, as in
        ``SVC`` (the CPSP paper's C is n times that).
    kernel, gamma, degree, coef0
        As in `CoreVectorClassifier`.
    fit_intercept : bool, default=True
        Whether there is a (penalised) bias b0. The CPSP paper has none.
    regulariser : {"norm", "coefficients"}, default="norm"
        Penalise :math:`\|w\|^2`, or the coefficients' :math:`\|c\|^2` as RSVM does
        (squared hinge only), those of all vectors, whether others span them or not;
        the certificate is that of the former.
    tol : float, default=1e-3
        Relative duality gap of the full problem at which `certificate_` says
        ``converged``, below 1; the weights in the span are solved to it, and to 1e-2
        at least. Few vectors often leave a larger gap: the certificate then says
        "n_vectors reached", without a warning, because so many were asked for.
    certificate : {"auto", "exact", "projection", "sample"}, default="auto"
        How the dual value is bounded: summed over all pairs of violated rows; the
        cheap bound of the span, loose where the kernel is not of low rank; from a
        sample of the rows, with probability 0.999. "auto" is "exact" where that is
        affordable, else "projection".
    max_iter, max_time, memory_budget, class_weight, n_jobs, device
        As in `CoreVectorClassifier`.
    random_state, verbose
        As in `CoreVectorClassifier`.
    checkpoint : path, optional
        As in `CoreVectorClassifier`, once the vectors are chosen.

    Attributes
    ----------
    classes_ : ndarray
        Class labels.
    basis_vectors_ : ndarray or CSR of shape (k, n_features)
        The basis.
    basis_indices_ : ndarray of shape (k,)
        Their row numbers; -1 for those of a pursuit and others that are not rows as
        they were given.
    dual_coef_ : ndarray of shape (n_machines, k)
        Coefficients: ``decision_function = k(X, basis_vectors_) dual_coef_.T +
        intercept_``.
    intercept_ : ndarray of shape (n_machines,)
        Penalised biases.
    certificate_, history_, n_iter_, n_core_
        As in `CoreVectorClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import SubspaceClassifier
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = SubspaceClassifier(n_basis=60, basis="cholesky", C=10, gamma=1.0)
    >>> model.fit(X, y).score(X, y) > 0.99
    True
    """

    def __init__(
        self,
        n_basis: float = 100,
        basis: Any = "pursuit",
        loss: str = "squared_hinge",
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        *,
        fit_intercept: bool = True,
        regulariser: str = "norm",
        tol: float = 1e-3,
        certificate: str = "auto",
        max_iter: int | None = None,
        max_time: float | None = None,
        checkpoint: str | PathLike[str] | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        class_weight: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_basis = n_basis
        self.basis = basis
        self.loss = loss
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.regulariser = regulariser
        self.tol = tol
        self.certificate = certificate
        self.max_iter = max_iter
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.memory_budget = memory_budget
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def rsvm(cls, share: float = 0.1, **parameters: Any) -> SubspaceClassifier:
        r"""Return the Reduced SVM (Lee and Mangasarian 2001), as in the CVM paper.

        With random rows :math:`b_j`, all of which have a coefficient, it solves

        .. math:: \min_{c, b_0} \tfrac12 (\|c\|^2 + b_0^2)
                  + \tfrac C2 \sum_i s_i \max(0, 1 - y_i f(x_i))^2,
                  \quad f = \sum_j c_j k(b_j, \cdot) + b_0.

        Parameters
        ----------
        share : float, default=0.1
            Random rows in the basis, as a share of all.
        **parameters
            Of the classifier.

        Returns
        -------
        SubspaceClassifier
            Not yet fitted.
        """
        return cls(share, "nystroem", regulariser="coefficients", **parameters)

    @classmethod
    def lsvm(cls, n_basis: float = 100, **parameters: Any) -> SubspaceClassifier:
        """Return LSVM of the CVM paper: the squared hinge on a low-rank kernel.

        Parameters
        ----------
        n_basis : int or float, default=100
            Rank of the incomplete Cholesky factor (Fine and Scheinberg 2001).
        **parameters
            Of the classifier.

        Returns
        -------
        SubspaceClassifier
            Not yet fitted.
        """
        return cls(n_basis, "cholesky", **parameters)

    def _check_span(self) -> None:
        super()._check_span()
        who = type(self).__name__
        check_flag(who, "fit_intercept", self.fit_intercept)
        if self.loss == "hinge" and self.regulariser != "norm":
            raise InvalidInputError(
                f"{who}: regulariser='coefficients' needs loss='squared_hinge'.",
                parameter="regulariser",
            )

    def _certify_one(self, t: int, problem: Problem, source: Source) -> Certificate:
        if self.loss != "hinge":
            return super()._certify_one(t, problem, source)
        how = self.certificate
        return hinge_engine.verify(
            problem, _column(self._functions, t), source, how, self.tol
        )


def _column(functions: KernelExpansion, t: int) -> KernelExpansion:
    return KernelExpansion(
        functions.kernel,
        functions.basis,
        functions.coef[:, t : t + 1],
        functions.intercept[t : t + 1],
    )


class SubspaceRegressor(InSpan, CoreVectorRegressor):
    r"""Kernel regression with few basis vectors, whose weights see every row.

    Inside, y is standardised, :math:`z = (y - m)/d`. With
    :math:`f = \sum_j c_j k(b_j, \cdot) + b_0` over few vectors :math:`b_j`, solves

    .. math:: \min_{c, b_0} \tfrac12 (\|w\|^2 + b_0^2)
              + \tfrac C2 \sum_i s_i \max(0, |z_i - f(x_i)| - e)^2,
              \quad w = \sum_j c_j \phi(b_j);

    with the default tube e = 0 that is the square loss. The certificate is that of the
    full problem, in which w is any function.

    Parameters
    ----------
    n_basis, basis
        As in `SubspaceClassifier`. All targets share the basis.
    C : float, default=1.0
        Weight of the squared residual.
    tube : float, default=0.0
        Half-width e of the tube within which residuals are free, in the units of y.
    kernel, gamma, degree, coef0
        As in `CoreVectorClassifier`.
    fit_intercept, tol, certificate, max_iter, max_time, checkpoint
        As in `SubspaceClassifier`.
    memory_budget, n_jobs, device
        As in `SubspaceClassifier`.
    random_state, verbose
        As in `CoreVectorClassifier`.

    Attributes
    ----------
    basis_vectors_, basis_indices_ : ndarray
        The basis, and its row numbers (-1 for those of a pursuit and others that are
        not rows as they were given).
    dual_coef_ : ndarray of shape (n_targets, k)
        Coefficients in the units of y: ``predict = k(X, basis_vectors_) dual_coef_.T +
        intercept_``.
    intercept_, target_mean_, target_scale_, tube_
        As in `CoreVectorRegressor`.
    certificate_, history_, n_iter_, n_core_
        As in `CoreVectorClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from corevec import SubspaceRegressor
    >>> X, y = make_friedman1(1000, random_state=0)
    >>> SubspaceRegressor(n_basis=50, C=10, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    mu = None

    def __init__(
        self,
        n_basis: float = 100,
        basis: Any = "pursuit",
        C: float = 1.0,
        tube: float = 0.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        certificate: str = "auto",
        max_iter: int | None = None,
        max_time: float | None = None,
        checkpoint: str | PathLike[str] | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_basis = n_basis
        self.basis = basis
        self.C = C
        self.tube = tube
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.certificate = certificate
        self.max_iter = max_iter
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _check_tube(self) -> None:
        check_positive(type(self).__name__, "C", self.C)
        check_flag(type(self).__name__, "fit_intercept", self.fit_intercept)
        number = isinstance(self.tube, Real) and not isinstance(self.tube, bool)
        if not (number and 0 <= float(self.tube) < np.inf):
            raise InvalidInputError(
                f"{type(self).__name__}: tube={self.tube!r} must be a number of at "
                "least 0, in the units of y. CoreVectorRegressor finds the width.",
                parameter="tube",
            )
