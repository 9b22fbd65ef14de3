"""The weights of several problems in a span, with their values on all rows.

Weights and steps are on the host. Terms and values, which every row has, stay on the
device of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from corevec._runtime.progress import RoundState
from corevec._runtime.types import Array
from corevec.backend.arrays import cast, column_of, count, joined, places
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Rows
from corevec.models.basis import Basis
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Problem, Terms
from corevec.solvers.numeric.design import size_of
from corevec.solvers.numeric.primal_value import (
    multipliers,
    primal_value,
    row_pulls,
)
from corevec.solvers.subspace.row_order import entries_at
from corevec.solvers.subspace.task import SpanTask


class Point(NamedTuple):
    """Weights with their primal value and their values on all rows."""

    primal: float  # infinite where the values are not known
    v: Array
    values: Any


@dataclass
class SpanFit:
    """The weights of one problem, and their values on all rows.

    Attributes
    ----------
    v : ndarray
        Weights, bias, offset.
    terms : Terms
        Of all entries, side after side.
    hessian :
        Cholesky factor of the Hessian of a sample: the metric of the steps.
    values :
        f of all rows; empty where they are not known.
    last_step, last_values :
        The last step, and what it changed the values by.
    predicted_decrease : float
        By how much the next step would lower the objective, as a share of it; 0 where
        the problem is solved.
    dual : float
        What `iterative.prove` finds, or the problem's least value.
    """

    problem: Problem
    terms: Terms
    v: Array
    hessian: Any = None
    values: Any = field(default_factory=lambda: np.empty(0))
    last_step: Array | None = None
    last_values: Any = None
    primal: float = np.inf
    predicted_decrease: float = np.inf
    dual: float = -np.inf
    n_violated: int = 0

    @property
    def weights(self) -> Array:
        """The weights and the bias, without the offset."""
        return self.v[: len(self.v) - int(self.problem.has_offset)]

    @property
    def offset(self) -> float:
        """The offset t of the problem, 0 where it has none."""
        return float(self.v[-1]) if self.problem.has_offset else 0.0

    @property
    def dual_bound(self) -> str:
        """How the dual value was found."""
        return "none" if self.dual == self.problem.least else "exact"

    @property
    def is_solved(self) -> bool:
        """Whether the weights are the minimum over all rows."""
        return self.predicted_decrease == 0

    @property
    def has_values(self) -> bool:
        """Whether the values on all rows are known."""
        return len(self.values) > 0

    def violations(self) -> Any:
        """Return ``p - y f - t`` of all entries."""
        both = joined([self.values] * len(self.problem.sides))
        return self.terms.target - self.terms.sign * both - self.offset

    def violated_by(self, least: float) -> Any:
        """Return whether each row is violated by more than this, on some side."""
        inside = (self.violations() > least) & (self.terms.omega > 0)
        return inside.reshape(len(self.problem.sides), -1).any(0)

    def unseen_share(self, seen: Any) -> float:
        """Return the share of the objective that lies on rows not `seen`."""
        excess = self.violations().clip(min=0.0)
        losses = (self.terms.omega * excess**2).reshape(len(self.problem.sides), -1)
        total = float(losses.sum()) + float(self.weights @ self.weights)
        return float(losses.sum(0)[~seen].sum()) / max(total, 1e-300)

    def multipliers(self) -> Any:
        """Return ``beta = omega max(0, violation)`` of all entries."""
        return self.terms.omega * self.violations().clip(min=0.0)

    def violated(self, source: Source) -> Array:
        """Return the entries with a positive violation, on the host."""
        inside = (self.violations() > 0) & (self.terms.omega > 0)
        return entries_at(self.problem, source, places(inside))

    def row_shares(self) -> Any:
        """Return each row's share of the sum of squared multipliers."""
        squares = (self.multipliers() ** 2).reshape(len(self.problem.sides), -1).sum(0)
        total = float(squares.sum())
        return squares / total if total > 0 else squares

    def row_pull(self) -> Any:
        """Return ``sum y beta`` of each row's entries, and set the primal value."""
        beta, loss = multipliers(self.terms, self.violations())
        self.primal = primal_value(self.problem, self.v, loss)
        self.n_violated = count(beta != 0)
        return row_pulls(self.problem, self.terms, beta)

    def point(self) -> Point:
        """Return the present weights, measured where their values are known."""
        if self.has_values:
            self.row_pull()
        return Point(self.primal, self.v, self.values)

    def move_to(self, point: Point) -> None:
        """Set weights and values to those of an earlier point."""
        self.v, self.values = point.v, point.values

    def start_from(self, v: Array, hessian: Any) -> None:
        """Set the weights and the Hessian of a sample; no Hessian where it is all."""
        self.v, self.hessian = v, hessian

    def mark_solved(self) -> None:
        """Note that the weights are the minimum over all rows."""
        self.predicted_decrease = 0.0

    def step_to(self, weights: Array, offset: Array, values: Any) -> None:
        """Set new weights and their values; the step is remembered for the next."""
        self.last_step, self.last_values = weights - self.weights, values - self.values
        self.v, self.values = np.concatenate([weights, offset]), values

    def newton_step(self, gradient: Array) -> Array:
        """Return ``-H^-1 gradient``, and set the decrease that it predicts."""
        metric = cast(gradient, self.hessian[0].dtype)
        step = -linalg.cho_solve(self.hessian, metric, check_finite=False).astype(float)
        gain = float(-gradient @ step) / 2
        self.predicted_decrease = gain / max(abs(self.primal), 1e-300)
        return np.asarray(step)

    def drop_hessian(self) -> None:
        """Free the Hessian, before one as large is computed."""
        self.hessian = None

    def drop_steps(self) -> None:
        """Free the Hessian and the last step: they would lie beside the certificate."""
        self.hessian = self.last_step = self.last_values = None


