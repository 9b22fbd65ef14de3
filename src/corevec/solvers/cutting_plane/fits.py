"""The hinge loss by cutting planes: Algorithms 1 and 3 of the CPSP paper, certified.

What differs between the algorithms is the space in which the loop (``loop.py``) runs:
the span of a basis that is given (Algorithm 1 in its coordinates), or of one that grows
with the cuts (Algorithm 3, CPSP). The certificate is that of the full problem
(``certificates/hinge.py``), whatever the span misses.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.certificates.dual_bounds import AFFORDABLE, BoundRequest, DualBound
from corevec.certificates.hinge import HingeProblem, primal_value
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.basis import Basis
from corevec.models.certificate import Certificate
from corevec.models.result import FitResult
from corevec.solvers.cutting_plane.loop import (
    Rules,
    Space,
    State,
    cutting_planes,
    rescale,
)
from corevec.solvers.cutting_plane.spaces import (
    GrowingSpan,
    Growth,
    part_in_time,
    span_of,
)

# |u|^2 is also summed exactly where that costs no more kernel values than this many
# passes over the rows.
EXACT_PASSES = 30


@dataclass(frozen=True)
class HingeTask:
    """A hinge problem with its rows, and how it is to be solved and certified.

    Attributes
    ----------
    problem : HingeProblem
        The problem; its C is scikit-learn's times the sum of the weights.
    source : Source
        Rows in memory.
    kernel : Kernel
        The kernel.
    rules : Rules
        When the rounds stop.
    certificate : {"auto", "exact", "projection", "sample"}
        How the dual value is obtained.
    rng : Generator, optional
        Random numbers of pre-images and of a sampled certificate.
    """

    problem: HingeProblem
    source: Source
    kernel: AnyKernel
    rules: Rules
    certificate: str = "auto"
    rng: np.random.Generator | None = None


@dataclass
class HingeOutcome(FitResult):
    """The result of a hinge fit, with the quantities of the paper's theorems.

    Attributes
    ----------
    beta : ndarray of shape (n_rows,)
        Dual multipliers of all rows, inside the box ``[0, C s_i]``.
    delta : float
        Theorem 2: the largest ``|Psi_i - Psi_hat_i|`` of a cut that is left, or an
        upper bound of it where that would cost too much; 0 where the space holds
        every cut. Also in the last record of the history.
    epsilon : float
        By how much the risk of w exceeds the slack of the last model (line 19).
    slack : float
        That slack xi.
    """

    beta: Array = field(default_factory=lambda: np.empty(0))
    delta: float = 0.0
    epsilon: float = float("nan")
    slack: float = float("nan")


def solve_in_basis(
    task: HingeTask, basis: Basis, progress: Progress | None = None
) -> HingeOutcome:
    """Return the hinge machine in the span of `basis` (Algorithm 1 in its coordinates).

    The whitened features are cached for all rows where they fit half of the memory
    budget, otherwise recomputed block by block. Where a time limit is near, the leading
    vectors of the basis have to do.
    """
    if progress is not None:
        basis = part_in_time(task.source, basis, progress)
    space = span_of(task.source, basis, task.problem.has_bias)
    return solve_in(space, task, progress)


def solve_pursuit(
    task: HingeTask, growth: Growth, progress: Progress | None = None
) -> HingeOutcome:
    """Return the hinge machine in a span that grows with the cuts (Algorithm 3, CPSP).

    Where the rules are the paper's, the rounds stop before ``growth.n_basis`` vectors
    once the problem in the span is solved; otherwise the span grows to that size.
    """
    rng = task.rng or np.random.default_rng(0)
    given = task.source, task.kernel, task.problem
    space = GrowingSpan(*given, growth, rng)
    return solve_in(space, replace(task, rng=rng), progress)


def solve_in(
    space: Space, task: HingeTask, progress: Progress | None = None
) -> HingeOutcome:
    """Return the hinge machine in any space, with the certificate of the full one."""
    problem, source = task.problem, task.source
    progress = progress or Progress(source.n_rows)
    state, stopped_by = cutting_planes(problem, space, task.rules, progress)
    if not task.rules.is_literal:
        rescale(state)
    functions, norm_sq = space.expansion(state.best.weights)
    primal = primal_value(problem, functions, source)
    progress.rows_looked_at += source.n_rows
    affordable = _affordable(space, source, progress)
    beta = state.cuts.row_share() * problem.omega / problem.C
    request = BoundRequest(task.certificate, affordable, rng=task.rng)
    bound = space.dual_bound(problem, beta, request)
    delta = _largest_distance(space, state, affordable)
    progress.history[-1]["delta"] = delta
    found = _certificate(task, (primal, bound), delta, progress, stopped_by)
    return HingeOutcome(
        functions=functions,
        certificates=[found],
        offsets=np.zeros(1),
        norms_sq=np.array([norm_sq]),
        support=[functions.basis.index],
        multipliers=[],
        n_core=[len(functions.basis)],
        beta=np.clip(bound.scale * beta, 0.0, problem.omega),
        delta=delta,
        epsilon=state.excess,
        slack=state.cuts.slack,
    )


def _affordable(space: Space, source: Source, progress: Progress) -> float:
    """Return the kernel values that the certificate may cost."""
    if progress.spent() is not None:
        return AFFORDABLE / 2  # little, once the time is spent
    return max(AFFORDABLE, EXACT_PASSES * float(source.n_rows) * float(space.size))


def _largest_distance(space: Space, state: State, affordable: float) -> float:
    """Return Theorem 2's delta, 0 where there is no cut or no basis."""
    if not len(state.cuts) or not space.size:
        return 0.0
    return space.largest_distance(state.problem, state.cuts, affordable)


def _certificate(
    task: HingeTask,
    bounds: tuple[float, DualBound],
    delta: float,
    progress: Progress,
    stopped_by: str,
) -> Certificate:
    primal, dual = bounds
    name = task.problem.name
    if delta > 0:
        name = f"{name}; cuts within delta = {delta:.3g} of the span"
    return Certificate.of(
        name,
        (primal, dual.value),
        progress,
        tol=task.rules.tol,
        stopped_by=stopped_by,
        dual_bound=dual.kind,
        confidence=dual.confidence,
        n_verified=task.source.n_rows,
        n_rows=task.source.n_rows,
    )
