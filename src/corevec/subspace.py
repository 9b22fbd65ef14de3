"""Solving over ALL rows in the span of a basis that is not the whole space.

Where the kernel is not of low rank and more rows have multipliers than a core set can
hold - a regression with noise above its tube, overlapping classes - the weights of a
few hundred basis rows are decided by all rows. In the orthonormal coordinates of the
span (``span.py``) the problem has k variables. Forming its Hessian over all rows costs
n k^2, so the Hessian comes from a sample of the rows, and everything that decides the
result from all of them:

1. solve on the sample, each row of which stands for n/m rows: exact Newton;
2. the gradient over all rows is one pass, n k kernel values;
3. ``d = -H^-1 gradient`` with the sample's H, its values on all rows a second pass;
4. minimise over the span of (weights, d, last step) exactly, on all rows: three
   columns, so that costs nothing. With the last step in, this converges like
   preconditioned conjugate gradients: 3-8 rounds to a relative 1e-4 (measured).

The dual value is that of the violations, with |u|^2 summed exactly where that is
affordable. A model can be as accurate as the full one while its gap is not small; the
certificate says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from corevec.bases import Basis, basis_of
from corevec.certificate import Certificate, relative_gap
from corevec.duals import dual_of_entries
from corevec.expansion import KernelExpansion
from corevec.kernels import AnyKernel, Rows
from corevec.problems import Problem, Terms
from corevec.progress import Progress
from corevec.sources import Source
from corevec.working import (
    Design,
    WorkingRows,
    capacity,
    minimise,
    minimise_each,
    size_of,
    terms_of,
)

Array = npt.NDArray[Any]

# Basis rows without `max_core`: one per so many rows, within these bounds. Friedman,
# 90,000 rows: RMSE 1.10 with 500, 1.04 with 1000, 1.014 with 2000 (noise: 1.0).
ROWS_PER_BASIS, FEWEST, MOST = 12, 800, 2000
# The weights are solved until the next step promises less than this share of the
# objective, or this share of `tol`.
PROMISE, PROMISE_OF_TOL = 1e-5, 0.05
MOST_ROUNDS = 30
# Rows of the sample: so many per basis row (2.5 took 30 rounds at C = 100, where the
# sample alone is fitted too closely), more while its Hessian costs no more than so many
# products. It is a start and a metric: float32 and a few Newton steps will do.
SAMPLE_SHARE, SAMPLE_PRODUCTS, SAMPLE_STEPS = 5, 2e10, 4
# Where the sample is all rows, this is the solution.
WHOLE_STEPS = 50
# |u|^2 is summed exactly up to this many kernel values, or as many as this many passes
# over the rows have cost.
EXACT_VALUES, EXACT_PASSES = 1e9, 30


@dataclass
class Fit:
    """The weights of one problem, and their values on all rows."""

    problem: Problem
    terms: Terms
    v: Array  # weights, bias, offset
    hessian: Any = None  # Cholesky factor, of the sample
    values: Array = field(default_factory=lambda: np.empty(0))
    last_step: Array | None = None
    last_values: Array | None = None
    primal: float = np.inf
    promise: float = np.inf  # what the next step would gain, as a share
    dual: float = -np.inf  # what `prove` or the problem alone says
    n_violated: int = 0

    @property
    def weights(self) -> Array:
        """The weights and the bias, without the offset."""
        return self.v[: len(self.v) - int(self.problem.has_offset)]

    @property
    def offset(self) -> float:
        """The offset t of the problem, 0 where it has none."""
        return float(self.v[-1]) if self.problem.has_offset else 0.0

    def violations(self) -> Array:
        """Return ``p - y f - t`` of all entries."""
        both = np.tile(self.values, len(self.problem.sides))
        return np.asarray(self.terms.target - self.terms.sign * both - self.offset)

    def violated(self, source: Source) -> Array:
        """Return the entries with a positive violation."""
        inside = (self.violations() > 0) & (self.terms.omega > 0)
        return _entries(self.problem, source, np.flatnonzero(inside))

    def row_share(self) -> Array:
        """Return each row's share of the sum of squared multipliers."""
        beta = self.terms.omega * np.maximum(self.violations(), 0.0)
        squares = (beta**2).reshape(len(self.problem.sides), -1).sum(axis=0)
        total = float(squares.sum())
        return np.asarray(squares / total if total > 0 else squares)

    def row_pull(self) -> Array:
        """Return ``sum y beta`` of each row's entries, and set the primal value."""
        excess = np.maximum(self.violations(), 0.0)
        beta = self.terms.omega * excess
        regular = float(self.weights @ self.weights) / 2
        self.primal = regular + self.problem.price * self.offset
        self.primal += float(beta @ excess) / 2
        self.n_violated = int(np.count_nonzero(beta))
        sides = len(self.problem.sides)
        return np.asarray((self.terms.sign * beta).reshape(sides, -1).sum(axis=0))


