"""CoreVectorOneClass and SVDD: outlier and novelty detection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import ClassifierTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.progress import RoundState
from corevec._runtime.types import Array
from corevec.backend.arrays import column_of, to_device_of
from corevec.data.sources import DEFAULT_MEMORY_BUDGET, named_columns
from corevec.estimators._base import CoreVectorEstimator
from corevec.estimators._callbacks import RoundReporter, with_callbacks
from corevec.estimators._dataset import Dataset
from corevec.estimators._outlier_probability import (
    MARKED_ROWS,
    marks_of,
    probabilities,
    scores_of,
)
from corevec.estimators._outliers import BallDetector, ScoredDetector, constant_of
from corevec.estimators._parameters import (
    LOSSES,
    check_choice,
    check_positive,
    check_share,
    store,
)
from corevec.estimators._rows import lazily
from corevec.estimators._share import ShareFit, quantile
from corevec.estimators.methods import Cells, CoreSet, Method, method_of
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows, make_kernel
from corevec.problems.family import Problem, one_class, svdd

if TYPE_CHECKING:
    from corevec.solvers.strategy.boxes import Form


class _Detector(CoreVectorEstimator):
    """Base class of the two detectors: rows without labels."""

    def _check_method(self, method: Method) -> None:
        super()._check_method(method)
        if isinstance(method, CoreSet) and method.init == "opposite":
            raise InvalidInputError(
                f"{type(self).__name__}: method__init='opposite' needs two classes; "
                "use 'auto', 'any' or 'farthest'.",
                parameter="method__init",
            )

    @contextmanager
    def _fitting_rows(
        self, X: Any, sample_weight: Any
    ) -> Iterator[tuple[Dataset, RoundReporter]]:
        who = type(self).__name__
        X, _, sample_weight = named_columns(who, X, None, sample_weight, None)
        X = self._validate_fit(X)
        with self._fitting(X, None, sample_weight) as found:
            yield found


def _has_marks(model: Any) -> bool:
    """Whether probabilities can be had; a model of an older file has no marks."""
    if model.__sklearn_is_fitted__() and not hasattr(model, "probability_marks_"):
        raise AttributeError(
            "predict_proba needs probability_marks_, which models of older files do "
            "not have: fit again"
        )
    return True


class CoreVectorOneClass(ScoredDetector, _Detector):
    r"""One-class L2-SVM for very large training sets, with a certificate.

    Solves the one-class problem of the CVM paper (section 3.2.1), scaled to rho = 1,

    .. math:: \min_w \tfrac12 \|w\|^2 + \tfrac C2 \sum_i s_i \max(0, 1 - f(x_i))^2,

    with :math:`f(x) = \langle w, \varphi(x) \rangle`; rows with f(x) < 1 are outliers.
    For a kernel with constant k(x, x) the solution is the ball of `SVDD` with a quarter
    of this C. With ``loss="hinge"`` it solves the problem of scikit-learn's
    `OneClassSVM`,

    .. math:: \min_{w, \rho} \tfrac12 \|w\|^2 + \sum_i s_i \max(0, \rho - f(x_i))
              - \nu \rho \sum_i s_i,

    whose outliers are the rows with :math:`f(x) < \rho`.

    Parameters
    ----------
    nu : float, default=0.1
        Share of outliers among the training rows (by weight), strictly between 0 and 1.
        The fit searches for the C that gives it, within 2 % of nu or one row, and
        lowers `offset_` where no C does.
    C : float, default="auto"
        Weight of the squared slack. "auto": the one that `nu` asks for; with a number
        `nu` is not used. The hinge has `nu` only.
    kernel : str or callable, default="rbf"
        Kernel function: a name, "precomputed", or a function ``k(X, Z)``. See
        `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. See `CoreVectorClassifier`.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss function. "hinge" needs no search for C: at most the share `nu` of the rows
        is outside, and at least that share are support vectors.
    method : str or object of `corevec.methods`, default="auto"
        How the problem is solved: "auto", "exact", "lowrank",
        "coreset", "cells" or "sample", or an object with parameters, such as
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
    C_ : float
        The C of the solution: the given one, or the one found for nu. Not set by
        ``loss="hinge"``.
    offset_ : float
        ``decision_function = score_samples - offset_``: 1, or less where every C
        leaves more than the share nu of the rows below 1; rho with ``loss="hinge"``.
    probability_marks_ : ndarray of shape (9,)
        Decision values between the bins of `predict_proba`.
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        Support vectors: the rows of the kernel expansion of f.
    n_support_ : ndarray of shape (1,)
        Number of support vectors.
    dual_coef_ : ndarray of shape (1, n_support)
        Coefficients of the kernel expansion of f.
    intercept_ : ndarray of shape (1,)
        ``-offset_``.
    method_ : str
        What `method` took, and why, in one sentence.
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
    >>> import numpy as np
    >>> from corevec import CoreVectorOneClass
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = CoreVectorOneClass(nu=0.05, random_state=0).fit(X)
    >>> bool(abs(np.mean(model.predict(X) == -1) - 0.05) < 0.005)
    True
    """

    _serves = "one-class"

    def __init__(
        self,
        nu: float = 0.1,
        *,
        C: str | float = "auto",
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        loss: str = "squared_hinge",
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
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the detector.

        Parameters
        ----------
        X : array-like, CSR matrix or memmap of shape (n_rows, n_features)
            Training rows.
        y : object, default=None
            Ignored; present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows: 0 excludes a row, 2 counts it twice.

        Returns
        -------
        self
            The fitted detector, with `certificate_`.
        """
        who = type(self).__name__
        check_choice(who, "loss", self.loss, LOSSES)
        if not self._seeks_C:
            self._check_C(who)
        check_share(who, "nu", self.nu)
        nu = self.nu
        with self._fitting_rows(X, sample_weight) as (given, reporter):
            if self.loss == "hinge":
                self.__dict__.pop("C_", None)
                problems = self._problems_for(given)
                self._fit_problems(given, problems, "one-class", reporter)
            elif isinstance(method_of(self), Cells):
                self._fit_locally(given, nu, reporter)
            elif not self._seeks_C:
                self.C_, self.offset_ = float(self.C), 1.0
                problems = self._problems_for(given)
                self._fit_problems(given, problems, "one-class", reporter)
            else:
                ShareFit(self, given, nu).fit(reporter)
            self.n_support_ = np.array([len(self.support_)], dtype=np.int32)
            self._mark(given)
        return self

    def _mark(self, given: Dataset) -> None:
        """Note the decision values between the bins of `predict_proba`."""
        functions, source = self.__dict__.get("_functions"), given.source
        if "_forest" in self.__dict__:
            functions, source = self._forest, source.host_copy()
        # A matrix has no rows to draw from it.
        most = source.n_rows if self.kernel == "precomputed" else MARKED_ROWS
        seed = self._settings().random_state
        with source.at_work():
            values, own = scores_of(functions, source, given.weight, most, seed)
        self.probability_marks_ = marks_of(values - self.offset_, own)

    @available_if(_has_marks)
    @lazily
    def predict_proba(self, X: Any) -> Array:
        """Return the probability that each row is an outlier, and an inlier.

        Without labels these are not calibrated: as in LIBSVM since version 3.31, they
        say in which bin of the training rows a decision value lies. The training rows
        on each side of the boundary are cut into five bins of equal weight, with the
        probabilities 0.05, 0.15, ..., 0.45 of an inlier outside, and 0.55, ..., 0.95
        inside (the bins of LIBSVM may differ).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to judge.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            Probabilities of the labels -1 and +1.
        """
        return probabilities(self.decision_function(X), self.probability_marks_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn asks whatever has `predict_proba` for how many classes.
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    @lazily
    def score_samples(self, X: Any) -> Array:
        """Return f(x): the larger, the more normal a row is.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to score.

        Returns
        -------
        ndarray of shape (n_rows,)
            Scores; rows with a score below ``offset_`` are outliers.
        """
        return column_of(self._values(X), 0)

    def _check_C(self, who: str) -> None:
        check_positive(who, "C", self.C)
        if self.loss == "hinge":
            raise InvalidInputError(
                f"{who}: C={self.C!r} was given, but loss='hinge' is the problem of "
                "OneClassSVM, which has nu in its place. Use C='auto', or loss="
                "'squared_hinge'.",
                parameter="C",
            )

    def _box_form(self) -> Form | None:
        if self.loss == "hinge":
            from corevec.solvers.strategy import boxes

            return partial(boxes.one_class, nu=float(self.nu))
        return None

    def _attributes(self, functions: Any) -> dict[str, Any]:
        if self.loss == "hinge":  # the bias is minus rho, which scores do not have
            offset = -float(functions.intercept[0])
            functions = replace(functions, intercept=np.zeros(1))
        else:
            offset = getattr(self, "offset_", 1.0)
        found = super()._attributes(functions)
        return {**found, "offset_": offset, "intercept_": np.array([-offset])}

    def _problems_for(self, given: Dataset) -> list[Problem]:
        C = 1.0 if self.loss == "hinge" else self.C_
        return [one_class(given.problem_labels(), C)]

    @property
    def _seeks_C(self) -> bool:
        """Whether C is to be found for `nu`."""
        return isinstance(self.C, str) and self.C == "auto"

    def _fit_locally(self, given: Dataset, nu: float, reporter: RoundReporter) -> None:
        """Fit one machine per cell; with `nu`, the offset leaves that share outside.

        In a cell of m rows, C = 1 / (nu m): the C that the search starts from.
        """
        method: Any = method_of(self)
        in_cell = given.mass * min(1.0, float(method.size) / given.n_rows)
        self.C_ = 1.0 / (nu * in_cell) if self._seeks_C else float(self.C)
        self._by_cells(given, self._problems_for(given)).fit(reporter)
        self.offset_ = 1.0
        if self._seeks_C:
            source = given.source.host_copy()
            self.offset_ = quantile(self, self._forest, source, given.weight)


class SVDD(BallDetector, _Detector):
    r"""Smallest enclosing ball in the feature space of the kernel, with a certificate.

    Hard margin (``C=inf``): :math:`\min R^2` with every row inside. Soft margin:

    .. math:: \min R^2 + C \sum_i s_i \xi_i^2, \quad
              \|\varphi(x_i) - c\|^2 \le R^2 + \xi_i, \; R^2 \ge 0.

    With a kernel of constant k(x, x) (rbf, laplacian, any normalised one) the soft ball
    is the solution of `CoreVectorOneClass` with four times the C. SVDD is useful where
    k(x, x) varies (linear, poly), or where the centre and the radius are needed.

    With ``kernel="precomputed"`` the distance of a row needs its k(x, x), which is not
    part of a matrix against the training rows. If k(x, x) is the same for all training
    rows (at least two of them, within a relative 1e-6), it is assumed to be the same
    for every row. Otherwise give ``diagonal=`` to `predict`, `decision_function`,
    `score_samples` and `distance`.

    Parameters
    ----------
    C : float, default=inf
        Weight of the squared slack. Infinity is the hard margin.
    kernel : str or callable, default="rbf"
        Kernel function: a name, "precomputed", or a function ``k(X, Z)``. See
        `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. See `CoreVectorClassifier`.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    method : str or object of `corevec.methods`, default="auto"
        How the problem is solved: "auto", "lowrank",
        "coreset" or "sample", or an object with parameters, such as
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
    radius_ : float
        Radius of the ball. Hard margin: the distance of the farthest training row.
    centre_norm_sq_ : float
        Squared norm of the centre, used by `distance`.
    offset_ : float
        ``-radius_**2``; ``decision_function = score_samples - offset_``.
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        Support vectors: the rows of the kernel expansion of the centre.
    n_support_ : ndarray of shape (1,)
        Number of support vectors.
    dual_coef_ : ndarray of shape (1, n_support)
        The centre is ``sum_j dual_coef_[0, j] phi(support_vectors_[j])``.
    diagonal_ : float or None
        With ``kernel="precomputed"`` only: the common k(x, x) of all training rows,
        which is also used for new rows; None where it varies.
    method_ : str
        What `method` took, and why, in one sentence.
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
    >>> from corevec import SVDD
    >>> model = SVDD(kernel="linear").fit([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]])
    >>> round(model.radius_, 6)
    1.0
    """

    _serves = "ball"

    def __init__(
        self,
        C: float = np.inf,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
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
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the ball.

        Parameters
        ----------
        X : array-like, CSR matrix or memmap of shape (n_rows, n_features)
            Training rows; a square kernel matrix for ``kernel="precomputed"``.
        y : object, default=None
            Ignored; present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows: 0 excludes a row. Other weights affect the soft margin
            only.

        Returns
        -------
        self
            The fitted ball, with `certificate_`.
        """
        if not self._is_hard:
            check_positive(type(self).__name__, "C", self.C)
        with self._fitting_rows(X, sample_weight) as (given, reporter):
            problems = self._problems_for(given)
            outcome = self._fit_problems(given, problems, "SVDD", reporter)
            radius_sq = None
            if self._is_hard and np.isfinite(self.certificate_.primal):
                radius_sq = self.certificate_.primal  # of all rows, not of a sample
            ball = _ball(float(outcome.norms_sq[0]), outcome.offsets[0], radius_sq)
            for name, value in ball.items():
                setattr(self, name, value)
            self.n_support_ = np.array([len(self.support_)], dtype=np.int32)
            self.__dict__.pop("diagonal_", None)
            if self.kernel == "precomputed":
                own = given.source.block(0, given.n_rows)
                diagonal = outcome.functions.kernel.diagonal(own)
                self.diagonal_ = constant_of(diagonal)
        return self

    def _attributes_at(self, state: RoundState) -> dict[str, Any]:
        functions = state.functions()
        values = functions.evaluate(functions.basis, functions.prepared())
        norm_sq = float((functions.coef * values).sum())
        offset = 0.0 if state.offsets is None else np.ravel(state.offsets())[0]
        return {**self._attributes(functions), **_ball(norm_sq, offset)}

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> Array:
        """Fit the ball and return +1 for the rows inside and -1 for the outliers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Training rows; a square kernel matrix for ``kernel="precomputed"``, whose
            own diagonal is k(x, x).
        y : object, default=None
            Ignored; present for compatibility with scikit-learn.
        **kwargs
            As in `fit`.

        Returns
        -------
        ndarray of int of shape (n_rows,)
            As `predict` of the training rows.
        """
        if self.kernel != "precomputed":
            return np.asarray(super().fit_predict(X, y, **kwargs))
        self.fit(X, **kwargs)
        return self.predict(X, diagonal=_own_diagonal(self._validate_new(X)))

    @lazily
    def distance(self, X: Any, diagonal: Any = None) -> Array:
        """Return the distance of each row from the centre, in the feature space.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to measure (kernel values against the training rows if precomputed).
        diagonal : array-like of shape (n_rows,), optional
            The value k(x, x) of each row; see `score_samples`.

        Returns
        -------
        ndarray of shape (n_rows,)
            ``sqrt(k(x, x) - 2 f(x) + |c|^2)``; compare with ``radius_``.
        """
        return (-self.score_samples(X, diagonal=diagonal)).clip(min=0.0) ** 0.5

    @lazily
    def score_samples(self, X: Any, diagonal: Any = None) -> Array:
        """Return minus the squared distance from the centre.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to score (kernel values against the training rows if precomputed).
        diagonal : array-like of shape (n_rows,), optional
            The value k(x, x) of each row, for ``kernel="precomputed"`` only. It is
            required where ``diagonal_`` is None; the default is ``diagonal_``.

        Returns
        -------
        ndarray of shape (n_rows,)
            The larger, the closer to the centre.
        """
        check_is_fitted(self)
        rows = self._validate_new(X)
        values = self._evaluate(self._functions, rows)[:, 0]
        constant = getattr(self, "diagonal_", None)
        own = self._diagonal_of(rows, self._functions.kernel, constant, diagonal)
        return 2 * values - to_device_of(own, values) - self.centre_norm_sq_

    def _problems_for(self, given: Dataset) -> list[Problem]:
        C = None if self._is_hard else float(self.C)
        return [svdd(given.problem_labels(), C)]

    @property
    def _is_hard(self) -> bool:
        return isinstance(self.C, Real) and np.inf == self.C


def _ball(
    norm_sq: float, offset: float, radius_sq: float | None = None
) -> dict[str, float]:
    """Return the attributes of a ball with this centre and offset, or radius."""
    if radius_sq is None:
        radius_sq = 2 * float(offset) + norm_sq
    radius = float(np.sqrt(max(radius_sq, 0.0)))
    return {"centre_norm_sq_": norm_sq, "radius_": radius, "offset_": -(radius**2)}


def _own_diagonal(K: Any) -> Array:
    """Return the diagonal of a training matrix."""
    return make_kernel("precomputed").diagonal(Rows(K, np.arange(K.shape[0])))
