"""What the estimators share: validation, the fit, the attributes, `certify`."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    check_is_fitted,
)

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.certificates.scan import Subset
from corevec.certificates.verify import verify
from corevec.data.sources import (
    Column,
    Source,
    Workers,
    as_source,
    row_statistics,
)
from corevec.estimators._callbacks import CallbackSupportMixin, RoundReporter
from corevec.estimators._dataset import Dataset, RemoteDataset
from corevec.estimators._rows import TakesRows, check_square
from corevec.exceptions import (
    InvalidInputError,
    KernelError,
    NotCertifiedWarning,
    RowsLostError,
)
from corevec.kernels import AnyKernel, Rows, RowStatistics, make_kernel
from corevec.models.certificate import Certificate, worst_of
from corevec.models.checkpoint import Checkpoint, Saved, described
from corevec.models.expansion import KernelExpansion
from corevec.models.result import Outcome, Settings
from corevec.problems.family import Problem
from corevec.solvers.cells.certificate import certify_cells
from corevec.solvers.cells.placement import refuse_device_elsewhere
from corevec.solvers.strategy import exact as engine

REMEDIES = {
    "max_core": "Raise max_core or memory_budget, or relax tol.",
    "memory_budget": (
        "Not all rows fit the memory, so that some of them decided the weights. Raise "
        "memory_budget."
    ),
    "max_iter": "Raise max_iter, or relax tol.",
    "max_time": "Raise max_time, or relax tol.",
    "interrupt": "The fit was interrupted; fit again to go on.",
    "stall": (
        "Rounding, a kernel that is not positive definite, or slow convergence (a "
        "large C, a small memory_budget) allows no more."
    ),
    "ball_epsilon": (
        "The sampled rows were within the ball, others are not: use sampling='full', "
        "or ball_epsilon=None to stop by the duality gap."
    ),
}


# What ends a fit where the user asked for it: so many vectors, a sample of the rows.
# The certificate says so; a warning would ask for another wish.
AS_ASKED = ("n_vectors", "sample")


class CoreVectorEstimator(TakesRows, CallbackSupportMixin, BaseEstimator):
    """Base of the estimators; not to be used on its own.

    Holds the parameters that all of them share; each lists them again, because
    scikit-learn reads a class's own constructor.
    """

    def __init__(
        self,
        *,
        kernel: Any,
        gamma: Any,
        degree: Any,
        coef0: Any,
        tol: Any,
        ball_epsilon: Any,
        sampling: Any,
        batch: Any,
        qp: Any,
        init: Any,
        low_rank: Any,
        max_core: Any,
        max_iter: Any,
        max_time: Any,
        checkpoint: Any,
        memory_budget: Any,
        n_jobs: Any,
        warm_start: Any,
        random_state: Any,
        verbose: Any,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.ball_epsilon = ball_epsilon
        self.sampling = sampling
        self.batch = batch
        self.qp = qp
        self.init = init
        self.low_rank = low_rank
        self.max_core = max_core
        self.max_iter = max_iter
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _fit_problems(
        self, given: Dataset, problems: list[Problem], title: str
    ) -> Outcome:
        """Fit `problems` on validated rows and set the attributes they share."""
        with Workers(self.n_jobs) as workers:
            source = as_source(given.X, self.memory_budget, workers)
            if isinstance(given, RemoteDataset):
                given.X = source  # what the fit brings here serves those who ask later
            kernel = self._make_kernel(source, given.weights)
            with RoundReporter(self, self._attributes) as reporter:
                outcome = self._run(problems, source, kernel, reporter)
        self._set_fitted(outcome, title)
        return outcome

    def _run(
        self,
        problems: list[Problem],
        source: Source,
        kernel: AnyKernel,
        reporter: RoundReporter,
        stop_asked: bool = False,
    ) -> Outcome:
        progress = Progress(source.n_rows, self.max_iter, self.max_time)
        progress.listeners.append(reporter.listen(progress))
        progress.stop_asked = stop_asked
        progress.meter = getattr(source, "meter", None)
        try:
            file = self._checkpoint(problems, source, progress)
            with progress.listening_for_interrupt(), source.at_work():
                outcome = self._solve(problems, source, kernel, progress)
        except (KernelError, InvalidInputError, RowsLostError) as error:
            raise self._explained(error) from error.__cause__
        if file is not None and all(one.converged for one in outcome.certificates):
            file.remove()
        elif file is not None:
            file.leave(progress)
        self.__dict__.pop("_saved", None)
        self.history_ = progress.history
        self._stop_asked = progress.stop_asked
        return outcome

    def _explained(self, error: Exception) -> Exception:
        """Return an error of the rows' place, or of the kernel, that says who."""
        text = f"{type(self).__name__}: {error}"
        if isinstance(error, RowsLostError):
            text += self._how_to_go_on()
        return type(error)(text)

    def _checkpoint(
        self, problems: list[Problem], source: Source, progress: Progress
    ) -> Checkpoint | None:
        """Return the file to write after every round; read what is there."""
        self._saved: Saved | None = None
        path = getattr(self, "checkpoint", None)
        if path is None or getattr(self, "_on_sample", False):
            return None
        file = Checkpoint(path, self._asked(problems, source))
        self._saved = file.read()
        file.check_place()
        progress.more = {"C": getattr(self, "C_", None)}
        progress.listeners.append(partial(file.listen, progress))
        return file

    def _asked(self, problems: list[Problem], source: Source) -> dict[str, Any]:
        """Return what two runs of one fit have in common."""
        own = {
            name: described(value)
            for name, value in self.get_params(deep=False).items()
            if name not in _FREE
        }
        return {
            "estimator": type(self).__name__,
            "rows": source.n_rows,
            "columns": source.n_features,
            "machines": len(problems),
            **own,
        }

    def _how_to_go_on(self) -> str:
        path = getattr(self, "checkpoint", None)
        if path is None:
            return (
                " Nothing of the fit is left; with checkpoint=path each round is kept, "
                "and the next fit goes on from there."
            )
        if not Path(path).exists():
            return f" No round was finished, so {str(path)!r} is not written yet."
        return (
            f" The last round is kept in {str(path)!r}: fit again with the same "
            "parameters and rows, on any machine, to go on from there."
        )

    def _solve(
        self,
        problems: list[Problem],
        source: Source,
        kernel: AnyKernel,
        progress: Progress,
    ) -> Outcome:
        return engine.fit(
            problems,
            source,
            kernel,
            self._settings(),
            progress,
            low_rank=self.low_rank,
            warm=self._warm(source, kernel),
            weights=getattr(self, "weights", "auto"),
        )

    def _functions_on(
        self,
        problems: list[Problem],
        source: Source,
        kernel: AnyKernel,
        numbers: Array,
    ) -> KernelExpansion:
        """Return the functions that are fitted on some rows of a source."""
        some = Subset(source, numbers)
        progress = Progress(some.n_rows, self.max_iter, self.max_time)
        asked = problems, some, kernel, self._settings(), progress
        return engine.fit(*asked, low_rank=self.low_rank).functions

    def _settings(self) -> Settings:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return Settings(
            tol=self.tol,
            ball_epsilon=self.ball_epsilon,
            sampling=_plain(self.sampling),
            batch=_plain(self.batch),
            qp=self.qp,
            init=self.init,
            max_core=self.max_core,
            random_state=int(seed),
        )

    def _make_kernel(self, source: Source, weights: Column | None) -> AnyKernel:
        if callable(self.kernel) or self.kernel == "precomputed":
            return make_kernel(self.kernel)
        # By the class: CoreSetNystroem, which is none, borrows this method.
        statistics = CoreVectorEstimator._statistics(self, source, weights)
        # "tune" is for cells; a global model that is chosen instead has the default.
        is_tuned = isinstance(self.gamma, str) and self.gamma == "tune"
        gamma = "scale" if is_tuned else self.gamma
        return make_kernel(self.kernel, gamma, self.degree, self.coef0, statistics)

    def _statistics(self, source: Source, weights: Column | None) -> RowStatistics:
        """Return mean and variance of the columns; the first pass over the rows."""
        try:
            with source.at_work():
                return row_statistics(source, weights)
        except (InvalidInputError, RowsLostError) as error:
            raise self._explained(error) from error.__cause__

    def _warm(self, source: Source, kernel: AnyKernel) -> engine.Warm | None:
        saved = self.__dict__.pop("_saved", None)
        if saved is not None:
            functions = saved.functions(kernel)
            cores = saved.support, saved.multipliers
            return engine.Warm(functions, *cores, True, saved.offsets)
        if not (getattr(self, "warm_start", False) and hasattr(self, "_outcome")):
            return None
        old: Outcome = self._outcome
        index = old.functions.basis.index
        same = bool(len(index) == 0 or index.max() < source.n_rows)
        if same:
            here = source.take(index).values
            same = _equal(here, old.functions.basis.values)
        if not same and not _compatible(source, old.functions.basis):
            return None
        return engine.Warm(old.functions, old.support, old.multipliers, same)

    def _set_fitted(self, outcome: Outcome, title: str) -> None:
        for name in ("_forest", "n_cells_"):
            self.__dict__.pop(name, None)
        self._outcome = outcome
        for name, value in self._attributes(outcome.functions).items():
            setattr(self, name, value)
        for record in self.history_:
            record.update(self.__dict__.get("choice_", {}))
        self.n_iter_ = len(self.history_)
        self.n_core_ = max(outcome.n_core)
        self.certificate_ = worst_of(outcome.certificates, title)
        self._warn_unless_certified()

    def _attributes(self, functions: KernelExpansion) -> dict[str, Any]:
        """Return the fitted attributes that follow from the functions alone."""
        basis = functions.basis
        vectors = basis.values
        if self.kernel == "precomputed":
            vectors = np.empty((0, 0))
        return {
            "_functions": functions,
            "support_": basis.index,
            "support_vectors_": vectors,
            "dual_coef_": np.ascontiguousarray(functions.coef.T),
            "intercept_": functions.intercept,
        }

    def _warn_unless_certified(self) -> None:
        found = self.certificate_
        if found.converged or found.stopped_by in AS_ASKED:
            return
        who = type(self).__name__
        if found.dual_bound == "none" and found.dual == -np.inf:
            warnings.warn(
                f"{who}: the kernel {self.kernel!r} is not positive definite on these "
                "rows, so that no optimum is defined and nothing is certified. Use a "
                "positive definite kernel ('rbf', or 'poly' with coef0 >= 0); the "
                "model is the best that was found (see certificate_).",
                NotCertifiedWarning,
                stacklevel=4,
            )
            return
        usable = "The model is usable within that bound (see certificate_). "
        if not np.isfinite(found.relative_gap):
            usable = "Nothing is known about the rows that were not looked at. "
        if np.isfinite(found.tol):
            reached = f"relative gap {found.relative_gap:.2e}, {found.tol:.2e} asked"
        else:
            reached = (
                f"ball_epsilon {found.ball_epsilon:.2e} on all rows, "
                f"{self.ball_epsilon:.2e} asked; relative gap {found.relative_gap:.2e}"
            )
        warnings.warn(
            f"{who} stopped by {found.stopped_by} with {reached}. {usable}"
            f"{REMEDIES.get(found.stopped_by, 'Relax tol.')}",
            NotCertifiedWarning,
            stacklevel=4,
        )

    def _problems_for(self, given: Dataset) -> Any:
        raise NotImplementedError

    def _certify(self, X: Any, y: Any, sample_weight: Any) -> Certificate:
        """Return the certificate of this model on the given rows."""
        check_is_fitted(self)
        X = self._validate_new(X)
        if self.kernel == "precomputed":
            check_square(type(self).__name__, X)
            self._check_training_matrix(X)
        given = self._given(X, y, sample_weight)
        problems = self._problems_for(given)
        with Workers(self.n_jobs) as workers:
            source = as_source(given.X, self.memory_budget, workers)
            if "_forest" in self.__dict__:
                refuse_device_elsewhere(type(self).__name__, source)
                return certify_cells(problems, source, self._forest, self.tol)
            with source.at_work():
                parts = [
                    self._certify_one(t, problem, source)
                    for t, problem in enumerate(problems)
                ]
        return worst_of(parts, "one machine per class, pair or target")

    def _check_training_matrix(self, K: Any) -> None:
        """Refuse a square matrix whose columns are not the training rows.

        A matrix of other rows, or of these in another order, has the same shape; a row
        of the model is known by its values against all training rows.
        """
        basis = self._functions.basis
        if not _nearly_equal(K[basis.index], basis.values):
            who = type(self).__name__
            raise InvalidInputError(
                f"certify: with kernel='precomputed' the {who} is certified on its "
                "training matrix, but rows support_ of X are not those that it was "
                "fitted on. Give that matrix, with its rows and columns in that order."
            )

    def _certify_one(self, t: int, problem: Problem, source: Source) -> Certificate:
        outcome: Outcome = self._outcome
        functions = self._functions
        column = np.flatnonzero(functions.coef[:, t])
        one = KernelExpansion(
            functions.kernel,
            Rows(functions.basis.values[column], functions.basis.index[column]),
            functions.coef[column, t : t + 1],
            functions.intercept[t : t + 1] if problem.has_bias else np.zeros(1),
        )
        multipliers = None
        if outcome.multipliers and _rows_are_there(source, one.basis):
            multipliers = (outcome.support[t], outcome.multipliers[t])
        return verify(
            problem, one, float(outcome.offsets[t]), source, multipliers, self.tol
        )

    @property
    def coef_(self) -> Array:
        """Weights of the columns, for the linear kernel, shape (n_outputs, d)."""
        if self.kernel != "linear":
            raise AttributeError("coef_ exists for kernel='linear' only")
        if "_forest" in self.__dict__:
            raise AttributeError(
                "coef_ exists for one function, not for those of cells"
            )
        return np.asarray(self.dual_coef_ @ self._functions.basis.values)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a fit has left functions to predict with."""
        return hasattr(self, "_functions") or hasattr(self, "_forest")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.non_deterministic = False
        return tags


def certify(
    model: Any, X: Any, y: Any = None, sample_weight: Any = None
) -> Certificate:
    """Return the certificate of a fitted kernel model on the given rows.

    The gap is that of the problem with the model's own parameters on *these* rows:
    on the training rows it repeats `certificate_`; on others it tells how far the
    model is from the one that would be fitted there. ``problem`` states which problem
    that is.

    Parameters
    ----------
    model : estimator
        A fitted corevec model (CoreVectorClassifier, CoreVectorRegressor,
        CoreVectorOneClass, SVDD, SubspaceClassifier, SubspaceRegressor,
        StreamingBallClassifier, StreamingOneClass), or one of scikit-learn's SVC,
        NuSVC, SVR, NuSVR, OneClassSVM, LinearSVC, LinearSVR, or any object with their
        attributes: scikit-learn-intelex's, a LIBSVM model in a plain object
        (``docs/certify.md`` lists what it needs).
    X : array-like or CSR matrix of shape (n_rows, n_features)
        Rows to certify on. For a model that is not corevec's own: the rows it was
        fitted on, in that order; more rows may follow.
    y : array-like of shape (n_rows,), optional
        Labels of a classifier, targets of a regressor.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights, as in ``fit``.

    Returns
    -------
    Certificate
        Primal and dual value on these rows and their relative gap; of a model that is
        not corevec's own also ``largest_violation``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> from corevec import certify
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> found = certify(SVC(C=10.0).fit(X, y), X, y)
    >>> found.converged, 0 <= found.relative_gap < 1e-3, found.largest_violation < 1e-3
    (True, True, True)
    """
    if isinstance(model, CoreVectorEstimator):
        return model._certify(X, y, sample_weight)
    # Its module needs this one.
    from corevec.estimators._third_party import certify_other

    return certify_other(model, X, y, sample_weight)


# What a fit may change when it goes on from its checkpoint.
_FREE = (
    "checkpoint",
    "device",
    "max_core",
    "max_iter",
    "max_time",
    "memory_budget",
    "n_jobs",
    "tol",
    "verbose",
    "warm_start",
)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else int(value)


def _equal(a: Any, b: Any) -> bool:
    if a.shape != b.shape or sparse.issparse(a) != sparse.issparse(b):
        return False
    if sparse.issparse(a):
        return bool((a != b).nnz == 0)
    return bool(np.array_equal(a, b))


def _nearly_equal(a: Any, b: Any) -> bool:
    """Whether blocks of kernel values, dense or sparse, agree up to float32."""
    if len(b.shape) != 2 or b.shape[0] == 0:
        return True
    if sparse.issparse(a) or sparse.issparse(b):
        a, b = sparse.csr_matrix(a), sparse.csr_matrix(b)
    return bool(abs(a - b).max() <= 1e-6 * abs(b).max())


def _compatible(source: Source, basis: Rows) -> bool:
    return bool(source.n_features == basis.values.shape[1])


def _rows_are_there(source: Source, basis: Rows) -> bool:
    index = basis.index
    if len(index) == 0 or index.max() >= source.n_rows:
        return False
    return _equal(source.take(index).values, basis.values)


__all__ = ["CoreVectorEstimator", "certify"]
