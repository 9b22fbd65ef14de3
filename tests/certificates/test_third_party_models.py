"""`certify` for models that other solvers fitted: the gap is true, and it is theirs."""

import warnings
from itertools import combinations
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM
from strategies import quadratic_features

from corevec import CoreVectorClassifier, InvalidInputError, certify
from corevec.certificates import Machine
from corevec.reference import BallVectorMachine, Pegasos
from corevec.reference.lasvm import LASVM
from corevec.reference.simple_svm import SimpleSVM
from corevec.reference.smo import SMO


def named(value):
    """The same words in every process: a function's repr has its address."""
    if isinstance(value, dict):
        return ", ".join(str(getattr(v, "__name__", v)) for v in value.values())
    return str(value)


KERNELS = [
    {"kernel": "rbf", "gamma": 0.5},
    {"kernel": "rbf"},
    {"kernel": "rbf", "gamma": "auto"},
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2, "gamma": 0.3, "coef0": 1.0},
    {"kernel": "precomputed"},
    {"kernel": quadratic_features},
]


def cloud(seed, n=40, d=3, classes=2):
    """Return overlapping classes and regression targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.7 * rng.normal(size=n)
    cuts = np.quantile(score, np.arange(1, classes) / classes)
    return X, np.searchsorted(cuts, score), score


def gram(model, X):
    """Return kernel values by scikit-learn's own functions."""
    if model.kernel == "linear":
        return X @ X.T
    if callable(model.kernel):
        return model.kernel(X, X)
    names = {"rbf": ("gamma",), "poly": ("gamma", "degree", "coef0")}
    all_of = {
        "gamma": model._gamma,
        "degree": model.degree,
        "coef0": model.coef0,
    }
    words = {name: all_of[name] for name in names[model.kernel]}
    return pairwise_kernels(X, metric=model.kernel, **words)


def gap_of(found):
    return found.primal - found.dual


# SVC


@pytest.mark.parametrize("block", range(4))
def test_the_gap_of_svc_lies_between_0_and_what_its_tolerance_allows(block):
    for seed in range(50 * block, 50 * block + 50):
        rng = np.random.default_rng(seed)
        classes = int(rng.choice([2, 2, 3, 4]))
        X, y, _ = cloud(seed, n=int(rng.integers(25, 60)), classes=classes)
        params = dict(KERNELS[seed % len(KERNELS)])
        class_weight = [None, "balanced", {1: 3.0}][seed % 3]
        C, tol = 10 ** rng.uniform(-2, 2), float(rng.choice([1e-3, 1e-2]))
        s = rng.uniform(0.2, 3.0, size=len(y)) if seed % 2 else np.ones(len(y))
        model = SVC(C=C, tol=tol, class_weight=class_weight, **params)
        rows = X @ X.T if params["kernel"] == "precomputed" else X
        found = certify(model.fit(rows, y, s), rows, y, s)
        scale = C * s * model.class_weight_[y]
        parts = found.parts or (found,)
        pairs = list(combinations(range(classes), 2))
        assert len(parts) == len(pairs)
        for part, pair in zip(parts, pairs, strict=True):
            allowed = tol * scale[np.isin(y, pair)].sum()
            assert 0 <= gap_of(part) <= allowed
            assert part.largest_violation <= tol
            assert part.n_verified == part.n_rows == np.isin(y, pair).sum()
            # What the violation promises; rounding of the norms is added on top.
            bound = part.largest_violation * scale[np.isin(y, pair)].sum()
            assert gap_of(part) <= bound + 1e-9 * part.primal
        assert found.converged
        assert found.stopped_by == "tol"


@pytest.mark.parametrize("params", KERNELS[:5] + KERNELS[6:], ids=named)
def test_primal_and_dual_of_svc_are_those_of_an_explicit_sum(params):
    X, y, _ = cloud(1)
    s = np.random.default_rng(1).uniform(0.2, 3.0, size=len(y))
    model = SVC(C=3.0, class_weight={0: 2.0}, **params).fit(X, y, s)
    a = np.zeros(len(y))
    a[model.support_] = model.dual_coef_[0]
    sign, cap = np.where(y == 1, 1, -1), 3.0 * s * np.where(y == 0, 2.0, 1.0)
    assert (a * sign).min() >= 0
    norm = a @ gram(model, X) @ a
    loss = cap @ np.maximum(1 - sign * model.decision_function(X), 0)
    found = certify(model, X, y, s)
    assert found.primal == pytest.approx(norm / 2 + loss, rel=1e-10)
    assert found.dual == pytest.approx(np.abs(a).sum() - norm / 2, rel=1e-10)
    gap = (found.primal - found.dual) / found.primal
    assert found.relative_gap == pytest.approx(gap, rel=1e-12)
    assert "hinge, free bias" in found.problem
    assert "C=3" in found.problem


