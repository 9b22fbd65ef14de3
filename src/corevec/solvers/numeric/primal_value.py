"""The primal objective and the multipliers of weights, from the rows' violations.

With weights w (the bias included) and offset t, an entry e of a row has the violation
``r_e = p_e - y_e f(x_e) - t``, the multiplier ``beta_e = omega_e max(0, r_e)``, and

    primal = |w|^2/2 + price t + 1/2 sum_e beta_e max(0, r_e).
"""

from __future__ import annotations

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import full, namespace
from corevec.kernels import AnyKernel, Rows
from corevec.problems.family import Problem, Terms


def primal_value(problem: Problem, v: Array, loss: float) -> float:
    """Return ``|w|^2/2 + price t + loss`` at the variables ``v = (w, t)``."""
    w, offset = v, 0.0
    if problem.has_offset:
        w, offset = v[:-1], float(v[-1])
    return float(w @ w) / 2 + problem.price * offset + loss


def multipliers(
    terms: Terms, violation: Array, stands_for: float = 1.0
) -> tuple[Array, float]:
    """Return beta of all entries, and their loss ``1/2 sum beta max(0, r)``.

    Each row stands for `stands_for` rows.
    """
    excess = violation.clip(min=0.0)
    omega = terms.omega if stands_for == 1.0 else stands_for * terms.omega
    beta = omega * excess
    return beta, float(beta @ excess) / 2


def row_pulls(problem: Problem, terms: Terms, beta: Array) -> Array:
    """Return ``sum y beta`` over the entries of each row."""
    by_side = (terms.sign * beta).reshape(len(problem.sides), -1)
    return by_side.sum(0)


def worst_violation(
    problem: Problem, offset: float, rows: Rows, values: Array, kernel: AnyKernel
) -> Array:
    """Return the largest violation over each row's sides, -inf for rows of weight 0."""
    xp = namespace(values)
    worst = full(len(rows), -np.inf, values)
    for side in problem.sides:
        terms = problem.terms(rows, kernel, side)
        violation = terms.target - terms.sign * values - offset
        worst = xp.where(terms.omega > 0, xp.maximum(worst, violation), worst)
    return worst
