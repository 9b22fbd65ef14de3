"""Weights in the span of a basis, solved on a sample of the rows, or on all.

What is left of it is the start of ``subspace.py``, and the metric of its steps.

Numbers of every row are kept where the rows live: on a GPU they are tensors there, and
what comes here are weights, sums and a few rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add, or_
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.backend.arrays import (
    count,
    counted,
    full,
    joined,
    namespace,
    places,
    to_device_of,
    to_numpy,
)
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Rows
from corevec.models.basis import Basis
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Labels, Problem, Terms
from corevec.solvers.numeric.design import WorkingRows, capacity, size_of
from corevec.solvers.numeric.primal_newton import Minimum, minimise_each

# Rows of the sample: so many per basis row (2.5 took 30 rounds at C = 100, where the
# sample alone is fitted too closely), more while its Hessian costs no more than so many
# products. It is a start and a metric: float32 and a few Newton steps will do.
SAMPLE_SHARE, SAMPLE_PRODUCTS, SAMPLE_STEPS = 5, 2e10, 4
# Rows that are right by more than this, beyond their margin, are not worked on again;
# by less where there is no room. MNIST in rows of unit length, ten classes, 4000
# vectors: 20 rounds over all rows, half of the fit, where 0.25 alone was tried.
NEAR = (0.25, 0.12, 0.06)
# Random numbers at a time: 32 MB.
DRAWN_AT_ONCE = 1 << 22
# Where the sample is all rows, this is the solution.
WHOLE_STEPS = 50
# Hessians of several problems are kept in float32 where they would take more than this
# part of the budget: ten of 4000 vectors have 1.3 GB in float64.
HESSIANS_SHARE = 4


class Order:
    """The numbers of a source's rows by their places, and the places by the numbers.

    Numbers grow from block to block. Where each is the last one's plus one, nothing of
    the length of the data is kept; else the numbers are, where the rows live.
    """

    def __init__(self, source: Source):
        self.n_rows = n = source.n_rows
        self._one = source.block(0, 1).index
        self.first, last = int(self._one[0]), int(source.block(n - 1, n).index[0])
        self.numbers: Any = None
        if last - self.first != n - 1:
            self.numbers = source.device_numbers

    def everyone(self) -> Any:
        """Return the numbers of all rows, where these live."""
        if self.numbers is None:
            return counted(self.first, self.n_rows, self._one)
        return self.numbers

    def places_of(self, numbers: Any) -> Any:
        """Return the places of rows by their numbers."""
        if self.numbers is None:
            return numbers - self.first
        numbers = to_device_of(numbers, self.numbers)
        return namespace(numbers).searchsorted(self.numbers, numbers)

    def numbers_at(self, few: Any) -> Array:
        """Return the numbers of a few rows, here, by their places."""
        if self.numbers is None:
            return np.asarray(to_numpy(few) + self.first)
        return to_numpy(self.numbers[to_device_of(few, self.numbers)])

    def part_of(self, rows: Rows) -> slice:
        """Return the places of the rows of a block, which follow each other."""
        start = int(self.places_of(rows.index[:1])[0]) if len(rows) else 0
        return slice(start, start + len(rows))


def present_there(problems: list[Problem], source: Source) -> Any:
    """Return the numbers of the rows that weigh in some problem, where they live."""
    if every_row_weighs(problems):
        return Order(source).everyone()

    def present(rows: Rows) -> Any:
        weights = [problem.labels.weights(rows) > 0 for problem in problems]
        return rows.index[reduce(or_, weights)]

    return source.map_on_device(present)


def every_row_weighs(problems: list[Problem]) -> bool:
    """Whether some problem gives all rows a weight, which needs no look at them."""

    def gives(labels: Labels) -> bool:
        by_class = labels.class_weight is None or bool((labels.class_weight > 0).all())
        return labels.sample_weight is None and by_class

    return any(gives(problem.labels) for problem in problems)


@dataclass
class Fit:
    """The weights of one problem, and their values on all rows.

    Weights and steps are here; terms and values, numbers of every row, where those are.
    """

    problem: Problem
    terms: Terms
    v: Array  # weights, bias, offset
    hessian: Any = None  # Cholesky factor, of the sample
    values: Any = field(default_factory=lambda: np.empty(0))
    last_step: Array | None = None
    last_values: Any = None
    primal: float = np.inf
    promise: float = np.inf  # what the next step would gain, as a share
    dual: float = -np.inf  # what `prove` or the problem alone says
    n_violated: int = 0

    @property
    def weights(self) -> Array:
        """The weights and the bias, without the offset."""
        return self.v[: len(self.v) - int(self.problem.has_offset)]

    @property
    def offset(self) -> float:
        """The offset t of the problem, 0 where it has none."""
        return float(self.v[-1]) if self.problem.has_offset else 0.0

    def violations(self) -> Any:
        """Return ``p - y f - t`` of all entries."""
        both = joined([self.values] * len(self.problem.sides))
        return self.terms.target - self.terms.sign * both - self.offset

    def violated_by(self, least: float) -> Any:
        """Return whether each row is violated by more than this, on some side."""
        inside = (self.violations() > least) & (self.terms.omega > 0)
        return inside.reshape(len(self.problem.sides), -1).any(0)

    def unseen(self, seen: Any) -> float:
        """Return the share of the objective that rows have that are not `seen`."""
        excess = self.violations().clip(min=0.0)
        losses = (self.terms.omega * excess**2).reshape(len(self.problem.sides), -1)
        total = float(losses.sum()) + float(self.weights @ self.weights)
        return float(losses.sum(0)[~seen].sum()) / max(total, 1e-300)

    def multipliers(self) -> Any:
        """Return what the violations of all entries are as multipliers."""
        return self.terms.omega * self.violations().clip(min=0.0)

    def violated(self, source: Source) -> Array:
        """Return the entries with a positive violation, here."""
        inside = (self.violations() > 0) & (self.terms.omega > 0)
        return entries_at(self.problem, source, places(inside))

    def row_share(self) -> Any:
        """Return each row's share of the sum of squared multipliers."""
        squares = (self.multipliers() ** 2).reshape(len(self.problem.sides), -1).sum(0)
        total = float(squares.sum())
        return squares / total if total > 0 else squares

    def row_pull(self) -> Any:
        """Return ``sum y beta`` of each row's entries, and set the primal value."""
        excess = self.violations().clip(min=0.0)
        beta = self.terms.omega * excess
        regular = float(self.weights @ self.weights) / 2
        self.primal = regular + self.problem.price * self.offset
        self.primal += float(beta @ excess) / 2
        self.n_violated = count(beta != 0)
        sides = len(self.problem.sides)
        return (self.terms.sign * beta).reshape(sides, -1).sum(0)


