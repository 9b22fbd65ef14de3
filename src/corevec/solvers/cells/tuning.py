"""Choosing gamma and C: candidates are solved and judged on parts of a few cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from corevec._runtime.progress import logger
from corevec._runtime.types import Array
from corevec.data.sources import RowSubset, Source, of_rows, row_statistics
from corevec.kernels import AnyKernel, Rows
from corevec.problems.family import Problem
from corevec.solvers.cells.cell import CellSolution, solve_cell
from corevec.solvers.numeric.deadline import Deadline

# Candidates: multiples of one over the mean squared distance within a cell, for gamma,
# and of the given C.
GAMMA_FACTORS, C_FACTORS = (0.5, 1.5, 4.5, 13.5, 40.0), (1.0, 5.0, 25.0, 125.0)
# All candidates are tried on a few cells, the best of them on more.
FEW_CELLS, MORE_CELLS, N_FINALISTS = 16, 80, 4

# With a learned metric gamma and C are searched in a wider grid, from one place to the
# next: smooth targets want machines that are wider than their cell.
WIDE_GAMMA_FACTORS = (0.02, 0.1, *GAMMA_FACTORS)
WIDE_C_FACTORS = (0.04, 0.2, *C_FACTORS, 625.0, 3125.0)

Pair = tuple[float, float]  # gamma, and the factor of C
Place = tuple[int, int]  # of a pair in the wide grid
FIRST_PLACE: Place = (3, 3)


@dataclass(frozen=True)
class Trial:
    """Parts of one cell: rows to solve on, and rows to judge by."""

    train: Array
    test: Array


@dataclass(frozen=True)
class Tuned:
    """The chosen gamma, factor of C, and their error on the test parts."""

    gamma: float
    C_factor: float
    error: float


@dataclass(frozen=True)
class Start:
    """Where a search in the wide grid begins.

    `scale` has the roots of the metric of the distance, None where there is none.
    """

    scale: Array | None
    place: Place


def climb(
    errors_of: Callable[[list[Place]], list[float]], start: Place
) -> tuple[Place, float] | None:
    """Return a place of the wide grid with no better neighbour, and its error.

    `errors_of` returns the errors of some places, or nothing when the time is over:
    then the best place so far is returned, and None before there is one.
    """
    known: dict[Place, float] = {}
    here = start
    while True:
        near = _neighbours(here)
        new = [place for place in near if place not in known]
        errors = errors_of(new) if new else []
        if new and not errors:
            return (here, known[here]) if known else None
        known.update(zip(new, errors, strict=True))
        best = min(near, key=known.__getitem__)
        if best == here:
            return here, known[here]
        here = best


def _neighbours(place: Place) -> list[Place]:
    """Return a place, and then those next to it."""
    i, j = place
    near = [place, (i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)]
    n_gammas, n_C = len(WIDE_GAMMA_FACTORS), len(WIDE_C_FACTORS)
    return [(i, j) for i, j in near if 0 <= i < n_gammas and 0 <= j < n_C]


def pair_at(place: Place, unit: float) -> Pair:
    """Return gamma and the factor of C at a place; `unit` is that of gamma."""
    return WIDE_GAMMA_FACTORS[place[0]] * unit, WIDE_C_FACTORS[place[1]]


def trials(members: list[Array], rng: np.random.Generator) -> list[Trial]:
    """Return random parts, four to one, of some random cells that have rows."""
    held = [rows for rows in members if len(rows) >= 10] or [max(members, key=len)]
    found = []
    for at in rng.permutation(len(held))[:MORE_CELLS]:
        mixed = rng.permutation(held[at])
        cut = len(mixed) // 5
        found.append(Trial(np.sort(mixed[cut:]), np.sort(mixed[:cut])))
    return found


def tune(
    problems: list[Problem],
    source: Source,
    parts: list[Trial],
    kernel_of: Callable[[float], AnyKernel],
    deadline: Deadline | None = None,
    start: Start | None = None,
) -> Tuned:
    """Return the gamma and the factor of C with the least error on the test parts.

    `kernel_of` returns the kernel with a given gamma. With `start`, the search goes
    from there to better neighbours. At the deadline the parts that
    were solved for every candidate decide; before the first, the middle candidate.
    """
    unit = local_gamma(source, parts, None if start is None else start.scale)
    pairs = [(factor * unit, C) for factor, C in product(GAMMA_FACTORS, C_FACTORS)]

    def errors_of(some: list[Pair], few: list[Trial]) -> list[float]:
        """Return the error of each pair over those of the parts that all have."""
        return _errors(problems, source, some, kernel_of, (few, deadline))

    if start is not None:
        return _tuned_from(start, unit, lambda some: errors_of(some, parts[:FEW_CELLS]))
    first = errors_of(pairs, parts[:FEW_CELLS])
    if not first:
        (gamma, C), error = (GAMMA_FACTORS[1] * unit, C_FACTORS[1]), float("nan")
    else:
        order = sorted(range(len(pairs)), key=first.__getitem__)[:N_FINALISTS]
        best = [pairs[i] for i in order]
        errors = errors_of(best, parts) or [first[i] for i in order]
        error = min(errors)
        gamma, C = best[errors.index(error)]
    logger.info("cells: gamma %.3g, C times %g: error %.4f", gamma, C, error)
    return Tuned(float(gamma), C, error)


def _tuned_from(
    start: Start, unit: float, errors_of: Callable[[list[Pair]], list[float]]
) -> Tuned:
    """Return the pair that a search from `start` ends at."""
    found = climb(
        lambda places: errors_of([pair_at(one, unit) for one in places]), start.place
    )
    place, error = (start.place, float("nan")) if found is None else found
    gamma, C = pair_at(place, unit)
    logger.info("cells: gamma %.3g, C times %g: error %.4f", gamma, C, error)
    return Tuned(float(gamma), C, error)


def _errors(
    problems: list[Problem],
    source: Source,
    pairs: list[Pair],
    kernel_of: Callable[[float], AnyKernel],
    judged: tuple[list[Trial], Deadline | None],
) -> list[float]:
    """Return the error of each pair over the leading parts that all were solved on.

    Part after part, so that at the deadline all pairs are judged by the same parts;
    none where not even the first part was solved for all.
    """
    parts, deadline = judged
    machines = [(with_C_times(problems, C), kernel_of(gamma)) for gamma, C in pairs]

    def error_of(item: tuple[Trial, int]) -> tuple[float, float] | None:
        if deadline is not None and deadline.is_over():
            return None
        scaled, kernel = machines[item[1]]
        return _error_of(scaled, source, kernel, item[0])

    items = list(product(parts, range(len(pairs))))
    found = list(source.workers.run(error_of, items))
    rows = [found[at : at + len(pairs)] for at in range(0, len(found), len(pairs))]
    whole = [row for row in rows if None not in row]
    if not whole:
        return []
    wrong, total = np.sum(np.array(whole, dtype=np.float64), axis=0).T
    return (wrong / np.maximum(total, 1e-300)).tolist()


def with_C_times(problems: list[Problem], factor: float) -> list[Problem]:
    """Return the problems with C multiplied by `factor`."""
    return [
        replace(one, slack=one.slack * factor, price=one.price * factor)
        for one in problems
    ]


def local_gamma(
    source: Source, parts: list[Trial], scale: Array | None = None
) -> float:
    """Return one over the mean squared distance of rows in a cell.

    `scale` has the roots of the metric of the distance.
    """
    spreads = []
    for part in parts:
        own = row_statistics(RowSubset(source, part.train, source.take(part.train)))
        total = own.total_variance
        if scale is not None:
            total = float(own.column_variance @ scale**2)
        spreads.append(np.ldexp(2 * total, 2 * own.exponent))
    mean = float(np.mean(spreads)) if spreads else 0.0
    return 1.0 / mean if mean > 0 else 1.0


def mean_error(
    problems: list[Problem], source: Source, kernel: AnyKernel, parts: list[Trial]
) -> float:
    """Return the weighted error of machines of the training parts on the test parts."""

    def error_of(part: Trial) -> tuple[float, float]:
        return _error_of(problems, source, kernel, part)

    wrong, total = np.sum(list(source.workers.run(error_of, parts)), axis=0)
    return float(wrong / max(total, 1e-300))


def _error_of(
    problems: list[Problem], source: Source, kernel: AnyKernel, part: Trial
) -> tuple[float, float]:
    """Return `weighted_error` of the machines of one part."""
    solution = solve_cell(problems, source, kernel, part.train)
    rows = source.take(part.test)
    return weighted_error(problems, rows, values_of(solution, kernel, rows), kernel)


def values_of(solution: CellSolution, kernel: AnyKernel, rows: Rows) -> Array:
    """Return the values of the machines of one cell."""
    values = np.tile(solution.intercept, (len(rows), 1))
    if len(solution.basis):
        points = kernel.prepare_basis(solution.basis)
        values += kernel.times(kernel.prepare(rows), points, solution.coef)
    return values


def weighted_error(
    problems: list[Problem], rows: Rows, values: Array, kernel: AnyKernel
) -> tuple[float, float]:
    """Return the weighted sum of the errors of given values, and that of the weights.

    The error of one-vs-rest machines is a wrong class, that of other classifiers a
    wrong sign, and that of a regression the squared residual.
    """
    wrong, weight = row_errors(problems, rows, values, kernel)
    return float(wrong.sum()), float(weight.sum())


def row_errors(
    problems: list[Problem], rows: Rows, values: Array, kernel: AnyKernel
) -> tuple[Array, Array]:
    """Return the terms of both sums of `weighted_error`, row by row."""
    first = problems[0]
    if len(problems) > 1 and first.negative is None and first.response is None:
        assert first.labels.codes is not None
        weight = first.labels.weights(rows)
        classes = np.array([one.positive for one in problems])
        is_wrong = classes[values.argmax(axis=1)] != of_rows(first.labels.codes, rows)
        return weight * is_wrong, weight
    wrong, total = np.zeros(len(rows)), np.zeros(len(rows))
    for t, problem in enumerate(problems):
        terms = problem.terms(rows, kernel)
        weight = np.where(terms.omega > 0, problem.labels.weights(rows), 0.0)
        if problem.response is not None:
            error = (of_rows(problem.response, rows) - values[:, t]) ** 2
        else:
            error = (values[:, t] > 0) != (terms.sign > 0)
        wrong, total = wrong + weight * error, total + weight
    return wrong, total
