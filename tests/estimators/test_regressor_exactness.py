"""The regressor finds the optimum of the stated problem, and its tube.

Written from the CVR paper and the issue. The twin (naive.py) solves the dual over both
sides of every row by non-negative least squares and finds the width by a root search;
it proves its own bracket by weak duality. 1e-6 relative is the promise of the issue.
"""

import naive
import numpy as np
import pytest
import reading
import strategies
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corevec import CoreVectorRegressor, InvalidInputError, methods

PROMISE = 1e-6
TIGHT = {"tol": 1e-9, "random_state": 0}
WIDTHS = st.sampled_from([0.0, 0.05, 0.3, 1.0])


def regressor(problem, **params):
    return CoreVectorRegressor(**{**TIGHT, **problem.params, **params})


def fitted(problem, **params):
    model = regressor(problem, **params)
    return reading.fit(model, problem.X, problem.y, problem.s)


def twin_of(problem, tube):
    """Solve the problem independently; the twin must be tighter than the promise."""
    given = problem.K, problem.z, problem.C
    if isinstance(tube, str):
        free = tube == "paper"
        shape = {"bias": problem.bias, "free": free}
        twin = naive.automatic_tube(*given, problem.mu, problem.s, **shape)
    else:
        twin = naive.fixed_tube(*given, tube, problem.s, bias=problem.bias)
    assert twin.primal - twin.dual <= 1e-8 * twin.size + twin.rounding + 1e-12
    return twin


def assert_brackets(certificate, twin, promise=PROMISE):
    """The certificate holds the optimum, and is as tight as the promise."""
    room = promise * twin.size + twin.rounding
    assert certificate.primal == pytest.approx(twin.primal, abs=room)
    assert certificate.dual == pytest.approx(twin.dual, abs=room)
    assert_is_a_bound(certificate, twin)


def assert_is_a_bound(certificate, twin):
    """Primal above and dual below the optimum, whatever the tolerance was."""
    room = 1e-8 * twin.size + twin.rounding
    assert certificate.primal >= twin.dual - room
    assert certificate.dual <= twin.primal + room


# --- the optimum ----------------------------------------------------------------------


@settings(max_examples=120)
@given(strategies.regressions())
def test_the_optimum_with_an_automatic_tube_equals_an_independent_one(problem):
    model = fitted(problem)
    twin = twin_of(problem, "auto")
    assert_brackets(model.certificate_, twin)
    own = reading.tube_primal(model, problem)
    assert own == pytest.approx(twin.primal, abs=PROMISE * twin.size + twin.rounding)


@settings(max_examples=120)
@given(strategies.regressions())
def test_the_optimum_with_the_papers_tube_equals_an_independent_one(problem):
    model = fitted(problem, tube="paper")
    twin = twin_of(problem, "paper")
    assert_brackets(model.certificate_, twin)
    own = reading.tube_primal(model, problem, free=True)
    assert own == pytest.approx(twin.primal, abs=PROMISE * twin.size + twin.rounding)


@settings(max_examples=120)
@given(strategies.regressions(), WIDTHS)
def test_the_optimum_with_a_fixed_tube_equals_an_independent_one(problem, tube):
    twin = twin_of(problem, tube)
    assume(twin.primal > 1e-9)  # else the tube holds every row: tested by hand
    _, _, scale = problem.units
    model = fitted(problem, tube=tube * scale, mu=None)
    assert_brackets(model.certificate_, twin)
    own = reading.tube_primal(model, problem, tube=tube)
    assert own == pytest.approx(twin.primal, rel=PROMISE + twin.rounding / twin.primal)
    assert model.tube_ == pytest.approx(tube * scale)


@settings(max_examples=30)
@given(strategies.regressions(), st.sampled_from(["auto", "paper", 0.1]))
def test_newton_alone_reaches_the_same_optimum(problem, tube):
    twin = twin_of(problem, tube)
    assume(twin.size > 1e-9)
    given_tube = tube if isinstance(tube, str) else tube * problem.units[2]
    model = fitted(problem, tube=given_tube, method=methods.CoreSet(qp="newton"))
    assert_brackets(model.certificate_, twin)