def rows_present(problems: list[Problem], source: Source) -> Array:
    """Return the numbers of the rows that have a weight in some problem."""
    numbers = source.numbers
    weights = [problem.labels.weights(numbers) for problem in problems]
    return np.asarray(numbers[np.max(weights, axis=0) > 0])


def basis_size(
    n_rows: int, max_core: int | None, budget: float, n_problems: int
) -> int:
    """Return how many basis rows to use for so many rows.

    Their kernel matrix, its factor and inverse, the Gram matrix and one Hessian per
    problem must fit the budget.
    """
    if max_core is not None:
        return min(max_core, n_rows)
    wanted = int(np.clip(n_rows // ROWS_PER_BASIS, FEWEST, MOST))
    return min(wanted, max(16, int(np.sqrt(budget / (8 * (5 + n_problems))))))


def rows_that_fit(problems: list[Problem], source: Source) -> int:
    """Return for how many rows half of the budget holds the numbers per row.

    Terms, values and violations of each entry, and three design columns.
    """
    numbers = sum(11 * len(problem.sides) + 8 for problem in problems)
    return int(source.memory_budget / 2 / (8 * numbers))


def choose_basis(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    size: int,
    progress: Progress,
    rng: np.random.Generator,
) -> Basis | None:
    """Return a basis of `size` rows: half at random, half where those fail.

    The second half is drawn with probabilities proportional to the squared multipliers
    that the first half leaves. On cpu_act 600 such rows have an RMSE of 0.20, 600
    random ones 0.28, 600 chosen greedily by the gradient 0.20 (deviations of y). None
    where the kernel is not positive definite.
    """
    present = rows_present(problems, source)
    if size >= len(present):
        basis, is_definite = basis_of(source, kernel, present)
        return basis if is_definite else None
    first = rng.choice(present, max(1, size // 2), replace=False)
    basis, is_definite = basis_of(source, kernel, first)
    if basis is None or not is_definite:
        return None
    fits = _start(problems, source, basis, present, rng)
    _evaluate(fits, source, basis, progress)
    share = np.sum([fit.row_share() for fit in fits], axis=0)
    share[np.searchsorted(source.numbers, first)] = 0.0
    wanted = min(size - len(first), int(np.count_nonzero(share)))
    if wanted == 0 or progress.spent() is not None:
        return basis
    share /= share.sum()
    second = rng.choice(source.numbers, wanted, replace=False, p=share)
    basis, is_definite = basis_of(source, kernel, np.concatenate([first, second]))
    return basis if is_definite else None


def solve(
    problems: list[Problem],
    source: Source,
    basis: Basis,
    tol: float,
    progress: Progress,
    rng: np.random.Generator,
    measured: bool = True,
    start: KernelExpansion | None = None,
) -> tuple[list[Fit], str]:
    """Solve all problems over all rows in the span of `basis`.

    Returns the solutions, and what stopped the rounds. `measured` sets values and
    primal values in one more pass; without, the caller does. `start` are functions
    to begin with.
    """
    present = rows_present(problems, source)
    fits = _start(problems, source, basis, present, rng, start)
    if all(fit.promise == 0 for fit in fits):  # all rows were worked on
        _record(fits, source, basis, progress)
        if measured:
            _measure(fits, source, basis, progress)
        return fits, progress.spent() or "max_core"
    _evaluate(fits, source, basis, progress)
    stopped_by = "stall"
    for _ in range(MOST_ROUNDS):
        directions = _directions(fits, source, basis, progress)
        _record(fits, source, basis, progress)
        solved = all(f.promise <= max(PROMISE, PROMISE_OF_TOL * tol) for f in fits)
        spent = progress.spent()
        if solved or spent is not None:
            stopped_by = spent or "max_core"
            break
        moved = _values_of(fits, directions, source, basis, progress)
        for t, fit in enumerate(fits):
            _move(fit, directions[t], moved[:, t], source)
    if measured:
        _measure(fits, source, basis, progress)
    return fits, stopped_by


def _measure(fits: list[Fit], source: Source, basis: Basis, progress: Progress) -> None:
    """Set values and primal values afresh: what is certified is measured."""
    _evaluate(fits, source, basis, progress)
    for fit in fits:
        fit.row_pull()


def prove(fits: list[Fit], source: Source, basis: Basis, progress: Progress) -> None:
    """Set the dual values, where they are affordable."""
    for fit in fits:
        fit.dual = _dual(fit, source, basis, progress)


def _start(
    problems: list[Problem],
    source: Source,
    basis: Basis,
    present: Array,
    rng: np.random.Generator,
    start: KernelExpansion | None = None,
) -> list[Fit]:
    """Return the fits as solved on a sample."""
    numbers, kernel = source.numbers, basis.kernel
    fits = [
        Fit(problem, terms_of(problem, source, kernel, numbers), v)
        for problem, v in zip(
            problems, _first_weights(problems, basis, start), strict=True
        )
    ]
    _solve_sample(fits, source, basis, present, rng)
    return fits


def _first_weights(
    problems: list[Problem], basis: Basis, start: KernelExpansion | None
) -> list[Array]:
    """Return weights whose functions agree with `start` on the basis, or zeros."""
    found = [np.zeros(size_of(problem, basis)) for problem in problems]
    if start is None or any(problem.has_offset for problem in problems):
        return found
    values = start.evaluate(basis.rows, start.prepared()) - start.intercept
    weights = basis.features(values.T)
    for t, (problem, v) in enumerate(zip(problems, found, strict=True)):
        v[: len(basis)] = weights[t]
        if problem.has_bias:
            v[-1] = start.intercept[t]
    return found


def _solve_sample(
    fits: list[Fit],
    source: Source,
    basis: Basis,
    present: Array,
    rng: np.random.Generator,
) -> None:
    """Solve each problem on a sample, and keep its Hessian there."""
    k = len(basis)
    wanted = max(SAMPLE_SHARE * k, int(SAMPLE_PRODUCTS / k**2))
    # Squares of kernel values must stay in the range of float32.
    small = float(np.abs(basis.factor).max()) ** 2 < 1e15
    dtype = np.float32 if small else np.float64
    # Half of what the span may use: the basis itself takes the other half.
    room = capacity(source, k + 2, dtype) // 2
    if all(fit.problem.response is None for fit in fits) and len(present) <= room:
        # Of a classifier only the violated rows count in the Hessian.
        wanted = len(present)
    most = min(wanted, room, len(present))
    most = max(most, min(k, len(present)))
    sample, stands_for = _weighted_sample(fits, source, present, most, rng)
    whole = len(sample) == len(present)
    steps = WHOLE_STEPS if whole else SAMPLE_STEPS
    if whole and len(present) * k**2 <= SAMPLE_PRODUCTS and len(present) <= room // 2:
        dtype = np.float64
    designs: list[WorkingRows] = []
    for fit in fits:
        like = designs[0] if designs else None
        designs.append(WorkingRows(fit.problem, source, basis, sample, like, dtype))
    boosts = [np.tile(stands_for, len(fit.problem.sides)) for fit in fits]
    starts = [fit.v for fit in fits]
    solved = minimise_each(designs, starts, boosts, steps)
    for fit, rows, boost, found in zip(fits, designs, boosts, solved, strict=True):
        fit.v, system = found.v, found.gram
        if whole:
            fit.promise = 0.0
            continue
        if system is None:
            omega = boost * rows.terms.omega
            violation = rows.terms.target - rows.times(fit.v)
            active = np.flatnonzero((violation > 0) & (omega > 0))
            system = rows.gram(active, omega)[0]
        if fit.problem.has_offset:
            system = _without_offset(system, fit.offset)
        else:
            system = system.copy()
        fit.hessian = _factor(system)


def _weighted_sample(
    fits: list[Fit],
    source: Source,
    present: Array,
    size: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Return about `size` rows, and how many each stands for.

    Heavy rows are likelier: with balanced weights of 1:100 half of the weight is in a
    hundredth of the rows, and a uniform sample's Hessian took 30 rounds. A row is in
    with a probability q of its own, and stands for 1/q rows.
    """
    if size >= len(present):
        return present, np.ones(len(present))
    at = np.searchsorted(source.numbers, present)
    weight = np.sum([fit.terms.omega[: source.n_rows][at] for fit in fits], axis=0)
    q = _shares(weight, size)
    drawn = np.flatnonzero(rng.random(len(q)) < q)
    return present[drawn], 1.0 / q[drawn]


def _shares(weight: Array, size: int) -> Array:
    """Return probabilities that add up to `size`, like the weights but at most 1."""
    q = np.minimum(weight * (size / weight.sum()), 1.0)
    while True:
        below = q < 1.0
        left = size - np.count_nonzero(~below)
        scaled = weight[below] * (left / weight[below].sum())
        if (scaled <= 1.0).all():
            q[below] = scaled
            return np.asarray(q)
        q[below] = np.minimum(scaled, 1.0)


def _factor(gram: Array) -> Any:
    """Return the Cholesky factor of ``gram + 1``; summed in float32, it may need more.

    It is a metric only: a larger diagonal makes smaller steps, no other result.
    """
    diagonal = np.diag_indices(len(gram))
    gram[diagonal] += 1.0
    while True:
        try:
            return linalg.cho_factor(gram, lower=True, check_finite=False)
        except linalg.LinAlgError:
            gram[diagonal] += 1e-6 * float(gram[diagonal].max())


def _without_offset(gram: Array, offset: float) -> Array:
    """Return the Hessian in the weights alone: the offset follows at its best."""
    inner, column, corner = gram[:-1, :-1].copy(), gram[:-1, -1], gram[-1, -1]
    if offset != 0 and corner > 0:
        inner -= np.outer(column, column) / corner
    return np.asarray(inner)


def _evaluate(
    fits: list[Fit], source: Source, basis: Basis, progress: Progress
) -> None:
    """Set the values of all fits on all rows; one pass."""
    values = _values_of(fits, [fit.weights for fit in fits], source, basis, progress)
    for t, fit in enumerate(fits):
        fit.values = np.ascontiguousarray(values[:, t])


def _values_of(
    fits: list[Fit],
    weights: list[Array],
    source: Source,
    basis: Basis,
    progress: Progress,
) -> Array:
    """Return the functions with these weights on all rows, one column each."""
    functions = _functions(fits, weights, basis)
    progress.rows_looked_at += source.n_rows
    return functions.values(source)


def _functions(fits: list[Fit], weights: list[Array], basis: Basis) -> KernelExpansion:
    k = len(basis)
    coef = basis.coefficients(np.stack([w[:k] for w in weights], axis=1))
    pairs = zip(fits, weights, strict=True)
    bias = [float(w[k]) if fit.problem.has_bias else 0.0 for fit, w in pairs]
    return KernelExpansion(basis.kernel, basis.rows, coef, np.array(bias))


def expansion(fits: list[Fit], basis: Basis) -> KernelExpansion:
    """Return the functions as coefficients of the basis rows."""
    return _functions(fits, [fit.weights for fit in fits], basis)


def _directions(
    fits: list[Fit], source: Source, basis: Basis, progress: Progress
) -> list[Array]:
    """Return the step of each fit from its gradient over all rows; one pass."""
    pulls = np.stack([fit.row_pull() for fit in fits], axis=1)
    kernel, points, numbers = basis.kernel, basis.points, source.numbers

    def score(rows: Rows) -> Array:
        at = np.searchsorted(numbers, rows.index)
        return kernel.times(points, kernel.prepare(rows), pulls[at])

    pulled = basis.features(source.reduce(score, np.add).T).T
    progress.rows_looked_at += source.n_rows
    found = []
    for t, fit in enumerate(fits):
        gradient = fit.weights.copy()
        gradient[: len(basis)] -= pulled[:, t]
        if fit.problem.has_bias:
            gradient[-1] -= pulls[:, t].sum()
        step = -linalg.cho_solve(fit.hessian, gradient, check_finite=False)
        fit.promise = float(-gradient @ step) / 2 / max(abs(fit.primal), 1e-300)
        found.append(step)
    return found


def _move(fit: Fit, step: Array, moved: Array, source: Source) -> None:
    """Minimise over the span of the weights, the step and the last step, on all rows.

    In an orthonormal basis of that span the problem is one of three columns.
    """
    weights, values = [fit.weights, step], [fit.values, moved]
    if fit.last_step is not None and fit.last_values is not None:
        weights.append(fit.last_step)
        values.append(fit.last_values)
    frame, mix, order = linalg.qr(
        np.stack(weights, axis=1), mode="economic", pivoting=True
    )
    sizes = np.abs(mix.diagonal())
    rank = int(np.count_nonzero(sizes > 1e-10 * sizes.max(initial=0.0)))
    if rank == 0:
        return
    frame, mix = frame[:, :rank], mix[:rank, :rank]
    chosen = np.stack(values)[order[:rank]]
    design = linalg.solve_triangular(mix, chosen, trans="T").T
    few = Design(fit.problem, source.workers, fit.terms, np.ascontiguousarray(design))
    start = frame.T @ fit.weights
    tail = fit.v[len(fit.weights) :]
    found = minimise(few, np.concatenate([start, tail])).v
    new, new_values = frame @ found[: few.signed], design @ found[: few.signed]
    fit.last_step, fit.last_values = new - fit.weights, new_values - fit.values
    fit.v, fit.values = np.concatenate([new, found[few.signed :]]), new_values


def _dual(fit: Fit, source: Source, basis: Basis, progress: Progress) -> float:
    """Return the dual value of the violations, where that is affordable.

    After an interrupt, or when the time is spent, little is affordable.
    """
    beta = fit.terms.omega * np.maximum(fit.violations(), 0.0)
    inside = np.flatnonzero(beta > 0)
    allowed = max(EXACT_VALUES, EXACT_PASSES * float(source.n_rows) * len(basis))
    if progress.spent() is not None:
        allowed = EXACT_VALUES / 2
    if float(len(inside)) ** 2 / 2 > allowed:
        return fit.problem.least
    entries = _entries(fit.problem, source, inside)
    return dual_of_entries(fit.problem, source, basis.kernel, entries, beta[inside])


def _entries(problem: Problem, source: Source, positions: Array) -> Array:
    """Return the problem's entries at these positions of the rows' sides."""
    rows = source.numbers[positions % source.n_rows]
    return np.asarray(rows + positions // source.n_rows * problem.labels.n_rows)


def _record(fits: list[Fit], source: Source, basis: Basis, progress: Progress) -> None:
    progress.snapshot = lambda: expansion(fits, basis)
    progress.record(
        core=len(basis),
        support=len(basis),
        gap=float("nan"),  # known only at the end
        promise=max(fit.promise for fit in fits),
        dual=float("nan"),
        looked_at=source.n_rows,
        exact=False,
    )


def certificates(
    fits: list[Fit], tol: float, progress: Progress, stopped_by: str
) -> list[Certificate]:
    """Return one certificate per problem; the values are those of all rows."""
    found = []
    for fit in fits:
        gap = relative_gap(fit.primal, fit.dual)
        base = Certificate(fit.problem.name, fit.primal, fit.dual, gap)
        found.append(
            replace(
                base,
                primal=fit.problem.unit * fit.primal,
                dual=fit.problem.unit * fit.dual,
                dual_bound="none" if fit.dual == fit.problem.least else "exact",
                n_verified=progress.n_rows,
                n_rows=progress.n_rows,
                passes=progress.passes,
                seconds=progress.seconds,
                converged=gap <= tol,
                stopped_by="tol" if gap <= tol else stopped_by,
                tol=tol,
            )
        )
    return found
