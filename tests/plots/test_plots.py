"""The displays: what is drawn is what the model says, in axes that say so."""

import re
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PathCollection
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits, load_iris, make_friedman1, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    ImplicitSurface,
    InvalidInputError,
    NotCertifiedWarning,
    StreamingBallClassifier,
    compress,
    methods,
    plots,
)
from corevec.plots import bounds_of, curves_of

mpl.use("Agg")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(300, noise=0.2, random_state=0)
    return X, np.array(["lower", "upper"])[y]


@pytest.fixture(scope="module")
def classifier(moons):
    return CoreVectorClassifier(C=10.0, random_state=0).fit(*moons)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def iris_model(iris):
    return CoreVectorClassifier(C=10.0, random_state=0).fit(*iris)


@pytest.fixture(scope="module")
def cloud():
    return np.random.default_rng(0).normal(size=(400, 2))


@pytest.fixture(scope="module")
def ball(cloud):
    return SVDD(C=0.5, random_state=0).fit(cloud)


@pytest.fixture(scope="module")
def sphere():
    points = np.random.default_rng(0).normal(size=(800, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return ImplicitSurface(random_state=0).fit(points)


@pytest.fixture(scope="module")
def displays(moons, classifier, cloud, ball, sphere):
    X, y = moons
    detector = CoreVectorOneClass(nu=0.1, random_state=0).fit(cloud)
    made = {
        "decision": plots.DecisionMapDisplay.from_estimator(classifier, X, y),
        "vectors": plots.CoreVectorsDisplay.from_estimator(classifier, X, y),
        "convergence": plots.ConvergenceDisplay.from_estimator(classifier, y="gap"),
        "certificate": plots.CertificateDisplay.from_estimator(classifier),
        "size": plots.ModelSizeDisplay.from_estimator(classifier, X, y, sizes=[4, 8]),
        "one class": plots.OneClassMapDisplay.from_estimator(detector, cloud),
        "ball": plots.BallDisplay.from_estimator(ball, cloud),
        "slice": plots.SurfaceSliceDisplay.from_estimator(
            sphere, at=0.0, resolution=40
        ),
    }
    plt.close("all")
    return made


NAMES = [
    "decision",
    "vectors",
    "convergence",
    "certificate",
    "size",
    "one class",
    "ball",
    "slice",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_display_draws_into_the_axes_given_and_nowhere_else(name, displays):
    figure, axes = plt.subplots()
    more = {"y": "gap"} if name == "convergence" else {}
    display = displays[name].plot(axes, **more)
    assert display is displays[name]
    assert display.ax_ is axes
    assert display.figure_ is figure
    assert plt.get_fignums() == [figure.number]
    figure.canvas.draw()


@pytest.mark.parametrize("name", NAMES)
def test_a_new_figure_has_named_axes_in_letters_that_can_be_read(name, displays):
    more = {"y": "gap"} if name == "convergence" else {}
    display = displays[name].plot(**more)
    ax = display.ax_
    assert ax.get_title(loc="left")
    assert ax.get_xlabel()
    # The lines of a certificate are named one by one; one line alone needs no name.
    assert ax.get_ylabel() or name == "certificate"
    display.figure_.canvas.draw()
    letters = [ax.xaxis.label, *ax.get_xticklabels(), *ax.get_yticklabels()]
    assert min(text.get_fontsize() for text in letters if text.get_text()) >= 10


def test_the_settings_of_the_user_stay_as_they_are(moons, classifier):
    before = mpl.rcParams.copy()
    plots.DecisionMapDisplay.from_estimator(classifier, *moons)
    assert mpl.rcParams == before


def test_without_matplotlib_the_error_says_what_to_install(
    monkeypatch, moons, classifier
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        ImportError, match=r'DecisionMapDisplay needs.*"corevec\[plot\]"'
    ):
        plots.DecisionMapDisplay.from_estimator(classifier, *moons)


# The decision map ---------------------------------------------------------------------


def test_the_two_class_map_is_the_decision_function(moons, classifier):
    display = plots.DecisionMapDisplay.from_estimator(classifier, *moons, resolution=23)
    xx, yy = display.plane.xx, display.plane.yy
    assert xx.shape == (23, 23)
    for i, j in ((0, 0), (5, 17), (22, 22)):
        value = classifier.decision_function([[xx[i, j], yy[i, j]]])[0]
        assert display.response[i, j] == pytest.approx(value, rel=1e-12, abs=1e-12)
    assert xx.min() < moons[0][:, 0].min() < moons[0][:, 0].max() < xx.max()


def test_the_boundary_drawn_is_where_the_decision_changes(moons, classifier):
    display = plots.DecisionMapDisplay.from_estimator(classifier, *moons)
    lines = [c for c in display.ax_.collections if len(getattr(c, "levels", ())) == 1]
    places = np.concatenate([path.vertices for path in lines[0].get_paths()])
    places = places[np.isfinite(places).all(axis=1)]
    # Linear interpolation in a cell of width h is wrong by at most h^2 f'' / 8.
    assert np.abs(classifier.decision_function(places)).max() < 0.01


def test_the_map_of_several_classes_shows_what_the_model_predicts(iris, iris_model):
    display = plots.DecisionMapDisplay.from_estimator(
        iris_model, *iris, columns=(2, 3), resolution=31
    )
    rows = np.tile(np.median(iris[0], axis=0), (31 * 31, 1))
    rows[:, 2], rows[:, 3] = display.plane.xx.ravel(), display.plane.yy.ravel()
    expected = iris_model.predict(rows).reshape(31, 31)
    np.testing.assert_array_equal(display.response.argmax(axis=2), expected)
    image = display.ax_.images[0].get_array()
    shades = {tuple(np.round(c, 1)) for c in image[expected == 0]}
    assert not shades & {tuple(np.round(c, 1)) for c in image[expected == 1]}


def test_other_columns_are_held_at_the_values_given(iris, iris_model):
    held = {0: 5.5, "column 1": 3.25}
    display = plots.DecisionMapDisplay.from_estimator(
        iris_model, *iris, columns=("column 2", 3), held=held, resolution=5
    )
    rows = display.plane.rows()
    assert set(rows[:, 0]) == {5.5}
    assert set(rows[:, 1]) == {3.25}
    assert "2 other columns held" in "".join(t.get_text() for t in display.ax_.texts)


def test_vectors_of_a_pipeline_are_drawn_in_the_units_of_the_rows(iris):
    X, y = 100 * iris[0], iris[1]
    model = make_pipeline(StandardScaler(), CoreVectorClassifier(random_state=0))
    model.fit(X, y)
    display = plots.DecisionMapDisplay.from_estimator(model, X, y, resolution=5)
    expected = X[model[-1].support_][:, :2]
    np.testing.assert_allclose(display.vectors, expected, rtol=1e-12)


def test_names_of_columns_and_classes_are_those_of_the_frame(iris_model):
    frame = load_iris(as_frame=True)
    names = frame.target_names[frame.target]
    model = CoreVectorClassifier(random_state=0).fit(frame.data, names)
    display = plots.DecisionMapDisplay.from_estimator(
        model, frame.data, names, columns=("petal width (cm)", 0), resolution=20
    )
    assert display.ax_.get_xlabel() == "petal width (cm)"
    legend = {text.get_text() for text in display.ax_.get_legend().get_texts()}
    assert {"setosa", "versicolor", "virginica"} <= legend


def test_many_classes_are_named_at_their_rows():
    X, y = load_digits(return_X_y=True)
    model = SVC().fit(X[:400], y[:400])
    display = plots.DecisionMapDisplay.from_estimator(
        model, X[:400], y[:400], columns=(20, 36), resolution=20
    )
    texts = {text.get_text() for text in display.ax_.texts}
    assert {str(digit) for digit in range(10)} <= texts


def test_sparse_rows_give_the_map_of_dense_ones(iris, iris_model):
    dense = plots.DecisionMapDisplay.from_estimator(iris_model, *iris, resolution=9)
    rows = sparse.csr_matrix(iris[0])
    found = plots.DecisionMapDisplay.from_estimator(
        iris_model, rows, iris[1], resolution=9
    )
    np.testing.assert_array_equal(found.response, dense.response)


def test_only_so_many_rows_are_drawn(moons, classifier):
    display = plots.DecisionMapDisplay.from_estimator(classifier, *moons, max_rows=50)
    assert len(display.places) == 50


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"columns": (0, 2)}, r"no column 2. Columns are numbered from 0 to 1"),
        ({"columns": (0, 0)}, "names one column twice"),
        ({"columns": 3}, "must be two columns"),
        ({"held": [1.0]}, r"held has shape \(1,\), expected \(2,\)"),
        ({"resolution": 1}, "resolution=1 must be a whole number of at least 2"),
    ],
)
def test_what_cannot_be_mapped_is_refused(change, text, moons, classifier):
    with pytest.raises(InvalidInputError, match=text):
        plots.DecisionMapDisplay.from_estimator(classifier, *moons, **change)


