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

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize, sparse

from corevec.expansion import KernelExpansion
from corevec.kernels import AnyKernel, Kernel, Points, RowMap, Rows
from corevec.problems import Problem, Terms
from corevec.progress import Progress
from corevec.sources import Source, Workers
from corevec.working import CHUNK, Design, minimise_each, slices, terms_of

Array = npt.NDArray[Any]

# The basis grows by so many equal parts; a large one, whose moves are dear, by fewer.
STAGES, LARGE, FEW_STAGES = 4, 400, 2
# Steps of L-BFGS after each stage but the last; after that until the objective falls by
# less than this share per step, and while their products, rows x vectors x (columns +
# vectors x (1 + problems)), stay below this number: some twenty seconds.
STEPS = 6
FLAT, LEAST_STEPS, MOST_STEPS, MOST_PRODUCTS = 3e-4, 2, 100, 1.1e12
# Rows that are right by more than this stay right while the vectors move: they are
# left out (design.md: {y f < 1.7}).
FAR = 0.7
# Rows of the first stages: at least so many, and so many per vector.
FIRST_ROWS, ROWS_PER_VECTOR = 5000, 10
# Rows of the last stage: so many, or more while a step has fewer products than this.
LAST_ROWS, STEP_PRODUCTS = 20_000, 2e9
# Candidates for a new vector: so many rows per vector, at least so many.
CANDIDATES, FEWEST_CANDIDATES = 8, 300
# While vectors move, weights are solved until no value moves by more than this.
STILL, NEWTON_STEPS = 0.03, 50
# Added to k(b, b) of the moving vectors, which may meet each other.
RIDGE = 1e-6


