"""Growing a basis: few vectors, chosen and then moved for the weights of all rows.

The objective over basis vectors B with the best weights for them,

    F(B) = min_w  |w|^2/2 + 1/2 sum_e omega_e max(0, p_e - y_e f(x_e))^2,
    w in the span of phi(b_1), ..., phi(b_k),

is differentiable in B, and at the best weights ``w = sum c_j phi(b_j)`` its gradient is
that with the weights held fixed (variable projection). With the multipliers
``r_i = y_i omega_i max(0, p_i - y_i f(x_i))``

    dF/db_j = c_j d/db_j [ sum_l c_l k(b_j, b_l) - sum_i r_i k(b_j, x_i) ],

one matrix product more than the kernel values themselves. The basis grows in a few
stages: new vectors where the functional gradient ``g = sum_i r_i k(x_i, .) - f`` is
largest beyond the present span, then all vectors moved by a few steps of L-BFGS
(design.md, section 4). Several problems (classes, targets) share the vectors.

Beyond the CPSP paper, which keeps a vector where its own cut had put it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, sparse

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.backend.arrays import (
    cast,
    empty,
    full,
    is_on_card,
    namespace,
    places,
    to_device_of,
    to_numpy,
)
from corevec.data.sources import Source
from corevec.data.sources.budget import rows_within
from corevec.kernels import Kernel, Rows
from corevec.models.certificate import relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Problem
from corevec.solvers.basis.schedules import SMALL, Plan, plan_for
from corevec.solvers.basis.variable_projection import (
    RIDGE,
    Part,
    part_of,
)
from corevec.solvers.numeric.design import room_for_rows

# Times as many products of a plan where a card works on the rows: it multiplies
# matrices of float32 at some 50 TFLOPS (H200) for 0.6 on each of two cores. The CPU
# device of torch is no card.
CARD_SPEED = 40.0
# Where more rows are near the margin than fit, those that are right by less than this
# are worked on before others. MNIST 01234-vs-rest, 1000 vectors, 14,138 rows fit:
# objective 7,494 with a random part of those within 0.7, 5,700 with the nearest.
NEAREST = 0.25
# So large a share of the rows is not worth a copy.
NEARLY_ALL = 0.9
# Rows of the first stages: so many per vector, or more where a step stays cheap:
# vectors found on few rows fit those (ijcnn1, 100 vectors found on 5,000 rows had more
# errors than 50).
ROWS_PER_VECTOR, MANY_PER_VECTOR, STEP_PRODUCTS = 10, 200, 2e9
# Rows of the last stage of a small basis, for each coordinate that moves.
ROWS_PER_COORDINATE = 12
# Fewer candidates where their kernel matrix (bytes a value on the way) would not fit
# half of the budget.
BYTES_PER_VALUE = 12
ARRAYS_OF_A_STEP = 19  # of the size of the vectors, in SciPy's L-BFGS and around it
# Past steps that L-BFGS remembers, each two such arrays; vectors that move in any case.
FEWEST_PAIRS, MOST_PAIRS, FEWEST_MOVING = 3, 10, 4


def grow(
    problems: list[Problem],
    source: Source,
    kernel: Kernel,
    size: int,
    progress: Progress,
    rng: np.random.Generator,
    present: Array,
    tol: float = 0.0,
) -> Iterator[Any]:
    """Yield basis vectors that may do, in user units; `size` of them at last.

    (Fewer where they would coincide, where fewer rows pull, or when the time is spent.)
    Those whose moves do not fit the budget are rows, added at the end. The first stages
    on a random sample of the rows `present`; the last on the rows that are near the
    margin then, of all of them. A stage's vectors may do if the gap, as the rows worked
    on tell it, is below `tol`: who asks for the next has measured that they do not.
    """
    plan, moving = _plan_that_fits(size, len(problems), source)
    most = max(size, rows_that_fit(source, moving))
    cheap = int(STEP_PRODUCTS / (moving * (source.row_entries + moving)))
    many = max(ROWS_PER_VECTOR * moving, min(MANY_PER_VECTOR * moving, cheap))
    first = min(most, max(plan.first_rows, many))
    whole = first >= len(present)
    sample = present if whole else np.sort(rng.choice(present, first, replace=False))
    part = part_of(problems, source, kernel, sample, len(present) / len(sample))
    B = np.empty((0, source.n_features))
    if moving <= SMALL:
        cheap = ROWS_PER_COORDINATE * moving * source.n_features
    most = min(most, max(plan.last_rows, cheap))
    goals = [-(-moving * stage // plan.stages) for stage in range(1, plan.stages)]
    goals += [moving] * plan.rounds + [size] * (moving < size)
    for stage, wanted in enumerate(goals, 1):
        last = stage >= plan.stages
        if last and not whole and len(B):
            part = _all_near(part, B, source, kernel, most, plan.far, rng)
        if wanted > len(B):
            fitting = int(np.sqrt(part.room / (2 * BYTES_PER_VALUE)))
            found = _candidates(part, B, wanted - len(B), rng, fitting)
            if len(B) and found.gap < tol:
                yield kernel.row_map.back(B)
            new = _new_rows(found, B, wanted - len(B))
            del found  # its matrix is up to half of the budget
            if wanted > moving:
                yield _joined(kernel, B, new)
                return
            B = np.concatenate([B, _as_vectors(new)])
        steps, own = plan.steps, plan_for(len(B), len(problems))
        if last:
            steps, own = _last_steps(part, B, source, plan), plan
        B = move(part, B, steps, progress, own, stage == len(goals))
        _record(part, B, kernel, progress)
        if progress.spent() is not None:
            break
    yield kernel.row_map.back(B)


def _plan_that_fits(size: int, n_problems: int, source: Source) -> tuple[Plan, int]:
    """Return how a basis of this size grows, and how many of its vectors move.

    As many as the arrays of L-BFGS leave room for: of 38,910 columns of text 34 in 256
    MiB. The others stay rows. Text, 1000 vectors: 34 moved for 24 steps have a lower
    objective after 19 s (5,348) than 1000 moved for 6 steps after 130 s (5,392).
    """
    plan = plan_for(size, n_problems)
    moving = min(size, plan.most_moving)
    arrays = ARRAYS_OF_A_STEP + 2 * FEWEST_PAIRS
    fitting = int(source.memory_budget / (arrays * 8 * source.n_features))
    fitting = max(FEWEST_MOVING, fitting)
    if fitting >= moving or plan.most_moving < size:
        return plan, min(moving, fitting)
    return plan_for(fitting, n_problems), fitting


def _last_steps(part: Part, B: Array, source: Source, plan: Plan) -> int:
    width = source.row_entries + len(B) * (1 + len(part.problems))
    products = float(len(part)) * len(B) * width
    most = plan.products * (CARD_SPEED if is_on_card(part.points.values) else 1.0)
    return int(np.clip(most / products, plan.least_steps, plan.most_steps))


def rows_that_fit(source: Source, size: int) -> int:
    """Return how many rows the budget holds, or the room where they live.

    In float32: the row, its kernel values, its features, a few numbers of its own.
    """
    numbers = source.row_entries + 2 * size + 64
    room = room_for_rows(source, size)
    most = min(rows_within(room, 4 * numbers), source.n_rows)
    room *= source.part_budget(most) / source.working_budget
    return max(size, rows_within(room, 4 * numbers))


def _record(part: Part, B: Array, kernel: Kernel, progress: Progress) -> None:
    rows = Rows(kernel.row_map.back(B), np.full(len(B), -1))
    bias = [v[len(B)] if p.has_bias else 0.0 for p, v in part.pairs]
    found = KernelExpansion(kernel, rows, to_numpy(part.c), np.array(bias))
    progress.snapshot = lambda: found
    progress.rows_looked_at += len(part)
    progress.record(
        core=len(B),
        support=len(B),
        gap=float("nan"),  # known only at the end
        promise=float("nan"),
        dual=float("nan"),
        looked_at=len(part),
        exact=False,
    )


def _all_near(
    part: Part,
    B: Array,
    source: Source,
    kernel: Kernel,
    most: int,
    far: float,
    rng: np.random.Generator,
) -> Part:
    """Return the rows near the margin, of all rows, with the weights solved there.

    The nearest `most` of them; a random part where more are within `NEAREST`.
    """
    points, plain = part.basis_points(B), part.kernel
    bias = [v[len(B)] if p.has_bias else 0.0 for p, v in part.pairs]
    offsets = [v[-1] if p.has_offset else 0.0 for p, v in part.pairs]

    def score(rows: Rows) -> Array:
        mapped = Rows(kernel.row_map(rows.values, points.dtype), rows.index)
        f = plain.times(plain.prepare(mapped, points.dtype), points, part.c)
        f = f + to_device_of(np.array(bias), f)
        xp, worst = namespace(f), full(len(rows), -np.inf, f)
        for t, problem in enumerate(part.problems):
            for side in problem.sides:
                terms = problem.terms(rows, kernel, side)
                violation = terms.target - terms.sign * f[:, t] - offsets[t]
                larger = xp.maximum(worst, violation)
                worst = xp.where(terms.omega > 0, larger, worst)
        near = worst > -far
        return xp.stack([cast(rows.index[near], np.float64), worst[near]], axis=1)

    pairs = source.map(score)
    near, ratio = _nearest(pairs[:, 0].astype(np.int64), pairs[:, 1], most, rng)
    found = part_of(part.problems, source, kernel, near, ratio)
    # Sparse rows may have left the device: now too many for it.
    found.v, found.c = part.v, to_device_of(to_numpy(part.c), found.points.values)
    found.solve(B)
    return found


def _nearest(
    rows: Array, violation: Array, most: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """Return at most so many rows, and how many each of them stands for.

    Rows that are left out are right by `NEAREST` at least: they have no loss now, and
    stay right for a while. Where more rows are nearer, a random part stands for all
    (covtype, 200 vectors: an objective of 5.01e6, of those within 0.25 only 5.05e6).
    """
    if len(rows) <= most:
        return rows, 1.0
    nearest = np.argpartition(-violation, most - 1)[:most]
    if violation[nearest].min() <= -NEAREST:
        return np.sort(rows[nearest]), 1.0
    some = rng.choice(rows, most, replace=False)
    return np.sort(some), len(rows) / most


class _Candidates(NamedTuple):
    values: Any  # mapped rows, as all of it where the part lives
    g: Array  # the functional gradient at each, a column per problem
    K: Array  # what is left of their kernel matrix beyond the present span
    gap: float  # the largest relative gap, told by these rows


def _candidates(
    part: Part, B: Array, size: int, rng: np.random.Generator, most: int
) -> _Candidates:
    """Return random rows that pull for `size` new vectors; at most `most` if it can."""
    if not part.v:
        part.pull_from_zero()
    pulling = part.pulling()
    if len(pulling) == 0:
        pulling = places(part.pulls[:, 0] == 0)  # all rows
    plan = plan_for(len(B) + size, len(part.problems))
    count = max(plan.least_candidates, plan.candidates * size)
    count = min(len(pulling), max(size, min(count, most)))
    drawn = np.sort(rng.choice(len(pulling), count, replace=False))
    at = pulling[to_device_of(drawn, pulling)]
    g, K, values = part.functional_gradient(B, at)
    # At the best weights primal - dual = |g|^2/2, and |g|^2 = sum_i r_i g(x_i).
    halves = to_numpy(len(pulling) / count * (part.pulls[at] * g).sum(axis=0) / 2)
    gaps = [
        relative_gap(worth, worth - half)
        for worth, half in zip(part.worths, halves, strict=False)
    ]
    return _Candidates(values, g, K, max(gaps, default=np.inf))


def _new_rows(found: _Candidates, B: Array, size: int) -> Any:
    """Return rows where the functional gradient is largest, one beyond the others.

    Orthogonal matching pursuit: each chosen row takes what it explains away from the
    gradient at the others.
    """
    chosen = _pursue(found.g, found.K, size)
    if not chosen and len(B) == 0:
        chosen = [0]  # rows that contradict each other pull nowhere: f = 0 it is
    return found.values[chosen]


def _as_vectors(rows: Any) -> Array:
    dense = rows.toarray() if sparse.issparse(rows) else to_numpy(rows)
    return np.asarray(dense, dtype=np.float64)


def _joined(kernel: Kernel, B: Array, rows: Any) -> Any:
    """Return vectors and rows in user units; rows of text stay sparse."""
    B = kernel.row_map.back(B)
    if not sparse.issparse(rows):
        return np.concatenate([B, kernel.row_map.back(_as_vectors(rows))])
    rows = rows.astype(np.float64)
    rows.data = kernel.row_map.back(rows.data)  # sparse rows are not shifted
    return sparse.vstack([sparse.csr_matrix(B), rows], "csr")


def _pursue(g: Array, K: Array, size: int) -> list[int]:
    xp, infinite = namespace(K), full((), np.inf, K)
    own = 1.0 * K.diagonal()
    floor = RIDGE * float(own.clip(min=0.0).max())
    # Of the factor of K, whose pivots are chosen; a row of it for each.
    columns = empty((min(size, len(own)), len(own)), K)
    chosen: list[int] = []
    while len(chosen) < len(columns):
        gain = (g**2).sum(axis=1) / xp.where(own > floor, own, infinite)
        best, j = int(xp.argmax(gain)), len(chosen)
        if float(gain[best]) <= 0:
            break
        column = K[:, best] - columns[:j, best] @ columns[:j]
        column /= xp.sqrt(own[best])
        g = g - column[:, None] * g[best] / column[best]
        own -= column**2
        own[best] = 0.0
        columns[j] = column
        chosen.append(best)
    return chosen


def move(
    part: Part,
    B: Array,
    steps: int,
    progress: Progress,
    plan: Plan,
    is_last: bool = False,
) -> Array:
    """Return the vectors after some steps of L-BFGS on F.

    The part is solved at the new vectors, unless these are the last: then only its
    weights are told.
    """
    kernel = part.kernel
    # In widths of the kernel, or longer: the first step has length 1.
    width = 1.0 / np.sqrt(2 * kernel.gamma) if kernel.uses_distance else 1.0
    width *= max(1.0, plan.stride * np.sqrt(len(B)))
    near, known = _near(part, plan.far, *part.solve(B))

    def objective(flat: Array) -> tuple[float, Array]:
        nonlocal known
        vectors = flat.reshape(B.shape) * width
        value, K = known or near.solve(vectors)
        known = None
        return value, near.gradient(vectors, K).ravel() * width

    def check(intermediate_result: Any) -> None:
        if progress.spent() is not None:
            raise StopIteration

    found = optimize.minimize(
        objective,
        (B / width).ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=check,
        options={"maxiter": steps, "maxcor": _pairs_kept(part, B), "ftol": plan.flat},
    )
    moved = found.x.reshape(B.shape) * width
    part.v, part.c = near.v, near.c
    near.factor = np.empty((0, 0))
    if not is_last:
        part.solve(moved)  # to the end: the gap is told at the best weights
    return np.asarray(moved)


def _pairs_kept(part: Part, B: Array) -> int:
    """Return how many past steps L-BFGS remembers: what fits the budget, 3 to 10.

    Each is two arrays of the size of B; a step itself takes some 19 (measured: 25 in
    all with 3 of them).
    """
    fitting = part.budget / max(B.nbytes, 1)
    pairs = (fitting - ARRAYS_OF_A_STEP) / 2
    return int(np.clip(pairs, FEWEST_PAIRS, MOST_PAIRS))


def _near(
    part: Part, far: float, value: float, K: Array
) -> tuple[Part, tuple[float, Array] | None]:
    """Return the rows to move for, and F and the kernel values there.

    The others have no loss: F is that of all, and nothing is solved again.
    """
    inside = places(part.worst > -far)
    if part.problems[0].response is not None or len(inside) > NEARLY_ALL * len(part):
        return part, (value, K)
    near = part.take(inside)
    near.pulls = part.pulls[inside]
    part.factor = np.empty((0, 0))  # another one is made at the end
    return near, (value, K[inside])
