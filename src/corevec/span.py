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

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from corevec.certificate import Certificate, relative_gap
from corevec.expansion import KernelExpansion
from corevec.kernels import AnyKernel, Points, Rows
from corevec.oracle import Subset
from corevec.problems import Problem, Terms
from corevec.progress import Progress
from corevec.sources import Source

Array = npt.NDArray[Any]

PROBE_ROWS = 4000  # or a quarter of the rows, where that is less
# Pivots below this share of the largest k(x, x) are noise: the square root of it is
# what delta_i can reach, and sum(beta) delta must stay small against |u|.
RANK_THRESHOLD = 1e-12
# Beyond this rank a pass costs more than the core set's would.
MAX_RANK = 512
# Fewer rows than this are solved exactly by the core set in well under a second.
MIN_ROWS = 5000
# Rows within this distance of the margin are worked on between passes: a full step
# seldom moves a row by more. Of six seeds of the 1M checkerboard, two needed a third
# pass at 0.6, none at 1.0.
WORKING_BAND = 1.0
# From zero weights a large C is reached in three stages: half the steps at 1e6.
STEEP, FROM_NOTHING = 1e4, (1e-4, 1e-2, 1.0)
# Rows that a pass offers as new basis rows, where the bound loses too much.
MOST_MISSING = 100
# Samples up to this size are worked on whole.
WHOLE_SAMPLE = 40_000
# Rows per task of the thread pool: few enough that 10,000 rows still make several.
_CHUNK = 2048
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Basis:
    """Basis rows with the Cholesky factor of their kernel matrix."""

    kernel: AnyKernel
    rows: Rows
    points: Points
    factor: Array  # lower triangle, pivot order
    residuals: Array  # largest k_ii - |P phi_i|^2 of a probed row, per leading part

    def leading(self, k: int) -> Basis:
        """Return the basis of the first `k` pivots."""
        rows = Rows(self.rows.values[:k], self.rows.index[:k])
        points = self.kernel.prepare_basis(rows)
        return Basis(self.kernel, rows, points, self.factor[:k, :k], self.residuals[:k])

    def extended(self, rows: Rows) -> Basis:
        """Return the basis with pivots among `rows` added.

        With features Phi of the rows, the Cholesky factor of ``k(rows) - Phi Phi'``
        continues this one.
        """
        points = self.kernel.prepare_basis(rows)
        phi = self.features(self.kernel.block(points, self.points))
        rest = self.kernel.block(points, points) - phi @ phi.T
        scale = float(np.abs(self.kernel.diagonal(rows)).max())
        pivots, corner = _pivots_of(rest, RANK_THRESHOLD * scale)
        k, added = len(self), len(pivots)
        factor = np.zeros((k + added, k + added))
        factor[:k, :k], factor[k:, :k] = self.factor, phi[pivots]
        factor[k:, k:] = corner
        chosen = Rows(
            _stack(self.rows.values, rows.values[pivots]),
            np.concatenate([self.rows.index, rows.index[pivots]]),
        )
        residuals = np.concatenate([self.residuals, np.zeros(added)])
        points = self.kernel.prepare_basis(chosen)
        return Basis(self.kernel, chosen, points, factor, residuals)

    @cached_property
    def inverse_factor(self) -> Array:
        """``L^-1``."""
        eye = np.eye(len(self))
        return np.asarray(
            linalg.solve_triangular(self.factor, eye, lower=True, check_finite=False)
        )

    def __len__(self) -> int:
        return len(self.rows)

    def features(self, block: Array) -> Array:
        """Return ``L^-1 k`` for kernel values `block` (rows, k), as (rows, k)."""
        # A product with the inverse, not a triangular solve: 2x faster here, and the
        # pivots are graded, so the small features keep their digits (a test compares).
        return np.asarray(block @ self.inverse_factor.T)

    def coefficients(self, weights: Array) -> Array:
        """Return c with ``sum_j c_j k(b_j, x) = weights . phi(x)``."""
        return np.asarray(
            linalg.solve_triangular(
                self.factor, weights, lower=True, trans="T", check_finite=False
            )
        )


