r"""A diagonal metric for the kernel's distance, learned on a sample of the rows.

One width for all columns is what a kernel of the distance lacks beside trees: columns
that say nothing blur the distance. The metric is the diagonal of the average outer
product of the gradients (AGOP; Radhakrishnan et al. 2024, and for leaves of a tree
Beaglehole et al. 2025, arXiv 2508.10053),

.. math:: M = \mathrm{diag}\Big(\frac1S \sum_i s_i \nabla f(x_i) \nabla f(x_i)'\Big),
          \qquad q(x, z) = (x - z)' M (x - z).

Each round solves machines with the metric of the round before, and measures their
error on rows that were held out, the same in all rounds. The best round is taken, if
it is better than the first, which has no metric, by more than chance explains: row by
row on the same rows, the gain must exceed twice its standard error. The metric is
normalised to leave the mean squared distance of the rows as it is: gamma keeps its
meaning.

Where the machines are those of cells, the tree of each round is grown in the metric of
the round before: its cuts then follow the columns that matter. On covtype (522,911
rows, cells of 500) the error falls from 4.0 to 1.9 %; a metric for each cell beyond
that gained less than 0.2 points for three times the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from corevec._runtime.progress import logger
from corevec._runtime.types import Array
from corevec.data.sources import RowSubset, Source, row_statistics
from corevec.kernels import Kernel
from corevec.models.expansion import KernelExpansion
from corevec.models.gradients import squared_gradients
from corevec.problems.family import Floor, Problem
from corevec.solvers.cells.cell import newton_applies, solve_cell
from corevec.solvers.cells.tree import Directions, grow
from corevec.solvers.cells.tuning import (
    FIRST_PLACE,
    Pair,
    Place,
    Trial,
    climb,
    local_gamma,
    pair_at,
    row_errors,
    values_of,
    with_C_times,
)
from corevec.solvers.numeric.deadline import Deadline

# Most rounds, and rounds without a lower error after which no more are made.
MAX_ROUNDS, PATIENCE = 10, 2
# Machines of a round for one output (fewer for several: each is a solution), those of
# them on which gamma and C are tried, and the cells of a region. covtype, cells of 500:
# 24 regions of 4 cells 1.92 % error, 6 of 8 cells 2.01 %, 6 of 16 cells 2.36 %.
MACHINES, TRIED_MACHINES, REGION_CELLS = 96, 6, 4
# A round solves at most this share of the cells, but not fewer than the second number.
CELLS_SHARE, MIN_MACHINES = 0.25, 24
# Rows per machine where the model is one machine of all rows, the number of those, and
# of those on which gamma and C are tried. A regression of 2500 rows takes five times as
# long as one of 1500; with fewer rows weak columns are lost among many.
GLOBAL_ROWS, GLOBAL_MACHINES, GLOBAL_TRIED = 1500, 4, 2
# The gain over no metric, in standard errors of the gain, from which a metric is taken.
# The best of several rounds gains a little by chance: one is too few.
MIN_GAIN = 2.0
# The share of the sample that is held out, and the least rows to learn from.
HELD_OUT, MIN_ROWS = 0.2, 50


@dataclass(frozen=True)
class Form:
    """What the machines are, and whether gamma and C are chosen with the metric."""

    size: int  # rows per machine
    is_local: bool  # the machines are those of cells of a tree
    is_tuned: bool = False
    has_metric: bool = True  # else only gamma and C are chosen


@dataclass(frozen=True)
class MetricTask:
    """What a metric is learned for.

    `kernel_of` returns the kernel with a given gamma, without a metric; with None, the
    one that the user asks for.
    """

    problems: list[Problem]
    source: Source  # the sample
    groups: list[Array]  # its rows of positive weight, by region
    kernel_of: Callable[[float | None], Kernel]
    form: Form
    # A number per column; those with the same one share a factor. None: no two do.
    shared: Array | None = None


@dataclass(frozen=True)
class Learned:
    """The metric of the best round, and the errors on the held-out rows.

    `scale` has the roots of the diagonal; None where no metric is better.
    """

    scale: Array | None
    importances: Array  # the diagonal in units of the columns' variance, of sum 1
    error: float
    isotropic_error: float
    n_rounds: int
    # Where gamma and C stand, if they were tuned, and what is there.
    place: Place = FIRST_PLACE
    gamma: float | None = None
    C_factor: float = 1.0


@dataclass(frozen=True)
class _Round:
    """The machines of one round: where gamma and C stand, error, and gradients."""

    scale: Array | None
    place: Place
    pair: Pair | None  # gamma and the factor of C, if they were tuned
    wrong: Array  # weighted errors of the held-out rows, in the order of their numbers
    weight: float  # of these rows
    gradients: Array  # mean squares, of each column

    @property
    def error(self) -> float:
        """The weighted mean error on the held-out rows."""
        return float(self.wrong.sum()) / max(self.weight, 1e-300)

    def is_better_than(self, other: _Round) -> bool:
        """Return whether the error is lower by more than chance explains."""
        gain = other.wrong - self.wrong
        spread = float(np.sqrt(gain @ gain))  # of its sum, if there were no gain
        return bool(gain.sum() > MIN_GAIN * spread)


@dataclass(frozen=True)
class _Judged:
    """What the machines of one part give."""

    rows: Array  # the held-out ones
    wrong: Array  # their weighted errors
    weight: float
    train_weight: float = 0.0
    gradients: Array | float = 0.0  # squares, weighted sum over the other rows


def sample_size(form: Form, n_outputs: int, n_rows: int) -> int:
    """Return the number of rows that `learn` uses, of so many."""
    n_machines = GLOBAL_MACHINES
    if form.is_local:
        n_cells = int(CELLS_SHARE * n_rows / form.size)
        n_machines = min(max(n_cells, MIN_MACHINES), MACHINES)
        n_machines = _share(n_machines, n_outputs)
    return int(n_machines * form.size / (1 - HELD_OUT))


def draw_regions(
    source: Source, rows: Array, form: Form, n_outputs: int, rng: np.random.Generator
) -> list[Array]:
    """Return the rows to learn from, by region; those of cells are as dense as all.

    In a random sample of the rows cells would be wider than those of the model. So a
    tree cuts all rows into regions of several cells, of which some are drawn.
    """
    wanted = sample_size(form, n_outputs, source.n_rows)
    if len(rows) <= wanted:
        return [rows]
    if not form.is_local:
        return [np.sort(rng.choice(rows, wanted, replace=False))]
    size = int(REGION_CELLS * form.size / (1 - HELD_OUT))
    regions = grow(source, size, rng, rows=rows)[1]
    regions = [regions[at] for at in rng.permutation(len(regions))]
    ends = np.cumsum([len(one) for one in regions])
    return regions[: 1 + int(np.searchsorted(ends, wanted))]


def _share(n_machines: int, n_outputs: int) -> int:
    """Return how many machines of so many outputs are solved in place of those of one.

    Up to four outputs are cheap beside their common kernel matrix.
    """
    return max(2, n_machines * 4 // max(n_outputs, 4))


def learn(
    task: MetricTask, rng: np.random.Generator, deadline: Deadline | None = None
) -> Learned:
    """Return the metric with the least error on rows that are held out."""
    task = replace(task, problems=[_solved_by_newton(one) for one in task.problems])
    n_columns = task.source.n_features
    if sum(map(len, task.groups)) < MIN_ROWS:
        return Learned(None, np.full(n_columns, 1 / n_columns), np.nan, np.nan, 0)
    regions = [_held_out(rows, rng) for rows in task.groups]
    variance = row_statistics(_sample_of(task)).column_variance
    rounds: list[_Round] = []
    scale, place = None, FIRST_PLACE
    for number in range(MAX_ROUNDS if task.form.has_metric else 1):
        parts = _parts(task, scale, regions)
        found = _round(task, parts, scale, place, deadline)
        if found is None:
            break
        rounds.append(found)
        logger.info("metric: round %d, error %.4f", number, found.error)
        gradients = _pooled(found.gradients, variance, task.shared)
        scale, place = _normalised(gradients, variance), found.place
        best = min(range(len(rounds)), key=lambda at: rounds[at].error)
        if scale is None or number - best >= PATIENCE:
            break
    return _best(rounds, variance)


def _sample_of(task: MetricTask) -> Source:
    """Return the rows of all regions."""
    rows = np.sort(np.concatenate(task.groups))
    return RowSubset(task.source, rows, task.source.take(rows))


def _best(rounds: list[_Round], variance: Array) -> Learned:
    """Return the best round, or the first where no other is better for certain."""
    if not rounds:  # no time
        return Learned(None, _importances(None, variance), np.nan, np.nan, 0)
    first, best = rounds[0], min(rounds, key=lambda one: one.error)
    best = best if best.is_better_than(first) else first
    # The columns that matter to the best functions, whether or not they have a metric.
    used = best.scale
    if used is None:
        used = np.sqrt(best.gradients)
    return Learned(
        best.scale,
        _importances(used, variance),
        best.error,
        first.error,
        len(rounds),
        best.place,
        *(best.pair or (None, 1.0)),
    )


def _importances(scale: Array | None, variance: Array) -> Array:
    """Return the diagonal times the variances, of sum 1: free of the columns' units."""
    weight = variance if scale is None else scale**2 * variance
    total = float(weight.sum())
    return np.asarray(weight / total if total > 0 else 0.0 * weight + 1 / len(weight))


