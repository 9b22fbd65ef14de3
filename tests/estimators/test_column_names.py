"""Names of columns in Python: rows whose columns were moved are refused everywhere."""

from itertools import product

import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC

import corevec
from corevec import InvalidInputError, methods, reference

pd = pytest.importorskip("pandas")
dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("pyarrow")

NAMES = ["age", "income"]
MODELS = {
    "classifier": corevec.CoreVectorClassifier(gamma=0.5, random_state=0),
    "detector": corevec.CoreVectorOneClass(gamma=0.5, random_state=0),
    "subspace": corevec.CoreVectorClassifier(
        random_state=0, method=methods.FewVectors(5)
    ),
    "stream": corevec.StreamingBallClassifier(),
    "streaming detector": corevec.StreamingBallOneClass(random_state=0),
    "features": corevec.CoreSetNystroem(n_components=5, random_state=0),
    "structural": corevec.StructuralSVM(),
    "reference": reference.SMO(),
    "cells": corevec.CoreVectorClassifier(
        gamma=0.5, random_state=0, method=methods.Cells(30)
    ),
}
PLACES = ("frame", "dask", "parquet")
IN_MEMORY = ("features", "structural", "reference")  # take no files


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(80, 2)) * [1.0, 5.0], columns=NAMES)


@pytest.fixture(scope="module")
def labels(table):
    return (table["age"] > 0).to_numpy().astype(int)


def placed(place, table, labels, folder):
    """Return rows and labels as `fit` takes them, in a place with names."""
    if place == "frame":
        return table, labels
    if place == "dask":
        rows = dd.from_pandas(table, npartitions=2)
        return rows, dd.from_pandas(pd.Series(labels), npartitions=2).to_dask_array(
            lengths=True
        )
    path = folder / f"{'_'.join(table.columns)}.parquet"
    table.assign(label=labels).to_parquet(path)
    return corevec.open(path, target="label"), None


@pytest.mark.parametrize(
    ("name", "here", "there"),
    [
        (name, *places)
        for name in MODELS
        for places in product(PLACES, PLACES)
        if name not in IN_MEMORY or "parquet" not in places
    ],
)
def test_moved_columns_are_refused_wherever_rows_live(
    name, here, there, table, labels, tmp_path
):
    rows, y = placed(here, table, labels, tmp_path)
    model = MODELS[name].fit(rows, y)
    assert list(model.feature_names_in_) == NAMES
    ask = model.transform if name == "features" else model.predict
    same, _ = placed(there, table, labels, tmp_path)
    assert len(np.asarray(ask(same))) == 80
    moved, _ = placed(there, table[NAMES[::-1]], labels, tmp_path)
    with pytest.raises(ValueError, match="feature names should match"):
        np.asarray(ask(moved))


@pytest.mark.parametrize("place", ["frame", "dask"])
@pytest.mark.parametrize("name", ["stream", "streaming detector"])
def test_a_stream_does_not_go_on_with_moved_columns(
    name, place, table, labels, tmp_path
):
    model = MODELS[name].fit(table, labels)
    seen = model.n_rows_seen_
    moved, y = placed(place, table[NAMES[::-1]], labels, tmp_path)
    with pytest.raises(InvalidInputError, match="feature names should match"):
        model.partial_fit(moved, y)
    assert model.n_rows_seen_ == seen
    same, y = placed(place, table, labels, tmp_path)
    assert model.partial_fit(same, y).n_rows_seen_ == 2 * seen


@pytest.mark.parametrize("model", [SVC(gamma=0.5), LinearSVC(random_state=0)])
def test_certify_of_others_models_refuses_moved_columns(model, table, labels):
    model.fit(table, labels)
    assert corevec.certify(model, table, labels).relative_gap < 0.1
    with pytest.raises(InvalidInputError, match="feature names should match"):
        corevec.certify(model, table[NAMES[::-1]], labels)


def test_pictures_refuse_moved_columns(table, labels):
    pytest.importorskip("matplotlib").use("Agg")
    from corevec import plots

    moved = table[NAMES[::-1]]
    classifier = MODELS["classifier"].fit(table, labels)
    detector = corevec.SVDD(C=1.0, gamma=0.5, random_state=0).fit(table)
    for display, model in (
        (plots.DecisionMapDisplay, classifier),
        (plots.CoreVectorsDisplay, classifier),
        (plots.OneClassMapDisplay, detector),
        (plots.BallDisplay, detector),
    ):
        display.from_estimator(model, table)
        with pytest.raises(InvalidInputError, match=f"{display.__name__}: .* names"):
            display.from_estimator(model, moved)
