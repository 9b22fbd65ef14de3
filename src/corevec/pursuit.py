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
import numpy.typing as npt
from scipy import optimize, sparse

from corevec.certificate import relative_gap
from corevec.expansion import KernelExpansion
from corevec.kernels import Kernel, Rows
from corevec.moving import RIDGE, Part, part_of
from corevec.problems import Problem
from corevec.progress import Progress
from corevec.sources import Source
from corevec.working import room_for_rows

Array = npt.NDArray[Any]

# The basis grows by so many equal parts; by fewer where it is small enough to be moved
# as one, or so large that moves are dear.
STAGES, SMALL, LARGE, FEW_STAGES = 4, 16, 400, 2
# Steps of L-BFGS after each stage but the last; after that until the objective falls by
# less than this share per step, and while their products, rows x vectors x (columns +
# vectors x (1 + problems)), stay below this number: some twenty seconds.
STEPS = 6
FLAT, LEAST_STEPS, MOST_STEPS, MOST_PRODUCTS = 3e-4, 2, 100, 1.1e12
# Of a small basis: MNIST 0-vs-rest, 10 vectors: 99.7 % with 40 steps or more; adult, 5
# and 10: half the time, 0.1 to 0.2 points less than with the other share.
FEW_STEPS, FLAT_OF_FEW = 40, 2e-3
# Rows that are right by more than this stay right while the vectors move: they are
# left out (design.md: {y f < 1.7}).
FAR = 0.7
# Rows of the first stages: at least so many, and so many per vector, or more where a
# step stays cheap: vectors found on few rows fit those (ijcnn1, 100 vectors found on
# 5,000 rows had more errors than 50).
FIRST_ROWS, ROWS_PER_VECTOR, MANY_PER_VECTOR = 5000, 10, 200
# Rows of the last stage: so many, or more while a step has fewer products than this.
LAST_ROWS, STEP_PRODUCTS = 20_000, 2e9
# Candidates for a new vector: so many rows per vector, at least so many; fewer where
# their kernel matrix (12 bytes a value on the way) would not fit half of the budget.
CANDIDATES, FEWEST_CANDIDATES, BYTES_PER_VALUE = 8, 300, 12


def grow(
    problems: list[Problem],
    source: Source,
    kernel: Kernel,
    size: int,
    progress: Progress,
    rng: np.random.Generator,
    present: Array,
    tol: float = 0.0,
) -> Iterator[Array]:
    """Yield basis vectors that may do, in user units; `size` of them at last.

    (Fewer where they would coincide.) The first stages on a random sample of the rows
    `present`; the last on the rows that are near the margin then, of all of them. A
    stage's vectors may do if the gap, as the rows worked on tell it, is within `tol`:
    who asks for the next has measured that they do not.
    """
    most = rows_that_fit(source, size)
    cheap = int(STEP_PRODUCTS / (size * (source.row_entries + size)))
    first = max(FIRST_ROWS, ROWS_PER_VECTOR * size, min(MANY_PER_VECTOR * size, cheap))
    first = min(most, first)
    whole = first >= len(present)
    sample = present if whole else np.sort(rng.choice(present, first, replace=False))
    part = part_of(problems, source, kernel, sample, len(present) / len(sample))
    B = np.empty((0, source.n_features))
    stages = STAGES if SMALL < size <= LARGE else FEW_STAGES
    most = min(most, max(LAST_ROWS, cheap))
    for stage in range(1, stages + 1):
        last = stage == stages
        if last and not whole and len(B):
            part = _all_near(part, B, source, kernel, most, rng)
        wanted = -(-size * stage // stages)
        if wanted > len(B):
            fitting = int(np.sqrt(source.memory_budget / (2 * BYTES_PER_VALUE)))
            found = _candidates(part, B, wanted - len(B), rng, fitting)
            if len(B) and found.gap <= tol:
                yield kernel.row_map.back(B)
            B = np.concatenate([B, _new_vectors(found, B, wanted - len(B))])
            del found  # its matrix is up to half of the budget
        steps = _last_steps(part, B, source) if last else STEPS
        B = move(part, B, steps, progress)
        _record(part, B, kernel, progress)
        if progress.spent() is not None:
            break
    yield kernel.row_map.back(B)


def _last_steps(part: Part, B: Array, source: Source) -> int:
    width = source.row_entries + len(B) * (1 + len(part.problems))
    products = float(len(part)) * len(B) * width
    most = FEW_STEPS if len(B) <= SMALL else MOST_STEPS
    return int(np.clip(MOST_PRODUCTS / products, LEAST_STEPS, most))


def rows_that_fit(source: Source, size: int) -> int:
    """Return how many rows the budget holds.

    In float32: the row, its kernel values, its features, a few numbers of its own.
    """
    numbers = source.row_entries + 2 * size + 64
    return max(size, int(room_for_rows(source, size) / (4 * numbers)))


def _record(part: Part, B: Array, kernel: Kernel, progress: Progress) -> None:
    rows = Rows(kernel.row_map.back(B), np.full(len(B), -1))
    bias = [v[len(B)] if p.has_bias else 0.0 for p, v in part.pairs]
    found = KernelExpansion(kernel, rows, part.c, np.array(bias))
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
    rng: np.random.Generator,
) -> Part:
    """Return the rows near the margin, of all rows, with the weights solved there.

    A random part of them where more than `most` are near.
    """
    points, plain = part.basis_points(B), part.kernel
    bias = [v[len(B)] if p.has_bias else 0.0 for p, v in part.pairs]
    offsets = [v[-1] if p.has_offset else 0.0 for p, v in part.pairs]

    def score(rows: Rows) -> Array:
        mapped = Rows(kernel.row_map(rows.values, points.dtype), rows.index)
        f = plain.times(plain.prepare(mapped, points.dtype), points, part.c) + bias
        worst = np.full(len(rows), -np.inf)
        for t, problem in enumerate(part.problems):
            for side in problem.sides:
                terms = problem.terms(rows, kernel, side)
                violation = terms.target - terms.sign * f[:, t] - offsets[t]
                there = np.where(terms.omega > 0, violation, -np.inf)
                worst = np.maximum(worst, there)
        return rows.index[worst > -FAR]

    near = source.map(score)
    ratio = max(1.0, len(near) / most)
    if len(near) > most:
        near = np.sort(rng.choice(near, most, replace=False))
    found = part_of(part.problems, source, kernel, near, ratio)
    found.v, found.c = part.v, part.c
    found.solve(B)
    return found


