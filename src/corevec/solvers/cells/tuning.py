"""Parts of a few cells, solved and judged: what gamma, C and cells are chosen by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import Source, of_rows
from corevec.kernels import AnyKernel, Rows
from corevec.problems.family import Problem
from corevec.solvers.cells.solve import solve_cell


@dataclass(frozen=True)
class Trial:
    """Parts of a few cells: rows to solve on, rows to judge by."""

    train: Array
    test: Array


def trials(members: list[Array], n_cells: int, rng: np.random.Generator) -> list[Trial]:
    """Return random parts, four to one, of some random cells that hold rows."""
    held = [rows for rows in members if len(rows) >= 10] or [max(members, key=len)]
    few = rng.permutation(len(held))[:n_cells]
    found = []
    for at in few:
        mixed = rng.permutation(held[at])
        cut = len(mixed) // 5
        found.append(Trial(np.sort(mixed[cut:]), np.sort(mixed[:cut])))
    return found


def error_of(
    problems: list[Problem], source: Source, kernel: AnyKernel, trial: Trial
) -> tuple[float, float]:
    """Return the weighted error of one cell on its test part, and the weight.

    Of classes the share of wrong signs, over all machines; of numbers the squares.
    """
    fit_ = solve_cell(problems, source, kernel, trial.train)
    rows = source.take(trial.test)
    values = np.tile(fit_.intercept, (len(rows), 1))
    if len(fit_.basis):
        points = kernel.prepare_basis(fit_.basis)
        values += kernel.times(kernel.prepare(rows), points, fit_.coef)
    return misses(problems, rows, values, kernel)


def misses(
    problems: list[Problem], rows: Rows, values: Array, kernel: AnyKernel
) -> tuple[float, float]:
    """Return the weighted error of given values on some rows, and the weight."""
    wrong = total = 0.0
    if (
        len(problems) > 1
        and problems[0].negative is None
        and problems[0].response is None
    ):
        codes = of_rows(problems[0].labels.codes, rows)  # type: ignore[arg-type]
        weight = problems[0].labels.weights(rows)
        own = np.array([one.positive for one in problems])
        return float(weight @ (own[values.argmax(axis=1)] != codes)), float(
            weight.sum()
        )
    for t, problem in enumerate(problems):
        weight = problem.labels.weights(rows)
        terms = problem.terms(rows, kernel)
        weight = np.where(terms.omega > 0, weight, 0.0)
        if problem.response is not None:
            off = (of_rows(problem.response, rows) - values[:, t]) ** 2
        else:
            off = (values[:, t] > 0) != (terms.sign > 0)
        wrong, total = wrong + float(weight @ off), total + float(weight.sum())
    return wrong, total