# C up to 1e3 only, as for the classifier: the features are cut at 1e-12.
@settings(max_examples=30)
@given(
    strategies.regressions(C=strategies.penalties(-3, 3)),
    st.sampled_from(["auto", "paper", 0.1]),
)
def test_the_low_rank_path_reaches_the_same_optimum(problem, tube):
    twin = twin_of(problem, tube)
    assume(twin.size > 1e-9)
    given_tube = tube if isinstance(tube, str) else tube * problem.units[2]
    try:
        model = fitted(problem, tube=given_tube, method="lowrank", tol=1e-7)
    except InvalidInputError:  # a rank that is not low is refused
        return
    assert_brackets(model.certificate_, twin, promise=1e-5)


@settings(max_examples=12)
@given(
    strategies.regressions(C=strategies.penalties(-3, 1)),
    st.sampled_from(["auto", "paper"]),
)
def test_smo_reaches_the_same_optimum_at_moderate_C(problem, tube):
    model = fitted(problem, tube=tube, method=methods.CoreSet(qp="smo"), tol=1e-7)
    assert_brackets(model.certificate_, twin_of(problem, tube), promise=1e-5)


@settings(max_examples=20)
@given(strategies.regressions())
def test_a_precomputed_kernel_is_the_same_problem(problem):
    params = problem.params | {"kernel": "precomputed"}
    model = CoreVectorRegressor(**TIGHT, **params)
    reading.fit(model, problem.K, problem.y, problem.s)
    assert_brackets(model.certificate_, twin_of(problem, "auto"))


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3, 1e6])
def test_one_small_problem_is_exact_from_tiny_to_large_C(C, rng):
    X = rng.normal(size=(40, 2))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=40)
    problem = strategies.Regression(X, y, None, C, 0.05, {"gamma": 0.5})
    for tube in ("auto", "paper"):
        model = fitted(problem, tube=tube, tol=1e-6)
        assert_brackets(model.certificate_, twin_of(problem, tube), promise=1e-5)


@pytest.mark.parametrize("kernel", ["laplacian", "rbf"])
def test_a_width_of_the_paper_is_a_gamma(kernel, rng):
    """Section 4.2: exp(-|x - z| / sigma) is gamma = 1/sigma^2; 4.1: 1/beta."""
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    sigma = 0.7
    distance = np.sqrt(naive.squared_distances(X, X))
    K = np.exp(-distance / sigma)
    gamma = 1 / sigma**2
    if kernel == "rbf":
        gamma, beta = "mean-distance", (distance**2).mean()
        K = np.exp(-(distance**2) / beta)
    model = CoreVectorRegressor(1.0, kernel=kernel, gamma=gamma, mu=0.1, **TIGHT).fit(
        X, y
    )
    z, _, _ = naive.standardised(y)
    assert_brackets(model.certificate_, naive.automatic_tube(K, z, 1.0, 0.1))


# --- the tube -------------------------------------------------------------------------


@settings(max_examples=60)
@given(strategies.regressions(), st.sampled_from(["auto", "paper"]))
def test_the_tube_is_as_wide_as_the_twins(problem, tube):
    model = fitted(problem, tube=tube)
    twin = twin_of(problem, tube)
    # The best width moves by at most what the function moves in any row.
    room = 2 * reading.tube_reach(problem, model) + 1e-6
    assert model.tube_ / problem.units[2] == pytest.approx(twin.tube, abs=room)
    if tube == "auto":
        assert model.tube_ >= 0


@settings(max_examples=60)
@given(strategies.regressions(), st.sampled_from(["auto", "paper"]))
def test_the_mean_slack_is_mu_when_the_tube_is_open(problem, tube):
    """After eq. 10: mu is the mean of xi + xi*; at most mu where e >= 0 binds."""
    model = fitted(problem, tube=tube)
    f, _ = reading.standard_function(model, problem)
    width = model.tube_ / problem.units[2]
    mean = naive.mean_slack(f, problem.z, problem.weight, width)
    room = 2 * reading.tube_reach(problem, model) + 1e-6
    if tube == "paper" or width > 0:
        assert mean == pytest.approx(problem.mu, abs=room)
    else:
        assert mean <= problem.mu + room