def first_fits(
    problems: list[Problem],
    source: Source,
    basis: Basis,
    start: KernelExpansion | None = None,
) -> list[Fit]:
    """Return fits with the weights of `start`, or zeros; values are yet to be set."""
    terms = _all_terms(problems, source, basis.kernel)
    weights = _first_weights(problems, basis, start)
    return [Fit(*own) for own in zip(problems, terms, weights, strict=True)]


def _all_terms(
    problems: list[Problem], source: Source, kernel: AnyKernel
) -> list[Terms]:
    """Return the terms of each problem's entries, side after side; one pass."""

    def score(rows: Rows) -> list[list[Terms]]:
        return [
            [problem.terms(rows, kernel, side)]
            for problem in problems
            for side in problem.sides
        ]

    def merge(left: list[list[Terms]], right: list[list[Terms]]) -> list[list[Terms]]:
        return [a + b for a, b in zip(left, right, strict=True)]

    parts = source.reduce(score, merge)[::-1]  # each is let go as it is joined
    return [
        Terms.join([part for _ in problem.sides for part in parts.pop()])
        for problem in problems
    ]


def _first_weights(
    problems: list[Problem], basis: Basis, start: KernelExpansion | None
) -> list[Array]:
    """Return weights whose functions agree with `start` on the basis, or zeros."""
    found = [np.zeros(size_of(problem, basis)) for problem in problems]
    if start is None or any(problem.has_offset for problem in problems):
        return found
    values = start.evaluate(basis.rows, start.prepared()) - start.intercept
    weights = basis.features(values.T)
    for t, (problem, v) in enumerate(zip(problems, found, strict=True)):
        v[: len(basis)] = weights[t]
        if problem.has_bias:
            v[-1] = start.intercept[t]
    return found


class AtOnce(NamedTuple):
    """How many rows are worked on at once, and how."""

    most: int  # of a sample
    room: int  # of rows that all count
    dtype: Any
    is_light: bool  # float32 sums of all rows lose less than the penalty is
    hessian: Any  # precision of what is kept of the Hessians


def rows_at_once(
    fits: list[Fit],
    source: Source,
    basis: Basis,
    present: Any,
    feature_sq: float = 0.0,
) -> AtOnce:
    """Return how many of the rows `present` can be worked on at once.

    `feature_sq` is the mean square of a row's features where they are not orthonormal
    coordinates, whose squares k(x, x) bounds.
    """
    k = len(basis)
    wanted = max(SAMPLE_SHARE * k, int(SAMPLE_PRODUCTS / k**2))
    # Squares of kernel values must stay in the range of float32.
    own_sq = float(np.abs(basis.factor).max()) ** 2  # k(b, b), of the first pivot
    # Their sums lose eps of themselves, to be less than the penalty's 1: RSVM on a
    # checkerboard of 30,000 rows, C = 1000, took 47 passes and not 5, to a worse end.
    heaviest = max(float(fit.terms.omega.sum()) for fit in fits)
    lost = heaviest * float(np.finfo(np.float32).eps)
    small = own_sq < 1e15 and feature_sq * lost < 1
    dtype = np.float32 if small else np.float64
    is_light = max(1.0, own_sq, feature_sq) * lost < 1
    # One Hessian is among the matrices that are counted in any case.
    others = (len(fits) - 1) * k**2
    metric: Any = np.float64
    if 8 * others > source.memory_budget / HESSIANS_SHARE:
        metric = np.float32
    beside = np.dtype(metric).itemsize * others
    # Half of what the span may use: the basis itself takes the other half.
    room = capacity(source, k + 2, dtype, beside) // 2
    if all(fit.problem.response is None for fit in fits) and len(present) <= room:
        # Of a classifier only the violated rows count in the Hessian.
        wanted = len(present)
    most = min(wanted, room, len(present))
    most = max(most, min(k, len(present)))
    return AtOnce(most, room, dtype, is_light, metric)


def solve_on_sample(
    fits: list[Fit],
    source: Source,
    basis: Basis,
    present: Any,
    rng: np.random.Generator,
    at_once: AtOnce,
    seen: Any = None,
) -> tuple[Any, bool]:
    """Solve each problem on some of the rows `present`; their Hessian is kept.

    Returns the numbers of these rows, and whether they stand for themselves only. Where
    the values of a classifier are known, they are those that are violated, or nearly,
    and those `seen` at the margin before.
    """
    k, room, dtype = len(basis), at_once.room, at_once.dtype
    sample, stands_for = _weighted_sample(fits, source, present, at_once, rng, seen)
    whole = len(sample) == len(present)
    to_the_end = whole or bool((stands_for == 1.0).all())
    steps = WHOLE_STEPS if to_the_end else SAMPLE_STEPS
    is_cheap = len(present) * k**2 <= SAMPLE_PRODUCTS
    # At C = 1e5 float32 ends 0.2 % above the optimum (test_subspace.py).
    if whole and (is_cheap or not at_once.is_light) and len(present) <= room // 2:
        dtype = np.float64
    designs: list[WorkingRows] = []
    for fit in fits:
        fit.hessian = None  # of the last look, as large as the one to come
        like = designs[0] if designs else None
        designs.append(WorkingRows(fit.problem, source, basis, sample, like, dtype))
    boosts = [joined([stands_for] * len(fit.problem.sides)) for fit in fits]
    starts = [fit.v for fit in fits]

    def keep(t: int, found: Minimum) -> bool:
        fits[t].v = found.v
        # Otherwise a start like others.
        is_precise = dtype == np.float64 or at_once.is_light
        is_exact = whole and found.ended and is_precise
        if not is_exact:
            system = found.gram
            fits[t].hessian = _hessian(fits[t], designs[t], boosts[t], at_once, system)
        return is_exact

    are_exact = minimise_each(designs, starts, boosts, keep, steps)
    if all(are_exact):
        for fit in fits:
            fit.promise = 0.0
        return sample, to_the_end
    for t, is_exact in enumerate(are_exact):
        if is_exact:
            fits[t].hessian = _hessian(fits[t], designs[t], boosts[t], at_once)
    return sample, to_the_end


