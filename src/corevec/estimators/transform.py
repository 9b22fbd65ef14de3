"""CoreSetNystroem: explicit kernel features for linear models."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.data.sources import (
    DEFAULT_MEMORY_BUDGET,
    Source,
    Workers,
    as_source,
)
from corevec.estimators._base import kernel_for
from corevec.estimators._dataset import Dataset
from corevec.estimators._parameters import (
    check_choice,
    check_parameters,
    seed_of,
    store,
)
from corevec.estimators._rows import lazily
from corevec.estimators._validation import (
    CHECKS,
    check_square,
    checked_weights,
    named,
    validated,
)
from corevec.estimators.classify import CoreVectorClassifier
from corevec.estimators.detect import CoreVectorOneClass
from corevec.estimators.methods import CoreSet
from corevec.estimators.regress import CoreVectorRegressor
from corevec.exceptions import InvalidInputError, KernelError, NotCertifiedWarning
from corevec.kernels import AnyKernel, Rows, finite
from corevec.models.basis import SPREAD_THRESHOLD, Basis, basis_of_rows
from corevec.solvers.basis.select import BY_NAME, Pool, randomly_pivoted_cholesky

# Numbers in y with more distinct values than this are regression targets: one machine
# per class would cost this many times one machine.
MOST_CLASSES = 100


class CoreSetNystroem(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Kernel features from a small basis, for any linear model.

    With basis rows b and the Cholesky factor L of their kernel matrix,

    .. math:: z(x) = L^{-1} k(b, x), \qquad L L^\top = k(b, b),

    so that inner products of features are kernel values: exactly in the span of the
    basis, and approximately outside it (Williams and Seeger 2001).

    Parameters
    ----------
    n_components : int, default=100
        Maximum number of basis rows, and of features. There are fewer where there are
        fewer distinct rows, or where a further row adds at most 1e-9 of the largest
        k(x, x), which is rounding. Ignored if `basis` is an array.
    basis : str or array-like of shape (n_vectors, n_features), default="coreset"
        How the basis rows are chosen. "coreset": the core rows of a
        `CoreVectorClassifier` or `CoreVectorRegressor` with at most
        `n_components` of them,
        or, without y, of a `CoreVectorOneClass`, completed by "rpcholesky". "uniform":
        random rows, as in scikit-learn's ``Nystroem``. "kmeans": centres of k-means.
        "rpcholesky": randomly pivoted Cholesky factorisation. "cholesky": incomplete
        Cholesky factorisation. An array: the given rows.
    kernel : str or callable, default="rbf"
        Kernel function, which must be positive definite. See `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. See `CoreVectorClassifier`.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the data and the features (256 MiB).
    n_jobs : int, default=None
        Number of threads. None uses the available cores (or ``OMP_NUM_THREADS``).
    random_state : int or RandomState, default=None
        Seed of all sampling. None: always the same, so that a fit can be repeated.

    Attributes
    ----------
    components_ : ndarray or CSR matrix of shape (n_features_out, n_features)
        Basis rows, in pivot order; empty for ``kernel="precomputed"``.
    component_indices_ : ndarray of shape (n_features_out,)
        Row numbers of the basis rows; -1 for vectors that are not training rows.
    normalization_ : ndarray of shape (n_features_out, n_features_out)
        ``L^-1``: ``transform(X) = k(X, components_) normalization_.T``.

    Notes
    -----
    For "coreset", y is interpreted as class labels if it contains strings or at most
    100 distinct whole numbers, and as regression targets otherwise.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from corevec import CoreSetNystroem
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> features = CoreSetNystroem(n_components=30, random_state=0)
    >>> bool(make_pipeline(features, LogisticRegression()).fit(X, y).score(X, y) > 0.98)
    True
    """

    def __init__(
        self,
        n_components: int = 100,
        basis: Any = "coreset",
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        store(self, locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CoreSetNystroem:
        """Choose the basis rows.

        Parameters
        ----------
        X : array-like, CSR matrix or memmap of shape (n_rows, n_features)
            Training rows; a square kernel matrix for ``kernel="precomputed"``.
        y : array-like of shape (n_rows,) or (n_rows, n_targets), optional
            Labels or targets; used by ``basis="coreset"`` only.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows: 0 excludes a row.

        Returns
        -------
        self
            The fitted transformer.
        """
        self._check_parameters()
        X = validated(self, X)
        if self.kernel == "precomputed":
            check_square(type(self).__name__, X)
        weights = checked_weights(self, sample_weight, X.shape[0])
        with Workers(self.n_jobs) as workers:
            source = as_source(X, self.memory_budget, workers)
            kernel = kernel_for(self, Dataset.in_memory("X", source, weights))
            rows = self._choose(source, kernel, X, y, weights)
            self._set_basis(rows, kernel, workers)
        return self

    @lazily
    def transform(self, X: Any) -> Array:
        """Return the features of rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to predict (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows, n_features_out)
            In the precision of X, computed in float64.
        """
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        with Workers(self.n_jobs) as workers:
            source = as_source(X, self.memory_budget, workers)
            return _features(source, self._basis)

    def _choose(
        self,
        source: Source,
        kernel: AnyKernel,
        X: Any,
        y: Any,
        weights: Array | None,
    ) -> Rows:
        """Return the basis rows that `basis` asks for."""
        if not isinstance(self.basis, str):
            return self._own_rows(source)
        rng = np.random.default_rng(seed_of(self.random_state))
        present = source.numbers if weights is None else np.flatnonzero(weights)
        size = min(self.n_components, len(present))
        if self.basis != "coreset":
            extra = {"weights": weights} if self.basis == "kmeans" else {}
            choose = BY_NAME[self.basis]
            return choose(Pool(source, kernel, present, rng), size, **extra)
        first = self._core_rows(X, y, weights, size)
        pool = Pool(source, kernel, present, rng)
        return randomly_pivoted_cholesky(pool, size, first)

    def _core_rows(self, X: Any, y: Any, weights: Array | None, size: int) -> Array:
        """Return the row numbers of the core rows with the largest coefficients."""
        model = self._machine(y, weights)
        model.set_params(
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            # A core set of one row has one class only.
            method=CoreSet(max_vectors=max(size, 2)),
            memory_budget=self.memory_budget,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
        with warnings.catch_warnings():
            # Only the rows are needed, whether or not the fit has converged.
            warnings.simplefilter("ignore", NotCertifiedWarning)
            model.fit(X, y, sample_weight=weights)
        worth = np.abs(model.dual_coef_).max(axis=0)
        best = np.argsort(-worth, kind="stable")[:size]
        return np.asarray(model.support_[best])

    def _machine(self, y: Any, weights: Array | None) -> Any:
        """Return the estimator whose core rows are used, by the type of y."""
        # Nearly the hard ball, whose few core rows mark the outline: 24 of 600 rows of
        # two moons. With C = 1 there are 198, all far from the middle, and 40 of them
        # leave 58 of the trace where 40 rows of "rpcholesky" leave 1.6.
        alone = CoreVectorOneClass(C=1e4)
        if y is None:
            return alone
        targets = np.asarray(y)
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = targets[:, 0]
        if targets.ndim > 1:
            return CoreVectorRegressor()
        counted = targets if weights is None else targets[weights > 0]
        values = np.unique(counted)
        if len(values) == 1:
            return alone
        if targets.dtype.kind not in "fiu":
            return CoreVectorClassifier()
        whole = bool(np.isfinite(values).all() and (values == np.floor(values)).all())
        few = whole and len(values) <= MOST_CLASSES
        return CoreVectorClassifier() if few else CoreVectorRegressor()

    def _own_rows(self, source: Source) -> Rows:
        """Return the array that was given as `basis`, as basis rows."""
        who = type(self).__name__
        if self.kernel == "precomputed":
            raise InvalidInputError(
                f"{who}: basis is an array, but with kernel='precomputed' rows are "
                "given by their numbers only. Use basis='rpcholesky', 'cholesky', "
                "'uniform' or 'coreset'."
            )
        try:
            values = check_array(self.basis, input_name="basis", **CHECKS)
        except ValueError as error:
            raise named(self, error) from None
        if values.shape[1] != source.n_features:
            raise InvalidInputError(
                f"{who}: basis has {values.shape[1]} columns, X has "
                f"{source.n_features}; basis rows must have the columns of X."
            )
        return Rows(values, np.full(values.shape[0], -1))

    def _set_basis(self, rows: Rows, kernel: AnyKernel, workers: Workers) -> None:
        who = type(self).__name__
        basis, is_definite = None, True
        if len(rows):
            # Pivots tie (k(x, x) = 1 for all rows): a fixed order for a set of rows.
            rows = _in_order_of_values(rows)
            basis, is_definite = basis_of_rows(rows, kernel, workers, SPREAD_THRESHOLD)
        if not is_definite:
            raise KernelError(
                f"{who}: the {kernel.name} kernel is not positive definite on these "
                "rows, so that it is not an inner product of features. Use 'rbf', "
                "'laplacian', 'linear', or 'poly' with coef0 >= 0 and a whole degree."
            )
        if basis is None:
            raise InvalidInputError(
                f"{who}: k(x, x) is zero for every basis row, so there are no "
                "features. Give rows that are not all zero, or use kernel='rbf'."
            )
        self._basis = basis
        stored = self.kernel != "precomputed"
        self.components_ = basis.rows.values if stored else np.empty((0, 0))
        self.component_indices_ = basis.rows.index
        self.normalization_ = basis.inverse_factor

    def _check_parameters(self) -> None:
        check_parameters(self)
        if isinstance(self.basis, str):
            names = "coreset", *BY_NAME
            who = type(self).__name__
            check_choice(who, "basis", self.basis, names, "an array of basis rows")

    @property
    def _n_features_out(self) -> int:
        return int(self.normalization_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = isinstance(self.kernel, str) and (
            self.kernel == "precomputed"
        )
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.non_deterministic = False
        return tags


def _in_order_of_values(rows: Rows) -> Rows:
    """Return the rows in an order that does not depend on their numbers."""
    if rows.values.dtype == object:  # words or graphs, which have no order
        return rows
    key = rows.values @ np.cos(np.arange(1.0, rows.values.shape[1] + 1.0))
    order = np.argsort(key, kind="stable")
    return Rows(rows.values[order], rows.index[order])


def _features(source: Source, basis: Basis) -> Array:
    """Return the features of all rows; the memory is the result plus a few tiles."""
    out = np.empty((source.n_rows, len(basis)), dtype=source.dtype)
    kernel, points = basis.kernel, basis.points
    # A tile of kernel values and one of features per thread take a quarter of the
    # budget.
    step = source.memory_budget // (64 * len(basis) * source.workers.n_threads)
    step = max(16, int(step))

    def score(rows: Rows) -> int:
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            tile = kernel.prepare(Rows(rows.values[part], rows.index[part]))
            out[rows.index[part]] = basis.features(
                finite(kernel.block(tile, points), kernel)
            )
        return len(rows)

    source.reduce(score, lambda a, b: a + b)
    return out


__all__ = ["CoreSetNystroem"]
