"""scikit-learn's compositions around a model of corevec come back from files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from corevec import (
    CoreVectorClassifier,
    CoreVectorRegressor,
    CoreVectorRegressorCV,
    InvalidInputError,
)
from corevec.formats import load, save, skops_trusted


def table():
    """Return a frame with a text column, and labels in words."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, 90),
            "income": rng.normal(3e4, 5e3, 90),
            "town": np.array(["Rom", "Köln", "Ulm"], dtype=object)[np.arange(90) % 3],
        }
    )
    old = frame["age"] + 10 * (frame["town"] == "Ulm") > 42
    return frame, np.where(old, "old", "young")


def columns(**more):
    return ColumnTransformer(
        [
            ("scaled", StandardScaler(), ["age", "income"]),
            ("town", OneHotEncoder(sparse_output=False), ["town"]),
        ],
        **more,
    )


def machine():
    return CoreVectorClassifier(C=10.0, random_state=0)


def models():
    yield "columns", make_pipeline(columns(), machine())
    yield (
        "slice and passthrough",
        make_pipeline(
            ColumnTransformer(
                [
                    ("scaled", StandardScaler(), slice(0, 1)),
                    ("as is", "passthrough", [1]),
                ],
            ),
            machine(),
        ),
    )
    yield (
        "mask and remainder",
        make_pipeline(
            ColumnTransformer(
                [("town", OneHotEncoder(), [False, False, True])],
                remainder=StandardScaler(),
            ),
            machine(),
        ),
    )
    for method in ("sigmoid", "isotonic", "temperature"):
        model = CalibratedClassifierCV(machine(), method=method, cv=3)
        yield method, make_pipeline(columns(), model)
    yield (
        "one calibrator",
        make_pipeline(
            columns(), CalibratedClassifierCV(machine(), cv=3, ensemble=False)
        ),
    )
    yield (
        "imputed",
        make_pipeline(
            ColumnTransformer([("some", SimpleImputer(), ["age", "income"])]), machine()
        ),
    )


MODELS = dict(models())


def answers(model, rows):
    asked = [n for n in ("decision_function", "predict_proba") if hasattr(model, n)]
    return [getattr(model, name)(rows) for name in ("predict", *asked)]


@pytest.mark.parametrize("name", MODELS)
def test_a_composition_comes_back_bit_for_bit(name, tmp_path):
    frame, labels = table()
    model = MODELS[name].fit(frame, labels)
    save(model, tmp_path / "model.npz")
    found = load(tmp_path / "model.npz")
    for theirs, ours in zip(answers(model, frame), answers(found, frame), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert repr(found) == repr(model)
    assert list(found.feature_names_in_) == list(frame.columns)


def test_a_calibrated_model_that_was_frozen_comes_back(tmp_path):
    frame, labels = table()
    X = frame[["age", "income"]].to_numpy()
    fitted = machine().fit(X, labels)
    model = CalibratedClassifierCV(FrozenEstimator(fitted), cv=3).fit(X, labels)
    save(model, tmp_path / "model.npz")
    found = load(tmp_path / "model.npz").predict_proba(X)
    np.testing.assert_array_equal(found, model.predict_proba(X))


def test_of_a_search_the_best_estimator_is_saved(tmp_path):
    frame, labels = table()
    pipe = make_pipeline(columns(), machine())
    grid = {"corevectorclassifier__C": [0.1, 10.0]}
    search = GridSearchCV(pipe, grid, cv=2).fit(frame, labels)
    save(search, tmp_path / "model.npz")
    found = load(tmp_path / "model.npz")
    assert repr(found) == repr(search.best_estimator_)
    np.testing.assert_array_equal(found.predict(frame), search.predict(frame))


def test_of_our_own_search_the_best_estimator_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    search = CoreVectorRegressorCV(Cs=[1.0, 10.0], gammas=[0.3], cv=2).fit(X, X[:, 0])
    save(search, tmp_path / "model")
    found = load(tmp_path / "model")
    assert search.best_params_["C"] == found.C
    np.testing.assert_array_equal(found.predict(X), search.predict(X))


def test_functions_in_a_column_transformer_are_refused_by_name(tmp_path):
    frame, labels = table()
    logs = FunctionTransformer(np.log1p)
    model = make_pipeline(
        ColumnTransformer([("logs", logs, ["age", "income"])]), machine()
    ).fit(frame, labels)
    with pytest.raises(InvalidInputError, match="func"):
        save(model, tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", MODELS)
def test_skops_needs_no_more_types_than_it_is_told_to_trust(name, tmp_path):
    skops = pytest.importorskip("skops.io")
    frame, labels = table()
    model = MODELS[name].fit(frame, labels)
    skops.dump(model, tmp_path / "model.skops")
    asked = skops.get_untrusted_types(file=tmp_path / "model.skops")
    assert set(asked) <= set(skops_trusted())
    found = skops.load(tmp_path / "model.skops", trusted=skops_trusted())
    np.testing.assert_array_equal(found.predict(frame), model.predict(frame))


def test_a_regressor_of_a_frame_comes_back(tmp_path):
    frame, _ = table()
    model = make_pipeline(columns(), CoreVectorRegressor()).fit(frame, frame["age"])
    save(model, tmp_path / "model.npz")
    found = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(found.predict(frame), model.predict(frame))
