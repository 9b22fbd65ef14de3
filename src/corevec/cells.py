"""Cells: one small exact machine in every leaf of a balanced tree.

For data whose boundary is local (covertype: an exact model has a hundred thousand
support vectors, 3000 basis rows leave 14.6 % error) a tree cuts the rows into cells of
some thousand, each is solved exactly (`_cell_loops.newton`; balls and automatic tubes
by the solver of the core set), and a row is predicted by the machine of its cell.
Several trees are averaged. It is the mixture of local machines of Collobert, Bengio and
Bengio (2002) with balanced cells.

What is certified is each cell's own problem. The global problem, over all rows at once,
is a different one: nothing is claimed about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from corevec import _cell_loops
from corevec.certificate import relative_gap
from corevec.core import Core
from corevec.kernels import AnyKernel, Points, Rows, finite
from corevec.problems import Problem
from corevec.progress import Progress
from corevec.sources import Chosen, Source, of_rows, stacked
from corevec.trees import Tree, grow

Array = npt.NDArray[Any]

# Rows predicted at a time: with 512 cells some 250 rows meet each machine's vectors.
_PREDICTED_ROWS = 1 << 17
# Cells of more rows than this are looked through for equal ones.
MERGED_FROM = 3000
# Shares of a cell's rows that are solved one after the other, each of so many or more.
STAGES, FEWEST = (0.2, 0.5, 1.0), 50
MOST_STEPS = 100
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class CellFit:
    """The machines of one cell: vectors, coefficients, and what was proved."""

    basis: Rows
    coef: Array  # (vectors, outputs)
    intercept: Array  # (outputs,)
    primal: Array  # per output; an output without rows of both kinds has none: 0
    dual: Array
    n_rows: int
    offset: Array  # t of each problem: the tube of a regression

    @property
    def gap(self) -> float:
        """The largest relative gap of the cell's problems."""
        pairs = zip(self.primal, self.dual, strict=True)
        gaps = (relative_gap(float(p), float(d)) for p, d in pairs if p > 0)
        return max(gaps, default=0.0)


@dataclass(frozen=True)
class Cells:
    """The machines of all cells of one tree, vectors stacked cell after cell."""

    tree: Tree
    kernel: AnyKernel
    basis: Rows
    coef: Array
    starts: Array  # (n_cells + 1,) into the vectors
    intercepts: Array  # (n_cells, outputs)

    @property
    def n_outputs(self) -> int:
        """How many functions there are."""
        return int(self.intercepts.shape[1])

    @cached_property
    def points(self) -> Points:
        """All vectors, prepared in the precision of the rows they come from."""
        dtype = getattr(self.basis.values, "dtype", np.float64)
        return self.kernel.prepare_basis(self.basis, dtype)

    def __reduce__(self) -> Any:
        own = (self.tree, self.kernel, self.basis, self.coef)
        return Cells, (*own, self.starts, self.intercepts)

    def evaluate(self, rows: Rows) -> Array:
        """Return the values of a block of rows, each by the machine of its cell."""
        cells = self.tree.cells_of(rows.values)
        order = np.argsort(cells, kind="stable")
        bounds = np.searchsorted(cells[order], np.arange(self.tree.n_cells + 1))
        x = self.kernel.prepare(Rows(rows.values[order], order), self.points.dtype)
        found = self.intercepts[cells[order]]
        for cell in np.flatnonzero(np.diff(bounds) * np.diff(self.starts)):
            here = slice(bounds[cell], bounds[cell + 1])
            start, stop = self.starts[cell], self.starts[cell + 1]
            some, own = x.part(here.start, here.stop), self.points.part(start, stop)
            coef = self.coef[start:stop]
            found[here] += self.kernel.times(some, own, coef)
            if self.n_outputs > 1:
                absent = (self.intercepts[cell] == -1) & ~coef.any(axis=0)
                _keep_below(found[here], absent)
        out = np.empty_like(found)
        out[order] = found
        return out


def _keep_below(values: Array, absent: Array) -> None:
    """Lower the values of the classes that a cell has no row of, where -1 is too much.

    Far outside (mostly of a linear or polynomial kernel) those of all others can be
    below it: then a class that was never seen there would win.
    """
    if not absent.any():
        return
    top = values[:, ~absent].max(axis=1)
    low = np.flatnonzero(top <= -1)
    values[np.ix_(low, absent)] = top[low, None] - 1


