"""The columns of a table are found by their names, as the model file holds them."""

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from test_cli import ran, run, told

import corevec
from corevec import formats

pa = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = ["age", "income", "visits"]
FIT = ["--C", "10", "--gamma", "0.5", "--random-state", "0"]


@pytest.fixture
def people(tmp_path, monkeypatch):
    """Rows whose classes only the right columns tell apart; a folder to work in."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * [1.0, 0.3, 2.0]
    y = np.where(X[:, 0] + X[:, 1] > 0, "buys", "leaves")
    columns = {n: X[:, j] for j, n in enumerate(NAMES)}
    return {**columns, "label": y, "id": np.array([f"p{i}" for i in range(200)])}


def write(people, name, columns, header=True):
    """Write some columns, in this order, as the suffix says; return the name."""
    if name.endswith(".parquet"):
        pq.write_table(pa.table({n: pa.array(people[n]) for n in columns}), name)
        return name
    rows = zip(*(people[n].tolist() for n in columns), strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    first = [",".join(columns)] if header else []
    Path(name).write_text("\n".join([*first, *lines]) + "\n")
    return name


def trained(people, capsys, suffix=".csv", *words):
    data = write(people, f"train{suffix}", [*NAMES, "label"])
    ran(capsys, "train", data, "-m", "m.corevec", *FIT, "--target", "label", *words)
    return "m.corevec"


def expected(people):
    """Return the predictions of a model of the same rows, made in Python."""
    X = np.column_stack([people[n] for n in NAMES])
    model = corevec.CoreVectorClassifier(C=10, gamma=0.5, random_state=0)
    return model.fit(X, people["label"]).predict(X).tolist()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "columns",
    [
        ["visits", "age", "income"],
        ["label", "visits", "income", "age"],
        ["id", "income", "label", "age", "visits"],
    ],
)
def test_moved_and_extra_columns_do_not_change_a_prediction(
    people, capsys, suffix, columns
):
    model = trained(people, capsys, suffix)
    data = write(people, f"new{suffix}", columns)
    code, out, err = run(capsys, "predict", data, "-m", model)
    assert code == 0
    assert out.split() == expected(people)
    assert "columns are taken by name" in err
    for name in set(columns) - set(NAMES):
        assert repr(name) in err
    assert run(capsys, "predict", data, "-m", model, "--quiet")[2] == ""


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_score_of_moved_columns_is_that_of_the_training_file(
    people, capsys, suffix
):
    model = trained(people, capsys, suffix)
    data = write(people, f"new{suffix}", ["label", "visits", "income", "age"])
    words = ["-m", model, "--target", "label"]
    one = told(capsys, "predict", f"train{suffix}", *words)
    other = told(capsys, "predict", data, *words)
    assert one["predictions"] == other["predictions"]
    assert one["score"] == other["score"]


def test_missing_columns_are_refused_by_name(people, capsys):
    model = trained(people, capsys)
    people["years"] = people["age"]
    data = write(people, "new.csv", ["visits", "years", "income"])
    for command in ("predict", "certify"):
        code, out, err = run(capsys, command, data, "-m", model)
        assert code == 3
        assert out == ""
        assert "missing 'age'; extra 'years'; moved 'income', 'visits'" in err


def test_a_target_by_number_that_is_a_column_of_the_model_is_refused(people, capsys):
    model = trained(people, capsys)
    data = write(people, "new.csv", ["label", "visits", "age", "income"])
    code, _, err = run(capsys, "predict", data, "-m", model, "--target", "-1")
    assert code == 3
    assert "missing 'income'" in err
    assert "--target takes 'income', which is a column of the model" in err


def test_certify_of_moved_columns_repeats_the_certificate(people, capsys):
    model = trained(people, capsys)
    data = write(people, "new.csv", ["label", "visits", "income", "age"])
    words = ["-m", model, "--target", "label"]
    one = told(capsys, "certify", "train.csv", *words)["certificate"]
    other = told(capsys, "certify", data, *words)["certificate"]
    assert one["primal"] == other["primal"]
    assert other["converged"]


def test_a_scaler_in_front_of_the_model_holds_the_names(people, capsys):
    model = trained(people, capsys, ".csv", "--scale", "standard")
    assert formats.load(model).feature_names_in_.tolist() == NAMES
    data = write(people, "new.csv", ["visits", "label", "income", "age"])
    one = ran(capsys, "predict", write(people, "same.csv", NAMES), "-m", model)
    code, other, err = run(capsys, "predict", data, "-m", model)
    assert (code, other) == (0, one)
    assert "warning" not in err


def test_a_test_file_is_aligned_before_the_fit(people, capsys):
    data = write(people, "train.csv", [*NAMES, "label"])
    moved = write(people, "test.csv", ["label", "visits", "age", "income"])
    words = ["train", data, "-m", "m.corevec", *FIT, "--target", "label"]
    right = told(capsys, *words, "--test", data)["test"]
    assert told(capsys, *words, "--test", moved, "--report", "r.html")["test"] == right
    os.remove("m.corevec")
    short = write(people, "short.csv", ["label", "visits", "age"])
    code, _, err = run(capsys, *words, "--test", short)
    assert code == 3
    assert "missing 'income'" in err
    assert not os.path.exists("m.corevec")


@pytest.mark.parametrize("estimator", ["StreamingClassifier", "StreamingBallOneClass"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_stream_leaves_the_names_in_its_model(people, capsys, estimator, suffix):
    data = write(people, f"train{suffix}", [*NAMES, "label"])
    words = ["-m", "m.corevec", "--estimator", estimator, "--target", "label"]
    if estimator == "StreamingClassifier":
        words.append("--classes=buys,leaves")
    ran(capsys, "stream", data, *words)
    assert formats.load("m.corevec").feature_names_in_.tolist() == NAMES
    one = ran(capsys, "predict", write(people, "same.csv", NAMES), "-m", "m.corevec")
    moved = write(people, f"new{suffix}", ["visits", "label", "age", "income"])
    assert ran(capsys, "predict", moved, "-m", "m.corevec") == one


@pytest.mark.parametrize("kind", ["csv", "npy", "npz", "libsvm"])
def test_files_without_names_are_taken_by_position_and_counted(people, capsys, kind):
    model = trained(people, capsys)
    X = np.column_stack([people[n] for n in NAMES])
    data, wide = f"new.{kind}", f"wide.{kind}"
    write(people, "new.csv", NAMES, header=False)
    write(people, "wide.csv", [*NAMES, "age"], header=False)
    if kind != "csv":
        np.savez("new.npz", X=X)
        np.savez("wide.npz", X=np.column_stack([X, X[:, 0]]))
        for one in ("new", "wide"):
            if kind != "npz":
                ran(capsys, "convert", f"{one}.npz", f"{one}.{kind}")
    named = write(people, "named.csv", NAMES)
    right = ran(capsys, "predict", named, "-m", model, "--decision")
    code, out, err = run(capsys, "predict", data, "-m", model, "--decision")
    assert (code, out) == (0, right)
    assert f"{data} has no names of columns, the model has" in err
    assert "'age', 'income', 'visits', in this order" in err
    code, out, err = run(capsys, "predict", wide, "-m", model)
    assert (code, out) == (3, "")
    if kind == "libsvm":
        assert "index 4 is beyond the 3 columns expected" in err
    else:
        assert "4 columns, but the model was fitted on 3: 'age', 'income'," in err


def test_a_model_without_names_takes_columns_by_position_and_says_so(people, capsys):
    # As the files were before they held names; also a model fitted on bare arrays.
    X = np.column_stack([people[n] for n in NAMES])
    model = corevec.CoreVectorClassifier(C=10, gamma=0.5, random_state=0)
    formats.save(model.fit(X, people["label"]), "old.corevec")
    data = write(people, "new.csv", NAMES)
    code, out, err = run(capsys, "predict", data, "-m", "old.corevec")
    assert code == 0
    assert out.split() == expected(people)
    assert "the model has no names of columns, new.csv has: 'age', 'income'" in err
    wide = write(people, "wide.csv", [*NAMES, "label"])
    words = ["-m", "old.corevec", "--target", "label"]
    assert ran(capsys, "predict", wide, *words).split() == expected(people)
    few = write(people, "few.csv", ["age", "income"])
    code, _, err = run(capsys, "predict", few, "-m", "old.corevec")
    assert code == 3
    assert "2 columns, but the model was fitted on 3." in err


def test_a_model_of_a_data_frame_serves_the_command_line(people, capsys):
    import pandas as pd

    table = pd.DataFrame({n: people[n] for n in NAMES})
    model = corevec.CoreVectorClassifier(C=10, gamma=0.5, random_state=0)
    formats.save(model.fit(table, people["label"]), "m.corevec")
    data = write(people, "new.csv", ["visits", "label", "income", "age"])
    assert ran(capsys, "predict", data, "-m", "m.corevec").split() == expected(people)
    trained(people, capsys)
    found = formats.load("m.corevec")
    assert found.predict(table).tolist() == expected(people)
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(table[["visits", "age", "income"]])


def test_names_survive_the_conversion_of_a_model(people, capsys):
    model = trained(people, capsys)
    ran(capsys, "convert", model, "copy.corevec")
    assert formats.load("copy.corevec").feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_names_survive_the_conversion_of_data(people, capsys, suffix):
    model = trained(people, capsys)
    data = write(people, "new.csv", ["visits", "label", "income", "age"])
    ran(capsys, "convert", data, f"copy{suffix}", "--target", "label")
    words = ["-m", model, "--target", "label"]
    found = told(capsys, "predict", f"copy{suffix}", *words)
    assert found["predictions"] == expected(people)
    assert found["score"] == told(capsys, "predict", "train.csv", *words)["score"]


def test_scale_aligns_columns_by_name(people, capsys):
    data = write(people, "train.csv", [*NAMES, "label"])
    words = ["--target", "label", "--kind", "standard"]
    ran(capsys, "scale", data, "a.csv", *words, "--save", "s.corevec")
    moved = write(people, "new.csv", ["visits", "label", "income", "age"])
    words = ["--target", "label", "--load", "s.corevec"]
    ran(capsys, "scale", moved, "b.csv", *words)
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    assert Path("a.csv").read_text().startswith("label,age,income,visits\n")
    code, _, err = run(
        capsys, "scale", write(people, "c.csv", ["age", "label"]), "d.csv", *words
    )
    assert code == 3
    assert "missing 'income', 'visits'" in err


def test_the_files_of_a_folder_may_differ_in_their_order(people, capsys):
    model = trained(people, capsys)
    os.mkdir("parts")
    first = {n: part[:100] for n, part in people.items()}
    rest = {n: part[100:] for n, part in people.items()}
    write(first, "parts/a.parquet", ["visits", "age", "income"])
    write(rest, "parts/b.parquet", ["age", "visits", "id", "income"])
    assert ran(capsys, "predict", "parts", "-m", model).split() == expected(people)
    write(rest, "parts/b.parquet", ["age", "visits"])
    code, _, err = run(capsys, "predict", "parts", "-m", model)
    assert code == 3
    assert "'income'" in err


def test_standard_input_is_aligned(people, capsys, monkeypatch):
    model = trained(people, capsys)
    data = write(people, "new.csv", ["visits", "label", "income", "age"])
    content = io.BytesIO(Path(data).read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    assert ran(capsys, "predict", "-", "-m", model).split() == expected(people)


def test_a_byte_order_mark_and_blanks_are_no_part_of_a_name(people, capsys):
    model = trained(people, capsys)
    text = Path(write(people, "new.csv", NAMES)).read_text()
    Path("new.csv").write_bytes(b"\xef\xbb\xbf" + text.replace(",", " , ").encode())
    code, out, err = run(capsys, "predict", "new.csv", "-m", model)
    assert (code, err) == (0, "")
    assert out.split() == expected(people)


def test_names_that_are_not_utf8_can_be_trained_predicted_and_converted(people, capsys):
    for name in ("train.csv", "new.csv"):
        order = ["age", "income", "label"] if name == "train.csv" else ["income", "age"]
        text = Path(write(people, name, order)).read_bytes()
        Path(name).write_bytes(text.replace(b"age", b"\xe2ge", 1))
    words = ["--target", "label"]
    ran(capsys, "train", "train.csv", "-m", "m.corevec", *FIT, *words)
    same = ran(capsys, "predict", "train.csv", "-m", "m.corevec", *words)
    assert ran(capsys, "predict", "new.csv", "-m", "m.corevec") == same
    for there in ("a.csv", "a.parquet"):
        ran(capsys, "convert", "train.csv", there, *words)
        assert told(capsys, "check", there, *words)["columns"] == 2


def test_a_name_that_is_there_twice_is_not_guessed_at(people, capsys):
    Path("train.csv").write_text("a,a,y\n1,2,0\n2,1,1\n3,1,1\n0,4,0\n")
    ran(capsys, "train", "train.csv", "-m", "m.corevec", *FIT, "--target", "y")
    words = ["-m", "m.corevec"]
    same = ran(capsys, "predict", "train.csv", *words, "--target", "y")
    assert same.split() == ["0", "1", "1", "0"]
    Path("new.csv").write_text("b,a,a\n1,2,0\n")
    code, _, err = run(capsys, "predict", "new.csv", *words)
    assert code == 3
    assert "'a' names more than one column" in err
    ran(capsys, "convert", "train.csv", "a.parquet", "--target", "y")
    table = pq.read_table("a.parquet")
    assert table.column_names == ["label", "x0", "x1"]
    twice = pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    pq.write_table(twice, "twice.parquet")
    code, _, err = run(capsys, "convert", "twice.parquet", "b.csv")
    assert code == 3
    assert "2 columns have the name 'a'" in err


def test_libsvm_text_holds_no_names(people, capsys):
    people["label"] = np.where(people["label"] == "buys", 1, -1)
    data = write(people, "train.csv", [*NAMES, "label"])
    words = ["--target", "label"]
    ran(capsys, "train", data, "-m", "m.model", *FIT, *words)
    code, _, err = run(capsys, "predict", data, "-m", "m.model", *words)
    assert code == 0
    assert "the model has no names of columns, train.csv has" in err


# Columns by choice


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "choice",
    [
        ["--columns", "age,income,visits"],
        ["--columns", "0,1,visits"],
        ["--drop", "id"],
        ["--drop", "-1"],
    ],
)
def test_columns_are_chosen_or_left_out(people, capsys, suffix, choice):
    data = write(people, f"all{suffix}", [*NAMES, "label", "id"])
    how = ["--target", "label", *choice]
    found = told(capsys, "train", data, "-m", "m.corevec", *FIT, *how)
    assert found["data"]["columns"] == 3
    assert formats.load("m.corevec").feature_names_in_.tolist() == NAMES
    predicted = told(capsys, "predict", data, "-m", "m.corevec", *how)["predictions"]
    assert predicted == expected(people)
    # The model knows its columns: the choice need not be repeated.
    again = told(capsys, "predict", data, "-m", "m.corevec")["predictions"]
    assert again == predicted


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--drop", "height"], 3, "--drop 'height' is no column among 'age'"),
        (["--drop", "9"], 3, "--drop 9 is no column"),
        (["--columns", "age,height"], 3, "--columns 'height' names no column"),
        (["--columns", "age,label"], 3, "column 'label' is asked for twice"),
        (["--drop", "age", "--no-header", "--target", "0"], 2, "no header"),
    ],
)
def test_columns_that_cannot_be_chosen(people, capsys, words, code, says):
    data = write(people, "d.csv", [*NAMES, "label"])
    found, _, err = run(
        capsys, "train", data, "-m", "m.corevec", "--target", "label", *words
    )
    assert found == code
    assert says in err


@pytest.mark.parametrize("name", ["d.txt", "d.npy", "d.npz"])
def test_files_without_names_have_no_columns_to_choose(people, capsys, name):
    Path("d.txt").write_text("1 1:1\n2 1:2\n")
    np.save("d.npy", np.ones((2, 2)))
    np.savez("d.npz", X=np.ones((2, 2)), y=[0, 1])
    assert run(capsys, "check", name, "--columns", "age")[0] == 2
    code, _, err = run(capsys, "train", name, "-m", "m", "--columns", "age")
    assert code == 2
    assert f"--columns 'age': {name} has no names of columns" in err
