"""Quantile regressions: the pinball loss with a free bias, by the hinge solver.

With the level tau,

    min 1/2 |w|^2 + C sum_i s_i (tau max(0, z_i - f_i) + (1 - tau) max(0, f_i - z_i)),

``f = <w, phi(x)> + b`` (Takeuchi, Le, Sears and Smola 2006). Its dual has two entries
per row, with ``p = +-z`` and the bounds ``C s tau`` above and ``C s (1 - tau)`` below
f, and the sum of the signed multipliers is 0: the bias makes a share tau of the weight
lie below f, up to the rows on it.
"""

from __future__ import annotations

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.backend.arrays import to_numpy
from corevec.kernels import Rows
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult
from corevec.problems.box import BoxProblem
from corevec.problems.task import Task
from corevec.solvers.hinge import BoxSolution, HingeSettings, solve_boxes


def pinball(
    rows: Array, response: Array, upper: Array, level: float, units: str = "z = y"
) -> BoxProblem:
    """Return the regression of a quantile; `upper` holds ``C s`` of each row."""
    name = (
        f"quantile regression at the level {level:g}: min 1/2 |w|^2 + C sum s_i w_i "
        f"|z_i - f_i|, w_i = {level:g} if z_i > f_i else {1 - level:g}, {units}"
    )
    one = np.ones(len(rows))
    return BoxProblem(
        name,
        rows=np.concatenate([rows, rows]),
        sign=np.concatenate([one, -one]),
        linear=np.concatenate([response, -response]),
        upper=np.concatenate([level * upper, (1 - level) * upper]),
    )


def fit_quantiles(task: Task, level: float, progress: Progress) -> FitResult:
    """Return the quantile regression of each response.

    The problems of the task say what is regressed, by which C and with which weights:
    regressions without a tube.
    """
    source, settings = task.source, task.settings
    rows = source.take(source.numbers)
    boxes = []
    for problem in task.problems:
        terms = problem.terms(rows, task.kernel)
        z, upper = to_numpy(terms.target), to_numpy(terms.omega)
        units = problem.name.rpartition(", ")[2]
        boxes.append(pinball(source.numbers, z, upper, level, units))
    asked = HingeSettings(tol=settings.tol, random_state=settings.random_state)
    return result_of_boxes(
        solve_boxes(boxes, source, task.kernel, asked, progress), task
    )


def result_of_boxes(solved: list[BoxSolution], task: Task) -> FitResult:
    """Return the solutions of all problems over the rows that any of them needs."""
    pairs = [one.coefficients() for one in solved]
    used = np.unique(np.concatenate([rows for rows, _ in pairs]))
    if len(used) == 0:  # the constant function is optimal
        used = task.source.numbers[:1]
    coef = np.zeros((len(used), len(solved)))
    for t, (rows, own) in enumerate(pairs):
        coef[np.searchsorted(used, rows), t] = own
    taken = task.source.take(used)
    bias = np.array([one.bias for one in solved])
    basis = Rows(taken.values, used)
    return FitResult(
        functions=KernelExpansion(task.kernel, basis, coef, bias),
        certificates=[one.certificate for one in solved],
        offsets=np.zeros(len(solved)),
        norms_sq=np.array([one.norm_sq for one in solved]),
        support=[rows for rows, _ in pairs],
        multipliers=[np.abs(own) for _, own in pairs],
        n_core=[len(rows) for rows, _ in pairs],
    )
