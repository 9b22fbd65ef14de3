"""Fitting by cells: many local machines in place of one (`methods.Cells`)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.progress import Progress, logger
from corevec._runtime.types import Array
from corevec.certificates.scan import Subset
from corevec.data.sources import Source
from corevec.estimators._base import kernel_for
from corevec.estimators._callbacks import RoundReporter, traffic_of
from corevec.estimators._categories import shared_columns
from corevec.estimators._dataset import Dataset
from corevec.estimators._metric import is_learned, stated
from corevec.estimators._metric_fit import (
    MetricFit,
    facts_of,
    set_learned,
    with_metric,
)
from corevec.estimators._validation import named
from corevec.estimators.methods import method_of
from corevec.exceptions import (
    InvalidInputError,
    KernelError,
    NotCertifiedWarning,
)
from corevec.kernels import AnyKernel, Kernel, make_kernel
from corevec.problems.family import Problem
from corevec.problems.task import Task
from corevec.solvers import cells
from corevec.solvers.cells.cell import rows_with_weight
from corevec.solvers.cells.certificate import cells_certificate
from corevec.solvers.cells.device_rows import refuse_worker_devices
from corevec.solvers.cells.out_of_core import OutOfCoreRows
from corevec.solvers.cells.tree import Directions, grow
from corevec.solvers.cells.tuning import (
    MORE_CELLS,
    Start,
    Trial,
    mean_error,
    trials,
    tune,
    weighted_error,
    with_C_times,
)
from corevec.solvers.metric.learn import Form, Learned
from corevec.solvers.numeric.deadline import Deadline
from corevec.solvers.strategy import auto as strategy

# Rows per cell by default. covtype, tuning included, on two threads: 511 rows 4.0 % in
# 8 s, 1021 rows 4.0 % in 11 s, 2043 rows 3.9 % in 65 s.
DEFAULT_ROWS = 1000
# "auto" considers cells from this number of rows on. A global model of a sample of
# `GLOBAL_SAMPLE_ROWS` is judged on the same test rows, and cells are chosen if their
# error is lower by at least `MIN_ERROR_DECREASE`.
AUTO_MIN_ROWS, GLOBAL_SAMPLE_ROWS, MIN_ERROR_DECREASE = 10_000, 20_000, 0.003


@dataclass(frozen=True)
class _Setting:
    """Kernel and problems of the cells, tuned or as given, and what was tuned."""

    kernel: AnyKernel
    problems: list[Problem]
    tuned: dict[str, float]
    learned: Learned | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What is noted in `history_`."""
        learned = {} if self.learned is None else facts_of(self.learned)
        return {**self.tuned, **learned}