@dataclass
class Part:
    """Rows that are worked on, mapped for the kernel, with their terms."""

    problems: list[Problem]
    kernel: Kernel  # of mapped rows
    points: Points
    terms: list[Terms]
    workers: Workers
    stands_for: float  # how many rows each is
    v: list[Array] = field(default_factory=list)
    c: Array = field(default_factory=lambda: np.empty((0, 0)))
    pulls: Array = field(default_factory=lambda: np.empty((0, 0)))
    factor: Array = field(default_factory=lambda: np.empty((0, 0)))
    worst: Array = field(default_factory=lambda: np.empty(0))  # violation of each row

    def __len__(self) -> int:
        return len(self.points)

    @property
    def pairs(self) -> list[tuple[Problem, Array]]:
        """Each problem with its weights, bias and offset."""
        return list(zip(self.problems, self.v, strict=True))

    def take(self, few: Array) -> Part:
        """Return the part of these rows."""
        n, sides = len(self), len(self.problems[0].sides)
        entries = np.concatenate([few + side * n for side in range(sides)])
        points = self.kernel.prepare(
            Rows(self.points.values[few], self.points.index[few]), self.points.dtype
        )
        return replace(
            self, points=points, terms=[terms[entries] for terms in self.terms]
        )

    def basis_points(self, B: Array, dtype: Any = None) -> Points:
        """Return vectors made ready for the kernel."""
        rows = Rows(B, np.full(len(B), -1))
        return self.kernel.prepare_basis(rows, dtype or self.points.dtype)

    def block(self, points: Points) -> Array:
        """Return kernel values of the rows and some points."""
        out = np.empty((len(self), len(points)), dtype=self.points.dtype)

        def task(part: slice) -> None:
            out[part] = self.kernel.block(_cut(self.points, part), points)

        for _ in self.workers.run(task, slices(len(self))):
            pass
        return out

    def solve(self, B: Array) -> tuple[float, Array]:
        """Set the best weights for the vectors B; return F(B) and the kernel values."""
        own = self.basis_points(B, np.float64)
        G = self.kernel.block(own, own)
        G[np.diag_indices(len(G))] += RIDGE * float(G.diagonal().max())
        self.factor = linalg.cholesky(G, lower=True, check_finite=False)
        K = self.block(self.basis_points(B))
        inverse = linalg.solve_triangular(
            self.factor, np.eye(len(G)), lower=True, check_finite=False
        )
        design = self._features(K, inverse)
        k = len(B)
        pairs = zip(self.problems, self.terms, strict=True)
        designs = [Design(one, self.workers, terms, design) for one, terms in pairs]
        starts = [self._start(t, rows, k) for t, rows in enumerate(designs)]
        ratios = [self.stands_for] * len(designs)
        found = minimise_each(designs, starts, ratios, NEWTON_STEPS, STILL)
        weights = [one.v for one in found]
        self.worst = np.full(len(self), -np.inf)
        worths = [self._worth(t, rows, weights[t]) for t, rows in enumerate(designs)]
        total, pulls = sum(value for value, _ in worths), [pull for _, pull in worths]
        self.v, self.pulls = weights, np.stack(pulls, axis=1)
        self.c = inverse.T @ np.stack([v[:k] for v in weights], axis=1)
        return total, K

    def _features(self, K: Array, inverse: Array) -> Array:
        bias = int(self.problems[0].has_bias)
        design = np.ones((len(K), K.shape[1] + bias), dtype=K.dtype)
        turned = inverse.T.astype(K.dtype)

        def task(part: slice) -> None:
            design[part, : K.shape[1]] = K[part] @ turned

        for _ in self.workers.run(task, slices(len(K))):
            pass
        return design

    def _start(self, t: int, rows: Design, k: int) -> Array:
        """Return the last weights, in the coordinates of the present vectors."""
        v = np.zeros(rows.width)
        if self.v:
            old = self.c.shape[0]
            few = min(old, k)
            v[:k] = self.factor[:few].T @ self.c[:few, t]
            v[k:] = self.v[t][old:]
        return v

    def _worth(self, t: int, rows: Design, v: Array) -> tuple[float, Array]:
        """Return the objective at weights v, and ``sum y beta`` of each row."""
        terms, problem = self.terms[t], self.problems[t]
        violation = terms.target - rows.times(v)
        by_side = violation.reshape(len(problem.sides), -1)
        self.worst = np.maximum(self.worst, by_side.max(axis=0))
        excess = np.maximum(violation, 0.0)
        beta = self.stands_for * terms.omega * excess
        offset = float(v[-1]) if problem.has_offset else 0.0
        w = v[:-1] if problem.has_offset else v
        value = float(w @ w) / 2 + problem.price * offset + float(beta @ excess) / 2
        pull = (terms.sign * beta).reshape(len(problem.sides), -1).sum(axis=0)
        return value, pull

    def gradient(self, B: Array, K: Array) -> Array:
        """Return dF/dB at the weights of the last `solve`."""
        active = np.flatnonzero(self.pulls.any(axis=1))
        chunks = [active[s : s + CHUNK] for s in range(0, len(active), CHUNK)]
        values, kernel = self.points.values, self.kernel

        def task(few: Array) -> tuple[Array, Array]:
            dtype = K.dtype
            mixed = (self.pulls[few] @ self.c.T).astype(dtype)
            mixed *= kernel.slope(K[few])
            return mixed.sum(axis=0), np.asarray((values[few].T @ mixed).T)

        pulled, moment = np.zeros(len(B)), np.zeros(B.shape)
        for sums, products in self.workers.run(task, chunks):
            pulled += sums
            moment += products
        own = self.basis_points(B, np.float64)
        mixed = (self.c @ self.c.T) * kernel.slope(kernel.block(own, own))
        pulled, moment = mixed.sum(axis=1) - pulled, mixed @ B - moment
        if kernel.uses_distance:
            moment = 2 * (pulled[:, None] * B - moment)
        return np.asarray(moment)

    def functional_gradient(self, B: Array, at: Array) -> tuple[Array, Array, Array]:
        """Return g at some of the rows, and what is left of their kernel matrix.

        Both beyond the span of B, where ``g`` is zero at the best weights.
        """
        some = self.take(at)
        active = np.flatnonzero(self.pulls.any(axis=1))
        g = np.zeros((len(at), self.pulls.shape[1]))
        chunks = [active[s : s + CHUNK] for s in range(0, len(active), CHUNK)]

        def task(few: Array) -> Array:
            return self.kernel.times(
                some.points, _cut(self.points, few), self.pulls[few]
            )

        for found in self.workers.run(task, chunks):
            g += found
        K = self.kernel.block(some.points, some.points).astype(np.float64)
        if len(B):
            cross = some.block(self.basis_points(B)).astype(np.float64)
            g -= cross @ self.c
            phi = linalg.solve_triangular(
                self.factor, cross.T, lower=True, check_finite=False
            )
            K -= phi.T @ phi
        return g, K, some.points.values


def _cut(points: Points, few: Any) -> Points:
    def cut(a: Array | None) -> Array | None:
        return None if a is None else a[few]

    transposed = None if points.transposed is None else points.transposed[:, few]
    if transposed is not None:
        transposed = np.ascontiguousarray(transposed)
    return Points(
        points.values[few],
        points.index[few],
        points.dtype,
        cut(points.squares),
        transposed,
        cut(points.diagonal),
    )


