"""LASVM, the Ball Vector Machine and Pegasos, each against its own slow twin.

The twins follow the papers with dense matrices and nothing kept up to date; optima come
from scikit-learn's SVC, non-negative least squares and SciPy's L-BFGS-B.
"""

import copy
from itertools import product

import hypothesis.strategies as st
import naive
import numpy as np
import pytest
import reading
import strategies
from hypothesis import assume, given
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import InvalidInputError, NotCertifiedWarning
from corevec.data.sources import as_source
from corevec.kernels import make_kernel
from corevec.reference import (
    LASVM,
    Ball,
    BallVectorMachine,
    Expansion,
    KernelRows,
    Pegasos,
)

TO_THE_END = {"n_epochs": None, "tau": 1e-9}
# LASVM to the end: a step inside the box makes two gradients equal but for rounding,
# which decides what comes next, so that nothing less can be compared.
LEARNERS = [
    LASVM(C=3.0, gamma=0.5, **TO_THE_END),
    LASVM(C=3.0, gamma=0.5, **TO_THE_END, selection="gradient"),
    BallVectorMachine(C=3.0, gamma=0.5, sampling=5),
    BallVectorMachine(C=3.0, gamma=0.5, sampling=None),
    Pegasos(C=3.0),
    Pegasos(C=3.0, kernel="rbf", gamma=0.5),
]
CONSTANT = [k for k in strategies.KERNELS if naive.gram([[2.0]], **k)[0, 0] == 1.0]


def kernel_rows(K, budget=1e8):
    """Return the store of a given kernel matrix."""
    return KernelRows(make_kernel("precomputed"), as_source(np.asarray(K)), budget)


def hinge_value(model, K, y, C, s=None, *, penalised=False):
    """Return 1/2 |w|^2 + C sum s max(0, 1 - y f), the bias in |w| if penalised."""
    s = np.ones(len(y)) if s is None else s
    f, norm_sq = (
        reading.values(model, K),
        reading.norm_sq(model, K, with_bias=penalised),
    )
    return norm_sq / 2 + C * s @ np.clip(1 - y * f, 0, None)


