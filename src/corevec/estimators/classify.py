"""CoreVectorClassifier: the two-class L2-SVM, and several of them for many classes."""

from __future__ import annotations

from itertools import combinations
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight

from corevec._runtime.types import Array
from corevec.backend.arrays import cast, column_of, entries_of, full
from corevec.data.sources import DEFAULT_MEMORY_BUDGET, Source, named_columns
from corevec.estimators._base import CoreVectorEstimator
from corevec.estimators._callbacks import RoundReporter, with_callbacks
from corevec.estimators._dataset import Dataset
from corevec.estimators._parameters import LOSSES, check_choice, check_positive, store
from corevec.estimators._rows import lazily
from corevec.estimators._score import Scored
from corevec.estimators.methods import Cells, FewVectors, Method, method_of
from corevec.exceptions import InvalidInputError
from corevec.models.certificate import Certificate
from corevec.problems.family import Problem, two_class

if TYPE_CHECKING:
    from corevec.solvers.strategy.boxes import Form

# "auto" takes pairs of classes up to here: their number grows with the square of the
# classes (496 for 32), and their rows are sorted in memory.
FEW_CLASSES, MOST_PAIRED_ROWS = 32, 200_000
# Up to so many classes too, where each has rows enough that pairs of them cost less
# than all of them against the rest: 30,000 noisy rows of 40 classes took 4 s and 15 s,
# 8,000 rows took 0.5 s and 0.4 s.
MANY_CLASSES, ROWS_PER_CLASS = 64, 400
# Coefficients (rows x pairs) that are held at most: 800 MB.
MOST_PAIRED_COEFFICIENTS = 100_000_000