def test_a_display_refuses_a_model_of_another_kind(cloud, ball, moons, classifier):
    with pytest.raises(InvalidInputError, match="SVDD"):
        plots.DecisionMapDisplay.from_estimator(ball, cloud)
    with pytest.raises(InvalidInputError, match="use DecisionMapDisplay"):
        plots.OneClassMapDisplay.from_estimator(classifier, moons[0])
    with pytest.raises(InvalidInputError, match="Fit an SVDD or a CoreVectorOneClass"):
        plots.BallDisplay.from_estimator(classifier, moons[0])
    with pytest.raises(InvalidInputError, match="not a fitted ImplicitSurface"):
        plots.SurfaceSliceDisplay.from_estimator(ImplicitSurface())
    stream = StreamingBallClassifier().fit(*moons)
    with pytest.raises(InvalidInputError, match="has no vectors"):
        plots.CoreVectorsDisplay.from_estimator(stream, moons[0])
    with pytest.raises(InvalidInputError, match=r"no history_ of rounds.*certify"):
        plots.ConvergenceDisplay.from_estimator(stream)
    with pytest.raises(InvalidInputError, match=r"has no certificate_.*certify\(model"):
        plots.CertificateDisplay.from_estimator(stream)
    with pytest.raises(InvalidInputError, match="SVC has no certificate_"):
        plots.CertificateDisplay.from_estimator(SVC().fit(*moons))


