"""Grow a basis: few vectors, chosen and then moved for the weights of all rows.

The objective over basis vectors B with the best weights for them,

    F(B) = min_w  |w|^2/2 + 1/2 sum_e omega_e max(0, p_e - y_e f(x_e))^2,
    w in the span of phi(b_1), ..., phi(b_k),

is differentiable in B (``variable_projection.py``). The basis grows in a few stages,
as a `Plan` says: new vectors where the functional gradient is largest beyond the
present span (``matching_pursuit.py``), then all vectors moved by a few steps of L-BFGS
(``moves.py``). Several problems (classes, targets) share the vectors. This goes beyond
the CPSP paper, which leaves a vector where its own cut had put it (docs/mathematics.md,
section 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from corevec._runtime.progress import Progress, RoundState
from corevec._runtime.types import Array
from corevec.backend.arrays import cast, is_on_card, namespace, to_device_of, to_numpy
from corevec.data.sources import Source
from corevec.data.sources.budget import rows_within
from corevec.kernels import Kernel, Rows
from corevec.models.basis import free_vectors
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Problem
from corevec.solvers.basis.matching_pursuit import best_candidates, draw_candidates
from corevec.solvers.basis.moves import bytes_of_moves, move
from corevec.solvers.basis.plans import MAX_SMALL, Plan, plan_for
from corevec.solvers.basis.variable_projection import (
    Part,
    part_of,
)
from corevec.solvers.numeric.deadline import Deadline
from corevec.solvers.numeric.design import row_budget
from corevec.solvers.numeric.primal_value import worst_violation

# Times as many products of a plan where a card works on the rows: it multiplies
# matrices of float32 at some 50 TFLOPS (H200) for 0.6 on each of two cores. The CPU
# device of torch is no card.
CARD_SPEED = 40.0
# Where more rows are near the margin than fit, those that are right by less than this
# are worked on before others. MNIST 01234-vs-rest, 1000 vectors, 14,138 rows fit:
# objective 7,494 with a random part of those within 0.7, 5,700 with the nearest.
NEAREST_BAND = 0.25
# Rows of the first stages: so many per vector, or more where a step stays cheap:
# vectors found on few rows fit those (ijcnn1, 100 vectors found on 5,000 rows had more
# errors than 50).
MIN_ROWS_PER_VECTOR, MAX_ROWS_PER_VECTOR, CHEAP_STEP_PRODUCTS = 10, 200, 2e9
# Rows of the last stage of a small basis, for each coordinate that moves.
ROWS_PER_COORDINATE = 12
# Fewer candidates where their kernel matrix, so many bytes a value while it is
# computed, would not fit half of the budget.
BYTES_PER_KERNEL_VALUE = 12
# Vectors that move in any case.
MIN_MOVING = 4
# Where there is a time limit: the share of what is left in which the basis grows, and
# the products of a plan that one core makes in a second (1.1e12 in twenty seconds of
# two cores).
GROWTH_SHARE, PRODUCTS_PER_SECOND = 0.5, 2.5e10


@dataclass(frozen=True)
class PursuitTask:
    """Problems for which a basis of `size` vectors is to grow.

    `present` are the numbers of the rows of positive weight. Stages end early where the
    gap, estimated on the rows worked on, is below `tol`.
    """

    problems: list[Problem]
    source: Source
    kernel: Kernel
    size: int
    progress: Progress
    rng: np.random.Generator
    present: Array
    tol: float = 0.0

    def part(self, numbers: Array, stands_for: float) -> Part:
        """Return the rows with these numbers, each of which stands for so many."""
        case = self.problems, self.source, self.kernel
        return part_of(*case, numbers, stands_for)


class Pursued(NamedTuple):
    """Basis vectors, with the functions of the last stage since the ones before."""

    vectors: Any
    functions: KernelExpansion | None


class _Sizes(NamedTuple):
    """How many rows the first stages and the last one work on."""

    first: int
    last: int


def grow(task: PursuitTask) -> Iterator[Pursued]:
    """Yield basis vectors that may do, in user units; ``task.size`` of them at last.

    (Fewer where they would coincide, where fewer rows pull, or when the time is spent.)
    Those whose moves do not fit the memory budget are rows, added at the end. The first
    stages work on a random sample of the rows; the last on those of all rows that are
    near the margin then. A stage's vectors may do if the gap, as the rows worked on
    tell it, is below `tol`: who asks for the next has measured that they do not.
    """
    plan, n_moving = plan_that_fits(task.size, len(task.problems), task.source)
    deadline = Deadline.of(task.progress, GROWTH_SHARE)
    if deadline.is_set:
        n_moving = moving_in_time(task, n_moving, deadline.left)
        plan = plan_for(n_moving, len(task.problems))
    sizes = _rows_of_stages(task, plan, n_moving)
    part, kernel = _first_part(task, sizes.first), task.kernel
    B, functions = np.empty((0, task.source.n_features)), None
    goals = [-(-n_moving * stage // plan.stages) for stage in range(1, plan.stages)]
    goals += [n_moving] * plan.rounds + [task.size] * (n_moving < task.size)
    for stage, goal in enumerate(goals, 1):
        is_late = stage >= plan.stages
        if is_late and sizes.first < len(task.present) and len(B):
            part = _near_margin(task, part, B, sizes.last, plan.far)
        if goal > len(B):
            found = draw_candidates(part, B, _n_candidates(part, B, goal), task.rng)
            if len(B) and found.gap < task.tol:
                yield Pursued(kernel.row_map.back(B), functions)
                functions = None
            is_last = goal > n_moving  # of rows, which are many
            new = best_candidates(
                found, goal - len(B), not len(B), deadline if is_last else None
            )
            del found  # its matrix is up to half of the budget
            if is_last:
                yield Pursued(with_rows(kernel, B, new), functions)
                return
            B = np.concatenate([B, as_vectors(new)])
        steps, own = plan.steps, plan_for(len(B), len(task.problems))
        if is_late:
            steps, own = last_steps(part, B, task.source, plan), plan
        B = move(part, B, steps, deadline, own, is_last=stage == len(goals))
        functions = _record(part, B, task)
        if task.progress.spent() is not None or deadline.is_over():
            break
    yield Pursued(kernel.row_map.back(B), functions)


def plan_that_fits(size: int, n_problems: int, source: Source) -> tuple[Plan, int]:
    """Return how a basis of this size grows, and how many of its vectors move.

    As many as the arrays of L-BFGS fit the memory budget for: of 38,910 columns of text
    34 in 256 MiB. The others stay rows. Text, 1000 vectors: 34 moved for 24 steps have
    a lower objective after 19 s (5,348) than 1000 moved for 6 steps after 130 s
    (5,392).
    """
    plan = plan_for(size, n_problems)
    n_moving = min(size, plan.most_moving)
    fitting = int(source.memory_budget / bytes_of_moves(source.n_features))
    fitting = max(MIN_MOVING, fitting)
    if fitting >= n_moving or plan.most_moving < size:
        return plan, min(n_moving, fitting)
    return plan_for(fitting, n_problems), fitting


def moving_in_time(task: PursuitTask, n_moving: int, seconds: float) -> int:
    """Return how many vectors can move within the time: the others stay rows."""
    affordable = seconds * PRODUCTS_PER_SECOND * task.source.workers.n_threads
    while n_moving > MIN_MOVING and _products(task, n_moving) > affordable:
        n_moving = max(MIN_MOVING, n_moving // 2)
    return n_moving


def _products(task: PursuitTask, n_moving: int) -> float:
    """Return the products of the fewest steps of all stages."""
    plan = plan_for(n_moving, len(task.problems))
    n_rows = _rows_of_stages(task, plan, n_moving).last
    width = task.source.row_entries + n_moving * (1 + len(task.problems))
    n_steps = plan.steps * (plan.stages - 1) + plan.least_steps * plan.rounds
    return float(n_steps) * min(n_rows, len(task.present)) * n_moving * width


def _rows_of_stages(task: PursuitTask, plan: Plan, n_moving: int) -> _Sizes:
    source = task.source
    most = max(task.size, rows_that_fit(source, n_moving))
    cheap = int(CHEAP_STEP_PRODUCTS / (n_moving * (source.row_entries + n_moving)))
    many = min(MAX_ROWS_PER_VECTOR * n_moving, cheap)
    many = max(MIN_ROWS_PER_VECTOR * n_moving, many)
    first = min(most, max(plan.first_rows, many))
    if n_moving <= MAX_SMALL:
        cheap = ROWS_PER_COORDINATE * n_moving * source.n_features
    return _Sizes(first, min(most, max(plan.last_rows, cheap)))


def _first_part(task: PursuitTask, n_rows: int) -> Part:
    """Return all rows, or a random sample of them."""
    sample = task.present
    if n_rows < len(sample):
        sample = np.sort(task.rng.choice(sample, n_rows, replace=False))
    return task.part(sample, len(task.present) / len(sample))


def _n_candidates(part: Part, B: Array, goal: int) -> int:
    """Return how many rows compete to become new vectors, as far as they fit."""
    size = goal - len(B)
    fitting = int(np.sqrt(part.device_budget / (2 * BYTES_PER_KERNEL_VALUE)))
    plan = plan_for(goal, len(part.problems))
    wanted = max(plan.least_candidates, plan.candidates * size)
    return max(size, min(wanted, fitting))


def last_steps(part: Part, B: Array, source: Source, plan: Plan) -> int:
    """Return how many steps of the last stage the plan's products allow."""
    width = source.row_entries + len(B) * (1 + len(part.problems))
    products = float(len(part)) * len(B) * width
    most = plan.products * (CARD_SPEED if is_on_card(part.points.values) else 1.0)
    return int(np.clip(most / products, plan.least_steps, plan.most_steps))


