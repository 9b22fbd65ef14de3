"""Certify given functions on given rows: the gap without having fitted anything."""

from __future__ import annotations

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.certificates.exact import dual_of_entries
from corevec.certificates.projection import projection_dual
from corevec.certificates.scan import Question, look
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
    norm_sq = _norm_sq(problem, function)
    nothing = np.empty(0, dtype=np.int64)
    most = rows_to_take(source, EXACT_ROWS)
    question = Question(problem, nothing, ((1.0, offset),), n_worst=most)
    seen = look(source, function, [question])[0]
    inside = seen.violation > 0
    entries, violation = seen.worst[inside], seen.violation[inside]
    if problem.is_hard:
        primal = norm_sq / 2 + offset + seen.largest
    else:
        primal = norm_sq / 2 + float(seen.loss[0])
        primal += problem.price * offset
    primal += problem.loss_error(primal, float(function.value_errors()[0]))
    duals = [(problem.least, "exact")]
    if multipliers is not None:
        duals.append(
            (dual_of_entries(problem, source, function.kernel, *multipliers), "exact")
        )
    if problem.is_hard:
        duals.append((_pair_bound(problem, function, source, seen.worst[:1]), "exact"))
    elif seen.n_violated <= most:
        rows = source.take(problem.rows_of(entries))
        beta = problem.terms(rows, function.kernel).omega * violation
        value = dual_of_entries(problem, source, function.kernel, entries, beta)
        duals.append((value, "exact"))
    else:
        found = _projection_bound(problem, function, offset, source)
        duals.append((found, "projection"))
    dual, kind = max(duals)
    return Certificate.of(
        problem.name,
        (primal, dual),
        progress,
        unit=problem.unit,
        tol=tol,
        dual_bound=kind,
        passes=1.0,
    )


def _norm_sq(problem: Problem, function: KernelExpansion) -> float:
    """Return ``|w|^2 + b0^2``, with its rounding error added."""
    basis, coef = function.prepared(), function.coef[:, 0]
    values = function.kernel.times(basis, basis, function.coef)[:, 0]
    bias = float(function.intercept[0]) if problem.has_bias else 0.0
    rounding = float(function.value_errors()[0]) * float(np.abs(coef).sum())
    return max(float(coef @ values), 0.0) + bias**2 + rounding


def _pair_bound(
    problem: Problem, function: KernelExpansion, source: Source, row: Array
) -> float:
    """Return a dual value of the hard ball: half a far row, half its farthest row."""
    one = source.take(row)
    near = KernelExpansion(function.kernel, one, np.ones((1, 1)), np.zeros(1))
    nothing = np.empty(0, dtype=np.int64)
    other = look(source, near, [Question(problem, nothing)])[0].worst[:1]
    pair = np.unique(np.concatenate([row, other]))
    even = np.full(len(pair), 1.0 / len(pair))
    return dual_of_entries(problem, source, function.kernel, pair, even)


def _projection_bound(
    problem: Problem, function: KernelExpansion, offset: float, source: Source
) -> float:
    """Return the dual value of the violations by the bound of ``projection.py``."""
    basis = basis_from(function.basis, function.kernel)
    if basis is None:
        return problem.least
    return projection_dual(problem, function, offset, source, basis)
