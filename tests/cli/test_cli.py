"""The command `corevec`: files in, files out, exit codes, words, Ctrl-C."""

import bz2
import fcntl
import gzip
import html
import inspect
import io
import json
import lzma
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, load_svmlight_file, make_moons
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import corevec
from corevec import formats
from corevec.cli import TRAINABLE, ExitCode, main, texts_of, value_of

COMMANDS = (
    "train",
    "predict",
    "certify",
    "check",
    "convert",
    "scale",
    "stream",
    "surface",
    "info",
    "svm-train",
    "svm-predict",
    "svm-scale",
)
FIT = ["--C", "10", "--gamma", "0.5", "--random-state", "0"]


def run(capsys, *words):
    """Run a command here; return its exit code and what it wrote."""
    code = main([str(word) for word in words])
    written = capsys.readouterr()
    return code, written.out, written.err


def ran(capsys, *words):
    """Run a command that must succeed and return its standard output."""
    code, out, err = run(capsys, *words)
    assert code == 0, err
    return out


def told(capsys, *words):
    """Run a command with --json and return the object."""
    out = ran(capsys, *words, "--json")
    assert out.count("\n") == 1
    return json.loads(out)


def process(*words, **how):
    return subprocess.Popen(
        [sys.executable, "-m", "corevec", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Shells start background jobs with SIGINT ignored, which is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **how,
    )


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(400, noise=0.15, random_state=0)
    return X, np.where(y == 1, 1, -1)


@pytest.fixture
def folder(tmp_path, monkeypatch, moons):
    """A folder with the same rows in a LIBSVM file, and to work in."""
    monkeypatch.chdir(tmp_path)
    dump_svmlight_file(*moons, "moons.txt", zero_based=False)
    return tmp_path


@pytest.fixture(scope="module")
def model_file(moons, tmp_path_factory):
    model = corevec.CoreVectorClassifier(C=10, gamma=0.5, random_state=0)
    X, y = moons
    path = tmp_path_factory.mktemp("model") / "m.corevec"
    formats.save(model.fit(X, y.astype(float)), path)
    return path


# Help and start


def test_the_help_is_a_manual(capsys):
    out = ran(capsys, "--help")
    for name in COMMANDS:
        assert f"\n  {name} " in out
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "70", "130"):
        assert f"\n    {code} " in out
    assert "corevec train a9a.txt --model a9a.corevec" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_manual_with_examples(capsys, name):
    out = ran(capsys, name, "--help")
    assert name == "info" or f"  corevec {name} " in out.partition("Example")[2]


def test_without_words_the_help_is_shown(capsys):
    code, out, err = run(capsys)
    assert code == 2
    assert "Commands:" in out + err


def test_help_starts_without_the_heavy_libraries():
    code = (
        "import sys; from corevec.cli import main; main(['--help']); "
        "heavy = {'numba', 'sklearn', 'scipy', 'numpy', 'pyarrow'} & set(sys.modules); "
        "print('heavy:', sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "heavy: []", done.stderr


def test_python_m_corevec_is_the_command():
    done = process("--version")
    out, _ = done.communicate(timeout=60)
    assert (done.returncode, out) == (0, f"corevec {corevec.__version__}\n")


# Options made from the estimators


@pytest.mark.parametrize("name", TRAINABLE)
def test_each_parameter_of_each_estimator_is_an_option(capsys, name):
    out = ran(capsys, "train", "--estimator", name, "--help")
    texts = texts_of(getattr(corevec, name))
    shown = " ".join(out.split())
    for parameter in inspect.signature(getattr(corevec, name)).parameters.values():
        if parameter.name in ("verbose", "warm_start", "model"):
            continue
        assert f" --{parameter.name.replace('_', '-')} " in out
        assert len(texts[parameter.name]) > 5
        assert "As in" not in texts[parameter.name]
        assert texts[parameter.name][:30] in shown
        assert f"[default: {parameter.default}]" in shown


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("1e-3", 1e-3),
        ("-2", -2),
        ("None", None),
        ("true", True),
        ("False", False),
        ("auto", "auto"),
        ("{1: 2.5}", {1: 2.5}),
        ("[3, 1]", [3, 1]),
        ("normalized-poly", "normalized-poly"),
        ("__import__('os')", "__import__('os')"),
    ],
)
def test_values_are_python_literals_or_words(text, value):
    assert value_of(text) == value
    assert type(value_of(text)) is type(value)


def test_options_and_set_reach_the_estimator(folder, capsys):
    found = told(
        capsys,
        *("train", "moons.txt", "-m", "m.corevec", "--max-time", "60"),
        *("--set", "tol=0.01", "--set", "n-jobs=1", "--kernel", "laplacian"),
        "--class-weight={1.0: 2}",
    )
    given = found["parameters"]
    assert (given["max_time"], given["tol"], given["n_jobs"]) == (60, 0.01, 1)
    assert given["kernel"] == "laplacian"
    loaded = formats.load("m.corevec")
    assert loaded.class_weight == {1.0: 2}
    assert loaded.tol == 0.01


# Train, predict, certify


def test_train_and_predict_do_what_the_estimator_does(folder, capsys, moons):
    X, _ = moons
    twin = corevec.CoreVectorClassifier(C=10, gamma=0.5, random_state=0)
    twin.fit(*load_svmlight_file("moons.txt"))
    found = told(capsys, "train", "moons.txt", "--model", "m.corevec", *FIT)
    assert found["certificate"]["converged"]
    assert found["data"]["rows"] == 400
    assert found["model"]["bytes"] == os.path.getsize("m.corevec")
    assert set(found["seconds"]) >= {"read", "fit", "write"}
    assert 10**7 < found["peak_memory_bytes"] < 10**11
    out = ran(capsys, "predict", "moons.txt", "--model", "m.corevec", "--quiet")
    assert out.split() == [f"{label:g}" for label in twin.predict(X)]
    values = ran(capsys, "predict", "moons.txt", "-m", "m.corevec", "--decision")
    found = np.array(values.split(), dtype=float)
    # The same solution up to the gap of either: dense here, CSR there.
    assert np.abs(found - twin.decision_function(X)).max() < 1e-6


