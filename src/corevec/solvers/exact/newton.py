"""Finite Newton steps for the machines of a working set (docs/mathematics.md, 5).

The squared losses need no multipliers: with the active rows ``A = {p - y f - t > 0}``
fixed, the optimum solves one symmetric positive definite system,

    (K_AA + [bias] + diag(1/omega_A)) a_A = y_A (p_A - t),      f = K_.A a_A + sum(a),

and ``sum(y a) = T`` where there is an offset t (two right-hand sides). A step goes from
the old function towards this one as far as the objective falls, which an exact line
search tells; when the active rows repeat, it is the optimum. Several problems (classes)
take their steps together, because one product with the kernel matrix serves all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.models.certificate import relative_gap
from corevec.problems.family import Floor, Problem
from corevec.solvers.exact.gram import Gram, SquareGram
from corevec.solvers.exact.working_set import WorkingSet
from corevec.solvers.numeric.conjugate_gradients import Operator, Systems
from corevec.solvers.numeric.dual_qp import line_minimum

# Active rows up to which a system is solved by a Cholesky factor: 600 rows take 2 ms,
# less than ten products and what they cost in Python.
DIRECT_ROWS = 600
MOST_STEPS = 40
TINY = float(np.finfo(np.float64).tiny)
# The residual of a system, relative to its right side: the first, and the least as a
# share of the tolerance. A looser solution is no descent direction (measured: the line
# search then returns 0), a tighter one refines what the next active set overturns. The
# active rows count as known when less than this share of them changes.
FIRST_RESIDUAL, LEAST_RESIDUAL, SETTLED = 1e-2, 0.01, 0.03
# Steps that the solution of a system is waited for, whose support are the active rows
# alone, once the best function and the best multipliers have the gap.
PATIENCE = 2
# A relative decrease of the objective above which multipliers prove little: the product
# that tells is saved.
LARGE_DECREASE = 0.05
# Where this is all that a step gains, the rounding of the matrix allows no more.
LEAST_DECREASE = 1e-13
NEARLY_SOLVED = 1e-2
# A step of less than this length: the system is solved ten times more tightly first.
SHORT_STEP, LONG_STEP, MOST_TRIES = 0.3, 0.7, 3
LONGEST_STEP = 1e3
# Iterations at most; fewer where the matrix is small enough for a factor.
MOST_ITERATIONS, FEW_ITERATIONS = 100, 30


@dataclass
class Machine:
    """One problem on the rows of a working set, with its function so far.

    `sign`, `target` and `omega` have a row per side (two for a regression); `coef` are
    signed multipliers, and `values` the function on the rows, bias included.
    """

    problem: Problem
    sign: Array
    target: Array
    omega: Array
    coef: Array
    values: Array
    offset: float = 0.0
    primal: float = np.inf
    dual: float = -np.inf
    proof: Array = field(default_factory=lambda: np.empty(0))  # what `dual` belongs to
    is_solved: bool = False
    proof_values: Array = field(default_factory=lambda: np.empty(0))
    n_waited: int = 0  # steps since the gap was reached
    n_stalled: int = 0  # steps without a decrease, one after the other
    # Solutions of the last step's systems, a column each, zero at inactive rows.
    last: Array | None = None
    is_hard_to_iterate: bool = False  # conjugate gradients did not reach their bound

    def __post_init__(self) -> None:
        self.primal = self.objective(self.coef, self.values, self.offset)
        self.proof = np.zeros_like(self.coef)
        self.proof_values = np.zeros_like(self.values)

    @property
    def gap(self) -> float:
        """The relative gap on the rows of the working set."""
        return relative_gap(self.primal, self.dual)

    def violations(self, values: Array, offset: float) -> Array:
        """Return ``p - y f - t`` of every side; minus infinity for absent rows."""
        found = self.target - self.sign * values - offset
        return np.where(self.omega > 0, found, -np.inf)

    def objective(self, coef: Array, values: Array, offset: float) -> float:
        """Return the primal value of a function on the rows of the working set."""
        excess = np.maximum(self.violations(values, offset), 0.0)
        regular = float(coef @ values) / 2 + self.problem.price * offset
        return regular + float((self.omega * excess**2).sum()) / 2

    def active(self) -> tuple[Array, Array]:
        """Return positions and sides of the active rows."""
        violation = self.violations(self.values, self.offset)
        side = violation.argmax(axis=0)
        rows = np.flatnonzero(violation.max(axis=0) > 0)
        return rows, side[rows]

    def prove(self, coef: Array, values: Array) -> None:
        """Note what feasible signed multipliers prove, if it is more than before."""
        dual = self.dual_of(coef, values)
        if dual > self.dual:
            self.dual, self.proof, self.proof_values = dual, coef, values

    def proved(self, unit_error: float) -> float:
        """Return the dual value of `proof`, rounding allowed for.

        `unit_error` is that of the values per unit of multipliers. It belongs to the
        multipliers, which may be far larger than the function's, and is added before
        the best scale is taken: at that of a sum that cancels anything is proved.
        """
        if not self.proof.any():
            return self.dual
        return self.dual_of(self.proof, self.proof_values, unit_error)

    def dual_of(self, coef: Array, values: Array, unit_error: float = 0.0) -> float:
        """Return the dual value of signed multipliers with these function values."""
        rows = np.flatnonzero(coef)
        # Of a row's two sides the multiplier's sign tells which one it belongs to.
        side = (self.sign[0, rows] * coef[rows] < 0).astype(int)
        target, b = self.target[side, rows], np.abs(coef[rows])
        curve = float(coef @ values) + float(b @ (b / self.omega[side, rows]))
        slope, total = float(target @ b), float(b.sum())
        curve += unit_error * total**2
        return self.problem.dual_at_best_scale(slope, curve, total)


@dataclass(frozen=True)
class Aim:
    """The relative gap to reach on a working set.

    `is_rough`: the function is a start for more rows, and may keep coefficients of rows
    that are no longer active.
    """

    tol: float
    is_rough: bool


def newton(
    working: WorkingSet,
    machines: list[Machine],
    aim: Aim,
    may_go_on: Callable[[], bool],
) -> int:
    """Solve each machine on the working set, in place.

    Returns the number of products with the kernel matrix.
    """
    steps = Steps(working, aim, may_go_on)
    steps.align(machines)
    for _ in range(MOST_STEPS):
        running = [one for one in machines if not one.is_solved]
        if not running or not may_go_on():
            break
        steps.take(running)
    return steps.products


class Steps:
    """Newton steps of several machines at a time."""

    def __init__(self, working: WorkingSet, aim: Aim, may_go_on: Callable[[], bool]):
        self.working, self.gram, self.may_go_on = working, working.gram, may_go_on
        self.aim = aim
        self.products = 0
        self.residual = FIRST_RESIDUAL

    def align(self, machines: list[Machine]) -> None:
        """Evaluate the functions by this matrix.

        Values from elsewhere differ in the last digits of float32, and the line search
        would look for a decrease below them.
        """
        known = [one for one in machines if one.coef.any()]
        if not known:
            return
        product = self.gram.times(
            np.column_stack([one.coef for one in known]), len(self.gram)
        )
        self.products += 1
        for t, one in enumerate(known):
            bias = one.coef.sum() if one.problem.has_bias else 0.0
            one.values = product[:, t] + bias
            one.primal = one.objective(one.coef, one.values, one.offset)

    def take(self, machines: list[Machine]) -> None:
        """Take one step of each machine."""
        tries = [_Try(one, self.gram) for one in machines]
        iterative = [one for one in tries if not one.is_direct]
        self._solve_directly([one for one in tries if one.is_direct])
        if iterative:
            residual = self._solve_and_search(tries, iterative)
        else:
            residual = self.residual
            self._finish(tries)
        for one in tries:
            one.accept(self.aim)
        left = [one for one in tries if not one.machine.is_solved]
        wanted = [one.next_residual(residual, self.aim.tol) for one in left]
        least = LEAST_RESIDUAL * self.aim.tol
        self.residual = max(min(wanted, default=FIRST_RESIDUAL), least)

    def _solve_directly(self, tries: list[_Try]) -> None:
        """Solve systems by their factors, which machines of equal rows share."""
        factors: dict[bytes, _Factor] = {}
        for one in tries:
            if one.key not in factors:
                factors[one.key] = _Factor(one)
            one.solutions = factors[one.key].solve(one)

    def _solve_and_search(self, tries: list[_Try], iterative: list[_Try]) -> float:
        """Iterate until no step is short; return the residual that this took."""
        operator, residual = self._operator(iterative), self.residual
        systems = self._systems(iterative, operator)
        for attempt in range(MOST_TRIES):
            self._improve(systems, iterative, operator, residual)
            self._finish(tries)
            is_short = min(one.length for one in tries) <= SHORT_STEP
            if not is_short or attempt == MOST_TRIES - 1 or not self.may_go_on():
                break
            residual *= 0.1
        return residual

    def _systems(self, tries: list[_Try], operator: Operator) -> Systems:
        """Return the systems of these steps at their starting points."""
        omega = np.concatenate([one.omega for one in tries])
        factor = self.working.preconditioner(1.0 / float(np.median(omega)))
        inverses: dict[bytes, Callable[[Array], Array]] = {}
        for one in tries:
            own = one.machine
            if one.key not in inverses:
                mu = 1.0 / one.omega
                has_bias = own.problem.has_bias
                inverses[one.key] = factor.inverse(one.rows, mu, has_bias)
            one.inverse = inverses[one.key]
        right = np.column_stack([one.right for one in tries])
        start = np.column_stack([one.start for one in tries])
        return Systems(start, right - operator(start))

    def _improve(
        self,
        systems: Systems,
        tries: list[_Try],
        operator: Operator,
        residual: float,
    ) -> None:
        bounds = np.concatenate([residual * one.scale for one in tries])

        def precondition(R: Array) -> Array:
            out, at = np.zeros_like(R), 0
            for one in tries:
                assert one.inverse is not None
                for c in range(at, at + one.width):
                    out[one.rows, c] = one.inverse(R[one.rows, c])
                at += one.width
            return out

        given = operator, precondition, bounds, self.may_go_on
        is_square = self.gram.can_be_factored
        systems.improve(*given, FEW_ITERATIONS if is_square else MOST_ITERATIONS)
        if is_square:
            missed = np.linalg.norm(systems.residual, axis=0) > bounds
            self._solve_missed(tries, missed)
        at = 0
        for one in tries:
            one.solutions = systems.solution[:, at : at + one.width]
            at += one.width

    def _solve_missed(self, tries: list[_Try], missed: Array) -> None:
        """Note machines whose systems were not solved: a factor serves them better."""
        at = 0
        for one in tries:
            one.machine.is_hard_to_iterate |= bool(missed[at : at + one.width].any())
            at += one.width

    def _operator(self, tries: list[_Try]) -> Operator:
        """Return the product with the matrices of the active rows, all at once."""
        active = tries[0].rows
        for one in tries[1:]:
            active = np.union1d(active, one.rows)
        mask = np.zeros((len(self.gram), sum(one.width for one in tries)))
        ridge, bias = np.zeros_like(mask), np.zeros(mask.shape[1])
        at = 0
        for one in tries:
            own = slice(at, at + one.width)
            mask[one.rows, own] = 1.0
            ridge[one.rows, own] = 1.0 / one.omega[:, None]
            bias[own] = float(one.machine.problem.has_bias)
            at += one.width

        times = self.gram.on_active(active)

        def operator(V: Array) -> Array:
            product = times(V) + bias * V.sum(axis=0)
            self.products += 1
            return np.asarray(mask * product + ridge * V)

        return operator

    def _finish(self, tries: list[_Try]) -> None:
        """Evaluate the new functions on the whole working set; search the lines."""
        for one in tries:
            one.combine()
        self._evaluate([(one, one.coef) for one in tries], "values")
        for one in tries:
            one.search()
        clipped = [one for one in tries if one.is_clipped and one.may_prove(self.aim)]
        self._evaluate([(one, one.feasible) for one in clipped], "feasible_values")

    def _evaluate(self, wanted: list[tuple[_Try, Array]], name: str) -> None:
        if not wanted:
            return
        V = np.column_stack([coef for _, coef in wanted])
        product = self.gram.times(V, len(self.gram))
        self.products += 1
        for t, (one, coef) in enumerate(wanted):
            bias = coef.sum() if one.machine.problem.has_bias else 0.0
            setattr(one, name, product[:, t] + bias)


class _Try:
    """One Newton step of one machine while it is being made."""

    def __init__(self, machine: Machine, gram: Gram):
        self.machine, self.gram = machine, gram
        self.rows, self.side = machine.active()
        if len(self.rows) == 0:  # every row is on the right side: look at the nearest
            violation = machine.violations(machine.values, machine.offset)
            nearest = int(violation.max(axis=0).argmax())
            side = int(violation[:, nearest].argmax())
            self.rows, self.side = np.array([nearest]), np.array([side])
        own = self.side, self.rows
        self.sign, self.target = machine.sign[own], machine.target[own]
        self.omega = machine.omega[own]
        self.inverse: Callable[[Array], Array] | None = None
        self.width = 2 if machine.problem.has_offset else 1
        few = len(self.rows) <= DIRECT_ROWS
        hard = machine.is_hard_to_iterate and gram.can_be_factored
        self.is_direct = isinstance(gram, SquareGram) and (few or hard)
        self.length, self.gap = 1.0, np.inf
        self.solutions = np.zeros((len(gram), self.width))

    @property
    def key(self) -> bytes:
        """What the matrix of the system depends on: classes may share it."""
        bias = bytes([self.machine.problem.has_bias])
        return self.rows.tobytes() + self.omega.tobytes() + bias

    @property
    def right(self) -> Array:
        """The right-hand sides: ``y p``, and ``y`` where there is an offset."""
        out = np.zeros((len(self.gram), self.width))
        out[self.rows, 0] = self.sign * self.target
        if self.width == 2:
            out[self.rows, 1] = self.sign
        return out

    @property
    def scale(self) -> Array:
        """The norms of the right-hand sides."""
        return np.asarray(np.linalg.norm(self.right, axis=0))

    @property
    def start(self) -> Array:
        """Where conjugate gradients begin: the last solutions, or C times slack."""
        own, out = self.machine, np.zeros((len(self.gram), self.width))
        if own.last is not None:
            out[self.rows] = own.last[self.rows]
        elif self.width == 1:
            out[self.rows, 0] = own.coef[self.rows]
        known = out[self.rows, 0]
        if self.width == 1 and np.count_nonzero(known) < 0.7 * len(self.rows):
            slack = self.target - self.sign * own.values[self.rows] - own.offset
            known = self.sign * self.omega * np.maximum(slack, 0.0)
            # The best scale would take a product; C times slack is too large by the
            # share of the rows that the old function has not seen.
            largest = float(np.abs(own.coef).max(initial=0.0))
            if largest > 0:
                known = np.clip(known, -largest, largest)
            out[self.rows, 0] = known
        return out

    def combine(self) -> None:
        """Set the new coefficients and the offset; and feasible ones beside them."""
        problem = self.machine.problem
        self.coef, self.offset = self.solutions[:, 0].copy(), 0.0
        if problem.has_offset:
            total = float(self.sign @ self.coef[self.rows])
            slope = float(self.sign @ self.solutions[self.rows, 1])
            offset = (total - problem.price) / slope if slope > 0 else 0.0
            if problem.floor is Floor.ZERO:
                offset = max(offset, 0.0)
            self.coef -= offset * self.solutions[:, 1]
            self.offset = offset
        b = self.coef[self.rows] * self.sign
        self.is_clipped = bool((b < 0).any()) and not problem.has_free_signs
        self.feasible = self.coef
        if self.is_clipped:
            self.feasible = np.zeros_like(self.coef)
            self.feasible[self.rows] = self.sign * np.maximum(b, 0.0)
        self.feasible_values: Array | None = None
        self.values = np.empty(0)

    def search(self) -> None:
        """Find the best point between the old function and the new one."""
        own = self.machine
        direction = self.coef - own.coef
        change, drift = self.values - own.values, self.offset - own.offset
        # Both products are the same but for the rounding of the values, and with their
        # mean the line is that of the objective as it is computed.
        slope = float(direction @ own.values + own.coef @ change) / 2
        slope += own.problem.price * drift
        curve = float(direction @ change)
        violation = own.violations(own.values, own.offset)
        fall = -own.sign * change - drift
        longest = LONGEST_STEP
        if own.problem.floor is Floor.ZERO and drift < 0:
            longest = own.offset / -drift  # the offset stays at 0 or above
        line = slope, curve, violation.ravel(), own.omega.ravel(), fall.ravel()
        self.length = line_minimum(*line, longest)

    def may_prove(self, aim: Aim) -> bool:
        """Whether the clipped multipliers are worth a product.

        After a large decrease the active rows are not yet known; after a short step
        only where it gained less than the tolerance: the function is then near the
        optimum, and what is left may be below the rounding of the values, so that no
        longer step will come (w8a: seven steps of 18 products without a proof).
        """
        own = self.machine
        primal = own.objective(*self._at(self.length))
        decrease = (own.primal - primal) / max(abs(own.primal), TINY)
        if self.length <= LONG_STEP:
            return decrease <= aim.tol
        return decrease <= max(LARGE_DECREASE, aim.tol) or self._is_settled

    @property
    def _is_settled(self) -> bool:
        """Whether the new function has nearly the active rows of its system."""
        is_violated = self.machine.violations(self.values, self.offset) > 0
        kept = np.count_nonzero(is_violated[self.side, self.rows])
        left, new = len(self.rows) - kept, np.count_nonzero(is_violated) - kept
        return bool(left + new <= SETTLED * len(self.rows))

    def _at(self, length: float) -> tuple[Array, Array, float]:
        """Return the function at some length between the old one and the new one."""
        own = self.machine
        return (
            own.coef + length * (self.coef - own.coef),
            own.values + length * (self.values - own.values),
            own.offset + length * (self.offset - own.offset),
        )

    def accept(self, aim: Aim) -> None:
        """Move the machine; note what the feasible multipliers prove."""
        own, before = self.machine, self.machine.primal
        best = self._at(self.length)
        primal = own.objective(*best)
        if primal <= own.primal:
            own.coef, own.values, own.offset = best
            own.primal = primal
        if not self.is_clipped:
            own.prove(self.feasible, self.values)
        elif self.feasible_values is not None:
            own.prove(self.feasible, self.feasible_values)
        own.last = self.solutions
        # Few rows, in float64, are solved to the last digits by a factor.
        small = self.gram.dtype == np.float64 and own.gap <= NEARLY_SOLVED
        own.is_hard_to_iterate |= small
        is_stalled = before - own.primal <= LEAST_DECREASE * abs(before)
        own.n_stalled = own.n_stalled + 1 if is_stalled else 0
        self._end(aim)

    def _end(self, aim: Aim) -> None:
        """Note whether the machine is solved.

        It ends as the solution of the last system where that is good enough: then its
        support are the active rows alone.
        """
        own = self.machine
        reached = own.objective(self.coef, self.values, self.offset)
        self.gap = relative_gap(reached, own.dual)
        # Few rows end with a factor, which leaves rounding alone.
        is_last_way = self.is_direct or not own.is_hard_to_iterate
        if own.gap <= aim.tol and (is_last_way or not self.gram.can_be_factored):
            own.n_waited += 1
            is_near = self.gap <= max(aim.tol, 2 * own.gap)
            if is_near:
                own.coef, own.values, own.offset = self.coef, self.values, self.offset
                own.primal = reached
            own.is_solved = is_near or aim.is_rough or own.n_waited >= PATIENCE
        own.is_solved |= own.n_stalled >= PATIENCE

    def next_residual(self, residual: float, tol: float) -> float:
        """Return the residual to ask for in the next step.

        The gap of a solution falls with the square of its residual, once the active
        rows are known; before, a tighter solution is overturned.
        """
        if not self._is_settled or not 0 < self.gap < np.inf:
            return residual
        gap = max(self.gap, TINY)
        return residual * float(np.clip(np.sqrt(tol / 2 / gap), 0.1, 0.5))


class _Factor:
    """The Cholesky factor of the active rows' system."""

    def __init__(self, first: _Try):
        own, self.rows = first.machine, first.rows
        assert isinstance(first.gram, SquareGram)
        few = self.rows
        matrix = first.gram.part(few).values.astype(np.float64)
        matrix += float(own.problem.has_bias)
        ridge, jitter = 1.0 / first.omega, 0.0
        diagonal = np.diag_indices_from(matrix)
        base = matrix[diagonal].copy()
        while True:
            matrix[diagonal] = base + ridge + jitter
            try:
                self.factor = linalg.cho_factor(matrix, lower=True, check_finite=False)
                break
            except linalg.LinAlgError:
                jitter = max(10 * jitter, 1e-14 * float(base.max()))
        matrix[diagonal] = base + ridge
        self.matrix = matrix

    def solve(self, one: _Try) -> Array:
        """Return the solutions of a step with this matrix, zero at other rows."""
        right = one.right[self.rows]
        x = linalg.cho_solve(self.factor, right, check_finite=False)
        # Refined once: at C = 1e9 the multipliers of duplicate rows cancel to 1e-8.
        left = right - self.matrix @ x
        x += linalg.cho_solve(self.factor, left, check_finite=False)
        out = np.zeros((len(one.gram), one.width))
        out[self.rows] = x
        return out
