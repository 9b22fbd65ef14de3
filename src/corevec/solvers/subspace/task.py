"""What a solver in the span of a basis is given, and how it works."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from corevec._runtime.progress import Progress
from corevec.data.sources import Source
from corevec.models.basis import Basis
from corevec.problems.family import Problem
from corevec.solvers.numeric.deadline import Deadline
from corevec.solvers.numeric.primal_newton import NewtonSettings


@dataclass(frozen=True)
class SpanMethod:
    """How `iterative.solve` solves for the weights of all rows.

    Attributes
    ----------
    sample_rows_per_vector : int
        Rows of the sample for each basis vector. 2.5 took 30 rounds at C = 100, where
        the sample alone is fitted too closely.
    sample_products : float
        More rows than that while the sample's Hessian costs no more products.
    sample_steps : int
        Newton steps on a sample, which is a warm start and a metric: a few will do.
    whole_steps : int
        Newton steps where the sample is all rows, whose minimum is the solution.
    sample_time_share : float
        Where there is a time limit: the sample is so small that its solution takes at
        most this share of the time that is left.
    probed_rows : int
        Rows whose design and sum of squares are timed to tell how many these are.
    design_rows : int or None
        Design rows that fit in memory; None: as many as the memory budget holds.
    near_margins : tuple of float
        Rows that are right by more than the first, beyond their margin, are not worked
        on again; by more than the next ones where the others do not fit. MNIST in rows
        of unit length, ten classes, 4000 vectors: 20 rounds over all rows, half of the
        fit, where 0.25 alone was tried.
    max_margin_solves : int
        Times that a classifier is solved on some rows, those near the margin (but for
        a random sample where nothing is known yet), before the rounds over all rows.
    draws_at_once : int
        Random numbers drawn at a time: 32 MB.
    hessian_budget_divisor : float
        Hessians of several problems are stored in float32 where they would take more
        than this part of the memory budget: ten of 4000 vectors have 1.3 GB in float64.
    min_relative_decrease, min_decrease_of_tol : float
        The rounds end where the next step is predicted to lower the objective by less
        than this share of it, or less than this share of `tol`.
    max_rounds : int
        Rounds over all rows.
    newton : NewtonSettings
        Where Newton's line search runs, and when it ends on all rows.
    """

    sample_rows_per_vector: int = 5
    sample_products: float = 2e10
    sample_steps: int = 4
    whole_steps: int = 50
    sample_time_share: float = 0.4
    probed_rows: int = 256
    design_rows: int | None = None
    near_margins: tuple[float, ...] = (0.25, 0.12, 0.06)
    max_margin_solves: int = 4
    draws_at_once: int = 1 << 22
    hessian_budget_divisor: float = 4
    min_relative_decrease: float = 1e-5
    min_decrease_of_tol: float = 0.05
    max_rounds: int = 30
    newton: NewtonSettings = field(default_factory=NewtonSettings)

    def min_decrease(self, tol: float) -> float:
        """Return the predicted relative decrease below which the rounds end."""
        return max(self.min_relative_decrease, self.min_decrease_of_tol * tol)


@dataclass(frozen=True)
class SpanTask:
    """Problems to be solved over all rows of a source, in the span of a basis."""

    problems: list[Problem]
    source: Source
    basis: Basis
    tol: float
    progress: Progress
    rng: np.random.Generator
    method: SpanMethod = field(default_factory=SpanMethod)

    @property
    def newton(self) -> NewtonSettings:
        """When Newton's steps end: at the time limit at the latest."""
        return replace(self.method.newton, deadline=Deadline.of(self.progress))

    def count_pass(self) -> None:
        """Add one pass over all rows to the progress."""
        self.progress.rows_looked_at += self.source.n_rows
