"""StreamingRegressor: kernel regression in one pass, in bounded memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.certificates.verify import verify
from corevec.data.sources import as_source
from corevec.estimators._callbacks import with_callbacks
from corevec.estimators._parameters import check_number, store
from corevec.estimators._rows import lazily
from corevec.estimators._stream import fit_remote, refuse_remote, refuse_tensors
from corevec.estimators._stream_blocks import blocks_of, is_stream
from corevec.estimators._stream_checks import refuse_weights
from corevec.estimators._stream_core import CoreStreamEstimator
from corevec.estimators._validation import checked_weights, validated
from corevec.exceptions import InvalidInputError
from corevec.models.certificate import Certificate, worst_of
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Labels, regression
from corevec.solvers.streaming.core_stream import FIRST_ROWS, CoreForm


class StreamingRegressor(RegressorMixin, CoreStreamEstimator):
    r"""Kernel regression that reads each row once, in bounded memory.

    A core of at most `budget` rows spans the function. With the squared loss every row
    ever seen keeps its loss, as a quadratic function in that span,

    .. math:: \min_f \tfrac12 (\|w\|^2 + b_0^2)
              + \tfrac C2 \sum_i s_i \max(0, |y_i - m - f(x_i)| - e)^2,

    with the tube e = `tube` and m the mean of y over the first rows. For the linear
    kernel with at most 1023 columns and ``tube=0`` this is ridge regression on all rows
    seen, exactly; for other kernels it is the Nystroem approximation that has the core
    as landmarks, and the core follows the stream.

    Parameters
    ----------
    C : float, default=3.0
        Weight of the squared slack. It does not depend on the unit of y.
    kernel : str or callable, default="rbf"
        Kernel function: a name or a function ``k(X, Z)``, but not "precomputed". See
        `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. See `StreamingClassifier`.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    tube : float, default=0.0
        Half-width of the tube around y in which a residual costs nothing, in the units
        of y. With a tube only the rows outside it join the core, as for
        `StreamingClassifier`: that is faster where most rows are inside.
    budget : int, default=1000
        Maximum number of core rows. Time per row grows with its square, and so does
        the memory.
    block : int, default=1000
        Rows that are predicted and learned together, at most; early in the stream
        fewer.
    standardize : {"auto", True, False}, default="auto"
        Whether the columns are divided by their standard deviation so far, and dense
        ones shifted by their mean. "auto": where more than a quarter of the columns
        have a deviation and a range below a tenth of the largest, as in different
        units. Sparse rows only if True.
    forget : float, default=None
        Half-life in rows: a row counts half after so many others, and rows leave the
        core after four half-lives. None forgets nothing.
    fit_intercept : bool, default=True
        Whether to fit a (penalised) bias, and to subtract m.
    tol : float, default=1e-3
        Relative gap of the machine, below 1, up to which `corevec.certify` says
        ``converged``. It does not stop the single pass.
    verbose : int, default=0
        1 shows a progress line on a terminal with the rows, the throughput and the
        error so far; 2 writes one log record per block.

    Attributes
    ----------
    coef_ : ndarray of shape (n_targets, n_features)
        Weights of the columns, where the span is that of the columns.
    intercept_ : ndarray of shape (n_targets,)
        The bias plus m.
    support_vectors_ : ndarray or CSR matrix of shape (n_core, n_features)
        The core rows, which all targets share.
    dual_coef_ : ndarray of shape (n_targets, n_core)
        Coefficients of `support_vectors_`, where there is no `coef_`.
    n_rows_seen_ : int
        Number of rows seen, without those of weight 0.
    n_updates_ : int
        Number of rows that joined the core.
    n_left_ : int
        Number of active rows that left the core at the budget.
    test_then_train_rmse_ : float or ndarray of shape (n_targets,)
        Root of the mean squared error of the rows before they were learned.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec import StreamingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(5000, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=5000)
    >>> model = StreamingRegressor(budget=50)
    >>> for start in range(0, 5000, 500):
    ...     block = slice(start, start + 500)
    ...     _ = model.partial_fit(X[block], y[block])
    >>> bool(model.score(X, y) > 0.97), len(model.support_vectors_) <= 50
    (True, True)
    """

    _target_offset: Array
    _one_target: bool

    def __init__(
        self,
        C: float = 3.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        tube: float = 0.0,
        budget: int = 1000,
        block: int = 1000,
        standardize: bool | str = "auto",
        forget: float | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        verbose: int = 0,
    ):
        store(self, locals())

    _task = "numbers"

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model anew in one pass over rows or a stream, in order.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features), or iterable
            Rows; or, with ``y=None``, an iterable of blocks ``(X, y)`` or ``(X, y,
            sample_weight)``, such as a generator or a reader of `corevec.streams`.
        y : array-like of shape (n_rows,) or (n_rows, n_targets), optional
            Targets.
        sample_weight : array-like of shape (n_rows,), optional
            Factor of C for each row; weight 0 excludes a row.

        Returns
        -------
        self
            The fitted model. Ctrl-C ends a stream early: the model is then that of the
            blocks so far.
        """
        self._check()
        self._forget()
        refuse_tensors(type(self).__name__, X)
        if fit_remote(self, X, y, sample_weight, None):
            return self
        blocks: Any = [(X, y, sample_weight)]
        if y is None and is_stream(X):
            refuse_weights(self, sample_weight)
            blocks = blocks_of(type(self).__name__, X, labelled=True)
        self._fit_blocks(blocks, self._learn_block)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Continue with more rows: all of them, or none if one of them is invalid.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            Targets.
        sample_weight : array-like of shape (n_rows,), optional
            As in ``fit``.

        Returns
        -------
        self
            The model after these rows.
        """
        self._check()
        self._check_unchanged()
        self._learn_block(X, y, sample_weight)
        return self

    @lazily
    def predict(self, X: Any) -> Array:
        """Return the predicted targets.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_targets)
            Predictions in the units of y.
        """
        found = self._values(X) + self._target_offset
        return np.ascontiguousarray(found[:, 0]) if self._one_target else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @property
    def intercept_(self) -> Array:
        """The bias plus the mean of the first targets, shape (n_targets,)."""
        return np.asarray(self._functions.intercept + self._target_offset)

    @property
    def test_then_train_rmse_(self) -> Any:
        """Root mean squared error of the rows before they were learned."""
        squares, weight, _ = self._stream.tally.T
        with np.errstate(invalid="ignore"):
            found = np.sqrt(np.where(weight > 0, squares, np.nan) / weight)
        return float(found[0]) if self._one_target else found

    def _results(self) -> dict[str, float]:
        rmse = float(np.mean(self.test_then_train_rmse_))
        return {"accuracy": np.nan, "rmse": rmse}

    def _check(self) -> None:
        super()._check()
        who = type(self).__name__
        remedy = "It is a width in the units of y; 0 is the squared loss."
        check_number(who, "tube", self.tube, remedy=remedy)
        if self.tube < 0:
            raise InvalidInputError(
                f"{who}: tube={self.tube!r} must be at least 0. {remedy}",
                parameter="tube",
            )

    @property
    def _core_form(self) -> CoreForm:
        return CoreForm(
            int(self.budget),
            block=int(self.block),
            bias=bool(self.fit_intercept),
            tube=float(self.tube),
            two_sided=True,
            half_life=None if self.forget is None else float(self.forget),
        )

    def _n_outputs(self) -> int:
        return len(self._target_offset)

    def _learn_block(self, X: Any, y: Any, weights: Any) -> None:
        who, first = type(self).__name__, not self.__sklearn_is_fitted__()
        if y is None:
            raise InvalidInputError(
                f"{who}: requires y to be passed, but the target y is None."
            )
        X, y = self._validated(X, y, first=first, multi_output=True, y_numeric=True)
        weights = self._block_weights(weights, X.shape[0])
        z = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if first:
            self._target_offset = self._centre_of(z, weights)
            self._one_target = y.ndim == 1
        elif z.shape[1] != self._n_outputs():
            raise InvalidInputError(
                f"{who}: y has {z.shape[1]} columns here and {self._n_outputs()} at "
                "the first call."
            )
        self._learn_targets(X, z - self._target_offset, weights)

    def _centre_of(self, z: Array, weights: Array | None) -> Array:
        """Return the weighted mean of the first targets; 0 without a bias."""
        w = np.ones(len(z)) if weights is None else weights
        few = np.flatnonzero(w > 0)[:FIRST_ROWS]
        if not self.fit_intercept or len(few) == 0:
            return np.zeros(z.shape[1])
        return np.asarray(w[few] @ z[few] / w[few].sum())

    def _join(self, other: Any) -> None:
        if self._n_outputs() != other._n_outputs():
            raise InvalidInputError(
                f"{type(self).__name__}: merge needs the same targets; there are "
                f"{self._n_outputs()} and {other._n_outputs()}."
            )
        self._join_moved(other, other._target_offset - self._target_offset)

    def _certify(self, X: Any, y: Any, sample_weight: Any) -> Certificate:
        check_is_fitted(self)
        who = type(self).__name__
        refuse_remote(who, X)
        if y is None:
            raise InvalidInputError(
                f"{who}: targets y are needed to certify a regressor."
            )
        X, y = validated(self, X, y, reset=False, multi_output=True, y_numeric=True)
        labels = Labels(
            X.shape[0], sample_weight=checked_weights(self, sample_weight, X.shape[0])
        )
        z = np.asarray(y, dtype=np.float64).reshape(len(y), -1) - self._target_offset
        X, functions = self._for_certificate(X)
        source = as_source(X, self.memory_budget)
        parts = []
        for t in range(z.shape[1]):
            problem = regression(
                labels,
                float(self.C),
                z[:, t],
                float(self.tube),
                units="z = y - m",
                has_bias=bool(self.fit_intercept),
            )
            one = KernelExpansion(
                functions.kernel,
                functions.basis,
                functions.coef[:, t : t + 1],
                functions.intercept[t : t + 1],
            )
            found = verify(problem, one, 0.0, source, None, self.tol)
            parts.append(replace(found, stopped_by="one pass"))
        return worst_of(parts, "one problem per target")


__all__ = ["StreamingRegressor"]
