"""The ranker against every pair written out, and against scikit-learn's checks."""

import itertools
import os
import re
import signal
import warnings
from dataclasses import dataclass

import naive
import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import InvalidInputError, NotCertifiedWarning, certify, methods
from corevec._runtime import Progress
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.estimators import CoreVectorRanker
from corevec.kernels import make_kernel
from corevec.problems import pairs as pairs_module
from corevec.problems import pairs_of
from corevec.solvers import ranking

# --- the slow twin: every pair ----------------------------------------------------


@dataclass
class Case:
    """Rows, grades, queries, weights and the parameters of one fit."""

    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray
    s: np.ndarray | None
    params: dict

    @property
    def weight(self):
        return np.ones(len(self.y)) if self.s is None else self.s

    def fit(self, **more):
        model = CoreVectorRanker(**self.params, **more, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotCertifiedWarning)
            return model.fit(self.X, self.y, sample_weight=self.s, qid=self.qid)

    @property
    def K(self):
        names = ("C", "pair_weight")
        shape = {k: v for k, v in self.params.items() if k not in names}
        return naive.gram(self.X, **shape)

    def pairs(self):
        """Return (i, j) of all pairs, i the better row, and their c_ij."""
        n, s = len(self.y), self.weight
        found = [
            (i, j)
            for i, j in itertools.product(range(n), repeat=2)
            if self.qid[i] == self.qid[j] and self.y[i] > self.y[j] and s[i] * s[j] > 0
        ]
        c = np.array([s[i] * s[j] for i, j in found])
        if self.params.get("pair_weight", "query") == "query":
            query = np.array([self.qid[i] for i, _ in found])
            c = c / np.array([c[query == q].sum() for q in query])
            c *= s[np.isin(self.qid, query)].sum() / len(np.unique(query))
        return np.array(found), c

    def optimum(self):
        """Solve the dual over one multiplier per pair; return its bracket."""
        (i, j), c = self.pairs()[0].T, self.pairs()[1]
        K = self.K
        of_pairs = K[np.ix_(i, i)] - K[np.ix_(i, j)] - K[np.ix_(j, i)] + K[np.ix_(j, j)]
        C = self.params["C"]
        return naive.hinge(of_pairs, np.ones(len(i)), C, c, bias=False)

    def primal(self, model):
        """Return the objective of a fitted function, pair by pair."""
        (i, j), c = self.pairs()[0].T, self.pairs()[1]
        K, coef = self.K, model.dual_coef_[0]
        f = K[:, model.support_] @ coef
        norm_sq = coef @ K[np.ix_(model.support_, model.support_)] @ coef
        slack = np.clip(1 - (f[i] - f[j]), 0, None)
        return 0.5 * norm_sq + 0.5 * self.params["C"] * (c * slack**2).sum()


@st.composite
def cases(draw, kernels=strategies.KERNELS, most_C=4.0, most_rows=16):
    X = draw(strategies.clouds(min_rows=4, max_rows=most_rows, offsets=(0.0, 2.0)))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n = len(X)
    grades = draw(st.sampled_from(["two", "five", "continuous"]))
    y = {
        "two": rng.integers(0, 2, n).astype(float),
        "five": rng.integers(-2, 3, n).astype(float),
        "continuous": np.round(rng.normal(size=n), 3),
    }[grades]
    qid = rng.integers(0, draw(st.integers(1, 4)), n)
    s = rng.choice([0.0, 0.5, 1.0, 3.0], size=n) if draw(st.booleans()) else None
    first, second = rng.permutation(n)[:2]
    qid[second], y[second] = qid[first], y[first] + 1  # one pair at least
    if s is not None:
        s[[first, second]] = 1.0
    params = {
        "C": draw(strategies.penalties(-2.0, most_C)),
        "pair_weight": draw(st.sampled_from(["query", "uniform"])),
        **draw(strategies.kernels(kernels)),
    }
    return Case(X, y, qid, s, params)


