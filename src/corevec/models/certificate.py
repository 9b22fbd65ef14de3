"""The certificate: how far a model is from the optimum of the user's problem."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from corevec._runtime.enumerations import ProblemKind, StopReason
from corevec._runtime.progress import Progress
from corevec.models.certificate_text import (
    certificate_card,
    is_of_cells,
    state_in_words,
)

# Values of up to so many bounds of their rounding error count as 0: a primal value
# holds the error of |w|^2 and that of the loss, a dual value one more.
ZERO_WITHIN = 4.0
# A rounding above this share of the terms hides more than the digits of a float64.
ROUNDING_SHARE = 1e-12


@dataclass(frozen=True)
class Certificate:
    """What was measured about a model, and on how many rows.

    Attributes
    ----------
    problem : str
        The problem that was certified, in words.
    primal, dual : float
        Values of the standard problem (docs/mathematics.md, Certificates): the optimum
        lies between them.
    relative_gap : float
        ``(primal - dual) / max(|primal|, |dual|)``: the objective of the model, at its
        best rescaling, exceeds the optimum by at most this share.
    dual_bound : {"exact", "projection", "sample", "none"}
        How the dual value was obtained. "none" where it would have cost too much: the
        value is then what the objective cannot go below, 0 or minus infinity.
    confidence : float
        1.0, or the probability with which the bound holds; 0.0 if only a sample of
        the rows was scanned, so that nothing is guaranteed about the others.
    ball_epsilon : float
        Every scanned row is within ``(1 + ball_epsilon)`` radii of the centre, the
        stopping criterion of the paper (nan where the model is not a ball).
    radius : float
        Radius of the core set's ball in the kernel's feature space (nan likewise).
    n_verified, n_rows : int
        Number of rows that the primal value was measured on, and of all rows.
    passes : float
        Rows scanned during the fit, divided by `n_rows`.
    seconds : float
        Elapsed time of the fit.
    converged : bool
        Whether the stopping criterion asked for was met, with the primal value taken
        over all rows.
    stopped_by : str
        "tol", "ball_epsilon", "max_vectors", "max_iter", "max_time", "interrupt",
        "stall", "sample" (the criterion was met on a sample of the rows only),
        "n_vectors" (the model has as many vectors as it was allowed, and their weights
        are solved: only more vectors would lower the gap), "memory_budget" (only as
        many rows as fit decided the weights), "one pass" (of `certify`: no tolerance
        stops a model of one pass), or "cells" (every cell was solved).
    tol : float
        The relative gap asked for (nan under the paper's rule).
    parts : tuple of Certificate
        One per problem where there are several; this one is then the worst.
    largest_violation : float or None
        The largest violation of an optimality condition by any row, where that was
        measured: the quantity that `tol` of LIBSVM bounds. For a linear model without
        dual variables, the largest entry of the (sub)gradient.
    rounding : float
        The part of `relative_gap` that allows for the rounding of kernel values and of
        their sums: what cannot be computed is not claimed.
    kind : {"machine", "ball", "cells"}
        What kind of problem was certified. "cells": the problem of each cell, and
        nothing about the problem over all rows; primal and dual are then sums over the
        cells, and the gap is that of the worst cell.
    advice : tuple of str
        What to change, with the number to set, where the fit did not converge: at most
        two changes, the cheapest first.
    """

    problem: str
    primal: float
    dual: float
    relative_gap: float
    dual_bound: str = "exact"
    confidence: float = 1.0
    ball_epsilon: float = float("nan")
    radius: float = float("nan")
    n_verified: int = 0
    n_rows: int = 0
    passes: float = 0.0
    seconds: float = 0.0
    converged: bool = False
    stopped_by: str = StopReason.TOL
    tol: float = float("nan")
    parts: tuple[Certificate, ...] = ()
    largest_violation: float | None = None
    rounding: float = 0.0
    kind: str = ProblemKind.MACHINE
    advice: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Plain strings outlive this version of the package, in pickles and in files.
        for name in ("stopped_by", "kind"):
            value = getattr(self, name)
            if isinstance(value, Enum):
                object.__setattr__(self, name, value.value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(with_kind(state))

    @classmethod
    def of(
        cls,
        problem: str,
        bounds: tuple[float, float],
        progress: Progress,
        *,
        unit: float = 1.0,
        cancelled: Cancellation | None = None,
        **measured: Any,
    ) -> Certificate:
        """Return the certificate of a function measured on all rows.

        Parameters
        ----------
        problem : str
            A description of the problem.
        bounds : tuple of two floats
            Primal and dual value in the solver's unit; `unit` converts them to the
            user's.
        progress : Progress
            Rows, passes and seconds of the fit.
        unit : float
            Factor from the unit of the solver to that of the user.
        cancelled : Cancellation, optional
            What both values are a difference of, in the solver's unit.
        **measured
            Further fields: `tol`, at or below which the fit has converged, and
            `stopped_by`, what ended it if not the tolerance. Where ``converged`` is
            among them, another criterion than the gap decided, and `stopped_by` is not
            changed.
        """
        primal, dual = bounds
        fields = {
            "relative_gap": relative_gap(primal, dual, cancelled),
            "n_verified": progress.n_rows,
            "n_rows": progress.n_rows,
            "passes": progress.passes,
            "seconds": progress.seconds,
            **measured,
        }
        if "converged" not in measured:
            is_met = fields["relative_gap"] <= measured.get("tol", float("nan"))
            fields["converged"] = bool(is_met)
            if is_met:
                fields["stopped_by"] = StopReason.TOL
        return cls(problem, unit * primal, unit * dual, **fields)

    def __str__(self) -> str:
        rows = f"{self.n_verified:,} of {self.n_rows:,} rows"
        whose, gap = "optimum lies", "relative gap"
        if is_of_cells(self):
            whose, gap = "optima's sum", "worst gap   "
        lines = [
            f"Certificate: {state_in_words(self)}",
            f"  problem       {self.problem}",
        ]
        if np.isfinite(self.primal):
            lines += [
                f"  {whose}  between {self.dual:.10g} and {self.primal:.10g}",
                f"  {gap}  {self.relative_gap:.3g}{self._asked()}, measured on {rows}",
                f"  dual bound    {self.dual_bound}, confidence {self.confidence:g}",
            ]
        else:
            lines.append(f"  no bound      only {rows} were looked at")
        if self.largest_violation is not None:
            lines.append(
                f"  violation     {self.largest_violation:.3g} at most, of an "
                "optimality condition"
            )
        if np.isfinite(self.radius):
            ball = f"  ball          radius {self.radius:.6g}"
            if np.isfinite(self.ball_epsilon):
                within = f"{1 + self.ball_epsilon:.6g} radii"
                ball += f", every row looked at within {within}"
            lines.append(ball)
        lines.append(
            f"  work          {self.passes:.2f} passes over the rows, "
            f"{self.seconds:.2f} s"
        )
        if self.parts:
            done = sum(part.converged for part in self.parts)
            lines.append(
                f"  parts         the worst of {len(self.parts)} problems, "
                f"{done} of them converged (see .parts)"
            )
        lines += [f"  what to do    {one}" for one in self.advice]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Return the text in lines of at most 80 columns: it fits a screen."""
        return "\n".join(_folded(line) for line in str(self).splitlines())

    def _repr_html_(self) -> str:
        """Return the certificate as HTML, for notebooks."""
        return certificate_card(self)

    def _asked(self) -> str:
        return f" ({self.tol:g} asked)" if np.isfinite(self.tol) else ""


def _folded(line: str) -> str:
    """Return a line of a certificate in lines of at most 80 columns."""
    return textwrap.fill(line, 80, subsequent_indent=" " * 16)


class Cancellation(NamedTuple):
    """What primal and dual value are a difference of: the terms and their rounding."""

    error: float
    terms: float


def relative_gap(
    primal: float, dual: float, cancelled: Cancellation | None = None
) -> float:
    """Return ``(primal - dual) / max(|primal|, |dual|)``, at least 0.

    Where both are within the rounding of the terms that they are a difference of (the
    ball of equal rows has radius 0) they cannot be told from 0, and the gap is relative
    to these terms; not where the rounding is a share of the terms that counts.
    """
    scale = max(abs(primal), abs(dual))
    if not np.isfinite(scale):
        return float("inf")
    if cancelled is not None and scale <= ZERO_WITHIN * cancelled.error:
        is_zero = cancelled.error <= ROUNDING_SHARE * cancelled.terms
        scale = max(scale, cancelled.terms if is_zero else 0.0)
    return max(0.0, (primal - dual) / scale) if scale > 0 else 0.0


def with_kind(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a stored certificate, with the kind if it has none.

    Files and pickles that are older than this field tell the kind in `problem` only.
    """
    if "kind" in fields:
        return dict(fields)
    problem = str(fields.get("problem", ""))
    of_cells = fields.get("stopped_by") == StopReason.CELLS
    kind = ProblemKind.BALL if "min R^2" in problem else ProblemKind.MACHINE
    if of_cells or "one per cell" in problem:
        kind = ProblemKind.CELLS
    return {**fields, "kind": kind.value}


def worst_of(parts: list[Certificate], problem: str) -> Certificate:
    """Return one certificate for several problems: that of the worst part."""
    if len(parts) == 1:
        return parts[0]
    not_done = [part for part in parts if not part.converged]
    worst = max(not_done or parts, key=lambda part: part.relative_gap)
    # A part that a budget ended is not hidden by one whose weights are solved.
    solved = StopReason.N_VECTORS
    cut = [part.stopped_by for part in not_done if part.stopped_by != solved]
    whole = worst.stopped_by != solved or not cut
    return replace(
        worst,
        stopped_by=worst.stopped_by if whole else cut[0],
        problem=f"{problem} of {worst.problem}",
        # Parts may differ in rows (the scales of a surface): the share counts.
        n_verified=min(
            (part for part in (worst, *parts)),
            key=lambda part: part.n_verified / max(part.n_rows, 1),
        ).n_verified,
        confidence=min(part.confidence for part in parts),
        converged=not not_done,
        parts=tuple(parts),
    )