def test_the_score_is_said_beside_the_predictions(folder, capsys, model_file, moons):
    X, y = moons
    right = int((formats.load(model_file).predict(X) == y).sum())
    code, out, err = run(capsys, "predict", "moons.txt", "-m", model_file)
    assert code == 0
    assert len(out.splitlines()) == 400
    assert f"({right} of 400 rows)" in err
    found = told(capsys, "predict", "moons.txt", "-m", model_file)
    assert found["score"] == {"rows": 400, "right": right, "accuracy": right / 400}
    assert len(found["predictions"]) == 400
    found = told(capsys, "predict", "moons.txt", "-m", model_file, "-o", "p.txt")
    assert found["predictions"] is None
    assert Path("p.txt").read_text() == out


def same_rows_in(format, X, y):
    """Return a file name, its content, and the options to read it."""
    names = np.where(y > 0, "up", "down")
    text = io.BytesIO()
    dump_svmlight_file(X, y, text, zero_based=False)
    lines = [f"{a!r},{b!r},{n}" for (a, b), n in zip(X.tolist(), names, strict=True)]
    csv = "a,b,kind\n" + "\n".join(lines) + "\n"
    number = "\n".join(
        f"{v}\t{a!r}\t{b!r}" for (a, b), v in zip(X.tolist(), y, strict=True)
    )
    packed = io.BytesIO()
    np.savez(packed, X=X, y=names)
    csr = sparse.csr_matrix(X)
    parts = io.BytesIO()
    np.savez(
        parts,
        **{n: getattr(csr, n) for n in ("data", "indices", "indptr", "shape")},
        format=np.array(b"csr"),
        y=y,
    )
    array = io.BytesIO()
    np.save(array, np.column_stack([X, y]))
    return {
        "libsvm": ("d.txt", text.getvalue(), []),
        "gzip": ("d.gz", gzip.compress(text.getvalue()), []),
        "bzip2": ("d.txt.bz2", bz2.compress(text.getvalue()), []),
        "xz": ("d.xz", lzma.compress(text.getvalue()), []),
        "csv by name": ("d.csv", csv.encode(), ["--target", "kind"]),
        "csv by number": ("d.csv", csv.encode(), ["--target", "-1"]),
        "csv, gzip": ("d.csv.gz", gzip.compress(csv.encode()), ["--target", "kind"]),
        "csv without a name": ("data", csv.encode(), ["--target", "kind"]),
        "tabs, no header": ("d.tsv", number.encode(), ["--target", "0"]),
        "npz": ("d.npz", packed.getvalue(), []),
        "npz, CSR": ("d.npz", parts.getvalue(), []),
        "npy": ("d.npy", array.getvalue(), ["--target", "2"]),
        "npz by content": ("d.data", packed.getvalue(), []),
    }[format]


@pytest.mark.parametrize(
    "format",
    [
        "libsvm",
        "gzip",
        "bzip2",
        "xz",
        "csv by name",
        "csv by number",
        "csv, gzip",
        "csv without a name",
        "tabs, no header",
        "npz",
        "npz, CSR",
        "npy",
        "npz by content",
    ],
)
def test_every_format_gives_the_same_model(tmp_path, capsys, moons, format):
    X, y = moons
    name, content, how = same_rows_in(format, X, y)
    (tmp_path / name).write_bytes(content)
    path = tmp_path / "m.corevec"
    ran(capsys, "train", tmp_path / name, "-m", path, *FIT, *how)
    model = formats.load(path)
    twin = corevec.CoreVectorClassifier(C=10, gamma=0.5, random_state=0).fit(X, y)
    rows = pd.DataFrame(X, columns=["a", "b"]) if format.startswith("csv") else X
    # CSR and dense rows are summed in another order.
    assert np.allclose(
        model.decision_function(rows), twin.decision_function(X), rtol=0, atol=1e-6
    )
    names = model.classes_.tolist()
    assert names in ([-1, 1], ["down", "up"])


def test_parquet_is_read_and_written(folder, capsys):
    ran(capsys, "convert", "moons.txt", "d.parquet")
    found = told(capsys, "check", "d.parquet", "--target", "label")
    assert (found["rows"], found["columns"], found["bad"]) == (400, 2, [])


def test_standard_input_is_a_file(folder, capsys, monkeypatch):
    content = Path("moons.txt").read_bytes()
    first = told(capsys, "train", "moons.txt", "-m", "a.corevec", *FIT)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    second = told(capsys, "train", "-", "-m", "b.corevec", *FIT)
    assert first["certificate"]["primal"] == second["certificate"]["primal"]
    assert second["data"]["path"] == "-"


def test_certify_repeats_the_certificate_of_the_fit(folder, capsys):
    fitted = told(capsys, "train", "moons.txt", "-m", "m.corevec", *FIT)["certificate"]
    found = told(capsys, "certify", "moons.txt", "-m", "m.corevec")["certificate"]
    assert found["primal"] == pytest.approx(fitted["primal"], rel=1e-9)
    assert found["converged"]
    assert "relative gap" in ran(capsys, "certify", "moons.txt", "-m", "m.corevec")