def probe(source: Source, kernel: AnyKernel, rng: np.random.Generator) -> Basis | None:
    """Return a basis for the kernel on these rows, or None if its rank is high.

    Pivoted Cholesky of `PROBE_ROWS` random rows; cost PROBE_ROWS * rank^2. Gives up as
    soon as the decay of the pivots, continued, would not reach the threshold within
    `MAX_RANK`.
    """
    size = min(PROBE_ROWS, max(PROBE_ROWS // 4, source.n_rows // 4), source.n_rows)
    rows = source.take(source.draw(rng, size))
    return basis_from(rows, kernel, min(MAX_RANK, len(rows) // 4))


def basis_from(rows: Rows, kernel: AnyKernel, most: int | None = None) -> Basis | None:
    """Return the basis of pivots of `rows`, or None beyond `most` of them.

    Pivoted Cholesky, one column of kernel values at a time. Without `most`, as many
    pivots as the threshold leaves.
    """
    n = len(rows)
    points = kernel.prepare(rows)
    residual = kernel.diagonal(rows).copy()
    if not np.isfinite(residual).all() or residual.max() <= 0:
        return None
    floor = RANK_THRESHOLD * residual.max()
    limit = n if most is None else most
    L = np.zeros((limit, n))  # transposed: a new row is contiguous
    pivots: list[int] = []
    left: list[float] = []
    while len(pivots) <= limit:
        j, pivot = len(pivots), int(np.argmax(residual))
        left.append(float(residual[pivot]))
        if residual[pivot] <= floor:
            break
        if j == limit or (most and _hopeless(residual, floor, j, most)):
            return None
        one = Rows(rows.values[pivot : pivot + 1], rows.index[pivot : pivot + 1])
        column = kernel.block(points, kernel.prepare_basis(one))[:, 0]
        column -= L[:j, pivot] @ L[:j]
        L[j] = column / np.sqrt(residual[pivot])
        residual -= L[j] ** 2
        residual[pivot] = 0.0
        pivots.append(pivot)
    chosen = Rows(rows.values[pivots], rows.index[pivots])
    factor = np.tril(L[: len(pivots), pivots].T)
    points = kernel.prepare_basis(chosen)
    return Basis(kernel, chosen, points, factor, np.array(left))


def _pivots_of(matrix: Array, floor: float) -> tuple[list[int], Array]:
    """Return pivots and their lower Cholesky factor of a small dense matrix."""
    residual = matrix.diagonal().copy()
    L = np.zeros_like(matrix)  # transposed
    pivots: list[int] = []
    while len(pivots) < len(matrix):
        j, pivot = len(pivots), int(np.argmax(residual))
        if residual[pivot] <= floor:
            break
        L[j] = (matrix[pivot] - L[:j, pivot] @ L[:j]) / np.sqrt(residual[pivot])
        residual -= L[j] ** 2
        residual[pivot] = 0.0
        pivots.append(pivot)
    return pivots, np.tril(L[: len(pivots), pivots].T)


def _stack(a: Any, b: Any) -> Any:
    if sparse.issparse(a):
        return sparse.vstack([a, b], format="csr")
    return np.concatenate([a, b])


def _hopeless(residual: Array, floor: float, j: int, most: int) -> bool:
    """Whether the pivots, falling at their present rate, miss the threshold."""
    if j not in (32, 64, 128, 256):
        return False
    start = max(floor / RANK_THRESHOLD, 1e-300)
    fallen = np.log(residual.max() / start)
    return bool(fallen >= 0 or j * np.log(RANK_THRESHOLD) / fallen > 2 * most)


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
    work: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    n_inside: int = 0
    mass: float = 0.0  # sum beta, on the rows last worked on

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
) -> tuple[list[Fit], Basis, str]:
    """Solve all problems over all rows in the span of `basis`.

    Returns the solutions, the leading part of the basis that they use, and what
    stopped the rounds.

    First on the growing `samples`, each row of which stands for n/m rows, then rounds
    of: one pass over all rows, Newton on the rows near the margin.
    """
    fits = [Fit(problem, np.zeros(_size(problem, basis))) for problem in problems]
    stopped_by = "stall"
    for t, fit in enumerate(fits):
        if start is not None:
            fit.v = start[t]
        for sample in samples:
            _solve_sample(fit, source, basis, sample)
    basis = _shorten(fits, basis, tol)
    if samples and len(samples[-1]) < source.n_rows / 2:
        # What the samples leave on the other rows is no certificate yet: only
        # their place is wanted, which costs half of a pass that measures.
        for fit in fits:
            fit.work, _ = _near_margin(fit, source, basis)
            _newton_on(fit, _WorkingRows(fit.problem, source, basis, fit.work))
        progress.rows_looked_at += source.n_rows
    best = np.inf
    while True:
        _measure_all(fits, source, basis, tol, progress)
        gap = max(fit.gap for fit in fits)
        stalled = gap > 0.7 * best and best < 0.5
        if gap <= tol or (stalled and not _can_extend(fits, basis, tol)):
            break
        spent = progress.spent()
        if spent is not None:
            stopped_by = spent
            break
        if max(len(fit.work) for fit in fits) > source.memory_budget / 64:
            break  # terms and margins of that many rows do not fit: the core set's turn
        best = min(best, gap)
        basis = _extend(fits, source, basis, tol)
        for fit in fits:
            if fit.gap > tol:
                _newton_on(fit, _WorkingRows(fit.problem, source, basis, fit.work))
    return fits, basis, stopped_by


def _solve_sample(fit: Fit, source: Source, basis: Basis, sample: Array) -> None:
    """Solve on a sample whose rows stand for n/m rows each.

    A large sample is worked on where it is near the margin, as all rows will be.
    """
    boost = source.n_rows / len(sample)
    if len(sample) <= WHOLE_SAMPLE:
        rows = _WorkingRows(fit.problem, source, basis, sample)
        steep = boost * rows.terms.omega.max() > STEEP
        for share in FROM_NOTHING if steep and not fit.v.any() else (1.0,):
            _newton_on(fit, rows, share * boost)
        most = 0.7 * _capacity(source, rows.width) / source.n_rows
        fit.band = _band(rows.terms.target - rows.times(fit.v), most)
        return
    view = Subset(source, sample)
    work = np.empty(0, dtype=np.int64)
    for _ in range(5):
        near, violated = _near_margin(fit, view, basis)
        if np.isin(violated, work, assume_unique=True).all():
            break
        both = np.union1d(work, near)
        work = both if len(both) <= _capacity(source, len(fit.v)) else near
        _newton_on(fit, _WorkingRows(fit.problem, source, basis, work), boost)


def _near_margin(fit: Fit, source: Source, basis: Basis) -> tuple[Array, Array]:
    """Return the rows near the margin, and those inside it."""
    functions = expansion([fit], basis)
    points = functions.prepared()

    def score(rows: Rows) -> tuple[Array, Array]:
        terms = fit.problem.terms(rows, basis.kernel)
        values = functions.evaluate(rows, points)[:, 0]
        violation = terms.target - terms.sign * values - fit.offset
        violation = np.where(terms.omega > 0, violation, -np.inf)
        return rows.index[violation > -fit.band], rows.index[violation > 0]

    def merge(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])

    return source.reduce(score, merge)


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


def _can_extend(fits: list[Fit], basis: Basis, tol: float) -> bool:
    """Whether what the bound loses off the span stands between a fit and `tol`."""
    lossy = any(fit.gap > tol and fit.missed_share > tol / 4 for fit in fits)
    return lossy and len(basis) + MOST_MISSING <= 2 * MAX_RANK


def _extend(fits: list[Fit], source: Source, basis: Basis, tol: float) -> Basis:
    """Return the basis with pivots among the rows that the bound loses most on.

    A probe of a few thousand rows does not see the tails of a million; in one-class
    problems those are the rows with multipliers.
    """
    if not _can_extend(fits, basis, tol):
        return basis
    longer = basis.extended(
        source.take(np.unique(np.concatenate([fit.missing for fit in fits])))
    )
    added = len(longer) - len(basis)
    for fit in fits:
        k = len(basis)
        fit.v = np.concatenate([fit.v[:k], np.zeros(added), fit.v[k:]])
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
    progress.record(
        core=len(basis),
        support=len(basis),
        gap=max(fit.gap for fit in fits),
        dual=sum(fit.problem.unit * fit.dual for fit in fits),
        looked_at=source.n_rows,
        exact=True,
    )


def expansion(fits: list[Fit], basis: Basis) -> KernelExpansion:
    """Return the functions as coefficients of the basis rows."""
    k = len(basis)
    weights = np.stack([fit.v[:k] for fit in fits], axis=1)
    bias = [fit.v[k] if fit.problem.has_bias else 0.0 for fit in fits]
    coef = basis.coefficients(weights)
    return KernelExpansion(basis.kernel, basis.rows, coef, np.array(bias))


def certificates(
    fits: list[Fit], tol: float, progress: Progress, stopped_by: str
) -> list[Certificate]:
    """Return one certificate per problem; the last pass saw every row."""
    result = []
    for fit in fits:
        unit = fit.problem.unit
        met = fit.gap <= tol
        result.append(
            Certificate(
                problem=fit.problem.name,
                primal=unit * fit.primal,
                dual=unit * fit.dual,
                relative_gap=fit.gap,
                dual_bound="projection",
                n_verified=progress.n_rows,
                n_rows=progress.n_rows,
                passes=progress.passes,
                seconds=progress.seconds,
                converged=met,
                stopped_by="tol" if met else stopped_by,
                tol=tol,
            )
        )
    return result


def _size(problem: Problem, basis: Basis) -> int:
    return len(basis) + int(problem.has_bias) + int(problem.has_offset)


def _capacity(source: Source, width: int) -> int:
    """Return how many design rows 0.6 of the memory budget holds."""
    return int(0.6 * source.memory_budget / (8 * width))


class _WorkingRows:
    """Design rows ``y (phi, 1)`` and terms of some rows.

    Kept in memory where the budget holds them, else made again, chunk by chunk,
    whenever they are needed.
    """

    def __init__(self, problem: Problem, source: Source, basis: Basis, index: Array):
        self.problem, self.basis, self.source = problem, basis, source
        self.index, self.width = index, _size(problem, basis)
        chunks = [index[s : s + _CHUNK] for s in range(0, len(index), _CHUNK)]
        terms = list(source.workers.run(self._terms_of, chunks))
        self.terms = Terms(
            np.concatenate([part.sign for part in terms]),
            np.concatenate([part.omega for part in terms]),
            np.concatenate([part.target for part in terms]),
        )
        self.design: Array | None = None
        if len(index) <= _capacity(source, self.width):
            self.design = np.empty((len(index), self.width))
            for _ in source.workers.run(self._keep, self._slices()):
                pass

    def times(self, v: Array) -> Array:
        """Return ``design @ v``."""

        def task(part: slice) -> Array:
            return np.asarray(self._rows(part) @ v)

        return np.concatenate(list(self.source.workers.run(task, self._slices())))

    def gram(self, rows: Array, omega: Array) -> tuple[Array, Array]:
        """Return ``sum omega d d'`` and ``sum omega p d`` over the given rows."""

        def task(few: Array) -> tuple[Array, Array]:
            root = np.sqrt(omega[few])
            part = self._rows(few) * root[:, None]
            return part.T @ part, (root * self.terms.target[few]) @ part

        matrix, vector = np.zeros((self.width, self.width)), np.zeros(self.width)
        chunks = [rows[s : s + _CHUNK] for s in range(0, len(rows), _CHUNK)]
        for part_matrix, part_vector in self.source.workers.run(task, chunks):
            matrix += part_matrix
            vector += part_vector
        return matrix, vector

    def _slices(self) -> list[slice]:
        n = len(self.index)
        return [slice(s, min(s + _CHUNK, n)) for s in range(0, n, _CHUNK)]

    def _terms_of(self, index: Array) -> Terms:
        return self.problem.terms(self.source.take(index), self.basis.kernel)

    def _keep(self, part: slice) -> None:
        assert self.design is not None
        self.design[part] = self._make(part)

    def _rows(self, part: Any) -> Array:
        return self._make(part) if self.design is None else self.design[part]

    def _make(self, part: Any) -> Array:
        """Return the design of some rows, from their kernel values."""
        k, kernel = len(self.basis), self.basis.kernel
        rows = self.source.take(self.index[part])
        block = kernel.block(kernel.prepare(rows), self.basis.points)
        design = np.ones((len(rows), self.width))
        design[:, :k] = self.basis.features(block)
        signed = k + int(self.problem.has_bias)
        design[:, :signed] *= self.terms.sign[part, None]
        return design


def _newton_on(fit: Fit, rows: _WorkingRows, boost: float = 1.0) -> None:
    """Minimise the objective over these rows: semismooth Newton, exact line search.

    Each row's weight is multiplied by `boost`. The Gram matrix of the active rows is
    updated by the rows that come and go, which after the first steps are few.
    """
    problem, omega, target = fit.problem, boost * rows.terms.omega, rows.terms.target
    penalty, linear = np.ones(len(fit.v)), np.zeros(len(fit.v))
    if problem.has_offset:
        penalty[-1], linear[-1] = 0.0, 1.0
    v, margins = fit.v, rows.times(fit.v)
    active = np.zeros(len(margins), dtype=bool)
    gram, pull = rows.gram(np.empty(0, dtype=np.int64), omega)
    for _ in range(200):
        now = (target > margins) & (omega > 0)
        gram, pull = _update_gram(rows, omega, gram, pull, active, now)
        active = now
        new = _solve_system(gram, penalty, pull - linear)
        moved = rows.times(new)
        if np.array_equal((target > moved) & (omega > 0), active):
            v = new
            break
        line = (v, new - v, target - margins, moved - margins, omega, penalty, linear)
        length = _exact_length(*line)
        if length * np.abs(moved - margins).max() <= 1e-10:
            break
        v = v + length * (new - v)
        margins += length * (moved - margins)
    fit.v = v
    fit.mass = float(omega @ np.maximum(target - rows.times(v), 0.0))


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


def _update_gram(
    rows: _WorkingRows,
    omega: Array,
    gram: Array,
    pull: Array,
    before: Array,
    now: Array,
) -> tuple[Array, Array]:
    came, went = np.flatnonzero(now & ~before), np.flatnonzero(before & ~now)
    if len(came) + len(went) > np.count_nonzero(now):
        return rows.gram(np.flatnonzero(now), omega)
    added, removed = rows.gram(came, omega), rows.gram(went, omega)
    return gram + added[0] - removed[0], pull + added[1] - removed[1]


def _solve_system(gram: Array, penalty: Array, right: Array) -> Array:
    system = gram + np.diag(penalty)
    jitter = 0.0
    while True:
        try:
            factor = linalg.cho_factor(
                system + jitter * np.eye(len(system)), check_finite=False
            )
            return np.asarray(linalg.cho_solve(factor, right, check_finite=False))
        except linalg.LinAlgError:
            jitter = max(10 * jitter, 1e-14 * float(np.trace(system)))


def _exact_length(
    v: Array,
    step: Array,
    violation: Array,
    change: Array,
    omega: Array,
    penalty: Array,
    linear: Array,
) -> float:
    """Return the minimiser along the step: the derivative is piecewise linear."""
    slope0 = float((penalty * v + linear) @ step)
    curve0 = float((penalty * step) @ step)
    low, high, s = 0.0, 1e3, 1.0
    for _ in range(30):
        moved = violation - s * change
        part = np.where(moved > 0, omega * change, 0.0)
        slope = slope0 + s * curve0 - float(part @ moved)
        curve = curve0 + float(part @ change)
        low, high = (low, s) if slope > 0 else (s, high)
        new = s - slope / curve if curve > 0 else (low + high) / 2
        if not low <= new <= high:
            new = (low + high) / 2
        if abs(new - s) <= 1e-6 * s:
            break
        s = new
    return float(s)


@dataclass
class _Sums:
    """What a pass adds up for one problem."""

    loss: float
    ridge: float  # sum beta^2 / omega
    total: float  # sum beta p
    mass: float  # sum beta
    signed: float  # sum beta y
    missed: float  # sum beta delta
    pulled: Array  # L^-1 sum beta y k
    work: Array  # rows near the margin
    missing: Array  # rows that the bound loses most on, and how much
    missing_size: Array
    n_inside: int

    def __add__(self, other: _Sums) -> _Sums:
        rows = np.concatenate([self.missing, other.missing])
        size = np.concatenate([self.missing_size, other.missing_size])
        worst = np.argsort(-size)[:MOST_MISSING]
        return _Sums(
            self.loss + other.loss,
            self.ridge + other.ridge,
            self.total + other.total,
            self.mass + other.mass,
            self.signed + other.signed,
            self.missed + other.missed,
            self.pulled + other.pulled,
            np.concatenate([self.work, other.work]),
            rows[worst],
            size[worst],
            self.n_inside + other.n_inside,
        )


def _pass(fits: list[Fit], source: Source, basis: Basis) -> None:
    """Measure primal and dual of each fit on all rows; note the rows to work on."""
    problems, offsets = [fit.problem for fit in fits], [fit.offset for fit in fits]
    bands = [fit.band for fit in fits]
    functions = expansion(fits, basis)
    sums = _all_sums(problems, offsets, bands, functions, source, basis)
    for fit, own in zip(fits, sums, strict=True):
        width = len(basis) + int(fit.problem.has_bias)
        norm_sq = float(fit.v[:width] @ fit.v[:width])
        fit.primal = norm_sq / 2 + fit.offset + own.loss
        fit.dual = _dual(fit.problem, own)
        # Rows that were worked on stay: at large C a solution without them swings back.
        both = np.union1d(fit.work, own.work)
        fits_in = len(both) <= _capacity(source, len(fit.v))
        fit.work, fit.n_inside = both if fits_in else own.work, own.n_inside
        fit.missing = own.missing
        fit.missed_share = own.missed**2 / max(2 * fit.primal, 1e-300)


def projection_dual(
    problem: Problem,
    function: KernelExpansion,
    offset: float,
    source: Source,
    basis: Basis,
) -> float:
    """Return the dual value that the violations of `function` prove."""
    sums = _all_sums([problem], [offset], [0.0], function, source, basis)
    return _dual(problem, sums[0])


def _all_sums(
    problems: list[Problem],
    offsets: list[float],
    bands: list[float],
    functions: KernelExpansion,
    source: Source,
    basis: Basis,
) -> list[_Sums]:
    points = functions.prepared()

    def score(rows: Rows) -> list[_Sums]:
        values = functions.evaluate(rows, points)
        return [
            _sums(problem, offsets[t], bands[t], rows, values[:, t], basis)
            for t, problem in enumerate(problems)
        ]

    def merge(left: list[_Sums], right: list[_Sums]) -> list[_Sums]:
        return [a + b for a, b in zip(left, right, strict=True)]

    return source.reduce(score, merge)


def _sums(
    problem: Problem,
    offset: float,
    band: float,
    rows: Rows,
    values: Array,
    basis: Basis,
) -> _Sums:
    kernel = basis.kernel
    terms = problem.terms(rows, kernel)
    violation = terms.target - terms.sign * values - offset
    violation = np.where(terms.omega > 0, violation, -np.inf)
    inside = np.flatnonzero(violation > 0)
    few = Rows(rows.values[inside], rows.index[inside])
    omega, sign = terms.omega[inside], terms.sign[inside]
    beta = omega * violation[inside]
    block = kernel.block(kernel.prepare(few), basis.points)
    phi = basis.features(block)
    own = kernel.diagonal(few)
    # Rounded up: |phi|^2 carries an error of a few eps k_ii per term.
    left = np.maximum(own - np.einsum("ij,ij->i", phi, phi), 0.0)
    delta = np.sqrt(left + 8 * _EPS * own)
    worst = np.argsort(-beta * delta)[:MOST_MISSING]
    return _Sums(
        loss=float(beta @ violation[inside]) / 2,
        ridge=float(beta @ violation[inside]),
        total=float(beta @ terms.target[inside]),
        mass=float(beta.sum()),
        signed=float(beta @ sign),
        missed=float(beta @ delta),
        pulled=(beta * sign) @ phi,
        work=rows.index[violation > -band],
        missing=few.index[worst],
        missing_size=(beta * delta)[worst],
        n_inside=len(inside),
    )


def _dual(problem: Problem, sums: _Sums) -> float:
    """Return the dual value of the violations, |u|^2 replaced by its bound."""
    curve = float(sums.pulled @ sums.pulled) + sums.missed**2 + sums.ridge
    if problem.has_bias:
        curve += sums.signed**2
    curve += 8 * _EPS * sums.mass**2
    if not problem.has_offset:
        return sums.total**2 / (2 * curve) if curve > 0 else 0.0
    if sums.mass <= 0:
        return 0.0
    # Scaled to sum one: a feasible point of the simplex.
    return sums.total / sums.mass - curve / (2 * sums.mass**2)