# Core vectors -------------------------------------------------------------------------


def test_core_vectors_lie_where_their_rows_are_and_weigh_what_they_weigh(
    moons, classifier
):
    X, y = moons
    display = plots.CoreVectorsDisplay.from_estimator(classifier, X, y)
    np.testing.assert_array_equal(display.vectors, X[classifier.support_])
    np.testing.assert_allclose(display.weights, np.abs(classifier.dual_coef_[0]))
    drawn = {c.get_label(): c for c in display.ax_.collections}
    assert len(drawn["upper"].get_offsets()) == np.sum(
        y[classifier.support_] == "upper"
    )
    sizes = np.concatenate([drawn[name].get_sizes() for name in ("lower", "upper")])
    assert sizes.max() == pytest.approx(260.0)


def test_many_columns_are_drawn_along_their_main_directions(iris, iris_model):
    display = plots.CoreVectorsDisplay.from_estimator(iris_model, *iris)
    X = iris[0] - iris[0].mean(axis=0)
    _, lengths, directions = np.linalg.svd(X, full_matrices=False)
    expected = X @ directions[:2].T
    np.testing.assert_allclose(np.abs(display.places), np.abs(expected), atol=1e-10)
    share = lengths[0] ** 2 / (lengths**2).sum()
    assert f"({share:.0%} of the variance)" in display.ax_.get_xlabel()


