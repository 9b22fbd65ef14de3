"""Models of cells meet scikit-learn's contract, and refuse wrong parameters."""

import pickle

import naive
import numpy as np
import pytest
from cells_twin import NAMES, NEAR, board
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import (
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    methods,
)
from corevec.exceptions import InvalidInputError


@parametrize_with_checks(
    [
        CoreVectorClassifier(method=methods.Cells(30, n_trees=2)),
        CoreVectorClassifier(
            multi_class="ovo", kernel="linear", method=methods.Cells(30)
        ),
        CoreVectorRegressor(method=methods.Cells(30, n_trees=2)),
        CoreVectorOneClass(nu=0.1, method=methods.Cells(30, n_trees=2)),
    ]
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def test_copies_give_the_same_predictions():
    X, y = board(400)
    model = CoreVectorClassifier(method=methods.Cells(50, n_trees=2), **NEAR).fit(X, y)
    wanted = model.decision_function(X)
    assert np.array_equal(
        pickle.loads(pickle.dumps(model)).decision_function(X), wanted
    )
    again = clone(model)
    assert repr(again) == repr(model)
    assert not hasattr(again, "_forest")
    assert np.array_equal(again.fit(X, y).decision_function(X), wanted)


@pytest.mark.parametrize("n_trees", [1, 2])
def test_threads_do_not_change_the_model(n_trees):
    X, y = board(1500)
    fits = [
        CoreVectorClassifier(
            method=methods.Cells(50, n_trees=n_trees), **{**NEAR, "n_jobs": jobs}
        )
        for jobs in (1, 2, 3)
    ]
    one, *others = [model.fit(X, y).decision_function(X) for model in fits]
    for found in others:
        assert np.array_equal(found, one)


def test_a_grid_search_over_cells_and_a_pipeline():
    X, y = board(600)
    line = make_pipeline(StandardScaler(), CoreVectorClassifier(**NEAR))
    grid = {
        "corevectorclassifier__method": ["auto", methods.Cells(40), methods.Cells(200)]
    }
    search = GridSearchCV(line, grid, cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ > 0.7


def test_data_frames_keep_their_names():
    pd = pytest.importorskip("pandas")
    X, y = board(300)
    frame = pd.DataFrame(X, columns=["left", "right"])
    labels = pd.Series(NAMES[y], index=np.arange(300) + 7)
    model = CoreVectorClassifier(method=methods.Cells(50), **NEAR).fit(frame, labels)
    assert list(model.feature_names_in_) == ["left", "right"]
    plain = CoreVectorClassifier(method=methods.Cells(50), **NEAR).fit(X, NAMES[y])
    assert np.array_equal(model.predict(frame), plain.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["right", "left"]])


def attributes(model):
    found = {name for name in vars(model) if name.endswith("_") or name[0] == "_"}
    return found - {"_stop_asked"}  # whether Ctrl-C came, set anew by every global fit


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_refit_leaves_no_attribute_of_the_other_kind_of_model(warm_start):
    X, y = board(300)
    asked = {"tol": 1e-6, "warm_start": warm_start} | NEAR
    local = CoreVectorClassifier(method=methods.Cells(50), **asked).fit(X, y)
    whole = CoreVectorClassifier(**asked).fit(X, y)
    there = CoreVectorClassifier(method=methods.Cells(50), **asked).fit(X, y)
    there.set_params(method="auto").fit(X, y)
    assert attributes(there) == attributes(whole)
    assert there.certificate_.converged
    wanted = whole.decision_function(X)
    assert there.decision_function(X) == pytest.approx(wanted, abs=1e-3)
    there.set_params(method=methods.Cells(50)).fit(X, y)
    assert attributes(there) == attributes(local)
    assert np.array_equal(there.decision_function(X), local.decision_function(X))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"method": methods.Cells(0)}, "method__size=0 must be"),
        ({"method": methods.Cells(19)}, "at least 20"),
        ({"method": methods.Cells(-5)}, "method__size=-5"),
        ({"method": methods.Cells(100.5)}, "method__size=100.5"),
        ({"method": methods.Cells(True)}, "method__size=True"),
        ({"method": methods.Cells("many")}, "method__size='many'"),
        (
            {"method": methods.Cells(50, n_trees=0)},
            "method__n_trees=0 must be a whole number",
        ),
        ({"method": methods.Cells(50, n_trees=1.5)}, "method__n_trees=1.5"),
        ({"method": methods.Cells(50, n_trees=True)}, "method__n_trees=True"),
    ],
    ids=str,
)
def test_wrong_parameters_are_refused(wrong, text):
    X, y = board(100)
    with pytest.raises(InvalidInputError, match=f"CoreVectorClassifier: .*{text}"):
        CoreVectorClassifier(**wrong).fit(X, y)


def test_a_precomputed_kernel_is_refused():
    X, y = board(100)
    model = CoreVectorClassifier(kernel="precomputed", method=methods.Cells(50))
    with pytest.raises(InvalidInputError, match="precomputed"):
        model.fit(naive.gram(X), y)
