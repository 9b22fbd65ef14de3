"""Ways to choose basis rows by the rows alone, without the labels.

Each is a function ``(pool, size) -> Rows``: at most `size` rows of a `Pool`, or vectors
that are no training row, numbered -1.

===========  ==========================================  ============================
name         how                                         cost
===========  ==========================================  ============================
uniform      at random, each row with the same chance    none
kmeans       centres of k-means in the input space       m k d per Lloyd step
rpcholesky   randomly pivoted Cholesky: the next row     m k^2 + m k kernel values
             with the chance of its residual
cholesky     incomplete Cholesky: the row of the         the same
             largest residual
===========  ==========================================  ============================

m is the number of candidate rows: all, or a random sample where m k numbers (m d for
k-means) do not fit the memory budget. `models.basis.basis_of_rows` makes their basis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.certificates.scan import Subset
from corevec.data.sources import Source
from corevec.data.sources.budget import rows_within
from corevec.exceptions import InvalidInputError
from corevec.kernels import AnyKernel, Kernel, Points, Rows, finite, squared_norms
from corevec.models.basis import SPREAD_THRESHOLD, free_vectors
from corevec.solvers.numeric.deadline import Deadline
from corevec.solvers.numeric.partial_cholesky import PartialFactor

# Rows proposed at a time by randomly pivoted Cholesky: a fifth of the rows wanted,
# within these bounds. Rejection makes any number exact; more at a time are more often
# in vain, fewer leave BLAS idle.
MIN_PROPOSED, MAX_PROPOSED = 8, 128
# k-means is a start, not a result: rows per centre, Lloyd steps, and rounds of seeding
# if no seed were rejected.
ROWS_PER_CENTRE, LLOYD_STEPS, SEEDING_ROUNDS = 30, 6, 12
# Vectors that are chosen in any case, also after the deadline.
LEAST_CHOSEN = 16
# Rows of a sample per pivot wanted.
ROWS_PER_PIVOT = 50
# Rows of a sample at least, where there are as many.
MIN_SAMPLED = 2000


@dataclass(frozen=True)
class Pool:
    """Rows among which some are chosen.

    Attributes
    ----------
    source : Source
        Where the rows are.
    kernel : kernel
        The kernel.
    present : ndarray
        Their numbers: those of positive weight.
    rng : Generator
        Random numbers of the choice.
    deadline : Deadline, optional
        What has been chosen by then is returned.
    """

    source: Source
    kernel: AnyKernel
    present: Array
    rng: np.random.Generator
    deadline: Deadline | None = None

    @property
    def may_go_on(self) -> bool:
        """Whether the deadline is still ahead."""
        return self.deadline is None or not self.deadline.is_over()

    def sample(self, size: int) -> Array:
        """Return the numbers of at most `size` random rows, sorted."""
        if size >= len(self.present):
            return np.sort(self.present)
        return np.sort(self.rng.choice(self.present, size, replace=False))

    def view(self, size: int, first: Array | None = None) -> Source:
        """Return all rows, or a sample whose factor of `size` columns fits the budget.

        Where not all rows do, `ROWS_PER_PIVOT` will do: 50,000 rows of a million took a
        quarter of the whole fit. A sample holds the rows numbered `first`.
        """
        source = self.source
        columns = size + 3 * MAX_PROPOSED  # the factor, a block of new columns in work
        budget = source.memory_budget / 2
        if 8 * columns * source.n_rows <= budget:
            return source
        fit = max(rows_within(budget, 8 * (columns + source.row_entries)), size)
        fit = min(fit, max(MIN_SAMPLED, ROWS_PER_PIVOT * size))
        sample = self.sample(fit)
        if first is not None:
            sample = np.union1d(sample, first)
        return Subset(source, sample)


def uniform(pool: Pool, size: int) -> Rows:
    """Return rows at random, as scikit-learn's Nystroem does."""
    return pool.source.take(pool.sample(size))


