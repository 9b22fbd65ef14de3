"""`compress`: a fitted kernel model replaced by one with few vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    OutlierMixin,
    RegressorMixin,
    is_classifier,
    is_outlier_detector,
    is_regressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from corevec.estimators._base import _CHECKS, CoreVectorEstimator
from corevec.estimators._parameters import _is_count
from corevec.estimators.classify import _votes
from corevec.estimators.detect import SVDD
from corevec.exceptions import InvalidInputError, KernelError
from corevec.expansion import KernelExpansion
from corevec.kernels import AnyKernel, Rows, make_kernel
from corevec.reduced import Budget, Reduced, reduce_expansion
from corevec.sources import (
    DEFAULT_MEMORY_BUDGET,
    Workers,
    as_source,
    row_statistics,
)

Array = npt.NDArray[Any]

THEIRS = (SVC, NuSVC, SVR, NuSVR, OneClassSVM)
ACCEPTED = (
    "a fitted corevec model (CoreVectorClassifier, CoreVectorRegressor, "
    "CoreVectorOneClass, SVDD, ...) or scikit-learn's SVC, NuSVC, SVR, NuSVR or "
    "OneClassSVM"
)


@dataclass(frozen=True)
class _Form:
    """How values become what a model says."""

    kind: str  # "two classes", "ovr", "ovo", "regressor", "detector", "ball"
    classes: Array | None = None
    breaks_ties: bool = True  # "ovo": whether `predict` looks at the confidence too
    raw: bool = False  # "ovo": whether `decision_function` returns the pairs
    offset: float = 0.0  # "detector", "ball": score_samples - offset decides
    one_output: bool = True
    upright: bool = True  # "ovo": whether a pair's value is above 0 for its second


class CompressedModel(BaseEstimator):
    """A kernel model in few vectors, as `compress` returns it; not made otherwise.

    It has the methods that the original has: ``predict``, for classifiers and detectors
    ``decision_function``, for detectors ``score_samples``. ``fit`` returns it as it is,
    so that it can stand at the end of a pipeline.

    Parameters
    ----------
    memory_budget : float, default=2**28
        Bytes to use beside the rows to predict.
    n_jobs : int, optional
        Threads; None uses the available cores (or ``OMP_NUM_THREADS``).

    Attributes
    ----------
    basis_vectors_ : ndarray or CSR of shape (n_basis, n_features)
        The vectors b_j; empty for ``kernel="precomputed"``.
    dual_coef_ : ndarray of shape (n_outputs, n_basis)
        Their coefficients, one row per machine (pair of classes for "ovo").
    intercept_ : ndarray of shape (n_outputs,)
        As in the original.
    distance_ : ndarray of shape (n_outputs,)
        ``|f - f'|`` in the feature space. Rounding hides less than about 1e-7 |f|.
    relative_distance_ : ndarray of shape (n_outputs,)
        The same divided by ``|f|``. ``|f(x) - f'(x)| <= distance_ sqrt(k(x, x))`` for
        every row x, training row or not.
    classes_ : ndarray
        Class labels of a classifier.
    offset_ : float
        Of a detector: ``decision_function = score_samples - offset_``.
    """

    def __init__(
        self,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        n_jobs: int | None = None,
    ):
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs

    def fit(self, X: Any = None, y: Any = None) -> CompressedModel:
        """Return the model as it is: `compress` made it.

        Parameters
        ----------
        X, y : ignored
            There for scikit-learn's sake.

        Returns
        -------
        self
            Unchanged.
        """
        check_is_fitted(self)
        return self

    def predict(self, X: Any) -> Array:
        """Return what the original would, nearly: targets, or scores of a ranker.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_targets)
            Values.
        """
        values = self._values(X)
        return np.ascontiguousarray(values[:, 0]) if self._form.one_output else values

    def _values(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **_CHECKS)
        with Workers(self.n_jobs) as workers:
            source = as_source(X, self.memory_budget, workers)
            return np.asarray(self._functions.values(source))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `compress` made it."""
        return hasattr(self, "_functions")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.requires_fit = True
        return tags