def test_regression_one_class_and_few_vectors(folder, capsys, moons):
    X, _ = moons
    np.savez("r.npz", X=X, y=X[:, 0] ** 2)
    fit = ["train", "r.npz", "-m", "m.corevec", "--random-state", "0", "--estimator"]
    ran(capsys, *fit, "CoreVectorRegressor", "--mu", "0.1", "--C", "100")
    found = told(capsys, "predict", "r.npz", "-m", "m.corevec")["score"]
    assert found["r2"] > 0.9
    ran(capsys, *fit, "CoreVectorOneClass", "--nu", "0.2")
    predicted = ran(capsys, "predict", "r.npz", "-m", "m.corevec").split()
    assert set(predicted) == {"-1", "1"}
    few = [*fit, "CoreVectorRegressor", "--tube", "0", "--n-vectors", "8"]
    assert told(capsys, *few)["vectors"] == 8
    code, out, err = run(capsys, *few, "--require-certificate")
    assert code == 1
    assert "NOT certified: relative gap" in out
    assert "; n_vectors reached" in out
    assert "Allow more vectors (--n-vectors)" in err
    assert "warning" not in err
    code, _, err = run(capsys, *few, "--tol", "1")
    assert code == 2
    assert "tol=1 must be below 1" in err
    assert len(formats.load("m.corevec").support_vectors_) == 8


def test_a_scaler_is_saved_with_the_model(folder, capsys, moons):
    X, y = moons
    for name, scaler in (
        ("standard", StandardScaler()),
        ("minmax", MinMaxScaler((-1, 1))),
        ("maxabs", MaxAbsScaler()),
    ):
        ran(capsys, "train", "moons.txt", "-m", "m.corevec", "--scale", name, *FIT)
        loaded = formats.load("m.corevec")
        assert np.allclose(loaded[0].transform(X), scaler.fit_transform(X))
        twin = clone(loaded[-1]).fit(scaler.fit_transform(X), y)
        found = ran(capsys, "predict", "moons.txt", "-m", "m.corevec", "-q").split()
        assert found == [f"{v:g}" for v in twin.predict(scaler.transform(X))]
        found = told(capsys, "certify", "moons.txt", "-m", "m.corevec")
        assert found["certificate"]["converged"]


def test_held_out_rows_and_the_report(folder, capsys, moons):
    X, y = moons
    dump_svmlight_file(X[:50], y[:50], "moons.t", zero_based=False)
    found = told(
        capsys,
        *("train", "moons.txt", "-m", "m.corevec", *FIT),
        *("--test", "moons.t", "--report", "r.html"),
    )
    assert found["test"]["rows"] == 50
    assert found["test"]["accuracy"] == formats.load("m.corevec").score(X[:50], y[:50])
    page = Path("r.html").read_text()
    assert "<html" in page
    assert "moons.txt" in page


def test_the_command_in_the_report_can_be_pasted(folder, monkeypatch):
    words = ["train", "moons.txt", "-m", "two words", "--report", "r.html"]
    monkeypatch.setattr(sys, "argv", ["/some/where/corevec", *words])
    assert main() == 0
    page = html.unescape(Path("r.html").read_text())
    assert f"corevec {shlex.join(words)}" in page


