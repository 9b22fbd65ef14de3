"""`loss="hinge"` of the classifier is the problem of scikit-learn's SVC."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.svm import SVC

from corevec import CoreVectorClassifier, InvalidInputError, certify, methods

X, Y = make_moons(300, noise=0.3, random_state=0)


@pytest.mark.parametrize("method", ["auto", "exact", methods.Exact()])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_objective_is_that_of_svc(method, C):
    given = {"C": C, "gamma": 1.0}
    twin = SVC(tol=1e-8, **given).fit(X, Y)
    model = CoreVectorClassifier(loss="hinge", tol=1e-8, method=method, **given)
    model.fit(X, Y)
    found, theirs = model.certificate_, certify(twin, X, Y)
    assert found.converged
    assert found.dual <= theirs.primal * (1 + 1e-9)
    assert theirs.dual <= found.primal * (1 + 1e-9)
    # At a relative gap of 1e-8 functions differ by 1e-4 of the norm at most.
    apart = np.abs(model.decision_function(X) - twin.decision_function(X)).max()
    assert apart < 1e-4 * np.sqrt(2 * theirs.primal)
    assert model.method_.startswith("exact: all 300 rows")


def test_pairs_of_classes_vote_as_svc_does():
    X, y = load_iris(return_X_y=True)
    model = CoreVectorClassifier(loss="hinge", gamma=0.5, tol=1e-6).fit(X, y)
    twin = SVC(gamma=0.5, decision_function_shape="ovr").fit(X, y)
    assert np.mean(model.predict(X) == twin.predict(X)) == 1.0


def test_a_row_of_weight_zero_is_absent_and_two_count_twice():
    s = np.random.default_rng(0).integers(0, 3, len(X))
    model = CoreVectorClassifier(loss="hinge", gamma=1.0, tol=1e-8)
    weighted = model.fit(X, Y, s.astype(float)).certificate_.primal
    repeated = model.fit(X.repeat(s, 0), Y.repeat(s)).certificate_.primal
    assert weighted == pytest.approx(repeated, rel=3e-8)


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"method": "coreset"}, "method='coreset'"),
        ({"fit_intercept": False}, "fit_intercept=False"),
        ({"checkpoint": "fit.npz"}, "checkpoint"),
    ],
)
def test_what_does_not_solve_the_hinge_is_named(asked, word):
    with pytest.raises(InvalidInputError, match=word):
        CoreVectorClassifier(loss="hinge", **asked).fit(X, Y)
