"""Fitting by cells: many local machines in place of one (`cells=`, `n_trees=`)."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from corevec import cells
from corevec.cells_verify import cells_certificate
from corevec.estimators._callbacks import RoundReporter
from corevec.estimators._given import Given
from corevec.exceptions import (
    InvalidInputError,
    KernelError,
    NotCertifiedWarning,
)
from corevec.kernels import AnyKernel, make_kernel
from corevec.problems import Problem
from corevec.progress import Progress, logger
from corevec.sources import Source, Workers, as_source, row_statistics, stacked
from corevec.trees import grow

Array = npt.NDArray[Any]

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
        self, model: Any, given: Given, problems: list[Problem], workers: Workers
    ):
        self.model, self.given, self.problems = model, given, problems
        self.asked = problems  # with the C that was given
        far = as_source(given.X, model.memory_budget, workers)
        self.source = _at_hand(model, far)
        self.rng = np.random.default_rng(model._settings().random_state)
        self.size = DEFAULT_ROWS if isinstance(model.cells, str) else int(model.cells)
        self.facts: dict[str, Any] = {}
        self.kernel: AnyKernel
        is_auto = isinstance(model.cells, str)
        self.few = is_auto and self.source.n_rows < AUTO_ROWS
        if isinstance(model.gamma, str) and model.gamma == "tune" and not self.few:
            self._tune()
        else:
            self.kernel = model._make_kernel(self.source, given.weights)

    def _members(self) -> list[Array]:
        rows = cells.rows_that_weigh(self.problems, self.source)
        return grow(self.source, self.size, np.random.default_rng(0), rows=rows)[1]

    def _tune(self) -> None:
        """Choose gamma and C on parts of a few cells."""
        model, source = self.model, self.source
        parts = cells.trials(self._members(), MORE_CELLS, self.rng)
        statistics = row_statistics(source, self.given.weights)
        unit = _local_gamma(source, parts)

        def kernel_of(gamma: float) -> AnyKernel:
            own = model.degree, model.coef0
            return make_kernel(model.kernel, gamma, *own, statistics)

        def error_at(pair: tuple[float, float], some: list[cells.Trial]) -> float:
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
        self, problems: list[Problem], kernel: AnyKernel, parts: list[cells.Trial]
    ) -> float:
        def one(part: cells.Trial) -> tuple[float, float]:
            return cells.error_of(problems, self.source, kernel, part)

        wrong, total = np.sum(list(self.source.workers.run(one, parts)), axis=0)
        return float(wrong / max(total, 1e-300))

    def is_better(self) -> bool:
        """Whether a few cells beat a global model of a sample, on the same rows."""
        if self.few:
            self.facts |= {"choice": "global", "reason": "few rows"}
            return False
        parts = cells.trials(self._members(), MORE_CELLS, self.rng)
        local = self._error(self.problems, self.kernel, parts)
        whole = self._global_error(parts)
        choice = "cells" if local < whole - BETTER else "global"
        self.facts |= {"choice": choice, "cells_error": local, "global_error": whole}
        logger.info("cells: error %.4f, global %.4f: %s", local, whole, choice)
        return choice == "cells"

    def _global_error(self, parts: list[cells.Trial]) -> float:
        """Return the error of a machine of a sample on the test parts of the cells."""
        test = np.sort(np.concatenate([part.test for part in parts]))
        others = np.setdiff1d(self.source.draw(self.rng, SAMPLE_ROWS), test)
        plain = clone(self.model).set_params(cells=None, verbose=0, tol=0.01)
        plain.set_params(max_time=plain.max_time or 60.0)
        kernel = self.model._make_kernel(self.source, self.given.weights)
        functions = plain._functions_on(self.asked, self.source, kernel, others)
        rows = self.source.take(test)
        values = functions.evaluate(rows, functions.prepared())
        wrong, total = cells.misses(self.asked, rows, values, kernel)
        return wrong / max(total, 1e-300)

    def solve(self, progress: Progress) -> cells.Solved:
        """Solve every cell."""
        asked = self.problems, self.source, self.kernel, self.size, self.model.n_trees
        return cells.fit(*asked, progress, self.rng)


def fit_cells(model: Any, given: Given, problems: list[Problem]) -> cells.Solved | None:
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
        done = len(solved.forest.trees)
        warnings.warn(
            f"{type(model).__name__} stopped by {model.certificate_.stopped_by} after "
            f"{done} of {model.n_trees} trees: the model is the mean of those.",
            NotCertifiedWarning,
            stacklevel=4,
        )
    return solved


def _with_C(problems: list[Problem], factor: float) -> list[Problem]:
    return [
        replace(one, slack=one.slack * factor, price=one.price * factor)
        for one in problems
    ]


def _local_gamma(source: Source, parts: list[cells.Trial]) -> float:
    """Return one over the mean squared distance of rows in a cell."""
    spreads = []
    for part in parts:
        values = source.take(part.train).values
        dense = values.toarray() if hasattr(values, "toarray") else values
        spreads.append(2 * float(np.var(dense.astype(np.float64), axis=0).sum()))
    mean = float(np.mean(spreads)) if spreads else 0.0
    return 1.0 / mean if mean > 0 else 1.0


def _at_hand(model: Any, source: Source) -> Source:
    """Return rows that live elsewhere in memory, where they fit."""
    if source.holds(source.n_rows):
        return source.near(source.numbers)
    raise InvalidInputError(
        f"{type(model).__name__}: cells are cut from rows in memory, but {source!r} "
        f"has more than memory_budget={source.memory_budget:g} allows to bring here. "
        "Raise memory_budget to four times the data."
    )


def _set_fitted(
    model: Any, solved: cells.Solved, progress: Progress, problems: list[Problem]
) -> None:
    forest = solved.forest
    for name in ("_functions", "_outcome"):
        model.__dict__.pop(name, None)
    model._forest = forest
    model.support_ = np.concatenate([one.basis.index for one in forest.trees])
    model.support_vectors_ = stacked([one.basis.values for one in forest.trees])
    model.dual_coef_ = np.concatenate([one.coef for one in forest.trees]).T
    model.intercept_ = np.concatenate([one.intercepts for one in forest.trees])
    model.history_ = progress.history
    model.n_iter_ = len(progress.history)
    model.n_core_ = solved.largest
    model.n_cells_ = solved.n_cells
    model.certificate_ = cells_certificate(solved, progress, problems[0], model.tol)
