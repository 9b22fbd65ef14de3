"""The report and the card: what they say is true, and nobody's label becomes markup."""

import ast
import base64
import hashlib
import json
import re
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris, make_friedman1, make_moons
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

import corevec
from corevec import (
    SVDD,
    Certificate,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRanker,
    CoreVectorRegressor,
    ImplicitSurface,
    InvalidInputError,
    NotCertifiedWarning,
    StreamingBallClassifier,
    StructuralSVM,
    compress,
    methods,
)
from corevec.report import density, sample, write_report

VOID = {"meta", "input", "br", "link", "img"}
EVIL = "<script>alert('x')</script>"


class Page(HTMLParser):
    """A page taken apart: elements in order, text of each kind, balance of tags."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def text(self, tag=None):
        return "".join(data for own, data in self.texts if tag in (None, own))


@pytest.fixture(scope="module")
def moons():
    return make_moons(300, noise=0.25, random_state=0)


@pytest.fixture(scope="module")
def classifier(moons):
    return CoreVectorClassifier(C=10.0, random_state=0).fit(*moons)


@pytest.fixture
def report(tmp_path):
    def make(*args, **more):
        path = write_report(tmp_path / "report.html", *args, **more)
        return path.read_text(encoding="utf-8")

    return make


def rounds_of(html):
    found = re.search(r'id="rounds">(.*?)</script>', html, re.DOTALL)
    return json.loads(found.group(1))


# What it says -------------------------------------------------------------------------


def test_the_report_states_certificate_data_parameters_cost_and_origin(
    report, moons, classifier
):
    X, y = moons
    html = report(
        classifier,
        X,
        y,
        X_test=X[:99],
        y_test=y[:99],
        command="corevec train moons.svm moons.model -C 10",
        data_name="moons.svm",
        seconds=1.25,
    )
    page = Page(html)
    said = page.text()
    for text in (
        "CoreVectorClassifier on moons.svm",
        "What is proved",
        "What is not",
        classifier.certificate_.problem,
        f"{classifier.certificate_.primal:.8g}",
        "training rows300",
        "test rows99",
        "0: 150 (50.0%); 1: 150 (50.0%)",
        f"vectors{len(classifier.support_)}",
        "multiply-adds per row" + f"{len(classifier.support_) * 3:,}",
        "1.25 s",
        "corevec train moons.svm moons.model -C 10",
        "model = CoreVectorClassifier(C=10.0, random_state=0)",
        f"corevec{corevec.__version__}",
    ):
        assert text in said, text
    assert re.search(r"time per row[\d.e+]+ µs, 99 rows together", said)
    error = np.mean(classifier.predict(X[:99]) != y[:99])
    assert f"test error{error:.2%}" in said


def test_the_confusion_matrix_is_that_of_scikit_learn(report):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b & c", "<d>"])[y]
    model = CoreVectorClassifier(random_state=0).fit(X, names)
    html = report(model, X, names)
    table = re.search(r'<table class="confusion.*?</table>', html, re.DOTALL).group()
    cells = re.findall(r'<td style="[^"]*"[^>]*>([\d,]+)', table)
    found = np.array([int(cell.replace(",", "")) for cell in cells]).reshape(3, 3)
    labels = ["<d>", "a", "b & c"]
    expected = confusion_matrix(names, model.predict(X), labels=labels)
    np.testing.assert_array_equal(found, expected)
    assert [n for t, n in Page(table).texts if t == "th"] == labels * 2
    assert "These are training rows" in html


def test_the_chart_gets_every_round_and_the_certificate(report, moons, classifier):
    found = rounds_of(report(classifier, *moons))
    history = classifier.history_
    assert len(found["rounds"]) == len(history)
    for drawn, record in zip(found["rounds"], history, strict=True):
        for name in ("round", "seconds", "passes", "core", "gap"):
            assert drawn[name] == record[name]
        assert drawn["lower"] == record["dual"]
    assert found["certificate"]["gap"] == classifier.certificate_.relative_gap
    assert found["certificate"]["tol"] == 1e-3


def test_residuals_and_errors_of_a_regressor(report):
    X, y = make_friedman1(200, random_state=0)
    model = CoreVectorRegressor(C=10.0, random_state=0).fit(X, y)
    html = report(model, X, y)
    rmse = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    said = Page(html).text()
    assert f"root mean squared error{rmse:.4g}" in said
    assert f"R²{model.score(X, y):.4f}" in said
    assert html.count('class="dot"') == 200


def test_scores_of_a_detector_add_up_and_turn_colour_at_the_threshold(report):
    X = np.random.default_rng(0).normal(size=(500, 2))
    model = CoreVectorOneClass(nu=0.1, random_state=0).fit(X)
    html = report(model, X)
    bars = re.findall(
        r'<rect class="(bar|bar out)".*?<title>(\S+) to (\S+): (\d+) rows', html
    )
    assert sum(int(count) for *_, count in bars) == 500
    outside = np.mean(model.decision_function(X) < 0)
    assert f"judged outside{outside:.2%}" in Page(html).text()
    assert {kind for kind, _, high, _ in bars if float(high) < 0} == {"bar out"}
    assert {kind for kind, low, _, _ in bars if float(low) > 0} == {"bar"}


def test_classes_that_only_the_test_rows_have_are_shown(report, moons, classifier):
    X, y = moons
    html = report(classifier, X, y, X_test=X[:3], y_test=[0, 1, 7])
    table = re.search(r'<table class="confusion.*?</table>', html, re.DOTALL).group()
    assert [n for t, n in Page(table).texts if t == "th"] == ["0", "1", "7"] * 2


def test_very_many_classes_become_a_list_of_confusions(report):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(0, 50, size=300)
    html = report(SVC().fit(X, y), X, y)
    assert "50 classes: the most frequent confusions" in html
    assert 'class="confusion' not in html
    assert "SVC has no certificate. corevec.certify" in html


@given(st.integers(1, 400), st.integers(1, 100))
def test_of_many_rows_a_fixed_choice_is_judged(n_rows, most):
    chosen = sample(n_rows, most)
    assert len(np.unique(chosen)) == len(chosen) == min(n_rows, most)
    assert chosen.min() >= 0
    assert chosen.max() < n_rows
    np.testing.assert_array_equal(chosen, sample(n_rows, most))


def test_the_density_is_the_share_of_entries_that_are_not_zero(rng):
    X = rng.normal(size=(97, 5)) * (rng.random((97, 5)) < 0.3)
    for rows in (X, sparse.csr_matrix(X), pd.DataFrame(X)):
        assert density(rows) == pytest.approx(np.mean(X != 0))


def test_only_changed_parameters_carry_the_mark(report, moons, classifier):
    html = report(classifier, *moons)
    marked = re.findall(r"<dt>(\w+)</dt><dd class=\"changed\"", html)
    assert set(marked) == {"C", "random_state"}


def test_the_gamma_used_is_that_of_the_kernel(report, moons, classifier):
    said = Page(report(classifier, *moons)).text()
    assert f"gamma used{1 / (2 * moons[0].var()):.6g}" in said


def models(moons):
    X, y = moons
    Z, target = make_friedman1(150, random_state=0)
    qid = np.repeat(np.arange(10), 15)
    machine = CoreVectorClassifier(random_state=0).fit(X, y)
    names = pd.DataFrame(X, columns=["<i>", "b"])
    several = np.column_stack([target, -target])
    return {
        "pipeline": (
            make_pipeline(MinMaxScaler(), CoreVectorClassifier(random_state=0)).fit(
                X, y
            ),
            X,
            y,
        ),
        "sparse": (CoreVectorClassifier().fit(sparse.csr_matrix(X), y), X, y),
        "frame": (CoreVectorClassifier().fit(names, y), names, y),
        "list": (machine, X.tolist(), y.tolist()),
        "precomputed": (
            CoreVectorClassifier(kernel="precomputed").fit(X @ X.T, y),
            X @ X.T,
            y,
        ),
        "subspace": (
            CoreVectorClassifier(method=methods.FewVectors(5)).fit(X, y),
            X,
            y,
        ),
        "hinge": (
            CoreVectorClassifier(loss="hinge", method=methods.FewVectors(5)).fit(X, y),
            X,
            y,
        ),
        "stream": (StreamingBallClassifier().fit(X, y), X, y),
        "structural": (StructuralSVM().fit(X, y), X, y),
        "compressed": (compress(machine, 4, random_state=0), X, y),
        "several targets": (
            CoreVectorRegressor(random_state=0).fit(Z, several),
            Z,
            several,
        ),
        "ranker": (CoreVectorRanker().fit(Z, np.round(target), qid=qid), Z, target),
        "ball": (SVDD().fit(X), X, None),
    }


KINDS = [
    "pipeline",
    "sparse",
    "frame",
    "list",
    "precomputed",
    "subspace",
    "hinge",
    "stream",
    "structural",
    "compressed",
    "several targets",
    "ranker",
    "ball",
]


@pytest.fixture(scope="module")
def every_model(moons):
    return models(moons)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_and_rows_has_a_sound_page(kind, every_model, report):
    model, X, y = every_model[kind]
    page = Page(report(model, X, y))
    assert page.tags.count("h1") == 1
    assert page.tags.count("section") == 7
    assert "nan" not in page.text("dd").lower()
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    named = {v for _, name, v in page.attributes if name == "aria-labelledby"}
    assert named <= set(ids)


def test_the_page_of_a_ball_says_nothing_of_a_converged_machine(every_model, report):
    model, X, y = every_model["stream"]
    html = report(model, X, y)
    assert "Bound of the ball" in html
    assert "StreamingBallClassifier has no certificate: one pass" in html
    assert f"{model.ball_bound_.factor:.6g} times as large" in html
    assert "onverged" not in Page(html).text("li") + Page(html).text("p")


def test_the_page_of_few_vectors_says_that_their_number_was_reached(
    every_model, report
):
    for kind in ("subspace", "hinge"):
        model, X, y = every_model[kind]
        assert not model.certificate_.converged
        page = Page(report(model, X, y))
        assert "n_vectors reached" in page.text("strong")
        assert "because n_vectors was reached" in page.text("p")
        assert "more vectors may reach a better value" in page.text("li")
        card = model.certificate_._repr_html_()
        assert ">n_vectors reached<" in card
        assert ">converged<" not in card


# What it must not do ------------------------------------------------------------------


def test_nothing_is_fetched_and_only_our_script_may_run(report, moons, classifier):
    html = report(classifier, *moons)
    page = Page(html)
    for tag, name, value in page.attributes:
        assert name not in ("src", "srcset", "action", "data"), (tag, name)
        assert name != "href" or value.startswith("#")
        assert not name.startswith("on"), (tag, name)
    assert "url(" not in html
    assert "@import" not in html
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html
    assert "default-src 'none'" in html


@pytest.fixture(scope="module")
def tags_of_a_plain_page(moons, classifier, tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "plain.html"
    return Counter(Page(hostile_page(path, moons[0], "a", "b", "t")).tags)


def hostile_page(path, X, first, second, title):
    """Return a page whose labels, title, command and names are given."""
    names = np.array([first, second], dtype=object)
    y = names[(X[:, 0] > 0.5).astype(int)].astype(str)
    model = SVC().fit(X, y)
    write_report(path, model, X, y, title=title, command=second, data_name=first)
    return path.read_text(encoding="utf-8")


HOSTILE = st.text(
    st.sampled_from("<>&\"'/!-=$\\ scriptSTYLE{}\u2028é"), min_size=1, max_size=20
).filter(lambda text: text.strip())


@settings(max_examples=12)
@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_label_title_or_command_becomes_markup(
    tags_of_a_plain_page, moons, tmp_path_factory, first, second, title
):
    if first == second:
        second += "2"
    path = tmp_path_factory.mktemp("hostile") / "page.html"
    page = Page(hostile_page(path, moons[0], first, second, title))
    assert Counter(page.tags) == tags_of_a_plain_page
    assert page.text("h1") == title
    assert {first, second} <= {data for tag, data in page.texts if tag == "th"}


def test_a_script_as_label_or_title_is_text(report, moons):
    X, y = moons
    names = np.where(y == 0, EVIL, "</script>b")
    model = CoreVectorClassifier(random_state=0).fit(X, names)
    html = report(model, X, names, title=EVIL, command=EVIL, data_name="</style>")
    page = Page(html)
    assert page.tags.count("script") == 2
    assert page.tags.count("style") == 1
    assert page.text("h1") == EVIL
    assert EVIL in page.text("code")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"y": None}, "y is needed with X for a classifier"),
        ({"y": [0, 1]}, "X has 300 rows, y has 2 values"),
        ({"X": np.zeros((300, 3))}, "X has 3 columns, the model was fitted on 2"),
        ({"X": np.zeros((0, 2)), "y": []}, r"X has shape \(0, 2\)"),
        ({"X_test": np.zeros((5, 2))}, "y_test is needed with X_test"),
    ],
)
def test_what_cannot_be_reported_is_refused(change, text, report, moons, classifier):
    given = {"X": moons[0], "y": moons[1], **change}
    with pytest.raises(InvalidInputError, match=f"write_report: {text}"):
        report(classifier, given.pop("X"), given.pop("y"), **given)


def test_a_model_that_does_not_predict_is_refused(report, rng):
    points = rng.normal(size=(60, 3))
    surface = ImplicitSurface().fit(points / np.linalg.norm(points, axis=1)[:, None])
    with pytest.raises(InvalidInputError, match="ImplicitSurface"):
        report(surface, points)


def test_the_lines_to_reproduce_a_model_make_the_same_model(report, moons, classifier):
    X, y = moons
    scaled = make_pipeline(MinMaxScaler(), CoreVectorClassifier(C=3, random_state=1))
    for model in (classifier, scaled.fit(X, y)):
        listing = Page(report(model, X, y)).text("code")
        lines = re.search(r"from .*?model\.fit\(X, y\)", listing, re.DOTALL).group()
        names = {"X": X, "y": y}
        exec(lines, names)
        np.testing.assert_array_equal(
            names["model"].decision_function(X), model.decision_function(X)
        )


# The card -----------------------------------------------------------------------------


CERTIFICATE = Certificate(
    problem="min |w|^2 <b>&",
    primal=10.5,
    dual=10.0,
    relative_gap=0.5 / 10.5,
    n_verified=100,
    n_rows=100,
    tol=1e-3,
    stopped_by="max_time",
)


def test_the_card_says_what_the_text_says_and_escapes_it(classifier):
    page = Page(classifier.certificate_._repr_html_())
    said = page.text()
    lines = str(classifier.certificate_)
    for number in re.findall(r"relative gap +(\S+)", lines):
        assert number in said
    assert "converged" in said
    assert "300 of 300 rows" in said
    hostile = Page(replace(CERTIFICATE, stopped_by=EVIL)._repr_html_())
    harmless = Page(replace(CERTIFICATE, problem="min |w|^2")._repr_html_())
    assert hostile.tags == harmless.tags
    assert CERTIFICATE.problem in hostile.text()
    assert "not converged" in hostile.text()


def test_the_card_lists_the_parts_of_several_problems():
    X, y = load_iris(return_X_y=True)
    found = CoreVectorClassifier(random_state=0).fit(X, y).certificate_
    page = Page(found._repr_html_())
    assert page.tags.count("tr") == 1 + 3
    assert "the worst of 3 problems" in page.text()
    many = replace(found, parts=found.parts * 30)
    assert "and 40 more" in Page(many._repr_html_()).text()


@pytest.mark.parametrize(
    ("change", "proved", "not_proved"),
    [
        (
            {},
            "no other model can be lower by more than 4.8 %",
            "training is finished: a",
        ),
        (
            {"converged": True},
            "A gap of 0.001 was asked for: met.",
            "are the right ones",
        ),
        ({"dual_bound": "none"}, "was not measured", "training is finished: a"),
        (
            {"dual_bound": "sample", "confidence": 0.999},
            "probability 0.999",
            "finished",
        ),
        ({"dual_bound": "projection"}, "a rigorous bound by projection", "finished"),
        ({"n_verified": 60}, "measured on 60 of 100 rows", "about the 40 rows"),
        (
            {"primal": np.inf, "n_verified": 9},
            "Nothing is proved: only 9",
            "the 91 rows",
        ),
        ({"kind": "ball"}, "The model reaches the upper end", "finished"),
    ],
)
def test_the_words_follow_the_certificate(change, proved, not_proved):
    from corevec.models.certificate_text import what_is_not_proved, what_is_proved

    found = replace(CERTIFICATE, **change)
    assert proved in " ".join(what_is_proved(found))
    assert not_proved in " ".join(what_is_not_proved(found))
    Page(found._repr_html_())


def test_the_card_needs_the_standard_library_only():
    source = Path(corevec.__file__).parent / "models" / "certificate_text.py"
    tree = ast.parse(source.read_text())
    found = {
        a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
    }
    found |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    own = {"corevec._runtime.enumerations", "corevec.models.certificate"}  # as types
    assert {one.partition(".")[0] for one in found - own} <= sys.stdlib_module_names


def test_the_warning_of_a_fit_is_not_needed_to_see_that_it_did_not_converge(
    report, moons
):
    given = {"max_iter": 1, "method": methods.CoreSet(batch=1)}
    with pytest.warns(NotCertifiedWarning):
        model = CoreVectorClassifier(random_state=0, **given).fit(*moons)
    said = Page(report(model, *moons)).text()
    assert "trainingnot converged" in said
    assert "the rounds allowed were used up" in said
