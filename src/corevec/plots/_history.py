"""The rounds of a fit as curves over time and passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.models.certificate import Certificate


@dataclass(frozen=True)
class Curves:
    """One value per round; nan where the solver did not compute it.

    Attributes
    ----------
    round, seconds, passes, core : ndarray
        Number of the round, time and passes since the start of the fit, vectors.
    gap : ndarray
        Relative duality gap of the full problem, or the worst of several problems. In
        rounds that scanned a subset of the rows (``exact`` is False), the gap on it.
    span_gap : ndarray
        Relative gap of the problem in the span of the basis, if there is one: a small
        value means that the weights are solved, not that the basis is large enough.
    upper, lower : ndarray
        Bounds of the optimum, summed over the problems: primal and dual value.
    exact : ndarray of bool
        Whether the round scanned all rows.
    """

    round: Array
    seconds: Array
    passes: Array
    core: Array
    gap: Array
    span_gap: Array
    upper: Array
    lower: Array
    exact: Array

    def __len__(self) -> int:
        return len(self.round)


def curves_of(model: Any) -> Curves:
    """Return the curves of a fitted model; empty if it has no history."""
    history = list(getattr(model, "history_", ()))
    certificate = getattr(model, "certificate_", None)

    def column(name: str) -> Array:
        found = [record.get(name, np.nan) for record in history]
        return np.asarray(found, dtype=np.float64)

    gap, lower = column("gap"), column("dual")
    one_problem = certificate is None or not certificate.parts
    return Curves(
        round=column("round"),
        seconds=column("seconds"),
        passes=column("passes"),
        core=column("core"),
        gap=gap,
        span_gap=column("promise"),
        upper=_upper(column("primal"), gap, lower, one_problem),
        lower=lower,
        exact=np.asarray([bool(r.get("exact", True)) for r in history], dtype=bool),
    )


def _upper(primal: Array, gap: Array, lower: Array, one_problem: bool) -> Array:
    """Return the primal value where it is known or follows from the gap and the dual.

    For one problem with 0 < D <= P, gap = (P - D) / P gives P = D / (1 - gap). For
    several problems, the worst gap does not determine the sum.
    """
    if not one_problem:
        return primal
    follows = np.isnan(primal) & (lower > 0) & (gap < 1)
    return np.where(follows, lower / np.where(follows, 1 - gap, 1.0), primal)


def bounds_of(certificate: Certificate) -> tuple[float, float]:
    """Return the dual and primal value, summed over several problems.

    The rounds of a fit record the same sum.
    """
    parts = certificate.parts or (certificate,)
    lower = sum(part.dual for part in parts)
    upper = sum(part.primal for part in parts)
    return float(lower), float(upper)
