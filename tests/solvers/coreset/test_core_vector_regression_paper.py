"""What the Core Vector Regression paper proves, measured from outside.

Eq. 6 in our letters: the paper's C is C mu S, its mu m / C is 1/C here (with weights
1/(C s_i)), its objective twice ours. With lambda = b / C_paper on the simplex the ball
of section 3.2 has, for the side +-1 of row i,

    |c - phi_i|^2 + Delta_i = |c|^2 - 2 (K~ lambda)_i + eta +- 2 z_i / C_paper

and its radius is measured from the kernel matrix alone. `QP` is room for the small
solver, which is iterative.
"""

from dataclasses import dataclass

import naive
import numpy as np
import pytest
import reading
import strategies
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corevec import CoreVectorRegressor, certify, methods

QP = 1e-6
EPSILONS = st.sampled_from([0.3, 0.1, 0.01, 1e-3])
TUBES = st.sampled_from(["paper", "auto"])
# Any kernel: section 3.2 lifts the condition k(x, x) = constant.
PROBLEMS = strategies.regressions(C=strategies.penalties(-2, 3))
LITERAL = {"method": methods.CoreSet(sampling=59, batch=1, qp="smo", ball_epsilon=1e-6)}


@dataclass
class Ball:
    """The centre-constrained ball of a problem, from the kernel matrix."""

    problem: strategies.Regression

    @property
    def C(self):
        """The paper's C."""
        return self.problem.C * self.problem.mu * self.problem.weight.sum()

    @property
    def eta(self):
        """Return the shift that makes every Delta >= 0: eq. 15."""
        here = self.problem.weight > 0
        own = np.diag(self.problem.K) + float(self.problem.bias)
        with np.errstate(divide="ignore"):
            own = own + 1 / (self.problem.C * self.problem.weight)
        return (own + 2 * np.abs(self.problem.z) / self.C)[here].max()

    def measure(self, a):
        """Return the squared radius and all squared distances for simplex weights.

        `a` has a row for each side. What is missing to a sum of one lies on the extra
        vertex at the origin (Delta = eta), which keeps our tube from going negative.
        """
        K = self.problem.K + float(self.problem.bias)
        with np.errstate(divide="ignore", invalid="ignore"):
            slack = np.where(a > 0, a / (self.problem.C * self.problem.weight), 0.0)
        f = K @ (a[0] - a[1])
        K_a = np.array([f, -f]) + slack
        energy = (a * K_a).sum()
        shift = self.eta + 2 / self.C * np.array([self.problem.z, -self.problem.z])
        radius_sq = (a * shift).sum() + (1 - a.sum()) * self.eta - energy
        d_sq = energy - 2 * K_a + shift
        return radius_sq, d_sq[:, self.problem.weight > 0]


def sides(model, problem):
    """Return the simplex weights of a model in which each row has one side at most."""
    signed = np.zeros(len(problem.y))
    np.add.at(signed, model.support_, reading.coefficients(model) / problem.units[2])
    return np.clip([signed, -signed], 0, None) / Ball(problem).C


def fit_by_the_paper(problem, epsilon, **params):
    rule = methods.CoreSet(sampling="full", batch=1, ball_epsilon=epsilon)
    rule.set_params(**{n: params.pop(n) for n in ("init", "qp") if n in params})
    given = {"random_state": 0, "tube": "paper", **problem.params, **params}
    model = CoreVectorRegressor(method=rule, **given)
    return reading.fit(model, problem.X, problem.y, problem.s)


def optimum(problem, tube):
    """Return p* of eq. 6: twice our value."""
    given = problem.K, problem.z, problem.C, problem.mu, problem.s
    twin = naive.automatic_tube(*given, bias=problem.bias, free=tube == "paper")
    return 2 * twin.dual


@settings(max_examples=60)
@given(PROBLEMS, EPSILONS, TUBES)
def test_property_3_bounds_the_optimum_by_the_radius(problem, epsilon, tube):
    certificate = fit_by_the_paper(problem, epsilon, tube=tube).certificate_
    ball = Ball(problem)
    radius_sq = certificate.radius**2
    shifted = optimum(problem, tube) / ball.C**2 + ball.eta
    assert radius_sq <= shifted * (1 + QP)
    assert shifted <= (1 + epsilon) ** 2 * radius_sq * (1 + QP)
    assert certificate.converged
    assert certificate.stopped_by == "ball_epsilon"
    assert certificate.ball_epsilon <= epsilon * (1 + QP)


