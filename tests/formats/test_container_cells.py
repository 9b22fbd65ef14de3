"""Model files of models with cells: what comes back, and what is refused."""

import contextlib
import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import corevec
from corevec import InvalidInputError, methods
from corevec.formats import load, save, save_libsvm, skops_trusted

X, Y = make_moons(400, noise=0.25, random_state=0)
THREE = np.digitize(X[:, 0], [0.0, 1.0])
TARGET = np.sin(3 * X[:, 0])
LOCAL = {"random_state": 0, "method": methods.Cells(60, n_trees=2)}


def _models():
    classifier, regressor = corevec.CoreVectorClassifier, corevec.CoreVectorRegressor
    words = np.where(Y == 1, "über", "under")
    yield "two-classes", classifier(C=10.0, **LOCAL), X, words
    yield "one-tree", classifier(method=methods.Cells(60), random_state=0), X, Y
    yield "three-classes-csr", classifier(**LOCAL), sparse.csr_matrix(X), THREE
    yield "pairs-float32", classifier(multi_class="ovo", **LOCAL), X.astype("f4"), THREE
    yield "one-cell", classifier(method=methods.Cells(1000), random_state=0), X, Y
    tuned = {"method": methods.Cells(60, n_trees=2, tune=True)}
    yield "tuned", classifier(**LOCAL | tuned), X, Y
    yield "tube", regressor(mu=0.1, **LOCAL), X, TARGET
    yield "targets", regressor(tube=0.1, **LOCAL), X, np.stack([TARGET, X[:, 1]], 1)
    yield "one-class", corevec.CoreVectorOneClass(nu=0.1, **LOCAL), X, None
    yield "pipeline", make_pipeline(StandardScaler(), classifier(**LOCAL)), X, Y


_UNFITTED = {name: rest for name, *rest in _models()}


@pytest.fixture(scope="module")
def fitted():
    return {
        name: (model.fit(rows, y), rows) for name, (model, rows, y) in _UNFITTED.items()
    }


def _estimator(model):
    return model[-1] if hasattr(model, "steps") else model


def _says(model, rows):
    asked = ("predict", "decision_function", "score_samples")
    return {name: getattr(model, name)(rows) for name in asked if hasattr(model, name)}


def _same(a, b):
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name])


@pytest.mark.parametrize("name", _UNFITTED)
def test_a_model_of_cells_comes_back_bit_for_bit(name, fitted, tmp_path):
    model, rows = fitted[name]
    save(model, tmp_path / "once")
    found = load(tmp_path / "once")
    _same(_says(model, rows), _says(found, rows))
    own, read = _estimator(model), _estimator(found)
    assert set(vars(own)) == set(vars(read))
    assert str(own.certificate_) == str(read.certificate_)
    assert own._forest.n_vectors == read._forest.n_vectors
    save(found, tmp_path / "twice")
    assert (tmp_path / "once").read_bytes() == (tmp_path / "twice").read_bytes()


@pytest.mark.parametrize("name", ["two-classes", "three-classes-csr", "tube"])
def test_pickle_and_skops_bring_it_back_too(name, fitted, tmp_path):
    model, rows = fitted[name]
    said = _says(model, rows)  # what was prepared for predictions is left behind
    _same(said, _says(pickle.loads(pickle.dumps(model)), rows))
    path = tmp_path / "model.skops"
    skops.io.dump(model, path)
    assert set(skops.io.get_untrusted_types(file=path)) <= set(skops_trusted())
    _same(said, _says(skops.io.load(path, trusted=skops_trusted()), rows))


def test_a_second_fit_without_cells_leaves_nothing_of_them(tmp_path):
    model = corevec.CoreVectorClassifier(random_state=0, method=methods.Cells(60)).fit(
        X, Y
    )
    model.set_params(method="auto").fit(X, Y)
    save(model, tmp_path / "model")
    found = load(tmp_path / "model")
    assert "_forest" not in vars(found)
    assert "n_cells_" not in vars(found)
    _same(_says(model, X), _says(found, X))