# Convergence and certificate ----------------------------------------------------------


@pytest.fixture(scope="module")
def core_set_model():
    X, y = make_moons(1500, noise=0.25, random_state=0)
    return CoreVectorClassifier(C=10.0, random_state=0, method="coreset").fit(X, y)


@pytest.mark.parametrize("x", ["seconds", "passes", "round"])
def test_the_gap_is_drawn_round_by_round(x, core_set_model):
    display = plots.ConvergenceDisplay.from_estimator(core_set_model, x=x)
    line = display.axes_[0].lines[0]
    history = core_set_model.history_
    np.testing.assert_array_equal(line.get_xdata(), [r[x] for r in history])
    floor = [max(r["gap"], 1e-10) for r in history]
    np.testing.assert_array_equal(line.get_ydata(), floor)
    assert display.axes_[0].get_yscale() == "log"
    assert display.ax_ is display.axes_[0]


def test_the_objective_is_enclosed_and_ends_at_the_certificate(core_set_model):
    curves = curves_of(core_set_model)
    certificate = core_set_model.certificate_
    assert np.all(curves.lower <= curves.upper * (1 + 1e-12))
    assert np.all(curves.lower <= certificate.primal)
    assert np.all(curves.upper >= certificate.dual)
    assert curves.upper[-1] == pytest.approx(certificate.primal, rel=1e-9)


def test_several_problems_are_summed(iris_model):
    lower, upper = bounds_of(iris_model.certificate_)
    assert lower == pytest.approx(iris_model.history_[-1]["dual"], rel=1e-9)
    parts = iris_model.certificate_.parts
    assert upper == pytest.approx(sum(part.primal for part in parts))


def test_a_model_in_a_span_shows_its_own_gap_and_the_certified_one(moons):
    model = CoreVectorClassifier(
        loss="hinge", random_state=0, method=methods.FewVectors(5)
    ).fit(*moons)
    display = plots.ConvergenceDisplay.from_estimator(model, y="gap")
    labels = display.ax_.get_legend_handles_labels()[1]
    assert "gap within the span" in labels
    assert "gap of the problem" not in labels
    assert f"certified: {model.certificate_.relative_gap:.2g}" in labels


def test_wrong_words_and_wrong_axes_are_refused(core_set_model):
    with pytest.raises(InvalidInputError, match="x='time' is not one of 'seconds'"):
        plots.ConvergenceDisplay.from_estimator(core_set_model, x="time")
    _, axes = plt.subplots()
    with pytest.raises(InvalidInputError, match="1 axes were given, but 2 are needed"):
        plots.ConvergenceDisplay.from_estimator(core_set_model, ax=axes)


def test_a_certificate_is_drawn_problem_by_problem(iris, iris_model):
    display = plots.CertificateDisplay.from_certificate(iris_model.certificate_)
    drawn = np.concatenate([c.get_offsets() for c in _dots(display.ax_)])
    gaps = [part.relative_gap for part in iris_model.certificate_.parts]
    np.testing.assert_allclose(sorted(drawn[:, 0]), np.maximum(sorted(gaps), 1e-10))
    pairs = CoreVectorClassifier(multi_class="ovo", random_state=0).fit(*iris)
    named = plots.CertificateDisplay.from_estimator(pairs)
    texts = [text.get_text() for text in named.ax_.get_yticklabels()]
    assert texts == ["0 against 1", "0 against 2", "1 against 2"]


def _dots(ax):
    return [c for c in ax.collections if isinstance(c, PathCollection)]


# Error against size -------------------------------------------------------------------