def test_each_pair_of_classes_is_certified_as_the_two_alone():
    X, y, _ = cloud(2, n=60, classes=3)
    names = np.array(["low", "middle", "high"])
    model = SVC(C=2.0, gamma=0.4, tol=1e-6).fit(X, names[y])
    found = certify(model, X, names[y])
    assert "one machine per class or pair" in found.problem
    for part, (i, j) in zip(found.parts, combinations(model.classes_, 2), strict=True):
        rows = np.isin(names[y], (i, j))
        two = SVC(C=2.0, gamma=0.4, tol=1e-6).fit(X[rows], names[y][rows])
        alone = certify(two, X[rows], names[y][rows])
        assert part.primal == pytest.approx(alone.primal, rel=1e-5)
        assert part.dual == pytest.approx(alone.dual, rel=1e-5)
        assert f"{i!s}" in part.problem
        assert f"{j!s}" in part.problem


def test_the_gap_encloses_the_optimum_of_a_loose_fit():
    X, y, _ = cloud(3, n=120)
    loose = certify(SVC(C=10.0, tol=0.5).fit(X, y), X, y)
    exact = certify(SVC(C=10.0, tol=1e-6).fit(X, y), X, y)
    assert exact.relative_gap < 1e-6
    assert loose.dual < exact.dual <= exact.primal < loose.primal
    assert loose.relative_gap > 1e-3


def test_a_perturbed_model_is_caught():
    X, y, _ = cloud(4, n=100)
    before = certify(SVC(C=5.0).fit(X, y), X, y)
    changes = {
        "one variable": lambda m: m.dual_coef_.__setitem__((0, 0), 0.0),
        "all variables": lambda m: np.multiply(m.dual_coef_, 0.9, out=m.dual_coef_),
        "signs": lambda m: np.negative(m.dual_coef_, out=m.dual_coef_),
        "above C": lambda m: np.multiply(m.dual_coef_, 2.0, out=m.dual_coef_),
        "intercept": lambda m: np.add(m.intercept_, 0.1, out=m.intercept_),
    }
    for name, change in changes.items():
        model = SVC(C=5.0).fit(X, y)
        change(model)
        found = certify(model, X, y)
        assert gap_of(found) > 10 * gap_of(before) > 0, name
        assert found.largest_violation > 10 * before.largest_violation, name
        assert not found.converged


def test_labels_and_weights_of_another_problem_are_caught():
    X, y, _ = cloud(5, n=80)
    model = SVC(C=5.0).fit(X, y)
    other = y.copy()
    other[model.support_[0]] = 1 - other[model.support_[0]]
    assert certify(model, X, other).relative_gap > 0.01
    assert certify(model, X, y, np.full(len(y), 2.0)).relative_gap > 0.01
    more = np.vstack([X, X[:40] + 3.0]), np.concatenate([y, 1 - y[:40]])
    assert certify(model, *more).relative_gap > 0.01
    assert certify(model, *more).n_rows == 120


def test_svc_that_ran_out_of_steps_at_large_C_shows_its_gap():
    rng = np.random.default_rng(0)
    X = rng.random((400, 2)) * 4
    y = np.floor(X).sum(axis=1) % 2
    with pytest.warns(ConvergenceWarning):
        model = SVC(C=1e6, gamma=1.0, max_iter=2000).fit(X, y)
    found = certify(model, X, y)
    assert found.relative_gap > 0.5
    assert found.largest_violation > 1e-2
    assert not found.converged
    assert found.stopped_by == "max_iter"
    assert "NOT converged (stopped by max_iter)" in str(found)
    assert f"{found.largest_violation:.3g}" in str(found)


def test_rows_of_weight_0_are_found_again():
    # scikit-learn's support_ counts the rows that are left.
    X, y, target = cloud(6, n=60)
    s = np.random.default_rng(0).choice([0.0, 1.0, 2.0], size=60)
    for model in (SVC(), NuSVC(nu=0.3), SVR(), OneClassSVM(nu=0.3)):
        wanted = target if isinstance(model, SVR) else y
        found = certify(model.fit(X, wanted, sample_weight=s), X, wanted, s)
        left = s > 0
        again = certify(model, X[left], wanted[left], s[left])
        assert found.converged
        assert found.primal == pytest.approx(again.primal, rel=1e-12)
        assert found.dual == pytest.approx(again.dual, rel=1e-12)


