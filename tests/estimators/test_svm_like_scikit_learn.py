"""`corevec.svm` beside ``sklearn.svm`` on the same rows: values, attributes, votes."""

import pickle

import numpy as np
import pytest
import sklearn.svm
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs, make_classification
from sklearn.metrics.pairwise import rbf_kernel

import corevec
from corevec import InvalidInputError, NotCertifiedWarning, certify
from corevec.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

KERNELS = [
    {"kernel": "rbf"},
    {"kernel": "linear"},
    {"kernel": "poly", "coef0": 1.0, "degree": 2, "gamma": "auto"},
]
# The two solvers stop at the same violation; at 1e-5 of it their values differ by less
# than this on rows of unit scale.
TOL, VALUES = 1e-5, 2e-4


def classes(n_classes=3, n=150, seed=0):
    return make_classification(
        n,
        n_features=5,
        n_informative=4,
        n_redundant=0,
        n_classes=n_classes,
        class_sep=0.8,
        random_state=seed,
    )


def numbers(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=n)


MODELS = [
    (SVC(C=2.0), classes()),
    (SVC(C=0.5, class_weight="balanced"), classes(2)),
    (NuSVC(nu=0.8), classes()),
    (SVR(C=5.0, epsilon=0.05), numbers()),
    (NuSVR(C=2.0, nu=0.3), numbers()),
    (OneClassSVM(nu=0.2), numbers()),
]
EACH = pytest.mark.parametrize(
    ("model", "data"), MODELS, ids=[type(m).__name__ for m, _ in MODELS]
)


def theirs(model):
    """Return scikit-learn's model with the parameters of ours."""
    cls = getattr(sklearn.svm, type(model).__name__)
    known = cls().get_params()
    return cls(**{k: v for k, v in model.get_params().items() if k in known})


def both(model, X, y, **more):
    """Return a fitted model of ours, and scikit-learn's."""
    model = clone(model).set_params(tol=TOL)
    return model.fit(X, y, **more), theirs(model).fit(X, y, **more)


def values(model, X):
    """Return decision values, or predictions of a regressor."""
    return getattr(model, "decision_function", model.predict)(X)


def dense(rows):
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k["kernel"])
@EACH
def test_values_attributes_and_support_are_those_of_scikit_learn(model, data, kernel):
    X, y = data
    own, other = both(clone(model).set_params(**kernel), X, y)
    new = np.random.default_rng(1).normal(size=(200, X.shape[1]))
    # Votes of "ovr" jump where a value of a pair is 0.
    for one in (own, other):
        if hasattr(one, "decision_function_shape"):
            one.decision_function_shape = "ovo"
    mine, found = values(own, new), values(other, new)
    scale = max(1.0, np.abs(found).max())
    assert mine == pytest.approx(found, abs=VALUES * scale)
    if hasattr(own, "classes_"):
        clear = np.abs(np.reshape(found, (len(new), -1))).min(axis=1) > VALUES * scale
        assert clear.mean() > 0.9
        assert (own.predict(new) == other.predict(new))[clear].all()
    for name in ("support_", "dual_coef_", "intercept_", "n_support_", "shape_fit_"):
        assert np.ndim(getattr(own, name)) == np.ndim(getattr(other, name))
    assert own.dual_coef_.shape[0] == other.dual_coef_.shape[0]
    assert own.support_vectors_.shape[1] == other.support_vectors_.shape[1]
    assert own._gamma == pytest.approx(other._gamma)
    assert own.fit_status_ == other.fit_status_ == 0
    assert type(own.n_iter_) is type(other.n_iter_)
    if hasattr(own, "coef_"):
        assert own.coef_ == pytest.approx(other.coef_, abs=VALUES * scale)
        assert own.coef_.shape == other.coef_.shape


@EACH
def test_the_objective_is_within_the_certified_gap_of_scikit_learns(model, data):
    X, y = data
    own, other = both(model, X, y)
    mine, found = certify(own, X, y), certify(other, X, y)
    assert own.certificate_.converged
    assert mine.primal == pytest.approx(own.certificate_.primal, rel=1e-9)
    for part, reference in zip(
        mine.parts or [mine], found.parts or [found], strict=True
    ):
        # The optimum lies in both brackets.
        slack = 1e-9 * abs(reference.primal)
        assert part.dual <= reference.primal + slack
        assert reference.dual <= part.primal + slack
        assert part.relative_gap < 1e-4


