"""Which rows enter the core set: the first rows, and a batch in every round."""

from __future__ import annotations

import numpy as np

from corevec._runtime.types import Array
from corevec.certificates.scan import ScanRequest, ScanResult, Subset, scan
from corevec.data.sources import Source
from corevec.exceptions import InvalidInputError
from corevec.kernels import AnyKernel, Rows
from corevec.models.expansion import KernelExpansion
from corevec.models.result import Settings
from corevec.problems.family import Problem
from corevec.solvers.coreset.core import Core

# Size of the first random subset, where the first scan does not visit all rows.
FIRST_SUBSET = 2000
# A batch has 0.3 times as many rows as there are support vectors, within these bounds,
# chosen among 6 times as many of the most violating rows. In prototypes on five data
# sets the batch size mattered more than every other constant of the loop.
BATCH_SHARE, BATCH_MIN, BATCH_MAX, BATCH_POOL = 0.3, 40, 400, 6


def first_rows(
    core: Core, source: Source, settings: Settings, rng: np.random.Generator
) -> Array:
    """Return the initial core rows (CVM paper, 4.1.1).

    "any": one row. "farthest": the row z_a farthest from any row z, and the row
    farthest from z_a (Kumar et al. 2003). "opposite": the closest pair of opposite
    classes around z. In each case z is random; the others are found among all rows, or
    among a random sample where the run samples.
    """
    init = settings.init
    if init == "auto":
        init = "opposite" if core.problem.positive is not None else "farthest"
    view: Source = source
    size = n_rows_for_first(source, settings)
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


def n_rows_for_first(source: Source, settings: Settings) -> int:
    """Return how many rows are scanned for the first core rows."""
    if settings.sampling == "full":
        return source.n_rows
    size = settings.sampling if isinstance(settings.sampling, int) else FIRST_SUBSET
    return min(size, source.n_rows)


def add_violators(core: Core, found: ScanResult, settings: Settings) -> bool:
    """Add a batch of violators to the core set; return whether there were any."""
    size = min(batch_size(core, settings), core.max_size - len(core))
    least = 0.0
    if settings.ball_epsilon is None:
        # A violation of the size of a rounding error of p is no reason to grow.
        targets = np.abs(core.terms.target)
        least = 1e-14 * max(float(targets.max(initial=0.0)), found.largest)
    violators = found.worst[found.violation > least]
    if len(violators) == 0:
        return False
    chosen = violators[:size]
    if size > 1 and len(violators) > size:
        pool = max(size, min(BATCH_POOL * size, BATCH_POOL * BATCH_MAX))
        chosen = dissimilar_rows(core, found, violators[:pool], size)
    core.add(np.sort(chosen))
    return True


def dissimilar_rows(core: Core, found: ScanResult, pool: Array, size: int) -> Array:
    """Return `size` rows of `pool` whose violations have different causes.

    Matching pursuit: choose the row whose own step gains most, subtract the effect of
    that step on the violations of the others, repeat. The most violating rows alone
    are near-duplicates of each other.
    """
    rows = core.source.take(core.problem.rows_of(pool))
    terms = core.problem.terms(rows, core.kernel, core.problem.side_of(pool))
    points = core.kernel.prepare_basis(rows)
    Q = core.problem.signed(core.kernel.block(points, points), terms, terms)
    if not core.problem.is_hard:
        Q[np.diag_indices(len(Q))] += 1.0 / terms.omega
    # With an indefinite kernel the step of a single row may be unbounded.
    least = 1e-12 * float(np.abs(Q).max())
    diagonal = np.where(Q.diagonal() > least, Q.diagonal(), np.inf)
    violation = found.violation[: len(pool)].copy()
    chosen = np.zeros(len(pool), dtype=bool)
    for _ in range(size):
        gain = np.where(chosen, -np.inf, violation * np.abs(violation) / diagonal)
        best = int(np.argmax(gain))
        if gain[best] <= 0:
            break
        chosen[best] = True
        violation -= Q[best] * (violation[best] / diagonal[best])
    # The pursuit ends early where the step of one row would settle its neighbours. The
    # most violating of the others fill the batch: otherwise rounds would add few rows.
    rest = np.flatnonzero(~chosen)[: size - int(chosen.sum())]
    return pool[np.union1d(np.flatnonzero(chosen), rest)]


def batch_size(core: Core, settings: Settings) -> int:
    """Return the largest number of rows to add."""
    if isinstance(settings.batch, int):
        return settings.batch
    share = int(BATCH_SHARE * len(core.support))
    return int(np.clip(share, BATCH_MIN, BATCH_MAX))


def any_row(
    problem: Problem, source: Source, kernel: AnyKernel, rng: np.random.Generator
) -> Array:
    """Return the number of one random row of positive weight, as an array."""
    for _ in range(100):
        row = source.draw(rng, 1)
        if problem.terms(source.take(row), kernel).omega[0] > 0:
            return row

    def present(rows: Rows) -> Array:
        return rows.index[problem.terms(rows, kernel).omega > 0]

    there = source.map(present)
    if len(there) == 0:
        raise InvalidInputError(
            f"among the {source.n_rows} rows that are looked at, those of one machine "
            "all have weight 0, or there are none of its classes. Give the method more "
            "rows, or multi_class='ovr'.",
            parameter="method",
        )
    return rng.choice(there, size=1)


def _any_entry(
    problem: Problem, source: Source, kernel: AnyKernel, rng: np.random.Generator
) -> Array:
    """Return an entry with p > 0 of one random row of positive weight."""
    row = any_row(problem, source, kernel, rng)
    taken = source.take(row)
    targets = [problem.terms(taken, kernel, side).target[0] for side in problem.sides]
    return problem.entries(row, int(np.argmax(targets)))


def _farthest_from(core: Core, source: Source, view: Source, entry: Array) -> Array:
    """Return the entry farthest from `entry` in the feature space of the problem.

    That is the most violating one for a ball with all its weight at `entry`; a
    regression with a fixed tube is not a ball, and starts at f = 0.
    """
    problem = core.problem
    basis = source.take(problem.rows_of(entry))
    sign = problem.terms(basis, core.kernel, problem.side_of(entry)).sign
    weight = 1.0 if problem.has_unit_targets else problem.price
    bias = weight * sign if problem.has_bias else np.zeros(1)
    function = KernelExpansion(core.kernel, basis, weight * sign[:, None], bias)
    found = scan(view, function, [ScanRequest(problem, entry)])[0]
    return found.worst[:1] if len(found.worst) else entry