def test_sparse_rows_give_the_certificate_of_dense_ones():
    X, y, target = cloud(7, n=60, classes=3)
    X[np.abs(X) < 0.7] = 0.0
    S = sparse.csr_matrix(X)
    for model in (SVC(gamma=0.3), SVR(gamma=0.3), OneClassSVM(nu=0.2), LinearSVC()):
        wanted = target if isinstance(model, SVR) else y
        thin = certify(model.fit(S, wanted), S, wanted)
        mixed = certify(model, X, wanted)
        assert thin.relative_gap < 1e-2
        assert mixed.primal == pytest.approx(thin.primal, rel=1e-10)
        assert mixed.dual == pytest.approx(thin.dual, rel=1e-10)
        assert thin.converged


def test_probabilities_do_not_change_the_certificate():
    X, y, _ = cloud(8, n=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn 1.9
        model = SVC(probability=True, random_state=0).fit(X, y)
    found = certify(model, X, y)
    assert found.primal == certify(SVC().fit(X, y), X, y).primal


def test_a_kernel_that_is_not_positive_definite_is_named():
    X, y, _ = cloud(9)
    model = SVC(kernel="sigmoid", gamma=0.2, C=0.5).fit(X, y)
    found = certify(model, X, y)
    assert "not positive definite" in found.problem
    assert found.confidence == 0.0
    assert found.converged
    a = model.dual_coef_[0]
    K = np.tanh(0.2 * model.support_vectors_ @ model.support_vectors_.T)
    loss = 0.5 * np.maximum(1 - (2 * y - 1) * model.decision_function(X), 0).sum()
    assert found.primal == pytest.approx(a @ K @ a / 2 + loss, rel=1e-9)


# The problems that are stated, solved by SLSQP in the primal


def optimum(objective, constraints, start):
    """Return the least value of a convex problem with inequality constraints >= 0."""
    found = minimize(
        objective,
        start,
        method="SLSQP",
        constraints=[{"type": "ineq", "fun": c} for c in constraints],
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert found.status in (0, 8)  # 8: no step lowers the value any more
    return found.fun


def stated_optimum(model, X, y, s):
    """Return the optimum of the problem in `Certificate.problem`, linear kernel.

    Variables: two weights, bias, level (margin, offset or tube), slacks.
    """
    S, nu, C, n = s.sum(), model.nu, model.C, len(s)
    start = np.concatenate([[0.1, 0.1, 0.0, 1.0], np.full(n, 5.0)])
    values = {
        SVC: lambda v: v[:2] @ v[:2] / 2 + C * s @ v[4:],
        SVR: lambda v: v[:2] @ v[:2] / 2 + C * s @ v[4:],
        NuSVC: lambda v: v[:2] @ v[:2] / 2 - nu * S * v[3] + s @ v[4:],
        OneClassSVM: lambda v: v[:2] @ v[:2] / 2 - nu * S * v[3] + s @ v[4:],
        NuSVR: lambda v: v[:2] @ v[:2] / 2 + C * (nu * S * v[3] + s @ v[4:]),
    }
    f = lambda v: X @ v[:2] + v[2]  # noqa: E731
    sign = 2 * y - 1
    conditions = {
        SVC: [lambda v: sign * f(v) - 1 + v[4:]],
        NuSVC: [lambda v: sign * f(v) - v[3] + v[4:], lambda v: v[3]],
        OneClassSVM: [lambda v: X @ v[:2] - v[3] + v[4:]],
    }
    if isinstance(model, SVR | NuSVR):
        tube = (lambda v: v[3]) if isinstance(model, NuSVR) else lambda v: model.epsilon
        conditions[type(model)] = [
            lambda v: tube(v) + v[4:] - (y - f(v)),
            lambda v: tube(v) + v[4:] + (y - f(v)),
            lambda v: v[3],
        ]
    return optimum(
        values[type(model)], [*conditions[type(model)], lambda v: v[4:]], start
    )


MACHINES = [
    SVC(C=0.7, kernel="linear", tol=1e-8),
    NuSVC(nu=0.4, kernel="linear", tol=1e-8),
    SVR(C=0.7, epsilon=0.3, kernel="linear", tol=1e-8),
    NuSVR(C=0.7, nu=0.4, kernel="linear", tol=1e-8),
    OneClassSVM(nu=0.4, kernel="linear", tol=1e-8),
]


@pytest.mark.parametrize("model", MACHINES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_optimum_of_the_stated_problem_is_enclosed(model, weighted):
    X, labels, target = cloud(10, n=24, d=2)
    X = X + 1.0
    y = target if isinstance(model, SVR | NuSVR) else labels
    s = np.random.default_rng(10).uniform(0.3, 2.0, 24) if weighted else np.ones(24)
    found = certify(model.fit(X, y, sample_weight=s), X, y, s)
    best = stated_optimum(model, X, y, s)
    assert found.primal == pytest.approx(best, rel=1e-5, abs=1e-7)
    assert found.dual == pytest.approx(best, rel=1e-5, abs=1e-7)
    assert gap_of(found) >= 0
    # LIBSVM keeps kernel values in float32, so 1e-8 asked is 1e-6 reached.
    assert found.largest_violation < 1e-6


# The other machines


OTHERS = [
    NuSVC(nu=0.3),
    NuSVC(nu=0.3, class_weight={0: 5.0}),
    SVR(C=2.0),
    SVR(C=50.0, epsilon=0.0),
    SVR(epsilon=100.0),  # no support vector at all
    NuSVR(C=2.0, nu=0.3),
    NuSVR(C=2.0, nu=1.0),
    OneClassSVM(nu=0.1),
    OneClassSVM(nu=0.8),
]
# With a straight line between curved classes the optimum of nu-SVC is w = 0.
CASES = [
    (model, params)
    for model in OTHERS
    for params in KERNELS
    if not (isinstance(model, NuSVC) and params["kernel"] == "linear")
]


@pytest.mark.parametrize(("model", "params"), CASES, ids=named)
def test_a_machine_of_scikit_learn_is_certified(model, params):
    X, y, target = cloud(11, n=80, classes=3 if isinstance(model, NuSVC) else 2)
    y = target if isinstance(model, SVR | NuSVR) else y
    X = quadratic_features(X, X) if params["kernel"] == "precomputed" else X
    s = np.random.default_rng(11).uniform(0.2, 3.0, size=80)
    model = model.__class__(**{**model.get_params(), **params}).fit(X, y, s)
    found = certify(model, X, y, s)
    caps = s.sum() * model.C if isinstance(model, SVR | NuSVR) else s.sum()
    assert 0 <= gap_of(found) <= 2 * model.tol * caps
    assert found.largest_violation <= model.tol
    assert found.converged


@pytest.mark.parametrize("model", OTHERS[:4] + OTHERS[5:], ids=named)
def test_a_perturbed_machine_is_caught(model):
    X, y, target = cloud(12, n=80)
    y = target if isinstance(model, SVR | NuSVR) else y
    before = gap_of(certify(model.fit(X, y), X, y))
    model.intercept_ = model.intercept_ + 1.0
    assert gap_of(certify(model, X, y)) > 10 * before + 1e-6
    model.fit(X, y)
    model.dual_coef_ = model.dual_coef_ * np.linspace(0.5, 1.5, model.dual_coef_.size)
    found = certify(model, X, y)
    assert gap_of(found) > 10 * before + 1e-6
    assert not found.converged


# Linear models


def least(objective, d):
    """Return the least value of a smooth convex function of d variables."""
    found = minimize(
        objective, np.zeros(d), method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}
    )
    return found.fun


@pytest.mark.parametrize("scaling", [1.0, 5.0, None])
@pytest.mark.parametrize("class_weight", [None, "balanced", {1: 4.0, 2: 0.5}])
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_svc_with_the_squared_hinge(scaling, class_weight, classes):
    X, y, _ = cloud(13, n=90, classes=classes)
    y = y + 1
    s = np.random.default_rng(13).uniform(0.2, 3.0, size=90)
    model = LinearSVC(
        C=0.5,
        tol=1e-6,
        class_weight=class_weight,
        fit_intercept=scaling is not None,
        intercept_scaling=scaling or 1.0,
    ).fit(X, y, s)
    found = certify(model, X, y, s)
    assert len(found.parts) == (3 if classes == 3 else 0)
    assert found.relative_gap < 1e-6
    assert found.converged
    assert found.largest_violation < 1e-2
    assert gap_of(found) >= 0
    coarse = LinearSVC(C=0.5, dual=True, tol=10.0, class_weight=class_weight)
    assert certify(coarse.fit(X, y, s), X, y, s).relative_gap > 1e-4


def test_primal_of_linear_svc_is_the_explicit_one_and_its_optimum_is_enclosed():
    X, y, _ = cloud(14, n=90)
    sign = 2 * y - 1
    model = LinearSVC(C=0.5, dual=True, tol=0.3, intercept_scaling=2.0, random_state=0)
    model.fit(X, y)

    def value(v):  # v[3] is the weight of a column of twos
        margin = np.maximum(1 - sign * (X @ v[:3] + 2.0 * v[3]), 0)
        return v @ v / 2 + 0.5 * margin @ margin

    found = certify(model, X, y)
    own = value(np.append(model.coef_, model.intercept_ / 2.0))
    assert found.primal == pytest.approx(own, rel=1e-12)
    best = least(value, 4)
    assert found.dual < best < found.primal
    # The violations as dual variables miss by half the squared gradient, at most.
    margin = np.maximum(1 - sign * model.decision_function(X), 0)
    rows = np.column_stack([X, np.full(90, 2.0)])
    slope = np.append(model.coef_, model.intercept_ / 2.0) - (sign * margin) @ rows
    assert gap_of(found) <= slope @ slope / 2
    assert found.largest_violation == pytest.approx(np.abs(slope).max(), rel=1e-9)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_svc_with_the_hinge(C, classes):
    X, y, _ = cloud(15, n=150, classes=classes)
    s = np.random.default_rng(15).choice([0.0, 0.5, 2.0], size=150)
    model = LinearSVC(C=C, loss="hinge", tol=1e-6, max_iter=200_000, random_state=0)
    found = certify(model.fit(X, y, s), X, y, s)
    assert gap_of(found) >= 0
    assert found.relative_gap < 1e-3
    model.coef_ = model.coef_ * 0.9
    assert certify(model, X, y, s).relative_gap > 2 * found.relative_gap + 1e-4


def test_the_hinge_of_linear_svc_is_that_of_svc_without_its_bias():
    X, y, _ = cloud(16, n=100)
    X -= X.mean(axis=0)
    model = LinearSVC(C=1.0, loss="hinge", tol=1e-8, max_iter=10**6, random_state=0)
    model.set_params(fit_intercept=False).fit(X, y)
    found = certify(model, X, y)
    sign = 2 * y - 1
    own = model.coef_[0] @ model.coef_[0] / 2
    own += np.maximum(1 - sign * (X @ model.coef_[0]), 0).sum()
    assert found.primal == pytest.approx(own, rel=1e-12)
    # Without a bias the dual has the box only.
    K = np.outer(sign, sign) * (X @ X.T)
    best = minimize(
        lambda a: (a @ K @ a / 2 - a.sum(), K @ a - 1),
        np.full(100, 0.5),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, 1)] * 100,
        options={"ftol": 1e-14, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 10**5},
    )
    assert found.dual <= -best.fun * (1 + 1e-7)
    assert found.dual == pytest.approx(-best.fun, rel=1e-4)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_linear_svr(loss):
    X, _, y = cloud(17, n=120)
    s = np.random.default_rng(17).uniform(0.2, 3.0, size=120)
    model = LinearSVR(
        C=0.4, epsilon=0.2, loss=loss, tol=1e-7, max_iter=10**6, random_state=0
    ).fit(X, y, s)
    found = certify(model, X, y, s)
    left = np.maximum(np.abs(y - model.predict(X)) - 0.2, 0)
    norm = model.coef_ @ model.coef_ + model.intercept_[0] ** 2
    power = 2 if loss.startswith("squared") else 1
    own = norm / 2 + 0.4 * s @ left**power
    assert found.primal == pytest.approx(own, rel=1e-12)
    assert 0 <= found.relative_gap < 1e-4
    model.coef_ = model.coef_ + 0.1
    assert certify(model, X, y, s).relative_gap > 1e-3