def can_move(kernel: AnyKernel) -> bool:
    """Whether the kernel is smooth in its points, so that these can be moved."""
    return isinstance(kernel, Kernel) and kernel.name == "rbf"


def grow(
    problems: list[Problem],
    source: Source,
    kernel: Kernel,
    size: int,
    progress: Progress,
    rng: np.random.Generator,
    present: Array,
) -> Array:
    """Return `size` basis vectors (fewer where they would coincide), in user units.

    The first stages on a random sample of the rows `present`; the last on the rows
    that are near the margin then, of all of them.
    """
    most = rows_that_fit(source, size)
    first = min(most, max(FIRST_ROWS, ROWS_PER_VECTOR * size))
    whole = first >= len(present)
    sample = present if whole else np.sort(rng.choice(present, first, replace=False))
    part = part_of(problems, source, kernel, sample, len(present) / len(sample))
    B = np.empty((0, source.n_features))
    stages = STAGES if size <= LARGE else FEW_STAGES
    cheap = int(STEP_PRODUCTS / (size * (source.row_entries + size)))
    most = min(most, max(LAST_ROWS, cheap))
    for stage in range(1, stages + 1):
        last = stage == stages
        if last and not whole and len(B):
            part = _all_near(part, B, source, kernel, most, rng)
        wanted = -(-size * stage // stages)
        if wanted > len(B):
            B = np.concatenate([B, _new_vectors(part, B, wanted - len(B), rng)])
        steps = _last_steps(part, B, source) if last else STEPS
        B = move(part, B, steps, progress)
        _record(part, B, kernel, progress)
        if progress.spent() is not None:
            break
    return unmapped(kernel, B)


def _last_steps(part: Part, B: Array, source: Source) -> int:
    width = source.row_entries + len(B) * (1 + len(part.problems))
    products = float(len(part)) * len(B) * width
    return int(np.clip(MOST_PRODUCTS / products, LEAST_STEPS, MOST_STEPS))


def rows_that_fit(source: Source, size: int) -> int:
    """Return how many rows six tenths of the budget hold.

    In float32: the row, its kernel values, its features, a few numbers of its own.
    """
    numbers = source.row_entries + 2 * size + 64
    return max(size, int(0.6 * source.memory_budget / (4 * numbers)))


def _record(part: Part, B: Array, kernel: Kernel, progress: Progress) -> None:
    rows = Rows(unmapped(kernel, B), np.full(len(B), -1))
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


def part_of(
    problems: list[Problem],
    source: Source,
    kernel: Kernel,
    numbers: Array,
    stands_for: float,
) -> Part:
    """Return the rows with these numbers, each standing for so many."""
    rows = source.take(numbers)
    mapped = kernel.row_map(rows.values, np.float32)
    plain = replace(kernel, row_map=RowMap())
    points = plain.prepare(Rows(mapped, rows.index), np.float32)
    terms = [terms_of(problem, source, kernel, numbers) for problem in problems]
    return Part(problems, plain, points, terms, source.workers, stands_for)


def unmapped(kernel: Kernel, B: Array) -> Array:
    """Return vectors of the mapped space in the user's units."""
    if kernel.row_map.exponent:
        B = np.ldexp(B, kernel.row_map.exponent)
    return B if kernel.row_map.shift is None else B + kernel.row_map.shift


def _new_vectors(part: Part, B: Array, size: int, rng: np.random.Generator) -> Array:
    """Return rows where the functional gradient is largest, one beyond the others.

    Orthogonal matching pursuit: each chosen row takes what it explains away from the
    gradient at the others.
    """
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
    count = min(len(there), max(FEWEST_CANDIDATES, CANDIDATES * size))
    at = np.sort(rng.choice(there, count, replace=False))
    g, K, values = part.functional_gradient(B, at)
    chosen = _pursue(g, K, size)
    if not chosen and len(B) == 0:
        chosen = [0]  # rows that contradict each other pull nowhere: f = 0 it is
    found: Any = values[chosen]
    dense = found.toarray() if sparse.issparse(found) else found
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
    near = part
    part.solve(B)
    if part.problems[0].response is None:
        near = part.take(np.flatnonzero(part.worst > -FAR))

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
        options={"maxiter": steps, "maxcor": 10, "ftol": FLAT},
    )
    moved = found.x.reshape(B.shape) * width
    part.v, part.c = near.v, near.c
    part.solve(moved)
    return np.asarray(moved)
