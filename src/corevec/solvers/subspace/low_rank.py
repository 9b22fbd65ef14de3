"""Solving over ALL rows in the span of a few: for kernels of numerically low rank.

On checkerboard-like data a million rows have tens of thousands inside the margin, so
no small core set can have a small gap; but their kernel matrix has numerical rank of
100-200. `probe` finds that out with a pivoted Cholesky factor of a few thousand rows;
its pivots become the basis b_1..b_k. With ``L L' = k(b, b)`` the features
``phi(x) = L^-1 k(b, x)`` are orthonormal coordinates of the projection P on the span.
There the problem has k variables, and Newton's method needs rows inside the margin
only.

The certificate is about the TRUE kernel. From the solution, ``beta_i = omega_i max(0,
p_i - y_i f_i)`` is dual feasible, and with ``u = sum beta_i y_i phi_true(x_i)``

    |u|^2 <= |P u|^2 + (sum beta_i delta_i)^2,   delta_i^2 = k_ii - |P phi_i|^2

bounds the dual value from below: rigorous, whatever the basis missed (design.md 1.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.backend.arrays import full, is_among, joined, namespace, to_numpy, union
from corevec.certificates.projection import MOST_MISSING, all_sums, dual_of
from corevec.certificates.scan import Subset
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Rows
from corevec.models.basis import MAX_RANK, Basis
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Floor, Problem
from corevec.solvers.numeric.design import WorkingRows, capacity, size_of
from corevec.solvers.numeric.primal_newton import minimise, point_of

# Fewer rows than this are solved exactly by the core set in well under a second.
MIN_ROWS = 5000
# Rows within this distance of the margin are worked on between passes: a full step
# seldom moves a row by more. Of six seeds of the 1M checkerboard, two needed a third
# pass at 0.6, none at 1.0.
WORKING_BAND = 1.0
# After a sample of this many rows they move less: on a GPU, with a thousand million
# rows, a band of 1.0 holds 40 million of them.
WELL_KNOWN, NARROW_BAND = 500_000, 0.3
# From zero weights a large C is reached in three stages: half the steps at 1e6.
STEEP, FROM_NOTHING = 1e4, (1e-3, 3e-2, 1.0)
# Samples up to this size are worked on whole.
WHOLE_SAMPLE = 40_000
# A step of Newton's method over all rows that fails is shortened by this.
BACK = 0.3


@dataclass
class Fit:
    """The solution of one problem in the span: ``y f = y (w.phi + b0)``, offset t.

    `v` holds (w, b0 if there is a bias, t if there is an offset).
    """

    problem: Problem
    v: Array
    primal: float = np.inf
    dual: float = -np.inf
    band: float = WORKING_BAND
    missing: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    missed_share: float = 0.0  # of |u|^2, what the bound adds for rows off the span
    gap_within: float = np.inf  # what the gap would be without that
    work: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    n_inside: int = 0
    mass: float = 0.0  # sum beta, on the rows last worked on
    near: float = 0.0  # share of the rows that are near the margin, on a sample
    # Steps by passes, where the rows near the margin cannot be worked on here: where
    # the last pass says to go, and the best weights so far with their primal value.
    by_passes: bool = False
    point: Array | None = None
    settled: Array | None = None
    least: float = np.inf

    def work_on(
        self, source: Source, basis: Basis, rows: Array, boost: float = 1.0
    ) -> None:
        """Minimise over these rows, starting from the present weights."""
        design = WorkingRows(self.problem, source, basis, rows)
        found = minimise(design, self.v, boost)
        self.v, self.mass = found.v, found.mass

    def step(self) -> None:
        """Go where the last pass said, or back towards the best weights so far."""
        assert self.point is not None
        if self.settled is None or self.primal <= self.least:
            self.settled, self.least = self.v, self.primal
            self.v = self.point
        else:
            self.v = self.settled + BACK * (self.v - self.settled)

    @property
    def offset(self) -> float:
        """The offset t of the problem, 0 where it has none."""
        return float(self.v[-1]) if self.problem.has_offset else 0.0

    @property
    def gap(self) -> float:
        """Relative duality gap after the last pass."""
        return relative_gap(self.primal, self.dual)


def solve(
    problems: list[Problem],
    source: Source,
    basis: Basis,
    samples: list[Array],
    tol: float,
    progress: Progress,
    start: list[Array] | None = None,
    most: int = 2 * MAX_RANK,
) -> tuple[list[Fit], Basis, str]:
    """Solve all problems over all rows in the span of `basis`.

    The basis is extended where that helps the bound, up to `most` rows.

    Returns the solutions, the leading part of the basis that they use, and what
    stopped the rounds.

    First on the growing `samples`, each row of which stands for n/m rows, then rounds
    of: one pass over all rows, Newton on the rows near the margin.
    """
    fits = [Fit(problem, np.zeros(size_of(problem, basis))) for problem in problems]
    stopped_by = "stall"
    for t, fit in enumerate(fits):
        for sample in samples:
            if start is None:
                _solve_sample(fit, source, basis, sample)
        if start is not None:
            fit.v = start[t]
            _place(fit, source, basis, samples)
    basis = _shorten(fits, basis, tol)
    for fit in fits:
        fit.by_passes = _is_too_much(fit, source)
    here = [fit for fit in fits if not fit.by_passes]
    if here and samples and len(samples[-1]) < source.n_rows / 2:
        # What the samples leave on the other rows is no certificate yet: only
        # their place is wanted, which costs half of a pass that measures.
        for fit in here:
            fit.work, _ = _near_margin(fit, source, basis)
            fit.work_on(source, basis, fit.work)
        progress.rows_looked_at += source.n_rows
    best, strikes, patience = np.inf, 0, 1 if here else 3
    while True:
        _measure_all(fits, source, basis, tol, progress)
        gap = max(fit.gap for fit in fits)
        longer = _extend(fits, source, basis, tol, most)
        better = gap <= 0.7 * best or len(longer) > len(basis)
        strikes = 0 if better else strikes + 1
        # Far from the optimum a round may only move the rows that are in the way.
        if gap <= tol or strikes >= (patience if best < 0.5 else 3):
            break
        if len(longer) == len(basis) and all(f.gap_within <= tol / 4 for f in fits):
            break  # solved in this span: what is missing is a better bound
        spent = progress.spent()
        if spent is not None:
            stopped_by = spent
            break
        if max(len(fit.work) for fit in fits) > source.working_budget / 64:
            break  # terms and margins of that many rows do not fit: the core set's turn
        best, basis = min(best, gap), _use(fits, basis, longer)
        for fit in fits:
            if fit.gap > tol and fit.by_passes:
                fit.step()
            elif fit.gap > tol:
                fit.work_on(source, basis, fit.work)
    for fit in fits:
        if fit.settled is not None and fit.least < fit.primal:
            fit.v, fit.primal = fit.settled, fit.least
    return fits, basis, stopped_by


def _is_too_much(fit: Fit, source: Source) -> bool:
    """Whether the rows near the margin are too many to be worked on here.

    Their numbers take 64 bytes each; rows that live elsewhere have to be brought, too.
    """
    expected = fit.near * source.n_rows
    too_many = expected > source.working_budget / 64
    return too_many or not source.holds(int(expected))


def _place(fit: Fit, source: Source, basis: Basis, samples: list[Array]) -> None:
    """Note how many rows are near the margin, where a sample is given."""
    for sample in samples[:1]:
        near, _ = _near_margin(fit, _view(source, sample), basis)
        fit.near = len(near) / len(sample)


def _view(source: Source, sample: Array) -> Source:
    """Return some rows to be looked at often."""
    return source.subset(sample, Subset)


def _solve_sample(fit: Fit, source: Source, basis: Basis, sample: Array) -> None:
    """Solve on a sample whose rows stand for n/m rows each.

    A large sample is worked on where it is near the margin, as all rows will be.
    """
    boost = source.n_rows / len(sample)
    if len(sample) <= WHOLE_SAMPLE:
        rows = WorkingRows(fit.problem, source, basis, sample)
        steep = boost * float(rows.terms.omega.max()) > STEEP
        for share in FROM_NOTHING if steep and not fit.v.any() else (1.0,):
            found = minimise(rows, fit.v, share * boost)
            fit.v, fit.mass = found.v, found.mass
        most = 0.7 * capacity(source, rows.width) / source.n_rows
        violation = to_numpy(rows.terms.target - rows.times(fit.v))
        sides = len(fit.problem.sides)
        worst = violation.reshape(sides, -1).max(axis=0)
        fit.band = _band(worst, most)
        fit.near = float(np.mean(worst > -fit.band))
        return
    if len(sample) >= WELL_KNOWN:
        fit.band = min(fit.band, NARROW_BAND)
    view = _view(source, sample)
    work = np.empty(0, dtype=np.int64)
    for _ in range(5):
        near, violated = _near_margin(fit, view, basis)
        fit.near = len(near) / view.n_rows
        if bool(is_among(violated, work).all()):
            break
        both = union(work, near)
        work = both if len(both) <= capacity(source, len(fit.v)) else near
        fit.work_on(source, basis, work, boost)


def _near_margin(fit: Fit, source: Source, basis: Basis) -> tuple[Array, Array]:
    """Return the rows near the margin, and those inside it."""
    ready = expansion([fit], basis).ready()
    problem, offset, band, kernel = fit.problem, fit.offset, fit.band, basis.kernel

    def score(rows: Rows) -> tuple[Array, Array]:
        values = ready(rows)[:, 0]
        violation = _worst_violation(problem, offset, rows, values, kernel)
        return rows.index[violation > -band], rows.index[violation > 0]

    def merge(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return joined([a[0], b[0]]), joined([a[1], b[1]])

    return source.reduce(score, merge)


def _worst_violation(
    problem: Problem, offset: float, rows: Rows, values: Array, kernel: AnyKernel
) -> Array:
    """Return the larger violation of each row's sides, -inf for rows not there."""
    xp = namespace(values)
    worst = full(len(rows), -np.inf, values)
    for side in problem.sides:
        terms = problem.terms(rows, kernel, side)
        violation = terms.target - terms.sign * values - offset
        worst = xp.where(terms.omega > 0, xp.maximum(worst, violation), worst)
    return worst


