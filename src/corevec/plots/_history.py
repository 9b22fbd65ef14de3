"""The rounds of a fit as curves: what was known, when, and after how many passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.models.certificate import Certificate


@dataclass(frozen=True)
class Curves:
    """One value per round; nan where the solver did not know it then.

    Attributes
    ----------
    round, seconds, passes, core : ndarray
        Number of the round, time and passes since the fit began, vectors.
    gap : ndarray
        Relative duality gap of the full problem, the worst of several. Rounds that
        looked at a part of the rows only (``exact`` False) know the gap there.
    span_gap : ndarray
        Relative gap of the problem within the span of the basis, where one is used: it
        says that the weights are solved, not that the basis is rich enough.
    upper, lower : ndarray
        Bounds of the optimum, summed over the problems: primal and dual value.
    exact : ndarray of bool
        Whether the round looked at all rows.
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
    """Return the curves of a fitted model; empty for one that keeps no history."""
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
    """Return the primal value where it is known, or follows from gap and dual.

    Of one problem with 0 < D <= P, gap = (P - D) / P gives P = D / (1 - gap). Of
    several, the worst gap says nothing about the sum.
    """
    if not one_problem:
        return primal
    follows = np.isnan(primal) & (lower > 0) & (gap < 1)
    return np.where(follows, lower / np.where(follows, 1 - gap, 1.0), primal)


def bounds_of(certificate: Certificate) -> tuple[float, float]:
    """Return dual and primal value, summed over the problems where there are several.

    The sum is what the rounds of a fit record.
    """
    parts = certificate.parts or (certificate,)
    lower = sum(part.dual for part in parts)
    upper = sum(part.primal for part in parts)
    return float(lower), float(upper)