def rows_of(n, n_queries, seed=0, d=3):
    """Return rows, grades 0-4 and queries that are not adjacent."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.clip(np.round(X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=n)), 0, 4)
    return X, y, rng.integers(0, n_queries, n)


# --- sums over pairs --------------------------------------------------------------


def sums_by_pairs(y, qid, s, scale_of, f, p, margin):
    """Return pull, A p, and the sums of c t, c t^2 and c, from a loop over pairs."""
    pull, bend, totals = np.zeros(len(y)), np.zeros(len(y)), np.zeros(3)
    for i, j in itertools.product(range(len(y)), repeat=2):
        slack = margin - (f[i] - f[j])
        if qid[i] == qid[j] and y[i] > y[j] and slack > 0:
            c = scale_of[qid[i]] * s[i] * s[j]
            pull[[i, j]] += [c * slack, -c * slack]
            bend[[i, j]] += [c * (p[i] - p[j]), c * (p[j] - p[i])]
            totals += [c * slack, c * slack**2, c]
    return pull, bend, totals


@given(
    st.integers(2, 130),
    st.integers(1, 3),
    st.sampled_from([2, 5, 1000]),
    st.sampled_from([0.0, 1.0]),
    st.integers(0, 2**31),
)
def test_the_pair_sums_equal_a_loop_over_pairs(n, n_queries, n_grades, margin, seed):
    rng = np.random.default_rng(seed)
    y, qid = rng.integers(0, n_grades, n), rng.integers(0, n_queries, n)
    y[:2], qid[:2] = [0, 1], 0
    s = rng.choice([0.0, 0.5, 1.0, 2.0], n)
    s[:2] = 1.0
    f, p = rng.normal(size=n) + 3.0, rng.normal(size=n)
    f[rng.random(n) < 0.2] = 3.0  # ties
    pairs = pairs_of(y, qid, s, 2.5, per_query=False)
    pull, bend, totals = sums_by_pairs(y, qid, s, np.full(3, 2.5), f, p, margin)
    size = 1 + np.abs(totals).max()
    for most_pairs in (0, np.inf):  # by sorting, and one by one
        found = pairs.sums(f[pairs.rows], p[pairs.rows, None], margin, most_pairs)
        assert found.pull == pytest.approx(pull[pairs.rows], abs=1e-12 * size)
        assert found.bend[:, 0] == pytest.approx(bend[pairs.rows], abs=1e-12 * size)
        summed = [found.mass, found.square, found.count.sum()]
        assert summed == pytest.approx(totals, abs=1e-11 * size)
        assert abs(found.mass - totals[0]) <= found.mass_error + 1e-14 * size
        assert abs(found.square - totals[1]) <= found.square_error + 1e-14 * size
    left_out = np.setdiff1d(np.arange(n), pairs.rows)
    assert not pull[left_out].any()
    if margin == 1.0:
        design = rng.normal(size=(len(pairs), 3))
        by_loop = design.T @ pairs.sums(f[pairs.rows], design).bend
        dense = pairs.curvature(f[pairs.rows], design)
        assert dense == pytest.approx(by_loop, abs=1e-9 * size)


def test_the_weight_of_the_pairs_of_a_query():
    y, qid = np.array([2.0, 1, 1, 0, 5, 4, 3]), np.array([0, 0, 0, 0, 7, 7, 9])
    pairs = pairs_of(y, qid, np.array([1.0, 2, 3, 1, 2, 2, 1]), 1.0, per_query=False)
    assert pairs.pair_weight == pytest.approx([5 + 1 + 5, 4])
    assert len(pairs) == 6  # the query of one row has no pair


def test_a_sample_of_the_queries_keeps_the_weight_of_all_pairs():
    rng = np.random.default_rng(0)
    y, qid = (
        rng.integers(0, 4, 6000),
        np.repeat([0, *range(1, 151)], [3000] + [20] * 150),
    )
    for per_query in (True, False):
        pairs = pairs_of(y, qid, None, 3.0, per_query)
        few = pairs.sample(2000, rng)
        assert 1000 < len(few) <= 2000
        assert np.diff(few.starts).max() <= pairs_module.QUERY_ROWS
        total, expected = few.sums(np.zeros(len(few))), pairs.sums(np.zeros(len(pairs)))
        assert total.mass == pytest.approx(expected.mass, rel=0.1)


# --- exactness --------------------------------------------------------------------


@given(cases())
def test_the_objective_is_that_of_explicit_pairs(case):
    truth, model = case.optimum(), case.fit()
    found = model.certificate_
    slack = 1e-6 + 2 * truth.rounding
    primal = case.primal(model)
    assert truth.dual * (1 - slack) <= primal <= truth.primal * (1 + slack)
    assert found.primal == pytest.approx(primal, rel=slack)
    # The gap is never below the true one: the certified dual never above the optimum.
    assert found.dual <= truth.primal * (1 + 2 * truth.rounding + 1e-12)
    assert found.converged


@given(cases(most_C=2.0), st.integers(1, 3))
def test_a_short_basis_is_certified_as_what_it_is(case, max_vectors):
    truth, model = (
        case.optimum(),
        case.fit(method=methods.FewVectors(max_vectors, basis="nystroem")),
    )
    found = model.certificate_
    slack = 1e-9 + 2 * truth.rounding
    assert found.primal == pytest.approx(case.primal(model), rel=1e-6 + slack)
    true_gap = (case.primal(model) - truth.primal) / case.primal(model)
    assert found.relative_gap >= true_gap - 1e-6 - slack
    assert found.dual <= truth.primal * (1 + slack)
    assert len(model.support_) <= max_vectors
    assert found.converged == (found.relative_gap <= 1e-3)


def test_two_rows_by_hand():
    # One pair, k(x, z) = x z: f = w x, margin w (3 - 1): w = 2 C / (1 + 4 C).
    model = CoreVectorRanker(2.0, pair_weight="uniform", kernel="linear").fit(
        [[1.0], [3.0]], [0, 1]
    )
    assert model.coef_ == pytest.approx(4 / 9)
    assert model.certificate_.primal == pytest.approx(1 / 9)  # C/2 / (1 + 4 C)
    assert model.certificate_.dual == pytest.approx(1 / 9)
    assert (model.n_pairs_, model.n_queries_) == (1, 1)


def test_rows_that_are_all_zero_have_a_certificate_too():
    model = CoreVectorRanker(kernel="linear").fit(np.zeros((4, 2)), [0, 1, 2, 2])
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(0.5 * 4)  # C/2, four rows
    assert not model.predict(np.ones((3, 2))).any()


@pytest.mark.parametrize("C", [1e2, 1e6, 1e10])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_the_bound_holds_where_sums_of_squares_cancel(C, is_sorted, monkeypatch):
    # One query in the order of one column: slacks of 1/C beside values of 60.
    if is_sorted:
        monkeypatch.setattr(pairs_module.Pairs, "n_pairs", np.inf)
    X, y = np.arange(60.0)[:, None], np.arange(60)
    case = Case(X, y, np.zeros(60, int), None, {"C": C, "kernel": "linear"})
    case.params["pair_weight"] = "uniform"
    found = case.fit().certificate_
    # f = w x with the 59 pairs of neighbours inside the margin: w = 59 C / (1 + 59 C).
    optimum = 29.5 * C / (1 + 59 * C)
    assert found.dual <= optimum * (1 + 1e-13)
    assert found.primal >= optimum * (1 - 1e-13)
    if not is_sorted:
        assert found.relative_gap < (1e-3 if C > 1e8 else 1e-8)


# --- weights, queries, invariances ------------------------------------------------


@given(cases(most_C=2.0))
def test_a_weight_is_a_repetition_and_zero_is_absence(case):
    counts = np.random.default_rng(0).integers(0, 4, len(case.y))
    first = case.pairs()[0][0]
    counts[first] = 1
    weighted = Case(case.X, case.y, case.qid, counts.astype(float), case.params)
    again = np.repeat(np.arange(len(counts)), counts)
    repeated = Case(case.X[again], case.y[again], case.qid[again], None, case.params)
    one, other = weighted.fit(tol=1e-8), repeated.fit(tol=1e-8)
    assert one.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-7)
    f, g = one.predict(case.X), other.predict(case.X)
    assert f == pytest.approx(g, abs=1e-5 * (1 + np.abs(g).max()))


@given(cases(most_C=2.0), st.integers(0, 2**31))
def test_neither_order_nor_units_nor_names_of_queries_matter(case, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(case.y))
    s = None if case.s is None else case.s[order]
    names = np.array([f"query {q}" for q in case.qid])[order]
    grades = np.exp(case.y[order]) + case.qid[order]  # increasing within a query
    other = Case(case.X[order], grades, names, s, case.params)
    f, g = case.fit(tol=1e-8).predict(case.X), other.fit(tol=1e-8).predict(case.X)
    assert f == pytest.approx(g, abs=1e-5 * (1 + np.abs(f).max()))


def test_group_sizes_and_query_ids_say_the_same():
    X, y, _ = rows_of(90, 1)
    sizes = [20, 0, 30, 25, 15]
    a = CoreVectorRanker(C=5.0).fit(X, y, group=sizes)
    b = CoreVectorRanker(C=5.0).fit(X, y, qid=np.repeat(np.arange(5), sizes))
    assert np.array_equal(a.predict(X), b.predict(X))
    names = np.repeat(list("abcde"), sizes)
    assert a.score(X, y, group=sizes) == b.score(X, y, qid=names)


def test_a_query_of_one_grade_is_silent():
    X, y, qid = rows_of(80, 4)
    more = np.vstack([X, X[:10] + 1])
    same = np.r_[y, np.full(10, 3.0)]
    a = CoreVectorRanker(C=5.0, gamma=0.3).fit(X, y, qid=qid)
    b = CoreVectorRanker(C=5.0, gamma=0.3).fit(
        more, same, qid=np.r_[qid, np.full(10, 9)]
    )
    assert a.predict(X) == pytest.approx(b.predict(X), abs=1e-6)
    assert (a.n_pairs_, a.n_queries_) == (b.n_pairs_, b.n_queries_)


def test_sparse_rows_give_the_dense_model():
    X, y, qid = rows_of(150, 6)
    X[np.abs(X) < 0.7] = 0.0
    for kernel in ("rbf", "linear"):
        dense = CoreVectorRanker(C=10.0, kernel=kernel).fit(X, y, qid=qid)
        csr = CoreVectorRanker(C=10.0, kernel=kernel).fit(sp.csr_matrix(X), y, qid=qid)
        assert csr.predict(sp.csr_matrix(X)) == pytest.approx(
            dense.predict(X), abs=1e-6
        )


def test_a_precomputed_kernel_gives_the_same_model():
    X, y, qid = rows_of(100, 5)
    K = naive.gram(X, gamma=0.4)
    named = CoreVectorRanker(C=10.0, gamma=0.4).fit(X, y, qid=qid)
    given_values = CoreVectorRanker(C=10.0, kernel="precomputed").fit(K, y, qid=qid)
    assert given_values.predict(K) == pytest.approx(named.predict(X), abs=1e-6)


# --- the score --------------------------------------------------------------------


def test_the_score_is_the_share_of_pairs_in_order():
    X, y, qid = rows_of(120, 4)
    model = CoreVectorRanker(C=1.0).fit(X, y, qid=qid)
    f = model.predict(X)
    shares = []
    for q in np.unique(qid):
        i, j = np.nonzero((qid == q)[:, None] & (qid == q) & (y[:, None] > y))
        shares.append((np.sign(f[i] - f[j]).mean() + 1) / 2)
    assert model.score(X, y, qid=qid) == pytest.approx(np.mean(shares))
    assert model.score(X, y > 2) == pytest.approx(roc_auc_score(y > 2, f))
    uniform = CoreVectorRanker(C=0.1, pair_weight="uniform").fit(X, X[:, 0])
    tau = kendalltau(uniform.predict(X), X[:, 0]).statistic
    assert uniform.score(X, X[:, 0]) == pytest.approx((tau + 1) / 2)


def test_a_constant_score_is_one_half():
    X, y, qid = rows_of(60, 3)
    model = CoreVectorRanker(kernel="linear").fit(np.zeros_like(X), y, qid=qid)
    assert model.score(X * 0, y, qid=qid) == 0.5


# --- many rows --------------------------------------------------------------------


def test_many_rows_of_a_low_rank_kernel_are_certified():
    X, y, qid = rows_of(12_000, 200, d=2)
    model = CoreVectorRanker(C=10.0, gamma=0.5, random_state=0).fit(X, y, qid=qid)
    assert model.certificate_.converged
    assert model.certificate_.dual_bound == "projection"
    few = Case(X[:2000], y[:2000], qid[:2000], None, {"C": 10.0, "gamma": 0.5}).fit()
    assert model.score(X, y, qid=qid) > 0.9
    assert len(few.support_) < 1500


def test_one_query_of_many_grades_and_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    model = CoreVectorRanker(C=1e5, gamma=0.5, random_state=0).fit(X, y)
    assert model.certificate_.converged
    assert model.score(X, y) > 0.99
    assert model.n_pairs_ == 6000 * 5999 // 2


def test_a_high_rank_kernel_says_that_the_basis_was_the_limit():
    X, y, qid = rows_of(4000, 100, d=8)
    model = CoreVectorRanker(
        C=100.0, random_state=0, method=methods.FewVectors(100, basis="nystroem")
    )
    found = model.fit(X, y, qid=qid).certificate_  # as asked: without a warning
    assert (found.converged, found.stopped_by) == (False, "n_vectors")
    less = CoreVectorRanker(
        C=100.0,
        random_state=0,
        memory_budget=2**20,
        method=methods.FewVectors(300, basis="nystroem"),
    )
    with pytest.warns(NotCertifiedWarning, match="max_vectors"):
        less.fit(X, y, qid=qid)
    assert less.n_core_ < 300
    assert found.dual_bound == "exact"
    assert 0 < found.dual < found.primal
    assert model.score(X, y, qid=qid) > 0.8


def ranked(rows, C, gamma, settings, **changed):
    """Return the fit of some rows by a changed method; rows in whole queries."""
    X, y, qid = rows
    source = as_source(X, 2**28, Workers(1))
    kernel = make_kernel("rbf", gamma, 3, 0.0, row_statistics(source))
    pairs = pairs_of(y, qid, None, C, per_query=True)
    method = ranking.RankingMethod(**changed)
    task = ranking.RankingTask(pairs, source, kernel, settings, method)
    return ranking.solve(task, Progress(len(X)))


def test_the_sampled_hessian_ends_at_the_minimum_of_the_span():
    settings = ranking.RankingSettings(1e-4, 60)
    given = rows_of(5000, 100, d=6), 50.0, 1 / 6, settings
    whole = ranked(*given)
    sampled = ranked(*given, hessian_work=1.0)  # 3,000 of 5,000 rows
    exact, found = whole.certificates[0].primal, sampled.certificates[0].primal
    assert np.array_equal(whole.support[0], sampled.support[0])
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-5)


def test_beyond_the_exact_sum_the_projection_bounds():
    settings = ranking.RankingSettings(1e-3, 100)
    given = rows_of(3500, 100, d=4), 1.0, 0.05, settings
    exact = ranked(*given).certificates[0]
    bound = ranked(*given, exact_rows=100).certificates[0]
    assert (exact.dual_bound, bound.dual_bound) == ("exact", "projection")
    assert 0 < bound.dual <= exact.dual * (1 + 1e-12)
    assert bound.stopped_by == "n_vectors"


def test_features_that_do_not_fit_are_made_again():
    X, y, qid = rows_of(4000, 100, d=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        fits = [
            CoreVectorRanker(
                C=5.0,
                random_state=0,
                memory_budget=b,
                method=methods.FewVectors(50, basis="nystroem"),
            )
            for b in (2**20, 2**28)
        ]
        small, large = (model.fit(X, y, qid=qid) for model in fits)
    assert len(small.support_) == len(large.support_) == 50
    primal = large.certificate_.primal
    assert small.certificate_.primal == pytest.approx(primal, rel=1e-4)


def test_threads_do_not_change_the_model():
    X, y, qid = rows_of(4000, 50, d=2)
    fits = [
        CoreVectorRanker(C=5.0, gamma=0.1, random_state=0, n_jobs=n).fit(X, y, qid=qid)
        for n in (1, 2)
    ]
    assert fits[0].predict(X) == pytest.approx(fits[1].predict(X), abs=1e-6)


# --- limits -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "reason"),
    [({"max_iter": 1}, "max_iter"), ({"max_time": 1e-9}, "max_time")],
)
def test_a_spent_budget_leaves_a_model_and_says_so(limit, reason):
    X, y, qid = rows_of(300, 6)
    model = CoreVectorRanker(C=1e5, tol=1e-9, **limit)
    with pytest.warns(NotCertifiedWarning, match=f"stopped by {reason}"):
        model.fit(X, y, qid=qid)
    assert model.certificate_.stopped_by == reason
    assert len(model.history_) == model.n_iter_ == 1
    assert np.isfinite(model.predict(X)).all()


def test_an_interrupt_ends_the_round_and_keeps_the_model():
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        pytest.skip("Ctrl-C is not Python's here")
    X, y, qid = rows_of(300, 6)
    left = [1]

    def kernel(A, B):
        if left:
            left.pop()
            os.kill(os.getpid(), signal.SIGINT)
        return naive.gram(A, B, gamma=0.5)

    model = CoreVectorRanker(C=1e5, tol=1e-9, kernel=kernel)
    with pytest.warns(NotCertifiedWarning, match="interrupt"):
        model.fit(X, y, qid=qid)
    assert model.certificate_.stopped_by == "interrupt"
    assert model.n_iter_ == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_history_ends_at_the_certificate():
    X, y, qid = rows_of(200, 5)
    model = CoreVectorRanker(C=100.0).fit(X, y, qid=qid)
    gaps = [record["gap"] for record in model.history_]
    assert gaps[-1] <= 1e-6 < gaps[0]
    assert model.history_[-1]["dual"] == pytest.approx(model.certificate_.dual)


# --- bad input --------------------------------------------------------------------

X20 = np.random.default_rng(0).normal(size=(20, 3))
Y20 = np.tile([0.0, 1.0], 10)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"group": [10, 9]}, ["group", "19", "20"]),
        ({"group": np.arange(20)}, ["group", "190", "qid"]),
        ({"group": [30, -10]}, ["group[1]", "-10"]),
        ({"group": [10.5, 9.5]}, ["group", "whole numbers", "qid"]),
        ({"group": ["a"] * 20}, ["group", "whole numbers", "qid"]),
        ({"group": [[10, 10]]}, ["group", "whole numbers"]),
        ({"qid": np.zeros(19)}, ["qid", "19", "20"]),
        ({"qid": np.r_[np.nan, np.zeros(19)]}, ["qid[0]", "nan"]),
        ({"qid": np.zeros(20), "group": [20]}, ["group", "qid", "not both"]),
        ({"y": np.r_[np.nan, Y20[1:]]}, ["y", "NaN"]),
        ({"y": np.ones(20)}, ["no pair", "one grade"]),
        ({"qid": np.arange(20)}, ["no pair", "one grade"]),
        ({"group": np.ones(20, int)}, ["no pair", "group"]),
        ({"sample_weight": 1 - Y20}, ["no pair", "one grade"]),
        ({"sample_weight": -Y20}, ["sample_weight", "negative"]),
        ({"y": np.array(["good", "bad"] * 10)}, ["grades", "good", "numbers"]),
    ],
)
def test_bad_input_is_refused_with_what_was_given(change, parts):
    given_values = {"y": Y20, **change}
    all_parts = "".join(f"(?=.*{re.escape(part)})" for part in parts)
    with pytest.raises(ValueError, match="(?s)" + all_parts):
        CoreVectorRanker().fit(X20, **given_values)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("C", -1.0),
        ("pair_weight", "rows"),
        ("kernel", "gauss"),
        ("tol", 0),
        ("method", "coreset"),
    ],
)
def test_bad_parameters_are_refused_with_their_value(name, value):
    with pytest.raises(InvalidInputError, match=f"CoreVectorRanker: {name}=.*{value}"):
        CoreVectorRanker(**{name: value}).fit(X20, Y20)


def test_the_score_refuses_what_it_cannot_count():
    model = CoreVectorRanker().fit(X20, Y20)
    with pytest.raises(InvalidInputError, match="no pair"):
        model.score(X20, np.ones(20))
    with pytest.raises(InvalidInputError, match=r"20 rows, y has shape \(19,\)"):
        model.score(X20, Y20[:19])
    with pytest.raises(InvalidInputError, match="queries"):
        certify(model, X20, Y20)


def test_a_kernel_that_is_not_definite_promises_nothing():
    X, y, qid = rows_of(60, 3)
    model = CoreVectorRanker(kernel="sigmoid", gamma=2.0, coef0=-1.0)
    with pytest.warns(NotCertifiedWarning, match="sigmoid"):
        model.fit(X, y, qid=qid)
    assert model.certificate_.dual == -np.inf


def test_a_kernel_that_overflows_is_refused():
    with pytest.raises(ValueError, match=r"CoreVectorRanker.*overflows"):
        CoreVectorRanker(kernel="poly", gamma=1.0, degree=9).fit(X20 * 1e60, Y20)


# --- in scikit-learn's company ----------------------------------------------------


@parametrize_with_checks([CoreVectorRanker()])
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def test_a_grid_search_splits_whole_queries():
    X, y, qid = rows_of(200, 10)
    search = GridSearchCV(
        CoreVectorRanker(), {"C": [0.1, 10.0]}, cv=GroupKFold(3), error_score="raise"
    )
    search.fit(X, y, groups=qid, qid=qid)
    assert search.best_score_ > 0.7


def test_a_short_time_limit_takes_fewer_vectors_and_the_cheap_bound():
    """4,000 rows are more than the whole basis; the limit is over before the start."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 8))
    y = np.sin(3 * X[:, 0]) + rng.normal(size=4000)
    model = CoreVectorRanker(gamma=1.0, max_time=1e-3, random_state=0)
    with pytest.warns(NotCertifiedWarning) as caught:
        model.fit(X, y, qid=np.arange(4000) // 40)
    assert caught[0].message.stopped_by == "max_time"
    assert len(model.support_) == 50
    assert np.isfinite(model.predict(X[:5])).all()
    found = model.certificate_
    assert found.dual_bound == "projection"
    assert 0 <= found.dual <= found.primal
