"""Streaming balls keep their promises, against a twin in coordinates written out."""

from itertools import pairwise

import hypothesis.strategies as st
import naive
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from scipy import sparse
from scipy.optimize import brentq, minimize

from corevec.data.sources import as_source, row_statistics
from corevec.kernels import make_kernel
from corevec.solvers.streaming import (
    Balls,
    Form,
    KernelStream,
    LinearStream,
    RowSample,
    Signs,
    UnusableRow,
    best_scale,
    enclosed,
)

FORMS = [(1, False), (2, False), (5, False), (2, True), (4, True)]
forms = st.sampled_from(FORMS)
# Sums of kernel values carry a few eps of the largest one; a hundred rows add up.
ROUNDING = 1e-11


# --- the twin -------------------------------------------------------------------------


class Twin:
    """One ball, row by row: an image, a slack coordinate per row, and a height.

    The weight of the new row is found by a root finder, not by a formula.
    """

    def __init__(self, images, inverse, *, plain):
        self.points = np.hstack([images, np.diag(np.sqrt(inverse))])
        own = inverse if plain else (self.points**2).sum(axis=1)
        self.centre, self.radius, self.width, self.eta = None, 0.0, 0.0, 0.0
        self.is_row = True
        self.slack = inverse
        for i, (point, lifted) in enumerate(zip(self.points, own, strict=True)):
            grown = max(self.eta, lifted)
            if self.centre is not None:
                self.radius = np.sqrt(self.radius**2 + grown - self.eta)
            self.eta = grown
            self._see(point, np.sqrt(max(grown - lifted, 0.0)), self.slack[i])

    def _see(self, point, height, slack):
        if self.centre is None:
            self.centre, self.radius = point, height
            return
        apart = np.linalg.norm(point - self.centre)
        if not self.is_row and np.hypot(apart, height) <= self.radius:
            # Of the row's own slack coordinate no centre will have a part.
            image = np.sqrt(max(apart**2 - slack, 0.0))
            self.width = max(self.width, image)
            return
        weight = self._balanced(apart, height)
        old, new = self._reaches(weight, apart, height)
        self.centre = (1 - weight) * self.centre + weight * point
        self.width = max(self.width + weight * apart, (1 - weight) * apart)
        self.radius, self.is_row = max(old, new), False

    def _reaches(self, weight, apart, height):
        """Return how far the rows so far and the new one are from a new centre.

        A row so far is a point at some height, `width` behind the centre at most.
        """
        highest = np.sqrt(max(self.radius**2 - self.width**2, 0.0))
        old = np.hypot(self.width + weight * apart, highest)
        return old, np.hypot((1 - weight) * apart, height)

    def _balanced(self, apart, height):
        def lead(weight):
            old, new = self._reaches(weight, apart, height)
            return new - old

        if lead(0.0) <= 0 or lead(1.0) >= 0:
            return 0.0 if lead(0.0) <= 0 else 1.0
        return brentq(lead, 0.0, 1.0, xtol=1e-15)


class Trace:
    """Keeps the multipliers of all rows in every element of a stream."""

    current = 0

    def follow(self, n_rows):
        self.multipliers = np.zeros((0, n_rows))
        return self

    def _arrive(self, *args):
        unit = np.zeros((1, self.multipliers.shape[1]))
        unit[0, self.current] = 1.0
        self.multipliers = np.vstack([self.multipliers, unit])
        super()._arrive(*args)

    def _combine(self, change):
        self.multipliers = change @ self.multipliers
        super()._combine(change)

    def _join_numbers(self, other):
        self.multipliers = np.vstack([self.multipliers, other.multipliers])
        super()._join_numbers(other)


class TracedLinear(Trace, LinearStream):
    """Only for more than one ball: a single one is moved in compiled code."""


class TracedKernel(Trace, KernelStream):
    """For any number of balls."""


# --- helpers --------------------------------------------------------------------------


def inverse_slacks(problem, *, hard=False):
    s = np.ones(len(problem.y)) if problem.s is None else problem.s
    with np.errstate(divide="ignore"):
        return np.where(s > 0, (0.0 if hard else 1.0) / (problem.C * s), np.inf)