def test_predictions_can_go_to_dev_null(folder, capsys, model_file):
    ran(capsys, "predict", "moons.txt", "-m", str(model_file), "-o", "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_row_weights_come_from_a_column(folder, capsys, moons):
    X, y = moons
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    lines = [
        f"{a!r},{b!r},{w},{v}"
        for (a, b), w, v in zip(X.tolist(), weights, y, strict=True)
    ]
    Path("w.csv").write_text("a,b,w,y\n" + "\n".join(lines))
    how = ["--target", "y", "--weight-column", "w"]
    found = told(capsys, "train", "w.csv", "-m", "m.corevec", *FIT, *how)
    assert found["data"]["columns"] == 2
    twin = corevec.CoreVectorClassifier(C=10, gamma=0.5, random_state=0)
    twin.fit(X, y, sample_weight=weights)
    assert found["certificate"]["primal"] == pytest.approx(
        twin.certificate_.primal, rel=2e-3
    )


# Errors and exit codes


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["trayn", "moons.txt"], 2, "No such command 'trayn'. Did you mean 'train'?"),
        (["train", "moons.txt"], 2, "--model"),
        (["train", "moons.txt", "-m", "m", "--gama", "1"], 2, "Did you mean --gamma?"),
        (
            ["train", "moons.txt", "-m", "m", "--tube", "9"],
            2,
            "a parameter of CoreVectorRegressor, StreamingRegressor (--estimator).",
        ),
        (
            ["train", "moons.txt", "-m", "m", "--n-vectors", "9", "--size", "99"],
            2,
            "--n-vectors (--method few-vectors), --size (--method cells) cannot be",
        ),
        (
            ["train", "moons.txt", "-m", "m", "-e", "SVDD", "--method", "exact"],
            2,
            "method='exact' does not serve this estimator.",
        ),
        (
            ["train", "moons.txt", "-m", "m", "-e", "CoreVectorClasifier"],
            2,
            "Did you mean CoreVectorClassifier?",
        ),
        (["train", "moons.txt", "-m", "m", "-e", "SVC"], 2, "is not one of"),
        (
            ["train", "moons.txt", "-m", "m", "--C", "-3"],
            2,
            "CoreVectorClassifier: C=-3 must be a finite number above 0.",
        ),
        (["train", "moons.txt", "-m", "m", "--C", "ten"], 2, "C='ten' must be"),
        # Said before a large file is read.
        (["train", "nowhere", "-m", "m", "--C", "0"], 2, "C=0 must be"),
        (["train", "nowhere", "-m", "m", "--kernel", "rfb"], 2, "kernel='rfb'"),
        (["train", "moons.txt", "-m", "m", "--qp", "simplex"], 2, "qp='simplex'"),
        (
            ["train", "moons.txt", "-m", "m", "--set", "gama=1"],
            2,
            "must be name=value with a parameter of CoreVectorClassifier",
        ),
        (["train", "moons.txt", "-m", "m", "--scale", "max"], 2, "--scale 'max' must"),
        (
            ["train", "moons.txt", "-m", "m", "--format", "xls"],
            2,
            "--format 'xls' must",
        ),
        (["train", "moons.csv", "-m", "m"], 2, "Give --target with its name, or its"),
        (
            ["train", "named.csv", "-m", "m"],
            3,
            "holds the labels, give --target; if it holds categories, --categorical.",
        ),
        (["train", "nowhere", "-m", "m"], 3, "there is no file 'nowhere'"),
        (["train", "bad.txt", "-m", "m"], 3, "bad.txt, line 2: index 1 comes after 2"),
        (["train", "one.txt", "-m", "m"], 3, "y holds only 1 class"),
        (["train", "real.txt", "-m", "m"], 3, "--estimator CoreVectorRegressor"),
        (["train", "moons.txt", "-m", "no/m"], 5, "there is no folder 'no'"),
        (["predict", "moons.txt", "-m", "nowhere"], 4, "there is no model file"),
        (["predict", "moons.txt", "-m", "moons.txt"], 4, "the bytes 'PK'.\n"),
        (["predict", "moons.txt", "-m", "m.onnx"], 4, "ONNX is for other programs"),
        (["convert", "m.onnx", "m"], 4, "ONNX is for other programs"),
        (["train", "moons.txt", "-m", "-"], 2, "'-' cannot be written to here"),
        (["convert", "moons.txt", "d.xls"], 2, "the suffix names no format"),
        (["scale", "moons.txt", "d.npz", "--load", "nowhere"], 4, "no model file"),
        (["surface", "moons.txt", "m.ply"], 3, "2 columns; expected 3"),
        (["surface", "moons.txt", "m.gif"], 2, "must end in .ply, .obj or .stl"),
        (["stream", "-"], 2, "give --format libsvm or --format csv"),
        (["stream", "-", "--format", "libsvm"], 2, "--n-features"),
        (["stream", "moons.txt", "-e", "SVDD"], 2, "is not one of Streaming"),
    ],
)
def test_errors_are_one_line_with_an_exit_code(folder, capsys, words, code, says):
    Path("bad.txt").write_text("1 1:1\n-1 2:1 1:1\n")
    Path("one.txt").write_text("1 1:1\n1 1:2\n")
    Path("real.txt").write_text("".join(f"{i / 7} 1:{i}\n" for i in range(9)))
    Path("moons.csv").write_text("a,b\n1,2\n")
    Path("named.csv").write_text("a,kind\n1,new\n2,old\n")
    Path("m.onnx").write_bytes(b"onnx")
    found, out, err = run(capsys, *words)
    assert says in err
    assert found == code
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("corevec")
    assert not Path("m").exists()
    found, out, _ = run(capsys, *words, "--json")
    if not words[0].startswith("trayn"):
        assert json.loads(out)["exit_code"] == found


def test_labels_are_not_asked_for_where_they_have_their_place(folder, capsys):
    Path("word.txt").write_text("1 1:1\n-1 1:one\n")
    code, _, err = run(capsys, "train", "word.txt", "-m", "m")
    assert code == 3
    assert "word.txt, line 2: expected a finite number after '1:'" in err
    assert "--target" not in err


def test_a_traceback_only_for_those_who_ask(folder, capsys):
    _, _, err = run(capsys, "train", "nowhere", "-m", "m")
    assert "Traceback" not in err
    _, _, err = run(capsys, "train", "nowhere", "-m", "m", "--debug")
    assert "Traceback" in err


def test_a_certificate_can_be_required(folder, capsys):
    hard = ["train", "moons.txt", "-m", "m.corevec", "--C", "1e4", "--max-iter", "1"]
    code, out, err = run(capsys, *hard, "--method", "coreset")
    assert code == 0
    assert "NOT certified" in out
    assert "warning: CoreVectorClassifier stopped by max_iter" in err
    code, out, err = run(capsys, *hard, "--method", "coreset", "--require-certificate")
    assert code == 1
    assert "the model is in m.corevec all the same" in err
    assert formats.load("m.corevec").certificate_.converged is False


def test_quiet_and_verbose(folder, capsys):
    fit = ["train", "moons.txt", "-m", "m.corevec", *FIT]
    assert run(capsys, *fit, "--quiet") == (0, "", "")
    out = ran(capsys, *fit, "--verbose")
    assert "Certificate: converged" in out
    assert "time    " in out
    assert "memory  " in out


def test_the_file_is_not_touched_by_a_failed_fit(folder, capsys):
    Path("m.corevec").write_text("precious")
    assert run(capsys, "train", "moons.txt", "-m", "m.corevec", "--C", "0")[0] == 2
    assert Path("m.corevec").read_text() == "precious"
    assert sorted(p.name for p in folder.iterdir()) == ["m.corevec", "moons.txt"]


def test_a_model_that_the_format_refuses_is_not_lost(folder, capsys):
    words = ["train", "moons.txt", "--kernel", "laplacian", "-m", "m.model"]
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "laplacian" in err
    assert "The model is in m.model.corevec instead." in err
    assert formats.load("m.model.corevec").certificate_.converged
    assert not Path("m.model").exists()


