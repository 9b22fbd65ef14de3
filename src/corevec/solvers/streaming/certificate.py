r"""The certificate of the two-class machine at a function found in one pass.

A ball's centre has a direction and, only at the smallest ball, the right length. The
primal value is therefore taken at the best multiple t of the function,

.. math:: P = \min_{t \ge 0} \tfrac{t^2}2 (\|w\|^2 + b_0^2)
          + \tfrac12 \sum_i \omega_i \max(0, 1 - t\, y_i f_i)^2,

(of several classes, whose values are compared, at the function as it is: t = 1), and
the dual value at the violations there, :math:`\beta_i = \omega_i \max(0, 1 - t\,
y_i f_i)` (docs/mathematics.md, 2 Certificates).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.certificates.verify import verify
from corevec.data.sources import Source
from corevec.kernels import Rows
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Problem

# Added to the problem's name, as it is not the function itself that is certified.
_MULTIPLE = "; at the best multiple of f"


def gap_of(
    problem: Problem,
    function: KernelExpansion,
    norm_sq: float,
    source: Source,
    *,
    at_best: bool = True,
) -> Certificate:
    """Return the certificate of the best multiple of one function on all rows.

    `norm_sq` is ``|w|^2 + b0^2``. For the linear kernel both values are exact after one
    pass each, whatever the number of rows. Without `at_best` it is the certificate of
    the function itself: of several classes the largest value wins, so that multiples
    matter.
    """
    clock = Progress(source.n_rows)
    basis = function.prepared()

    def score(rows: Rows) -> Array:
        terms = problem.terms(rows, function.kernel)
        values = function.evaluate(rows, basis)[:, 0]
        return np.column_stack([terms.sign * values, terms.omega, terms.sign])

    margin, omega, sign = source.map(score).T
    scale = best_scale(margin, omega, norm_sq) if at_best else 1.0
    name = problem.name + (_MULTIPLE if at_best else "")
    if function.kernel.name != "linear" or function.kernel.normalized:
        scaled = replace(
            function,
            coef=scale * function.coef,
            intercept=scale * function.intercept,
        )
        found = verify(problem, scaled, 0.0, source)
        return replace(found, problem=name)
    excess = np.maximum(1.0 - scale * margin, 0.0)
    beta = omega * excess
    kernel = function.kernel
    largest = source.reduce(lambda rows: float(kernel.diagonal(rows).max()), max)
    relative = kernel.rounding(source.n_features, source.dtype)
    error = relative * scale * float(np.sqrt(norm_sq * (largest + problem.has_bias)))
    primal = (scale**2 * norm_sq + float(beta @ excess)) / 2 * (1 + relative)
    primal += problem.loss_error(primal, error)
    dual = _linear_dual(problem, source, beta, omega, sign, relative * largest)
    return Certificate.of(name, (primal, dual), clock, passes=2.0)


def best_scale(margin: Array, omega: Array, norm_sq: float) -> float:
    """Return the multiple t >= 0 of a function at which the objective is least.

    The derivative ``t |w|^2 - sum over t m < 1 of omega m (1 - t m)`` grows with t and
    is piecewise linear: Newton's method, kept inside a bracket, ends after a few steps.
    """
    if omega @ margin <= 0:
        return 0.0  # the derivative at 0 is not below 0
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(200):
        inside = t * margin < 1.0
        own = omega[inside] * margin[inside]
        curve = norm_sq + float(own @ margin[inside])
        pull = float(own.sum())
        if t * curve > pull:
            high = t
        else:
            low = t
        new = pull / curve if curve > 0 else 0.0
        if not low <= new <= high:
            new = (low + high) / 2 if np.isfinite(high) else 2 * t
        if abs(new - t) <= 1e-14 * abs(t):
            break
        t = max(new, 0.0)
    return float(t)


def _linear_dual(
    problem: Problem,
    source: Source,
    beta: Array,
    omega: Array,
    sign: Array,
    error: float,
) -> float:
    """Return the dual value of multipliers; u is a vector of columns, one pass.

    `error` is that of a product of two rows.
    """
    total = float(beta.sum())
    if total <= 0:
        return problem.least

    def score(rows: Rows) -> Array:
        signed = beta[rows.index] * sign[rows.index]
        return np.asarray(rows.values.T @ signed)

    u = source.reduce(score, np.add)
    curve = float(u @ u) + error * total**2
    if problem.has_bias:
        curve += float(beta @ sign) ** 2
    present = omega > 0
    curve += float((beta[present] ** 2 / omega[present]).sum())
    return problem.dual_at_best_scale(total, curve, total)