@pytest.mark.parametrize(("tol", "room"), [(1e-1, 0.2), (1e-3, 0.02), (1e-6, 1e-3)])
def test_the_mean_slack_nears_mu_as_the_tolerance_falls(tol, room, rng):
    X = rng.normal(size=(200, 2))
    y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=200)
    problem = strategies.Regression(X, y, None, 10.0, 0.03, {"gamma": 0.5})
    model = fitted(problem, tol=tol)
    f, _ = reading.standard_function(model, problem)
    width = model.tube_ / problem.units[2]
    assert width > 0
    mean = naive.mean_slack(f, problem.z, problem.weight, width)
    assert mean == pytest.approx(0.03, rel=room)


def test_a_large_mu_closes_our_tube_and_turns_the_papers_inside_out(rng):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    problem = strategies.Regression(X, y, None, 1.0, 1.0, {"gamma": 0.5})
    ours, printed = fitted(problem), fitted(problem, tube="paper")
    assert ours.tube_ == 0
    f, _ = reading.standard_function(ours, problem)
    assert np.abs(problem.z - f).mean() < 1.0
    assert printed.tube_ < 0
    # Both sides of a row are then violated; the twin has both multipliers positive.
    twin = twin_of(problem, "paper")
    upper, lower = twin.b.reshape(2, -1)
    assert ((upper > 0) & (lower > 0)).any()
    assert_brackets(printed.certificate_, twin)
    # The free width can only lower the value.
    assert printed.certificate_.primal < ours.certificate_.primal


def test_a_fixed_tube_that_holds_every_row_needs_no_rows(rng):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30) + 7.0
    model = reading.fit(CoreVectorRegressor(tube=100.0, mu=None, **TIGHT), X, y)
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(model.predict(X), y.mean())


def test_the_same_tube_fixed_gives_the_function_that_the_automatic_one_gave(rng):
    X = rng.normal(size=(80, 2))
    y = 5 * np.sin(X[:, 0]) + rng.normal(size=80) + 3.0
    problem = strategies.Regression(X, y, None, 3.0, 0.05, {"gamma": 0.5})
    auto = fitted(problem)
    fixed = fitted(problem, tube=float(auto.tube_), mu=None)
    assert auto.tube_ > 0
    room = reading.tube_reach(problem, auto, fixed) * problem.units[2]
    assert np.abs(auto.predict(X) - fixed.predict(X)).max() <= room


