"""Base class of the models that `load_libsvm` returns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from corevec._runtime.types import Array
from corevec.data.sources import (
    DEFAULT_MEMORY_BUDGET,
    Workers,
    as_source,
    row_statistics,
)
from corevec.estimators._rows import CHECKS
from corevec.exceptions import InvalidInputError
from corevec.formats.libsvm.text import KERNELS, LibsvmText
from corevec.kernels import Points, Rows, make_kernel
from corevec.models.expansion import KernelExpansion


class LibsvmModel(BaseEstimator):
    """A model from a LIBSVM file, as returned by `load_libsvm`.

    ``fit`` returns it as it is, so that it can stand at the end of a pipeline. The
    kernel's parameters are constructor parameters as in scikit-learn, and so are those
    of the problem that was solved (C, nu, epsilon), which the file does not tell:
    `corevec.certify` needs them, prediction does not.

    Attributes
    ----------
    support_vectors_ : ndarray or csr_matrix of shape (n_vectors, n_features)
        In the order of ``classes_``; dense if at least a quarter of the entries is
        there. Empty for a precomputed kernel, where rows to predict are kernel values
        against the training rows.
    support_ : ndarray of shape (n_vectors,)
        Numbers of training rows, from 0; of a precomputed kernel only.
    dual_coef_, intercept_ : ndarray
        As scikit-learn has them.
    n_features_in_ : int
        Columns: as told to `load_libsvm`, else the largest index in the file. Then
        narrower and wider rows are taken too: a column that is not there is 0, as
        svm-predict has it.
    text_ : LibsvmText
        What the file says, from which it is written again: ``rho``, ``labels`` in their
        order, ``extras`` (probA, probB, prob_density_marks: kept, used for nothing).
    """

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    support_vectors_: Any
    n_features_in_: int
    n_jobs = None
    memory_budget = DEFAULT_MEMORY_BUDGET

    def fit(self, X: Any = None, y: Any = None) -> LibsvmModel:
        """Return the model unchanged.

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

    def match_rows(self, X: Any) -> Self:
        """Replace the vectors by the rows of X that they are rounded copies of.

        svm-train writes eight digits of a vector. `corevec.certify` looks the vectors
        up among the training rows, which may have more: this finds the rows that they
        stand for. Predictions go on as the file says.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            The rows that the model was trained on, in any order.

        Returns
        -------
        self
            With rows of X as ``support_vectors_``.
        """
        check_is_fitted(self)
        if self.text_.is_precomputed:
            raise InvalidInputError(
                "match_rows: the file of a precomputed kernel holds no vectors to look "
                "up, but numbers of training rows (support_). Leave the call out."
            )
        X = check_array(X, **CHECKS)
        numbers = {text: row for row, text in enumerate(_texts(X))}
        found = [numbers.get(text, -1) for text in _texts(self.support_vectors_)]
        if -1 in found:
            raise InvalidInputError(
                f"match_rows: support vector {found.index(-1)} is no row of X, to "
                "eight digits. Give the rows that the model was trained on (scaled, if "
                "they were)."
            )
        self.support_vectors_ = X[found]
        self.n_features_in_ = max(X.shape[1], self.n_features_in_)
        return self

    def _take(self, text: LibsvmText, n_features: int | None) -> None:
        """Set the attributes that follow from the file."""
        self.text_ = text
        columns = text.vectors.shape[1]
        if text.is_precomputed:
            columns = int(text.row_numbers.max(initial=-1)) + 1
        self._any_width = n_features is None
        self.n_features_in_ = columns if n_features is None else n_features
        if self.n_features_in_ < columns:
            raise InvalidInputError(
                f"load_libsvm: n_features={n_features}, but the file has the index "
                f"{columns}. Give at least that.",
                parameter="n_features",
            )
        order = self._order()
        vectors = _widened(text.vectors, self.n_features_in_)
        if text.is_precomputed:
            self.support_ = text.row_numbers[order]
            self.support_vectors_ = np.empty((0, 0))
        else:
            self.support_vectors_ = _stored(vectors)[order]
        dual = text.coef[order].T
        self.dual_coef_, self.intercept_ = np.ascontiguousarray(dual), -text.rho

    def _order(self) -> Array:
        return np.arange(len(self.text_.coef))

    def _machine_values(self, X: Any) -> Array:
        """Return the values of all machines in LIBSVM, shape (n_rows, n_machines)."""
        check_is_fitted(self)
        X = check_array(X, **CHECKS)
        if X.shape[1] != self.n_features_in_ and not self._any_width:
            raise InvalidInputError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        if self.text_.is_precomputed and X.shape[1] < self.n_features_in_:
            raise InvalidInputError(
                f"X has {X.shape[1]} columns, but {type(self).__name__} needs the "
                "kernel values against all training rows, "
                f"{self.n_features_in_} at least."
            )
        with Workers(self.n_jobs) as workers:
            machines = Machines(self.text_, max(X.shape[1], self.n_features_in_))
            wide = _widened(X, machines.width)
            source = as_source(wide, self.memory_budget, workers)
            return np.asarray(source.map(machines.values))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `load_libsvm` has set the attributes."""
        return hasattr(self, "text_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


class Machines:
    """The machines of a file, for rows with a fixed number of columns."""

    def __init__(self, text: LibsvmText, width: int):
        self.text, self.width = text, max(width, 1)
        vectors = _stored(_widened(text.vectors, self.width))
        numbers = np.arange(len(text.coef))
        if text.is_precomputed:
            vectors, numbers = np.empty((len(numbers), 0)), text.row_numbers
        name = KERNELS[text.kernel_type]
        statistics = None
        if name == "rbf" and vectors.shape[0]:
            # The shift by the mean prevents cancellation in distances.
            statistics = row_statistics(as_source(vectors))
        kernel = make_kernel(name, *_shape(text), statistics)
        counts = text.counts if text.counts is not None else np.array([len(text.coef)])
        ends = np.concatenate([[0], np.cumsum(counts)])
        self.parts: list[tuple[KernelExpansion, Points]] = []
        for start, stop in pairwise(ends.tolist()):
            rows = Rows(vectors[start:stop], numbers[start:stop])
            coef = text.coef[start:stop]
            part = KernelExpansion(kernel, rows, coef, np.zeros(coef.shape[1]))
            self.parts.append((part, part.prepared()))

    def values(self, rows: Rows) -> Array:
        """Return the values of one block.

        The vectors of a class contribute to all of its machines together.
        """
        shares = [part.evaluate(rows, basis) for part, basis in self.parts]
        if len(shares) == 1:
            return np.asarray(shares[0] - self.text.rho)
        pairs = combinations(range(len(shares)), 2)
        columns = [shares[i][:, j - 1] + shares[j][:, i] for i, j in pairs]
        return np.asarray(np.stack(columns, axis=1) - self.text.rho)


def _shape(text: LibsvmText) -> tuple[float, float, float]:
    given = text.parameters
    return given.get("gamma", 1.0), given.get("degree", 3), given.get("coef0", 0.0)


def _widened(rows: Any, width: int) -> Any:
    """Return rows with zero columns appended."""
    missing = width - rows.shape[1]
    if missing <= 0:
        return rows
    if sparse.issparse(rows):
        wide = sparse.csr_matrix(rows)
        return sparse.csr_matrix(
            (wide.data, wide.indices, wide.indptr), shape=(rows.shape[0], width)
        )
    return np.pad(np.asarray(rows), ((0, 0), (0, missing)))


def _texts(rows: Any) -> Iterator[str]:
    """Yield each row as svm-train writes it."""
    csr = sparse.csr_matrix(rows)
    csr.sort_indices()
    for start, stop in pairwise(csr.indptr.tolist()):
        indices, values = csr.indices[start:stop], csr.data[start:stop]
        entries = zip(indices.tolist(), values.tolist(), strict=True)
        yield " ".join(f"{column}:{value:.8g}" for column, value in entries if value)


def _stored(vectors: Any) -> Any:
    """Return dense vectors if that takes at most four times the stored entries."""
    n, d = vectors.shape
    return vectors.toarray() if n * d <= 4 * vectors.nnz else vectors


__all__ = ["LibsvmModel", "Machines"]
