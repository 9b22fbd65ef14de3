"""Fitting by cells: many local machines in place of one (`cells=`, `n_trees=`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.progress import Progress, logger
from corevec._runtime.types import Array
from corevec.data.sources import (
    HostCopy,
    RowSubset,
    Source,
    Workers,
    as_source,
    row_statistics,
)
from corevec.estimators._callbacks import RoundReporter
from corevec.estimators._dataset import Dataset
from corevec.exceptions import (
    InvalidInputError,
    KernelError,
    NotCertifiedWarning,
)
from corevec.kernels import AnyKernel, Kernel, make_kernel
from corevec.problems.family import Problem
from corevec.solvers.cells import fit as cells
from corevec.solvers.cells.cell import rows_that_weigh
from corevec.solvers.cells.certificate import cells_certificate
from corevec.solvers.cells.out_of_core import FarRows
from corevec.solvers.cells.placement import refuse_device_elsewhere
from corevec.solvers.cells.tree import grow
from corevec.solvers.cells.tuning import Trial, error_of, misses, trials

# Rows per cell where nothing else is said. covtype, tuning included, on two threads:
# 511 rows 4.0 % in 8 s, 1021 rows 4.0 % in 11 s, 2043 rows 3.9 % in 65 s.
DEFAULT_ROWS = 1000
# What is tried for gamma and C: multiples of one over the mean squared distance within
# a cell, and of C. All of it on a few cells, the best few on more of them.
GAMMAS, CS = (0.5, 1.5, 4.5, 13.5, 40.0), (1.0, 5.0, 25.0, 125.0)
FEW_CELLS, MORE_CELLS, FINALISTS = 16, 80, 4
# "auto" looks at cells from so many rows on; a global model of a sample of this size is
# judged on the same rows, and cells are taken where they are better by this much.
AUTO_ROWS, SAMPLE_ROWS, BETTER = 10_000, 20_000, 0.003


def check_cells(model: Any) -> None:
    """Check `cells` and `n_trees`, and forget what an earlier fit chose."""
    # The C of a detector is its own.
    for name in ("choice_", "gamma_", *(["C_"] if model._task != "none" else [])):
        model.__dict__.pop(name, None)
    who, size, n_trees = type(model).__name__, model.cells, model.n_trees
    if not (isinstance(n_trees, Integral) and not isinstance(n_trees, bool)):
        n_trees = 0
    if n_trees < 1:
        raise InvalidInputError(
            f"{who}: n_trees={model.n_trees!r} must be a whole number of at least 1."
        )
    if size is None:
        return
    whole = isinstance(size, Integral) and not isinstance(size, bool)
    if not (whole and size >= 20) and not (isinstance(size, str) and size == "auto"):
        raise InvalidInputError(
            f"{who}: cells={size!r} must be None, 'auto' or the number of rows of a "
            f"cell, at least 20, e.g. {DEFAULT_ROWS}."
        )
    if model.kernel == "precomputed":
        raise InvalidInputError(
            f"{who}: cells={size!r} cut rows by their columns, which kernel="
            "'precomputed' does not have."
        )


class LocalFit:
    """One fit by cells: the rows at hand, the tree, what was chosen."""

    def __init__(
        self, model: Any, given: Dataset, problems: list[Problem], workers: Workers
    ):
        self.model, self.given, self.problems = model, given, problems
        self.asked = problems  # with the C that was given
        source = as_source(given.X, model.memory_budget, workers)
        refuse_device_elsewhere(type(model).__name__, source)
        # Remote rows that do not fit are copied a group of cells at a time; rows on a
        # device are on the host for the tree, and on the device for the cells.
        self.source = source.host_copy()
        self.rng = np.random.default_rng(model._settings().random_state)
        self.size = DEFAULT_ROWS if isinstance(model.cells, str) else int(model.cells)
        self.facts: dict[str, Any] = {}
        self.kernel: AnyKernel
        self._some: tuple[Source, list[Array]] | None = None
        is_auto = isinstance(model.cells, str)
        self.few = is_auto and self.source.n_rows < AUTO_ROWS
        if isinstance(model.gamma, str) and model.gamma == "tune" and not self.few:
            self._tune()
        else:
            self.kernel = model._make_kernel(self.source, given.weights)

    def _looked_at(self) -> tuple[Source, list[Array]]:
        """Return the rows that cells are tried on, at hand, and those of each cell."""
        rng = np.random.default_rng(0)
        if self._some is None and not self.source.holds(self.source.n_rows):
            far = FarRows(self.problems, self.source, self.size, rng)
            cut = far.cut(rng, random=False)
            self._some = far.some_cells(cut, 2 * MORE_CELLS, rng)
        elif self._some is None:
            rows = rows_that_weigh(self.problems, self.source)
            self._some = self.source, grow(self.source, self.size, rng, rows=rows)[1]
        return self._some

    def _tune(self) -> None:
        """Choose gamma and C on parts of a few cells."""
        model, (source, members) = self.model, self._looked_at()
        parts = trials(members, MORE_CELLS, self.rng)
        statistics = model._statistics(self.source, self.given.weights)
        unit = _local_gamma(source, parts)

        def kernel_of(gamma: float) -> AnyKernel:
            own = model.degree, model.coef0
            return make_kernel(model.kernel, gamma, *own, statistics)

        def error_at(pair: tuple[float, float], some: list[Trial]) -> float:
            scaled = _with_C(self.problems, pair[1])
            return self._error(scaled, kernel_of(pair[0]), some)

        pairs = [(wide * unit, C) for wide, C in product(GAMMAS, CS)]
        pairs.sort(key=lambda pair: error_at(pair, parts[:FEW_CELLS]))
        errors = {pair: error_at(pair, parts) for pair in pairs[:FINALISTS]}
        (gamma, C), error = min(errors.items(), key=lambda item: item[1])
        logger.info("cells: gamma %.3g, C times %g: error %.4f", gamma, C, error)
        self.kernel, self.problems = kernel_of(gamma), _with_C(self.problems, C)
        model.gamma_, model.C_ = float(gamma), float(model.C * C)
        self.facts |= {"gamma": float(gamma), "C": model.C_, "tuned_error": error}

    def _error(
        self, problems: list[Problem], kernel: AnyKernel, parts: list[Trial]
    ) -> float:
        source, _ = self._looked_at()

        def one(part: Trial) -> tuple[float, float]:
            return error_of(problems, source, kernel, part)

        wrong, total = np.sum(list(self.source.workers.run(one, parts)), axis=0)
        return float(wrong / max(total, 1e-300))

    def is_better(self) -> bool:
        """Whether a few cells beat a global model of a sample, on the same rows."""
        if self.few:
            self.facts |= {"choice": "global", "reason": "few rows"}
            return False
        parts = trials(self._looked_at()[1], MORE_CELLS, self.rng)
        local = self._error(self.problems, self.kernel, parts)
        kernel = self.model._make_kernel(self.source, self.given.weights)
        whole = self._global_error(parts, kernel)
        choice = "cells" if local < whole - BETTER else "global"
        tuned = self._what_was_tuned(parts, kernel)
        kept = self.facts if choice == "cells" else {}  # of a model that is not fitted
        errors = {"cells_error": local, "global_error": whole}
        self.facts = {"choice": choice} | kept | errors | tuned
        logger.info("cells: error %.4f, global %.4f: %s", local, whole, choice)
        return choice == "cells"

    def _what_was_tuned(self, parts: list[Trial], kernel: AnyKernel) -> dict[str, Any]:
        """Return how cells and the global model differ where gamma was tuned.

        Only cells are: a global model is compared, and fitted, with ``gamma="scale"``
        and the C that was given. What cells do with those tells the two gains apart.
        """
        if not self.facts:
            return {}
        gamma = None
        if isinstance(kernel, Kernel):  # others have none
            gamma = float(np.ldexp(kernel.gamma, -2 * kernel.row_map.exponent))
        plain = self._error(self.asked, kernel, parts)
        own = {"cells_gamma": self.facts["gamma"], "cells_C": self.facts["C"]}
        whole = {"global_gamma": gamma, "global_C": float(self.model.C)}
        return own | whole | {"cells_error_untuned": plain}

    def _global_error(self, parts: list[Trial], kernel: AnyKernel) -> float:
        """Return the error of a machine of a sample on the test parts of the cells."""
        test = np.sort(np.concatenate([part.test for part in parts]))
        size = SAMPLE_ROWS
        while not self.source.holds(size):
            size //= 2
        others = np.setdiff1d(self.source.draw(self.rng, size), test)
        plain = clone(self.model).set_params(cells=None, verbose=0, tol=0.01)
        plain.set_params(max_time=plain.max_time or 60.0)
        functions = plain._functions_on(self.asked, self.source, kernel, others)
        rows = self._looked_at()[0].take(test)
        values = functions.evaluate(rows, functions.prepared())
        wrong, total = misses(self.asked, rows, values, kernel)
        return wrong / max(total, 1e-300)

    def solve(self, progress: Progress) -> cells.Solved:
        """Solve every cell."""
        self._some = None  # a fit needs the room
        if isinstance(self.source, HostCopy):
            self.given.X = self.source  # what came here serves those who ask later
        asked = self.problems, self.source, self.kernel, self.size, self.model.n_trees
        return cells.fit(*asked, progress, self.rng)


def fit_cells(
    model: Any, given: Dataset, problems: list[Problem]
) -> cells.Solved | None:
    """Fit local machines and set what they share with other models.

    None where a global model is asked for, or is no worse as far as "auto" sees; what
    it saw is in `model.choice_`.
    """
    if model.cells is None:
        return None
    with Workers(model.n_jobs) as workers:
        progress = Progress(given.n_rows, model.max_iter, model.max_time)
        progress.snapshot = lambda: None
        try:
            local = LocalFit(model, given, problems, workers)
            progress.meter = getattr(local.source, "meter", None)
            auto = isinstance(model.cells, str)
            if auto:
                better = local.is_better()
                model.choice_ = local.facts
                if not better:
                    check_cells(model)  # forgets what was tuned for cells
                    model.choice_ = local.facts
                    return None
            with RoundReporter(model, lambda _: {}) as reporter:
                progress.listeners.append(reporter.listen(progress))
                with progress.listening_for_interrupt():
                    solved = local.solve(progress)
        except (KernelError, InvalidInputError) as error:
            who = type(model).__name__
            text = str(error)
            named = text if text.startswith(who) else f"{who}: {text}"
            raise type(error)(named) from None
    for record in progress.history:
        record.update(local.facts)
    _set_fitted(model, solved, progress, local.problems)
    if not solved.is_whole:
        warnings.warn(_not_whole(model, solved), NotCertifiedWarning, stacklevel=4)
    return solved


def _not_whole(model: Any, solved: cells.Solved) -> str:
    """Return what is left out of a model that ran out of time."""
    stopped = f"{type(model).__name__} stopped by {model.certificate_.stopped_by} after"
    if solved.n_left:
        n_rows = model.certificate_.n_rows
        return (
            f"{stopped} the cells of {n_rows - solved.n_left:,} of {n_rows:,} rows. "
            "The others answer by the mean of their labels, or by a sample of rows "
            "that live elsewhere: nothing is proved about them. Raise max_time, or ask "
            "for smaller cells."
        )
    done = len(solved.forest.trees)
    return f"{stopped} {done} of {model.n_trees} trees: the model is the mean of those."


def values_for_labels(model: Any, X: Any) -> Array:
    """Return values that give a classifier's labels, as its exact values would.

    Of cells most are in float32, and evaluated again where that leaves the label open.
    """
    check_is_fitted(model)
    forest = model.__dict__.get("_forest")
    pairs = len(model.classes_) > 2 and model.multi_class == "ovo"
    if forest is None or pairs:
        return model._values(X)
    is_open = _sign_is_open if len(model.classes_) == 2 else _winner_is_open
    return model._evaluate(_LabelValues(forest, is_open), X)


@dataclass(frozen=True)
class _LabelValues:
    """The values of a forest, as exact as its labels need."""

    forest: Any
    is_open: Callable[[Array, Array], Array]

    def values(self, source: Source) -> Array:
        """Return values of every row that decide as the exact ones do."""
        return np.asarray(self.forest.values_that_decide(source, self.is_open))

    def ready_for(self, source: Source) -> Any:
        """Return the function of a block of rows on a device: the exact values."""
        return self.forest.ready_for(source)


def _sign_is_open(values: Array, errors: Array) -> Array:
    return np.asarray(~(np.abs(values[:, 0]) > errors[:, 0]))


def _winner_is_open(values: Array, errors: Array) -> Array:
    """Whether another class than the one with the largest value may have a larger."""
    rows, top = np.arange(len(values)), values.argmax(axis=1)
    low, high = values[rows, top] - errors[rows, top], values + errors
    high[rows, top] = -np.inf
    return np.asarray(~(low > high.max(axis=1)))


def _with_C(problems: list[Problem], factor: float) -> list[Problem]:
    return [
        replace(one, slack=one.slack * factor, price=one.price * factor)
        for one in problems
    ]


def _local_gamma(source: Source, parts: list[Trial]) -> float:
    """Return one over the mean squared distance of rows in a cell."""
    spreads = []
    for part in parts:
        own = row_statistics(RowSubset(source, part.train, source.take(part.train)))
        spreads.append(np.ldexp(2 * own.total_variance, 2 * own.exponent))
    mean = float(np.mean(spreads)) if spreads else 0.0
    return 1.0 / mean if mean > 0 else 1.0


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