def signs_of(y, inverse):
    return Signs((np.asarray(y) > 0).astype(np.int32), 1, np.asarray(inverse, float))


def kernel_of(problem):
    statistics = row_statistics(as_source(problem.X))
    parameters = {"gamma": 1.0, "degree": 3, "coef0": 0.0, **problem.kernel}
    return make_kernel(statistics=statistics, **parameters)


def kernel_stream(problem, form, budget=None, *, merge=True, cls=TracedKernel):
    return cls(form, kernel_of(problem), budget, merge=merge)


def row_by_row(stream, problem, y, inverse, rows=None):
    stream.follow(len(y))
    for i in range(len(y)) if rows is None else rows:
        stream.current = i
        stream = stream.absorb(problem.X[i : i + 1], signs_of(y[[i]], inverse[[i]]))
    return stream


def lifted_distances_sq(stream, problem, y, inverse):
    """Return squared distances from the centre, with slacks and heights written out.

    Only of rows that count; the centre's image comes from its expansion or its vector.
    """
    here = np.isfinite(inverse)
    X, y, inverse = problem.X[here], y[here], inverse[here]
    bias = stream.form.bias
    own = np.diag(naive.gram(X, **problem.kernel)) + bias
    if isinstance(stream, LinearStream):
        w, b = stream.centre()
        values, norm_sq = X @ w + b * bias, w @ w + b * b
    else:
        coef = stream.centre()
        K = naive.gram(stream.rows, X, **problem.kernel) + bias
        values = coef @ K
        norm_sq = coef @ (naive.gram(stream.rows, **problem.kernel) + bias) @ coef
    image_sq = norm_sq - 2 * y * values + own
    multipliers = (stream.whole().weights @ stream.multipliers)[here]
    slacks = multipliers * np.sqrt(inverse)
    slack_sq = (slacks[None, :] - np.diag(np.sqrt(inverse))) ** 2
    taken_off = inverse + (own if stream.form.constrained else 0.0)
    return image_sq + slack_sq.sum(axis=1) + (stream.eta - taken_off)


def smallest_radius_sq(problem, y, inverse, *, bias, plain):
    """Return a bracket of the smallest ball's squared radius, by an exact solver."""
    here = np.isfinite(inverse)
    K, y, inverse = problem.K[np.ix_(here, here)], y[here], inverse[here]
    eta = inverse.max() if plain else (np.diag(K) + bias + inverse).max()
    if plain:
        # The plain ball: the slack's diagonal is in Q, its level is the same for all.
        found = naive.hard_ball(K + np.diag(inverse))
        assert np.ptp(inverse) == 0
        return found.dual, found.primal
    found = naive.hinge(K, y, 1.0, 1 / inverse, bias=bool(bias))
    return eta - 1 / (2 * found.dual), eta - 1 / (2 * found.primal)


problems = strategies.problems(C=strategies.penalties(-2, 4))
linear_problems = strategies.problems(
    C=strategies.penalties(-2, 4), among=[{"kernel": "linear"}]
)


# --- the promise ----------------------------------------------------------------------


@given(problem=linear_problems, plain=st.booleans(), bias=st.sampled_from([0.0, 1.0]))
def test_one_linear_ball_is_the_twin(problem, plain, bias):
    y = np.ones(len(problem.y)) if plain else problem.y
    bias = 0.0 if plain else bias
    inverse = inverse_slacks(problem)
    form = Form(1, constrained=not plain, bias=bias)
    stream = LinearStream(form, problem.X.shape[1])
    stream = stream.absorb(problem.X, signs_of(y, inverse))
    here = np.isfinite(inverse)
    images = y[here, None] * np.column_stack([problem.X, np.full(len(y), bias)])[here]
    twin = Twin(images, inverse[here], plain=plain)
    w, b = stream.centre()
    scale = max(stream.eta, twin.radius**2)
    assert stream.eta == pytest.approx(twin.eta)
    assert stream.whole().radius == pytest.approx(twin.radius, rel=1e-7)
    assert np.append(w, b) == pytest.approx(
        twin.centre[: len(w) + 1], abs=1e-7 * np.sqrt(scale)
    )
    distances_sq = ((twin.points - twin.centre) ** 2).sum(axis=1)
    own = inverse[here] if plain else (twin.points**2).sum(axis=1)
    assert (distances_sq + twin.eta - own).max() <= twin.radius**2 + 1e-9 * scale


