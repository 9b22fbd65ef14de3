"""The streaming estimators inside scikit-learn and River, and with bad streams."""

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading

import naive
import numpy as np
import pandas as pd
import pytest
import strategies
from river import compat, stream
from scipy import sparse
from sklearn.base import clone, is_classifier, is_outlier_detector
from sklearn.datasets import make_blobs, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import (
    SVDD,
    CoreVectorClassifier,
    InvalidInputError,
    KernelError,
    StreamingBallClassifier,
    StreamingBallOneClass,
    certify,
)

CHECKED = [
    StreamingBallClassifier(),
    StreamingBallClassifier(n_balls=4, balls="general"),
    StreamingBallClassifier(kernel="rbf", budget=50),
    StreamingBallOneClass(),
    StreamingBallOneClass(kernel="linear", n_balls=1),
    StreamingBallOneClass(C=np.inf, budget=30, overflow="drop"),
]
REASON = "the ball depends on the order of the rows, which this check shuffles"
ORDER = {
    "check_sample_weight_equivalence_on_dense_data": REASON,
    "check_sample_weight_equivalence_on_sparse_data": REASON,
}


@parametrize_with_checks(CHECKED, expected_failed_checks=lambda model: ORDER)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def two_classes(n=400, seed=0):
    X, y = make_classification(n, 6, random_state=seed, class_sep=1.5, flip_y=0.02)
    return X, np.array(["no", "yes"])[y]


def three_classes(n=300, seed=0):
    X, y = make_blobs(n, centers=3, cluster_std=1.0, random_state=seed)
    return X - X.mean(axis=0), y


def pieces(X, y, at=(50, 51, 200)):
    return list(zip(np.split(X, at), np.split(y, at), strict=True))


# --- what is learned ------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("data", [two_classes, three_classes])
def test_partial_fit_over_blocks_is_one_fit(kernel, data):
    X, y = data()
    model = StreamingBallClassifier(kernel=kernel, gamma=0.1, C=10.0)
    whole = clone(model).fit(X, y)
    parts = clone(model)
    for block in pieces(X, y):
        parts.partial_fit(*block, classes=np.unique(y))
    streamed = clone(model).fit(iter(pieces(X, y)), classes=np.unique(y))
    for other in (parts, streamed):
        assert other.decision_function(X) == pytest.approx(
            whole.decision_function(X), rel=1e-8, abs=1e-8
        )
        if kernel == "linear":
            assert np.array_equal(other.coef_, whole.coef_)
        assert other.n_rows_seen_ == len(X)
        assert np.array_equal(other.n_updates_, whole.n_updates_)
    assert whole.score(X, y) > 0.8


def test_the_attributes_of_a_binary_model():
    X, y = two_classes()
    model = StreamingBallClassifier(C=2.0).fit(X, y)
    assert list(model.classes_) == ["no", "yes"]
    assert (model.coef_.shape, model.intercept_.shape) == ((1, 6), (1,))
    by_hand = X @ model.coef_[0] + model.intercept_[0]
    assert model.decision_function(X) == pytest.approx(by_hand)
    assert set(model.predict(X)) <= {"no", "yes"}
    assert isinstance(model.radius_, float)
    assert isinstance(model.n_updates_, int)
    assert 0 < model.lower_radius_ <= model.radius_
    found = model.ball_bound_
    assert (found.n_rows, found.interrupted, found.parts) == (400, False, ())
    assert (found.radius, found.lower_radius) == (model.radius_, model.lower_radius_)
    assert found.factor == pytest.approx(model.radius_ / model.lower_radius_)
    assert np.isnan(model.test_then_train_accuracy_)


def test_the_attributes_of_many_classes():
    X, y = three_classes()
    model = StreamingBallClassifier(C=2.0, kernel="rbf", gamma=0.05).fit(X, y)
    assert model.radius_.shape == model.lower_radius_.shape == (3,)
    bound = model.ball_bound_
    np.testing.assert_array_equal([part.radius for part in bound.parts], model.radius_)
    assert bound.factor == max(model.radius_ / model.lower_radius_)
    kept = len(model.support_vectors_)
    assert model.dual_coef_.shape == (3, kept)
    assert model.n_updates_.sum() == kept
    K = naive.gram(X, model.support_vectors_, kernel="rbf", gamma=0.05)
    by_hand = K @ model.dual_coef_.T + model.intercept_
    assert model.decision_function(X) == pytest.approx(by_hand)
    assert not hasattr(model, "coef_")


