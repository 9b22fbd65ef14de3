"""StructuralSVM: equal to LinearSVC on two classes, and right for any structure."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_iris
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec.estimators import StructuralSVM
from corevec.exceptions import InvalidInputError, NotCertifiedWarning


@parametrize_with_checks([StructuralSVM()])
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def two_classes(n=120, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.3
    return X, (X[:, 0] - X[:, 1] + 0.8 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.parametrize("C", [0.05, 2.0])
@pytest.mark.parametrize("bias", [False, True])
def test_on_two_classes_it_is_linear_svc(C, bias):
    # |w|^2 = |difference|^2/2: LinearSVC with 2C, and twice the objective. Both
    # penalise the bias.
    X, y = two_classes()
    reference = LinearSVC(
        C=2 * C, loss="hinge", fit_intercept=bias, tol=1e-8, max_iter=10**6
    ).fit(X, y)
    ours = StructuralSVM(C, fit_intercept=bias, tol=1e-6).fit(X, y)
    sign = 2 * y - 1

    def objective(coef, intercept):
        f = X @ coef + intercept
        norm = coef @ coef + intercept**2
        return norm / 2 + 2 * C * np.maximum(1 - sign * f, 0).sum()

    best = objective(reference.coef_[0], float(np.ravel(reference.intercept_)[0]))
    found = objective(ours.coef_[0], ours.intercept_[0])
    assert found == pytest.approx(best, rel=1e-5)
    assert ours.certificate_.primal == pytest.approx(found / 2, rel=1e-9)
    assert ours.certificate_.dual <= best / 2 * (1 + 1e-6)
    # |w - w*|^2 <= 2 (P - P*).
    allowed = 2 * np.sqrt(2 * 1e-5 * best)
    assert ours.coef_ == pytest.approx(reference.coef_, abs=allowed)


def crammer_singer(X, codes, cost, C):
    """Return the optimum by the dual of the n-slack problem, with SLSQP.

    One multiplier per row and class: a simplex of size C for each row.
    """
    n, k = len(X), len(cost)
    own = np.eye(k)[codes]

    def value(a):
        a = a.reshape(n, k)
        W = (C * own - a).T @ X
        return (W**2).sum() / 2 - (a * cost[codes]).sum(), (
            -(X @ W.T) - cost[codes]
        ).ravel()

    sums = np.kron(np.eye(n), np.ones(k))
    found = minimize(
        value,
        C * own.ravel(),
        jac=True,
        bounds=[(0, C)] * (n * k),
        constraints={
            "type": "eq",
            "fun": lambda a: sums @ a - C,
            "jac": lambda a: sums,
        },
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    return -found.fun


@pytest.mark.parametrize("costs", ["zero-one", "matrix"])
def test_many_classes_reach_the_optimum_of_crammer_and_singer(costs):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(24, 3))
    y = rng.integers(0, 3, size=24)
    cost = 1 - np.eye(3)
    if costs == "matrix":
        cost = np.array([[0, 1, 5.0], [2, 0, 0.5], [1, 1, 0]])
    best = crammer_singer(X, y, cost, 0.7)
    given = None if costs == "zero-one" else cost
    model = StructuralSVM(0.7, cost_matrix=given, fit_intercept=False, tol=1e-6)
    certificate = model.fit(X, y).certificate_
    assert certificate.converged
    assert certificate.dual <= best * (1 + 1e-7)
    assert certificate.primal == pytest.approx(best, rel=1e-5)
    scores = X @ model.coef_.T
    worst = (scores + cost[y]).max(axis=1) - scores[np.arange(24), y]
    primal = (model.coef_**2).sum() / 2 + 0.7 * worst.sum()
    assert certificate.primal == pytest.approx(primal, rel=1e-9)


class PairOfBits:
    """Two binary outputs that like to agree: four outputs, the Hamming loss."""

    outputs = tuple(itertools.product((0, 1), repeat=2))

    def joint_feature(self, x, y):
        signs = 2 * np.array(y) - 1
        return np.concatenate([np.outer(signs, x).ravel(), [float(y[0] == y[1])]])

    def loss(self, y_true, y):
        return sum(a != b for a, b in zip(y_true, y, strict=True)) / 2

    def argmax(self, x, y_true, w):
        def value(y):
            lost = 0.0 if y_true is None else self.loss(y_true, y)
            return lost + w @ self.joint_feature(x, y)

        return max(self.outputs, key=value)


def structured(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    first = X[:, 0] > 0
    second = np.where(rng.uniform(size=n) < 0.8, first, X[:, 1] > 0)
    return list(X), [(int(a), int(b)) for a, b in zip(first, second, strict=True)]


def test_a_model_of_ones_own_is_fitted_and_certified():
    X, y = structured()
    model = StructuralSVM(1.0, PairOfBits(), tol=1e-4).fit(X, y)
    own, w = PairOfBits(), model.weights_

    def objective(w):
        risk = sum(
            max(own.loss(b, o) + w @ own.joint_feature(a, o) for o in own.outputs)
            - w @ own.joint_feature(a, b)
            for a, b in zip(X, y, strict=True)
        )
        return w @ w / 2 + risk

    certificate = model.certificate_
    assert certificate.converged
    assert certificate.primal == pytest.approx(objective(w), rel=1e-9)
    # No w does better than the dual value says: a direct search does not either.
    found = minimize(objective, w, method="Powell", options={"maxiter": 20})
    assert certificate.dual <= found.fun + 1e-9
    right = np.mean([a == b for a, b in zip(model.predict(X), y, strict=True)])
    assert right > 0.8


def test_the_multiclass_example_equals_the_same_model_written_out():
    class OneOfThree:
        def joint_feature(self, x, y):
            return np.outer(np.eye(3)[y], x).ravel()

        def loss(self, y_true, y):
            return float(y_true != y)

        def argmax(self, x, y_true, w):
            scores = w.reshape(3, -1) @ x
            if y_true is not None:
                scores = scores + (np.arange(3) != y_true)
            return int(np.argmax(scores))

    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0))[::3]
    y = y[::3]
    built_in = StructuralSVM(0.5, fit_intercept=False, tol=1e-5).fit(X, y)
    own = StructuralSVM(0.5, OneOfThree(), tol=1e-5).fit(X, y)
    assert own.certificate_.primal == pytest.approx(
        built_in.certificate_.primal, rel=2e-5
    )


def test_weights_count_rows_and_sparse_rows_are_dense_rows():
    X, y = two_classes(80)
    X[np.abs(X) < 0.4] = 0
    y = y + (X[:, 2] > 0.5)
    s = np.random.default_rng(0).integers(0, 3, size=80)
    again = np.repeat(np.arange(80), s)
    weighted = StructuralSVM(tol=1e-5).fit(X, y, s)
    repeated = StructuralSVM(tol=1e-5).fit(X[again], y[again])
    thin = StructuralSVM(tol=1e-5).fit(sparse.csr_matrix(X), y, s)
    value = weighted.certificate_.primal
    assert repeated.certificate_.primal == pytest.approx(value, rel=2e-5)
    assert thin.certificate_.primal == pytest.approx(value, rel=1e-6)
    assert thin.predict(sparse.csr_matrix(X)).tolist() == weighted.predict(X).tolist()


def test_the_paper_to_the_letter_stops_by_its_epsilon():
    X, y = two_classes(60)
    model = StructuralSVM(0.1, fit_intercept=False, epsilon=1e-3).fit(X, y)
    # Within epsilon of the slack: the objective is within C n epsilon of the optimum.
    best = StructuralSVM(0.1, fit_intercept=False, tol=1e-7).fit(X, y).certificate_
    assert model.certificate_.primal <= best.primal + 0.1 * 60 * 1e-3
    assert model.certificate_.primal > best.dual


def test_a_spent_budget_is_said():
    X, y = two_classes()
    with pytest.warns(NotCertifiedWarning, match="stopped by max_iter"):
        model = StructuralSVM(10.0, max_iter=3).fit(X, y)
    assert not model.certificate_.converged
    assert model.n_iter_ == len(model.history_) == 3


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"C": -1}, "C=-1"),
        ({"model": "tree"}, "model='tree'"),
        ({"model": object()}, "joint_feature"),
        ({"cost_matrix": np.ones((2, 2))}, "zero diagonal"),
        ({"cost_matrix": np.zeros((3, 3))}, r"shape \(2, 2\)"),
        ({"max_iter": 2.5}, "max_iter=2.5"),
        ({"fit_intercept": "yes"}, "fit_intercept='yes'"),
    ],
)
def test_errors_say_what_is_allowed(parameters, text):
    X, y = two_classes(20)
    with pytest.raises(InvalidInputError, match=text):
        StructuralSVM(**parameters).fit(X, y)


def test_outputs_must_match_inputs():
    X, y = structured(5)
    with pytest.raises(InvalidInputError, match=r"X .*5 .*y .*4"):
        StructuralSVM(model=PairOfBits()).fit(X, y[:4])


class Huge:
    """A model of one's own whose features are as large as it is told."""

    def __init__(self, size):
        self.size = size

    def joint_feature(self, x, y):
        return np.array([self.size * x * y, y])

    def loss(self, y_true, y):
        return float(y_true != y)

    def argmax(self, x, y_true, w):
        def worth(y):
            return (y_true is not None and y != y_true) + w @ self.joint_feature(x, y)

        return max((-1.0, 1.0), key=worth)


@pytest.mark.parametrize("size", [1e160, 1e300])
@pytest.mark.parametrize("has_own_model", [False, True])
def test_features_whose_products_overflow_are_refused(size, has_own_model):
    X, y = two_classes(20)
    model = StructuralSVM(max_time=2, max_iter=5)  # which ended no fit of this kind
    if has_own_model:
        model.set_params(model=Huge(size))
        X, y = X[:, 0].tolist(), (2.0 * y - 1).tolist()
    else:
        X = size * X
    with pytest.raises(
        InvalidInputError, match=r"StructuralSVM: .*e\+(159|160|299|300)"
    ):
        model.fit(X, y)


@pytest.mark.filterwarnings("ignore::corevec.exceptions.NotCertifiedWarning")
def test_large_features_whose_products_are_finite_come_to_an_end():
    X, y = two_classes(40)
    model = StructuralSVM(fit_intercept=False).fit(1e100 * X, y)
    assert model.certificate_.stopped_by in ("tol", "stall")
    assert np.isfinite(model.coef_).all()