def test_the_data_is_not_overwritten(folder, capsys, model_file):
    before = Path("moons.txt").read_bytes()
    for words in (
        ["train", "moons.txt", "-m", "moons.txt"],
        ["train", "moons.txt", "-m", "m.corevec", "--report", "./moons.txt"],
        ["predict", "moons.txt", "-m", model_file, "-o", "moons.txt"],
        ["stream", "moons.txt", "-m", "moons.txt"],
        ["svm-train", "moons.txt", "moons.txt"],
    ):
        code, _, err = run(capsys, *words)
        assert code == 2
        assert "would overwrite the data" in err
    assert Path("moons.txt").read_bytes() == before


def test_errors_in_standard_input_name_it(folder, capsys, monkeypatch):
    for words in (["train", "-", "-m", "m"], ["check", "-"]):
        text = io.TextIOWrapper(io.BytesIO(b"1 1:1\n1 2:1 1:1\n"))
        monkeypatch.setattr(sys, "stdin", text)
        code, out, err = run(capsys, *words)
        assert code == 3
        assert "standard input, line 2: index 1 comes after 2" in out + err


def test_columns_that_the_model_does_not_know(folder, capsys, model_file):
    Path("wide.txt").write_text("1 1:1 3:1\n")
    code, _, err = run(capsys, "predict", "wide.txt", "-m", model_file)
    assert code == 3
    assert "line 1: index 3 is beyond the 2 columns expected (see --n-features)" in err
    Path("wide.csv").write_text("a,b,c\n1,2,3\n")
    code, _, err = run(capsys, "predict", "wide.csv", "-m", model_file)
    assert code == 3
    assert "3 columns, but the model was fitted on 2. Is --target missing?" in err


def test_bad_rows_can_be_left_out(folder, capsys):
    text = Path("moons.txt").read_text()
    Path("bad.txt").write_text("1 2:1 1:1\n" + text + "x 1:1\n")
    good = told(capsys, "train", "moons.txt", "-m", "a.corevec", *FIT)
    bad = told(capsys, "train", "bad.txt", "-m", "b.corevec", *FIT, "--skip-bad-rows")
    assert bad["data"]["skipped"] == 2
    assert bad["certificate"]["primal"] == good["certificate"]["primal"]


# Check, convert, scale


def test_check_tells_every_bad_line(folder, capsys):
    lines = Path("moons.txt").read_text().splitlines()
    wrong = sorted(np.random.default_rng(0).choice(400, 37, replace=False).tolist())
    for line in wrong:
        lines[line] = "1 2:0 1:0"
    Path("bad.txt").write_text("\n".join(lines))
    code, out, _ = run(capsys, "check", "bad.txt")
    assert code == 3
    found = [line for line in out.splitlines() if "comes after" in line]
    places = [int(line.split("line ")[1].split(":")[0]) - 1 for line in found]
    assert places == wrong
    assert "37 bad lines" in out
    assert "363 good rows, 2 columns" in out
    code, out, _ = run(capsys, "check", "bad.txt", "--json")
    assert code == 3
    assert len(json.loads(out)["bad"]) == 37


def test_check_of_good_files(folder, capsys, moons):
    _, y = moons
    out = ran(capsys, "check", "moons.txt")
    assert "no bad line" in out
    assert f"labels: -1 ({(y < 0).sum()}), 1 ({(y > 0).sum()})" in out
    found = told(capsys, "check", "moons.txt")
    assert found["labels"] == {"-1": int((y < 0).sum()), "1": int((y > 0).sum())}


def test_check_of_csv_and_arrays(folder, capsys):
    Path("bad.csv").write_text("a,b,y\n1,2,p\n1,x,p\n1,2\n3,4,q\n,1,q\n")
    code, out, _ = run(capsys, "check", "bad.csv", "--target", "y")
    assert code == 3
    assert [f"line {n}: " in out for n in (2, 3, 4, 5, 6)] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert "3 bad lines" in out
    np.save("bad.npy", [[1.0, np.inf]])
    code, out, _ = run(capsys, "check", "bad.npy")
    assert code == 3
    assert "row 1, column 2: inf" in out
    Path("empty.txt").write_text("")
    assert run(capsys, "check", "empty.txt")[0] == 3


def test_check_counts_bad_cells_by_column(folder, capsys):
    """A column of words in a million rows gave a million lines."""
    rows = [f"{i},p{i},{'' if i % 10 == 3 else i},{i % 2}" for i in range(1000)]
    Path("d.csv").write_text("\n".join(["a,word,b,y", *rows, "1,2", ""]))
    code, out, _ = run(capsys, "check", "d.csv", "--target", "y")
    assert code == 3
    assert out.splitlines()[:3] == [
        "d.csv, line 1002: expected 4 fields, got 2, in '1,2'.",
        "d.csv, line 2: column 'word' holds 'p0', no finite number; 999 more rows "
        "likewise. --drop 'word' leaves the column out; "
        "`corevec train --categorical 'word'` takes it as categories.",
        "d.csv, line 5: column 'b' holds '', no finite number; 99 more rows likewise.",
    ]
    assert "1,001 bad lines" in out
    code, out, _ = run(capsys, "check", "d.csv", "--target", "y", "--drop", "word")
    assert "column 'word'" not in out
    assert "900 good rows, 2 columns" in out
    found = json.loads(run(capsys, "check", "d.csv", "--target", "y", "--json")[1])
    assert len(found["bad"]) == 3


