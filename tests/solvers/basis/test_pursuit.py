"""Growing and moving basis vectors: gradients, objectives, memory, edge cases."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone

from corevec import CoreVectorClassifier, certify, methods
from corevec._runtime import Progress
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.kernels import make_kernel
from corevec.models import relative_gap
from corevec.problems import Labels, regression, two_class
from corevec.solvers import basis as pursuit
from corevec.solvers.basis import draw_candidates, move, rows_to_move_for
from corevec.solvers.numeric import Deadline

# Weights are solved until no value moves by more than 0.03, by Newton: far closer.
NEARLY_SOLVED = 1e-3


def rows(task="classes", n=400, d=4, seed=0, as_sparse=False, shift=0.0, budget=2**28):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + shift
    if as_sparse:
        # Wide, so that the rows stay sparse.
        X = np.hstack([np.where(np.abs(X) > 0.7, X, 0.0), np.zeros((n, 200))])
        X = sparse.csr_matrix(X)
    source = as_source(X, budget, Workers(1))
    kernel = make_kernel("rbf", 0.3, 3, 0.0, row_statistics(source))
    first = np.asarray(X[:, [0]].todense() if as_sparse else X[:, [0]]).ravel() - shift
    if task == "classes":
        labels = Labels(n, (np.sin(2 * first) > 0).astype(int))
        problems = [two_class(labels, 3.0, 1, 0)]
    elif task == "three":
        labels = Labels(n, np.digitize(first, [-0.5, 0.5]))
        problems = [two_class(labels, 3.0, t) for t in range(3)]
    else:
        z = np.sin(2 * first)
        problems = [regression(Labels(n), 3.0, z, tube=0.05)]
    return problems, source, kernel


def grown(*case, **more):
    """The last of the vectors, all that were asked for."""
    *_, (last, _) = pursuit.grow(pursuit.PursuitTask(*case, **more))
    return last


def part(task="classes", **more):
    problems, source, kernel = rows(task, **more)
    return pursuit.part_of(problems, source, kernel, np.arange(source.n_rows), 1.0)


@pytest.mark.parametrize("task", ["classes", "three", "regression"])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_gradient_is_that_of_the_objective(task, as_sparse):
    work = part(task, as_sparse=as_sparse)
    rng = np.random.default_rng(1)
    assert sparse.issparse(work.points.values) == as_sparse
    B = np.zeros((6, work.points.values.shape[1]))
    B[:, :4] = rng.normal(size=(6, 4))
    _, K = work.solve(B)
    found = work.gradient(B, K)
    assert np.abs(found[:, 4:]).max(initial=0.0) == 0.0
    found = found[:, :4]
    step, numeric = 1e-3, np.zeros((6, 4))
    for j, c in np.ndindex(6, 4):
        ends = []
        for sign in (1, -1):
            moved = B.copy()
            moved[j, c] += sign * step
            ends.append(work.solve(moved)[0])
        numeric[j, c] = (ends[0] - ends[1]) / (2 * step)
    # Kernel values are float32: differences of F carry 1e-6 of it.
    scale = np.abs(numeric).max()
    np.testing.assert_allclose(found, numeric, atol=2e-2 * scale)


def test_objective_is_the_least_over_the_weights():
    work = part()
    B = np.random.default_rng(2).normal(size=(5, 4))
    value, K = work.solve(B)
    own = work.basis_points(B, np.float64)
    G = work.kernel.block(own, own)
    terms = work.terms[0]

    def objective(flat):
        c, bias = flat[:-1], flat[-1]
        excess = np.maximum(1 - terms.sign * (K @ c + bias), 0)
        return (c @ G @ c + bias**2) / 2 + terms.omega @ excess**2 / 2

    found = minimize(objective, np.zeros(6), method="BFGS", options={"gtol": 1e-6})
    assert value == pytest.approx(found.fun, rel=1e-4)  # RIDGE and float32


@pytest.mark.parametrize("task", ["classes", "three", "regression"])
def test_moving_lowers_the_objective_and_growing_lowers_it_more(task):
    work = part(task)
    B = np.random.default_rng(3).normal(size=(8, 4))
    before, _ = work.solve(B)
    deadline = Deadline.of(Progress(400))
    moved = move(work, B, 10, deadline, pursuit.SMALL_PLAN, is_last=False)
    after, _ = work.solve(moved)
    assert after < 0.9 * before
    problems, source, kernel = rows(task)
    values = []
    for size in (4, 16):
        vectors = grown(
            problems,
            source,
            kernel,
            size,
            Progress(400),
            np.random.default_rng(0),
            np.arange(400),
        )
        values.append(part(task).solve(kernel.row_map(vectors, np.float64))[0])
    assert values[1] < values[0]


@pytest.mark.parametrize("task", ["classes", "three", "regression"])
@pytest.mark.parametrize("far", [-0.3, 0.1, 10.0])
def test_rows_left_out_have_no_loss_unless_they_are_violated(task, far):
    # far < 0 leaves violated rows out, where that is allowed: the control.
    work = part(task)
    B = work.points.values[:60].astype(float)
    value, K = work.solve(B)
    whole = work.gradient(B, K)
    near, (told, few) = rows_to_move_for(work, far, value, K)
    assert told == value
    assert len(few) == len(near)
    assert (len(near) < len(work)) == (task != "regression" and far < 1)
    gradient = near.gradient(B, few)
    close = np.allclose(gradient, whole, rtol=1e-4, atol=1e-4 * np.abs(whole).max())
    assert close == (task == "regression" or far > 0)
    if close:
        again, _ = near.solve(B)
        assert again == pytest.approx(value, rel=NEARLY_SOLVED)


@pytest.mark.parametrize("seconds_ago", [0.0, 2e3])
def test_moves_end_at_the_deadline_with_the_weights_of_their_vectors(seconds_ago):
    progress = Progress(400, max_time=1e3)
    progress.started -= seconds_ago
    work, B = part(), np.random.default_rng(3).normal(size=(8, 4))
    deadline = Deadline(progress, 1e3)
    moved = move(work, B, 5, deadline, pursuit.SMALL_PLAN, is_last=True)
    assert np.allclose(moved, B, rtol=1e-12) == (seconds_ago > 0)
    values = work.block(work.basis_points(moved)) @ work.c + work.v[0][8]
    other = part()
    other.solve(moved)
    wanted = other.block(other.basis_points(moved)) @ other.c + other.v[0][8]
    np.testing.assert_allclose(values, wanted, atol=pursuit.NEWTON.value_tolerance)


def test_fewer_vectors_move_where_there_is_little_time():
    problems, source, kernel = rows("classes")
    rng, progress = np.random.default_rng(0), Progress(400, max_time=1.0)
    given = problems, source, kernel, 64, progress, rng, np.arange(400)
    task = pursuit.PursuitTask(*given)
    assert pursuit.moving_in_time(task, 64, 1e9) == 64
    assert pursuit.moving_in_time(task, 64, 0.0) == pursuit.MIN_MOVING
    times = [10.0**power for power in range(-6, 3)]
    counts = [pursuit.moving_in_time(task, 64, seconds) for seconds in times]
    assert counts == sorted(counts)
    assert len(set(counts)) > 2


def test_the_last_move_tells_its_weights_without_solving_again():
    B = np.random.default_rng(3).normal(size=(8, 4))
    works = part("three"), part("three")
    moved = [
        move(work, B, 5, Deadline.of(Progress(400)), pursuit.SMALL_PLAN, is_last)
        for work, is_last in zip(works, (False, True), strict=True)
    ]
    np.testing.assert_array_equal(*moved)
    values = [
        work.block(work.basis_points(moved[0])) @ work.c + [v[8] for v in work.v]
        for work in works
    ]
    # Weights are solved until no value moves by more than 0.03.
    np.testing.assert_allclose(*values, atol=pursuit.NEWTON.value_tolerance)


@pytest.mark.parametrize(
    ("size", "n_problems", "plan"),
    [
        (5, 10, pursuit.SMALL_PLAN),
        (16, 1, pursuit.SMALL_PLAN),
        (17, 1, pursuit.MEDIUM_PLAN),
        (400, 10, pursuit.MEDIUM_PLAN),
        (401, 10, pursuit.SHARED_PLAN),
        (2001, 10, pursuit.VAST_PLAN),
        (401, 2, pursuit.LARGE_PLAN),
        (5000, 1, pursuit.LARGE_PLAN),
    ],
)
def test_plan_goes_by_vectors_and_problems(size, n_problems, plan):
    assert pursuit.plan_for(size, n_problems) == plan


def test_shared_basis_out_of_time_ends_with_the_first_of_few_vectors():
    problems, source, kernel = rows("three", n=6000)
    progress, size = Progress(6000), 1100
    case = problems, source, kernel, size, progress, np.random.default_rng(0)
    assert pursuit.plan_for(size, len(problems)) == pursuit.SHARED_PLAN
    progress.max_time = 0.0  # one stage, of as few vectors as move in any case
    found = grown(*case, np.arange(6000))
    assert len(found) == pursuit.MIN_MOVING // pursuit.SMALL_PLAN.stages


def test_vectors_come_back_in_the_units_of_the_rows():
    near, far = rows(), rows(shift=1e6)
    found = [
        grown(*case, 8, Progress(400), np.random.default_rng(0), np.arange(400))
        for case in (near, far)
    ]
    # float32 rows after the shift by their mean: 1e-5 of their size.
    np.testing.assert_allclose(found[1] - 1e6, found[0], atol=0.05)


def test_rows_of_no_weight_are_never_looked_at():
    problems, source, kernel = rows()
    present = np.arange(0, 400, 2)
    others = source.take(np.arange(400)).values.copy()
    others[1::2] = np.nan
    torn = as_source(others, 2**28, Workers(1))
    found = [
        grown(
            problems, one, kernel, 5, Progress(400), np.random.default_rng(0), present
        )
        for one in (source, torn)
    ]
    np.testing.assert_array_equal(*found)


def test_sparse_rows_with_few_columns_are_worked_on_dense():
    problems, source, kernel = rows(as_sparse=True)
    dense = as_source(source.take(np.arange(400)).values[:, :4].tocsr(), 2**28)
    narrow = make_kernel("rbf", 0.3, 3, 0.0, row_statistics(dense))
    part = pursuit.part_of(problems, dense, narrow, np.arange(400), 1.0)
    assert not sparse.issparse(part.points.values)
    wide = pursuit.part_of(problems, source, kernel, np.arange(400), 1.0)
    B = np.zeros((5, 204))
    B[:, :4] = np.random.default_rng(2).normal(size=(5, 4))
    assert part.solve(B[:, :4])[0] == pytest.approx(wide.solve(B)[0], rel=1e-5)


def test_duplicated_rows_give_fewer_vectors_and_no_error():
    X = np.repeat(np.eye(3), 50, axis=0)
    source = as_source(X, 2**28, Workers(1))
    kernel = make_kernel("rbf", 1.0, 3, 0.0, row_statistics(source))
    problem = two_class(Labels(150, np.repeat([0, 1, 1], 50)), 10.0, 1, 0)
    vectors = grown(
        [problem],
        source,
        kernel,
        20,
        Progress(150),
        np.random.default_rng(0),
        np.arange(150),
    )
    assert 1 <= len(vectors) <= 20
    assert np.isfinite(vectors).all()


def test_growing_ends_when_the_certificate_of_all_rows_meets_tol():
    # Four blobs, easy: a gap of a tenth needs few vectors.
    rng = np.random.default_rng(5)
    corners = rng.integers(0, 2, size=(3000, 2))
    X = corners * 4.0 + rng.normal(scale=0.5, size=(3000, 2))
    y = corners[:, 0] ^ corners[:, 1]
    own = {"gamma": 0.2, "C": 1.0, "random_state": 0, "method": methods.FewVectors(64)}
    easy = CoreVectorClassifier(tol=0.1, **own).fit(X, y)
    assert easy.certificate_.converged
    assert easy.certificate_.n_verified == 3000
    assert most_vectors(easy) < 64
    assert certify(easy, X, y).relative_gap <= 0.1
    hard = CoreVectorClassifier(tol=1e-12, **own).fit(X, y)
    assert hard.certificate_.stopped_by == "n_vectors"
    assert most_vectors(hard) == 64


def most_vectors(model):
    """Vectors that were grown; some may be in the span of others at the end."""
    return max(record["core"] for record in model.history_)


def test_gap_told_by_the_candidates_is_that_of_the_rows_worked_on():
    work = part()
    B = np.random.default_rng(2).normal(size=(12, 4))
    value, K = work.solve(B)
    found = draw_candidates(work, B, 400, np.random.default_rng(0))
    r = work.pulls[:, 0]
    exact = work.kernel.block(work.points, work.points).astype(float)
    norm_sq = r @ exact @ r - 2 * r @ (K @ work.c[:, 0])
    f = work.c[:, 0] @ (work.factor @ work.factor.T) @ work.c[:, 0]
    gap = relative_gap(value, value - (norm_sq + f) / 2)
    assert found.gap == pytest.approx(gap, rel=NEARLY_SOLVED)


def test_growing_many_vectors_stays_within_the_budget():
    # 8 candidates per vector, 1600 a stage, would be 40 MB of kernel values.
    problems, whole, kernel = rows(n=6000)
    source = as_source(whole.take(np.arange(6000)).values, 2**24, Workers(1))
    size, rng = 400, np.random.default_rng(0)
    few = problems, source, kernel, 30, Progress(6000), np.random.default_rng(1)
    grown(*few, np.arange(6000))  # what is compiled now is not counted
    tracemalloc.start()
    found = grown(problems, source, kernel, size, Progress(6000), rng, np.arange(6000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) > size / 2
    # Beside the budget: some matrices of the vectors themselves.
    assert peak < 2**24 + 8 * 8 * size**2


def test_rows_that_do_not_fit_are_the_farthest_from_the_margin():
    rng = np.random.default_rng(0)
    rows, violation = np.arange(100) * 7, rng.uniform(-0.7, 0.5, 100)
    every, stands_for = pursuit.nearest_rows(rows, violation, 100, rng)
    np.testing.assert_array_equal(every, rows)
    assert stands_for == 1.0
    within = np.count_nonzero(violation > -pursuit.NEAREST_BAND)
    found, stands_for = pursuit.nearest_rows(rows, violation, within + 5, rng)
    nearest = np.argsort(-violation)[: within + 5]
    np.testing.assert_array_equal(found, np.sort(rows[nearest]))
    assert stands_for == 1.0


def test_a_random_part_stands_for_all_where_too_many_rows_are_near():
    rng = np.random.default_rng(0)
    rows, violation = np.arange(1000), rng.uniform(-0.7, 0.5, 1000)
    found, stands_for = pursuit.nearest_rows(rows, violation, 200, rng)
    assert len(np.unique(found)) == 200
    assert stands_for == 5.0
    # Their mean is that of all rows, to four of its deviations: 0.35 / sqrt(200).
    assert abs(violation[found].mean() - violation.mean()) < 0.1


@pytest.mark.parametrize(("shares", "pairs"), [(8, 3), (31, 6), (1000, 10)])
def test_past_steps_that_are_kept_fit_the_budget(shares, pairs):
    problems, source, kernel = rows(n=200)
    part = pursuit.part_of(problems, source, kernel, np.arange(200), 1.0)
    B = np.zeros((10, source.n_features))
    part = replace(part, budget=float(shares * B.nbytes))
    assert pursuit.past_steps(part, B) == pairs


def budget_for(moving, n_features):
    """The budget whose arrays of L-BFGS hold so many vectors."""
    return moving * pursuit.bytes_of_moves(n_features)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("moving", [4, 6])
def test_vectors_whose_moves_do_not_fit_stay_rows(as_sparse, moving):
    problems, source, kernel = rows(as_sparse=True)
    X = source.take(np.arange(400)).values
    given = X if as_sparse else X.toarray()
    source = as_source(given, budget_for(moving, X.shape[1]), Workers(1))
    case = problems, source, kernel, 20, Progress(400), np.random.default_rng(0)
    found = grown(*case, np.arange(400))
    assert sparse.issparse(found) == as_sparse
    found = found.toarray() if as_sparse else found
    assert found.shape == (20, X.shape[1])
    away = np.abs(found[:, None] - X.toarray()).max(axis=2).min(axis=1)
    assert away[moving:].max() < 1e-6  # rows are worked on in float32
    assert away[:moving].min() > 1e-3


def test_a_budget_too_small_for_moves_moves_four_vectors():
    problems, source, _ = rows(budget=1000)
    plan, moving = pursuit.plan_that_fits(50, len(problems), source)
    assert (plan, moving) == (pursuit.SMALL_PLAN, pursuit.MIN_MOVING)


def test_most_of_a_vast_basis_stays_rows():
    _, source, _ = rows(budget=2**30)
    found = pursuit.plan_that_fits(4000, 10, source)
    assert found == (pursuit.VAST_PLAN, pursuit.VAST_PLAN.most_moving)
    assert pursuit.plan_that_fits(1000, 10, source) == (pursuit.SHARED_PLAN, 1000)
    _, source, _ = rows(budget=budget_for(999, 4))
    assert pursuit.plan_that_fits(4000, 10, source) == (pursuit.VAST_PLAN, 999)


def test_text_is_pursued_within_the_budget_and_the_vectors():
    rng = np.random.default_rng(0)
    X = sparse.random(1500, 20_000, 0.005, "csr", rng=rng)
    y = np.asarray(X[:, :9000].sum(axis=1) > X[:, 9000:].sum(axis=1)).ravel()
    budget = 2**25  # eight vectors
    model = CoreVectorClassifier(
        gamma=0.05,
        C=10.0,
        memory_budget=budget,
        random_state=0,
        method=methods.FewVectors(300),
    )
    clone(model).set_params(method__n_vectors=10).fit(
        X, y
    )  # what is compiled is not counted
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 300 dense vectors have 48 MB, and are made twice for their kernel values: for the
    # basis, and for its functions. All moved, they took 25 times that.
    assert peak < budget + 2 * 300 * 20_000 * 8
    assert sparse.issparse(model.support_vectors_)
    assert model.support_vectors_.shape == (300, 20_000)
    assert model.score(X, y) > 0.95