def rows_that_fit(source: Source, size: int) -> int:
    """Return how many rows the memory budget holds, or that of their device.

    In float32: the row, its kernel values, its features, a few numbers of its own.
    """
    numbers = source.row_entries + 2 * size + 64
    budget = row_budget(source, size)
    most = min(rows_within(budget, 4 * numbers), source.n_rows)
    budget *= source.part_budget(most) / source.working_budget
    return max(size, rows_within(budget, 4 * numbers))


def _record(part: Part, B: Array, task: PursuitTask) -> KernelExpansion:
    """Return the functions of a stage, and record it; its gap is not known yet."""
    rows = free_vectors(task.kernel.row_map.back(B))
    found = KernelExpansion(task.kernel, rows, to_numpy(part.c), part.biases())
    progress, nan = task.progress, float("nan")
    progress.rows_looked_at += len(part)
    progress.record(
        RoundState(lambda: found),
        core=len(B),
        support=len(B),
        gap=nan,
        promise=nan,
        dual=nan,
        looked_at=len(part),
        exact=False,
    )
    return found


def _near_margin(
    task: PursuitTask, part: Part, B: Array, most: int, far: float
) -> Part:
    """Return the rows near the margin, of all rows, with the weights solved there.

    The nearest `most` of them; a random part where more are within `NEAREST_BAND`. One
    pass over all rows.
    """
    points, plain, kernel = part.basis_points(B), part.kernel, task.kernel
    biases, offsets = part.biases(), part.offsets()

    def score(rows: Rows) -> Array:
        mapped = Rows(kernel.row_map(rows.values, points.dtype), rows.index)
        f = plain.times(plain.prepare(mapped, points.dtype), points, part.c)
        f = f + to_device_of(biases, f)
        xp = namespace(f)
        worst = [
            worst_violation(problem, offsets[t], rows, f[:, t], kernel)
            for t, problem in enumerate(part.problems)
        ]
        worst = xp.max(xp.stack(worst, axis=0), axis=0)
        near = worst > -far
        return xp.stack([cast(rows.index[near], np.float64), worst[near]], axis=1)

    pairs = task.source.map(score)
    numbers, violation = pairs[:, 0].astype(np.int64), pairs[:, 1]
    found = task.part(*nearest_rows(numbers, violation, most, task.rng))
    found.take_weights(part)
    found.solve(B)
    return found