def test_support_vectors_come_class_by_class_in_the_order_of_their_rows():
    X, y = classes(4)
    own, other = both(SVC(), X, y)
    assert own.n_support_.tolist() == other.n_support_.tolist()
    assert own.support_.tolist() == other.support_.tolist()
    assert own.support_.dtype == own.n_support_.dtype == np.int32
    assert own.support_vectors_.tolist() == X[own.support_].tolist()
    assert own.dual_coef_ == pytest.approx(other.dual_coef_, abs=2e-3)


def test_two_classes_have_the_sign_of_scikit_learn():
    X, y = classes(2)
    own, other = both(SVC(kernel="linear"), X, y)
    assert own.intercept_ == pytest.approx(other.intercept_, abs=1e-3)
    assert own.coef_ == pytest.approx(other.coef_, abs=1e-3)
    above = own.decision_function(X) > 0
    assert (own.predict(X) == own.classes_[above.astype(int)]).all()
    assert (np.sign(own.dual_coef_[0]) == np.where(y[own.support_] == 1, 1, -1)).all()


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_votes_of_many_classes_are_those_of_scikit_learn(shape):
    X, y = make_blobs(120, centers=6, cluster_std=3.0, random_state=0)
    y = np.array([f"class {code}" for code in y])
    own, other = both(SVC(decision_function_shape=shape, gamma=0.05), X, y)
    new = np.random.default_rng(0).uniform(-12, 12, (300, 2))
    assert own.decision_function(new).shape == other.decision_function(new).shape
    pairs = clone(own).set_params(decision_function_shape="ovo").fit(X, y)
    clear = np.abs(pairs.decision_function(new)).min(axis=1) > VALUES * 10
    assert clear.mean() > 0.9
    mine, found = own.decision_function(new), other.decision_function(new)
    assert mine[clear] == pytest.approx(found[clear], abs=VALUES * 10)
    assert (own.predict(new) == other.predict(new))[clear].all()


@pytest.mark.parametrize("breaks", [False, True])
def test_equal_votes_go_to_the_first_class_or_to_the_largest_value(breaks):
    X, y = classes(5)
    own, other = both(SVC(kernel="precomputed", break_ties=breaks), X @ X.T, y)
    # Any numbers are kernel values of new rows: then classes often have equal votes.
    new = np.random.default_rng(0).normal(size=(300, len(X)))
    votes = np.round(own.decision_function(new))
    ties = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1
    assert ties.sum() > 50
    assert (own.predict(new) == other.predict(new)).mean() > 0.99
    by_value = own.decision_function(new).argmax(axis=1)
    assert (own.predict(new) == own.classes_[by_value]).all() == breaks


@EACH
def test_a_matrix_and_a_function_give_the_same_model_as_the_kernel_by_name(model, data):
    X, y = data
    new = X[:40] + 0.01
    named = clone(model).set_params(gamma=0.3, tol=TOL).fit(X, y)
    matrix = clone(model).set_params(kernel="precomputed", tol=TOL)
    matrix.fit(rbf_kernel(X, gamma=0.3), y)

    def kernel(A, B):
        return rbf_kernel(A, B, gamma=0.3)

    function = clone(model).set_params(kernel=kernel, tol=TOL).fit(X, y)
    wanted = values(named, new)
    scale = max(1.0, np.abs(wanted).max())
    by_matrix = values(matrix, rbf_kernel(new, X, gamma=0.3))
    assert by_matrix == pytest.approx(wanted, abs=VALUES * scale)
    assert values(function, new) == pytest.approx(wanted, abs=VALUES * scale)
    assert matrix.support_vectors_.shape == function.support_vectors_.shape == (0, 0)
    assert matrix._gamma == function._gamma == 0.0
    again = pickle.loads(pickle.dumps(matrix))
    assert (values(again, rbf_kernel(new, X, gamma=0.3)) == by_matrix).all()


@pytest.mark.parametrize(
    "kind", [sparse.csr_matrix, sparse.csr_array, sparse.lil_matrix]
)
@EACH
def test_sparse_rows_give_sparse_attributes_and_the_same_model(model, data, kind):
    X, y = data
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    own = clone(model).fit(kind(X), y)
    other, full = theirs(model).fit(kind(X), y), clone(model).fit(X, y)
    assert type(own.dual_coef_) is type(other.dual_coef_)
    assert type(own.support_vectors_) is type(other.support_vectors_)
    assert own.dual_coef_.toarray() == pytest.approx(full.dual_coef_, rel=1e-12)
    for rows in (X, kind(X)):
        assert values(own, rows) == pytest.approx(values(full, X), abs=1e-9)
    with pytest.raises(InvalidInputError, match="trained on dense data"):
        full.predict(kind(X))


