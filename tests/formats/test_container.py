"""corevec's own model files: what comes back, and that nothing else can."""

import json
import os
import pickle
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from formats_models import NAMES, answers, fitted_model, rows, three_classes
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import corevec
from corevec import InvalidInputError, methods, reference
from corevec.formats import (
    ENTRIES,
    load,
    load_libsvm,
    save,
    save_libsvm,
    skops_trusted,
)
from corevec.kernels import Points

FILES = Path(__file__).parents[1] / "files"
CLASSIFIER = "0-CoreVectorClassifier"


def equal(a, b):
    """Whether two values are the same, numbers bit for bit, arrays with their type."""
    if isinstance(a, np.ndarray):
        same = isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
        if a.dtype.kind == "O":
            return same and a.tolist() == b.tolist()
        return same and a.tobytes() == b.tobytes()
    if sparse.issparse(a):
        parts = ("data", "indices", "indptr")
        same = type(a) is type(b) and a.shape == b.shape
        return same and all(np.array_equal(getattr(a, p), getattr(b, p)) for p in parts)
    if isinstance(a, np.random.RandomState):
        return all(map(equal, a.get_state(), b.get_state()))
    if isinstance(a, np.random.Generator):
        return a.bit_generator.state == b.bit_generator.state
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, float) and np.isnan(a):
        return np.isnan(b)
    if type(a) in ENTRIES or isinstance(a, Points):
        return type(a) is type(b) and equal(a.__getstate__(), b.__getstate__())
    return type(a) is type(b) and a == b


def round_trip(model, folder):
    path = folder / "model.npz"
    save(model, path)
    return load(path)


@pytest.mark.parametrize("name", NAMES)
def test_every_model_comes_back_bit_for_bit(name, tmp_path):
    model, X = fitted_model(name)
    before = answers(model, X)
    found = round_trip(model, tmp_path)
    assert type(found) is type(model)
    after = answers(found, X)
    assert before
    for question, value in before.items():
        assert equal(value, after[question]), question
    for attribute, value in vars(model).items():
        # Kept in the order in which they are written, parameters first.
        assert equal(vars(found)[attribute], value), attribute
    assert set(vars(found)) == set(vars(model))


@pytest.mark.parametrize("name", NAMES)
def test_what_was_read_can_be_written_again_to_the_same_bytes(name, tmp_path):
    model, _ = fitted_model(name)
    save(model, tmp_path / "once")
    save(load(tmp_path / "once"), tmp_path / "twice")
    assert (tmp_path / "once").read_bytes() == (tmp_path / "twice").read_bytes()


def test_every_estimator_is_among_the_models():
    names = {name.split("-")[1] for name in NAMES}
    for module in (corevec, reference):
        for name in module.__all__:
            thing = getattr(module, name)
            is_estimator = isinstance(thing, type) and issubclass(thing, BaseEstimator)
            is_search = name.endswith("CV")  # its best estimator is written
            if is_estimator and not is_search and thing is not corevec.CompressedModel:
                assert name in names


def test_a_models_life_goes_on_after_reading(tmp_path):
    X, y = rows()
    model = corevec.CoreVectorClassifier(warm_start=True, random_state=0).fit(X, y)
    found = round_trip(model, tmp_path)
    ours, theirs = corevec.certify(found, X, y), corevec.certify(model, X, y)
    assert ours.relative_gap == theirs.relative_gap
    assert str(found.certificate_) == str(model.certificate_)
    assert found.fit(X, y).certificate_.converged  # from where it was
    assert clone(found).get_params() == found.get_params()


def test_a_stream_goes_on_after_reading(tmp_path):
    X, y = three_classes()
    model = corevec.StreamingBallClassifier(kernel="rbf", budget=12)
    model.partial_fit(X[:40], y[:40], classes=[0, 1, 2])
    found = round_trip(model, tmp_path)
    for one in (model, found):
        one.partial_fit(X[40:], y[40:])
    np.testing.assert_array_equal(
        model.decision_function(X), found.decision_function(X)
    )
    detector = corevec.StreamingBallOneClass(nu=0.2, random_state=0)
    detector.partial_fit(X[:40])
    found = round_trip(detector, tmp_path)
    for one in (detector, found):
        one.partial_fit(X[40:])
    assert detector.offset_ == found.offset_