def test_a_small_stream_by_hand():
    """Two rows, no bias: the ball of two lifted points, and their machine."""
    X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), [1, 0]
    model = StreamingBallClassifier(C=0.5, fit_intercept=False).fit(X, y)
    # z = (1, 0), (0, -1); slacks 2: d^2 = 2 + 4, R = d/2, w = (1, -1)/2, s = 1.
    assert model.radius_ == pytest.approx(np.sqrt(6) / 2)
    assert model.coef_ == pytest.approx(np.array([[0.5, -0.5]]) / 1.5)
    assert model.lower_radius_ == pytest.approx(model.radius_)
    assert model.ball_bound_.factor == pytest.approx(1.0)
    exact = naive.hinge(X @ X.T, np.array([1, -1]), 0.5, bias=False)
    assert certify(model, X, y).primal == pytest.approx(exact.primal)


def test_weights_multiply_C():
    X, y = two_classes()
    weighted = StreamingBallClassifier(C=0.5).fit(X, y, np.full(len(y), 4.0))
    plain = StreamingBallClassifier(C=2.0).fit(X, y)
    assert np.array_equal(weighted.coef_, plain.coef_)


def test_rows_of_weight_zero_are_absent():
    X, y = two_classes()
    weights = np.where(np.arange(len(y)) % 3 == 0, 0.0, 1.0)
    X[0] = 1e6
    some = StreamingBallClassifier().fit(X, y, weights)
    few = StreamingBallClassifier().fit(X[weights > 0], y[weights > 0])
    assert np.array_equal(some.coef_, few.coef_)
    assert some.n_rows_seen_ == few.n_rows_seen_ == np.count_nonzero(weights)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_gap_of_the_machine_on_given_rows(kernel):
    X, y = two_classes(120)
    C, signs = 0.3, np.where(y == "yes", 1, -1)
    model = StreamingBallClassifier(C=C, kernel=kernel, gamma=0.2).fit(X, y)
    found = certify(model, X, y)
    exact = naive.hinge(naive.gram(X, kernel=kernel, gamma=0.2), signs, C)
    assert found.dual <= exact.primal * (1 + 1e-9)
    assert found.primal >= exact.dual * (1 - 1e-9)
    norm_sq = float(model.intercept_[0] ** 2)
    if kernel == "linear":
        norm_sq += float((model.coef_**2).sum())
    else:
        own = naive.gram(model.support_vectors_, gamma=0.2)
        norm_sq += float((model.dual_coef_ @ own @ model.dual_coef_.T)[0, 0])
    f = model.decision_function(X)
    primal = naive.best_scale_primal(f, norm_sq, signs, C, np.ones(len(y)))
    assert found.primal == pytest.approx(primal, rel=1e-9)
    assert found.n_verified == 120
    assert not found.converged


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_gap_of_several_classes_is_that_of_the_values_that_are_compared(kernel):
    X, y = three_classes()
    C = 0.3
    model = StreamingBallClassifier(C=C, kernel=kernel, gamma=0.05).fit(X, y)
    vectors, coef = X, None
    if kernel == "rbf":
        vectors, coef = model.support_vectors_, model.dual_coef_
    for t, part in enumerate(certify(model, X, y).parts):
        signs = np.where(y == model.classes_[t], 1, -1)
        w = model.coef_[t] if coef is None else coef[t]
        own = np.eye(len(w)) if coef is None else naive.gram(vectors, gamma=0.05)
        norm_sq = w @ own @ w + model.intercept_[t] ** 2
        f = model.decision_function(X)[:, t]
        primal = naive.hinge_primal(f, norm_sq, signs, C, np.ones(len(y)))
        assert part.primal == pytest.approx(primal, rel=1e-9)
        exact = naive.hinge(naive.gram(X, kernel=kernel, gamma=0.05), signs, C)
        assert part.dual <= exact.primal * (1 + 1e-9)


