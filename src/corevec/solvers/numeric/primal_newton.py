"""Newton's method in a span: the weights, bias and offset of the least objective.

Over the design rows d of some entries, with weights v, the objective

    1/2 v' diag(penalty) v + linear'v + 1/2 sum_e omega_e max(0, p_e - d_e v)^2

is minimised by semismooth Newton steps with an exact line search. This is the one
driver for every solver that works in a span: `minimise` for one problem, and
`minimise_each` for several. `newton_target` is one step from sums over all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

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
from corevec.solvers.numeric.deadline import Deadline
from corevec.solvers.numeric.design import HOST_COLUMNS, Design
from corevec.solvers.numeric.jitter import with_jitter

Kept = TypeVar("Kept")

# Steps end where no value moves by more than this: rounding, in that precision.
VALUE_ROUNDING = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}
# Steps of the line search, and how far beyond the Newton point it may end.
LINE_SEARCH_STEPS, MAX_STEP_LENGTH = 30, 1e3


@dataclass(frozen=True)
class NewtonSettings:
    """When the Newton steps end, and where the line search runs.

    Attributes
    ----------
    max_steps : int
        Newton steps at most.
    value_tolerance : float
        Steps end where no value moves by more than this, or by more than rounding.
    host_entries : int
        So few entries are copied from a GPU to the host for the line search, 0.1 MB
        each array: on the device each trial would wait four times.
    deadline : Deadline, optional
        Steps end there, too.
    """

    max_steps: int = 200
    value_tolerance: float = 0.0
    host_entries: int = 1 << 14
    deadline: Deadline | None = None

    @property
    def is_out_of_time(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and self.deadline.is_over()


@dataclass(frozen=True)
class Minimum:
    """The minimiser of the objective over some rows.

    Attributes
    ----------
    v : ndarray
        Weights, bias, offset.
    mass : float
        ``sum beta`` at the minimiser.
    last_gram : ndarray, tensor or None
        ``sum omega d d'`` of the entries that were active in the last step but one,
        on the device of the rows; None if it was not needed.
    ended : bool
        Whether the steps ended by themselves, not by their number or the time.
    """

    v: Array
    mass: float
    last_gram: Any
    ended: bool

    @property
    def gram(self) -> Array | None:
        """`last_gram`, copied to the host."""
        return None if self.last_gram is None else to_numpy(self.last_gram)


def minimise(
    design: Design,
    v: Array,
    boost: float | Array = 1.0,
    settings: NewtonSettings | None = None,
) -> Minimum:
    """Return the minimum over these rows, warm-started at `v`.

    Each entry's weight is multiplied by `boost`. A step costs a product with all rows,
    and n_active * k^2 for the entries that become active or inactive.
    """
    settings = settings or NewtonSettings()
    problem = design.problem
    if problem.floor is not Floor.ZERO:
        return _minimise(design, v, problem.has_offset, boost, settings)
    # The objective is convex in the offset: where its minimiser is negative, the
    # constraint offset >= 0 is active.
    if v[-1] == 0 and v.any():
        fixed = _minimise(design, v, False, boost, settings)
        if fixed.mass <= problem.price:
            return fixed
    free = _minimise(design, v, True, boost, settings)
    if free.v[-1] >= 0:
        return free
    return _minimise(design, np.append(free.v[:-1], 0.0), False, boost, settings)


def minimise_each(
    designs: Sequence[Design],
    starts: Sequence[Array],
    boosts: Sequence[float | Array],
    keep: Callable[[int, Design, Minimum], Kept],
    settings: NewtonSettings,
) -> list[Kept]:
    """Return ``keep(t, design, minimum)`` for each problem t.

    One problem per thread where there are enough of them. Threads over the rows of one
    problem wait for each other at every step: ten classes of 28,000 rows in 1,000
    columns took as long on two threads as on one. `keep` reduces each minimum at once:
    with 4000 vectors its matrix has 128 MB.
    """

    def task(t: int, design: Design) -> Kept:
        return keep(t, design, minimise(design, starts[t], boosts[t], settings))

    workers = designs[0].workers
    if len(designs) < 2 * workers.n_threads:
        return [task(t, design) for t, design in enumerate(designs)]
    alone = [design.using(Workers(1)) for design in designs]
    return list(workers.run(lambda t: task(t, alone[t]), range(len(alone))))


def newton_target(
    problem: Problem, gram: Array | float, pull: Array | float, width: int
) -> Array:
    """Return the weights of least objective if exactly the summed entries are active.

    `gram` and `pull` are ``sum omega d d'`` and ``sum omega p d`` over them.
    """
    gram, pull = np.zeros((width, width)) + gram, np.zeros(width) + pull
    penalty, linear = _regulariser(problem, width, problem.has_offset)
    found = _solve_system(gram, penalty, pull - linear)
    if problem.floor is Floor.ZERO and found[-1] < 0:
        inner = _solve_system(gram[:-1, :-1], penalty[:-1], pull[:-1])
        return np.append(inner, 0.0)
    return found


def _regulariser(
    problem: Problem, width: int, is_offset_free: bool
) -> tuple[Array, Array]:
    """Return `penalty` and `linear` of the objective: the offset costs its price."""
    penalty, linear = np.ones(width), np.zeros(width)
    if problem.has_offset:
        penalty[-1] = 0.0
    if is_offset_free:
        linear[-1] = problem.price
    return penalty, linear


@dataclass(frozen=True)
class _Objective:
    """The objective over the entries of a design; see the module."""

    design: Design
    omega: Array
    penalty: Array
    linear: Array
    is_offset_free: bool

    def active(self, margins: Array) -> Array:
        """Return which entries are violated."""
        return (self.design.terms.target > margins) & (self.omega > 0)


def _minimise(
    design: Design,
    v: Array,
    is_offset_free: bool,
    boost: float | Array,
    settings: NewtonSettings,
) -> Minimum:
    omega, target = design.terms.omega, design.terms.target
    omega = omega * (boost if isinstance(boost, float) else to_device_of(boost, omega))
    regulariser = _regulariser(design.problem, len(v), is_offset_free)
    objective = _Objective(design, omega, *regulariser, is_offset_free)
    tolerance = max(settings.value_tolerance, VALUE_ROUNDING[np.dtype(design.dtype)])
    margins, newton, ended = design.times(v), _NewtonPoint(objective), True
    for _ in range(settings.max_steps):
        if settings.is_out_of_time:
            ended = False
            break
        active = objective.active(margins)
        new = newton.point(active)
        moved = design.times(new)
        if bool((objective.active(moved) == active).all()):
            v = new
            break
        line = _Line(objective, v, new - v, target - margins, moved - margins)
        length = line.minimiser(settings.host_entries)
        change = length * float(abs(moved - margins).max())
        if change <= VALUE_ROUNDING[np.dtype(np.float64)]:
            break
        v = v + length * (new - v)
        margins += length * (moved - margins)
        if change <= tolerance:
            break
    else:
        ended = False
    mass = float(omega @ (target - design.times(v)).clip(min=0.0))
    return Minimum(v, mass, newton.gram if newton.summed.any() else None, ended)


class _NewtonPoint:
    """The minimiser of the objective if exactly the active entries were violated.

    With fewer active entries than weights the system is that of their multipliers,
    ``(D D' + 1/omega) b = p``, ``v = D'b``. Otherwise it is that of the weights, and
    the Gram matrix of the active entries is updated by those that became active or
    inactive, which are few after the first steps.
    """

    def __init__(self, objective: _Objective):
        self.objective, self.design = objective, objective.design
        design, omega = objective.design, objective.omega
        # The variables that move: an offset that is not free stays at 0.
        self.width = design.width if objective.is_offset_free else design.n_weights
        self.summed = omega < 0  # the entries in `gram`: none yet
        self.row_weight = full(design.n_rows, 0.0, omega)  # the same, by rows
        # Wide sums stay, and their systems are solved, on the device of the rows.
        self.sums_at: Any = np.zeros(0) if design.n_weights <= HOST_COLUMNS else omega
        self.gram, self.pull = np.zeros((0, 0)), np.zeros(0)

    def point(self, active: Array) -> Array:
        """Return the weights that are optimal for these active entries."""
        n_active, width = count(active), self.width
        if n_active < width and not self.objective.is_offset_free:
            moving = self._from_multipliers(places(active))
        else:
            self._sum(active, n_active)
            linear, penalty = self.objective.linear, self.objective.penalty
            right = self.pull[:width] - to_device_of(linear[:width], self.pull)
            gram = self.gram[:width, :width]
            moving = to_numpy(
                _solve_system(gram, to_device_of(penalty[:width], gram), right)
            )
        return np.concatenate([moving, np.zeros(self.design.width - width)])

    def _from_multipliers(self, few: Array) -> Array:
        rows, target = self.design.take(few)[:, : self.width], self.design.terms.target
        own, right = 1.0 / self.objective.omega[few], target[few]
        if self.design.n_weights <= HOST_COLUMNS:
            rows, own, right = to_numpy(rows), to_numpy(own), to_numpy(right)
        b = _solve_system(rows @ rows.T, own, right)
        return to_numpy(b @ cast(rows, np.float64))

    def _sum(self, active: Array, n_active: int) -> None:
        """Set `gram` and `pull` to the sums over the active entries."""
        if len(self.design.problem.sides) == 2 and self.design.design is not None:
            self._sum_rows(active)
        else:
            self._sum_entries(active, n_active)

    def _sum_rows(self, active: Array) -> None:
        """Sum by rows: a row that changes its side leaves ``d d'`` as it is.

        At a narrow tube half of the rows do so in the first step.
        """
        design, k, self.summed = self.design, self.design.n_weights, active
        beta = self.objective.omega * active
        weight = beta.reshape(2, -1).sum(axis=0)
        change = weight - self.row_weight
        came, went = places(change > 0), places(change < 0)
        if len(self.gram) == 0:
            self.gram = full((design.width, design.width), 0.0, self.sums_at)
        inner = self.gram[:k, :k]
        if len(came) + len(went) > count(weight != 0):
            inner = design.row_gram(places(weight), weight)
        else:
            inner = inner + design.row_gram(came, change)
            inner = inner - design.row_gram(went, -change)
        self.row_weight = weight
        signs, target = beta * design.terms.sign, design.terms.target
        sums = [(signs * target).reshape(2, -1).sum(0), signs.reshape(2, -1).sum(0)]
        both = namespace(signs).stack(sums, axis=1)
        pull, column = to_device_of(design.transposed_times(both).T, inner)
        self.gram = full(tuple(self.gram.shape), 0.0, inner)
        self.pull = full(design.width, 0.0, inner)
        self.gram[:k, :k], self.pull[:k] = inner, pull
        if design.problem.has_offset:
            self.gram[-1, :k] = self.gram[:k, -1] = column
            self.gram[-1, -1] = float(beta.sum())
            self.pull[-1] = float(beta @ target)

    def _sum_entries(self, active: Array, n_active: int) -> None:
        came = places(active & ~self.summed)
        went = places(self.summed & ~active)
        self.summed, omega = active, self.objective.omega
        if len(came) + len(went) > n_active or len(self.gram) == 0:
            self.gram = np.zeros((0, 0))  # with 2000 weights it has 32 MB
            self.gram, self.pull = self.design.sums(places(active), omega)
            return
        # In place, and one after the other, for the same reason.
        if len(came):
            gram, pull = self.design.sums(came, omega)
            self.gram += gram
            self.pull += pull
            del gram
        if len(went):
            gram, pull = self.design.sums(went, omega)
            self.gram -= gram
            self.pull -= pull


def _solve_system(gram: Array, penalty: Array, right: Array) -> Array:
    """Solve ``(gram + diag(penalty)) x = right`` by Cholesky."""
    trace = float(gram.diagonal().sum()) + float(penalty.sum())

    def solved(jitter: float) -> Any:
        system = copied(gram)
        add_to_diagonal(system, penalty + jitter)
        return definite_solved(system, right)

    found: Array = with_jitter(solved, trace)
    return found


@dataclass(frozen=True)
class _Line:
    """The objective along ``v + s step``; `violation` and its `change` of all entries.

    An entry's violation is ``violation - s change``.
    """

    objective: _Objective
    v: Array
    step: Array
    violation: Array
    change: Array

    def minimiser(self, host_entries: int) -> float:
        """Return the best s: the derivative is piecewise linear and increasing."""
        violation, change, omega = self.violation, self.change, self.objective.omega
        if len(omega) <= host_entries:
            violation, change, omega = (
                to_numpy(violation),
                to_numpy(change),
                to_numpy(omega),
            )
        penalty, step = self.objective.penalty, self.step
        slope0 = float((penalty * self.v + self.objective.linear) @ step)
        curve0 = float((penalty * step) @ step)
        low, high, s = 0.0, MAX_STEP_LENGTH, 1.0
        for _ in range(LINE_SEARCH_STEPS):
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