@dataclass(frozen=True)
class SpanState:
    """The fits of a task's problems."""

    task: SpanTask
    fits: list[SpanFit]

    @classmethod
    def start(cls, task: SpanTask, warm: KernelExpansion | None = None) -> SpanState:
        """Return fits with the weights of `warm`, or zeros; values are not known."""
        terms = _all_terms(task.problems, task.source, task.basis.kernel)
        weights = _first_weights(task.problems, task.basis, warm)
        pairs = zip(task.problems, terms, weights, strict=True)
        return cls(task, [SpanFit(*own) for own in pairs])

    @property
    def is_solved(self) -> bool:
        """Whether all weights are the minimum over all rows."""
        return all(fit.is_solved for fit in self.fits)

    @property
    def is_decided_at_margin(self) -> bool:
        """Whether most rows of the solutions are right and decide nothing."""
        problems = self.task.problems
        return all(one.response is None and not one.has_offset for one in problems)

    def functions(self, weights: list[Array] | None = None) -> KernelExpansion:
        """Return the functions with these weights, or with those of the fits."""
        if weights is None:
            weights = [fit.weights for fit in self.fits]
        has_bias = [problem.has_bias for problem in self.task.problems]
        return self.task.basis.functions(weights, has_bias)

    def values_of(self, weights: list[Array] | None = None) -> Any:
        """Return these functions on all rows, one column each; one pass."""
        functions = self.functions(weights)
        self.task.count_pass()
        return self.task.source.map_on_device(functions.ready())

    def evaluate(self) -> None:
        """Set the values of all fits on all rows; one pass."""
        values = self.values_of()
        for t, fit in enumerate(self.fits):
            fit.values = column_of(values, t)

    def measure(self) -> None:
        """Set values and primal values afresh: what is certified is measured."""
        self.evaluate()
        for fit in self.fits:
            fit.row_pull()

    def record(self) -> None:
        """Record a round; the gap is known only at the end."""
        progress, k = self.task.progress, len(self.task.basis)
        progress.record(
            RoundState(
                self.functions,
                offsets=lambda: np.array([fit.offset for fit in self.fits]),
            ),
            core=k,
            support=k,
            gap=float("nan"),
            promise=max(fit.predicted_decrease for fit in self.fits),
            dual=float("nan"),
            looked_at=self.task.source.n_rows,
            exact=False,
        )


def _all_terms(
    problems: list[Problem], source: Source, kernel: AnyKernel
) -> list[Terms]:
    """Return the terms of each problem's entries, side after side; one pass."""

    def score(rows: Rows) -> list[list[Terms]]:
        return [
            [problem.terms(rows, kernel, side)]
            for problem in problems
            for side in problem.sides
        ]

    def merge(left: list[list[Terms]], right: list[list[Terms]]) -> list[list[Terms]]:
        return [a + b for a, b in zip(left, right, strict=True)]

    parts = source.reduce(score, merge)[::-1]  # each is freed as it is joined
    return [
        Terms.join([part for _ in problem.sides for part in parts.pop()])
        for problem in problems
    ]


def _first_weights(
    problems: list[Problem], basis: Basis, warm: KernelExpansion | None
) -> list[Array]:
    """Return weights whose functions agree with `warm` on the basis, or zeros."""
    found = [np.zeros(size_of(problem, basis)) for problem in problems]
    if warm is None or any(problem.has_offset for problem in problems):
        return found
    values = warm.evaluate(basis.rows, warm.prepared()) - warm.intercept
    weights = basis.features(values.T)
    for t, (problem, v) in enumerate(zip(problems, found, strict=True)):
        v[: len(basis)] = weights[t]
        if problem.has_bias:
            v[-1] = warm.intercept[t]
    return found
