"""StreamingOneClass: novelty detection in one pass, in bounded memory."""

from __future__ import annotations

from typing import Any, NoReturn, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.data.sources import Workers, map_values
from corevec.estimators._callbacks import with_callbacks
from corevec.estimators._outliers import ScoredDetector
from corevec.estimators._parameters import check_share, seed_of, store
from corevec.estimators._rows import lazily
from corevec.estimators._stream import fit_remote, refuse_tensors
from corevec.estimators._stream_blocks import blocks_of, is_stream
from corevec.estimators._stream_checks import refuse_weights
from corevec.estimators._stream_core import CoreStreamEstimator
from corevec.exceptions import InvalidInputError
from corevec.solvers.streaming.core_stream import CoreForm
from corevec.solvers.streaming.reservoir import RowSample
from corevec.solvers.streaming.squared_stream import SquaredStream


class StreamingOneClass(ScoredDetector, CoreStreamEstimator):
    r"""Novelty detector that reads each row once, in bounded memory.

    A row is the more of a novelty, the larger a function can be there that is small on
    the rows seen,

    .. math:: d(x) = \max_f f(x)^2 \quad\text{with}\quad
              \|f\|^2 + C \sum_i s_i f(x_i)^2 \le 1,

    which is :math:`k(x, x) - k_x^T (K + S^{-1}/C)^{-1} k_x`, the variance of a Gaussian
    process, or (linear kernel) the Mahalanobis distance. A core of at most `budget`
    rows spans f, and every row seen keeps its term, as in `StreamingRegressor`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of a row. The larger, the sooner a place counts as known.
    nu : float, default=0.1
        Share of the rows seen (by weight) that counts as outliers. It determines
        `offset_` and nothing else. It is measured on a uniform sample of at most 4000
        of the rows seen and 64 MiB, each as if it had been seen once less.
    kernel : str or callable, default="rbf"
        Kernel function: a name or a function ``k(X, Z)``, but not "precomputed". See
        `CoreVectorClassifier`; 1 is added to it.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. See `StreamingClassifier`.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    budget : int, default=500
        Maximum number of core rows. Time per row grows with its square, and so does
        the memory.
    block : int, default=1000
        Rows that are learned together, at most; early in the stream fewer.
    standardize : {"auto", True, False}, default="auto"
        Whether the columns are divided by their standard deviation so far, and dense
        ones shifted by their mean. "auto": where more than a quarter of the columns
        have a deviation and a range below a tenth of the largest, as in different
        units. Sparse rows only if True.
    forget : float, default=None
        Half-life in rows: a row counts half after so many others, and rows leave the
        core after four half-lives. None forgets nothing.
    random_state : int or RandomState, default=None
        Seed of the sample that `nu` is measured on.
    verbose : int, default=0
        1 shows a progress line on a terminal; 2 writes one log record per block.

    Attributes
    ----------
    offset_ : float
        ``decision_function = score_samples - offset_``.
    support_vectors_ : ndarray or CSR matrix of shape (n_core, n_features)
        The core rows; none where the span is that of the columns.
    n_rows_seen_ : int
        Number of rows seen, without those of weight 0.
    n_updates_ : int
        Number of rows that joined the core.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec import StreamingOneClass
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = StreamingOneClass(nu=0.05, budget=100, random_state=0)
    >>> for block in np.array_split(X, 20):
    ...     _ = model.partial_fit(block)
    >>> model.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _sample: RowSample
    _has_objective = False
    _what_is_known = "its d(x) is a formula, and no optimum of an objective."
    _offsets: dict[float, float]  # by nu
    fit_intercept = True

    def __init__(
        self,
        C: float = 1.0,
        nu: float = 0.1,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        budget: int = 500,
        block: int = 1000,
        standardize: bool | str = "auto",
        forget: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        store(self, locals())

    _task = "none"

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the detector anew in one pass over rows or a stream, in order.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features), or iterable
            Rows; or an iterable of blocks ``X``, ``(X, y)`` or ``(X, y,
            sample_weight)``, whose labels are ignored.
        y : object, default=None
            Ignored; present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n_rows,), optional
            Factor of C for each row; weight 0 excludes a row.

        Returns
        -------
        self
            The fitted detector.
        """
        self._check()
        self._forget()
        refuse_tensors(type(self).__name__, X)
        if fit_remote(self, X, None, sample_weight, None):
            return self
        blocks: Any = [(X, None, sample_weight)]
        if is_stream(X):
            refuse_weights(self, sample_weight)
            blocks = blocks_of(type(self).__name__, X, labelled=False)
        self._fit_blocks(blocks, self._learn_block)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Continue with more rows: all of them, or none if one of them is invalid.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows.
        y : object, default=None
            Ignored; present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n_rows,), optional
            As in ``fit``.

        Returns
        -------
        self
            The detector after these rows.
        """
        self._check()
        self._check_unchanged()
        self._learn_block(X, None, sample_weight)
        return self

    @lazily
    def score_samples(self, X: Any) -> Array:
        """Return minus d(x).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to score.

        Returns
        -------
        ndarray of shape (n_rows,)
            The nearer to 0, the better known the place of the row.
        """
        check_is_fitted(self)
        refuse_tensors(type(self).__name__, X)
        return map_values(self._validate_new(X), self._scores)

    @property
    def offset_(self) -> float:
        """Upper bound of the scores of outliers."""
        check_is_fitted(self)
        share = float(self.nu)
        if share not in self._offsets:
            # Cached until the next row: the sample is scored once, not per prediction.
            scores = self._scores(self._sample.rows, own=self._sample.weights)
            self._offsets[share] = self._sample.lower_quantile(scores, share)
        return self._offsets[share]

    def _scores(self, X: Any, own: Array | None = None) -> Array:
        """Return minus d of rows, which the stream has not seen.

        Of rows with weights `own` that it has seen: as if it had seen each of them once
        less. The term of a row turns d into d / (1 + C s d), and this is undone.
        """
        stream = self._stream
        assert isinstance(stream, SquaredStream)
        with Workers(1):
            outside, inside = stream.unknown(X)
        if own is not None:
            once = float(self.C) * np.minimum(own, 1.0)
            inside = inside / np.maximum(1.0 - once * inside, 1e-6)
        return -(outside + inside)

    def _check(self) -> None:
        super()._check()
        check_share(type(self).__name__, "nu", self.nu)

    @property
    def _core_form(self) -> CoreForm:
        return CoreForm(
            int(self.budget),
            block=int(self.block),
            two_sided=True,
            half_life=None if self.forget is None else float(self.forget),
        )

    def _n_outputs(self) -> int:
        return 1

    def _results(self) -> dict[str, float]:
        return {"accuracy": np.nan}

    def _learn_block(self, X: Any, y: Any, weights: Any) -> None:
        X = self._validated(X, "no_validation", first=not self.__sklearn_is_fitted__())
        weights = self._block_weights(weights, X.shape[0])
        sample = self.__dict__.get("_sample")
        if sample is None:
            seed, half_life = seed_of(self.random_state), self._core_form.half_life
            sample = RowSample.with_half_life(seed, half_life)
        self._learn_targets(X, np.ones((X.shape[0], 1)), weights)
        self._sample = sample.after(X, weights, self._core_form.half_life)
        self._offsets = {}

    def _join(self, other: Any) -> None:
        super()._join(other)
        self._sample = self._sample.joined(other._sample)
        self._offsets = {}

    # A detector has no function f to show, but a matrix of all of them.
    @property
    def coef_(self) -> NoReturn:
        """Always raises AttributeError."""
        raise AttributeError(
            "StreamingOneClass has no coef_ and no objective: see score_samples"
        )

    dual_coef_ = intercept_ = objective_bound = coef_

    def _certify(self, X: Any, y: Any, sample_weight: Any) -> Any:
        raise InvalidInputError(
            "StreamingOneClass has no objective to certify: d(x) is a formula. "
            "CoreVectorOneClass and SVDD have certificates."
        )


__all__ = ["StreamingOneClass"]
