"""CoreVectorRegressor: the L2-SVR of Core Vector Regression, with a certificate."""

from __future__ import annotations

from functools import partial
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from corevec._runtime.types import Array
from corevec.backend.arrays import column_of, to_device_of
from corevec.data.sources import DEFAULT_MEMORY_BUDGET, Column, named_columns
from corevec.estimators._base import CoreVectorEstimator
from corevec.estimators._callbacks import RoundReporter, with_callbacks
from corevec.estimators._dataset import Dataset
from corevec.estimators._parameters import (
    LOSSES,
    check_choice,
    check_number,
    check_positive,
    check_share,
    store,
)
from corevec.estimators._rows import lazily
from corevec.estimators._score import Scored
from corevec.estimators.methods import Cells, CoreSet, Method, method_of
from corevec.exceptions import InvalidInputError
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import (
    AutomaticTube,
    Labels,
    Problem,
    expectile,
    regression,
)

if TYPE_CHECKING:
    from corevec.solvers.strategy.boxes import Form

# Losses at a level, which have no tube.
AT_A_LEVEL = ("expectile", "quantile")


class CoreVectorRegressor(Scored, RegressorMixin, CoreVectorEstimator):
    r"""Kernel regression for very large training sets, with a certificate.

    y is standardised, :math:`z = (y - m) / d`, with its weighted mean and standard
    deviation, so that `C` and `mu` do not depend on the unit of y. With the sum of the
    weights :math:`S = \sum_i s_i`, it solves

    .. math:: \min_{f, e \ge 0} \tfrac12 (\|w\|^2 + b_0^2)
              + \tfrac C2 \sum_i s_i \max(0, |z_i - f(x_i)| - e)^2 + C \mu S e,

    L2-SVR with the automatic tube of Core Vector Regression (Tsang, Kwok and Lai
    2005), until the relative duality gap over all rows is at most `tol`. In the units
    of y this is the same problem with ``C / d**2`` and ``mu * d``.

    Parameters
    ----------
    C : float, default=3.0
        Weight of the squared slack of a row, in units of the standardised targets. At a
        residual of a third of a standard deviation 3 pulls as hard as ``SVR(C=1)``,
        whose loss is absolute. The paper's C is ``C * mu * S``.
    kernel : str or callable, default="rbf"
        Kernel function: a name, "precomputed", or a function ``k(X, Z)``. See
        `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. See `CoreVectorClassifier`.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    loss : {"squared_hinge", "hinge", "expectile", "quantile"}, default="squared_hinge"
        "squared_hinge": the loss above, squared outside the tube. "hinge": the problem
        of scikit-learn's `SVR`, :math:`\tfrac12 \|w\|^2 + C \sum_i s_i \max(0, |z_i -
        f(x_i)| - e)` with a bias that is not penalised (the C of `SVR` is ``C d``);
        with the automatic tube that of `NuSVR`, whose nu is `mu`. "expectile": the
        squared loss with the weight ``2 level`` of a row above f and ``2 (1 - level)``
        below. "quantile": the absolute loss with the weights `level` and ``1 - level``,
        and a bias that is not penalised. The last two have no tube (`mu` and `tube` are
        ignored); two fits at the levels 0.05 and 0.95 give an interval.
    level : float, default=0.5
        Level of the expectile or quantile, between 0 and 1.
    tube : {"auto", "paper"} or float, default="auto"
        Half-width of the tube. "auto" finds a width e >= 0; "paper" also allows a
        negative one, as printed in the paper. A number fixes the width in the units of
        y, like `epsilon` of scikit-learn's ``SVR``; the term ``C mu S e`` is then
        dropped.
    mu : float, default=0.3
        Mean slack outside the automatic tube, in standard deviations of y: where the
        tube is positive, the weighted mean of ``max(0, |z - f| - e)`` is `mu`. A
        smaller `mu` gives a wider tube and fewer support vectors; if it is too small,
        the flattest function within the tube explains nothing. With ``loss="hinge"``
        it is the share of the rows outside the tube, at most 1. It is ignored (and may
        be None) with a fixed tube.
    fit_intercept : bool, default=True
        Whether to fit a (penalised) bias b0. Without it y is not
        centred, and d is its root mean square.
    method : str or object of `corevec.methods`, default="auto"
        How the problem is solved: "auto", "exact", "lowrank", "coreset", "few-vectors",
        "cells" or "sample", or an object with parameters, such as
        ``methods.CoreSet(max_vectors=500)``; see `CoreVectorClassifier`. `method_` says
        what was taken, and why.
    tol : float, default=1e-3
        Tolerance: the relative duality gap to reach, measured on all rows.
    max_iter : int, default=None
        Maximum number of rounds. None sets no limit.
    max_time : float, default=None
        Maximum time of the fit in seconds. None sets no limit.
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the data; by default an eighth of the memory of
        the machine (256 MiB to 4 GiB). It determines the block sizes
        and the size of the core set.
    checkpoint : str or path-like, default=None
        File that stores the state after every round (rounds shorter than a second may
        be skipped). A fit that finds the file resumes from it, on any machine; a
        certified fit removes it.
    n_jobs : int, default=None
        Number of threads. None uses the available cores (or ``OMP_NUM_THREADS``).
    device : str, default=None
        Torch device for the passes over the rows, such as ``"cuda"``. None: the host,
        or the device of the given tensors.
    warm_start : bool, default=False
        Start from the solution of the previous fit: another C on the same rows, or new
        rows.
    random_state : int or RandomState, default=None
        Seed of all sampling. None: always the same, so that a fit can be repeated.
    verbose : int, default=0
        1 shows a progress line on a terminal; 2 writes one log record per round.

    Attributes
    ----------
    tube_ : float or ndarray of shape (n_targets,)
        Half-width of the tube, in the units of y.
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors; -1 for vectors that are no training rows.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        Support vectors: the rows of the kernel expansion. With `FewVectors` the basis,
        which need not be training rows.
    dual_coef_ : ndarray of shape (n_targets, n_support)
        Coefficients in the units of y: ``predict = k(X, support_vectors_) dual_coef_.T
        + intercept_``.
    intercept_ : ndarray of shape (n_targets,)
        The bias plus the mean of y.
    target_mean_ : ndarray of shape (n_targets,)
        Mean m of each target.
    target_scale_ : ndarray of shape (n_targets,)
        Standard deviation d of each target.
    method_ : str
        What `method` took, and why, in one sentence.
    certificate_ : Certificate
        Primal and dual value of the standardised problem, relative gap, and what was
        verified.
    history_ : list of dict
        One record per round.
    n_iter_ : int
        Number of rounds.
    n_core_ : int
        Rows in the largest core set or basis.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from corevec import CoreVectorRegressor
    >>> X, y = make_friedman1(1000, random_state=0)
    >>> model = CoreVectorRegressor(C=10, random_state=0).fit(X, y)
    >>> model.certificate_.converged
    True
    """

    _task, _serves = "numbers", "regressor"

    def __init__(
        self,
        C: float = 3.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        loss: str = "squared_hinge",
        level: float = 0.5,
        tube: str | float = "auto",
        mu: float | None = 0.3,
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-3,
        max_iter: int | None = None,
        max_time: float | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        device: str | list[str] | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ):
        store(self, locals())

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: str | None = None,
    ) -> Self:
        """Fit the regressor.

        Parameters
        ----------
        X : array-like, CSR matrix or memmap of shape (n_rows, n_features)
            Training rows; a square kernel matrix for ``kernel="precomputed"``. Remote
            or out-of-core rows: a Dask array or data frame, a Spark data frame, or the
            result of `corevec.open`, which contains its own y and weights.
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            Targets. Several targets share the passes over the rows.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows: 0 excludes a row, 2 counts it twice.
        target : str, optional
            The name of a column of X, a data frame, that is y; `sample_weight` may be
            such a name, too. The other columns are the features.

        Returns
        -------
        self
            The fitted regressor, with `certificate_`.
        """
        self._check_tube()
        self._check_loss()
        columns = named_columns(type(self).__name__, X, y, sample_weight, target)
        X, y, sample_weight = columns
        X, y = self._validate_fit(X, y, multi_output=True, y_numeric=True)
        with self._fitting(X, y, sample_weight) as (given, reporter):
            in_memory = isinstance(given.target, np.ndarray)
            self._one_target = y.ndim == 1 if in_memory else given.n_targets == 1
            self._fit_targets(given, reporter)
        return self

    def _fit_targets(self, given: Dataset, reporter: RoundReporter) -> None:
        """Fit one machine per standardised target."""
        problems = self._begin(given)
        local = self._by_cells(given, problems)
        if local is not None:
            offsets = local.fit(reporter).offset  # the mean over the cells
            self._in_units_of_y()
        else:
            title = "one problem per target"
            offsets = self._fit_problems(given, problems, title, reporter).offsets
        is_automatic = isinstance(self.tube, str) and self.loss not in AT_A_LEVEL
        tube = offsets if is_automatic else self._fixed_tube()
        tube = tube * self.target_scale_
        self.tube_ = float(tube[0]) if self._one_target else tube

    def _begin(self, given: Dataset) -> list[Problem]:
        """Note the moments of the targets, and return the problems to solve."""
        moments = given.target_moments(bool(self.fit_intercept))
        self.target_mean_, self.target_scale_ = moments
        return self._problems_for(given)

    @lazily
    def predict(self, X: Any) -> Array:
        """Return the predicted targets.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to predict (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_targets)
            In the units of y.
        """
        return self._targets_of(self._values(X))

    def _targets_of(self, values: Array) -> Array:
        """Return values of the machines in the units of y."""
        values = values * to_device_of(self.target_scale_, values)
        values = values + to_device_of(self.target_mean_, values)
        return (
            column_of(values, 0) if self.__dict__.get("_one_target", True) else values
        )

    def _in_units_of_y(self) -> None:
        """Scale the coefficients of the machines of the cells to the units of y."""
        model: Any = self
        model.dual_coef_ = model.dual_coef_ * self.target_scale_[:, None]
        own = model.intercept_ * self.target_scale_
        model.intercept_ = own + self.target_mean_

    def _check_tube(self) -> None:
        who = type(self).__name__
        check_positive(who, "C", self.C)
        if isinstance(self.tube, str):
            if self.tube not in ("auto", "paper"):
                raise InvalidInputError(
                    f"{who}: tube={self.tube!r} must be 'auto', 'paper' or a number of "
                    "at least 0, in the units of y.",
                    parameter="tube",
                )
            remedy = (
                "It is the mean slack outside the automatic tube, in deviations of y, "
                "e.g. 0.3; only a fixed tube (tube=0.1) needs none."
            )
            check_number(who, "mu", self.mu, above=0, remedy=remedy)
            check_positive(who, "mu", self.mu)
            return
        is_number = isinstance(self.tube, Real) and not isinstance(self.tube, bool)
        if not (is_number and 0 <= float(self.tube) < np.inf):
            raise InvalidInputError(
                f"{who}: tube={self.tube!r} must be 'auto', 'paper' or a number of at "
                "least 0, in the units of y.",
                parameter="tube",
            )

    def _check_method(self, method: Method) -> None:
        super()._check_method(method)
        is_ball = isinstance(self.tube, str) and self.loss not in AT_A_LEVEL
        if is_ball or not isinstance(method, CoreSet):
            return
        for name, value, usual in (
            ("ball_epsilon", method.ball_epsilon, None),
            ("qp", method.qp if method.qp == "smo" else None, "auto"),
        ):
            if value is not None:
                raise InvalidInputError(
                    f"{type(self).__name__}: method__{name}={value!r} needs tube='auto'"
                    f" or 'paper', but tube={self.tube!r} was given: with a fixed tube "
                    f"the problem is not an enclosing ball. Use {name}={usual!r}.",
                    parameter=f"method__{name}",
                )

    def _fixed_tube(self) -> Array:
        """Return the fixed tube of each target, in units of its standard deviation."""
        if self.loss in AT_A_LEVEL:
            return np.zeros_like(self.target_scale_)
        return np.asarray(float(self.tube) / self.target_scale_)

    def _problems_for(self, given: Dataset) -> list[Problem]:
        who = type(self).__name__
        if given.target is None:
            raise InvalidInputError(
                f"{who}: targets y are needed to certify a regressor."
            )
        if given.n_targets != len(self.target_mean_):
            raise InvalidInputError(
                f"{who}: y has {given.n_targets} target(s), but the model has "
                f"{len(self.target_mean_)}. Give those that it was fitted on."
            )
        labels = given.problem_labels()
        z = given.standardised(self.target_mean_, self.target_scale_)
        return [self._problem(labels, one, t) for t, one in enumerate(z)]

    def _problem(self, labels: Labels, z: Column, t: int) -> Problem:
        mean, scale = self.target_mean_[t], self.target_scale_[t]
        C = self.__dict__.get("C_", self.C)  # C_: tuned by cells
        units = f"z = (y - {mean:.6g}) / {scale:.6g}"
        has_bias = bool(self.fit_intercept)
        if self.loss == "expectile":
            return expectile(labels, C, z, self.level, units=units, has_bias=has_bias)
        tube = self._tube_of(t)
        return regression(labels, C, z, tube, units=units, has_bias=has_bias)

    def _box_form(self) -> Form | None:
        if self.loss == "quantile":
            from corevec.solvers.strategy.boxes import pinball

            return partial(pinball, level=float(self.level))
        if self.loss == "hinge":
            from corevec.solvers.strategy import boxes

            return boxes.regression
        return None

    def _check_loss(self) -> None:
        who = type(self).__name__
        check_choice(who, "loss", self.loss, allowed=(*LOSSES, *AT_A_LEVEL))
        if self.loss in AT_A_LEVEL:
            check_share(who, "level", self.level)
        if self.loss == "hinge" and isinstance(self.tube, str) and self.mu > 1:
            raise InvalidInputError(
                f"{who}: mu={self.mu!r} must be at most 1 with loss='hinge': it is the "
                "share of the rows outside the tube, the nu of NuSVR.",
                parameter="mu",
            )
        method = method_of(self)
        is_ball = isinstance(method, CoreSet) and method.ball_epsilon is not None
        if self.loss == "expectile" and (is_ball or isinstance(method, Cells)):
            raise InvalidInputError(
                f"{who}: method={self.method!r} was given, but loss='expectile' is "
                "solved on all rows at once. Use method='auto'.",
                parameter="method",
            )

    def _tube_of(self, t: int) -> float | AutomaticTube:
        """Return the tube of one target."""
        if not isinstance(self.tube, str) or self.loss in AT_A_LEVEL:
            return float(self._fixed_tube()[t])
        return AutomaticTube(self.mu or 0.0, self.tube == "paper")

    def _attributes(self, functions: KernelExpansion) -> dict[str, Any]:
        found = super()._attributes(functions)
        found["dual_coef_"] = found["dual_coef_"] * self.target_scale_[:, None]
        found["intercept_"] = (
            found["intercept_"] * self.target_scale_ + self.target_mean_
        )
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags
