"""The solution on the core sets, evaluated on the rows that were scanned.

Its functions, the primal value at the best scale or offset tried, and how far outside
the ball the worst row is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corevec._runtime.types import Array
from corevec.certificates.scan import ScanResult
from corevec.data.sources import Source, stacked
from corevec.kernels import AnyKernel, Rows
from corevec.models.certificate import relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Floor, Problem
from corevec.solvers.coreset.core import Core
from corevec.solvers.coreset.state import Measured


def measured(
    core: Core, found: ScanResult, tried: tuple[tuple[float, float], ...]
) -> Measured:
    """Return what a scan says about the solution on the core rows."""
    primal, (scale, offset) = primal_value(core, found, tried)
    dual = max(core.dual, core.problem.least)
    gap = relative_gap(primal, dual, core.cancellation)
    if core.softened:  # on the other rows the kernel may be even less definite
        gap = max(gap, relative_gap(core.dual, primal))
    return Measured(found, primal, gap, scale, offset, next_trial(core, found))


def unmeasured(core: Core) -> Measured:
    """Return what is known of a solution that no scan measured: no primal value."""
    (scale, offset), nothing = trials(core, 1.0)[0], np.empty(0)
    none = ScanResult(nothing, 0.0, 0.0, nothing.astype(np.int64), nothing, 0)
    return Measured(none, np.inf, np.inf, scale, offset, 1.0)


def primal_value(
    core: Core, found: ScanResult, tried: tuple[tuple[float, float], ...]
) -> tuple[float, tuple[float, float]]:
    """Return the least primal value over the trials, and its scale and offset."""
    norm_sq = core.norm_sq
    if core.problem.is_hard:
        offset = tried[0][1]  # that of the scan; the radius was at least 0 there
        own = core.terms.target - core.margins() - offset
        largest = max(found.largest, float(own.max()))
        return norm_sq / 2 + offset + largest, tried[0]
    losses = found.loss + core.loss(tried)
    regular = [scale**2 * norm_sq / 2 for scale, _ in tried]
    if core.problem.has_offset:
        price = core.problem.price
        regular = [norm_sq / 2 + price * offset for _, offset in tried]
    best = int(np.argmin(regular + losses))
    return float(regular[best] + losses[best]), tried[best]


def trials(core: Core, suggestion: float) -> tuple[tuple[float, float], ...]:
    """Return the (scale, offset) pairs to evaluate the primal at.

    `suggestion` is what `next_trial` returned after the last scan.
    """
    if core.problem.has_unit_targets:
        return (1.0, 0.0), (suggestion, 0.0)
    if not core.problem.has_offset:
        return ((1.0, 0.0),)  # a rescaled regression is another model
    floor = core.problem.floor
    lowest = -core.norm_sq / 2 if floor is Floor.RADIUS else 0.0
    if floor is Floor.NONE:
        lowest = -np.inf
    return (1.0, max(core.offset, lowest)), (
        1.0,
        max(core.offset + suggestion - 1.0, lowest),
    )


def next_trial(core: Core, found: ScanResult) -> float:
    """Return the scale (or 1 + change of the offset) after a Newton step on it."""
    slope, curve = core.slopes()
    slope, curve = slope + found.slope, curve + found.curve
    if core.problem.has_offset:
        return 1.0 + (slope - core.problem.price) / curve if curve > 0 else 1.0
    norm_sq = core.norm_sq
    if curve + norm_sq <= 0:
        return 1.0
    return float(np.clip(1.0 + (slope - norm_sq) / (curve + norm_sq), 0.1, 10.0))


def ball_epsilon_reached(core: Core, found: ScanResult, eta: float) -> float:
    """Return the epsilon at which ``(1 + epsilon) R`` holds every scanned row."""
    radius_sq, step = core.ball(eta)
    worst = max(found.largest, core.largest_violation(), 0.0)
    farthest_sq = radius_sq + 2 * step * worst
    if np.isnan(radius_sq):
        return float("nan")
    if radius_sq <= 0:
        return 0.0 if farthest_sq <= 0 else float("inf")
    return float(np.sqrt(farthest_sq / radius_sq)) - 1.0


def joint_functions(cores: list[Core], kernel: AnyKernel) -> KernelExpansion:
    """Return all problems' functions over the union of their support rows."""
    if len(cores) == 1 and cores[0].problem.response is None:
        core = cores[0]
        few = core.support
        coef = (core.multipliers * core.terms.sign)[few]
        basis = Rows(core.values[few], core.rows[few])
        return KernelExpansion(kernel, basis, coef[:, None], _intercepts(cores))
    rows = np.concatenate([core.rows[core.support] for core in cores])
    union, position = np.unique(rows, return_inverse=True)
    coef = np.zeros((len(union), len(cores)))
    done = 0
    for t, core in enumerate(cores):
        few = core.support
        where = position[done : done + len(few)]
        # Both entries of a row of a regression may be among them.
        np.add.at(coef[:, t], where, (core.multipliers * core.terms.sign)[few])
        done += len(few)
    _, first = np.unique(rows, return_index=True)
    values = stacked([core.values[core.support] for core in cores])[first]
    return KernelExpansion(kernel, Rows(values, union), coef, _intercepts(cores))


def scaled(functions: KernelExpansion, scales: Array) -> KernelExpansion:
    """Return the functions, each multiplied by its scale."""
    if (scales == 1).all():
        return functions
    coef, intercept = functions.coef * scales, functions.intercept * scales
    return replace(functions, coef=coef, intercept=intercept)


def largest_diagonal(problem: Problem, source: Source, kernel: AnyKernel) -> float:
    """Return eta, the largest ``Q_ii`` over all rows of positive weight.

    For a regression the largest ``Q_ii + 2 |p_i| / T`` (CVR paper, eq. 15); an
    enclosing ball needs none.
    """
    if problem.has_offset and problem.response is None:
        return 0.0
    bias = 1.0 if problem.has_bias else 0.0
    labels = problem.labels
    alike = labels.sample_weight is None and problem.response is None
    if alike and kernel.constant_diagonal:
        weights = labels.class_weight
        least = 1.0 if weights is None else float(weights[weights > 0].min())
        return 1.0 + bias + 1.0 / (problem.slack * least)

    def score(rows: Rows) -> float:
        terms = problem.terms(rows, kernel)
        present = terms.omega > 0
        if not present.any():
            return 0.0
        own = kernel.diagonal(rows)[present] + 1.0 / terms.omega[present]
        if problem.has_offset:
            own = own + 2 * abs(terms.target[present]) / problem.price
        return float(own.max())

    return source.reduce(score, max) + bias


def _intercepts(cores: list[Core]) -> Array:
    return np.array(
        [
            float(core.multipliers @ core.terms.sign) if core.problem.has_bias else 0.0
            for core in cores
        ]
    )