def randomly_pivoted_cholesky(
    pool: Pool, size: int, first: Array | None = None
) -> Rows:
    """Return rows drawn with the chance of what the earlier ones leave of k(x, x).

    Chen, Epperly, Tropp and Webber (2022), in the block form with rejection (Epperly,
    Tropp and Webber 2024), which has the same distribution. Fewer than `size` rows
    where the rest leaves less than `SPREAD_THRESHOLD` of the largest k(x, x). Rows
    numbered `first` are taken before any other.
    """
    kernel, rng, view = pool.kernel, pool.rng, pool.view(size, first)
    factor = _factor_of(view, pool, size)
    given = np.empty(0, dtype=np.int64) if first is None else first[:size]
    for start in range(0, len(given), MAX_PROPOSED):
        some = given[start : start + MAX_PROPOSED]
        factor.add(np.searchsorted(view.numbers, some))
    proposed = int(np.clip(size // 5, MIN_PROPOSED, MAX_PROPOSED))
    while factor.can_grow and _may_grow(factor, pool):
        share = factor.left / factor.left.sum()
        drawn = rng.choice(len(share), proposed, p=share)
        # A repeat would be rejected for certain: only the order of the others counts.
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        few = kernel.prepare_basis(view.take(view.numbers[drawn]))
        rest = finite(kernel.block(few, few), kernel)
        factor.add(drawn[_accepted(factor, rest, drawn, rng)][: factor.n_left])
    return view.take(view.numbers[factor.chosen])


def incomplete_cholesky(
    pool: Pool, size: int, threshold: float = SPREAD_THRESHOLD
) -> Rows:
    """Return the pivots of the incomplete Cholesky factor: the largest residual next.

    Fine and Scheinberg (2001). Fewer than `size` where the largest residual falls below
    `threshold` times the largest k(x, x).
    """
    view = pool.view(size)
    factor = _factor_of(view, pool, size, threshold)
    while factor.can_grow and _may_grow(factor, pool):
        factor.add_largest()
    return view.take(view.numbers[factor.chosen])


def _may_grow(factor: PartialFactor, pool: Pool) -> bool:
    """Whether the deadline is ahead; a few pivots are chosen in any case."""
    return pool.may_go_on or len(factor.chosen) < LEAST_CHOSEN


def kmeans(pool: Pool, size: int, weights: Array | None = None) -> Rows:
    """Return centres of k-means in the input space (Zhang, Tsang and Kwok 2008).

    A few Lloyd steps on a random sample of the rows, which start from centres drawn
    with the chance of their squared distance from the earlier ones (k-means++, several
    per round with rejection). `weights` of all rows count a row so many times. Centres
    are dense, also of sparse rows.
    """
    source, kernel = pool.source, pool.kernel
    if not isinstance(kernel, Kernel):
        raise InvalidInputError(
            f"basis='kmeans' needs a kernel of distances or inner products, whose rows "
            f"have a mean; kernel={kernel.name!r} was given. Use basis='rpcholesky', "
            "'cholesky' or 'coreset', or random rows, which are taken as they are.",
            parameter="basis",
        )
    _check_centres_fit(source, size)
    if size >= len(pool.present):
        return source.take(np.sort(pool.present))
    rows = source.take(pool.sample(_rows_for_centres(source, size)))
    own = np.ones(len(rows)) if weights is None else weights[rows.index]
    points = kernel.row_map(rows.values, np.float64)
    squares = squared_norms(points)
    centres = _seeds(points, squares, own, size, pool)
    for _ in range(LLOYD_STEPS):
        if not pool.may_go_on:
            break
        nearest, _ = _nearest(points, squares, centres)
        centres = _means(points, own, nearest, centres)
    return free_vectors(kernel.row_map.back(centres))


def _check_centres_fit(source: Source, size: int) -> None:
    needed = 8 * size * source.n_features
    if needed <= source.memory_budget / 2:
        return
    raise InvalidInputError(
        f"basis='kmeans': {size:,} dense centres of {source.n_features:,} columns take "
        f"{needed / 2**20:,.0f} MiB, more than half of memory_budget "
        f"({source.memory_budget / 2**20:,.0f} MiB). Raise memory_budget, ask for "
        "fewer centres, or use basis='rpcholesky', which keeps rows sparse.",
        parameter="basis",
    )


def _rows_for_centres(source: Source, size: int) -> int:
    """Return the rows of k-means: they, and a copy, take half the memory budget."""
    most = rows_within(source.memory_budget / 2, 16 * source.row_entries)
    return max(min(max(ROWS_PER_CENTRE * size, MIN_SAMPLED), most), size)


def _seeds(points: Any, squares: Array, own: Array, size: int, pool: Pool) -> Array:
    """Return `size` different rows, far from each other; at the deadline fewer."""
    rng = pool.rng
    floor = 1e-12 * float(squares.max(initial=0.0))  # a distance of rounding errors
    chosen = rng.choice(len(own), 1, p=own / own.sum())
    _, distance = _nearest(points, squares, _dense(points[chosen]))
    proposed = -(-size // SEEDING_ROUNDS)
    while len(chosen) < (size if pool.may_go_on else min(size, LEAST_CHOSEN)):
        share = np.where(distance > floor, own * distance, 0.0)
        if not share.any():
            break
        new = rng.choice(len(own), proposed, p=share / share.sum())
        new = _far_apart(points, new, distance, floor, rng)[: size - len(chosen)]
        _, closer = _nearest(points, squares, _dense(points[new]))
        distance = np.minimum(distance, closer)
        chosen = np.append(chosen, new)
    return _dense(points[chosen])


def _far_apart(
    points: Any, new: Array, distance: Array, floor: float, rng: np.random.Generator
) -> Array:
    """Return which of the rows drawn one draw after the other would have kept.

    By rejection, as in randomly pivoted Cholesky: k-means++, several at a time.
    """
    few = _dense(points[new])
    left, kept = distance[new], []
    before = left.copy()
    for i in range(len(new)):
        if i == 0 or left[i] > max(floor, rng.random() * before[i]):
            kept.append(i)
            left = np.minimum(left, ((few - few[i]) ** 2).sum(axis=1))
    return np.asarray(new[kept])


def _nearest(points: Any, squares: Array, centres: Array) -> tuple[Array, Array]:
    """Return each row's nearest centre and its squared distance, tile by tile."""
    own = np.einsum("ij,ij->i", centres, centres)
    nearest = np.empty(len(squares), dtype=np.int64)
    distance = np.empty(len(squares))
    step = max(16, (1 << 21) // len(centres))  # 16 MiB of distances at a time
    for start in range(0, len(squares), step):
        tile = slice(start, start + step)
        d = own - 2 * np.asarray(points[tile] @ centres.T)
        nearest[tile] = d.argmin(axis=1)
        distance[tile] = np.maximum(d.min(axis=1) + squares[tile], 0.0)
    return nearest, distance


def _means(points: Any, own: Array, nearest: Array, centres: Array) -> Array:
    """Return the weighted mean of each centre's rows; it stays where it has none."""
    k, m = len(centres), len(own)
    members = sparse.csr_array((own, (nearest, np.arange(m))), shape=(k, m))
    mass = np.bincount(nearest, own, minlength=k)
    sums = _dense(members @ points)
    full = mass > 0
    return np.where(full[:, None], sums / np.where(full, mass, 1.0)[:, None], centres)


def _factor_of(
    view: Source, pool: Pool, size: int, threshold: float = SPREAD_THRESHOLD
) -> PartialFactor:
    """Return the empty factor of the rows of `view`."""
    kernel, present = pool.kernel, pool.present
    numbers = view.numbers
    diagonal = finite(view.map(kernel.diagonal), kernel)
    diagonal[~np.isin(numbers, present)] = 0.0
    ready: dict[int, Points] = {}
    # Rows are prepared once for all columns, where the copy fits.
    keep = 8 * view.n_rows * view.row_entries <= view.memory_budget / 4

    def points_of(rows: Rows) -> Points:
        if not keep:
            return kernel.prepare(rows)
        start = int(rows.index[0])
        if start not in ready:
            ready[start] = kernel.prepare(rows)
        return ready[start]

    def columns(positions: Array) -> Array:
        few = kernel.prepare_basis(view.take(numbers[positions]))
        # The long side last: the loops over it use the vector unit.
        values = view.map(lambda rows: kernel.block(few, points_of(rows)).T)
        return finite(values, kernel)

    return PartialFactor(columns, diagonal, min(size, len(present)), threshold)


def _accepted(
    factor: PartialFactor, rest: Array, drawn: Array, rng: np.random.Generator
) -> list[int]:
    """Return which of the rows drawn one draw after the other would have kept.

    `rest` holds their kernel values. A row drawn with the chance ``left_i`` before the
    others of its block were pivots is kept with the share of it that they leave.
    """
    phi = factor.features(drawn)
    rest = rest - phi.T @ phi
    before = factor.left[drawn]
    kept = []
    for i in range(len(drawn)):
        if i == 0 or rest[i, i] > max(factor.floor, rng.random() * before[i]):
            kept.append(i)
            step = rest[i] / np.sqrt(max(rest[i, i], factor.floor))
            rest -= np.outer(step, step)
    return kept


def _dense(values: Any) -> Array:
    return np.asarray(values.toarray() if sparse.issparse(values) else values)


# What an estimator's `basis` may say; "coreset" and arrays are the estimator's own.
BY_NAME: dict[str, Callable[..., Rows]] = {
    "uniform": uniform,
    "kmeans": kmeans,
    "rpcholesky": randomly_pivoted_cholesky,
    "cholesky": incomplete_cholesky,
}
