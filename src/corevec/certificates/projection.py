"""The projection bound: what the violations of a function prove, in one pass.

From a function f, ``beta_i = omega_i max(0, p_i - y_i f_i)`` is dual feasible, and with
``u = sum beta_i y_i phi_true(x_i)`` and the projection P on the span of a basis

    |u|^2 <= |P u|^2 + (sum beta_i delta_i)^2,   delta_i^2 = k_ii - |P phi_i|^2

bounds the dual value from below: rigorous, whatever the basis missed (design.md 1.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import (
    full,
    joined,
    largest,
    namespace,
    places,
    row_sums_of_squares,
    to_numpy,
)
from corevec.data.sources import Source
from corevec.kernels import Rows
from corevec.models.basis import Basis
from corevec.models.expansion import KernelExpansion
from corevec.models.norms import parts_of
from corevec.problems.family import Problem

# Rows that a pass offers as new basis rows, where the bound loses too much.
MOST_MISSING = 100


@dataclass(frozen=True)
class Pulls:
    """The violated entries of some rows: their numbers, ``y beta`` and delta."""

    entries: Array
    pull: Array
    delta: Array


@dataclass
class Sums:
    """What a pass adds up for one problem."""

    loss: float
    ridge: float  # sum beta^2 / omega
    total: float  # sum beta p
    mass: float  # sum beta
    signed: float  # sum beta y
    missed: float  # sum beta delta
    pulled: Array  # L^-1 sum beta y k
    work: Array  # rows near the margin, maybe twice
    missing: Array  # rows that the bound loses most on, and how much
    missing_size: Array
    n_inside: int
    kept: tuple[Pulls, ...] = ()  # of each block, where asked for
    gram: Array | float = 0.0  # sum omega d d', d = y (phi, 1), where asked for
    pull: Array | float = 0.0  # sum omega p d

    def __add__(self, other: Sums) -> Sums:
        rows = np.concatenate([self.missing, other.missing])
        size = np.concatenate([self.missing_size, other.missing_size])
        worst = np.argsort(-size)[:MOST_MISSING]
        return Sums(
            self.loss + other.loss,
            self.ridge + other.ridge,
            self.total + other.total,
            self.mass + other.mass,
            self.signed + other.signed,
            self.missed + other.missed,
            self.pulled + other.pulled,
            joined([self.work, other.work]),
            rows[worst],
            size[worst],
            self.n_inside + other.n_inside,
            self.kept + other.kept,
            self.gram + other.gram,
            self.pull + other.pull,
        )


def all_sums(
    problems: list[Problem],
    offsets: list[float],
    bands: list[float],
    functions: KernelExpansion,
    source: Source,
    basis: Basis,
    keep: bool = False,
    newton: bool = False,
) -> list[Sums]:
    """Add up, over all rows, what each problem's certificate needs; one pass.

    Column t of `functions` belongs to ``problems[t]``; rows with a violation above
    ``-bands[t]`` are noted as rows to work on. `keep` brings back every violated entry,
    `newton` the matrix and the right side of a Newton step over them.
    """
    ready = functions.ready()

    def score(rows: Rows) -> list[Sums]:
        values = ready(rows)
        return [
            _sums(
                problem, offsets[t], bands[t], rows, values[:, t], basis, keep, newton
            )
            for t, problem in enumerate(problems)
        ]

    def merge(left: list[Sums], right: list[Sums]) -> list[Sums]:
        return [a + b for a, b in zip(left, right, strict=True)]

    return source.reduce(score, merge)


def projection_dual(
    problem: Problem,
    function: KernelExpansion,
    offset: float,
    source: Source,
    basis: Basis,
) -> float:
    """Return the dual value that the violations of `function` prove."""
    sums = all_sums([problem], [offset], [0.0], function, source, basis)
    return dual_of(problem, sums[0], basis)


def dual_of(problem: Problem, sums: Sums, basis: Basis) -> float:
    """Return the dual value of the violations, |u|^2 replaced by its bound."""
    curve = float(sums.pulled @ sums.pulled) + sums.missed**2 + sums.ridge
    if problem.has_bias:
        curve += sums.signed**2
    curve += basis.rounding * sums.mass**2
    return problem.dual_at_best_scale(sums.total, curve, sums.mass)


def _sums(
    problem: Problem,
    offset: float,
    band: float,
    rows: Rows,
    values: Array,
    basis: Basis,
    keep: bool,
    newton: bool,
) -> Sums:
    first, *others = [
        _sums_on_side(problem, offset, band, rows, values, basis, side, keep, newton)
        for side in problem.sides
    ]
    return sum(others, first)


def _sums_on_side(
    problem: Problem,
    offset: float,
    band: float,
    rows: Rows,
    values: Array,
    basis: Basis,
    side: int,
    keep: bool,
    newton: bool,
) -> Sums:
    kernel = basis.kernel
    terms = problem.terms(rows, kernel, side)
    violation = terms.target - terms.sign * values - offset
    xp = namespace(violation)
    violation = xp.where(terms.omega > 0, violation, full((), -np.inf, violation))
    inside = places(violation > 0)
    few = Rows(rows.values[inside], rows.index[inside])
    omega, sign = terms.omega[inside], terms.sign[inside]
    beta = omega * violation[inside]
    target = terms.target[inside]
    pulled, deltas = full(len(basis), 0.0, beta), [beta[:0]]
    gram: Any = 0.0
    pull: Any = 0.0
    for part in parts_of(inside, len(basis)):
        rows_here = Rows(few.values[part], few.index[part])
        block = kernel.block(kernel.prepare(rows_here), basis.points)
        phi = basis.features(block)
        own = kernel.diagonal(rows_here)
        # Rounded up: |phi|^2 carries an error of a few eps k_ii per term.
        left = (own - row_sums_of_squares(phi)).clip(min=0.0)
        deltas.append(xp.sqrt(left + basis.rounding * own))
        pulled += (beta * sign)[part] @ phi
        if newton:
            design = _design(problem, phi, sign[part])
            weighted = design * omega[part][:, None]
            gram = gram + weighted.T @ design
            pull = pull + target[part] @ weighted
    delta = joined(deltas)
    missed = beta * delta
    worst = largest(missed, MOST_MISSING)
    lost = float(beta @ violation[inside])
    return Sums(
        loss=lost / 2,
        ridge=lost,
        total=float(beta @ target),
        mass=float(beta.sum()),
        signed=float(beta @ sign),
        missed=float(missed.sum()),
        pulled=to_numpy(pulled),
        work=rows.index[violation > -band],  # where the rows live
        missing=to_numpy(few.index[worst]),
        missing_size=to_numpy(missed[worst]),
        n_inside=len(inside),
        kept=(_pulls(problem.entries(few.index, side), beta * sign, delta),)
        if keep
        else (),
        gram=to_numpy(gram) if newton else 0.0,
        pull=to_numpy(pull) if newton else 0.0,
    )


def _pulls(entries: Array, pull: Array, delta: Array) -> Pulls:
    return Pulls(to_numpy(entries), to_numpy(pull), to_numpy(delta))


def _design(problem: Problem, phi: Array, sign: Array) -> Array:
    """Return ``y (phi, 1)`` and 1 for the offset, as far as the problem has them."""
    columns = [phi * sign[:, None]]
    if problem.has_bias:
        columns.append(sign[:, None])
    if problem.has_offset:
        columns.append(full((len(phi), 1), 1.0, phi))
    return joined(columns, axis=1)