class CellsFit:
    """One fit by cells: `applies` tells whether it is made, `fit` makes it.

    Parameters
    ----------
    model : estimator
        Its parameters are read, and its fitted attributes are set.
    given : Dataset
        The training set.
    problems : list of Problem
        The problems to solve in every cell.
    """

    def __init__(self, model: Any, given: Dataset, problems: list[Problem]):
        self.model, self.given, self.problems = model, given, problems
        self.method: Any = method_of(model)
        self.started = time.perf_counter()
        self.facts: dict[str, Any] = {}  # what was chosen, for `history_`
        self._tried: tuple[Source, list[Array]] | None = None

    def applies(self) -> bool:
        """Return whether cells are fitted, rather than one global machine.

        With ``Cells("auto")``, a few cells are compared with a global model of a sample
        on the same test rows; the result of that is in `model.choice_`.
        """
        if not self._is_auto:
            return True
        with self._naming():
            is_better, self.facts = self._compare()
        self.model.choice_ = self.facts
        if not is_better:  # frees memory for the global model
            self._tried = None
            del self.source
        return is_better

    def fit(self, reporter: RoundReporter) -> cells.Solved:
        """Return the solved cells, and set the fitted attributes of the model."""
        model = self.model
        with self._naming():
            setting, source = self.setting, self.source
            own = setting.problems, source, setting.kernel
            self._tried = None  # frees memory
            progress = Progress(
                self.given.n_rows,
                model.max_iter,
                model.max_time,
                started=self.started,
            )
            progress.listeners += [*traffic_of(source), reporter.on_round]
            with progress.listening_for_interrupt():
                task = cells.CellsTask(*own, self.size, self.method.n_trees, self.rng)
                solved = cells.solve(task, progress)
        for record in progress.history:
            record.update(self.facts or setting.facts)
        if setting.learned is not None:
            set_learned(model, setting.learned)
        if setting.tuned:
            model.gamma_, model.C_ = setting.tuned["gamma"], setting.tuned["C"]
        _set_fitted(model, solved, progress, task.problems)
        model.certificate_ = stated(model.certificate_, setting.kernel)
        model.method_ = self._taken(solved)
        if not solved.is_complete:
            text = _incomplete_text(model, solved)
            stopped_by = model.certificate_.stopped_by
            warning = NotCertifiedWarning(text, stopped_by=stopped_by)
            warnings.warn(warning, stacklevel=4)
        return solved

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Name the estimator in errors."""
        try:
            yield
        except (KernelError, InvalidInputError) as error:
            raise named(self.model, error) from None

    def _taken(self, solved: cells.Solved) -> str:
        """Return what was fitted, and why, in words."""
        n_rows, n_trees = self.given.n_rows, len(solved.forest.trees)
        trees = f" in {n_trees} trees" if n_trees > 1 else ""
        made = f"cells: {solved.n_cells:,} machines of {n_rows:,} rows{trees}"
        if not self._is_auto:
            return made
        local, whole = self.facts["cells_error"], self.facts["global_error"]
        return (
            f"{made}; their error on held-out rows is {local:.4f}, globally {whole:.4f}"
        )

    # --- What is fitted ---

    @property
    def _is_auto(self) -> bool:
        return isinstance(self.method.size, str)

    @property
    def size(self) -> int:
        """Rows per cell."""
        return DEFAULT_ROWS if self._is_auto else int(self.method.size)

    @cached_property
    def rng(self) -> np.random.Generator:
        """The random numbers of the fit."""
        return np.random.default_rng(self.model._settings().random_state)

    @cached_property
    def source(self) -> Source:
        """The rows: in memory if they fit, else out of core; on the host for trees."""
        refuse_worker_devices(self.given.who, self.given.source)
        return self.given.source.host_copy()

    @cached_property
    def _global_kernel(self) -> AnyKernel:
        return kernel_for(self.model, self.given)

    # --- What is chosen ---

    @property
    def _has_few_rows(self) -> bool:
        return self._is_auto and self.source.n_rows < AUTO_MIN_ROWS

    @cached_property
    def setting(self) -> _Setting:
        """Kernel and problems: with a learned metric, and tuned, if that is asked."""
        learned = self._learned
        if not self.method.tune or self._has_few_rows:
            kernel = self._global_kernel
            kernel = kernel if learned is None else with_metric(kernel, learned)
            return _Setting(kernel, self.problems, {}, learned)
        source, members = self._tried_cells()
        parts = trials(members, self.rng)

        def kernel_of(gamma: float) -> AnyKernel:
            kernel = self._kernel_of(gamma)
            return kernel if learned is None else with_metric(kernel, learned)

        deadline = Deadline.of(self._clock, share=0.5)  # the rest is for the cells
        own = self.problems, source, parts, kernel_of, deadline
        start = None if learned is None else Start(learned.scale, learned.place)
        found = tune(*own, start)
        return _Setting(
            kernel_of(found.gamma),
            with_C_times(self.problems, found.C_factor),
            {
                "gamma": found.gamma,
                "C": float(self.model.C * found.C_factor),
                "tuned_error": found.error,
            },
            learned,
        )

    @cached_property
    def _learned(self) -> Learned | None:
        """The metric that the method learns, if it does."""
        if not is_learned(self.method) or self._has_few_rows:
            return None
        seed = self.model._settings().random_state
        shared = shared_columns(self.model)
        fit = MetricFit(self.problems, self.source, self._kernel_of, seed, shared)
        form = Form(self.size, is_local=True, is_tuned=self.method.tune)
        return fit.learn(form, Deadline.of(self._clock))

    @property
    def _clock(self) -> Progress:
        """The clock of the fit, with its time limit."""
        limit = self.model.max_time
        return Progress(self.given.n_rows, max_time=limit, started=self.started)

    def _kernel_of(self, gamma: float | None) -> AnyKernel:
        """Return the kernel with a given gamma, or else the one that was asked for."""
        if gamma is None:
            return self._global_kernel
        model = self.model
        own = model.degree, model.coef0
        return make_kernel(model.kernel, gamma, *own, self.given.statistics)

    def _tried_cells(self) -> tuple[Source, list[Array]]:
        """Return rows in memory that cells are tried on, and those of each cell."""
        if self._tried is None:
            rng = np.random.default_rng(0)
            scale = None if self._learned is None else self._learned.scale
            if not self.source.holds(self.source.n_rows):
                own = self.problems, self.source, self.size, rng, scale
                remote = OutOfCoreRows(*own)
                parts = remote.partition(rng, random=False)
                self._tried = remote.some_cells(parts, 2 * MORE_CELLS, rng)
            else:
                rows = rows_with_weight(self.problems, self.source)
                how = Directions(scale=scale)
                own_grown = self.source, self.size, rng
                members = grow(*own_grown, directions=how, rows=rows)[1]
                self._tried = self.source, members
        return self._tried

    def _compare(self) -> tuple[bool, dict[str, Any]]:
        """Return whether cells are better than a global model, and the reasons."""
        if self._has_few_rows:
            return False, {"choice": "global", "reason": "few rows"}
        setting = self.setting  # before the trials: both draw random numbers
        source, members = self._tried_cells()
        parts = trials(members, self.rng)
        local = mean_error(setting.problems, source, setting.kernel, parts)
        whole = self._global_error(parts)
        is_better = bool(local < whole - MIN_ERROR_DECREASE)
        choice = "cells" if is_better else "global"
        logger.info("cells: error %.4f, global %.4f: %s", local, whole, choice)
        errors = {"cells_error": local, "global_error": whole}
        compared = self._tuning_compared(parts) if setting.tuned else {}
        tuned = setting.tuned if is_better else {}
        return is_better, {"choice": choice} | tuned | errors | compared

    def _tuning_compared(self, parts: list[Trial]) -> dict[str, Any]:
        """Return how cells and the global model differ where gamma was tuned.

        Only cells are tuned: a global model is compared, and fitted, with the given
        gamma and C. The error of cells with those tells the gain
        by tuning from the gain by cells.
        """
        gamma, kernel = None, self._global_kernel
        if isinstance(kernel, Kernel):  # other kernels have none
            gamma = float(np.ldexp(kernel.gamma, -2 * kernel.row_map.exponent))
        untuned = mean_error(self.problems, self._tried_cells()[0], kernel, parts)
        return {
            "cells_gamma": self.setting.tuned["gamma"],
            "cells_C": self.setting.tuned["C"],
            "global_gamma": gamma,
            "global_C": float(self.model.C),
            "cells_error_untuned": untuned,
        }

    def _global_error(self, parts: list[Trial]) -> float:
        """Return the error of a machine of a sample on the test parts of the cells."""
        test = np.sort(np.concatenate([part.test for part in parts]))
        size = GLOBAL_SAMPLE_ROWS
        while not self.source.holds(size):
            size //= 2
        others = np.setdiff1d(self.source.draw(self.rng, size), test)
        plain = clone(self.model).set_params(method="auto", verbose=0, tol=0.01)
        plain.set_params(max_time=plain.max_time or 60.0)
        kernel = self._global_kernel
        few = Subset(self.source, others)
        progress = Progress(few.n_rows, plain.max_iter, plain.max_time)
        task = Task(self.problems, few, kernel, plain._settings())
        functions = strategy.fit(task, progress).functions
        rows = self._tried_cells()[0].take(test)
        values = functions.evaluate(rows, functions.prepared())
        wrong, total = weighted_error(self.problems, rows, values, kernel)
        return wrong / max(total, 1e-300)


def _incomplete_text(model: Any, solved: cells.Solved) -> str:
    """Return the warning for a model that ran out of time."""
    stopped = f"{type(model).__name__} stopped by {model.certificate_.stopped_by} after"
    if solved.n_skipped:
        n_rows = model.certificate_.n_rows
        return (
            f"{stopped} the cells of {n_rows - solved.n_skipped:,} of {n_rows:,} rows. "
            "Cells that were not reached predict the mean label of their rows, or, for "
            "out-of-core rows, by a sample of them: nothing is proved about these. "
            "Raise max_time, or ask for smaller cells."
        )
    done = len(solved.forest.trees)
    most = method_of(model).get_params()["n_trees"]
    return f"{stopped} {done} of {most} trees: the model is the mean of those."


def values_for_labels(model: Any, X: Any) -> Array:
    """Return values that give a classifier's labels, as its exact values would.

    Most values of cells are in float32; they are recomputed in float64 where float32
    leaves the label undecided.
    """
    check_is_fitted(model)
    if model._has_pairs:
        return model._values(X)
    two_classes = len(model.classes_) == 2
    is_undecided = _sign_is_undecided if two_classes else _winner_is_undecided
    rows = model._validate_new(X)
    return model._evaluate(_LabelValues(model._forest, is_undecided), rows)


@dataclass(frozen=True)
class _LabelValues:
    """The values of a forest, as exact as its labels need."""

    forest: Any
    is_undecided: Callable[[Array, Array], Array]

    def values(self, source: Source) -> Array:
        """Return values of every row that decide as the exact ones do."""
        return np.asarray(self.forest.values_that_decide(source, self.is_undecided))

    def ready_for(self, source: Source) -> Any:
        """Return the function of a block of rows on a device: the exact values."""
        return self.forest.ready_for(source)


def _sign_is_undecided(values: Array, errors: Array) -> Array:
    """Return where the error may change the sign of the value."""
    return np.asarray(~(np.abs(values[:, 0]) > errors[:, 0]))


def _winner_is_undecided(values: Array, errors: Array) -> Array:
    """Return where another class than the winner may have the largest value."""
    rows, top = np.arange(len(values)), values.argmax(axis=1)
    low, high = values[rows, top] - errors[rows, top], values + errors
    high[rows, top] = -np.inf
    return np.asarray(~(low > high.max(axis=1)))


def _set_fitted(
    model: Any, solved: cells.Solved, progress: Progress, problems: list[Problem]
) -> None:
    forest, vectors, coef = solved.forest.in_one_piece()
    for name in ("_functions", "_outcome"):
        model.__dict__.pop(name, None)
    model._forest = forest
    model.support_ = np.concatenate([one.basis.index for one in forest.trees])
    model.support_vectors_, model.dual_coef_ = vectors, coef.T
    model.intercept_ = np.concatenate([one.intercepts for one in forest.trees])
    model.history_ = progress.history
    model.n_iter_ = len(progress.history)
    model.n_core_ = solved.largest
    model.n_cells_ = solved.n_cells
    model.certificate_ = cells_certificate(solved, progress, problems[0], model.tol)
