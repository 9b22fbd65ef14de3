"""ONNX graphs against the models they were made from, run by onnxruntime.

A float32 graph must stay within what rounding may change (`onnx_rounding`), a float64
graph within 1e-9 of the largest value.
"""

import warnings
from functools import cache

import naive
import numpy as np
import pytest
from onnx_rounding import rounding
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import corevec
from corevec import (
    SVDD,
    CoreSetNystroem,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRanker,
    CoreVectorRegressor,
    StreamingBallClassifier,
    StreamingBallOneClass,
    StructuralSVM,
    compress,
    methods,
    reference,
)
from corevec.formats import to_onnx

onnx = pytest.importorskip("onnx", reason="onnx is not installed: corevec[onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="corevec[onnx] has it")

DOT = {"gamma": 0.3, "degree": 3, "coef0": 1.0}
SIGMOID = {"gamma": 0.02, "coef0": 0.5}
KERNELS = {
    prefix + name: {"kernel": prefix + name, **shape}
    for prefix in ("", "normalized-")
    for name, shape in {
        "rbf": {"gamma": 0.3},
        "laplacian": {"gamma": 0.3},
        "inverse-distance": {"gamma": 0.3},
        "linear": {},
        "poly": DOT,
        "sigmoid": SIGMOID,
    }.items()
}


# Models ---------------------------------------------------------------------------


def words(X):
    return np.array(["left", "middle", "right"])[np.digitize(X[:, 0], [-0.5, 0.5])]


def two(X):
    return np.where(X[:, 0] * X[:, 1] > 0, 7, -3)


def targets(X):
    return np.stack([X[:, 0] ** 2, 100 + 30 * X[:, 1]], axis=1)


def ranker(X, k):
    return CoreVectorRanker(**k).fit(X, np.round(X[:, 0]), group=[len(X) // 2] * 2)


def machine(name):
    return lambda X, k: getattr(reference, name)(**k).fit(X, two(X))


KINDS = {  # every kernel
    "two classes": lambda X, k: CoreVectorClassifier(C=3, **k).fit(X, two(X)),
    "one-vs-rest": lambda X, k: CoreVectorClassifier(**k).fit(X, words(X)),
    "one-vs-one": lambda X, k: CoreVectorClassifier(multi_class="ovo", **k).fit(
        X, words(X)
    ),
    "regressor": lambda X, k: CoreVectorRegressor(**k).fit(X, targets(X)[:, 1]),
    "one-class": lambda X, k: CoreVectorOneClass(C=1, **k).fit(X),
    "ball": lambda X, k: SVDD(C=1, **k).fit(X),
    "stream": lambda X, k: StreamingBallClassifier(**k).fit(X, words(X)),
    "stream ball": lambda X, k: StreamingBallOneClass(random_state=0, **k).fit(X),
}
MORE_KINDS = {  # "rbf" and "poly", which stand for the two families
    "two targets": lambda X, k: CoreVectorRegressor(**k).fit(X, targets(X)),
    "ranker": ranker,
    "subspace": lambda X, k: CoreVectorClassifier(
        method=methods.FewVectors(30, basis="train"), **k
    ).fit(X, words(X)),
    "hinge": lambda X, k: CoreVectorClassifier(
        loss="hinge", method=methods.FewVectors(30, basis="train"), **k
    ).fit(X, two(X)),
    "subspace regressor": lambda X, k: CoreVectorRegressor(
        tube=0.0, method=methods.FewVectors(30), **k
    ).fit(X, X[:, 0] ** 2),
    "features": lambda X, k: CoreSetNystroem(20, "uniform", random_state=0, **k).fit(X),
    "few vectors": lambda X, k: compress(KINDS["one-vs-rest"](X, k), 12),
    "small ball": lambda X, k: compress(KINDS["ball"](X, k), 12),
    "few of SVC": lambda X, k: compress(SVC(**k).fit(X, words(X)), 12),
    "pairs of SVC": lambda X, k: compress(
        SVC(decision_function_shape="ovo", **k).fit(X, words(X)), 12
    ),
    "few of SVR": lambda X, k: compress(SVR(**k).fit(X, X[:, 0]), 12),
    "few of OneClassSVM": lambda X, k: compress(OneClassSVM(**k).fit(X), 12),
    "SMO": machine("SMO"),
    "SimpleSVM": machine("SimpleSVM"),
    "LASVM": machine("LASVM"),
    "Pegasos": machine("Pegasos"),
}
LINEAR_KINDS = {
    "structural": lambda X, k: StructuralSVM(C=0.01).fit(X, words(X)),
    "two structural": lambda X, k: StructuralSVM(C=0.01).fit(X, two(X)),
    "linear Pegasos": machine("Pegasos"),
    "ball vectors": lambda X, k: reference.BallVectorMachine(
        kernel="normalized-linear"
    ).fit(X, two(X)),
}
CASES = [(kind, kernel) for kind in KINDS for kernel in KERNELS]
CASES += [(kind, kernel) for kind in MORE_KINDS for kernel in ("rbf", "poly")]
CASES += [(kind, "linear") for kind in LINEAR_KINDS]


def columns(kind, kernel):
    """Return the widths to try: the kernel's part of a graph is the same in all kinds.

    Above 8 columns the distances of "rbf" are matrix products, which is one more way.
    """
    return (3, 12) if kind == "two classes" or kernel == "rbf" else (3,)


def rows(n, d, seed):
    """Return rows that float32 holds exactly: data are given, not rounded."""
    X = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    return X.astype(np.float64)


@cache
def fitted(kind, kernel, d):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", corevec.NotCertifiedWarning)
        make = {**KINDS, **MORE_KINDS, **LINEAR_KINDS}[kind]
        return make(rows(120, d, 0), KERNELS[kernel])


def run(proto, X, dtype):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    found = session.run(names, {"X": np.asarray(X, dtype=dtype)})
    return dict(zip(names, found, strict=True))


# Comparing ------------------------------------------------------------------------


def values_of(model, X):
    """Return what the model's own methods say, one row per row."""
    for method in ("decision_function", "transform", "predict"):
        if hasattr(model, method):
            return np.asarray(getattr(model, method)(X))


def only_value(found):
    (name,) = set(found) - {"label"}
    return found[name]


def compare(kind, kernel, d, dtype):
    """Return the largest difference, as such and in units of what is allowed."""
    model, X = fitted(kind, kernel, d), rows(150, d, 1)
    found, expected = run(to_onnx(model, dtype), X, dtype), values_of(model, X)
    got = only_value(found)
    assert got.dtype == dtype
    assert got.shape == expected.shape
    bound = rounding(model, X, 2.0**-24).reshape(len(X), -1)
    if dtype == "float64":
        bound = np.full_like(bound, 1e-9 * np.abs(expected).max())
    off = np.abs(got - expected).reshape(len(X), -1)
    if "label" in found:
        compare_labels(model, X, found["label"], bound)
    return float(off.max()), float((off / bound).max())


def compare_labels(model, X, labels, bound):
    values = values_of(model, X)
    margin = np.abs(values)
    if values.ndim == 2 and values.shape[1] == len(model.classes_):
        ordered = np.sort(values, axis=1)
        margin = (ordered[:, -1] - ordered[:, -2]) / 2
    elif values.ndim == 2:
        margin = margin.min(axis=1)
    clear = margin > bound.max(axis=1)
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(labels[clear], model.predict(X)[clear])


# What is said of cancelling coefficients is in the bound already.
CANCELS = pytest.mark.filterwarnings("ignore:to_onnx. coefficients of up to")


@CANCELS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _ in CASES))
def test_a_graph_computes_what_the_model_computes(kind, dtype):
    """Run with -s to read the largest difference of a kind, over all its kernels."""
    cases = [
        (kernel, d) for of, kernel in CASES if of == kind for d in columns(kind, kernel)
    ]
    found = np.array([compare(kind, *case, dtype) for case in cases])
    outside = [case for case, (_, share) in zip(cases, found, strict=True) if share > 1]
    assert not outside
    off, share = found.max(axis=0)
    print(f"\n{kind:20s} {dtype}  {off:8.1e}  {share:8.1e} of the bound")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [3, 12])
