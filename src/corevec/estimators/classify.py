"""CoreVectorClassifier: the two-class L2-SVM, and many classes by several of them."""

from __future__ import annotations

from itertools import combinations
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight

from corevec._runtime.types import Array
from corevec.backend.arrays import cast, column_of, entries_of, full, tensors_to_numpy
from corevec.data.sources import DEFAULT_MEMORY_BUDGET
from corevec.estimators._base import CoreVectorEstimator
from corevec.estimators._callbacks import with_callbacks
from corevec.estimators._cells import check_cells, fit_cells, values_for_labels
from corevec.estimators._dataset import Dataset
from corevec.estimators._lazy import lazily
from corevec.estimators._parameters import check_choice, check_positive
from corevec.estimators._rows import named
from corevec.exceptions import InvalidInputError
from corevec.problems.family import Labels, Problem, two_class


class CoreVectorClassifier(ClassifierMixin, CoreVectorEstimator):
    r"""Kernel classifier for very many rows, with a certificate (Core Vector Machine).

    Solves the squared-hinge machine with penalised bias,

    .. math:: \min_f \tfrac12 (\|w\|^2 + b_0^2)
              + \tfrac C2 \sum_i s_i \max(0, 1 - y_i f(x_i))^2,

    until the relative duality gap over all rows is at most `tol`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared slack; the C of scikit-learn's ``LinearSVC`` (squared
        hinge) is half of it.
    kernel : str or callable, default="rbf"
        "rbf", "laplacian", "inverse-distance", "linear", "poly", "sigmoid", each
        also as "normalized-...", "precomputed", or a function ``k(X, Z)`` that returns
        one value per pair of rows. See `corevec.kernels`.
    gamma : float or {"scale", "auto", "mean-distance", "tune"}, default="scale"
        Kernel width: a number, ``1/(d X.var())``, ``1/d``, or the papers' one over the
        mean squared distance of all pairs of rows. "tune", with `cells`: gamma and a
        factor of C are chosen on held-out rows of a few cells (`gamma_`, `C_`).
    degree, coef0 : float, default=3, 0.0
        Parameters of "poly" and "sigmoid".
    tol : float, default=1e-3
        Relative duality gap to reach, measured on all rows.
    ball_epsilon : float, optional
        Stop by the paper's rule instead: every row within ``1 + ball_epsilon`` radii
        of the centre. The gap is still reported.
    sampling : {"auto", "full"} or int, default="auto"
        Where to look for bad rows: a growing subset and then all rows, always all
        rows, or so many random rows (59 in the paper). With a number and the rule of
        `tol` the machine is solved on a random sample of that size, and the
        certificate says that only the sample was verified.
    batch : "auto" or int, default="auto"
        Rows added to the core set per round (1 in the paper).
    qp : {"auto", "newton", "smo"}, default="auto"
        Solver on the core set: exact Newton steps, or the paper's SMO.
    init : {"auto", "any", "farthest", "opposite"}, default="auto"
        First core rows (section 4.1.1 of the paper).
    low_rank : {"auto", True, False}, default="auto"
        Whether to probe for a kernel of numerically low rank and then solve over all
        rows in its span. ``"auto"`` probes from 5,000 rows on.
    weights : {"auto", "core", "all"}, default="auto"
        Which rows decide the weights: "core" the core set alone, as in the papers;
        "all" all rows, in the span of a core set that doubles up to `max_core` while
        that lowers the objective by a hundredth; "auto" the core set, and all rows in
        a basis where that is too small for them.
    max_core, max_iter, max_time : optional
        Budgets: core rows, rounds, seconds. The default of `max_core` is what
        `memory_budget` holds.
    checkpoint : path, optional
        File that keeps the state after every round (those that take less than a second
        may be skipped). A fit that finds it goes on from there, on whatever machine;
        a certified fit removes it.
    memory_budget : float, default=2**28
        Bytes to use beside the data (256 MiB): sets block sizes and the core set.
    cells : "auto" or int, optional
        Local machines: a balanced tree cuts the rows into cells of about so many, each
        is solved exactly, and a row is predicted by the machine of its cell. For
        boundaries that no small model fits. The certificate is that of the cells. The
        parameters of the core set (`sampling`, `batch`, `qp`, `init`, `low_rank`,
        `weights`, `max_core`, `ball_epsilon`) and `checkpoint` have no meaning then;
        `max_time` and Ctrl-C act between cells: those not
        come to answer by the mean of their labels.
    n_trees : int, default=1
        With cells, the average over so many trees; all but the first are random.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One machine per class against the rest, or per pair of classes. All machines
        share the passes over the data.
    class_weight : dict or "balanced", optional
        Multiplies the weights of a class's rows.
    n_jobs : int, optional
        Threads; None uses the available cores (or ``OMP_NUM_THREADS``).
    device : str, optional
        Where the passes over the rows run: a torch device such as ``"cuda"``, to which
        NumPy and CSR rows are copied (all, or block by block where they are too many);
        needs ``corevec[gpu]``. None: here, or where the given tensors live.
    warm_start : bool, default=False
        Start from the previous fit: a new C on the same rows, or new rows.
    random_state : int or RandomState, optional
        Seed of all sampling.
    verbose : int, default=0
        1: a live line on a terminal; 2: one log record per round.

    Attributes
    ----------
    classes_ : ndarray
        Class labels.
    support_, support_vectors_ : ndarray or CSR
        Row numbers and rows of the expansion.
    n_support_ : ndarray
        Number of them in each class.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        Coefficients: ``decision_function = k(X, support_vectors_) dual_coef_.T +
        intercept_``.
    intercept_ : ndarray of shape (n_machines,)
        Penalised biases.
    certificate_ : Certificate
        Primal, dual, gap, and what was verified.
    history_ : list of dict
        One record per round.
    n_iter_, n_core_ : int
        Rounds, and rows in the largest core set or basis.

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
        multi_class: str = "ovr",
        class_weight: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ):
        super().__init__(
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            tol=tol,
            ball_epsilon=ball_epsilon,
            sampling=sampling,
            batch=batch,
            qp=qp,
            init=init,
            low_rank=low_rank,
            max_core=max_core,
            max_iter=max_iter,
            max_time=max_time,
            checkpoint=checkpoint,
            memory_budget=memory_budget,
            n_jobs=n_jobs,
            warm_start=warm_start,
            random_state=random_state,
            verbose=verbose,
        )
        self.C = C
        self.weights = weights
        self.cells = cells
        self.n_trees = n_trees
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.device = device

    @with_callbacks
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None
    ) -> CoreVectorClassifier:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like, CSR matrix or memmap of shape (n_rows, n_features)
            Training rows; a square kernel matrix for ``kernel="precomputed"``. Or rows
            that live elsewhere: a Dask array or data frame, or what `corevec.open`
            returns, which brings its own y and weights.
        y : array-like of shape (n_rows,)
            Labels: numbers or strings, two classes or more.
        sample_weight : array-like of shape (n_rows,), optional
            Weight 0 leaves a row out, weight 2 counts it twice.

        Returns
        -------
        self
            The fitted classifier, with `certificate_`.
        """
        check_positive(type(self).__name__, "C", self.C)
        check_choice(
            "CoreVectorClassifier", "multi_class", self.multi_class, ("ovr", "ovo")
        )
        check_cells(self)
        X, y = self._validate_fit(X, y)
        given = self._given(X, y, sample_weight)
        # A class whose rows all weigh nothing is absent.
        classes = given.classes()
        try:
            given.check_classes(y)
        except ValueError as error:
            raise named(self, error) from None
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
        self.classes_ = classes
        problems = self._problems_for(given)
        kind = "one-vs-rest" if self.multi_class == "ovr" else "one-vs-one"
        if fit_cells(self, given, problems) is None:
            self._fit_problems(given, problems, kind)
        self._count_support(given)
        return self

    def _count_support(self, given: Dataset) -> None:
        own = np.searchsorted(self.classes_, given.labels_of(self.support_))
        own = np.minimum(own, len(self.classes_) - 1)
        counts = np.bincount(own, minlength=len(self.classes_))
        self.n_support_ = counts.astype(np.int32)

    @lazily
    def decision_function(self, X: Any) -> Array:
        """Return signed values: above 0 for ``classes_[1]``, or one column per class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            For "ovo", votes of the pairs plus their summed confidence, squeezed into
            less than half a vote, as scikit-learn does.
        """
        return self._decisions(self._values(X))

    def _decisions(self, values: Array) -> Array:
        """Return what the values of all machines say: of one, or one per class."""
        if len(self.classes_) == 2:
            return column_of(values, 0)
        if self.multi_class == "ovr":
            return values
        return _votes(values, len(self.classes_))

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
            Labels out of ``classes_``.
        """
        values = self._decisions(values_for_labels(self, X))
        codes = cast(values > 0, int) if values.ndim == 1 else values.argmax(axis=1)
        return entries_of(self.classes_, codes)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted right.

        Parameters
        ----------
        X : array-like, CSR matrix or tensor of shape (n_rows, n_features)
            Rows to classify.
        y : array-like or tensor of shape (n_rows,)
            Their classes.
        sample_weight : array-like or tensor of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        float
            Between 0 and 1.
        """
        from sklearn.metrics import accuracy_score  # as scikit-learn: it loads slowly

        asked = tensors_to_numpy(y, self.predict(X), sample_weight)
        return float(accuracy_score(*asked[:2], sample_weight=asked[2]))

    def _problems_for(self, given: Dataset) -> list[Problem]:
        who, n = type(self).__name__, given.n_rows
        if given.y is None:
            raise InvalidInputError(
                f"{who}: labels y are needed to certify a classifier."
            )
        given.check_labels()
        unknown = np.setdiff1d(given.classes(), self.classes_)
        if len(unknown):
            raise InvalidInputError(
                f"{who}: y holds labels that the model was not fitted "
                f"on: {unknown[:5].tolist()}; it knows {self.classes_[:10].tolist()}."
            )
        codes = given.codes(self.classes_)
        class_weight = self._class_weights(given)
        labels = Labels(n, codes, given.weights, class_weight, given.mass)
        n_classes = len(self.classes_)
        sides: list[tuple[int, int | None]] = [(1, 0)]
        if n_classes > 2 and self.multi_class == "ovr":
            sides = [(t, None) for t in range(n_classes)]
        elif n_classes > 2:
            sides = [(j, i) for i, j in combinations(range(n_classes), 2)]
        bias = self.fit_intercept
        C = self.__dict__.get("C_", self.C)  # the tuned one, of cells
        return [two_class(labels, C, *pair, has_bias=bias) for pair in sides]

    def _class_weights(self, given: Dataset) -> Array | None:
        if self.class_weight is None:
            return None
        if self.class_weight == "balanced":
            # By weight, so that weight 2 is the row twice here too.
            mass = given.mass_of_classes(self.classes_)
            return np.asarray(mass.sum() / (len(mass) * mass), dtype=np.float64)
        labels = self.classes_[:1]  # compute_class_weight looks at dict and classes
        found = np.asarray(
            compute_class_weight(self.class_weight, classes=self.classes_, y=labels),
            dtype=np.float64,
        )
        if (found < 0).any() or np.count_nonzero(found) < 2:
            raise InvalidInputError(
                f"{type(self).__name__}: class_weight={self.class_weight!r} must be at "
                "least 0 for every class and above 0 for two of them."
            )
        return found


def _votes(values: Array, n_classes: int) -> Array:
    """Return votes plus confidence per class from pairwise values.

    Column of pair (i, j) is above 0 where j wins.
    """
    votes = full((len(values), n_classes), 0.0, values)
    confidence = 0.0 * votes
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        votes[:, i] += values[:, column] <= 0
        votes[:, j] += values[:, column] > 0
        confidence[:, i] -= values[:, column]
        confidence[:, j] += values[:, column]
    return votes + confidence / (3 * (abs(confidence) + 1))
