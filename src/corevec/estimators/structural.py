"""StructuralSVM: the 1-slack structural machine, with many classes as its example."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.progress import Progress, RoundState
from corevec._runtime.types import Array
from corevec.data.sources import (
    DEFAULT_MEMORY_BUDGET,
    Workers,
    as_source,
)
from corevec.estimators._base import REMEDIES
from corevec.estimators._callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    with_callbacks,
)
from corevec.estimators._dataset import Dataset
from corevec.estimators._notebook import ShowsCertificate
from corevec.estimators._parameters import check_parameters, check_positive, store
from corevec.estimators._validation import check_labels, checked_weights, validated
from corevec.exceptions import InvalidInputError, NotCertifiedWarning
from corevec.solvers.cutting_plane import structured as structures
from corevec.solvers.cutting_plane.structured import (
    MulticlassOracle,
    Oracle,
    PlainOracle,
)

_METHODS = ("joint_feature", "loss", "argmax")


class StructuralSVM(
    ShowsCertificate, ClassifierMixin, CallbackSupportMixin, BaseEstimator
):
    r"""Linear machine for structured outputs, with a certificate (cutting planes).

    Solves, by the 1-slack cutting-plane algorithm,

    .. math:: \min_w \tfrac12 \|w\|^2 + C \sum_i s_i \max_y
              \bigl( \Delta(y_i, y) - \langle w, \Psi(x_i, y_i) - \Psi(x_i, y) \rangle
              \bigr)

    until the relative duality gap over all rows is at most `tol`. The default is
    classification with many classes at once, in the form of Crammer and Singer:
    :math:`\Psi(x, y)` is x in the place of class y and zero elsewhere, and
    :math:`\Delta` is 1 for a wrong class, or what `cost_matrix` says.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the slack of a row. The CPSP paper's C is this times the number of
        rows. With two classes the difference of the two weight vectors is that of
        ``LinearSVC(loss="hinge")`` with **twice** this C: the two halves of w share
        the norm, ``|w|^2 = |difference|^2 / 2``.
    model : "multiclass" or object, default="multiclass"
        An object with ``joint_feature(x, y)`` (a vector), ``loss(y_true, y)`` (a
        number, 0 for y_true itself) and ``argmax(x, y_true, w)``: the y with the
        largest ``loss(y_true, y) + w . joint_feature(x, y)``, without the loss where
        y_true is None. Then X and y are any sequences of inputs and outputs.
    cost_matrix : array-like of shape (n_classes, n_classes), optional
        For "multiclass": what it costs to predict the class of the column where that
        of the row is right, classes in sorted order; at least 0, zero diagonal.
    fit_intercept : bool, default=True
        For "multiclass": a penalised bias per class (a constant column).
    tol : float, default=1e-3
        Relative duality gap to reach.
    epsilon : float, optional
        Run the paper's algorithm literally instead, until the worst constraint is
        violated by at most this much more than the slack. The gap is still reported.
    max_iter : int, optional
        Largest number of rounds: one cut each, one pass over the rows.
    max_time : float, optional
        Largest training time, in seconds.
    memory_budget : float, default=2**28
        Memory for the fit beside the data, in bytes; it determines block sizes.
    n_jobs : int, optional
        Number of threads, for "multiclass".
    verbose : int, default=0
        1: a live line on a terminal; 2: one log record per round.

    Attributes
    ----------
    weights_ : ndarray
        w, one number per joint feature.
    classes_ : ndarray
        Class labels ("multiclass").
    coef_, intercept_ : ndarray
        Weights of the columns and biases, one row per class, or one for two classes
        ("multiclass").
    certificate_ : Certificate
        Primal, dual and gap; both exact, on all rows.
    history_ : list of dict
        One record per round.
    n_iter_ : int
        Number of rounds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from corevec import StructuralSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructuralSVM().fit(X, y)
    >>> model.certificate_.converged
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        model: Any = "multiclass",
        cost_matrix: Any = None,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        epsilon: float | None = None,
        max_iter: int | None = None,
        max_time: float | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        store(self, locals())

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Training rows; a sequence of inputs for a model of your own.
        y : array-like of shape (n_rows,)
            Labels; a sequence of outputs for a model of your own.
        sample_weight : array-like of shape (n_rows,), optional
            Weight 0 leaves a row out, weight 2 counts it twice.

        Returns
        -------
        self
            The fitted machine, with `certificate_`.
        """
        self._check_parameters()
        if not self._is_multiclass:
            return self._fit_own(X, y, sample_weight)
        X, y = validated(self, X, y)
        check_labels("StructuralSVM", y)
        weights = checked_weights(self, sample_weight, X.shape[0])
        s = np.ones(X.shape[0]) if weights is None else weights
        self.classes_ = np.unique(y[s > 0])
        if len(self.classes_) < 2:
            raise InvalidInputError(
                "StructuralSVM: y holds only 1 class "
                f"({self.classes_.tolist()[0]!r}) among the rows of positive weight; a "
                "classifier needs at least 2 classes."
            )
        last = len(self.classes_) - 1  # of absent classes: their rows weigh nothing
        codes = np.minimum(np.searchsorted(self.classes_, y), last)
        cost = self._costs(len(self.classes_))
        with Workers(self.n_jobs) as workers:
            source = as_source(X, self.memory_budget, workers)
            oracle = MulticlassOracle(
                source, codes, s / s.sum(), cost, bool(self.fit_intercept)
            )
            given = Dataset.in_memory("StructuralSVM", source, weights, y, "classes")
            self._run(oracle, float(s.sum()), given)
        return self

    def _fit_own(self, X: Any, y: Any, sample_weight: Any) -> StructuralSVM:
        n = len(X)
        if n == 0 or len(y) != n:
            raise InvalidInputError(
                f"StructuralSVM: X holds {n} inputs and y {len(y)} outputs; give one "
                "output per input, and at least one of each."
            )
        weights = checked_weights(self, sample_weight, n)
        s = np.ones(n) if weights is None else weights
        self._run(PlainOracle(self.model, X, y, s), float(s.sum()))
        return self

    def _run(self, oracle: Oracle, total: float, given: Dataset | None = None) -> None:
        progress = Progress(oracle.n_rows, self.max_iter, self.max_time)

        def attributes_at(state: RoundState) -> dict[str, Any]:
            return _attributes(oracle, state.functions())

        for name in ("coef_", "intercept_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        with RoundReporter(self, attributes_at, given) as reporter:
            progress.listeners.append(reporter.on_round)
            with progress.listening_for_interrupt():
                task = structures.StructuralTask(
                    oracle, self.C * total, self.tol, self.epsilon
                )
                found = structures.solve(task, progress)
            for name, value in _attributes(oracle, found.w).items():
                setattr(self, name, value)
        name = (
            "structural SVM (1-slack): min 1/2 |w|^2 + C sum s_i max_y (loss - margin)"
        )
        self.certificate_ = structures.certificate(found, name, self.tol, progress)
        self.history_ = progress.history
        self.n_iter_ = len(progress.history)
        self._warn_unless_certified()

    def decision_function(self, X: Any) -> Array:
        """Return the score of each class ("multiclass" only).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            One column per class; for two classes one number, above 0 for
            ``classes_[1]``.
        """
        check_is_fitted(self, "coef_")
        X = validated(self, X, reset=False)
        scores = np.asarray(X @ self.coef_.T, dtype=np.float64) + self.intercept_
        return np.ascontiguousarray(scores[:, 0]) if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:
        """Return the best output for each input.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows; a sequence of inputs for a model of your own.

        Returns
        -------
        ndarray of shape (n_rows,) or list
            Labels out of ``classes_``; a list of outputs for a model of your own.
        """
        check_is_fitted(self, "weights_")
        if not hasattr(self, "coef_"):  # fitted with a model of the user
            return [self.model.argmax(x, None, self.weights_) for x in X]
        values = self.decision_function(X)
        if values.ndim == 1:
            return self.classes_[(values > 0).astype(int)]
        return self.classes_[values.argmax(axis=1)]

    @property
    def _is_multiclass(self) -> bool:
        return isinstance(self.model, str)

    def _check_parameters(self) -> None:
        check_positive("StructuralSVM", "C", self.C)
        check_parameters(self)
        known = all(hasattr(self.model, name) for name in _METHODS)
        if self._is_multiclass:
            known = self.model == "multiclass"
        if not known:
            raise InvalidInputError(
                f"StructuralSVM: model={self.model!r} must be 'multiclass' or an "
                "object with the methods joint_feature(x, y), loss(y_true, y) and "
                "argmax(x, y_true, w).",
                parameter="model",
            )

    def _costs(self, n_classes: int) -> Array:
        if self.cost_matrix is None:
            return 1.0 - np.eye(n_classes)
        cost = np.asarray(self.cost_matrix, dtype=np.float64)
        shape = (n_classes, n_classes)
        if cost.shape != shape or not (cost >= 0).all() or cost.diagonal().any():
            raise InvalidInputError(
                f"StructuralSVM: cost_matrix must have shape {shape} (classes "
                f"{self.classes_[:10].tolist()} in this order), costs of at least 0 "
                f"and a zero diagonal; an array of shape {cost.shape} was given.",
                parameter="cost_matrix",
            )
        return cost

    def _warn_unless_certified(self) -> None:
        found = self.certificate_
        if found.converged or self.epsilon is not None:
            return
        text = (
            f"StructuralSVM stopped by {found.stopped_by} with relative gap "
            f"{found.relative_gap:.2e}, {found.tol:.2e} asked. The model is usable "
            f"within that bound (see certificate_). {REMEDIES[found.stopped_by]}"
        )
        warning = NotCertifiedWarning(text, stopped_by=found.stopped_by)
        warnings.warn(warning, stacklevel=4)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _attributes(oracle: Oracle, w: Array) -> dict[str, Any]:
    """Return the fitted attributes that follow from w."""
    if not isinstance(oracle, MulticlassOracle):
        return {"weights_": w}
    coef, intercept = oracle.parts(w)
    if len(coef) == 2:
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    return {
        "weights_": w,
        "coef_": np.ascontiguousarray(coef),
        "intercept_": np.ascontiguousarray(intercept),
    }


__all__ = ["StructuralSVM"]
