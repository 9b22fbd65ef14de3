"""The estimators among the tools of scikit-learn and pandas."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import reading
import sklearn
import strategies
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from corevec import SVDD, CoreVectorClassifier, CoreVectorOneClass

X, Y = strategies.checkerboard(300)
Z, _ = strategies.checkerboard(100, seed=9)


def classifier(**params):
    return CoreVectorClassifier(
        **{"gamma": 1.0, "C": 10.0, "random_state": 0, **params}
    )


def test_grid_search_finds_a_good_width():
    search = GridSearchCV(classifier(), {"gamma": [1e-4, 2.0], "C": [1.0, 100.0]}, cv=3)
    search.fit(X, Y)
    assert search.best_params_["gamma"] == 2.0
    assert search.best_score_ > 0.75


def test_grid_search_slices_a_precomputed_kernel():
    K = rbf_kernel(X, gamma=1.0)
    grid = {"C": [0.1, 10.0]}
    sliced = GridSearchCV(classifier(kernel="precomputed"), grid, cv=3).fit(K, Y)
    plain = GridSearchCV(classifier(), grid, cv=3).fit(X, Y)
    # The same problems; a row on the boundary may fall either way within tol.
    for key in ("mean_test_score",):
        np.testing.assert_allclose(
            sliced.cv_results_[key], plain.cv_results_[key], atol=0.02
        )
    f = sliced.decision_function(rbf_kernel(Z, X, gamma=1.0))
    near = plain.best_estimator_
    apart = np.abs(f - near.decision_function(Z)).max()
    assert apart <= reading.reach(near, sliced.best_estimator_)


def test_a_pipeline_with_a_scaler_scores_by_cross_validation():
    pipe = make_pipeline(StandardScaler(), classifier(gamma="scale", C=100.0))
    assert cross_val_score(pipe, X * [1, 1e4], Y, cv=3).mean() > 0.75


def test_pandas_rows_keep_their_names():
    frame = pd.DataFrame(X, columns=["east", "north"])
    labels = pd.Series(np.where(Y == 1, "black", "white"))
    model = classifier().fit(frame, labels)
    assert list(model.feature_names_in_) == ["east", "north"]
    assert model.n_features_in_ == 2
    assert set(model.predict(frame)) <= {"black", "white"}
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"east": "west"}))
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(X)


@pytest.mark.parametrize(
    "model",
    [
        classifier(),
        classifier(kernel="linear"),
        classifier(kernel=strategies.quadratic_features),
        CoreVectorOneClass(nu=0.1, random_state=0),
        SVDD(random_state=0),
    ],
    ids=["classifier", "linear", "callable", "one-class", "ball"],
)
def test_a_pickled_model_decides_bit_alike(model):
    reading.fit(model, X, Y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.decision_function(Z), model.decision_function(Z)
    )
    assert again.certificate_.relative_gap == model.certificate_.relative_gap
    assert str(again.certificate_) == str(model.certificate_)


def test_calibration_gives_probabilities():
    calibrated = CalibratedClassifierCV(classifier(), ensemble=False, cv=3).fit(X, Y)
    p = calibrated.predict_proba(Z)
    assert p.shape == (100, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert calibrated.score(X, Y) > 0.8


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_many_classes_with_names(multi_class):
    rows, numbers = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[numbers]
    model = classifier(multi_class=multi_class, gamma="scale").fit(rows, names)
    assert list(model.classes_) == ["setosa", "versicolor", "virginica"]
    assert model.decision_function(rows).shape == (150, 3)
    assert model.score(rows, names) > 0.94
    assert len(model.certificate_.parts) == 3
    assert model.certificate_.converged


def test_one_against_the_rest_is_that_many_two_class_problems():
    rows, labels = load_iris(return_X_y=True)
    many = classifier(tol=1e-8, multi_class="ovr").fit(rows, labels)
    f = many.decision_function(rows)
    for k in range(3):
        two = classifier(tol=1e-8).fit(rows, np.where(labels == k, 1, -1))
        part = many.certificate_.parts[k]
        assert part.primal == pytest.approx(two.certificate_.primal, rel=1e-6)
        apart = np.abs(f[:, k] - two.decision_function(rows)).max()
        assert apart <= 2 * reading.reach(two)


def test_boolean_and_reversed_labels_keep_their_meaning():
    model = classifier().fit(X, Y == 1)
    assert model.predict(Z).dtype == bool
    assert ((model.decision_function(Z) > 0) == model.predict(Z)).all()
    named = classifier().fit(X, np.where(Y == 1, "a", "b"))  # "a" is classes_[0]
    assert ((named.decision_function(Z) > 0) == (named.predict(Z) == "b")).all()


def test_a_weight_is_routed_through_a_search():
    weight = np.where(Y == 1, 2.0, 0.5)
    with sklearn.config_context(enable_metadata_routing=True):
        model = classifier().set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=False)
        search = GridSearchCV(model, {"C": [10.0]}, cv=3)
        search.fit(X, Y, sample_weight=weight)
    direct = classifier().fit(X, Y, sample_weight=weight)
    values = search.best_estimator_.certificate_.primal, direct.certificate_.primal
    assert values[0] == pytest.approx(values[1], rel=2e-3)  # tol of each


def test_verbose_reports_by_logging_or_a_live_line_never_on_standard_output(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        classifier(verbose=1).fit(X, Y)
    assert capsys.readouterr().out == ""
    classifier(verbose=0).fit(X, Y)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


class Recorder:
    """A callback that counts its hooks."""

    def __init__(self):
        self.seen = []

    def setup(self, estimator, context):
        self.seen.append("setup")

    def on_fit_task_begin(self, estimator, context, **kwargs):
        self.seen.append("begin")

    def on_fit_task_end(self, estimator, context, **kwargs):
        self.seen.append("end")

    def teardown(self, estimator, context):
        self.seen.append("teardown")


@pytest.mark.parametrize(
    "model",
    [classifier(), CoreVectorOneClass(C=1.0), SVDD()],
    ids=["two", "one", "ball"],
)
def test_callbacks_of_scikit_learn_are_called_once_per_round(model):
    pytest.importorskip("sklearn.callback", reason="callbacks came with 1.9")
    recorder = Recorder()
    model.set_callbacks(recorder)
    reading.fit(model, X, Y)
    assert recorder.seen[0] == "setup"
    assert recorder.seen[-1] == "teardown"
    assert recorder.seen.count("begin") == recorder.seen.count("end") >= 1
    assert recorder.seen.count("end") >= len(model.history_)
