"""What a fit that is not certified says about its remedy."""

import re

import pytest
from sklearn.datasets import make_classification

from corevec import CoreVectorClassifier, NotCertifiedWarning, methods

X, Y = make_classification(3000, 10, flip_y=0.2, random_state=0)
HARD = {"C": 10.0, "gamma": 0.3, "random_state": 0}


def stopped(**given):
    model = CoreVectorClassifier(**HARD | given)
    with pytest.warns(NotCertifiedWarning) as told:
        model.fit(X, Y)
    return model, str(told[0].message)


@pytest.mark.parametrize(
    "given",
    [
        {"method": methods.CoreSet(max_vectors=40)},
        {"method": methods.CoreSet(), "max_iter": 4},
        {"method": methods.CoreSet.as_published(1e-3)},
    ],
)
def test_the_warning_says_what_the_certificate_says(given):
    model, text = stopped(**given)
    found = model.certificate_
    assert 1 <= len(found.advice) <= 2
    assert all(one in text for one in found.advice)
    lines = repr(found).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "what to do" in repr(found)


def test_a_tolerance_that_is_said_to_be_met_is_met():
    model, _ = stopped(method=methods.CoreSet(max_vectors=2500), max_iter=12)
    words = " ".join(model.certificate_.advice)
    tol = float(re.search(r"tol=(\S+) is already met", words)[1])
    assert model.certificate_.relative_gap <= tol
    again = CoreVectorClassifier(**HARD | model.get_params(deep=False) | {"tol": tol})
    assert again.fit(X, Y).certificate_.converged


def test_a_certified_fit_needs_no_advice():
    assert CoreVectorClassifier(**HARD).fit(X[:300], Y[:300]).certificate_.advice == ()
