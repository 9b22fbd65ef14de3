"""What a notebook shows of a fitted estimator."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from corevec import (
    CoreVectorClassifier,
    CoreVectorClassifierCV,
    CoreVectorRanker,
    StreamingBallClassifier,
    StructuralSVM,
    svm,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
FITTED = [
    CoreVectorClassifier().fit(X, y),
    CoreVectorClassifierCV(Cs=[1.0], gammas=[1.0], cv=2).fit(X, y),
    CoreVectorRanker().fit(X, y, qid=np.repeat([0, 1], 30)),
    StructuralSVM().fit(X, y),
    svm.SVC().fit(X, y),
]


def shown(estimator):
    """Return the HTML by both of the ways that notebooks take."""
    bundle = estimator._repr_mimebundle_(include=None, exclude=None)
    return {bundle["text/html"], estimator._repr_html_()}


def name(estimator):
    return type(estimator).__name__


@pytest.mark.parametrize("estimator", FITTED, ids=name)
def test_the_certificate_is_below_the_diagram(estimator):
    for html in shown(estimator):
        diagram, found, _ = html.partition(estimator.certificate_._repr_html_())
        assert name(estimator) in diagram
        assert found


@pytest.mark.parametrize("estimator", FITTED, ids=name)
def test_before_the_fit_there_is_the_diagram_alone(estimator):
    for html in shown(clone(estimator)):
        assert name(estimator) in html
        assert "corevec-card" not in html


def test_a_model_of_one_pass_shows_the_bound_of_its_ball():
    model = StreamingBallClassifier().fit(X, y)
    for html in shown(model):
        assert html.endswith(model.ball_bound_._repr_html_())


def test_text_alone_stays_text_alone():
    with config_context(display="text"):
        bundle = FITTED[0]._repr_mimebundle_()
    assert set(bundle) == {"text/plain"}


def test_a_pipeline_shows_its_diagram():
    pipe = make_pipeline(StandardScaler(), CoreVectorClassifier()).fit(X, y)
    assert "CoreVectorClassifier" in pipe._repr_mimebundle_()["text/html"]