@dataclass(frozen=True)
class Forest:
    """The average of the machines of several trees."""

    trees: tuple[Cells, ...]

    @property
    def n_vectors(self) -> int:
        """Vectors in all cells of all trees."""
        return sum(len(one.basis) for one in self.trees)

    @property
    def n_bytes(self) -> int:
        """Bytes of vectors, coefficients and trees."""
        total = 0
        for one in self.trees:
            total += _bytes_of(one.basis.values) + one.coef.nbytes
            total += one.tree.directions.nbytes + one.intercepts.nbytes
        return total

    def ready(self) -> Any:
        """Return the function of a block of rows."""
        return self.evaluate

    def values(self, source: Source) -> Array:
        """Return the mean value of every row, shape (n_rows, outputs)."""
        for one in self.trees:
            _ = one.points  # made once, before the threads ask for them
        wide = _WideBlocks(source)
        return wide.map(self.evaluate)

    def evaluate(self, rows: Rows) -> Array:
        """Return the mean over the trees for a block of rows."""
        total = self.trees[0].evaluate(rows)
        for one in self.trees[1:]:
            total += one.evaluate(rows)
        return total / len(self.trees)


def _bytes_of(values: Any) -> int:
    """Return the bytes of dense or CSR rows."""
    if hasattr(values, "indptr"):
        parts = (values.data, values.indices, values.indptr)
        return sum(int(part.nbytes) for part in parts)
    return int(values.nbytes)


