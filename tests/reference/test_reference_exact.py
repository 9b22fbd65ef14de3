"""SMO and SimpleSVM are exact: against SVC, weak duality and each other."""

import warnings

import hypothesis.strategies as st
import naive
import numpy as np
import pandas as pd
import pytest
import strategies
from hypothesis import assume, given, settings
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import InvalidInputError, NotCertifiedWarning
from corevec.data.sources import as_source
from corevec.kernels import make_kernel
from corevec.reference import SMO, Box, Descent, FreeRows, KernelRows, SimpleSVM

# Both stop by a violation in units of f. scikit-learn compares repeated with weighted
# rows to 1e-7, which a violation of 1e-10 allows on its 15 rows; SMO's default of 1e-3
# does not. SimpleSVM solves its free rows exactly whatever its tol.
TIGHT = 1e-10
BOTH = [SMO, SimpleSVM]
# C above 1e3 with k(x, x) near 1e3 leaves no digits for a violation of 1e-10: rounding
# of the gradient alone is n k C 2e-16.
PENALTIES = strategies.penalties(-3.0, 3.0)


def multipliers(model, n):
    """Return alpha_i y_i of all rows of a model with one machine."""
    b = np.zeros(n)
    b[model.support_] = model.dual_coef_[0]
    return b


def values_of(loss, K, y, C, b, bias):
    """Return (primal, dual) of the problem in the docstring, from its definition.

    `C` is one number per row, 0 where the row is absent.
    """
    f = K @ b + bias
    slack = np.maximum(0.0, 1.0 - y * f)
    norm_sq = b @ K @ b
    if loss == "hinge":
        return norm_sq / 2 + C @ slack, np.abs(b).sum() - norm_sq / 2
    here = C > 0
    ridge = (b[here] ** 2 / C[here]).sum()
    primal = norm_sq / 2 + C @ slack**2 / 2
    return primal, np.abs(b).sum() - (norm_sq + ridge) / 2


def assert_exact(model, problem, loss="hinge", relative=1e-5):
    """The multipliers are feasible and the gap that they prove is small."""
    n = len(problem.y)
    s = np.ones(n) if problem.s is None else problem.s
    C, b = problem.C * s, multipliers(model, n)
    bound = C if loss == "hinge" else np.where(C > 0, np.inf, 0.0)
    assert (b * problem.y >= 0).all()
    assert (np.abs(b) <= bound * (1 + 1e-12)).all()
    assert abs(b.sum()) <= 1e-12 * max(np.abs(b).sum(), 1e-3)
    bias = model.intercept_[0]
    primal, dual = values_of(loss, problem.K, problem.y, C, b, bias)
    assert dual <= primal * (1 + 1e-9)
    assert primal - dual <= relative * primal
    return primal


