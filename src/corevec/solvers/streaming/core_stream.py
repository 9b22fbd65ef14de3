r"""A core set carried along a stream, with a summary of the rows that left it.

Each block is judged by the function so far. Only its violators join the core; the small
problem on core and violators, around the `Summary` of all rows that left,

.. math:: \min_f \tfrac12 \|f - m\|_S^2
          + \sum_{i \in core} \tfrac{\omega_i}2 \max(0, s_i (z_i - f(x_i)) - \tau)^2,

is solved exactly from its last multipliers. Over the budget, rows leave: inactive ones
for nothing, active ones into the summary. Memory depends on the budget alone.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import linalg, sparse

from corevec._runtime.types import Array
from corevec.backend.loops import cells as loops
from corevec.kernels import AnyKernel, Points, Rows, finite
from corevec.solvers.numeric.jitter import with_jitter
from corevec.solvers.streaming.columns import Scaling
from corevec.solvers.streaming.stream import stacked
from corevec.solvers.streaming.summary import Summary

# Columns of a linear kernel up to which the span is that of the columns: their matrix
# takes 8 MiB.
MOST_COLUMNS = 1024
# Rows over the budget leave together, with this share of it: leaving costs as much for
# one row as for many.
LEAVING_SHARE = 0.2
# Rows of the first chunk; each later one may be as long as the stream before it. A row
# that leaves is judged by the function of that moment, and the first ones are poor.
FIRST_ROWS = 64
MOST_STEPS = 60
# Half-lives after which a core row leaves first; its weight is then 1/16. Losses decay
# in steps, when they have lost this share: a step costs as much as a block.
OLD_AGE, DECAY_STEP = 4.0, 0.05
# Half-lives that rows which are judged together span, at most.
YOUNG_AGE = 0.25
# Relative size of what is added to the diagonal of a factor.
JITTER, TINY = 1e-10, float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class CoreForm:
    """What a stream solves, and within which bounds.

    Attributes
    ----------
    budget : int
        Core rows at most.
    block : int
        Rows judged at a time.
    bias : bool
        Whether the kernel has 1 added to it.
    tube : float
        Width of the insensitive tube.
    two_sided : bool
        Whether rows are violated on both sides (regression).
    half_life : float or None
        Rows after which a row counts half.
    """

    budget: int
    block: int = 1000
    bias: bool = True
    tube: float = 0.0
    two_sided: bool = False
    half_life: float | None = None


@dataclass(frozen=True)
class Targets:
    """Targets of rows (n, outputs), and the weight of their losses (n,)."""

    z: Array
    omega: Array

    def part(self, rows: Any) -> Targets:
        """Return those of some rows."""
        return Targets(self.z[rows], self.omega[rows])

    def above(self, other: Targets) -> Targets:
        """Return these above others."""
        z, omega = np.vstack([self.z, other.z]), np.append(self.omega, other.omega)
        return Targets(z, omega)


class CoreStream:
    """Core rows, their multipliers, and the summary; a value, as balls are.

    Attributes
    ----------
    rows : ndarray or CSR matrix of shape (n, d)
        The core rows as they were given.
    targets : Targets
        Theirs.
    born : ndarray of shape (n,)
        Rows that the stream had seen before each of them.
    a : ndarray of shape (n, outputs)
        Signed multipliers.
    scaling : Scaling or None
        What the kernel sees of a row; None: the row itself.
    gram, prior : ndarray of shape (n, n) and (n, outputs)
        ``F' S F``, the kernel of what the summary leaves open, and its mean ``F' m``.
    F : ndarray of shape (r, n) or None
        Coordinates of the core rows; None while the summary is empty and the span is
        that of the rows.
    summary : Summary or None
        None while no active row has left.
    coef : ndarray
        What `values` multiplies: of the columns and the bias, or of the core rows.
    tally : ndarray of shape (classes or outputs, 3)
        Of rows before they were learned: by class the weight of those that were right,
        that of all, and the sum of their squared weights; for a regression, by output,
        squared errors in place of those that were right.
    """

    def __init__(self, form: CoreForm, kernel: AnyKernel, n_columns: int, outputs: int):
        self.form, self.kernel, self.n_outputs = form, kernel, outputs
        self.scaling: Scaling | None = None
        width = n_columns + form.bias
        plain = kernel.name == "linear" and not getattr(kernel, "normalized", False)
        self.by_columns = plain and width <= MOST_COLUMNS
        self.rows: Any = None
        self.targets = Targets(np.empty((0, outputs)), np.empty(0))
        self.born = np.empty(0, dtype=np.int64)
        self.a = self.prior = np.empty((0, outputs))
        self.gram = np.empty((0, 0))
        self.F: Array | None = np.empty((width, 0)) if self.by_columns else None
        self.summary: Summary | None = None
        self.coef = np.zeros((width if self.by_columns else 0, outputs))
        self.n_rows = self.n_updates = self.n_left = 0
        self.aged = 0  # rows by which the losses have decayed
        self.tally = np.zeros((outputs if outputs > 1 or form.two_sided else 2, 3))

    # Caches: the core rows as the kernel takes them, and the kernel between them.
    _points: Points | None = None
    _own: Array | None = None

    def __getstate__(self) -> dict[str, Any]:
        caches = ("_points", "_own")
        return {k: v for k, v in self.__dict__.items() if k not in caches}

    # Values -------------------------------------------------------------------------

    def values(self, X: Any) -> Array:
        """Return f on rows, shape (n, outputs)."""
        if self.rows is None:
            return np.zeros((X.shape[0], self.n_outputs))
        if self.by_columns:
            weights, bias = self.linear_function()
            return np.asarray(X @ weights + bias)
        points = self._points_of(X)
        found = self.kernel.times(points, self._core_points(), self.coef)
        if self.form.bias:
            found = found + self.coef.sum(axis=0)
        return finite(found, self.kernel)

    def linear_function(self) -> tuple[Array, Array]:
        """Return weights of the columns as they are given, and biases."""
        d = len(self.coef) - self.form.bias
        weights, bias = self.coef[:d], np.zeros(self.n_outputs)
        if self.form.bias:
            bias = self.coef[d]
        if self.scaling is not None:
            weights = weights * self.scaling.factor[:, None]
            bias = bias - self.scaling.shift @ weights
        return weights, bias

    def scaled(self, X: Any) -> Any:
        """Return rows as the kernel takes them."""
        return X if self.scaling is None else self.scaling(X)

    def _points_of(self, X: Any) -> Points:
        return self.kernel.prepare(as_rows(self.scaled(X)))

    def excess(self, z: Array, f: Array) -> Array:
        """Return by how much each row violates the tube or the margin, (n, outputs)."""
        residual = z - f
        wrong = np.abs(residual) if self.form.two_sided else z * residual
        return np.asarray(wrong - self.form.tube)

    # Learning -----------------------------------------------------------------------

    def absorb(self, X: Any, targets: Targets, weights: Array | None = None) -> Self:
        """Return the stream after some rows, in their order.

        `weights` are what the rows count in `tally`; 1 without them.
        """
        new = copy.copy(self)
        counts = np.ones(X.shape[0]) if weights is None else weights
        at, n = 0, X.shape[0]
        most = self._most_violators
        while at < n:
            stop = min(n, at + new._most_rows)
            here = targets.part(slice(at, stop))
            f = new.values(X[at:stop])
            wrong = new.excess(here.z, f).max(axis=1) > 0
            violators = np.flatnonzero(wrong & (here.omega > 0))
            if len(violators) > most:
                stop = at + int(violators[most])
                violators = violators[:most]
            m = stop - at
            new._decay()
            if new.rows is not None:
                new.tally = new.tally + new._judge(f[:m], here.z[:m], counts[at:stop])
            if len(violators):
                new._learn(X[at + violators], here.part(violators))
            new.n_rows += int(np.count_nonzero(here.omega[:m] > 0))
            at = stop
        return new

    @property
    def _most_rows(self) -> int:
        """Rows that are judged together, at most."""
        most = min(self.form.block, max(FIRST_ROWS, self._rows_that_violate_enough))
        if self.form.half_life is not None:
            most = min(most, max(FIRST_ROWS, int(YOUNG_AGE * self.form.half_life)))
        return most

    @property
    def _rows_that_violate_enough(self) -> int:
        """Rows with as many violators as are learned together, as far as seen.

        A solution costs the same for few violators as for many, and rows beyond the
        most violators are judged twice.
        """
        share = self.n_updates / max(self.n_rows, 1)
        if share == 0.0:
            return self.n_rows
        return min(self.n_rows, int(self._most_violators / share))

    @property
    def _most_violators(self) -> int:
        """Violators that are learned together, at most."""
        return max(self.form.budget // 2, FIRST_ROWS)

    def _judge(self, f: Array, z: Array, counts: Array) -> Array:
        """Return what to add to `tally` for rows that were not learned yet."""
        if self.form.two_sided:
            squares = counts @ (z - f) ** 2
            weights = np.full((len(squares), 2), [counts.sum(), counts @ counts])
            return np.column_stack([squares, weights])
        if self.n_outputs > 1:
            code, found = z.argmax(axis=1), f.argmax(axis=1)
        else:
            code, found = (z[:, 0] > 0).astype(int), (f[:, 0] > 0).astype(int)
        k = len(self.tally)
        right = np.bincount(code, counts * (code == found), k)
        judged = [np.bincount(code, counts**power, k) for power in (1, 2)]
        return np.column_stack([right, *judged])

    def _learn(self, X: Any, targets: Targets) -> None:
        self._append(X, targets)
        self._solve()
        if len(self.targets.omega) > self.form.budget:
            self._shrink()
        self._set_coef()
        self.n_updates += X.shape[0]

    def _append(self, X: Any, targets: Targets) -> None:
        """Add rows with multipliers 0."""
        n, v = len(self.targets.omega), X.shape[0]
        self._append_gram(X)
        blank = np.zeros((v, self.n_outputs))
        prior = blank
        if self.summary is not None:
            assert self.F is not None
            prior = self.F[:, n:].T @ self.summary.mean
        self.prior = np.vstack([self.prior, prior])
        self.a = np.vstack([self.a, blank])
        self.rows = X.copy() if self.rows is None else stacked(self.rows, X)
        self.targets = self.targets.above(targets)
        self.born = np.append(self.born, np.full(v, self.n_rows))
        self._points = None

    def _append_gram(self, X: Any) -> None:
        """Extend `gram` by rows, and `F` where there is one."""
        n, v = len(self.targets.omega), X.shape[0]
        gram = np.empty((n + v, n + v))
        gram[:n, :n] = self.gram
        if self.by_columns:
            assert self.F is not None
            new = self._columns(X)
            moved = new if self.summary is None else self.summary.spread @ new
            gram[:n, n:] = self.F.T @ moved
            gram[n:, n:] = new.T @ moved
            self.F = np.hstack([self.F, new])
        else:
            points = self._points_of(X)
            own = self._block(points, points)
            cross = np.empty((0, v))
            if n:
                cross = self._block(self._core_points(), points)
            gram[:n, n:], gram[n:, n:] = cross, own
            if self.summary is not None:
                assert self.F is not None
                F, spread = self.F, self.summary.spread
                self._own = _bordered(self._kernel_matrix(), cross, own)
                new = self._extend(cross, own)
                # In the new directions the spread is the identity.
                T, corner = new[:n], new[n:]
                moved = spread @ T
                gram[:n, n:] = F.T @ moved
                gram[n:, n:] = T.T @ moved + corner.T @ corner
        gram[n:, :n] = gram[:n, n:].T
        self.gram = gram

    def _columns(self, X: Any) -> Array:
        """Return coordinates of rows in the span of the columns."""
        rows = self.scaled(X)
        rows = rows.toarray() if sparse.issparse(rows) else rows
        F = np.ones((rows.shape[1] + self.form.bias, rows.shape[0]))
        F[: rows.shape[1]] = rows.T
        return F

    def _extend(self, cross: Array, own: Array) -> Array:
        """Extend the span by new rows; return their coordinates."""
        assert self.F is not None
        assert self.summary is not None
        n, v = cross.shape
        T = linalg.solve_triangular(self.F, cross, trans="T", check_finite=False)
        corner = factor_of(own - T.T @ T, float(own.diagonal().max()))
        F = np.zeros((n + v, n + v))
        F[:n, :n], F[:n, n:], F[n:, n:] = self.F, T, corner
        self.F, self.summary = F, self.summary.with_directions(v)
        return F[:, n:]

    def _solve(self) -> None:
        """Solve the problem of each output on the core, from its multipliers."""
        z, omega = self.targets.z, self.targets.omega
        a = np.empty_like(self.a)
        for t in range(self.n_outputs):
            side = np.zeros(len(z)) if self.form.two_sided else z[:, t].copy()
            shifted = z[:, t] - self.prior[:, t]
            machine = loops.Machine(shifted, side, self.form.tube, omega)
            a[:, t] = self._newton(machine, self.a[:, t])
        self.a = a

    def _newton(self, machine: loops.Machine, start: Array) -> Array:
        """Return the multipliers of one output."""
        gram = self.gram

        def attempt(jitter: float) -> Array:
            own = gram + jitter * np.eye(len(gram)) if jitter else gram
            a = start.copy()
            loops.newton(own, machine, a, MOST_STEPS)
            return a

        return with_jitter(attempt, float(np.abs(gram.diagonal()).max()))

    def _set_coef(self) -> None:
        """Set what `values` multiplies: coefficients of columns or of core rows."""
        if self.F is None:
            self.coef = self.a
        else:
            w = self.F @ self.a
            if self.summary is not None:
                w = self.summary.spread @ w + self.summary.mean
            self.coef = w
            if not self.by_columns:
                self.coef = linalg.solve_triangular(self.F, w, check_finite=False)

    # Leaving ------------------------------------------------------------------------

    def _shrink(self) -> None:
        """Let rows leave until there is space for more."""
        budget, n = self.form.budget, len(self.targets.omega)
        most = budget - int(LEAVING_SHARE * budget)
        f = self.prior + self.gram @ self.a
        order = self._order(f)
        leaving = np.zeros(n, dtype=bool)
        leaving[order[most:]] = True
        active = self.a.any(axis=1)
        into = np.flatnonzero(leaving & active)
        keep = np.flatnonzero(~leaving)
        self.n_left += len(into)
        if self.summary is None and len(into) == 0:
            self._keep(keep)
            return
        if not self.by_columns:
            self._leave_span(into, keep, f)
            return
        if self.summary is None:
            self._begin_summary()
        if len(into):
            assert self.F is not None
            assert self.summary is not None
            target, omega = self._squares(into, f)
            self.summary = self.summary.after(self.F[:, into], target, omega)
        self._keep(keep)

    def _order(self, f: Array) -> Array:
        """Return the core rows, those to keep first.

        Three orders in turn, because each alone failed somewhere (decision 0025): rows
        near the margin, whose loss may still end; large multipliers, whose direction
        the function needs; and pivots, which span the core.
        """
        excess = self.excess(self.targets.z, f).max(axis=1)
        active = self.a.any(axis=1)
        near = np.argsort(np.where(active, excess, np.inf), kind="stable")
        large = np.argsort(-np.abs(self.a).max(axis=1), kind="stable")
        K = np.asfortranarray(self._kernel_matrix())
        pivots = linalg.lapack.dpstrf(K, tol=-1.0, overwrite_a=True)[1] - 1
        turns = np.column_stack([near, large, pivots]).ravel()
        _, first = np.unique(turns, return_index=True)
        order = turns[np.sort(first)]
        if self.form.half_life is not None:
            old = self._are_old()
            order = np.append(order[~old[order]], order[old[order]])
        return np.asarray(order)

    def _are_old(self) -> Array:
        """Whether the loss of a core row has decayed so far that it leaves first."""
        assert self.form.half_life is not None
        return np.asarray(self.n_rows - self.born > OLD_AGE * self.form.half_life)

    def _kernel_matrix(self) -> Array:
        """Return the kernel between the core rows."""
        if self.summary is None:
            return self.gram.copy()
        if self._own is None:
            assert self.F is not None
            self._own = self.F.T @ self.F
        return self._own.copy()

    def _squares(self, into: Array, f: Array) -> tuple[Array, Array]:
        """Return targets and weights of the squares that active rows are now."""
        a, omega = self.a[into], self.targets.omega[into]
        aim = self.targets.z[into] - self.form.tube * np.sign(a)
        return np.where(a != 0, aim, f[into]), omega

    def _leave_span(self, into: Array, keep: Array, f: Array) -> None:
        """Keep some core rows; the losses of those in `into` join the summary.

        In values at the core rows a loss is a rank-one change of `gram`, and to lose a
        row is to lose its entry: a third of the work of turning the coordinates.
        """
        own = self._kernel_matrix()[np.ix_(keep, keep)]
        gram, prior = self.gram[np.ix_(keep, keep)], self.prior[keep]
        if len(into):
            target, omega = self._squares(into, f)
            system = self.gram[np.ix_(into, into)]
            system[np.diag_indices_from(system)] += 1.0 / omega
            factor = linalg.cholesky(system, lower=True, check_finite=False)
            beside = np.hstack(
                [self.gram[np.ix_(into, keep)], target - self.prior[into]]
            )
            half = linalg.solve_triangular(
                factor, beside, lower=True, check_finite=False
            )
            half, whitened = half[:, : len(keep)], half[:, len(keep) :]
            gram -= half.T @ half
            prior = prior + half.T @ whitened
        F = factor_of(own, float(own.diagonal().max()))
        self.summary = Summary.of_values(F, gram, prior)
        self.rows, self.targets = self.rows[keep], self.targets.part(keep)
        self.a, self.born, self._points = self.a[keep], self.born[keep], None
        self.F, self._own, self.gram, self.prior = F, own, gram, prior
        self._solve()

    def _keep(self, keep: Array) -> None:
        self.rows, self.targets = self.rows[keep], self.targets.part(keep)
        self.a, self.born = self.a[keep], self.born[keep]
        self._points = self._own = None
        if self.summary is None:
            self.gram = np.ascontiguousarray(self.gram[np.ix_(keep, keep)])
            self.prior = self.prior[keep]
            self.F = self.F[:, keep] if self.by_columns and self.F is not None else None
            return
        assert self.F is not None
        self.F = np.asarray(self.F[:, keep])
        if not self.by_columns:
            Q, R = linalg.qr(self.F, mode="economic", check_finite=False)
            sign = np.where(R.diagonal() < 0, -1.0, 1.0)
            self.F, Q = R * sign[:, None], Q * sign
            self.summary = self.summary.rotated(Q)
        self._set_gram()
        self._solve()

    def _set_gram(self) -> None:
        assert self.F is not None
        assert self.summary is not None
        self.gram = self.F.T @ (self.summary.spread @ self.F)
        self.prior = self.F.T @ self.summary.mean

    def _begin_summary(self) -> None:
        if self.F is None:
            self.F = factor_of(self.gram, float(self.gram.diagonal().max()))
        self.summary = Summary.empty(len(self.F), self.n_outputs)

    # Another kernel -----------------------------------------------------------------

    def with_kernel(self, kernel: AnyKernel, scaling: Scaling | None) -> Self:
        """Return the stream with another kernel of rows that are scaled otherwise.

        The core is solved anew. In the span of the columns nothing is lost; in that of
        the core rows the summary says of the values at these rows what it said before.
        """
        new = copy.copy(self)
        new.kernel, new.scaling = kernel, scaling
        new._points = new._own = None
        if self.rows is None:
            return new
        if self.by_columns:
            new.F = new._columns(self.rows)
            new.gram = new.F.T @ new.F
            width = len(new.F)
            J = _map_of(scaling, width) @ linalg.inv(_map_of(self.scaling, width))
        else:
            points = new._core_points()
            new.gram = new._block(points, points)
            if self.F is not None:
                new.F = factor_of(new.gram, float(new.gram.diagonal().max()))
                J = linalg.solve_triangular(
                    self.F, new.F.T, trans="T", check_finite=False
                ).T
        if self.summary is not None:
            new.summary = self.summary.mapped(J)
            new._set_gram()
        new._solve()
        new._set_coef()
        return new

    # Forgetting, joining ------------------------------------------------------------

    def _decay(self) -> None:
        """Let the losses decay by the rows since they last did."""
        if self.form.half_life is None or self.rows is None:
            return
        share = 0.5 ** ((self.n_rows - self.aged) / self.form.half_life)
        if share > 1.0 - DECAY_STEP:
            return
        self.aged = self.n_rows
        self.targets = Targets(self.targets.z, share * self.targets.omega)
        if self.summary is not None:
            self.summary = self.summary.decayed(share)
            self._set_gram()
        self._solve()
        self._set_coef()

    def joined(self, other: Self) -> Self:
        """Return the stream of the rows of both."""
        new = copy.copy(self)
        for name in ("n_rows", "n_updates", "n_left", "tally"):
            setattr(new, name, getattr(new, name) + getattr(other, name))
        if other.rows is None:
            return new
        if self.rows is None:
            for name in ("rows", "targets", "born", "a", "gram", "prior", "F"):
                setattr(new, name, getattr(other, name))
            new.summary, new.coef = other.summary, other.coef
            new._points = new._own = None
            return new
        if other.summary is not None and new.summary is None:
            new._begin_summary()
        n = len(new.targets.omega)
        new._append(other.rows, other.targets)
        if other.summary is not None:
            new._add_summary(other, n)
        new.a = np.vstack([self.a, other.a])
        new._solve()
        new._points = None
        if len(new.targets.omega) > new.form.budget:
            new._shrink()
        new._set_coef()
        return new

    def moved(self, step: Array) -> Self:
        """Return the stream of targets to which `step` is added, one per output."""
        new = copy.copy(self)
        if self.rows is None or not step.any():
            return new
        new.targets = Targets(self.targets.z + step, self.targets.omega)
        if self.summary is not None:
            new.summary = self.summary.moved(self._constant(), step)
            new._set_gram()
        new._solve()
        new._set_coef()
        return new

    def _constant(self) -> Array:
        """Return coordinates of the function 1, as the span has it at the core rows."""
        assert self.F is not None
        if self.by_columns:
            return np.append(np.zeros(len(self.F) - 1), 1.0)
        ones = np.ones(self.rows.shape[0])
        return np.asarray(
            linalg.solve_triangular(self.F, ones, trans="T", check_finite=False)
        )

    def _add_summary(self, other: Self, n: int) -> None:
        """Add the summary of `other`, whose core rows are those from the n-th on."""
        assert other.summary is not None
        assert other.F is not None
        assert self.F is not None
        assert self.summary is not None
        theirs = other.summary
        if not self.by_columns:
            # Both coordinates are orthonormal; rows of `other` are F in the joint ones.
            joint = linalg.solve_triangular(
                other.F, self.F[:, n:].T, trans="T", check_finite=False
            )
            theirs = theirs.mapped(joint.T)
        self.summary = self.summary.joined(theirs)
        self._set_gram()

    def norms_sq(self) -> Array:
        """Return ``|w|^2 + b0^2`` of each output."""
        if self.by_columns:
            return np.asarray((self.coef**2).sum(axis=0))
        K = self.core_kernel()
        return np.maximum((self.coef * (K @ self.coef)).sum(axis=0), 0.0)

    def core_kernel(self) -> Array:
        """Return the kernel between the core rows, with that of the bias."""
        if self.by_columns:
            F = self._columns(self.rows)
            return np.asarray(F.T @ F)
        points = self._core_points()
        return self._block(points, points)

    def _core_points(self) -> Points:
        if self._points is None:
            self._points = self.kernel.prepare_basis(as_rows(self.scaled(self.rows)))
        return self._points

    def _block(self, x: Points, z: Points) -> Array:
        values = self.kernel.block(x, z)
        return finite(values + 1.0 if self.form.bias else values, self.kernel)


def _bordered(matrix: Array, cross: Array, own: Array) -> Array:
    """Return a symmetric matrix with further rows and columns."""
    n, v = cross.shape
    whole = np.empty((n + v, n + v))
    whole[:n, :n], whole[:n, n:], whole[n:, :n], whole[n:, n:] = (
        matrix,
        cross,
        cross.T,
        own,
    )
    return whole


def factor_of(matrix: Array, scale: float) -> Array:
    """Return the upper Cholesky factor of a positive semidefinite matrix."""
    ridge = JITTER * scale * np.eye(len(matrix))

    def attempt(jitter: float) -> Array:
        own = matrix + (ridge if not jitter else jitter * np.eye(len(matrix)))
        return np.asarray(linalg.cholesky(own, overwrite_a=True, check_finite=False))

    return with_jitter(attempt, max(scale, TINY), first=10 * JITTER)


def _map_of(scaling: Scaling | None, width: int) -> Array:
    """Return the matrix that scales rows, with the 1 of the bias if there is one."""
    return np.eye(width) if scaling is None else scaling.as_map()[:width, :width]


def as_rows(values: Any) -> Rows:
    """Return rows with their numbers, as kernels take them."""
    return Rows(values, np.arange(values.shape[0]))
