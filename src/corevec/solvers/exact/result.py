"""What an exact solution hands back: functions, certificates, support."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult
from corevec.problems.family import Floor, Problem


@dataclass(frozen=True)
class Solution:
    """Functions of all problems, measured on all rows in float64.

    Attributes
    ----------
    functions : KernelExpansion
        The functions, over the rows that any of them needs.
    numbers, coef : ndarray
        Row numbers, and signed multipliers of shape (rows, problems).
    bounds : list of two floats
        Primal and dual value of each problem.
    norms_sq, offsets : ndarray
        ``|w|^2 + b0^2`` and the offset of each problem.
    stopped_by : str or None
        The limit that ended the search, if any.
    dropped : float
        The largest kernel value that was taken for 0.
    """

    functions: KernelExpansion
    numbers: Array
    coef: Array
    bounds: list[tuple[float, float]]
    norms_sq: Array
    offsets: Array
    stopped_by: str | None
    dropped: float = 0.0

    def result(
        self, problems: list[Problem], progress: Progress, tol: float
    ) -> FitResult:
        """Return the solution as every solver returns it."""
        pairs = support(problems, self.numbers, self.coef)
        return FitResult(
            functions=self.functions,
            certificates=self._certificates(problems, progress, tol),
            offsets=self.offsets,
            norms_sq=self.norms_sq,
            support=[entries for entries, _ in pairs],
            multipliers=[b for _, b in pairs],
            n_core=[len(entries) for entries, _ in pairs],
        )

    def radius_sq(self, t: int) -> float:
        """Return ``R^2 = |w|^2 + 2 t`` of a ball."""
        return float(self.norms_sq[t] + 2 * self.offsets[t])

    def _certificates(
        self, problems: list[Problem], progress: Progress, tol: float
    ) -> list[Certificate]:
        mass = np.abs(self.functions.coef).sum(axis=0)
        errors = self.functions.value_errors() + self.dropped * mass
        found = []
        for t, (problem, (primal, dual)) in enumerate(
            zip(problems, self.bounds, strict=True)
        ):
            added = float(mass[t] * errors[t])
            upper = primal + added + problem.loss_error(primal, float(errors[t]))
            radius = float("nan")
            if problem.floor is Floor.RADIUS:
                radius = float(np.sqrt(max(self.radius_sq(t), 0.0)))
            found.append(
                Certificate.of(
                    problem.name,
                    (upper, dual - added),
                    progress,
                    unit=problem.unit,
                    tol=tol,
                    kind=problem.kind,
                    radius=radius,
                    cancelled=problem.cancellation(
                        added, self.functions.largest_diagonal
                    ),
                    stopped_by=self.stopped_by or "stall",
                    rounding=relative_gap(upper + added, primal),
                )
            )
        return found


def support(
    problems: list[Problem], numbers: Array, coef: Array
) -> list[tuple[Array, Array]]:
    """Return the entries with a multiplier, and these, of each problem."""
    found = []
    for problem, b in zip(problems, coef.T, strict=True):
        rows, b = numbers[b != 0], b[b != 0]
        side = (b < 0).astype(np.int64) if len(problem.sides) == 2 else 0
        found.append((problem.entries(rows, side), np.abs(b)))
    return found
