"""`corevec svm-train` and `svm-predict` beside LIBSVM's own programs."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import (
    dump_svmlight_file,
    load_iris,
    load_svmlight_file,
    make_friedman1,
    make_moons,
)
from sklearn.model_selection import KFold
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

import corevec.svm
from corevec import formats
from corevec.cli import (
    PREDICT_FILES,
    TRAIN_FILES,
    CliError,
    ReadingOptions,
    estimator_for,
    fit_sigmoids,
    main,
    predict_letters,
    read_table,
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
    found = train_letters([*words.split(), "train"])
    assert (
        estimator_for(found, 0).get_params()
        == corevec.svm.SVC(
            C=3.0,
            kernel="poly",
            gamma=0.4,
            degree=2,
            coef0=0.5,
            tol=0.01,
            cache_size=64.0,
            shrinking=False,
            class_weight={1.0: 2.0, 3.0: 0.5},
            random_state=0,
        ).get_params()
    )
    twin = SVC(
        C=3, kernel="poly", gamma=0.4, degree=2, coef0=0.5, class_weight={1: 2, 3: 0.5}
    )
    X, y = load_iris(return_X_y=True)
    twin.fit(X[::2], y[::2] + 1.0)
    assert np.array_equal(formats.load_libsvm("m").predict(X), twin.predict(X))


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


# The five machines, of rows and of kernel values: scikit-learn has LIBSVM inside.
MACHINES = {
    "-s 0 -c 10": ("moons", SVC(C=10, tol=1e-9)),
    "-s 1 -n 0.31": ("moons", NuSVC(nu=0.31, tol=1e-9)),
    "-s 2 -n 0.2": ("moons", OneClassSVM(nu=0.2, tol=1e-9)),
    "-s 3 -c 10 -p 0.5": ("friedman", SVR(C=10, epsilon=0.5, tol=1e-9)),
    "-s 4 -c 10 -n 0.3": ("friedman", NuSVR(C=10, nu=0.3, tol=1e-9)),
}


def rows_of(name):
    if name == "moons":
        X, y = make_moons(60, noise=0.3, random_state=0)
        return X, np.where(y, 2, 1)
    return make_friedman1(60, n_features=5, random_state=0)


def numbered(path, K, y, numbers):
    """Write a file of kernel values, for -t 4."""
    text = ""
    for values, label, number in zip(K, y, numbers, strict=True):
        entries = (f"{j}:{value!r}" for j, value in enumerate(values.tolist(), 1))
        text += f"{label} 0:{number} {' '.join(entries)}\n"
    Path(path).write_text(text)


def answers(model, X):
    ask = model.decision_function if hasattr(model, "decision_function") else None
    return (ask or model.predict)(X)


@pytest.mark.parametrize("options", MACHINES)
def test_every_machine_is_libsvms(tmp_path, monkeypatch, capsys, options):
    monkeypatch.chdir(tmp_path)
    name, twin = MACHINES[options]
    X, y = rows_of(name)
    written("train", X, y)
    words = [*options.split(), "-e", "1e-9", "-g", "0.5"]
    assert main(["svm-train", *words, "train", "m"]) == 0
    twin = clone(twin).set_params(gamma=0.5).fit(X, y)
    found = formats.load_libsvm("m")
    # Of nu-SVC and nu-SVR a bias may lie anywhere in an interval.
    assert np.allclose(answers(found, X), answers(twin, X), atol=1e-5)
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    # Rows in another order than their numbers, which name the columns.
    order = np.random.default_rng(0).permutation(len(y))
    numbered("train.k", K[order], y[order], order + 1)
    words = [*options.split(), "-e", "1e-9", "-t", "4", "-q"]
    assert main(["svm-train", *words, "train.k", "k"]) == 0
    found = formats.load_libsvm("k")
    assert np.allclose(answers(found, K), answers(twin, X), atol=1e-5)
    numbered("test.k", K[:20], y[:20], [7] * 20)
    assert main(["svm-predict", "-q", "test.k", "k", "out"]) == 0
    assert np.allclose(np.loadtxt("out"), twin.predict(X[:20]), atol=1e-4)
    # corevec predict takes both as well, and a saved file is the same again.
    assert main(["predict", "test.k", "--model", "k", "--output", "again"]) == 0
    assert Path("again").read_text().split() == Path("out").read_text().split()
    formats.save_libsvm(found, "saved")
    assert Path("saved").read_text() == Path("k").read_text()


@needs_libsvm
@pytest.mark.parametrize("options", MACHINES)
def test_what_is_printed_and_written_is_libsvms(tmp_path, monkeypatch, capsys, options):
    monkeypatch.chdir(tmp_path)
    X, y = rows_of(MACHINES[options][0])
    written("train", X, y)
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    numbered("train.k", K, y, range(1, 61))
    for data, extra in (("train", "-g 0.5"), ("train.k", "-t 4")):
        words = [*options.split(), "-e", "1e-8", *extra.split(), data]
        theirs = libsvm("svm-train", *words, "theirs")
        capsys.readouterr()
        assert main(["svm-train", *words, "ours"]) == 0
        ours = capsys.readouterr().out.splitlines()
        assert ours[-1].startswith("certified: ")
        theirs = [line for line in theirs.splitlines() if " = " in line]
        for mine, its in zip(ours[1:-1], theirs[1:], strict=True):  # not #iter
            parts = re.split(r"(-?\d+\.\d+)", mine), re.split(r"(-?\d+\.\d+)", its)
            assert parts[0][::2] == parts[1][::2]
            numbers = [np.array(part[1::2], dtype=float) for part in parts]
            assert np.allclose(*numbers, rtol=1e-4, atol=2e-6)
        libsvm("svm-predict", data, "ours", "by theirs")
        assert main(["svm-predict", "-q", data, "theirs", "by ours"]) == 0
        found = [np.loadtxt(name) for name in ("by theirs", "by ours")]
        # One class: rows at its edge have either sign.
        assert "-s 2" in options or np.allclose(*found, rtol=1e-4)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1 1:3 2:4", "row 2 begins with 0:0, but it needs its number, from 1 to 2"),
        ("1 0:3 1:3 2:4", "row 2 begins with 0:3"),
        ("1 0:1 1:3 2:4", "two rows have the number 1"),
    ],
)
def test_bad_files_of_kernel_values(tmp_path, monkeypatch, capsys, line, says):
    monkeypatch.chdir(tmp_path)
    Path("k").write_text(f"2 0:1 1:3 2:4\n{line}\n")
    assert main(["svm-train", "-t", "4", "k", "m"]) == 3
    assert says in capsys.readouterr().err


def test_a_regression_with_the_scale_of_its_errors(friedman, capsys):
    """Its held-out errors have the mean absolute value that is written."""
    words = ["-s", "3", "-c", "10", "-g", "0.2", "-b", "1", "train", "m"]
    assert main(["svm-train", *words]) == 0
    sigma = formats.load_libsvm("m").text_.extras["probA"][0]
    X, y = load_svmlight_file("train")
    twin, errors = SVR(C=10, gamma=0.2), np.empty(len(y))
    for fitted, held in KFold(5, shuffle=True, random_state=0).split(y):
        machine = clone(twin).fit(X[fitted], y[fitted])
        errors[held] = abs(y[held] - machine.predict(X[held]))
    assert sigma == pytest.approx(errors.mean(), rel=1e-3)
    said = f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma={sigma:g}"
    assert said in capsys.readouterr().out
    assert main(["svm-predict", "-b", "1", "test", "m", "out"]) == 0
    assert said in capsys.readouterr().out
    assert main(["svm-predict", "test", "m", "out"]) == 0
    assert "but disabled in prediction" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("-s 9 data", "-s 9 must be 0 or 1 or 2 or 3 or 4"),
        ("-t 7 data", "-t 7 must be 0 or 1 or 2 or 3 or 4"),
        ("-b 2 data", "-b 2 must be 0 or 1"),
        ("-s 2 -b 1 data", "-b 1 must be 0"),
        ("-h 2 data", "-h 2 must be 0 or 1"),
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
    assert err.count("svm-train") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("-b 7 a b c", "-b 7 must be 0 or 1"),
        ("-x a b c", "no option '-x'"),
        ("a b", "expected test_file model_file output_file, got 2"),
    ],
)
def test_wrong_letters_of_svm_predict(words, says):
    with pytest.raises(CliError) as caught:
        predict_letters(words.split())
    assert says in str(caught.value)


@pytest.mark.parametrize("classes", [(1, -1), (-1, 1), (3, 1, 2), (2, 3, 1, 0)])
def test_the_label_that_is_seen_first_comes_first(tmp_path, monkeypatch, classes):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.concatenate([classes, rng.choice(classes, 80)])
    X = rng.normal(size=(len(y), 2)) + 2 * np.column_stack([y, y % 2])
    written("train", X, y)
    assert main(["svm-train", "-c", "10", "-g", "0.3", "-q", "train", "m"]) == 0
    text = Path("m").read_text()
    # 1 before -1 whatever was first, as LIBSVM since version 3.17.
    order = (1, -1) if set(classes) == {1, -1} else classes
    assert f"\nlabel {' '.join(map(str, order))}\n" in text
    codes = np.array([order.index(label) for label in y])
    twin = SVC(C=10.0, gamma=0.3).fit(X, codes)  # of equal votes the first wins
    found = formats.load_libsvm("m")
    assert np.array_equal(found.predict(X), np.array(order)[twin.predict(X)])


def test_weights_go_with_their_labels_in_any_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = make_moons(120, noise=0.3, random_state=0)
    written("train", X, np.where(y, 7, 4))
    twin = SVC(gamma="auto", class_weight={7: 9.0})
    twin.fit(X, np.where(y, 7, 4))
    assert main(["svm-train", "-w7", "9", "-q", "train", "m"]) == 0
    assert np.array_equal(formats.load_libsvm("m").predict(X), twin.predict(X))


def test_labels_are_cut_to_whole_numbers_as_by_libsvm(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = make_moons(80, noise=0.1, random_state=0)
    written("train", X, np.where(y, 1.9, -1.2))
    assert main(["svm-train", "-g", "1", "train", "m"]) == 0
    assert "labels are cut to whole numbers" in capsys.readouterr().err
    assert "\nlabel 1 -1\n" in Path("m").read_text() or (
        "\nlabel -1 1\n" in Path("m").read_text()
    )


def test_what_svm_train_prints(moons, capsys):
    words = ["-c", "10", "-g", "0.5", "-e", "1e-6"]
    assert main(["svm-train", *words, "train", "m"]) == 0
    out = capsys.readouterr().out.splitlines()
    X, y = load_svmlight_file("train")
    X = X.toarray()
    twin = SVC(C=10, gamma=0.5, tol=1e-8).fit(X, -y)
    coef = np.abs(twin.dual_coef_[0])
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    of_vectors = K[np.ix_(twin.support_, twin.support_)]
    norm_sq = twin.dual_coef_[0] @ of_vectors @ twin.dual_coef_[0]
    objective = norm_sq / 2 - coef.sum()
    n, bounded = len(coef), np.count_nonzero(coef == 10)
    assert out[0].startswith("optimization finished, #iter = ")
    assert out[1] == f"nu = {coef.sum() / (10 * 200):.6f}"
    assert out[2].startswith(f"obj = {objective:.3f}")
    # 1 is the file's first class; scikit-learn is above 0 for the second.
    assert float(out[2].split("rho = ")[1]) == pytest.approx(
        twin.intercept_[0], abs=1e-4
    )
    assert out[3:5] == [f"nSV = {n}, nBSV = {bounded}", f"Total nSV = {n}"]
    assert out[5].startswith("certified: ")


def test_more_folds_than_rows_leave_one_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = np.array([[0.0], [0.1], [0.2], [3.0], [3.1], [3.2]])
    written("train", X, [1, 1, 1, 2, 2, 2])
    assert main(["svm-train", "-v", "50", "-g", "1", "-q", "train"]) == 0
    out, err = capsys.readouterr()
    assert "6 folds" in err
    assert out == "Cross Validation Accuracy = 100%\n"


# Probabilities


def probabilities_in(name):
    """Return the labels of the first line, the predictions and the probabilities."""
    head, *rest = Path(name).read_text().splitlines()
    assert head.startswith("labels ")
    table = np.array([line.split() for line in rest], dtype=float)
    return [int(label) for label in head.split()[1:]], table[:, 0], table[:, 1:]


def test_probabilities_of_two_classes_are_the_sigmoid_of_the_value(moons, capsys):
    assert (
        main(["svm-train", "-c", "10", "-g", "0.5", "-b", "1", "-q", "train", "m"]) == 0
    )
    assert main(["svm-predict", "-b", "1", "test", "m", "out"]) == 0
    assert capsys.readouterr().out.startswith("Accuracy = 9")
    labels, predicted, shares = probabilities_in("out")
    model = formats.load_libsvm("m")
    assert labels == model.text_.labels.tolist()
    A, B = (float(model.text_.extras[name][0]) for name in ("probA", "probB"))
    X = np.array(load_svmlight_file("test")[0].toarray())
    value = model.pair_values(X)[:, 0]
    # %g writes six digits.
    assert np.allclose(shares[:, 0], 1 / (1 + np.exp(A * value + B)), atol=1e-5)
    assert np.allclose(shares.sum(axis=1), 1, atol=2e-6)
    assert np.array_equal(predicted, np.array(labels)[shares.argmax(axis=1)])
    # The machine is right more often than not: a greater value, a greater share.
    assert A < 0


def test_the_sigmoid_is_as_likely_as_any(moons):
    """No small step of A or B makes the held-out values likelier (Platt's targets)."""
    y = load_svmlight_file("train")[1]
    table = read_table("train", ReadingOptions(format="libsvm"))
    model = corevec.svm.SVC(C=10.0, gamma=0.5)
    found = fit_sigmoids(model, table, np.array([1, -1]), {})
    A, B = found["probA"][0], found["probB"][0]
    values, is_first = np.empty(len(y)), y == 1
    for fitted, held in KFold(5, shuffle=True, random_state=0).split(table.X):
        twin = clone(model).fit(table.X[fitted], is_first[fitted].astype(int))
        values[held] = twin.decision_function(table.X[held])
    n, m = is_first.sum(), (~is_first).sum()
    target = np.where(is_first, (n + 1) / (n + 2), 1 / (m + 2))

    def loss(a, b):
        z = a * values + b
        return np.sum(
            target * np.log1p(np.exp(z)) + (1 - target) * np.log1p(np.exp(-z))
        )

    for da, db in ((1e-2, 0), (-1e-2, 0), (0, 1e-2), (0, -1e-2)):
        assert loss(A + da, B + db) > loss(A, B)


def test_probabilities_of_several_classes_couple_the_pairs(iris):
    """Each is the least-squares solution of the equations of the pairs."""
    assert (
        main(["svm-train", "-c", "1", "-g", "0.2", "-b", "1", "-q", "train", "m"]) == 0
    )
    assert main(["svm-predict", "-b", "1", "-q", "test", "m", "out"]) == 0
    _, predicted, shares = probabilities_in("out")
    truth = load_svmlight_file("test")[1]
    assert np.mean(predicted == truth) > 0.9
    assert np.allclose(shares.sum(axis=1), 1, atol=1e-5)
    model = formats.load_libsvm("m")
    X = load_svmlight_file("test")[0].toarray()
    A, B = (model.text_.extras[name] for name in ("probA", "probB"))
    r = 1 / (1 + np.exp(model.pair_values(X) * A + B))
    pairs = [(0, 1), (0, 2), (1, 2)]

    def misfit(p, row):
        terms = [
            ((1 - r[row, k]) * p[i] - r[row, k] * p[j]) ** 2
            for k, (i, j) in enumerate(pairs)
        ]
        return sum(terms)

    rng = np.random.default_rng(0)
    for row in range(0, len(X), 7):
        p = shares[row] / shares[row].sum()
        for other in rng.dirichlet(np.ones(3), 50):
            mixed = 0.99 * p + 0.01 * other
            # Six digits of p are written.
            assert misfit(mixed, row) > misfit(p, row) - 1e-5


@needs_libsvm
def test_svm_predict_reads_our_probabilities(iris):
    assert (
        main(["svm-train", "-c", "1", "-g", "0.2", "-b", "1", "-q", "train", "m"]) == 0
    )
    assert main(["svm-predict", "-b", "1", "-q", "test", "m", "ours"]) == 0
    libsvm("svm-predict", "-b", "1", "test", "m", "theirs")
    ours, theirs = probabilities_in("ours"), probabilities_in("theirs")
    assert ours[0] == theirs[0]
    # svm-predict iterates to 0.005 / n_classes.
    assert np.allclose(ours[2], theirs[2], atol=0.005)


def test_a_model_without_probabilities_says_so(moons, capsys):
    assert main(["svm-train", "-q", "train", "m"]) == 0
    assert main(["svm-predict", "-b", "1", "test", "m", "out"]) == 4
    assert "Train it with -b 1" in capsys.readouterr().err


# Scaling


RANGE = "x\n-1 1\n1 0 4\n3 -2 0\n"


def test_svm_scale_writes_what_libsvm_defines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("d").write_text("1 1:4 2:7 3:-2\n-1 1:1 2:7\n1 2:7 3:-1\n")
    assert main(["svm-scale", "-s", "r", "d"]) == 0
    # Column 2 is constant and left out; what is absent is 0, and zeros are not written.
    assert capsys.readouterr().out == "1 1:1 3:-1\n-1 1:-0.5 3:1\n1 1:-1\n"
    assert Path("r").read_text() == RANGE
    assert main(["svm-scale", "-l", "0", "-u", "2", "-y", "0", "1", "d"]) == 0
    assert capsys.readouterr().out == "1 1:2\n0 1:0.5 3:2\n1 3:1\n"


def test_ranges_are_restored_for_other_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("r").write_text(RANGE)
    # Wider and narrower than the ranges: column 9 is left out, column 3 is 0.
    Path("t").write_text("2 1:8 9:5\n")
    assert main(["svm-scale", "-r", "r", "t"]) == 0
    assert capsys.readouterr().out == "2 1:3 3:1\n"
    Path("n").write_text("2 1:2\n")
    assert main(["svm-scale", "-r", "r", "n"]) == 0
    assert capsys.readouterr().out == "2 3:1\n"


def test_ranges_agree_with_scikit_learn_both_ways(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = load_iris(return_X_y=True)
    written("train", X[::2], y[::2])
    written("test", X[1::2], y[1::2])
    assert (
        main(["svm-scale", "-l", "0", "-u", "1", "-y", "0", "5", "-s", "r", "train"])
        == 0
    )
    capsys.readouterr()
    assert main(["svm-scale", "-r", "r", "test"]) == 0
    Path("out").write_text(capsys.readouterr().out)
    found, labels = load_svmlight_file("out", n_features=4)
    scaler = MinMaxScaler().fit(X[::2])
    assert np.allclose(found.toarray(), scaler.transform(X[1::2]), rtol=1e-12)
    assert np.allclose(labels, y[1::2] * 2.5, rtol=1e-12)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("-l 1 -u 1 d", 2),
        ("-y 1 0 d", 2),
        ("-s a -r r d", 2),
        ("-r nowhere d", 3),
        ("-r d d", 3),
        ("-y 1", 2),
    ],
)
def test_wrong_letters_of_svm_scale(tmp_path, monkeypatch, words, code):
    monkeypatch.chdir(tmp_path)
    Path("d").write_text("1 1:4\n2 1:3\n")
    assert main(["svm-scale", *words.split()]) == code


def test_help_names_every_letter(capsys):
    assert main(["svm-train", "--help"]) == 0
    out = capsys.readouterr().out
    for letter in "stdgrcnpmehbvq":
        assert f"\n  -{letter} " in out
    assert "-wi weight" in out
    assert TRAIN_FILES in out
    assert main(["svm-predict", "--help"]) == 0
    assert PREDICT_FILES in capsys.readouterr().out


def test_one_class_only_is_refused_with_its_label(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("one").write_text("7 1:1\n7 1:2\n")
    assert main(["svm-train", "-q", "one", "m"]) == 3
    assert "all rows have the label 7" in capsys.readouterr().err
    assert not Path("m").exists()


def test_bad_data_and_model_files(moons, capsys):
    Path("bad").write_text("1 1:1\n-1 2:1 1:x\n")
    assert main(["svm-train", "-q", "bad", "m"]) == 3
    assert "bad, line 2: index 1 comes after 2" in capsys.readouterr().err
    assert main(["svm-predict", "test", "bad", "out"]) == 4
    assert main(["svm-predict", "test", "nowhere", "out"]) == 4
    assert main(["svm-train", "train", "no/folder"]) == 5
