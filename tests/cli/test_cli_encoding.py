"""Text columns and missing values of tables, encoded in the model."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from test_cli import run, told

import corevec
from corevec import InvalidInputError, formats

pa = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")


def encoders_can_be_saved():
    with tempfile.TemporaryDirectory() as folder:
        try:
            formats.save(OneHotEncoder().fit([["a"], ["b"]]), Path(folder) / "m")
        except InvalidInputError:
            return False
    return True


pytestmark = pytest.mark.skipif(
    not encoders_can_be_saved(), reason="formats.save does not take encoders here"
)
ENCODE = ["--categorical", "auto", "--missing", "mean"]


@pytest.fixture(scope="module")
def people():
    """Rows that only the town and a filled income tell apart."""
    rng = np.random.default_rng(0)
    town = rng.choice(["Bonn", "Kiel", "Jena"], 240)
    age, income = rng.normal(40, 10, 240), rng.normal(size=240)
    income[::7] = np.nan
    label = np.where((town == "Kiel") ^ (age > 45), "yes", "no")
    return pd.DataFrame({"age": age, "town": town, "income": income, "label": label})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(frame, name):
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), name)
    else:
        frame.to_csv(name, index=False)
    return name


def twin_of(frame):
    """Return the predictions of the same pipeline, made by scikit-learn."""
    encoder = ColumnTransformer(
        [
            ("a", SimpleImputer(), ["age", "income"]),
            ("b", OneHotEncoder(sparse_output=False), ["town"]),
        ]
    )
    X = StandardScaler().fit_transform(encoder.fit_transform(frame))
    model = corevec.CoreVectorClassifier(C=10, gamma=0.5, random_state=0)
    return model.fit(X, frame["label"].to_numpy().astype(str)).predict(X).tolist()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("categorical", ["auto", "town"])
def test_categories_and_gaps_are_encoded_in_the_model(
    folder, capsys, people, suffix, categorical
):
    data = write(people, f"d{suffix}")
    fit = ["--C", "10", "--gamma", "0.5", "--random-state", "0", "--scale", "standard"]
    how = ["--categorical", categorical, "--missing", "mean", "--target", "label"]
    told(capsys, "train", data, "-m", "m.corevec", *fit, *how)
    found = told(capsys, "predict", data, "-m", "m.corevec", "--target", "label")
    assert found["predictions"] == twin_of(people)
    assert found["score"]["accuracy"] > 0.95
    # The columns of the model are found by name, in any order; labels may be absent.
    moved = write(people[["town", "income", "age"]], f"moved{suffix}")
    again = told(capsys, "predict", moved, "-m", "m.corevec")["predictions"]
    assert again == found["predictions"]
    certified = told(capsys, "certify", data, "-m", "m.corevec", "--target", "label")
    assert certified["certificate"]["converged"]


def test_a_category_that_was_not_there_is_none_of_them(folder, capsys, people):
    data = write(people, "d.csv")
    told(capsys, "train", data, "-m", "m.corevec", *ENCODE, "--target", "label")
    encoder = formats.load("m.corevec")[0]
    found = encoder.transform(np.array([[40.0, "Rome", np.nan]], dtype=object))
    # Age, the mean income, and none of three towns.
    assert found[0, 0] == 40.0
    assert found[0, 1] == pytest.approx(np.nanmean(people["income"]))
    assert found[0, 2:].tolist() == [0.0, 0.0, 0.0]
    write(pd.DataFrame({"age": [40], "town": ["Rome"], "income": [None]}), "t.csv")
    assert len(told(capsys, "predict", "t.csv", "-m", "m.corevec")["predictions"]) == 1


def test_a_held_out_file_is_encoded_as_the_training_file(folder, capsys, people):
    data, test = write(people[:160], "d.csv"), write(people[160:], "t.csv")
    words = ["train", data, "-m", "m.corevec", *ENCODE, "--target", "label"]
    found = told(capsys, *words, "--scale", "standard", "--C", "10", "--test", test)
    assert found["test"]["rows"] == 80
    assert found["test"]["accuracy"] > 0.8


def test_gaps_are_refused_by_a_model_that_does_not_fill_them(folder, capsys, people):
    whole = write(people.dropna(), "whole.csv")
    how = ["--categorical", "town", "--target", "label"]
    told(capsys, "train", whole, "-m", "m.corevec", *how)
    code, _, err = run(capsys, "predict", write(people, "d.csv"), "-m", "m.corevec")
    assert code == 3
    assert "column 'income' has 35 missing values, the first in row 1" in err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["train", "d.csv", "--categorical", "town"], 3, "'income' has 35 missing"),
        (["train", "d.csv", "--missing", "mean"], 3, "--categorical 'town'"),
        (["train", "d.csv", "--categorical", "city"], 3, "'city' names none"),
        (["train", "d.csv", "--missing", "zero"], 2, "must be mean or median"),
        (["train", "d.txt", "--missing", "mean"], 2, "needs CSV or Parquet"),
        (["stream", "d.csv", "--missing", "mean"], 2, "for `corevec train` only"),
        (["check", "d.csv", "--missing", "mean"], 2, "for `corevec train` only"),
    ],
)
def test_what_cannot_be_encoded(folder, capsys, people, words, code, says):
    write(people, "d.csv")
    Path("d.txt").write_text("1 1:1\n2 1:2\n")
    more = ["-m", "m.corevec"] if words[0] == "train" else []
    if words[1] == "d.csv":
        more += ["--target", "label"]
    found, _, err = run(capsys, *words, *more)
    assert found == code
    assert says in err
    assert not Path("m.corevec").exists()


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("30,Bonn,1,1,", "row 3 has no label"),
        ("30,Bonn,1,heavy,yes", "row 3: the column of --weight-column holds 'heavy'"),
        ("30,Bonn,1,,yes", "row 3: the column of --weight-column holds ''"),
        ("30,Bonn", "line 4: expected 5 fields, got 2"),
    ],
)
def test_bad_labels_weights_and_records_are_named(folder, capsys, row, says):
    good = "20,Kiel,1,1,no\n40,Bonn,,2,yes\n"
    Path("d.csv").write_text(f"age,town,income,w,label\n{good}{row}\n")
    how = ["--target", "label", "--weight-column", "w"]
    code, _, err = run(capsys, "train", "d.csv", "-m", "m.corevec", *ENCODE, *how)
    assert code == 3
    assert says in err


def test_the_type_of_the_labels_can_be_given(folder, capsys, people):
    numbered = people.assign(label=np.where(people["label"] == "yes", 1, 0))
    data = write(numbered, "d.csv")
    how = ["train", data, "-m", "m.corevec", *ENCODE, "--target", "label"]
    told(capsys, *how)
    assert formats.load("m.corevec").classes_.tolist() == [0.0, 1.0]
    told(capsys, *how, "--target-type", "string")
    assert formats.load("m.corevec").classes_.tolist() == ["0", "1"]
