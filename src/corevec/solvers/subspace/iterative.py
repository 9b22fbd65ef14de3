"""Solving over ALL rows in the span of a basis that is not the whole space.

Where the kernel is not of low rank and more rows have multipliers than a core set can
hold - a regression with noise above its tube, overlapping classes - the weights of a
few hundred basis rows are decided by all rows. In the orthonormal coordinates of the
span (``span.py``) the problem has k variables. Forming its Hessian over all rows costs
n k^2, so the Hessian comes from a sample of the rows, and everything that decides the
result from all of them:

1. solve on the sample, each row of which stands for n/m rows: exact Newton; of a
   classifier then on the rows at the margin, which decide, where these fit: after a
   few such looks nothing may be left for the rest;
2. the gradient over all rows is one pass, n k kernel values;
3. ``d = -H^-1 gradient`` with the sample's H, its values on all rows a second pass;
4. minimise over the span of (weights, d, last step) exactly, on all rows: three
   columns, so that costs nothing. With the last step in, this converges like
   preconditioned conjugate gradients: 3-8 rounds to a relative 1e-4 (measured).

Values, terms and violations of all rows are kept where the rows live, on a GPU too.

The dual value is that of the violations, with |u|^2 summed exactly where that is
affordable. A model can be as accurate as the full one while its gap is not small; the
certificate says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.backend.arrays import (
    cast,
    column_of,
    full,
    is_tensor,
    namespace,
    places,
    to_device_of,
    to_numpy,
)
from corevec.certificates.exact import dual_of_entries
from corevec.data.sources import Source
from corevec.data.sources.budget import rows_within
from corevec.kernels import AnyKernel, Rows
from corevec.models.basis import Basis, basis_of
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.models.norms import parts_of
from corevec.problems.family import Problem
from corevec.solvers.numeric.design import Design
from corevec.solvers.numeric.primal_newton import minimise
from corevec.solvers.subspace.sample_start import (
    Fit,
    Order,
    are_at_margin,
    entries_at,
    every_row_weighs,
    first_fits,
    present_there,
    rows_at_once,
    solve_on_sample,
)

# Basis rows without `max_core`: one per so many rows, within these bounds. Friedman,
# 90,000 rows: RMSE 1.10 with 500, 1.04 with 1000, 1.014 with 2000 (noise: 1.0).
ROWS_PER_BASIS, FEWEST, MOST = 12, 800, 2000
# The weights are solved until the next step promises less than this share of the
# objective, or this share of `tol`.
PROMISE, PROMISE_OF_TOL = 1e-5, 0.05
MOST_ROUNDS = 30
# Of a classifier, before that: times that it is solved on some rows, those at the
# margin (but for a random sample where nothing is known yet).
MOST_LOOKS = 4
# A fit that would gain less waits for the others: its last step is made of rounding
# errors, and 200 rounds along such steps ended 2 to 12 % above the optimum.
NOTHING = 1e-14
# |u|^2 is summed exactly up to this many kernel values, or as many as this many passes
# over the rows have cost.
EXACT_VALUES, EXACT_PASSES = 1e9, 30


def rows_present(problems: list[Problem], source: Source) -> Array:
    """Return the numbers of the rows that have a weight in some problem, here."""
    if every_row_weighs(problems):
        return source.numbers
    return to_numpy(present_there(problems, source))


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
    """Return for how many rows half of the room holds the numbers per row.

    Terms, values and violations of each entry, and three design columns, where the rows
    live; those that are streamed to a device have theirs there. Where that is a part of
    the rows, these are copied, too: on a device CSR rows are dense.
    """
    row_bytes = 8 * sum(11 * len(problem.sides) + 8 for problem in problems)
    half = source.working_budget / 2
    if source.n_rows * row_bytes > half:
        row_bytes += source.subset_row_bytes
    return rows_within(half, row_bytes)


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
    present = present_there(problems, source)
    if size >= len(present):
        basis, is_definite = basis_of(source, kernel, to_numpy(present))
        return basis if is_definite else None
    drawn = rng.choice(len(present), max(1, size // 2), replace=False)
    first = to_numpy(present[to_device_of(drawn, present)])
    basis, is_definite = basis_of(source, kernel, first)
    if basis is None or not is_definite:
        return None
    fits = first_fits(problems, source, basis)
    at_once = rows_at_once(fits, source, basis, present)
    solve_on_sample(fits, source, basis, present, rng, at_once)
    _evaluate(fits, source, basis, progress)
    order, share = Order(source), _shares_here(fits)
    share[to_numpy(order.places_of(first))] = 0.0
    wanted = min(size - len(first), int(np.count_nonzero(share)))
    if wanted == 0 or progress.spent() is not None:
        return basis
    share /= share.sum()
    second = order.numbers_at(rng.choice(len(share), wanted, replace=False, p=share))
    basis, is_definite = basis_of(source, kernel, np.concatenate([first, second]))
    return basis if is_definite else None


def _shares_here(fits: list[Fit]) -> Array:
    """Return each row's share of all squared multipliers, here, where rows are drawn.

    Once in a fit: of ten million rows these are 80 MB.
    """
    share = fits[0].row_share()
    for fit in fits[1:]:
        share += fit.row_share()
    return to_numpy(share)


def solve(
    problems: list[Problem],
    source: Source,
    basis: Basis,
    tol: float,
    progress: Progress,
    rng: np.random.Generator,
    measured: bool = True,
    start: KernelExpansion | None = None,
    feature_sq: float = 0.0,
) -> tuple[list[Fit], str]:
    """Solve all problems over all rows in the span of `basis`.

    Returns the solutions, and what stopped the rounds. `measured` sets values and
    primal values in one more pass; without, the caller does. `start` are functions
    to begin with; `feature_sq` as in `rows_at_once`.
    """
    fits = first_fits(problems, source, basis, start)
    _work(fits, source, basis, progress, rng, feature_sq, start is not None)
    if all(fit.promise == 0 for fit in fits):  # all rows were worked on
        _record(fits, source, basis, progress)
        if measured:
            _measure(fits, source, basis, progress)
        return fits, progress.spent() or "max_core"
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
            if fit.promise > NOTHING:
                _move(fit, directions[t], column_of(moved, t), source)
    for fit in fits:  # what is left of the rounds would lie beside the certificate
        fit.hessian = fit.last_step = fit.last_values = None
    if measured:
        _measure(fits, source, basis, progress)
    return fits, stopped_by


def _work(
    fits: list[Fit],
    source: Source,
    basis: Basis,
    progress: Progress,
    rng: np.random.Generator,
    feature_sq: float,
    started: bool,
) -> None:
    """Solve on some rows, for a start, a Hessian, and values on all rows.

    Of a classifier on those at the margin, and again where others are violated then. Of
    the weights that were `started` with, or found on the way, the best remain.
    """
    present, order = present_there([fit.problem for fit in fits], source), Order(source)
    at_once = rows_at_once(fits, source, basis, present, feature_sq)
    at_margin = are_at_margin(fits) and at_once.most < len(present)
    if started and at_margin:
        _evaluate(fits, source, basis, progress)
    best = [_point(fit) for fit in fits]
    seen = full(source.n_rows, False, present, bool)  # at the margin
    for _ in range(MOST_LOOKS if at_margin else 1):
        is_chosen = len(fits[0].values) > 0
        worked_on = fits, source, basis, present, rng, at_once
        few, is_all = solve_on_sample(*worked_on, seen)
        if all(fit.promise == 0 for fit in fits):  # on all rows
            return
        _evaluate(fits, source, basis, progress)
        points = zip(best, map(_point, fits), strict=True)
        best = [min(pair, key=lambda point: point[0]) for pair in points]
        if progress.spent() is not None or (is_chosen and not is_all):
            break  # what is left is for the rounds over all rows
        if is_chosen:
            seen[order.places_of(few)] = True
            if max(fit.unseen(seen) for fit in fits) <= PROMISE:
                break
    for fit, (_, v, values) in zip(fits, best, strict=True):
        fit.v, fit.values = v, values


def _point(fit: Fit) -> tuple[float, Array, Any]:
    """Return the primal value over all rows, infinite if not known, and where it is."""
    if len(fit.values):
        fit.row_pull()
    return fit.primal, fit.v, fit.values


def _measure(fits: list[Fit], source: Source, basis: Basis, progress: Progress) -> None:
    """Set values and primal values afresh: what is certified is measured."""
    _evaluate(fits, source, basis, progress)
    for fit in fits:
        fit.row_pull()


def prove(fits: list[Fit], source: Source, basis: Basis, progress: Progress) -> None:
    """Set the dual values, where they are affordable."""
    for fit in fits:
        fit.dual = _dual(fit, source, basis, progress)


def _evaluate(
    fits: list[Fit], source: Source, basis: Basis, progress: Progress
) -> None:
    """Set the values of all fits on all rows; one pass."""
    values = _values_of(fits, [fit.weights for fit in fits], source, basis, progress)
    for t, fit in enumerate(fits):
        fit.values = column_of(values, t)


def _values_of(
    fits: list[Fit],
    weights: list[Array],
    source: Source,
    basis: Basis,
    progress: Progress,
) -> Any:
    """Return the functions with these weights on all rows, one column each."""
    functions = _functions(fits, weights, basis)
    progress.rows_looked_at += source.n_rows
    return source.map_on_device(functions.ready())


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
    own = [fit.row_pull() for fit in fits]
    pulls = namespace(own[0]).stack(own, axis=1)
    order = Order(source)

    def score(rows: Rows) -> Array:
        return to_numpy(_pulled_by(rows, pulls[order.part_of(rows)], basis))

    pulled = basis.features(source.reduce(score, np.add).T).T
    progress.rows_looked_at += source.n_rows
    found = []
    for t, fit in enumerate(fits):
        gradient = fit.weights.copy()
        gradient[: len(basis)] -= pulled[:, t]
        if fit.problem.has_bias:
            gradient[-1] -= float(pulls[:, t].sum())
        metric = cast(gradient, fit.hessian[0].dtype)
        step = -linalg.cho_solve(fit.hessian, metric, check_finite=False).astype(float)
        fit.promise = float(-gradient @ step) / 2 / max(abs(fit.primal), 1e-300)
        found.append(step)
    return found


def _pulled_by(rows: Rows, pulls: Any, basis: Basis) -> Any:
    """Return ``sum_i pulls[i] k(b, x_i)`` for each vector b of the basis."""
    kernel, points = basis.kernel, basis.points
    if not is_tensor(rows.index):
        return kernel.times(points, kernel.prepare(rows), pulls)
    # The fused kernels share their first argument out: of 2000 vectors each of 32
    # programs would have 64, and all rows. So the kernel values of some rows at a time.
    total = full((len(basis), pulls.shape[1]), 0.0, pulls)
    for part in parts_of(rows.index, len(basis)):
        few = kernel.prepare(rows.part(part))
        total += kernel.block(few, points).T @ pulls[part]
    return total


def _move(fit: Fit, step: Array, moved: Any, source: Source) -> None:
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
    # Of three columns the inverse loses no more digits than three solutions would: the
    # pivots are graded.
    unmixed = linalg.solve_triangular(mix, np.eye(rank))
    xp, chosen = namespace(moved), [values[place] for place in order[:rank]]
    design = xp.stack(chosen, axis=1) @ to_device_of(unmixed, moved)
    few = Design(fit.problem, source.workers, fit.terms, design)
    del chosen, values  # three numbers of every row
    start = frame.T @ fit.weights
    tail = fit.v[len(fit.weights) :]
    found = minimise(few, np.concatenate([start, tail])).v
    new, new_values = frame @ found[:rank], design @ to_device_of(found[:rank], design)
    fit.last_step, fit.last_values = new - fit.weights, new_values - fit.values
    fit.v, fit.values = np.concatenate([new, found[rank:]]), new_values


def _dual(fit: Fit, source: Source, basis: Basis, progress: Progress) -> float:
    """Return the dual value of the violations, where that is affordable.

    After an interrupt, or when the time is spent, little is affordable.
    """
    beta = fit.multipliers()
    inside = places(beta > 0)
    allowed = max(EXACT_VALUES, EXACT_PASSES * float(source.n_rows) * len(basis))
    if progress.spent() is not None:
        allowed = EXACT_VALUES / 2
    if float(len(inside)) ** 2 / 2 > allowed:
        return fit.problem.least
    entries = entries_at(fit.problem, source, inside)
    few = to_numpy(beta[inside])
    return dual_of_entries(fit.problem, source, basis.kernel, entries, few)


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
    fits: list[Fit],
    functions: KernelExpansion,
    tol: float,
    progress: Progress,
    stopped_by: str,
) -> list[Certificate]:
    """Return one certificate per problem; the values are those of all rows."""
    found = []
    for fit, error in zip(fits, functions.value_errors(), strict=True):
        primal = fit.primal + fit.problem.loss_error(fit.primal, float(error))
        found.append(
            Certificate.of(
                fit.problem.name,
                (primal, fit.dual),
                progress,
                unit=fit.problem.unit,
                tol=tol,
                stopped_by=stopped_by,
                dual_bound="none" if fit.dual == fit.problem.least else "exact",
                rounding=relative_gap(primal, fit.primal),
            )
        )
    return found