def svc_objective(K, y, C, s=None):
    """Return the dual objective that SVC reaches on a kernel matrix.

    It keeps K in float32, so that a violation of 1e-8 can be out of its reach: where a
    million steps did not do, it is no witness (1000 for an optimum of 1200, once).
    """
    if s is not None:
        # SVC's support_ counts the rows of positive weight only.
        K, y, s = K[np.ix_(s > 0, s > 0)], y[s > 0], s[s > 0]
    model = SVC(C=C, kernel="precomputed", tol=1e-8, max_iter=10**6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(K, y, sample_weight=s)
    assume(model.fit_status_ == 0)
    b = np.zeros(len(y))
    b[model.support_] = model.dual_coef_[0]
    return np.abs(b).sum() - b @ K @ b / 2


@pytest.mark.parametrize("solver", BOTH)
@given(problem=strategies.problems(C=PENALTIES))
def test_the_hinge_objective_is_that_of_svc(solver, problem):
    model = solver(tol=TIGHT, **problem.params)
    model.fit(problem.X, problem.y, sample_weight=problem.s)
    primal = assert_exact(model, problem)
    theirs = svc_objective(problem.K, problem.y, problem.C, problem.s)
    assert primal == pytest.approx(theirs, rel=1e-5)


@given(problem=strategies.problems(C=PENALTIES))
def test_the_squared_hinge_is_the_hard_margin_with_a_ridge(problem):
    """1/(C s) on the diagonal and no bound: what SVC solves at a C out of reach."""
    model = SMO("squared_hinge", tol=TIGHT, **problem.params)
    model.fit(problem.X, problem.y, sample_weight=problem.s)
    primal = assert_exact(model, problem, "squared_hinge")
    s = np.ones(len(problem.y)) if problem.s is None else problem.s
    here = s > 0
    ridge = np.diag(1.0 / (problem.C * s[here]))
    K = problem.K[np.ix_(here, here)] + ridge
    # Its K is float32, in which 1/C is lost beside k(x, x) near 1e3 for larger C; the
    # bracket of `assert_exact` stands for every C.
    if problem.C <= 1:
        theirs = svc_objective(K, problem.y[here], 1e12)
        assert primal == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("shrinking", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_default_tolerance_keeps_its_promise_on_a_noisy_problem(loss, shrinking):
    """No pair violates by more than tol: the gap is below tol sum (C_i + alpha_i)."""
    X, y = strategies.checkerboard(600)
    y[::7] *= -1
    problem = strategies.Problem(X, y, None, 3.0, {"kernel": "rbf", "gamma": 1.0})
    model = SMO(loss, shrinking=shrinking, **problem.params).fit(X, y)
    b = multipliers(model, len(y))
    C = np.full(len(y), problem.C)
    primal, dual = values_of(loss, problem.K, y, C, b, model.intercept_[0])
    assert 0 <= primal - dual <= 1e-3 * (C.sum() + np.abs(b).sum())
    assert model.fit_status_ == 0


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_shrinking_and_a_small_store_change_nothing(loss):
    X, y = strategies.checkerboard(500)
    y[::5] *= -1
    problem = strategies.Problem(X, y, None, 10.0, {"kernel": "rbf", "gamma": 1.0})
    plain = SMO(loss, tol=1e-6, shrinking=False, **problem.params).fit(X, y)
    plain = assert_exact(plain, problem, loss)
    for other in ({"shrinking": True}, {"shrinking": False, "cache_size": 0.02}):
        model = SMO(loss, tol=1e-6, **other, **problem.params).fit(X, y)
        assert assert_exact(model, problem, loss) == pytest.approx(plain, rel=1e-6)


def test_shrinking_with_a_small_store_and_many_columns(rng):
    """Rows are then made several at a time, and some are pushed out unread."""
    X = rng.normal(size=(400, 30))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=400) > 0, 1, -1)
    problem = strategies.Problem(X, y, None, 5.0, {"kernel": "rbf", "gamma": 0.02})
    primal = [
        assert_exact(
            SMO(tol=1e-6, cache_size=c, shrinking=s, **problem.params).fit(X, y),
            problem,
        )
        for c, s in ((200, False), (0.15, False), (0.15, True))
    ]
    assert primal == pytest.approx([primal[0]] * 3, rel=1e-6)


def test_shrinking_leaves_rows_out_and_takes_them_back():
    X, y = strategies.checkerboard(500)
    K = naive.gram(X, gamma=1.0)
    rows = KernelRows(make_kernel("rbf", 1.0), as_source(X), 1e6)
    run = Descent(rows, Box.of("hinge", y * 1.0, np.full(500, 1.0)), tol=1e-6)
    run._step_until(600)
    run._write_back()
    run._shrink()
    assert 2 <= len(run.active) <= 400
    run._step_until(700)
    run._write_back()
    run._take_all_rows()
    assert len(run.active) == 500
    assert run.g == pytest.approx(K @ run.b - y, abs=1e-10)


def test_simple_svm_finds_the_same_through_small_windows():
    X, y = strategies.checkerboard(700)
    y[::6] *= -1
    problem = strategies.Problem(X, y, None, 10.0, {"kernel": "rbf", "gamma": 1.0})
    primal = [
        assert_exact(
            SimpleSVM(tol=1e-6, cache_size=c, **problem.params).fit(X, y), problem
        )
        for c in (200, 0.05)
    ]
    assert primal[0] == pytest.approx(primal[1], rel=1e-6)