def test_errors_are_those_of_the_compressed_models(moons, classifier):
    X, y = moons
    display = plots.ModelSizeDisplay.from_estimator(classifier, X, y, sizes=[3, 12])
    expected = [
        1 - compress(classifier, n, random_state=0).score(X, y) for n in (3, 12)
    ]
    np.testing.assert_allclose(display.errors, expected, atol=1e-12)
    full = (len(classifier.support_), 1 - classifier.score(X, y))
    assert display.full == pytest.approx(full)


def test_fitted_models_are_drawn_in_the_order_of_their_size():
    X, y = make_friedman1(300, random_state=0)
    with pytest.warns(NotCertifiedWarning):
        models = [
            CoreVectorRegressor(
                random_state=0, method=methods.CoreSet(max_vectors=n)
            ).fit(X, y)
            for n in (60, 15)
        ]
    display = plots.ModelSizeDisplay.from_models(models, X, y)
    assert list(display.sizes) == sorted(len(m.support_) for m in models)
    rmse = [np.sqrt(np.mean((m.predict(X) - y) ** 2)) for m in models[::-1]]
    np.testing.assert_allclose(display.errors, rmse)
    assert display.ax_.get_ylabel() == "root mean squared error"
    with pytest.raises(InvalidInputError, match="models is empty"):
        plots.ModelSizeDisplay.from_models([], X, y)
    with pytest.raises(InvalidInputError, match="y is needed"):
        plots.ModelSizeDisplay.from_models(models, X)


# Ball and one-class map ---------------------------------------------------------------


def test_a_linear_ball_of_two_columns_is_only_turned(cloud):
    model = SVDD(kernel="linear", random_state=0).fit(cloud)
    display = plots.BallDisplay.from_estimator(model, cloud)
    np.testing.assert_allclose(pdist(display.places), pdist(cloud), atol=1e-9)
    lengths = np.linalg.norm(display.places, axis=1)
    np.testing.assert_allclose(lengths, model.distance(cloud), atol=1e-9)
    assert display.share == pytest.approx(1.0)


def test_a_ball_is_seen_along_the_main_directions_of_its_core_vectors(cloud):
    model = SVDD(
        kernel="poly", degree=2, gamma=1.0, coef0=0.0, C=0.01, random_state=0
    ).fit(cloud)

    def features(X):  # (x . z)^2 = phi(x) . phi(z)
        a, b = X.T
        return np.column_stack([a * a, np.sqrt(2) * a * b, b * b])

    core = features(model.support_vectors_)
    centre = model.dual_coef_[0] @ core
    directions = np.linalg.svd(core - centre, full_matrices=False)[2][:2]
    expected = (features(cloud) - centre) @ directions.T
    display = plots.BallDisplay.from_estimator(model, cloud)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        np.abs(display.places), np.abs(expected), atol=1e-8 * scale
    )


def test_the_projection_hides_and_true_distances_do_not(cloud, ball):
    display = plots.BallDisplay.from_estimator(ball, cloud)
    lengths = np.linalg.norm(display.places, axis=1)
    np.testing.assert_allclose(display.distances, ball.distance(cloud), atol=1e-9)
    assert np.all(lengths <= display.distances * (1 + 1e-9))
    outside = ball.predict(cloud) == -1
    assert outside.any()
    display.plot(distance="true")
    crosses = next(
        c for c in display.ax_.collections if c.get_label() == "outside the ball"
    )
    drawn = np.linalg.norm(crosses.get_offsets(), axis=1)
    np.testing.assert_allclose(
        sorted(drawn), sorted(display.distances[outside]), rtol=1e-9
    )
    with pytest.raises(InvalidInputError, match="'projected' or 'true'"):
        display.plot(distance="far")


