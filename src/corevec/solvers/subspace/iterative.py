"""Solve over all rows in the span of a basis that is not the whole space.

Where the kernel is not of low rank and more rows have multipliers than a core set can
hold - a regression with noise above its tube, overlapping classes - the weights of a
few hundred basis vectors are decided by all rows. In the orthonormal coordinates of the
span (docs/mathematics.md, section 3) the problem has k variables. Forming its Hessian
over all rows costs n k^2, so the Hessian comes from a sample of the rows, and
everything that decides the result from all of them:

1. solve on the sample, each row of which stands for n/m rows, by Newton's method
   (``sample_newton.py``); for a classifier then on the rows near the margin, which
   decide, where these fit: after a few such solves nothing may be left for the rest;
2. compute the gradient over all rows in one pass, n k kernel values;
3. take ``d = -H^-1 gradient`` with the sample's H, and its values on all rows in a
   second pass;
4. minimise over the span of (weights, d, last step) exactly, on all rows: three
   columns, so that costs nothing. With the last step included, this converges like
   preconditioned conjugate gradients: 3-8 rounds to a relative 1e-4 (measured).

Values, terms and violations of all rows stay on the device of the rows.

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
    column_of,
    full,
    is_tensor,
    namespace,
    places,
    to_device_of,
    to_numpy,
)
from corevec.certificates.squared_loss import dual_of_entries
from corevec.data.sources import Source
from corevec.kernels import Rows
from corevec.models.basis import Basis
from corevec.models.expansion import KernelExpansion
from corevec.models.norms import parts_of
from corevec.solvers.numeric.design import Design
from corevec.solvers.numeric.primal_newton import minimise
from corevec.solvers.subspace.row_order import RowOrder, entries_at, weighted_rows
from corevec.solvers.subspace.sample_newton import sample_size, solve_on_sample
from corevec.solvers.subspace.state import Point, SpanFit, SpanState
from corevec.solvers.subspace.task import SpanTask

# A fit whose predicted decrease is below this waits for the others: its last step is
# made of rounding errors, and 200 rounds along such steps ended 2 to 12 % above the
# optimum.
ROUNDING_DECREASE = 1e-14
# Directions whose part outside the others is below this share of the largest are
# spanned by them.
MIN_RELATIVE_PIVOT = 1e-10
# |u|^2 is summed exactly up to this many kernel values, or as many as this many passes
# over the rows have cost.
EXACT_VALUES, EXACT_PASSES = 1e9, 30


def solve(
    task: SpanTask,
    start: KernelExpansion | None = None,
    feature_sq: float = 0.0,
    is_measured: bool = True,
) -> tuple[list[SpanFit], str]:
    """Return the solutions of all problems over all rows, and what stopped the rounds.

    Parameters
    ----------
    task : SpanTask
        The problems, the rows and the basis.
    start : KernelExpansion, optional
        Functions to begin with.
    feature_sq : float
        Mean square of a row's features, as in `sample_newton.sample_size`.
    is_measured : bool
        Whether values and primal values are computed afresh in one more pass; without
        it, the caller does so.
    """
    state = SpanState.start(task, start)
    _solve_on_some_rows(state, feature_sq, has_start=start is not None)
    if state.is_solved:
        state.record()
        stopped_by = task.progress.spent() or "max_vectors"
    else:
        stopped_by = _solve_in_rounds(state)
    if is_measured:
        state.measure()
    return state.fits, stopped_by


def _solve_on_some_rows(state: SpanState, feature_sq: float, has_start: bool) -> None:
    """Set weights, Hessians and values on all rows by solving on some of them.

    For a classifier on those near the margin, and again where others are violated then.
    Of the weights that were given as a start, or found on the way, the best remain.
    """
    task, fits = state.task, state.fits
    present = weighted_rows(task.problems, task.source)
    size = sample_size(state, present, feature_sq)
    uses_margin = state.is_decided_at_margin and size.sample_rows < len(present)
    if has_start and uses_margin:
        state.evaluate()
    best = [fit.point() for fit in fits]
    seen = full(task.source.n_rows, False, present, bool)  # near the margin so far
    for _ in range(task.method.max_margin_solves if uses_margin else 1):
        was_near_margin = fits[0].has_values
        rows, counts_once = solve_on_sample(state, present, size, seen)
        if state.is_solved:
            return
        state.evaluate()
        best = _better(best, [fit.point() for fit in fits])
        if task.progress.spent() is not None:
            break
        if was_near_margin and (not counts_once or _is_all_seen(state, rows, seen)):
            break  # what is left is for the rounds over all rows
    for fit, point in zip(fits, best, strict=True):
        fit.move_to(point)


def _better(left: list[Point], right: list[Point]) -> list[Point]:
    """Return the one of each pair of points with the smaller primal value."""
    pairs = zip(left, right, strict=True)
    return [min(pair, key=lambda point: point.primal) for pair in pairs]


def _is_all_seen(state: SpanState, rows: Any, seen: Any) -> bool:
    """Whether the rows near the margin hold all of the loss; adds `rows` to them."""
    seen[RowOrder(state.task.source).positions_of(rows)] = True
    unseen = max(fit.unseen_share(seen) for fit in state.fits)
    return unseen <= state.task.method.min_relative_decrease


def _solve_in_rounds(state: SpanState) -> str:
    """Solve over all rows, two passes a round; return what stopped the rounds."""
    task, fits, stopped_by = state.task, state.fits, "stall"
    for _ in range(task.method.max_rounds):
        directions = _directions(state)
        state.record()
        tolerance = task.method.min_decrease(task.tol)
        is_solved = all(fit.predicted_decrease <= tolerance for fit in fits)
        spent = task.progress.spent()
        if is_solved or spent is not None:
            stopped_by = spent or "max_vectors"
            break
        moved = state.values_of(directions)
        for t, fit in enumerate(fits):
            if fit.predicted_decrease > ROUNDING_DECREASE:
                _minimise_along(fit, directions[t], column_of(moved, t), task)
    for fit in fits:
        fit.drop_steps()
    return stopped_by


def _directions(state: SpanState) -> list[Array]:
    """Return ``-H^-1 gradient`` of each fit, and set what it would gain; one pass."""
    task, basis = state.task, state.task.basis
    own = [fit.row_pull() for fit in state.fits]
    pulls = namespace(own[0]).stack(own, axis=1)
    order = RowOrder(task.source)

    def score(rows: Rows) -> Array:
        return to_numpy(_pulled_by(rows, pulls[order.slice_of(rows)], basis))

    pulled = basis.features(task.source.reduce(score, np.add).T).T
    task.count_pass()
    found = []
    for t, fit in enumerate(state.fits):
        gradient = fit.weights.copy()
        gradient[: len(basis)] -= pulled[:, t]
        if fit.problem.has_bias:
            gradient[-1] -= float(pulls[:, t].sum())
        found.append(fit.newton_step(gradient))
    return found


def _pulled_by(rows: Rows, pulls: Any, basis: Basis) -> Any:
    """Return ``sum_i pulls[i] k(b, x_i)`` for each vector b of the basis."""
    kernel, points = basis.kernel, basis.points
    if not is_tensor(rows.index):
        return kernel.times(points, kernel.prepare(rows), pulls)
    # The fused kernels distribute their first argument over programs: of 2000 vectors
    # each of 32 programs would have 64, and all rows. So the kernel values of some rows
    # at a time.
    total = full((len(basis), pulls.shape[1]), 0.0, pulls)
    for part in parts_of(rows.index, len(basis)):
        few = kernel.prepare(rows.part(part))
        total += kernel.block(few, points).T @ pulls[part]
    return total


def _minimise_along(fit: SpanFit, step: Array, moved: Any, task: SpanTask) -> None:
    """Minimise over the span of the weights, the step and the last step, on all rows.

    `moved` are the step's values on all rows. In an orthonormal basis of that span the
    problem is one of three columns.
    """
    weights, values = [fit.weights, step], [fit.values, moved]
    if fit.last_step is not None and fit.last_values is not None:
        weights.append(fit.last_step)
        values.append(fit.last_values)
    frame, mix, order = linalg.qr(
        np.stack(weights, axis=1), mode="economic", pivoting=True
    )
    sizes = np.abs(mix.diagonal())
    is_pivot = sizes > MIN_RELATIVE_PIVOT * sizes.max(initial=0.0)
    rank = int(np.count_nonzero(is_pivot))
    if rank == 0:
        return
    frame, mix = frame[:, :rank], mix[:rank, :rank]
    # Of three columns the inverse loses no more digits than three solutions would: the
    # pivots are graded.
    unmixed = linalg.solve_triangular(mix, np.eye(rank))
    xp, chosen = namespace(moved), [values[place] for place in order[:rank]]
    design = xp.stack(chosen, axis=1) @ to_device_of(unmixed, moved)
    few = Design(fit.problem, task.source.workers, fit.terms, design)
    del chosen, values  # three numbers of every row
    first = np.concatenate([frame.T @ fit.weights, fit.v[len(fit.weights) :]])
    found = minimise(few, first, settings=task.newton).v
    new_values = design @ to_device_of(found[:rank], design)
    fit.step_to(frame @ found[:rank], found[rank:], new_values)


def prove(
    fits: list[SpanFit], source: Source, basis: Basis, progress: Progress
) -> None:
    """Set the dual values, where they are affordable."""
    for fit in fits:
        fit.dual = _dual(fit, source, basis, progress)


def _dual(fit: SpanFit, source: Source, basis: Basis, progress: Progress) -> float:
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