def blobs(n, apart, seed=0):
    """Return two clouds of rows in the plane, `apart` deviations from each other."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1, -1)
    return rng.normal(size=(n, 2)) + np.outer(y, [apart / 2, 0.0]), y


# --- scikit-learn's own checks --------------------------------------------------------

CHECKED = [
    LASVM(),
    LASVM(**TO_THE_END),
    BallVectorMachine(),
    # The check of class weights, 50 rows that are not scaled, gives SGDClassifier 1000.
    Pegasos(n_epochs=300),
    Pegasos(kernel="rbf", n_epochs=20, projection=False),
]


def impossible(model):
    """Return the checks that a learner of one order of the rows cannot pass, and why.

    LASVM passes them where it goes on to the solution, which has no order.
    """
    if isinstance(model, LASVM) and model.n_epochs is None:
        return {}
    reason = "steps follow the order of the rows: twice in it is not once, twice as far"
    name = "check_sample_weight_equivalence_on_{}_data"
    return {name.format(kind): reason for kind in ("dense", "sparse")}


# The check of class weights sets max_iter=1000.
@pytest.mark.filterwarnings("ignore::corevec.NotCertifiedWarning")
@parametrize_with_checks(CHECKED, expected_failed_checks=impossible)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


# --- what all three share -------------------------------------------------------------


@pytest.mark.parametrize("model", LEARNERS, ids=str)
def test_sparse_rows_give_the_model_of_dense_rows(model):
    X, y = blobs(120, 1.5)
    # One column only: between equal rows a rounding decides which one comes next.
    X[np.abs(X[:, 0]) < 0.4, 0] = 0.0
    model = clone(model).set_params(random_state=3)
    dense = clone(model).fit(X, y).decision_function(X)
    thin = clone(model).fit(sparse.csr_matrix(X), y).decision_function(X)
    assert thin == pytest.approx(dense, abs=1e-7 * np.abs(dense).max())


@pytest.mark.parametrize("model", LEARNERS, ids=str)
def test_a_row_of_weight_zero_is_absent(model):
    X, y = blobs(90, 1.0)
    s = np.where(np.arange(90) % 5 == 0, 0.0, 1.0)
    model = clone(model).set_params(random_state=3)
    weighted = clone(model).fit(X, y, sample_weight=s)
    fewer = clone(model).fit(X[s > 0], y[s > 0])
    f = weighted.decision_function(X)
    assert fewer.decision_function(X) == pytest.approx(f, abs=1e-7 * np.abs(f).max())
    assert not np.isin(weighted.support_, np.flatnonzero(s == 0)).any()


@pytest.mark.parametrize("model", LEARNERS, ids=str)
def test_a_seed_makes_the_fit_repeatable_and_another_one_another(model):
    X, y = blobs(200, 1.0)
    first, again, other = (
        clone(model).set_params(random_state=seed).fit(X, y).decision_function(X)
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (LASVM(tau=0), r"LASVM: tau=0 must be a finite number above 0.*SVC's tol"),
        (LASVM(n_epochs=-1), r"LASVM: n_epochs=-1 .*None goes on until no row"),
        (LASVM(selection="best"), r"LASVM: selection='best' must be one of 'random'"),
        (LASVM(candidates=0), r"LASVM: candidates=0 must be a whole number"),
        (LASVM(finishing="no"), r"LASVM: finishing='no' must be True or False"),
        (BallVectorMachine(epsilon=0), r"BallVectorMachine: epsilon=0 must be"),
        (BallVectorMachine(scales=3), r"scales=3 must be one of 'halving', 'single'"),
        (BallVectorMachine(sampling=0.5), r"sampling=0.5 .* at least 1, or None"),
        (
            BallVectorMachine(kernel="linear"),
            r"BallVectorMachine: kernel='linear' has k\(x, x\) from .* 'normalized-",
        ),
        (Pegasos(C=0), r"Pegasos: C=0 must be a finite number above 0"),
        (Pegasos(batch_size=0), r"Pegasos: batch_size=0 must be a whole number"),
        (Pegasos(order="sorted"), r"Pegasos: order='sorted' must be one of 'random'"),
        (Pegasos(average=1), r"Pegasos: average=1 must be True or False"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_named(model, text):
    with pytest.raises(InvalidInputError, match=text):
        model.fit(*blobs(20, 1.0))


# --- LASVM ----------------------------------------------------------------------------


class TwinOfLASVM:
    """Section 3.2 of the paper on a dense kernel matrix; S is a list of row numbers."""

    def __init__(self, K, y, box, tau):
        self.K, self.y, self.tau = K, y, tau
        self.low, self.high = np.minimum(box * y, 0), np.maximum(box * y, 0)
        self.alpha, self.S = np.zeros(len(y)), []

    def g(self, s):
        return self.y[s] - self.K[s] @ self.alpha

    def extremes(self, choice=0):
        """Return the extreme rows; `choice` 1 to 3: the last of those equal to them."""
        up = [s for s in self.S if self.alpha[s] < self.high[s]]
        down = [s for s in self.S if self.alpha[s] > self.low[s]]
        most, least = max(map(self.g, up)), min(map(self.g, down))
        up = [s for s in up if self.g(s) > most - 1e-12]
        down = [s for s in down if self.g(s) < least + 1e-12]
        return up[-(choice % 2)], down[-(choice // 2)]

    def step(self, i, j):
        if self.g(i) - self.g(j) <= self.tau:
            return False
        curve = self.K[i, i] + self.K[j, j] - 2 * self.K[i, j]
        move = (self.g(i) - self.g(j)) / max(curve, 1e-12)
        move = min(move, self.high[i] - self.alpha[i], self.alpha[j] - self.low[j])
        self.alpha[i] += move
        self.alpha[j] -= move
        for s in (i, j):
            for end in (self.low[s], 0.0, self.high[s]):
                if abs(self.alpha[s] - end) < 1e-14:
                    self.alpha[s] = end
        return True

    def process(self, k, choice=0):
        if k in self.S:
            return
        i, j = self.extremes(choice)
        i, j = (k, j) if self.y[k] > 0 else (i, k)
        self.step(i, j)
        self.S.append(k)

    def reprocess(self, choice=0):
        stepped = self.step(*self.extremes(choice))
        i, j = self.extremes()
        least, most = sorted([self.g(i), self.g(j)])
        self.S = [
            s
            for s in self.S
            if self.alpha[s] != 0
            or (self.g(s) >= least if self.y[s] > 0 else self.g(s) <= most)
        ]
        return stepped


def multipliers(S):
    alpha = np.zeros(len(S.y))
    alpha[S.index] = S.alpha
    return alpha


@pytest.mark.parametrize("budget", [1e8, 1.0], ids=["all kept", "two lines kept"])
def test_lasvm_takes_the_steps_of_its_twin(rng, budget):
    """All numbers are multiples of 2^-27, and every step ends at a bound: no rounding.

    ``tau / curve > 1/128 >=`` the room of a step, since curve < 64.
    """
    n = 150
    X = np.round(np.clip(rng.normal(size=(n, 2)), -2.8, 2.8) * 1024) / 1024
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    K, box = X @ X.T, rng.choice([1 / 128, 1 / 256], size=n)
    twin = TwinOfLASVM(K, y, box, 0.5)
    found = Expansion(kernel_rows(K, budget), y, box, 0.5, 10**9)
    twin.S = [*np.flatnonzero(y > 0)[:2], *np.flatnonzero(y < 0)[:2]]
    found.seed(np.array(twin.S))
    order = np.concatenate([rng.permutation(n), rng.permutation(n)])
    # Blocks that end anywhere: a row that is in S already, comes twice in a block or
    # leaves S within it must make no difference.
    for block in np.split(order, [7, 60, 61, 190, 191]):
        for k in block:
            twin.process(k)
            twin.reprocess()
        assert found.online(block)
        assert np.array_equal(multipliers(found), twin.alpha)
        assert sorted(found.index) == sorted(twin.S)
    assert 20 < len(twin.S) < n
    while twin.reprocess():
        pass
    assert found.finish()
    assert np.array_equal(multipliers(found), twin.alpha)
    most, least = (twin.g(s) for s in twin.extremes())
    assert (found.delta, found.bias) == (most - least, (most + least) / 2)
    assert found.delta <= 0.5


def test_a_step_of_lasvm_is_one_of_its_twin_also_inside_the_box(rng):
    """From the same state each time; gradients that are equal leave a choice."""
    X, y = blobs(80, 1.0)
    K, y, box = naive.gram(X, gamma=0.7), y.astype(float), np.full(80, 2.0)
    twin = TwinOfLASVM(K, y, box, 1e-3)
    found = Expansion(kernel_rows(K), y, box, 1e-3, 10**9)
    twin.S = [0, 1, 2, 3]
    found.seed(np.arange(4))
    n_inside = 0
    for k in rng.permutation(80):
        assert found.online(np.array([k]))
        outcomes = []
        for first, second in product(range(4), range(4)):
            other = copy.deepcopy(twin)
            other.process(k, first)
            other.reprocess(second)
            outcomes.append(other)
        alpha = multipliers(found)
        near = [np.abs(alpha - other.alpha).max() for other in outcomes]
        assert min(near) < 1e-12
        twin = outcomes[int(np.argmin(near))]
        n_inside += np.count_nonzero((alpha != 0) & (np.abs(alpha) != 2.0)) > 2
    assert n_inside > 40
    assert sorted(found.index) == sorted(twin.S)


# C up to 10: at 1000, rows that are nearly equal ask for 10^7 steps and more of pairs
# that are chosen by their gradients alone.
@given(strategies.problems(C=strategies.penalties(-2, 1), min_rows=3))
def test_lasvm_to_the_end_has_the_objective_of_svc(problem):
    K, y, C = problem.K, problem.y, problem.C
    s = np.ones(len(y)) if problem.s is None else problem.s
    model = LASVM(**problem.params, n_epochs=None, tau=1e-8, random_state=0)
    model.fit(problem.X, y, sample_weight=s)
    here = s > 0  # SVC mistakes rows of a kernel matrix where some weigh nothing
    Q, z, w = K[np.ix_(here, here)], y[here], s[here]
    exact = SVC(kernel="precomputed", C=C, tol=1e-7).fit(Q, z, sample_weight=w)
    best, found = hinge_value(exact, Q, z, C, w), hinge_value(model, K, y, C, s)
    # One side only: LIBSVM keeps kernel values in float32, ends above the optimum, and
    # cannot do better (1e-10 runs into its limit of 10^7 steps).
    assert found <= best * (1 + 1e-5)
    # The other side: the multipliers are feasible, and their dual value proves it.
    c = reading.coefficients(model)
    assert abs(c.sum()) <= 1e-9 * C
    alpha = y[model.support_] * c
    assert ((alpha >= 0) & (alpha <= C * s[model.support_] * (1 + 1e-12))).all()
    dual = alpha.sum() - reading.norm_sq(model, K, with_bias=False) / 2
    assert found - dual <= 1e-6 * found + 1e-8 * C * s.sum()


@pytest.mark.parametrize("selection", ["random", "margin", "gradient"])
def test_lasvm_to_the_end_does_not_depend_on_the_selection(selection):
    X, y = blobs(200, 1.5)
    model = LASVM(selection=selection, **TO_THE_END, random_state=0).fit(X, y)
    exact = SVC(tol=1e-10).fit(X, y)
    f = exact.decision_function(X)
    assert model.decision_function(X) == pytest.approx(f, abs=1e-6)


def test_one_epoch_of_lasvm_comes_near():
    X, y = strategies.checkerboard(2000)
    Z, labels = strategies.checkerboard(2000, seed=1)
    params = {"C": 10.0, "gamma": 2.0}
    once = LASVM(**params, random_state=0).fit(X, y)
    exact = SVC(**params, tol=1e-6).fit(X, y)
    K = naive.gram(X, gamma=2.0)
    best = hinge_value(exact, K, y, 10.0)
    # The paper's claim is about the test error: one epoch has that of LIBSVM.
    assert once.score(Z, labels) == pytest.approx(exact.score(Z, labels), abs=0.01)
    assert best * (1 - 1e-6) <= hinge_value(once, K, y, 10.0) <= 1.05 * best


@pytest.mark.parametrize("selection", ["margin", "gradient"])
def test_active_selection_finds_the_margin_in_few_picks(selection):
    X, y = blobs(2000, 8.0)
    K, C = X @ X.T, 100.0
    params = {"C": C, "kernel": "linear", "n_epochs": 0.02, "random_state": 0}
    best = hinge_value(SVC(C=C, kernel="linear", tol=1e-8).fit(X, y), K, y, C)
    picked = hinge_value(LASVM(**params, selection=selection).fit(X, y), K, y, C)
    anyhow = hinge_value(LASVM(**params).fit(X, y), K, y, C)
    assert picked - best < 0.1 * (anyhow - best)


def test_lasvm_within_a_small_cache_is_the_same_machine():
    X, y = blobs(400, 0.5)
    large, small = (
        LASVM(C=5.0, cache_size=size, random_state=0).fit(X, y) for size in (200, 0.02)
    )
    assert small.dual_coef_ == pytest.approx(large.dual_coef_, abs=1e-9)
    assert small.n_iter_ == large.n_iter_


def test_lasvm_says_when_it_was_cut_short():
    X, y = blobs(200, 0.5)
    with pytest.warns(NotCertifiedWarning, match=r"LASVM: .*max_iter=20\b"):
        model = LASVM(max_iter=20, random_state=0).fit(X, y)
    assert model.n_iter_ == [20]
    assert model.fit_status_ == 1
    assert LASVM(random_state=0).fit(X, y).fit_status_ == 0


def test_lasvm_ends_in_bounded_steps_where_kernel_values_nearly_agree(rng):
    X = 100 + rng.normal(size=(20, 2))
    y = rng.permutation(np.arange(20) % 2)
    model = LASVM(kernel="poly", random_state=0)
    with pytest.warns(NotCertifiedWarning, match="StandardScaler"):
        model.fit(X, y)
    assert model.n_iter_ == [20 * 100_000]
    assert model.fit_status_ == 1


@pytest.mark.parametrize("C", [1e-3, 1e-2])
def test_lasvm_without_a_free_row_takes_the_middle_of_the_optimal_biases(C, rng):
    X = rng.normal(size=(200, 4))
    y = np.repeat([-1, 1], 100)[np.argsort(np.argsort(X[:, 0] + rng.normal(size=200)))]
    theirs = SVC(C=C, tol=1e-8).fit(X, y)
    ours = LASVM(C=C, n_epochs=None, tau=1e-8, random_state=0).fit(X, y)
    assert np.abs(np.abs(ours.dual_coef_) - C).max() <= 1e-12 * C
    # SVC keeps the kernel in float32: 1e-7 of sum |alpha| <= 2.
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-6)
    assert ours.score(X, y) == theirs.score(X, y) > 0.6


def test_lasvm_with_every_row_in_the_expansion_and_none_free_has_a_bias():
    X, y = np.array([[0.12573022], [-0.13210486], [0.64042265]]), np.array([1, 1, -1])
    ours = LASVM(kernel="linear", n_epochs=None, tau=1e-8).fit(X, y)
    theirs = SVC(kernel="linear", tol=1e-8).fit(X, y)
    # SVC keeps the kernel in float32.
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-6)


@pytest.mark.parametrize("selection", ["random", "margin"])
def test_lasvm_ends_with_as_many_rows_as_it_may_have(selection):
    X, y = blobs(600, 0.5)
    params = {"selection": selection, "random_state": 0}
    free = LASVM(**params).fit(X, y)
    assert len(free.support_) > 100
    with pytest.warns(
        NotCertifiedWarning, match=r"max_vectors=60, .*Raise max_vectors"
    ):
        few = LASVM(**params, max_vectors=60).fit(X, y)
    assert 40 < len(few.support_) <= 60  # the finishing takes rows away
    assert few.score(X, y) > 0.55  # chance has 0.5; ties make it 0.58 to 0.63
    same = LASVM(**params, max_vectors=600).fit(X, y)
    assert same.fit_status_ == 0
    assert same.dual_coef_ == pytest.approx(free.dual_coef_, abs=1e-9)


# --- Ball Vector Machine --------------------------------------------------------------


def lifted(problem):
    """Return the inner products of the lifted rows, and the weights of the rows."""
    s = np.ones(len(problem.y)) if problem.s is None else problem.s
    with np.errstate(divide="ignore"):
        slack = np.diag(1 / (problem.C * s))
    return np.outer(problem.y, problem.y) * (problem.K + 1) + slack, s


@given(
    strategies.problems(C=strategies.penalties(-2, 2), among=CONSTANT, min_rows=3),
    st.sampled_from([None, 2, 59]),
    st.sampled_from(["halving", "single"]),
    st.sampled_from([0.1, 0.02, 3e-3]),
)
def test_the_ball_holds_every_row_and_is_worth_what_is_said(
    problem, sampling, scales, epsilon
):
    model = BallVectorMachine(
        **problem.params,
        sampling=sampling,
        scales=scales,
        epsilon=epsilon,
        random_state=0,
    ).fit(problem.X, problem.y, sample_weight=problem.s)
    Q, s = lifted(problem)
    here = s > 0
    Q = Q[np.ix_(here, here)]
    a = reading.simplex_weights(model, len(s))[here]
    norm_sq, own = a @ Q @ a, np.diag(Q)
    ratio = (norm_sq - 2 * Q @ a + own) / own
    assert ratio.max() <= (1 + epsilon) ** 2 * (1 + 1e-9)
    assert model.epsilon_ == pytest.approx(np.sqrt(ratio.max()) - 1, abs=1e-7)

    exact = naive.hinge(problem.K, problem.y, problem.C, s)
    primal = reading.hinge_primal(model, problem.K, problem.y, problem.C, s)
    dual = 1 / (2 * norm_sq)
    assert dual <= exact.primal * (1 + 1e-9)
    assert primal >= exact.dual * (1 - 1e-9)
    assert model.relative_gap_ == pytest.approx((primal - dual) / primal, abs=1e-7)
    delta = (2 * epsilon + epsilon**2) * own.max() / norm_sq
    if delta <= 0.5:
        assert primal <= 4 / (1 - delta) ** 2 * exact.primal * (1 + 1e-9)
    if scales == "single":
        # Each move brings the centre (epsilon r)^2 nearer to that of the smallest ball,
        # in squares; it starts at most at r, with own radii at the largest r.
        assert model.n_iter_ <= own.max() / own.min() / epsilon**2


def test_the_promise_is_tested_where_it_promises_something(rng):
    X, y = blobs(200, 6.0)
    model = BallVectorMachine(C=1.0, epsilon=1e-4, random_state=0).fit(X, y)
    K = naive.gram(X, gamma=naive.gamma_value("scale", X))
    Q = np.outer(y, y) * (K + 1) + np.eye(200)
    a = reading.simplex_weights(model, 200)
    delta = (2e-4 + 1e-8) * 3 / (a @ Q @ a)
    assert delta < 0.1
    exact = naive.hinge(K, y, 1.0)
    primal = reading.hinge_primal(model, K, y, 1.0)
    assert exact.dual <= primal <= 4 / (1 - delta) ** 2 * exact.primal
    assert model.relative_gap_ <= 1 - (1 - delta) ** 2 / 4


@given(
    strategies.problems(
        C=strategies.penalties(-1, 2), among=CONSTANT, min_rows=4, weighted=False
    ),
    st.sampled_from([0.2, 0.05, 0.01]),
)
def test_the_centre_goes_where_its_twin_goes(problem, epsilon):
    """Algorithm of section 3 in lifted coordinates that are written out."""
    n, y = len(problem.y), problem.y.astype(float)
    ball = Ball(
        kernel_rows(problem.K), y, np.full(n, problem.C), np.random.default_rng(0)
    )
    points = np.hstack(
        [
            y[:, None] * naive.factor(problem.K + 1.0),
            np.eye(n) / np.sqrt(problem.C),
        ]
    )
    centre = points[np.argmax(ball.weights)].copy()
    radius = np.linalg.norm(points, axis=1)
    moves = 0
    while True:
        away = np.linalg.norm(points - centre, axis=1)
        k = np.argmax(away / radius)
        close = np.sort(away / radius)[-2:]
        # Twins may part where two rows are equally far: equal rows, in effect.
        assume(close[1] - close[0] > 1e-9 or close[1] < 1 + epsilon)
        if away[k] / radius[k] <= 1 + epsilon:
            break
        beta = radius[k] / away[k]
        centre = points[k] + beta * (centre - points[k])
        moves += 1
    ball.go_to_farthest(np.arange(n), epsilon)
    assert ball.moves == moves
    assert ball.weights @ points == pytest.approx(centre, abs=1e-6)
    assert ball.norm_sq == pytest.approx(centre @ centre, rel=1e-6)


def test_samples_and_all_rows_lead_to_balls_of_the_same_promise():
    X, y = strategies.checkerboard(1500)
    Z, labels = strategies.checkerboard(1500, seed=1)
    params = {"C": 100.0, "gamma": 4.0, "epsilon": 1e-4, "random_state": 0}
    for sampling in (59, None):
        model = BallVectorMachine(sampling=sampling, **params).fit(X, y)
        assert model.epsilon_ <= 1e-4
        assert model.score(Z, labels) > 0.9


def test_the_ball_says_when_it_was_cut_short():
    X, y = blobs(100, 1.0)
    for sampling in (5, None):
        model = BallVectorMachine(max_iter=5, sampling=sampling, random_state=0)
        with pytest.warns(NotCertifiedWarning, match="max_iter=5"):
            model.fit(X, y)
        assert model.n_iter_ == [5]
        assert model.epsilon_ > 1e-3


@pytest.mark.parametrize("sampling", [5, None])
def test_the_ball_ends_with_as_many_core_rows_as_it_may_have(sampling):
    X, y = blobs(300, 0.5)
    free = BallVectorMachine(C=10.0, sampling=sampling, random_state=0).fit(X, y)
    assert len(free.support_) > 40
    few = BallVectorMachine(C=10.0, sampling=sampling, random_state=0, max_vectors=40)
    with pytest.warns(
        NotCertifiedWarning, match=r"max_vectors=40 with .*Raise max_vectors"
    ):
        few.fit(X, y)
    assert len(few.support_) == 40
    enough = len(free.support_) + 1
    roomy = BallVectorMachine(C=10.0, sampling=sampling, random_state=0)
    roomy.set_params(max_vectors=enough).fit(X, y)
    assert roomy.fit_status_ == 0
    assert roomy.relative_gap_ == pytest.approx(free.relative_gap_, abs=0.1)


# --- Pegasos --------------------------------------------------------------------------


def pegasos_twin(X, y, pull, penalty, rows, batch, *, projection):
    """Return w of all steps (the first one is 0) by figure 1, w itself kept."""
    w = np.zeros(X.shape[1])
    found = [w]
    for t, start in enumerate(range(0, len(rows), batch), 1):
        A = rows[start : start + batch]
        inside = A[y[A] * (X[A] @ w) < 1]
        push = (pull[inside] * y[inside]) @ X[inside] / len(A)
        w = (1 - 1 / t) * w + push / (penalty * t)
        length = np.linalg.norm(w)
        if projection and length > 1 / np.sqrt(penalty):
            w = w / (np.sqrt(penalty) * length)
        found.append(w)
    return np.array(found)


@given(
    strategies.problems(C=strategies.penalties(-3, 6), among=[{"kernel": "linear"}]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3, -1]),
    st.sampled_from([0.5, 1.0, 7.3]),
)
def test_pegasos_takes_the_steps_of_its_twin(
    problem, average, projection, bias, batch, n_epochs
):
    X, y, n = problem.X, problem.y.astype(float), len(problem.y)
    s = np.ones(n) if problem.s is None else problem.s
    here = np.flatnonzero(s > 0)
    rows = np.resize(here, int(np.ceil(n_epochs * len(here))))
    penalty, pull = 1 / (problem.C * s.sum()), s * len(here) / s.sum()
    lifted_X = np.hstack([X, np.ones((n, 1))]) if bias else X
    k = len(here) if batch == -1 else batch
    steps = pegasos_twin(lifted_X, y, pull, penalty, rows, k, projection=projection)
    # A margin of 1 exactly, or a rounding apart, may be on either side of it.
    margins = np.abs(y * (steps @ lifted_X.T) - 1)
    assume(margins.min() > 1e-9)
    expected = steps[:-1].mean(axis=0) if average else steps[-1]

    choice = {"average": average, "projection": projection, "fit_intercept": bias}
    model = Pegasos(
        problem.C, order="given", n_epochs=n_epochs, batch_size=batch, **choice
    ).fit(X, y, sample_weight=problem.s)
    found = np.append(model.coef_, model.intercept_) if bias else model.coef_.ravel()
    scale = max(1.0, np.abs(steps).max())
    assert found == pytest.approx(expected, abs=1e-8 * scale)
    assert model.n_iter_ == len(steps) - 1
    assert model.lambda_ == pytest.approx(penalty)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("batch_size", [1, 5, 300])
def test_pegasos_with_a_kernel_takes_the_linear_steps(average, projection, batch_size):
    X, y = blobs(400, 1.0)
    model = Pegasos(
        C=10.0,
        n_epochs=3,
        average=average,
        projection=projection,
        batch_size=batch_size,
        random_state=0,
    )
    linear = clone(model).fit(X, y)
    kernelised = clone(model).set_params(kernel=lambda A, B: A @ B.T).fit(X, y)
    one, other = np.zeros((2, 400))
    one[linear.support_] = linear.dual_coef_
    other[kernelised.support_] = kernelised.dual_coef_
    assert other == pytest.approx(one, abs=1e-9 * np.abs(one).max())
    assert kernelised.intercept_ == pytest.approx(linear.intercept_, rel=1e-7)


def dual_without_free_bias(K, y, C):
    """Return a value that the hinge optimum without free bias is not below."""
    Q = np.outer(y, y) * K

    def value(b):
        return b @ Q @ b / 2 - b.sum(), Q @ b - 1

    bounds = [(0, C)] * len(y)
    options = {"maxiter": 10_000, "maxfun": 10**6, "ftol": 1e-14, "gtol": 1e-10}
    found = minimize(
        value,
        np.zeros(len(y)),
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options=options,
    )
    return -found.fun


@pytest.mark.parametrize("projection", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_the_average_of_pegasos_is_as_good_as_its_theorem(projection, bias):
    X, y = blobs(200, 1.0)
    K = X @ X.T + bias
    best = dual_without_free_bias(K, y, 1.0)
    steps, penalty, radius = 200 * 5000, 1 / 200, np.sqrt(np.diag(K).max())
    c = (np.sqrt(penalty) + radius) ** 2 if projection else 4 * radius**2
    bound = 200**2 * c * (1 + np.log(steps)) / (2 * steps)
    assert bound < 0.15 * best
    above = []
    for seed in range(3):
        model = Pegasos(
            average=True,
            n_epochs=5000,
            projection=projection,
            fit_intercept=bias,
            random_state=seed,
        ).fit(X, y)
        value = hinge_value(model, X @ X.T, y, 1.0, penalised=True)
        above.append(value - best)
    assert min(above) > -1e-6 * best
    assert np.mean(above) <= bound


def test_pegasos_stays_in_the_ball_that_holds_the_solution():
    X, y = blobs(300, 0.5)
    for n_epochs in (0.01, 0.1, 1.0):
        model = Pegasos(C=1e6, n_epochs=n_epochs, random_state=0).fit(X, y)
        length_sq = (model.coef_**2).sum() + model.intercept_[0] ** 2
        assert length_sq <= (1 + 1e-9) / model.lambda_


def test_weights_of_pegasos_are_how_often_a_row_is_drawn():
    s = np.arange(60) % 3
    weighted = Pegasos(n_epochs=40, random_state=0)
    drawn = weighted._draws(np.flatnonzero(s > 0), s, np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=60)
    # 1600 draws: a binomial count is within 6 deviations of its mean.
    mean = len(drawn) * s / s.sum()
    assert (np.abs(counts - mean) <= 6 * np.sqrt(mean)).all()
    # Rows in the same order, each as often as it weighs, are drawn by the same numbers.
    repeated = np.repeat(np.arange(60), s)
    ones = np.ones(len(repeated))
    again = weighted._draws(np.arange(len(repeated)), ones, np.random.default_rng(0))
    n = min(len(drawn), len(again))
    assert np.array_equal(repeated[again[:n]], drawn[:n])


def test_values_of_the_linear_machine_are_those_of_its_expansion():
    X, y = blobs(100, 1.0)
    model = Pegasos(random_state=0).fit(X, y)
    f = reading.values(model, X @ X.T)
    assert model.decision_function(X) == pytest.approx(f, abs=1e-9)