@given(problem=problems, plain=st.booleans())
def test_one_kernel_ball_is_the_twin(problem, plain):
    y = np.ones(len(problem.y)) if plain else problem.y
    inverse, bias = inverse_slacks(problem), 0.0 if plain else 1.0
    stream = kernel_stream(problem, Form(1, constrained=not plain, bias=bias))
    stream = row_by_row(stream, problem, y, inverse)
    here = np.isfinite(inverse)
    K = problem.K[np.ix_(here, here)] + bias
    twin = Twin(y[here, None] * naive.factor(K), inverse[here], plain=plain)
    assert stream.whole().radius == pytest.approx(twin.radius, rel=1e-6)
    values = y[here] * (twin.points[:, : len(K)] @ twin.centre[: len(K)])
    coef = stream.centre()
    by_stream = naive.gram(problem.X[here], stream.rows, **problem.kernel) @ coef
    by_stream += bias * coef.sum()
    assert by_stream == pytest.approx(values, abs=1e-6 * max(stream.eta, K.max()))


@given(problem=problems, form=forms, plain=st.booleans())
def test_every_row_seen_lies_in_the_ball(problem, form, plain):
    y = np.ones(len(problem.y)) if plain else problem.y
    inverse = inverse_slacks(problem)
    shape = Form(*form, constrained=not plain, bias=0.0 if plain else 1.0)
    stream = row_by_row(kernel_stream(problem, shape), problem, y, inverse)
    whole = stream.whole()
    multipliers = whole.weights @ stream.multipliers
    scale = max(stream.eta, whole.radius**2, np.abs(problem.K).max())
    assert multipliers.min() >= 0
    assert multipliers.sum() == pytest.approx(1)
    inside = lifted_distances_sq(stream, problem, y, inverse)
    assert inside.max() <= whole.radius**2 + ROUNDING * scale
    here = np.isfinite(inverse)
    slack = (multipliers[here] ** 2 * inverse[here]).sum()
    assert whole.slack == pytest.approx(slack)


@given(problem=linear_problems, form=st.sampled_from(FORMS[1:]), plain=st.booleans())
def test_every_row_seen_lies_in_the_linear_ball(problem, form, plain):
    y = np.ones(len(problem.y)) if plain else problem.y
    inverse = inverse_slacks(problem)
    shape = Form(*form, constrained=not plain, bias=0.0 if plain else 1.0)
    stream = TracedLinear(shape, problem.X.shape[1])
    stream = row_by_row(stream, problem, y, inverse)
    whole = stream.whole()
    inside = lifted_distances_sq(stream, problem, y, inverse)
    scale = max(stream.eta, whole.radius**2, np.abs(problem.K).max())
    assert inside.max() <= whole.radius**2 + ROUNDING * scale


@given(problem=problems, form=forms, budget=st.integers(6, 9), merge=st.booleans())
def test_a_budget_keeps_the_promise(problem, form, budget, merge):
    inverse = inverse_slacks(problem)
    stream = kernel_stream(problem, Form(*form), budget, merge=merge)
    stream = row_by_row(stream, problem, problem.y, inverse)
    assert len(stream.own) <= budget
    whole = stream.whole()
    scale = max(stream.eta, whole.radius**2)
    inside = lifted_distances_sq(stream, problem, problem.y, inverse)
    assert inside.max() <= whole.radius**2 + ROUNDING * scale
    _, most = smallest_radius_sq(problem, problem.y, inverse, bias=1.0, plain=False)
    assert whole.lower_radius**2 <= most + ROUNDING * scale