@settings(max_examples=60)
@given(PROBLEMS, EPSILONS, TUBES)
def test_the_ball_grown_by_epsilon_holds_every_row(problem, epsilon, tube):
    model = fit_by_the_paper(problem, epsilon, tube=tube)
    a = sides(model, problem)
    # A negative tube: some row has both multipliers, and their difference is stored.
    assume(tube == "auto" or a.sum() > 1 - QP)
    radius_sq, d_sq = Ball(problem).measure(a)
    assert model.certificate_.radius == pytest.approx(np.sqrt(radius_sq), rel=QP)
    assert np.sqrt(d_sq.max()) <= np.sqrt(radius_sq) * (1 + epsilon) * (1 + QP)


@settings(max_examples=30)
@given(PROBLEMS, EPSILONS)
def test_property_1_a_full_search_needs_at_most_two_over_epsilon_rows(problem, epsilon):
    assert len(fit_by_the_paper(problem, epsilon).support_) <= 2 / epsilon


def test_the_bound_on_the_core_set_holds_where_it_bites(rng):
    X = rng.uniform(-3, 3, size=(1000, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=1000)
    problem = strategies.Regression(X, y, None, 1e-3, 0.1, {"gamma": 2.0})
    for epsilon in (0.2, 0.1, 0.05, 0.02):
        model = fit_by_the_paper(problem, epsilon)
        assert model.certificate_.converged
        assert len(model.support_) <= 2 / epsilon


@settings(max_examples=20)
@given(PROBLEMS, st.sampled_from(["any", "farthest", "opposite", "auto"]))
def test_every_initialisation_keeps_the_promise(problem, init):
    certificate = fit_by_the_paper(problem, 0.01, init=init).certificate_
    ball = Ball(problem)
    shifted = optimum(problem, "paper") / ball.C**2 + ball.eta
    assert certificate.radius**2 <= shifted * (1 + QP)
    assert shifted <= 1.01**2 * certificate.radius**2 * (1 + QP)


@settings(max_examples=20)
@given(PROBLEMS, EPSILONS)
def test_the_printed_small_solver_keeps_the_promise(problem, epsilon):
    certificate = fit_by_the_paper(problem, epsilon, qp="smo").certificate_
    ball = Ball(problem)
    shifted = optimum(problem, "paper") / ball.C**2 + ball.eta
    assert certificate.radius**2 <= shifted * (1 + QP)
    assert shifted <= (1 + epsilon) ** 2 * certificate.radius**2 * (1 + QP)


@settings(max_examples=30)
@given(PROBLEMS, EPSILONS)
def test_property_3_bounds_the_gap_that_is_reported_beside_it(problem, epsilon):
    """The paper's rule stops the run; the gap is still that of the problem itself."""
    model = fit_by_the_paper(problem, epsilon)
    certificate = model.certificate_
    assert certificate.primal >= certificate.dual - 1e-9 * abs(certificate.primal)
    own = reading.tube_primal(model, problem, free=True)
    twin = optimum(problem, "paper") / 2
    larger = max(abs(certificate.primal), abs(certificate.dual))
    room = 1e-7 * max(larger, own)
    assert certificate.relative_gap * larger >= own - twin - room


def test_epsilon_zero_in_the_limit_is_the_exact_solution(rng):
    """Property 3, first sentence."""
    X = rng.normal(size=(40, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)
    problem = strategies.Regression(X, y, None, 0.1, 0.1, {"gamma": 0.5})
    model = fit_by_the_paper(problem, 1e-9, qp="newton")
    own = reading.tube_primal(model, problem, free=True)
    assert own == pytest.approx(optimum(problem, "paper") / 2, rel=1e-5)


def test_the_radius_never_shrinks_as_the_core_set_grows(rng):
    X = rng.uniform(-3, 3, size=(300, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=300)
    problem = strategies.Regression(X, y, None, 1.0, 0.05, {"gamma": 2.0})
    epsilons = (0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5)
    fits = [fit_by_the_paper(problem, epsilon).certificate_ for epsilon in epsilons]
    assert (np.diff([found.radius for found in fits]) >= -QP).all()


@pytest.mark.parametrize("seed", range(2))
def test_the_literal_algorithm_is_reachable_and_honest(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(1500, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=1500)
    problem = strategies.Regression(X, y, None, 1.0, 0.05, {"gamma": 1.0})
    model = CoreVectorRegressor(
        tube="paper", random_state=seed, **problem.params, **LITERAL
    )
    reading.fit(model, X, y)
    certificate = model.certificate_
    if certificate.converged:
        assert certificate.n_verified == certificate.n_rows == 1500
        radius_sq, d_sq = Ball(problem).measure(sides(model, problem))
        assert np.sqrt(d_sq.max()) <= np.sqrt(radius_sq) * (1 + 1e-6) * (1 + QP)
    assert model.score(X, y) > 0.9  # it learns the curve, if not to the optimum
    assert certify(model, X, y).relative_gap >= 0