def test_certify_wants_labels():
    X, y = two_classes(50)
    model = StreamingBallClassifier().fit(X, y)
    with pytest.raises(InvalidInputError, match="labels y"):
        certify(model, X)


def test_many_balls_come_near_the_machine():
    X, y = two_classes(300)
    exact = CoreVectorClassifier(C=0.1, kernel="linear").fit(X, y).certificate_.primal
    model = StreamingBallClassifier(C=0.1, n_balls=300).fit(X, y)
    # All rows in one ball: the solution, up to the other machine's tol.
    assert certify(model, X, y).primal == pytest.approx(exact, rel=1e-3)
    assert model.ball_bound_.factor == pytest.approx(1.0, abs=1e-9)
    assert certify(model, X, y).relative_gap < 1e-3


# --- what is proved of the ball, and what of the machine ------------------------------


def twelve_classes():
    """Return rows of twelve classes, one of them far out: its norm is the radius."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 10))
    y = np.argmax(X @ rng.normal(size=(10, 12)), axis=1)
    X[300] *= 100
    return X, y


def test_a_small_ball_is_not_called_a_converged_machine():
    """The case of avila: a proved factor near 1, and a machine that predicts badly."""
    X, y = twelve_classes()
    model = StreamingBallClassifier().fit(X, y)
    assert model.ball_bound_.factor < 1.001
    gap = certify(model, X, y)
    assert (gap.converged, gap.relative_gap > 0.5) == (False, True)
    for words in (str(model.ball_bound_), model.ball_bound_._repr_html_()):
        assert "onverged" not in words
        assert "certify(model, X, y)" in words


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_streaming_model_has_no_certificate_and_says_who_makes_one(kernel):
    X, y = two_classes(60)
    for model in (
        StreamingBallClassifier(kernel=kernel),
        StreamingBallOneClass(kernel=kernel),
    ):
        assert not hasattr(model, "certificate_")
        assert not hasattr(model, "ball_bound_")
        model.fit(X, y)
        with pytest.raises(AttributeError, match=r"corevec\.certify\(model, X, y\)"):
            model.certificate_  # noqa: B018 - asking is what is tested
        assert certify(model, X, y).n_rows == 60
        assert model.ball_bound_.n_rows == 60


def test_a_joined_ball_has_the_bound_of_all_rows():
    X, y = two_classes()
    left = StreamingBallClassifier(C=0.5).fit(X[:150], y[:150])
    right = StreamingBallClassifier(C=0.5).fit(X[150:], y[150:])
    right._stopped_by = "interrupt"
    bound = left.merge(right).ball_bound_
    assert (bound.n_rows, bound.radius) == (400, left.radius_)
    assert bound.interrupted
    assert bound.seconds >= right.ball_bound_.seconds
    # All lifted rows have the same norm eta; the smallest ball is eta - min a'Qa.
    signs = np.where(y == "yes", 1.0, -1.0)
    eta = np.einsum("ij,ij->i", X, X).max() + 1.0 + 1 / 0.5
    exact = eta - 1 / (2 * naive.hinge(X @ X.T, signs, 0.5).dual)
    assert bound.lower_radius**2 <= exact * (1 + 1e-9)
    assert bound.radius**2 >= exact * (1 - 1e-9)


# --- streams --------------------------------------------------------------------------


def test_a_generator_with_weights_and_empty_blocks():
    X, y = two_classes()
    weights = np.linspace(0.5, 2.0, len(y))

    def blocks():
        yield X[:0], y[:0], weights[:0]
        for start in range(0, len(y), 37):
            rows = slice(start, start + 37)
            yield sparse.csr_matrix(X[rows]), y[rows], weights[rows]
        yield X[:0], y[:0]

    model = StreamingBallClassifier().fit(blocks())
    whole = StreamingBallClassifier().fit(X, y, weights)
    assert model.coef_ == pytest.approx(whole.coef_)
    tested = model.test_then_train_accuracy_
    assert 0.7 < tested <= 1.0


def test_the_accuracy_so_far_is_that_before_learning():
    X, y = two_classes()
    blocks = pieces(X, y)
    model, right = StreamingBallClassifier(), 0
    model.partial_fit(*blocks[0], classes=["no", "yes"])
    for rows, labels in blocks[1:]:
        right += np.count_nonzero(model.predict(rows) == labels)
        model.partial_fit(rows, labels)
    streamed = StreamingBallClassifier().fit(blocks, classes=["no", "yes"])
    assert streamed.test_then_train_accuracy_ == right / (len(y) - 50)


def test_progress_goes_to_the_log(caplog):
    X, y = two_classes()
    with caplog.at_level(logging.INFO, logger="corevec"):
        StreamingBallClassifier(verbose=2).fit(pieces(X, y))
    lines = [r.getMessage() for r in caplog.records]
    assert len(lines) == 4
    assert "400 rows" in lines[-1]
    assert "rows/s" in lines[-1]
    assert "accuracy so far 0." in lines[-1]


class Recorder:
    """A callback of scikit-learn that scores the model after every block."""

    def __init__(self, X, y, last=99):
        self.X, self.y, self.last, self.scores = X, y, last, []

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **kwargs):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.scores.append(fitted_estimator.score(self.X, self.y))
        return len(self.scores) >= self.last

    def teardown(self, estimator, context):
        pass


def test_callbacks_of_scikit_learn_see_the_model_of_every_block():
    pytest.importorskip("sklearn.callback", reason="callbacks came with 1.9")
    X, y = two_classes()
    recorder = Recorder(X, y)
    model = StreamingBallClassifier().set_callbacks(recorder).fit(pieces(X, y))
    assert len(recorder.scores) == 5  # four blocks, and the whole fit
    assert recorder.scores[-1] == recorder.scores[-2] == model.score(X, y)
    assert recorder.scores[0] != recorder.scores[-1]
    stopped = StreamingBallClassifier().set_callbacks(Recorder(X, y, last=2))
    stopped.fit(pieces(X, y))
    assert stopped.n_rows_seen_ == 51
    assert stopped.ball_bound_.interrupted


def test_labels_that_are_missing_from_the_first_block():
    X, y = two_classes()
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    model = StreamingBallClassifier()
    with pytest.raises(InvalidInputError, match=r"only 1 class.*classes="):
        model.fit(pieces(X, y))
    model.fit(pieces(X, y), classes=["yes", "no"])
    assert list(model.classes_) == ["no", "yes"]
    assert model.n_rows_seen_ == len(y)
    assert set(model.predict(X)) == {"no", "yes"}


def test_a_label_that_is_not_in_classes_is_named():
    X, y = two_classes()
    y = y.astype(object)
    y[210] = "perhaps"
    model = StreamingBallClassifier()
    words = r"'perhaps' of row 10 of this block \(row 210 of the stream\).*classes="
    with pytest.raises(InvalidInputError, match=words):
        model.fit(pieces(X, y))
    assert model.n_rows_seen_ == 200  # the blocks before are learned


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_nan_in_the_middle_of_a_stream_is_named(kernel, bad, make):
    X, y = two_classes()
    model = StreamingBallClassifier(kernel=kernel, gamma=0.1)
    model.partial_fit(make(X[:100]), y[:100], classes=["no", "yes"])
    before = model.decision_function(X)
    X_bad = X.copy()
    X_bad[123, 2] = bad
    what = "NaN" if np.isnan(bad) else "infinity"
    words = rf"contains {what} in row 23 of this block \(row 123 of the stream\)"
    with pytest.raises(InvalidInputError, match=words):
        model.partial_fit(make(X_bad[100:200]), y[100:200])
    assert np.array_equal(model.decision_function(X), before)
    model.partial_fit(make(X[100:]), y[100:])
    assert model.n_rows_seen_ == len(X)


def test_rows_too_large_to_be_squared():
    X, y = two_classes()
    X[7] = 1e200
    with pytest.raises(KernelError, match=r"row 7 of this block.*overflows"):
        StreamingBallClassifier().fit(X, y)


def test_a_changed_number_of_columns():
    X, y = two_classes()
    model = StreamingBallClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"X has 5 features, but .* expecting 6"):
        model.partial_fit(X[:, :5], y)
    with pytest.raises(ValueError, match=r"X has 5 features, but .* expecting 6"):
        StreamingBallClassifier().fit([(X, y), (X[:, :5], y)])


def test_an_empty_block():
    X, y = two_classes()
    model = StreamingBallClassifier()
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        model.partial_fit(X[:0], y[:0], classes=["no", "yes"])
    model.fit(X, y)
    before = model.coef_
    model.partial_fit(X[:0], y[:0])
    assert np.array_equal(model.coef_, before)
    with pytest.raises(InvalidInputError, match="no row"):
        model.fit(iter([]))


def test_blocks_of_the_wrong_shape():
    X, y = two_classes()
    with pytest.raises(InvalidInputError, match=r"block 1 .*ndarray"):
        StreamingBallClassifier().fit(iter([(X, y), X]))
    with pytest.raises(InvalidInputError, match="tuple of 4"):
        StreamingBallClassifier().fit(iter([(X, y, None, None)]))
    with pytest.raises(InvalidInputError, match="beside a stream"):
        StreamingBallClassifier().fit(iter([(X, y)]), sample_weight=np.ones(3))


def test_classes_at_the_first_call():
    X, y = two_classes()
    model = StreamingBallClassifier()
    with pytest.raises(InvalidInputError, match="classes="):
        model.partial_fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.partial_fit(X, y, classes=["yes", "no"])
    model.partial_fit(X, y, classes=["no", "yes"])
    with pytest.raises(InvalidInputError, match="first call"):
        model.partial_fit(X, y, classes=["a", "b"])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"C": 0.0}, "C=0.0 must be a finite number above 0"),
        ({"n_balls": 0}, "n_balls=0 must be a whole number of at least 1"),
        ({"balls": "many"}, "balls='many' must be one of 'lookahead', 'general'"),
        ({"kernel": "precomputed"}, "kernel='precomputed' has no rows to store"),
        ({"kernel": "none"}, "kernel='none' is not known"),
        ({"gamma": -1}, "gamma=-1 must be"),
        ({"budget": 3, "n_balls": 3}, "budget=3 must be a whole number of at least 4"),
        ({"overflow": "grow"}, "overflow='grow' must be one of"),
        ({"fit_intercept": "yes"}, "fit_intercept='yes' must be True or False"),
        ({"tol": 0}, "tol=0 must be"),
    ],
)
def test_parameters_that_cannot_be_used(wrong, words):
    X, y = two_classes(50)
    model = StreamingBallClassifier(**wrong)
    with pytest.raises(InvalidInputError, match=f"StreamingBallClassifier: {words}"):
        model.fit(X, y)
    with pytest.raises(InvalidInputError, match=words):
        model.partial_fit(X, y, classes=["no", "yes"])


def test_a_block_without_any_weight_changes_nothing():
    X, y = two_classes()
    model = StreamingBallClassifier().fit(X, y)
    before = model.coef_
    model.partial_fit(X, y, sample_weight=np.zeros(len(y)))
    assert np.array_equal(model.coef_, before)
    assert model.n_rows_seen_ == len(y)
    with pytest.raises(InvalidInputError, match="zero for all 400 rows"):
        clone(model).fit(X, y, np.zeros(len(y)))


# --- joining --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        StreamingBallClassifier(n_balls=1, fit_intercept=False),
        StreamingBallClassifier(n_balls=5),
        StreamingBallClassifier(n_balls=5, balls="general"),
        StreamingBallClassifier(kernel="rbf", gamma=0.2, budget=30),
        StreamingBallOneClass(gamma=0.2, nu=0.2, random_state=0),
    ],
)
def test_two_halves_join(model):
    X, y = two_classes()
    one, other = clone(model).fit(X[:150], y[:150]), clone(model).fit(X[150:], y[150:])
    kept = other.radius_
    largest = max(one.radius_, other.radius_)
    assert one.merge(other) is one
    assert one.n_rows_seen_ == 400
    assert other.radius_ == kept
    assert one.radius_ >= one.lower_radius_
    assert one.radius_ >= largest * (1 - 1e-9) or model.n_balls > 1
    assert one.decision_function(X).shape == (400,)
    if isinstance(model, StreamingBallClassifier):
        assert one.score(X, y) > 0.8
    else:
        assert abs(np.mean(one.predict(X) == -1) - 0.2) < 0.02
    one.partial_fit(X[:5], y[:5])
    assert one.n_rows_seen_ == 405


def test_models_that_do_not_join():
    X, y = two_classes()
    model = StreamingBallClassifier().fit(X, y)
    for other, words in [
        (StreamingBallOneClass().fit(X), "a StreamingBallOneClass cannot be merged"),
        (model, "merged with itself"),
        (StreamingBallClassifier(C=2.0).fit(X, y), "C is 1.0 and 2.0"),
        (StreamingBallClassifier().fit(X[:, :3], y), "6 and 3"),
        (StreamingBallClassifier().fit(X, y == "no"), "merge needs the same classes"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            model.merge(other)
    with pytest.raises(NotFittedError):
        model.merge(StreamingBallClassifier())
    wide = StreamingBallClassifier(kernel="rbf").fit(5 * X, y)
    with pytest.raises(InvalidInputError, match="gamma"):
        StreamingBallClassifier(kernel="rbf").fit(X, y).merge(wide)


# --- company --------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_pickling_keeps_the_model_and_where_it_is(kernel):
    X, y = two_classes()
    model = StreamingBallClassifier(n_balls=3, kernel=kernel, gamma=0.1)
    model.partial_fit(X[:200], y[:200], classes=["no", "yes"])
    copy = pickle.loads(pickle.dumps(model))
    for one in (model, copy):
        one.partial_fit(X[200:], y[200:])
    assert np.array_equal(copy.decision_function(X), model.decision_function(X))
    assert not hasattr(clone(model), "classes_")


def test_a_pipeline_with_a_fitted_scaler():
    X, y = two_classes()
    X = X * 100 + 7
    scaler = StandardScaler().fit(X)
    model = StreamingBallClassifier(n_balls=4)
    for rows, labels in pieces(X, y):
        model.partial_fit(scaler.transform(rows), labels, classes=["no", "yes"])
    line = make_pipeline(scaler, model)
    assert line.score(X, y) > 0.85
    whole = make_pipeline(StandardScaler(), StreamingBallClassifier(n_balls=4))
    assert np.array_equal(whole.fit(X, y).predict(X), line.predict(X))


def test_data_frames_keep_their_columns():
    X, y = two_classes()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = StreamingBallClassifier().fit(
        [(frame[:100], y[:100]), (frame[100:], y[100:])]
    )
    assert list(model.feature_names_in_) == list("abcdef")
    assert np.array_equal(
        model.predict(frame), StreamingBallClassifier().fit(X, y).predict(X)
    )
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame[list("fedcba")], y)


def test_a_river_model():
    X, y = two_classes(150)
    wrapped = compat.convert_sklearn_to_river(
        StreamingBallClassifier(n_balls=4), classes=["no", "yes"]
    )
    right = 0
    for x, label in stream.iter_array(X, y):
        right += wrapped.predict_one(x) == label
        wrapped.learn_one(x, label)
    plain = StreamingBallClassifier(n_balls=4).fit(X, y, classes=["no", "yes"])
    assert wrapped.estimator.coef_ == pytest.approx(plain.coef_)
    assert right / 150 > 0.75
    wrapped.learn_many(pd.DataFrame(X, columns=range(6)), pd.Series(y))
    assert wrapped.estimator.n_rows_seen_ == 300


def test_the_kinds_of_estimator():
    assert is_classifier(StreamingBallClassifier())
    assert is_outlier_detector(StreamingBallOneClass())


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_an_interrupt_keeps_the_blocks_so_far():
    X, y = two_classes()

    def blocks():
        yield X[:100], y[:100]
        os.kill(os.getpid(), signal.SIGINT)
        yield X[100:200], y[100:200]
        yield X[200:], y[200:]

    model = StreamingBallClassifier().fit(blocks())
    assert model.n_rows_seen_ == 200
    assert model.ball_bound_.interrupted
    assert "interrupted" in str(model.ball_bound_)
    assert model.score(X, y) > 0.8
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_in_the_stream_keeps_the_blocks_so_far():
    X, y = two_classes()

    def blocks():
        yield X[:100], y[:100]
        raise KeyboardInterrupt

    model = StreamingBallClassifier()
    with pytest.raises(KeyboardInterrupt):
        model.fit(blocks())
    assert model.n_rows_seen_ == 100
    assert model.score(X, y) > 0.8


def test_fitting_in_a_thread():
    X, y = two_classes()
    model = StreamingBallClassifier()
    worker = threading.Thread(target=model.fit, args=(pieces(X, y),))
    worker.start()
    worker.join()
    assert model.n_rows_seen_ == 400


def test_memory_does_not_grow_with_the_stream():
    script = """
