"""Tables of Polars, PyArrow and DuckDB: the same answer as from pandas, by name."""

from __future__ import annotations

from datetime import date, time, timedelta

import numpy as np
import pytest

from corevec import (
    CoreSetNystroem,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    InvalidInputError,
    StreamingBallClassifier,
    certify,
    svm,
)

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

N = 200
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
LABEL = np.where(X[:, 0] + X[:, 1] ** 2 > 1, "in", "out")
NUMBER = np.sin(X[:, 0])
WEIGHT = RNG.integers(0, 3, N).astype(float)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])

KINDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "lazy polars": lambda frame: pl.from_pandas(frame).lazy(),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "duckdb": lambda frame: duckdb.from_arrow(
        pa.Table.from_pandas(frame, preserve_index=False)
    ),
}
MODELS = {
    "classifier": (CoreVectorClassifier(random_state=0), LABEL),
    "regressor": (CoreVectorRegressor(random_state=0), NUMBER),
    "detector": (CoreVectorOneClass(random_state=0), None),
    "one pass": (StreamingBallClassifier(), LABEL),
    "SVC": (svm.SVC(), LABEL),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_tables_give_the_model_of_the_array(kind, name):
    model, y = MODELS[name]
    wanted = model.fit(X, y).predict(X)
    table = KINDS[kind](FRAME)
    found = model.fit(table, y)
    assert list(found.feature_names_in_) == ["a", "b", "c"]
    assert np.array_equal(found.predict(table), wanted)
    with pytest.raises(InvalidInputError, match="feature names should match"):
        found.predict(KINDS[kind](FRAME[["b", "a", "c"]]))


@pytest.mark.parametrize("kind", KINDS)
def test_target_and_weight_may_be_columns_of_the_table(kind):
    whole = KINDS[kind](FRAME.assign(label=LABEL, w=WEIGHT))
    model = CoreVectorClassifier(random_state=0)
    wanted = model.fit(X, LABEL, WEIGHT).decision_function(X)
    found = model.fit(whole, target="label", sample_weight="w")
    assert list(found.feature_names_in_) == ["a", "b", "c"]
    assert np.array_equal(found.decision_function(KINDS[kind](FRAME)), wanted)
    found = certify(model, KINDS[kind](FRAME), LABEL, WEIGHT)
    assert found.primal == pytest.approx(model.certificate_.primal)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("column", "word"),
    [
        (["u"] * N, "text"),
        ([date(2026, 11, 18)] * N, "dates"),
        ([timedelta(3)] * N, "durations"),
        ([time(3, 4)] * N, "times of day"),
        ([[1.0, 2.0]] * N, "nested values"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_column_without_numbers_is_named(kind, column, word):
    table = KINDS[kind](FRAME.assign(odd=column))
    if (kind, word) == ("duckdb", "durations"):  # Arrow's intervals: months, days, ...
        word = "no numbers"
    with pytest.raises(InvalidInputError, match=f"'odd' of X holds {word}"):
        CoreVectorClassifier().fit(table, LABEL)


# DuckDB hands out its enumerations as text, which is refused.
@pytest.mark.parametrize("kind", [one for one in KINDS if one != "duckdb"])
def test_categories_of_text_are_columns_of_their_own(kind):
    own = pd.Categorical(["u", "v"] * (N // 2))
    table = KINDS[kind](FRAME.assign(odd=own))
    model = CoreVectorClassifier(random_state=0).fit(table, LABEL)
    assert list(model.feature_names_in_) == ["a", "b", "c", "odd=u", "odd=v"]
    plain = np.column_stack([X, own == "u", own == "v"])
    again = CoreVectorClassifier(random_state=0).fit(plain, LABEL)
    wanted = again.decision_function(plain)
    assert np.array_equal(model.decision_function(table), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_a_null_is_an_error_that_names_its_column_and_row(kind):
    whole = pd.array([*range(5), None, *range(6, N - 1), None], dtype="Int64")
    table = KINDS[kind](FRAME.assign(whole=whole))
    with pytest.raises(
        InvalidInputError, match=r"'whole' has no number in 2 of .* 5\."
    ):
        CoreVectorClassifier().fit(table, LABEL)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_type_are_taken(kind):
    columns = {
        "whole": np.arange(N, dtype=np.uint8),
        "yes": X[:, 0] > 0,
        "coded": pd.Categorical(np.arange(N) % 3),
        "nullable": pd.array(np.arange(N), dtype="Int64"),
    }
    table = KINDS[kind](FRAME.assign(**columns))
    model = CoreVectorClassifier(random_state=0).fit(table, LABEL)
    assert model.n_features_in_ == 7
    plain = np.column_stack([X, *(np.asarray(c, float) for c in columns.values())])
    again = CoreVectorClassifier(random_state=0).fit(plain, LABEL)
    assert np.array_equal(model.support_, again.support_)


def test_columns_of_labels_and_weights_may_be_queries():
    model = CoreVectorClassifier(random_state=0)
    wanted = model.fit(X, LABEL, WEIGHT).decision_function(X)
    for wrap in (KINDS["lazy polars"], KINDS["duckdb"]):
        y = wrap(pd.DataFrame({"label": LABEL}))
        weight = wrap(pd.DataFrame({"w": WEIGHT}))
        found = model.fit(wrap(FRAME), y, weight).decision_function(FRAME)
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_set_output_gives_the_library_that_was_asked_for(library):
    model = CoreSetNystroem(n_components=5, random_state=0).set_output(
        transform=library
    )
    for make in KINDS.values():
        found = model.fit(make(FRAME)).transform(make(FRAME))
        assert type(found).__module__.startswith(library)
        assert found.shape == (N, 5)


def test_a_query_larger_than_memory_is_refused_before_it_is_computed(tmp_path):
    """Parquet files say how many rows they have: one file, listed 40,000 times."""
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"a": np.zeros(1_000_000, np.int8)}).write_parquet(path)
    query = duckdb.read_parquet([str(path)] * 40_000)
    with pytest.raises(InvalidInputError, match=r"40,000,000,000 rows.*corevec\.open"):
        CoreVectorClassifier().fit(query, target="a")


BAD = {
    "no such column": (FRAME, {"target": "z"}, r"target='z' is not a column.*'a', 'b'"),
    "both": (FRAME, {"y": LABEL, "target": "a"}, "Give one of them"),
    "no table": (X, {"target": "a"}, "ndarray, whose columns have no names"),
    "no weights": (
        FRAME,
        {"y": LABEL, "sample_weight": "z"},
        "sample_weight='z' is not a column",
    ),
    "one name twice": (
        pd.DataFrame(X, columns=["a", "b", "a"]),
        {"y": LABEL},
        "columns of one name",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_columns_that_are_not_there_are_named(what):
    table, given, message = BAD[what]
    with pytest.raises(InvalidInputError, match=message):
        CoreVectorClassifier().fit(table, **given)
