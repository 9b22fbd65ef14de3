"""Models of cells in certificates as text, plots, reports and the command line."""

import json
import re
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import corevec
from corevec import formats, methods, plots
from corevec.cli import ExitCode, main
from corevec.exceptions import InvalidInputError
from corevec.models.certificate_text import what_is_not_proved, what_is_proved
from corevec.report import write_report

mpl.use("Agg")

X, Y = make_moons(400, noise=0.25, random_state=0)
LOCAL = {"random_state": 0, "method": methods.Cells(60)}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def classifier():
    return corevec.CoreVectorClassifier(
        C=10.0, random_state=0, method=methods.Cells(60, n_trees=2)
    ).fit(X, Y)


@pytest.fixture(scope="module")
def regressor():
    return corevec.CoreVectorRegressor(mu=0.1, **LOCAL).fit(X, np.sin(3 * X[:, 0]))


@pytest.fixture(scope="module")
def detector():
    return corevec.CoreVectorOneClass(nu=0.1, **LOCAL).fit(X)


# Words -----------------------------------------------------------------------------


def test_the_certificate_names_the_cells_and_never_says_converged(classifier):
    lines = str(classifier.certificate_).splitlines()
    assert lines[0] == "Certificate: of each cell, not of the whole problem"
    assert "converged" not in str(classifier.certificate_)
    assert any(line.startswith("  worst gap  ") for line in lines)
    assert any(line.startswith("  optima's sum  between ") for line in lines)
    # The column of values is where it is in every certificate.
    assert {len(re.match(r"  .{12}  (?=\S)", line)[0]) for line in lines[1:]} == {16}


def test_the_certificate_names_the_limit_that_ended_the_fit(classifier):
    stopped = replace(classifier.certificate_, stopped_by="max_time")
    first = str(stopped).splitlines()[0]
    assert first == (
        "Certificate: of each cell, not of the whole problem (stopped by max_time)"
    )


def test_the_html_card_agrees_with_the_text(classifier):
    card = classifier.certificate_._repr_html_()
    assert '<span class="state">of each cell, not of the whole problem</span>' in card
    assert "worst gap of a cell" in card
    assert "sum of the cells&#x27; optima between" in card
    assert "converged" not in card


def test_the_report_says_what_is_proved_and_what_is_not(classifier):
    found = classifier.certificate_
    proved, rest = what_is_proved(found), what_is_not_proved(found)
    assert "Each cell is a problem of its own" in proved[0]
    assert "A gap of 0.001 was asked for: met in the cells." in proved
    assert "Anything about the global problem, over all rows at once" in rest[0]
    assert not any("training is finished: a better" in words for words in rest)
    wide = what_is_proved(replace(found, relative_gap=0.5))
    assert "A gap of 0.001 was asked for: not met in the cells." in wide
    assert "by more than 50 %" in wide[0]


# Smaller models --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classifier", "regressor", "detector"])
def test_compress_refuses_cells_and_says_why(kind, request):
    model = request.getfixturevalue(kind)
    n_cells = 16 if kind == "classifier" else 8
    words = f"compress: this {type(model).__name__} was fitted with method="
    with pytest.raises(InvalidInputError, match=words) as caught:
        corevec.compress(model, 10)
    assert f"{n_cells} kernel expansions, one per cell" in str(caught.value)
    assert "Fit with method='auto'" in str(caught.value)


# Pictures --------------------------------------------------------------------------


def test_the_decision_map_is_that_of_the_model(classifier):
    display = plots.DecisionMapDisplay.from_estimator(classifier, X, Y)
    assert display.figure_ is not None
    plots.DecisionMapDisplay.from_estimator(
        make_pipeline(StandardScaler(), classifier.__class__(**LOCAL)).fit(X, Y), X, Y
    )


def test_every_vector_of_every_tree_is_drawn_in_its_class(classifier):
    display = plots.CoreVectorsDisplay.from_estimator(classifier, X, Y)
    assert len(display.vectors) == classifier._forest.n_vectors
    np.testing.assert_array_equal(display.codes, Y[classifier.support_])


def test_the_gap_is_drawn_as_that_of_the_cells(classifier):
    drawn = plots.CertificateDisplay.from_estimator(classifier).ax_
    words = [text.get_text() for text in drawn.get_legend().get_texts()]
    assert "worst of the cells, each by itself" in words
    assert "not converged" not in words
    drawn = plots.ConvergenceDisplay.from_estimator(classifier, y="gap").ax_
    words = [text.get_text() for text in drawn.get_legend().get_texts()]
    assert "worst gap of the cells so far" in words
    assert len(plots.ConvergenceDisplay.from_estimator(classifier).axes_) == 2


def test_a_detector_is_drawn_but_no_ball(detector):
    plots.OneClassMapDisplay.from_estimator(detector, X)
    words = "BallDisplay: CoreVectorOneClass with cells is not a single ball"
    with pytest.raises(InvalidInputError, match=words):
        plots.BallDisplay.from_estimator(detector, X)


def test_sizes_are_compared_between_models_but_not_by_compressing(classifier):
    small = corevec.CoreVectorClassifier(
        C=10.0, random_state=0, method=methods.Cells(200)
    ).fit(X, Y)
    display = plots.ModelSizeDisplay.from_models([classifier, small], X, Y)
    sizes = sorted([small._forest.n_vectors, classifier._forest.n_vectors])
    assert display.sizes.tolist() == sizes
    with pytest.raises(InvalidInputError, match=r"compress: .*Cells"):
        plots.ModelSizeDisplay.from_estimator(classifier, X, Y, sizes=[4])