@given(problem=problems, form=forms, budget=st.sampled_from([None, 8]))
def test_merging_keeps_the_promise(problem, form, budget):
    y, inverse = problem.y, inverse_slacks(problem)
    n = len(y)
    halves = [range(n // 2), range(n // 2, n)]
    parts = [
        row_by_row(
            kernel_stream(problem, Form(*form), budget), problem, y, inverse, rows
        )
        for rows in halves
        if np.isfinite(inverse[list(rows)]).any()
    ]
    both = parts[0] if len(parts) == 1 else parts[0].joined(parts[1])
    whole = both.whole()
    scale = max(both.eta, whole.radius**2)
    inside = lifted_distances_sq(both, problem, y, inverse)
    assert inside.max() <= whole.radius**2 + ROUNDING * scale
    assert both.n_rows == np.isfinite(inverse).sum()
    assert len(both.balls) <= form[0]
    _, most = smallest_radius_sq(problem, y, inverse, bias=1.0, plain=False)
    assert whole.lower_radius**2 <= most + ROUNDING * scale


@given(problem=linear_problems, form=st.sampled_from(FORMS[1:]))
def test_merging_linear_streams_keeps_the_promise(problem, form):
    y, inverse = problem.y, inverse_slacks(problem)
    n = len(y)
    parts = [
        row_by_row(
            TracedLinear(Form(*form), problem.X.shape[1]), problem, y, inverse, rows
        )
        for rows in (range(n // 2), range(n // 2, n))
        if np.isfinite(inverse[list(rows)]).any()
    ]
    both = parts[0] if len(parts) == 1 else parts[0].joined(parts[1])
    whole = both.whole()
    scale = max(both.eta, whole.radius**2)
    inside = lifted_distances_sq(both, problem, y, inverse)
    assert inside.max() <= whole.radius**2 + ROUNDING * scale


def test_one_compiled_ball_merges_as_the_traced_one_does(rng):
    X, y = rng.normal(size=(60, 3)), np.where(rng.random(60) < 0.5, -1, 1)
    problem = strategies.Problem(X, y, None, 3.0, {"kernel": "linear"})
    inverse = inverse_slacks(problem)
    linear, traced = [], []
    for rows in (range(25), range(25, 60)):
        part = signs_of(y[rows], inverse[rows])
        linear.append(LinearStream(Form(1), 3).absorb(X[rows], part))
        stream = kernel_stream(problem, Form(1))
        traced.append(row_by_row(stream, problem, y, inverse, rows))
    a, b = linear[0].joined(linear[1]), traced[0].joined(traced[1])
    assert a.whole().radius == pytest.approx(b.whole().radius)
    assert a.whole().lower_radius == pytest.approx(b.whole().lower_radius)
    inside = lifted_distances_sq(b, problem, y, inverse)
    assert inside.max() <= a.whole().radius ** 2 * (1 + 1e-12)


# --- how large the ball is ------------------------------------------------------------


@given(problem=problems, form=forms)
def test_the_lower_radius_is_one(problem, form):
    y, inverse = problem.y, inverse_slacks(problem)
    stream = row_by_row(kernel_stream(problem, Form(*form)), problem, y, inverse)
    whole = stream.whole()
    least, most = smallest_radius_sq(problem, y, inverse, bias=1.0, plain=False)
    scale = ROUNDING * stream.eta
    assert whole.lower_radius**2 <= most + scale
    assert whole.radius**2 >= least - scale
    assert whole.lower_radius**2 == pytest.approx(
        stream.eta - whole.centre_norm_sq, abs=scale
    )


@given(problem=strategies.problems(weighted=False), form=forms)
def test_the_lower_radius_of_a_plain_ball_is_one(problem, form):
    ones, inverse = np.ones(len(problem.y)), inverse_slacks(problem, hard=True)
    shape = Form(*form, constrained=False, bias=0.0)
    stream = row_by_row(kernel_stream(problem, shape), problem, ones, inverse)
    whole = stream.whole()
    least, most = smallest_radius_sq(problem, ones, inverse, bias=0.0, plain=True)
    scale = 1e-9 * np.abs(problem.K).max()  # the twin's own precision
    assert whole.lower_radius**2 <= most + scale
    assert whole.radius**2 >= least - scale


@settings(max_examples=60)
@given(
    problem=strategies.problems(among=[{"kernel": "linear"}], weighted=False),
    bias=st.sampled_from([0.0, 1.0]),
)
def test_one_ball_is_within_three_halves_on_rows_of_constant_norm(problem, bias):
    norms = np.linalg.norm(problem.X, axis=1)
    problem.X = np.where(norms[:, None] > 0, problem.X, 1.0)
    problem.X /= np.linalg.norm(problem.X, axis=1)[:, None]
    y, inverse = problem.y, inverse_slacks(problem)
    stream = LinearStream(Form(1, bias=bias), problem.X.shape[1])
    stream = stream.absorb(problem.X, signs_of(y, inverse))
    _, most = smallest_radius_sq(problem, y, inverse, bias=bias, plain=False)
    assert stream.whole().radius <= 1.5 * np.sqrt(most) + 1e-7
    assert stream.whole().lower_radius <= np.sqrt(most) + 1e-7


def test_eight_balls_end_in_a_smaller_ball_than_one(rng):
    X = rng.normal(size=(600, 5))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=600) > 0, 1, -1)
    radii = {1: [], 8: []}
    for _ in range(20):
        order = rng.permutation(600)
        for n_balls, found in radii.items():
            stream = LinearStream(Form(n_balls), 5)
            stream = stream.absorb(X[order], signs_of(y[order], [0.1]))
            found.append(stream.whole().radius)
    assert np.mean(radii[8]) < np.mean(radii[1])


def test_a_stream_that_drifts_away_moves_the_ball_with_every_row(rng):
    X = np.cumsum(rng.exponential(size=(300, 2)), axis=0)
    inverse = np.full(300, 0.1)
    form = Form(1, constrained=False, bias=0.0)
    stream = LinearStream(form, 2).absorb(X, signs_of(np.ones(300), inverse))
    twin = Twin(np.column_stack([X, np.zeros(300)]), inverse, plain=True)
    assert stream.n_updates == 300
    assert stream.whole().radius == pytest.approx(twin.radius, rel=1e-9)
    assert stream.centre()[0] == pytest.approx(twin.centre[:2])


# --- one pass, whatever the blocks ----------------------------------------------------


@given(
    problem=linear_problems,
    form=forms,
    cuts=st.lists(st.integers(0, 24), max_size=4),
)
def test_blocks_do_not_matter(problem, form, cuts):
    y, inverse = problem.y, inverse_slacks(problem)
    whole = LinearStream(Form(*form), problem.X.shape[1])
    parts = whole
    whole = whole.absorb(problem.X, signs_of(y, inverse))
    edges = sorted({0, len(y), *(min(cut, len(y)) for cut in cuts)})
    for start, stop in pairwise(edges):
        rows = slice(start, stop)
        parts = parts.absorb(problem.X[rows], signs_of(y[rows], inverse[rows]))
    assert np.array_equal(whole.vectors, parts.vectors)
    assert np.array_equal(whole.balls.power, parts.balls.power)
    assert (whole.eta, whole.n_rows) == (parts.eta, parts.n_rows)
    assert whole.n_updates == parts.n_updates


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("budget", [None, 12])
def test_blocks_do_not_matter_to_kernels(rng, form, budget):
    X, y = strategies.checkerboard(300)
    problem = strategies.Problem(X, y, None, 1.0, {"kernel": "rbf", "gamma": 2.0})
    empty = kernel_stream(problem, Form(*form), budget, cls=KernelStream)
    whole = empty.absorb(X, signs_of(y, [1.0]))
    parts = empty
    for rows in np.array_split(np.arange(300), [1, 40, 41, 200]):
        parts = parts.absorb(X[rows], signs_of(y[rows], [1.0]))
    # The final ball around several balls ends within 1e-6 of R^2 by cuts.
    near = 1e-5 if form[1] else 1e-10
    assert parts.whole().radius == pytest.approx(whole.whole().radius, rel=near)
    assert parts.coef == pytest.approx(whole.coef, abs=1e-8)
    assert np.array_equal(parts.rows, whole.rows)


@given(problem=linear_problems, form=forms, plain=st.booleans())
def test_sparse_rows_are_the_dense_ones(problem, form, plain):
    y, inverse = problem.y, inverse_slacks(problem)
    shape = Form(*form, constrained=not plain, bias=0.0 if plain else 1.0)
    X = np.where(np.abs(problem.X) < 0.5, 0.0, problem.X)
    empty = LinearStream(shape, X.shape[1])
    signs = signs_of(np.ones(len(y)) if plain else y, inverse)
    dense = empty.absorb(X, signs)
    csr = empty.absorb(sparse.csr_matrix(X), signs)
    scale = max(dense.eta, dense.whole().radius ** 2, (X**2).sum(axis=1).max())
    # A row on the boundary may be taken in by one and not by the other: by a hair.
    assert csr.whole().radius == pytest.approx(
        dense.whole().radius, abs=1e-7 * np.sqrt(scale)
    )
    assert csr.centre()[0] == pytest.approx(
        dense.centre()[0], abs=1e-6 * np.sqrt(scale)
    )


def test_float32_rows_are_read_in_float64(rng):
    X = rng.normal(size=(200, 7)).astype(np.float32)
    signs = signs_of(rng.integers(0, 2, 200), [1.0])
    for rows in (X, sparse.csr_matrix(X)):
        single = LinearStream(Form(1), 7).absorb(rows, signs)
        double = LinearStream(Form(1), 7).absorb(rows.astype(np.float64), signs)
        assert np.array_equal(single.vectors, double.vectors)


def test_a_column_that_comes_twice_in_a_sparse_row_is_summed():
    twice = sparse.csr_matrix(
        (np.array([1.0, 2.0, 5.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), (2, 2)
    )
    signs = signs_of([1, -1], [1.0])
    found = LinearStream(Form(1), 2).absorb(twice, signs)
    plain = LinearStream(Form(1), 2).absorb(twice.toarray(), signs)
    assert found.vectors == pytest.approx(plain.vectors)
    assert twice.nnz == 3  # the user's matrix is as it was


@pytest.mark.parametrize("scale", [1e-140, 1e-8, 1e8, 1e140])
@pytest.mark.parametrize("form", FORMS)
def test_scales_do_not_matter(rng, scale, form):
    X, y = rng.normal(size=(80, 3)), np.where(rng.random(80) < 0.5, -1, 1)
    shape = Form(*form, bias=0.0)
    unit = LinearStream(shape, 3).absorb(X, signs_of(y, [0.5]))
    scaled = LinearStream(shape, 3).absorb(scale * X, signs_of(y, [0.5 * scale**2]))
    assert scaled.whole().radius / scale == pytest.approx(unit.whole().radius)
    assert scaled.whole().lower_radius / scale == pytest.approx(
        unit.whole().lower_radius
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_first_row_of_zeros(form):
    X, y = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]), np.array([1, -1, 1])
    for bias in (0.0, 1.0):
        stream = LinearStream(Form(*form, bias=bias), 2).absorb(X, signs_of(y, [1.0]))
        assert np.isfinite(stream.whole().radius)
        assert stream.whole().radius >= stream.whole().lower_radius > 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("form", [FORMS[0], FORMS[2], FORMS[4]])
def test_a_bad_row_is_named_and_changes_nothing(rng, bad, form):
    X = rng.normal(size=(50, 3))
    signs = signs_of(rng.integers(0, 2, 50), [1.0])
    stream = LinearStream(Form(*form), 3).absorb(X, signs)
    before = stream.vectors.copy(), stream.eta, stream.n_rows
    X[17, 1] = bad
    for rows in (X, sparse.csr_matrix(X)):
        with pytest.raises(UnusableRow) as caught:
            stream.absorb(rows, signs)
        assert caught.value.row == 17
    assert np.array_equal(stream.vectors, before[0])
    assert (stream.eta, stream.n_rows) == before[1:]


# --- enclosing several ----------------------------------------------------------------


@given(
    seed=st.integers(0, 2**31),
    n=st.integers(2, 7),
    n_wide=st.sampled_from([0, 1, 7]),
)
def test_the_enclosing_ball_is_the_smallest_one(seed, n, n_wide):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n, 4)) * rng.choice([0.1, 1.0, 10.0])
    radius = rng.exponential(size=n) * rng.choice([0.0, 0.3, 1.0], size=n)
    width = radius * rng.random(n) ** rng.choice([0.0, 1.0])
    width[rng.permutation(n)[n_wide:]] = 0.0
    steps = centres - centres[0]
    eta = 2.0 + radius.max() ** 2
    none = np.zeros(n)
    power = eta - radius**2
    balls = Balls(none, power, power, width, none, none > 0)
    weights, ball = enclosed(steps @ steps.T, balls)

    def largest(point):
        apart = np.linalg.norm(point - centres, axis=1)
        return np.hypot(apart + width, np.sqrt(radius**2 - width**2)).max()

    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    found = float(ball.radius(eta)[0])
    assert found == pytest.approx(largest(weights @ centres))
    starts = [weights @ centres, centres.mean(axis=0)]
    options = {"xatol": 1e-10, "fatol": 1e-12, "maxiter": 20_000, "maxfev": 20_000}
    best = min(
        minimize(largest, start, method="Nelder-Mead", options=options).fun
        for start in starts
    )
    near = 1e-4 if n_wide > 1 and n > 2 else 1e-9  # cuts do not go to the end
    assert found <= best * (1 + near) + 1e-12


def test_two_balls_of_which_one_holds_the_other():
    none, eta = np.zeros(2), 100.0
    radius = np.array([5.0, 1.0])
    power = eta - radius**2
    balls = Balls(none, power, power, radius, none, none > 0)
    weights, ball = enclosed(np.diag([0.0, 4.0]), balls)
    assert weights == pytest.approx([1.0, 0.0])
    assert ball.radius(eta) == pytest.approx(5.0)


# --- beside the balls -----------------------------------------------------------------


@given(problem=problems)
def test_the_best_multiple_of_a_function(problem):
    s = np.ones(len(problem.y)) if problem.s is None else problem.s
    rng = np.random.default_rng(len(s))
    f, norm_sq = rng.normal(size=len(s)), 0.3
    t = best_scale(problem.y * f, problem.C * s, norm_sq)
    found = naive.hinge_primal(t * f, t**2 * norm_sq, problem.y, problem.C, s)
    wanted = naive.best_scale_primal(f, norm_sq, problem.y, problem.C, s)
    assert t >= 0
    assert found <= wanted * (1 + 1e-12)


def test_the_sample_is_uniform_and_does_not_depend_on_blocks():
    X = np.arange(40_000.0)[:, None]
    empty = RowSample(np.random.default_rng(3))
    whole, parts = empty.after(X, None), empty
    for block in np.array_split(X, [10, 5000, 5001, 30_000]):
        parts = parts.after(block, None)
    assert np.array_equal(whole.rows, parts.rows)
    assert len(whole.rows) == 4000
    # Mean of 4000 out of 40,000 uniform numbers: deviation 173.
    assert abs(whole.rows.mean() - 19_999.5) < 5 * 173
    # A tenth is below: 0.1 +- 0.0047 of the values.
    found = whole.lower_quantile(whole.rows[:, 0], 0.1)
    assert abs(found - 4000) < 5 * 0.0047 * 40_000


def test_the_sample_draws_by_weight():
    X = np.arange(30_000.0)[:, None]
    weights = np.repeat([0.0, 1.0, 3.0], 10_000)
    sample = RowSample(np.random.default_rng(4)).after(X, weights)
    share = np.bincount((sample.rows[:, 0] // 10_000).astype(int), minlength=3) / 4000
    assert share[0] == 0
    assert abs(share[2] - 0.75) < 0.05  # less than 3/4 by drawing without replacement


def test_two_samples_join_into_one():
    X = np.arange(20_000.0)[:, None]
    first = RowSample(np.random.default_rng(5)).after(X[:5000], None)
    second = RowSample(np.random.default_rng(6)).after(X[5000:], None)
    both = first.joined(second)
    assert len(both.rows) == 4000
    assert both.n_seen == 20_000
    assert abs(np.mean(both.rows < 5000) - 0.25) < 0.05


def test_a_sample_of_everything_counts_weights():
    X = np.arange(10.0)[:, None]
    weights = np.array([9.0, *np.ones(9)])
    sample = RowSample(np.random.default_rng(0)).after(X, weights)
    assert sample.lower_quantile(sample.rows[:, 0], 0.5) == pytest.approx(0.5)


# --- numbers of very different size ---------------------------------------------------


def one_pass(X, y, inverse, *, form, as_csr=False):
    """A stream after all rows, and its rows' squared distances less eta."""
    values = sparse.csr_matrix(X) if as_csr else X
    codes = (y > 0).astype(np.int32)
    signs = Signs(codes, 1, np.broadcast_to(inverse, len(X)).astype(float).copy())
    return LinearStream(form, X.shape[1]).absorb(values, signs)


def farthest(stream, X, y):
    """The largest squared distance less eta of rows that no centre has a part of."""
    centre, bias = stream.centre()
    whole, form = stream.whole(), stream.form
    if form.constrained:
        values = y * (X @ centre + form.bias * bias)
        return (whole.norm_sq + whole.slack - 2 * values).max()
    return ((X - centre) ** 2).sum(axis=1).max() + whole.slack


@pytest.mark.parametrize("n_balls", [1, 8])
def test_one_huge_row_does_not_take_the_digits_of_the_others(n_balls):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3)) + np.array([1.0, 0, 0])
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    form = Form(n_balls)
    before = one_pass(X, y, 0.25, form=form).n_updates
    far = np.vstack([X[:500], [[1e9, 0.0, 0.0]], X[500:]])
    labels = np.concatenate([y[:500], [1.0], y[500:]])
    found = one_pass(far, labels, 0.25, form=form)
    # Its height is 0 and its margin huge: it is inside, and changes nothing.
    assert found.n_updates <= before + 2
    _, ball = enclosed(found._gram(np.arange(len(found.balls))), found.balls)
    # R^2 - eta holds for every row, to the rounding of the numbers themselves.
    inside = farthest(found, X, y)
    assert -float(ball.power[0]) >= inside - 1e-9 * abs(inside) - 2 * 0.25


@pytest.mark.parametrize("n_balls", [1, 8])
def test_rows_far_from_the_origin_are_in_a_plain_ball_of_sparse_rows_too(n_balls):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1000, 4)) + np.array([0, 1.7e9, 0, 0])
    form = Form(n_balls, constrained=False, bias=0.0)
    y = np.ones(1000)
    dense = one_pass(X, y, 0.25, form=form)
    csr = one_pass(X, y, 0.25, form=form, as_csr=True)
    assert csr.n_updates == dense.n_updates
    assert csr.whole().radius == pytest.approx(dense.whole().radius, rel=1e-6)


