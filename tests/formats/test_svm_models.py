"""What is made of a model of `corevec.svm`: files, graphs, certificates, pictures."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

from corevec import certify, compress
from corevec.exceptions import InvalidInputError
from corevec.formats import load, load_libsvm, save, save_libsvm
from corevec.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

X, Y = load_iris(return_X_y=True)
TWO = Y != 0
MODELS = [
    SVC().fit(X, Y),
    SVC(kernel="linear", class_weight="balanced").fit(X[TWO], Y[TWO]),
    SVC(kernel="poly", coef0=1.0, C=3.0).fit(sparse.csr_matrix(X), Y),
    NuSVC(nu=0.3).fit(X, Y),
    SVR().fit(X, Y),
    NuSVR(nu=0.3).fit(X, Y),
    OneClassSVM(nu=0.2).fit(X),
    SVC(kernel="precomputed").fit(X @ X.T, Y),
]
EACH = pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model))


def rows_for(model):
    """Return rows that a model predicts."""
    return X @ X.T if model.kernel == "precomputed" else X


def values(model, rows):
    return getattr(model, "decision_function", model.predict)(rows)


@EACH
def test_a_file_and_a_pickle_give_the_same_values_back(model, tmp_path):
    rows = rows_for(model)
    save(model, tmp_path / "model.npz")
    for again in (load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        assert type(again) is type(model)
        assert (values(again, rows) == values(model, rows)).all()
        assert str(again.certificate_) == str(model.certificate_)
        assert again.get_params() == model.get_params()


@EACH
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_intercept_", np.zeros(7)),
        ("_dual_coef_", np.zeros((9, 2))),
        ("_n_support", np.zeros(3, dtype=np.int64)),
        ("support_", np.zeros((2, 2))),
        ("_kernel", None),
    ],
)
def test_a_model_that_was_altered_is_not_written(model, name, value, tmp_path):
    altered = copy.copy(model)
    setattr(altered, name, value)
    with pytest.raises(InvalidInputError):
        save(altered, tmp_path / "model.npz")


@pytest.mark.parametrize("model", MODELS[:-1], ids=lambda model: str(model))
def test_libsvm_predicts_what_the_model_predicts(model, tmp_path):
    save_libsvm(model, tmp_path / "model.txt")
    again = load_libsvm(tmp_path / "model.txt", n_features=X.shape[1])
    assert again.predict(X) == pytest.approx(model.predict(X), abs=1e-9)


@EACH
def test_certify_repeats_the_certificate_by_other_means(model):
    known = np.isin(Y, getattr(model, "classes_", Y))
    rows, y = rows_for(model)[known], Y[known]
    found, own = certify(model, rows, y), model.certificate_
    assert found.converged
    assert found.primal == pytest.approx(own.primal, rel=1e-9)
    # A fit that ended by LIBSVM's rule, a small violation, may leave a gap, on which
    # `certify` goes on.
    assert own.dual <= found.dual + 1e-9 * abs(own.dual)
    assert found.dual <= own.primal
    if own.relative_gap <= own.tol:
        assert found.dual == pytest.approx(own.dual, rel=1e-9)


@pytest.mark.parametrize("model", MODELS[:-1], ids=lambda model: str(model))
def test_a_compressed_model_is_near_its_values(model):
    small = compress(model, 30, random_state=0)
    same = np.abs(small.predict(X) - model.predict(X)) < 0.05
    assert same.mean() > 0.97


@pytest.mark.parametrize("model", MODELS[:-1], ids=lambda model: str(model))
def test_onnx_predicts_what_the_model_predicts(model):
    runtime = pytest.importorskip("onnxruntime")
    from corevec.formats import to_onnx

    graph = to_onnx(model)
    session = runtime.InferenceSession(graph.SerializeToString())
    name = session.get_inputs()[0]
    dtype = np.float64 if "double" in name.type else np.float32
    found = np.ravel(session.run(None, {name.name: X.astype(dtype)})[0])
    wanted = model.predict(X)
    clear = np.ones(len(X), dtype=bool)
    if model.__class__ is OneClassSVM:
        clear = np.abs(model.decision_function(X)) > 1e-3
    assert found[clear] == pytest.approx(wanted[clear], abs=1e-4)


def test_plots_draw_them():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    from corevec import plots

    drawn = SVC().fit(X[:, :2], Y)
    plots.DecisionMapDisplay.from_estimator(drawn, X[:, :2], Y)
    plots.ModelSizeDisplay.from_estimator(drawn, X[:, :2], Y)
    plots.CoreVectorsDisplay.from_estimator(drawn, X[:, :2], Y)
    shown = plots.CertificateDisplay.from_estimator(drawn)
    labels = [label.get_text() for label in shown.ax_.get_yticklabels()]
    assert labels == ["0 against 1", "0 against 2", "1 against 2"]
    outliers = OneClassSVM(nu=0.2).fit(X[:, :2])
    plots.OneClassMapDisplay.from_estimator(outliers, X[:, :2])
    pyplot.close("all")
