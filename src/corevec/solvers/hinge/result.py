"""What the hinge solver is asked for, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Rows
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.problems.box import BoxProblem, numbered

GAP, VIOLATION = "gap", "violation"


@dataclass(frozen=True)
class HingeSettings:
    """When to stop.

    Attributes
    ----------
    tol : float
        The tolerance.
    rule : {"gap", "violation"}
        What `tol` bounds: the relative duality gap, or LIBSVM's largest violation of an
        optimality condition.
    max_steps : int or None
        Steps of a pair of multipliers at most, per problem.
    random_state : int or None
        Seed of the samples that a solution starts from.
    """

    tol: float = 1e-3
    rule: str = GAP
    max_steps: int | None = None
    random_state: int | None = None


@dataclass(frozen=True)
class BoxSolution:
    """Feasible multipliers of one problem, measured on all rows in float64.

    Attributes
    ----------
    multipliers : ndarray of shape (entries,)
        b_e, in the order of the problem's entries.
    bias : float
        The function is ``sum_e y_e b_e k(x_e, .) + bias``; minus LIBSVM's rho. The
        middle of the interval of optimal biases.
    width : float
        LIBSVM's r of the nu problems: the margin by which nu-SVC divides, minus the
        tube of nu-SVR. 0 for the others.
    values : ndarray of shape (entries,)
        ``f(x_e)`` of each entry, without the bias.
    norm_sq : float
        ``|w|^2``.
    violation : float
        LIBSVM's stopping quantity, measured with `values`.
    n_iter : int
        Steps of a pair of multipliers; a Newton step counts as one.
    certificate : Certificate
        Primal and dual value, gap, and what ended the search.
    """

    problem: BoxProblem = field(repr=False)
    multipliers: Array
    bias: float
    width: float
    values: Array
    norm_sq: float
    violation: float
    n_iter: int
    certificate: Certificate

    @property
    def primal(self) -> float:
        """The primal value."""
        return self.certificate.primal

    @property
    def dual(self) -> float:
        """The dual value."""
        return self.certificate.dual

    @property
    def gap(self) -> float:
        """The relative duality gap."""
        return self.certificate.relative_gap

    @property
    def stopped_by(self) -> str:
        """What ended the search."""
        return self.certificate.stopped_by

    def coefficients(self) -> tuple[Array, Array]:
        """Return the numbers of the rows with a coefficient, sorted, and these."""
        return coefficients_of(self.problem, self.problem.sign * self.multipliers)


def coefficients_of(problem: BoxProblem, signed: Array) -> tuple[Array, Array]:
    """Return the numbers of the rows with a coefficient, sorted, and these."""
    rows, place = numbered(problem.rows)
    coef = np.bincount(place, weights=signed, minlength=len(rows))
    used = coef != 0
    return rows[used], coef[used]


def joint_functions(
    parts: list[tuple[Array, Array]], biases: Array, source: Source, kernel: AnyKernel
) -> KernelExpansion:
    """Return the functions of several problems over the rows that any of them needs.

    `parts` holds the row numbers and coefficients of each problem.
    """
    used = np.unique(np.concatenate([rows for rows, _ in parts]))
    if len(used) == 0:  # the constant function is optimal
        used = source.numbers[:1]
    coef = np.zeros((len(used), len(parts)))
    for t, (rows, own) in enumerate(parts):
        coef[np.searchsorted(used, rows), t] = own
    basis = Rows(source.take(used).values, used)
    return KernelExpansion(kernel, basis, coef, biases)
