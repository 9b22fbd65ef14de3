"""Weights in a span, solved by Newton's method on a sample of the rows, or on all.

Where the sample is all rows this is the solution. Otherwise it leaves a warm start for
the rounds of ``iterative.py``, and the Hessian of the sample, their metric.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, or_
from typing import Any

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.backend.arrays import count, full, is_tensor, joined, places, to_device_of
from corevec.problems.family import Problem
from corevec.solvers.numeric.deadline import Deadline
from corevec.solvers.numeric.design import BasisDesign, Design, capacity
from corevec.solvers.numeric.jitter import with_jitter
from corevec.solvers.numeric.primal_newton import (
    Minimum,
    minimise_each,
)
from corevec.solvers.subspace.row_order import RowOrder
from corevec.solvers.subspace.state import SpanState
from corevec.solvers.subspace.task import SpanTask

# More rows than there are.
NO_BOUND = 1 << 62
# Squares of kernel values up to this stay in the range of float32.
MAX_FLOAT32_SQUARE = 1e15


@dataclass(frozen=True)
class SampleSize:
    """How many rows are worked on at once, and in which precision.

    Attributes
    ----------
    sample_rows : int
        Rows of a random sample.
    max_rows : int
        Rows at most, where all of them count.
    dtype : dtype
        Precision of the design.
    is_float32_enough : bool
        Whether float32 sums over all rows lose less than the penalty is.
    hessian_dtype : dtype
        Precision of the stored Hessians.
    """

    sample_rows: int
    max_rows: int
    dtype: Any
    is_float32_enough: bool
    hessian_dtype: Any


def sample_size(state: SpanState, present: Any, feature_sq: float = 0.0) -> SampleSize:
    """Return how many of the rows `present` can be worked on at once.

    `feature_sq` is the mean square of a row's features where they are not orthonormal
    coordinates, whose squares k(x, x) bounds.
    """
    task, k = state.task, len(state.task.basis)
    own_sq = float(np.abs(task.basis.factor).max()) ** 2  # k(b, b), of the first pivot
    # float32 sums lose eps of themselves, to be less than the penalty's 1: RSVM on a
    # checkerboard of 30,000 rows, C = 1000, took 47 passes and not 5, to a worse end.
    heaviest = max(float(fit.terms.omega.sum()) for fit in state.fits)
    lost = heaviest * float(np.finfo(np.float32).eps)
    is_small = own_sq < MAX_FLOAT32_SQUARE and feature_sq * lost < 1
    dtype = np.float32 if is_small else np.float64
    is_float32_enough = max(1.0, own_sq, feature_sq) * lost < 1
    hessian_dtype = _hessian_dtype(task)
    max_rows = _max_rows(task, dtype, hessian_dtype)
    max_rows = min(max_rows, _rows_in_time(task, present, dtype))
    wanted = max(
        task.method.sample_rows_per_vector * k,
        int(task.method.sample_products / k**2),
    )
    is_classifier = all(problem.response is None for problem in task.problems)
    if is_classifier and len(present) <= max_rows:
        # Of a classifier only the violated rows count in the Hessian.
        wanted = len(present)
    rows = min(wanted, max_rows, len(present))
    rows = max(rows, min(k, len(present)))
    return SampleSize(rows, max_rows, dtype, is_float32_enough, hessian_dtype)


def _hessian_dtype(task: SpanTask) -> Any:
    """Return the precision of the Hessians; one of them is counted in any case."""
    others = (len(task.problems) - 1) * len(task.basis) ** 2
    budget = task.source.memory_budget / task.method.hessian_budget_divisor
    return np.float32 if 8 * others > budget else np.float64


def _max_rows(task: SpanTask, dtype: Any, hessian_dtype: Any) -> int:
    """Return how many design rows fit half of what the span may use.

    The basis itself takes the other half.
    """
    k, rows = len(task.basis), task.method.design_rows
    if rows is None:
        others = (len(task.problems) - 1) * k**2
        reserved = np.dtype(hessian_dtype).itemsize * others
        rows = capacity(task.source, k + 2, dtype, reserved)
    return rows // 2


def _rows_in_time(task: SpanTask, present: Any, dtype: Any) -> int:
    """Return on how many rows the problems are solved within the time limit.

    Some rows are timed: their design, and its sum of squares, of which Newton's method
    makes about two for each problem.
    """
    deadline = Deadline.of(task.progress, task.method.sample_time_share)
    few = present[: task.method.probed_rows]
    if not deadline.is_set or is_tensor(few):
        return NO_BOUND
    taken = []
    for _ in range(2):  # the first may compile the loops
        began = time.perf_counter()
        design = BasisDesign(
            task.problems[0], task.source, task.basis, few, None, dtype
        )
        cached = time.perf_counter()
        design.row_gram(np.arange(len(few)), np.ones(len(few)))
        summed = time.perf_counter() - cached
        taken.append(cached - began + 2 * len(task.problems) * summed)
    seconds = min(taken) / (len(few) * task.source.workers.n_threads)
    # What was timed can be solved in any case; a few rows might be none, if drawn.
    return max(task.method.probed_rows, int(deadline.left / max(seconds, 1e-12)))


def solve_on_sample(
    state: SpanState, present: Any, size: SampleSize, seen: Any = None
) -> tuple[Any, bool]:
    """Solve each problem on some of the rows `present`; set weights and Hessians.

    Returns the numbers of these rows, and whether each stands for itself only. Where
    the values of a classifier are known, they are those that are violated, or nearly,
    and those `seen` near the margin before. Where the weights turn out to be the
    minimum over all rows, the fits are marked as solved.
    """
    task, fits = state.task, state.fits
    sample, stands_for = _weighted_sample(state, present, size, seen)
    is_whole = len(sample) == len(present)
    counts_once = is_whole or bool((stands_for == 1.0).all())
    designs = _designs(state, sample, _design_dtype(task, present, size, is_whole))
    is_precise = designs[0].dtype == np.float64 or size.is_float32_enough
    boosts = [joined([stands_for] * len(one.sides)) for one in task.problems]

    def keep(t: int, design: Design, found: Minimum) -> tuple[Array, Any]:
        if is_whole and found.ended and is_precise:
            return found.v, None
        return found.v, _hessian(design, found.v, boosts[t], size, found.gram)

    method = task.method
    steps = method.whole_steps if counts_once else method.sample_steps
    settings = replace(task.newton, max_steps=steps, value_tolerance=0.0)
    # A first solution on few rows costs next to nothing, and f = 0 is no model.
    few = max(2 * len(task.basis), method.probed_rows)
    if len(sample) <= 1.5 * few and not any(fit.v.any() for fit in fits):
        settings = replace(settings, deadline=None)
    starts = [fit.v for fit in fits]
    for fit, found in zip(
        fits, minimise_each(designs, starts, boosts, keep, settings), strict=True
    ):
        fit.start_from(*found)
    if all(fit.hessian is None for fit in fits):
        for fit in fits:
            fit.mark_solved()
        return sample, counts_once
    for fit, design, boost in zip(fits, designs, boosts, strict=True):
        if fit.hessian is None:
            fit.start_from(fit.v, _hessian(design, fit.v, boost, size))
    return sample, counts_once


def _design_dtype(
    task: SpanTask, present: Any, size: SampleSize, is_whole: bool
) -> Any:
    """Return the precision of the design: float64 where the minimum must be exact.

    At C = 1e5 float32 ends 0.2 % above the optimum (tests/solvers/subspace).
    """
    n_products = len(present) * len(task.basis) ** 2
    is_cheap = n_products <= task.method.sample_products
    is_wanted = is_whole and (is_cheap or not size.is_float32_enough)
    if is_wanted and len(present) <= size.max_rows // 2:
        return np.float64
    return size.dtype


def _designs(state: SpanState, sample: Any, dtype: Any) -> Sequence[BasisDesign]:
    """Return the design of the sample for each problem; they share one cache."""
    task = state.task
    designs: list[BasisDesign] = []
    for fit in state.fits:
        fit.drop_hessian()
        like = designs[0] if designs else None
        designs.append(
            BasisDesign(fit.problem, task.source, task.basis, sample, like, dtype)
        )
    return designs


def _weighted_sample(
    state: SpanState, present: Any, size: SampleSize, seen: Any
) -> tuple[Any, Any]:
    """Return some rows, and how many rows each stands for.

    Where the values of classifiers are known, all rows that are violated or nearly, if
    they fit: the others add nothing to a Hessian. Otherwise some of them, rows of large
    weight likelier: with balanced weights of 1:100 half of the weight is in a hundredth
    of the rows, and a uniform sample's Hessian took 30 rounds. A row is drawn with a
    probability q of its own, and stands for 1/q rows.
    """
    source, n_present = state.task.source, len(present)
    if size.sample_rows >= n_present:
        return present, full(n_present, 1.0, present)
    weight = reduce(add, [fit.terms.omega[: source.n_rows] for fit in state.fits])
    max_rows = size.sample_rows
    if state.is_decided_at_margin and state.fits[0].has_values:
        max_rows = max(size.max_rows, size.sample_rows)
        near = _near_margin(state, weight > 0, size.max_rows, seen)
        if count(near & (weight > 0)):  # a start may be right everywhere
            weight = weight * near
    if n_present < source.n_rows:
        weight = weight[RowOrder(source).positions_of(present)]
    few = places(weight > 0)
    if len(few) <= max_rows:
        return present[few], full(len(few), 1.0, present)
    q = _probabilities(weight, size.sample_rows)
    drawn = draw_each(q, state.task.rng, state.task.method.draws_at_once)
    return present[drawn], 1.0 / q[drawn]


def _near_margin(state: SpanState, has_weight: Any, max_rows: int, seen: Any) -> Any:
    """Return which rows are violated or nearly, and those `seen` so far if they fit.

    C = 1e6, 60 vectors, went around in circles without the latter.
    """
    for margin in state.task.method.near_margins:
        near = reduce(or_, [fit.violated_by(-margin) for fit in state.fits])
        if count(near & has_weight) <= max_rows:
            break
    if count((near | seen) & has_weight) <= max_rows:
        near = near | seen
    return near


def draw_each(q: Any, rng: np.random.Generator, at_once: int) -> Any:
    """Return the positions that are drawn, each with a probability of its own.

    Random numbers are drawn on the host, `at_once` at a time.
    """
    found = []
    for start in range(0, len(q), at_once):
        part = q[start : start + at_once]
        found.append(start + places(to_device_of(rng.random(len(part)), q) < part))
    return joined(found)


def _probabilities(weight: Any, size: int) -> Any:
    """Return probabilities that add up to `size`: the weights scaled, at most 1."""
    q = (weight * (size / float(weight.sum()))).clip(max=1.0)
    while True:
        below = q < 1.0
        left, some = size - count(~below), weight[below]
        total = float(some.sum())
        scaled = some * (left / total if total > 0 else 0.0)
        q[below] = scaled.clip(max=1.0)
        if bool((scaled <= 1.0).all()):
            return q


def _hessian(
    design: Design, v: Array, boost: Any, size: SampleSize, gram: Array | None = None
) -> Any:
    """Return the factor of the Hessian over these rows, at the weights v.

    `gram` is ``sum omega d d'`` of the active entries, where it is known.
    """
    problem: Problem = design.problem
    if gram is None:
        omega = to_device_of(boost, design.terms.omega) * design.terms.omega
        violation = design.terms.target - design.times(v)
        active = places((violation > 0) & (omega > 0))
        gram = design.gram(active, omega)[0]
    if problem.has_offset:
        gram = _without_offset(gram, float(v[-1]))
    factor, is_lower = _factor(gram)
    return factor.astype(size.hessian_dtype, copy=False), is_lower


def _factor(gram: Array) -> Any:
    """Return the Cholesky factor of ``gram + 1``; summed in float32, it may need more.

    It is a metric only: a larger diagonal makes smaller steps, no other result.
    """
    own = gram.diagonal() + 1.0

    def factored(jitter: float) -> Any:
        np.fill_diagonal(gram, own + jitter)
        return linalg.cho_factor(gram, lower=True, check_finite=False)

    return with_jitter(factored, float(own.max()), first=1e-6, growth=2.0)


def _without_offset(gram: Array, offset: float) -> Array:
    """Return the Hessian in the weights alone: the offset follows at its best."""
    inner, column, corner = gram[:-1, :-1].copy(), gram[:-1, -1], gram[-1, -1]
    if offset != 0 and corner > 0:
        inner -= np.outer(column, column) / corner
    return np.asarray(inner)
