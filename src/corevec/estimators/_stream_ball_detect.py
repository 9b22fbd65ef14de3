"""StreamingBallOneClass: novelty detection in one pass over a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.certificates.verify import verify
from corevec.data.sources import as_source, map_values
from corevec.estimators._base import read_only
from corevec.estimators._callbacks import with_callbacks
from corevec.estimators._outliers import ScoredDetector
from corevec.estimators._parameters import seed_of, store
from corevec.estimators._rows import lazily
from corevec.estimators._stream import (
    StreamingEstimator,
    fit_remote,
    refuse_remote,
    refuse_tensors,
)
from corevec.estimators._stream_blocks import blocks_of, is_stream
from corevec.estimators._stream_checks import refuse_weights
from corevec.estimators._validation import checked_weights, validated
from corevec.kernels import Rows
from corevec.models.certificate import Certificate
from corevec.problems.family import Labels, svdd
from corevec.solvers.numeric.dual_qp import balance
from corevec.solvers.streaming.geometry import Form
from corevec.solvers.streaming.reservoir import RowSample

# Rows whose differences from the centre are computed at a time.
_ROWS = 1024


class StreamingBallOneClass(ScoredDetector, StreamingEstimator):
    r"""Novelty detector that reads each row once: a ball around a stream.

    The centre moves as in `StreamingBallClassifier`; the smallest such ball is that of
    `SVDD` with the same C,

    .. math:: \min_{c, R} R^2 + C \sum_i s_i \xi_i^2, \quad
              \|\varphi(x_i) - c\|^2 \le R^2 + \xi_i.

    The farther a row is from the centre, the more of a novelty it is. The result
    depends on the order of the rows. The memory does not grow with their number if the
    kernel is linear or a `budget` is given.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared slack, as in `SVDD`: the smaller, the less one row moves
        the centre. Infinity: no slack, the enclosing ball of the rows themselves.
    nu : float or None, default=0.1
        Share of the rows seen (by weight) that counts as outliers. It determines
        `offset_` and nothing else. It is measured on a uniform sample of at most 4000
        of the rows seen and 64 MiB, by their distance from the current centre. None:
        the rows outside the ball, which with ``C=inf`` contains every row seen.
    n_balls : int, default=8
        Number of balls. See `StreamingBallClassifier`.
    balls : {"lookahead", "general"}, default="lookahead"
        How the balls are maintained. See `StreamingBallClassifier`.
    kernel : str or callable, default="rbf"
        Kernel function: a name or a function ``k(X, Z)``, but not "precomputed". See
        `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. A name is resolved on the *first* block.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    budget : int, default=None
        Maximum number of rows in the expansion of a kernel machine. None keeps every
        absorbed row.
    overflow : {"merge", "drop"}, default="merge"
        What happens to the row of least weight beyond the budget. See
        `StreamingBallClassifier`.
    tol : float, default=1e-3
        Relative gap of the machine, below 1, up to which `corevec.certify` says
        ``converged``. It does not stop the single pass.
    random_state : int or RandomState, default=None
        Seed of the sample that `nu` is measured on.
    verbose : int, default=0
        1 shows a progress line on a terminal; 2 writes one log record per block.

    Attributes
    ----------
    offset_ : float
        ``decision_function = score_samples - offset_``.
    radius_ : float
        Every row seen, lifted by its slack, lies within this distance of the centre.
    lower_radius_ : float
        Lower bound of the radius of the smallest ball.
    n_updates_ : int
        Number of absorbed rows (nSV in the paper).
    n_rows_seen_ : int
        Number of rows seen, without those of weight 0.
    ball_bound_ : BallBound
        The two radii with their factor, rows and seconds.
    centre_norm_sq_ : float
        Squared norm of the centre in the feature space.
    support_vectors_ : ndarray or CSR matrix of shape (n_kept, n_features)
        Rows of the expansion of the centre, for kernels other than the linear one.
    dual_coef_ : ndarray of shape (1, n_kept)
        Coefficients of `support_vectors_`.
    coef_ : ndarray of shape (1, n_features)
        The centre, for the linear kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec import StreamingBallOneClass
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = StreamingBallOneClass(nu=0.05, random_state=0)
    >>> for block in np.array_split(X, 20):
    ...     _ = model.partial_fit(block)
    >>> model.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _sample: RowSample
    _offsets: dict[float, float]  # by nu

    def __init__(
        self,
        C: float = 1.0,
        nu: float | None = 0.1,
        n_balls: int = 8,
        balls: str = "lookahead",
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        budget: int | None = None,
        overflow: str = "merge",
        tol: float = 1e-3,
        random_state: Any = None,
        verbose: int = 0,
    ):
        store(self, locals())

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
        """Return minus the squared distance from the centre.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to score.

        Returns
        -------
        ndarray of shape (n_rows,)
            The larger, the closer to the centre.
        """
        check_is_fitted(self)
        refuse_tensors(type(self).__name__, X)
        X = self._validate_new(X)
        return map_values(X, self._scores)

    @lazily
    def distance(self, X: Any) -> Array:
        """Return the distance of each row from the centre, in the feature space.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to measure.

        Returns
        -------
        ndarray of shape (n_rows,)
            ``sqrt(k(x, x) - 2 f(x) + |c|^2)``.
        """
        return np.sqrt(np.maximum(-self.score_samples(X), 0.0))

    @property
    def offset_(self) -> float:
        """Upper bound of the scores of outliers."""
        if self.nu is None:
            # R of SVDD: a lifted row that the centre does not contain is at a squared
            # distance of |phi(x) - w|^2 + s + eta <= radius_^2.
            stream = self._streams[0]
            whole = stream.whole()
            offset = min(whole.slack + stream.eta - whole.radius**2, 0.0)
            # A row on the boundary stays inside, however its score is rounded.
            size = whole.radius**2
            size += 0.0 if self._is_linear else whole.norm_sq
            return offset - 1e-12 * size
        share = float(self.nu)
        if share not in self._offsets:
            # Cached until the next row: the sample is scored once, not per prediction.
            scores = self._scores(self._sample.rows)
            self._offsets[share] = self._sample.lower_quantile(scores, share)
        return self._offsets[share]

    @property
    def centre_norm_sq_(self) -> float:
        """Squared norm of the centre in the feature space."""
        return self._streams[0].whole().norm_sq

    @property
    def coef_(self) -> Array:
        """The centre, for the linear kernel, shape (1, n_features)."""
        if not self._is_linear:
            raise AttributeError("coef_ exists for kernel='linear' only")
        return read_only(self._functions.basis.values.copy())

    @property
    def dual_coef_(self) -> Array:
        """Coefficients of `support_vectors_` in the centre, shape (1, n_kept)."""
        self._unless_linear()
        return np.ascontiguousarray(self._functions.coef.T)

    def _join(self, other: Any) -> None:
        super()._join(other)
        self._sample = self._sample.joined(other._sample)
        self._offsets = {}

    @property
    def _form(self) -> Form:
        return Form(
            int(self.n_balls),
            general=self.balls == "general",
            constrained=False,
            bias=0.0,
        )

    @property
    def _slack(self) -> float:
        return 4.0 * float(self.C)

    def _machines(self) -> list[int]:
        return [0]

    def _learn_block(self, X: Any, y: Any, weights: Any) -> None:
        X = self._validated(X, "no_validation", first=not self.__sklearn_is_fitted__())
        weights = self._block_weights(weights, X.shape[0])
        sample = self.__dict__.get("_sample")
        if sample is None:
            sample = RowSample(np.random.default_rng(seed_of(self.random_state)))
        self._learn(X, np.zeros(1, dtype=np.int32), weights)
        self._sample = sample.after(X, weights)
        self._offsets = {}

    def _scores(self, X: Any) -> Array:
        """Return minus the squared distances; by differences for the linear kernel."""
        functions = self._functions
        if self._is_linear:
            parts = [X[s : s + _ROWS] for s in range(0, X.shape[0], _ROWS)]
            centre = functions.basis.values
            return np.concatenate([_minus_squares(part, centre) for part in parts])
        rows = Rows(X, np.arange(X.shape[0]))
        own = functions.kernel.diagonal(rows)
        values = self._values_of(X)[:, 0]
        return np.asarray(2 * values - own - self.centre_norm_sq_)

    def _certify(self, X: Any, y: Any, sample_weight: Any) -> Certificate:
        """Return the certificate of `SVDD` at this centre, with the best radius."""
        check_is_fitted(self)
        refuse_remote(type(self).__name__, X)
        X = validated(self, X, reset=False)
        weights = checked_weights(self, sample_weight, X.shape[0])
        C = None if np.inf == self.C else float(self.C)
        problem = svdd(Labels(X.shape[0], sample_weight=weights), C)
        offset, function = 0.0, self._functions
        source = as_source(X, self.memory_budget)
        if not problem.is_hard:
            rows = source.block(0, source.n_rows)
            terms = problem.terms(rows, function.kernel)
            slope = terms.target - self._values_of(X)[:, 0]
            present = terms.omega > 0
            offset = balance(slope[present], terms.omega[present], problem.price)
            offset = max(offset, -self.centre_norm_sq_ / 2)  # R^2 >= 0
        found = verify(problem, function, offset, source, None, self.tol)
        return replace(found, stopped_by="one pass")


def _minus_squares(X: Any, centre: Array) -> Array:
    """Return minus the squared distances from a centre, by differences."""
    steps = (X.toarray() if sparse.issparse(X) else X) - centre
    return np.asarray(-np.einsum("ij,ij->i", steps, steps))