def test_a_model_without_a_fit_and_one_with_names_of_columns(tmp_path):
    import pandas as pd

    model = round_trip(corevec.SVDD(C=2.0, random_state=1), tmp_path)
    assert model.get_params()["C"] == 2.0
    assert not model.__sklearn_is_fitted__()
    X, y = rows()
    table = pd.DataFrame(X, columns=["länge", "b"])
    model = corevec.CoreVectorClassifier(random_state=0).fit(table, y.astype(object))
    found = round_trip(model, tmp_path)
    assert found.feature_names_in_.tolist() == ["länge", "b"]
    np.testing.assert_array_equal(found.predict(table), model.predict(table))
    assert found.classes_.dtype == object


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], [1, 2], [["a", "b"]]])
def test_names_that_are_not_one_per_column_are_refused(tmp_path, names):
    X, y = rows()
    model = corevec.CoreVectorClassifier(random_state=0).fit(X, y)
    model.feature_names_in_ = np.array(names, dtype=object)
    with pytest.raises(InvalidInputError, match="name of each column"):
        round_trip(model, tmp_path)


@pytest.mark.parametrize("scaler", [MinMaxScaler, MaxAbsScaler, StandardScaler])
def test_scalers_alone_come_back(scaler, tmp_path):
    X, _ = rows()
    for model in (scaler().fit(X), make_pipeline(scaler()).fit(X)):
        found = round_trip(model, tmp_path)
        np.testing.assert_array_equal(found.transform(X), model.transform(X))


@pytest.mark.parametrize("name", reference.__all__)
def test_float32_rows_of_the_reference_solvers_come_back(name, tmp_path):
    X, y = three_classes()
    model = getattr(reference, name)()
    model = make_pipeline(StandardScaler(), model).fit(X.astype(np.float32), y)
    found = round_trip(model, tmp_path)
    X = X.astype(np.float32)
    np.testing.assert_array_equal(
        found.decision_function(X), model.decision_function(X)
    )


def test_rows_of_a_precomputed_kernel_come_back(tmp_path):
    X, y = rows()
    model = corevec.CoreVectorClassifier(kernel="precomputed").fit(X @ X.T, y)
    found = round_trip(model, tmp_path)
    np.testing.assert_array_equal(
        found.decision_function(X @ X.T), model.decision_function(X @ X.T)
    )


@pytest.mark.parametrize("told", [None, 5])
def test_a_libsvm_model_comes_back(told, tmp_path):
    X, y = three_classes()
    save_libsvm(SVC().fit(X, y), tmp_path / "text")
    model = load_libsvm(tmp_path / "text", n_features=told).set_params(C=4.0)
    found = round_trip(model, tmp_path)
    wide = np.hstack([X, np.ones((len(X), 3))])
    np.testing.assert_array_equal(
        found.decision_function(wide), model.decision_function(wide)
    )
    assert found.C == 4.0
    assert found.n_features_in_ == model.n_features_in_
    save_libsvm(found, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "text").read_bytes()


