"""`loss="hinge"` is the problem of scikit-learn's SVC, SVR, NuSVR and OneClassSVM."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.svm import SVC, SVR, NuSVR, OneClassSVM

from corevec import (
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    InvalidInputError,
    NotCertifiedWarning,
    certify,
    methods,
)

X, Y = make_moons(300, noise=0.3, random_state=0)
T = 5 + 3 * np.sin(2 * X[:, 0]) + np.random.default_rng(1).normal(size=len(X))
OTHER, OTHER_Y = make_moons(200, noise=0.3, random_state=1)
OTHER_T = 5 + 3 * np.sin(2 * OTHER[:, 0])
# One of each problem, with the targets of X and of OTHER.
HINGE = {"loss": "hinge", "gamma": 1.0}
PINBALL = CoreVectorRegressor(loss="quantile", level=0.7, gamma=1.0)
MACHINES = {
    "SVC": (CoreVectorClassifier(C=2.0, **HINGE), Y, OTHER_Y),
    "SVR": (CoreVectorRegressor(tube=0.3, **HINGE), T, OTHER_T),
    "NuSVR": (CoreVectorRegressor(mu=0.4, **HINGE), T, OTHER_T),
    "quantile": (PINBALL, T, OTHER_T),
    "OneClassSVM": (CoreVectorOneClass(nu=0.2, **HINGE), None, None),
}


@pytest.mark.parametrize("method", ["auto", "exact", methods.Exact()])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_objective_is_that_of_svc(method, C):
    given = {"C": C, "gamma": 1.0}
    twin = SVC(tol=1e-8, **given).fit(X, Y)
    model = CoreVectorClassifier(loss="hinge", tol=1e-8, method=method, **given)
    model.fit(X, Y)
    found, theirs = model.certificate_, certify(twin, X, Y)
    assert found.converged
    assert found.dual <= theirs.primal * (1 + 1e-9)
    assert theirs.dual <= found.primal * (1 + 1e-9)
    # At a relative gap of 1e-8 functions differ by 1e-4 of the norm at most.
    apart = np.abs(model.decision_function(X) - twin.decision_function(X)).max()
    assert apart < 1e-4 * np.sqrt(2 * theirs.primal)
    assert model.method_.startswith("exact: all 300 rows")


def test_pairs_of_classes_vote_as_svc_does():
    X, y = load_iris(return_X_y=True)
    model = CoreVectorClassifier(loss="hinge", gamma=0.5, tol=1e-6).fit(X, y)
    twin = SVC(gamma=0.5, decision_function_shape="ovr").fit(X, y)
    assert np.mean(model.predict(X) == twin.predict(X)) == 1.0


def test_a_row_of_weight_zero_is_absent_and_two_count_twice():
    s = np.random.default_rng(0).integers(0, 3, len(X))
    model = CoreVectorClassifier(loss="hinge", gamma=1.0, tol=1e-8)
    weighted = model.fit(X, Y, s.astype(float)).certificate_.primal
    repeated = model.fit(X.repeat(s, 0), Y.repeat(s)).certificate_.primal
    assert weighted == pytest.approx(repeated, rel=3e-8)


@pytest.mark.parametrize("tube", [0.0, 0.3])
def test_the_regression_is_that_of_svr(tube):
    model = CoreVectorRegressor(loss="hinge", C=2.0, tube=tube, gamma=1.0, tol=1e-8)
    model.fit(X, T)
    scale = float(model.target_scale_[0])
    twin = SVR(C=2.0 * scale, epsilon=tube, gamma=1.0, tol=1e-8).fit(X, T)
    theirs, found = certify(twin, X, T), model.certificate_
    # In units of the standardised targets.
    assert found.dual * scale**2 <= theirs.primal * (1 + 1e-9)
    assert theirs.dual <= found.primal * scale**2 * (1 + 1e-9)
    # |f - f*|^2 <= 2 (P - D) for each of both, plus a bias.
    size = np.sqrt(2 * theirs.primal * max(theirs.relative_gap, found.relative_gap))
    apart = np.abs(model.predict(X) - twin.predict(X)).max()
    assert apart < 4 * size
    assert model.tube_ == pytest.approx(tube, rel=1e-15)


def test_the_automatic_tube_is_that_of_nu_svr():
    model = CoreVectorRegressor(loss="hinge", C=2.0, mu=0.4, gamma=1.0, tol=1e-8)
    model.fit(X, T)
    scale = float(model.target_scale_[0])
    twin = NuSVR(C=2.0 * scale, nu=0.4, gamma=1.0, tol=1e-8).fit(X, T)
    apart = np.abs(model.predict(X) - twin.predict(X)).max()
    assert apart < 1e-4 * np.sqrt(2 * model.certificate_.primal) * scale
    outside = np.abs(T - model.predict(X)) > model.tube_ * (1 + 1e-4)
    assert np.mean(outside) <= 0.4


def test_targets_are_regressed_one_by_one():
    two = np.stack([T, -2 * T + X[:, 1]], axis=1)
    model = CoreVectorRegressor(loss="hinge", tol=1e-8).fit(X, two)
    for t in range(2):
        alone = CoreVectorRegressor(loss="hinge", tol=1e-8).fit(X, two[:, t])
        np.testing.assert_allclose(
            model.predict(X)[:, t], alone.predict(X), atol=1e-4 * np.abs(two).max()
        )
        assert model.tube_[t] == pytest.approx(alone.tube_, rel=1e-3)


@pytest.mark.parametrize("nu", [0.05, 0.5])
def test_the_region_is_that_of_one_class_svm(nu):
    model = CoreVectorOneClass(nu, loss="hinge", gamma=1.0, tol=1e-8).fit(X)
    twin = OneClassSVM(nu=nu, gamma=1.0, tol=1e-8).fit(X)
    size = np.sqrt(2 * abs(model.certificate_.primal))
    for name in ("decision_function", "score_samples"):
        ours, theirs = getattr(model, name)(X), getattr(twin, name)(X)
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * size)
    assert model.offset_ == pytest.approx(float(twin.offset_[0]), abs=1e-4 * size)
    assert np.mean(model.decision_function(X) < -1e-4 * size) <= nu
    assert not hasattr(model, "C_")


@pytest.mark.parametrize("name", MACHINES)
def test_certify_repeats_the_training_rows_and_bounds_other_rows(name):
    model, y, other = MACHINES[name]
    model.fit(X, y)
    again = certify(model, X, y)
    assert again.converged
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    found = certify(model, OTHER, other)
    assert not found.converged
    twin = SVC(C=2.0, gamma=1.0)
    if name == "SVR":
        scale = float(model.target_scale_[0])
        other = (OTHER_T - model.target_mean_) / scale
        twin = SVR(C=3.0, gamma=1.0, epsilon=0.3 / scale)
    elif name == "OneClassSVM":
        twin = OneClassSVM(nu=0.2, gamma=1.0)
    elif name != "SVC":
        return
    optimum = certify(twin.set_params(tol=1e-8).fit(OTHER, other), OTHER, other)
    assert found.dual <= optimum.primal
    assert optimum.dual <= found.primal
    # The lower bound is that of a fit to the model's tol.
    assert found.dual >= optimum.primal - 1.01e-3 * abs(optimum.primal)


@pytest.mark.parametrize("name", MACHINES)
def test_a_checkpoint_is_resumed_and_removed(name, tmp_path):
    model, y, _ = MACHINES[name]
    path = tmp_path / "fit.npz"
    model = type(model)(**model.get_params()).set_params(checkpoint=path)
    with pytest.warns(NotCertifiedWarning, match="max_iter"):
        model.set_params(max_iter=1, tol=1e-14).fit(X, y)
    assert path.exists()
    reached = model.certificate_.relative_gap
    model.set_params(max_iter=None, tol=1e-3).fit(X, y)
    assert not path.exists()
    # The first look is at the state that was stored.
    assert model.history_[0]["gap"] == pytest.approx(reached, abs=1e-12)


def test_machines_of_a_checkpoint_that_were_not_reached_are_solved(tmp_path):
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "fit.npz"
    model = CoreVectorClassifier(loss="hinge", checkpoint=path, n_jobs=1)
    with pytest.warns(NotCertifiedWarning, match="max_iter"):
        model.set_params(max_iter=1).fit(X, y)
    model.set_params(max_iter=None).fit(X, y)
    assert [part.converged for part in model.certificate_.parts] == [True] * 3
    whole = CoreVectorClassifier(loss="hinge").fit(X, y)
    assert np.array_equal(model.predict(X), whole.predict(X))


@pytest.mark.parametrize("name", MACHINES)
def test_a_warm_start_begins_at_the_solution(name):
    model, y, _ = MACHINES[name]
    model = type(model)(**model.get_params()).set_params(warm_start=True)
    model.fit(X, y)
    reached = model.certificate_.relative_gap
    model.fit(X, y)
    assert [one["gap"] for one in model.history_] == pytest.approx([reached], abs=1e-12)


@pytest.mark.parametrize("name", MACHINES)
def test_rows_of_a_cluster_and_of_a_device_give_the_same(name):
    dask = pytest.importorskip("dask.array")
    model, y, _ = MACHINES[name]
    primal = model.fit(X, y).certificate_.primal
    target = None if y is None else dask.from_array(y, chunks=100)
    model.fit(dask.from_array(X, chunks=(100, 2)), target)
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-3)
    pytest.importorskip("torch")
    on_device = type(model)(**model.get_params()).set_params(device="cpu")
    on_device.fit(X, y)
    assert on_device.certificate_.primal == pytest.approx(primal, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (CoreVectorClassifier(method="coreset"), "loss"),
        (CoreVectorClassifier(fit_intercept=False), "fit_intercept"),
        (CoreVectorRegressor(method="few-vectors"), "loss"),
        (CoreVectorRegressor(fit_intercept=False), "fit_intercept"),
        (CoreVectorRegressor(mu=1.5), "mu"),
        (CoreVectorOneClass(method="cells"), "loss"),
        (CoreVectorOneClass(C=1.0), "C"),
    ],
)
def test_what_does_not_solve_the_hinge_is_named(model, word):
    model.set_params(loss="hinge")
    with pytest.raises(InvalidInputError) as raised:
        model.fit(X, Y)
    assert raised.value.parameter == word
