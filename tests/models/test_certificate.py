"""The certificate says what is known about the model, and no more."""

import dataclasses
import json
import pickle

import naive
import numpy as np
import pytest
import reading
import strategies
from hypothesis import given, settings

from corevec import (
    SVDD,
    Certificate,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    NotCertifiedWarning,
    certify,
    methods,
)
from corevec._runtime import StopReason
from corevec.models import with_kind

FIELDS = [
    *("problem", "primal", "dual", "relative_gap", "dual_bound", "confidence"),
    *("ball_epsilon", "radius", "n_verified", "n_rows", "passes", "seconds"),
    *("converged", "stopped_by"),
]
X, Y = strategies.checkerboard(800)
HARD = {"C": 1e4, "gamma": 1.0, "random_state": 0}


def board_model(**params):
    return CoreVectorClassifier(
        **{"C": 10.0, "gamma": 1.0, "random_state": 0, **params}
    )


@pytest.mark.parametrize(
    "model",
    [board_model(), CoreVectorOneClass(C=2.0), SVDD(), SVDD(C=2.0)],
    ids=["classifier", "one-class", "hard ball", "soft ball"],
)
def test_every_field_is_there_and_sound(model):
    certificate = reading.fit(model, X, Y).certificate_
    assert isinstance(certificate, Certificate)
    for field in FIELDS:
        assert hasattr(certificate, field), field
    assert isinstance(certificate.problem, str)
    assert len(certificate.problem) > 10
    assert certificate.dual <= certificate.primal * (1 + 1e-12)
    assert 0 <= certificate.relative_gap <= 1e-3
    assert certificate.dual_bound in ("exact", "projection", "sample")
    assert 0 < certificate.confidence <= 1.0
    assert certificate.n_verified == certificate.n_rows == len(X)
    assert certificate.passes >= 1
    assert certificate.seconds > 0
    assert certificate.converged is True or certificate.converged == np.True_
    assert certificate.stopped_by == "tol"


def test_the_words_of_a_certificate_are_plain_strings():
    """Enumerations inside, strings in pickles, containers and JSON."""
    certificate = SVDD().fit(X).certificate_
    for word in (certificate.stopped_by, certificate.kind):
        assert type(word) is str
    assert (certificate.stopped_by, certificate.kind) == ("tol", "ball")
    assert json.loads(json.dumps(certificate.stopped_by)) == StopReason.TOL
    assert pickle.loads(pickle.dumps(certificate)) == certificate
    later = dataclasses.replace(certificate, stopped_by=StopReason.ONE_PASS)
    assert later.stopped_by == "one pass"


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"problem": "hard-margin SVDD: min R^2, ..."}, "ball"),
        ({"problem": "12 local problems, one per cell of ..."}, "cells"),
        ({"problem": "", "stopped_by": "cells"}, "cells"),
        ({"problem": "two-class L2-SVM: min |w|^2"}, "machine"),
    ],
)
def test_a_certificate_of_an_older_file_gets_its_kind(fields, kind):
    numbers = {"primal": 1.0, "dual": 1.0, "relative_gap": 0.0}
    assert Certificate(**with_kind({**numbers, **fields})).kind == kind


def test_the_printed_form_is_for_people():
    certificate = board_model().fit(X, Y).certificate_
    text = str(certificate)
    assert len(text) < 2000
    assert "object at 0x" not in text
    assert "gap" in text.lower()
    assert str(len(X)) in text.replace(",", "").replace("_", "")


@pytest.mark.parametrize("method", ["exact", "coreset", "few-vectors", "sample"])
def test_the_printed_form_leaves_out_what_is_not_known(method):
    model = board_model(method=method).fit(X[:500], Y[:500])
    assert "nan" not in str(model.certificate_)
    ball = SVDD(C=0.05, gamma=5.0).fit(X[:200]).certificate_
    assert f"radius {ball.radius:.6g}" in str(ball)
    assert "nan" not in str(ball)


def test_certifying_the_training_rows_agrees_with_the_fit():
    model = board_model(tol=1e-6).fit(X, Y)
    again = certify(model, X, Y)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=2e-6)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=2e-6)
    assert again.n_rows == len(X)


@settings(max_examples=25)
@given(strategies.problems(C=strategies.penalties(-3, 4)))
def test_certify_bounds_the_optimum_of_any_rows(problem):
    model = CoreVectorClassifier(tol=0.1, random_state=0, **problem.params)
    reading.fit(model, problem.X, problem.y, problem.s)
    keep = np.concatenate([np.flatnonzero(problem.y == k)[::-1] for k in (1, -1)])
    rows, y = problem.X[keep] * 1.1, problem.y[keep]
    certificate = certify(model, rows, y)
    twin = naive.hinge(naive.gram(rows, **problem.kernel), y, problem.C)
    room = 1e-8 + twin.rounding
    assert certificate.primal >= twin.dual * (1 - room)
    assert certificate.dual <= twin.primal * (1 + room)
    assert certificate.n_rows == len(rows)


def test_certify_takes_weights():
    s = np.random.default_rng(0).choice([0.0, 1.0, 2.0], size=len(X))
    model = board_model(tol=1e-6).fit(X, Y, sample_weight=s)
    weighted, plain = certify(model, X, Y, sample_weight=s), certify(model, X, Y)
    assert weighted.primal == pytest.approx(model.certificate_.primal, rel=2e-6)
    assert plain.relative_gap > 1e-3  # another problem, of which this is no solution


