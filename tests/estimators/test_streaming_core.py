"""StreamingClassifier inside scikit-learn and River, and with bad streams."""

import logging
import pickle

import numpy as np
import pytest
from river import compat, stream
from scipy import sparse
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import (
    CoreVectorClassifier,
    InvalidInputError,
    StreamingClassifier,
    certify,
    formats,
)

CHECKED = [
    StreamingClassifier(),
    StreamingClassifier(kernel="linear", budget=20),
    StreamingClassifier(budget=20),
]
REASON = "rows that leave depend on the order of the rows, which this check shuffles"
ORDER = {
    "check_sample_weight_equivalence_on_dense_data": REASON,
    "check_sample_weight_equivalence_on_sparse_data": REASON,
}


def depends(model):
    """Whether the summary of the rows that leave loses something."""
    return model.budget == 20 and model.kernel != "linear"


@parametrize_with_checks(
    CHECKED, expected_failed_checks=lambda model: ORDER if depends(model) else {}
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def two_classes(n=600, seed=0, flip=0.1):
    X, y = make_classification(n, 6, random_state=seed, class_sep=1.5, flip_y=flip)
    return X, np.array(["no", "yes"])[y]


def blocks(X, y, size=100):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_within_the_budget_one_pass_is_the_machine_of_the_core(kernel):
    X, y = two_classes()
    model = StreamingClassifier(kernel=kernel, gamma=0.1, budget=600).fit(X, y)
    assert model.n_left_ == 0
    core = model.support_vectors_
    labels = y[[int(np.flatnonzero((row == X).all(axis=1))[0]) for row in core]]
    batch = CoreVectorClassifier(kernel=kernel, gamma=0.1, tol=1e-8).fit(core, labels)
    np.testing.assert_allclose(
        model.decision_function(X), batch.decision_function(X), atol=1e-3
    )


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_ten_classes_share_a_core_within_the_budget(kernel):
    X, y = load_digits(return_X_y=True)
    model = StreamingClassifier(C=10.0, kernel=kernel, gamma=0.001, budget=300)
    model.fit(X[:1400] / 1.0, y[:1400])
    assert len(model.support_vectors_) <= 300
    assert model.n_left_ > 0
    assert model.decision_function(X).shape == (1797, 10)
    assert model.score(X[1400:], y[1400:]) > (0.94 if kernel == "rbf" else 0.86)


def test_coefficients_are_the_decision_function():
    X, y = two_classes()
    linear = StreamingClassifier(kernel="linear", budget=30).fit(X, y)
    by_hand = X @ linear.coef_[0] + linear.intercept_[0]
    np.testing.assert_allclose(linear.decision_function(X), by_hand)
    assert not hasattr(linear, "dual_coef_")
    model = StreamingClassifier(gamma=0.1, budget=30).fit(X, y)
    K = np.exp(-0.1 * ((X[:, None] - model.support_vectors_[None]) ** 2).sum(axis=2))
    by_hand = K @ model.dual_coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), by_hand, atol=1e-7)
    assert not hasattr(model, "coef_")


def test_sparse_rows_give_the_same_model():
    X, y = two_classes()
    X[np.abs(X) < 0.5] = 0.0
    for kernel in ("linear", "rbf"):
        # Within the budget: what leaves is chosen by numbers that rounding changes.
        model = StreamingClassifier(kernel=kernel, gamma=0.1, budget=600)
        dense = model.fit(X, y).decision_function(X)
        thin = model.fit(sparse.csr_matrix(X), y).decision_function(X)
        np.testing.assert_allclose(thin, dense, atol=1e-7)