class CompressedClassifier(ClassifierMixin, CompressedModel):
    """The `CompressedModel` of a classifier."""

    def decision_function(self, X: Any) -> Array:
        """Return signed values as the original does.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,), (n_rows, n_classes) or (n_rows, n_pairs)
            Above 0 for ``classes_[1]``; or one column per class, or per pair of classes
            for an SVC with ``decision_function_shape="ovo"``.
        """
        values, form = self._values(X), self._form
        if form.kind == "two classes":
            return np.ascontiguousarray(values[:, 0])
        if form.kind == "ovr" or form.raw:
            return values
        return _votes(values if form.upright else -values, len(self.classes_))

    def predict(self, X: Any) -> Array:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels out of ``classes_``.
        """
        values, form = self._values(X), self._form
        if form.kind == "two classes":
            return np.asarray(self.classes_[(values[:, 0] > 0).astype(int)])
        if form.kind == "ovo":
            n_classes = len(self.classes_)
            values = _votes(values if form.upright else -values, n_classes)
            # The confidence is less than half a vote: rounding leaves the votes.
            values = values if form.breaks_ties else np.round(values)
        return np.asarray(self.classes_[values.argmax(axis=1)])


class CompressedRegressor(RegressorMixin, CompressedModel):
    """The `CompressedModel` of a regressor."""


class CompressedDetector(OutlierMixin, CompressedModel):
    """The `CompressedModel` of a one-class machine or a ball."""

    def score_samples(self, X: Any) -> Array:
        """Return the larger values, the more a row belongs.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to score.

        Returns
        -------
        ndarray of shape (n_rows,)
            f(x), or minus the squared distance from a ball's centre.
        """
        values = self._values(X)[:, 0]
        if self._form.kind == "detector":
            return np.asarray(values - self.intercept_[0])
        X = validate_data(self, X, reset=False, **_CHECKS)
        own = as_source(X, self.memory_budget).map(self._functions.kernel.diagonal)
        return np.asarray(2 * values - own - self._centre_norm_sq)

    def decision_function(self, X: Any) -> Array:
        """Return ``score_samples(X) - offset_``: below 0 for outliers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to judge.

        Returns
        -------
        ndarray of shape (n_rows,)
            Signed distance-like value.
        """
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> Array:
        """Return +1 for rows that belong, -1 for outliers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to judge.

        Returns
        -------
        ndarray of int of shape (n_rows,)
            +1 where ``decision_function`` is at least 0.
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)