# Other libraries


def as_loaded(model, **changes):
    """Return what a LIBSVM file tells of a model, as a plain object."""
    names = ["support_vectors_", "dual_coef_", "intercept_", "kernel", "gamma"]
    names += ["degree", "coef0"]
    if hasattr(model, "classes_"):
        names += ["classes_", "n_support_"]
    named = {name: getattr(model, name) for name in names}
    return SimpleNamespace(**{**named, **changes})


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("thin", [False, True])
def test_a_loaded_libsvm_model_finds_its_rows(classes, thin):
    X, y, target = cloud(18, n=60, classes=classes)
    X[30:36] = X[:6]  # repeated rows, of either class
    X = sparse.csr_matrix(X) if thin else X
    model = SVC(C=2.0, gamma=0.5).fit(X, y)
    found, own = certify(as_loaded(model, C=2.0), X, y), certify(model, X, y)
    assert found.primal == pytest.approx(own.primal, rel=1e-12)
    assert found.dual == pytest.approx(own.dual, rel=1e-12)
    regressor = SVR(C=2.0, gamma="scale").fit(X, target)
    found = certify(as_loaded(regressor, C=2.0, epsilon=0.1), X, target)
    own = certify(regressor, X, target)
    assert found.primal == pytest.approx(own.primal, rel=1e-9)


