"""`corevec svm-train` and `svm-predict` beside LIBSVM's own programs."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import (
    dump_svmlight_file,
    load_iris,
    make_friedman1,
    make_moons,
)
from sklearn.svm import SVC

import corevec
from corevec import formats
from corevec.cli import (
    PREDICT_FILES,
    TRAIN_FILES,
    CliError,
    main,
    predict_letters,
    train_letters,
)

needs_libsvm = pytest.mark.skipif(
    not (shutil.which("svm-train") and shutil.which("svm-predict")),
    reason="LIBSVM's programs are not installed (apt-get install libsvm-tools)",
)


def libsvm(*words):
    """Run one of LIBSVM's own programs and return what it printed."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def written(path, X, y):
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


@pytest.fixture
def moons(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = make_moons(300, noise=0.2, random_state=0)
    written("train", X[:200], np.where(y[:200], 1, -1))
    written("test", X[200:], np.where(y[200:], 1, -1))


@pytest.fixture
def iris(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = load_iris(return_X_y=True)
    written("train", X[::2], y[::2] + 1)
    written("test", X[1::2], y[1::2] + 1)


@pytest.fixture
def friedman(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = make_friedman1(200, n_features=5, random_state=0)
    written("train", X[:120], y[:120])
    written("test", X[120:], y[120:])


def lines(name):
    return Path(name).read_text().split()


# The models in LIBSVM's hands


@needs_libsvm
@pytest.mark.parametrize(
    "options",
    ["-c 10 -g 0.5", "-t 0 -c 2", "-t 1 -d 2 -r 1 -g 0.7", "-t 3 -g 0.1 -r -0.2", ""],
    ids=["rbf", "linear", "poly", "sigmoid", "defaults"],
)
def test_svm_predict_reads_our_model(moons, capsys, options):
    assert main(["svm-train", *options.split(), "train", "m"]) == 0
    capsys.readouterr()
    theirs = libsvm("svm-predict", "test", "m", "theirs")
    assert main(["svm-predict", "test", "m", "ours"]) == 0
    assert lines("ours") == lines("theirs")
    # The line that scripts look for, digit by digit.
    assert capsys.readouterr().out == theirs


@needs_libsvm
def test_many_classes_vote_as_in_libsvm(iris, capsys):
    assert main(["svm-train", "-c", "5", "-g", "0.3", "-q", "train", "m"]) == 0
    theirs = libsvm("svm-predict", "test", "m", "theirs")
    assert main(["svm-predict", "test", "m", "ours"]) == 0
    assert lines("ours") == lines("theirs")
    assert capsys.readouterr().out == theirs
    assert "Accuracy = 9" in theirs


@needs_libsvm
def test_regression_as_in_libsvm(friedman, capsys):
    options = ["-s", "3", "-p", "0.5", "-c", "10", "-g", "0.2", "-q"]
    assert main(["svm-train", *options, "train", "m"]) == 0
    theirs = libsvm("svm-predict", "test", "m", "theirs")
    assert main(["svm-predict", "test", "m", "ours"]) == 0
    ours = np.loadtxt("ours")
    # svm-predict sums the kernel values in another order.
    assert np.allclose(ours, np.loadtxt("theirs"), rtol=1e-9)
    out = capsys.readouterr().out
    assert [line.split(" = ")[0] for line in out.splitlines()] == [
        line.split(" = ")[0] for line in theirs.splitlines()
    ]
    assert out.splitlines()[0] == theirs.splitlines()[0]


@needs_libsvm
def test_one_class_as_in_libsvm(moons, capsys):
    options = ["-s", "2", "-n", "0.2", "-g", "1", "-q"]
    assert main(["svm-train", *options, "train", "m"]) == 0
    libsvm("svm-predict", "test", "m", "theirs")
    assert main(["svm-predict", "-q", "test", "m", "ours"]) == 0
    assert lines("ours") == lines("theirs")
    assert set(lines("ours")) == {"1", "-1"}
    assert capsys.readouterr().out == ""


@needs_libsvm
@pytest.mark.parametrize("options", ["-c 10 -g 0.5", "-s 3 -g 1", "-s 2 -n 0.3 -g 1"])
def test_we_read_the_models_of_svm_train(moons, capsys, options):
    libsvm("svm-train", *options.split(), "-q", "train", "theirs.model")
    theirs = libsvm("svm-predict", "test", "theirs.model", "theirs")
    assert main(["svm-predict", "test", "theirs.model", "ours"]) == 0
    assert np.allclose(np.loadtxt("ours"), np.loadtxt("theirs"), rtol=1e-9)
    if "-s 2" not in options:
        assert capsys.readouterr().out.splitlines()[0] == theirs.splitlines()[0]


@needs_libsvm
def test_rows_wider_than_the_model(moons, capsys):
    libsvm("svm-train", "-q", "train", "m")
    Path("wide").write_text("1 1:0.5 2:0.1 9:0.7\n-1 4:2\n")
    libsvm("svm-predict", "wide", "m", "theirs")
    assert main(["svm-predict", "-q", "wide", "m", "ours"]) == 0
    assert lines("ours") == lines("theirs")


@needs_libsvm
def test_the_certificate_of_libsvms_answer(moons, capsys):
    # Eight digits, as many as svm-train writes: its vectors are found among the rows.
    X, y = make_moons(120, noise=0.2, random_state=1)
    written("few", np.round(X, 5), np.where(y, 1, -1))
    libsvm("svm-train", "-c", "10", "-g", "0.5", "-e", "1e-6", "-q", "few", "m")
    assert main(["certify", "few", "--model", "m", "--set", "C=10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["certificate"]
    assert found["problem"].startswith("SVC") or "hinge" in found["problem"]
    assert 0 <= found["relative_gap"] < 1e-4
    assert main(["certify", "few", "--model", "m", "--set", "cost=10"]) == 2
    assert "must be name=value with a parameter of" in capsys.readouterr().err


# What the letters mean


def test_the_letters_set_the_estimator(iris, capsys):
    words = "-t 1 -d 2 -g 0.4 -r 0.5 -c 3 -e 0.01 -m 64 -w1 2 -w3 0.5 -h 0 -b 0 -q"
    assert main(["svm-train", *words.split(), "train", "m"]) == 0
    assert capsys.readouterr() == ("", "")
    twin = corevec.CoreVectorClassifier(
        C=3.0,
        kernel="poly",
        gamma=0.4,
        degree=2,
        coef0=0.5,
        tol=0.01,
        memory_budget=2**26,
        multi_class="ovo",
        class_weight={1.0: 2.0, 2.0: 1.0, 3.0: 0.5},
        random_state=0,
    )
    X, y = load_iris(return_X_y=True)
    twin.fit(X[::2], y[::2] + 1.0)
    found = formats.load_libsvm("m")
    assert np.array_equal(found.predict(X), twin.predict(X))
    assert found.dual_coef_.shape[1] == len(twin.support_)


def test_the_defaults_are_those_of_libsvm(moons, capsys):
    assert main(["svm-train", "-q", "train"]) == 0
    # The name of the data with .model, in this folder; gamma 1 / num_features; RBF.
    text = Path("train.model").read_text()
    assert text.startswith("svm_type c_svc\nkernel_type rbf\ngamma 0.5\n")
    found = train_letters(["data"])
    assert (found.c, found.d, found.r, found.n, found.p) == (1.0, 3, 0.0, 0.5, 0.1)
    assert (found.e, found.s, found.t, found.g) == (1e-3, 0, 2, None)


def test_options_may_stand_anywhere_and_weights_have_signs():
    found = train_letters(["data", "-c", "2", "-w-1", "3", "-w1", "0.5", "out", "-q"])
    assert found.files == ["data", "out"]
    assert found.weights == {-1.0: 3.0, 1.0: 0.5}
    assert (found.c, found.q) == (2.0, True)


def test_what_is_solved_differently_is_said_once(moons, capsys):
    assert main(["svm-train", "-g", "1", "train", "m"]) == 0
    err = capsys.readouterr().err
    assert err.count("unlike LIBSVM: squared slack (L2-SVM), penalised bias") == 1


def test_cross_validation_writes_no_model(iris, capsys):
    assert main(["svm-train", "-v", "5", "-q", "train"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Cross Validation Accuracy = 9")
    assert float(out.split("= ")[1].rstrip("%\n")) > 90
    assert not Path("train.model").exists()


def test_cross_validation_of_a_regression(friedman, capsys):
    options = "-s 3 -v 4 -q -c 10 -g 0.2 train"
    assert main(["svm-train", *options.split()]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("Cross Validation Mean squared error = ")
    assert second.startswith("Cross Validation Squared correlation coefficient = 0.")


def test_a_weight_of_a_class_that_is_not_there(moons, capsys):
    assert main(["svm-train", "-w7", "2", "-g", "1", "train", "m"]) == 0
    assert "-w7: no row of train has this label" in capsys.readouterr().err


def test_the_answer_is_close_to_libsvms_where_the_problems_are(moons):
    """Another loss, the same data: few of the test rows are judged otherwise."""
    assert main(["svm-train", "-c", "10", "-g", "1", "-q", "train", "m"]) == 0
    assert main(["svm-predict", "-q", "test", "m", "ours"]) == 0
    X, y = make_moons(300, noise=0.2, random_state=0)
    theirs = SVC(C=10, gamma=1).fit(X[:200], y[:200]).predict(X[200:])
    same = np.mean((np.array(lines("ours")) == "1") == theirs)
    assert same > 0.93


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("-s 1 data", "-s 1: there is no nu-SVC here. Use -s 0"),
        ("-s 4 data", "-s 4: there is no nu-SVR here. Use -s 3"),
        ("-s 9 data", "-s 9 must be 0, 2 or 3"),
        ("-t 4 data", "kernel='precomputed'"),
        ("-t 7 data", "-t 7 must be 0, 1, 2 or 3"),
        ("-b 1 data", "CalibratedClassifierCV"),
        ("-v 1 data", "-v 1 must be at least 2"),
        ("-c ten data", "-c needs a number, got 'ten'"),
        ("-t 1.5 data", "-t needs a whole number, got '1.5'"),
        ("-wx 2 data", "-wx needs a number, got 'x'"),
        ("-z 1 data", "no option '-z'"),
        ("-cg 1 data", "no option '-cg'"),
        ("data -c", "-c needs a value after it"),
        ("-c 1", "expected training_set_file [model_file], got 0 names"),
        ("a b c", "got 3 names"),
    ],
)
def test_wrong_letters(capsys, words, says):
    assert main(["svm-train", *words.split()]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("-b 1 a b c", "CalibratedClassifierCV"),
        ("-x a b c", "no option '-x'"),
        ("a b", "expected test_file model_file output_file, got 2"),
    ],
)
def test_wrong_letters_of_svm_predict(words, says):
    with pytest.raises(CliError) as caught:
        predict_letters(words.split())
    assert says in str(caught.value)


def test_help_names_every_letter(capsys):
    assert main(["svm-train", "--help"]) == 0
    out = capsys.readouterr().out
    for letter in "stdgrcnpmehbvq":
        assert f"\n  -{letter} " in out
    assert "-wi weight" in out
    assert TRAIN_FILES in out
    assert main(["svm-predict", "--help"]) == 0
    assert PREDICT_FILES in capsys.readouterr().out


def test_bad_data_and_model_files(moons, capsys):
    Path("bad").write_text("1 1:1\n-1 2:1 1:x\n")
    assert main(["svm-train", "-q", "bad", "m"]) == 3
    assert "bad, line 2: index 1 comes after 2" in capsys.readouterr().err
    assert main(["svm-predict", "test", "bad", "out"]) == 4
    assert main(["svm-predict", "test", "nowhere", "out"]) == 4
    assert main(["svm-train", "train", "no/folder"]) == 5
