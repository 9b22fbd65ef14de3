"""The hinge loss by cutting planes: Algorithms 1, 2 and 3 of the CPSP paper.

One function per job. What differs is the space in which the loop (``planes``) runs:
whitened coordinates of a basis that is given (Algorithm 1 there) or grows (3, CPSP);
the columns of the rows (1, linear); all of the kernel's space (2). The certificate is
that of the full problem (``hinge_bounds``), whatever the span misses.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.certificates.hinge import (
    DualBound,
    HingeProblem,
    dual_value,
    hinge_problem,
    primal_value,
)
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.basis import Basis
from corevec.models.certificate import Certificate
from corevec.models.result import FitResult
from corevec.problems.family import Labels
from corevec.solvers.cutting_plane.loop import Rules, cutting_planes, rescale
from corevec.solvers.cutting_plane.spaces import Columns, WholeSpace
from corevec.solvers.cutting_plane.spans import GrowingSpan, Span

# |u|^2 is summed exactly up to this many kernel values, or as many as this many passes
# over the rows have cost (as in subspace.py).
EXACT_VALUES, EXACT_PASSES = 1e9, 30


@dataclass
class HingeOutcome(FitResult):
    """What a hinge fit hands back, with what the paper's theorems speak of.

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
    n_cuts : int
        Cuts left at the end.
    """

    beta: Array = field(default_factory=lambda: np.empty(0))
    delta: float = 0.0
    epsilon: float = float("nan")
    slack: float = float("nan")
    n_cuts: int = 0


def fit_in_basis(
    labels: Labels,
    C: float,
    positive: int,
    negative: int | None,
    source: Source,
    basis: Basis,
    *,
    has_bias: bool = True,
    tol: float = 1e-3,
    certificate: str = "auto",
    progress: Progress | None = None,
    rng: np.random.Generator | None = None,
    epsilon: float | None = None,
    span: Span | None = None,
) -> HingeOutcome:
    """Return the hinge machine in the span of `basis` (Algorithm 1 there).

    Parameters
    ----------
    labels, C, positive, negative : as in `hinge_bounds.hinge_problem`
        The problem; C is scikit-learn's.
    basis : Basis
        Its whitened features are kept for all rows where they fit half of the memory
        budget, otherwise made again block by block.
    tol : float
        Relative duality gap of the full problem to reach.
    certificate : {"auto", "exact", "projection", "sample"}
        How the dual value is obtained.
    epsilon : float, optional
        The paper's precision: run its algorithm to the letter and stop by its rule.
    span : Span, optional
        ``Span(source, basis, has_bias)``, where several classes share its features.
    """
    problem = hinge_problem(labels, C, positive, negative, source, has_bias=has_bias)
    space = span or Span(source, basis, has_bias)
    job = _Job(problem, source, basis.kernel, certificate, rng)
    return job.run(space, Rules(tol, epsilon), progress)


def fit_pursuit(
    labels: Labels,
    C: float,
    positive: int,
    negative: int | None,
    source: Source,
    kernel: AnyKernel,
    n_basis: int,
    *,
    from_training_rows: bool = False,
    per_cut: int = 1,
    delta: float | None = None,
    has_bias: bool = False,
    tol: float = 1e-3,
    certificate: str = "auto",
    progress: Progress | None = None,
    rng: np.random.Generator | None = None,
    epsilon: float | None = None,
) -> HingeOutcome:
    """Return the hinge machine in a span that grows with the cuts (Algorithm 3, CPSP).

    Parameters
    ----------
    n_basis : int
        The paper's k_max.
    from_training_rows : bool
        CPSP(tr): new vectors are the best of 59 random rows, not pre-images.
    per_cut : int
        New vectors per cut.
    delta : float, optional
        Add vectors until the cut is this near to the span instead (a norm, as in
        Theorem 2); costs the exact norm of every cut.
    epsilon : float, optional
        As in `fit_in_basis`. The paper then stops before `n_basis` where the problem in
        the span is solved; without, the span grows to `n_basis`.
    """
    problem = hinge_problem(labels, C, positive, negative, source, has_bias=has_bias)
    rng = rng or np.random.default_rng(0)
    space = GrowingSpan(source, kernel, problem, n_basis, rng)
    space.from_training_rows, space.per_cut, space.delta = (
        from_training_rows,
        per_cut,
        delta,
    )
    job = _Job(problem, source, kernel, certificate, rng)
    return job.run(space, Rules(tol, epsilon), progress)


def fit_exact(
    labels: Labels,
    C: float,
    positive: int,
    negative: int | None,
    source: Source,
    kernel: AnyKernel,
    *,
    has_bias: bool = False,
    tol: float = 1e-3,
    progress: Progress | None = None,
    epsilon: float | None = None,
) -> HingeOutcome:
    """Return the full kernel machine by Algorithm 2: for few rows, as a witness.

    Holds the kernel matrix of all rows.
    """
    problem = hinge_problem(labels, C, positive, negative, source, has_bias=has_bias)
    space = WholeSpace(source, kernel, has_bias)
    job = _Job(problem, source, kernel, "exact", None)
    return job.run(space, Rules(tol, epsilon), progress)


def fit_linear(
    labels: Labels,
    C: float,
    positive: int,
    negative: int | None,
    source: Source,
    kernel: AnyKernel,
    *,
    has_bias: bool = True,
    tol: float = 1e-3,
    progress: Progress | None = None,
    epsilon: float | None = None,
) -> HingeOutcome:
    """Return the linear machine by Algorithm 1, on dense or CSR rows.

    w is one number per column: the expansion has one basis row, w itself. The dual
    value is exact: ``u = X'(beta y)`` is one pass.
    """
    problem = hinge_problem(labels, C, positive, negative, source, has_bias=has_bias)
    space = Columns(source, kernel, has_bias)
    job = _Job(problem, source, kernel, "exact", None)
    return job.run(space, Rules(tol, epsilon), progress)


@dataclass(frozen=True)
class _Job:
    """A problem with all that its certificate needs."""

    problem: HingeProblem
    source: Source
    kernel: AnyKernel
    certificate: str
    rng: np.random.Generator | None

    def run(self, space: Any, rules: Rules, progress: Progress | None) -> HingeOutcome:
        progress = progress or Progress(self.source.n_rows)
        state, stopped_by = cutting_planes(self.problem, space, rules, progress)
        if not rules.is_literal:
            rescale(state)
        functions, norm_sq = space.expansion(state.best.weights)
        primal = primal_value(self.problem, functions, norm_sq, self.source)
        progress.rows_looked_at += self.source.n_rows
        affordable = self._affordable(space, progress)
        beta = state.cuts.row_share() * self.problem.omega / self.problem.C
        bound = self._dual(space, beta, affordable)
        delta = 0.0
        if len(state.cuts) and space.size:
            delta = space.largest_distance(self.problem, state.cuts, affordable)
        progress.history[-1]["delta"] = delta
        found = self._certify(primal, bound, rules, progress, stopped_by)
        if delta > 0:
            name = f"{found.problem}; cuts within delta = {delta:.3g} of the span"
            found = replace(found, problem=name)
        return HingeOutcome(
            functions=functions,
            certificates=[found],
            offsets=np.zeros(1),
            norms_sq=np.array([norm_sq]),
            support=[functions.basis.index],
            multipliers=[],
            n_core=[len(functions.basis)],
            beta=np.clip(bound.scale * beta, 0.0, self.problem.omega),
            delta=delta,
            epsilon=state.excess,
            slack=state.cuts.slack,
            n_cuts=len(state.cuts),
        )

    def _affordable(self, space: Any, progress: Progress) -> float:
        """Return the kernel values that the certificate may cost."""
        if progress.spent() is not None:
            return EXACT_VALUES / 2  # little, where the time is spent
        passes = EXACT_PASSES * float(self.source.n_rows) * float(space.size)
        return max(EXACT_VALUES, passes)

    def _dual(self, space: Any, beta: Array, affordable: float) -> DualBound:
        if isinstance(space, Columns):
            return space.dual(self.problem, beta)
        return dual_value(
            self.problem,
            beta,
            self.source,
            self.kernel,
            basis=space.basis if space.size else None,
            how=self.certificate,
            affordable=affordable,
            rng=self.rng,
        )

    def _certify(
        self,
        primal: float,
        bound: DualBound,
        rules: Rules,
        progress: Progress,
        stopped_by: str,
    ) -> Certificate:
        return Certificate.of(
            self.problem.name,
            (primal, bound.value),
            progress,
            tol=rules.tol,
            stopped_by=stopped_by,
            dual_bound=bound.kind,
            confidence=bound.confidence,
            n_verified=self.source.n_rows,
            n_rows=self.source.n_rows,
        )
