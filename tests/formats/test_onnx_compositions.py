"""ONNX graphs of models of cells, calibrated classifiers and column transformers."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from corevec import (
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    InvalidInputError,
    methods,
)
from corevec.formats import to_onnx

onnxruntime = pytest.importorskip("onnxruntime")
# By sums of some hundred terms of size 1 in another order, and expm1-free sigmoids.
EXACT = {"rtol": 1e-9, "atol": 1e-9}


def rows(n_classes=2, n=400):
    X, y = make_classification(
        n, 6, n_informative=4, n_classes=n_classes, random_state=0
    )
    return X, np.array(["a", "b", "c"], dtype=object)[y] if n_classes == 3 else y


def run(model, X, dtype="float64"):
    """Return the outputs of the graph by name."""
    proto = to_onnx(model, dtype)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    found = session.run(None, {"X": X.astype(dtype)})
    return dict(zip(names, found, strict=True))


CELLS = {
    "one tree": {"method": methods.Cells(60)},
    "forest": {"method": methods.Cells(60, n_trees=3)},
    "one cell": {"method": methods.Cells(10_000)},
    "laplacian": {"kernel": "laplacian", "method": methods.Cells(60)},
    "linear": {"kernel": "linear", "method": methods.Cells(60)},
    "poly": {"kernel": "poly", "coef0": 1.0, "method": methods.Cells(60)},
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", CELLS)
def test_a_graph_of_cells_has_the_values_of_the_model(name, n_classes):
    X, y = rows(n_classes)
    model = CoreVectorClassifier(**CELLS[name], random_state=0).fit(X, y)
    # Far rows too: there classes without rows in a cell are lowered below the others.
    asked = np.concatenate([X, 30 * X[:50]])
    found = run(model, asked)
    np.testing.assert_allclose(
        found["decision"], model.decision_function(asked), **EXACT
    )
    assert (found["label"] == model.predict(asked)).all()


def test_a_cell_without_rows_in_a_batch_and_an_empty_batch_are_fine():
    X, y = rows()
    model = CoreVectorClassifier(random_state=0, method=methods.Cells(60)).fit(X, y)
    assert (run(model, X[:1])["label"] == model.predict(X[:1])).all()
    assert run(model, X[:0])["label"].shape == (0,)


@pytest.mark.parametrize("kind", ["regressor", "two targets", "detector"])
def test_cells_of_regressors_and_detectors(kind):
    X, _ = rows()
    if kind == "detector":
        model = CoreVectorOneClass(random_state=0, method=methods.Cells(60)).fit(X)
        found = run(model, X)
        expected = model.decision_function(X)
        np.testing.assert_allclose(found["decision"], expected, **EXACT)
        return
    y = X[:, 0] ** 2 if kind == "regressor" else X[:, :2] ** 2
    model = CoreVectorRegressor(random_state=0, method=methods.Cells(60)).fit(X, y)
    np.testing.assert_allclose(run(model, X)["value"], model.predict(X), **EXACT)


def test_cells_in_float32_agree_but_for_the_rounding_of_rows():
    X, y = rows()
    X = X.astype("f4").astype("f8")  # the input of the graph: no rounding of rows
    model = make_pipeline(
        MinMaxScaler(), CoreVectorClassifier(random_state=0, method=methods.Cells(60))
    ).fit(X, y)
    found = run(model, X, "float32")
    expected = model.decision_function(X)
    # Coefficients up to C = 1 of 60 vectors: 60 * 6e-8, with a margin of ten.
    assert np.abs(found["decision"] - expected).max() < 4e-5


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("ensemble", [True, False])
def test_a_calibrated_classifier_gives_its_probabilities(method, ensemble, n_classes):
    X, y = rows(n_classes)
    machine = make_pipeline(StandardScaler(), CoreVectorClassifier(random_state=0))
    model = CalibratedClassifierCV(machine, method=method, ensemble=ensemble, cv=3)
    model = make_pipeline(MinMaxScaler(), model).fit(X, y)
    found = run(model, X)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), **EXACT)
    assert (found["label"] == model.predict(X)).all()


@pytest.mark.parametrize(
    "machine",
    [
        CoreVectorClassifier(random_state=0, method=methods.FewVectors(20)),
        CoreVectorClassifier(random_state=0, method=methods.Cells(60)),
        CoreVectorClassifier(multi_class="ovo", random_state=0),
    ],
    ids=["subspace", "cells", "pairs"],
)
def test_machines_of_every_form_can_be_calibrated(machine):
    X, y = rows(3)
    model = CalibratedClassifierCV(machine, cv=2).fit(X, y)
    found = run(model, X)["probabilities"]
    np.testing.assert_allclose(found, model.predict_proba(X), **EXACT)


def test_columns_are_taken_and_encoded_as_by_the_pipeline():
    X, y = rows()
    X[:, 5] = np.arange(len(X)) % 4
    columns = ColumnTransformer(
        [
            ("scaled", StandardScaler(), [0, 3]),
            ("as is", "passthrough", slice(1, 3)),
            ("class", OneHotEncoder(sparse_output=False), [5]),
        ]
    )
    model = make_pipeline(columns, CoreVectorClassifier(random_state=0)).fit(X, y)
    found = run(model, X)
    np.testing.assert_allclose(found["decision"], model.decision_function(X), **EXACT)


def test_what_a_graph_cannot_hold_is_refused_by_name():
    X, y = rows()
    words = ColumnTransformer([("text", OneHotEncoder(), [0])])
    words.fit(np.array([["a"], ["b"]] * 3, dtype=object))
    model = make_pipeline(words, CoreVectorClassifier())
    model.steps[-1][1].fit(np.eye(2), [0, 1])
    with pytest.raises(InvalidInputError, match="OneHotEncoder"):
        to_onnx(model)
    hot = CalibratedClassifierCV(CoreVectorClassifier(), method="temperature", cv=2)
    with pytest.raises(InvalidInputError, match="_TemperatureScaling"):
        to_onnx(hot.fit(X, y))


def test_more_cells_than_a_graph_can_open_are_refused():
    X, y = rows(n=6000)
    model = CoreVectorClassifier(
        random_state=0, method=methods.Cells(20, n_trees=3)
    ).fit(X, y)
    n_cells = sum(one.tree.n_cells for one in model._forest.trees)
    assert n_cells > 512
    with pytest.raises(InvalidInputError, match=f"{n_cells:,} cells"):
        to_onnx(model)