@pytest.mark.parametrize("gamma", [0.37, 1.0])
def test_simple_svm_is_exact_at_a_large_C_and_with_a_hard_margin(gamma):
    """The setting of Loosli and Canu, where SVC needs a million steps."""
    X, y = strategies.checkerboard(150)
    problem = strategies.Problem(X, y, None, 1e5, {"kernel": "rbf", "gamma": gamma})
    assert_exact(SimpleSVM(tol=1e-6, **problem.params).fit(X, y), problem)
    model = SimpleSVM(np.inf, gamma=gamma, tol=1e-6).fit(X, y)
    b = multipliers(model, len(y))
    assert (y * (problem.K @ b + model.intercept_[0])).min() >= 1 - 2e-6
    assert b @ problem.K @ b == pytest.approx(np.abs(b).sum(), rel=1e-5)


@given(
    X=strategies.clouds(min_rows=4, max_columns=3),
    kernel=strategies.kernels([*strategies.DISTANCE_KERNELS[:2], {"kernel": "linear"}]),
    gap=st.sampled_from([0.3, 3.0]),
)
def test_the_hard_margin_is_that_of_svc_on_separable_rows(X, kernel, gap):
    y = np.where(np.arange(len(X)) % 2, 1, -1)
    X = np.column_stack([gap * y, X])
    model = SimpleSVM(np.inf, tol=1e-8, **kernel).fit(X, y)
    K = naive.gram(X, **kernel)
    b = multipliers(model, len(y))
    assert (y * (K @ b + model.intercept_[0])).min() >= 1 - 1e-7
    ours = np.abs(b).sum() - b @ K @ b / 2
    assert ours == pytest.approx(svc_objective(K, y, 1e8), rel=1e-5)


@pytest.mark.parametrize("model", [SMO(), SMO("squared_hinge"), SimpleSVM()])
@given(problem=strategies.problems(C=PENALTIES, weighted=False))
@settings(max_examples=15)
def test_weights_are_repetitions(model, problem):
    loss = getattr(model, "loss", "hinge")
    model.set_params(tol=TIGHT, **problem.params)
    rng = np.random.default_rng(len(problem.y))
    s = rng.integers(0, 4, size=len(problem.y))
    s[[np.argmax(problem.y), np.argmin(problem.y)]] = 2
    weighted = model.fit(problem.X, problem.y, sample_weight=s)
    with_weights = strategies.Problem(
        problem.X, problem.y, s.astype(float), problem.C, problem.kernel
    )
    ours = assert_exact(weighted, with_weights, loss)
    repeated = strategies.Problem(
        problem.X.repeat(s, axis=0),
        problem.y.repeat(s),
        None,
        problem.C,
        problem.kernel,
    )
    theirs = assert_exact(model.fit(repeated.X, repeated.y), repeated, loss)
    assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("solver", BOTH)
def test_sparse_pandas_and_dense_rows_give_one_machine(solver, rng):
    X = rng.normal(size=(80, 12)) * (rng.random((80, 12)) < 0.4)
    y = np.where(X.sum(axis=1) > 0, "yes", "no")
    dense = solver(tol=1e-8, gamma=0.3).fit(X, y)
    assert set(dense.predict(X)) == {"yes", "no"}
    names = [f"column {j}" for j in range(12)]
    for other in (
        sparse.csr_array(X),
        sparse.coo_matrix(X),
        pd.DataFrame(X, columns=names),
    ):
        model = solver(tol=1e-8, gamma=0.3).fit(other, y)
        got = model.decision_function(other)
        assert got == pytest.approx(dense.decision_function(X), abs=1e-6)


@pytest.mark.parametrize("solver", BOTH)
def test_a_precomputed_and_a_callable_kernel_are_the_kernel(solver, rng):
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    K = naive.gram(X, gamma=0.7)
    named = solver(tol=1e-8, gamma=0.7).fit(X, y).decision_function(X)
    given_matrix = solver(tol=1e-8, kernel="precomputed").fit(K, y)
    assert given_matrix.decision_function(K) == pytest.approx(named, abs=1e-6)
    function = solver(tol=1e-8, kernel=lambda A, B: naive.gram(A, B, gamma=0.7))
    assert function.fit(X, y).decision_function(X) == pytest.approx(named, abs=1e-6)