import resource
import numpy as np
from corevec import StreamingBallClassifier
rng = np.random.default_rng(0)
X, y = rng.normal(size=(100_000, 22)), rng.integers(0, 2, 100_000)
model = StreamingBallClassifier(n_balls=4)
def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for round in range(15):
    model.partial_fit(X, y, classes=[0, 1])
    if round == 4:
        early = most()
print(most() - early)
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 4096  # KiB; 10 more blocks are 176 MB


# --- one class ------------------------------------------------------------------------


def with_outliers(n=2000, share=0.05, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    outlier = rng.random(n) < share
    X[outlier] = rng.uniform(-8, 8, size=(outlier.sum(), 3))
    return X, outlier


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_outliers_have_low_scores(kernel):
    X, outlier = with_outliers()
    model = StreamingBallOneClass(kernel=kernel, nu=0.05, random_state=0)
    for block in np.array_split(X, 9):
        model.partial_fit(block)
    assert roc_auc_score(outlier, -model.score_samples(X)) > 0.9
    assert abs(np.mean(model.predict(X) == -1) - 0.05) < 0.001
    assert model.decision_function(X) == pytest.approx(
        model.score_samples(X) - model.offset_
    )
    assert model.distance(X) == pytest.approx(np.sqrt(-model.score_samples(X)))


def test_streams_of_rows_alone_with_labels_and_with_weights():
    X, _ = with_outliers(300)
    whole = StreamingBallOneClass(gamma=0.5, random_state=0).fit(X)
    for blocks in (
        np.array_split(X, 5),
        [(part, np.ones(len(part))) for part in np.array_split(X, 5)],
        ((part, None, np.ones(len(part))) for part in np.array_split(X, 5)),
        iter(np.array_split(X, 5)),
    ):
        model = StreamingBallOneClass(gamma=0.5, random_state=0).fit(blocks)
        assert model.score_samples(X) == pytest.approx(whole.score_samples(X))
        assert model.offset_ == pytest.approx(whole.offset_)


def test_a_list_of_rows_is_no_stream():
    X, _ = with_outliers(30)
    rows = StreamingBallOneClass().fit(X.tolist())
    assert rows.n_rows_seen_ == 30


@pytest.mark.parametrize("C", [np.inf, 0.5])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_many_balls_come_near_svdd(C, kernel):
    X, _ = with_outliers(150)
    shape = {"kernel": kernel, "gamma": 0.1}
    exact = SVDD(C=C, tol=1e-6, **shape).fit(X)
    model = StreamingBallOneClass(C=C, n_balls=150, nu=None, **shape).fit(X)
    gap = certify(model, X)
    assert gap.primal == pytest.approx(exact.certificate_.primal, rel=1e-5)
    assert gap.dual <= exact.certificate_.primal * (1 + 1e-9)
    assert model.offset_ == pytest.approx(exact.offset_, rel=1e-3)
    assert model.distance(X) == pytest.approx(exact.distance(X), rel=1e-3, abs=1e-3)
    if np.inf == C:
        assert model.radius_ == pytest.approx(exact.radius_, rel=1e-5)


def test_without_slack_and_nu_no_row_seen_is_an_outlier():
    X, _ = with_outliers(500)
    for kernel in ("linear", "rbf"):
        model = StreamingBallOneClass(C=np.inf, nu=None, kernel=kernel).fit(X)
        assert (model.predict(X) == 1).all()


def test_far_from_the_origin_nothing_cancels():
    X, _ = with_outliers(300)
    near = StreamingBallOneClass(kernel="linear", random_state=0).fit(X)
    far = StreamingBallOneClass(kernel="linear", random_state=0).fit(X + 1e6)
    assert far.radius_ == pytest.approx(near.radius_, rel=1e-6)
    assert far.lower_radius_ == pytest.approx(near.lower_radius_, rel=1e-6)
    assert far.score_samples(X + 1e6) == pytest.approx(
        near.score_samples(X), rel=1e-8, abs=1e-8
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"nu": 0.0}, "nu=0.0 must be"),
        ({"nu": 1.0}, "nu=1.0 must be below 1"),
        ({"C": -1.0}, "C=-1.0 must be"),
    ],
)
def test_parameters_of_the_detector(wrong, words):
    with pytest.raises(InvalidInputError, match=f"StreamingBallOneClass: {words}"):
        StreamingBallOneClass(**wrong).fit(np.eye(3))