def test_a_double_graph_is_the_formula_itself(kernel, d):
    """The slow twin says what the kernel is; rows of the model are among those asked.

    With explicit differences a distance of zero is zero: matrix products would leave
    1e-8 of it, whose kernel value is off by as much.
    """
    model = fitted("two classes", kernel, d)
    X = rows(120, d, 0)
    K = naive.gram(X, model.support_vectors_, **KERNELS[kernel])
    expected = K @ model.dual_coef_[0] + model.intercept_[0]
    sizes = np.abs(K) @ np.abs(model.dual_coef_[0]) + abs(model.intercept_[0])
    found = run(to_onnx(model, "float64"), X, "float64")["decision"]
    assert (np.abs(found - expected) <= 1e-13 * sizes).all()


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "inverse-distance"])
@pytest.mark.parametrize("d", [3, 12])
def test_float32_keeps_its_digits_far_from_the_origin(kernel, d):
    X = np.float64(np.float32(rows(120, d, 0) + 3000))
    model = CoreVectorClassifier(**KERNELS[kernel]).fit(X, two(X - 3000))
    # The model's own rows: the distance of each from itself is zero.
    bound = rounding(model, X, 2.0**-24)[:, 0]
    found = run(to_onnx(model), X, "float32")["decision"]
    expected = model.decision_function(X)
    if kernel != "rbf":  # whose square root of rounding is ours, not the graph's
        K = naive.gram(X, model.support_vectors_, **KERNELS[kernel])
        expected = K @ model.dual_coef_[0] + model.intercept_[0]
    assert bound.max() < 1e-2
    assert (np.abs(found - expected) <= bound).all()


