"""SVC's own problem, the hinge loss and a free bias, on all rows."""

from __future__ import annotations

from corevec._runtime.progress import Progress
from corevec.backend.arrays import to_numpy
from corevec.models.result import FitResult
from corevec.problems.box import c_svc
from corevec.problems.task import Task
from corevec.solvers.hinge import HingeSettings, solve_boxes
from corevec.solvers.strategy.quantile import result_of_boxes


def fit_svc(task: Task, progress: Progress) -> FitResult:
    """Return the machine of each two-class problem, with the hinge as its loss.

    The problems of the task say which rows have which sign, with which C s.
    """
    source, settings = task.source, task.settings
    rows = source.take(source.numbers)
    boxes = []
    for problem in task.problems:
        terms = problem.terms(rows, task.kernel)
        sign, upper = to_numpy(terms.sign), to_numpy(terms.omega)
        boxes.append(c_svc(source.numbers, sign, upper))
    asked = HingeSettings(tol=settings.tol, random_state=settings.random_state)
    solved = solve_boxes(boxes, source, task.kernel, asked, progress)
    found = result_of_boxes(solved, task)
    found.method = (
        f"exact: all {source.n_rows:,} rows, {len(found.functions.basis):,} of them "
        "support vectors; hinge loss and free bias by decomposition"
    )
    return found
