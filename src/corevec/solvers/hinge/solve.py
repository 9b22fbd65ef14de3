"""Solve problems with hinge loss and a free bias over all of their rows.

1. Solve growing samples loosely: their function says which rows will have a multiplier.
2. Solve the problem of these *active* entries and some more, block by block
   (`decomposition`), on rows of the kernel matrix that are computed once.
3. Evaluate the function on all rows in float64: primal, dual and gap over ALL rows.
4. Stop at the tolerance; else add the entries that violate, and go on with 2.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corevec._runtime.enumerations import StopReason
from corevec._runtime.progress import Progress
from corevec._runtime.types import EPS, Array
from corevec.backend.arrays import to_numpy
from corevec.certificates import (
    definite_on_rows,
    is_definite_by_name,
    without_lower_bound,
)
from corevec.data.sources import Source, Workers
from corevec.kernels import AnyKernel, Kernel, Rows
from corevec.models.certificate import Cancellation, Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.problems import BoxProblem, Measured, numbered
from corevec.solvers.hinge.active import (
    Guess,
    active_entries,
    blank_guess,
    predicted,
    sample_problem,
    samples,
)
from corevec.solvers.hinge.decomposition import WORKING_SET, Decomposition
from corevec.solvers.hinge.few_rows import (
    MOST_ENTRIES,
    STEPS_PER_ENTRY,
    FewRows,
    Shared,
)
from corevec.solvers.hinge.kernel_rows import KernelRows
from corevec.solvers.hinge.latest import Latest
from corevec.solvers.hinge.result import GAP, BoxSolution, HingeSettings
from corevec.solvers.numeric.deadline import Deadline

# Rows of a pass that a thread takes at a time.
PASS_ROWS = 2048
# Units of rounding of a sum's terms that the sum is off by: pairwise, or by BLAS.
SUM_UNITS = 4.0
# Share of the memory budget for rows of the kernel matrix.
CACHE_SHARE = 0.6
# A round that leaves more than this share of the gap has met the limit of float32.
STALLED = 0.5
MOST_PASSES = 30
# Violations that few rows are solved to, in units of the tolerance; and the least
# tolerance for pairs of multipliers, which converge slowly: below it the free entries
# are solved by a factor, to many more digits than were asked for.
FEW_ROWS_SHARES = (0.9, 0.2, 0.03)
LEAST_PAIRS_TOL = 1e-5
# float64 kernel values per second, as a share of float32 ones, for the time of a pass.
DOUBLE_SHARE = 0.5
# The gap that samples are solved to.
SAMPLE_GAP = 0.03
# Entries are solved to this share of the tolerance before all rows are evaluated.
INNER_SHARE = 0.3
# Values are updated if no more than this share of the multipliers has changed.
UPDATED_SHARE = 0.7
# float32 kernel values serve down to this tolerance, up to these bounds.
FLOAT32_TOL, FLOAT32_BOUND = 1e-5, 1e4
# Rounds without a fall to this share of the least gap or violation before a stall.
IDLE_ROUNDS, FALLEN = 60, 0.99
# Rounds between two looks at the gap.
LOOK_EVERY = 4
# Problems of up to so many rows are solved side by side, one per thread.
SMALL_ROWS = 6000


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
    is_small = all(len(one.rows) <= SMALL_ROWS for one in problems)
    latest = Latest(problems, source, kernel, progress)
    workers, own = source.workers, source
    is_alone = len(problems) == 1 or not is_small
    # Few rows are solved on their matrix at loose tolerances alone.
    is_loose = settings.tol >= LEAST_PAIRS_TOL
    memory = CACHE_SHARE * source.memory_budget / 2 if is_loose else 0.0
    shared = Shared.of(problems, source, kernel, memory)
    if not is_alone:
        own = source.using(source.memory_budget / workers.n_threads, Workers(1))

    def solve(number: int) -> BoxSolution:
        run = _Run(number, latest, own, settings, shared)
        return run.solve(given[number])

    numbers = range(len(problems))
    if is_alone:
        return [solve(number) for number in numbers]
    return list(workers.run(solve, numbers))


@dataclass(frozen=True)
class _Seen:
    """Exact values at all entries, and what they prove."""

    guess: Guess
    values: Array
    error: float  # of the values
    measured: Measured
    bounds: tuple[float, float]
    rounding: float
    violation: float
    cancelled: Cancellation

    @property
    def gap(self) -> float:
        return relative_gap(*self.bounds, self.cancelled)


@dataclass(frozen=True)
class _Sampled:
    """What samples say: a guess for all entries, and the last one's own solution.

    Attributes
    ----------
    guess : Guess
        Where multipliers are expected.
    entries, signed : ndarray
        The entries of the last sample that were solved, and their multipliers.
    ratio : float
        How many times larger their bounds were.
    """

    guess: Guess
    entries: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    signed: Array = field(default_factory=lambda: np.empty(0))
    ratio: float = 1.0

    def of_all(self, problem: BoxProblem, ratio: float) -> Array:
        """Return the sample's solution over `ratio` as multipliers of all entries."""
        out = np.zeros(len(problem.rows))
        out[self.entries] = self.signed / ratio
        return out


