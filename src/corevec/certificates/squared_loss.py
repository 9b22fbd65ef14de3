"""Dual values of the problems with squared loss: of violations, and of multipliers.

From a function f, ``beta_i = omega_i max(0, p_i - y_i f_i)`` is dual feasible. One pass
over all rows (`all_sums`) adds up its dual value with ``|u|^2`` bounded by the
projection on the span of a basis; `prove` replaces that bound by the exact sum or the
sampled one where it is too loose (``dual_bounds.py``; docs/mathematics.md,
2 Certificates).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import full, joined, largest, namespace, places, to_numpy
from corevec.certificates.dual_bounds import (
    CONFIDENCE,
    BoundRequest,
    Combination,
    DualBound,
    Projection,
    features_and_distances,
)
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Rows
from corevec.models.basis import Basis
from corevec.models.certificate import relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.models.norms import parts_of
from corevec.problems.family import Problem, Terms

# Rows that a pass offers as new basis rows, where the bound loses too much.
MOST_MISSING = 100
# Rows drawn in the first try of a sampled bound, and in the second.
SAMPLE_SIZES = (1000, 8000)
# Violated entries are returned up to this many bytes, whatever the memory budget.
MIN_ENTRY_BYTES = 1e8


@dataclass(frozen=True)
class PassRequest:
    """What a pass over all rows measures for one problem.

    Attributes
    ----------
    problem : Problem
        The problem.
    offset : float
        The offset t of its function.
    band : float
        Rows with a violation above ``-band`` are returned as rows to work on.
    keep : bool
        Whether every violated entry is returned.
    newton : bool
        Whether the matrix and the right side of a Newton step are summed.
    """

    problem: Problem
    offset: float = 0.0
    band: float = 0.0
    keep: bool = False
    newton: bool = False


@dataclass(frozen=True)
class Pulls:
    """Violated entries: their numbers, ``y beta`` and delta."""

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

    def pulls(self) -> Pulls:
        """Return the violated entries of all blocks."""
        return Pulls(
            *(
                np.concatenate([getattr(one, name) for one in self.kept])
                for name in ("entries", "pull", "delta")
            )
        )


def all_sums(
    requests: list[PassRequest],
    functions: KernelExpansion,
    source: Source,
    basis: Basis,
) -> list[Sums]:
    """Return the sums over all rows for each request; one pass.

    Column t of `functions` belongs to ``requests[t]``.
    """
    ready = functions.ready()

    def score(rows: Rows) -> list[Sums]:
        values = ready(rows)
        return [
            _sums(request, rows, values[:, t], basis)
            for t, request in enumerate(requests)
        ]

    def merge(left: list[Sums], right: list[Sums]) -> list[Sums]:
        return [a + b for a, b in zip(left, right, strict=True)]

    return source.reduce(score, merge)


def _sums(request: PassRequest, rows: Rows, values: Array, basis: Basis) -> Sums:
    first, *others = [
        _sums_on_side(request, rows, values, basis, side)
        for side in request.problem.sides
    ]
    return sum(others, first)


def _sums_on_side(
    request: PassRequest, rows: Rows, values: Array, basis: Basis, side: int
) -> Sums:
    problem = request.problem
    terms = problem.terms(rows, basis.kernel, side)
    violation = terms.target - terms.sign * values - request.offset
    absent = full((), -np.inf, violation)
    violation = namespace(violation).where(terms.omega > 0, violation, absent)
    inside = places(violation > 0)
    few, own = Rows(rows.values[inside], rows.index[inside]), terms[inside]
    beta = own.omega * violation[inside]
    projected = _projected(request, few, own, beta, basis)
    missed = beta * projected.delta
    worst = largest(missed, MOST_MISSING)
    lost = float(beta @ violation[inside])
    kept = problem.entries(few.index, side), beta * own.sign, projected.delta
    return Sums(
        loss=lost / 2,
        ridge=lost,
        total=float(beta @ own.target),
        mass=float(beta.sum()),
        signed=float(beta @ own.sign),
        missed=float(missed.sum()),
        pulled=to_numpy(projected.pulled),
        work=rows.index[violation > -request.band],  # on the device of the rows
        missing=to_numpy(few.index[worst]),
        missing_size=to_numpy(missed[worst]),
        n_inside=len(inside),
        kept=(Pulls(*map(to_numpy, kept)),) if request.keep else (),
        gram=to_numpy(projected.gram) if request.newton else 0.0,
        pull=to_numpy(projected.pull) if request.newton else 0.0,
    )


@dataclass(frozen=True)
class _Projected:
    """Violated rows seen from the span: ``P u``, the distances, a Newton step."""

    pulled: Array
    delta: Array
    gram: Any
    pull: Any


def _projected(
    request: PassRequest, rows: Rows, terms: Terms, beta: Array, basis: Basis
) -> _Projected:
    """Return the projection of some violated rows, a part of them at a time."""
    pulled, deltas = full(len(basis), 0.0, beta), [beta[:0]]
    gram: Any = 0.0
    pull: Any = 0.0
    for part in parts_of(rows.index, len(basis)):
        some = Rows(rows.values[part], rows.index[part])
        phi, delta = features_and_distances(some, basis)
        deltas.append(delta)
        pulled += (beta * terms.sign)[part] @ phi
        if request.newton:
            design = _design(request.problem, phi, terms.sign[part])
            weighted = design * terms.omega[part][:, None]
            gram = gram + weighted.T @ design
            pull = pull + terms.target[part] @ weighted
    return _Projected(pulled, joined(deltas), gram, pull)


def _design(problem: Problem, phi: Array, sign: Array) -> Array:
    """Return ``y (phi, 1)`` and 1 for the offset, as far as the problem has them."""
    columns = [phi * sign[:, None]]
    if problem.has_bias:
        columns.append(sign[:, None])
    if problem.has_offset:
        columns.append(full((len(phi), 1), 1.0, phi))
    return joined(columns, axis=1)


def dual_of(problem: Problem, sums: Sums, basis: Basis) -> float:
    """Return the dual value of the violations, |u|^2 replaced by its bound."""
    curve = float(sums.pulled @ sums.pulled) + sums.missed**2 + sums.ridge
    if problem.has_bias:
        curve += sums.signed**2
    curve += basis.rounding * sums.mass**2
    return problem.dual_at_best_scale(sums.total, curve, sums.mass)


def projection_dual(
    problem: Problem,
    function: KernelExpansion,
    offset: float,
    source: Source,
    basis: Basis,
) -> float:
    """Return the dual value that the violations of `function` prove, in one pass."""
    sums = all_sums([PassRequest(problem, offset)], function, source, basis)
    return dual_of(problem, sums[0], basis)


def dual_of_entries(
    problem: Problem, source: Source, kernel: AnyKernel, entries: Array, b: Array
) -> float:
    """Return the exact dual value of multipliers `b` of `entries`.

    Part by part of the symmetric matrix: memory does not grow with their number.
    """
    if len(entries) == 0 or b.sum() <= 0:
        return problem.least
    rows, side = problem.rows_of(entries), problem.side_of(entries)
    source = source.near(rows)

    def own(part: slice) -> Terms:
        return problem.terms(source.take(rows[part]), kernel, side[part])

    terms = Terms.join(list(source.workers.run(own, parts_of(rows))))
    if not (terms.omega > 0).all():
        return problem.least
    signed = b * terms.sign
    curve, rounding = Combination(source, rows, signed).norm_sq(kernel)
    curve += signed.sum() ** 2 if problem.has_bias else 0.0
    curve += 0.0 if problem.is_hard else float(b @ (b / terms.omega))
    curve += rounding
    slope = float(terms.target @ b)
    return problem.dual_at_best_scale(slope, curve, float(b.sum()))


@dataclass(frozen=True)
class Candidate:
    """Functions to be certified, one column per problem, with their offsets.

    `norms_sq` are their ``|w|^2`` where they are not functions of the basis alone.
    """

    functions: KernelExpansion
    offsets: list[float]
    norms_sq: Array | None = None

    def regularisers(self, problems: list[Problem], basis: Basis) -> list[float]:
        """Return the objective of each problem without its loss."""
        norms_sq = self.norms_sq
        if norms_sq is None:
            norms_sq = ((basis.factor.T @ self.functions.coef) ** 2).sum(axis=0)
        found = []
        for t, problem in enumerate(problems):
            bias = float(self.functions.intercept[t]) * problem.has_bias
            norm = (float(norms_sq[t]) + bias**2) / 2
            found.append(norm + problem.price * self.offsets[t])
        return found


def prove(
    problems: list[Problem],
    candidate: Candidate,
    source: Source,
    basis: Basis,
    request: BoundRequest,
) -> tuple[list[DualBound], list[float]]:
    """Return what the violations of each problem's function prove, and its loss.

    "auto" takes the projection bound where that reaches ``request.tol``, else the exact
    one up to ``request.affordable`` kernel values.
    """
    keep = request.how != "projection" and _entries_fit(problems, source)
    requests = [
        PassRequest(problem, offset, keep=keep)
        for problem, offset in zip(problems, candidate.offsets, strict=True)
    ]
    sums = all_sums(requests, candidate.functions, source, basis)
    regularisers = candidate.regularisers(problems, basis)
    proofs = []
    for t, problem in enumerate(problems):
        best = DualBound(dual_of(problem, sums[t], basis), "projection")
        case = _Violations(problem, sums[t], source, basis)
        primal = regularisers[t] + sums[t].loss
        is_loose = relative_gap(primal, best.value) > request.tol
        if keep and (request.how == "exact" or is_loose):
            bounds = [best, *case.tighter(primal, request)]
            best = max(bounds, key=lambda one: one.value)
        proofs.append(best)
    return proofs, [one.loss for one in sums]


def _entries_fit(problems: list[Problem], source: Source) -> bool:
    """Whether all violated entries, 24 bytes each, fit the memory budget."""
    most = 24 * source.n_rows * sum(len(problem.sides) for problem in problems)
    fits = most <= max(source.memory_budget / 2, MIN_ENTRY_BYTES)
    return fits and source.holds(source.n_rows)


@dataclass(frozen=True)
class _Violations:
    """The violated entries of one problem, for the bounds that need all of them."""

    problem: Problem
    sums: Sums
    source: Source
    basis: Basis

    def tighter(self, primal: float, request: BoundRequest) -> list[DualBound]:
        """Return the bounds that are asked for beside the projection bound."""
        if request.how == "sample":
            return self._sampled(primal, request)
        few = self.sums.n_inside**2 / 2 <= request.affordable
        return [self._exact()] if request.how == "exact" or few else []

    def _exact(self) -> DualBound:
        pulls, kernel = self.sums.pulls(), self.basis.kernel
        given = pulls.entries, np.abs(pulls.pull)
        return DualBound(
            dual_of_entries(self.problem, self.source, kernel, *given), "exact"
        )

    def _sampled(self, primal: float, request: BoundRequest) -> list[DualBound]:
        """Return bounds by samples; a larger one where the first misses the tolerance.

        Each try is a draw of its own and may fail with half of the allowed probability.
        """
        pulls, rng = self.sums.pulls(), request.rng or np.random.default_rng(0)
        u = Combination(self.source, self.problem.rows_of(pulls.entries), pulls.pull)
        projection = Projection(self.sums.pulled, pulls.delta)
        residuals = u.sampled_residuals(projection, self.basis, SAMPLE_SIZES, rng)
        found = [DualBound(self.problem.least, "sample", CONFIDENCE)]
        for left in residuals:
            less = replace(self.sums, missed=left.norm)
            dual = dual_of(self.problem, less, self.basis)
            found.append(DualBound(dual, "sample", CONFIDENCE))
            if relative_gap(primal, max(one.value for one in found)) <= request.tol:
                break
        return found