def test_a_loaded_model_is_told_apart_by_its_parameters():
    X, y, target = cloud(23, n=60)
    for model, wanted, words in (
        (NuSVC(nu=0.5), y, {"nu": 0.5}),
        (NuSVR(nu=0.4, C=2.0), target, {"nu": 0.4, "C": 2.0}),
        (OneClassSVM(nu=0.3), y, {"nu": 0.3}),
    ):
        own = certify(model.fit(X, wanted), X, wanted)
        found = certify(as_loaded(model, **words), X, wanted)
        assert found.problem == own.problem
        assert found.primal == pytest.approx(own.primal, rel=1e-9)
        assert found.dual == pytest.approx(own.dual, rel=1e-9)


def test_the_squared_hinge_with_a_penalised_bias_is_that_of_corevec():
    X, y, _ = cloud(19, n=60)
    own = CoreVectorClassifier(
        C=3.0, gamma=0.5, tol=1e-7, random_state=0, method="coreset"
    ).fit(X, y)
    loaded = as_loaded(own, C=3.0, loss="squared_hinge", bias="penalized")
    found = certify(loaded, X, y)
    assert found.relative_gap < 1e-6
    assert found.primal == pytest.approx(own.certificate_.primal, rel=1e-6)
    assert "squared hinge, penalised bias" in found.problem
    loaded.intercept_ = loaded.intercept_ + 0.1
    assert certify(loaded, X, y).relative_gap > 1e-4


