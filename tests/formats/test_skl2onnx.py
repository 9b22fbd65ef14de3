"""skl2onnx converts pipelines with our estimators; onnxruntime agrees with them."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import corevec
from corevec import reference, svm
from corevec.formats import register_skl2onnx

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="corevec[onnx] has it")

X = np.random.default_rng(0).normal(size=(80, 3))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
WORDS = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
MODELS = [
    (corevec.CoreVectorClassifier(), WORDS),
    (corevec.CoreVectorOneClass(nu=0.2), None),
    (corevec.StructuralSVM(), WORDS),
    (reference.SMO(), Y),
    (svm.NuSVC(nu=0.3), Y),
    (make_pipeline(StandardScaler(), PCA(2), corevec.CoreVectorClassifier()), WORDS),
    (make_pipeline(PolynomialFeatures(2), svm.SVR()), X[:, 0]),
    (make_pipeline(corevec.CoreSetNystroem(5), LogisticRegression()), Y),
]


@pytest.mark.parametrize(("model", "y"), MODELS, ids=lambda one: type(one).__name__)
def test_what_skl2onnx_converts_predicts_as_the_model(model, y):
    register_skl2onnx()
    model = model.fit(X) if y is None else model.fit(X, y)
    rows = X.astype(np.float32)
    proto = skl2onnx.to_onnx(model, rows[:1], target_opset=21)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {session.get_inputs()[0].name: rows})[0]
    expected = model.predict(X)
    if expected.dtype.kind == "f":
        assert np.abs(np.ravel(found) - expected).max() < 1e-5
    else:  # a row at the edge may change its label in float32
        assert np.mean(np.ravel(found) == expected) >= 79 / 80


def test_doubles_stay_doubles():
    register_skl2onnx()
    model = corevec.CoreVectorRegressor().fit(X, X[:, 0])
    proto = skl2onnx.to_onnx(model, X[:1], target_opset=21)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {session.get_inputs()[0].name: X})
    assert np.abs(found.ravel() - model.predict(X)).max() < 1e-12
