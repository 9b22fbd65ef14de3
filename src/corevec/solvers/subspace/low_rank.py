"""Solve over all rows in the span of a basis, for kernels of numerically low rank.

On checkerboard-like data a million rows have tens of thousands inside the margin, so
that no small core set can have a small gap; but their kernel matrix has a numerical
rank of 100-200. `models.basis.probe` finds that out with a pivoted Cholesky factor of a
few thousand rows, whose pivots become the basis b_1..b_k. With ``L L' = k(b, b)`` the
features ``phi(x) = L^-1 k(b, x)`` are orthonormal coordinates of the projection P on
the span. There the problem has k variables, and Newton's method needs only the rows
inside the margin.

The certificate is about the true kernel. From the solution, ``beta_i = omega_i max(0,
p_i - y_i f_i)`` is dual feasible, and with ``u = sum beta_i y_i phi_true(x_i)``

    |u|^2 <= |P u|^2 + (sum beta_i delta_i)^2,   delta_i^2 = k_ii - |P phi_i|^2

bounds the dual value from below: rigorous, whatever the basis missed
(docs/mathematics.md, sections 2 and 3).

A round costs one pass, n k kernel values, and k^2 products for each row near the
margin.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from corevec._runtime.progress import RoundState
from corevec._runtime.types import Array
from corevec.backend.arrays import is_among, joined, to_numpy, union
from corevec.certificates.scan import Subset
from corevec.certificates.squared_loss import (
    MOST_MISSING,
    PassRequest,
    Sums,
    all_sums,
    dual_of,
)
from corevec.data.sources import Source
from corevec.kernels import Rows
from corevec.models.basis import MAX_RANK, Basis
from corevec.models.certificate import relative_gap
from corevec.problems.family import Floor, Problem
from corevec.solvers.numeric.design import BasisDesign, capacity, size_of
from corevec.solvers.numeric.primal_newton import (
    NewtonSettings,
    minimise,
    newton_target,
)
from corevec.solvers.numeric.primal_value import primal_value, worst_violation
from corevec.solvers.subspace.result import expansion
from corevec.solvers.subspace.task import SpanTask

# Rows within this distance of the margin are worked on between passes: a full step
# seldom moves a row by more. Of six seeds of the 1M checkerboard, two needed a third
# pass at 0.6, none at 1.0.
WORKING_BAND = 1.0
# After a sample of this many rows they move less: on a GPU, with a thousand million
# rows, a band of 1.0 holds 40 million of them.
LARGE_SAMPLE_ROWS, LARGE_SAMPLE_BAND = 500_000, 0.3
# From zero weights a large weight of the loss is reached in three stages, by these
# shares of it: half the steps at 1e6.
LARGE_WEIGHT, WEIGHT_SHARES = 1e4, (1e-3, 3e-2, 1.0)
# Samples up to this size are worked on as a whole; larger ones at most so many times,
# near their margin.
WHOLE_SAMPLE_ROWS, MAX_SAMPLE_SOLVES = 40_000, 5
# A Newton step over all rows that raises the objective is shortened by this.
BACKTRACK_FACTOR = 0.3
# Bytes that a row near the margin takes: its terms and margins.
WORKING_ROW_BYTES = 64
# A round improves if it leaves at most this share of the gap. So many rounds that do
# not are allowed where the gap is still above FAR_GAP, or where steps are made by
# passes; one otherwise.
IMPROVED_SHARE, FAR_GAP, MAX_FAR_STRIKES = 0.7, 0.5, 3


def _no_rows() -> Array:
    return np.empty(0, dtype=np.int64)


@dataclass
class LowRankFit:
    """The solution of one problem in the span: ``y f = y (w.phi + b0)``, offset t.

    Attributes
    ----------
    v : ndarray
        (w, b0 if there is a bias, t if there is an offset).
    primal, dual : float
        Values over all rows, from the last pass.
    gap_within : float
        The gap without what the bound loses on rows outside the span.
    missed_share, missing :
        The share of ``|u|^2`` that it loses, and the rows that it loses most on.
    work : ndarray
        Rows near the margin, to be worked on; `band` is the distance that counts as
        near, `near_share` the share of such rows in a sample.
    mass : float
        ``sum beta`` on the rows last worked on.
    by_passes : bool
        Whether the steps come from passes over all rows, because the rows near the
        margin do not fit the memory budget; then `newton_point` is the minimiser that
        the last pass predicts, and `incumbent` the weights of the lowest primal value,
        which is `incumbent_primal`.
    newton : NewtonSettings
        When Newton's steps end.
    """

    problem: Problem
    v: Array
    primal: float = np.inf
    dual: float = -np.inf
    gap_within: float = np.inf
    missed_share: float = 0.0
    missing: Array = field(default_factory=_no_rows)
    work: Array = field(default_factory=_no_rows)
    band: float = WORKING_BAND
    near_share: float = 0.0
    mass: float = 0.0
    by_passes: bool = False
    newton_point: Array | None = None
    incumbent: Array | None = None
    incumbent_primal: float = np.inf
    newton: NewtonSettings = field(default_factory=NewtonSettings)

    @property
    def offset(self) -> float:
        """The offset t of the problem, 0 where it has none."""
        return float(self.v[-1]) if self.problem.has_offset else 0.0

    @property
    def gap(self) -> float:
        """Relative duality gap after the last pass."""
        return relative_gap(self.primal, self.dual)

    @property
    def dual_bound(self) -> str:
        """How the dual value was found."""
        return "projection"

    def minimise(self, design: BasisDesign, boost: float = 1.0) -> None:
        """Set the weights that are best for the rows of a design."""
        found = minimise(design, self.v, boost, self.newton)
        self.v, self.mass = found.v, found.mass

    def solve_near_margin(self, source: Source, basis: Basis) -> None:
        """Find the rows near the margin, and minimise over them."""
        self.work, _ = _near_margin(self, source, basis)
        self.solve_working_rows(source, basis)

    def solve_working_rows(self, source: Source, basis: Basis) -> None:
        """Minimise over the rows near the margin, warm-started at the weights."""
        self.minimise(BasisDesign(self.problem, source, basis, self.work))

    def step_by_pass(self) -> None:
        """Take the Newton step; backtrack to the incumbent if the objective rose."""
        assert self.newton_point is not None
        if self.incumbent is None or self.primal <= self.incumbent_primal:
            self.incumbent, self.incumbent_primal = self.v, self.primal
            self.v = self.newton_point
        else:
            self.v = self.incumbent + BACKTRACK_FACTOR * (self.v - self.incumbent)

    def restore_incumbent(self) -> None:
        """Return to the incumbent where it is better than the weights."""
        if self.incumbent is not None and self.incumbent_primal < self.primal:
            self.v, self.primal = self.incumbent, self.incumbent_primal

    def measure(self, sums: Sums, source: Source, basis: Basis) -> None:
        """Set primal, dual and the rows to work on from the sums of a pass."""
        self.primal = primal_value(self.problem, self.v, sums.loss)
        self.dual = dual_of(self.problem, sums, basis)
        if self.by_passes:
            width = len(self.v)
            self.newton_point = newton_target(self.problem, sums.gram, sums.pull, width)
        # Rows that were worked on stay: at large C a solution without them swings back.
        both = union(self.work, sums.work)
        fits_in = len(both) <= capacity(source, len(self.v))
        self.work = both if fits_in else union(self.work[:0], sums.work)
        self.missing = sums.missing
        within = dual_of(self.problem, replace(sums, missed=0.0), basis)
        self.gap_within = relative_gap(self.primal, within)
        self.missed_share = sums.missed**2 / max(2 * self.primal, 1e-300)

    def cut_to(self, k: int, n_before: int) -> None:
        """Drop the weights of the basis vectors from the k-th on."""
        self.v = np.concatenate([self.v[:k], self.v[n_before:]])

    def extend(self, k: int, n_added: int) -> None:
        """Add zero weights for new basis vectors after the first k."""

        def extended(v: Array) -> Array:
            return np.concatenate([v[:k], np.zeros(n_added), v[k:]])

        self.v = extended(self.v)
        if self.newton_point is not None:
            self.newton_point = extended(self.newton_point)
        if self.incumbent is not None:
            self.incumbent = extended(self.incumbent)


@dataclass
class _Rounds:
    """The fits, the basis that they use, and how the gap has fallen so far."""

    task: SpanTask
    max_basis: int
    fits: list[LowRankFit]
    basis: Basis
    best_gap: float = np.inf
    strikes: int = 0

    @property
    def gap(self) -> float:
        """The largest relative gap of the fits."""
        return max(fit.gap for fit in self.fits)

    @property
    def on_rows(self) -> list[LowRankFit]:
        """The fits whose rows near the margin fit the memory budget."""
        return [fit for fit in self.fits if not fit.by_passes]

    def shorten_basis(self) -> None:
        """Keep the shortest leading part of the basis whose bound can reach `tol`.

        At the optimum ``|u|^2`` is about ``sum beta``, so the bound's ``(sum beta
        delta)^2`` stays below a twentieth of `tol` where ``delta^2 sum(beta)`` does.
        The features are nested, so the weights are cut with the basis.
        """
        mass, n_before = max(fit.mass for fit in self.fits), len(self.basis)
        is_enough = self.basis.residuals * mass <= self.task.tol / 20
        enough = np.flatnonzero(is_enough)
        k = int(enough[0]) if len(enough) else n_before
        if mass <= 0 or not 1 <= k < n_before:
            return
        for fit in self.fits:
            fit.cut_to(k, n_before)
        self.basis = self.basis.leading(k)

    def solve_near_margin(self) -> None:
        """Minimise over the rows that the samples' solutions place near the margin.

        What the samples leave on the other rows is no certificate yet: only the rows'
        place is wanted, which costs half of a pass that measures.
        """
        for fit in self.on_rows:
            fit.solve_near_margin(self.task.source, self.basis)
        self.task.count_pass()

    def measure(self) -> None:
        """Set primal and dual of the fits that are not solved yet; one pass."""
        task, basis, fits = self.task, self.basis, self.fits
        open_fits = [fit for fit in fits if not fit.gap <= task.tol]
        if not open_fits:
            return
        for fit, sums in zip(
            open_fits, _sums_of(open_fits, task.source, basis), strict=True
        ):
            fit.measure(sums, task.source, basis)
        task.count_pass()
        task.progress.record(
            RoundState(
                lambda: expansion(fits, basis), offsets=lambda: offsets_of(fits)
            ),
            core=len(basis),
            support=len(basis),
            gap=self.gap,
            dual=sum(fit.problem.unit * fit.dual for fit in fits),
            looked_at=task.source.n_rows,
            exact=True,
        )

    def extended_basis(self) -> Basis:
        """Return the basis with pivots among the rows that the bound loses most on.

        Only where what it loses outside the span stands between a fit and `tol`. A
        probe of a few thousand rows does not see the tails of a million; in one-class
        problems those are the rows with multipliers.
        """
        tol, basis = self.task.tol, self.basis
        is_lossy = any(f.gap > tol and f.missed_share > tol / 4 for f in self.fits)
        if not is_lossy or len(basis) + MOST_MISSING > self.max_basis:
            return basis
        rows = np.unique(np.concatenate([fit.missing for fit in self.fits]))
        return basis.extended(self.task.source.take(rows)) if len(rows) else basis

    def stop_reason(self, is_extended: bool) -> str | None:
        """Return why the rounds end, or None; "stall" also where they are solved."""
        if self.gap <= self.task.tol or self._has_stalled(is_extended):
            return "stall"
        if not is_extended and self._is_solved_within():
            return "stall"  # only a better bound is missing
        spent = self.task.progress.spent()
        if spent is not None:
            return spent
        most = max(len(fit.work) for fit in self.fits)
        if most > self.task.source.working_budget / WORKING_ROW_BYTES:
            return "stall"  # the rows near the margin do not fit: the core set's turn
        return None

    def _has_stalled(self, is_extended: bool) -> bool:
        """Whether too many rounds have not improved the gap; counts this one."""
        improves = self.gap <= IMPROVED_SHARE * self.best_gap or is_extended
        self.strikes = 0 if improves else self.strikes + 1
        # Far from the optimum a round may only move the rows that are in the way.
        is_near = self.best_gap < FAR_GAP and self.on_rows
        self.best_gap = min(self.best_gap, self.gap)
        return self.strikes >= (1 if is_near else MAX_FAR_STRIKES)

    def _is_solved_within(self) -> bool:
        """Whether the problems are solved as far as this span allows."""
        return all(fit.gap_within <= self.task.tol / 4 for fit in self.fits)

    def use(self, longer: Basis) -> None:
        """Go on with a longer basis."""
        for fit in self.fits:
            fit.extend(len(self.basis), len(longer) - len(self.basis))
        self.basis = longer

    def step(self) -> None:
        """Improve the weights of the fits that are not solved yet."""
        for fit in self.fits:
            if not fit.gap > self.task.tol:
                continue
            if fit.by_passes:
                fit.step_by_pass()
            else:
                fit.solve_working_rows(self.task.source, self.basis)


def solve(
    task: SpanTask,
    samples: list[Array],
    start: list[Array] | None = None,
    max_basis: int = 2 * MAX_RANK,
) -> tuple[list[LowRankFit], Basis, str]:
    """Return the solutions, the basis that they use, and what stopped the rounds.

    Parameters
    ----------
    task : SpanTask
        Its basis is cut to the leading part that suffices, and extended where that
        helps the bound.
    samples : list of ndarray
        Growing samples of row numbers that are solved first; each row stands for n/m
        rows.
    start : list of ndarray, optional
        Weights to begin with instead; `samples` then only tells how many rows are near
        the margin.
    max_basis : int
        Basis vectors at most.
    """
    fits = _solve_samples(task, samples, start)
    rounds = _Rounds(task, max_basis, fits, task.basis)
    rounds.shorten_basis()
    for fit in fits:
        fit.by_passes = not _fits_in_memory(fit, task.source)
    if rounds.on_rows and samples and len(samples[-1]) < task.source.n_rows / 2:
        rounds.solve_near_margin()
    while True:
        rounds.measure()
        longer = rounds.extended_basis()
        stopped_by = rounds.stop_reason(len(longer) > len(rounds.basis))
        if stopped_by is not None:
            break
        rounds.use(longer)
        rounds.step()
    for fit in fits:
        fit.restore_incumbent()
    return fits, rounds.basis, stopped_by


def _solve_samples(
    task: SpanTask, samples: list[Array], start: list[Array] | None
) -> list[LowRankFit]:
    """Return the fits with weights solved on the samples, or those of `start`."""
    source, basis = task.source, task.basis
    fits = []
    for t, problem in enumerate(task.problems):
        if start is None:
            fit = LowRankFit(problem, np.zeros(size_of(problem, basis)))
            for sample in samples:
                _solve_sample(fit, source, basis, sample)
                fit.newton = task.newton  # the smallest sample is solved in any case
                if fit.newton.is_out_of_time:
                    break
        else:
            fit = LowRankFit(problem, start[t], newton=task.newton)
            for sample in samples[:1]:
                near, _ = _near_margin(fit, _view(source, sample), basis)
                fit.near_share = len(near) / len(sample)
        fits.append(fit)
    return fits


def _fits_in_memory(fit: LowRankFit, source: Source) -> bool:
    """Whether the rows near the margin fit the memory budget.

    Their numbers do, and the rows themselves if they are out-of-core.
    """
    expected = fit.near_share * source.n_rows
    few_enough = expected <= source.working_budget / WORKING_ROW_BYTES
    return few_enough and source.holds(int(expected))


def _view(source: Source, sample: Array) -> Source:
    """Return the rows of a sample, to be scanned several times."""
    return source.subset(sample, Subset)


def _solve_sample(fit: LowRankFit, source: Source, basis: Basis, sample: Array) -> None:
    """Solve on a sample whose rows stand for n/m rows each.

    A large sample is worked on near its margin only, as all rows will be.
    """
    boost = source.n_rows / len(sample)
    if len(sample) <= WHOLE_SAMPLE_ROWS:
        _solve_whole_sample(fit, source, basis, sample)
        return
    if len(sample) >= LARGE_SAMPLE_ROWS:
        fit.band = min(fit.band, LARGE_SAMPLE_BAND)
    view, work = _view(source, sample), _no_rows()
    for _ in range(MAX_SAMPLE_SOLVES):
        near, violated = _near_margin(fit, view, basis)
        fit.near_share = len(near) / view.n_rows
        if bool(is_among(violated, work).all()):
            break
        both = union(work, near)
        work = both if len(both) <= capacity(source, len(fit.v)) else near
        fit.minimise(BasisDesign(fit.problem, source, basis, work), boost)


def _solve_whole_sample(
    fit: LowRankFit, source: Source, basis: Basis, sample: Array
) -> None:
    """Solve on all rows of a small sample; set the band of rows near the margin."""
    boost = source.n_rows / len(sample)
    design = BasisDesign(fit.problem, source, basis, sample)
    is_large = boost * float(design.terms.omega.max()) > LARGE_WEIGHT
    for share in WEIGHT_SHARES if is_large and not fit.v.any() else (1.0,):
        fit.minimise(design, share * boost)
    violation = to_numpy(design.terms.target - design.times(fit.v))
    worst = violation.reshape(len(fit.problem.sides), -1).max(axis=0)
    max_share = 0.7 * capacity(source, design.width) / source.n_rows
    fit.band = _band(worst, max_share)
    fit.near_share = float(np.mean(worst > -fit.band))


def _near_margin(fit: LowRankFit, source: Source, basis: Basis) -> tuple[Array, Array]:
    """Return the rows near the margin, and those inside it; one pass."""
    ready = expansion([fit], basis).ready()
    problem, offset, band, kernel = fit.problem, fit.offset, fit.band, basis.kernel

    def score(rows: Rows) -> tuple[Array, Array]:
        values = ready(rows)[:, 0]
        violation = worst_violation(problem, offset, rows, values, kernel)
        return rows.index[violation > -band], rows.index[violation > 0]

    def merge(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return joined([a[0], b[0]]), joined([a[1], b[1]])

    return source.reduce(score, merge)


def _band(violation: Array, max_share: float) -> float:
    """Return how near to the margin rows are worked on: `WORKING_BAND`, or less.

    Where most rows are that near (a one-class function is flat just above 1), the band
    shrinks to four times as many rows as are violated, and a fiftieth of all.
    `violation` is that of a random sample; `max_share` is the share of rows whose
    design fits in memory, respected if that still is more than the violated rows.
    """
    inside = float(np.mean(violation > 0))
    share = 4 * inside + 0.02
    if max_share > 1.2 * inside:
        share = min(share, max_share)
    if share >= 1:
        return WORKING_BAND
    return float(np.clip(-np.quantile(violation, 1 - share), 0.0, WORKING_BAND))


def _sums_of(fits: list[LowRankFit], source: Source, basis: Basis) -> list[Sums]:
    """Return what one pass over all rows adds up for each fit."""
    # By passes no row is worked on in memory.
    bands = [-np.inf if fit.by_passes else fit.band for fit in fits]
    newton = any(fit.by_passes for fit in fits)
    requests = [
        PassRequest(fit.problem, fit.offset, band, newton=newton)
        for fit, band in zip(fits, bands, strict=True)
    ]
    return all_sums(requests, expansion(fits, basis), source, basis)


def radius_sq(fit: LowRankFit, basis: Basis) -> float:
    """Return R^2 of a soft ball; 0 for problems that are no ball."""
    if fit.problem.floor is not Floor.RADIUS:
        return 0.0
    w = fit.v[: len(basis)]
    return 2 * fit.offset + float(w @ w)


def offsets_of(fits: list[LowRankFit]) -> Array:
    """Return the offset of each fit."""
    return np.array([fit.offset for fit in fits])