def test_the_detector_names_bad_rows_too():
    X, _ = with_outliers(50)
    model = StreamingBallOneClass(kernel="linear").fit(X)
    before = model.radius_
    X[3, 0] = np.nan
    with pytest.raises(InvalidInputError, match=r"row 3 .*row 53 of the stream"):
        model.partial_fit(X)
    assert model.radius_ == before
    assert model.n_rows_seen_ == 50


def test_checkerboard_within_a_budget():
    X, y = strategies.checkerboard(3000)
    for overflow in ("merge", "drop"):
        model = StreamingBallClassifier(
            n_balls=150, kernel="rbf", gamma=4.0, budget=200, overflow=overflow
        )
        model.fit(X, y)
        assert len(model.support_vectors_) == 200
        assert model.n_updates_ > 200
        assert model.score(X, y) > 0.75


# --- what a review found --------------------------------------------------------------


@pytest.mark.parametrize(
    ("begun", "changed"),
    [
        ({}, {"kernel": "rbf"}),
        ({"kernel": "rbf"}, {"fit_intercept": False}),
        ({}, {"n_balls": 3}),
        ({}, {"C": 2.0}),
    ],
)
def test_a_parameter_changed_in_mid_stream_is_an_error(begun, changed):
    X, y = make_blobs(60, centers=2, random_state=0)
    model = StreamingBallClassifier(**begun).partial_fit(X, y, classes=[0, 1])
    before = model.decision_function(X)
    model.set_params(**changed)
    # What was learned stays what it was.
    np.testing.assert_array_equal(model.decision_function(X), before)
    name = next(iter(changed))
    with pytest.raises(InvalidInputError, match=f"{name} was "):
        model.partial_fit(X, y)
    model.set_params(**{name: StreamingBallClassifier(**begun).get_params()[name]})
    model.partial_fit(X, y)


