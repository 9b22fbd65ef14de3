"""SubspaceClassifier and SubspaceRegressor: small bases, weights from all rows."""

from __future__ import annotations

from numbers import Real
from os import PathLike
from typing import Any

import numpy as np

from corevec.data.sources import DEFAULT_MEMORY_BUDGET, Source
from corevec.estimators._parameters import check_positive, store
from corevec.estimators._span import InSpan
from corevec.estimators.classify import CoreVectorClassifier
from corevec.estimators.regress import CoreVectorRegressor
from corevec.exceptions import InvalidInputError
from corevec.models.certificate import Certificate
from corevec.problems.family import Problem
from corevec.solvers.strategy import hinge as hinge_engine


class SubspaceClassifier(InSpan, CoreVectorClassifier):
    r"""Kernel classifier with a small basis, whose weights are fitted on all rows.

    With :math:`f = \sum_j c_j k(b_j, \cdot) + b_0` over a basis :math:`b_j`, solves

    .. math:: \min_{c, b_0} \tfrac12 (\|w\|^2 + b_0^2)
              + \tfrac C2 \sum_i s_i \max(0, 1 - y_i f(x_i))^2,
              \quad w = \sum_j c_j \phi(b_j)

    or, with ``loss="hinge"``, the problem of scikit-learn's ``SVC``,
    :math:`C \sum_i s_i \max(0, 1 - y_i f(x_i))`, by cutting planes (Joachims and Yu
    2009). A prediction costs `n_basis` kernel values per row and class. The certificate
    covers the *full* problem, in which w is any function: a model can be as accurate
    as the full one although its gap is not small, so consider both.

    Parameters
    ----------
    n_basis : int or float, default=100
        Number of basis vectors; a float between 0 and 1 is a share of the rows. The
        pursuit (squared hinge) stops earlier where the certificate meets `tol`.
    basis : str or array-like of shape (k, n_features), default="pursuit"
        How the basis vectors are chosen. "pursuit": by the functional gradient of the
        full objective, and then moved, so that they are not training rows (kernel
        "rbf"; for other kernels like "train"). Where moving all of them exceeds
        `memory_budget`, some are moved and the others are training rows. With the
        hinge, the pre-images of CPSP. "train": training rows, half of them random, half
        of them where the model of the random ones fails; with the hinge, CPSP(tr), the
        best of 59 random rows per cut. "nystroem": random rows. "kmeans": centres.
        "rpcholesky" and "cholesky": randomly pivoted and incomplete Cholesky
        factorisation. "coreset": the core set of `CoreVectorClassifier`. An array: the
        given vectors. Linearly dependent vectors are removed, unless the coefficients
        are penalised (see `regulariser`). All classes share the basis, except that with
        the hinge "pursuit" and "train" grow one basis per class, `n_basis` vectors in
        all. If `n_basis` is not less than the number of rows, the rows are the basis.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss function; see above.
    C : float, default=1.0
        Weight of the loss: as in `CoreVectorClassifier`, or, with the hinge, as in
        ``SVC`` (the C of the CPSP paper is n times that).
    kernel : str or callable, default="rbf"
        Kernel function: a name, "precomputed", or a function ``k(X, Z)``. See
        `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. See `CoreVectorClassifier`.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    fit_intercept : bool, default=True
        Whether to fit a (penalised) bias b0. The CPSP paper has none.
    regulariser : {"norm", "coefficients"}, default="norm"
        Penalise :math:`\|w\|^2`, or the coefficients, :math:`\|c\|^2`, as RSVM does
        (squared hinge only; linearly dependent vectors are then kept). The certificate
        covers the former problem.
    tol : float, default=1e-3
        Relative duality gap of the full problem, below 1, at which `certificate_` says
        ``converged``. The weights in the span are solved to this tolerance, and to at
        least 1e-2. A small basis often leaves a larger gap: the certificate then says
        "n_vectors reached", without a warning, because that size was requested.
    certificate : {"auto", "exact", "projection", "sample"}, default="auto"
        How the dual value is bounded: "exact", a sum over all pairs of violating rows;
        "projection", the cheap bound in the span, which is loose where the kernel
        matrix is not of low rank; "sample", an estimate from a sample of the rows that
        holds with probability 0.999. "auto" is "exact" where that is affordable, else
        "projection".
    max_iter : int, default=None
        Maximum number of rounds. None sets no limit.
    max_time : float, default=None
        Maximum time of the fit in seconds. None sets no limit.
    checkpoint : str or path-like, default=None
        File that stores the state after every round, once the vectors are chosen. A fit
        that finds the file resumes from it; a certified fit removes it.
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the data; by default an eighth of the memory of
        the machine (256 MiB to 4 GiB). It determines the block sizes
        and the size of the core set.
    class_weight : dict or "balanced", default=None
        Factor of the weights of the rows of each class.
    n_jobs : int, default=None
        Number of threads. None uses the available cores (or ``OMP_NUM_THREADS``).
    device : str, default=None
        Torch device for the passes over the rows, such as ``"cuda"``. None: the host,
        or the device of the given tensors.
    random_state : int or RandomState, default=None
        Seed of all sampling. None: always the same, so that a fit can be repeated.
    verbose : int, default=0
        1 shows a progress line on a terminal; 2 writes one log record per round.

    Attributes
    ----------
    classes_ : ndarray
        Class labels.
    basis_vectors_ : ndarray or CSR matrix of shape (k, n_features)
        Basis vectors.
    basis_indices_ : ndarray of shape (k,)
        Row numbers of the basis vectors; -1 for vectors that are not training rows.
    dual_coef_ : ndarray of shape (n_machines, k)
        Coefficients: ``decision_function = k(X, basis_vectors_) dual_coef_.T +
        intercept_``.
    intercept_ : ndarray of shape (n_machines,)
        Penalised bias of each machine.
    certificate_ : Certificate
        Primal and dual value, relative gap, and what was verified.
    history_ : list of dict
        One record per round.
    n_iter_ : int
        Number of rounds.
    n_core_ : int
        Rows in the largest core set or basis.

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
        store(self, locals())

    @classmethod
    def rsvm(cls, share: float = 0.1, **parameters: Any) -> SubspaceClassifier:
        r"""Return a Reduced SVM (Lee and Mangasarian 2001), as in the CVM paper.

        With random rows :math:`b_j`, all of which have a coefficient, it solves

        .. math:: \min_{c, b_0} \tfrac12 (\|c\|^2 + b_0^2)
                  + \tfrac C2 \sum_i s_i \max(0, 1 - y_i f(x_i))^2,
                  \quad f = \sum_j c_j k(b_j, \cdot) + b_0.

        Parameters
        ----------
        share : float, default=0.1
            Share of the rows that are drawn for the basis.
        **parameters
            Further parameters of the classifier.

        Returns
        -------
        SubspaceClassifier
            The classifier, not fitted.
        """
        return cls(share, "nystroem", regulariser="coefficients", **parameters)

    @classmethod
    def lsvm(cls, n_basis: float = 100, **parameters: Any) -> SubspaceClassifier:
        """Return the LSVM of the CVM paper: squared hinge on a low-rank kernel.

        Parameters
        ----------
        n_basis : int or float, default=100
            Rank of the incomplete Cholesky factor (Fine and Scheinberg 2001).
        **parameters
            Further parameters of the classifier.

        Returns
        -------
        SubspaceClassifier
            The classifier, not fitted.
        """
        return cls(n_basis, "cholesky", **parameters)

    def _check_span(self) -> None:
        super()._check_span()
        if self.loss == "hinge" and self.regulariser != "norm":
            raise InvalidInputError(
                f"{type(self).__name__}: regulariser='coefficients' needs "
                "loss='squared_hinge'.",
                parameter="regulariser",
            )

    def _certify_one(self, t: int, problem: Problem, source: Source) -> Certificate:
        if self.loss != "hinge":
            return super()._certify_one(t, problem, source)
        how = self.certificate
        return hinge_engine.verify(
            problem, self._functions.output(t), source, how, self.tol
        )


class SubspaceRegressor(InSpan, CoreVectorRegressor):
    r"""Kernel regression with a small basis, whose weights are fitted on all rows.

    y is standardised, :math:`z = (y - m)/d`. With
    :math:`f = \sum_j c_j k(b_j, \cdot) + b_0` over basis vectors :math:`b_j`, solves

    .. math:: \min_{c, b_0} \tfrac12 (\|w\|^2 + b_0^2)
              + \tfrac C2 \sum_i s_i \max(0, |z_i - f(x_i)| - e)^2,
              \quad w = \sum_j c_j \phi(b_j);

    which for the default tube, e = 0, is the squared loss. The certificate covers the
    full problem, in which w is any function.

    Parameters
    ----------
    n_basis : int or float, default=100
        Number of basis vectors; a float between 0 and 1 is a share of the rows.
    basis : str or array-like of shape (k, n_features), default="pursuit"
        How the basis vectors are chosen. All targets share the basis. See
        `SubspaceClassifier`.
    C : float, default=1.0
        Weight of the squared residual.
    tube : float, default=0.0
        Half-width e of the tube, in the units of y. Residuals within the tube cost
        nothing.
    kernel : str or callable, default="rbf"
        Kernel function: a name, "precomputed", or a function ``k(X, Z)``. See
        `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. See `CoreVectorClassifier`.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    fit_intercept : bool, default=True
        Whether to fit a (penalised) bias b0.
    tol : float, default=1e-3
        Relative duality gap of the full problem, below 1, at which `certificate_` says
        ``converged``. See `SubspaceClassifier`.
    certificate : {"auto", "exact", "projection", "sample"}, default="auto"
        How the dual value is bounded. See `SubspaceClassifier`.
    max_iter : int, default=None
        Maximum number of rounds. None sets no limit.
    max_time : float, default=None
        Maximum time of the fit in seconds. None sets no limit.
    checkpoint : str or path-like, default=None
        File that stores the state after every round, once the vectors are chosen. A fit
        that finds the file resumes from it; a certified fit removes it.
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the data; by default an eighth of the memory of
        the machine (256 MiB to 4 GiB). It determines the block sizes
        and the size of the core set.
    n_jobs : int, default=None
        Number of threads. None uses the available cores (or ``OMP_NUM_THREADS``).
    device : str, default=None
        Torch device for the passes over the rows, such as ``"cuda"``. None: the host,
        or the device of the given tensors.
    random_state : int or RandomState, default=None
        Seed of all sampling. None: always the same, so that a fit can be repeated.
    verbose : int, default=0
        1 shows a progress line on a terminal; 2 writes one log record per round.

    Attributes
    ----------
    basis_vectors_ : ndarray or CSR matrix of shape (k, n_features)
        Basis vectors.
    basis_indices_ : ndarray of shape (k,)
        Row numbers of the basis vectors; -1 for vectors that are not training rows.
    dual_coef_ : ndarray of shape (n_targets, k)
        Coefficients in the units of y: ``predict = k(X, basis_vectors_) dual_coef_.T +
        intercept_``.
    intercept_ : ndarray of shape (n_targets,)
        The bias plus the mean of y.
    target_mean_ : ndarray of shape (n_targets,)
        Mean m of each target.
    target_scale_ : ndarray of shape (n_targets,)
        Standard deviation d of each target.
    tube_ : float or ndarray of shape (n_targets,)
        Half-width of the tube, in the units of y.
    certificate_ : Certificate
        Primal and dual value, relative gap, and what was verified.
    history_ : list of dict
        One record per round.
    n_iter_ : int
        Number of rounds.
    n_core_ : int
        Rows in the largest core set or basis.

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
        store(self, locals())

    def _check_tube(self) -> None:
        check_positive(type(self).__name__, "C", self.C)
        number = isinstance(self.tube, Real) and not isinstance(self.tube, bool)
        if not (number and 0 <= float(self.tube) < np.inf):
            raise InvalidInputError(
                f"{type(self).__name__}: tube={self.tube!r} must be a number of at "
                "least 0, in the units of y. CoreVectorRegressor can find the width.",
                parameter="tube",
            )