def _band(violation: Array, most: float) -> float:
    """Return how far from the margin rows are worthy of work: `WORKING_BAND`, or less.

    Where most rows are that near (a one-class function is flat just above 1), the band
    shrinks to four times as many rows as are violated, and a fiftieth of all.
    `violation` is that of a random sample; `most` is the share of rows whose design
    fits in memory, kept to if that still is more than the violated rows.
    """
    inside = float(np.mean(violation > 0))
    share = 4 * inside + 0.02
    if most > 1.2 * inside:
        share = min(share, most)
    if share >= 1:
        return WORKING_BAND
    return float(np.clip(-np.quantile(violation, 1 - share), 0.0, WORKING_BAND))


def _shorten(fits: list[Fit], basis: Basis, tol: float) -> Basis:
    """Return the shortest leading part of the basis whose bound can reach `tol`.

    At the optimum ``|u|^2`` is about ``sum beta``, so the bound's ``(sum beta
    delta)^2`` stays below a twentieth of `tol` where ``delta^2 sum(beta)`` does. The
    features are nested, so the weights are cut with the basis.
    """
    mass = max(fit.mass for fit in fits)
    enough = np.flatnonzero(basis.residuals * mass <= tol / 20)
    k = int(enough[0]) if len(enough) else len(basis)
    if mass <= 0 or k >= len(basis) or k < 1:
        return basis
    for fit in fits:
        fit.v = np.concatenate([fit.v[:k], fit.v[len(basis) :]])
    return basis.leading(k)