def test_columns_of_other_names_cannot_be_merged():
    X, y = make_blobs(60, centers=2, random_state=0)
    here = StreamingBallClassifier().fit(pd.DataFrame(X, columns=["a", "b"]), y)
    there = StreamingBallClassifier().fit(pd.DataFrame(X, columns=["b", "a"]), y)
    with pytest.raises(InvalidInputError, match="same columns"):
        here.merge(there)


def test_an_empty_block_is_nothing_to_test_on():
    X, y = make_blobs(60, centers=2, random_state=0)
    model = StreamingBallClassifier(kernel="rbf", verbose=1)
    model.partial_fit(X, y, classes=[0, 1])
    before = model.decision_function(X)
    model.partial_fit(X[:0], y[:0])
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_the_offset_follows_the_stream():
    rng = np.random.default_rng(0)
    model = StreamingBallOneClass(nu=0.1, random_state=0)
    for scale in (1.0, 5.0):
        X = scale * rng.normal(size=(400, 2))
        model.partial_fit(X)
        fresh = -np.quantile(-model.score_samples(model._sample.rows), 0.9)
        assert model.offset_ == pytest.approx(fresh, rel=0.02)
        assert model.offset_ == model.offset_


def test_a_pass_that_went_on_was_not_interrupted():
    X, y = make_blobs(60, centers=2, random_state=0)
    model = StreamingBallClassifier().partial_fit(X, y, classes=[0, 1])
    model._stopped_by = "interrupt"
    model.partial_fit(X, y)
    assert not model.ball_bound_.interrupted