def nearest_rows(
    rows: Array, violation: Array, most: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """Return at most so many rows, and how many each of them stands for.

    Rows that are left out are right by `NEAREST_BAND` at least: they have no loss now,
    and stay right for a while. Where more rows are nearer, a random part stands for all
    (covtype, 200 vectors: an objective of 5.01e6, of those within 0.25 only 5.05e6).
    """
    if len(rows) <= most:
        return rows, 1.0
    nearest = np.argpartition(-violation, most - 1)[:most]
    if violation[nearest].min() <= -NEAREST_BAND:
        return np.sort(rows[nearest]), 1.0
    some = rng.choice(rows, most, replace=False)
    return np.sort(some), len(rows) / most


def as_vectors(rows: Any) -> Array:
    """Return rows as dense vectors in float64, on the host."""
    dense = rows.toarray() if sparse.issparse(rows) else to_numpy(rows)
    return np.asarray(dense, dtype=np.float64)


def with_rows(kernel: Kernel, B: Array, rows: Any) -> Any:
    """Return vectors and rows in user units; rows of text stay sparse."""
    B = kernel.row_map.back(B)
    if not sparse.issparse(rows):
        return np.concatenate([B, kernel.row_map.back(as_vectors(rows))])
    return sparse.vstack([sparse.csr_matrix(B), kernel.row_map.back(rows)], "csr")