@EACH
def test_weights_scale_the_price_and_rows_without_weight_are_absent(model, data):
    X, y = data
    weights = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    weights[:3] = -1.0
    present = np.flatnonzero(weights > 0)
    own, other = both(model, X, y, sample_weight=weights)
    cut = clone(model).set_params(tol=TOL)
    cut.fit(X[present], y[present], sample_weight=weights[present])
    scale = max(1.0, np.abs(values(cut, X)).max())
    if model.gamma == "scale":  # the variance is that of all rows, as in scikit-learn
        cut = cut.set_params(gamma=own._gamma)
        cut.fit(X[present], y[present], sample_weight=weights[present])
    for one in (own, other, cut):
        if hasattr(one, "decision_function_shape"):
            one.decision_function_shape = "ovo"
    assert values(own, X) == pytest.approx(values(other, X), abs=VALUES * scale)
    if getattr(model, "class_weight", None) is None:  # counted over all rows
        assert values(own, X) == pytest.approx(values(cut, X), abs=VALUES * scale)
        # Row numbers are those of X; scikit-learn counts the rows that are present.
        assert own.support_.tolist() == present[cut.support_].tolist()
    assert weights[own.support_].min() > 0


@pytest.mark.parametrize("weight", ["balanced", {0: 3.0}, {0: 0.2, 1: 5.0}])
def test_class_weights_are_those_of_scikit_learn(weight):
    X, y = classes(2)
    keep = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:20]]
    own, other = both(SVC(class_weight=weight), X[keep], y[keep])
    assert own.class_weight_ == pytest.approx(other.class_weight_)
    wanted = other.decision_function(X)
    assert own.decision_function(X) == pytest.approx(wanted, abs=VALUES * 10)


def test_probabilities_are_near_those_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(FutureWarning, match="was deprecated in 1.9"):
        own = SVC(probability=True, random_state=0).fit(X, y)
    with pytest.warns(FutureWarning):
        other = sklearn.svm.SVC(probability=True, random_state=0).fit(X, y)
    mine, found = own.predict_proba(X), other.predict_proba(X)
    assert mine.sum(axis=1) == pytest.approx(1.0)
    # Different folds: the figures differ, the ranking hardly.
    assert np.abs(mine - found).mean() < 0.03
    assert (mine.argmax(axis=1) == found.argmax(axis=1)).mean() > 0.95
    assert np.exp(own.predict_log_proba(X)) == pytest.approx(mine)


def test_verbose_reports_the_rounds_to_the_log(caplog):
    X, y = classes(2)
    with caplog.at_level("INFO", "corevec"):
        SVC(verbose=True).fit(X, y)
    assert any("support vectors" in record.message for record in caplog.records)
    caplog.clear()
    with caplog.at_level("INFO", "corevec"):
        SVC().fit(X, y)
    assert not caplog.records


def test_the_parameters_are_those_of_scikit_learn_and_four_more():
    for model, _ in MODELS:
        own, other = type(model)().get_params(), theirs(model).__class__().get_params()
        assert {*own} - {*other} == {"max_time", "n_jobs", "device", "memory_budget"}
        assert {name: own[name] for name in other} == other


def test_a_time_limit_leaves_a_model_that_says_how_far_it_is():
    X, y = classes(2, n=3000)
    with pytest.warns(NotCertifiedWarning) as caught:
        model = SVC(C=1e4, max_time=1e-9).fit(X, y)
    assert caught[0].message.stopped_by == "max_time"
    assert model.fit_status_ == 1
    assert model.certificate_.stopped_by == "max_time"
    assert not model.certificate_.converged
    assert model.predict(X).shape == y.shape


def test_a_limit_on_steps_warns_with_the_words_of_scikit_learn():
    X, y = classes(2)
    with pytest.warns(NotCertifiedWarning, match=r"early \(max_iter=2\)"):
        model = SVC(max_iter=2).fit(X, y)
    assert (model.n_iter_ == 2).all()
    assert model.fit_status_ == 1


@pytest.mark.parametrize("kernel", ["rbf", lambda A, B: A @ B.T])
def test_parameters_changed_after_the_fit_do_not_change_the_model(kernel):
    X, y = make_blobs(60, centers=2, random_state=0)
    model = SVC(kernel=kernel).fit(X, y)
    values = model.decision_function(X)
    for other in ("linear", lambda A, B: np.ones((len(A), len(B)))):
        model.set_params(kernel=other, gamma=9.0, C=7.0)
        assert np.array_equal(model.decision_function(X), values)
        assert not hasattr(model, "coef_")


