"""Callbacks of scikit-learn get the rows and an estimator that predicts."""

import warnings

import numpy as np
import pytest

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRanker,
    CoreVectorRegressor,
    NotCertifiedWarning,
    StreamingBallClassifier,
    StreamingBallOneClass,
    StructuralSVM,
    methods,
)

pytest.importorskip("sklearn.callback", reason="callbacks came with 1.9")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
T = X[:, 0] + 0.1 * RNG.normal(size=200)
Y = (T > 0).astype(int)
MODELS = [
    CoreVectorClassifier(method="coreset"),
    CoreVectorClassifier(method=methods.Cells(50)),
    CoreVectorRegressor(),
    CoreVectorRegressor(method=methods.Cells(50)),
    CoreVectorOneClass(),
    CoreVectorOneClass(method=methods.Cells(50)),
    SVDD(),
    SVDD(C=0.1),
    CoreVectorClassifier(method=methods.FewVectors(10)),
    CoreVectorClassifier(loss="hinge", method=methods.FewVectors(10)),
    CoreVectorRegressor(C=1.0, tube=0.0, method=methods.FewVectors(10)),
    StructuralSVM(),
    CoreVectorRanker(),
    StreamingBallClassifier(),
    StreamingBallOneClass(C=1.0),
]


class Predicting:
    """A callback that predicts with every fitted estimator that it gets."""

    def __init__(self):
        self.predictions = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if fitted_estimator is not None:
            self.predictions.append(fitted_estimator.predict(X))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_callback_may_predict_and_at_the_end_predicts_as_the_model(model):
    callback = Predicting()
    model.set_callbacks(callback)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        model.fit(X, T if "Regressor" in repr(model) else Y)
    assert all(len(found) == len(X) for found in callback.predictions)
    assert np.array_equal(callback.predictions[-1], model.predict(X))


def test_the_scoring_monitor_logs_a_score_per_round():
    from sklearn.callback import ScoringMonitor

    monitor = ScoringMonitor(scoring="accuracy")
    model = CoreVectorClassifier(random_state=0, method="coreset")
    model.set_callbacks(monitor).fit(X, Y, np.full(200, 2.0))
    rows = monitor.get_logs().data
    last = [row["accuracy"] for row in rows if row["task_name"] == "fit"]
    assert len(rows) == len(model.history_) + 1
    assert last == [model.score(X, Y)]
