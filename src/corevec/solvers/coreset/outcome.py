"""The outcome of a run: functions of the core sets, with their certificates."""

from __future__ import annotations

import numpy as np

from corevec._runtime.enumerations import ProblemKind, StopReason
from corevec._runtime.progress import Progress
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
    return FitResult(
        functions=scaled(joint_functions(cores, job.kernel), scales),
        certificates=[certificate(state, t, job) for t in range(len(cores))],
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
    primal = measured.primal + core.rounding
    primal += core.problem.loss_error(primal, core.value_error)
    dual = core.dual - core.rounding
    error = primal - measured.primal + core.rounding
    error = error if core.problem.kind is ProblemKind.BALL else 0.0
    gap = relative_gap(primal, dual, error)
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
        kind=core.problem.kind,
        zero_within=error,
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