def test_the_squared_hinge_with_a_free_bias_is_a_hard_margin_in_a_larger_space():
    X, y, _ = cloud(20, n=60)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    hard = SVC(C=1e8, kernel="precomputed", tol=1e-8).fit(K + np.eye(60) / 3.0, y)
    model = as_loaded(
        hard, C=3.0, loss="squared_hinge", kernel="precomputed", support_=hard.support_
    )
    found = certify(model, K, y)
    assert 0 <= found.relative_gap < 1e-6
    margin = np.maximum(1 - (2 * y - 1) * (_function(model, K)), 0)
    a = model.dual_coef_[0]
    norm = a @ K[np.ix_(model.support_, model.support_)] @ a
    own = norm / 2 + 1.5 * margin @ margin
    assert found.primal == pytest.approx(own, rel=1e-10)


def _function(model, K):
    return K[:, model.support_] @ model.dual_coef_[0] + model.intercept_[0]


def test_scikit_learn_intelex():
    svm = pytest.importorskip("sklearnex.svm")
    X, y, target = cloud(21, n=300, classes=3)
    s = np.random.default_rng(21).choice([0.0, 0.5, 2.0], size=300)
    cases = [
        (svm.SVC(C=2.0), y, None),
        (svm.SVC(C=2.0, class_weight={1: 3.0}), y, s),
        (svm.SVC(C=2.0, kernel="poly", degree=2, coef0=1.0), np.minimum(y, 1), None),
        (svm.NuSVC(nu=0.5), y, None),
        (svm.NuSVC(nu=0.5, class_weight={0: 2.0}), y, None),
        (svm.SVR(C=2.0), target, s),
        (svm.NuSVR(C=2.0, nu=0.4), target, None),
    ]
    for model, wanted, weights in cases:
        assert "sklearnex" in type(model).__module__
        found = certify(model.fit(X, wanted, weights), X, wanted, weights)
        assert 0 <= found.relative_gap < 5e-3, model
        assert found.largest_violation < 5e-3, model
        model.intercept_[:] += 0.3
        assert certify(model, X, wanted, weights).relative_gap > 5e-3, model


