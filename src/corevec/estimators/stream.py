"""StreamingBallClassifier: a classifier that reads each row once.

`StreamingBallOneClass`, without labels, is in ``_stream_ball_detect.py``.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.data.sources import named_columns
from corevec.estimators._base import read_only
from corevec.estimators._callbacks import with_callbacks
from corevec.estimators._parameters import store
from corevec.estimators._rows import lazily
from corevec.estimators._stream import (
    StreamingEstimator,
    fit_remote,
    refuse_tensors,
)
from corevec.estimators._stream_ball_detect import StreamingBallOneClass
from corevec.estimators._stream_blocks import (
    blocks_of,
    encoded,
    first_classes,
    is_stream,
    same_classes,
    winner,
)
from corevec.estimators._stream_certify import certify_classes
from corevec.estimators._stream_checks import refuse_weights
from corevec.exceptions import InvalidInputError
from corevec.models.certificate import Certificate
from corevec.solvers.streaming.geometry import Form


class StreamingBallClassifier(ClassifierMixin, StreamingEstimator):
    r"""Classifier that reads each row once (StreamSVM).

    Maintains a ball that encloses the lifted rows seen so far. The smallest such ball
    is the solution of the squared-hinge problem with penalised bias,

    .. math:: \min_f \tfrac12 (\|w\|^2 + b_0^2)
              + \tfrac C2 \sum_i s_i \max(0, 1 - y_i f(x_i))^2.

    A row inside the ball changes nothing; a row outside moves the centre towards it.
    The result depends on the order of the rows. The memory does not grow with the
    number of rows: it is ``n_balls`` numbers per column for the linear kernel.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared slack, as in `CoreVectorClassifier`.
    n_balls : int, default=8
        Number of balls. With "lookahead", more balls give a smaller ball and a better
        model in the end, and a row that changes nothing costs the same (6 to 8 in the
        experiments of the paper; 1 in its plain algorithm).
    balls : {"lookahead", "general"}, default="lookahead"
        "lookahead": one ball, and up to ``n_balls - 1`` rows outside it that are
        absorbed together (the experiments of the paper). "general": several balls; when
        a row lies outside all of them, the two whose union grows least are merged.
    kernel : str or callable, default="linear"
        Kernel function: a name or a function ``k(X, Z)``, but not "precomputed". See
        `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. A name is resolved on the *first* block.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    budget : int, default=None
        Maximum number of rows in the expansion of a kernel machine, per class. None
        keeps every absorbed row: `n_updates_` of them, usually few.
    overflow : {"merge", "drop"}, default="merge"
        What happens to the row of least weight beyond the budget: its coefficient is
        added to the most similar row, or is dropped. The radius grows by the distance
        that this moves the centre.
    fit_intercept : bool, default=True
        Whether to fit a (penalised) bias. The paper has none.
    tol : float, default=1e-3
        Relative gap of the machine, below 1, up to which `corevec.certify` says
        ``converged``. It does not stop the single pass.
    verbose : int, default=0
        1 shows a progress line on a terminal with the rows, the throughput and the
        accuracy so far; 2 writes one log record per block.

    Attributes
    ----------
    classes_ : ndarray
        Class labels.
    coef_ : ndarray of shape (n_machines, n_features)
        ``w / (|w|^2 + s)``, where s is the squared norm of the slack part of the
        centre: at the smallest ball this is the solution above, with margin 1. It
        exists for the linear kernel only.
    intercept_ : ndarray of shape (n_machines,)
        Penalised bias of each machine.
    support_vectors_ : ndarray or CSR matrix of shape (n_kept, n_features)
        Rows of the expansion, for other kernels.
    dual_coef_ : ndarray of shape (n_machines, n_kept)
        Coefficients of `support_vectors_`.
    radius_ : float, or ndarray of shape (n_classes,)
        Every row seen lies within this distance of the centre. One value per class if
        there are more than two classes, as for `lower_radius_` and `n_updates_`.
    lower_radius_ : float or ndarray
        Lower bound of the radius of the smallest ball: ``radius_ / lower_radius_`` is a
        proved approximation factor. Theory gives 3/2 for one ball, rows of constant
        norm and equal weights; every one-ball method has at least (1 + sqrt 2)/2 in
        the worst case.
    n_updates_ : int or ndarray
        Number of absorbed rows (nSV in the paper).
    n_rows_seen_ : int
        Number of rows seen, without those of weight 0.
    test_then_train_accuracy_ : float
        Share of the rows that were classified correctly before their block was
        learned; nan unless a stream was given to ``fit`` or ``verbose`` is set.
    ball_bound_ : BallBound
        The two radii with their factor, rows and seconds; that of the loosest class
        where there are more than two. It bounds the ball, not the objective: there is
        no `certificate_`, because one pass cannot measure the duality gap.
        `corevec.certify` measures it on given rows.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec import StreamingBallClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> model = StreamingBallClassifier(n_balls=8)
    >>> for start in range(0, 1000, 100):
    ...     block = slice(start, start + 100)
    ...     _ = model.partial_fit(X[block], y[block], classes=["left", "right"])
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        n_balls: int = 8,
        balls: str = "lookahead",
        *,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        budget: int | None = None,
        overflow: str = "merge",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        verbose: int = 0,
    ):
        store(self, locals())

    _task = "classes"

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        classes: Any = None,
        *,
        target: str | None = None,
    ) -> Self:
        """Fit the model anew in one pass over rows or a stream, in order.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features), or iterable
            Rows; or, with ``y=None``, an iterable of blocks ``(X, y)`` or ``(X, y,
            sample_weight)``, such as a generator or a reader of `corevec.data.readers`.
        y : array-like of shape (n_rows,), optional
            Class labels: numbers or strings, at least two classes.
        sample_weight : array-like of shape (n_rows,), optional
            Factor of C for each row; weight 0 excludes a row.
        classes : array-like, optional
            All labels of the stream. The default is those in y, or in the first block.
        target : str, optional
            The name of a column of X, a data frame, that is y; `sample_weight` may be
            such a name, too. The other columns are the features.

        Returns
        -------
        self
            The fitted model. Ctrl-C ends a stream early: the model is then that of the
            blocks so far, and ``ball_bound_.interrupted`` is True.
        """
        self._check()
        self._forget()
        columns = named_columns(type(self).__name__, X, y, sample_weight, target)
        X, y, sample_weight = columns
        refuse_tensors(type(self).__name__, X)
        if fit_remote(self, X, y, sample_weight, classes):
            return self
        stream = y is None and is_stream(X)
        blocks: Any = [(X, y, sample_weight)]
        if stream:
            refuse_weights(self, sample_weight)
            blocks = blocks_of(type(self).__name__, X, labelled=True)

        def learn(X: Any, y: Any, weights: Any) -> None:
            self._learn_block(X, y, weights, classes, test=stream)

        self._fit_blocks(blocks, learn)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Continue with more rows: all of them, or none if one of them is invalid.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,)
            Labels.
        classes : array-like, optional
            All labels of the stream; required at the first call.
        sample_weight : array-like of shape (n_rows,), optional
            As in ``fit``.

        Returns
        -------
        self
            The model after these rows.
        """
        self._check()
        self._check_unchanged()
        if classes is None and not self.__sklearn_is_fitted__():
            raise InvalidInputError(
                f"{type(self).__name__}: classes= must be given at the first call of "
                "partial_fit: all labels that the stream will have.",
                parameter="classes",
            )
        test = bool(self.verbose)
        self._learn_block(X, y, sample_weight, classes, test=test)
        return self

    @lazily
    def decision_function(self, X: Any) -> Array:
        """Return decision values: above 0 for ``classes_[1]``, or one column per class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            Decision values, scaled to margin 1.
        """
        values = self._values(X) / self._scales
        return np.ascontiguousarray(values[:, 0]) if len(self._scales) == 1 else values

    @lazily
    def predict(self, X: Any) -> Array:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels from ``classes_``.
        """
        values = self.decision_function(X)
        return np.asarray(self.classes_[winner(values)])

    @property
    def coef_(self) -> Array:
        """Weights of the columns, for the linear kernel, shape (n_machines, d)."""
        if not self._is_linear:
            raise AttributeError("coef_ exists for kernel='linear' only")
        return read_only(self._functions.basis.values / self._scales[:, None])

    @property
    def intercept_(self) -> Array:
        """Penalised biases, shape (n_machines,)."""
        return np.asarray(self._functions.intercept / self._scales)

    @property
    def dual_coef_(self) -> Array:
        """Coefficients of `support_vectors_`, shape (n_machines, n_kept)."""
        self._unless_linear()
        return np.ascontiguousarray((self._functions.coef / self._scales).T)

    @property
    def test_then_train_accuracy_(self) -> float:
        """Share of rows classified correctly before their block was learned."""
        tested = self.__dict__.get("_tested", 0.0)
        return float(self._right / tested) if tested > 0 else float("nan")

    @property
    def _scales(self) -> Array:
        return np.array([stream.whole().centre_norm_sq for stream in self._streams])

    @property
    def _form(self) -> Form:
        return Form(
            int(self.n_balls),
            general=self.balls == "general",
            constrained=True,
            bias=1.0 if self.fit_intercept else 0.0,
        )

    def _machines(self) -> list[int]:
        n_classes = len(self.classes_)
        return [1] if n_classes == 2 else list(range(n_classes))

    def _learn_block(
        self, X: Any, y: Any, weights: Any, classes: Any, *, test: bool
    ) -> None:
        who, first = type(self).__name__, not self.__sklearn_is_fitted__()
        X, y = self._validated(X, y, first=first)
        weights = self._block_weights(weights, X.shape[0])
        if first:
            self.classes_ = first_classes(who, y, weights, classes)
        elif classes is not None and not same_classes(classes, self.classes_):
            raise InvalidInputError(
                f"{who}: classes={list(classes)!r} are not those of the first call, "
                f"{self.classes_.tolist()}.",
                parameter="classes",
            )
        codes = encoded(who, y, weights, self.classes_, self._where)
        right = tested = 0.0
        if test and not first and len(codes):
            right, tested = self._tested_on(X, codes, weights)
        self._learn(X, codes, weights)
        self._right = self.__dict__.get("_right", 0.0) + right
        self._tested = self.__dict__.get("_tested", 0.0) + tested

    def _tested_on(
        self, X: Any, codes: Array, weights: Array | None
    ) -> tuple[float, float]:
        """Return the weight of the correctly classified rows, and of all rows."""
        with np.errstate(invalid="ignore", over="ignore"):  # reported later
            values = self._values_of(X) / self._scales
        right = winner(values[:, 0] if values.shape[1] == 1 else values) == codes
        if weights is None:
            return float(np.count_nonzero(right)), float(len(codes))
        return float(weights[right].sum()), float(weights.sum())

    def _join(self, other: Any) -> None:
        if not same_classes(self.classes_, other.classes_):
            raise InvalidInputError(
                f"{type(self).__name__}: merge needs the same classes; they are "
                f"{self.classes_.tolist()} and {other.classes_.tolist()}."
            )
        super()._join(other)
        self._right += other._right
        self._tested += other._tested

    def _certify(self, X: Any, y: Any, sample_weight: Any) -> Certificate:
        """Return the certificate of the machine on the given rows."""
        check_is_fitted(self)
        wholes = [stream.whole() for stream in self._streams]
        lengths = [
            (one.centre_norm_sq, one.norm_sq / one.centre_norm_sq**2) for one in wholes
        ]
        rows = X, y, sample_weight
        return certify_classes(self, rows, self._machines(), lengths)


__all__ = ["StreamingBallClassifier", "StreamingBallOneClass"]
