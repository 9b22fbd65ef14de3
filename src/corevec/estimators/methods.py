"""How a problem is solved: the objects that ``method=`` takes, as `corevec.methods`.

An estimator states the problem: loss, C, kernel, tolerance. A method object says how it
is solved, and holds the parameters that only this method has. Objects are estimators in
the sense of scikit-learn: `clone` copies them, and a grid search reaches their
parameters as ``method__n_vectors``. A name stands for the object with its defaults:

================  =====================================================================
name              object
================  =====================================================================
``"auto"``        what serves, in this order: `LowRank` where a probe finds a low rank,
                  `Exact` within reach, `CoreSet`, all rows in the span of a basis
``"exact"``       `Exact`: all rows, however many of them are support vectors
``"lowrank"``     `LowRank`: all rows in the span of a numerically low rank
``"coreset"``     `CoreSet`: the Core Vector Machine
``"few-vectors"`` `FewVectors`: a small model, whose weights all rows decide
``"cells"``       `Cells`: many local machines
``"sample"``      `Sample`: a random sample of the rows
================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array

from corevec._runtime.progress import Progress
from corevec.estimators._parameters import check_all, store
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows
from corevec.models.checkpoint import Saved
from corevec.models.result import FitResult, Settings
from corevec.problems.task import Task
from corevec.solvers.exact.ascent import Ascent
from corevec.solvers.exact.solve import Exact as ExactSolver
from corevec.solvers.strategy import auto as strategy

if TYPE_CHECKING:
    from corevec.solvers.basis.choose import Wanted
    from corevec.solvers.strategy.boxes import Form

BASES = (
    "pursuit",
    "train",
    "nystroem",
    "kmeans",
    "rpcholesky",
    "cholesky",
    "coreset",
)


@dataclass(frozen=True)
class Fit:
    """What a method is asked to solve.

    Attributes
    ----------
    task : Task
        Problems, rows, kernel, settings, and what an earlier fit left.
    progress : Progress
        Limits and history of the rounds.
    saved : Saved or None
        The state of a checkpoint that the fit resumes from.
    loss : str
        The loss that the estimator names.
    form : Form or None
        How the problems read where the loss has a free bias; None for squared losses.
    """

    task: Task
    progress: Progress
    saved: Saved | None = None
    loss: str = "squared_hinge"
    form: Form | None = None


class Method(BaseEstimator):
    """Base class of the methods; not for direct use."""

    # The word for it, and the estimators that it serves, by their `_serves`.
    name: ClassVar[str]
    serves: ClassVar[tuple[str, ...]] = ("classifier", "regressor", "one-class", "ball")
    losses: ClassVar[tuple[str, ...]] = ("squared",)

    def check(self, who: str) -> None:
        """Raise `InvalidInputError` for the first parameter that cannot be used."""
        check_all(who, self, "method__")

    def settings(self, settings: Settings) -> Settings:
        """Return the settings with what this method changes."""
        return settings

    def solve(self, fit: Fit) -> FitResult:
        """Return the solution of a fit."""
        return strategy.fit(fit.task, fit.progress, self._tried())

    def _tried(self) -> Sequence[strategy.Method]:
        """Return the methods of the solvers that are tried, in this order."""
        raise NotImplementedError


def _with_a_free_bias(fit: Fit, form: Form) -> FitResult:
    """Return the solution of all rows for a loss with a free bias."""
    from corevec.solvers.strategy.boxes import fit_boxes

    return fit_boxes(fit.task, form, fit.progress)


class Auto(Method):
    """What serves: the choice of ``method="auto"``."""

    name = "auto"
    serves = (*Method.serves, "ranker")
    losses = ("squared", "hinge")

    def solve(self, fit: Fit) -> FitResult:
        """Return the solution of a fit."""
        if fit.form is not None:
            return _with_a_free_bias(fit, fit.form)
        return super().solve(fit)

    def _tried(self) -> Sequence[strategy.Method]:
        return strategy.AUTOMATIC


class Exact(Method):
    """All rows exactly, however many of them are support vectors.

    Newton steps on the rows that are active, their systems solved by preconditioned
    conjugate gradients; few rows and pairs of classes by coordinate ascent. It needs a
    soft margin and a positive definite kernel by name. Unlike "auto", it does not give
    up where samples predict a long time: see `max_time`.

    Parameters
    ----------
    metric : {"isotropic", "learned"}, default="isotropic"
        Metric of the kernel's distance: one width for all columns, or a factor for each
        column that is learned on a sample of the rows by the gradients of machines
        (see `feature_importances_`), if it lowers the error on held-out rows. Kernels
        of the distance, classifiers and regressors only.
    tune : bool, default=False
        Whether to select gamma and a factor of C by the error on held-out rows of a
        sample (see `gamma_` and `C_`), together with the metric.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifier, methods
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> CoreVectorClassifier(method=methods.Exact()).fit(X, y).certificate_.converged
    True
    """

    name = "exact"
    serves = ("classifier", "regressor", "one-class")
    losses = ("squared", "hinge")

    def __init__(self, *, metric: str = "isotropic", tune: bool = False):
        store(self, locals())

    def solve(self, fit: Fit) -> FitResult:
        """Return the solution of a fit."""
        if fit.form is not None:
            return _with_a_free_bias(fit, fit.form)
        return super().solve(fit)

    def _tried(self) -> Sequence[strategy.Method]:
        patient = ExactSolver(most_seconds=np.inf)
        ascent = Ascent(exact=patient)
        return strategy.CoordinateAscent(ascent), strategy.ExactMachine(patient)


class LowRank(Method):
    """All rows in the span of a few of them, where the kernel is of low rank.

    A probe computes the numerical rank of the kernel on a sample; up to 512 rows every
    rank is low. The fit raises
    `InvalidInputError` where it is not low ("auto" then goes on).

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifier, methods
    >>> X, y = make_moons(3000, noise=0.1, random_state=0)
    >>> model = CoreVectorClassifier(gamma=0.1, method=methods.LowRank()).fit(X, y)
    >>> model.certificate_.converged
    True
    """

    name = "lowrank"

    def _tried(self) -> Sequence[strategy.Method]:
        return (strategy.LowRank(least_rows=0),)


class CoreSet(Method):
    """The Core Vector Machine: the rows that determine the solution, and no others.

    Parameters
    ----------
    sampling : {"auto", "full"} or int, default="auto"
        Rows that are scanned for violators: a growing subset and then all rows
        ("auto"), always all rows ("full"), or, with `ball_epsilon`, a random sample of
        this size (59 in the paper).
    batch : "auto" or int, default="auto"
        Violators that are added to the core set per round (1 in the paper).
    qp : {"auto", "newton", "smo"}, default="auto"
        Solver of the core-set problem: exact Newton steps, or the SMO of the paper.
    init : {"auto", "any", "farthest", "opposite"}, default="auto"
        How the first core rows are chosen (section 4.1.1 of the paper). "opposite"
        needs two classes.
    max_vectors : int, default=None
        Maximum number of core rows. None derives it from `memory_budget`.
    ball_epsilon : float, default=None
        Use the stopping criterion of the paper instead of `tol`: every row lies within
        ``1 + ball_epsilon`` radii of the centre. The gap is still reported.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifier, methods
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = CoreVectorClassifier(C=10, method=methods.CoreSet()).fit(X, y)
    >>> model.method_
    'coreset: 69 core rows of 300'
    """

    name = "coreset"

    def __init__(
        self,
        *,
        sampling: str | int = "auto",
        batch: str | int = "auto",
        qp: str = "auto",
        init: str = "auto",
        max_vectors: int | None = None,
        ball_epsilon: float | None = None,
    ):
        store(self, locals())

    @classmethod
    def as_published(cls, ball_epsilon: float = 1e-6) -> CoreSet:
        """Return the algorithm as printed (Tsang, Kwok and Cheung 2005).

        One violator per round, the farthest of 59 random rows; the core-set problem by
        SMO; the stopping criterion of the ball.

        Parameters
        ----------
        ball_epsilon : float, default=1e-6
            Every row lies within ``1 + ball_epsilon`` radii of the centre.

        Returns
        -------
        CoreSet
            The method object.
        """
        return cls(sampling=59, batch=1, qp="smo", ball_epsilon=ball_epsilon)

    def check(self, who: str) -> None:
        """Raise `InvalidInputError` for the first parameter that cannot be used."""
        super().check(who)
        if self.ball_epsilon is None and not isinstance(self.sampling, str):
            raise InvalidInputError(
                f"{who}: method__sampling={self.sampling!r} needs ball_epsilon, the "
                "stopping criterion of the paper: a sampled search finds rows, but no "
                f"gap. Use CoreSet.as_published(), or Sample({self.sampling!r}) to fit "
                "a random sample of the rows.",
                parameter="method__sampling",
            )

    def settings(self, settings: Settings) -> Settings:
        """Return the settings with those of the core set."""
        return replace(
            settings,
            sampling=_plain(self.sampling),
            batch=_plain(self.batch),
            qp=self.qp,
            init=self.init,
            max_vectors=self.max_vectors,
            ball_epsilon=self.ball_epsilon,
        )

    def _tried(self) -> Sequence[strategy.Method]:
        return (strategy.CoreSet(),)


class FewVectors(Method):
    r"""Few vectors, chosen for the task, whose weights all rows decide.

    :math:`f = \sum_j c_j k(b_j, \cdot) + b_0` over a basis :math:`b_j`: a prediction
    costs `n_vectors` kernel values per row. The problem is that of the estimator with w
    in the span of the basis; with ``loss="hinge"`` it is solved by cutting planes
    (Cutting-Plane Subspace Pursuit, Joachims and Yu 2009). The certificate covers the
    *full* problem, in which w is any function: a model can be as accurate as the full
    one although its gap is not small. It then says "n_vectors reached", without a
    warning, because that size was requested. `warm_start` has no effect.

    Parameters
    ----------
    n_vectors : int or float, default=100
        Number of vectors; a float between 0 and 1 is a share of the rows. The pursuit
        (squared losses) stops earlier where the certificate meets `tol`.
    basis : str or array-like of shape (k, n_features), default="pursuit"
        How the vectors are chosen. "pursuit": by the functional gradient of the full
        objective, and then moved, so that they are not training rows (kernel "rbf"; for
        other kernels like "train"). Where moving all of them exceeds `memory_budget`,
        some are moved and the others are training rows. With the hinge, the pre-images
        of CPSP. "train": training rows, half of them random, half of them where the
        model of the random ones fails; with the hinge, CPSP(tr), the best of 59 random
        rows per cut. "nystroem": random rows. "kmeans": centres. "rpcholesky" and
        "cholesky": randomly pivoted and incomplete Cholesky factorisation. "coreset":
        the core set. An array: the given vectors. Linearly dependent vectors are
        removed, unless the coefficients are penalised (see `regulariser`). All classes
        share the basis, except that with the hinge "pursuit" and "train" grow one basis
        per class, `n_vectors` in all. If `n_vectors` is not less than the number of
        rows, the rows are the basis.
    regulariser : {"norm", "coefficients"}, default="norm"
        Penalise :math:`\|w\|^2`, or the coefficients, :math:`\|c\|^2`, as RSVM does
        (squared losses only; linearly dependent vectors are then kept). The certificate
        covers the former problem.
    certificate : {"auto", "exact", "projection", "sample"}, default="auto"
        How the dual value is bounded: "exact", a sum over all pairs of violating rows;
        "projection", the cheap bound in the span, which is loose where the kernel
        matrix is not of low rank; "sample", an estimate from a sample of the rows that
        holds with probability 0.999. "auto" is "exact" where that is affordable, else
        "projection".
    metric : {"isotropic", "learned"}, default="isotropic"
        Metric of the kernel's distance: one width for all columns, or a factor for each
        column that is learned on a sample of the rows by the gradients of machines
        (see `feature_importances_`), if it lowers the error on held-out rows. Kernels
        of the distance, classifiers and regressors only.
    tune : bool, default=False
        Whether to select gamma and a factor of C by the error on held-out rows of a
        sample (see `gamma_` and `C_`), together with the metric.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifier, methods
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> few = methods.FewVectors(60, basis="cholesky")
    >>> CoreVectorClassifier(C=10, gamma=1.0, method=few).fit(X, y).score(X, y) > 0.99
    True
    """

    name = "few-vectors"
    serves = ("classifier", "regressor", "ranker")
    losses = ("squared", "hinge")

    def __init__(
        self,
        n_vectors: float = 100,
        *,
        basis: Any = "pursuit",
        regulariser: str = "norm",
        certificate: str = "auto",
        metric: str = "isotropic",
        tune: bool = False,
    ):
        store(self, locals())

    @classmethod
    def rsvm(cls, share: float = 0.1) -> FewVectors:
        r"""Return the Reduced SVM (Lee and Mangasarian 2001), as in the CVM paper.

        With random rows :math:`b_j`, all of which have a coefficient, it solves

        .. math:: \min_{c, b_0} \tfrac12 (\|c\|^2 + b_0^2)
                  + \tfrac C2 \sum_i s_i \max(0, 1 - y_i f(x_i))^2,
                  \quad f = \sum_j c_j k(b_j, \cdot) + b_0.

        Parameters
        ----------
        share : float, default=0.1
            Share of the rows that are drawn for the basis.

        Returns
        -------
        FewVectors
            The method object.
        """
        return cls(share, basis="nystroem", regulariser="coefficients")

    @classmethod
    def lsvm(cls, n_vectors: float = 100) -> FewVectors:
        """Return the LSVM of the CVM paper: squared hinge on a low-rank kernel.

        Parameters
        ----------
        n_vectors : int or float, default=100
            Rank of the incomplete Cholesky factor (Fine and Scheinberg 2001).

        Returns
        -------
        FewVectors
            The method object.
        """
        return cls(n_vectors, basis="cholesky")

    def check(self, who: str) -> None:
        """Raise `InvalidInputError` for the first parameter that cannot be used."""
        super().check(who)
        if isinstance(self.basis, str):
            self._check_size(who)
            if self.basis not in BASES:
                words = ", ".join(map(repr, BASES))
                raise InvalidInputError(
                    f"{who}: method__basis={self.basis!r} must be one of {words},"
                    " or an array of vectors.",
                    parameter="method__basis",
                )
        elif np.ndim(getattr(self.basis, "shape", None) or self.basis) == 0:
            raise InvalidInputError(
                f"{who}: method__basis={self.basis!r} must be an array with one vector "
                "per row, or the name of a basis.",
                parameter="method__basis",
            )

    def _check_size(self, who: str) -> None:
        n = self.n_vectors
        is_number = isinstance(n, Real) and not isinstance(n, bool)
        whole = is_number and isinstance(n, Integral) and int(n) >= 1
        share = is_number and not isinstance(n, Integral) and 0 < float(n) < 1
        if not (whole or share):
            raise InvalidInputError(
                f"{who}: method__n_vectors={n!r} must be a whole number of at "
                "least 1, or a share of the rows between 0 and 1, e.g. 0.1.",
                parameter="method__n_vectors",
            )

    def check_vectors(self, model: Any) -> None:
        """Check a given basis against the rows."""
        if isinstance(self.basis, str):
            return
        who = type(model).__name__
        words = ", ".join(map(repr, BASES))
        if model.kernel == "precomputed":
            raise InvalidInputError(
                f"{who}: with kernel='precomputed' a basis cannot be given as "
                f"vectors; use one of {words}.",
                parameter="method",
            )
        try:
            vectors = check_array(self.basis, accept_sparse="csr", input_name="basis")
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"{who}: {error} Give one of {words}, or an array with one vector per "
                "row as the basis.",
                parameter="method",
            ) from None
        if vectors.shape[1] != model.n_features_in_:
            raise InvalidInputError(
                f"{who}: basis has {vectors.shape[1]} columns, X has "
                f"{model.n_features_in_}. Basis vectors must have the columns of X.",
                parameter="method",
            )

    def wanted(self) -> Wanted:
        """Return which vectors to span the functions with."""
        from corevec.solvers.basis.choose import Wanted

        own_norm = self.regulariser == "norm"
        if not isinstance(self.basis, str):
            vectors = check_array(self.basis, accept_sparse="csr", dtype=np.float64)
            rows = Rows(vectors, np.full(vectors.shape[0], -1))
            return Wanted(len(rows), rows, self.certificate, own_norm)
        return Wanted(self.n_vectors, self.basis, self.certificate, own_norm)

    def solve(self, fit: Fit) -> FitResult:
        """Return the solution in the span of few vectors."""
        from corevec.solvers.strategy import few_vectors, hinge

        solve = hinge.fit if fit.loss == "hinge" else few_vectors.fit
        wanted, task = self.wanted(), fit.task
        n_rows = task.source.n_rows
        has_all_rows = isinstance(self.basis, str) and wanted.size(n_rows) == n_rows
        if fit.saved is not None and fit.saved.basis_is_final:
            wanted = replace(wanted, basis=Rows(fit.saved.values, fit.saved.index))
        own = task.problems, task.source, task.kernel, wanted
        outcome = solve(*own, task.settings, fit.progress)
        if has_all_rows:
            # All rows are the basis: the gap is not due to the size of the basis.
            outcome.certificates = [
                replace(c, stopped_by="stall") if c.stopped_by == "n_vectors" else c
                for c in outcome.certificates
            ]
        how = f"basis={self.basis!r}" if isinstance(self.basis, str) else "as given"
        outcome.method = (
            f"few-vectors: all {n_rows:,} rows decide the weights of "
            f"{len(outcome.functions.basis):,} vectors, {how}"
        )
        return outcome


class Cells(Method):
    """Many local machines in place of one.

    A balanced tree partitions the rows into cells; each cell is solved exactly and
    predicts the rows that fall into it. This suits decision boundaries that no small
    model represents. The certificate covers each cell. `checkpoint` and `warm_start`
    have no effect; `max_time` and Ctrl-C take effect between cells: cells that were not
    reached predict the mean label of their rows.

    Parameters
    ----------
    size : "auto" or int, default=1000
        Number of rows per cell, at least 20. "auto" compares cells of 1000 rows with a
        global model of a sample on held-out rows (labels or targets needed, 10,000 rows
        or more), and takes cells where their error is lower by 0.003; see `choice_`.
    n_trees : int, default=1
        Number of trees whose predictions are averaged. All trees but the first are
        random.
    tune : bool, default=False
        Whether to select gamma and a factor of C on held-out rows of a few cells (see
        `gamma_` and `C_`); labels or targets are needed.
    metric : {"isotropic", "learned"}, default="isotropic"
        Metric of the kernel's distance: one width for all columns, or a factor for each
        column that is learned on a sample of the rows by the gradients of machines
        (see `feature_importances_`), if it lowers the error on held-out rows. Kernels
        of the distance, classifiers and regressors only. The cuts of the tree follow
        the metric. With `tune`, gamma and C are selected together with it.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifier, methods
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = CoreVectorClassifier(C=10, method=methods.Cells(500)).fit(X, y)
    >>> model.n_cells_
    4
    """

    name = "cells"
    serves = ("classifier", "regressor", "one-class")

    def __init__(
        self,
        size: str | int = 1000,
        *,
        n_trees: int = 1,
        tune: bool = False,
        metric: str = "isotropic",
    ):
        store(self, locals())

    def check(self, who: str) -> None:
        """Raise `InvalidInputError` for the first parameter that cannot be used."""
        super().check(who)
        size = self.size
        whole = isinstance(size, Integral) and not isinstance(size, bool)
        if not (whole and size >= 20) and not (
            isinstance(size, str) and size == "auto"
        ):
            raise InvalidInputError(
                f"{who}: method__size={size!r} must be 'auto' or the number of rows "
                "of a cell, at least 20, e.g. 1000.",
                parameter="method__size",
            )

    def check_for(self, model: Any) -> None:
        """Check what the kernel and the task of an estimator allow."""
        who = type(model).__name__
        if model.kernel == "precomputed":
            raise InvalidInputError(
                f"{who}: method={self!r} cuts rows by their columns, which kernel="
                "'precomputed' does not have. Use method='auto'.",
                parameter="method",
            )
        if model._task == "none" and (isinstance(self.size, str) or self.tune):
            raise InvalidInputError(
                f"{who}: size='auto' and tune=True of Cells need labels. Give the "
                "number of rows of a cell, e.g. Cells(1000).",
                parameter="method",
            )

    def _tried(self) -> Sequence[strategy.Method]:
        """Return the methods for the global model, where cells do not pay."""
        return strategy.AUTOMATIC


class Sample(Method):
    """The problem on one random sample of the rows, each standing for n/m rows.

    The certificate says that only the sample was looked at.

    Parameters
    ----------
    n_rows : int, default=20000
        Number of rows; all of them where there are no more.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifier, methods
    >>> X, y = make_moons(3000, noise=0.1, random_state=0)
    >>> model = CoreVectorClassifier(C=10, method=methods.Sample(500)).fit(X, y)
    >>> model.certificate_.stopped_by, model.certificate_.n_verified <= 500
    ('sample', True)
    """

    name = "sample"

    def __init__(self, n_rows: int = 20_000):
        store(self, locals())

    def solve(self, fit: Fit) -> FitResult:
        """Return the solution on the sample."""
        size = int(self.n_rows)
        return strategy.fit_on_sample(fit.task, fit.progress, size, self._tried())

    def _tried(self) -> Sequence[strategy.Method]:
        return strategy.AUTOMATIC


METHODS_BY_NAME: dict[str, type[Method]] = {
    one.name: one for one in (Auto, Exact, LowRank, CoreSet, FewVectors, Cells, Sample)
}


def method_of(model: Any) -> Method:
    """Return the method object of an estimator; raise for what does not serve it."""
    who, given = type(model).__name__, model.method
    known = isinstance(given, str) and given in METHODS_BY_NAME
    if not known and not isinstance(given, Method):
        words = ", ".join(map(repr, METHODS_BY_NAME))
        raise InvalidInputError(
            f"{who}: method={given!r} must be one of {words}, or an object of "
            "corevec.methods such as CoreSet(max_vectors=500).",
            parameter="method",
        )
    method = METHODS_BY_NAME[given]() if isinstance(given, str) else given
    if model._serves not in method.serves:
        others = [
            name for name, one in METHODS_BY_NAME.items() if model._serves in one.serves
        ]
        raise InvalidInputError(
            f"{who}: method={given!r} does not serve this estimator. It serves: "
            f"{', '.join(method.serves)}. Use {', '.join(map(repr, others))}.",
            parameter="method",
        )
    method.check(who)
    return method


__all__ = ["Cells", "CoreSet", "Exact", "FewVectors", "LowRank", "Sample"]


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else int(value)