class _Run:
    """The solution of one problem."""

    def __init__(
        self,
        number: int,
        latest: Latest,
        source: Source,
        settings: HingeSettings,
        shared: Shared,
    ):
        problem, kernel = latest.problems[number], latest.kernel
        self.problem, self.source, self.kernel = problem, source, kernel
        self.settings, self.progress = settings, latest.progress
        self.latest, self.number, self.shared = latest, number, shared
        self.numbers, self.place = numbered(problem.rows)
        self.steps = 0
        self._largest_diagonal = 0.0
        self.dtype: Any = _first_precision(problem, kernel, settings.tol)

    def solve(self, start: Array | None) -> BoxSolution:
        """Return the solution."""
        best = None if start is None else self._started(start)
        if best is None and self._are_few():
            best = self._on_few_rows()
        sampled = self._sampled() if best is None else _Sampled(best.guess)
        best, stopped_by = self._rounds(best, sampled.guess)
        if best is None:
            best = self._in_time(sampled)
        return self._solution(best, stopped_by)

    def _rounds(self, best: _Seen | None, guess: Guess) -> tuple[_Seen | None, str]:
        """Return the best multipliers of the rounds on active entries, and the end.

        None where no time was left for a step on all of them.
        """
        problem, seen, rows = self.problem, best, None
        active = np.empty(0, dtype=np.int64)
        for _ in range(MOST_PASSES):
            spent = self._spent()
            if spent is not None:
                return best, spent
            if seen is not None and self._is_met(seen):
                break
            n_before, steps = len(active), self.steps
            active = np.union1d(active, active_entries(guess, problem))
            signed, rows = self._on_active(active, guess, seen, rows)
            if self.steps == steps and seen is None and self._spent() is not None:
                continue  # no time for a step: what the samples say is all there is
            last, seen = seen, self._seen(problem.feasible(signed), seen)
            self._record(seen)
            guess = seen.guess
            if best is None or self._excess(seen) < self._excess(best):
                best = seen
            if len(active) == n_before and self._has_stalled(seen, last):
                if self.dtype == np.float64:
                    break
                self.dtype, rows = np.float64, None
        return best, str(StopReason.STALL)

    def _are_few(self) -> bool:
        """Whether the kernel matrix of all entries is small."""
        n = len(self.place)
        fits = 16 * n**2 <= CACHE_SHARE * self.source.memory_budget
        is_loose = self.settings.tol >= LEAST_PAIRS_TOL
        return fits and is_loose and n <= MOST_ENTRIES and self._may_go_on()

    def _on_few_rows(self) -> _Seen:
        """Return what pairs of multipliers reach on the whole kernel matrix."""
        problem, tol = self.problem, self.settings.tol
        few = FewRows.of(self.shared, self.numbers, self.place)
        self.progress.rows_looked_at += len(self.numbers)
        self._largest_diagonal = few.largest
        signed = problem.feasible(np.zeros(len(problem.rows)))
        most = STEPS_PER_ENTRY * len(signed)
        most = min(most, self.settings.max_steps or most)
        # A gap is a sum of violations: how small they have to be is tried.
        for share in FEW_ROWS_SHARES:
            left = most - self.steps
            signed, steps = few.improved(problem, signed, share * tol, left)
            self.steps += steps
            seen = self._measured(signed, *few.values(signed))
            if self._is_met(seen) or self.steps >= most:
                break
        self._record(seen)
        return seen

    def _started(self, start: Array) -> _Seen:
        """Return what a warm start proves."""
        problem = self.problem
        seen = self._seen(problem.feasible(problem.sign * start), None)
        if self._is_met(seen):
            self._record(seen)
        return seen

    def _on_active(
        self, active: Array, guess: Guess, seen: _Seen | None, rows: KernelRows | None
    ) -> tuple[Array, KernelRows]:
        """Return all multipliers after work on the active ones, and the kernel rows."""
        part, start = self.problem.restricted(active), guess.signed[active]
        rows = self._rows(part, rows)
        values = None if seen is None else seen.values[active]
        work = Decomposition(part, start, rows, values, self._may_go_on)
        self._improve(work, self.settings.rule, INNER_SHARE * self.settings.tol)
        signed = np.zeros(len(self.problem.rows))
        signed[active] = work.signed
        return signed, rows

    def _has_stalled(self, seen: _Seen, last: _Seen | None) -> bool:
        if last is None:
            return False
        return self._excess(seen) > STALLED * self._excess(last)

    def _may_go_on(self) -> bool:
        return self._spent() is None

    def _sampled(self) -> _Sampled:
        """Return a start from samples; no multipliers where there are few rows."""
        problem = self.problem
        found = _Sampled(blank_guess(problem))
        for k, few in enumerate(samples(self.place, self.settings.random_state)):
            if not self._may_go_on():
                break
            part, ratio = sample_problem(problem, few)
            own = found.guess.of_sample(part, few, ratio) if k else blank_guess(part)
            chosen = active_entries(own, part)
            inner = part.restricted(chosen)
            rows = self._rows(inner, None)
            work = Decomposition(inner, own.signed[chosen], rows)
            self._improve(work, GAP, SAMPLE_GAP)
            values, _ = self._values(inner.rows, work.signed, np.float32)
            guess = predicted(problem, values)
            found = _Sampled(guess, few[chosen], work.signed, ratio)
        return found

    def _in_time(self, sampled: _Sampled) -> _Seen:
        """Return the function of the last sample: no time was left for all entries.

        It has few entries, so that its pass is short, and its multipliers may be beyond
        their bounds. They prove nothing then: the dual value is that of no multipliers.
        Where sums are fixed that are not 0, they are divided to be feasible.
        """
        problem = self.problem
        if any(problem.totals) or len(sampled.entries) == 0:
            return self._seen(
                problem.feasible(sampled.of_all(problem, sampled.ratio)), None
            )
        seen = self._seen(sampled.of_all(problem, 1.0), None)
        measured = seen.measured._replace(dual=0.0, missed=0.0)
        bounds = seen.bounds[0], 0.0
        return replace(seen, measured=measured, bounds=bounds, violation=np.inf)

    def _rows(self, part: BoxProblem, rows: KernelRows | None) -> KernelRows:
        """Return rows of the kernel matrix for a problem: those so far, or new ones."""
        numbers, _ = numbered(part.rows)
        if rows is not None and rows.extend(numbers):
            return rows
        memory = CACHE_SHARE * self.source.memory_budget
        return KernelRows(self.source, self.kernel, numbers, self.dtype, memory)

    def _improve(self, work: Decomposition, rule: str, tol: float) -> None:
        """Work on a part of the entries until it is solved to `tol`, or stands still.

        It stands still where neither the gap nor the violation has fallen for many
        rounds: then the rounding of kernel values is reached.
        """
        most = self.settings.max_steps or 2**62
        is_gap = rule == GAP
        least, idle = np.full(2, np.inf), 0
        idle_most = IDLE_ROUNDS + 2 * len(work.signed) // WORKING_SET
        for k in itertools.count(1):
            if self._spent() is not None:
                break
            steps = work.steps
            left = most - self.steps - work.steps
            found = [work.round(0.0 if is_gap else tol, left), np.inf]
            n_support = int(np.count_nonzero(work.signed))
            if work.steps == steps or self._spent(n_support) is not None:
                break
            if k % LOOK_EVERY == 0:
                work.solve_free()
                measured = work.measured()
                found[1] = relative_gap(measured.primal, measured.dual)
                if is_gap and found[1] <= tol:
                    break
            is_better = (np.array(found) < FALLEN * least).any()
            least = np.minimum(least, found)
            idle = 0 if is_better else idle + 1
            if idle > idle_most:
                break
        self.steps += work.steps

    def _values(self, rows: Array, signed: Array, dtype: Any) -> tuple[Array, float]:
        """Return f at all entries for multipliers of some rows, with its error."""
        numbers, back = numbered(rows)
        coef = np.bincount(back, weights=signed, minlength=len(numbers))
        used = np.flatnonzero(coef)
        if len(used) == 0:
            return np.zeros(len(self.place)), 0.0
        taken = self.source.take(numbers[used])
        basis = Rows(taken.values, taken.index)
        coef = coef[used][:, None]
        functions = KernelExpansion(self.kernel, basis, coef, np.zeros(1))
        parts = self.source.map_rows(functions.ready(dtype), self.numbers, PASS_ROWS)
        self.progress.rows_looked_at += len(self.numbers)
        self._largest_diagonal = max(self._largest_diagonal, functions.largest_diagonal)
        values = np.concatenate([to_numpy(one) for one in parts])[:, 0][self.place]
        return values, float(functions.value_errors()[0])

    def _seen(self, signed: Array, last: _Seen | None) -> _Seen:
        """Return the values at all entries in float64, with their bounds.

        Values seen before are updated where fewer multipliers have changed than there
        are.
        """
        changed, error = signed, 0.0
        before: Array | float = 0.0
        if last is not None:
            changed = signed - last.guess.signed
            if np.count_nonzero(changed) <= UPDATED_SHARE * np.count_nonzero(signed):
                before, error = last.values, last.error
            else:
                changed = signed
        values, added = self._values(self.problem.rows, changed, np.float64)
        return self._measured(signed, before + values, error + added)

    def _measured(self, signed: Array, values: Array, error: float) -> _Seen:
        """Return what multipliers and their values, known up to `error`, prove."""
        problem = self.problem
        measured = problem.measure(signed, values)
        # What is left of target, value and bias is rounded by a unit of each.
        largest = np.abs(problem.target).max(initial=0.0) + np.abs(values).max()
        error += SUM_UNITS * EPS * float(largest + np.abs(measured.biases).max())
        mass = float(np.abs(signed).sum())
        near = float(problem.upper[measured.slack > -error].sum())
        upper = measured.primal + error * (mass / 2 + near)
        # |w|^2 is a sum of mass^2 kernel values: the function may be 0. No optimum is
        # larger than the loss of that function.
        terms = self._largest_diagonal * mass * mass
        if problem.linear.any():
            terms = min(terms, float(problem.upper @ np.abs(problem.linear)))
        return _Seen(
            guess=Guess(signed, measured.slack),
            values=values,
            error=error,
            measured=measured,
            bounds=(upper, measured.dual - error * mass / 2 - measured.missed),
            rounding=relative_gap(upper + error * mass / 2, measured.primal),
            violation=problem.violation(signed, values),
            cancelled=Cancellation(error * (mass + near), terms),
        )

    def _excess(self, seen: _Seen) -> float:
        return seen.gap if self.settings.rule == GAP else seen.violation

    def _is_met(self, seen: _Seen) -> bool:
        return self._excess(seen) <= self.settings.tol

    def _spent(self, n_support: int = 0) -> StopReason | None:
        """Return which budget is spent, with a pass for so many multipliers to come."""
        most = self.settings.max_steps
        if most is not None and self.steps >= most:
            return StopReason.MAX_ITER
        rate = DOUBLE_SHARE * self.source.values_per_second
        needed = len(self.numbers) * n_support / rate
        if Deadline.of_certificate(self.progress).is_over(needed):
            return StopReason.MAX_TIME
        return self.progress.spent()

    def _record(self, seen: _Seen) -> None:
        support = int(np.count_nonzero(seen.guess.signed))
        self.latest.record(
            self.number,
            seen.guess.signed,
            seen.measured,
            core=support,
            support=support,
            gap=seen.gap,
            dual=seen.measured.dual,
            looked_at=len(self.numbers),
            exact=True,
        )

    def _solution(self, seen: _Seen, stopped_by: str) -> BoxSolution:
        settings, problem = self.settings, self.problem
        is_gap, is_met = settings.rule == GAP, self._is_met(seen)
        certificate = Certificate.of(
            problem.name,
            seen.bounds,
            self.progress,
            cancelled=seen.cancelled,
            tol=settings.tol if is_gap else float("nan"),
            stopped_by=StopReason.TOL if is_met else stopped_by,
            converged=is_met,
            rounding=seen.rounding,
            largest_violation=seen.violation,
        )
        if not self._is_definite():
            certificate = without_lower_bound(certificate, self.kernel)
            if not is_gap and is_met:  # as LIBSVM: a point without a violation
                reached = StopReason.TOL.value
                certificate = replace(certificate, converged=True, stopped_by=reached)
        return BoxSolution(
            problem=problem,
            multipliers=np.abs(seen.guess.signed),
            bias=seen.measured.bias,
            width=seen.measured.width,
            values=seen.values,
            norm_sq=seen.measured.norm_sq,
            violation=seen.violation,
            n_iter=self.steps,
            certificate=certificate,
        )

    def _is_definite(self) -> bool:
        """Whether the kernel is positive definite on the rows, as far as was seen."""
        if is_definite_by_name(self.kernel):
            return True
        present = np.unique(self.problem.rows[self.problem.upper > 0])
        return definite_on_rows(self.kernel, self.source, present)


def _first_precision(problem: BoxProblem, kernel: AnyKernel, tol: float) -> Any:
    """Return the precision of kernel values until float64 is found to be needed.

    Other kernels than those of the distance may have values of any size.
    """
    is_plain = isinstance(kernel, Kernel) and kernel.uses_distance
    is_loose = tol >= FLOAT32_TOL and problem.upper.max() <= FLOAT32_BOUND
    return np.float32 if is_plain and is_loose else np.float64
