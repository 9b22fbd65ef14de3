"""What a solver in a span hands back: functions and certificates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.models.basis import Basis
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Problem


class Solved(Protocol):
    """One problem solved in a span: weights v, and values over all rows."""

    problem: Problem
    v: Array
    primal: float
    dual: float

    @property
    def dual_bound(self) -> str:
        """How the dual value was found, in the words of a certificate."""


def expansion(fits: Sequence[Solved], basis: Basis) -> KernelExpansion:
    """Return the functions as coefficients of the basis rows."""
    has_bias = [fit.problem.has_bias for fit in fits]
    return basis.functions([fit.v for fit in fits], has_bias)


def certificates(
    fits: Sequence[Solved],
    functions: KernelExpansion,
    tol: float,
    progress: Progress,
    stopped_by: str,
) -> list[Certificate]:
    """Return one certificate per problem; their values are those of all rows."""
    found = []
    norms, width = functions.norms_sq(), len(functions.basis)
    for fit, error, norm in zip(fits, functions.value_errors(), norms, strict=True):
        # Coordinates in the span and coefficients of the basis agree but for rounding,
        # which grows with the condition of the basis.
        lost = max(float(norm - fit.v[:width] @ fit.v[:width]), 0.0) / 2
        primal = fit.primal + lost + fit.problem.loss_error(fit.primal, float(error))
        certificate = Certificate.of(
            fit.problem.name,
            (primal, fit.dual),
            progress,
            unit=fit.problem.unit,
            kind=fit.problem.kind,
            tol=tol,
            stopped_by=stopped_by,
            dual_bound=fit.dual_bound,
            rounding=relative_gap(primal, fit.primal),
        )
        found.append(certificate)
    return found
