"""CoreVectorClassifier: the two-class L2-SVM, and several of them for many classes."""

from __future__ import annotations

from itertools import combinations
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight

from corevec._runtime.types import Array
from corevec.backend.arrays import cast, column_of, entries_of, full, tensors_to_numpy
from corevec.data.sources import DEFAULT_MEMORY_BUDGET
from corevec.estimators._base import CoreVectorEstimator
from corevec.estimators._callbacks import RoundReporter, with_callbacks
from corevec.estimators._cells import CellsFit, check_cells, values_for_labels
from corevec.estimators._dataset import Dataset
from corevec.estimators._parameters import check_positive, store
from corevec.estimators._rows import lazily
from corevec.exceptions import InvalidInputError
from corevec.problems.family import Problem, two_class

# "auto" takes pairs of classes up to here: their number grows with the square of the
# classes (496 for 32), and their rows are sorted in memory.
MOST_PAIRED_CLASSES, MOST_PAIRED_ROWS = 32, 200_000


class CoreVectorClassifier(ClassifierMixin, CoreVectorEstimator):
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
    gamma : float or {"scale", "auto", "mean-distance", "tune"}, default="scale"
        Kernel coefficient: a number, "scale" (``1 / (n_features * X.var())``), "auto"
        (``1 / n_features``) or "mean-distance" (the inverse of the mean squared
        distance between all pairs of rows, as in the papers). With `cells`, "tune"
        selects gamma and a factor of C on held-out rows of a few cells (see `gamma_`
        and `C_`).
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    tol : float, default=1e-3
        Tolerance: the relative duality gap to reach, measured on all rows.
    ball_epsilon : float, default=None
        Use the stopping criterion of the paper instead of `tol`: every row lies within
        ``1 + ball_epsilon`` radii of the centre. The gap is still reported.
    sampling : {"auto", "full"} or int, default="auto"
        Rows that are scanned for violators: a growing subset and then all rows
        ("auto"), always all rows ("full"), or a random sample of this size (59 in the
        paper). With a number and the criterion of `tol`, the problem is solved on one
        random sample of that size, and the certificate says that only the sample was
        verified.
    batch : "auto" or int, default="auto"
        Violators that are added to the core set per round (1 in the paper).
    qp : {"auto", "newton", "smo"}, default="auto"
        Solver of the core-set problem: exact Newton steps, or the SMO of the paper.
    init : {"auto", "any", "farthest", "opposite"}, default="auto"
        How the first core rows are chosen (section 4.1.1 of the paper).
    low_rank : {"auto", True, False}, default="auto"
        Whether to test the kernel matrix for a low numerical rank and then to solve
        over all rows in the span of a basis. "auto" tests from 5,000 rows on.
    weights : {"auto", "core", "all"}, default="auto"
        Which rows determine the weights. "core": the core set alone, as in the papers.
        "all": all rows, in the span of a core set that doubles, up to `max_core`, while
        that lowers the objective by at least 1 %. "auto": all rows, exactly, unless
        `max_core` bounds the core set or a sample predicts more than 15 minutes.
    max_core : int, default=None
        Maximum number of core rows. None derives it from `memory_budget`.
    max_iter : int, default=None
        Maximum number of rounds. None sets no limit.
    max_time : float, default=None
        Maximum time of the fit in seconds. None sets no limit.
    checkpoint : str or path-like, default=None
        File that stores the state after every round (rounds shorter than a second may
        be skipped). A fit that finds the file resumes from it, on any machine; a
        certified fit removes it.
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the data; by default an eighth of the memory of
        the machine (256 MiB to 4 GiB). It determines the block sizes
        and the size of the core set.
    cells : "auto" or int, default=None
        Solve many local problems instead of one. A balanced tree partitions the rows
        into cells of about this many rows; each cell is solved exactly and predicts the
        rows that fall into it. This suits decision boundaries that no small model
        represents. The certificate covers each cell. The parameters of the core set
        (`sampling`, `batch`, `qp`, `init`, `low_rank`, `weights`, `max_core`,
        `ball_epsilon`) and `checkpoint` are then ignored. `max_time` and Ctrl-C take
        effect between cells: cells that were not reached predict the mean label of
        their rows.
    n_trees : int, default=1
        Number of trees whose predictions are averaged, with `cells`. All trees but the
        first are random.
    multi_class : {"auto", "ovr", "ovo"}, default="auto"
        One machine per class against the rest ("ovr"), or one per pair of classes
        ("ovo"), as in scikit-learn's `SVC`. "auto" takes pairs up to 32 classes and
        200,000 rows, where they are solved in memory and are as accurate as `SVC`;
        with `cells`, and beyond, one class against the rest.
    class_weight : dict or "balanced", default=None
        Factor of the weights of the rows of each class.
    n_jobs : int, default=None
        Number of threads. None uses the available cores (or ``OMP_NUM_THREADS``).
    device : str, default=None
        Torch device for the passes over the rows, such as ``"cuda"``. NumPy and CSR
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
        Row numbers of the support vectors, sorted by class.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        Support vectors: the rows of the kernel expansion.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        Coefficients: ``decision_function = k(X, support_vectors_) dual_coef_.T +
        intercept_``.
    intercept_ : ndarray of shape (n_machines,)
        Penalised bias of each machine.
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

    fit_intercept = True
    _task = "classes"

    def __init__(
        self,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        *,
        tol: float = 1e-3,
        ball_epsilon: float | None = None,
        sampling: str | int = "auto",
        batch: str | int = "auto",
        qp: str = "auto",
        init: str = "auto",
        low_rank: str | bool = "auto",
        weights: str = "auto",
        max_core: int | None = None,
        max_iter: int | None = None,
        max_time: float | None = None,
        checkpoint: str | PathLike[str] | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        cells: str | int | None = None,
        n_trees: int = 1,
        multi_class: str = "auto",
        class_weight: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ):
        store(self, locals())

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like, CSR matrix or memmap of shape (n_rows, n_features)
            Training rows; a square kernel matrix for ``kernel="precomputed"``. Remote
            or out-of-core rows: a Dask array or data frame, or the result of
            `corevec.open`, which contains its own y and weights.
        y : array-like of shape (n_rows,)
            Class labels: numbers or strings, at least two classes.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows: 0 excludes a row, 2 counts it twice.

        Returns
        -------
        self
            The fitted classifier, with `certificate_`.
        """
        check_positive(type(self).__name__, "C", self.C)
        check_cells(self)
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
        local = CellsFit(self, given, problems)
        if local.applies():
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
        few = len(self.classes_) <= MOST_PAIRED_CLASSES
        few &= given.n_rows <= MOST_PAIRED_ROWS
        return "ovo" if few and self.cells is None else "ovr"

    def _count_support(self, given: Dataset) -> None:
        """Sort the support vectors by class, as `n_support_` counts them."""
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
        values = self._decisions(values_for_labels(self, X))
        codes = cast(values > 0, int) if values.ndim == 1 else values.argmax(axis=1)
        return entries_of(self.classes_, codes)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy: the share of rows whose class is predicted correctly.

        Parameters
        ----------
        X : array-like, CSR matrix or tensor of shape (n_rows, n_features)
            Rows to classify.
        y : array-like or tensor of shape (n_rows,)
            Class labels of the rows.
        sample_weight : array-like or tensor of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        float
            Between 0 and 1.
        """
        from sklearn.metrics import accuracy_score  # it loads slowly

        asked = tensors_to_numpy(y, self.predict(X), sample_weight)
        return float(accuracy_score(*asked[:2], sample_weight=asked[2]))

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
        bias = self.fit_intercept
        C = self.__dict__.get("C_", self.C)  # C_: tuned by cells
        return [two_class(labels, C, *pair, has_bias=bias) for pair in sides]

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