def _pooled(gradients: Array, variance: Array, shared: Array | None) -> Array:
    """Return the gradients with the mean of each group of columns in its columns.

    The mean has the variances as weights: the columns of a one-hot code together have
    the share of the distance that they had each by itself.
    """
    if shared is None:
        return gradients
    total = np.bincount(shared, gradients * variance)
    weight = np.bincount(shared, variance)
    return np.asarray((total / np.where(weight > 0, weight, 1.0))[shared])


def _normalised(gradients: Array, variance: Array) -> Array | None:
    """Return the roots of the metric that leaves the mean squared distance as it is."""
    total = float(gradients @ variance)
    if not total > 0:
        return None
    return np.sqrt(gradients * float(variance.sum()) / total)


def _solved_by_newton(problem: Problem) -> Problem:
    """Return the problem, without a free tube: squares are solved much faster."""
    if newton_applies(problem) or problem.response is None:
        return problem
    return replace(problem, price=0.0, floor=Floor.NONE)


def _held_out(rows: Array, rng: np.random.Generator) -> Trial:
    """Return the rows of a region: those to learn from, and those held out."""
    mixed = rng.permutation(rows)
    n_held = int(HELD_OUT * len(rows))
    return Trial(np.sort(mixed[n_held:]), np.sort(mixed[:n_held]))