@pytest.mark.parametrize("model", [CoreVectorOneClass(C=2.0), SVDD(), SVDD(C=2.0)])
def test_certify_judges_the_detectors(model):
    reading.fit(model.set_params(tol=1e-6, gamma=1.0), X)
    again = certify(model, X)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-5)
    assert again.relative_gap <= 1e-3
    other = certify(model, X * 1.5)
    assert other.n_rows == len(X)
    assert other.primal >= other.dual


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_many_classes_report_the_worst_and_each(multi_class, rng):
    rows, y = rng.normal(size=(150, 2)), rng.integers(0, 4, size=150)
    model = reading.fit(CoreVectorClassifier(multi_class=multi_class), rows, y)
    parts = model.certificate_.parts
    assert len(parts) == {"ovr": 4, "ovo": 6}[multi_class]
    worst = max(part.relative_gap for part in parts)
    assert model.certificate_.relative_gap == pytest.approx(worst)
    assert model.certificate_.converged == all(part.converged for part in parts)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"max_iter": 1}, "max_iter"),
        ({"method__max_vectors": 5}, "max_vectors"),
        ({"max_time": 1e-9}, "max_time"),
    ],
)
def test_a_limit_ends_the_run_with_a_warning_and_its_name(limit, reason):
    model = CoreVectorClassifier(**HARD, tol=1e-9, method=methods.CoreSet(batch=1))
    model.set_params(**limit)
    with pytest.warns(NotCertifiedWarning, match=f"CoreVectorClassifier.*{reason}"):
        model.fit(X, Y)
    certificate = model.certificate_
    assert not certificate.converged
    assert certificate.stopped_by == reason
    assert certificate.relative_gap > 1e-9
    twin = naive.hinge(naive.gram(X, gamma=1.0), Y, 1e4)
    assert certificate.primal >= twin.dual * (1 - 1e-6)
    assert certificate.dual <= twin.primal * (1 + 1e-6)
    assert np.isfinite(model.decision_function(X)).all()
    if reason == "max_vectors":
        assert len(model.support_) <= 5


@pytest.mark.parametrize("detector", [CoreVectorOneClass(C=100.0), SVDD()])
def test_the_detectors_report_a_limit_too(detector):
    detector.set_params(
        tol=1e-9, max_iter=1, gamma=1.0, method=methods.CoreSet(batch=1)
    )
    with pytest.warns(NotCertifiedWarning, match=type(detector).__name__):
        detector.fit(X)
    assert detector.certificate_.stopped_by == "max_iter"


def test_a_converged_run_is_silent(recwarn):
    board_model().fit(X, Y)
    assert not [w for w in recwarn if issubclass(w.category, NotCertifiedWarning)]


def test_a_sampled_search_never_claims_convergence():
    rows, y = strategies.checkerboard(5000)
    model = CoreVectorClassifier(
        C=10.0, gamma=1.0, random_state=0, method=methods.Sample(200)
    )
    certificate = reading.fit(model, rows, y).certificate_
    assert certificate.n_rows == 5000
    if certificate.n_verified < 5000:
        assert not certificate.converged
    assert model.score(rows, y) > 0.8
    # Whatever it claims must hold on all rows.
    if certificate.converged:
        assert certify(model, rows, y).relative_gap <= 1.01e-3


def test_a_sampled_search_states_no_bound_that_is_false():
    rows, y = strategies.checkerboard(5000)
    shape = {"C": 10.0, "gamma": 1.0, "random_state": 0}
    optimum = CoreVectorClassifier(tol=1e-5, **shape).fit(rows, y).certificate_
    model = CoreVectorClassifier(method=methods.Sample(200), **shape)
    certificate = reading.fit(model, rows, y).certificate_
    # A primal that was measured on a part of the rows is no upper bound: it must be
    # left out (nan, inf), or hold. 1e-5 is the tolerance of the reference.
    assert certificate.dual <= optimum.primal * (1 + 1e-5)
    if np.isfinite(certificate.primal):
        assert certificate.primal >= optimum.dual * (1 - 1e-5)
    if np.isfinite(certificate.relative_gap):
        true = certify(model, rows, y)
        assert certificate.relative_gap >= 1 - optimum.primal / true.primal - 1e-5


@pytest.mark.parametrize("method", ["auto", "coreset"])
def test_the_history_has_one_record_per_round(method):
    model = CoreVectorClassifier(C=100.0, gamma=1.0, random_state=0, method=method)
    model.fit(X, Y)
    assert len(model.history_) == model.n_iter_
    assert all(isinstance(record, dict) for record in model.history_)
    assert len({frozenset(record) for record in model.history_}) == 1


def test_a_certificate_cannot_be_changed_by_accident():
    certificate = board_model().fit(X, Y).certificate_
    with pytest.raises((AttributeError, dataclasses.FrozenInstanceError)):
        certificate.converged = True


SHORT = {"gamma": 2.0, "random_state": 0, "method": methods.CoreSet(max_vectors=12)}


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (CoreVectorClassifier(C=10.0, **SHORT), "y"),
        (
            CoreVectorOneClass(
                C=10.0, **SHORT | {"method": methods.CoreSet(max_vectors=5)}
            ),
            None,
        ),
        (SVDD(C=0.01, **SHORT | {"method": methods.CoreSet(max_vectors=5)}), None),
        (CoreVectorRegressor(C=10.0, **SHORT), "z"),
    ],
    ids=["classifier", "one class", "soft ball", "regressor"],
)
def test_a_model_that_stopped_early_is_the_one_that_was_measured(model, target):
    rows = np.random.default_rng(0).normal(size=(400, 2))
    targets = {"y": (rows.prod(axis=1) > 0).astype(int), "z": np.sin(3 * rows[:, 0])}
    fitted_on = (rows,) if target is None else (rows, targets[target])
    with pytest.warns(NotCertifiedWarning):
        model.fit(*fitted_on)
    own = certify(model, *fitted_on)
    assert own.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
