"""A task solved by the core set, started from what an earlier fit left."""

from __future__ import annotations

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.certificates.scan import ScanRequest, Subset, scan
from corevec.data.sources import Source
from corevec.models.result import FitResult
from corevec.problems.family import Problem
from corevec.problems.task import Task
from corevec.solvers.coreset import loop
from corevec.solvers.coreset.selection import FIRST_SUBSET
from corevec.solvers.coreset.state import Job


def by_core_set(
    task: Task, progress: Progress, may_fall_back: bool = False
) -> FitResult:
    """Return what the core set reaches; `may_fall_back`: a basis can come after it."""
    job = Job(task.source, task.kernel, task.settings, progress)
    return loop.run(task.problems, job, _warm_cores(task), may_fall_back)


def _warm_cores(task: Task) -> list[tuple[Array, Array]] | None:
    """Return first core rows: the old ones, or the rows the old functions fail on."""
    warm, problems, source = task.warm, task.problems, task.source
    if warm is None or warm.functions.coef.shape[1] != len(problems):
        return None
    if warm.same_rows and len(warm.multipliers) == len(problems):
        pairs = zip(problems, warm.support, warm.multipliers, strict=True)
        return [_still_there(*pair, task) for pair in pairs]
    view: Source = source
    if source.n_rows > loop.MAX_ROWS_WITHOUT_SUBSET:
        rng = np.random.default_rng(task.settings.random_state)
        view = Subset(source, source.draw(rng, FIRST_SUBSET))
    nothing = np.empty(0, dtype=np.int64)
    questions = [ScanRequest(problem, nothing, n_worst=100) for problem in problems]
    looks = scan(view, warm.functions, questions)
    return [(seen.worst, np.zeros(len(seen.worst))) for seen in looks]


def _still_there(
    problem: Problem, entries: Array, b: Array, task: Task
) -> tuple[Array, Array]:
    """Return the old core entries that have a positive weight in the new problem."""
    rows = task.source.take(problem.rows_of(entries))
    keep = problem.terms(rows, task.kernel).omega > 0
    return entries[keep], b[keep]