def test_a_kernel_of_ours_is_a_kernel_by_name_here():
    X, y = classes(2)
    own = SVC(kernel="laplacian", gamma=0.5).fit(X, y)
    assert own.certificate_.converged

    def kernel(A, B):
        distance = np.sqrt(((A[:, None] - B[None]) ** 2).sum(axis=2))
        return np.exp(-np.sqrt(0.5) * distance)

    other = sklearn.svm.SVC(kernel=kernel).fit(X, y)
    same = own.decision_function(X) - other.decision_function(X)
    assert np.abs(same).max() < 0.01


@pytest.mark.parametrize(
    ("model", "parameter"),
    [
        (SVC(C=0), "C"),
        (SVC(C=-1.0), "C"),
        (SVC(kernel="cubic"), "kernel"),
        (SVC(gamma=-1.0), "gamma"),
        (SVC(gamma="mean"), "gamma"),
        (SVC(degree=-1), "degree"),
        (SVC(coef0=np.inf), "coef0"),
        (SVC(tol=0.0), "tol"),
        (SVC(max_iter=-2), "max_iter"),
        (SVC(cache_size=0), "cache_size"),
        (SVC(class_weight="even"), "class_weight"),
        (SVC(class_weight={0: 0.0}), "class_weight"),
        (SVC(decision_function_shape="pairs"), "decision_function_shape"),
        (SVC(shrinking="yes"), "shrinking"),
        (SVC(probability="no"), "probability"),
        (SVC(random_state="seed"), "random_state"),
        (SVC(verbose=-1), "verbose"),
        (SVC(max_time=0.0), "max_time"),
        (SVC(n_jobs=0), "n_jobs"),
        (SVC(memory_budget=-1), "memory_budget"),
        (NuSVC(nu=0.0), "nu"),
        (NuSVC(nu=1.1), "nu"),
        (NuSVC(nu=1.0), "nu"),
        (SVR(epsilon=-0.1), "epsilon"),
    ],
    ids=lambda value: str(value),
)
def test_an_impossible_parameter_is_refused_by_name(model, parameter):
    X, y = classes(2)
    keep = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:20]]
    with pytest.raises(InvalidInputError) as caught:
        model.fit(X[keep], y[keep])
    assert caught.value.parameter == parameter
    assert type(model).__name__ in str(caught.value)


def test_classes_that_no_margin_separates_are_told_so():
    X, y = classes(2)
    with pytest.warns(NotCertifiedWarning, match="Raise nu"):
        model = NuSVC(nu=0.05, kernel="linear").fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


def test_a_whole_class_without_weight_is_an_error_of_two_classes_only():
    X, y = classes(3)
    weights = (y != 1).astype(float)
    model = SVC().fit(X, y, sample_weight=weights)
    assert model.n_support_[1] == 0
    assert set(model.predict(X)) <= {0, 2}


def test_patching_replaces_the_classes_of_scikit_learn_and_restores_them():
    before = {name: getattr(sklearn.svm, name) for name in ("SVC", "NuSVR")}
    try:
        corevec.patch_sklearn()
        corevec.patch_sklearn()
        assert sklearn.svm.SVC is SVC
        assert sklearn.svm.NuSVR is NuSVR
        assert sklearn.svm.LinearSVC is corevec.svm.LinearSVC
    finally:
        corevec.unpatch_sklearn()
    assert all(getattr(sklearn.svm, name) is cls for name, cls in before.items())
    corevec.unpatch_sklearn()
    assert before["SVC"] is sklearn.svm.SVC


@pytest.mark.parametrize("seed", range(4))
def test_a_gap_is_relative_to_the_bounds_where_rounding_is_large(seed):
    """Weights of twelve orders: the sums cancel to 1e-3 of their terms, not to 0."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(20, 30)), rng.normal(size=20)
    weights = 10.0 ** rng.uniform(-6, 6, size=20)
    model = NuSVR(C=850.0, gamma=5e-4, nu=0.4, max_time=10.0)
    found = model.fit(X, y, weights).certificate_
    size = max(abs(found.primal), abs(found.dual))
    is_zero = size <= 1e-8 * model.C * float(weights @ abs(y))
    assert is_zero or found.relative_gap >= (found.primal - found.dual) / size * 0.99
