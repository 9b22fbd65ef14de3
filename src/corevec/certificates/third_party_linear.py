"""The certificate of a linear machine without dual variables.

The problems are those of ``third_party.py`` with a penalised bias or none. A bias that
is penalised as ``(b/sigma)^2`` is the weight b/sigma of one more column, constant
sigma.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import minimize

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.certificates.third_party import ROUNDING, Machine, Rule
from corevec.kernels import Kernel, Rows
from corevec.models.certificate import Certificate, relative_gap

# Where a linear model stores no dual variables, those of entries this near to the
# margin are recomputed: LIBLINEAR leaves the free ones within its tol (1e-4) of it, or
# far off where it ran out of steps. The next zone is tried while the gap is above tol.
MARGIN_ZONES = (0.01, 0.1, 1.0, 10.0)
# Steps times entries times columns that one zone may take: some seconds.
MAX_ZONE_WORK = 1e9


def judge_linear(
    machine: Machine, X: Any, coef: Array, intercept: float, rule: Rule
) -> Certificate:
    """Return the certificate of a linear model that stores no dual variables.

    They are computed from the violations: ``beta_e = c_e max(0, p_e - s_e f_e)`` for a
    squared loss, which misses the optimum by half the squared gradient; for the hinge
    ``c_e`` where an entry is inside the margin, and the best ones for the entries
    nearest to it. `tol` applies to the relative gap.

    Parameters
    ----------
    machine : Machine
        The problem, with a penalised bias or none.
    X : ndarray or CSR matrix of shape (n_rows, n_features)
        All rows.
    coef, intercept : ndarray of shape (n_features,), float
        The model.
    rule : Rule
        The relative gap asked for.
    """
    progress = Progress(X.shape[0])
    values = np.asarray(X @ coef).ravel() + intercept
    scale = machine.bias_scale
    weights = np.append(coef, intercept / scale if scale > 0 else 0.0)
    primal = machine.primal(values, float(coef @ coef), intercept)
    dual, pulled = -np.inf, weights
    for beta in _duals_from_violations(machine, X, weights, machine.inside(values)):
        u = _pull(machine, X, beta)
        # Rounded up: each of the n terms of the sum carries an error of a few eps |x|.
        length = np.linalg.norm(u[:-1]) + ROUNDING * beta.sum() * _largest_norm(X)
        if (value := machine.dual(beta, float(length) ** 2)) > dual:
            dual, pulled = value, u
        if relative_gap(primal, dual) <= rule.tol:
            break
    return Certificate.of(
        machine.name,
        (primal, dual),
        progress,
        passes=1.0,
        tol=rule.tol,
        stopped_by=rule.stopped_by,
        largest_violation=float(np.abs(weights - pulled).max()),
    )


def _largest_norm(X: Any) -> float:
    """Return the largest norm of a row."""
    squares = Kernel("linear").diagonal(Rows(X, np.arange(X.shape[0])))
    return float(np.sqrt(squares.max(initial=0.0)))


def _pull(machine: Machine, X: Any, beta: Array) -> Array:
    """Return ``sum_e s_e beta_e [x_e, sigma]``: the weights that `beta` stands for."""
    signed = np.bincount(machine.row, machine.sign * beta, minlength=X.shape[0])
    pulled = np.asarray(X.T @ signed).ravel()
    return np.append(pulled, machine.bias_scale * signed.sum())


def _duals_from_violations(
    machine: Machine, X: Any, weights: Array, inside: Array
) -> Iterator[Array]:
    """Yield feasible dual variables, with more effort each time."""
    if machine.squared:
        yield machine.cap * np.maximum(inside, 0.0)
        return
    order = np.argsort(np.where(machine.cap > 0, np.abs(inside), np.inf))
    order = order[: int(np.count_nonzero(machine.cap))]
    n_before = 0
    for zone in MARGIN_ZONES:
        n_near = int(np.count_nonzero(np.abs(inside[order]) < zone))
        n_near = min(max(n_near, 2 * len(weights)), len(order))
        if n_near > n_before:
            yield _settle(machine, X, weights, inside, order[:n_near])
        n_before = n_near


def _settle(
    machine: Machine, X: Any, weights: Array, inside: Array, near: Array
) -> Array:
    """Return 0 or c off the margin, and the best dual variables of the entries `near`.

    With the others fixed, D is ``q'b - |A'b|^2/2`` of these, 0 <= b <= c, with A their
    signed rows and q_e what the fixed ones leave: by L-BFGS-B, in units of c.
    """
    beta = machine.cap * (inside > 0)
    beta[near] = 0.0
    rows, sign, scale = X[machine.row[near]], machine.sign[near], machine.bias_scale
    cap = machine.cap[near]

    def times(v: Array) -> Array:  # A v
        return np.asarray(sign * (np.asarray(rows @ v[:-1]).ravel() + scale * v[-1]))

    def pulled(b: Array) -> Array:  # A'b
        return np.append(np.asarray(rows.T @ (sign * b)).ravel(), scale * (sign @ b))

    q = times(weights - _pull(machine, X, beta)) + inside[near]

    def value(share: Array) -> tuple[float, Array]:
        u = pulled(cap * share)
        return float(u @ u / 2 - q @ (cap * share)), cap * (times(u) - q)

    steps = int(np.clip(MAX_ZONE_WORK / (len(near) * len(weights)), 50, 1000))
    found = minimize(
        value,
        np.where(inside[near] > 0, 1.0, 0.0),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * len(near),
        options={"ftol": 1e-15, "gtol": 1e-12, "maxiter": steps, "maxcor": 30},
    )
    beta[near] = cap * np.clip(found.x, 0.0, 1.0)
    return beta