def compress(
    model: Any,
    n_basis: int,
    *,
    X: Any = None,
    max_iter: int = 100,
    memory_budget: float = DEFAULT_MEMORY_BUDGET,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> CompressedModel:
    r"""Return a fitted kernel model with few vectors in place of its many.

    The reduced-set method (Burges and Schoelkopf 1997): for the model's functions
    :math:`f_t = \sum_i a_{it} \varphi(x_i)`, find vectors b and coefficients c with

    .. math:: \min_{b, c} \sum_t \frac{1}{\|f_t\|^2}
              \Big\| f_t - \sum_j c_{jt} \varphi(b_j) \Big\|^2 .

    Several outputs (classes, pairs of classes, targets) share the vectors. Prediction
    then costs `n_basis` kernel values per row.

    For "rbf", "linear" and "poly" the vectors are no training rows; for other kernels,
    and where dense vectors with L-BFGS would exceed `memory_budget` (text with many
    columns), they are the best of the model's own.

    Parameters
    ----------
    model : estimator
        A fitted corevec model, or scikit-learn's SVC, NuSVC, SVR, NuSVR, OneClassSVM.
    n_basis : int
        Number of vectors, at least 1. A model with no more vectors keeps its own, and
        the distance is 0. Fewer are used where they are linearly dependent.
    X : array-like or CSR matrix, optional
        The training rows (or kernel matrix). Only for a scikit-learn model whose own
        attributes do not say enough: with ``gamma="scale"`` (the default there), a
        precomputed or a callable kernel.
    max_iter : int, default=100
        L-BFGS steps that move the vectors; 0 keeps rows of the model.
    memory_budget : float, default=2**28
        Bytes to use beside the model.
    n_jobs : int, optional
        Threads; None uses the available cores (or ``OMP_NUM_THREADS``).
    random_state : int or RandomState, optional
        Seed of the starts.

    Returns
    -------
    CompressedModel
        With ``predict`` and ``decision_function`` as the original has them, and
        ``basis_vectors_``, ``dual_coef_``, ``intercept_``, ``distance_``,
        ``relative_distance_``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> from corevec import compress
    >>> X, y = make_moons(2000, noise=0.3, random_state=0)
    >>> model = SVC(gamma=1.0).fit(X, y)
    >>> small = compress(model, 20, random_state=0)
    >>> len(model.support_vectors_) > 400, len(small.basis_vectors_)
    (True, 20)
    >>> bool((small.predict(X) == model.predict(X)).mean() > 0.99)
    True
    """
    _check_arguments(n_basis, max_iter)
    seed = check_random_state(random_state).randint(2**31 - 1)
    rng = np.random.default_rng(seed)
    with Workers(n_jobs) as workers:
        functions, form = _read(model, X, workers)
        budget = Budget(workers, int(memory_budget), int(max_iter))
        try:
            found = reduce_expansion(functions, int(n_basis), budget, rng)
        except KernelError as error:
            raise KernelError(f"compress: {error}") from None
    small = _class_for(form)(memory_budget=memory_budget, n_jobs=n_jobs)
    _set_attributes(small, found, form)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(small, name, getattr(model, name))
    return small


def _check_arguments(n_basis: Any, max_iter: Any) -> None:
    if not _is_count(n_basis):
        raise InvalidInputError(
            f"compress: n_basis={n_basis!r} must be a whole number of at least 1: how "
            "many vectors the model may have."
        )
    whole = isinstance(max_iter, Integral) and not isinstance(max_iter, bool)
    if not (whole and int(max_iter) >= 0):
        raise InvalidInputError(
            f"compress: max_iter={max_iter!r} must be a whole number of at least 0; "
            "0 keeps rows of the model."
        )


def _read(model: Any, X: Any, workers: Workers) -> tuple[KernelExpansion, _Form]:
    """Return the functions of a fitted model, and what is made of their values."""
    ours = isinstance(model, CoreVectorEstimator) or isinstance(
        getattr(model, "_functions", None), KernelExpansion
    )
    if not ours and not isinstance(model, THEIRS):
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise InvalidInputError(
            f"compress: a {name} was given; {ACCEPTED} can be compressed. Of a "
            "pipeline or a search, give the kernel model inside (its last step)."
        )
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise NotFittedError(
            f"compress: this {type(model).__name__} is not fitted. Call its fit first."
        ) from None
    return _read_ours(model) if ours else _read_theirs(model, X, workers)


def _read_ours(model: Any) -> tuple[KernelExpansion, _Form]:
    own: KernelExpansion = model._functions
    if isinstance(model, CompressedModel):
        return own, model._form
    if is_outlier_detector(model):
        offset = float(model.offset_)
        if isinstance(model, SVDD):
            return own, _Form("ball", offset=offset)
        shifted = replace(own, intercept=np.array([-offset]))
        return shifted, _Form("detector", offset=offset)
    if is_classifier(model):
        classes = model.classes_
        if len(classes) == 2:
            return own, _Form("two classes", classes)
        return own, _Form(getattr(model, "multi_class", "ovr"), classes)
    # A regressor's functions are in deviations of its targets.
    scale = getattr(model, "target_scale_", np.ones(own.coef.shape[1]))
    mean = getattr(model, "target_mean_", np.zeros(own.coef.shape[1]))
    functions = replace(
        own, coef=own.coef * scale, intercept=own.intercept * scale + mean
    )
    one_output = bool(getattr(model, "_one_target", len(scale) == 1))
    kind = "regressor" if is_regressor(model) else "scores"
    return functions, _Form(kind, one_output=one_output)


def _read_theirs(model: Any, X: Any, workers: Workers) -> tuple[KernelExpansion, _Form]:
    kernel, vectors = _kernel_and_vectors(model, X, workers)
    dual = model.dual_coef_
    dual = np.asarray(dual.toarray() if sparse.issparse(dual) else dual, np.float64)
    intercept = np.array(model.intercept_, dtype=np.float64)
    if is_classifier(model):
        classes = model.classes_
        if len(classes) > 2:
            coef = _pairs(dual, model.n_support_)
            raw = model.decision_function_shape == "ovo"
            ties = bool(model.break_ties)
            form = _Form("ovo", classes, ties, raw, upright=False)
            return KernelExpansion(kernel, vectors, coef, intercept), form
        form = _Form("two classes", classes)
    elif is_outlier_detector(model):
        form = _Form("detector", offset=float(np.ravel(model.offset_)[0]))
    else:
        form = _Form("regressor")
    coef = np.ascontiguousarray(dual.T)
    return KernelExpansion(kernel, vectors, coef, intercept), form


def _kernel_and_vectors(model: Any, X: Any, workers: Workers) -> tuple[AnyKernel, Rows]:
    """Return a scikit-learn model's kernel and support vectors, from public names."""
    who, numbers = type(model).__name__, model.support_.astype(np.int64)
    by_rows = callable(model.kernel) or model.kernel == "precomputed"
    in_words = model.gamma == "scale" and model.kernel in ("rbf", "poly", "sigmoid")
    if X is None and (by_rows or in_words):
        word = "callable" if callable(model.kernel) else repr(model.kernel)
        reason = f"kernel={word}" if by_rows else "gamma='scale'"
        raise InvalidInputError(
            f"compress: a {who} with {reason} was given, whose fitted attributes do "
            "not tell its kernel values. Give the rows it was fitted on: "
            f"compress(model, n_basis, X=X_train){'' if by_rows else ', or set gamma'}."
        )
    if X is not None:
        X = check_array(X, **_CHECKS)
        # With a callable kernel scikit-learn does not say how many columns there were.
        n_columns = getattr(model, "n_features_in_", X.shape[1])
        if X.shape[1] != n_columns or X.shape[0] <= numbers.max(initial=-1):
            raise InvalidInputError(
                f"compress: X has shape {X.shape}, but the {who} was fitted on "
                f"{n_columns} columns and more than {numbers.max()} rows. "
                "Give the rows it was fitted on."
            )
    if by_rows:
        return make_kernel(model.kernel), Rows(X[numbers], numbers)
    vectors = model.support_vectors_
    seen = vectors if X is None else X
    if seen.shape[0] == 0:  # a constant function: any kernel will do
        return make_kernel("linear"), Rows(vectors, numbers)
    statistics = row_statistics(as_source(seen, workers=workers))
    kernel = make_kernel(
        model.kernel, model.gamma, model.degree, model.coef0, statistics
    )
    return kernel, Rows(vectors, numbers)


def _pairs(dual: Array, n_support: Array) -> Array:
    """Return one column of coefficients per pair of classes (i, j).

    scikit-learn packs them: row j - 1 of class i's vectors and row i of class j's.
    """
    ends = np.concatenate([[0], np.cumsum(n_support)])
    pairs = list(combinations(range(len(n_support)), 2))
    coef = np.zeros((dual.shape[1], len(pairs)))
    for column, (i, j) in enumerate(pairs):
        first, second = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        coef[first, column] = dual[j - 1, first]
        coef[second, column] = dual[i, second]
    return coef


def _class_for(form: _Form) -> type[CompressedModel]:
    if form.classes is not None:
        return CompressedClassifier
    if form.kind in ("detector", "ball"):
        return CompressedDetector
    return CompressedRegressor if form.kind == "regressor" else CompressedModel


def _set_attributes(small: Any, found: Reduced, form: _Form) -> None:
    functions = found.functions
    small._functions, small._form = functions, form
    stored = functions.kernel.name != "precomputed"
    small.basis_vectors_ = functions.basis.values if stored else np.empty((0, 0))
    small.dual_coef_ = np.ascontiguousarray(functions.coef.T)
    small.intercept_ = functions.intercept
    small.distance_ = found.distance
    norm = np.where(found.norm > 0, found.norm, 1.0)
    small.relative_distance_ = found.distance / norm
    if form.classes is not None:
        small.classes_ = form.classes
    if form.kind in ("detector", "ball"):
        small.offset_ = form.offset
    if form.kind == "ball":
        values = functions.evaluate(functions.basis, functions.prepared())
        small._centre_norm_sq = float(np.sum(functions.coef * values))


__all__ = [
    "CompressedClassifier",
    "CompressedDetector",
    "CompressedModel",
    "CompressedRegressor",
    "compress",
]
