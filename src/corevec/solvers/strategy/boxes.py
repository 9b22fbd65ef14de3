"""Losses with a free bias, on all rows: the problems of SVC, SVR and OneClassSVM.

A problem of the family (`problems/family.py`) says which rows have which sign, target
and weight. A *form* reads it with the hinge in place of its square, as a problem of
`problems/box.py`, which the hinge solver solves. Quantile regression has the pinball
loss: with the level tau,

    min 1/2 |w|^2 + C sum_i s_i (tau max(0, z_i - f_i) + (1 - tau) max(0, f_i - z_i)),

``f = <w, phi(x)> + b`` (Takeuchi, Le, Sears and Smola 2006). Its dual has two entries
per row, with ``p = +-z`` and the bounds ``C s tau`` above and ``C s (1 - tau)`` below
f, and the sum of the signed multipliers is 0: the bias makes a share tau of the weight
lie below f, up to the rows on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.backend.arrays import to_numpy
from corevec.certificates import without_lower_bound
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult
from corevec.problems import (
    BoxProblem,
    c_svc,
    epsilon_svr,
    nu_svr,
    numbered,
    one_class_nu,
)
from corevec.problems.family import Problem, Terms
from corevec.problems.task import Task
from corevec.solvers.hinge import (
    BoxSolution,
    HingeSettings,
    joint_functions,
    solve_boxes,
)

# Reads the terms of all rows, whose numbers are given, as a problem.
Form = Callable[[Problem, Terms, Array], BoxProblem]


def classification(problem: Problem, terms: Terms, rows: Array) -> BoxProblem:
    """Return the problem of `SVC`."""
    return c_svc(rows, terms.sign, terms.omega)


def regression(problem: Problem, terms: Terms, rows: Array) -> BoxProblem:
    """Return the problem of `SVR`; with an automatic tube that of `NuSVR`, nu = mu."""
    z, upper = terms.target + problem.tube, terms.omega
    if problem.has_offset:
        nu = problem.price / float(upper.sum())
        found = nu_svr(rows, z, upper, nu, problem.slack)
    else:
        found = epsilon_svr(rows, z, upper, problem.tube)
    return replace(found, name=f"{found.name}, {_units_of(problem)}")


def one_class(problem: Problem, terms: Terms, rows: Array, *, nu: float) -> BoxProblem:
    """Return the problem of `OneClassSVM`; the bias is minus its rho."""
    return one_class_nu(rows, terms.omega, nu)


def pinball(problem: Problem, terms: Terms, rows: Array, *, level: float) -> BoxProblem:
    """Return the regression of a quantile."""
    z, upper = terms.target, terms.omega
    name = (
        f"quantile regression at the level {level:g}: min 1/2 |w|^2 + C sum s_i w_i "
        f"|z_i - f_i|, w_i = {level:g} if z_i > f_i else {1 - level:g}, "
        f"{_units_of(problem)}"
    )
    one = np.ones(len(rows))
    return BoxProblem(
        name,
        rows=np.concatenate([rows, rows]),
        sign=np.concatenate([one, -one]),
        linear=np.concatenate([z, -z]),
        upper=np.concatenate([level * upper, (1 - level) * upper]),
    )


def _units_of(problem: Problem) -> str:
    """Return what z is, as the problem of a regression says it."""
    return problem.name.rpartition(", ")[2]


def fit_boxes(task: Task, form: Form, progress: Progress) -> FitResult:
    """Return the machine of each problem of a task, read as `form` says.

    The multipliers of an earlier fit on the same rows are the start.
    """
    source, settings, warm = task.source, task.settings, task.warm
    boxes = [_read(form, one, source, task.kernel) for one in task.problems]
    starts: list[Array | None] = [None] * len(boxes)
    if warm is not None and warm.same_rows and len(warm.support) == len(boxes):
        pairs = zip(warm.support, warm.multipliers, strict=True)
        starts = [_start(box, *pair) for box, pair in zip(boxes, pairs, strict=True)]
    asked = HingeSettings(tol=settings.tol, random_state=settings.random_state)
    found = _result(
        solve_boxes(boxes, source, task.kernel, asked, progress, starts), task
    )
    found.method = (
        f"exact: all {source.n_rows:,} rows, {len(found.functions.basis):,} of them "
        "support vectors; free bias, by decomposition"
    )
    return found


def _read(
    form: Form, problem: Problem, source: Source, kernel: AnyKernel
) -> BoxProblem:
    """Return one problem with the numbers of all rows in memory."""
    blocks = [source.block(*bounds) for bounds in source.blocks()]
    terms = Terms.join([problem.terms(rows, kernel) for rows in blocks])
    numbers = [to_numpy(one) for one in (terms.sign, terms.omega, terms.target)]
    return form(problem, Terms(*numbers), source.numbers)


def _start(box: BoxProblem, entries: Array, multipliers: Array) -> Array | None:
    """Return multipliers of all entries; None where there is nothing to start from."""
    if len(entries) == 0 or entries.max() >= len(box.rows):
        return None
    start = np.zeros(len(box.rows))
    start[entries] = multipliers
    return start


def _result(solved: list[BoxSolution], task: Task) -> FitResult:
    """Return the solutions of all problems over the rows that any of them needs.

    The offset of a nu regression is its tube.
    """
    pairs = [one.coefficients() for one in solved]
    bias = np.array([one.bias for one in solved])
    entries = [np.flatnonzero(one.multipliers) for one in solved]
    return FitResult(
        functions=joint_functions(pairs, bias, task.source, task.kernel),
        certificates=[one.certificate for one in solved],
        offsets=np.array([0.0 - one.width for one in solved]),
        norms_sq=np.array([one.norm_sq for one in solved]),
        support=entries,
        multipliers=[
            one.multipliers[own] for one, own in zip(solved, entries, strict=True)
        ],
        n_core=[len(rows) for rows, _ in pairs],
    )


@dataclass(frozen=True)
class Given:
    """A function to certify: one of a model, with its offset and multipliers.

    `known` holds entries and their multipliers where those of the model belong to
    the rows.
    """

    function: KernelExpansion
    offset: float = 0.0
    known: tuple[Array, Array] | None = None


def certify_box(
    form: Form, problem: Problem, given: Given, source: Source, tol: float
) -> Certificate:
    """Return the certificate of a function for one problem on all rows of `source`.

    The primal value is one pass. For the dual value the hinge solver starts at the
    multipliers of the model, or at those that its violations imply, and goes on to
    `tol`: on the rows of the fit nothing is left to do, on others it is a fit.
    """
    function, kernel = given.function, given.function.kernel
    box = _read(form, problem, source, kernel)
    bias, offset = float(function.intercept[0]), given.offset
    biases = np.array([bias + offset, bias - offset])[: len(box.totals)]
    if len(box.totals) == 1:
        biases = np.array([bias])
    place = numbered(box.rows)[1]
    values = np.zeros(len(box.rows))
    if len(function.basis):
        values = function.values(source)[:, 0][place] - bias
    primal = box.primal(values, biases, float(function.norms_sq()[0]))
    primal += float(function.value_errors()[0] * box.upper.sum())
    start = None if given.known is None else _start(box, *given.known)
    if start is None:
        slack = box.slack(values, biases)
        signed = np.where(slack > 0, box.sign * box.upper, 0.0)
        start = box.sign * box.feasible(signed, last=np.abs(slack))
    progress = Progress(source.n_rows)
    asked = HingeSettings(tol=tol)
    found = solve_boxes([box], source, kernel, asked, progress, [start])[0].certificate
    certificate = Certificate.of(box.name, (primal, found.dual), progress, tol=tol)
    if found.dual_bound == "none":
        return without_lower_bound(certificate, kernel)
    return certificate


__all__ = [
    "Form",
    "Given",
    "certify_box",
    "classification",
    "fit_boxes",
    "one_class",
    "pinball",
    "regression",
]
