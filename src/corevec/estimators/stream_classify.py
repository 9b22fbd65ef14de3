"""StreamingClassifier: a core set carried along a stream, in bounded memory."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.data.sources import named_columns
from corevec.estimators._callbacks import with_callbacks
from corevec.estimators._parameters import check_share, store
from corevec.estimators._rows import lazily
from corevec.estimators._stream import fit_remote, refuse_tensors
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
from corevec.estimators._stream_core import CoreStreamEstimator
from corevec.exceptions import InvalidInputError
from corevec.models.certificate import Certificate
from corevec.solvers.streaming.core_stream import CoreForm


class StreamingClassifier(ClassifierMixin, CoreStreamEstimator):
    r"""Classifier that reads each row once, with a kernel, in bounded memory.

    A core of at most `budget` rows is carried along the stream. Each block is predicted
    first; the rows inside the margin join the core, and the squared-hinge problem with
    penalised bias,

    .. math:: \min_f \tfrac12 (\|w\|^2 + b_0^2)
              + \tfrac C2 \sum_i s_i \max(0, 1 - y_i f(x_i))^2,

    is solved exactly on core and newcomers. Rows that leave the core at the budget are
    not forgotten: the squares that they had at that moment are added up, as a quadratic
    function in the span of the core (of the columns, where the kernel is linear and
    there are at most 1023). While no active row has left, the model is that of all rows
    inside the margin that it has met.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared slack, as in `CoreVectorClassifier`.
    kernel : str or callable, default="rbf"
        Kernel function: a name or a function ``k(X, Z)``, but not "precomputed". See
        `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. A name is resolved by the moments of all rows seen: when
        they have moved, the core is solved anew with the new kernel.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    budget : int, default=1000
        Maximum number of core rows. Time per row grows with it, at most with its
        square; memory with its square.
    block : int, default=10000
        Rows that are predicted and learned together, at most; early in the stream, and
        where many of them are inside the margin, fewer.
    standardize : {"auto", True, False}, default="auto"
        Whether the columns are divided by their standard deviation so far, and dense
        ones shifted by their mean. "auto": where more than a quarter of the columns
        have a deviation and a range below a tenth of the largest, as in different
        units. Sparse rows only if True.
    forget : float, default=None
        Half-life in rows: a row counts half after so many others, and rows leave the
        core after four half-lives. None forgets nothing.
    class_weight : dict or "balanced", default=None
        Factor of C for each class. "balanced": by the rows seen so far.
    fit_intercept : bool, default=True
        Whether to fit a (penalised) bias.
    tol : float, default=1e-3
        Relative gap of the machine, below 1, up to which `corevec.certify` says
        ``converged``. It does not stop the single pass.
    verbose : int, default=0
        1 shows a progress line on a terminal with the rows, the throughput and the
        accuracies so far; 2 writes one log record per block.

    Attributes
    ----------
    classes_ : ndarray
        Class labels.
    coef_ : ndarray of shape (n_machines, n_features)
        Weights of the columns, where the span is that of the columns.
    intercept_ : ndarray of shape (n_machines,)
        Penalised bias of each machine.
    support_vectors_ : ndarray or CSR matrix of shape (n_core, n_features)
        The core rows, which all classes share.
    dual_coef_ : ndarray of shape (n_machines, n_core)
        Coefficients of `support_vectors_`, where there is no `coef_`.
    n_rows_seen_ : int
        Number of rows seen, without those of weight 0.
    n_updates_ : int
        Number of rows that joined the core.
    n_left_ : int
        Number of active rows that left it at the budget.
    test_then_train_accuracy_ : float
        Share of the rows that were classified correctly before they were learned.
    test_then_train_balanced_accuracy_ : float
        The mean over the classes of that share.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec import StreamingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 2))
    >>> y = np.where(np.hypot(X[:, 0], X[:, 1]) < 0.7, "in", "out")
    >>> model = StreamingClassifier(C=10.0, budget=100)
    >>> for start in range(0, 5000, 500):
    ...     block = slice(start, start + 500)
    ...     _ = model.partial_fit(X[block], y[block], classes=["in", "out"])
    >>> bool(model.score(X, y) > 0.98), len(model.support_vectors_) <= 100
    (True, True)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        budget: int = 1000,
        block: int = 10000,
        standardize: bool | str = "auto",
        forget: float | None = None,
        class_weight: Any = None,
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
            sample_weight)``, such as a generator or a reader of `corevec.streams`.
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
            blocks so far.
        """
        self._check()
        self._forget()
        columns = named_columns(type(self).__name__, X, y, sample_weight, target)
        X, y, sample_weight = columns
        refuse_tensors(type(self).__name__, X)
        if fit_remote(self, X, y, sample_weight, classes):
            return self
        blocks: Any = [(X, y, sample_weight)]
        if y is None and is_stream(X):
            refuse_weights(self, sample_weight)
            blocks = blocks_of(type(self).__name__, X, labelled=True)

        def learn(X: Any, y: Any, weights: Any) -> None:
            self._learn_block(X, y, weights, classes)

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
        self._learn_block(X, y, sample_weight, classes)
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
        values = self._values(X)
        return np.ascontiguousarray(values[:, 0]) if len(self.classes_) == 2 else values

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
    def test_then_train_accuracy_(self) -> float:
        """Share of rows classified correctly before they were learned."""
        right, judged, _ = self._stream.tally.sum(axis=0)
        return float(right / judged) if judged > 0 else float("nan")

    @property
    def test_then_train_balanced_accuracy_(self) -> float:
        """Mean over the classes met of `test_then_train_accuracy_`."""
        right, judged, _ = self._stream.tally.T
        met = judged > 0
        return float(np.mean(right[met] / judged[met])) if met.any() else float("nan")

    def error_bound(self, confidence: float = 0.95) -> float:
        r"""Return a bound of the error, which holds with a probability.

        Each row was predicted before it was learned. If the rows are independent and
        of one distribution, the mean over the stream of the errors that the models of
        each moment have on it is, with probability 1 - d, at most

        .. math:: \frac{\sum_i s_i e_i}{\sum_i s_i}
                  + \frac{\sqrt{\tfrac12 \log(1/d) \sum_i s_i^2}}{\sum_i s_i}

        with :math:`e_i = 1` where row i was wrong (Hoeffding and Azuma; Blum, Kalai and
        Langford 1999). The models at the end are usually better than that mean, but
        nothing is proved about the last one alone.

        Parameters
        ----------
        confidence : float, default=0.95
            Probability 1 - d with which the bound holds.

        Returns
        -------
        float
            At most 1; 1 before any row was predicted.
        """
        check_is_fitted(self)
        check_share(type(self).__name__, "confidence", confidence)
        right, judged, squares = self._stream.tally.sum(axis=0)
        if judged <= 0:
            return 1.0
        margin = np.sqrt(-np.log1p(-confidence) / 2 * squares) / judged
        return float(min(1.0, 1.0 - right / judged + margin))

    def _results(self) -> dict[str, float]:
        return {
            "accuracy": self.test_then_train_accuracy_,
            "balanced": self.test_then_train_balanced_accuracy_,
        }

    @property
    def _core_form(self) -> CoreForm:
        return CoreForm(
            int(self.budget),
            block=int(self.block),
            bias=bool(self.fit_intercept),
            half_life=None if self.forget is None else float(self.forget),
        )

    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _learn_block(self, X: Any, y: Any, weights: Any, classes: Any) -> None:
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
        n_outputs = self._n_outputs()
        if n_outputs == 1:
            z = np.where(codes == 1, 1.0, -1.0)[:, None]
        else:
            z = np.where(codes[:, None] == np.arange(n_outputs), 1.0, -1.0)
        self._learn_targets(X, z, weights, self._factors(codes, weights))
        self._mass = self._mass_with(codes, weights)

    def _factors(self, codes: Array, weights: Array | None) -> Array | None:
        """Return the factor of C of each row by its class; None without any."""
        if self.class_weight is None:
            return None
        if self.class_weight == "balanced":
            mass = self._mass_with(codes, weights)
            met = np.count_nonzero(mass)
            factor = mass.sum() / (met * np.where(mass > 0, mass, 1.0))
        else:
            labels = self.classes_[:1]  # compute_class_weight needs no more of y
            factor = np.asarray(
                compute_class_weight(
                    self.class_weight, classes=self.classes_, y=labels
                ),
                dtype=np.float64,
            )
            if (factor < 0).any() or np.count_nonzero(factor) < 2:
                raise InvalidInputError(
                    f"{type(self).__name__}: class_weight={self.class_weight!r} must "
                    "be at least 0 for every class and above 0 for two of them.",
                    parameter="class_weight",
                )
        return np.asarray(factor[codes])

    def _mass_with(self, codes: Array, weights: Array | None) -> Array:
        """Return the weight of each class, these rows included."""
        mass = np.bincount(codes, weights, len(self.classes_)).astype(np.float64)
        return mass + self.__dict__.get("_mass", 0.0)

    def _join(self, other: Any) -> None:
        if not same_classes(self.classes_, other.classes_):
            raise InvalidInputError(
                f"{type(self).__name__}: merge needs the same classes; they are "
                f"{self.classes_.tolist()} and {other.classes_.tolist()}."
            )
        super()._join(other)
        self._mass = self._mass + other._mass

    def _certify(self, X: Any, y: Any, sample_weight: Any) -> Certificate:
        check_is_fitted(self)
        stream, k = self._stream, len(self.classes_)
        machines = [1] if k == 2 else list(range(k))
        lengths = [(1.0, float(length)) for length in stream.norms_sq()]
        return certify_classes(self, (X, y, sample_weight), machines, lengths)


__all__ = ["StreamingClassifier"]
