"""The exact solver: the optimum over all rows, however many of them are active.

Start on a random sample, each row standing for n/m rows; go on with larger samples and
then with all rows, where the rounds of `rounds` end with the certificate. Samples tell
before the time is spent whether the solution is within reach.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.backend.arrays import to_numpy
from corevec.backend.loops.ascent import ascend
from corevec.certificates.definite import definite_on_rows, is_definite_by_name
from corevec.certificates.scan import Subset
from corevec.kernels import Kernel, Rows
from corevec.models.result import FitResult
from corevec.problems.family import Problem
from corevec.problems.task import Task
from corevec.solvers.exact.components import Components
from corevec.solvers.exact.rounds import Rounds, Run, Stage, State
from corevec.solvers.numeric.kernel_matrix import kernel_matrix

MIN_SAMPLE = 600
# Numbers that are held of every row: values of functions and proofs, signs, targets,
# weights, and what is computed from them.
NUMBERS_PER_ROW = 12
# The slack of a sample, whose rows stand for several each, at most.
SAMPLE_SLACK = 10.0


@dataclass(frozen=True)
class Exact(Rounds):
    """The exact method: growing samples, then rounds on all rows."""

    # How the samples grow, from `first_rows` on.
    growth: int = 8
    # Beyond so many rows they grow more slowly: a poor start on all rows is expensive.
    many_rows: int = 100_000
    slow_growth: int = 4
    # Steps per row of a sample at most, where one multiplier is changed at a time.
    sample_steps: int = 10
    # Rows from which kernels are tested for components; fewer are one matrix.
    split_rows: int = 5000
    # The cost model: products with the active rows' matrix until the end, and what is
    # too long.
    products: int = 40
    most_seconds: float = 900.0

    def applies(self, task: Task) -> bool:
        """Whether the task is soft, its kernel definite, its values within memory."""
        source = task.source
        soft = not any(one.is_hard for one in task.problems)
        numbers = NUMBERS_PER_ROW * source.n_rows * len(task.problems)
        if not isinstance(task.kernel, Kernel):  # rows are copied, and may be a matrix
            numbers += 2 * source.n_rows * source.row_entries
        fits = 8 * numbers <= source.memory_budget / 2
        return soft and fits and serves(task)

    def solve(self, task: Task, progress: Progress) -> FitResult | None:
        """Return the optimum of the task, or None if samples predict too much work."""
        source = task.source
        rng = np.random.default_rng(task.settings.random_state)
        order, numbers = rng.permutation(source.n_rows), source.numbers
        components = None
        if source.n_rows >= self.split_rows:
            components = Components.of(source, task.kernel)
        state, stage = _warm(task), Stage({}, components)
        sizes = [] if state is not None else self._sizes(task)
        for size in sizes:
            view = source.subset(np.sort(numbers[order[:size]]), Subset)
            ratio = source.n_rows / size
            scaled = [_for_sample(one, ratio) for one in task.problems]
            part = replace(task, problems=scaled, source=view)
            fits = 4 * size**2 <= self.full_share * source.memory_budget
            is_plain = all(one.has_unit_targets for one in scaled)
            if state is None and is_plain and fits:
                state = _ascended(part, self)
            else:
                applied = scaled[0].slack / task.problems[0].slack
                own = replace(stage, slack_ratio=applied, is_last=False)
                run = Run(part, progress, self, rng, own)
                state = run.solve(state)
            state.share, state.is_of_sample = len(state.rows) / size, True
            pairs = 1.0 if components is None else components.pair_share
            if self._is_out_of_reach(task, progress, state.share * np.sqrt(pairs)):
                return None
        run = Run(task, progress, self, rng, stage)
        return run.result(run.solve(state))

    def _sizes(self, task: Task) -> list[int]:
        """Return the sizes of the growing samples, the smallest first.

        Of several problems the first sample is smaller: all of its rows are active in
        each of them.
        """
        first = max(MIN_SAMPLE, int(self.first_rows / np.sqrt(len(task.problems))))
        sizes, size = [], task.source.n_rows
        while size > 2 * first:
            growth = self.slow_growth if size > self.many_rows else self.growth
            size = max(size // growth, first)
            sizes.append(size)
        return sizes[::-1]

    def _is_out_of_reach(self, task: Task, progress: Progress, share: float) -> bool:
        """Whether the samples predict more time than there is.

        Products take half the square of the active rows; `share` of the sample's rows
        had coefficients, and of all rows it will rather be less.
        """
        source = task.source
        if np.isinf(self.most_seconds):  # whoever asks for it gets the best in time
            return False
        values = self.products * (share * source.n_rows) ** 2 / 2
        seconds = values / source.values_per_second
        left = self.most_seconds
        if progress.max_time is not None:
            left = min(left, progress.max_time - progress.seconds)
        return seconds > left


def serves(task: Task) -> bool:
    """Whether the kernel is positive definite, as far as some rows tell."""
    if is_definite_by_name(task.kernel):
        return True
    if isinstance(task.kernel, Kernel) or not task.source.draws_cheaply:
        return False
    return definite_on_rows(task.kernel, task.source, task.source.numbers)


def _for_sample(problem: Problem, ratio: float) -> Problem:
    """Return a problem on a sample whose rows stand for `ratio` rows each.

    Not beyond `SAMPLE_SLACK`: covtype at C = 10 took 1,000 products on a sample of an
    eighth, where C was 80 and before 640.
    """
    largest = max(problem.slack, SAMPLE_SLACK)
    return replace(problem, slack=min(problem.slack * ratio, largest))


def _ascended(task: Task, method: Exact) -> State:
    """Return a start from few rows: one multiplier at a time (`backend.loops.ascent`).

    From nothing Newton steps begin with all rows active, and take five to ten times as
    long.
    """
    view, kernel, problems = task.source, task.kernel, task.problems
    rows = view.take(view.numbers)
    plain = Rows(rows.values, rows.index)
    K = kernel_matrix(plain, kernel, np.float32, view.workers)
    most = method.sample_steps * len(rows)

    def solve(problem: Problem) -> Array:
        terms = problem.terms(rows, kernel)
        sign, omega = to_numpy(terms.sign), to_numpy(terms.omega)
        b, gradient = np.zeros(len(rows)), np.full(len(rows), -1.0)
        bias = float(problem.has_bias)
        ascend(K, bias, sign, omega, b, gradient, method.sample_gap / 4, most)
        return np.asarray(sign * b)

    coef = np.column_stack(list(view.workers.run(solve, problems)))
    used = np.flatnonzero(coef.any(axis=1))
    found = coef[used]
    return State(rows.index[used], found, found.copy(), np.zeros(len(problems)))


def _warm(task: Task) -> State | None:
    """Return the functions of an earlier fit of the same rows as a start."""
    warm = task.warm
    if warm is None or not warm.same_rows or len(warm.functions.basis) == 0:
        return None
    index, coef = warm.functions.basis.index, warm.functions.coef
    if coef.shape[1] != len(task.problems) or index.min() < 0:
        return None
    order = np.argsort(index)
    offsets = np.zeros(coef.shape[1])
    if warm.offsets is not None:
        offsets = np.array(warm.offsets, dtype=np.float64)
    return State(index[order], coef[order].copy(), np.zeros_like(coef), offsets)