def test_weights_multiply_C_and_weight_zero_is_absent():
    X, y = two_classes()
    plain = StreamingClassifier(C=4.0, budget=50).fit(X, y)
    weighted = StreamingClassifier(budget=50).fit(X, y, sample_weight=np.full(600, 4.0))
    np.testing.assert_allclose(
        weighted.decision_function(X), plain.decision_function(X)
    )
    few = np.arange(600) % 3 > 0
    model = StreamingClassifier(gamma=0.1, block=10**6)
    kept = model.fit(X, y, sample_weight=few.astype(float)).decision_function(X)
    rest = model.fit(X[few], y[few]).decision_function(X)
    assert model.n_rows_seen_ == 400
    # The chunks differ early in the stream, and what joined the core with them.
    assert np.mean(np.sign(kept) == np.sign(rest)) > 0.97


def test_class_weights_help_the_rare_class():
    X, y = make_classification(3000, 6, weights=[0.93], flip_y=0.1, random_state=0)
    plain, balanced, given = (
        StreamingClassifier(kernel="linear", budget=50, class_weight=weight).fit(X, y)
        for weight in (None, "balanced", {0: 1.0, 1: 10.0})
    )
    score = [
        balanced_accuracy_score(y, one.predict(X)) for one in (plain, balanced, given)
    ]
    assert min(score[1:]) > score[0] + 0.05


def test_the_accuracy_so_far_is_that_before_learning():
    X, y = two_classes(1000)
    model = StreamingClassifier(budget=60)
    right = []
    for rows, labels in blocks(X, y, 50):  # below the first chunk: judged together
        if hasattr(model, "classes_"):
            right.append(model.predict(rows) == labels)
        model.partial_fit(rows, labels, classes=["no", "yes"])
    right = np.concatenate(right)
    assert model.test_then_train_accuracy_ == pytest.approx(right.mean())
    by_class = [right[y[50:] == label].mean() for label in ("no", "yes")]
    found = model.test_then_train_balanced_accuracy_
    assert found == pytest.approx(np.mean(by_class))


def test_the_bound_of_the_error_holds_as_often_as_it_says():
    """The labels of a row with x > 0 are 1 with probability 0.8: any model errs."""
    held, n_streams = 0, 60
    for seed in range(n_streams):
        rng = np.random.default_rng(seed)
        X = np.sign(rng.normal(size=(300, 1)))
        y = np.where(rng.random(300) < 0.8, X[:, 0], -X[:, 0])
        model, errors = StreamingClassifier(kernel="linear", budget=20), []
        for part in np.split(np.arange(300), 30):
            if part[0]:
                kept = np.mean(model.predict([[-1.0], [1.0]]) == [-1, 1])
                errors.append(0.2 * kept + 0.8 * (1 - kept))
            model.partial_fit(X[part], y[part], classes=[-1, 1])
        held += np.mean(errors) <= model.error_bound(0.9)
    assert held >= 0.9 * n_streams
    measured = 1 - model.test_then_train_accuracy_
    expected = measured + np.sqrt(np.log(10) / 2 / 290)
    assert model.error_bound(0.9) == pytest.approx(expected)
    weighted = StreamingClassifier(kernel="linear", budget=20)
    for part in np.split(np.arange(300), 30):
        weighted.partial_fit(X[part], y[part], [-1, 1], sample_weight=np.full(10, 2.0))
    assert weighted.error_bound(0.9) == pytest.approx(expected, abs=0.05)
    with pytest.raises(InvalidInputError):
        model.error_bound(1.5)


def test_halves_join():
    X, y = two_classes(2000)
    test, labels = two_classes(2000)
    whole = StreamingClassifier(gamma=0.1, budget=100).fit(X, y)
    left = StreamingClassifier(gamma=0.1, budget=100).fit(X[:1000], y[:1000])
    right = StreamingClassifier(gamma=0.1, budget=100).fit(X[1000:], y[1000:])
    left.merge(right)
    assert left.n_rows_seen_ == 2000
    assert len(left.support_vectors_) <= 100
    assert left.score(test, labels) > whole.score(test, labels) - 0.02
    left.partial_fit(X[:100], y[:100])
    with pytest.raises(InvalidInputError, match="equal parameters; C"):
        left.merge(StreamingClassifier(C=2.0, gamma=0.1, budget=100).fit(X, y))