def test_a_linear_ball_keeps_its_digits_far_from_the_origin():
    X = np.float64(np.float32(rows(120, 5, 0) + 3000))
    for model in (SVDD(kernel="linear"), StreamingBallOneClass(kernel="linear")):
        model.fit(X)
        found = run(to_onnx(model), X, "float32")["decision"]
        bound = rounding(model, X, 2.0**-24)[:, 0]
        # The ball's own |c|^2, near 5e7, has an error of 1e-8 in float64 too.
        assert (np.abs(found - model.decision_function(X)) <= bound + 1e-6).all()
        assert bound.max() < 1e-4


SCALERS = {
    "standard": StandardScaler(),
    "mean only": StandardScaler(with_std=False),
    "deviation only": StandardScaler(with_mean=False),
    "0 to 1": MinMaxScaler(),
    "-2 to 3, clipped": MinMaxScaler((-2, 3), clip=True),
    "largest": MaxAbsScaler(),
}


@pytest.mark.parametrize("scaler", SCALERS)
def test_a_pipeline_scales_first(scaler):
    far = 0.0 if scaler in ("deviation only", "largest") else 1e5
    X = np.float64(np.float32(rows(120, 4, 0) * [1, 10, 0.1, 1] + far))
    new = np.float64(np.float32(2 * rows(80, 4, 1) * [1, 10, 0.1, 1] + far))
    pipe = make_pipeline(
        SCALERS[scaler], "passthrough", CoreVectorClassifier(gamma=0.3)
    )
    pipe.fit(X, two(rows(120, 4, 0)))
    for dtype, u in (("float32", 2.0**-24), ("float64", 2.0**-53)):
        found = run(to_onnx(pipe, dtype), new, dtype)
        expected = pipe.decision_function(new)
        scaled = pipe[:-1].transform(new)
        bound = rounding(pipe[-1], scaled, u)[:, 0]
        # The scaled rows err by 4 u of their sizes, and k changes by less than
        # sqrt(gamma) times that.
        sizes = 4 * u * (3 + np.linalg.norm(scaled, axis=1)) * np.sqrt(0.3)
        bound += sizes * np.abs(pipe[-1].dual_coef_).sum()
        if dtype == "float64":
            bound = 1e-9 * np.abs(expected).max()
        assert (np.abs(found["decision"] - expected) <= bound).all()
        clear = np.abs(expected) > bound
        assert (found["label"] == pipe.predict(new))[clear].all()
