"""What a user of SVC expects of fitted attributes, warnings and repeated fits."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import corevec
from corevec import (
    SVDD,
    CoreSetNystroem,
    CoreVectorClassifier,
    CoreVectorOneClass,
    NotCertifiedWarning,
    StreamingBallClassifier,
    methods,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
CLASSES = np.digitize(X[:, 0] + 0.1 * RNG.normal(size=300), [-0.8, 0, 0.8])


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_support_vectors_are_sorted_by_class(multi_class):
    model = CoreVectorClassifier(multi_class=multi_class).fit(X, CLASSES)
    own = CLASSES[model.support_]
    assert np.array_equal(own, np.repeat(np.arange(4), model.n_support_))
    assert np.array_equal(X[model.support_], model.support_vectors_)


def test_sorted_coefficients_still_give_the_decision_values():
    model = CoreVectorClassifier(kernel="linear", multi_class="ovr").fit(X, CLASSES)
    values = X @ model.support_vectors_.T @ model.dual_coef_.T + model.intercept_
    assert np.allclose(values, model.decision_function(X), rtol=0, atol=1e-9)
    by_columns = X @ model.coef_.T + model.intercept_
    assert np.allclose(by_columns, model.decision_function(X), rtol=0, atol=1e-9)


def test_detectors_count_their_support_vectors_in_an_array():
    for model in (CoreVectorOneClass(), SVDD()):
        found = model.fit(X).n_support_
        assert found.tolist() == [len(model.support_)]


@pytest.mark.parametrize("fitted_with", ["ovr", "ovo"])
def test_the_form_of_several_classes_is_fixed_at_fit(fitted_with):
    model = CoreVectorClassifier(multi_class=fitted_with).fit(X, CLASSES)
    before = model.decision_function(X)
    model.multi_class = "ovr" if fitted_with == "ovo" else "ovo"
    assert np.array_equal(model.decision_function(X), before)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    small = corevec.compress(model, 10_000)
    assert np.array_equal(small.predict(X), model.predict(X))


def test_the_weights_of_the_columns_depend_on_the_kernel_of_the_fit():
    model = CoreVectorClassifier(kernel="linear").fit(X, CLASSES > 1)
    before = model.coef_
    model.kernel = "rbf"
    assert np.array_equal(model.coef_, before)
    other = CoreVectorClassifier().fit(X, CLASSES > 1)
    other.kernel = "linear"
    assert not hasattr(other, "coef_")


@pytest.mark.parametrize("cls", [CoreVectorClassifier, StreamingBallClassifier])
def test_an_assignment_to_the_weights_of_the_columns_is_refused(cls):
    model = cls(kernel="linear").fit(X, CLASSES > 1)
    with pytest.raises(ValueError, match="read-only"):
        model.coef_[0, 0] = 1.0
    with pytest.raises(AttributeError):
        model.coef_ = np.zeros((1, 3))


@pytest.mark.parametrize(
    "model",
    [
        CoreVectorClassifier(method=methods.Sample(50)),
        CoreVectorClassifier(method=methods.FewVectors(5)),
        CoreVectorOneClass(method=methods.Sample(50)),
    ],
)
def test_a_fit_without_a_seed_can_be_repeated(model):
    y = CLASSES > 1
    first = model.fit(X, y).decision_function(X)
    np.random.default_rng()  # no global state is involved
    np.random.seed(1)  # noqa: NPY002
    assert np.array_equal(model.fit(X, y).decision_function(X), first)


def test_features_without_a_seed_can_be_repeated():
    np.random.seed(0)  # noqa: NPY002
    first = CoreSetNystroem(10, "uniform").fit(X).component_indices_
    np.random.seed(1)  # noqa: NPY002
    assert np.array_equal(
        CoreSetNystroem(10, "uniform").fit(X).component_indices_, first
    )


def test_the_warning_is_a_convergence_warning():
    assert issubclass(NotCertifiedWarning, ConvergenceWarning)
    warning = pickle.loads(pickle.dumps(NotCertifiedWarning("a", stopped_by="tol")))
    with pytest.warns(ConvergenceWarning):
        CoreVectorClassifier(max_iter=1, C=1e4, method="coreset").fit(X, CLASSES > 1)
    assert isinstance(warning, NotCertifiedWarning)


def test_the_package_lists_public_names_only():
    names = set(dir(corevec))
    assert set(corevec.__all__) < names
    assert not any(name.startswith("_") for name in names - {"__version__"})
    assert not names & {"import_module", "Any", "TYPE_CHECKING"}


@pytest.mark.parametrize(
    "kernel", [{"kernel": "poly", "coef0": 1.0}, {"kernel": "linear"}, {}]
)
def test_no_row_scores_exactly_the_offset(kernel):
    # nu = 0.4 with a kernel whose supports exceed that share: the offset is lowered.
    rows = np.concatenate([X, X + 5.0])
    model = CoreVectorOneClass(nu=0.01, random_state=0, **kernel).fit(rows)
    scores = model.score_samples(rows)
    gap = np.abs(scores - model.offset_).min()
    assert gap > 1e-11 * np.abs(scores).max()
    alone = [model.predict(row[None])[0] for row in rows]
    assert np.array_equal(alone, model.predict(rows))


@pytest.mark.parametrize("n_columns", [2, 20])
def test_a_gram_matrix_of_low_rank_in_float32_is_definite_to_rounding(n_columns):
    rows = np.random.default_rng(1).normal(size=(200, n_columns))
    K, y = rows @ rows.T, rows[:, 0] > 0.3
    model = CoreVectorClassifier(
        kernel="precomputed", random_state=0, method="few-vectors"
    )
    rounded = model.fit(K.astype(np.float32), y).decision_function(K)
    exact = model.fit(K, y).decision_function(K)
    # Entries are rounded by 6e-8 of k(x, x); both fits end at a gap of 1e-3.
    assert np.mean((rounded > 0) == (exact > 0)) > 0.98
    features = CoreSetNystroem(50, kernel="precomputed", random_state=0)
    assert features.fit(K.astype(np.float32), y).transform(K).shape[1] <= n_columns
