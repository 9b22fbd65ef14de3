"""Base class of the estimators: the fit, the fitted attributes, and `certify`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    check_is_fitted,
)

from corevec._runtime.progress import Progress, RoundState
from corevec._runtime.types import Array
from corevec.certificates.definite import with_bounds_that_hold
from corevec.data.sources import Source
from corevec.estimators._advice import advice
from corevec.estimators._callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    traffic_of,
)
from corevec.estimators._dataset import Dataset
from corevec.estimators._metric import check_metric, is_searched, stated
from corevec.estimators._notebook import ShowsCertificate
from corevec.estimators._parameters import seed_of
from corevec.estimators._rows import TakesRows, check_square, named
from corevec.estimators._validation import NO_LABELS
from corevec.estimators.methods import (
    Auto,
    Cells,
    Exact,
    FewVectors,
    Fit,
    Method,
    method_of,
)
from corevec.exceptions import (
    InvalidInputError,
    KernelError,
    NotCertifiedWarning,
    RowsLostError,
)
from corevec.kernels import AnyKernel, Rows, make_kernel
from corevec.models.certificate import Certificate, worst_of
from corevec.models.checkpoint import Checkpoint, Saved, described
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult, Settings, WarmStart
from corevec.problems.family import Problem
from corevec.problems.task import Task

if TYPE_CHECKING:
    from corevec.solvers.strategy.boxes import Form, Given

REMEDIES = {
    "max_vectors": "Raise max_vectors or memory_budget, or relax tol.",
    "memory_budget": (
        "The rows exceed memory_budget, so that only some of them determined the "
        "weights. Raise memory_budget."
    ),
    "max_iter": "Raise max_iter, or relax tol.",
    "max_time": "Raise max_time, or relax tol.",
    "interrupt": "The fit was interrupted; fit again to continue.",
    "stall": (
        "Rounding, a kernel that is not positive definite, or slow convergence (a "
        "large C, a small memory_budget) prevents further progress."
    ),
    "ball_epsilon": (
        "The sampled rows are within the ball, others are not: use sampling='full', "
        "or ball_epsilon=None to stop by the duality gap."
    ),
}

# Reasons whose remedy also says what happened.
TOLD = ("memory_budget", "interrupt", "stall")

# Stop reasons that the user has requested: a number of vectors, a sample of the rows.
# The certificate reports them; a warning would be noise.
AS_ASKED = ("n_vectors", "sample")


class CoreVectorEstimator(
    ShowsCertificate, TakesRows, CallbackSupportMixin, BaseEstimator
):
    """Base class of the estimators; not for direct use.

    Each subclass lists its parameters in its constructor, where scikit-learn reads
    them.
    """

    # Parameters that several subclasses have.
    C: Any
    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    loss: Any
    method: Any
    tol: Any
    max_iter: Any
    max_time: Any
    checkpoint: Any
    memory_budget: Any
    fit_intercept: Any
    class_weight: Any
    multi_class: Any
    n_jobs: Any
    device: Any
    warm_start: Any
    random_state: Any
    verbose: Any
    # What methods serve it; see `methods.Method.serves`.
    _serves = ""
    # What a fit sets.
    support_: Any
    support_vectors_: Any
    dual_coef_: Any
    intercept_: Any

    @contextmanager
    def _fitting(
        self, X: Any, y: Any, sample_weight: Any
    ) -> Iterator[tuple[Dataset, RoundReporter]]:
        """Open the threads and the reports of a fit for validated rows."""
        with (
            self._dataset(X, y, sample_weight) as given,
            RoundReporter(self, self._attributes_at, given) as reporter,
        ):
            yield given, reporter

    def _fit_problems(
        self,
        given: Dataset,
        problems: list[Problem],
        title: str,
        reporter: RoundReporter,
    ) -> FitResult:
        """Fit `problems`, set the common attributes and return the result."""
        started = time.perf_counter()
        kernel = kernel_for(self, given)
        facts: dict[str, Any] = {}
        method = method_of(self)
        if is_searched(method) and not isinstance(method, Cells):
            from corevec.estimators._metric_fit import search

            kernel, problems, facts = search(self, kernel, given, problems)
        task = Task(problems, given.source, kernel, self._settings())
        outcome, progress = self._run(task, reporter, started=started)
        for record in progress.history:
            record.update(facts)
        self._set_fitted(outcome, progress, title)
        return outcome

    def _run(
        self,
        task: Task,
        reporter: RoundReporter,
        *,
        stop_asked: bool = False,
        has_checkpoint: bool = True,
        started: float | None = None,
    ) -> tuple[FitResult, Progress]:
        """Return the solution of a task, and the history of its rounds."""
        listeners = [*traffic_of(task.source), reporter.on_round]
        limits = self.max_iter, self.max_time
        n_rows = task.source.n_rows
        how: dict[str, Any] = {} if started is None else {"started": started}
        progress = Progress(n_rows, *limits, listeners, stop_asked=stop_asked, **how)
        file = self._checkpoint_of(task) if has_checkpoint else None
        try:
            saved = None if file is None else file.read()
            if file is not None:
                file.check_place()
                progress.listeners.append(file.on_round)
            with progress.listening_for_interrupt(), task.source.at_work():
                outcome = self._solve(task, progress, saved)
                outcome.certificates = with_bounds_that_hold(
                    outcome.certificates, task.problems, task.source, outcome.functions
                )
        except (KernelError, InvalidInputError, RowsLostError) as error:
            raise named(self, error) from error.__cause__
        if file is not None and all(one.converged for one in outcome.certificates):
            file.remove()
        elif file is not None:
            file.leave()
        return outcome, progress

    def _checkpoint_of(self, task: Task) -> Checkpoint | None:
        """Return the checkpoint of this fit, if one is wanted."""
        path = getattr(self, "checkpoint", None)
        if path is None:
            return None
        more = {"C": getattr(self, "C_", None)}
        return Checkpoint(path, self._asked(task.problems, task.source), more)

    def _asked(self, problems: list[Problem], source: Source) -> dict[str, Any]:
        """Return what must agree between a fit and the one that resumes it."""
        given = self.get_params(deep=False)
        if "method" in given:
            method = method_of(self)
            parts = method.get_params(deep=False)
            given["method"] = method.name
            given |= {f"method__{name}": value for name, value in parts.items()}
        own = {n: described(value) for n, value in given.items() if n not in _FREE}
        return {
            "estimator": type(self).__name__,
            "rows": source.n_rows,
            "columns": source.n_features,
            "machines": len(problems),
            **own,
        }

    def _how_to_go_on(self) -> str:
        return how_to_resume(getattr(self, "checkpoint", None))

    def _solve(self, task: Task, progress: Progress, saved: Saved | None) -> FitResult:
        """Return the solution of a task, resumed from `saved` or an earlier fit."""
        warm = self._warm(task.source) if saved is None else _resumed(saved, task)
        loss = getattr(self, "loss", "squared_hinge")
        fit = Fit(replace(task, warm=warm), progress, saved, loss, self._box_form())
        return method_of(self).solve(fit)

    def _box_form(self) -> Form | None:
        """Return how the problems read with a free bias; None for squared losses."""
        return None

    def _validate_fit(self, X: Any, y: Any = NO_LABELS, **checks: Any) -> Any:
        method = method_of(self)
        self._check_method(method)
        found = super()._validate_fit(X, y, **checks)
        if isinstance(method, FewVectors):
            method.check_vectors(self)
        return found

    def _check_method(self, method: Method) -> None:
        """Check what the method and the other parameters allow each other."""
        # What an earlier fit chose; `C_` of a detector is not chosen by cells.
        for name in ("choice_", "gamma_", *(["C_"] if self._task != "none" else [])):
            self.__dict__.pop(name, None)
        if isinstance(method, Cells):
            method.check_for(self)
        check_metric(self, method)
        if self._box_form() is not None:
            self._check_free_bias(method)

    def _check_free_bias(self, method: Method) -> None:
        """Raise for what a loss with a free bias does not know."""
        who = type(self).__name__
        if not isinstance(method, Auto | Exact):
            others = ", 'few-vectors'" if self._serves == "classifier" else ""
            raise InvalidInputError(
                f"{who}: loss={self.loss!r} needs a method that solves it, but method="
                f"{self.method!r} was given. Use 'auto', 'exact'{others}, or "
                "loss='squared_hinge'.",
                parameter="loss",
            )
        if not getattr(self, "fit_intercept", True):
            raise InvalidInputError(
                f"{who}: fit_intercept={self.fit_intercept!r} was given, but loss="
                f"{self.loss!r} has a bias that is not penalised. Use "
                "fit_intercept=True, or loss='squared_hinge'.",
                parameter="fit_intercept",
            )

    def _settings(self) -> Settings:
        own = Settings(tol=self.tol, random_state=seed_of(self.random_state))
        return method_of(self).settings(own)

    def _warm(self, source: Source) -> WarmStart | None:
        """Return what the previous fit left, if it is wanted and fits the rows."""
        if not (getattr(self, "warm_start", False) and hasattr(self, "_outcome")):
            return None
        old: FitResult = self._outcome
        same = _rows_are_there(source, old.functions.basis)
        if not same and source.n_features != old.functions.basis.values.shape[1]:
            return None
        return WarmStart(old.functions, old.support, old.multipliers, same)

    def _set_fitted(self, outcome: FitResult, progress: Progress, title: str) -> None:
        for name in ("_forest", "n_cells_"):
            self.__dict__.pop(name, None)
        self._outcome = outcome
        self.history_ = progress.history
        for name, value in self._attributes(outcome.functions).items():
            setattr(self, name, value)
        for record in self.history_:
            record.update(self.__dict__.get("choice_", {}))
        self.n_iter_ = len(self.history_)
        self.n_core_ = max(outcome.n_core)
        self.method_ = outcome.method
        worst = worst_of(outcome.certificates, title)
        self.certificate_ = stated(worst, outcome.functions.kernel)
        if not self._is_as_asked():
            said = advice(self.certificate_, self.history_, self)
            self.certificate_ = replace(self.certificate_, advice=said)
        self._warn_unless_certified()

    def _attributes_at(self, state: RoundState) -> dict[str, Any]:
        """Return the fitted attributes after a round, as if the fit ended there."""
        return self._attributes(state.functions())

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
        if self._is_as_asked():
            return
        who = type(self).__name__
        if found.dual_bound == "none" and found.dual == -np.inf:
            text = (
                f"{who}: the kernel {self.kernel!r} is not positive definite on these "
                "rows, so that no optimum is defined and nothing is certified. Use a "
                "positive definite kernel ('rbf', or 'poly' with coef0 >= 0); the "
                "model is the best that was found (see certificate_)."
            )
        else:
            remedy = REMEDIES.get(found.stopped_by, "Relax tol.")
            if found.advice:
                happened = remedy if found.stopped_by in TOLD else ""
                helps = "; or ".join(found.advice)
                remedy = f"{happened} What helps: {helps}.".strip()
            text = f"{who} stopped by {found.stopped_by} with {self._reached()}{remedy}"
        warning = NotCertifiedWarning(text, stopped_by=found.stopped_by)
        warnings.warn(warning, stacklevel=4)

    def _is_as_asked(self) -> bool:
        """Whether the fit converged, or ended as the user asked."""
        found = self.certificate_
        return bool(found.converged or found.stopped_by in AS_ASKED)

    def _reached(self) -> str:
        """Return the gap that was reached and whether it bounds anything."""
        found = self.certificate_
        if np.isfinite(found.tol):
            reached = f"relative gap {found.relative_gap:.2e}, {found.tol:.2e} asked"
        else:
            reached = (
                f"ball_epsilon {found.ball_epsilon:.2e} on all rows, "
                f"{self._settings().ball_epsilon:.2e} asked; relative gap "
                f"{found.relative_gap:.2e}"
            )
        if not np.isfinite(found.relative_gap):
            return f"{reached}. Nothing is known about the rows that were not scanned. "
        return f"{reached}. The model is usable within that bound (see certificate_). "

    def _problems_for(self, given: Dataset) -> Any:
        raise NotImplementedError

    def _by_cells(self, given: Dataset, problems: list[Problem]) -> Any:
        """Return the fit by cells, or None where one machine is fitted."""
        if not isinstance(method_of(self), Cells):
            return None
        from corevec.estimators._cells import CellsFit

        local = CellsFit(self, given, problems)
        return local if local.applies() else None

    def _certify(self, X: Any, y: Any, sample_weight: Any) -> Certificate:
        """Return the certificate of this model on the given rows."""
        check_is_fitted(self)
        X = self._validate_new(X)
        if self.kernel == "precomputed":
            check_square(type(self).__name__, X)
            self._check_training_matrix(X)
        with self._dataset(X, y, sample_weight) as given:
            problems, source = self._problems_for(given), given.source
            if "_forest" in self.__dict__:
                from corevec.solvers.cells.certificate import certify_cells
                from corevec.solvers.cells.device_rows import refuse_worker_devices

                refuse_worker_devices(type(self).__name__, source)
                found = certify_cells(problems, source, self._forest, self.tol)
                return stated(found, self._forest.trees[0].kernel)
            with source.at_work():
                parts = [
                    self._certify_one(t, problem, source)
                    for t, problem in enumerate(problems)
                ]
        worst = worst_of(parts, "one machine per class, pair or target")
        return stated(worst, self._functions.kernel)

    def _check_training_matrix(self, K: Any) -> None:
        """Refuse a square matrix whose columns are not the training rows.

        A matrix of other rows, or of these in another order, has the same shape; a row
        is identified by its kernel values against all training rows.
        """
        basis = self._functions.basis
        if not _nearly_equal(K[basis.index], basis.values):
            who = type(self).__name__
            raise InvalidInputError(
                f"certify: with kernel='precomputed' the {who} is certified on its "
                "training matrix, but the rows support_ of X are not those that it was "
                "fitted on. Give that matrix, with its rows and columns in that order."
            )

    def _certify_one(self, t: int, problem: Problem, source: Source) -> Certificate:
        outcome: FitResult = self._outcome
        form = self._box_form()
        if form is not None:
            from corevec.solvers.strategy.boxes import certify_box

            given = self._given_function(t, source)
            return certify_box(form, problem, given, source, self.tol)
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
        from corevec.certificates.verify import verify

        return verify(
            problem, one, float(outcome.offsets[t]), source, multipliers, self.tol
        )

    def _given_function(self, t: int, source: Source) -> Given:
        """Return one function with a free bias, as it is certified on these rows."""
        outcome: FitResult = self._outcome
        from corevec.solvers.strategy.boxes import Given

        known = None
        if outcome.multipliers and _rows_are_there(source, outcome.functions.basis):
            known = outcome.support[t], outcome.multipliers[t]
        function = outcome.functions.output(t)
        return Given(function, float(outcome.offsets[t]), known)

    @property
    def coef_(self) -> Array:
        """Weights of the columns, shape (n_outputs, n_features); linear kernel only."""
        if "_forest" in self.__dict__:
            raise AttributeError("coef_ exists for a single function, not for cells")
        if self._functions.kernel.name != "linear":
            raise AttributeError("coef_ exists for kernel='linear' only")
        # In the order of `dual_coef_`, which may be that of the classes.
        vectors = getattr(self, "support_vectors_", None)
        vectors = self._functions.basis.values if vectors is None else vectors
        return read_only(self.dual_coef_ @ vectors)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the estimator is fitted."""
        return hasattr(self, "_functions") or hasattr(self, "_forest")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.non_deterministic = False
        return tags


