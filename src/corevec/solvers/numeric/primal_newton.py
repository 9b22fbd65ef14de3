"""Newton's method over design rows: the weights, bias and offset of least objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.backend.arrays import (
    add_to_diagonal,
    cast,
    copied,
    count,
    definite_solved,
    floats,
    full,
    namespace,
    places,
    to_device_of,
    to_numpy,
)
from corevec.data.sources import Workers
from corevec.problems.family import Floor, Problem
from corevec.solvers.numeric.design import FEW_COLUMNS, Design

Kept = TypeVar("Kept")

# So few entries are brought here from a GPU for the line search: 0.1 MB each.
FEW_ENTRIES = 1 << 14
# Steps end where no value moves by more than this: rounding, in that precision.
STILL = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}


@dataclass(frozen=True)
class Minimum:
    """Where the objective over some rows is least.

    `mass` is ``sum beta`` there; `last_gram` the ``sum omega d d'`` of the entries that
    were active in the last step but one, where the rows live; None if it was not
    needed. `ended`: by itself, not by the number of its steps.
    """

    v: Array
    mass: float
    last_gram: Any
    ended: bool

    @property
    def gram(self) -> Array | None:
        """`last_gram`, brought here."""
        return None if self.last_gram is None else to_numpy(self.last_gram)


def minimise(
    rows: Design,
    v: Array,
    boost: float | Array = 1.0,
    max_steps: int = 200,
    still: float = 0.0,
) -> Minimum:
    """Minimise the objective over these rows: semismooth Newton, exact line search.

    Starts at the weights `v`, and ends where no value moves by more than `still`, or
    rounding. Each entry's weight is multiplied by `boost`.
    """
    how = (boost, max_steps, max(still, STILL[np.dtype(rows.dtype)]))
    if rows.problem.floor is not Floor.ZERO:
        return _minimise(rows, v, rows.problem.has_offset, *how)
    # The objective is convex in the offset: below zero it is at zero.
    if v[-1] == 0 and v.any():
        fixed = _minimise(rows, v, False, *how)
        if fixed.mass <= rows.problem.price:
            return fixed
    free = _minimise(rows, v, True, *how)
    if free.v[-1] >= 0:
        return free
    return _minimise(rows, np.append(free.v[:-1], 0.0), False, *how)


def minimise_each(
    designs: Sequence[Design],
    starts: Sequence[Array],
    boosts: Sequence[float | Array],
    kept: Callable[[int, Minimum], Kept],
    max_steps: int,
    still: float = 0.0,
) -> list[Kept]:
    """Return what is `kept` of `minimise` of several problems, by their numbers.

    One per thread where there are enough. Threads over the rows of one problem wait for
    each other at every step: ten classes of 28,000 rows in 1,000 columns took as long
    on two threads as on one. All that is found would be a matrix for each problem: with
    4000 vectors 128 MB.
    """

    def task(t: int) -> Kept:
        return kept(t, minimise(designs[t], starts[t], boosts[t], max_steps, still))

    workers = designs[0].workers
    if len(designs) < 2 * workers.n_threads:
        return [task(t) for t in range(len(designs))]
    for design in designs:
        design.workers = Workers(1)
    found = list(workers.run(task, range(len(designs))))
    for design in designs:
        design.workers = workers
    return found


def _minimise(
    rows: Design,
    v: Array,
    free_offset: bool,
    boost: float | Array,
    max_steps: int,
    still: float,
) -> Minimum:
    omega, target = rows.terms.omega, rows.terms.target
    omega = omega * (boost if isinstance(boost, float) else to_device_of(boost, omega))
    penalty, linear = np.ones(len(v)), np.zeros(len(v))
    if rows.problem.has_offset:
        penalty[-1] = 0.0
    if free_offset:
        linear[-1] = rows.problem.price
    margins = rows.times(v)
    newton = _NewtonPoint(rows, omega, penalty, linear, free_offset)
    ended = True
    for _ in range(max_steps):
        active = (target > margins) & (omega > 0)
        new = newton.point(active)
        moved = rows.times(new)
        if bool((((target > moved) & (omega > 0)) == active).all()):
            v = new
            break
        line = (v, new - v, target - margins, moved - margins, omega, penalty, linear)
        length = _exact_length(*line)
        change = length * float(abs(moved - margins).max())
        if change <= STILL[np.dtype(np.float64)]:
            break
        v = v + length * (new - v)
        margins += length * (moved - margins)
        if change <= still:
            break
    else:
        ended = False
    mass = float(omega @ (target - rows.times(v)).clip(min=0.0))
    return Minimum(v, mass, newton.gram if newton.summed.any() else None, ended)


class _NewtonPoint:
    """Where the objective would be least if exactly the active rows were violated.

    With fewer active rows than weights the system is that of their multipliers,
    ``(D D' + 1/omega) b = p``, ``v = D'b``. Otherwise it is that of the weights, and
    the Gram matrix of the active rows is updated by the rows that come and go, which
    after the first steps are few.
    """

    def __init__(
        self,
        rows: Design,
        omega: Array,
        penalty: Array,
        linear: Array,
        free_offset: bool,
    ):
        self.rows, self.omega, self.penalty, self.linear = rows, omega, penalty, linear
        self.free_offset = free_offset
        # The variables that move: without a free offset it stays at 0.
        self.width = rows.width if free_offset else rows.signed
        self.summed = omega < 0  # the entries in `gram`: none yet
        self.row_weight = full(rows.n_rows, 0.0, omega)  # the same, by rows
        # Wide sums are kept, and their systems solved, where the rows live.
        self.sums_at: Any = np.zeros(0) if rows.signed <= FEW_COLUMNS else omega
        self.gram, self.pull = np.zeros((0, 0)), np.zeros(0)

    def point(self, active: Array) -> Array:
        """Return the weights that are optimal for these active entries."""
        n_active, width = count(active), self.width
        if n_active < width and not self.free_offset:
            moving = self._from_multipliers(places(active))
        else:
            self._sum(active, n_active)
            right = self.pull[:width] - to_device_of(self.linear[:width], self.pull)
            gram, penalty = self.gram[:width, :width], self.penalty[:width]
            moving = to_numpy(_solve_system(gram, to_device_of(penalty, gram), right))
        return np.concatenate([moving, np.zeros(self.rows.width - width)])

    def _from_multipliers(self, few: Array) -> Array:
        design, target = self.rows.take(few)[:, : self.width], self.rows.terms.target
        own, right = 1.0 / self.omega[few], target[few]
        if self.rows.signed <= FEW_COLUMNS:
            design, own, right = to_numpy(design), to_numpy(own), to_numpy(right)
        b = _solve_system(design @ design.T, own, right)
        return to_numpy(b @ cast(design, np.float64))

    def _sum(self, active: Array, n_active: int) -> None:
        """Set `gram` and `pull` to the sums over the active entries."""
        if len(self.rows.problem.sides) == 2 and self.rows.design is not None:
            self._sum_rows(active)
        else:
            self._sum_entries(active, n_active)

    def _sum_rows(self, active: Array) -> None:
        """Sum by rows: one that changes its side leaves ``d d'`` as it is.

        At a narrow tube half of the rows do so in the first step.
        """
        rows, signed, self.summed = self.rows, self.rows.signed, active
        beta = self.omega * active
        weight = beta.reshape(2, -1).sum(axis=0)
        change = weight - self.row_weight
        came, went = places(change > 0), places(change < 0)
        if len(self.gram) == 0:
            self.gram = full((rows.width, rows.width), 0.0, self.sums_at)
        inner = self.gram[:signed, :signed]
        if len(came) + len(went) > count(weight != 0):
            inner = rows.row_gram(places(weight), weight)
        else:
            inner = inner + rows.row_gram(came, change) - rows.row_gram(went, -change)
        self.row_weight = weight
        signs, target = beta * rows.terms.sign, rows.terms.target
        sums = [(signs * target).reshape(2, -1).sum(0), signs.reshape(2, -1).sum(0)]
        both = namespace(signs).stack(sums, axis=1)
        pull, column = to_device_of(rows.transposed_times(both).T, inner)
        self.gram = full(tuple(self.gram.shape), 0.0, inner)
        self.pull = full(rows.width, 0.0, inner)
        self.gram[:signed, :signed], self.pull[:signed] = inner, pull
        if rows.problem.has_offset:
            self.gram[-1, :signed] = self.gram[:signed, -1] = column
            self.gram[-1, -1] = float(beta.sum())
            self.pull[-1] = float(beta @ target)

    def _sum_entries(self, active: Array, n_active: int) -> None:
        came = places(active & ~self.summed)
        went = places(self.summed & ~active)
        self.summed = active
        if len(came) + len(went) > n_active or len(self.gram) == 0:
            self.gram = np.zeros((0, 0))  # with 2000 weights it has 32 MB
            everyone = places(active)
            self.gram, self.pull = self.rows.sums(everyone, self.omega)
            return
        # In place, and one after the other, for the same reason.
        if len(came):
            gram, pull = self.rows.sums(came, self.omega)
            self.gram += gram
            self.pull += pull
            del gram
        if len(went):
            gram, pull = self.rows.sums(went, self.omega)
            self.gram -= gram
            self.pull -= pull


def point_of(
    problem: Problem, gram: Array | float, pull: Array | float, width: int
) -> Array:
    """Return the weights of least objective if exactly the summed entries count.

    `gram` and `pull` are ``sum omega d d'`` and ``sum omega p d`` over them.
    """
    gram, pull = np.zeros((width, width)) + gram, np.zeros(width) + pull
    penalty, linear = np.ones(width), np.zeros(width)
    if not problem.has_offset:
        return _solve_system(gram, penalty, pull)
    penalty[-1], linear[-1] = 0.0, problem.price
    found = _solve_system(gram, penalty, pull - linear)
    if problem.floor is Floor.ZERO and found[-1] < 0:
        inner = _solve_system(gram[:-1, :-1], penalty[:-1], pull[:-1])
        return np.append(inner, 0.0)
    return found


def _solve_system(gram: Array, penalty: Array, right: Array) -> Array:
    """Solve ``(gram + diag(penalty)) x = right`` by Cholesky."""
    trace = float(gram.diagonal().sum()) + float(penalty.sum())
    jitter = 0.0
    while True:
        system = copied(gram)
        add_to_diagonal(system, penalty + jitter)
        try:
            return definite_solved(system, right)
        except linalg.LinAlgError:
            jitter = max(10 * jitter, 1e-14 * trace)


def _exact_length(
    v: Array,
    step: Array,
    violation: Array,
    change: Array,
    omega: Array,
    penalty: Array,
    linear: Array,
) -> float:
    """Return the minimiser along the step: the derivative is piecewise linear."""
    if len(omega) <= FEW_ENTRIES:  # each trial would wait for a device four times
        violation, change, omega = (
            to_numpy(violation),
            to_numpy(change),
            to_numpy(omega),
        )
    slope0 = float((penalty * v + linear) @ step)
    curve0 = float((penalty * step) @ step)
    low, high, s = 0.0, 1e3, 1.0
    for _ in range(30):
        moved = violation - s * change
        part = omega * change
        part[~(moved > 0)] = 0.0
        less, more = floats([part @ moved, part @ change])
        slope, curve = slope0 + s * curve0 - less, curve0 + more
        low, high = (low, s) if slope > 0 else (s, high)
        new = s - slope / curve if curve > 0 else (low + high) / 2
        if not low <= new <= high:
            new = (low + high) / 2
        if abs(new - s) <= 1e-6 * s:
            break
        s = new
    return float(s)