def _parts(task: MetricTask, scale: Array | None, regions: list[Trial]) -> list[Trial]:
    """Return the rows of each machine: to solve on, and to judge by."""
    rng = np.random.default_rng(0)
    split = _cells if task.form.is_local else _at_random
    parts = [part for one in regions for part in split(task, scale, one, rng)]
    parts = [one for one in parts if len(one.train) and len(one.test)]
    return [parts[at] for at in rng.permutation(len(parts))]


def _at_random(
    task: MetricTask, scale: Array | None, region: Trial, rng: np.random.Generator
) -> list[Trial]:
    """Return random parts of the rows."""
    n_parts = max(1, round(len(region.train) / task.form.size))
    mixed = (rng.permutation(rows) for rows in (region.train, region.test))
    split = (np.array_split(rows, n_parts) for rows in mixed)
    return [Trial(np.sort(a), np.sort(b)) for a, b in zip(*split, strict=True)]


def _cells(
    task: MetricTask, scale: Array | None, region: Trial, rng: np.random.Generator
) -> list[Trial]:
    """Return the cells of a tree that is grown in the metric."""
    held, how = region.test, Directions(scale=scale)
    own = task.source, task.form.size, rng
    tree, members = grow(*own, directions=how, rows=region.train)
    cells = tree.cells_of(task.source.take(held).values)
    return [Trial(rows, held[cells == c]) for c, rows in enumerate(members)]


