"""Which rows enter the core set: the first ones, and a batch per round."""

from __future__ import annotations

import numpy as np

from corevec._runtime.types import Array
from corevec.certificates.scan import ScanRequest, ScanResult, Subset, scan
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Rows
from corevec.models.expansion import KernelExpansion
from corevec.models.result import Settings
from corevec.problems.family import Problem
from corevec.solvers.coreset.core import Core

# Rows among which the first core rows are looked for, where not all are looked at.
FIRST_SUBSET = 2000
# A batch has 0.3 of the support vectors, within these bounds, picked from the 6x
# worst rows. Batch size matters most of all constants here (design.md 4).
BATCH_SHARE, BATCH_MIN, BATCH_MAX, BATCH_POOL = 0.3, 40, 400, 6


def first_rows(
    core: Core, source: Source, settings: Settings, rng: np.random.Generator
) -> Array:
    """Return the initial core rows (CVM paper, 4.1.1).

    "any": one row. "farthest": the row z_a farthest from any row z, and the row
    farthest from z_a (Kumar et al. 2003). "opposite": the closest pair of opposite
    classes around z. In each case z is random; the others are looked for among all
    rows, or among a random sample where the run samples.
    """
    init = settings.init
    if init == "auto":
        init = "opposite" if core.problem.positive is not None else "farthest"
    view: Source = source
    size = first_look_rows(source, settings)
    if size < source.n_rows:
        view = Subset(source, source.draw(rng, size))
    z = _any_entry(core.problem, source, core.kernel, rng)
    if init == "any":
        return z
    a = _farthest_from(core, source, view, z)
    if init == "opposite":
        return np.unique(np.concatenate([z, a]))
    b = _farthest_from(core, source, view, a)
    return np.unique(np.concatenate([a, b]))


def first_look_rows(source: Source, settings: Settings) -> int:
    """Return among how many rows the first core rows are looked for."""
    if settings.sampling == "full":
        return source.n_rows
    size = settings.sampling if isinstance(settings.sampling, int) else FIRST_SUBSET
    return min(size, source.n_rows)


def grow(core: Core, seen: ScanResult, settings: Settings, room: int) -> bool:
    """Add the worst rows of a look to the core; return whether there were any."""
    size = batch_size(core, settings)
    size = min(size, room - len(core))
    bad = seen.worst[seen.violation > 0]
    if settings.ball_epsilon is None:
        # A violation of a rounding error is no reason to grow.
        bad = seen.worst[seen.violation > 1e-14 * max(1.0, seen.largest)]
    if len(bad) == 0:
        return False
    chosen = bad[:size]
    if size > 1 and len(bad) > size:
        pool = max(size, min(BATCH_POOL * size, BATCH_POOL * BATCH_MAX))
        chosen = different_rows(core, seen, bad[:pool], size)
    core.add(np.sort(chosen))
    return True


def different_rows(core: Core, seen: ScanResult, pool: Array, size: int) -> Array:
    """Return rows of `pool` that are bad each for its own reason.

    Matching pursuit: take the row whose own step gains most, subtract what that
    step does to the violations of the others, repeat. The worst rows alone are
    near-duplicates of each other.
    """
    rows = core.source.take(core.problem.rows_of(pool))
    terms = core.problem.terms(rows, core.kernel, core.problem.side_of(pool))
    points = core.kernel.prepare_basis(rows)
    Q = core.problem.signed(core.kernel.block(points, points), terms, terms)
    if not core.problem.is_hard:
        Q[np.diag_indices(len(Q))] += 1.0 / terms.omega
    # A row of an indefinite kernel may have no step of its own that ends.
    least = 1e-12 * float(np.abs(Q).max())
    diagonal = np.where(Q.diagonal() > least, Q.diagonal(), np.inf)
    violation = seen.violation[: len(pool)].copy()
    chosen = np.zeros(len(pool), dtype=bool)
    for _ in range(size):
        gain = np.where(chosen, -np.inf, violation * np.abs(violation) / diagonal)
        best = int(np.argmax(gain))
        if gain[best] <= 0:
            break
        chosen[best] = True
        violation -= Q[best] * (violation[best] / diagonal[best])
    # The pursuit ends early where one row's step would settle its neighbours; the
    # batch is filled with the worst of the others, or rounds would add a few rows each.
    rest = np.flatnonzero(~chosen)[: size - int(chosen.sum())]
    return pool[np.union1d(np.flatnonzero(chosen), rest)]


def batch_size(core: Core, settings: Settings) -> int:
    """Return how many rows to add at most."""
    if isinstance(settings.batch, int):
        return settings.batch
    share = int(BATCH_SHARE * len(core.support))
    return int(np.clip(share, BATCH_MIN, BATCH_MAX))


def _any_entry(
    problem: Problem, source: Source, kernel: AnyKernel, rng: np.random.Generator
) -> Array:
    """Return an entry of one random row of positive weight, the one with p > 0."""
    for _ in range(100):
        row = source.draw(rng, 1)
        if problem.terms(source.take(row), kernel).omega[0] > 0:
            break
    else:

        def present(rows: Rows) -> Array:
            return rows.index[problem.terms(rows, kernel).omega > 0]

        row = rng.choice(source.map(present), size=1)
    taken = source.take(row)
    targets = [problem.terms(taken, kernel, side).target[0] for side in problem.sides]
    return problem.entries(row, int(np.argmax(targets)))


def _farthest_from(core: Core, source: Source, view: Source, entry: Array) -> Array:
    """Return the entry farthest from `entry` in the feature space of the problem.

    That is the worst one for a ball with all its weight there; a regression with a
    fixed tube is no ball, and starts at f = 0.
    """
    problem = core.problem
    basis = source.take(problem.rows_of(entry))
    sign = problem.terms(basis, core.kernel, problem.side_of(entry)).sign
    weight = 1.0 if problem.has_unit_targets else problem.price
    bias = weight * sign if problem.has_bias else np.zeros(1)
    function = KernelExpansion(core.kernel, basis, weight * sign[:, None], bias)
    seen = scan(view, function, [ScanRequest(problem, entry)])[0]
    return seen.worst[:1] if len(seen.worst) else entry