class _Candidates(NamedTuple):
    values: Any  # mapped rows
    g: Array  # the functional gradient at each, a column per problem
    K: Array  # what is left of their kernel matrix beyond the present span
    gap: float  # the largest relative gap, told by these rows


def _candidates(
    part: Part, B: Array, size: int, rng: np.random.Generator, most: int
) -> _Candidates:
    """Return random rows that pull for `size` new vectors; at most `most` if it can."""
    if not part.v:
        part.pulls = np.stack(
            [
                part.stands_for
                * (terms.sign * terms.omega * np.maximum(terms.target, 0.0))
                .reshape(len(problem.sides), -1)
                .sum(axis=0)
                for problem, terms in zip(part.problems, part.terms, strict=True)
            ],
            axis=1,
        )
    there = np.flatnonzero(np.abs(part.pulls).sum(axis=1))
    if len(there) == 0:
        there = np.arange(len(part))
    count = max(FEWEST_CANDIDATES, CANDIDATES * size)
    count = min(len(there), max(size, min(count, most)))
    at = np.sort(rng.choice(there, count, replace=False))
    g, K, values = part.functional_gradient(B, at)
    # At the best weights primal - dual = |g|^2/2, and |g|^2 = sum_i r_i g(x_i).
    halves = len(there) / count * (part.pulls[at] * g).sum(axis=0) / 2
    gaps = [
        relative_gap(worth, worth - half)
        for worth, half in zip(part.worths, halves, strict=False)
    ]
    return _Candidates(values, g, K, max(gaps, default=np.inf))


def _new_vectors(found: _Candidates, B: Array, size: int) -> Array:
    """Return rows where the functional gradient is largest, one beyond the others.

    Orthogonal matching pursuit: each chosen row takes what it explains away from the
    gradient at the others.
    """
    chosen = _pursue(found.g, found.K, size)
    if not chosen and len(B) == 0:
        chosen = [0]  # rows that contradict each other pull nowhere: f = 0 it is
    rows: Any = found.values[chosen]
    dense = rows.toarray() if sparse.issparse(rows) else rows
    return np.asarray(dense, dtype=np.float64)


def _pursue(g: Array, K: Array, size: int) -> list[int]:
    own = K.diagonal().copy()
    floor = RIDGE * float(own.max(initial=0.0))
    columns: list[Array] = []
    chosen: list[int] = []
    while len(chosen) < size:
        left = np.where(own > floor, own, np.inf)
        gain = (g**2).sum(axis=1) / left
        best = int(np.argmax(gain))
        if gain[best] <= 0:
            break
        column = K[:, best].copy()
        for old in columns:
            column -= old * old[best]
        column /= np.sqrt(own[best])
        g = g - np.outer(column, g[best]) / column[best]
        own -= column**2
        own[best] = 0.0
        columns.append(column)
        chosen.append(best)
    return chosen


def move(part: Part, B: Array, steps: int, progress: Progress) -> Array:
    """Return the vectors after some steps of L-BFGS on F."""
    kernel = part.kernel
    # In units of the kernel's width.
    width = 1.0 / np.sqrt(2 * kernel.gamma) if kernel.uses_distance else 1.0
    flat = FLAT_OF_FEW if len(B) <= SMALL else FLAT
    near = part
    part.solve(B)
    if part.problems[0].response is None:
        near = part.take(np.flatnonzero(part.worst > -FAR))
        part.factor = np.empty((0, 0))  # another one is made at the end

    def objective(flat: Array) -> tuple[float, Array]:
        vectors = flat.reshape(B.shape) * width
        value, K = near.solve(vectors)
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
        options={"maxiter": steps, "maxcor": 10, "ftol": flat},
    )
    moved = found.x.reshape(B.shape) * width
    part.v, part.c = near.v, near.c
    near.factor = np.empty((0, 0))
    part.solve(moved)
    return np.asarray(moved)