class CoreVectorClassifier(Scored, ClassifierMixin, CoreVectorEstimator):
    r"""Kernel classifier for very large training sets, with a certificate.

    The Core Vector Machine (Tsang, Kwok and Cheung 2005). It solves the squared-hinge
    problem with a penalised bias,

    .. math:: \min_f \tfrac12 (\|w\|^2 + b_0^2)
              + \tfrac C2 \sum_i s_i \max(0, 1 - y_i f(x_i))^2,

    until the relative duality gap over all rows is at most `tol`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared slack, from 1e-100 to 1e36; the upper bound also holds for
        C times the sum of the weights. The C of scikit-learn's ``LinearSVC`` (squared
        hinge) is half of it.
    kernel : str or callable, default="rbf"
        Kernel function: "rbf", "laplacian", "inverse-distance", "linear", "poly" or
        "sigmoid", each also as "normalized-...", "precomputed", or a function ``k(X,
        Z)`` that returns one value per pair of rows. For a function, X may also be a
        list of objects such as words or graphs. See `corevec.kernels`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient: a number, "scale" (``1 / (n_features * X.var())``), "auto"
        (``1 / n_features``) or "mean-distance" (the inverse of the mean squared
        distance between all pairs of rows, as in the papers).
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss function. "hinge" is the problem of scikit-learn's `SVC`,
        :math:`C \sum_i s_i \max(0, 1 - y_i f(x_i))`, with the C of `SVC` and a bias
        that is not penalised. With ``method=methods.FewVectors(...)`` it is solved by
        cutting planes, with a penalised bias (the C of the CPSP paper is n times that).
    fit_intercept : bool, default=True
        Whether to fit a (penalised) bias b0. The CPSP paper has none.
    method : str or object of `corevec.methods`, default="auto"
        How the problem is solved. "auto" takes what serves: `LowRank` where a probe
        finds a low rank of the kernel, `Exact` within reach, else `CoreSet` or all rows
        in the span of a basis. "exact", "lowrank", "coreset", "few-vectors", "cells"
        and "sample" are the objects of `corevec.methods` with their defaults; an object
        has parameters, such as ``methods.FewVectors(50)``. `method_` says what was
        taken, and why.
    tol : float, default=1e-3
        Tolerance: the relative duality gap to reach, measured on all rows.
    class_weight : dict or "balanced", default=None
        Factor of the weights of the rows of each class.
    multi_class : {"auto", "ovr", "ovo"}, default="auto"
        One machine per class against the rest ("ovr"), or one per pair of classes
        ("ovo"), as in scikit-learn's `SVC`. "auto" takes pairs up to 32 classes (64
        where each has 400 rows) and 200,000 rows, where they are solved in memory and
        are as accurate as `SVC`; with `Cells` or `FewVectors`, and beyond, one class
        against the rest.
    max_iter : int, default=None
        Maximum number of rounds. None sets no limit.
    max_time : float, default=None
        Maximum time of the fit in seconds. None sets no limit.
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the data; by default an eighth of the memory of
        the machine (256 MiB to 4 GiB). It determines the block sizes
        and the size of the core set.
    checkpoint : str or path-like, default=None
        File that stores the state after every round (rounds shorter than a second may
        be skipped). A fit that finds the file resumes from it, on any machine; a
        certified fit removes it.
    n_jobs : int, default=None
        Number of threads. None uses the available cores (or ``OMP_NUM_THREADS``).
    device : str or list of str, default=None
        Torch device for the passes over the rows, such as ``"cuda"``; each of several
        devices, ``["cuda:0", "cuda:1"]``, works on a part of the rows. NumPy and CSR
        rows are copied to the device, all of them or block by block where they exceed
        its memory; this needs ``corevec[gpu]``. None: the host, or the device of the
        given tensors.
    warm_start : bool, default=False
        Start from the solution of the previous fit: another C on the same rows, or new
        rows.
    random_state : int or RandomState, default=None
        Seed of all sampling. None: always the same, so that a fit can be repeated.
    verbose : int, default=0
        1 shows a progress line on a terminal; 2 writes one log record per round.

    Attributes
    ----------
    classes_ : ndarray
        Class labels.
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors, sorted by class; -1 for vectors that are no
        training rows.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        Support vectors: the rows of the kernel expansion.
        With `FewVectors` the basis, which need not be training rows.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class, if all of them are training rows.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        Coefficients: ``decision_function = k(X, support_vectors_) dual_coef_.T +
        intercept_``.
    intercept_ : ndarray of shape (n_machines,)
        Penalised bias of each machine.
    method_ : str
        What `method` took, and why, in one sentence.
    certificate_ : Certificate
        Primal and dual value, relative gap, and what was verified.
    history_ : list of dict
        One record per round.
    n_iter_ : int
        Number of rounds.
    n_core_ : int
        Rows in the largest core set or basis.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifier
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = CoreVectorClassifier(C=10, random_state=0).fit(X, y)
    >>> model.certificate_.converged
    True
    """

    _task, _serves = "classes", "classifier"

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        loss: str = "squared_hinge",
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-3,
        class_weight: Any = None,
        multi_class: str = "auto",
        max_iter: int | None = None,
        max_time: float | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        device: str | list[str] | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ):
        store(self, locals())

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: str | None = None,
    ) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like, CSR matrix or memmap of shape (n_rows, n_features)
            Training rows; a square kernel matrix for ``kernel="precomputed"``. Remote
            or out-of-core rows: a Dask array or data frame, a Spark data frame, or the
            result of `corevec.open`, which contains its own y and weights.
        y : array-like of shape (n_rows,)
            Class labels: numbers or strings, at least two classes.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows: 0 excludes a row, 2 counts it twice.
        target : str, optional
            The name of a column of X, a data frame, that is y; `sample_weight` may be
            such a name, too. The other columns are the features.

        Returns
        -------
        self
            The fitted classifier, with `certificate_`.
        """
        check_positive(type(self).__name__, "C", self.C)
        columns = named_columns(type(self).__name__, X, y, sample_weight, target)
        X, y, sample_weight = columns
        X, y = self._validate_fit(X, y)
        with self._fitting(X, y, sample_weight) as (given, reporter):
            self._fit_classes(given, reporter)
        return self

    def _fit_classes(self, given: Dataset, reporter: RoundReporter) -> None:
        """Fit one machine per class or pair; classes without weight do not count."""
        classes = given.classes
        if len(classes) < 2:
            raise InvalidInputError(
                f"{type(self).__name__}: y holds only 1 class "
                f"({classes.tolist()[0]!r}) among the rows of positive weight; a "
                "classifier needs at least 2 classes. For one class use "
                "CoreVectorOneClass or SVDD."
            )
        if self.warm_start and not np.array_equal(
            classes, getattr(self, "classes_", classes)
        ):
            self.__dict__.pop("_outcome", None)
        problems = self._begin(given)
        kind = "one-vs-one" if self._has_pairs else "one-vs-rest"
        local = self._by_cells(given, problems)
        if local is not None:
            local.fit(reporter)
        else:
            self._fit_problems(given, problems, kind, reporter)
        self._count_support(given)

    def _begin(self, given: Dataset) -> list[Problem]:
        """Note the classes of the rows, and return the problems to solve."""
        self.classes_ = given.classes
        self._multi_class = self._form_for(given)
        return self._problems_for(given)

    def _form_for(self, given: Dataset) -> str:
        """Return "ovr" or "ovo": what `multi_class` asks for."""
        if self.multi_class != "auto":
            return str(self.multi_class)
        is_joint = isinstance(method_of(self), Cells | FewVectors)
        by_pairs = not is_joint and _pairs_pay(len(self.classes_), given.n_rows)
        return "ovo" if by_pairs else "ovr"

    def _count_support(self, given: Dataset) -> None:
        """Sort the support vectors by class, as `n_support_` counts them.

        Few vectors that are no training rows have no class.
        """
        self.__dict__.pop("n_support_", None)
        if (self.support_ < 0).any():
            return
        own = np.searchsorted(self.classes_, given.labels_of(self.support_))
        own = np.minimum(own, len(self.classes_) - 1)
        counts = np.bincount(own, minlength=len(self.classes_))
        self.n_support_ = counts.astype(np.int32)
        if "_forest" in self.__dict__:  # shares these arrays with its cells
            return
        order = np.argsort(own, kind="stable")
        self.support_ = self.support_[order]
        self.dual_coef_ = np.ascontiguousarray(self.dual_coef_[:, order])
        if self.support_vectors_.shape[0] == len(order):  # a matrix stores none
            self.support_vectors_ = self.support_vectors_[order]

    @lazily
    def decision_function(self, X: Any) -> Array:
        """Return decision values: above 0 for ``classes_[1]``, or one column per class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to predict (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            For "ovo", the votes of the pairs plus their summed confidence, scaled to
            less than half a vote, as in scikit-learn.
        """
        return self._decisions(self._values(X))

    def _decisions(self, values: Array) -> Array:
        """Return the decision values of the values of all machines."""
        if len(self.classes_) == 2:
            return column_of(values, 0)
        return _votes(values, len(self.classes_)) if self._has_pairs else values

    @property
    def _has_pairs(self) -> bool:
        """Whether the fit made one machine per pair of more than two classes.

        Files older than version 0.2 hold no `_multi_class`: the parameter tells.
        """
        form = self.__dict__.get("_multi_class", self.multi_class)
        return len(self.classes_) > 2 and form == "ovo"

    def _values_for_labels(self, X: Any) -> Array:
        """Return values whose labels are exact; those of cells are in float32."""
        if "_forest" not in self.__dict__:
            return self._values(X)
        from corevec.estimators._cells import values_for_labels

        return values_for_labels(self, X)

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
        values = self._decisions(self._values_for_labels(X))
        codes = cast(values > 0, int) if values.ndim == 1 else values.argmax(axis=1)
        return entries_of(self.classes_, codes)

    def _problems_for(self, given: Dataset) -> list[Problem]:
        who = type(self).__name__
        if given.target is None:
            raise InvalidInputError(
                f"{who}: labels y are needed to certify a classifier."
            )
        unknown = np.setdiff1d(given.classes, self.classes_)
        if len(unknown):
            raise InvalidInputError(
                f"{who}: y holds labels that the model was not fitted "
                f"on: {unknown[:5].tolist()}; it knows {self.classes_[:10].tolist()}."
            )
        codes = given.codes(self.classes_)
        labels = given.problem_labels(codes, self._class_weights(given))
        n_classes = len(self.classes_)
        sides: list[tuple[int, int | None]] = [(1, 0)]
        if self._has_pairs:
            sides = [(j, i) for i, j in combinations(range(n_classes), 2)]
        elif n_classes > 2:
            sides = [(t, None) for t in range(n_classes)]
        bias = bool(self.fit_intercept)
        C = self.__dict__.get("C_", self.C)  # C_: tuned by cells
        return [two_class(labels, C, *pair, has_bias=bias) for pair in sides]

    def _check_method(self, method: Method) -> None:
        who = type(self).__name__
        check_choice(who, "loss", self.loss, LOSSES)
        super()._check_method(method)
        if self.loss != "hinge":
            return
        if isinstance(method, FewVectors) and method.regulariser != "norm":
            raise InvalidInputError(
                f"{who}: method__regulariser='coefficients' needs "
                "loss='squared_hinge'.",
                parameter="method__regulariser",
            )

    def _box_form(self) -> Form | None:
        if self.loss == "hinge" and not isinstance(method_of(self), FewVectors):
            from corevec.solvers.strategy.boxes import classification

            return classification
        return None

    def _certify_one(self, t: int, problem: Problem, source: Source) -> Certificate:
        method = method_of(self)
        if self.loss != "hinge" or not isinstance(method, FewVectors):
            return super()._certify_one(t, problem, source)
        from corevec.solvers.strategy import hinge

        how = method.certificate
        function = self._functions.output(t)
        return hinge.verify(problem, function, source, how, self.tol)

    def _class_weights(self, given: Dataset) -> Array | None:
        if self.class_weight is None:
            return None
        if self.class_weight == "balanced":
            # By weight, so that weight 2 equals the row given twice here as well.
            mass = given.mass_of_classes(self.classes_)
            return np.asarray(mass.sum() / (len(mass) * mass), dtype=np.float64)
        labels = self.classes_[:1]  # compute_class_weight needs no more of y
        found = np.asarray(
            compute_class_weight(self.class_weight, classes=self.classes_, y=labels),
            dtype=np.float64,
        )
        if (found < 0).any() or np.count_nonzero(found) < 2:
            raise InvalidInputError(
                f"{type(self).__name__}: class_weight={self.class_weight!r} must be at "
                "least 0 for every class and above 0 for two of them.",
                parameter="class_weight",
            )
        return found


def _votes(values: Array, n_classes: int) -> Array:
    """Return votes plus confidence per class from pairwise values.

    The column of the pair (i, j) is above 0 where class j wins.
    """
    votes = full((len(values), n_classes), 0.0, values)
    confidence = 0.0 * votes
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        votes[:, i] += values[:, column] <= 0
        votes[:, j] += values[:, column] > 0
        confidence[:, i] -= values[:, column]
        confidence[:, j] += values[:, column]
    return votes + confidence / (3 * (abs(confidence) + 1))


def _pairs_pay(n_classes: int, n_rows: int) -> bool:
    """Whether machines of pairs of classes cost less than of each against the rest."""
    n_pairs = n_classes * (n_classes - 1) // 2
    if n_rows > MOST_PAIRED_ROWS or n_rows * n_pairs > MOST_PAIRED_COEFFICIENTS:
        return False
    are_large = n_classes <= MANY_CLASSES and n_rows >= ROWS_PER_CLASS * n_classes
    return n_classes <= FEW_CLASSES or are_large