def test_check_counts_nulls_of_parquet_by_column(folder, capsys):
    rows = pd.DataFrame({"a": [1.0, None, None, 2.0], "b": [1, 2, 3, 4]})
    rows.to_parquet("d.parquet")
    code, out, _ = run(capsys, "check", "d.parquet")
    assert code == 3
    assert "row 2: column 'a' holds 'None'" in out
    assert "1 more rows likewise" in out
    assert "2 bad lines" in out


@pytest.mark.parametrize(
    "suffix", [".libsvm", ".txt.gz", ".csv", ".npz", ".npy", ".pq"]
)
def test_data_comes_back_bit_for_bit(folder, capsys, suffix):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * 10.0 ** rng.integers(-300, 300, (60, 3))
    X[rng.random(X.shape) < 0.2] = 0.0
    y = rng.integers(0, 3, 60).astype(float)
    np.savez("a.npz", X=X, y=y)
    there = f"b{suffix}"
    target = [] if suffix in (".libsvm", ".txt.gz", ".npz") else ["--target", "0"]
    ran(capsys, "convert", "a.npz", there)
    ran(capsys, "convert", there, "c.npz", *target)
    with np.load("c.npz") as back:
        again = back["X"] if "X" in back else sparse.load_npz("c.npz").toarray()
        assert np.array_equal(again, X)
        assert np.array_equal(back["y"], y)


def test_words_as_labels_have_no_place_in_libsvm_text(folder, capsys):
    Path("a.csv").write_text("a,y\n1,yes\n2,no\n")
    code, _, err = run(capsys, "convert", "a.csv", "b.libsvm", "--target", "y")
    assert code == 2
    assert "'yes' cannot be written as LIBSVM text" in err
    out = ran(capsys, "convert", "a.csv", "-", "--target", "y", "--to", "csv")
    assert out == "y,a\nyes,1\nno,2\n"


def test_models_are_converted(folder, capsys, model_file, moons):
    X, _ = moons
    ran(capsys, "convert", model_file, "a.model")
    assert Path("a.model").read_text().startswith("svm_type c_svc")
    ran(capsys, "convert", "a.model", "b.corevec")
    first = formats.load(model_file).decision_function(X)
    assert np.allclose(formats.load("b.corevec").decision_function(X), first)
    found = ran(capsys, "predict", "moons.txt", "-m", "a.model", "-q").split()
    assert found == [f"{v:g}" for v in formats.load(model_file).predict(X)]
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    ran(capsys, "convert", model_file, "a.onnx")
    ran(capsys, "convert", model_file, "b.onnx", "--double")
    assert 100 < os.path.getsize("a.onnx") < os.path.getsize("b.onnx")


@pytest.mark.parametrize(
    ("train", "destination", "remedy"),
    [
        (["moons.txt", "--scale", "standard"], "a.model", "`corevec scale --save`"),
        (["moons.txt", "--kernel", "laplacian"], "a.model", "--kernel linear, poly"),
        (["moons.txt", "--size", "150"], "a.model", "with --method auto"),
        (["moons.txt", "--size", "150"], "a.onnx", "with --method auto"),
        (["three.npz", "--multi-class", "ovr"], "a.model", "--multi-class ovo"),
        (["words.npz"], "a.model", "Train on numbers"),
    ],
)
def test_models_that_a_format_cannot_hold_are_refused_with_a_command(
    folder, capsys, moons, train, destination, remedy
):
    X, y = moons
    np.savez("three.npz", X=X, y=np.arange(400) % 3)
    np.savez("words.npz", X=X, y=np.where(y > 0, "up", "down"))
    ran(capsys, "train", *train, "-m", "m.corevec", "--max-iter", "3", "-q")
    code, _, err = run(capsys, "convert", "m.corevec", destination)
    assert code == 2
    assert remedy in err
    assert "a.corevec" in err
    assert "save_" not in err
    assert "formats" not in err
    assert not Path(destination).exists()


def test_scale_fits_saves_and_applies(folder, capsys, moons):
    X, y = moons
    dump_svmlight_file(X[:100], y[:100], "few.txt", zero_based=False)
    ran(
        capsys, "scale", "few.txt", "a.npz", "--kind", "standard", "--save", "s.corevec"
    )
    ran(capsys, "scale", "moons.txt", "b.npz", "--load", "s.corevec")
    scaler = StandardScaler().fit(X[:100])
    assert np.allclose(np.load("a.npz")["X"], scaler.transform(X[:100]))
    assert np.allclose(np.load("b.npz")["X"], scaler.transform(X))
    assert run(capsys, "scale", "few.txt", "c.npz", "--load", "a.npz")[0] == 4


def test_minmax_on_sparse_rows_is_refused_with_the_remedy(folder, capsys):
    X = sparse.random(50, 30, density=0.1, format="csr", random_state=0)
    dump_svmlight_file(X, np.arange(50) % 2, "s.txt", zero_based=False)
    code, _, err = run(capsys, "train", "s.txt", "-m", "m", "--scale", "minmax")
    assert code == 2
    assert "--scale maxabs" in err
    ran(capsys, "train", "s.txt", "-m", "m", "--scale", "minmax", "--dense")
    ran(capsys, "predict", "s.txt", "-m", "m")
    ran(capsys, "train", "s.txt", "-m", "m", "--scale", "standard")
    ran(capsys, "predict", "s.txt", "-m", "m")


# Stream, surface, info