def _can_extend(fits: list[Fit], basis: Basis, tol: float, most: int) -> bool:
    """Whether what the bound loses off the span stands between a fit and `tol`."""
    lossy = any(fit.gap > tol and fit.missed_share > tol / 4 for fit in fits)
    return lossy and len(basis) + MOST_MISSING <= most


def _extend(
    fits: list[Fit], source: Source, basis: Basis, tol: float, most: int
) -> Basis:
    """Return the basis with pivots among the rows that the bound loses most on.

    A probe of a few thousand rows does not see the tails of a million; in one-class
    problems those are the rows with multipliers.
    """
    if not _can_extend(fits, basis, tol, most):
        return basis
    rows = np.unique(np.concatenate([fit.missing for fit in fits]))
    return basis.extended(source.take(rows)) if len(rows) else basis


def _use(fits: list[Fit], basis: Basis, longer: Basis) -> Basis:
    """Give the fits zero weights for the new basis rows; return the longer basis."""
    k, zeros = len(basis), np.zeros(len(longer) - len(basis))

    def with_zeros(v: Array) -> Array:
        return np.concatenate([v[:k], zeros, v[k:]])

    for fit in fits:
        fit.v = with_zeros(fit.v)
        fit.point = None if fit.point is None else with_zeros(fit.point)
        fit.settled = None if fit.settled is None else with_zeros(fit.settled)
    return longer


