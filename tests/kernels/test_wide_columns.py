"""Columns that are spread widely, a time stamp beside ordinary ones: nothing cancels.

The truth is computed here in extended precision, from explicit differences.
"""

import numpy as np
import pytest
from scipy import sparse

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    certify,
    methods,
)

KERNELS = ("rbf", "laplacian", "inverse-distance")
C = 10.0


def exact_gram(X, Z, kernel, gamma):
    X, Z = X.astype(np.longdouble), Z.astype(np.longdouble)
    q = sum((X[:, None, c] - Z[None, :, c]) ** 2 for c in range(X.shape[1]))
    q = q * np.longdouble(gamma)
    if kernel == "rbf":
        return np.exp(-q)
    if kernel == "laplacian":
        return np.exp(-np.sqrt(q))
    return 1 / (1 + np.sqrt(q))


def rows_with_wide_column(spread, n_columns, offset=0.0, n=200):
    rng = np.random.default_rng(int(np.log10(spread)) + n_columns)
    X = rng.normal(size=(n, n_columns))
    # Sixty moments, around each of which rows are near to one another.
    moments = np.round(rng.random(n) * 60) * spread / 60
    X[:, 0] = moments + 0.3 * rng.normal(size=n) + offset
    y = np.where(X[:, 1] + X[:, 2] / 2 + rng.normal(size=n) / 2 > 0, 1, -1)
    return X, y


def true_values(model, X, y, kernel, gamma):
    """Return primal, dual and function values of a two-class machine."""
    S = model.support_vectors_
    S = S.toarray() if sparse.issparse(S) else S
    coef = model.dual_coef_.ravel().astype(np.longdouble)
    bias = np.longdouble(model.intercept_[0])
    f = exact_gram(X, S, kernel, gamma) @ coef + bias
    norm_sq = coef @ exact_gram(S, S, kernel, gamma) @ coef
    loss = (np.maximum(0, 1 - y * f) ** 2).sum()
    primal = (norm_sq + bias**2) / 2 + C / 2 * loss
    b = np.abs(coef)
    dual = b.sum() ** 2 / (2 * (norm_sq + coef.sum() ** 2 + (b**2).sum() / C))
    return float(primal), float(dual), f.astype(float)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("place", ["dense", "csr"])
@pytest.mark.parametrize("spread", [1e3, 1e7, 1e8, 1e12])
@pytest.mark.parametrize("n_columns", [8, 9, 40])
def test_the_certificate_holds_in_extended_precision(kernel, place, spread, n_columns):
    gamma = 1.0 / n_columns
    X, y = rows_with_wide_column(spread, n_columns)
    rows = sparse.csr_matrix(X) if place == "csr" else X
    given = {"C": C, "gamma": gamma, "kernel": kernel, "random_state": 0}
    model = CoreVectorClassifier(**given).fit(rows, y)
    primal, dual, f = true_values(model, X, y, kernel, gamma)
    found = model.certificate_
    assert found.converged
    assert found.primal >= primal * (1 - 1e-15)
    assert found.dual <= dual * (1 + 1e-15)
    np.testing.assert_allclose(model.decision_function(rows), f, atol=1e-9)
    again = certify(model, rows, y)
    assert again.primal >= primal * (1 - 1e-15)


@pytest.mark.parametrize("kernel", KERNELS)
def test_csr_rows_far_from_the_origin_are_certified_rightly(kernel):
    X, y = rows_with_wide_column(100.0, 9, offset=1.7e9)
    given = {"C": C, "gamma": 0.1, "kernel": kernel, "random_state": 0}
    model = CoreVectorClassifier(**given).fit(sparse.csr_matrix(X), y)
    primal, dual, _ = true_values(model, X, y, kernel, 0.1)
    assert model.certificate_.primal >= primal * (1 - 1e-15)
    assert model.certificate_.dual <= dual * (1 + 1e-15)
    assert model.certificate_.converged


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("spread", [1.0, 1e8])
@pytest.mark.parametrize("n_columns", [8, 9, 40])
def test_tensors_have_the_values_of_arrays(kernel, spread, n_columns):
    torch = pytest.importorskip("torch")
    X, y = rows_with_wide_column(spread, n_columns)
    given = {"C": C, "gamma": 0.1, "kernel": kernel, "random_state": 0}
    model = CoreVectorClassifier(**given).fit(torch.as_tensor(X), torch.as_tensor(y))
    values = np.asarray(model.decision_function(torch.as_tensor(X)))
    exact = exact_gram(X, np.asarray(model.support_vectors_), kernel, 0.1)
    coef = np.asarray(model.dual_coef_).ravel()
    f = exact @ coef + np.asarray(model.intercept_)[0]
    np.testing.assert_allclose(values, f.astype(float), atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_other_machines_have_exact_values(kernel):
    X, _ = rows_with_wide_column(1e8, 9)
    given = {"gamma": 0.1, "kernel": kernel}
    target = np.sin(X[:, 1])
    models = [
        CoreVectorOneClass(C=1.0, **given).fit(X),
        CoreVectorRegressor(C=1.0, tube=0.1, random_state=0, **given).fit(X, target),
        SVDD(C=1.0, **given).fit(X),
    ]
    for model in models:
        functions = model._functions
        found = functions.kernel.times(
            functions.kernel.prepare(functions.basis),
            functions.prepared(),
            functions.coef,
        )
        own = exact_gram(functions.basis.values, functions.basis.values, kernel, 0.1)
        np.testing.assert_allclose(
            found, (own @ functions.coef).astype(float), atol=1e-9
        )
        assert model.certificate_.converged


def test_cells_predict_wide_columns_as_the_kernel_has_them():
    X, y = rows_with_wide_column(1e7, 12, n=600)
    model = CoreVectorClassifier(
        gamma=0.1, C=C, random_state=0, method=methods.Cells(100)
    ).fit(X, y)
    cells = model._forest.trees[0]
    which = cells.tree.cells_of(X)
    f = np.empty(len(X))
    for i, cell in enumerate(which):
        few = slice(cells.starts[cell], cells.starts[cell + 1])
        own = exact_gram(X[i : i + 1], cells.basis.values[few], "rbf", 0.1)
        f[i] = float(own[0] @ cells.coef[few, 0]) + cells.intercepts[cell, 0]
    np.testing.assert_allclose(model.decision_function(X), f, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_graph_of_a_model_keeps_wide_columns(kernel):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from corevec.formats import to_onnx

    X, y = rows_with_wide_column(1e7, 9)
    given = {"C": C, "gamma": 0.1, "kernel": kernel, "random_state": 0}
    model = CoreVectorClassifier(**given).fit(X, y)
    graph = to_onnx(model, dtype="float64").SerializeToString()
    session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {session.get_inputs()[0].name: X})
    scores = np.asarray(outputs[-1]).reshape(len(X), -1)[:, -1]
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-6)


def test_a_gap_includes_what_rounding_allows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * 1e3
    y = np.where(X[:, 0] > 0, 1, -1)
    found = CoreVectorClassifier(kernel="poly", degree=5, C=1e-3).fit(X, y).certificate_
    assert 0 < found.rounding <= found.relative_gap