@pytest.mark.parametrize("weight", [1e-2, 1e-6, 1e-20])
def test_a_held_row_of_small_weight_changes_nothing(weight):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1000, 3)) + np.array([1.0, 0, 0])
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    inverse = np.full(1000, 0.25)
    plain = one_pass(X, y, inverse, form=Form(8))
    light = inverse.copy()
    # A row that is right by far: it lies inside whatever its weight.
    row = 500 + int(np.argmax((y * X[:, 0])[500:]))
    light[row] /= weight
    found = one_pass(X, y, light, form=Form(8))
    assert found.n_updates == plain.n_updates
    np.testing.assert_allclose(found.centre()[0], plain.centre()[0], rtol=1e-9)


@pytest.mark.parametrize("kind", ["unsorted", "int64", "zeros"])
def test_forms_of_csr_are_the_same_rows(kind):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 6)) * (rng.random((300, 6)) < 0.5)
    y = np.where(X[:, 0] + 0.1 > 0, 1.0, -1.0)
    rows = sparse.csr_matrix(X)
    if kind == "unsorted":
        order = np.concatenate(
            [np.arange(b - 1, a - 1, -1) for a, b in pairwise(rows.indptr)]
        )
        rows = sparse.csr_matrix(
            (rows.data[order], rows.indices[order], rows.indptr), shape=rows.shape
        )
        rows.has_sorted_indices = False
    elif kind == "int64":
        rows.indices, rows.indptr = (
            rows.indices.astype(np.int64),
            rows.indptr.astype(np.int64),
        )
    else:
        rows = sparse.csr_matrix(np.where(X == 0, 7.0, X))
        rows.data[rows.data == 7.0] = 0.0
    signs = Signs((y > 0).astype(np.int32), 1, np.array([0.5]))
    found = LinearStream(Form(4), 6).absorb(rows, signs)
    plain = LinearStream(Form(4), 6).absorb(X, signs)
    assert found.n_updates == plain.n_updates
    np.testing.assert_allclose(found.centre()[0], plain.centre()[0], rtol=1e-9)