def test_what_is_prepared_for_predictions_is_not_written(fitted, tmp_path):
    model, rows = fitted["two-classes"]
    save(model, tmp_path / "before")
    model.predict(rows)
    save(model, tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


# Files that hold one expansion -----------------------------------------------------


@pytest.mark.parametrize("name", ["two-classes", "tube", "one-class"])
def test_files_of_one_expansion_refuse_many(name, fitted, tmp_path):
    model, _ = fitted[name]
    path = tmp_path / "model"
    words = r"method=.*: it has 16 kernel expansions, one per cell.*"
    with pytest.raises(InvalidInputError, match=f"save_libsvm: .*{words} fit without"):
        save_libsvm(model, path)
    assert not path.exists()


def test_the_last_step_of_a_pipeline_is_refused_as_well(fitted, tmp_path):
    with pytest.raises(InvalidInputError, match="save_libsvm: this CoreVectorClass"):
        save_libsvm(fitted["pipeline"][0][-1], tmp_path / "model")


# Files with one mistake ------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(fitted, tmp_path_factory):
    """Return the entries of a good file: two trees of eight cells."""
    path = tmp_path_factory.mktemp("sound") / "model.npz"
    save(fitted["two-classes"][0], path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(entries):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def model_state(header):
    return header["model"]["state"]


def forest(header):
    return model_state(header)["_forest"]["state"]


def first_cells(header):
    return forest(header)["trees"]["tuple"][0]["state"]


def first_tree(header):
    return first_cells(header)["tree"]["state"]


def put(place, name, value):
    """Return a change of the header."""

    def change(header, entries):
        place(header)[name] = value

    return change


def array(place, name, make):
    """Return a change of the array that the header names there."""

    def change(header, entries):
        entry = f"array_{place(header)[name]['array']}.npy"
        old = np.lib.format.read_array(io.BytesIO(entries[entry]))
        file = io.BytesIO()
        np.lib.format.write_array(file, make(old.copy()))
        entries[entry] = file.getvalue()

    return change


def at(position, value):
    def make(old):
        old.flat[position] = value
        return old

    return make


MISTAKES = {
    "no forest": (
        put(model_state, "_forest", 3),
        "at model: _forest must be of type Forest",
    ),
    "no tree": (
        put(forest, "trees", {"tuple": []}),
        "_forest: trees must be a tuple of cells",
    ),
    "trees a list": (put(forest, "trees", []), "trees must be a tuple of cells"),
    "a tree of words": (
        put(first_cells, "tree", "oak"),
        r"_forest.trees\[0\]: tree must be a Tree",
    ),
    "huge depth": (
        put(first_tree, "depth", 10**9),
        "depth must be a whole number from 0 to 40",
    ),
    "deeper than its arrays": (
        put(first_tree, "depth", 40),
        r"directions must be a float64 array of shape \(1099511627775, any\)",
    ),
    "depth of another tree": (
        put(first_tree, "depth", 2),
        r"trees\[0\].tree: directions must be a float64 array of shape \(3, any\)",
    ),
    "negative depth": (put(first_tree, "depth", -1), "depth must be a whole number"),
    "depth a word": (put(first_tree, "depth", "deep"), "depth must be of type int"),
    "depth true": (put(first_tree, "depth", True), "depth must be a whole number"),
    "direction not finite": (
        array(first_tree, "directions", at(0, np.nan)),
        "directions must be finite",
    ),
    "threshold not a number": (
        array(first_tree, "thresholds", at(0, np.nan)),
        "thresholds must be numbers",
    ),
    "fewer thresholds": (
        array(first_tree, "thresholds", lambda old: old[:-1]),
        r"thresholds must be a float64 array of shape \(7\)",
    ),
    "directions of three columns": (
        array(first_tree, "directions", lambda old: np.zeros((len(old), 3))),
        "the directions of the tree have 3 columns, the vectors 2",
    ),
    "directions of another type": (
        array(first_tree, "directions", lambda old: old.astype("f4")),
        "directions must be a float64 array",
    ),
    "starts beyond the vectors": (
        array(first_cells, "starts", at(-1, 10**6)),
        r"starts must go from 0 to the \d+ vectors and never back",
    ),
    "starts negative": (
        array(first_cells, "starts", at(0, -5)),
        "starts must go from 0",
    ),
    "starts that go back": (
        array(first_cells, "starts", lambda old: np.r_[0, old[-2:0:-1], old[-1]]),
        "never back",
    ),
    "starts of another tree": (
        array(first_cells, "starts", lambda old: old[:-1]),
        "starts must hold an int64 per cell of 8, and one",
    ),
    "starts of floats": (
        array(first_cells, "starts", lambda old: old.astype(float)),
        "starts must hold an int64 per cell",
    ),
    "coef too short": (
        array(first_cells, "coef", lambda old: old[:-1]),
        r"coef must be a float64 array of shape \(\d+, any\)",
    ),
    "coef infinite": (
        array(first_cells, "coef", at(3, np.inf)),
        "coef must be finite",
    ),
    "intercepts of two outputs": (
        array(first_cells, "intercepts", lambda old: np.hstack([old, old])),
        r"intercepts must be a float64 array of shape \(8, 1\)",
    ),
    "vectors not finite": (
        array(
            lambda h: first_cells(h)["basis"]["state"],
            "values",
            at(0, np.nan),
        ),
        "basis must be finite",
    ),
    "a kernel of numbers": (
        put(first_cells, "kernel", {"object": "PrecomputedKernel", "state": {}}),
        "kernel must be a kernel of rows",
    ),
    "outputs that differ": (
        lambda h, e: [
            array(first_cells, name, lambda old: np.hstack([old, old]))(h, e)
            for name in ("coef", "intercepts")
        ],
        "trees must have the same outputs and columns",
    ),
    "three classes": (
        put(model_state, "classes_", {"objects": ["a", "b", "c", "d"], "shape": [4]}),
        "4 classes do not go with 1 functions",
    ),
    "other columns": (
        put(model_state, "n_features_in_", 5),
        "n_features_in_=5, but rows of 2 columns",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_file_with_one_mistake_says_where(name, sound, tmp_path):
    change, words = MISTAKES[name]
    header, entries = json.loads(sound["header.json"]), dict(sound)
    change(header, entries)
    entries["header.json"] = json.dumps(header)
    path = tmp_path / "bad.npz"
    path.write_bytes(packed(entries))
    with pytest.raises(InvalidInputError, match=words) as caught:
        load(path)
    assert str(caught.value).startswith(f"load: {path}: header.json, at model")


def test_the_file_is_sound_without_its_mistake(sound, tmp_path):
    path = tmp_path / "good.npz"
    path.write_bytes(packed(sound))
    assert load(path).predict(X[:5]).shape == (5,)


def test_a_node_that_was_not_split_has_an_infinite_threshold(tmp_path):
    rows = np.repeat(X[:5], 80, axis=0)  # five different rows: one is alone early
    model = corevec.CoreVectorClassifier(random_state=0, method=methods.Cells(20))
    model.fit(rows, np.tile(Y[:80], 5))
    assert np.isinf(model._forest.trees[0].tree.thresholds).any()
    save(model, tmp_path / "model")
    _same(_says(model, rows), _says(load(tmp_path / "model"), rows))


def test_what_load_would_refuse_is_not_written(tmp_path):
    model = corevec.CoreVectorClassifier(random_state=0, method=methods.Cells(60)).fit(
        X, Y
    )
    model._forest.trees[0].starts[1] = 10**6
    with pytest.raises(InvalidInputError, match=r"starts .* 0"):
        save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.sampled_from(["rbf", "", "Forest", "precomputed"]),
    st.sampled_from([[], {}, {"array": 1}, {"float": "inf"}, {"tuple": []}, [[0]]]),
)


@given(choice=st.integers(0, 10**6), value=VALUES)
def test_any_forest_gives_a_model_or_an_error_of_ours(
    choice, value, sound, tmp_path_factory
):
    """One node of the forest is replaced; a model that is made crashes no process."""
    header = json.loads(sound["header.json"])
    places = list(_places(model_state(header)["_forest"]))
    holder, key = places[choice % len(places)]
    holder[key] = value
    path = tmp_path_factory.getbasetemp() / "fuzzed.npz"
    path.write_bytes(packed({**sound, "header.json": json.dumps(header)}))
    model = None
    with contextlib.suppress(InvalidInputError):
        model = load(path)
    ordinary = (ValueError, TypeError, AttributeError, IndexError, NotFittedError)
    with contextlib.suppress(*ordinary):
        if model is not None:
            model.predict(X[:20])


def _places(node):
    """Yield every (container, key) of nested nodes."""
    items = enumerate(node) if isinstance(node, list) else node.items()
    for key, inner in list(items):
        yield node, key
        if isinstance(inner, list | dict):
            yield from _places(inner)