def _measure_all(
    fits: list[Fit], source: Source, basis: Basis, tol: float, progress: Progress
) -> None:
    """One pass over all rows for the problems that are not solved yet."""
    open_fits = [fit for fit in fits if not fit.gap <= tol]
    if not open_fits:
        return
    _pass(open_fits, source, basis)
    progress.rows_looked_at += source.n_rows
    progress.snapshot = lambda: expansion(fits, basis)
    progress.cores, progress.offsets = None, lambda: offsets_of(fits)
    progress.record(
        core=len(basis),
        support=len(basis),
        gap=max(fit.gap for fit in fits),
        dual=sum(fit.problem.unit * fit.dual for fit in fits),
        looked_at=source.n_rows,
        exact=True,
    )


def _pass(fits: list[Fit], source: Source, basis: Basis) -> None:
    """Measure primal and dual of each fit on all rows; note the rows to work on."""
    problems, offsets = [fit.problem for fit in fits], [fit.offset for fit in fits]
    # By passes no row is worked on here.
    bands = [-np.inf if fit.by_passes else fit.band for fit in fits]
    functions = expansion(fits, basis)
    newton = any(fit.by_passes for fit in fits)
    asked = problems, offsets, bands, functions, source, basis
    sums = all_sums(*asked, newton=newton)
    for fit, own in zip(fits, sums, strict=True):
        width = len(basis) + int(fit.problem.has_bias)
        norm_sq = float(fit.v[:width] @ fit.v[:width])
        fit.primal = norm_sq / 2 + fit.problem.price * fit.offset + own.loss
        fit.dual = dual_of(fit.problem, own, basis)
        if fit.by_passes:
            fit.point = point_of(fit.problem, own.gram, own.pull, len(fit.v))
        # Rows that were worked on stay: at large C a solution without them swings back.
        both = union(fit.work, own.work)
        fits_in = len(both) <= capacity(source, len(fit.v))
        fit.work = both if fits_in else union(fit.work[:0], own.work)
        fit.n_inside = own.n_inside
        fit.missing = own.missing
        within = dual_of(fit.problem, replace(own, missed=0.0), basis)
        fit.gap_within = relative_gap(fit.primal, within)
        fit.missed_share = own.missed**2 / max(2 * fit.primal, 1e-300)


def radius_sq(fit: Fit, basis: Basis) -> float:
    """Return R^2 of a soft ball; 0 for problems that are no ball."""
    if fit.problem.floor is not Floor.RADIUS:
        return 0.0
    w = fit.v[: len(basis)]
    return 2 * fit.offset + float(w @ w)


def offsets_of(fits: list[Fit]) -> Array:
    """Return the offset of each fit."""
    return np.array([fit.offset for fit in fits])


def expansion(fits: list[Fit], basis: Basis) -> KernelExpansion:
    """Return the functions as coefficients of the basis rows."""
    k = len(basis)
    weights = np.stack([fit.v[:k] for fit in fits], axis=1)
    bias = [fit.v[k] if fit.problem.has_bias else 0.0 for fit in fits]
    coef = basis.coefficients(weights)
    return KernelExpansion(basis.kernel, basis.rows, coef, np.array(bias))


def certificates(
    fits: list[Fit],
    functions: KernelExpansion,
    tol: float,
    progress: Progress,
    stopped_by: str,
) -> list[Certificate]:
    """Return one certificate per problem; the last pass saw every row."""
    result = []
    for fit, error in zip(fits, functions.value_errors(), strict=True):
        primal = fit.primal + fit.problem.loss_error(fit.primal, float(error))
        result.append(
            Certificate.of(
                fit.problem.name,
                (primal, fit.dual),
                progress,
                unit=fit.problem.unit,
                tol=tol,
                stopped_by=stopped_by,
                dual_bound="projection",
                rounding=relative_gap(primal, fit.primal),
            )
        )
    return result
