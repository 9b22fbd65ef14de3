"""ONNX graphs: their form, their metadata, and what is refused with which words."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

import corevec
from corevec import (
    SVDD,
    CoreSetNystroem,
    CoreVectorClassifier,
    CoreVectorRegressor,
    InvalidInputError,
    StreamingBallClassifier,
    StructuralSVM,
    methods,
)
from corevec.formats import (
    labels_of,
    load_libsvm,
    save_libsvm,
    save_onnx,
    to_onnx,
)

onnx = pytest.importorskip("onnx", reason="onnx is not installed: corevec[onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="corevec[onnx] has it")

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.where(X[:, 0] * X[:, 1] > 0, 1, 0)
WORDS = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]


def run(proto, rows, dtype="float64"):
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    found = session.run(names, {"X": np.asarray(rows, dtype=dtype)})
    return dict(zip(names, found, strict=True))


def all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g)


# The graph ------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "normalized-poly", "linear"])
@pytest.mark.parametrize("d", [3, 12])
def test_operators_are_standard_and_no_array_is_of_rows_by_vectors_by_columns(
    kernel, d
):
    rows = np.random.default_rng(0).normal(size=(60, d))
    model = CoreVectorClassifier(kernel=kernel, coef0=1.0).fit(rows, Y)
    proto = to_onnx(model)
    assert [(opset.domain, opset.version) for opset in proto.opset_import] == [("", 26)]
    assert {node.domain for node in all_nodes(proto.graph)} == {""}
    inferred = onnx.shape_inference.infer_shapes(
        proto, strict_mode=True, data_prop=True
    )
    made = {value.name: value for value in inferred.graph.value_info}
    assert {name for node in proto.graph.node for name in node.output} <= {
        *made,
        "label",
        "decision",
    }
    assert max(len(value.type.tensor_type.shape.dim) for value in made.values()) == 2


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_a_batch_has_any_number_of_rows(n, kernel):
    model = CoreVectorClassifier(kernel=kernel).fit(X, WORDS)
    proto = to_onnx(model, "float64")
    (given,) = proto.graph.input
    assert given.name == "X"
    assert [
        dim.dim_param or dim.dim_value for dim in given.type.tensor_type.shape.dim
    ] == [
        "n_rows",
        3,
    ]
    found = run(proto, X[:n])
    assert found["decision"].shape == (n, 3)
    np.testing.assert_array_equal(found["label"], model.predict(X)[:n])


@pytest.mark.parametrize("opset", [18, 21, 26])
def test_older_operator_sets_give_the_same_numbers(opset):
    model = CoreVectorClassifier(kernel="laplacian").fit(X, WORDS)
    proto = to_onnx(model, "float64", opset=opset)
    assert proto.opset_import[0].version == opset
    expected = run(to_onnx(model, "float64"), X)
    np.testing.assert_array_equal(run(proto, X)["decision"], expected["decision"])


def test_metadata_say_what_the_model_is_and_how_good():
    model = CoreVectorClassifier(gamma=0.25).fit(X, Y)
    proto = to_onnx(model, "float64")
    notes = {entry.key: entry.value for entry in proto.metadata_props}
    found = model.certificate_
    assert notes == {
        "corevec.version": corevec.__version__,
        "corevec.estimator": "CoreVectorClassifier",
        "corevec.precision": "float64",
        "corevec.kernel": "rbf(gamma=0.25)",
        "corevec.certificate.problem": found.problem,
        "corevec.certificate.primal": repr(float(found.primal)),
        "corevec.certificate.dual": repr(float(found.dual)),
        "corevec.certificate.relative_gap": repr(float(found.relative_gap)),
        "corevec.certificate.converged": "True",
    }
    assert (proto.producer_name, proto.producer_version) == (
        "corevec",
        corevec.__version__,
    )


def test_metadata_of_a_pipeline_name_its_steps_and_columns():
    table = pd.DataFrame(X, columns=["height", "width", "depth"])
    pipe = make_pipeline(StandardScaler(), CoreVectorClassifier()).fit(table, Y)
    notes = {entry.key: entry.value for entry in to_onnx(pipe).metadata_props}
    assert notes["corevec.steps"] == '["StandardScaler"]'
    assert notes["corevec.feature_names"] == '["height", "width", "depth"]'


def test_a_saved_file_is_the_graph(tmp_path):
    model = SVDD().fit(X)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"something else, and longer" * 10_000)
    save_onnx(model, path, dtype="float64")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    label, decision = session.run(["label", "decision"], {"X": X})
    np.testing.assert_allclose(decision, model.decision_function(X), atol=1e-12)
    np.testing.assert_array_equal(label, model.predict(X))


# Labels ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([-3, 40], np.int64),
        ([-1.0, 1.0], np.int64),
        ([False, True], np.int64),
        (["no", "yes"], object),
        (np.array(["no", "yes"], dtype=object), object),
    ],
    ids=["int", "float", "bool", "str", "object"],
)
def test_labels_are_whole_numbers_or_strings(labels, expected):
    y = np.asarray(labels)[Y]
    model = CoreVectorClassifier().fit(X, y)
    found = run(to_onnx(model, "float64"), X)["label"]
    assert found.dtype == expected
    np.testing.assert_array_equal(found, model.predict(X))


def test_the_first_of_equal_classes_wins_as_in_predict():
    model = StreamingBallClassifier(fit_intercept=False).fit(X, WORDS)
    zero = np.zeros((1, 3))  # every class has the value 0 there
    found = run(to_onnx(model, "float64"), zero)
    assert not found["decision"].any()
    assert found["label"] == model.predict(zero) == ["a"]
    two = StreamingBallClassifier(fit_intercept=False).fit(X, Y)
    assert run(to_onnx(two, "float64"), zero)["label"] == two.predict(zero) == [0]


@pytest.mark.parametrize(
    "labels", [[0.5, 1.5], [2**63, 1], [(1,), (2,)]], ids=["half", "huge", "tuples"]
)
def test_other_labels_are_refused(labels):
    classes = np.empty(2, dtype=object)
    classes[:] = labels
    with pytest.raises(InvalidInputError, match="numbers nor strings"):
        labels_of(classes)


# Rows that are special ------------------------------------------------------------


def test_sparse_training_gives_the_graph_of_the_dense_rows():
    rows = sparse.random_array((80, 40), density=0.1, format="csr", rng=0)
    y = np.where(rows[:, [0]].toarray()[:, 0] > 0, 1, -1)
    for kernel in ("rbf", "laplacian", "linear", "poly"):
        pipe = make_pipeline(MaxAbsScaler(), CoreVectorClassifier(kernel=kernel))
        pipe.fit(rows, y)
        found = run(to_onnx(pipe, "float64"), rows.toarray())["decision"]
        np.testing.assert_allclose(found, pipe.decision_function(rows), atol=1e-9)


def test_vectors_beyond_a_gigabyte_are_refused_and_a_linear_model_needs_none():
    wide = sparse.random_array((200, 2_000_000), density=1e-5, format="csr", rng=0)
    y = np.arange(200) % 2
    model = CoreVectorClassifier(C=0.1, gamma=1.0).fit(wide, y)
    with pytest.raises(InvalidInputError, match=r"200 vectors of 2,000,000 columns"):
        to_onnx(model)
    linear = CoreVectorClassifier(C=0.1, kernel="linear").fit(wide, y)
    some = wide[:2].toarray()
    found = run(to_onnx(linear, "float64"), some)["decision"]
    np.testing.assert_allclose(found, linear.decision_function(some), rtol=1e-9)


def test_a_constant_function_has_no_vectors():
    model = CoreVectorRegressor().fit(X, np.full(60, 2.5))
    np.testing.assert_array_equal(run(to_onnx(model), X, "float32")["value"], 2.5)


def test_a_zero_row_has_no_direction():
    model = SVDD(kernel="normalized-linear").fit(X)
    rows = np.concatenate([X[:5], np.zeros((1, 3))])
    found = run(to_onnx(model, "float64"), rows)["decision"]
    np.testing.assert_allclose(found, model.decision_function(rows), atol=1e-12)


def test_normalised_powers_stay_in_range_in_float32():
    rows = np.float64(np.float32(1e6 * X))
    shape = {"kernel": "normalized-poly", "gamma": 1.0, "degree": 4, "coef0": 1.0}
    model = CoreVectorClassifier(**shape).fit(rows, Y)  # 1e12**4 is beyond 3e38
    found = run(to_onnx(model), rows, "float32")["decision"]
    sizes = np.abs(model.dual_coef_).sum() + abs(model.intercept_[0])
    # As `onnx_rounding.power`: 4 times the base's error, of 3 columns and 60 terms.
    assert np.abs(found - model.decision_function(rows)).max() <= 6e-8 * 120 * sizes


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "normalized-poly"])
@pytest.mark.parametrize("d", [3, 12])
def test_a_missing_value_gives_nan_and_leaves_the_other_rows_alone(kernel, d):
    rows = np.random.default_rng(0).normal(size=(60, d))
    model = CoreVectorClassifier(kernel=kernel, coef0=1.0).fit(rows, Y)
    broken = rows.copy()
    broken[1, 2] = np.nan
    for dtype in ("float32", "float64"):
        found = run(to_onnx(model, dtype), broken, dtype)["decision"]
        whole = run(to_onnx(model, dtype), rows, dtype)["decision"]
        assert np.flatnonzero(np.isnan(found)).tolist() == [1]
        np.testing.assert_array_equal(np.delete(found, 1), np.delete(whole, 1))


def test_numbers_beyond_float32_ask_for_float64():
    rows = 1e60 * X
    model = CoreVectorClassifier(gamma="scale").fit(rows, Y)
    with pytest.raises(InvalidInputError, match=r"range .* dtype='float64'"):
        to_onnx(model)
    found = run(to_onnx(model, "float64"), rows)["decision"]
    np.testing.assert_allclose(found, model.decision_function(rows), rtol=1e-9)


def test_tiny_numbers_ask_for_float64():
    model = CoreVectorClassifier(gamma=1e-100, kernel="rbf").fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"sqrt\(gamma\) .* dtype='float64'"):
        to_onnx(model)


# Files of LIBSVM ------------------------------------------------------------------


@pytest.mark.parametrize(
    "machine",
    [SVC(gamma=0.3), NuSVC(kernel="linear"), SVR(kernel="poly"), OneClassSVM(gamma=1)],
    ids=["SVC", "NuSVC", "SVR", "OneClassSVM"],
)
@pytest.mark.parametrize("n_classes", [2, 5])
def test_a_model_of_libsvm_becomes_a_graph(machine, n_classes, tmp_path):
    y = np.arange(60) % n_classes  # noise: many votes tie
    save_libsvm(machine.fit(X, y), tmp_path / "its.model")
    model = load_libsvm(tmp_path / "its.model", n_features=4)
    rows = np.pad(np.random.default_rng(1).normal(size=(200, 3)), ((0, 0), (0, 1)))
    found = run(to_onnx(model, "float64"), rows)
    if "label" in found:
        np.testing.assert_array_equal(found["label"], model.predict(rows))
        expected = model.decision_function(rows)
        np.testing.assert_allclose(found["decision"], expected, atol=1e-9)
    else:
        np.testing.assert_allclose(found["value"], model.predict(rows), atol=1e-9)


def test_votes_that_tie_go_to_the_first_label_of_a_libsvm_file(tmp_path):
    """Three machines that are constants, each class with one vote."""
    lines = [
        "svm_type c_svc",
        "kernel_type linear",
        "nr_class 3",
        "total_sv 3",
        "rho -1 1 -1",
        "label 8 2 5",
        "nr_sv 1 1 1",
        "SV",
        "0 0 1:1",
        "0 0 1:1",
        "0 0 1:1",
    ]
    path = tmp_path / "tie.model"
    path.write_text("\n".join(lines) + "\n")
    model = load_libsvm(path, n_features=3)
    found = run(to_onnx(model, "float64"), X[:1])
    assert found["label"] == model.predict(X[:1]) == [8]


# What is refused ------------------------------------------------------------------


def dot(A, B):
    return A @ B.T


class Own:
    """A structured output: the sign."""

    def joint_feature(self, x, y):
        return y * x

    def loss(self, y_true, y):
        return float(y_true != y)

    def argmax(self, x, y_true, w):
        def worth(y):
            return (0.0 if y_true is None else self.loss(y_true, y)) + y * (w @ x)

        return max((-1, 1), key=worth)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: CoreVectorClassifier(kernel="precomputed").fit(X @ X.T, Y),
         "kernel='precomputed' cannot be exported"),
        (lambda: CoreVectorClassifier(kernel=dot).fit(X, Y),
         "kernel='callable' cannot be exported"),
        (lambda: SVC().fit(X, Y), "a SVC was given; give a fitted corevec model"),
        (lambda: CoreVectorClassifier, "a CoreVectorClassifier was given"),
        (lambda: GridSearchCV(CoreVectorClassifier(), {"C": [1.0]}).fit(X, Y),
         "a GridSearchCV was given.*best_estimator_"),
        (lambda: make_pipeline(PCA(2), CoreVectorClassifier()).fit(X, Y),
         "has a PCA before its last step"),
        (lambda: make_pipeline(StandardScaler(), SVC()).fit(X, Y), "a SVC was given"),
        (lambda: make_pipeline("passthrough"), "the Pipeline has no steps"),
        (lambda: StructuralSVM(model=Own()).fit(X, 2 * Y - 1),
         "only model='multiclass' can"),
    ],
    ids=["precomputed", "callable", "SVC", "class", "search", "PCA", "SVC in pipe",
         "empty", "structure"],
)  # fmt: skip
def test_what_cannot_be_exported_is_said(model, words):
    with pytest.raises(InvalidInputError, match=words):
        to_onnx(model())


@pytest.mark.parametrize(
    "model",
    [
        CoreVectorClassifier(),
        CoreSetNystroem(),
        make_pipeline(StandardScaler(), CoreVectorClassifier()),
    ],
    ids=["classifier", "features", "pipeline"],
)
def test_an_unfitted_model_is_refused(model):
    with pytest.raises(NotFittedError, match=r"to_onnx: this .* is not fitted"):
        to_onnx(model)


@pytest.mark.parametrize("dtype", ["float16", "double precision", None, 32])
def test_other_precisions_are_refused(dtype):
    model = SVDD().fit(X)
    with pytest.raises(InvalidInputError, match="must be 'float32' or 'float64'"):
        to_onnx(model, dtype)
    assert to_onnx(model, np.float64).graph.input[0].type.tensor_type.elem_type == 11


@pytest.mark.parametrize("opset", [17, 27, "26", None])
def test_other_operator_sets_are_refused(opset):
    with pytest.raises(InvalidInputError, match="whole number from 18 to 26"):
        to_onnx(SVDD().fit(X), opset=opset)


def test_without_onnx_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "corevec\[onnx\]"'):
        to_onnx(SVDD().fit(X))


def test_features_and_a_machine_on_them_are_one_graph():
    features = CoreSetNystroem(20, random_state=0, kernel="laplacian")
    pipe = make_pipeline(StandardScaler(), features, CoreVectorClassifier(kernel="rbf"))
    pipe.fit(X, WORDS)
    found = run(to_onnx(pipe, "float64"), X)
    np.testing.assert_allclose(found["decision"], pipe.decision_function(X), rtol=1e-9)
    np.testing.assert_array_equal(found["label"], pipe.predict(X))


def test_float32_warns_where_coefficients_cancel():
    X = np.linspace(0, 1, 60)[:, None]
    y = np.sin(9 * X[:, 0])
    # A flat kernel interpolates by large coefficients of both signs.
    model = CoreVectorRegressor(
        C=1e8, gamma=0.3, tube=0.0, method=methods.FewVectors(60, basis=X)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    with pytest.warns(UserWarning, match="float32 .*float64"):
        to_onnx(model)
    to_onnx(model, "float64")
