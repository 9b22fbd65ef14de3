"""The estimators that `load_libsvm` returns."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin

from corevec._runtime.types import Array
from corevec.estimators._parameters import store
from corevec.estimators.classify import _votes
from corevec.formats.libsvm.base import LibsvmModel
from corevec.formats.libsvm.text import KERNELS, LibsvmText


class _Classifier(ClassifierMixin, LibsvmModel):
    """Base class of the two classifiers."""

    def _take(self, text: LibsvmText, n_features: int | None) -> None:
        super()._take(text, n_features)
        assert text.labels is not None
        assert text.counts is not None
        rank = np.argsort(text.labels)
        self.classes_ = text.labels[rank]
        self.n_support_ = text.counts[rank].astype(np.int32)
        if len(rank) > 2:
            self.dual_coef_, self.intercept_ = _in_class_order(text, self._order())
        elif not self._first_is_upper:
            # scikit-learn: above 0 for classes_[1]; LIBSVM: for the first label.
            self.dual_coef_, self.intercept_ = -self.dual_coef_, -self.intercept_

    def _order(self) -> Array:
        """Return the vectors class by class, in the order of `classes_`."""
        counts: Any = self.text_.counts
        return np.argsort(np.repeat(self._labels, counts), kind="stable")

    @property
    def _labels(self) -> Array:
        """The classes in the order of the file."""
        return np.asarray(self.text_.labels)

    @property
    def _first_is_upper(self) -> bool:
        return bool(self._labels[0] > self._labels[-1])

    def pair_values(self, X: Any) -> Array:
        """Return the value of each pair of classes, as in LIBSVM.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows, n_pairs)
            Pairs (0, 1), (0, 2), ... of ``text_.labels``; above 0 for the first.
        """
        return self._machine_values(X)

    def decision_function(self, X: Any) -> Array:
        """Return decision values: above 0 for ``classes_[1]``, or one column per class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            Of several classes: votes plus confidence, as scikit-learn's SVC has them.
        """
        values = self._machine_values(X)
        if len(self.classes_) == 2:
            sign = 1.0 if self._first_is_upper else -1.0
            return np.ascontiguousarray(sign * values[:, 0])
        votes = _votes(-values, len(self.classes_))  # in the order of the file
        return np.asarray(votes[:, np.argsort(self._labels)])

    def predict(self, X: Any) -> Array:
        """Return the class of each row, by the voting rule of LIBSVM.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows,)
            The class with most votes; among equals the first label of the file. A
            value of 0 is a vote for the second class of a pair.
        """
        values, labels = self._machine_values(X), self._labels
        votes = np.zeros((len(values), len(labels)), dtype=np.int64)
        for column, (i, j) in enumerate(combinations(range(len(labels)), 2)):
            first = values[:, column] > 0
            votes[:, i] += first
            votes[:, j] += ~first
        return np.asarray(labels[votes.argmax(axis=1)])


class LibsvmClassifier(_Classifier):
    """A C-SVC read from a LIBSVM file.

    Parameters
    ----------
    C : float, optional
        C of the problem, for `corevec.certify`; the file does not tell it.
    kernel, gamma, degree, coef0
        As in the file.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        For `certify`: corevec's own classifiers solve the squared hinge.
    bias : {"free", "penalized", "none"}, default="free"
        For `certify`: corevec's own have a penalised bias.
    """

    def __init__(
        self,
        C: float | None = None,
        kernel: str = "rbf",
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
        loss: str = "hinge",
        bias: str = "free",
    ):
        store(self, locals())


class _OfNu(LibsvmModel):
    """The parameters of a machine with nu and without C."""

    def __init__(
        self,
        nu: float | None = None,
        kernel: str = "rbf",
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
    ):
        store(self, locals())


class LibsvmNuClassifier(_Classifier, _OfNu):
    """A nu-SVC read from a LIBSVM file.

    Parameters
    ----------
    nu : float, optional
        nu of the problem, for `corevec.certify`; the file does not tell it.
    kernel, gamma, degree, coef0
        As in the file.
    """


class _Regressor(RegressorMixin, LibsvmModel):
    """Base class of the two regressors."""

    def predict(self, X: Any) -> Array:
        """Return the predicted targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Values.
        """
        return np.ascontiguousarray(self._machine_values(X)[:, 0])


class LibsvmRegressor(_Regressor):
    """An epsilon-SVR read from a LIBSVM file.

    Parameters
    ----------
    C, epsilon : float, optional
        Of the problem, for `corevec.certify`; the file does not tell them.
    kernel, gamma, degree, coef0
        As in the file.
    """

    def __init__(
        self,
        C: float | None = None,
        epsilon: float | None = None,
        kernel: str = "rbf",
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
    ):
        store(self, locals())


class LibsvmNuRegressor(_Regressor):
    """A nu-SVR read from a LIBSVM file.

    Parameters
    ----------
    C, nu : float, optional
        Of the problem, for `corevec.certify`; the file does not tell them.
    kernel, gamma, degree, coef0
        As in the file.
    """

    def __init__(
        self,
        C: float | None = None,
        nu: float | None = None,
        kernel: str = "rbf",
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
    ):
        store(self, locals())


class LibsvmOneClass(OutlierMixin, _OfNu):
    """A one-class machine read from a LIBSVM file.

    Parameters
    ----------
    nu : float, optional
        nu of the problem, for `corevec.certify`; the file does not tell it.
    kernel, gamma, degree, coef0
        As in the file.
    """

    @property
    def offset_(self) -> float:
        """``decision_function = score_samples - offset_``: rho of the file."""
        return float(self.text_.rho[0])

    def score_samples(self, X: Any) -> Array:
        """Return the score of each row: the larger, the more normal.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to score.

        Returns
        -------
        ndarray of shape (n_rows,)
            The sum without rho.
        """
        return self.decision_function(X) + self.offset_

    def decision_function(self, X: Any) -> Array:
        """Return the decision values of LIBSVM: above 0 for inliers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to judge.

        Returns
        -------
        ndarray of shape (n_rows,)
            Values.
        """
        return np.ascontiguousarray(self._machine_values(X)[:, 0])

    def predict(self, X: Any) -> Array:
        """Return +1 for inliers and -1 for outliers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows to judge.

        Returns
        -------
        ndarray of int of shape (n_rows,)
            +1 where the value is above 0, as LIBSVM has it (not at 0).
        """
        return np.where(self.decision_function(X) > 0, 1, -1)


_CLASSES: dict[str, type[LibsvmModel]] = {
    "c_svc": LibsvmClassifier,
    "nu_svc": LibsvmNuClassifier,
    "one_class": LibsvmOneClass,
    "epsilon_svr": LibsvmRegressor,
    "nu_svr": LibsvmNuRegressor,
}


def model_of(text: LibsvmText, n_features: int | None) -> LibsvmModel:
    """Return the estimator of a file."""
    shape = {"kernel": KERNELS[text.kernel_type], **text.parameters}
    model = _CLASSES[text.svm_type](**shape)
    model._take(text, n_features)
    return model


def _in_class_order(text: LibsvmText, order: Array) -> tuple[Array, Array]:
    """Return `dual_coef_` and `intercept_` with the classes in ascending order.

    A pair whose classes change places changes its sign.
    """
    assert text.labels is not None
    assert text.counts is not None
    k = len(text.labels)
    rank = np.empty(k, dtype=np.int64)
    rank[np.argsort(text.labels)] = np.arange(k)
    own = np.repeat(np.arange(k), text.counts)
    dual = np.empty((k - 1, len(text.coef)))
    intercept = np.empty(len(text.rho))
    place = {pair: t for t, pair in enumerate(combinations(range(k), 2))}
    for t, (i, j) in enumerate(combinations(range(k), 2)):
        a, b = rank[i], rank[j]
        sign = 1.0 if a < b else -1.0
        of_i, of_j = own == i, own == j
        dual[b - 1 if a < b else b, of_i] = sign * text.coef[of_i, j - 1]
        dual[a if a < b else a - 1, of_j] = sign * text.coef[of_j, i]
        intercept[place[min(a, b), max(a, b)]] = -sign * text.rho[t]
    return np.ascontiguousarray(dual[:, order]), intercept


__all__ = [
    "LibsvmClassifier",
    "LibsvmModel",
    "LibsvmNuClassifier",
    "LibsvmNuRegressor",
    "LibsvmOneClass",
    "LibsvmRegressor",
    "model_of",
]