@pytest.mark.parametrize("solver", BOTH)
def test_several_classes_are_one_against_the_rest(solver, rng):
    X = rng.normal(size=(90, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])]
    model = solver(C=2.0, tol=1e-8).fit(X, y)
    values = model.decision_function(X)
    assert values.shape == (90, 3)
    for column, label in zip(values.T, "abc", strict=True):
        alone = SVC(C=2.0, tol=1e-8).fit(X, y == label).decision_function(X)
        assert column == pytest.approx(alone, abs=1e-6)
    assert (model.predict(X) == model.classes_[values.argmax(axis=1)]).all()
    assert model.n_support_.sum() == len(model.support_)


@pytest.mark.parametrize("solver", BOTH)
def test_class_weights_are_those_of_svc(solver, rng):
    X = rng.normal(size=(70, 2))
    y = np.where(X[:, 0] + rng.normal(size=70) > 0.8, 1, 0)
    for class_weight in ("balanced", {0: 0.3, 1: 4.0}):
        ours = solver(tol=1e-8, class_weight=class_weight).fit(X, y)
        theirs = SVC(tol=1e-8, class_weight=class_weight).fit(X, y)
        assert ours.decision_function(X) == pytest.approx(
            theirs.decision_function(X), abs=1e-6
        )


def test_the_linear_kernel_has_coefficients(rng):
    X = rng.normal(size=(50, 3))
    y = np.where(X[:, 0] > 0.2 * rng.normal(size=50), 1, -1)
    for model in (SMO(kernel="linear"), SimpleSVM(kernel="linear")):
        by_hand = X @ model.fit(X, y).coef_[0] + model.intercept_[0]
        assert model.decision_function(X) == pytest.approx(by_hand, abs=1e-10)


@pytest.mark.parametrize("solver", BOTH)
def test_what_cannot_be_fitted_is_said(solver):
    X, y = strategies.checkerboard(40)
    with pytest.raises(InvalidInputError, match=r"\[1\].* 2"):
        solver().fit(X, np.ones(40, dtype=int))
    with pytest.raises(InvalidInputError, match=r"C=-1"):
        solver(C=-1.0).fit(X, y)
    with pytest.raises(InvalidInputError, match="max_iter=0"):
        solver(max_iter=0).fit(X, y)
    with pytest.raises(InvalidInputError, match="weight"):
        solver().fit(X, y, sample_weight=-np.ones(40))
    with pytest.raises(InvalidInputError, match="cache_size=0"):
        solver(cache_size=0).fit(X, y)


def test_a_hard_margin_that_does_not_exist_is_said():
    X, y = strategies.checkerboard(40)
    with pytest.raises(InvalidInputError, match="SimpleSVM: C=inf"):
        SimpleSVM(np.inf, kernel="linear").fit(X, y)
    twice = np.vstack([X, X[:1]])
    with pytest.raises(InvalidInputError, match="does not separate"):
        SimpleSVM(np.inf, gamma=1.0).fit(twice, np.append(y, -y[0]))


@pytest.mark.parametrize("solver", BOTH)
def test_too_few_steps_are_told_with_what_is_left(solver):
    X, y = strategies.checkerboard(200)
    model = solver(C=100.0, max_iter=5)
    with pytest.warns(NotCertifiedWarning, match="max_iter=5"):
        model.fit(X, y)
    assert model.fit_status_ == 1
    assert model.n_iter_.tolist() == [5]


@pytest.mark.parametrize("C", [1e-3, 1e-2])
def test_without_a_free_row_the_bias_is_the_middle_of_the_optimal_ones(C, rng):
    """At a small C all rows are at their bound; SVC takes the middle as well."""
    X = rng.normal(size=(200, 4))
    y = np.repeat([-1, 1], 100)[np.argsort(np.argsort(X[:, 0] + rng.normal(size=200)))]
    theirs = SVC(C=C, tol=1e-8).fit(X, y)
    ours = SimpleSVM(C=C, tol=1e-8).fit(X, y)
    assert np.abs(np.abs(ours.dual_coef_) - C).max() <= 1e-12 * C
    # SVC keeps the kernel in float32: 1e-7 of sum |alpha| <= 2.
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-6)
    assert ours.score(X, y) == theirs.score(X, y) > 0.6