@pytest.mark.parametrize("mu", [0.01, 0.03, 0.1, 0.3])
def test_a_smaller_mu_makes_a_wider_tube_with_fewer_rows_outside(mu, rng):
    X = rng.uniform(-3, 3, size=(150, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=150)
    shape = {"C": 10.0, "gamma": 1.0, **TIGHT}
    here = CoreVectorRegressor(mu=mu, **shape).fit(X, y)
    wider = CoreVectorRegressor(mu=mu / 2, **shape).fit(X, y)
    assert wider.tube_ >= here.tube_ - 1e-6


# --- the certificate ------------------------------------------------------------------


@settings(max_examples=100)
@given(
    strategies.regressions(),
    st.sampled_from(["auto", "paper", 0.1]),
    st.sampled_from([0.5, 0.1, 1e-3, 1e-9]),
)
def test_the_reported_gap_is_never_below_the_true_one(problem, tube, tol):
    twin = twin_of(problem, tube)
    assume(twin.size > 1e-9)
    is_name = isinstance(tube, str)
    model = fitted(problem, tube=tube if is_name else tube * problem.units[2], tol=tol)
    certificate = model.certificate_
    assert_is_a_bound(certificate, twin)
    fixed = None if is_name else tube
    own = reading.tube_primal(model, problem, free=tube == "paper", tube=fixed)
    larger = max(abs(certificate.primal), abs(certificate.dual))
    room = 1e-8 * twin.size + 2 * twin.rounding
    assert certificate.relative_gap * larger >= own - twin.primal - room
    stated = (certificate.primal - certificate.dual) / larger
    assert certificate.relative_gap == pytest.approx(max(stated, 0.0), abs=1e-12)


@settings(max_examples=40)
@given(strategies.regressions(C=strategies.penalties(-3, 3)))
def test_a_certificate_that_says_converged_is_within_tol(problem):
    model = fitted(problem, tol=1e-3)
    certificate = model.certificate_
    assert certificate.converged
    assert certificate.stopped_by == "tol"
    assert certificate.relative_gap <= 1e-3
    assert certificate.n_verified == certificate.n_rows == len(problem.X)


def test_the_certificate_says_in_which_units_it_speaks(rng):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    words = CoreVectorRegressor().fit(X, y).certificate_.problem.lower()
    assert "standard" in words or "z = (y - " in words
    fixed = CoreVectorRegressor(tube=0.1, mu=None).fit(X, y).certificate_.problem
    assert fixed.lower() != words


# --- weights --------------------------------------------------------------------------


@st.composite
def counted(draw):
    """A problem with whole-number weights, and more than one value left of y."""
    problem = draw(
        strategies.regressions(
            C=strategies.penalties(-3, 3),
            among=strategies.DISTANCE_KERNELS,
            weighted=False,
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    counts = rng.integers(0, 4, size=len(problem.X))
    counts[:2] = draw(st.integers(1, 3))
    return problem, counts


@settings(max_examples=50)
@given(counted(), st.sampled_from(["auto", "paper", 0.1]))
def test_a_weight_is_a_repetition_and_zero_is_absence(case, tube):
    problem, counts = case
    problem.s = counts.astype(float)
    assume(twin_of(problem, tube).size > 1e-9)
    given_tube = tube if isinstance(tube, str) else tube * problem.units[2]
    weighted = fitted(problem, tube=given_tube)
    repeated = regressor(problem, tube=given_tube)
    reading.fit(repeated, problem.X.repeat(counts, 0), problem.y.repeat(counts))
    assert weighted.target_mean_ == pytest.approx(repeated.target_mean_)
    assert weighted.target_scale_ == pytest.approx(repeated.target_scale_)
    one, other = weighted.certificate_, repeated.certificate_
    assert one.primal == pytest.approx(other.primal, rel=PROMISE, abs=1e-9)
    room = 2 * reading.tube_reach(problem, weighted, repeated) * problem.units[2]
    apart = np.abs(weighted.predict(problem.X) - repeated.predict(problem.X)).max()
    assert apart <= room
    assert weighted.tube_ == pytest.approx(repeated.tube_, abs=room)


def test_rows_of_weight_zero_are_absent_and_never_support_vectors(rng):
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    y[30:] *= 100.0  # they would be the worst rows of all
    s = np.repeat([1.0, 0.0], 30)
    shape = {"gamma": 0.5, **TIGHT}
    weighted = CoreVectorRegressor(**shape).fit(X, y, sample_weight=s)
    absent = CoreVectorRegressor(**shape).fit(X[:30], y[:30])
    assert (weighted.support_ < 30).all()
    assert weighted.certificate_.primal == pytest.approx(
        absent.certificate_.primal, rel=PROMISE
    )
    np.testing.assert_allclose(weighted.predict(X), absent.predict(X), atol=1e-3)


@settings(max_examples=30)
@given(
    strategies.regressions(C=strategies.penalties(-2, 2), weighted=False),
    st.sampled_from([1e-3, 0.5, 30.0]),
)
def test_one_weight_for_all_rows_is_a_factor_on_C(problem, weight):
    problem.s = np.full(len(problem.y), weight)
    model = fitted(problem)
    given = problem.K, problem.z, problem.C * weight, problem.mu
    assert_brackets(model.certificate_, naive.automatic_tube(*given, bias=problem.bias))