def test_stream_is_test_then_train(folder, capsys, moons):
    X, y = moons
    words = ["--estimator", "StreamingBallClassifier", "-m", "m.corevec"]
    found = told(capsys, "stream", "moons.txt", "--block-rows", "50", *words)
    twin, right = corevec.StreamingBallClassifier(), 0
    for start in range(0, 400, 50):
        rows = slice(start, start + 50)
        if start:
            right += (twin.predict(X[rows]) == y[rows]).sum()
        twin.partial_fit(X[rows], y[rows], classes=[-1, 1])
    assert found["rows"] == 400
    assert found["test_then_train_accuracy"] == pytest.approx(right / 350)
    loaded = formats.load("m.corevec")
    assert np.allclose(loaded.coef_, twin.coef_)
    # The ball has a bound of its own; nothing is said of the machine.
    assert found["certificate"] is None
    assert found["ball_bound"]["factor"] == pytest.approx(twin.ball_bound_.factor)
    assert found["ball_bound"]["n_rows"] == 400


def test_a_stream_is_learned_by_a_core_and_measured(folder, capsys, moons):
    X, y = moons
    how = ["moons.txt", "--block-rows", "50", "--budget", "60", "-m", "m.corevec"]
    found = told(capsys, "stream", *how)
    twin = corevec.StreamingClassifier(budget=60)
    for start in range(0, 400, 50):
        rows = slice(start, start + 50)
        twin.partial_fit(X[rows], y[rows], classes=[-1, 1])
    assert found["estimator"] == "StreamingClassifier"
    for name in ("accuracy", "balanced_accuracy"):
        own = getattr(twin, f"test_then_train_{name}_")
        assert found[f"test_then_train_{name}"] == pytest.approx(own, abs=0.01)
    assert formats.load("m.corevec").score(X, y) > 0.9
    out = ran(capsys, "stream", *how, "--estimator", "StreamingRegressor")
    assert "test-then-train RMSE" in out


@pytest.mark.parametrize("command", ["stream", "train"])
def test_a_model_of_one_pass_is_never_said_to_be_certified(folder, capsys, command):
    words = ["-m", "m.corevec", "--estimator", "StreamingBallClassifier"]
    out = ran(capsys, command, "moons.txt", *words)
    assert "times as large as the smallest one; the machine's gap is not" in out
    assert "certified" not in out
    assert "onverged" not in out
    if command == "train":
        words += ["--require-certificate", "--verbose"]
        code, out, err = run(capsys, command, "moons.txt", *words)
        assert code == 1
        assert "Bound of a ball, not of the machine that predicts:" in out
        assert "StreamingBallClassifier does not measure" in err


@pytest.mark.parametrize("kind", ["standard", "minmax", "maxabs"])
def test_a_stream_is_scaled_and_its_model_holds_the_scaler(folder, capsys, moons, kind):
    X, y = moons
    X = X * [1.0, 1e4] + [0.0, 3e4]
    np.savez("d.npz", X=X, y=y)
    words = ["--scale", kind, "-m", "m.corevec", "--block-rows", "50"]
    found = told(capsys, "stream", "d.npz", *words, "--kernel", "linear")
    scaler = {
        "standard": StandardScaler(),
        "minmax": MinMaxScaler((-1, 1)),
        "maxabs": MaxAbsScaler(),
    }[kind].fit(X)
    twin = corevec.StreamingClassifier(kernel="linear")
    for start in range(0, 400, 50):
        rows = slice(start, start + 50)
        twin.partial_fit(scaler.transform(X[rows]), y[rows], classes=[-1, 1])
    assert "scale" in found["seconds"]
    # The moments of blocks are merged: rounding, against one pass over all rows.
    model = formats.load("m.corevec")
    assert np.allclose(model[-1].coef_, twin.coef_, rtol=1e-9)
    predicted = told(capsys, "predict", "d.npz", "-m", "m.corevec")["predictions"]
    assert predicted == twin.predict(scaler.transform(X)).tolist()


def test_a_pipe_cannot_be_scaled(folder, capsys):
    how = ["--format", "libsvm", "--n-features", "2", "--scale", "standard"]
    code, _, err = run(capsys, "stream", "-", *how)
    assert code == 2
    assert "--scale needs a pass of its own" in err


def test_stream_from_a_pipe(folder, moons):
    how = ["--format", "libsvm", "--n-features", "2", "--classes=-1,1", "--json"]
    with process("stream", "-", *how, stdin=subprocess.PIPE) as done:
        out, err = done.communicate(Path("moons.txt").read_text(), timeout=60)
    assert done.returncode == 0, err
    assert json.loads(out)["rows"] == 400


def test_stream_without_labels(folder, capsys, moons):
    X, _ = moons
    np.save("rows.npy", X)
    words = ["--estimator", "StreamingOneClass", "--random-state", "0"]
    found = told(capsys, "stream", "rows.npy", *words, "-m", "m.corevec")
    assert found["rows"] == 400
    assert found["test_then_train_accuracy"] is None
    predicted = ran(capsys, "predict", "rows.npy", "-m", "m.corevec").split()
    # The nu asked for by default is a tenth.
    assert 0.02 < predicted.count("-1") / 400 < 0.25


def test_a_bad_row_in_a_stream(folder, capsys):
    with open("moons.txt", "a") as file:
        file.write("1 1:x\n")
    code, _, err = run(capsys, "stream", "moons.txt")
    assert code == 3
    assert "line 401: " in err.splitlines()[-1]
    out = ran(capsys, "stream", "moons.txt", "--skip-bad-rows")
    assert "1 bad rows left out" in out


