"""Solve problems with hinge loss and a free bias over all of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.enumerations import StopReason
from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Kernel, Rows
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.problems.box import BoxProblem, Measured
from corevec.solvers.hinge.decomposition import Decomposition, State
from corevec.solvers.hinge.kernel_rows import KernelRows
from corevec.solvers.hinge.result import GAP, BoxSolution, HingeSettings

# Rows of a pass that a thread takes at a time.
PASS_ROWS = 2048
WORKING_SET = 1024
# Share of the memory budget for rows of the kernel matrix.
CACHE_SHARE = 0.5
# A round that leaves more than this share of the gap has met the limit of float32.
STALLED = 0.5
MOST_PASSES = 30


def solve_boxes(
    problems: list[BoxProblem],
    source: Source,
    kernel: AnyKernel,
    settings: HingeSettings,
    progress: Progress,
    starts: list[Array | None] | None = None,
) -> list[BoxSolution]:
    """Return the solution of each problem, with its certificate.

    Parameters
    ----------
    problems : list of BoxProblem
        Problems over rows of `source`.
    source : Source
        The rows, inside its `Workers` context.
    kernel : kernel
        One kernel for all problems.
    settings : HingeSettings
        The stopping criterion.
    progress : Progress
        Clock and limits. What a limit ends is feasible, and certified as it is.
    starts : list of (ndarray or None), optional
        Multipliers b_e to start from, of each problem; made feasible first.

    Returns
    -------
    list of BoxSolution
        In the order of the problems.
    """
    given = starts or [None] * len(problems)
    return [
        _Run(problem, source, kernel, settings, progress).solve(start)
        for problem, start in zip(problems, given, strict=True)
    ]


@dataclass(frozen=True)
class _Seen:
    """Exact values at all entries, and what they prove."""

    values: Array
    measured: Measured
    bounds: tuple[float, float]
    rounding: float
    violation: float

    @property
    def gap(self) -> float:
        return relative_gap(*self.bounds)


class _Run:
    """The solution of one problem."""

    def __init__(
        self,
        problem: BoxProblem,
        source: Source,
        kernel: AnyKernel,
        settings: HingeSettings,
        progress: Progress,
    ):
        self.problem, self.source, self.kernel = problem, source, kernel
        self.settings, self.progress = settings, progress
        self.numbers, self.place = np.unique(problem.rows, return_inverse=True)
        self.steps, self.least_curvature = 0, float("inf")

    def solve(self, start: Array | None) -> BoxSolution:
        """Return the solution."""
        problem = self.problem
        signed = np.zeros(len(problem.rows)) if start is None else problem.sign * start
        signed = problem.feasible(signed)
        dtype: Any = self._first_precision()
        seen = self._seen(signed)
        stopped_by: str = StopReason.STALL
        for _ in range(MOST_PASSES):
            if self._is_met(seen):
                break
            spent = self._spent()
            if spent is not None:
                stopped_by = spent
                break
            last = seen
            signed = self._improve(signed, seen.values, dtype)
            signed = problem.feasible(signed)
            seen = self._seen(signed)
            self._record(signed, seen)
            if self._excess(seen) > STALLED * self._excess(last):
                if dtype == np.float64:
                    break
                dtype = np.float64
        return self._solution(signed, seen, stopped_by)

    def _first_precision(self) -> Any:
        return np.float32 if isinstance(self.kernel, Kernel) else np.float64

    def _excess(self, seen: _Seen) -> float:
        return seen.gap if self.settings.rule == GAP else seen.violation

    def _is_met(self, seen: _Seen) -> bool:
        return self._excess(seen) <= self.settings.tol

    def _spent(self) -> StopReason | None:
        most = self.settings.max_steps
        if most is not None and self.steps >= most:
            return StopReason.MAX_ITER
        return self.progress.spent()

    def _improve(self, signed: Array, values: Array, dtype: Any) -> Array:
        """Return better multipliers; the values are those of the given ones."""
        problem, source = self.problem, self.source
        present = np.flatnonzero(problem.upper > 0)
        numbers, place = np.unique(problem.rows[present], return_inverse=True)
        own = np.empty(len(numbers))
        own[place] = values[present]
        state = State(
            signed=signed[present],
            low=problem.lower[present],
            high=problem.higher[present],
            target=problem.target[present],
            place=place,
            group=problem.group[present],
            n_groups=len(problem.totals),
            values=own,
        )
        taken = source.take(numbers)
        rows = KernelRows(
            Rows(taken.values, taken.index),
            self.kernel,
            dtype,
            source.workers,
            CACHE_SHARE * source.memory_budget,
            at_least=2 * WORKING_SET,
        )
        work = Decomposition(state, rows, WORKING_SET)
        most = self.settings.max_steps or 2**62
        best = float("inf")
        for k in range(100_000):
            steps = state.steps
            violation = work.round(
                self.settings.tol / 4, most - self.steps - state.steps
            )
            done = state.steps == steps or self._spent() is not None
            if k % 8 == 7 and self.settings.rule == GAP:
                full = signed.copy()
                full[present] = state.signed
                at = np.zeros(len(signed))
                at[present] = state.values[place]
                m = problem.measure(full, at)
                done |= relative_gap(m.primal, m.dual) <= self.settings.tol / 4
            best = min(best, violation)
            if done:
                break
        self.steps += state.steps
        self.least_curvature = min(self.least_curvature, state.least_curvature)
        signed = signed.copy()
        signed[present] = state.signed
        return signed

    def _seen(self, signed: Array) -> _Seen:
        """Return the values at all entries in float64, with their bounds."""
        problem = self.problem
        coef = np.bincount(self.place, weights=signed, minlength=len(self.numbers))
        used = np.flatnonzero(coef)
        if len(used) == 0:
            values, error = np.zeros(len(signed)), 0.0
        else:
            taken = self.source.take(self.numbers[used])
            basis = Rows(taken.values, taken.index)
            functions = KernelExpansion(
                self.kernel, basis, coef[used][:, None], np.zeros(1)
            )
            ready = functions.ready()
            parts = self.source.map_rows(ready, self.numbers, PASS_ROWS)
            values = np.concatenate(parts)[:, 0][self.place]
            error = float(functions.value_errors()[0])
            self.progress.rows_looked_at += len(self.numbers)
        measured = problem.measure(signed, values)
        mass = float(np.abs(signed).sum())
        near = float(problem.upper[measured.slack > -error].sum())
        upper = measured.primal + error * (mass / 2 + near)
        return _Seen(
            values,
            measured,
            (upper, measured.dual - error * mass / 2),
            relative_gap(upper + error * mass / 2, measured.primal),
            problem.violation(signed, values),
        )

    def _record(self, signed: Array, seen: _Seen) -> None:
        support = int(np.count_nonzero(signed))
        self.progress.record(
            core=support,
            support=support,
            gap=seen.gap,
            dual=seen.measured.dual,
            looked_at=len(self.numbers),
            exact=True,
        )

    def _solution(self, signed: Array, seen: _Seen, stopped_by: str) -> BoxSolution:
        settings, problem = self.settings, self.problem
        is_met = self._is_met(seen) and self.least_curvature >= 0
        rule = StopReason.TOL if is_met else stopped_by
        certificate = Certificate.of(
            problem.name,
            seen.bounds,
            self.progress,
            tol=settings.tol if settings.rule == GAP else float("nan"),
            stopped_by=rule,
            converged=is_met,
            rounding=seen.rounding,
            largest_violation=seen.violation,
        )
        return BoxSolution(
            problem=problem,
            multipliers=np.abs(signed),
            bias=seen.measured.bias,
            width=seen.measured.width,
            values=seen.values,
            norm_sq=seen.measured.norm_sq,
            violation=seen.violation,
            n_iter=self.steps,
            certificate=certificate,
        )