def test_smo_ends_in_bounded_steps_where_kernel_values_nearly_agree(rng):
    """k(x, z) from 1e9 to 1e10 with differences near 1: no float64 descent gets there.

    SVC says that it converged: its kernel in float32 has errors near 100.
    """
    X = 100 + rng.normal(size=(20, 2))
    y = rng.permutation(np.arange(20) % 2)
    model = SMO(kernel="poly")
    with pytest.warns(NotCertifiedWarning, match="StandardScaler"):
        model.fit(X, y)
    assert model.n_iter_ == [20 * 100_000]
    assert model.fit_status_ == 1
    scaled = SMO(kernel="poly").fit(X - X.mean(axis=0), y)
    assert scaled.fit_status_ == 0


@given(data=st.data(), slots=st.integers(1, 9))
def test_the_store_returns_kernel_rows_whatever_was_asked_before(data, slots):
    X = data.draw(strategies.clouds(min_rows=3, max_rows=12))
    n = len(X)
    rows = KernelRows(make_kernel("rbf", 0.7), as_source(X), 8 * n * slots)
    K = naive.gram(X, gamma=0.7)
    assert rows.diagonal == pytest.approx(np.ones(n))
    before = None
    for i in data.draw(st.lists(st.integers(0, n - 1), max_size=30)):
        row = rows.row(i)
        assert row == pytest.approx(K[i], abs=1e-14)
        if before is not None:
            assert before[1] == pytest.approx(K[before[0]], abs=1e-14)
        before = (i, row)
    keep = np.flatnonzero(np.random.default_rng(n).random(n) < 0.6)
    narrow = rows.narrowed(keep)
    for i in range(len(keep)):
        assert narrow.row(i) == pytest.approx(K[keep[i], keep], abs=1e-14)


@given(seed=st.integers(0, 10**6), moves=st.integers(1, 25))
def test_the_free_rows_stay_solved_as_rows_come_and_go(seed, moves):
    """The direction and the correction are those of the bordered linear system."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3))
    K = naive.gram(X, gamma=0.5)
    free = FreeRows()
    for _ in range(moves):
        inside = free.members
        if len(inside) > 1 and rng.random() < 0.4:
            assert free.leave(int(rng.integers(len(inside)))) == []
        else:
            new = int(rng.choice(np.setdiff1d(np.arange(30), inside)))
            assert free.join(new, 0.0, K[new, inside], K[new, new])
        inside = free.members
        np.testing.assert_array_equal(free.K, K[np.ix_(inside, inside)])
        k, new = len(inside), int(np.setdiff1d(np.arange(30), inside)[0])
        bordered = np.ones((k + 1, k + 1))
        bordered[:k, :k], bordered[k, k] = free.K, 0.0
        way = free.direction(K[new, inside], 1.0)
        right = np.append(-K[new, inside], -1.0)
        exact = np.linalg.solve(bordered, right)
        assert np.append(way.coef, way.bias) == pytest.approx(exact, abs=1e-6)
        assert way.curvature == pytest.approx(1.0 - right @ exact, abs=1e-9)
        residual = rng.normal(size=k)
        exact = np.linalg.solve(bordered, np.append(-residual, 0.0))[:k]
        assert free.correction(residual) == pytest.approx(exact, rel=1e-6, abs=1e-6)


def test_a_row_that_is_there_twice_cannot_join_the_free_rows():
    free = FreeRows()
    assert free.join(0, 0.0, np.empty(0), 1.0)
    assert not free.join(1, 0.0, np.ones(1), 1.0)


# Its checks of class weights allow 1000 steps, too few for a violation of 1e-10.
@pytest.mark.filterwarnings("ignore::corevec.NotCertifiedWarning")
@parametrize_with_checks([SMO(tol=TIGHT), SMO("squared_hinge", tol=TIGHT), SimpleSVM()])
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)
