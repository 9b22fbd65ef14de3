"""Fitting by cells: many local machines in place of one (`cells=`, `n_trees=`)."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from corevec import cells
from corevec.certificate import Certificate
from corevec.estimators._callbacks import RoundReporter
from corevec.estimators._given import Given
from corevec.exceptions import InvalidInputError, KernelError
from corevec.problems import Problem
from corevec.progress import Progress
from corevec.sources import Source, Workers, as_source, stacked

Array = npt.NDArray[Any]

# Rows per cell where nothing else is said: covtype has 4.0 % error at 1000 (see
# docs/cells.md for the curve); the exact solver's time per row grows with the square.
DEFAULT_ROWS = 1000


def check_cells(model: Any) -> None:
    """Check `cells` and `n_trees`."""
    who, size, n_trees = type(model).__name__, model.cells, model.n_trees
    if not (isinstance(n_trees, Integral) and not isinstance(n_trees, bool)):
        n_trees = 0
    if n_trees < 1:
        raise InvalidInputError(
            f"{who}: n_trees={model.n_trees!r} must be a whole number of at least 1."
        )
    if size is None or (isinstance(size, str) and size == "auto"):
        return
    whole = isinstance(size, Integral) and not isinstance(size, bool)
    if not whole or size < 20:
        raise InvalidInputError(
            f"{who}: cells={size!r} must be None, 'auto' or the number of rows of a "
            f"cell, at least 20, e.g. {DEFAULT_ROWS}."
        )
    if model.kernel == "precomputed":
        raise InvalidInputError(
            f"{who}: cells={size!r} cut rows by their columns, which kernel="
            "'precomputed' does not have."
        )


def fit_cells(model: Any, given: Given, problems: list[Problem]) -> cells.Solved:
    """Fit local machines and set what they share with other models."""
    with Workers(model.n_jobs) as workers:
        source = _at_hand(model, as_source(given.X, model.memory_budget, workers))
        kernel = model._make_kernel(source, given.weights)
        progress = Progress(source.n_rows, model.max_iter, model.max_time)
        progress.snapshot = lambda: None
        rng = np.random.default_rng(model._settings().random_state)
        size = DEFAULT_ROWS if isinstance(model.cells, str) else int(model.cells)
        with RoundReporter(model, lambda _: {}) as reporter:
            progress.listeners.append(reporter.listen(progress))
            try:
                with progress.listening_for_interrupt():
                    solved = cells.fit(
                        problems, source, kernel, size, model.n_trees, progress, rng
                    )
            except (KernelError, InvalidInputError) as error:
                raise type(error)(f"{type(model).__name__}: {error}") from None
    _set_fitted(model, solved, progress, problems)
    return solved


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
    model.certificate_ = _certificate(solved, progress, problems[0].name, model.tol)


def _certificate(
    solved: cells.Solved, progress: Progress, name: str, tol: float
) -> Certificate:
    """Return what is known: the cells' own problems, and nothing about the whole."""
    worst, mean = float(solved.gaps.max()), float(solved.gaps.mean())
    words = (
        f"{solved.n_cells:,} local problems, one per cell of at most "
        f"{solved.largest:,} rows: the worst gap is {worst:.1e}, the mean {mean:.1e}. "
        "Nothing is claimed about the global problem, over all rows at once, which is "
        f"another one; each of them is a {name}"
    )
    return Certificate(
        problem=words,
        primal=solved.primal,
        dual=solved.dual,
        relative_gap=worst,
        n_verified=progress.n_rows,
        n_rows=progress.n_rows,
        passes=progress.passes,
        seconds=progress.seconds,
        converged=False,
        stopped_by=progress.spent() or "cells",
        tol=tol,
    )