class _WideBlocks:
    """A source seen in blocks that are long enough for every cell to get some rows."""

    def __init__(self, source: Source):
        self.source = source

    def map(self, score: Any) -> Array:
        """Return ``score`` of every block, stacked."""
        source = self.source
        if source.is_far:
            return source.map(score)
        # Rows in the order of their cells, prepared, and their values, in each thread.
        row_bytes = 8 * (3 * source.row_entries + 8) * source.workers.n_threads
        fit = int(source.memory_budget // (2 * row_bytes))
        step = int(np.clip(fit, 1024, _PREDICTED_ROWS))
        step = min(step, max(1024, -(-source.n_rows // source.workers.n_threads)))
        bounds = [
            (s, min(s + step, source.n_rows)) for s in range(0, source.n_rows, step)
        ]
        parts = source.workers.run(lambda b: score(source.block(*b)), bounds)
        return np.concatenate(list(parts))


@dataclass(frozen=True)
class Solved:
    """A forest, and what is known about its cells."""

    forest: Forest
    gaps: Array  # of each cell that holds rows, in the order of the trees
    primal: float
    dual: float
    n_cells: int
    largest: int
    offset: Array  # mean over the cells, by their rows
    is_whole: bool = True  # no tree was left out for want of time


def fit(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    size: int,
    n_trees: int,
    progress: Progress,
    rng: np.random.Generator,
) -> Solved:
    """Grow trees and solve the problems in every cell."""
    trees, fits = [], []
    rows = rows_that_weigh(problems, source)
    for number in range(n_trees):
        tree, members = grow(source, size, rng, random=number > 0, rows=rows)
        own = list(_solve_all(problems, source, kernel, members, progress))
        trees.append(_join(tree, kernel, own, source))
        fits += own
        if progress.spent() is not None:
            break
    held = [one for one in fits if one.n_rows]
    return Solved(
        Forest(tuple(trees)),
        np.array([one.gap for one in held]),
        float(sum(one.primal.sum() for one in held)) / len(trees),
        float(sum(one.dual.sum() for one in held)) / len(trees),
        len(held),
        max(one.n_rows for one in held),
        np.average(
            [one.offset for one in held], axis=0, weights=[one.n_rows for one in held]
        ),
        is_whole=len(trees) == n_trees,
    )


def rows_that_weigh(problems: list[Problem], source: Source) -> Array:
    """Return the numbers of the rows of positive weight: the others are absent."""
    labels = problems[0].labels
    if labels.sample_weight is None and labels.class_weight is None:
        return source.numbers
    return source.numbers[source.map(labels.weights) > 0]


def _solve_all(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    members: list[Array],
    progress: Progress,
) -> Iterator[CellFit]:
    """Yield the machines of every cell, in order; threads work on several at once."""
    n_done, n_rows, worst = 0, 0, 0.0

    def solve(rows: Array) -> CellFit:
        return solve_cell(problems, source, kernel, rows)

    step = max(1, len(members) // 16)
    for one in source.workers.run(solve, members):
        n_done, n_rows = n_done + 1, n_rows + one.n_rows
        worst = max(worst, one.gap)
        if n_done % step == 0 or n_done == len(members):
            progress.rows_looked_at += n_rows
            progress.record(
                core=n_done,
                support=len(one.basis),
                gap=worst,
                dual=float("nan"),
                looked_at=n_rows,
                exact=False,
                cells=len(members),
            )
            n_rows = 0
        yield one


def solve_cell(
    problems: list[Problem], source: Source, kernel: AnyKernel, numbers: Array
) -> CellFit:
    """Return the exact machines of the rows of one cell.

    A problem with rows of one sign only is that sign; one without rows is zero.
    """
    if len(numbers) == 0:
        return _empty(problems, source)
    cell, local = _merged(problems, source, numbers)
    local = _priced(local, cell)
    matrix = _Matrix(cell, kernel)
    machines = [_machine(problem, cell, matrix) for problem in local]
    coef = np.stack([one.coef for one in machines], axis=1)
    used = np.flatnonzero(coef.any(axis=1))
    numbers_of = {
        name: np.array([getattr(one, name) for one in machines])
        for name in ("intercept", "primal", "dual", "offset")
    }
    basis = Rows(cell.values[used], cell.index[used])
    return CellFit(basis, coef[used], n_rows=len(numbers), **numbers_of)


@dataclass(frozen=True)
class _Machine:
    """The solution of one problem in a cell."""

    coef: Array
    intercept: float
    primal: float = 0.0
    dual: float = 0.0
    offset: float = 0.0


class _Matrix:
    """Kernel values among the rows of a cell, made when a problem needs them."""

    def __init__(self, cell: _Cell, kernel: AnyKernel):
        self.cell, self.kernel = cell, kernel
        self.rows = cell.block(0, cell.n_rows)
        self._made: dict[bool, Array] = {}

    def values(self, has_bias: bool) -> Array:
        """Return ``k_ij + [bias]``, shared by all problems of the cell."""
        if has_bias not in self._made:
            points = self.kernel.prepare_basis(self.rows)
            made = finite(self.kernel.block(points, points), self.kernel)
            made += float(has_bias)  # in place: a thousand rows have 8 MB
            self._made[has_bias] = made
        return self._made[has_bias]


def _machine(problem: Problem, cell: _Cell, matrix: _Matrix) -> _Machine:
    sign = _only_sign(problem, cell, matrix.kernel)
    if sign is not None:
        return _Machine(np.zeros(cell.n_rows), sign)
    found = None
    if not problem.has_offset and not problem.is_hard:
        found = _by_newton(problem, matrix)
    return _by_core(problem, cell, matrix.kernel) if found is None else found


def _by_newton(problem: Problem, matrix: _Matrix) -> _Machine | None:
    """Solve by the compiled Newton method; None where rounding ended it early.

    On a random part of the rows first: then few of the others change sides, while from
    nothing every row is inside the margin and the first steps factor all of them.
    """
    terms = problem.terms(matrix.rows, matrix.kernel)
    K, omega, n = matrix.values(problem.has_bias), terms.omega, len(terms.omega)
    z, side = terms.sign, terms.sign
    if problem.response is not None:
        z, side = terms.target + problem.tube, np.zeros(n)
    a, order = np.zeros(n), np.random.default_rng(n).permutation(n)
    try:
        for share in STAGES if n > 4 * FEWEST else (1.0,):
            here = np.zeros(n)
            few = order[: int(share * n)]
            here[few] = omega[few]
            steps = _cell_loops.newton(K, z, side, problem.tube, here, a, MOST_STEPS)
    except np.linalg.LinAlgError:
        return None  # not positive definite, numerically: the core set's solver helps
    found = _measured(problem, K, z, side, omega, a)
    solved = steps > 0 or relative_gap(found.primal, found.dual) <= 1e-9
    return found if solved else None


def _measured(
    problem: Problem, K: Array, z: Array, side: Array, omega: Array, a: Array
) -> _Machine:
    """Return the machine with coefficients `a`, and what they prove."""
    f, there = K @ a, omega > 0
    wrong = np.where(side == 0, np.abs(z - f), side * (z - f)) - problem.tube
    loss = float(omega @ np.maximum(wrong, 0.0) ** 2) / 2
    norm_sq, mass = float(a @ f), float(np.abs(a).sum())
    curve = norm_sq + float((a[there] ** 2 / omega[there]).sum())
    slope = float(a @ z) - problem.tube * mass
    dual = problem.dual_at_best_scale(slope, curve, mass)
    rounding = 8 * _EPS * mass**2 * float(np.abs(K.diagonal()).max())
    intercept = float(a.sum()) if problem.has_bias else 0.0
    primal = problem.unit * (norm_sq / 2 + loss + rounding)
    return _Machine(a, intercept, primal, problem.unit * (dual - rounding))


def _by_core(problem: Problem, cell: _Cell, kernel: AnyKernel) -> _Machine:
    """Solve by the core set's own solver: balls, tubes, matrices near singular."""
    core = Core(problem, cell, kernel)
    rng = np.random.default_rng(cell.n_rows)
    _solve_in_stages(core, _present(problem, cell, kernel), rng)
    signed = core.multipliers * core.terms.sign
    coef = np.zeros(cell.n_rows)
    np.add.at(coef, cell.positions(core.rows), signed)
    intercept = float(signed.sum()) if problem.has_bias else 0.0
    loss = float(core.loss(((1.0, core.offset),))[0])
    primal = core.norm_sq / 2 + problem.price * core.offset + loss
    upper, lower = primal + core.rounding, core.dual - core.rounding
    unit = problem.unit
    return _Machine(coef, intercept, unit * upper, unit * lower, core.offset)


def _solve_in_stages(core: Core, entries: Array, rng: np.random.Generator) -> None:
    """Solve on a random part of the entries first: then few of them change sides.

    From nothing every row is inside the margin, and the first steps factor matrices of
    all rows.
    """
    core.room = len(entries)
    mixed, done = rng.permutation(entries), 0
    for share in STAGES:
        stop = int(share * len(mixed))
        if stop - done < FEWEST and share < 1:
            continue
        core.add(np.sort(mixed[done:stop]))
        core.solve("newton", 1e-6)
        done = stop


class _Cell(Chosen):
    """The rows of one cell, equal ones merged."""

    def positions(self, numbers: Array) -> Array:
        """Return where the rows with these numbers are."""
        return np.searchsorted(self.index, numbers)


@dataclass(frozen=True)
class _Together:
    """Weights of rows that stand for several equal ones."""

    index: Array
    weights: Array

    def __call__(self, rows: Rows) -> Array:
        """Return the weight of each row."""
        return np.asarray(self.weights[np.searchsorted(self.index, rows.index)])


def _merged(
    problems: list[Problem], source: Source, numbers: Array
) -> tuple[_Cell, list[Problem]]:
    """Return the rows of a cell and the problems over them.

    In a cell that could not be split, equal rows of one label become one of their
    summed weight: the same problem, with as many rows as there are different ones.
    """
    rows = source.take(numbers)
    if len(numbers) <= MERGED_FROM:
        return _Cell(source, numbers, rows), problems
    labels = problems[0].labels
    response = [
        of_rows(one.response, rows) for one in problems if one.response is not None
    ]
    codes = [] if labels.codes is None else [of_rows(labels.codes, rows)]
    keys = np.column_stack([_told_apart(rows.values), *codes, *response])
    _, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    own = np.ones(len(numbers))
    if labels.sample_weight is not None:
        own = of_rows(labels.sample_weight, rows)
    order = np.argsort(first)
    weights = np.bincount(place.ravel(), own, minlength=len(first))[order]
    index = numbers[first[order]]
    own_weights, mass = _Together(index, weights), labels.total_weight
    together = replace(labels, sample_weight=own_weights, mass=mass)
    cell = _Cell(source, index, rows.part(first[order]))
    return cell, [replace(one, labels=together) for one in problems]


def _told_apart(values: Any) -> Array:
    """Return columns by which equal rows are known; of sparse rows a single one."""
    if not sparse.issparse(values):
        return np.asarray(values)
    plain = values.copy()
    plain.sum_duplicates()
    plain.eliminate_zeros()
    known: dict[tuple[bytes, bytes], int] = {}

    def number(start: int, stop: int) -> int:
        key = plain.indices[start:stop].tobytes(), plain.data[start:stop].tobytes()
        return known.setdefault(key, len(known))

    return np.array([number(*ends) for ends in pairwise(plain.indptr)])


def _only_sign(problem: Problem, cell: Source, kernel: AnyKernel) -> float | None:
    """Return the sign that all rows of a two-class problem have, if they have one."""
    if problem.positive is None:
        return None
    terms = problem.terms(cell.block(0, cell.n_rows), kernel)
    signs = np.unique(terms.sign[terms.omega > 0])
    if len(signs) == 0:
        return 0.0
    return float(signs[0]) if len(signs) == 1 else None


def _present(problem: Problem, cell: Source, kernel: AnyKernel) -> Array:
    """Return the entries of the rows that have a weight, on all sides."""
    rows = cell.block(0, cell.n_rows)
    entries = []
    for side in problem.sides:
        there = problem.terms(rows, kernel, side).omega > 0
        entries.append(problem.entries(rows.index[there], side))
    return np.concatenate(entries)


def _empty(problems: list[Problem], source: Source) -> CellFit:
    none = np.empty(0, dtype=np.int64)
    zero = np.zeros(len(problems))
    rows = source.take(none)
    return CellFit(
        Rows(rows.values, none), np.zeros((0, len(problems))), zero, zero, zero, 0, zero
    )


def _join(tree: Tree, kernel: AnyKernel, fits: list[CellFit], source: Source) -> Cells:
    sizes = [len(one.basis) for one in fits]
    basis = Rows(
        stacked([one.basis.values for one in fits]),
        np.concatenate([one.basis.index for one in fits]),
    )
    return Cells(
        tree,
        kernel,
        basis,
        np.concatenate([one.coef for one in fits]),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.stack([one.intercept for one in fits]),
    )


def _priced(problems: list[Problem], cell: Source) -> list[Problem]:
    """Return the problems with the price of a tube for the rows of a cell.

    An automatic tube costs ``C mu S``, S the weight of all rows: here of the cell's.
    """
    if not any(one.response is not None and one.has_offset for one in problems):
        return problems
    labels = problems[0].labels
    mass = float(labels.weights(cell.block(0, cell.n_rows)).sum())
    share = mass / problems[0].labels.total_weight
    return [replace(one, price=one.price * share) for one in problems]


@dataclass(frozen=True)
class Trial:
    """Parts of a few cells: rows to solve on, rows to judge by."""

    train: Array
    test: Array


def trials(members: list[Array], n_cells: int, rng: np.random.Generator) -> list[Trial]:
    """Return random parts, four to one, of some random cells that hold rows."""
    held = [rows for rows in members if len(rows) >= 10] or [max(members, key=len)]
    few = rng.permutation(len(held))[:n_cells]
    found = []
    for at in few:
        mixed = rng.permutation(held[at])
        cut = len(mixed) // 5
        found.append(Trial(np.sort(mixed[cut:]), np.sort(mixed[:cut])))
    return found


def error_of(
    problems: list[Problem], source: Source, kernel: AnyKernel, trial: Trial
) -> tuple[float, float]:
    """Return the weighted error of one cell on its test part, and the weight.

    Of classes the share of wrong signs, over all machines; of numbers the squares.
    """
    fit_ = solve_cell(problems, source, kernel, trial.train)
    rows = source.take(trial.test)
    values = np.tile(fit_.intercept, (len(rows), 1))
    if len(fit_.basis):
        points = kernel.prepare_basis(fit_.basis)
        values += kernel.times(kernel.prepare(rows), points, fit_.coef)
    return misses(problems, rows, values, kernel)


def misses(
    problems: list[Problem], rows: Rows, values: Array, kernel: AnyKernel
) -> tuple[float, float]:
    """Return the weighted error of given values on some rows, and the weight."""
    wrong = total = 0.0
    if (
        len(problems) > 1
        and problems[0].negative is None
        and problems[0].response is None
    ):
        codes = of_rows(problems[0].labels.codes, rows)  # type: ignore[arg-type]
        weight = problems[0].labels.weights(rows)
        own = np.array([one.positive for one in problems])
        return float(weight @ (own[values.argmax(axis=1)] != codes)), float(
            weight.sum()
        )
    for t, problem in enumerate(problems):
        weight = problem.labels.weights(rows)
        terms = problem.terms(rows, kernel)
        weight = np.where(terms.omega > 0, weight, 0.0)
        if problem.response is not None:
            off = (of_rows(problem.response, rows) - values[:, t]) ** 2
        else:
            off = (values[:, t] > 0) != (terms.sign > 0)
        wrong, total = wrong + float(weight @ off), total + float(weight.sum())
    return wrong, total
