"""A core set along a stream: what it solves, and what the summary keeps."""

import numpy as np
import pytest
from scipy import optimize

from corevec.kernels import make_kernel
from corevec.solvers.streaming import CoreForm, CoreStream, Summary, Targets


def rows_of(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    z = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, z


def solved(K, z, omega, two_sided=False):
    """Return the function values of the minimum, by SciPy in the span of the rows."""

    def objective(a):
        residual = z - K @ a
        wrong = residual if two_sided else np.maximum(z * residual, 0.0)
        slope = K @ a - K @ (omega * (wrong if two_sided else z * wrong))
        return a @ K @ a / 2 + (omega * wrong**2).sum() / 2, slope

    found = optimize.minimize(
        objective, np.zeros(len(z)), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    return K @ found.x


def stream_of(kernel, X, z, C=1.0, **form):
    own = CoreStream(CoreForm(**form), make_kernel(kernel, gamma=0.5), X.shape[1], 1)
    return own.absorb(X, Targets(z[:, None], np.full(len(z), C)))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_within_the_budget_the_core_is_solved_exactly(kernel):
    X, z = rows_of(80)
    stream = stream_of(kernel, X, z, C=2.0, budget=200, block=20)
    core, own = stream.rows, stream.targets
    K = core @ core.T
    if kernel == "rbf":
        K = np.exp(-0.5 * ((core[:, None] - core[None]) ** 2).sum(axis=2))
    expected = solved(K + 1, own.z[:, 0], own.omega)
    np.testing.assert_allclose(stream.values(core)[:, 0], expected, atol=1e-5)


def test_a_regression_by_columns_forgets_nothing_that_leaves():
    """Squares are quadratic: one pass at any budget is ridge regression."""
    X, _ = rows_of(400)
    target = X @ [1.0, -2.0, 0.5] + 0.3
    target += 0.1 * np.random.default_rng(1).normal(size=400)
    stream = stream_of("linear", X, target, C=3.0, budget=20, two_sided=True)
    F = np.column_stack([X, np.ones(400)])
    expected = np.linalg.solve(np.eye(4) / 3.0 + F.T @ F, F.T @ target)
    np.testing.assert_allclose(stream.coef[:, 0], expected, rtol=1e-8)
    assert len(stream.targets.omega) <= 20


# With 30 rows a Gaussian machine of these is 2.5 points short.
@pytest.mark.parametrize(
    ("kernel", "budget"), [("linear", 30), ("linear", 60), ("rbf", 60), ("rbf", 120)]
)
def test_a_small_budget_is_nearly_the_machine_of_all_rows(kernel, budget):
    X, z = rows_of(1000)
    test, label = rows_of(3000, seed=1)
    small = stream_of(kernel, X, z, budget=budget)
    large = stream_of(kernel, X, z, budget=1000)
    right = [
        (np.sign(one.values(test)[:, 0]) == label).mean() for one in (small, large)
    ]
    assert len(small.targets.omega) <= budget
    assert small.n_left > 300
    # Each of 3000 rows is right or not: 0.8 points are one standard deviation.
    assert right[0] > right[1] - 0.016


def test_the_squares_of_a_summary_are_those_of_its_rows():
    rng = np.random.default_rng(0)
    F, target, omega = rng.normal(size=(4, 9)), rng.normal(size=(9, 2)), np.full(9, 2.0)
    first = Summary.empty(4, 2).after(F[:, :5], target[:5], omega[:5])
    second = Summary.empty(4, 2).after(F[:, 5:], target[5:], omega[5:])
    curve = np.eye(4) + 2.0 * F @ F.T
    for whole in (first.after(F[:, 5:], target[5:], omega[5:]), first.joined(second)):
        np.testing.assert_allclose(whole.spread, np.linalg.inv(curve), atol=1e-10)
        mean = np.linalg.solve(curve, 2.0 * F @ target)
        np.testing.assert_allclose(whole.mean, mean, atol=1e-10)
    half = first.decayed(0.5)
    curve = np.eye(4) + F[:, :5] @ F[:, :5].T
    np.testing.assert_allclose(half.spread, np.linalg.inv(curve), atol=1e-10)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_joined_streams_know_the_rows_of_both(kernel):
    X, z = rows_of(2000)
    test, label = rows_of(2000, seed=1)
    parts = [
        stream_of(kernel, X[s], z[s], budget=50) for s in np.split(np.arange(2000), 2)
    ]
    before = [one.coef.copy() for one in parts]
    joint = parts[0].joined(parts[1])
    assert joint.n_rows == 2000
    assert len(joint.targets.omega) <= 50
    for one, coef in zip(parts, before, strict=True):
        np.testing.assert_array_equal(one.coef, coef)
    share = [
        (np.sign(one.values(test)[:, 0]) == label).mean() for one in (*parts, joint)
    ]
    assert share[2] > min(share[:2]) - 0.01


def test_with_a_half_life_a_changed_concept_is_learned():
    X, z = rows_of(4000)
    z[3400:] *= -1
    plain = stream_of("linear", X, z, budget=50)
    forgetful = stream_of("linear", X, z, budget=50, half_life=200.0)
    share = [
        (np.sign(one.values(X[-500:])[:, 0]) == z[-500:]).mean()
        for one in (plain, forgetful)
    ]
    assert share[1] > 0.72  # the best linear classifier: 0.79
    assert share[1] > share[0] + 0.1
