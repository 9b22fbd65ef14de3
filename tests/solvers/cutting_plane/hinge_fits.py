"""Hinge machines by cutting planes in every space, those of the tests included.

=========== ============================== ===============================
space       weights                        algorithm of the CPSP paper
=========== ============================== ===============================
Columns     one per column of the rows     1, linear
WholeSpace  one per row                    2, the full kernel dual
Span        whitened coordinates           1 in the span of a given basis
GrowingSpan the same, one more per vector  3, CPSP
=========== ============================== ===============================

The first two are witnesses: nothing but the tests uses them.
"""

import numpy as np

from corevec._runtime import EPS
from corevec.certificates import DualBound
from corevec.certificates.hinge import dual_at_best_scale, dual_value, hinge_problem
from corevec.kernels import Rows, finite
from corevec.models import NEW, KernelExpansion
from corevec.solvers.cutting_plane import (
    Growth,
    HingeTask,
    Rules,
    solve_in,
    solve_in_basis,
    solve_pursuit,
)


def task_of(
    classes, kernel, *, has_bias, tol=1e-3, epsilon=None, certificate="auto", rng=None
):
    """Return the task of `classes`: labels, C, the two class codes and the rows."""
    problem = hinge_problem(*classes, has_bias=has_bias)
    return HingeTask(
        problem, classes[-1], kernel, Rules(tol, epsilon), certificate, rng
    )


def fit_in_basis(*given, has_bias=True, progress=None, **asked):
    *classes, basis = given
    task = task_of(classes, basis.kernel, has_bias=has_bias, **asked)
    return solve_in_basis(task, basis, progress)


def fit_pursuit(
    *given, from_training_rows=False, has_bias=False, progress=None, **asked
):
    *classes, kernel, n_basis = given
    task = task_of(classes, kernel, has_bias=has_bias, **asked)
    growth = Growth(n_basis, from_training_rows)
    return solve_pursuit(task, growth, progress)


def fit_exact(*given, has_bias=False, progress=None, **asked):
    """Return the full kernel machine by Algorithm 2, for few rows."""
    *classes, kernel = given
    task = task_of(classes, kernel, has_bias=has_bias, certificate="exact", **asked)
    return solve_in(WholeSpace(classes[-1], kernel, has_bias), task, progress)


def fit_linear(*given, has_bias=True, progress=None, **asked):
    """Return the linear machine by Algorithm 1, on dense or CSR rows.

    w is one number per column: the expansion has one basis row, w itself.
    """
    *classes, kernel = given
    task = task_of(classes, kernel, has_bias=has_bias, certificate="exact", **asked)
    return solve_in(Columns(classes[-1], kernel, has_bias), task, progress)


class _Complete:
    """A space that holds every cut, and does not grow."""

    can_grow = False

    def __init__(self, source, kernel, has_bias):
        self.source, self.kernel, self.lead = source, kernel, int(has_bias)

    def largest_distance(self, problem, cuts, affordable):
        return 0.0


class Columns(_Complete):
    """The linear kernel: a weight per column, never a dense copy of sparse rows.

    The bias, where there is one, is the first weight.
    """

    size = 1  # the one basis row: w itself

    @property
    def width(self):
        return self.lead + self.source.n_features

    def inner(self, left, right):
        return left @ right

    def values(self, weights):
        w, bias = weights[self.lead :], float(weights[: self.lead].sum())
        score = self.source.map(lambda rows: np.asarray(rows.values @ w, dtype="d"))
        return score + bias

    def direction(self, theta):
        def score(rows):
            at = np.searchsorted(self.source.numbers, rows.index)
            return np.asarray(rows.values.T @ theta[at], dtype=np.float64)

        pulled = self.source.reduce(score, np.add)
        return np.concatenate([np.full(self.lead, theta.sum()), pulled])

    def expansion(self, weights):
        w = weights[self.lead :]
        rows = Rows(np.ascontiguousarray(w[None]), np.array([NEW]))
        bias = np.array([float(weights[: self.lead].sum())])
        return KernelExpansion(self.kernel, rows, np.ones((1, 1)), bias), float(w @ w)

    def dual_bound(self, problem, beta, request):
        """Return the exact dual value: u is a vector of columns, one pass."""
        beta = np.clip(beta, 0.0, problem.omega)
        inside = beta > 0
        if not inside.any():
            return DualBound(0.0, "exact")
        u = self.direction(beta * problem.sign)
        curve = float(u @ u) * (1 + 8 * EPS * np.sqrt(len(beta)))
        most = float((problem.omega[inside] / beta[inside]).min())
        value, scale = dual_at_best_scale(float(beta.sum()), curve, most)
        return DualBound(value, "exact", 1.0, scale)


class WholeSpace(_Complete):
    """All of the kernel's space, by the kernel matrix of all rows."""

    def __init__(self, source, kernel, has_bias):
        super().__init__(source, kernel, has_bias)
        self.rows = source.take(source.numbers)
        points = kernel.prepare_basis(self.rows)
        self.matrix = finite(kernel.block(points, points), kernel) + self.lead
        self.width = self.size = len(self.rows)

    def values(self, weights):
        return self.matrix @ weights  # eq. 3

    def direction(self, theta):
        return theta

    def inner(self, left, right):
        return left @ (self.matrix @ right)  # eq. 4

    def expansion(self, weights):
        kept = np.flatnonzero(weights)
        rows = Rows(self.rows.values[kept], self.rows.index[kept])
        bias = self.lead * float(weights.sum())
        coef = weights[kept][:, None]
        function = KernelExpansion(self.kernel, rows, coef, np.array([bias]))
        whole = float(weights @ (self.matrix @ weights))
        return function, max(whole - bias**2, 0.0)

    def dual_bound(self, problem, beta, request):
        return dual_value(problem, beta, self.source, self.kernel, None, request)
