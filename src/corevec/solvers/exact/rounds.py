"""Rounds on one view of the rows, a sample or all of them.

1. choose the working set from the function's values on all rows of the view;
2. solve all problems on it by Newton steps (`newton`);
3. evaluate the new functions on all rows: primal, dual and gap over ALL rows;
4. stop at the tolerance, else go on with 1.

The last evaluation on all rows is in float64, and is the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.progress import Progress, RoundState
from corevec._runtime.types import Array
from corevec.backend.arrays import is_tensor, to_numpy
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Kernel, Rows
from corevec.models.certificate import relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult
from corevec.problems.family import Floor, Problem
from corevec.problems.task import Task
from corevec.solvers.exact.components import Components
from corevec.solvers.exact.gram import (
    BlockGram,
    Gram,
    SquareGram,
    levels_serve,
    make_gram,
)
from corevec.solvers.exact.newton import Aim, Machine, newton
from corevec.solvers.exact.preconditioner import Landmarks
from corevec.solvers.exact.result import Solution, support
from corevec.solvers.exact.working_set import WorkingSet
from corevec.solvers.numeric.dual_qp import balance

# float32 kernel values serve down to this tolerance, for kernels whose float64 values
# have this rounding error at most.
FLOAT32_TOL, FLOAT32_ROUNDING = 1e-5, 1e-11
# A sample is a start: one round on it says which rows come next.
SAMPLE_ROUNDS = 1
# Where few of its rows have coefficients, a round on a sample costs far less than a
# pass over all rows, which it saves (one class, a million rows: one of four).
CHEAP_SHARE, CHEAP_SAMPLE_ROUNDS = 0.05, 4
# A round that leaves more than this share of the gap has met the limit of float32.
STALLED = 0.5


def searching_precision(kernel: AnyKernel, n_columns: int, tol: float) -> Any:
    """Return the precision of kernel values that serves until the certificate."""
    fine = kernel.rounding(n_columns) < FLOAT32_ROUNDING
    is_loose = tol >= FLOAT32_TOL
    is_plain = isinstance(kernel, Kernel) and kernel.uses_distance
    return np.float32 if is_plain and fine and is_loose else np.float64


@dataclass(frozen=True)
class Rounds:
    """The constants of the rounds."""

    # Up to `first_rows` all rows are one working set.
    first_rows: int = 4000
    # Up to so many rows, as `Ascent` does, the solution is refined to the last digits,
    # so that a model does not depend on the place and the layout of its rows: it takes
    # one or two Cholesky factors more (3,200 rows of a regression: 0.45 of 0.7 s).
    refined_rows: int = 1500
    # A sample is solved to this gap: its rows are not the last word.
    sample_gap: float = 0.1
    # Rows within this distance of being active belong to the working set, up to this
    # share of the active ones: the active set of the solution is not yet known.
    band: float = 0.25
    band_share: float = 0.3
    # ... or this share of the distance after a first solution.
    later: float = 0.2
    # Violated rows that enter at a time, in multiples of the rows that are expected to
    # be active (those with coefficients, or the share of the sample's).
    violated_ratio: float = 1.0
    # Problems are solved apart if their sets together cost less than this multiple of
    # one set for all: kernel values are then computed more than once, but products
    # with the matrix, some fifty, take that much less.
    apart_ratio: float = 3.0
    # The kernel matrix of all rows is computed once where it takes at most this share
    # of the memory budget: 18,000 rows in 3 GiB.
    full_share: float = 0.4
    # ... and rows have more columns than this: gathering a part of it costs 3 ns a
    # value, and computing it again less where rows are short.
    few_columns: int = 64
    # Support vectors from which their own values are computed by half of the matrix.
    symmetric_rows: int = 3000
    # Gap of the working set, as a share of what is wanted next over all rows: the
    # tolerance, or this share of the gap so far (rows outside will change it).
    inner_share: float = 0.3
    gain: float = 1 / 30
    whole_share: float = 0.8
    # Refined problems are solved to this share of the tolerance.
    small_share: float = 1e-4
    most_rounds: int = 30
    # A working set of more than this share of all rows takes all of them: no row can
    # then be missed.
    most_of_all: float = 0.8


@dataclass
class State:
    """The functions as signed multipliers of rows, with their values on a view."""

    rows: Array  # numbers of the rows with coefficients, sorted
    coef: Array  # (rows, problems): the functions, the best found
    proof: Array  # the same for feasible multipliers, the best that were found
    offsets: Array
    is_whole: bool = False  # solved with every row in the working set
    basis: Rows | None = None
    share: float = 0.0  # of the rows of a sample
    # Whether the functions are those of a sample: the offset that is best for them on
    # all rows then says nothing about the solution there.
    is_of_sample: bool = False
    # Positions in the view of the rows that all problems were solved on, and the values
    # there of the functions and of the proofs: (2, rows, problems).
    solved: tuple[Array, Array] | None = None

    def functions(self, kernel: AnyKernel, has_bias: Array) -> KernelExpansion | None:
        """Return the functions over the rows that any of them needs."""
        if self.basis is None:
            return None
        used = np.flatnonzero(self.coef.any(axis=1))
        basis = Rows(self.basis.values[used], self.rows[used])
        # The sum over all rows, as the values have it: one in another order differs in
        # its last digits, and at large C these count.
        intercept = has_bias * self.coef.sum(axis=0)
        return KernelExpansion(kernel, basis, self.coef[used], intercept)


@dataclass(frozen=True)
class Stage:
    """Where a run stands in the growing samples.

    Attributes
    ----------
    landmarks : dict
        Those of this and earlier stages, by component.
    components : Components or None
        The blocks that the kernel matrix falls apart into.
    slack_ratio : float
        The slack of the problems, in units of those on all rows.
    is_last : bool
        Whether the view is all rows.
    """

    landmarks: dict[int, Landmarks]
    components: Components | None = None
    slack_ratio: float = 1.0
    is_last: bool = True


@dataclass(frozen=True)
class _Seen:
    """Values on all rows of the view, and primal and dual value of each problem."""

    values: Array
    measured: list[tuple[float, float]]
    is_exact: bool

    @property
    def gap(self) -> float:
        """The largest relative gap."""
        return max(relative_gap(p, d) for p, d in self.measured)


@dataclass(frozen=True)
class _Group:
    """Problems that were solved on one working set."""

    which: list[int]
    positions: Array
    machines: list[Machine]

    @property
    def values(self) -> Array:
        """Values of the functions and of the proofs: (2, rows, problems)."""
        functions = [one.values for one in self.machines]
        proofs = [one.proof_values for one in self.machines]
        return np.stack([np.column_stack(functions), np.column_stack(proofs)])


class Run:
    """The rounds on one view: a sample, or all rows."""

    def __init__(
        self,
        task: Task,
        progress: Progress,
        method: Rounds,
        rng: np.random.Generator,
        stage: Stage,
    ):
        is_last = stage.is_last
        view, kernel, problems = task.source, task.kernel, task.problems
        tol = task.settings.tol if is_last else method.sample_gap
        self.problems, self.view, self.kernel = problems, view, kernel
        self.progress, self.method, self.rng, self.tol = progress, method, rng, tol
        self._n_later = progress.n_rows
        self.is_last = is_last
        self.dtype = searching_precision(kernel, view.n_features, tol)
        self.is_refined = is_last and view.n_rows <= method.refined_rows
        if self.is_refined:
            self.dtype = np.float64
        self.has_bias = np.array([float(one.has_bias) for one in problems])
        self._unit_error = kernel.rounding(view.n_features) * view.reduce(
            lambda rows: float(abs(kernel.diagonal(rows)).max()), max
        )
        self.numbers = view.numbers
        self.terms = [_terms(problem, view, kernel) for problem in problems]
        slack = max(float(omega.max()) for _, _, omega in self.terms)
        self._stored = self.dtype
        if self.dtype == np.float32 and levels_serve(kernel, view.n_rows, slack, tol):
            self._stored = np.uint16
        self._all = list(range(len(problems)))
        self._full: SquareGram | None = None
        self._sets: dict[tuple[int, ...], WorkingSet] = {}
        self.stage = stage
        self.stopped_by: str | None = None

    def solve(self, state: State | None) -> State:
        """Return the functions that solve the problems on the view."""
        state = state or self._nothing()
        seen = self._seen(state, self.dtype)
        for done in range(self.method.most_rounds):
            if state.basis is not None:
                self._record(state, seen)
            if self._is_done(seen) or self._is_start(state, done):
                break
            self.stopped_by = self.progress.spent()
            if self.stopped_by is not None:
                break
            if seen.gap <= self.tol:  # certify
                seen = self._seen(state, np.float64)
                continue
            state, gap = self._round(state, seen.values, seen.gap), seen.gap
            seen = self._seen(state, self._next_precision(seen, state))
            if state.is_whole and seen.gap > STALLED * gap:
                self._refine()
        if self.is_last and not seen.is_exact:
            seen = self._seen(state, np.float64)
        self.measured, self.values = seen.measured, seen.values
        return state

    def _refine(self) -> None:
        """Go on in the next precision: multipliers are too large for this one."""
        if self._stored != np.uint16:
            self.dtype = np.float64
        self._stored = self.dtype

    def _is_start(self, state: State, done: int) -> bool:
        """Whether a sample has had its rounds: few where many rows are active."""
        if self.is_last:
            return False
        is_cheap = len(state.rows) <= CHEAP_SHARE * self.view.n_rows
        return done >= (CHEAP_SAMPLE_ROUNDS if is_cheap else SAMPLE_ROUNDS)

    def _next_precision(self, seen: _Seen, state: State) -> Any:
        """Return float64 where the next look at all rows is the certificate."""
        is_near = state.is_whole or seen.gap * self.method.gain <= self.tol
        certifies = seen.is_exact or (self.is_last and is_near)
        return np.float64 if certifies else self.dtype

    def _is_done(self, seen: _Seen) -> bool:
        """Whether the tolerance is reached, of all rows in float64."""
        return seen.gap <= self.tol and (seen.is_exact or not self.is_last)

    def _seen(self, state: State, dtype: Any) -> _Seen:
        """Return the functions and their bounds on all rows of the view."""
        values = self._values(state, dtype)
        measured = self._measure(state, values)
        return _Seen(values, measured, is_exact=dtype == np.float64)

    def _nothing(self) -> State:
        none = np.empty(0, dtype=np.int64)
        n_problems = len(self.problems)
        nothing = np.zeros((0, n_problems))
        return State(none, nothing, nothing, np.zeros(n_problems))

    def _values(self, state: State, dtype: Any) -> Array:
        """Return values on every row of the view, of the functions and of the proofs.

        Shape (2, rows, problems); sets `state.basis`.
        """
        n_problems = len(self.problems)
        if len(state.rows) == 0:
            return np.zeros((2, self.view.n_rows, n_problems))
        basis = Rows(self.view.take(state.rows).values, state.rows)
        bias = self.has_bias
        state.basis = basis
        other = np.flatnonzero((state.coef != state.proof).any(axis=0))
        coef = np.concatenate([state.coef, state.proof[:, other]], axis=1)
        sums = state.coef.sum(axis=0), state.proof.sum(axis=0)[other]
        intercept = np.concatenate([bias, bias[other]]) * np.concatenate(sums)
        both = KernelExpansion(self.kernel, basis, coef, intercept)
        if self._full is not None and dtype == self._full.dtype == np.float32:
            everywhere = np.zeros((self.view.n_rows, coef.shape[1]))
            everywhere[np.searchsorted(self.numbers, state.rows)] = coef
            found = self._full.times(everywhere, self.view.n_rows) + intercept
            self.progress.rows_looked_at += self.view.n_rows
        elif state.solved is not None and dtype == np.float32:
            return self._values_elsewhere(state.solved, both, other, dtype)
        elif self._is_half_enough(basis, dtype):
            gram = self._gram(basis, dtype, memory=0)
            found = gram.times(coef, len(basis)) + intercept
            positions = np.searchsorted(self.numbers, state.rows)
            self.progress.rows_looked_at += len(basis)
            known = positions, self._both(found, other)
            return self._values_elsewhere(known, both, other, dtype)
        else:
            found = self._evaluated(both, self.numbers, dtype)
        return self._both(found, other)

    def _evaluated(self, functions: KernelExpansion, rows: Array, dtype: Any) -> Array:
        """Return values of the functions on some rows of the view."""
        self.progress.rows_looked_at += len(rows)
        if self.stage.components is not None:
            return self.stage.components.evaluate(functions, self.view, rows, dtype)
        ready = functions.ready(dtype)
        if len(rows) == self.view.n_rows:
            return self.view.map(ready)
        found = self.view.map_rows(ready, rows, self.view.block_rows)
        return np.concatenate([to_numpy(part) for part in found])

    def _both(self, found: Array, other: Array) -> Array:
        """Return values of functions and proofs; `other` proofs differ from them."""
        n_problems = len(self.problems)
        values = np.stack([found[:, :n_problems]] * 2)
        values[1][:, other] = found[:, n_problems:]
        return values

    def _is_half_enough(self, basis: Rows, dtype: Any) -> bool:
        """Whether the values at the support itself take half a matrix, on the host.

        It is symmetric; float64 values are a third of a fit whose rows are all active.
        """
        many = len(basis) >= self.method.symmetric_rows and dtype == np.float64
        if not many or not self.view.draws_cheaply:
            return False
        return not is_tensor(self.view.pick(basis.index[:1]).values)

    def _values_elsewhere(
        self,
        solved: tuple[Array, Array],
        both: KernelExpansion,
        other: Array,
        dtype: Any,
    ) -> Array:
        """Return values on all rows, computed for those that are not known."""
        positions, known = solved
        values = np.empty((2, self.view.n_rows, len(self.problems)))
        values[:, positions] = known
        is_outside = np.ones(self.view.n_rows, dtype=bool)
        is_outside[positions] = False
        outside = np.flatnonzero(is_outside)
        if len(outside):
            found = self._evaluated(both, self.numbers[outside], dtype)
            values[:, outside] = self._both(found, other)
        return values

    def _machine(self, t: int, few: Array, state: State, values: Array) -> Machine:
        sign, target, omega = self.terms[t]
        coef, proof = np.zeros(len(few)), np.zeros(len(few))
        at = np.searchsorted(state.rows, self.numbers[few])
        at = np.minimum(at, max(len(state.rows) - 1, 0))
        if len(state.rows):
            known = state.rows[at] == self.numbers[few]
            coef[known] = state.coef[at[known], t]
            proof[known] = state.proof[at[known], t]
        own = sign[:, few], target[:, few], omega[:, few]
        offset = float(state.offsets[t])
        made = Machine(self.problems[t], *own, coef, values[0, few, t], offset)
        if len(state.rows):
            made.prove(proof, values[1, few, t])
        return made

    def _measure(self, state: State, values: Array) -> list[tuple[float, float]]:
        """Return primal and dual value of each problem over all rows of the view."""
        everything = np.arange(self.view.n_rows)
        found = []
        for t, problem in enumerate(self.problems):
            machine = self._machine(t, everything, state, values)
            if problem.has_offset and not state.is_of_sample:
                machine.offset = self._best_offset(machine)
                state.offsets[t] = machine.offset
                given = machine.coef, machine.values, machine.offset
                machine.primal = machine.objective(*given)
            dual = machine.proved(self._unit_error)
            found.append((machine.primal, max(dual, problem.least)))
        return found

    def _best_offset(self, machine: Machine) -> float:
        """Return the offset at which the objective of the function is least."""
        present = (machine.omega > 0).any(axis=0)
        slope = (machine.target - machine.sign * machine.values)[:, present].ravel()
        omega = machine.omega[:, present].ravel()
        offset = balance(slope, omega, machine.problem.price)
        return max(offset, 0.0) if machine.problem.floor is Floor.ZERO else offset

    def _round(self, state: State, values: Array, gap: float) -> State:
        """Choose working sets and solve the problems on them."""
        sets = [self._rows_to_work_on([t], state, values) for t in self._all]
        groups = [([t], few) for t, few in zip(self._all, sets, strict=True)]
        joint = self._rows_to_work_on(self._all, state, values)
        # One set for all shares kernel values and products; sets of their own are far
        # smaller where each class has few active rows.
        apart = sum(len(few) ** 2 for few in sets)
        if len(groups) > 1 and apart > self.method.apart_ratio * len(joint) ** 2:
            groups = [(self._all, joint)]
        return self._joined(
            [self._solve_group(*one, state, values, gap) for one in groups]
        )

    def _solve_group(
        self, which: list[int], few: Array, state: State, values: Array, gap: float
    ) -> _Group:
        """Solve some of the problems on one working set."""
        method = self.method
        working = self._working_set(which, few)
        few = working.positions
        machines = [self._machine(t, few, state, values) for t in which]
        inner = method.inner_share * max(self.tol, gap * method.gain)
        if self._is_whole(which, few):  # no row is left out: the set is the last
            inner = method.whole_share * self.tol
        if self.is_refined:
            inner = method.small_share * self.tol
        aim = Aim(inner, is_rough=not self.is_last or inner > self.tol)
        newton(working, machines, aim, self._may_go_on)
        return _Group(which, few, machines)

    def _working_set(self, which: list[int], few: Array) -> WorkingSet:
        """Return the rows to work on, with their matrix: the last one's grown if near.

        The matrix of a last round is worth its values while most of its rows are
        needed.
        """
        view, key = self.view, tuple(which)
        last = self._sets.get(key)
        if last is not None and last.gram.can_grow:
            is_same_precision = last.gram.dtype == self._stored
            new = few[~np.isin(few, last.positions)]
            needed = len(few) - len(new)
            if is_same_precision and 2 * needed > len(last.positions) > 2 * len(new):
                last.extend(new, self._rows(new))
                return last
        if self._caches_all:
            gram: Gram = self._full_gram().part(few)
        else:
            self._sets.pop(key, None)  # its memory is needed
            gram = self._gram(self._rows(few), self._stored, view.memory_budget)
        given = few, gram, self._n_later, view.memory_budget, self.rng
        shared = self.stage.landmarks, self.stage.slack_ratio
        self._sets[key] = WorkingSet(*given, *shared)
        return self._sets[key]

    def _gram(self, rows: Rows, dtype: Any, memory: float) -> Gram:
        """Return the kernel matrix of some rows, of which `memory` bytes are cached."""
        workers, components = self.view.workers, self.stage.components
        if components is None:
            return make_gram(rows, self.kernel, dtype, workers, memory)
        return BlockGram(rows, components, dtype, workers, memory)

    def _rows(self, positions: Array) -> Rows:
        """Return the rows at these positions of the view; few of them on the host.

        A device would wait for launches longer than it works, and a factor solves few
        rows to the last digits.
        """
        numbers, view = self.numbers[positions], self.view
        is_small = view.n_rows <= self.method.first_rows
        found = view.take(numbers) if is_small else view.pick(numbers)
        return Rows(found.values, numbers)

    @property
    def _caches_all(self) -> bool:
        """Whether the kernel matrix of all rows of the view is worth its memory."""
        few = self.view.n_features <= self.method.few_columns
        if few or self.stage.components is not None:
            return False
        size = self.view.n_rows**2 * np.dtype(self.dtype).itemsize
        return size <= self.method.full_share * self.view.memory_budget

    def _full_gram(self) -> SquareGram:
        """Return the kernel matrix of all rows of the view, computed once."""
        if self._full is None or self._full.dtype != self.dtype:
            rows = self.view.take(self.numbers)
            how = self.kernel, self.dtype, self.view.workers
            self._full = SquareGram.of(rows, *how)
        return self._full

    def _is_whole(self, which: list[int], few: Array) -> bool:
        return len(few) == np.count_nonzero(self._present(which))

    def _present(self, which: list[int]) -> Array:
        """Return whether each row has a weight in any of these problems."""
        return np.any([self.terms[t][2] > 0 for t in which], axis=(0, 1))

    def _joined(self, groups: list[_Group]) -> State:
        """Return the functions of all groups over the union of their rows."""
        n, n_problems = self.view.n_rows, len(self.problems)
        coef, proof = np.zeros((n, n_problems)), np.zeros((n, n_problems))
        offsets = np.zeros(n_problems)
        for group in groups:
            for t, one in zip(group.which, group.machines, strict=True):
                coef[group.positions, t] = one.coef
                proof[group.positions, t] = one.proof
                offsets[t] = one.offset
        used = np.flatnonzero(coef.any(axis=1) | proof.any(axis=1))
        used = used[np.argsort(self.numbers[used])]
        is_whole = all(self._is_whole(one.which, one.positions) for one in groups)
        state = State(self.numbers[used], coef[used], proof[used], offsets, is_whole)
        if len(groups) == 1:
            state.solved = groups[0].positions, groups[0].values
        return state

    def _rows_to_work_on(self, which: list[int], state: State, values: Array) -> Array:
        """Return positions of rows to work on, the most violated first."""
        n = self.view.n_rows
        worst = np.full(n, -np.inf)
        for t in which:
            sign, target, omega = self.terms[t]
            offset = float(state.offsets[t])
            violation = target - sign * values[0, :, t] - offset
            violation = np.where(omega > 0, violation, -np.inf)
            worst = np.maximum(worst, violation.max(axis=0))
        present = np.flatnonzero(worst > -np.inf)
        chosen = present
        if n > self.method.first_rows and state.share <= self.method.most_of_all:
            own = state.coef[:, which].any(axis=1) | state.proof[:, which].any(axis=1)
            has_coef = np.isin(self.numbers, state.rows[own])
            active = self._violated(worst, has_coef, state)
            # Once solved on this view, few rows outside the set are still to come.
            band = self.method.band * (self.method.later if state.solved else 1.0)
            near = np.flatnonzero(~active & (worst > -band))
            most = int(self.method.band_share * active.sum()) + 100
            if len(near) > most:
                near = near[np.argsort(-worst[near])[:most]]
            chosen = np.concatenate([np.flatnonzero(active), near])
            if len(chosen) > self.method.most_of_all * len(present):
                chosen = present
        return chosen[np.argsort(-worst[chosen], kind="stable")]

    def _violated(self, worst: Array, has_coef: Array, state: State) -> Array:
        """Return whether each row has a coefficient or is one of the most violated.

        Where far more rows are violated than are expected to be active, the function is
        a poor one, and most of them are right after the next: of a class of 132 rows
        against 34,108 (shuttle) 19,824 were violated and 1,417 active.
        """
        expected = max(float(has_coef.sum()), state.share * len(worst))
        most = int(self.method.violated_ratio * expected) + self.method.first_rows
        new = np.flatnonzero((worst > 0) & ~has_coef)
        if len(new) > most:
            new = new[np.argpartition(-worst[new], most)[:most]]
        active = has_coef.copy()
        active[new] = True
        return active

    def _may_go_on(self) -> bool:
        return self.progress.spent() is None

    def _record(self, state: State, seen: _Seen) -> None:
        kernel, has_bias, offsets = self.kernel, self.has_bias, np.array(state.offsets)
        problems, numbers, coef = self.problems, state.rows, state.coef
        after = RoundState(
            functions=lambda: state.functions(kernel, has_bias),
            cores=lambda: support(problems, numbers, coef),
            offsets=lambda: offsets,
        )
        units = [one.unit for one in self.problems]
        self.progress.record(
            after,
            core=len(state.rows),
            support=len(state.rows),
            gap=seen.gap,
            dual=sum(u * d for u, (_, d) in zip(units, seen.measured, strict=True)),
            looked_at=self.view.n_rows,
            exact=seen.is_exact and self.is_last,
        )

    @property
    def _dropped(self) -> float:
        """The largest kernel value that was taken for 0."""
        components = self.stage.components
        return 0.0 if components is None else components.dropped

    def result(self, state: State) -> FitResult | None:
        """Return the functions with their certificates, measured in float64.

        None of a ball whose constraint R^2 >= 0 binds, which Newton steps do not see.
        """
        functions = state.functions(self.kernel, self.has_bias)
        if functions is None:  # no row has a multiplier: the zero function is optimal
            few = self.view.take(self.numbers[:1])
            zero = np.zeros((1, len(self.problems)))
            functions = KernelExpansion(self.kernel, few, zero, zero[0])
        own = self.values[0, np.searchsorted(self.numbers, state.rows)]
        found = Solution(
            functions=functions,
            numbers=state.rows,
            coef=state.coef,
            bounds=self.measured,
            norms_sq=np.einsum("it,it->t", state.coef, own),
            offsets=np.array(state.offsets),
            stopped_by=self.stopped_by,
            dropped=self._dropped,
        )
        balls = [one.floor is Floor.RADIUS for one in self.problems]
        if any(is_ball and found.radius_sq(t) < 0 for t, is_ball in enumerate(balls)):
            return None
        return found.result(self.problems, self.progress, self.tol)


def _terms(
    problem: Problem, view: Source, kernel: AnyKernel
) -> tuple[Array, Array, Array]:
    """Return sign, target and omega of every row of the view, a row per side."""

    def numbers(rows: Rows) -> Array:
        sides = [problem.terms(rows, kernel, side) for side in problem.sides]
        parts = [part for one in sides for part in (one.sign, one.target, one.omega)]
        return np.column_stack([to_numpy(part) for part in parts])

    found = view.map(numbers)
    sign, target, omega = (np.ascontiguousarray(found[:, k::3].T) for k in range(3))
    return sign, target, omega