def _round(
    task: MetricTask,
    parts: list[Trial],
    scale: Array | None,
    place: Place,
    deadline: Deadline | None,
) -> _Round | None:
    """Return error and gradients of the machines with this metric; None without time.

    gamma and C are those of the round before, or better ones in their grid.
    """
    unit = local_gamma(task.source, parts, scale)
    n_tried = TRIED_MACHINES if task.form.is_local else GLOBAL_TRIED
    few = parts[: _share(n_tried, len(task.problems))]

    def judged_at(
        places: list[Place], some: list[Trial], *, is_last: bool
    ) -> list[_Judged]:
        """Return what `_judged` returns at every place for each of some parts."""
        # Not in a thread of the pool: a kernel may need a pass over all rows.
        machines = [_machine(task, scale, unit, at) for at in places]

        def judged(item: tuple[int, Trial]) -> _Judged | None:
            if deadline is not None and deadline.is_over():
                return None
            return _judged(*machines[item[0]], task.source, item[1], is_last)

        items = [(at, part) for at in range(len(places)) for part in some]
        found = list(task.source.workers.run(judged, items))
        done = [one for one in found if one is not None]
        return done if len(done) == len(found) else []

    def errors_of(places: list[Place]) -> list[float]:
        found = judged_at(places, few, is_last=False)
        wrong = np.reshape([one.wrong.sum() for one in found], (-1, len(few)))
        return wrong.sum(axis=1).tolist()

    if task.form.is_tuned:
        best = climb(errors_of, place)
        if best is None:
            return None
        place = best[0]
    found = judged_at([place], parts, is_last=True)
    if not found:
        return None
    pair = pair_at(place, unit) if task.form.is_tuned else None
    order = np.argsort(np.concatenate([one.rows for one in found]))
    gradients = np.zeros(task.source.n_features)
    for one in found:
        gradients += one.gradients
    return _Round(
        scale,
        place,
        pair,
        np.concatenate([one.wrong for one in found])[order],
        sum(one.weight for one in found),
        gradients / max(sum(one.train_weight for one in found), 1e-300),
    )


def _machine(
    task: MetricTask, scale: Array | None, unit: float, place: Place
) -> tuple[list[Problem], Kernel]:
    """Return the problems and the kernel at a place in the grid of gamma and C."""
    problems, gamma = task.problems, None
    if task.form.is_tuned:
        gamma, C_factor = pair_at(place, unit)
        problems = with_C_times(problems, C_factor)
    kernel = task.kernel_of(gamma)
    return problems, kernel if scale is None else kernel.with_scale(scale)


def _judged(
    problems: list[Problem],
    kernel: Kernel,
    source: Source,
    part: Trial,
    has_gradients: bool,
) -> _Judged:
    """Return the errors of the test rows and the gradients at the others."""
    solution = solve_cell(problems, source, kernel, part.train)
    test = source.take(part.test)
    values = values_of(solution, kernel, test)
    wrong, weight = row_errors(problems, test, values, kernel)
    found = _Judged(part.test, wrong, float(weight.sum()))
    if not has_gradients:
        return found
    rows = source.take(part.train)
    own_weight = problems[0].labels.weights(rows)
    own = kernel, solution.basis, solution.coef, solution.intercept
    gradients = squared_gradients(KernelExpansion(*own), rows, own_weight)
    return replace(found, train_weight=float(own_weight.sum()), gradients=gradients)


__all__ = ["Form", "Learned", "MetricTask", "draw_regions", "learn", "sample_size"]