def test_it_is_an_npz_that_numpy_opens_without_pickle(tmp_path):
    model, _ = fitted_model(CLASSIFIER)
    save(model, tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as found:
        arrays = [found[name] for name in found.files if name != "header.json"]
        header = json.loads(found["header.json"])
    assert any(np.array_equal(model.support_vectors_, array) for array in arrays)
    assert header["version"] == 1
    assert header["written_by"]["corevec"] == corevec.__version__
    # Each array once, though several attributes share it.
    vectors = [a for a in arrays if np.array_equal(a, model.support_vectors_)]
    assert len(vectors) == 1


def test_a_file_is_replaced_in_one_step_or_not_at_all(tmp_path):
    model, _ = fitted_model(CLASSIFIER)
    path = tmp_path / "model.npz"
    save(model, path)
    before = path.read_bytes()
    broken = corevec.CoreVectorClassifier(kernel=lambda A, B: A @ B.T)
    with pytest.raises(InvalidInputError, match=r"model\.kernel"):
        save(broken, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    with pytest.raises(InvalidInputError, match="no folder"):
        save(model, tmp_path / "nowhere" / "a.npz")


def test_an_error_in_the_middle_of_writing_leaves_nothing_behind(tmp_path):
    model, _ = fitted_model(CLASSIFIER)
    model = pickle.loads(pickle.dumps(model))
    model.history_ = [{"note": "x" * (1 << 25)}]
    with pytest.raises(InvalidInputError, match="16,777,216"):
        save(model, tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (corevec.SVDD(kernel=np.dot), "model.kernel is a function, and a file without"),
        (corevec.SVDD(C=1 + 2j), "model.C is a builtins.complex, which the format"),
        (corevec.StructuralSVM(model=PCA()), "model.model is a sklearn.*PCA, which"),
        (make_pipeline(PCA(), corevec.SVDD()), r"steps\[0\]\[1\] is a sklearn.*PCA"),
        (PCA(), "a PCA was given. Models of corevec"),
        (corevec.SVDD, "a SVDD was given"),
        (corevec.Certificate("p", 1.0, 1.0, 0.0), "a Certificate was given"),
        (
            corevec.CoreVectorClassifier(
                method=methods.FewVectors(basis=sparse.csc_matrix(np.eye(2)))
            ),
            "model.method.basis is a sparse matrix in csc format",
        ),
        (
            corevec.CoreVectorClassifier(
                method=methods.FewVectors(basis=np.array(["2020-01-01"], dtype="M8[D]"))
            ),
            r"model.method.basis is an array of datetime64\[D\]",
        ),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_kept_is_refused_by_name(model, words, tmp_path):
    with pytest.raises(InvalidInputError, match=words):
        save(model, tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_strange_attributes_and_caches_are_refused_by_name(tmp_path):
    X, y = rows()
    model = corevec.CoreVectorClassifier().fit(X, y)
    model.note = "mine"
    with pytest.raises(InvalidInputError, match=r"model\.note"):
        save(model, tmp_path / "model.npz")
    model = corevec.CoreVectorClassifier().fit(X, y)
    model.classes_ = model.classes_[:1]
    with pytest.raises(InvalidInputError, match="at model: 1 classes"):
        save(model, tmp_path / "model.npz")
    pipe = make_pipeline(StandardScaler(), corevec.SVDD(), memory=str(tmp_path))
    with pytest.raises(InvalidInputError, match=r"pipe\.memory="):
        save(pipe, tmp_path / "model.npz")


@pytest.mark.parametrize("path", sorted(FILES.glob("*.npz")), ids=lambda p: p.stem)
def test_files_of_every_version_are_read(path):
    """`tests/files/make_files.py` wrote them; they are never written again."""
    wanted = json.loads(path.with_suffix(".json").read_text())
    model = load(path)
    X = np.array(wanted["rows"])
    for question, values in wanted["answers"].items():
        found = getattr(model, question)(X)
        if found.dtype.kind in "Uiu":
            assert found.tolist() == values
        else:
            # Another machine sums in another order.
            np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-12)
    one = model[-1] if hasattr(model, "steps") else model
    if hasattr(one, "ball_bound_"):
        # Version 1 called it a certificate: the two radii, squared. No file holds it.
        bound, said = one.ball_bound_, wanted["certificate"]
        assert bound.n_rows == said["n_rows"]
        assert bound.radius**2 == pytest.approx(said["primal"], rel=1e-9)
        assert bound.lower_radius**2 == pytest.approx(said["dual"], rel=1e-9)
        return
    certificate = asdict(one.certificate_)
    for name, value in wanted["certificate"].items():
        assert certificate[name] == pytest.approx(value, rel=1e-9), name


def test_there_is_a_file_of_version_one():
    assert len(list(FILES.glob("container_v1_*.npz"))) >= 4


@pytest.mark.parametrize("name", NAMES)
def test_skops_keeps_every_model_with_these_types_trusted(name):
    io = pytest.importorskip("skops.io")
    model, X = fitted_model(name)
    content = io.dumps(model)
    strange = set(io.get_untrusted_types(data=content)) - set(skops_trusted())
    assert strange == set()
    found = io.loads(content, trusted=skops_trusted())
    before, after = answers(model, X), answers(found, X)
    for question, value in before.items():
        assert equal(value, after[question]), question


def test_the_types_to_trust_are_classes_that_exist():
    import importlib

    for name in skops_trusted():
        module, _, qualified = name.rpartition(".")
        assert module.startswith(
            ("corevec", "scipy.sparse", "numpy", "sklearn.calibration")
        )
        assert isinstance(getattr(importlib.import_module(module), qualified), type)


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    pytest.importorskip("skops")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "files.md"
    snippets = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(snippets) == 4
    namespace = {"__name__": "files"}
    for code in snippets:
        exec(compile(code, "files.md", "exec"), namespace)
    assert (namespace["label"] == namespace["y"]).mean() > 0.9
    assert (namespace["theirs"].classes_ == [0, 1]).all()