@pytest.mark.parametrize("suffix", [".npy", ".xyz", ".csv"])
def test_points_become_a_mesh(folder, capsys, suffix):
    pytest.importorskip("skimage", reason="the extra surface is not installed")
    points = np.random.default_rng(0).normal(size=(400, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    if suffix == ".npy":
        np.save("p.npy", points)
    else:
        np.savetxt(f"p{suffix}", points, delimiter="," if suffix == ".csv" else " ")
    found = told(
        capsys, "surface", f"p{suffix}", "m.obj", "--resolution", "16", "--scales", "2"
    )
    assert found["points"] == 400
    lines = Path("m.obj").read_text().splitlines()
    vertices = np.array([row.split()[1:] for row in lines if row[:2] == "v "], float)
    assert len(vertices) == found["vertices"]
    # A lattice of 16 cells across 2.5 units: within a cell's diagonal of the sphere.
    assert np.abs(np.linalg.norm(vertices, axis=1) - 1).max() < 0.2


def test_info(capsys):
    found = told(capsys, "info")
    assert found["version"] == corevec.__version__
    assert found["packages"]["numpy"] == np.__version__
    assert found["threads"] >= 1
    assert "compiled code" in ran(capsys, "info")


# Real processes: Ctrl-C, pipes, terminals


@pytest.fixture(scope="module")
def hard_file(tmp_path_factory):
    """Rows with nothing to learn: every row is in the margin, the fit takes minutes."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("hard") / "hard.npz"
    np.savez(path, X=rng.random((50_000, 8)), y=rng.integers(0, 2, 50_000))
    return path


HARD = ["--C", "1e3", "--gamma", "20", "--method", "coreset", "--tol", "1e-6"]
HARD += ["--max-vectors", "20000", "--n-jobs", "1"]


@pytest.mark.slow
def test_ctrl_c_saves_the_best_model_so_far(tmp_path, hard_file):
    path = tmp_path / "m.corevec"
    running = process("train", hard_file, "-m", path, *HARD, "--json")
    try:
        while "round" not in (line := running.stderr.readline()):
            assert line, "the fit ended before its first round was told"
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=100)
    finally:
        running.kill()
    assert running.returncode == 130, err
    assert f"the best model so far is saved in {path}" in err
    assert "Traceback" not in err
    found = json.loads(out)
    assert found["interrupted"] is True
    model = formats.load(path)
    assert model.certificate_.stopped_by == "interrupt"
    assert not model.certificate_.converged
    assert len(model.predict(np.zeros((3, 8)))) == 3


@pytest.mark.slow
def test_ctrl_c_before_there_is_a_model(tmp_path):
    path = tmp_path / "m.corevec"
    running = process("train", "-", "-m", path, stdin=subprocess.PIPE)
    try:
        # A pipe holds 64 KiB: once this is written, the other side is reading.
        running.stdin.write("# note\n" * 2**17)
        running.stdin.flush()
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130, err
    assert f"interrupted before there was a model: {path} was not written" in err
    assert "Traceback" not in err
    assert not path.exists()


def test_a_reader_that_goes_away(folder, model_file):
    """`corevec predict | head -1` ends without a traceback."""
    text = Path("moons.txt").read_text()
    Path("long.txt").write_text(text * 100)
    with process("predict", "long.txt", "-m", model_file, "-q") as running:
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(timeout=60) == 0
        assert running.stderr.read() == ""


@pytest.mark.parametrize("command", ["predict", "certify", "check"])
def test_ctrl_c_anywhere_else_is_one_line(folder, capsys, monkeypatch, command):
    """Any other place: the files that are read raise it here."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "open", interrupted)
    more = [] if command == "check" else ["-m", "moons.txt"]
    code, out, err = run(capsys, command, "moons.txt", *more)
    assert (code, out) == (130, "")
    assert err == f"corevec {command}: interrupted.\n"


@pytest.mark.slow
def test_a_live_line_on_a_terminal(folder):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    words = ["train", "moons.txt", "-m", "m.corevec", *FIT]
    done = subprocess.Popen(
        [sys.executable, "-m", "corevec", *words], stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert done.wait(timeout=60) == 0
    assert b"\rCoreVectorClassifier: " in seen
    assert b" rounds" in seen
    assert b"round 1:" not in seen


# The manual


MANUAL = Path(__file__).parents[2] / "docs" / "cli.md"


def sessions():
    """Return the commands of the manual's transcript with what each one wrote."""
    blocks = re.findall(r"```console\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    parts = re.split(r"^\$ ", "".join(blocks), flags=re.MULTILINE)[1:]
    return [(p.split("\n")[0], p.split("\n")[1:]) for p in parts]


def masked(lines):
    """Return the lines that do not depend on the clock, without their numbers."""
    told = [line.rstrip() for line in lines if not re.search(r" rounds? ?[\[\d]", line)]
    return sorted(re.sub(r"\d[\d.,]*(e-?\d+)?", "#", line) for line in told if line)


def test_the_transcript_of_the_manual_is_what_happens(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", MANUAL.read_text(), re.DOTALL)[1]
    exec(compile(code, "docs/cli.md", "exec"), {})
    assert len(sessions()) > 15
    status = 0
    for command, expected in sessions():
        words = shlex.split(command)
        if "board" in command:  # Ctrl-C has a test of its own
            status = 130 if words[1] == "train" else 0
            continue
        if words[0] == "svm-predict" and not shutil.which("svm-predict"):
            continue
        if command == "echo $?":
            assert [str(status)] == [line for line in expected if line]
            continue
        if words[0] == "corevec":
            status = main(words[1:])
        else:
            status = subprocess.run(command, shell=True, timeout=60).returncode
        written = capfd.readouterr()
        found = masked((written.out + written.err).splitlines())
        assert found == masked(expected), command
    assert status == 0


def test_the_manual_lists_commands_and_exit_codes():
    text = MANUAL.read_text()
    for name in COMMANDS:
        assert f"`{name}" in text
    for code in ExitCode:
        assert f"| {int(code)} | " in text