@pytest.mark.parametrize("classes", [2, 3])
def test_the_reference_solvers(classes):
    X, y, _ = cloud(24, n=80, classes=classes)
    s = np.random.default_rng(24).choice([0.0, 0.5, 2.0], size=80)
    words = {"C": 2.0, "class_weight": {0: 3.0}}
    for model in (
        SMO(**words),
        SMO(loss="squared_hinge", **words),
        SMO(kernel="precomputed", **words),
        SimpleSVM(**words),
        LASVM(n_epochs=None, random_state=0, **words),
    ):
        rows = quadratic_features(X, X) if model.kernel == "precomputed" else X
        found = certify(model.fit(rows, y, s), rows, y, s)
        assert len(found.parts) == (3 if classes == 3 else 0)
        assert found.converged, model
        assert found.relative_gap < 1e-2, model
        model.intercept_ += 0.5
        assert certify(model, rows, y, s).relative_gap > 1e-2, model


# What is refused


X0, Y0, T0 = cloud(22)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (LogisticRegression().fit(X0, Y0), "dual variables.*no dual_coef_"),
        (SGDClassifier(random_state=0).fit(X0, Y0), "dual variables"),
        (HistGradientBoostingClassifier(max_iter=2).fit(X0, Y0), "dual variables"),
        (KernelRidge(kernel="rbf").fit(X0, T0), "no intercept_, support_ or"),
        (make_pipeline(StandardScaler(), SVC()).fit(X0, Y0), r"pipe\[-1\]"),
        (GridSearchCV(SVC(), {"C": [1.0]}, cv=2).fit(X0, Y0), "best_estimator_"),
        (CalibratedClassifierCV(SVC(), cv=2).fit(X0, Y0), "wraps other models"),
        (SVC, "class SVC"),
        (LinearSVC(penalty="l1").fit(X0, Y0), "penalty='l1'"),
        (LinearSVC(multi_class="crammer_singer").fit(X0, Y0), "crammer_singer"),
        (SimpleNamespace(a=1), "no dual_coef_, intercept_, kernel, support_"),
        (as_loaded(SVC().fit(X0, Y0)), "without C or nu"),
        (as_loaded(SVC().fit(X0, Y0), C=1.0, loss="log"), "loss='log'"),
        (as_loaded(SVC().fit(X0, Y0), C=np.inf), "C=inf must be a finite number"),
        (as_loaded(SVC().fit(X0, Y0), C=1.0, kernel="cosine"), "kernel='cosine'"),
        (as_loaded(SVC().fit(X0 + 1e-9, Y0), C=1.0), "not a row of its class in X"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_certified_says_why(model, text):
    with pytest.raises(InvalidInputError, match=text):
        certify(model, X0, Y0)


def test_rows_that_are_not_the_training_rows_are_refused():
    model = SVC().fit(X0, Y0)
    with pytest.raises(InvalidInputError, match="X has only 5 rows"):
        certify(model, X0[:5], Y0[:5])
    with pytest.raises(InvalidInputError, match="support_ of X"):
        certify(model, X0[::-1], Y0[::-1])
    with pytest.raises(InvalidInputError, match=r"2 features.* 3"):
        certify(model, X0[:, :2], Y0)
    with pytest.raises(InvalidInputError, match="40 rows, but y has 39"):
        certify(model, X0, Y0[1:])
    with pytest.raises(InvalidInputError, match="y is missing"):
        certify(model, X0)
    with pytest.raises(InvalidInputError, match=r"y\[0\] = 7 is none of"):
        certify(model, X0, Y0 + 7)
    with pytest.raises(InvalidInputError, match="negative"):
        certify(model, X0, Y0, -np.ones(40))
    with pytest.raises(NotFittedError, match="certify: this SVC is not fitted"):
        certify(SVC(), X0, Y0)
    with pytest.raises(InvalidInputError, match="NaN"):
        certify(model, np.where(X0 > 0, np.nan, X0), Y0)
    by_call = SVC(kernel=quadratic_features).fit(X0, Y0)
    with pytest.raises(InvalidInputError, match="support_ of X"):
        certify(by_call, X0[::-1], Y0[::-1])


def test_precomputed_kernels_are_checked():
    K = X0 @ X0.T
    model = SVC(kernel="precomputed").fit(K, Y0)
    with pytest.raises(InvalidInputError, match="square"):
        certify(model, K[:30], Y0[:30])
    s = np.ones(40)
    s[:5] = 0.0
    model.fit(K, Y0, s)
    with pytest.raises(InvalidInputError, match="weight 0"):
        certify(model, K, Y0, s)


def test_a_nu_that_the_weights_do_not_allow_is_refused():
    model = NuSVC(nu=0.9).fit(X0, Y0)
    with pytest.raises(InvalidInputError, match="no optimum"):
        certify(model, X0, Y0, np.where(Y0 == 1, 10.0, 1.0))


def test_a_nu_machine_without_a_margin_is_refused():
    X, y, _ = cloud(11, n=80, classes=3)
    model = NuSVC(nu=0.1, kernel="linear").fit(X, y)
    with pytest.raises(InvalidInputError, match="margin"):
        certify(model, X, y)


# Any dual variables


@st.composite
def machines(draw):
    """Return a machine of any kind on six rows, a function, and dual variables."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n, sign = 6, np.array([1.0, 1, 1, -1, -1, -1])
    cap = rng.uniform(0.1, 3.0, n)
    kind = draw(st.sampled_from(["C", "penalised", "none", "one-class", "nu", "tube"]))
    squared = draw(st.booleans()) and kind in ("C", "penalised", "none")
    words = {"name": kind, "row": np.arange(n), "sign": sign, "cap": cap}
    words |= {"target": np.ones(n), "squared": squared}
    if kind in ("penalised", "none"):
        words |= {"bias_scale": 2.0 if kind == "penalised" else 0.0}
    if kind in ("one-class", "nu"):
        words |= {"target": np.zeros(n), "level": rng.uniform(0, 3)}
        side = min(cap[:3].sum(), cap[3:].sum())
        words |= {"total": rng.uniform(0, 2) * side}
    if kind == "one-class":
        words |= {"sign": np.ones(n), "bias_scale": 0.0}
    if kind == "tube":
        words |= {"row": np.arange(n) % 3, "cap": np.tile(cap[:3], 2)}
        words |= {"target": np.concatenate([t := rng.normal(size=3), -t])}
        words |= {"level": None, "total": rng.uniform(0, 1) * cap[:3].sum()}
    beta = np.maximum(rng.normal(size=n), 0) * draw(st.sampled_from([0.1, 1.0, 10.0]))
    return Machine(**words), rng.normal(size=(6, 3)), rng.normal(size=4), beta


@settings(max_examples=300)
@given(machines())
def test_no_dual_value_is_above_any_primal_value(drawn):
    machine, phi, weights, beta = drawn
    w, b = weights[:3], 0.0 if machine.bias_scale == 0 else weights[3]
    repaired = machine.feasible(beta)
    assert (repaired >= 0).all()
    assert machine.squared or (repaired <= machine.cap * (1 + 1e-12)).all()
    if np.isinf(machine.bias_scale):
        assert machine.sign @ repaired == pytest.approx(0, abs=1e-12 * repaired.sum())
    if np.isfinite(machine.total) and machine.level is not None:
        assert repaired.sum() == pytest.approx(machine.total, rel=1e-9)
    pulled = (machine.sign * repaired) @ phi[machine.row]
    dual = machine.dual(repaired, pulled @ pulled)
    primal = machine.primal(phi @ w + b, w @ w, b)
    assert dual <= primal + 1e-12 * abs(primal)


@pytest.mark.parametrize("intercept", [True, False])
def test_approximate_reference_solvers_are_judged_by_their_own_problem(intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1, -1)
    pegasos = Pegasos(n_epochs=200, fit_intercept=intercept, random_state=0).fit(X, y)
    found = certify(pegasos, X, y)
    assert "hinge" in found.problem
    f = pegasos.decision_function(X)
    b = float(pegasos.intercept_[0])
    w = pegasos.coef_[0]
    primal = (w @ w + b**2) / 2 + np.maximum(0, 1 - y * f).sum()
    assert found.primal == pytest.approx(primal, rel=1e-6)
    assert found.dual <= found.primal
    ball = BallVectorMachine(gamma=1.0, epsilon=1e-3, random_state=0).fit(X, y)
    judged = certify(ball, X, y)
    exact = CoreVectorClassifier(gamma=1.0, tol=1e-8).fit(X, y).certificate_
    # Both bounds enclose the same optimum: it is the same problem.
    assert judged.dual <= exact.primal * (1 + 1e-9)
    assert judged.primal >= exact.dual * (1 - 1e-9)
    c, b = ball.dual_coef_[0], float(ball.intercept_[0])
    among = naive.gram(ball.support_vectors_, gamma=1.0)
    excess = np.maximum(0, 1 - y * ball.decision_function(X))
    primal = (c @ among @ c + b**2 + excess @ excess) / 2
    assert judged.primal == pytest.approx(primal, rel=1e-9)
