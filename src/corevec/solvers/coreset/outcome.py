"""The outcome of a run: functions of the core sets, with their certificates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corevec._runtime.enumerations import StopReason
from corevec._runtime.progress import Progress
from corevec.certificates.verify import primal_of
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.result import FitResult
from corevec.solvers.coreset.core import Core
from corevec.solvers.coreset.evaluate import (
    ball_epsilon_reached,
    joint_functions,
    scaled,
)
from corevec.solvers.coreset.state import Job, State


def outcome_of(state: State, job: Job) -> FitResult:
    """Return the functions and certificates, after an exact scan of all rows."""
    cores = state.cores
    # The functions are those whose primal value was measured; the paper does not scale.
    scales = np.array([one.scale for one in state.measured])
    if job.is_paper:
        scales = np.ones(len(cores))
    solutions = [core.solution for core in cores]
    functions = scaled(joint_functions(cores, job.kernel), scales)
    certificates = [certificate(state, t, job) for t in range(len(cores))]
    for t, core in enumerate(cores):
        if core.softened and np.isfinite(certificates[t].primal):
            offset = state.measured[t].offset
            primal = primal_of(core.asked, functions.output(t), offset, job.source)
            job.progress.rows_looked_at += job.source.n_rows
            primal *= core.asked.unit
            certificates[t] = replace(certificates[t], primal=primal)
    return FitResult(
        functions=functions,
        certificates=certificates,
        offsets=np.array([one.offset for one in state.measured]),
        norms_sq=scales**2 * np.array([core.norm_sq for core in cores]),
        support=[entries for entries, _ in solutions],
        multipliers=[multipliers for _, multipliers in solutions],
        n_core=[len(core) for core in cores],
    )


def certificate(state: State, t: int, job: Job) -> Certificate:
    """Return the certificate of problem `t`, after an exact scan of all rows."""
    core, measured, settings = state.cores[t], state.measured[t], job.settings
    assert state.stopped_by is not None
    if np.isinf(measured.primal):
        return _without_upper_bound(core, state.stopped_by, job)
    primal = measured.primal + core.rounding
    primal += core.problem.loss_error(primal, core.value_error)
    dual = max(core.proved, core.problem.least)
    gap = relative_gap(primal, dual, core.cancellation)
    if not core.is_definite():
        return _without_lower_bound(core, primal, state.stopped_by, job.progress)
    reached = ball_epsilon_reached(core, measured.found, state.eta[t])
    if settings.ball_epsilon is None:
        is_met = gap <= settings.tol
    else:
        is_met = reached <= settings.ball_epsilon
    return Certificate.of(
        core.problem.name,
        (primal, dual),
        job.progress,
        unit=core.problem.unit,
        cancelled=core.cancellation,
        kind=core.problem.kind,
        ball_epsilon=reached,
        radius=float(np.sqrt(np.maximum(core.ball(state.eta[t])[0], 0.0))),
        converged=is_met,
        stopped_by=_stop_reason(state.stopped_by, is_met, job),
        tol=float("nan") if job.is_paper else settings.tol,
        rounding=min(gap, relative_gap(primal + core.dual - dual, measured.primal)),
    )


def _stop_reason(stopped_by: StopReason, is_met: bool, job: Job) -> StopReason:
    """Return what stopped one of the problems, which may have met its criterion."""
    if is_met and stopped_by is not StopReason.INTERRUPT:
        return job.criterion
    if not is_met and stopped_by is StopReason.TOL:
        return StopReason.STALL  # the allowance for rounding exceeds the tolerance
    return stopped_by


def _without_upper_bound(core: Core, stopped_by: StopReason, job: Job) -> Certificate:
    """Return the certificate where the time did not suffice for a pass: no primal."""
    is_bound = core.is_definite()
    return Certificate.of(
        core.problem.name,
        (np.inf, core.proved if is_bound else -np.inf),
        job.progress,
        tol=float("nan") if job.is_paper else job.settings.tol,
        unit=core.problem.unit,
        kind=core.problem.kind,
        stopped_by=stopped_by,
        dual_bound="exact" if is_bound else "none",
        n_verified=0,
    )


def _without_lower_bound(
    core: Core, primal: float, stopped_by: StopReason, progress: Progress
) -> Certificate:
    """Return the certificate where the kernel is not positive definite: no bound."""
    problem = core.problem
    lowered = ""
    if core.softened:
        lowered = (
            f" The model is the solution at the weight {problem.slack:.3g} of the "
            "slack, the largest found at which the dual is concave."
        )
    name = (
        f"{problem.name}; the {core.kernel.name} kernel is not positive definite on "
        f"the core rows, so that no lower bound is known.{lowered}"
    )
    is_met = stopped_by in (StopReason.TOL, StopReason.BALL_EPSILON)
    return Certificate.of(
        name,
        (primal, -np.inf),
        progress,
        unit=problem.unit,
        kind=problem.kind,
        stopped_by=StopReason.STALL if is_met else stopped_by,
        dual_bound="none",
        confidence=0.0,
    )
