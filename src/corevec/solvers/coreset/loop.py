"""The Core Vector Machine: grow a small core set until all rows are well placed.

The loop is the paper's (section 4): solve the problem on the core rows, find the rows
that violate it most, add them, repeat. The paper's stopping criterion and ours differ
in which rows are scanned, how many are added and when the loop stops:

===========  =================================  =====================================
             paper (``ball_epsilon``)           ours (``tol``)
===========  =================================  =====================================
scan         59 random rows, or all             a growing random subset, then all
add          the farthest row                   a batch of dissimilar violators
stop         scanned rows within                relative duality gap over ALL rows
             (1 + epsilon) R                    at most tol
===========  =================================  =====================================

Whatever stops the run, the certificate comes from an exact scan of all rows.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from corevec._runtime.enumerations import StopReason
from corevec._runtime.progress import Progress, RoundState
from corevec._runtime.types import Array
from corevec.certificates.scan import ScanRequest, Subset, scan
from corevec.data.sources import Source
from corevec.data.sources.budget import rows_per_scan, rows_that_fit
from corevec.kernels import AnyKernel, Rows
from corevec.models.result import FitResult, Settings
from corevec.problems.family import Problem
from corevec.solvers.coreset.core import Core, Solver
from corevec.solvers.coreset.evaluate import (
    ball_epsilon_reached,
    joint_functions,
    largest_diagonal,
    measured,
    trials,
    unmeasured,
)
from corevec.solvers.coreset.outcome import outcome_of
from corevec.solvers.coreset.selection import (
    BATCH_MAX,
    BATCH_POOL,
    FIRST_SUBSET,
    add_violators,
    any_row,
    first_rows,
    n_rows_for_first,
)
from corevec.solvers.coreset.state import Job, Precision, State, View
from corevec.solvers.numeric.deadline import Deadline, OutOfTime

# The subset starts at 2000 rows and grows by 4 whenever the core set solves it to 5 %.
# Both are from prototypes on five data sets: smaller subsets miss rare rows, a tighter
# target refines what the next subset overturns.
SUBSET_GROWTH, SUBSET_GAP = 4, 0.05
# Up to this many rows every scan visits all of them.
MAX_ROWS_WITHOUT_SUBSET = 8000
# After a scan of all rows, this many of the worst are the working set of the next ones,
MAX_WORST_ROWS = 20_000
# until their gap is this many times below the last gap over all rows.
WORST_ROWS_GAP_RATIO = 20.0
# Kernels whose float64 values have less rounding are scanned in float32.
FLOAT32_ROUNDING = 1e-11
# Rows that are evaluated to tell how long all of them will take, and how many times as
# long is reserved: a pass that ends too late certifies nothing.
PROBED_ROWS, RESERVE = 1024, 1.5
# The share of the time that is left in which the rows of a basis are chosen.
CHOICE_SHARE = 0.25
# Core rows leave once their multiplier was zero for this many rounds.
MAX_IDLE_ROUNDS = 3
# Where there is another method, the core set is given up once its support, growing with
# the rows as it has so far, would exceed its largest size this many times.
GIVE_UP_RATIO = 2.0
# The tolerance of SMO on the core rows, as a share of the gap of the working set:
# ijcnn1 to 1e-2 took 9.7 s at 0.02, 6.4 s at 0.05, 5.5 s at 0.1.
SMO_SHARE_OF_GAP = 0.1


def run(
    problems: list[Problem],
    job: Job,
    warm: list[tuple[Array, Array]] | None = None,
    may_give_up: bool = False,
) -> FitResult:
    """Return the functions of all `problems`, with certificates; scans are shared.

    `warm` gives, for each problem, the first core entries and their multipliers.
    `may_give_up` stops as soon as the core set will clearly not hold the support.
    """
    state = start(problems, job, warm)
    try:
        while state.stopped_by is None:
            run_round(state, job)
            if may_give_up and state.stopped_by is None and will_outgrow(state, job):
                state.stopped_by = StopReason.MAX_VECTORS
    except OutOfTime:
        state.stopped_by = StopReason.MAX_TIME
    return finish(state, job)


def run_round(state: State, job: Job) -> None:
    """Solve on the core rows, scan the working set, and decide how to go on."""
    deadline = deadline_of_rounds(state, job)
    solve_on_cores(state, job, deadline)
    state.stopped_by = job.progress.spent()
    if state.stopped_by is not None:
        return
    deadline.check()
    scan_working_set(state, job, deadline)
    is_met = [meets_target(state, t, job) for t in range(len(state.cores))]
    if all(is_met):
        widen_view_or_stop(state, job)
    elif grow_cores(state, is_met, job):
        narrow_view(state, job)
    else:
        refine_or_stop(state, job)


def start(
    problems: list[Problem], job: Job, warm: list[tuple[Array, Array]] | None
) -> State:
    """Return the state before the first round: first core rows, first view."""
    source, settings = job.source, job.settings
    rng = np.random.default_rng(settings.random_state)
    max_size = largest_core_set(settings, source, len(problems))
    cores = [Core(problem, source, job.kernel, max_size) for problem in problems]
    eta = [largest_diagonal(problem, source, job.kernel) for problem in problems]
    state = State(cores, eta, rng, View.ALL_CERTIFYING, source, settings.tol)
    size = settings.sampling
    if isinstance(size, int) and size < source.n_rows:
        state.view = View.FRESH_SAMPLE
    elif _uses_subsets(job):
        state.view = View.RANDOM_SUBSET
        state.rows = Subset(source, source.draw(rng, FIRST_SUBSET))
        state.target = max(SUBSET_GAP, settings.tol)
    for t, core in enumerate(cores):
        if warm is not None and len(warm[t][0]):
            core.add(*warm[t])
        else:
            core.add(first_rows(core, source, settings, rng))
    job.progress.rows_looked_at += n_rows_for_first(source, settings)
    return state


def deadline_of_rounds(state: State, job: Job) -> Deadline:
    """Return when the rounds end: the pass that certifies is part of the time limit."""
    limit = job.deadline
    if not limit.is_set:
        return limit
    reserved = min(RESERVE * certifying_seconds(state, job), limit.seconds / 2)
    return replace(limit, seconds=limit.seconds - reserved)


def certifying_seconds(state: State, job: Job) -> float:
    """Return about how long a pass over all rows would take with these functions."""
    if state.full_scan is not None:
        seconds, support = state.full_scan
        return seconds * state.largest_support / support
    source = job.source
    if not source.draws_cheaply:
        return 0.0  # not known before the first pass
    functions = joint_functions(state.cores, job.kernel)
    rows = source.block(0, min(PROBED_ROWS, source.n_rows))
    points, taken = functions.prepared(), []
    for _ in range(2):  # the first may compile the loops
        began = time.perf_counter()
        functions.evaluate(rows, points)
        taken.append(time.perf_counter() - began)
    return min(taken) * source.n_rows / (len(rows) * source.workers.n_threads)


def solve_on_cores(state: State, job: Job, deadline: Deadline) -> None:
    """Solve each problem on its core rows, warm-started."""
    name = job.settings.solver
    if name == "auto" and state.precision is Precision.EXACT:
        name = "newton"
    for t, core in enumerate(state.cores):
        tol = smo_tolerance(state, t, job)
        how = Solver(name, tol, not job.is_paper, deadline)
        core.solve(how)
        state.scanned = None
        while core.soften():
            core.solve(how)
        if not job.is_paper:
            core.drop_idle(MAX_IDLE_ROUNDS)


def smo_tolerance(state: State, t: int, job: Job) -> float:
    """Return the tolerance of SMO on the core rows of problem `t`.

    The paper stops at the absolute tolerance 1e-6 of its experiments; ours must be well
    inside the gap of the working set, and inside the gap that is asked for.
    """
    settings = job.settings
    if settings.ball_epsilon is not None:
        return min(settings.ball_epsilon, 1e-6)
    if state.precision is Precision.EXACT:
        return settings.tol / 1000
    is_loose = bool(state.measured) and state.precision is Precision.LOOSE
    gap = state.measured[t].gap if is_loose else 0.0
    return float(np.clip(SMO_SHARE_OF_GAP * gap, settings.tol / 10, 1e-2))


def scan_working_set(state: State, job: Job, deadline: Deadline) -> None:
    """Scan the working set, and record the round."""
    if state.view is View.FRESH_SAMPLE:
        assert isinstance(job.settings.sampling, int)
        drawn = job.source.draw(state.rng, job.settings.sampling)
        state.rows = Subset(job.source, drawn)
    if state.view is View.ALL_CERTIFYING:
        deadline = job.certificate_deadline
    measure(state, job, deadline)
    cores = state.cores
    job.progress.record(
        RoundState(
            functions=lambda: joint_functions(cores, job.kernel),
            cores=lambda: [core.solution for core in cores],
            offsets=lambda: np.array([one.offset for one in state.measured]),
        ),
        core=max(len(core) for core in cores),
        support=max(len(core.support) for core in cores),
        gap=state.largest_gap,
        dual=sum(core.problem.unit * core.dual for core in cores),
        looked_at=state.rows.n_rows,
        exact=state.view.is_all,
    )


def measure(state: State, job: Job, deadline: Deadline) -> None:
    """Set what a scan of the working set says about every problem."""
    began = time.perf_counter()
    functions = joint_functions(state.cores, job.kernel)
    n_worst = n_worst_wanted(state, job.settings)
    previous = [one.next_trial for one in state.measured] or [1.0] * len(state.cores)
    requests = [
        ScanRequest(core.problem, core.entries, trials(core, trial), n_worst)
        for core, trial in zip(state.cores, previous, strict=True)
    ]
    # The blocks of remote rows are scored by other processes.
    check = deadline.check if state.rows.draws_cheaply else None
    precision = scan_precision(state, job)
    found = scan(state.rows, functions, requests, precision, check)
    if state.view.is_all:
        state.full_scan = time.perf_counter() - began, state.largest_support
    state.scanned = state.view
    job.progress.rows_looked_at += state.rows.n_rows
    state.measured = [
        measured(core, one, request.trials)
        for core, one, request in zip(state.cores, found, requests, strict=True)
    ]


def meets_target(state: State, t: int, job: Job) -> bool:
    """Whether problem `t` needs no more core rows for the working set."""
    epsilon, one = job.settings.ball_epsilon, state.measured[t]
    if epsilon is None:
        return one.gap <= state.target
    return ball_epsilon_reached(state.cores[t], one.found, state.eta[t]) <= epsilon


def widen_view_or_stop(state: State, job: Job) -> None:
    """Stop if the working set, which is solved, was all rows; otherwise scan more."""
    source, tol = job.source, job.settings.tol
    if state.view is View.ALL_SEARCHING:
        state.view = View.ALL_CERTIFYING  # scan again, in float64
        return
    if state.view is View.ALL_CERTIFYING or job.is_paper:
        state.stopped_by = job.criterion  # the paper stops on a sample, too
        return
    size = SUBSET_GROWTH * state.rows.n_rows
    state.solved_subset = state.rows.n_rows, state.largest_support
    fits = 2 * size < source.n_rows and size <= rows_that_fit(source)
    if state.view is View.RANDOM_SUBSET and fits:
        state.rows = Subset(source, source.draw(state.rng, size))
        return
    # Rows that are solved only loosely cannot meet the tolerance: search first.
    is_loose = state.largest_gap > tol
    state.view = View.ALL_SEARCHING if is_loose else View.ALL_CERTIFYING
    state.rows, state.target = source, tol


def grow_cores(state: State, is_met: list[bool], job: Job) -> bool:
    """Add violators to the core sets that miss the target; return whether any grew."""
    has_grown = False
    for t, core in enumerate(state.cores):
        if not is_met[t] and len(core) < core.max_size:
            has_grown |= add_violators(core, state.measured[t].found, job.settings)
    return has_grown


def narrow_view(state: State, job: Job) -> None:
    """Restrict the view to the worst rows between two scans of all rows."""
    if not (state.view.is_all and _uses_subsets(job)):
        return
    pairs = zip(state.cores, state.measured, strict=True)
    rows = [core.problem.rows_of(one.found.worst) for core, one in pairs]
    if len(state.worst_rows) <= 3 * MAX_WORST_ROWS:
        rows.append(state.worst_rows)
    state.worst_rows = np.unique(np.concatenate(rows))
    state.view, state.rows = View.WORST_ROWS, Subset(job.source, state.worst_rows)
    # The other rows decide the next gap: solving these much better is of no use.
    state.target = max(job.settings.tol / 4, state.largest_gap / WORST_ROWS_GAP_RATIO)


def refine_or_stop(state: State, job: Job) -> None:
    """Continue where no core set grew: widen the view, or solve more precisely."""
    is_all = state.view.is_all
    if not job.is_paper and not is_all and state.largest_gap <= job.settings.tol:
        widen_view_or_stop(state, job)  # enough, if it is so on all rows
    elif not job.is_paper and state.precision < Precision.EXACT:
        # No row violates the solution: the solver on the core rows has to do better.
        state.precision = Precision(state.precision + 1)
    elif state.is_full:
        state.stopped_by = StopReason.MAX_VECTORS
    elif is_all:
        state.stopped_by = StopReason.STALL
    else:
        widen_view_or_stop(state, job)


def will_outgrow(state: State, job: Job) -> bool:
    """Whether the support over all rows will far exceed the largest core set.

    The support grows like a power of the number of rows, which two random subsets tell;
    the support of the present subset only grows while it is scanned.
    """
    if state.solved_subset is None or state.view is not View.RANDOM_SUBSET:
        return False
    (rows, support), seen = state.solved_subset, state.rows.n_rows
    if seen <= rows:
        return False
    found = state.largest_support
    power = np.clip(np.log(found / support) / np.log(seen / rows), 0.0, 1.0)
    expected = found * (job.source.n_rows / seen) ** power
    return bool(expected > GIVE_UP_RATIO * state.cores[0].max_size)


def finish(state: State, job: Job) -> FitResult:
    """Return the functions with certificates from an exact scan of all rows.

    Where the time does not suffice for that scan, nothing is known of the primal value.
    """
    if state.scanned is not View.ALL_CERTIFYING:
        state.view, state.rows = View.ALL_CERTIFYING, job.source
        try:
            measure(state, job, job.certificate_deadline)
        except OutOfTime:
            state.measured = [unmeasured(core) for core in state.cores]
    return outcome_of(state, job)


def n_worst_wanted(state: State, settings: Settings) -> int:
    """Return how many of the most violating rows a scan should return."""
    if settings.ball_epsilon is not None and isinstance(settings.batch, int):
        return settings.batch
    if state.view.is_all:
        kept = min(MAX_WORST_ROWS, rows_per_scan(state.rows))
        pool = BATCH_POOL if state.rows.draws_cheaply else 1
        return max(pool * BATCH_MAX, kept // len(state.cores))
    return BATCH_POOL * BATCH_MAX


def largest_core_set(settings: Settings, source: Source, n_problems: int) -> int:
    """Return the largest core set: the one asked for, or what the budget holds.

    Each problem has a kernel matrix, and its Cholesky factor is a second.
    """
    if settings.max_vectors is not None:
        return settings.max_vectors
    return max(64, int(np.sqrt(source.memory_budget / (16 * n_problems))))


def scan_precision(state: State, job: Job) -> Any:
    """Return float32 where its errors cannot mislead a search, otherwise float64.

    A float32 sum of ``b_i k_i`` is wrong by about ``6e-8 sum(b)``. A certificate is
    measured in float64.
    """
    if state.view is View.ALL_CERTIFYING or job.is_paper:
        return np.float64
    total = max(float(core.multipliers.sum()) for core in state.cores)
    gap = state.largest_gap if state.measured else 1.0
    is_small = 6e-8 * total <= 0.3 * max(gap, job.settings.tol)
    # In columns of a very wide range float32 does not tell the rows apart.
    is_fine = job.kernel.rounding(state.rows.n_features) < FLOAT32_ROUNDING
    suffices = job.kernel.constant_diagonal and is_small and is_fine
    return np.float32 if suffices else np.float64


def core_rows(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    size: int,
    settings: Settings,
    progress: Progress,
) -> Rows:
    """Return the rows of a core set of `size`, those of most weight if several."""
    own = replace(settings, max_vectors=size)
    job = Job(source, kernel, own, progress, CHOICE_SHARE)
    found = run(problems, job)
    pairs = zip(found.support, found.multipliers, strict=True)
    rows, shares = [], []
    for problem, (entries, b) in zip(problems, pairs, strict=True):
        rows.append(problem.rows_of(entries))
        shares.append(b / max(b.sum(), 1e-300))
    union, place = np.unique(np.concatenate(rows), return_inverse=True)
    if len(union) == 0:  # f = 0 is best: any row spans it
        rng = np.random.default_rng(settings.random_state)
        return source.take(any_row(problems[0], source, kernel, rng))
    mass = np.bincount(place, np.concatenate(shares), minlength=len(union))
    heaviest = np.argsort(-mass, kind="stable")[:size]
    return source.take(np.sort(union[heaviest[mass[heaviest] > 0]]))


def _uses_subsets(job: Job) -> bool:
    """Whether some rows are scanned before all are."""
    is_default = not job.is_paper and job.settings.sampling == "auto"
    return is_default and job.source.n_rows > MAX_ROWS_WITHOUT_SUBSET