def test_a_bad_row_in_mid_stream_is_named_and_changes_nothing():
    X, y = two_classes()
    for kernel in ("linear", "rbf"):
        model = StreamingClassifier(kernel=kernel, budget=50).fit(X[:300], y[:300])
        before = model.decision_function(X)
        bad = X[300:].copy()
        bad[7, 2] = np.nan
        with pytest.raises(InvalidInputError, match=r"NaN in row 7 .* \(row 307"):
            model.partial_fit(bad, y[300:])
        with pytest.raises(InvalidInputError, match="'perhaps'"):
            model.partial_fit(X[300:302], ["yes", "perhaps"])
        np.testing.assert_array_equal(model.decision_function(X), before)
        assert model.n_rows_seen_ == 300


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ({"budget": 3}, "budget"),
        ({"budget": None}, "budget"),
        ({"block": 0}, "block"),
        ({"C": -1.0}, "C"),
        ({"kernel": "precomputed"}, "kernel"),
        ({"class_weight": {"no": -1.0}}, "class_weight"),
    ],
)
def test_parameters_that_cannot_be_used(wrong, parameter):
    X, y = two_classes()
    with pytest.raises(InvalidInputError) as caught:
        StreamingClassifier(**wrong).fit(X, y)
    assert caught.value.parameter == parameter


def test_a_parameter_changed_in_mid_stream_is_an_error():
    X, y = two_classes()
    model = StreamingClassifier(budget=50).fit(X, y)
    model.set_params(block=10).partial_fit(X, y)
    with pytest.raises(InvalidInputError, match="budget was 50"):
        model.set_params(budget=60).partial_fit(X, y)


def test_the_gap_on_given_rows_is_that_of_the_machine():
    X, y = two_classes()
    model = StreamingClassifier(gamma=0.1, budget=600).fit(X, y)
    found = certify(model, X, y)
    best = CoreVectorClassifier(gamma=0.1, tol=1e-6).fit(X, y).certificate_
    assert found.dual <= best.primal
    assert found.primal >= best.dual
    assert found.relative_gap < 0.3
    assert not hasattr(model, "certificate_")


def test_progress_pickles_and_pipelines(caplog):
    X, y = two_classes()
    model = StreamingClassifier(budget=50, verbose=2)
    with caplog.at_level(logging.INFO):
        model.fit(iter(blocks(X, y)), classes=["no", "yes"])
    last = caplog.messages[-1]
    assert f"accuracy so far {model.test_then_train_accuracy_:.4f}" in last
    assert f"balanced {model.test_then_train_balanced_accuracy_:.4f}" in last
    copied = pickle.loads(pickle.dumps(model))
    for one in (model, copied):
        one.partial_fit(X, y)
    np.testing.assert_array_equal(copied.predict(X), model.predict(X))
    scaled = make_pipeline(StandardScaler(), StreamingClassifier(budget=50))
    assert scaled.fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_files_keep_the_model_and_the_stream_goes_on(kernel, tmp_path):
    X, y = two_classes()
    model = StreamingClassifier(kernel=kernel, budget=50).fit(X[:400], y[:400])
    formats.save(model, tmp_path / "m.corevec")
    loaded = formats.load(tmp_path / "m.corevec")
    for one in (model, loaded):
        one.partial_fit(X[400:], y[400:])
    np.testing.assert_array_equal(
        loaded.decision_function(X), model.decision_function(X)
    )


def test_a_river_model():
    X, y = two_classes(200)
    model = compat.convert_sklearn_to_river(
        StreamingClassifier(budget=50), classes=["no", "yes"]
    )
    for row, label in stream.iter_array(X, y):
        model.learn_one(row, label)
    right = [model.predict_one(row) == label for row, label in stream.iter_array(X, y)]
    assert np.mean(right) > 0.8