def _weighted_sample(
    fits: list[Fit],
    source: Source,
    present: Any,
    at_once: AtOnce,
    rng: np.random.Generator,
    seen: Any,
) -> tuple[Any, Any]:
    """Return some rows, and how many each stands for.

    Where the values of classifiers are known, all rows that are violated or nearly if
    there is room: the others add nothing to a Hessian. With those that were `seen`, if
    there is room for both: C = 1e6, 60 vectors, went around in circles without them.
    Otherwise some of them, heavy rows likelier: with balanced weights of 1:100 half of
    the weight is in a hundredth of the rows, and a uniform sample's Hessian took 30
    rounds. A row is in with a probability q of its own, and stands for 1/q rows.
    """
    if at_once.most >= len(present):
        return present, full(len(present), 1.0, present)
    weight, most = reduce(add, [fit.terms.omega[: source.n_rows] for fit in fits]), 0
    if are_at_margin(fits) and len(fits[0].values):
        most = at_once.room
        for margin in NEAR:
            near = reduce(or_, [fit.violated_by(-margin) for fit in fits])
            if count(near & (weight > 0)) <= most:
                break
        if count((near | seen) & (weight > 0)) <= most:
            near = near | seen
        if count(near & (weight > 0)):  # a start may be right everywhere
            weight = weight * near
    if len(present) < source.n_rows:
        weight = weight[Order(source).places_of(present)]
    few = places(weight > 0)
    if len(few) <= max(most, at_once.most):
        return present[few], full(len(few), 1.0, present)
    q = _shares(weight, at_once.most)
    drawn = _drawn(q, rng)
    return present[drawn], 1.0 / q[drawn]


def are_at_margin(fits: list[Fit]) -> bool:
    """Whether most rows of the solutions are right, and decide nothing."""
    return all(
        fit.problem.response is None and not fit.problem.has_offset for fit in fits
    )


def _drawn(q: Any, rng: np.random.Generator) -> Any:
    """Return the places that are drawn, each with a probability of its own.

    Some at a time: random numbers are made here, where the budget is small.
    """
    found = []
    for start in range(0, len(q), DRAWN_AT_ONCE):
        part = q[start : start + DRAWN_AT_ONCE]
        found.append(start + places(to_device_of(rng.random(len(part)), q) < part))
    return joined(found)


def _shares(weight: Any, size: int) -> Any:
    """Return probabilities that add up to `size`, like the weights but at most 1."""
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
    fit: Fit, rows: WorkingRows, boost: Array, at_once: AtOnce, system: Any = None
) -> Any:
    """Return the factor of the Hessian over these rows, at the weights of the fit."""
    if system is None:
        omega = to_device_of(boost, rows.terms.omega) * rows.terms.omega
        violation = rows.terms.target - rows.times(fit.v)
        active = places((violation > 0) & (omega > 0))
        system = rows.gram(active, omega)[0]
    if fit.problem.has_offset:
        system = _without_offset(system, fit.offset)
    factor, is_lower = _factor(system)
    return factor.astype(at_once.hessian, copy=False), is_lower


def _factor(gram: Array) -> Any:
    """Return the Cholesky factor of ``gram + 1``; summed in float32, it may need more.

    It is a metric only: a larger diagonal makes smaller steps, no other result.
    """
    diagonal = np.diag_indices(len(gram))
    gram[diagonal] += 1.0
    while True:
        try:
            return linalg.cho_factor(gram, lower=True, check_finite=False)
        except linalg.LinAlgError:
            gram[diagonal] += 1e-6 * float(gram[diagonal].max())


def _without_offset(gram: Array, offset: float) -> Array:
    """Return the Hessian in the weights alone: the offset follows at its best."""
    inner, column, corner = gram[:-1, :-1].copy(), gram[:-1, -1], gram[-1, -1]
    if offset != 0 and corner > 0:
        inner -= np.outer(column, column) / corner
    return np.asarray(inner)


def entries_at(problem: Problem, source: Source, positions: Any) -> Array:
    """Return the problem's entries, here, at these positions of the rows' sides."""
    positions = to_numpy(positions)
    rows = Order(source).numbers_at(positions % source.n_rows)
    return np.asarray(rows + positions // source.n_rows * problem.labels.n_rows)