def read_only(values: Any) -> Array:
    """Return an array that refuses assignments, which would be lost."""
    array = np.asarray(values)
    array.flags.writeable = False
    return array


def kernel_for(model: Any, given: Dataset) -> AnyKernel:
    """Return the kernel that the parameters of an estimator describe.

    A kernel by name needs the statistics of the columns, for ``gamma="scale"`` and for
    their scale.
    """
    if callable(model.kernel) or model.kernel == "precomputed":
        return make_kernel(model.kernel)
    own = model.gamma, model.degree, model.coef0
    try:
        return make_kernel(model.kernel, *own, given.statistics)
    except KernelError as error:
        raise named(model, error) from None


def how_to_resume(checkpoint: Any) -> str:
    """Return how a fit that lost its rows is resumed, if it can be."""
    if checkpoint is None:
        return (
            " Nothing of the fit is left; with checkpoint=path each round is stored, "
            "and the next fit resumes from it."
        )
    path = str(checkpoint)
    if not Path(checkpoint).exists():
        return f" No round was finished, so {path!r} was not written."
    return (
        f" The last round is stored in {path!r}: fit again with the same parameters "
        "and rows, on any machine, to resume from it."
    )


def certify(
    model: Any, X: Any, y: Any = None, sample_weight: Any = None
) -> Certificate:
    """Return the certificate of a fitted kernel model on the given rows.

    The gap belongs to the problem with the parameters of the model on *these* rows: on
    the training rows it repeats `certificate_`; on other rows it bounds the distance of
    the model from the one that would be fitted on them. The field ``problem`` of the
    result states that problem.

    Parameters
    ----------
    model : estimator
        A fitted corevec model (CoreVectorClassifier, CoreVectorRegressor,
        CoreVectorOneClass, SVDD, or a streaming one except StreamingOneClass), or one
        of scikit-learn's SVC, NuSVC, SVR, NuSVR, OneClassSVM, LinearSVC, LinearSVR, or
        any object with their attributes: those of scikit-learn-intelex, or a LIBSVM
        model in a plain object (``docs/certify.md`` lists the attributes).
    X : array-like or CSR matrix of shape (n_rows, n_features)
        Rows to certify on. For a third-party model: the rows it was fitted on, in that
        order; more rows may follow.
    y : array-like of shape (n_rows,), optional
        Labels of a classifier, targets of a regressor.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights, as in ``fit``.

    Returns
    -------
    Certificate
        Primal and dual value on these rows and their relative gap; for a third-party
        model also ``largest_violation``.

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
    # Imported here because that module imports this one.
    from corevec.estimators._third_party import certify_other

    return certify_other(model, X, y, sample_weight)


# Parameters that may differ when a fit resumes from its checkpoint.
_FREE = (
    "checkpoint",
    "device",
    "max_iter",
    "max_time",
    "memory_budget",
    "method__max_vectors",
    "n_jobs",
    "tol",
    "verbose",
    "warm_start",
)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else int(value)


def _equal(a: Any, b: Any) -> bool:
    if a.shape != b.shape:
        return False
    if sparse.issparse(a) and sparse.issparse(b):
        return bool((a != b).nnz == 0)
    a, b = (rows.toarray() if sparse.issparse(rows) else rows for rows in (a, b))
    return bool(np.array_equal(a, b))


def _nearly_equal(a: Any, b: Any) -> bool:
    """Whether two blocks of kernel values agree up to float32 rounding."""
    if len(b.shape) != 2 or b.shape[0] == 0:
        return True
    if sparse.issparse(a) or sparse.issparse(b):
        a, b = sparse.csr_matrix(a), sparse.csr_matrix(b)
    return bool(abs(a - b).max() <= 1e-6 * abs(b).max())


def _resumed(saved: Saved, task: Task) -> WarmStart:
    """Return the state of a checkpoint as the start of a task."""
    functions = saved.functions(task.kernel)
    return WarmStart(functions, saved.support, saved.multipliers, True, saved.offsets)


def _rows_are_there(source: Source, basis: Rows) -> bool:
    """Whether the basis vectors are rows of the source, under the same numbers."""
    index = basis.index
    if index.max(initial=-1) >= source.n_rows:
        return False
    return _equal(source.take(index).values, basis.values)


__all__ = ["CoreVectorEstimator", "certify"]
