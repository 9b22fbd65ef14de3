"""`compress`: replace a fitted kernel model by one with fewer vectors."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import (
    is_classifier,
    is_outlier_detector,
    is_regressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from sklearn.utils.validation import check_array, check_is_fitted

from corevec._runtime.types import Array
from corevec.data.sources import (
    DEFAULT_MEMORY_BUDGET,
    Workers,
    as_source,
    row_statistics,
)
from corevec.estimators._base import CoreVectorEstimator
from corevec.estimators._compressed import (
    CompressedClassifier,
    CompressedDetector,
    CompressedModel,
    CompressedRegressor,
    Form,
)
from corevec.estimators._parameters import check_count, seed_of
from corevec.estimators._validation import CHECKS
from corevec.estimators.detect import SVDD
from corevec.estimators.stream import StreamingBallClassifier, StreamingBallOneClass
from corevec.estimators.svm import SupportVectorMachine, columns_of_pairs
from corevec.exceptions import InvalidInputError, KernelError
from corevec.kernels import AnyKernel, Rows, make_kernel
from corevec.models.expansion import KernelExpansion
from corevec.solvers.compression.reduced_set import Budget, Reduced, reduce_expansion

# scikit-learn's machines, and those of `corevec.svm` with the same attributes.
MACHINES = (SVC, NuSVC, SVR, NuSVR, OneClassSVM, SupportVectorMachine)
ACCEPTED = (
    "a fitted corevec model (CoreVectorClassifier, CoreVectorRegressor, "
    "CoreVectorOneClass, SVDD, ...) or scikit-learn's or corevec.svm's SVC, NuSVC, "
    "SVR, NuSVR or OneClassSVM"
)


def compress(
    model: Any,
    n_vectors: int,
    *,
    X: Any = None,
    max_iter: int = 100,
    memory_budget: float = DEFAULT_MEMORY_BUDGET,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> CompressedModel:
    r"""Return an approximation of a fitted kernel model that has fewer vectors.

    The reduced-set method (Burges and Schoelkopf 1997): for the model's functions
    :math:`f_t = \sum_i a_{it} \varphi(x_i)`, find vectors b and coefficients c with

    .. math:: \min_{b, c} \sum_t \frac{1}{\|f_t\|^2}
              \Big\| f_t - \sum_j c_{jt} \varphi(b_j) \Big\|^2 .

    Several outputs (classes, pairs of classes, targets) share the vectors. A prediction
    then costs `n_vectors` kernel values per row.

    For "rbf", "linear" and "poly" the vectors are not training rows: they are optimised
    by L-BFGS. Where that would exceed `memory_budget` (text with many columns), the
    vectors lie along the first moments of the functions of the model, as many as fit
    (with a copy of the rows of the model if these are dense), if the moments are
    expected to approximate the functions better on new rows than rows of the model do.
    Otherwise, and for other kernels, the vectors are the best of the rows of the model.
    Moments do not minimise the distance above, which is measured at the rows of the
    model only.

    Parameters
    ----------
    model : estimator
        A fitted corevec model, or scikit-learn's SVC, NuSVC, SVR, NuSVR, OneClassSVM
        (or those of `corevec.svm`).
    n_vectors : int
        Number of vectors, at least 1. A model that has no more vectors keeps its own,
        and the distance is 0. Fewer vectors are used where they are linearly dependent,
        or where dense vectors of wide rows exceed `memory_budget`.
    X : array-like or CSR matrix, optional
        The training rows (or kernel matrix). They are needed only for a scikit-learn
        model whose attributes do not define the kernel values: with a precomputed or
        callable kernel.
    max_iter : int, default=100
        Maximum number of L-BFGS steps; 0 keeps rows of the model.
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the model.
    n_jobs : int, optional
        Number of threads. None uses the available cores (or ``OMP_NUM_THREADS``).
    random_state : int or RandomState, optional
        Seed of the starting vectors.

    Returns
    -------
    CompressedModel
        The model, with ``predict`` and ``decision_function`` as in the original, and
        with ``support_vectors_``, ``dual_coef_``, ``intercept_``, ``distance_`` and
        ``relative_distance_``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> from corevec import compress
    >>> X, y = make_moons(2000, noise=0.3, random_state=0)
    >>> model = SVC(gamma=1.0).fit(X, y)
    >>> small = compress(model, 20, random_state=0)
    >>> len(model.support_vectors_) > 400, len(small.support_vectors_)
    (True, 20)
    >>> bool((small.predict(X) == model.predict(X)).mean() > 0.99)
    True
    """
    _check_arguments(n_vectors, max_iter)
    rng = np.random.default_rng(seed_of(random_state))
    with Workers(n_jobs) as workers:
        functions, form = _read(model, X, workers)
        budget = Budget(workers, int(memory_budget), int(max_iter))
        try:
            found = reduce_expansion(functions, int(n_vectors), budget, rng)
        except KernelError as error:
            raise KernelError(f"compress: {error}") from None
    small = _class_for(form)(memory_budget=memory_budget, n_jobs=n_jobs)
    _set_attributes(small, found, form)
    for name in ("n_features_in_", "feature_names_in_", "categories_"):
        if hasattr(model, name):
            setattr(small, name, getattr(model, name))
    return small


def _check_arguments(n_vectors: Any, max_iter: Any) -> None:
    remedy = "It is the number of vectors of the model."
    check_count("compress", "n_vectors", n_vectors, remedy=remedy)
    whole = isinstance(max_iter, Integral) and not isinstance(max_iter, bool)
    if not (whole and int(max_iter) >= 0):
        raise InvalidInputError(
            f"compress: max_iter={max_iter!r} must be a whole number of at least 0; "
            "0 keeps rows of the model.",
            parameter="max_iter",
        )


def _read(model: Any, X: Any, workers: Workers) -> tuple[KernelExpansion, Form]:
    """Return the functions of a fitted model and the form of its predictions."""
    ours = isinstance(model, CoreVectorEstimator) or isinstance(
        getattr(model, "_functions", None), KernelExpansion
    )
    if not ours and not isinstance(model, MACHINES):
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise InvalidInputError(
            f"compress: a {name} was given; {ACCEPTED} can be compressed. For a "
            "pipeline or a search, give the kernel model inside (its last step)."
        )
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise NotFittedError(
            f"compress: this {type(model).__name__} is not fitted. Call its fit first."
        ) from None
    refuse_cells(
        "compress",
        model,
        "a small basis approximates one",
        "Fit with method='auto', or with fewer n_trees for a smaller model",
    )
    return _read_ours(model) if ours else _read_theirs(model, X, workers)


def refuse_cells(who: str, model: Any, reason: str, remedy: str) -> None:
    """Raise for a model of cells where a single kernel expansion is needed."""
    forest = getattr(model, "_forest", None)
    if forest is None:
        return
    n_cells = sum(one.tree.n_cells for one in forest.trees)
    raise InvalidInputError(
        f"{who}: this {type(model).__name__} was fitted with method={model.method!r}: "
        f"it has {n_cells:,} kernel expansions, one per cell, and {reason}. {remedy}."
    )


def _read_ours(model: Any) -> tuple[KernelExpansion, Form]:
    own: KernelExpansion = model._functions
    if isinstance(model, CompressedModel):
        return own, model._form
    if is_outlier_detector(model):
        offset = float(model.offset_)
        if isinstance(model, SVDD | StreamingBallOneClass):
            constant = getattr(model, "diagonal_", None)
            return own, Form("ball", offset=offset, diagonal=constant)
        shifted = replace(own, intercept=np.array([-offset]))
        return shifted, Form("detector", offset=offset)
    if is_classifier(model):
        classes = model.classes_
        if isinstance(model, StreamingBallClassifier):
            scales = model._scales  # its functions are the centres of balls
            own = replace(own, coef=own.coef / scales, intercept=own.intercept / scales)
        if len(classes) == 2:
            return own, Form("two classes", classes)
        has_pairs = getattr(model, "_has_pairs", False)
        return own, Form("ovo" if has_pairs else "ovr", classes)
    # The functions of a regressor are in units of the deviation of its targets.
    scale = getattr(model, "target_scale_", np.ones(own.coef.shape[1]))
    mean = getattr(model, "target_mean_", np.zeros(own.coef.shape[1]))
    functions = replace(
        own, coef=own.coef * scale, intercept=own.intercept * scale + mean
    )
    one_output = bool(getattr(model, "_one_target", len(scale) == 1))
    kind = "regressor" if is_regressor(model) else "scores"
    return functions, Form(kind, one_output=one_output)


def read_machine(model: Any) -> tuple[KernelExpansion, Form]:
    """Return the functions of a machine of `corevec.svm`, and their form."""
    with Workers(1) as workers:
        return _read_theirs(model, None, workers)


def _read_theirs(model: Any, X: Any, workers: Workers) -> tuple[KernelExpansion, Form]:
    kernel, vectors = _kernel_and_vectors(model, X, workers)
    dual = model.dual_coef_
    dual = np.asarray(dual.toarray() if sparse.issparse(dual) else dual, np.float64)
    intercept = np.array(model.intercept_, dtype=np.float64)
    if is_classifier(model):
        classes = model.classes_
        if len(classes) > 2:
            coef = columns_of_pairs(dual, model.n_support_)
            raw = model.decision_function_shape == "ovo"
            ties = bool(model.break_ties)
            form = Form("ovo", classes, ties, raw, upright=False)
            return KernelExpansion(kernel, vectors, coef, intercept), form
        form = Form("two classes", classes)
    elif is_outlier_detector(model):
        form = Form("detector", offset=float(np.ravel(model.offset_)[0]))
    else:
        form = Form("regressor")
    coef = np.ascontiguousarray(dual.T)
    return KernelExpansion(kernel, vectors, coef, intercept), form


def _kernel_and_vectors(model: Any, X: Any, workers: Workers) -> tuple[AnyKernel, Rows]:
    """Return the kernel and the support vectors of a scikit-learn model."""
    numbers = model.support_.astype(np.int64)
    by_rows = callable(model.kernel) or model.kernel == "precomputed"
    if isinstance(model, SupportVectorMachine) and not by_rows:
        return model._kernel, Rows(model.support_vectors_, numbers)
    # A fitted model of scikit-learn keeps the number that a name of gamma stood for.
    gamma = model.gamma
    if isinstance(gamma, str) and hasattr(model, "_gamma"):
        gamma = float(model._gamma)
    in_words = gamma == "scale" and model.kernel in ("rbf", "poly", "sigmoid")
    if X is None and (by_rows or in_words):
        raise _needs_rows(model, by_rows)
    if X is not None:
        X = _checked_rows(model, X, numbers)
    if by_rows:
        return make_kernel(model.kernel), Rows(X[numbers], numbers)
    vectors = model.support_vectors_
    seen = vectors if X is None else X
    if seen.shape[0] == 0:  # a constant function: any kernel is right
        return make_kernel("linear"), Rows(vectors, numbers)
    statistics = row_statistics(as_source(seen, workers=workers))
    kernel = make_kernel(model.kernel, gamma, model.degree, model.coef0, statistics)
    return kernel, Rows(vectors, numbers)


def _needs_rows(model: Any, by_rows: bool) -> InvalidInputError:
    """Return the error for a model whose attributes do not define its kernel."""
    word = "callable" if callable(model.kernel) else repr(model.kernel)
    reason = f"kernel={word}" if by_rows else "gamma='scale'"
    return InvalidInputError(
        f"compress: a {type(model).__name__} with {reason} was given, whose fitted "
        "attributes do not define its kernel values. Give the rows it was fitted on: "
        f"compress(model, n_vectors, X=X_train){'' if by_rows else ', or set gamma'}."
    )


def _checked_rows(model: Any, X: Any, numbers: Array) -> Any:
    """Return the rows that a model was fitted on, as far as their shape tells."""
    X = check_array(X, **CHECKS)
    # With a callable kernel scikit-learn does not store the number of columns.
    n_columns = getattr(model, "n_features_in_", X.shape[1])
    if X.shape[1] != n_columns or X.shape[0] <= numbers.max(initial=-1):
        raise InvalidInputError(
            f"compress: X has shape {X.shape}, but the {type(model).__name__} was "
            f"fitted on {n_columns} columns and more than {numbers.max()} rows. "
            "Give the rows it was fitted on."
        )
    return X


def _class_for(form: Form) -> type[CompressedModel]:
    if form.classes is not None:
        return CompressedClassifier
    if form.kind in ("detector", "ball"):
        return CompressedDetector
    return CompressedRegressor if form.kind == "regressor" else CompressedModel


def _set_attributes(small: Any, found: Reduced, form: Form) -> None:
    functions = found.functions
    small._functions, small._form = functions, form
    stored = functions.kernel.name != "precomputed"
    small.support_vectors_ = functions.basis.values if stored else np.empty((0, 0))
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