# The report ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classifier", "regressor", "detector"])
def test_the_report_states_cells_size_and_cost(kind, request, tmp_path):
    model = request.getfixturevalue(kind)
    y = {"classifier": Y, "regressor": np.sin(3 * X[:, 0]), "detector": None}[kind]
    page = write_report(tmp_path / "report.html", model, X, y).read_text()
    assert "<span>certified</span><strong>each cell, not the whole</strong>" in page
    assert "The fit ended because every cell was solved." in page
    assert "not converged" not in page
    n_trees = len(model._forest.trees)
    assert f"<dt>cells</dt><dd>{8 * n_trees}</dd>" in page
    assert f"<dt>vectors</dt><dd>{model._forest.n_vectors}</dd>" in page
    # Kernel values per row, as an independent count: those of the cells of all rows.
    met = np.zeros(len(X))
    for one in model._forest.trees:
        met += np.diff(one.starts)[one.tree.cells_of(X)]
    said = int(re.search(r"about ([\d,]+), those of its cells", page)[1])
    assert said == pytest.approx(met.mean(), rel=0.1)
    kernel = model._forest.trees[0].kernel
    assert f"<dt>gamma used</dt><dd>{kernel.gamma:.6g}</dd>" in page


def test_a_model_without_any_vector_has_a_report(tmp_path):
    apart = np.vstack([X[:100] - 50.0, X[100:200] + 50.0])
    labels = np.repeat([0, 1], 100)
    model = corevec.CoreVectorClassifier(random_state=0, method=methods.Cells(100)).fit(
        apart, labels
    )
    assert model._forest.n_vectors == 0
    page = write_report(tmp_path / "r.html", model, apart, labels).read_text()
    assert "<dt>vectors</dt><dd>0</dd>" in page
    assert "about 0, those of its cells" in page


# The command -----------------------------------------------------------------------


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "moons.txt"
    dump_svmlight_file(X, Y, str(path), zero_based=False)
    return path


FIT = ["--size", "60", "--n-trees", "3", "--random-state", "0", "--dense"]


def run(capsys, *words):
    code = main([str(word) for word in words])
    written = capsys.readouterr()
    return code, written.out, written.err


def trained(capsys, data, *more):
    path = data.with_suffix(".corevec")
    code, out, err = run(capsys, "train", data, "--model", path, *FIT, *more)
    assert code == 0, err
    return path, out


def test_train_takes_cells_and_says_what_is_certified(capsys, data):
    path, out = trained(capsys, data)
    assert "certified cell by cell, not as a whole: worst gap" in out
    assert "stopped by cells" in out
    model = formats.load(path)
    assert (model.method.size, model.method.n_trees) == (60, 3)
    assert len(model._forest.trees) == 3
    help_text = run(capsys, "train", "--help")[1]
    assert "--size" in help_text
    assert "--n-trees" in help_text


def test_train_writes_json_and_a_report(capsys, data):
    page = data.with_suffix(".html")
    _, out = trained(capsys, data, "--json", "--report", page)
    found = json.loads(out)
    assert found["parameters"]["method"] == "cells"
    assert found["parameters"]["size"] == 60
    assert found["certificate"]["converged"] is False
    assert found["certificate"]["stopped_by"] == "cells"
    assert "each cell, not the whole" in page.read_text()


def test_predict_and_certify_read_the_file(capsys, data):
    path, _ = trained(capsys, data)
    code, out, err = run(capsys, "predict", data, "--model", path)
    assert code == 0, err
    expected = formats.load(path).predict(X)
    np.testing.assert_array_equal(np.loadtxt(out.splitlines()), expected)
    code, out, err = run(capsys, "certify", data, "--model", path)
    assert code == 0, err
    assert out.startswith("Certificate: of each cell, not of the whole problem\n")


def test_train_refuses_to_require_a_certificate_of_the_global_problem(capsys, data):
    path = data.with_suffix(".corevec")
    words = ["train", data, "--model", path, *FIT, "--require-certificate"]
    code, _, err = run(capsys, *words)
    assert code == ExitCode.NOT_CERTIFIED
    assert "each cell is certified, never the problem over all rows" in err
    assert "Fit with --method auto" in err
    assert path.exists()


@pytest.mark.parametrize("suffix", [".model", ".onnx"])
def test_convert_refuses_cells_and_says_why(suffix, capsys, data):
    path, _ = trained(capsys, data)
    target = data.with_suffix(suffix)
    code, _, err = run(capsys, "convert", path, target)
    assert code != 0
    assert "kernel expansions, one per cell" in err
    assert not target.exists()
    copy = data.with_name("copy.corevec")
    assert run(capsys, "convert", path, copy)[0] == 0
    assert copy.read_bytes() == path.read_bytes()


def test_a_model_whose_format_is_refused_is_saved_natively(capsys, data):
    path = data.with_suffix(".onnx")
    code, _, err = run(capsys, "train", data, "--model", path, *FIT)
    assert code != 0
    assert f"The model is in {path}.corevec instead" in err
    assert formats.load(f"{path}.corevec").predict(X[:2]).shape == (2,)


def test_an_option_of_several_methods_needs_to_know_which(capsys, data):
    """Cells, Exact and FewVectors learn a metric; `--size` is of cells alone."""
    path, _ = trained(capsys, data, "--metric", "learned")
    model = formats.load(path)
    assert isinstance(model.method, methods.Cells)
    assert model.method.metric == "learned"
    words = ["train", data, "--model", path, "--dense", "--metric", "learned"]
    code, _, err = run(capsys, *words)
    assert code != 0
    assert "--method" in err
    assert "few-vectors" in err
    code, _, err = run(capsys, *words, "--method", "exact")
    assert code == 0, err
    assert formats.load(path).method.metric == "learned"
