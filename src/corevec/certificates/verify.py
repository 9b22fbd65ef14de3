"""Certify given functions on given rows: the gap without having fitted anything."""

from __future__ import annotations

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.certificates.definite import with_bounds_that_hold
from corevec.certificates.scan import ScanRequest, ScanResult, scan
from corevec.certificates.squared_loss import dual_of_entries, projection_dual
from corevec.data.sources import Source
from corevec.data.sources.budget import rows_to_take
from corevec.models.basis import basis_from
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Problem

# Rows inside the margin up to which |u|^2 is summed exactly: 1e5 rows are 1e10 kernel
# values, some ten seconds on two cores.
EXACT_ROWS = 100_000


def verify(
    problem: Problem,
    function: KernelExpansion,
    offset: float,
    source: Source,
    multipliers: tuple[Array, Array] | None = None,
    tol: float = float("nan"),
) -> Certificate:
    """Return the certificate of one function for one problem on all rows of `source`.

    The primal value is one pass. The dual value is the best of two feasible points:
    the violations themselves, ``beta_i = omega_i max(0, p_i - y_i f_i)``, and the given
    `multipliers` (entries and values) where they belong to these rows.
    """
    progress = Progress(source.n_rows)
    nothing = np.empty(0, dtype=np.int64)
    most = rows_to_take(source, EXACT_ROWS)
    request = ScanRequest(problem, nothing, ((1.0, offset),), n_worst=most)
    seen = scan(source, function, [request])[0]
    duals = [(problem.least, "exact")]
    if multipliers is not None:
        value = dual_of_entries(problem, source, function.kernel, *multipliers)
        duals.append((value, "exact"))
    duals.append(_dual_of_violations(problem, function, offset, source, seen, most))
    dual, kind = max(duals)
    found = Certificate.of(
        problem.name,
        (_primal(problem, function, offset, seen), dual),
        progress,
        unit=problem.unit,
        cancelled=problem.cancellation(_rounding(function), function.largest_diagonal),
        kind=problem.kind,
        tol=tol,
        dual_bound=kind,
        passes=1.0,
    )
    return with_bounds_that_hold([found], [problem], source, function)[0]


def primal_of(
    problem: Problem, function: KernelExpansion, offset: float, source: Source
) -> float:
    """Return the objective of one function on all rows of `source`, after one pass."""
    request = ScanRequest(problem, np.empty(0, dtype=np.int64), ((1.0, offset),))
    return _primal(problem, function, offset, scan(source, function, [request])[0])


def _primal(
    problem: Problem, function: KernelExpansion, offset: float, seen: ScanResult
) -> float:
    """Return the objective of the function, with its rounding error added."""
    norm_sq = _norm_sq(problem, function)
    if problem.is_hard:
        primal = norm_sq / 2 + offset + seen.largest
    else:
        primal = norm_sq / 2 + float(seen.loss[0])
        primal += problem.price * offset
    return primal + problem.loss_error(primal, float(function.value_errors()[0]))


def _norm_sq(problem: Problem, function: KernelExpansion) -> float:
    """Return ``|w|^2 + b0^2``, with its rounding error added."""
    bias = float(function.intercept[0]) if problem.has_bias else 0.0
    return float(function.norms_sq()[0]) + bias**2


def _rounding(function: KernelExpansion) -> float:
    """Return a bound on the rounding error of ``|w|^2``."""
    return float(function.value_errors()[0]) * float(np.abs(function.coef).sum())


def _dual_of_violations(
    problem: Problem,
    function: KernelExpansion,
    offset: float,
    source: Source,
    seen: ScanResult,
    most: int,
) -> tuple[float, str]:
    """Return the dual value that the violations prove, and how it was obtained.

    Exact up to `most` violated entries, else by the projection on the span of the
    function's basis.
    """
    kernel = function.kernel
    if problem.is_hard:
        return _pair_bound(problem, function, source, seen.worst[:1]), "exact"
    if seen.n_violated <= most:
        inside = seen.violation > 0
        entries, violation = seen.worst[inside], seen.violation[inside]
        rows = source.take(problem.rows_of(entries))
        beta = problem.terms(rows, kernel).omega * violation
        return dual_of_entries(problem, source, kernel, entries, beta), "exact"
    basis = basis_from(function.basis, kernel)
    if basis is None:
        return problem.least, "projection"
    return projection_dual(problem, function, offset, source, basis), "projection"


def _pair_bound(
    problem: Problem, function: KernelExpansion, source: Source, row: Array
) -> float:
    """Return a dual value of the hard ball: half a far row, half its farthest row."""
    one = source.take(row)
    near = KernelExpansion(function.kernel, one, np.ones((1, 1)), np.zeros(1))
    nothing = np.empty(0, dtype=np.int64)
    other = scan(source, near, [ScanRequest(problem, nothing)])[0].worst[:1]
    pair = np.unique(np.concatenate([row, other]))
    even = np.full(len(pair), 1.0 / len(pair))
    return dual_of_entries(problem, source, function.kernel, pair, even)