def test_a_one_class_machine_is_the_ball_with_a_quarter_of_its_C(cloud):
    model = CoreVectorOneClass(C=2.0, gamma=0.5, tol=1e-8, random_state=0).fit(cloud)
    ball = SVDD(C=0.5, gamma=0.5, tol=1e-8, random_state=0).fit(cloud)
    found = plots.BallDisplay.from_estimator(model, cloud)
    expected = plots.BallDisplay.from_estimator(ball, cloud)
    # Both are solved to a relative gap of 1e-8, so distances agree to its root.
    assert found.radius == pytest.approx(expected.radius, rel=1e-4)
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-4)
    inside = found.distances <= found.radius * (1 + 1e-9)
    sure = np.abs(model.decision_function(cloud)) > 1e-6
    np.testing.assert_array_equal(inside[sure], (model.predict(cloud) == 1)[sure])


def test_no_ball_is_drawn_where_there_is_none(cloud):
    model = CoreVectorOneClass(C=1.0, kernel="linear", random_state=0).fit(cloud + 5)
    with pytest.raises(InvalidInputError, match=r"kernel=.linear."):
        plots.BallDisplay.from_estimator(model, cloud)


def test_the_one_class_map_shows_the_outliers_that_the_model_finds(cloud):
    model = CoreVectorOneClass(nu=0.1, random_state=0).fit(cloud)
    display = plots.OneClassMapDisplay.from_estimator(model, cloud, resolution=21)
    np.testing.assert_array_equal(display.is_outlier, model.predict(cloud) == -1)
    places = np.column_stack([display.plane.xx.ravel(), display.plane.yy.ravel()])
    expected = model.decision_function(places).reshape(21, 21)
    np.testing.assert_array_equal(display.response, expected)
    assert "below 0 outside" in display.colorbar_.ax.get_ylabel()


# Slices -------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", ["x", "z"])
def test_a_slice_of_a_sphere_is_a_circle(axis, sphere):
    display = plots.SurfaceSliceDisplay.from_estimator(
        sphere, axis=axis, at=[0.0, 0.6], resolution=60
    )
    assert display.values.shape == (2, 60, 60)
    far = np.hypot(display.xx, display.yy)
    # 800 points are some 0.1 apart; the circles were off by 0.026 at most (measured).
    for values, radius in zip(display.values, (1.0, 0.8), strict=True):
        assert np.all(values[far < radius - 0.04] < 0)
        assert np.all(values[far > radius + 0.04] > 0)
    names = ("y", "z") if axis == "x" else ("x", "y")
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == names
    assert display.axes_[1].get_title(loc="left") == f"{axis} = 0.6"


def test_an_axis_that_does_not_exist_is_refused(sphere):
    with pytest.raises(InvalidInputError, match="axis='w' must be 'x', 'y' or 'z'"):
        plots.SurfaceSliceDisplay.from_estimator(sphere, axis="w")


# The docs -----------------------------------------------------------------------------


def test_the_code_of_the_docs_makes_the_pictures_of_the_docs(tmp_path, monkeypatch):
    text = (DOCS / "plots.md").read_text()
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "plots"}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, "plots.md", "exec"), namespace)
    shown = set(re.findall(r"\]\((plots_\w+\.png)\)", text))
    assert {file.name for file in tmp_path.glob("plots_*.png")} == shown
    assert shown == {file.name for file in DOCS.glob("plots_*.png")}
    assert max(file.stat().st_size for file in DOCS.glob("plots_*.png")) < 150_000


def test_vectors_of_many_classes_leave_room_for_the_picture(moons):
    X, _ = moons
    y = np.arange(len(X)) % 25
    model = CoreVectorClassifier(random_state=0).fit(X, y)
    display = plots.CoreVectorsDisplay.from_estimator(model, X, y)
    display.figure_.canvas.draw()  # a warning, so an error, where nothing is left
    names = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert names[-1] == "and 11 more"  # 15 of 26 lines: rows, 25 classes


def test_vectors_of_one_column_are_refused(moons):
    X, y = moons
    model = CoreVectorClassifier(random_state=0).fit(X[:, :1], y)
    with pytest.raises(InvalidInputError, match=r"shape \(300, 1\)"):
        plots.CoreVectorsDisplay.from_estimator(model, X[:, :1], y)
